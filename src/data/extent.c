/* SPDX-License-Identifier: Apache-2.0 */
/* Ownership of space. Crash at any line: the pointer and its space change in one transaction. */
#include "data/extent.h"
#include "alloc/count.h"
#include "inode/txn.h"

#define EXTEND_CREDITS 32u /* that are asked for at a time */

G4_FN static bool may_share(const struct g4_fs *fs)
{
	return (g4_load64_acq(&fs->super.features_incompat) & G4_FEATURE_INCOMPAT_SHARED) != 0;
}

G4_FN bool g4_extent_credits(const struct g4_fs *fs, struct g4_txn *txn, uint32_t extents, uint64_t pages, bool shares,
			     uint64_t goes, uint32_t more)
{
	uint32_t credits = (uint32_t)G4_EXTENT_CREDITS(extents, pages) + more;

	if (shares)
		credits += G4_SHARE_CREDITS;
	if (goes > 0 && may_share(fs))
		credits += g4_share_release_credits(goes);

	return txn->credits >= credits || g4_txn_extend(txn, credits > EXTEND_CREDITS ? credits : EXTEND_CREDITS);
}

G4_FN int g4_extent_acquire(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_address address,
			    uint64_t pages)
{
	return g4_alloc_publish(wg, &fs->alloc, txn, address, pages);
}

G4_FN int g4_extent_release(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_address address,
			    uint64_t pages)
{
	const int shared = g4_extent_is_shared(wg, fs, address, pages);

	if (shared < 0)
		return shared;
	return shared ? g4_share_release(wg, &fs->alloc, txn, address, pages) :
			g4_alloc_free(wg, &fs->alloc, txn, address, pages);
}

G4_FN int g4_extent_share(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_address address,
			  uint64_t pages)
{
	return g4_share_acquire(wg, &fs->alloc, txn, address, pages);
}

G4_FN int g4_extent_share_few(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_address address,
			      uint64_t pages)
{
	return g4_share_acquire_few(wg, &fs->alloc, txn, address, pages);
}

G4_FN int g4_extent_share_same(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_address address,
			       uint64_t pages)
{
	return g4_share_acquire_same(wg, &fs->alloc, txn, address, pages);
}

G4_FN int g4_extent_share_whole(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_address address)
{
	return g4_share_acquire_whole(wg, &fs->alloc, txn, address);
}

G4_FN int g4_extent_divide(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			   struct g4_address address)
{
	return g4_share_divide(wg, &fs->alloc, txn, address, &inode->map_reservation);
}

G4_FN uint64_t g4_extent_divide_pages(const struct g4_fs *fs, uint64_t page, uint64_t pages)
{
	if (!g4_load32_acq(&fs->alloc.counts_regions))
		return 0;
	const uint64_t each = 1 + (g4_extent_shares_rows(fs) ? G4_SUMS_QUARTERS : 0);

	return ((page + pages - 1) / G4_INDIRECT_SLOTS - page / G4_INDIRECT_SLOTS + 1) * each;
}

/* So many pages from the first on, `most` at most, are no suspects. */
G4_FN static uint64_t without_suspects(struct g4_fs *fs, struct g4_address address, uint64_t most)
{
	uint64_t count = 0;

	if (!g4_load32_acq(&fs->ddt.has_suspects))
		return most;
	while (count < most && !g4_ddt_is_suspect(&fs->ddt, g4_address_after_pages(address, count)))
		count++;
	return count;
}

/* No page for counts, too many owners, or freed: nothing has changed. Behind any other error something may be half done. */
G4_FN static int again_if_unchanged(int rc)
{
	return rc == -G4_E_NOSPC || rc == -G4_E_MLINK || rc == -G4_E_CORRUPT_MAP ? -G4_E_AGAIN : rc;
}

G4_FN int g4_extent_share_found(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_address address,
				uint64_t pages, const struct g4_sum_entry *sums, uint64_t domain, uint32_t mark)
{
	const struct g4_listing_key key = g4_listing_key(sums, domain);
	const uint64_t whole = without_suspects(fs, address, g4_share_list_part(address, mark != 0 ? 1 : pages));
	const int rc = whole == 0 ? -G4_E_AGAIN :
				    again_if_unchanged(g4_share_acquire_listed(wg, &fs->alloc, txn, address,
									       (uint32_t)whole, sums, domain, mark));

	if (rc == -G4_E_AGAIN)
		g4_ddt_remove(&fs->ddt, key.bytes, address, true);
	return rc;
}

G4_FN int g4_extent_share_found_large(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_address address,
				      const struct g4_sum_entry *sums, uint64_t domain)
{
	/* whoever shares them part by part learns which hint is wrong */
	if (without_suspects(fs, address, G4_REGION_PAGES) < G4_REGION_PAGES)
		return -G4_E_AGAIN;
	return again_if_unchanged(g4_share_acquire_listed_region(wg, &fs->alloc, txn, address, sums, domain));
}

/*
 * Nobody shares the file's pages meanwhile: that takes the lock of an inode that leads to them, or they are listed, or there are
 * others already. What is listed is in a group that has a page of shares.
 */
G4_FN int g4_extent_is_shared(struct g4_wg *wg, struct g4_fs *fs, struct g4_address address, uint64_t pages)
{
	if (!may_share(fs))
		return 0;
	return g4_share_any(wg, &fs->alloc, address, pages);
}

G4_FN int g4_extent_has_several(struct g4_wg *wg, struct g4_fs *fs, struct g4_address address, uint64_t *pages)
{
	if (may_share(fs))
		return g4_share_several(wg, &fs->alloc, address, pages);
	const int rc = g4_alloc_look(wg, &fs->alloc, address);
	return g4_alloc_is_unreadable(rc) ? rc : 0; /* whoever frees it is told what else is wrong */
}

G4_FN int g4_node_acquire(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			  struct g4_address *address)
{
	const bool reserved = inode->map_reservation > 0;
	int rc = reserved ? g4_alloc_reserved_metadata(wg, &fs->alloc, txn, address) :
			    g4_alloc_metadata(wg, &fs->alloc, txn, address);

	if (rc < 0)
		return rc;
	inode->map_reservation -= reserved;
	inode->disk.pages++;
	return 0;
}

G4_FN int g4_nodes_acquire(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			   uint32_t count, struct g4_address *first)
{
	const bool reserved = inode->map_reservation >= count;
	int rc = g4_alloc_metadata_row(wg, &fs->alloc, txn, reserved, count, first);

	if (rc < 0)
		return rc;
	inode->map_reservation -= reserved ? count : 0;
	inode->disk.pages += count;
	return 0;
}

G4_FN int g4_nodes_acquire_spare(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
				 uint32_t count, struct g4_address *first)
{
	if (!g4_alloc_reserve(&fs->alloc, count))
		return -G4_E_NOSPC;
	const int rc = g4_alloc_metadata_row(wg, &fs->alloc, txn, true, count, first);
	if (rc < 0)
		g4_alloc_unreserve(&fs->alloc, count);
	else
		inode->disk.pages += count;
	return rc;
}

G4_FN int g4_node_release(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			  struct g4_address address)
{
	int rc = g4_alloc_free_metadata(wg, &fs->alloc, txn, address);

	if (rc == 0)
		inode->disk.pages--;
	return rc;
}
