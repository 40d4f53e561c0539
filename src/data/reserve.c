/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Space for what will be written.
 *
 * What a dirty page may need is reserved when it becomes dirty and recorded in its line: the page and an indirect page of
 * every level above it, a page of sums, and what dividing a large pointer may take, for a map that is high enough for all dirty pages. Making the map that high puts a chain of
 * indirect pages above what is mapped by then, one chain for all of them: the in-core inode's growth_reservation, kept as long as
 * anything is dirty, so that it matters neither in which order the pages are published nor which of them are dropped.
 * Callers that make the map higher with a reservation of their own (g4_reserve_direct(), fallocate) write the dirty pages back first.
 */
#include "data/reserve.h"
#include "data/batch.h"
#include "data/dirty.h"
#include "data/extent.h"
#include "data/map.h"
#include "data/writeback.h"
#include "inode/txn.h"

struct reservation {
	uint32_t pool;
	uint32_t pooled; /* pages of that pool, where it is not that of all; else 0, and they are some of the others */
	uint32_t pages;	 /* the page's own */
	uint32_t growth; /* the in-core inode's */
	uint32_t height;
};

G4_FN static struct reservation reservation_for(const struct g4_fs *fs, const struct g4_inode_core *inode,
						uint64_t page)
{
	const bool sums = g4_sums_algorithm(fs, inode->disk.policy) != G4_CHECKSUM_NONE || g4_sums_own(inode);
	uint32_t height = inode->disk.map_height > inode->dirty_height ? inode->disk.map_height : inode->dirty_height;
	const uint32_t pool = g4_file_pool(fs, inode), pooled = pool != G4_LEVEL_OWN;
	struct reservation reservation = {pool, pooled, 1 - pooled, 0, g4_map_height_for(page)};

	if (reservation.height > height)
		reservation.growth = reservation.height - height + sums;
	reservation.pages += height + reservation.growth + sums + (uint32_t)g4_extent_divide_pages(fs, page, 1);
	return reservation;
}

/* Pages of all, and some of a pool; both, or neither. */
G4_FN static bool reserve(struct g4_fs *fs, uint64_t pages, uint32_t pool, uint64_t pooled)
{
	if (pooled > 0 && !g4_alloc_reserve_in(&fs->alloc, pool, pooled))
		return false;
	if (g4_alloc_reserve(&fs->alloc, pages))
		return true;
	if (pooled > 0)
		g4_alloc_unreserve_in(&fs->alloc, pool, pooled);
	return false;
}

G4_FN int g4_make_room(struct g4_wg *wg, struct g4_fs *fs, uint32_t index)
{
	int rc = g4_writeback_mapped(wg, fs, index);

	if (rc == 0 && g4_load64_acq(&fs->alloc.pending_pages))
		rc = g4_commit(wg, fs, UINT64_MAX, false);
	return rc;
}

G4_FN int g4_own_for(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, const struct g4_change *change)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	int rc = g4_map_own_for(wg, fs, inode, change);

	if (rc != -G4_E_NOSPC)
		return rc;
	rc = g4_make_room(wg, fs, index);
	return rc < 0 ? rc : g4_map_own_for(wg, fs, inode, change);
}

G4_FN int g4_own_pages(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t page, uint64_t pages)
{
	const struct g4_change change = {G4_CHANGE_EACH, page, pages > UINT64_MAX - page ? UINT64_MAX : page + pages, 0,
					 0};

	return g4_own_for(wg, fs, index, &change);
}

G4_FN int g4_own_ends(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t page, uint64_t end)
{
	const struct g4_change change = {G4_CHANGE_GO, page, end, 0, 0};

	return g4_own_for(wg, fs, index, &change);
}

/*
 * Without any reservation: whether page `page` and up to *pages after it have space already, which was never written, and their sums,
 * where they are to have some.
 */
G4_FN static int is_allocated(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
			      uint64_t *pages)
{
	struct g4_run run;
	uint64_t ready = 0;
	int rc = g4_map_lookup(wg, fs, inode, page, *pages, &run);

	if (rc < 0 || run.kind != G4_UNWRITTEN)
		return rc < 0 ? rc : -G4_E_NOSPC;
	while (g4_sums_wanted(fs, inode) && ready < run.pages) {
		uint64_t more = run.pages - ready;
		rc = g4_map_sums_ready(wg, fs, inode, page + ready, &more);
		if (rc <= 0)
			break;
		ready += more;
	}
	*pages = g4_sums_wanted(fs, inode) ? ready : run.pages;
	return *pages > 0 ? 0 : rc < 0 ? rc : -G4_E_NOSPC;
}

