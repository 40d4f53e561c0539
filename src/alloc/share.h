/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of data with several owners. How many a page has beyond the first is counted by its address: an allocation map leads
 * to a page of its group, that to a page of counts for each region in which anything is shared (FORMAT.md, "Owners"). Pages
 * that nobody shares cost one load.
 *
 * Large pointers that share a region as a whole are counted in the group's page, without one of counts. There are always more of them than
 * are counted so: a single page that is released finds its owner among those of pages. So a large pointer is divided by
 * g4_share_divide(), and whatever releases 512 pages may take one of either kind.
 *
 * And listed pages, which writers of the same contents may share (FORMAT.md, "Listed pages"): the group's page has a bit for each,
 * and leads to the sums. A page is listed in a transaction in which it has an owner, and is no more in the one in which the
 * last owner goes. So a workgroup that finds it
 * listed with a sum, and counts himself as an owner under the same lock, shares these contents and no others.
 *
 * Leader, in a transaction, thread-safe: counts are changed under a lock of their group, which is taken while inode locks are
 * held and is left before anything else is waited for but a read of metadata.
 */
#ifndef G4_SHARE_H
#define G4_SHARE_H

#include "alloc/alloc.h"
#include "format/owners.h"

/*
 * Metadata blocks that one call of the first two changes beside those that g4_alloc_publish() does: two pages, made, and that of buffered
 * owners.
 */
#define G4_SHARE_CREDITS 7u
/*
 * And of g4_share_release() beside those that g4_alloc_free() does: the allocation map, the page of shares, one of counts, that of buffered
 * owners, and for each quarter its page of sums. Any of them but the map may go, of which the allocation map and the descriptor may be
 * others'. What is empty goes in the transaction that empties it: no later one need come by.
 */
#define G4_SHARE_RELEASE_CREDITS(quarters) (10u + 3u * (quarters))
#define G4_SHARE_RELEASE_MOST G4_SHARE_RELEASE_CREDITS(G4_LISTING_QUARTERS)
/* Of so many pages of a region, wherever they begin. */
G4_FN G4_INLINE uint32_t g4_share_release_credits(uint64_t pages)
{
	const uint64_t quarters = (pages + G4_LISTING_PAGES - 2) / G4_LISTING_PAGES + 1;

	return G4_SHARE_RELEASE_CREDITS((uint32_t)g4_min64(quarters, G4_LISTING_QUARTERS));
}

/* And of g4_share_list(): the sums' page, made; that of the group, made; the map that leads to it. */
#define G4_LIST_CREDITS 7u

/*
 * Pages of one region that are in use get an owner more. -G4_E_NOSPC: there is no page for the counts; -G4_E_MLINK: one has as
 * many owners as can be counted; -G4_E_CORRUPT_MAP: one is not in use, or can be no file's. Nothing has changed then.
 */
G4_FN int g4_share_acquire(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address address,
			   uint64_t pages);
/* So many pages in a row are counted in the page of their region: of one that is settled a full buffer has no fewer. */
#define G4_SHARE_ROW (G4_BUFFERED_MOST / G4_GROUP_REGIONS)
/*
 * The same of fewer in a row, which are buffered where the feature is there: so pages that lie in many regions change a page for each group. How many of them,
 * from the first on, have an owner more.
 */
G4_FN int g4_share_acquire_few(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address address,
			       uint64_t pages);
/* The same as g4_share_acquire() where the pointer takes the place of one to other pages with the same contents, which so become free. */
G4_FN int g4_share_acquire_same(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address address,
				uint64_t pages);
/*
 * The same of a whole region by a large pointer (one to 2 MiB, or more), while another one leads there: where the feature is there, counted
 * in the group's page.
 */
G4_FN int g4_share_acquire_whole(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn,
				 struct g4_address address);
/*
 * Before a large pointer to a region becomes 512 to its pages. An owner that is counted for the region is counted for each of them then, for
 * which a page is taken from the *reserved ones, or from what is free. Changes two blocks, and makes one; -G4_E_NOSPC: nothing has changed.
 */
G4_FN int g4_share_divide(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address address,
			  uint64_t *reserved);
/*
 * The same of pages in a row, in one quarter of a region, that are listed with these sums in a domain; one alone with a `mark` that is not 0
 * was all the time since g4_share_mark() gave that. How many of them, from the first on, have an owner more now; -G4_E_AGAIN: that one is not
 * listed so, or that can not be read. Nothing has changed then.
 */
G4_FN int g4_share_acquire_listed(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn,
				  struct g4_address address, uint32_t pages, const struct g4_sum_entry *sums,
				  uint64_t domain, uint32_t mark);
/* The same of all pages of a region, which begins there: 0, and each has an owner more; or they are not all listed so, or an error, and nothing has changed. */
G4_FN int g4_share_acquire_listed_region(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn,
					 struct g4_address address, const struct g4_sum_entry *sums, uint64_t domain);
/*
 * The same of pages that may lie anywhere (alloc/listing.h), those in the quarter of `one`: of the `count` ones as many, from the first on, as are listed
 * so, all in one go; each->listed tells which of them. The end of what was looked at, which is `count` or one that is not listed; -G4_E_AGAIN: none can have an
 * owner more, and nothing has changed.
 */
struct g4_listing_each;
G4_FN int g4_share_acquire_each(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address one,
				uint32_t count, const uint64_t *places, const struct g4_sum_entry *sums,
				uint64_t domain, struct g4_listing_each *each);
/*
 * Pages of one region lose an owner; those that had one only are freed, and listed no more. Needs no space. What is empty of the group, the
 * region and the quarters that they lie in is freed as well.
 */
G4_FN int g4_share_release(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address address,
			   uint64_t pages);
