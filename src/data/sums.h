/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of the pages of files: where they are kept, how they are made, and whether what was read is what was written.
 *
 * The entries of an indirect page's slots are in up to four pages of sums, those of an inode's own slots in the inode, where there are
 * three, and else in a block of two slots of a slab (FORMAT.md, "Sums"). What is in the inode moves out in the transaction that
 * needs a fourth slot, and never back. An entry of zeros is no sum: what was written without is not verified. Entries change in
 * the transaction that changes the pointers; those of slots without written data mean nothing. The entry of a large page leads to four
 * pages of sums in a row, which are those that the indirect page has that it stands for; they stay where they are when one becomes
 * the other.
 *
 * Where entries can not be read, contents behind them are not given out, and new ones can be written: they get a new page or block,
 * in which all others are lost (G4_CHECKSUM_LOST) until a repair gives them up.
 *
 * Leader, in-core inode locked: for writing by what changes entries.
 */
#ifndef G4_DATA_SUMS_H
#define G4_DATA_SUMS_H

#include "format/sums.h"
#include "inode/mounted.h"

#define G4_SUMS_AT_ONCE 32u /* pages whose sums are made together */

/* A page that was stored ahead of the transaction that makes it reachable (batch.h). */
struct g4_page_ahead {
	struct g4_address address; /* or none */
	bool has_sum;
	struct g4_sum_entry sum;
};

/*
 * What pages get by a file's policy: enum g4_checksum_algorithm. UNKNOWN: it says more than this program knows, and nothing may be
 * written (-G4_E_POLICY). A policy changes under the inode's write lock, when nothing is dirty (fs/policy.c).
 */
G4_FN uint32_t g4_sums_algorithm(const struct g4_fs *fs, uint32_t policy);

/* Whether what is written gets some. */
G4_FN G4_INLINE bool g4_sums_wanted(const struct g4_fs *fs, const struct g4_inode_core *inode)
{
	const uint32_t algorithm = g4_sums_algorithm(fs, inode->disk.policy);

	return algorithm != G4_CHECKSUM_NONE && algorithm != G4_CHECKSUM_UNKNOWN;
}

/* Sums of pages in memory that nobody else changes meanwhile, at most G4_SUMS_AT_ONCE. */
G4_FN void g4_sums_make(struct g4_wg *wg, uint32_t algorithm, const void *const *pages, uint32_t count,
			struct g4_sum_entry *entries);

/*
 * Compares pages in such memory with the entries of their slots: the one place that says whether contents are what was written. Bit k of
 * *differ: page k has a sum, and it is another. Bit k of *unknown: the entry says that there was one, and no page can be compared with
 * it: it is lost, a large page's, or of an algorithm that this program does not know. A page whose entry is no sum has neither bit.
 * found[k] is what the page has, where there was something to compare. `expected` lies in memory that all lanes reach.
 */
G4_FN void g4_sums_compare(struct g4_wg *wg, const void *const *pages, uint32_t count,
			   const struct g4_sum_entry *expected, struct g4_sum_entry *found, uint32_t *differ,
			   uint32_t *unknown);

/*
 * Up to G4_SUMS_SLOTS pages in a row in such memory: true where each of them that has a sum is what its entry says. False: ask for
 * each. `expected` as before.
 */
G4_FN bool g4_sums_match(struct g4_wg *wg, const uint8_t *pages, uint32_t count, const struct g4_sum_entry *expected);

/* ---- beside the map: slots `first` and on of the indirect page in `line`, or with G4_NO_LINE of the inode's own ---- */
/* -G4_E_CORRUPT_SUMS: what they stand in is damaged. */
G4_FN int g4_sums_read(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint32_t line,
		       uint32_t first, uint32_t count, struct g4_sum_entry *to);
/*
 * The page of sums with the entry of a page of the file, beside this slot or, where its level is not 0, below it: referenced in *line,
 * and the entry in it. G4_NO_LINE: it is in none.
 */
G4_FN int g4_sums_page(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint32_t indirect,
		       uint32_t slot, uint32_t level, uint64_t page, uint32_t *line, const struct g4_sum_entry **entry);
/*
 * In a transaction, for slots of one quarter (g4_sums_row()); the page in `line` is dirty in it, and the inode is logged behind it. With
 * `from` NULL: no sums. Takes up to 1 + G4_ALLOC_CREDITS credits, and a page of the reservation for the map.
 */
G4_FN int g4_sums_write(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			uint32_t line, uint32_t first, uint32_t count, const struct g4_sum_entry *from);
/*
 * Before anything changes: reads what g4_sums_part() does of a large page of level 1 with this entry, so that a device that does not give it
 * stops one command and not the journal. `all`: and what reading the sums of all its pages does. What is damaged is no error.
 */