G4_FN static int reserve_page(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint32_t line)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	const uint64_t page = fs->cache.lines[line].index;
	struct reservation reservation = reservation_for(fs, inode, page);
	uint64_t one = 1;

	if (g4_sums_algorithm(fs, inode->disk.policy) == G4_CHECKSUM_UNKNOWN)
		return -G4_E_POLICY;
	if (!reserve(fs, reservation.pages + reservation.growth, reservation.pool, reservation.pooled)) {
		int rc = g4_make_room(wg, fs, index);
		if (rc < 0)
			return rc;
		reservation = reservation_for(fs, inode, page);
		if (!reserve(fs, reservation.pages + reservation.growth, reservation.pool, reservation.pooled)) {
			rc = is_allocated(wg, fs, inode, page, &one);
			if (rc < 0)
				return rc;
			reservation.pages = reservation.growth = reservation.pooled = 0;
		}
	}
	g4_data_line(&fs->cache, line)->reservation = (uint8_t)reservation.pages;
	g4_data_line(&fs->cache, line)->pooled = (uint8_t)reservation.pooled;
	inode->growth_reservation += reservation.growth;
	if (reservation.height > inode->dirty_height)
		inode->dirty_height = reservation.height;
	return 0;
}

G4_FN int g4_page_dirty(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint32_t line)
{
	if (g4_data_line(&fs->cache, line)->dirty)
		return 0;
	int rc = g4_own_pages(wg, fs, index, fs->cache.lines[line].index, 1);
	if (rc == 0)
		rc = reserve_page(wg, fs, index, line);
	if (rc == 0)
		g4_dirty_add(fs, index, line);
	return rc;
}

/*
 * What writing pages in a row may take: themselves, the indirect pages that they hang from and pages of sums of these, growth, where
 * sums of before go, and a slab for those of the inode's slots.
 */
G4_FN static uint64_t direct_reservation(const struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
					 uint64_t pages)
{
	const bool sums = g4_sums_algorithm(fs, inode->disk.policy) != G4_CHECKSUM_NONE || g4_sums_own(inode);
	uint32_t old = inode->disk.map_height, height = g4_map_height_for(page + pages - 1);
	uint64_t growth = height > old ? height - old : 0, paths = 0;

	for (uint32_t level = 1; level <= old + growth; level++) {
		const uint32_t quarter = 9 * level - 2; /* log2 of the pages that have their entries in one page */
		paths += ((page + pages - 1) >> (9 * level)) - (page >> (9 * level)) + 1;
		paths += sums ? ((page + pages - 1) >> quarter) - (page >> quarter) + 1 : 0;
	}
	return pages + paths + growth + (sums ? 2 : 0) + g4_extent_divide_pages(fs, page, pages);
}

/* With what is of a pool of its own reserved there, and not in what all have. */
G4_FN static bool reserve_direct(struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page, uint64_t pages,
				 uint64_t *reserved, uint64_t *pooled)
{
	const uint32_t pool = g4_file_pool(fs, inode);

	*pooled = pool != G4_LEVEL_OWN ? pages : 0;
	*reserved = direct_reservation(fs, inode, page, pages) - *pooled;
	if (reserve(fs, *reserved, pool, *pooled))
		return true;
	*reserved = *pooled = 0;
	return false;
}

G4_FN int g4_reserve_direct(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t page, uint64_t *pages,
			    uint64_t *reserved, uint64_t *pooled)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	bool grows = g4_map_height_for(page + *pages - 1) > inode->disk.map_height;
	int rc = grows ? g4_writeback_mapped(wg, fs, index) : 0;

	if (rc == 0)
		rc = g4_own_pages(wg, fs, index, page, *pages);
	if (rc == -G4_E_NOSPC) { /* there may be room for one copy at each level */
		*pages = g4_min64(*pages, G4_INDIRECT_SLOTS - page % G4_INDIRECT_SLOTS);
		rc = g4_own_pages(wg, fs, index, page, *pages);
	}
	if (rc < 0)
		return rc;
	if (reserve_direct(fs, inode, page, *pages, reserved, pooled))
		return 0;
	if (*pages > G4_BATCH_PAGES) { /* what is left may be enough for a part, and that needs no commit */
		*pages = G4_BATCH_PAGES;
		if (reserve_direct(fs, inode, page, *pages, reserved, pooled))
			return 0;
	}
	rc = g4_make_room(wg, fs, index);
	if (rc < 0)
		return rc;
	if (reserve_direct(fs, inode, page, *pages, reserved, pooled))
		return 0;
	return is_allocated(wg, fs, inode, page, pages);
}

G4_FN int g4_reserve_staged(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t page, uint64_t *pages,
			    uint64_t *reserved, uint64_t *pooled)
{
	const uint64_t most = g4_min64(*pages, G4_BATCH_PAGES);
	int rc = g4_reserve_direct(wg, fs, index, page, pages, reserved, pooled);

	for (uint64_t n = most / 2; n > 0 && rc == -G4_E_NOSPC; n /= 2)
		if (g4_map_own(wg, fs, g4_icache_at(fs, index), page, page + n) == 0 &&
		    reserve_direct(fs, g4_icache_at(fs, index), page, n, reserved, pooled)) {
			*pages = n;
			rc = 0;
		}
	return rc;
}

G4_FN int g4_reserve_elsewhere(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t page, uint64_t *pages,
			       uint64_t *reserved, uint64_t *pooled)
{
	const int rc = g4_reserve_direct(wg, fs, index, page, pages, reserved, pooled);

	return rc == 0 && *reserved + *pooled == 0 ? -G4_E_NOSPC : rc;
}
