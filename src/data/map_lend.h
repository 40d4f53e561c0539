/* SPDX-License-Identifier: Apache-2.0 */
/* An indirect page of one file becomes another one's, too (FORMAT.md, "Shared indirect pages"). Leader; both inodes are write-locked. */
#ifndef G4_MAP_LEND_H
#define G4_MAP_LEND_H

#include "data/map_own.h"

/* What of a map one file can have of another: an indirect page, which both lead to at the same level. */
struct g4_lend {
	uint64_t
		ahead; /* in and out, 0 at first: what hangs in front of this page of the source was read together with others */
	uint32_t level; /* of the page */
	uint64_t pages; /* of the range that it covers */
	uint64_t below; /* pages that a file has from it down */
	g4_ptr ptr;	/* to it */
};

/*
 * Whether the highest indirect page of `from` that begins at a page, and has nothing behind `most` pages from there, can become `to`'s at a
 * page of the same place in 2 MiB where that has nothing: 1, and what; 0; or an error. Nothing of both is dirty. No transaction.
 */
G4_FN int g4_map_may_lend(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *from, uint64_t from_page,
			  struct g4_inode_core *to, uint64_t to_page, uint64_t most, struct g4_lend *lend);
/*
 * In a transaction with 2 * G4_MAP_CREDITS: it does; the caller logs both. -G4_E_NOSPC, -G4_E_MLINK: it can not, and nothing has changed but
 * how high the map is.
 */
G4_FN int g4_map_lend(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *from,
		      struct g4_inode_core *to, uint64_t to_page, const struct g4_lend *lend);

#endif
