/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rebalancing while users work: see rebalance.h. A step is the set's and outside of any transaction. No address changes, so nothing that a
 * user could see does; a crash costs what the last step did at most, and the next one is chosen by what lies where then.
 *
 * In each step free space is lent to the set: regions that nobody can claim meanwhile, whose places are room for what is moved, and that have
 * others when they are given back (space/set_lend_host.c). No page on the disk says so.
 *
 * First of all, and when nothing is left to be moved, addresses that lie nowhere get places again, and then the allocator the regions that they are of: one that is
 * claimed lies somewhere. All that are gone are looked up, so what a crash or an error leaves between both is made good by the next mount or order.
 *
 * What is in use is asked of the allocator's view in memory: a page is in it from its claim, which comes before any write, until the
 * transaction that frees it is durable. The look comes after the set has begun to notice who writes there.
 */
#include "fs/rebalance.h"
#include "alloc/count.h"

#include "alloc/retire.h"

#define LEND_PARTS 64u		  /* of the address space: as much is lent at a time */
#define LEND_LEAST UINT64_C(16)	  /* regions */
#define LEND_MOST UINT64_C(32768) /* they are looked at in each step */
#define LEND_SHARE 4u		  /* and no more of what is free than one of so many parts */

enum {
	AT,
	TOP
}; /* of the record's cursor: 1 + the region up to which free space is lent next, 0: it was not begun; and where that began */

#define COPY_PAGES ((UINT64_C(16) * G4_CHUNK_PLACES << 20) / G4_PAGE_BYTES) /* more is not copied in a step */

G4_FN static int ask(struct g4_wg *wg, struct g4_fs *fs, uint32_t op, struct g4_dev_order *order)
{
	order->op = op;
	return g4_space_order(wg, &fs->space, order);
}

G4_FN int g4_rebalance_move(struct g4_wg *wg, struct g4_fs *fs, uint64_t page, uint64_t most,
			    struct g4_dev_order *order)
{
	const uint64_t idle = g4_alloc_count(wg, &fs->alloc, page, most, false);

	order->done = 0;
	if (idle > 0) {
		order->disk = 1;
		order->bytes = idle * G4_PAGE_BYTES;
		const int rc = ask(wg, fs, G4_ORDER_SPREAD_MOVE, order);
		if (rc < 0 || order->done > 0)
			return rc;
	}
	/* what is idle in front of it was too short, or was written to meanwhile */
	const uint64_t used = g4_alloc_count(wg, &fs->alloc, page + idle, g4_min64(most - idle, COPY_PAGES), true);
	order->disk = 0;
	order->bytes = (idle < COPY_PAGES ? idle + used : COPY_PAGES) * G4_PAGE_BYTES;
	return ask(wg, fs, G4_ORDER_SPREAD_MOVE, order);
}

/* ------------------------------------------------------------------ free space that is lent */

G4_FN bool g4_rebalance_take_back(struct g4_wg *wg, struct g4_fs *fs)
{
	struct g4_lent *lent = &fs->jobs.lent;
	struct g4_dev_order order;

	if (lent->count == 0)
		return true;
	memset(&order, 0, sizeof(order));
	if (ask(wg, fs, G4_ORDER_SPREAD_BACK, &order) < 0 || order.bytes == 0)
		return false;
	for (uint32_t k = 0; k < lent->count; k++)
		for (uint64_t r = 0; r < lent->runs[k].regions; r++) {
			g4_alloc_take_back(&fs->alloc, lent->runs[k].first + r, G4_LEVEL_OWN);
			g4_sub64(&lent->pages, G4_REGION_PAGES);
		}
	lent->count = 0;
	g4_store64_rel(&lent->last_ns, g4_monotonic_ns());
	return true;
}

/* How many regions may be lent at a time, of those that there are. */
G4_FN static uint64_t most_regions(struct g4_alloc *alloc, uint64_t regions)
{
	const uint64_t free_pages = g4_alloc_free_in(alloc, G4_LEVEL_OWN), reserved = g4_load64_acq(&alloc->reserved);
	const uint64_t idle = free_pages > reserved ? (free_pages - reserved) / LEND_SHARE / G4_REGION_PAGES : 0;

	return g4_max64(g4_min64(idle, g4_min64(g4_max64(regions / LEND_PARTS, LEND_LEAST), LEND_MOST)), 1);
}

/* The last free regions before `end` can not be claimed from now on, a few runs of them. */
G4_FN static void take_free(struct g4_wg *wg, struct g4_fs *fs, uint64_t end)
{
	struct g4_lent *lent = &fs->jobs.lent;
	struct g4_alloc *alloc = &fs->alloc;
	const uint64_t most = most_regions(alloc, g4_load64_acq(&alloc->region_count));
	uint64_t taken = 0;
	uint32_t pool;

	g4_store64_rel(&lent->last_ns, g4_monotonic_ns());
	for (uint64_t r = end; r > 0 && taken < most; r--) {
		if (g4_alloc_region_pool(alloc, r - 1) != G4_LEVEL_OWN || !g4_alloc_is_empty(wg, alloc, r - 1))
			continue;
		const bool goes_on = lent->count > 0 && lent->runs[lent->count - 1].first == r;
		if (!goes_on && lent->count == G4_LEND_MOST)
			return;
		if (!g4_alloc_retire(wg, alloc, r - 1, &pool))
			continue;
		if (!goes_on)
			lent->runs[lent->count++].regions = 0;
		lent->runs[lent->count - 1].first = r - 1;
		lent->runs[lent->count - 1].regions++;
		g4_add64(&lent->pages, G4_REGION_PAGES);
		taken++;
	}
}

