/* SPDX-License-Identifier: Apache-2.0 */
/* What an NVMe controller says about itself, for people and for scripts. Host only. */
#ifndef G4_CLI_NVME_SHOW_H
#define G4_CLI_NVME_SHOW_H

#include "dev/nvme/controller_host.h"
#include "dev/nvme/place_host.h"
#include "print/report.h"

/*
 * Into the open object of the report. The controller was opened for questions. 0, or a code and a sentence: what is in the report by then
 * stays there. Whatever a controller answers comes out as text or JSON that is one.
 */
int g4_nvme_show_id(struct g4_nvme *nvme, struct g4_report *report, struct g4_dev_message message);
int g4_nvme_show_log(struct g4_nvme *nvme, struct g4_report *report, struct g4_dev_message message);
/* Its way to GPUs, into the open object; and remedies, into the open list. */
void g4_nvme_show_place(const struct g4_place *place, struct g4_report *report);
void g4_nvme_show_remedies(const struct g4_place *place, struct g4_report *report);

#endif
