/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of files: fallocate(2), holes, and looking for them. */
#include "data/batch.h"
#include "data/dirty.h"
#include "data/file.h"
#include "data/map.h"
#include "data/map_own.h"
#include "data/reserve.h"
#include "data/restripe.h"
#include "data/sums.h"
#include "data/write.h"
#include "data/writeback.h"
#include "inode/inode.h"
#include "inode/times.h"
#include "inode/txn.h"

/* What a range may take until all of it has space. */
struct need {
	uint64_t pages; /* of holes */
	uint64_t sums;	/* pages for the sums that they will have, and those of space that is there */
	uint64_t nodes; /* indirect pages */
};

/* Pages of sums for pages from `page` to `end`, each counted once: *next is the quarter behind the last one that was looked at. */
G4_FN static void count_quarters(uint64_t page, uint64_t end, uint64_t *next, struct need *need)
{
	const uint64_t first = g4_max64(page / G4_SUMS_SLOTS, *next), behind = (end - 1) / G4_SUMS_SLOTS + 1;

	need->sums += behind > first ? behind - first : 0;
	*next = g4_max64(*next, behind);
}

/* Of a run in one array of pointers: those that are not there. */
G4_FN static int count_missing(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
			       uint64_t pages, uint64_t *next, struct need *need)
{
	int rc = 0;

	for (uint64_t done = 0, some; done < pages && rc >= 0; done += some) {
		some = pages - done;
		rc = g4_map_sums_ready(wg, fs, inode, page + done, &some);
		if (rc == 0)
			count_quarters(page + done, page + done + some, next, need);
	}
	return rc < 0 ? rc : 0;
}

/* Indirect pages below a slot that covers pages of `level`, for pages from `page` to `end`, each counted once: *counted is as *next. */
G4_FN static void count_nodes(uint64_t page, uint64_t end, uint32_t level, uint64_t *counted, struct need *need)
{
	for (uint32_t l = 1; l <= level; l++) {
		const uint64_t first = g4_max64(page >> (9 * l), counted[l]), behind = ((end - 1) >> (9 * l)) + 1;
		need->nodes += behind > first ? behind - first : 0;
		counted[l] = g4_max64(counted[l], behind);
	}
}

/* What has gone, by then, of the pages that are to have space. */
enum goes {
	NOTHING_GOES,
	SHARED_GOES, /* what others have as well of those from `first` to `last`, which gives no space back */
	ALL_GOES     /* all of these */
};
struct range {
	uint64_t page, end, first, last;
	enum goes goes;
};

/*
 * Of a run that goes: *away: as a hole of the highest level of which others have an indirect page, with all below it. Else whether it takes other pages than
 * those that it gives back.
 */
G4_FN static int look_at_going(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page,
			       enum goes goes, struct g4_run *run, bool *away)
{
	int rc = g4_map_way_is_shared(wg, fs, inode, page);

	*away = rc > 0;
	if (rc == 0 && goes == SHARED_GOES)
		rc = g4_map_is_shared(wg, fs, inode, page, run);
	else if (rc == 0)
		rc = 1;
	return rc;
}

G4_FN static int count_needs(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, const struct range *range,
			     struct need *need)
{
	const uint32_t old = inode->disk.map_height, height = g4_map_height_for(range->end - 1);
	const uint64_t room = g4_map_capacity_pages(old);
	const bool sums = g4_sums_wanted(fs, inode);
	uint64_t next = 0, counted[G4_MAP_MAX_HEIGHT + 1] = {0};
	bool changes = false;
	struct g4_run run;
	int rc = 0;

