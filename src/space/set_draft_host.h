/* SPDX-License-Identifier: Apache-2.0 */
/* The table of chunks while it is changed under requests. Of the files of this folder alone. */
#ifndef G4_SET_DRAFT_HOST_H
#define G4_SET_DRAFT_HOST_H

#include "space/set_table_host.h"

/* The table while it is changed under requests. With the lock of orders, by one workgroup at a time. */
struct g4_set_draft {
	struct g4_superblock *super; /* as it was when this began */
	struct g4_set_move move;     /* its chunks: those that there were then */
	struct g4_set_span *spans;   /* memory for those of a disk */
};
/* To be ended, unless it fails. */
int g4_set_draft_begin(struct g4_set_draft *draft, struct g4_set *set);
/* Also twice. */
void g4_set_draft_end(struct g4_set_draft *draft);
/*
 * From when the draft is made of rows, or what it moves is copied, until it counts or does not: with parity nobody reads or writes rows, and
 * none is known by a chunk that will be another one. Unlocked, unless this fails; all disks are there then. Before the lock of superblocks.
 */
int g4_set_draft_lock(struct g4_wg *wg, struct g4_set *set);
void g4_set_draft_unlock(struct g4_set *set);
/* Locked. The set has these chunks from now on; the view is alone (set_epoch_host.h). As g4_set_switch_table(). */
int g4_set_draft_switch(struct g4_wg *wg, struct g4_set *set, const struct g4_set_draft *draft);

#endif
