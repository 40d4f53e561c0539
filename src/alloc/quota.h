/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many pages of sums of listed pages there are, and may be (docs/design/deduplication.md, "A quota for the table"). The pages of
 * shares say which there are; here they are counted, and nothing of it is stored. Until all groups have been counted behind a mount the number is
 * an upper bound, so a quota is never exceeded.
 *
 * Leader, thread-safe; what names a group: its lock (alloc/share_lines.h) is held.
 */
#ifndef G4_QUOTA_H
#define G4_QUOTA_H

#include "alloc/alloc.h"

/*
 * A superblock says that there are to be no more than fit in so many bytes; 0: no limit. Also while others take and give: a place that was
 * had before stays, also where there are more than that.
 */
G4_FN void g4_quota_set(struct g4_alloc *alloc, uint64_t bytes);
/* One more is going to be made; false: there are as many as may be. */
G4_FN bool g4_quota_take(struct g4_alloc *alloc);
/* It was not needed. */
G4_FN void g4_quota_give(struct g4_alloc *alloc);
/* It is a group's now; one of a group is freed; the group has so many, and no others. */
G4_FN void g4_quota_took(struct g4_alloc *alloc, uint64_t group);
G4_FN void g4_quota_freed(struct g4_alloc *alloc, uint64_t group);
G4_FN void g4_quota_counted(struct g4_alloc *alloc, uint64_t group, uint32_t count);

#endif
