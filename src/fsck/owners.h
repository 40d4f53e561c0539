/* SPDX-License-Identifier: Apache-2.0 */
/* Owners of pages of data, and of indirect pages, as they are met. */
#ifndef G4_FSCK_OWNERS_H
#define G4_FSCK_OWNERS_H

#include "fsck/fsck_types.h"

/* What is known of a region's owners, made when there is nothing yet; NULL for lack of memory. Others' addresses change. */
struct g4_fsck_owners *g4_fsck_add_owners(struct g4_fsck *fsck, uint64_t region);
/* NULL: nothing in it is shared. */
struct g4_fsck_owners *g4_fsck_find_owners(const struct g4_fsck *fsck, uint64_t region);
/*
 * Pages of a word of the bitmaps are claimed as data: `first` for the first time, `again` once more. Returns those of
 * `again` that may have no further owner. A member of a team does not wait for the one that has claimed a page first and not yet told
 * here that it is data: g4_fsck_compare_owners() looks whether it has.
 */
uint64_t g4_fsck_meet_owners(struct g4_fsck *fsck, uint64_t word, uint64_t first, uint64_t again);
/* One pointer leads to pages as data, which were met: it may be to whole regions. */
void g4_fsck_meet_large(struct g4_fsck *fsck, uint64_t page, uint64_t pages);
/* A page is met once more as an indirect page. False: of a team, and no owner of it is counted. Otherwise all are, and compared. */
bool g4_fsck_meet_map(struct g4_fsck *fsck, uint64_t page);

#endif
