/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File mapping: which page of a file lies where. The in-core inode is locked: for writing by what changes the map. Leader.
 */
#ifndef G4_MAP_H
#define G4_MAP_H

#include "alloc/share.h"
#include "inode/mounted.h"

enum g4_extent_kind { G4_HOLE = 0, G4_UNWRITTEN = 1, G4_WRITTEN = 2 };

struct g4_run {
	uint32_t kind;
	uint32_t level;		   /* of the pointer: 0 to a 4 KiB page, 1 to a 2 MiB page, 2 to a 1 GiB page */
	struct g4_address address; /* of the first page, unless a hole */
	uint64_t pages;
};

/* metadata blocks that changing one piece of a mapping dirties at most */
#define G4_MAP_CREDITS 32u
G4_STATIC_ASSERT(2 * G4_MAP_CREDITS <= G4_TXN_LEAST_BLOCKS, "any transaction has those of two pieces");
/* What a transaction begins with that maps pages: more where counts of owners may change. */
G4_STATIC_ASSERT(2 * G4_MAP_CREDITS + G4_LIST_CREDITS <= G4_TXN_LEAST_BLOCKS, "and those of listing what was written");
G4_FN G4_INLINE uint32_t g4_map_credits(const struct g4_fs *fs)
{
	return g4_load64_acq(&fs->super.features_incompat) & G4_FEATURE_INCOMPAT_SHARED ? 2 * G4_MAP_CREDITS :
											  G4_MAP_CREDITS + 4;
}

/* What lies at `page`: a run of 1..most pages of one kind, contiguous on disk. */
G4_FN int g4_map_lookup(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
			uint64_t most, struct g4_run *run);
/* 1: a page is in one of 2 MiB whose entry leads to pages of sums; or 0, or an error. */
G4_FN int g4_map_row(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
		     struct g4_sum_entry *entry);
/* The page of sums that has the entry of a written page of the file: g4_sums_page(). */
G4_FN int g4_map_sums_page(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
			   uint32_t *line, const struct g4_sum_entry **entry);
/* The sums of pages in a row, of zeros where there are none; of a page that is not written the entry means nothing. */
G4_FN int g4_map_sums(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
		      uint32_t count, struct g4_sum_entry *sums);
/*
 * The indirect pages on the way to a page, the highest first, their pages of sums, and those of the large page that it is in. After an
 * error the last of the indirect pages is the one that can not be had, or one behind it.
 */
struct g4_map_nodes {
	uint32_t count, sums_count;
	struct g4_address nodes[G4_MAP_MAX_HEIGHT];
	struct g4_address sums[G4_SUMS_QUARTERS * (G4_MAP_MAX_HEIGHT + 2)];
};
G4_FN int g4_map_nodes(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
		       struct g4_map_nodes *nodes);
/*
 * In a transaction with 2 * G4_MAP_CREDITS, the inode logged behind it: the 2 MiB of the file that a page is in become one pointer, if they lie so.
 */
G4_FN int g4_map_join(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
		      uint64_t page);
/*
 * In a transaction: maps pages to claimed, not yet published space, publishes it and frees what was there. Does as much
 * as the transaction's credits allow; *done pages. Updates inode->disk, which the caller logs. `sums`: of the pages, where they
 * are written; NULL: they have none. Where pages are not written, the sums that they will have by the inode's policy get a place.
 */
G4_FN int g4_map_set(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode, uint64_t page,
		     struct g4_address address, uint64_t pages, bool written, const struct g4_sum_entry *sums,
		     uint64_t *done);
/*
 * The same for written pages that another inode, which is locked as well, or another place of this one leads to already: they
 * get an owner more. `whole`: a pointer to 2 MiB or more leads there, which stays. `row`, instead of sums: the entry of its 512 pages, which are
 * to have the same pages of sums; -G4_E_AGAIN: they can not, and nothing of them has changed. -G4_E_NOSPC, -G4_E_MLINK: this can not be done, and
 * what is not *done has not changed. `same`: the target has the same contents there.
 */
G4_FN int g4_map_share(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
		       uint64_t page, struct g4_address address, uint64_t pages, bool whole, bool same,
		       const struct g4_sum_entry *sums, const struct g4_sum_entry *row, uint64_t *done);
/* The same for pages that the table of contents has under these sums, and marks (or NULL), of each. -G4_E_AGAIN: it has the next one no more. */
G4_FN int g4_map_share_found(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			     uint64_t page, struct g4_address address, uint64_t pages, const struct g4_sum_entry *sums,
			     const uint32_t *marks, uint64_t *done);
/*
 * In a transaction: unmaps and frees from `page` to `end`; *next is where to go on, >= end when finished. One that began with
 * 2 * G4_MAP_CREDITS clears something; one with less may not, where others have filled the rest of the transaction.
 */
G4_FN int g4_map_clear(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
		       uint64_t page, uint64_t end, uint64_t *next);
/*
 * The same of a hole that may come in parts: where the device does not give what is needed behind something that is cleared, that stays cleared, and
 * the next transaction is told. What a size or a gap speaks for is cleared altogether, or the journal stops before any of it is durable.
 */
G4_FN int g4_map_dig(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode, uint64_t page,
		     uint64_t end, uint64_t *next);
/*
 * The same of a file that goes: what the device does not give is left, with all that hangs there. After -G4_E_IO with nothing changed *next is behind
 * that, for another transaction.
 */
G4_FN int g4_map_abandon(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			 uint64_t page, uint64_t *next);
/* *end: behind the last page in front of `before` that has space; 0: there is none. */
G4_FN int g4_map_end(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t before,
		     uint64_t *end);
/* Whether the sum of a page has a place, and so those of the *pages from there on, at most as many as before. 0, 1, or an error. */
G4_FN int g4_map_sums_ready(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
			    uint64_t *pages);
/* The pages that a map of this height can hold. */
G4_FN uint64_t g4_map_capacity_pages(uint32_t height);
/* The height that a map must have for a page. */
G4_FN uint32_t g4_map_height_for(uint64_t page);

#endif