/* The set knows what is lent. *ready: and nobody uses any of it. */
G4_FN static int lend(struct g4_wg *wg, struct g4_fs *fs, bool *ready)
{
	const struct g4_lent *lent = &fs->jobs.lent;
	struct g4_dev_order order;
	int rc = 0;

	*ready = lent->count == 0;
	for (uint32_t k = 0; k <= lent->count && lent->count > 0 && rc == 0; k++) {
		const bool is_last = k == lent->count;
		memset(&order, 0, sizeof(order));
		order.done = is_last ? 0 : lent->runs[k].first * G4_REGION_PAGES * G4_PAGE_BYTES;
		order.bytes = is_last ? 0 : lent->runs[k].regions * G4_REGION_PAGES * G4_PAGE_BYTES;
		rc = ask(wg, fs, G4_ORDER_SPREAD_LEND, &order);
		*ready = rc == 0 && is_last && order.bytes > 0;
	}
	return rc;
}

/* ------------------------------------------------------------------ what is in use */

G4_FN static uint64_t used_pages(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t region, uint64_t end)
{
	uint64_t pages = 0;

	for (; region < end; region++) {
		const bool empty =
			g4_alloc_region_pool(alloc, region) == G4_POOL_GONE || g4_alloc_is_empty(wg, alloc, region);
		const uint32_t idle = empty ? (uint32_t)G4_REGION_PAGES : g4_load32_acq(&alloc->region_free[region]);
		pages += G4_REGION_PAGES - idle;
	}
	return pages;
}

/* The set knows about how much of each part of the address space is in use; what changes later is not worth another look. Nothing is lent. */
G4_FN static int tell_use(struct g4_wg *wg, struct g4_fs *fs)
{
	const uint64_t regions = g4_load64_acq(&fs->alloc.region_count);
	const uint64_t each = (regions + G4_USE_PARTS - 1) / G4_USE_PARTS, parts = (regions + each - 1) / each;
	struct g4_dev_order order;
	int rc = 0;

	for (uint64_t part = 0; part < parts && rc == 0; part++) {
		memset(&order, 0, sizeof(order));
		order.disk = (uint32_t)part;
		order.all = parts;
		order.bytes = each * G4_REGION_PAGES * G4_PAGE_BYTES;
		order.done = used_pages(wg, &fs->alloc, part * each, g4_min64((part + 1) * each, regions));
		rc = ask(wg, fs, G4_ORDER_SPREAD_USE, &order);
	}
	if (rc == 0)
		fs->jobs.lent.told = 1;
	return rc;
}

/* ------------------------------------------------------------------ steps */

/* ------------------------------------------------------------------ what is gone */

/* The chunk that has an address; -G4_E_NOENT: none has it. */
G4_FN static int find_chunk(struct g4_wg *wg, struct g4_fs *fs, uint64_t address, struct g4_dev_order *chunk)
{
	memset(chunk, 0, sizeof(*chunk));
	chunk->bytes = address;
	return ask(wg, fs, G4_ORDER_CHUNK, chunk);
}

/* Whether all of a region lies somewhere, of which the chunk that it begins in does. */
G4_FN static bool lies_somewhere(struct g4_wg *wg, struct g4_fs *fs, uint64_t region, const struct g4_dev_order *first)
{
	const uint64_t end = (region + 1) * G4_REGION_PAGES * G4_PAGE_BYTES;
	struct g4_dev_order chunk = *first;
	int rc = 0;

	while (rc == 0 && chunk.all != G4_POOL_GONE && chunk.bytes < end)
		rc = find_chunk(wg, fs, chunk.bytes, &chunk);
	return rc == -G4_E_NOENT || (rc == 0 && chunk.all != G4_POOL_GONE);
}

/* Regions that the table has places for are the allocator's again: of the pool of the chunk that each begins in (levels.c). */
G4_FN static int bring_back(struct g4_wg *wg, struct g4_fs *fs)
{
	const uint64_t region_bytes = G4_REGION_PAGES * G4_PAGE_BYTES, regions = g4_load64_acq(&fs->alloc.region_count);
	struct g4_dev_order chunk;
	uint64_t r = 0;
	int rc = 0;

	memset(&chunk, 0, sizeof(chunk));
	while (r < regions && rc == 0) {
		if (g4_alloc_region_pool(&fs->alloc, r) != G4_POOL_GONE) {
			r++;
			continue;
		}
		if (chunk.bytes <= r * region_bytes)
			rc = find_chunk(wg, fs, r * region_bytes, &chunk);
		if (rc < 0)
			break;
		if (chunk.all == G4_POOL_GONE) {
			r = (chunk.bytes + region_bytes - 1) / region_bytes;
			continue;
		}
		const bool own = chunk.all == chunk.disk || chunk.all >= G4_POOLS;
		if (lies_somewhere(wg, fs, r, &chunk))
			(void)g4_alloc_bring_back(wg, &fs->alloc, r, own ? G4_LEVEL_OWN : (uint32_t)chunk.all);
		r++;
	}
	return rc == -G4_E_NOENT ? 0 : rc;
}

