/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the host that a drive without enough of its own wants for its tables (host memory buffer): it is lent for as long as the
 * controller works, and asked back before it is shut down. Host only.
 */
#ifndef G4_DEV_NVME_LENT_HOST_H
#define G4_DEV_NVME_LENT_HOST_H

#include "dev/nvme/controller_host.h"

#define G4_NVME_LENT_BYTES (64 * G4_MIB) /* what a controller gets at most, if nobody says otherwise */

/* What each controller that is opened from now on gets at most; 0: nothing. Thread-safe. */
void g4_nvme_lend_most(uint64_t bytes);

/* ---- for controller_host.c, by the holder of admin_lock ---- */
/* Memory for it, which it may have already, in the bounds of both. False: it goes without; if it wants some, a line of the log says why. */
bool g4_nvme_find_lent(struct g4_nvme *nvme);
/* The command that gives it that, or asks for it. The memory stays: one that does not answer may use it until it is stopped. */
void g4_nvme_describe_lent(const struct g4_nvme *nvme, bool lends, struct g4_nvme_command *command);
/* It is stopped, and does not come back. */
void g4_nvme_free_lent(struct g4_nvme *nvme);

#endif