	memset(need, 0, sizeof(*need));
	for (uint64_t page = range->page; page < range->end && rc >= 0; page += run.pages) {
		const bool goes = range->goes != NOTHING_GOES && page >= range->first && page < range->last;
		bool away = false;
		rc = g4_map_lookup(wg, fs, inode, page,
				   (goes		? range->last :
				    page < range->first ? range->first :
							  range->end) -
					   page,
				   &run);
		if (rc < 0)
			break;
		if (page < room) /* behind it no array has a slot */
			run.pages = g4_min64(run.pages, room - page);
		if (goes && page < room)
			rc = look_at_going(wg, fs, inode, page, range->goes, &run, &away);
		if (rc < 0)
			break;
		const bool hole = run.kind == G4_HOLE;
		need->pages += hole || rc > 0 ? run.pages : 0;
		changes |= goes || run.kind != G4_WRITTEN;
		if (page >= room || run.level > 0 || away) {
			const uint32_t level = page >= room ? height :
					       away	    ? (uint32_t)g4_max64(run.level, G4_SHARED_MAP_LEVEL) :
							      run.level;
			if (hole || rc > 0)
				count_nodes(page, page + run.pages, level, counted, need);
			if ((hole || rc > 0) && sums)
				count_quarters(page, page + run.pages, &next, need);
		} else if (old > 0 && sums && (goes || run.kind != G4_WRITTEN)) {
			rc = count_missing(wg, fs, inode, page, run.pages, &next, need);
		}
	}
	/* what is mapped moves below a chain of new indirect pages; what the inode has of sums, to a page or a block */
	need->nodes += height > old ? height - old : 0;
	need->sums += old == 0 && changes && (sums || g4_sums_own(inode)) ? 1 : 0;
	return rc < 0 ? rc : 0;
}

/*
 * Reserves what a range needs beyond what is reserved for it already: fallocate gives all or nothing. What maps it, which only few
 * pages are that are needed now, may be of what is kept for that (g4_alloc_keep()); sums may not, since there are four times as many.
 */
G4_FN static int reserve_needs(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, const struct range *range,
			       bool makes_room, struct need *reserved)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	const uint32_t pool = g4_file_pool(fs, inode);
	struct need need;

	for (uint32_t tries = !makes_room;; tries++) {
		int rc = count_needs(wg, fs, inode, range, &need);
		if (rc < 0)
			return rc;
		need.pages = g4_max64(need.pages, reserved->pages);
		need.sums = g4_max64(need.sums, reserved->sums);
		need.nodes = g4_max64(need.nodes, reserved->nodes);
		const uint64_t pages = need.pages - reserved->pages;
		const bool pooled = pool != G4_LEVEL_OWN;
		if (!pooled || g4_alloc_reserve_in(&fs->alloc, pool, pages)) {
			if (g4_alloc_reserve_mapped(&fs->alloc, (pooled ? 0 : pages) + need.sums - reserved->sums,
						    need.nodes - reserved->nodes)) {
				*reserved = need;
				return 0;
			}
			if (pooled)
				g4_alloc_unreserve_in(&fs->alloc, pool, pages);
		}
		rc = tries ? -G4_E_NOSPC : g4_make_room(wg, fs, index);
		if (rc < 0)
			return rc;
	}
}

/*
 * The same of pages that go first: for all of them, so that nobody else gets what they give back; where there is not as much, for those that give
 * nothing back, which others have as well.
 */
G4_FN static int reserve_again(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, struct range *range,
			       struct need *reserved)
{
	range->goes = ALL_GOES;
	int rc = reserve_needs(wg, fs, index, range, false, reserved);
	range->goes = SHARED_GOES;
	if (rc == -G4_E_NOSPC)
		rc = reserve_needs(wg, fs, index, range, true, reserved);
	range->goes = NOTHING_GOES;
	return rc;
}

/* Maps space that is claimed, or that is there and gets a place for its sums. From the reservation, which shrinks. */
G4_FN static int map_unwritten(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page,
			       struct g4_address address, uint64_t pages, struct need *reserved, uint64_t *done)
{
	struct g4_txn txn;
	int rc = g4_begin(wg, fs, g4_map_credits(fs), &txn);

	if (rc < 0)
		return rc;
	inode->map_reservation = reserved->nodes + reserved->sums;
	rc = g4_map_set(wg, fs, &txn, inode, page, address, pages, false, NULL, done);
	reserved->nodes = inode->map_reservation;
	reserved->sums = 0; /* from now on they are one */
	inode->map_reservation = 0;
	int logged = rc == 0 || txn.changed ? g4_inode_log(wg, fs, &txn, inode) : 0;
	return g4_end(fs, &txn, rc < 0 ? rc : logged);
}

