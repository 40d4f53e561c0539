/* SPDX-License-Identifier: Apache-2.0 */
/* What is to be done for deduplication beside operations. */
#ifndef G4_DATA_DEDUP_H
#define G4_DATA_DEDUP_H

#include "inode/mounted.h"

/*
 * A step: pages that are damaged go from the list; or the listed pages of one group, the next one, become hints of the table of contents,
 * which is in memory and was empty when the file system was mounted. False: there is nothing left to do. By the workgroup
 * that does background jobs, one
 * at a time, outside of operations. What fails is tried again when it is called again.
 */
G4_FN bool g4_dedup_serve(struct g4_wg *wg, struct g4_fs *fs);
/*
 * Pages of a group that have one owner, and are listed since the day `last` (of 1970) or longer, or at all (G4_LISTING_ANY_DAY), are listed no
 * more; *gone: how many. Outside of operations.
 */
G4_FN int g4_dedup_prune(struct g4_wg *wg, struct g4_fs *fs, uint64_t group, uint64_t last, uint64_t *gone);
/*
 * Pages in a row on the device, and in memory, at most 64: bits of those that have no sum in their file and are listed with that of
 * something else. They are damaged, and go from the list. The inode is locked.
 */
G4_FN uint64_t g4_dedup_compare(struct g4_wg *wg, struct g4_fs *fs, struct g4_address address, const uint8_t *pages,
				uint32_t count, const struct g4_sum_entry *has);
/* All damaged pages that were met go from the list, but for those of which that fails. Before an unmount, when nobody else works. */
G4_FN void g4_dedup_finish(struct g4_wg *wg, struct g4_fs *fs);

#endif
