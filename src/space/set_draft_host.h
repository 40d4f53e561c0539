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
/* To be ended, unless it fails. -G4_E_NOTSUP: of a set with parity, whose rows that are held know chunks by where they are in memory. */
int g4_set_draft_begin(struct g4_set_draft *draft, struct g4_set *set);
/* Also twice. */
void g4_set_draft_end(struct g4_set_draft *draft);
/* The set has these chunks from now on; the view is alone (set_epoch_host.h). As g4_set_switch_table(). */
int g4_set_draft_switch(struct g4_wg *wg, struct g4_set *set, const struct g4_set_draft *draft);

#endif