G4_FN int g4_restripe_unwritten(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t page, uint64_t pages,
				uint64_t *done)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	const uint32_t pool = g4_file_pool(fs, inode);
	uint64_t reserved, pooled, got;
	struct g4_address address;

	int rc = g4_reserve_elsewhere(wg, fs, index, page, &pages, &reserved, &pooled);
	if (rc < 0)
		return rc;
	struct need need = {0, 0, reserved};
	rc = g4_place_unwritten(wg, fs, inode, pages, &address, &got);
	if (rc == 0) {
		*(pool == G4_LEVEL_OWN ? &need.nodes : &pooled) -= got;
		rc = map_unwritten(wg, fs, inode, page, address, got, &need, done);
		if (*done < got)
			g4_alloc_release(&fs->alloc, g4_address_after_pages(address, *done), got - *done);
		inode->next_goal = g4_address_after_pages(address, *done);
	}
	g4_alloc_unreserve(&fs->alloc, need.nodes);
	g4_alloc_unreserve_in(&fs->alloc, pool, pooled);
	return rc == 0 && *done == 0 ? -G4_E_JOURNAL_FULL : rc;
}

/* Space that was there before: *pages of it have places for their sums now. */
G4_FN static int prepare_sums(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page,
			      const struct g4_run *run, struct need *reserved, uint64_t *pages)
{
	*pages = run->pages;
	int rc = g4_map_sums_ready(wg, fs, inode, page, pages);

	if (rc != 0)
		return rc < 0 ? rc : 0;
	return map_unwritten(wg, fs, inode, page, run->address, *pages, reserved, pages);
}

/* From the reservation, which shrinks. */
G4_FN static int allocate_holes(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t page, uint64_t end,
				struct need *reserved)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	/* what is dirty has space reserved for the map as it is */
	int rc = g4_map_height_for(end - 1) > inode->disk.map_height ? g4_writeback_mapped(wg, fs, index) : 0;

	while (page < end && rc == 0) {
		struct g4_address address;
		uint64_t got, done = 0;
		struct g4_run run;

		rc = g4_map_lookup(wg, fs, inode, page, end - page, &run);
		if (rc < 0)
			break;
		if (run.kind != G4_HOLE) {
			got = run.pages;
			if (run.kind == G4_UNWRITTEN && run.level == 0 && g4_sums_wanted(fs, inode))
				rc = prepare_sums(wg, fs, inode, page, &run, reserved, &got);
			page += got;
			continue;
		}
		rc = g4_place_unwritten(wg, fs, inode, g4_min64(run.pages, reserved->pages), &address, &got);
		if (rc < 0)
			break;
		reserved->pages -= got;
		rc = map_unwritten(wg, fs, inode, page, address, got, reserved, &done);
		if (done < got) { /* the reservation holds again */
			g4_alloc_release(&fs->alloc, g4_address_after_pages(address, done), got - done);
			g4_alloc_reserve_again(&fs->alloc, g4_file_pool(fs, inode), got - done);
			reserved->pages += got - done;
		}
		inode->next_goal = g4_address_after_pages(address, done);
		page += done;
	}
	return rc;
}

G4_FN static bool is_dirty(struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page)
{
	const uint32_t line = g4_cache_find(&fs->cache, inode->data_key, page);

	if (line == G4_NO_LINE)
		return false;
	const bool dirty = g4_data_line(&fs->cache, line)->dirty;
	g4_cache_put(&fs->cache, line);
	return dirty;
}

/* Zeros part of a page, if there is anything but zeros; without `apply` it only makes sure that there is space for it. */
G4_FN static int zero_part(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t from, uint64_t end, bool apply)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	uint64_t page = from >> G4_PAGE_SHIFT;
	struct g4_run run;

	end = g4_min64(end, inode->size);
	if (from >= end)
		return 0;
	if (!is_dirty(fs, inode, page)) { /* a hole that was read is no contents */
		int rc = g4_map_lookup(wg, fs, inode, page, 1, &run);
		if (rc < 0 || run.kind != G4_WRITTEN)
			return rc;
	}
	return g4_page_write(wg, fs, index, page, from & (G4_PAGE_BYTES - 1), NULL, apply ? end - from : 0);
}

