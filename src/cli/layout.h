/* SPDX-License-Identifier: Apache-2.0 */
/* What lies where on the disks of a file system of several. */
#ifndef G4_CLI_LAYOUT_H
#define G4_CLI_LAYOUT_H

#include "print/report.h"
#include "space/set_host.h"

/* Of a usable set: for people a picture of each disk, in JSON all places of chunks on it in the order of their addresses. */
void g4_cli_show_layout(struct g4_report *report, const struct g4_set_status *status);

/* "raid5 3+1, survives 1 disk": of what mkfs has made; of an unusable set only how many disks it survives. */
void g4_cli_show_redundancy(struct g4_report *report, const struct g4_set_status *status);

#endif
