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

/* The first stages of a batch whose writer has not got its inode yet: what of it lies in buffers, with its sums and what is known of it. */
struct g4_stage_ahead {
	uint32_t numbers[G4_STAGE_BUFFERS];
	uint32_t count; /* of buffers; 0: there is nothing */
	uint32_t pages;
	uint64_t page; /* of the file, where it begins */
	uint32_t algorithm, domain, wish;
};

/*
 * Leader, without the inode's lock, which somebody else has: as many as a batch takes of `pages` pages of a caller's memory, which are to be page `page`
 * of the file and on, are copied, hashed and looked for. ahead->count is 0 where that can not be, or there are no buffers for it: it waits
 * for helpers with pieces of its own and for metadata alone. The buffers are the writer's until g4_stage_run() has used them, or g4_stage_drop().
 */
G4_FN void g4_stage_ahead(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, const uint8_t *from,
			  uint64_t page, uint64_t pages, uint32_t wish, struct g4_stage_ahead *ahead);
G4_FN void g4_stage_drop(struct g4_fs *fs, struct g4_stage_ahead *ahead);

/*
 * Leader, inode write-locked, outside of a transaction, g4_stage_is_possible() and g4_dedup_wanted(). Stores up to `pages` pages of a
 * caller's memory, which others may change and which need not be aligned, as page `page` of the file and on, or finds them, through all
 * stages of the pipeline. `batch` is empty but for its wish and what is reserved, which is used up: for all of them (g4_reserve_direct()).
 * `size`: as g4_publish() has it. What is ahead is used, if it is these pages still and nothing has changed of what the file wants. *published: pages that are reachable now; the others are for the next batch, if there was no error.
 */
G4_FN int g4_stage_run(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, struct g4_batch *batch,
		       const uint8_t *from, uint64_t page, uint32_t pages, uint64_t size, struct g4_stage_ahead *ahead,
		       uint32_t *published);

/* A piece of filling a batch's buffers (help.c): offsets count from its first page. It can not fail, and waits for nobody. */
G4_FN void g4_stage_piece(struct g4_wg *wg, const struct g4_fs *fs, const struct g4_split_work *work,
			  const struct g4_split_piece *piece);

#endif
