/* SPDX-License-Identifier: Apache-2.0 */
/* Deduplication of what is written, by the command DEDUP: of a session of the library, and for the tool of a mount, which is asked by ioctls. */
#ifndef G4_CLIENT_DEDUP_H
#define G4_CLIENT_DEDUP_H

#include "fs/command.h"

/* One DEDUP of enum g4_dedup_order, of `from`; 0 or a negative errno. */
typedef int g4c_dedup_ask(void *from, uint32_t order, uint64_t group_or_bytes, struct g4_dedup_counts *counts);
/*
 * PRUNE of every group, or with `older` PRUNE_OLDER of what is listed for so many days: how many pages were taken from the list, or the first negative errno
 * (-EINVAL: days that begin before 1970, or an engine that does not know the order). As thread-safe as `ask`.
 */
int64_t g4c_dedup_prune(g4c_dedup_ask *ask, void *from, bool older, uint32_t days);

#endif
