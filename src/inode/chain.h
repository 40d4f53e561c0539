/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A chain of directories: each has one name, which leads to the next. It is made inside of one transaction in pages to which nothing
 * leads yet, so its pieces can be made in any order and by several workgroups (data/split.h):
 *
 *     slab p     inodes of directories 15 p to 15 p + 14
 *     leaf k     the page of the directory above k; its only name is that of directory k
 *
 * Where all of them lie is known from the beginning, so a piece needs no other. Directory 0 is found when the owner enters leaf 0
 * into the inode of the directory above, which it has write-locked. Until g4_chain_finish() the slabs have no slots in use, so an old
 * or made-up number of an inode leads to nothing. Crash at any line: the transaction has all of it or nothing.
 */
#ifndef G4_CHAIN_H
#define G4_CHAIN_H

#include "inode/mounted.h"

#define G4_CHAIN_PIECE (G4_SLAB_SLOTS - 1) /* directories that a slab has room for */

/* In memory that all workgroups reach, at a multiple of 64 B; constant while pieces are made, but for `lines`. */
struct g4_chain {
	struct g4_inode pattern; /* what all inodes have in common; no entries, 2 links */
	uint64_t sequence;	 /* of the owner's transaction, in which it stays until all pieces are done */
	const char *names;	 /* with slashes before and between them; each was checked */
	const uint32_t *begins;	 /* of each piece: where its first name, or a slash before that, stands in `names` */
	uint32_t *lines;	 /* of each piece: where its slab is in the cache, which the transaction keeps there */
	uint32_t count;		 /* directories */
	const uint64_t *slabs, *leaves; /* numbers of pages */
	uint64_t above;			/* number of the directory above the first */
	uint64_t first_key;		/* of `count` keys in a row */
};

G4_STATIC_ASSERT(offsetof(struct g4_chain, pattern) == 0, "inodes are copied 16 B at a time");

G4_FN G4_INLINE uint32_t g4_chain_slabs(uint32_t count)
{
	return (count + G4_CHAIN_PIECE - 1) / G4_CHAIN_PIECE;
}
G4_FN G4_INLINE struct g4_address g4_chain_slab(const struct g4_chain *chain, uint32_t p)
{
	return g4_page_address(chain->slabs[p]);
}
G4_FN G4_INLINE struct g4_address g4_chain_leaf(const struct g4_chain *chain, uint32_t k)
{
	return g4_page_address(chain->leaves[k]);
}
/* Number and generation of directory k. */
G4_FN G4_INLINE uint64_t g4_chain_ino(const struct g4_chain *chain, uint32_t k)
{
	return g4_ino_of_slot(g4_chain_slab(chain, k / G4_CHAIN_PIECE), 1 + k % G4_CHAIN_PIECE);
}
G4_FN G4_INLINE uint32_t g4_chain_generation(const struct g4_fs *fs, const struct g4_chain *chain, uint32_t k)
{
	return fs->first_generation + (uint32_t)(chain->first_key + k);
}
/* Leader, thread-safe; no lock is held but the owner's. Makes directories of one piece: `first` is a multiple of G4_CHAIN_PIECE. */
G4_FN int g4_chain_piece(struct g4_wg *wg, struct g4_fs *fs, const struct g4_chain *chain, uint32_t first,
			 uint32_t count);
/* Owner, when all pieces are made: their inodes can be found by number. */
G4_FN int g4_chain_finish(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, const struct g4_chain *chain);

#endif