/* Makes sure that there is space for the parts of pages at both ends of a hole. Making room for the one may write the other back, which then has none. */
G4_FN static int prepare_ends(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t offset, uint64_t first,
			      uint64_t last, uint64_t end)
{
	const struct g4_inode_core *inode = g4_icache_at(fs, index);
	const uint64_t first_end = first << G4_PAGE_SHIFT, last_begin = last << G4_PAGE_SHIFT;

	int rc = zero_part(wg, fs, index, offset, first_end, false);
	const bool has_first = rc == 0 && offset < first_end && is_dirty(fs, inode, first - 1);
	if (rc == 0)
		rc = zero_part(wg, fs, index, last_begin, end, false);
	if (rc < 0 || !has_first || is_dirty(fs, inode, first - 1))
		return rc;
	const bool has_last = last_begin < end && is_dirty(fs, inode, last);
	rc = zero_part(wg, fs, index, offset, first_end, false);
	return rc == 0 && has_last && !is_dirty(fs, inode, last) ? -G4_E_NOSPC : rc;
}

G4_FN static int punch(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t offset, uint64_t end)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	uint64_t first = g4_pages_for(offset), last = end >> G4_PAGE_SHIFT, next;
	int rc = 0;

	if (first > last) /* inside one page */
		return zero_part(wg, fs, index, offset, end, true);
	/* what may find no space comes before what changes anything */
	rc = prepare_ends(wg, fs, index, offset, first, last, end);
	for (next = first; next < last && rc == 0;) {
		uint64_t cleared = next;
		struct g4_txn txn;
		rc = g4_begin(wg, fs, 2 * G4_MAP_CREDITS, &txn);
		if (rc < 0)
			break;
		rc = g4_map_dig(wg, fs, &txn, inode, next, last, &next);
		int logged = rc == 0 || txn.changed ? g4_inode_log(wg, fs, &txn, inode) : 0;
		rc = g4_end(fs, &txn, rc < 0 ? rc : logged);
		if (rc < 0)
			break;
		uint64_t end_page = g4_min64(next, last);
		g4_drop_dirty(fs, index, cleared, end_page);
		g4_cache_drop_range(&fs->cache, inode->data_key, cleared,
				    g4_min64(end_page, g4_pages_for(inode->size)));
	}
	if (rc == 0)
		rc = zero_part(wg, fs, index, offset, first << G4_PAGE_SHIFT, true);
	if (rc == 0)
		rc = zero_part(wg, fs, index, last << G4_PAGE_SHIFT, end, true);
	return rc;
}

G4_FN int g4_file_check_range(uint32_t mode, uint64_t offset, uint64_t bytes)
{
	const uint32_t shift = G4_FALLOC_INSERT_RANGE | G4_FALLOC_COLLAPSE_RANGE;
	bool keep = mode & G4_FALLOC_KEEP_SIZE;

	if (mode & ~(G4_FALLOC_KEEP_SIZE | G4_FALLOC_PUNCH_HOLE | G4_FALLOC_ZERO_RANGE | shift))
		return -G4_E_NOTSUP;
	if ((mode & shift) && (mode & (mode - 1))) /* they go with nothing else */
		return -G4_E_INVAL;
	if ((mode & G4_FALLOC_PUNCH_HOLE) && (!keep || (mode & G4_FALLOC_ZERO_RANGE)))
		return -G4_E_NOTSUP;
	if (bytes == 0 || offset > G4_FILE_MAX_BYTES)
		return -G4_E_INVAL;
	return bytes > G4_FILE_MAX_BYTES - offset ? -G4_E_FBIG : 0;
}

/* What is to get space: pages that were written have it, and what is shared there stays as it is. */
G4_FN static int own_holes(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t page, uint64_t end)
{
	const struct g4_inode_core *inode = g4_icache_at(fs, index);
	struct g4_run run;
	int rc = 0;

	if (!g4_map_may_share(inode))
		return 0;
	for (; page < end && rc == 0; page += run.pages) {
		rc = g4_map_lookup(wg, fs, inode, page, end - page, &run);
		if (rc == 0 && run.kind != G4_WRITTEN)
			rc = g4_own_pages(wg, fs, index, page, run.pages);
	}
	return rc;
}

