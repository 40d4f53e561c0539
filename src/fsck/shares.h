/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of data with several owners: what the counts say, against what was met. */
#ifndef G4_FSCK_SHARES_H
#define G4_FSCK_SHARES_H

#include "fsck/fsck_types.h"

/* Takes over the counts that a group's allocation map leads to, and claims their pages. NULL: the map is damaged. */
void g4_fsck_load_owners(struct g4_fsck *fsck, uint64_t group, const struct g4_alloc_page *map);
void g4_fsck_compare_owners(struct g4_fsck *fsck);
/* Repair: counts by what was met. Before the maps are rebuilt. */
void g4_fsck_rebuild_owners(struct g4_fsck *fsck);

#endif