G4_FN int g4_sums_look_large(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode,
			     const struct g4_sum_entry *entry, bool all);
/* Whether the entry of a slot has a place, so that writing it takes no space. */
G4_FN bool g4_sums_ready(struct g4_fs *fs, const struct g4_inode_core *inode, uint32_t line, uint32_t slot);
/* In a transaction, as g4_sums_write(): the entry of a slot gets a place, if it has none. */
G4_FN int g4_sums_prepare(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			  uint32_t line, uint32_t slot);
/*
 * In a transaction, before slots of the inode up to `end` get pages, with sums or without: makes room for both. The inode's slots are
 * not what they were before.
 */
G4_FN int g4_sums_fit(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode, uint32_t end,
		      bool sums);
/* All entries of the inode's own slots, to be written somewhere else; where they can not be read, that they are lost. */
G4_FN int g4_sums_take(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode,
		       struct g4_sum_entry *entries);
/* Whether the inode's own slots have sums, so that a map that becomes higher needs a page for them, whatever the policy says. */
G4_FN G4_INLINE bool g4_sums_own(const struct g4_inode_core *inode)
{
	return (inode->disk.flags & G4_INODE_SUMS_INLINE) != 0 || inode->disk.checksums != 0;
}
/* Slots from `first` on that have their entries in one page. */
G4_FN G4_INLINE uint32_t g4_sums_row(uint32_t first)
{
	return G4_SUMS_SLOTS - first % G4_SUMS_SLOTS;
}
/* In a transaction: releases all of them; the indirect page or the map in the inode goes, or has nothing any more. */
G4_FN int g4_sums_free(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
		       uint32_t line);
/* Whether an indirect page has pages of sums. */
G4_FN bool g4_sums_any(const struct g4_fs *fs, uint32_t line);

/* ---- of large pages: `level` is that of the indirect page that one stands for, 1 or 2 ---- */
/* The inode that the pages of sums name to which entries beside slots of `line` lead: the maker of the page there, which may be shared. */
G4_FN uint64_t g4_sums_maker(const struct g4_fs *fs, const struct g4_inode_core *inode, uint32_t line);
/*
 * The sums of `count` pages of the file from `page` on, which have theirs in one page of sums of the large page with this entry;
 * maker: g4_sums_maker() of it.
 */
G4_FN int g4_sums_read_large(struct g4_wg *wg, struct g4_fs *fs, uint64_t maker, const struct g4_sum_entry *entry,
			     uint32_t level, uint64_t page, uint32_t count, struct g4_sum_entry *to);
/*
 * The entry of the large page that is to stand for the indirect page in `line`, of level 1: its pages of sums become the large one's.
 * False: they do not lie in a row, or some are missing.
 */
G4_FN bool g4_sums_join(struct g4_wg *wg, struct g4_fs *fs, uint32_t line, struct g4_sum_entry *entry);
/*
 * In a transaction that changes the indirect page in `line`, of level 1: its four pages of sums move so that they lie in a row. -G4_E_NOSPC: there
 * is no room that nobody has reserved, or one is missing or can not be read. What is done of it by then is whole.
 */
G4_FN int g4_sums_line_up(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			  uint32_t line);
/*
 * In a transaction, the reverse: they become those of a new indirect page of the inode's. What others have, too, or have made, is copied, to
 * four pages of the reservation for the map, or free ones. An entry without any is nothing to do. -G4_E_NOSPC: nothing has changed.
 */
G4_FN int g4_sums_part(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
		       uint32_t line, const struct g4_sum_entry *entry);
/*
 * In a transaction with G4_SHARE_CREDITS: the large page of another file with this entry, which is locked as well, is to be this inode's,
 * too: so are its pages of sums. The errors of g4_share_acquire(); nothing has changed then.
 */
G4_FN int g4_sums_share_large(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			      const struct g4_sum_entry *entry);
/*
 * In a transaction: pages of sums for a large page of level 1 with these 512 sums, which are aligned to 16 bytes, and its entry.
 * -G4_E_NOSPC: there are no four pages in a row; nothing has changed. Takes up to G4_SUMS_LARGE_CREDITS credits.
 */
G4_FN int g4_sums_new_large(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			    const struct g4_sum_entry *sums, struct g4_sum_entry *entry);
#define G4_SUMS_LARGE_CREDITS (G4_SUMS_QUARTERS + G4_ALLOC_CREDITS)
/* In a transaction: releases those of a large page of level 1. Takes G4_SHARE_LEAVE_CREDITS where they may have several owners. */
G4_FN int g4_sums_free_large(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			     const struct g4_sum_entry *entry);

#endif