/* What the range changes before anything does: of pages from `page` to `end`, those from `first` to `last` whole. */
G4_FN static int own_range(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint32_t mode, uint64_t page,
			   uint64_t first, uint64_t last, uint64_t end)
{
	const struct g4_change renew = {G4_CHANGE_RENEW, first, last, 0, 0};
	int rc;

	if (mode & G4_FALLOC_PUNCH_HOLE)
		return g4_own_ends(wg, fs, index, first, last);
	if (!(mode & G4_FALLOC_ZERO_RANGE) || first >= last)
		return own_holes(wg, fs, index, page, end);
	rc = g4_own_for(wg, fs, index, &renew);
	if (rc == 0)
		rc = own_holes(wg, fs, index, page, first);
	return rc == 0 ? own_holes(wg, fs, index, last, end) : rc;
}

G4_FN int g4_file_allocate(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint32_t mode, uint64_t offset,
			   uint64_t bytes)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	bool keep = mode & G4_FALLOC_KEEP_SIZE, allocates = !(mode & G4_FALLOC_PUNCH_HOLE);
	uint64_t end = offset + bytes, page = offset >> G4_PAGE_SHIFT, end_page = g4_pages_for(end);
	struct range range = {page, end_page, g4_pages_for(offset), end >> G4_PAGE_SHIFT, NOTHING_GOES};
	struct need reserved = {0, 0, 0};
	int rc;

	if (mode & (G4_FALLOC_INSERT_RANGE | G4_FALLOC_COLLAPSE_RANGE)) {
		rc = g4_file_shift(wg, fs, index, mode, offset, bytes);
		if (rc == 0)
			g4_touch(fs, index, true, true);
		return g4_check(fs, rc);
	}
	rc = g4_inline_leave(wg, fs, index);
	if (rc == 0)
		rc = own_range(wg, fs, index, mode, page, range.first, range.last, end_page);
	if (rc == 0 && (mode & G4_FALLOC_ZERO_RANGE) &&
	    range.first <= range.last) /* what is reserved for the rest takes no room from these */
		rc = prepare_ends(wg, fs, index, offset, range.first, range.last, end);
	if (rc == 0 && allocates) /* before anything changes */
		rc = (mode & G4_FALLOC_ZERO_RANGE) ? reserve_again(wg, fs, index, &range, &reserved) :
						     reserve_needs(wg, fs, index, &range, true, &reserved);
	if (rc == 0 && (mode & (G4_FALLOC_PUNCH_HOLE | G4_FALLOC_ZERO_RANGE)))
		rc = punch(wg, fs, index, offset, end);
	if (rc == 0 && (mode & G4_FALLOC_ZERO_RANGE)) /* what it has freed */
		rc = reserve_needs(wg, fs, index, &range, true, &reserved);
	if (rc == 0 && allocates)
		rc = allocate_holes(wg, fs, index, page, end_page, &reserved);
	g4_alloc_unreserve_in(&fs->alloc, g4_file_pool(fs, inode), reserved.pages);
	g4_alloc_unreserve(&fs->alloc, reserved.sums + reserved.nodes);
	if (rc == 0 && !keep && end > inode->size)
		rc = g4_file_grow(wg, fs, index, end);
	if (rc == 0)
		g4_touch(fs, index, true, true);
	return g4_check(fs, rc);
}

G4_FN int g4_file_seek(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t offset, uint32_t whence,
		       uint64_t *found)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	uint64_t page = offset >> G4_PAGE_SHIFT, pages = g4_pages_for(inode->size);
	struct g4_run run;
	int rc = 0;

	if (whence != G4_SEEK_DATA && whence != G4_SEEK_HOLE)
		return -G4_E_INVAL;
	if (offset >= inode->size)
		return -G4_E_NXIO;
	rc = g4_writeback(wg, fs, index); /* so that the mapping tells everything */
	if (rc < 0)
		return rc;
	if (inode->disk.flags & G4_INODE_INLINE) {
		*found = whence == G4_SEEK_DATA ? offset : inode->size;
		return 0;
	}
	while (page < pages) {
		rc = g4_map_lookup(wg, fs, inode, page, pages - page, &run);
		if (rc < 0)
			return g4_check(fs, rc);
		if ((run.kind == G4_WRITTEN) == (whence == G4_SEEK_DATA)) {
			*found = g4_max64(offset, page << G4_PAGE_SHIFT);
			return 0;
		}
		page += run.pages;
	}
	*found = inode->size;
	return whence == G4_SEEK_HOLE ? 0 : -G4_E_NXIO;
}