/*
 * One owner less of a page of metadata, if it has several: 1. 0: it has one, the caller's, who frees what it stands for; nothing has changed.
 * Needs no space, and G4_SHARE_LEAVE_CREDITS.
 */
G4_FN int g4_share_leave(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address address);
#define G4_SHARE_LEAVE_CREDITS G4_SHARE_RELEASE_CREDITS(0)
/* Whether anything is shared in the groups that pages lie in: 0, 1, or an error. No transaction. */
G4_FN int g4_share_any(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_address address, uint64_t pages);

/* Whether the first of `*pages` pages of one region has several owners: 0, 1, or an error. *pages: so many of them are the same. No transaction. */
G4_FN int g4_share_several(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_address address, uint64_t *pages);

/*
 * What tells how many owners pages have is read into the cache, for all of them with a wait for each step on the way (maps, pages of shares, pages of counts),
 * G4_META_TOGETHER pages of metadata at a time. What the caller wants in `ahead` is read with the first of them. What can not be read is left to those who ask.
 * No transaction.
 */
G4_FN void g4_share_read_ahead(struct g4_wg *wg, struct g4_alloc *alloc, const struct g4_address *pages, uint32_t count,
			       struct g4_meta_ahead *ahead);

/* ---- listed pages. `sum`: a key (format/owners.h), which in no domain is G4_LISTING_SUM_BYTES of BLAKE3 ---- */
/*
 * In a transaction with G4_LIST_CREDITS: pages of a quarter of a region, written and of the caller's file alone, are listed with these
 * sums, in a domain, today (days since 1970). 1; G4_LIST_FULL: the quota has no room for their page of sums, and nothing is listed; 0: nor is it where there is no page for that, or what
 * leads there can not be read; or an error. What has to be made for it is made before the group's lock is taken.
 */
#define G4_LIST_FULL 2
G4_FN int g4_share_list(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address address,
			uint32_t pages, const struct g4_sum_entry *sums, uint64_t domain, uint32_t today);
/*
 * Before a page is looked for on the list, whose contents are compared then: what says later whether it is the same page still. It changes
 * also when some others are taken from the list. Never 0. No transaction, no lock.
 */
G4_FN G4_INLINE uint32_t *g4_share_mark_of(struct g4_alloc *alloc, struct g4_address address)
{
	return &alloc->unlisted[(g4_address_page(address) * UINT64_C(0x9e3779b97f4a7c15) >> 32) % G4_SHARE_MARKS];
}
G4_FN G4_INLINE uint32_t g4_share_mark(struct g4_alloc *alloc, struct g4_address address)
{
	return g4_load32_acq(g4_share_mark_of(alloc, address)) | 1;
}
/* How many of so many pages can be listed at a time: those of the quarter that the first lies in. */
G4_FN G4_INLINE uint64_t g4_share_list_part(struct g4_address address, uint64_t pages)
{
	return g4_min64(pages, G4_LISTING_PAGES - g4_address_page(address) % G4_LISTING_PAGES);
}
/* In a transaction: a page is listed no more. 0 also where it was not. Changes a block. */
G4_FN int g4_share_unlist(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address address);
/*
 * In a transaction with G4_SHARE_RELEASE_MOST: pages of a quarter of a group that one thing alone leads to, and that were listed on the day `last`
 * or before, are listed no more: the bits in `gone`. What can not be told from a page of sums that can not be read stays. And what is empty of its region goes,
 * which pages that were unlisted, or an older version, have left.
 */
#define G4_LISTING_ANY_DAY UINT64_MAX
G4_FN int g4_share_prune(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, uint64_t group, uint32_t quarter,
			 uint64_t last, uint64_t gone[G4_LISTING_PAGES / 64]);
/*
 * Of pages in a row, in one quarter of a region: how many, from the first on, are listed with these sums in a domain, now; or an error. No
 * transaction.
 */
G4_FN int g4_share_listed_row(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_address address, uint32_t pages,
			      const struct g4_sum_entry *sums, uint64_t domain);
/*
 * The same of pages that may lie anywhere (alloc/listing.h): of each that lies in the quarter of one of them. Where that can not be told none is listed. No
 * transaction.
 */
struct g4_listing_each;
G4_FN void g4_share_listed_each(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_address one, uint32_t count,
				const uint64_t *places, const struct g4_sum_entry *sums, uint64_t domain,
				struct g4_listing_each *each);
/*
 * The listed pages of a quarter (4 a region, from the first of the group on): bits of those that are, and where their sums are, or none.
 * -G4_E_NOENT: the group has none. No transaction.
 */
#define G4_LISTING_WORDS (G4_LISTING_PAGES / 64)
G4_FN int g4_share_listed(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t group, uint32_t quarter,
			  uint64_t bits[G4_LISTING_WORDS], struct g4_address *sums);
/* The same with the sums themselves, where there are any. */
G4_FN int g4_share_listed_sums(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t group, uint32_t quarter,
			       uint64_t bits[G4_LISTING_WORDS], struct g4_listing_page *to);

/* The group's pages of sums are counted (quota.h); what can not be read keeps its bound. No transaction. */
G4_FN void g4_share_count_listings(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t group);

/* ---- for a scrub. No transaction ---- */
/* Places of a group's pages: that of shares, then each region's page of owners, and of sums, then that of buffered owners. */
#define G4_SHARE_PLACES (2u + G4_GROUP_REGIONS * (1u + G4_LISTING_QUARTERS))
/* What is at the n-th place now, and where; -G4_E_NOENT: nothing; or an error, where what leads there can not be read. */
G4_FN int g4_share_place(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t group, uint32_t n,
			 struct g4_address *address, uint32_t *type);
/* In a transaction with a credit: what is at the n-th place is written anew, to all copies. */
G4_FN int g4_share_rewrite(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, uint64_t group, uint32_t n);

#endif
