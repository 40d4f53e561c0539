/* SPDX-License-Identifier: Apache-2.0 */
/* Large writes past the cache whose pages may be there already. */
#ifndef G4_BOUNCE_STAGE_H
#define G4_BOUNCE_STAGE_H

#include "data/batch.h"

/* Whether there are buffers for them. */
G4_FN G4_INLINE bool g4_stage_is_possible(const struct g4_fs *fs)
{
	return fs->bounce.memory != NULL;
}

/*
 * Leader, inode write-locked, outside of a transaction, g4_stage_is_possible() and g4_dedup_wanted(). Stores up to `pages` pages of a
 * caller's memory, which others may change and which need not be aligned, as page `page` of the file and on, or finds them, through all
 * stages of the pipeline. `batch` is empty but for its wish and what is reserved, which is used up: for all of them (g4_reserve_direct()).
 * `size`: as g4_publish() has it. *published: pages that are reachable now; the others are for the next batch, if there was no error.
 */
G4_FN int g4_stage_run(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, struct g4_batch *batch,
		       const uint8_t *from, uint64_t page, uint32_t pages, uint64_t size, uint32_t *published);

/* A piece of filling a batch's buffers (help.c): offsets count from its first page. It can not fail, and waits for nobody. */
G4_FN void g4_stage_piece(struct g4_wg *wg, const struct g4_fs *fs, const struct g4_split_work *work,
			  const struct g4_split_piece *piece);

#endif