/* Nothing is lent. *bytes of the address space lie somewhere again; *again: requests are under way, try again. */
G4_FN static int fill(struct g4_wg *wg, struct g4_fs *fs, uint64_t *bytes, bool *again)
{
	struct g4_dev_order order;

	memset(&order, 0, sizeof(order));
	const int rc = ask(wg, fs, G4_ORDER_SPREAD_FILL, &order);
	*bytes = rc < 0 ? 0 : order.bytes;
	*again = rc == 0 && order.disk == 1;
	return rc < 0 || *again ? rc : bring_back(wg, fs);
}

/*
 * With what is lent nothing is to be moved: it is laid anew, and what lies before comes next. 1: nothing is left that could be lent, nor any room for what
 * is gone.
 */
G4_FN static int lay(struct g4_wg *wg, struct g4_fs *fs, struct g4_job_record *record)
{
	const struct g4_lent *lent = &fs->jobs.lent;
	struct g4_dev_order order;

	if (lent->count == 0) {
		uint64_t bytes = 0;
		bool again = false;
		const int filled = fill(wg, fs, &bytes, &again);
		if (filled < 0 || again || bytes > 0) /* what has come back can be lent */
			return filled;
		record->units = record->done;
		return 1;
	}
	memset(&order, 0, sizeof(order));
	const int rc = ask(wg, fs, G4_ORDER_SPREAD_LAY, &order);
	if (rc < 0 && rc != -G4_E_NOSPC) /* without room all lies where it lay */
		return rc;
	record->cursor[AT] = 1 + lent->runs[lent->count - 1].first;
	fs->jobs.lent.told = 0;
	return 0;
}

/* About as much as was moved for each region that was looked at will be for those that are left. */
G4_FN static uint64_t estimate(const struct g4_job_record *record)
{
	const uint64_t at = record->cursor[AT] - 1, top = record->cursor[TOP];

	return at == 0 || at >= top ? at : record->done / (top - at) * at;
}

G4_FN static int move_or_lay(struct g4_wg *wg, struct g4_fs *fs, struct g4_job_record *record)
{
	struct g4_dev_order order;

	memset(&order, 0, sizeof(order));
	int rc = ask(wg, fs, G4_ORDER_SPREAD_NEXT, &order);
	if (rc < 0)
		return rc;
	if (order.bytes == 0)
		return lay(wg, fs, record);
	const uint64_t left = order.all / G4_PAGE_BYTES;
	rc = g4_rebalance_move(wg, fs, order.done / G4_PAGE_BYTES, order.bytes / G4_PAGE_BYTES, &order);
	if (rc == -G4_E_NOSPC)
		return lay(wg, fs, record);
	if (rc < 0)
		return rc;
	record->done += order.done / G4_PAGE_BYTES;
	record->units = record->done + left + estimate(record);
	record->bytes += order.bytes;
	return 0;
}

G4_FN int g4_rebalance_step(struct g4_wg *wg, struct g4_fs *fs, struct g4_job_record *record)
{
	const uint64_t regions = g4_load64_acq(&fs->alloc.region_count);
	bool ready;

	if (!g4_rebalance_take_back(wg, fs) || g4_monotonic_ns() < g4_load64_acq(&fs->jobs.lent.rest_ns))
		return 0;
	int rc = 0;
	if (record->cursor[AT] == 0) {
		uint64_t bytes;
		bool again;
		rc = fill(wg, fs, &bytes, &again);
		if (rc < 0 || again)
			return rc;
		record->cursor[AT] = 1 + (record->cursor[TOP] = regions);
	}
	if (!fs->jobs.lent.told)
		rc = tell_use(wg, fs);
	if (rc < 0)
		return rc;
	take_free(wg, fs, g4_min64(record->cursor[AT] - 1, regions));
	rc = lend(wg, fs, &ready);
	if (rc == 0 && ready)
		rc = move_or_lay(wg, fs, record);
	/* what can not be yet is with the next step, or when nothing else is to be done */
	(void)g4_rebalance_take_back(wg, fs);
	return rc;
}

G4_FN int g4_rebalance_order(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd, struct g4_job_record *record)
{
	struct g4_dev_order order;
	uint32_t length = 0;

	if (cmd->length == 0)
		return -G4_E_INVAL;
	memset(&order, 0, sizeof(order));
	order.text = (char *)cmd->data;
	order.text_bytes = cmd->length;
	order.text[0] = 0;
	const int rc = ask(wg, fs, G4_ORDER_SPREAD, &order);
	while (length < cmd->length && order.text[length])
		length++;
	cmd->value = length;
	record->units = order.all / G4_PAGE_BYTES;
	fs->jobs.lent.told = 0;
	return rc;
}
