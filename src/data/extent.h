/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ownership of space: the pair of functions between what points to space and the allocator. A pointer that comes to be acquires
 * what it leads to, one that goes releases it, both in the transaction that changes the pointer. Space of the first owner is
 * published in the allocation map; owners beyond it are counted (alloc/share.h); the last one to go frees it.
 *
 * Claiming space for data that is not reachable yet is place.c's. Leader, in a transaction, in-core inode write-locked.
 */
#ifndef G4_EXTENT_H
#define G4_EXTENT_H

#include "alloc/share.h"
#include "inode/mounted.h"

/*
 * Blocks that `extents` calls of g4_extent_acquire() and g4_extent_release() change at most, of up to `pages` pages each, which nobody shares:
 * maps of the groups that these lie in, and their descriptors, which share pages.
 */
#define G4_EXTENT_CREDITS(extents, pages) ((extents) * ((pages) / G4_GROUP_PAGES + G4_ALLOC_CREDITS))
/* And counts of owners: one extent of a region that comes, one that goes. */
#define G4_EXTENT_SHARE_CREDITS (G4_SHARE_CREDITS + G4_SHARE_RELEASE_MOST)
/*
 * Whether the transaction has the credits for `extents` such calls, or gets them, among them those to share one (`shares`), and to release
 * one of `goes` pages that may be shared, and `more`. Without: false and 0. The slots that change beside are the caller's to count.
 */
G4_FN bool g4_extent_credits(const struct g4_fs *fs, struct g4_txn *txn, uint32_t extents, uint64_t pages, bool shares,
			     uint64_t goes, uint32_t more);
/* A pointer leads to space that was claimed and that no transaction has published. */
G4_FN int g4_extent_acquire(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_address address,
			    uint64_t pages);
/* A pointer leads to space that another one leads to already. The errors of g4_share_acquire(). Of one region. */
G4_FN int g4_extent_share(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_address address,
			  uint64_t pages);
/* The same of a copy of an indirect page, which leads to many places: g4_share_acquire_few(). How many of the pages, from the first on, have an owner more. */
G4_FN int g4_extent_share_few(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_address address,
			      uint64_t pages);
/* The same in the place of pages with the same contents, which become free: it may take what is kept of a full device. */
G4_FN int g4_extent_share_same(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_address address,
			       uint64_t pages);
/* The same of a large pointer to a region, while another large one leads there. */
G4_FN int g4_extent_share_whole(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_address address);
/*
 * A large pointer to a region that was written is about to become 512, which may take a page of the inode's reservation for its map, or a
 * free one. Where that fails nothing has changed; where what is to follow fails it may stay.
 */
G4_FN int g4_extent_divide(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			   struct g4_address address);
/* How many pages of metadata dividing large pointers may take where pages of a file lie: one of counts each, and those of sums. */
G4_FN uint64_t g4_extent_divide_pages(const struct g4_fs *fs, uint64_t page, uint64_t pages);
/*
 * The same of pages in a row that the table of contents has under these sums, in a domain, and of one with a mark (alloc/share.h) that it had
 * all the time. How many, from the first on, have an owner more now. -G4_E_AGAIN: that one is there no more, or can not be shared.
 */
G4_FN int g4_extent_share_found(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_address address,
				uint64_t pages, const struct g4_sum_entry *sums, uint64_t domain, uint32_t mark);
/* The same of all pages of a region, which begins there: 0; -G4_E_AGAIN: not all are there and can be shared, and nothing has changed; or an error. */
G4_FN int g4_extent_share_found_large(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_address address,
				      const struct g4_sum_entry *sums, uint64_t domain);
/* Whether pages of sums of a large page of level 1 may have several owners, and name any inode. */
G4_FN G4_INLINE bool g4_extent_shares_rows(const struct g4_fs *fs)
{
	return (g4_load64_acq(&fs->super.features_incompat) & G4_FEATURE_INCOMPAT_ROWS) != 0;
}
/* Whether an extent of several regions may have other owners, or get them: it can not be released as one then. 0, 1, or an error. */
G4_FN int g4_extent_is_shared(struct g4_wg *wg, struct g4_fs *fs, struct g4_address address, uint64_t pages);
/*
 * The same exactly: whether the first of *pages pages of one region has several owners, and how many of them are the same in that. Behind it all that
 * releasing them reads has been read.
 */
G4_FN int g4_extent_has_several(struct g4_wg *wg, struct g4_fs *fs, struct g4_address address, uint64_t *pages);
/* As many of the pages as can be shared or released at a time: those of the region that the first lies in. */
G4_FN G4_INLINE uint64_t g4_extent_part(struct g4_address address, uint64_t pages)
{
	return g4_min64(pages, G4_REGION_PAGES - g4_address_page(address) % G4_REGION_PAGES);
}
/* A pointer to it goes. -G4_E_CORRUPT_MAP: the address can be no file's. Of one region, or not shared. */
G4_FN int g4_extent_release(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_address address,
			    uint64_t pages);
/* The same of a page of metadata that is an inode's own: of its map, from its reservation if it has one, or of its attributes. */
G4_FN int g4_node_acquire(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			  struct g4_address *address);
/* So many of them in a row; -G4_E_NOSPC: there are none. */
G4_FN int g4_nodes_acquire(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			   uint32_t count, struct g4_address *first);
/* The same of pages that nobody has reserved, and that are not kept back for what has to be. */
G4_FN int g4_nodes_acquire_spare(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
				 uint32_t count, struct g4_address *first);
G4_FN int g4_node_release(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			  struct g4_address address);

#endif
