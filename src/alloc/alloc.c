/* SPDX-License-Identifier: Apache-2.0 */
/* Claiming, publishing and freeing runs of pages. The two views are explained in alloc.h. */
#include "alloc/alloc.h"

#define CLAIM_WAIT_NS                                                                                                  \
	(UINT64_C(10) * 1000 * 1000 * 1000) /* for a workgroup that was stopped in the middle of a claim */

G4_FN static struct g4_group_descriptor *descriptor_in(void *page, uint64_t group)
{
	return &((struct g4_groups_page *)page)->groups[group % G4_GROUPS_PER_PAGE];
}

G4_FN static int get_descriptor(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t group, uint32_t *line)
{
	return g4_meta_get(wg, alloc->meta, g4_layout_groups_page(&alloc->meta->layout, group), G4_BLOCK_GROUPS, line);
}

G4_FN static struct g4_lock *load_lock(struct g4_alloc *alloc, uint64_t group)
{
	return &alloc->load_locks[group % 16];
}

/* Others may be changing the counts, which lie in the same word. */
G4_FN int g4_alloc_has_map(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t group)
{
	struct g4_cache *cache = alloc->meta->cache;
	uint32_t line;
	int rc = get_descriptor(wg, alloc, group, &line);

	if (rc < 0)
		return rc;
	uint64_t word = g4_load64_acq((const uint64_t *)(const void *)descriptor_in(g4_line_data(cache, line), group));
	g4_cache_put(cache, line);
	return word >> 32 & G4_GROUP_INITIALISED ? 1 : 0;
}

G4_FN static struct g4_address map_address(const struct g4_alloc *alloc, uint64_t group)
{
	return g4_layout_map_page(&alloc->meta->layout, group);
}

G4_FN static int read_map(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t group, uint32_t *line)
{
	return g4_meta_get(wg, alloc->meta, map_address(alloc, group), G4_BLOCK_ALLOC,
			   line); /* validates what it reads */
}

/* The load lock is held. */
G4_FN static int make_map(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t group, uint32_t *line)
{
	struct g4_cache *cache = alloc->meta->cache;

	*line = g4_cache_find(cache, 0, g4_address_page(map_address(alloc, group)));
	if (*line != G4_NO_LINE)
		return 0;
	int rc = g4_meta_new(wg, alloc->meta, map_address(alloc, group), G4_BLOCK_ALLOC, line);
	if (rc == 0)
		((struct g4_alloc_page *)g4_line_data(cache, *line))->group = group;
	return rc;
}

/*
 * References the allocation map page of a group. A page that was never written is made, all free; that alone does not
 * make it dirty: publish does, and sets INITIALISED with it. Only until then is there anything to lock.
 */
G4_FN static int get_map_locked(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t group, uint32_t *line)
{
	int rc = g4_alloc_has_map(wg, alloc, group);

	if (rc < 0)
		return rc;
	return rc ? read_map(wg, alloc, group, line) : make_map(wg, alloc, group, line);
}

G4_FN int g4_alloc_get_map(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t group, uint32_t *line)
{
	int rc = g4_alloc_has_map(wg, alloc, group);

	if (rc < 0)
		return rc;
	if (rc)
		return read_map(wg, alloc, group, line);
	g4_lock(load_lock(alloc, group));
	rc = get_map_locked(wg, alloc, group, line);
	g4_unlock(load_lock(alloc, group));
	return rc;
}

G4_FN static uint32_t count_free(const uint64_t *words)
{
	uint32_t used = 0;

	for (uint32_t w = 0; w < 8; w++)
		for (uint64_t x = words[w]; x; x &= x - 1)
			used++;
	return G4_REGION_PAGES - used;
}

/* Fills the memory view of a group from its map page. */
G4_FN static int load_group(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t group)
{
	uint32_t line;
	int rc = 0;

	if (g4_load32_acq(&alloc->group_state[group]) == G4_GROUP_LOADED)
		return 0;
	g4_lock(load_lock(alloc, group));
	const uint32_t state = g4_load32_acq(&alloc->group_state[group]);
	if (state != G4_GROUP_LOADED) {
		const bool forgotten = state >= G4_GROUP_FORGOTTEN;
		rc = get_map_locked(wg, alloc, group, &line);
		if (rc == 0) {
			const struct g4_alloc_page *map =
				(const struct g4_alloc_page *)g4_line_data(alloc->meta->cache, line);
			uint32_t free_pages = 0;
			for (uint64_t r = 0; r < G4_GROUP_REGIONS; r++) {
				uint64_t region = group * G4_GROUP_REGIONS + r;
				memcpy(&alloc->used[region * 8], map->regions[r].used, 64);
				for (uint32_t w = 0; w < 8; w++) /* what is free is no slab, whatever lies there */
					g4_or64(&alloc->past_slabs[region * 8 + w], ~alloc->used[region * 8 + w]);
				const uint32_t here = count_free(&alloc->used[region * 8]);
				alloc->region_free[region] = forgotten ? 0 : here;
				free_pages += here;
			}
			if (free_pages != (forgotten ? state - G4_GROUP_FORGOTTEN : alloc->group_free[group]))
				rc = -G4_E_CORRUPT_ALLOC;
			else
				g4_store32_rel(&alloc->group_state[group], G4_GROUP_LOADED);
			g4_cache_put(alloc->meta->cache, line);
		}
	}
	g4_unlock(load_lock(alloc, group));
	return rc;
}

/* ------------------------------------------------------------------ memory view */

G4_FN static uint64_t *reserved_of(struct g4_alloc *alloc, uint32_t pool)
{
	return pool == G4_LEVEL_OWN ? &alloc->reserved : &alloc->pool_reserved[pool];
}

/* `keep` more are to be free than are reserved, of which `kept` are reserved, too. */
G4_FN static bool reserve(struct g4_alloc *alloc, uint32_t pool, uint64_t pages, uint64_t kept, uint64_t keep)
{
	uint64_t *const reserved_pages = reserved_of(alloc, pool), *const free_pages = g4_alloc_free_of(alloc, pool);
	const uint64_t all = pages + kept;

	for (;;) {
		uint64_t reserved = g4_load64_acq(reserved_pages);

		if (reserved + pages + keep > g4_load64_acq(free_pages))
			return false;
		if (!g4_cas64(reserved_pages, reserved, reserved + all))
			continue;
		/* a claim without a reservation that came between sees our reservation, or we see that it took the pages */
		if (reserved + all <= g4_add64(free_pages, 0))
			return true;
		g4_sub64(reserved_pages, all);
	}
}

G4_FN bool g4_alloc_reserve_mapped(struct g4_alloc *alloc, uint64_t pages, uint64_t kept)
{
	return reserve(alloc, G4_LEVEL_OWN, pages, kept, pages > 0 ? g4_max64(g4_alloc_keep(alloc), kept) : kept);
}

G4_FN bool g4_alloc_reserve_kept(struct g4_alloc *alloc, uint64_t pages)
{
	return reserve(alloc, G4_LEVEL_OWN, 0, pages, pages + g4_alloc_keep(alloc) / 2);
}

G4_FN bool g4_alloc_reserve_in(struct g4_alloc *alloc, uint32_t pool, uint64_t pages)
{
	return pool == G4_LEVEL_OWN ? g4_alloc_reserve(alloc, pages) : reserve(alloc, pool, pages, 0, 0);
}

G4_FN void g4_alloc_reserve_again(struct g4_alloc *alloc, uint32_t pool, uint64_t pages)
{
	g4_add64(reserved_of(alloc, pool), pages);
}

G4_FN void g4_alloc_unreserve_in(struct g4_alloc *alloc, uint32_t pool, uint64_t pages)
{
	g4_sub64(reserved_of(alloc, pool), pages);
}

G4_FN uint64_t g4_alloc_free_in(const struct g4_alloc *alloc, uint32_t pool)
{
	return g4_load64_acq(pool == G4_LEVEL_OWN ? &alloc->free_pages : &alloc->pool_free[pool]);
}

G4_FN uint64_t g4_alloc_free_all(const struct g4_alloc *alloc)
{
	uint64_t pages = 0;

	for (uint32_t pool = 0; pool < G4_LEVELS; pool++)
		pages += g4_alloc_free_in(alloc, pool);
	return pages;
}

/* Takes up to `want` pages out of the free count of a pool. */
G4_FN static uint64_t take_pages(struct g4_alloc *alloc, uint32_t pool, uint64_t want, bool reserved)
{
	uint64_t *const count = g4_alloc_free_of(alloc, pool);

	for (;;) {
		uint64_t free_pages = g4_load64_acq(count);
		uint64_t kept = reserved ? 0 : g4_load64_acq(reserved_of(alloc, pool));
		uint64_t n = free_pages > kept ? g4_min64(want, free_pages - kept) : 0;

		if (n == 0)
			return 0;
		if (!g4_cas64(count, free_pages, free_pages - n))
			continue;
		if (reserved || g4_add64(reserved_of(alloc, pool), 0) <= free_pages - n)
			return n;
		g4_add64(count, n); /* reserved meanwhile */
	}
}

/* Lowers a region's counter by 1..want; the right to that many of its clear bits. */
G4_FN static uint32_t take_right(struct g4_alloc *alloc, uint64_t region, uint64_t want, uint32_t least)
{
	for (;;) {
		uint32_t n = g4_load32_acq(&alloc->region_free[region]);

		if (n < least || n == 0)
			return 0;
		uint32_t take = (uint32_t)g4_min64(n, want);
		if (g4_cas32(&alloc->region_free[region], n, n - take))
			return take;
	}
}

G4_FN static void return_right(struct g4_alloc *alloc, uint64_t region, uint32_t n)
{
	if (n)
		g4_add32(&alloc->region_free[region], n);
}

/* First clear bit at or after `from` in a region; G4_REGION_PAGES: none. */
G4_FN static uint32_t next_clear(struct g4_alloc *alloc, uint64_t region, uint32_t from)
{
	for (uint32_t w = from / 64; w < 8; w++) {
		uint64_t clear = ~g4_load64_rlx(&alloc->used[region * 8 + w]);
		if (w == from / 64)
			clear &= ~UINT64_C(0) << (from % 64);
		if (clear)
			return w * 64 + g4_lowest_bit(clear);
	}
	return G4_REGION_PAGES;
}

/* Sets as many clear bits in a row as it can from `page` on, at most n. */
G4_FN static uint32_t set_run(struct g4_alloc *alloc, uint64_t region, uint32_t page, uint32_t n)
{
	uint32_t done = 0;

	while (done < n && page + done < G4_REGION_PAGES) {
		uint32_t bit = (page + done) % 64;
		uint32_t span = (uint32_t)g4_min64(64 - bit, n - done);
		uint64_t mask = g4_bit_run(bit, span);
		uint64_t *word = &alloc->used[region * 8 + (page + done) / 64];
		uint64_t old = g4_or64(word, mask);

		if ((old & mask) == 0) {
			done += span;
			continue;
		}
		/* keep the run up to the first bit somebody else has; give back what lies behind it */
		uint64_t taken = old & mask;
		uint32_t good = 0;
		while (!((taken >> (bit + good)) & 1))
			good++;
		uint64_t keep = ((UINT64_C(1) << good) - 1) << bit;
		g4_and64(word, ~(mask & ~old & ~keep));
		return done + good;
	}
	return done;
}

/* Claims a run in one region: its length, 0 when there is none. */
G4_FN static uint32_t claim_in(struct g4_alloc *alloc, uint64_t region, uint32_t hint, uint64_t want, uint32_t least,
			       struct g4_address *address)
{
	uint32_t right = take_right(alloc, region, want, least);
	uint32_t from = hint;

	while (right > 0) {
		uint32_t page = next_clear(alloc, region, from);
		if (page == G4_REGION_PAGES) {
			from = 0; /* our bits are there: somebody moved ahead of us, look again */
			continue;
		}
		uint32_t got = set_run(alloc, region, page, right);
		if (got > 0) {
			return_right(alloc, region, right - got);
			*address = g4_page_address(region * G4_REGION_PAGES + page);
			g4_sub32(&alloc->group_free[region / G4_GROUP_REGIONS], got);
			return got;
		}
		from = page;
	}
	return 0;
}

/* Of a count of free pages as much as is left: who took pages out of it, and finds none, puts them back. */
G4_FN static void lower(uint64_t *count, uint64_t pages)
{
	uint64_t before;

	do {
		before = g4_load64_acq(count);
	} while (!g4_cas64(count, before, before - g4_min64(before, pages)));
}

/* Its page can not be read, so nobody could be given what is free of it; which is all of one pool as long as the view has none of it. */
G4_FN static void forget_free(struct g4_alloc *alloc, uint64_t group, uint32_t pool)
{
	const uint32_t pages = g4_load32_acq(&alloc->group_free[group]);

	lower(g4_alloc_free_of(alloc, pool), pages);
	g4_store32_rel(&alloc->group_free[group], 0);
	g4_store32_rel(&alloc->group_state[group], G4_GROUP_FORGOTTEN + pages);
}

/* 1: a group is in the view; 0: the device does not give its map, and nobody looks for space there any more; or an error. */
G4_FN static int load_to_claim(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t group, uint32_t pool)
{
	const int rc = load_group(wg, alloc, group);

	if (rc != -G4_E_IO)
		return rc < 0 ? rc : 1;
	g4_lock(load_lock(alloc, group));
	if (g4_load32_acq(&alloc->group_state[group]) == G4_GROUP_UNLOADED)
		forget_free(alloc, group, pool);
	g4_unlock(load_lock(alloc, group));
	return 0;
}

/*
 * Tries every region of a pool from `start` on, once around; only those with at least `least` free pages. The run begins at the page `hint` of
 * it, or the next free one.
 */
G4_FN static int claim_from(struct g4_wg *wg, struct g4_alloc *alloc, uint32_t pool, uint64_t start, uint32_t hint,
			    uint64_t want, uint32_t least, struct g4_address *address, uint32_t *got)
{
	const uint64_t count = g4_load64_acq(&alloc->region_count);
	uint64_t region = start % count;

	*got = 0;
	for (uint64_t step = 0; step < count;) {
		uint64_t group = region / G4_GROUP_REGIONS;

		if (g4_load32_rlx(&alloc->group_free[group]) < least) {
			uint64_t skip = G4_GROUP_REGIONS - region % G4_GROUP_REGIONS;
			step += skip;
			region = (region + skip) % count;
			continue;
		}
		if (g4_alloc_region_pool(alloc, region) == pool) {
			const int rc = load_to_claim(wg, alloc, group, pool);
			if (rc < 0)
				return rc;
			*got = rc > 0 ? claim_in(alloc, region, hint, want, least, address) : 0;
			if (*got > 0)
				return 0;
		}
		step++;
		region = (region + 1) % count;
	}
	return -G4_E_NOSPC;
}

G4_FN static int claim_near(struct g4_wg *wg, struct g4_alloc *alloc, uint32_t pool, struct g4_address goal,
			    uint64_t want, struct g4_address *address, uint32_t *got)
{
	uint64_t region = g4_address_page(goal) / G4_REGION_PAGES;
	uint32_t page = (uint32_t)(g4_address_page(goal) % G4_REGION_PAGES);

	*got = 0;
	if (g4_address_is_none(goal) || region >= g4_load64_acq(&alloc->region_count) ||
	    g4_alloc_region_pool(alloc, region) != pool)
		return 0;
	if (g4_load32_rlx(&alloc->group_free[region / G4_GROUP_REGIONS]) == 0)
		return 0; /* as of a group that can not be read, and was forgotten */
	const int rc = load_to_claim(wg, alloc, region / G4_GROUP_REGIONS, pool);
	*got = rc > 0 ? claim_in(alloc, region, page, want, 1, address) : 0;
	return rc < 0 ? rc : 0;
}

/*
 * From page `place` of the first empty region at or behind the goal on. Without one, as for a new file, behind where the shard had its last one:
 * so files that several workgroups write begin apart, in groups of their own, and what is in use already is not looked through again.
 */
G4_FN static int claim_empty(struct g4_wg *wg, struct g4_alloc *alloc, uint32_t pool, struct g4_address goal,
			     uint32_t place, uint64_t want, struct g4_address *address, uint32_t *got)
{
	struct g4_alloc_shard *shard = &alloc->shards[g4_wg_index(wg) % G4_ALLOC_SHARDS];
	const bool begins = g4_address_is_none(goal), own = pool == G4_LEVEL_OWN;
	const uint64_t start = !begins ? g4_address_page(goal) / G4_REGION_PAGES :
			       own     ? g4_load32_rlx(&shard->region[G4_ALLOC_ALIGNED]) :
					 g4_load32_rlx(&alloc->pool_region[pool]);
	const int rc = claim_from(wg, alloc, pool, start, place, want, G4_REGION_PAGES, address, got);

	if (rc == 0 && begins && own)
		g4_store32_rlx(&shard->region[G4_ALLOC_ALIGNED],
			       (uint32_t)(g4_address_page(*address) / G4_REGION_PAGES));
	return rc;
}

G4_FN static int claim(struct g4_wg *wg, struct g4_alloc *alloc, uint32_t class_, struct g4_address goal, uint64_t want,
		       bool reserved, struct g4_address *address, uint64_t *got)
{
	struct g4_alloc_shard *shard = &alloc->shards[g4_wg_index(wg) % G4_ALLOC_SHARDS];
	const uint32_t pool = class_ >> 8 & 0xff, place = class_ >> 16;
	uint64_t taken = take_pages(alloc, pool, g4_min64(want, G4_REGION_PAGES), reserved);
	uint32_t n = 0;
	int rc;

	class_ &= 0xff;
	/* a claim without a reservation may hold what it has to give back, and that may be ours */
	uint64_t until = reserved && taken == 0 ? g4_monotonic_ns() + CLAIM_WAIT_NS : 0;
	while (reserved && taken == 0 && g4_monotonic_ns() < until) {
		g4_pause();
		taken = take_pages(alloc, pool, g4_min64(want, G4_REGION_PAGES), reserved);
	}
	if (taken == 0)
		return -G4_E_NOSPC;
	if (class_ == G4_ALLOC_ALIGNED) {
		class_ = G4_ALLOC_DATA;
		rc = claim_empty(wg, alloc, pool, goal, place, taken, address, &n);
		if (rc == -G4_E_NOSPC)
			rc = claim_near(wg, alloc, pool, goal, taken, address, &n);
	} else {
		rc = claim_near(wg, alloc, pool, goal, taken, address, &n);
	}
	if (rc == 0 && n == 0) {
		uint32_t *const last = pool == G4_LEVEL_OWN ? &shard->region[class_] : &alloc->pool_region[pool];
		uint32_t start = g4_load32_rlx(last);
		uint32_t least = (uint32_t)g4_min64(taken, 64);
		rc = claim_from(wg, alloc, pool, start, 0, taken, least, address, &n);
		/* the pages are there, for they are out of the count: others hold the right to more than they will take */
		until = rc == -G4_E_NOSPC ? g4_monotonic_ns() + CLAIM_WAIT_NS : 0;
		while (rc == -G4_E_NOSPC && g4_monotonic_ns() < until) {
			rc = claim_from(wg, alloc, pool, start, 0, taken, 1, address, &n);
			if (rc == -G4_E_NOSPC)
				g4_pause();
		}
		if (rc == 0)
			g4_store32_rel(last, (uint32_t)(g4_address_page(*address) / G4_REGION_PAGES));
	}
	if (taken > n)
		g4_add64(g4_alloc_free_of(alloc, pool), taken - n);
	if (rc < 0)
		return rc;
	if (reserved)
		g4_alloc_unreserve_in(alloc, pool, n);
	*got = n;
	return 0;
}

/* Whether the map of claimed pages, which is to be changed, can be read. If not, they are given back, and nobody gets anything of their group any more. */
G4_FN static bool has_map_or_closes(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_address address, uint64_t got,
				    bool reserved)
{
	const uint64_t group = g4_address_page(address) / G4_GROUP_PAGES, end = (group + 1) * G4_GROUP_PAGES;
	uint32_t line = g4_cache_find(alloc->meta->cache, 0, g4_address_page(map_address(alloc, group)));
	const int rc = line == G4_NO_LINE ? g4_alloc_get_map(wg, alloc, group, &line) : 0;

	if (rc == 0)
		g4_cache_put(alloc->meta->cache, line);
	if (rc != -G4_E_IO)
		return true; /* whoever changes it is told what else is wrong */
	const uint32_t pool = g4_alloc_region_pool(alloc, g4_address_page(address) / G4_REGION_PAGES);
	g4_alloc_release(alloc, address, got);
	if (reserved)
		g4_alloc_reserve_again(alloc, pool, got);
	for (uint64_t page = group * G4_GROUP_PAGES, hidden = 1; page < end && hidden > 0; page += hidden)
		if (g4_alloc_hide(wg, alloc, &page, end, G4_GROUP_PAGES, &hidden) < 0)
			hidden = 0;
		else
			lower(g4_alloc_free_of(alloc, g4_alloc_region_pool(alloc, page / G4_REGION_PAGES)), hidden);
	return false;
}

G4_FN int g4_alloc_claim(struct g4_wg *wg, struct g4_alloc *alloc, uint32_t class_, struct g4_address goal,
			 uint64_t want, bool reserved, struct g4_address *address, uint64_t *got)
{
	int rc;

	do {
		rc = claim(wg, alloc, class_, goal, want, reserved, address, got);
	} while (rc == 0 && !has_map_or_closes(wg, alloc, *address, *got, reserved));
	return rc;
}

G4_FN int g4_alloc_claim_region(struct g4_wg *wg, struct g4_alloc *alloc, bool reserved, struct g4_address *address)
{
	struct g4_alloc_shard *shard = &alloc->shards[g4_wg_index(wg) % G4_ALLOC_SHARDS];
	uint64_t taken = take_pages(alloc, G4_LEVEL_OWN, G4_REGION_PAGES, reserved);
	uint32_t got = 0;
	int rc = -G4_E_NOSPC;

	if (taken == G4_REGION_PAGES)
		rc = claim_from(wg, alloc, G4_LEVEL_OWN, g4_load32_rlx(&shard->region[G4_ALLOC_DATA]), 0,
				G4_REGION_PAGES, G4_REGION_PAGES, address, &got);
	if (rc < 0) {
		g4_add64(&alloc->free_pages, taken);
		return rc;
	}
	if (reserved)
		g4_alloc_unreserve(alloc, G4_REGION_PAGES);
	return 0;
}

/* Puts pages back into the view, but for the count of all that are free. */
G4_FN static void clear_pages(struct g4_alloc *alloc, uint64_t page, uint64_t pages)
{
	while (pages > 0) {
		uint64_t region = page / G4_REGION_PAGES;
		uint32_t first = (uint32_t)(page % G4_REGION_PAGES);
		uint32_t n = (uint32_t)g4_min64(pages, G4_REGION_PAGES - first);

		for (uint32_t done = 0; done < n;) {
			uint32_t bit = (first + done) % 64;
			uint32_t span = (uint32_t)g4_min64(64 - bit, n - done);
			uint64_t mask = g4_bit_run(bit, span);
			const uint64_t word = region * 8 + (first + done) / 64;
			/* first: it is no slab for whoever finds it in use again */
			if ((g4_load64_rlx(&alloc->past_slabs[word]) & mask) != mask)
				g4_or64(&alloc->past_slabs[word], mask);
			g4_and64(&alloc->used[word], ~mask);
			done += span;
		}
		g4_add32(&alloc->group_free[region / G4_GROUP_REGIONS], n); /* first: who claims takes from both */
		return_right(alloc, region, n);
		page += n;
		pages -= n;
	}
}

/* Behind clear_pages(): a workgroup that takes the mark finds the pages. */
G4_FN static void mark_freed(struct g4_alloc *alloc, uint64_t page, uint64_t pages)
{
	for (uint64_t r = page / G4_REGION_PAGES; r * G4_REGION_PAGES < page + pages && pages > 0; r++)
		if (!(g4_load64_rlx(&alloc->freed[r / 64]) >> (r % 64) & 1))
			g4_or64(&alloc->freed[r / 64], UINT64_C(1) << (r % 64));
}

G4_FN void g4_alloc_release(struct g4_alloc *alloc, struct g4_address address, uint64_t pages)
{
	uint64_t page = g4_address_page(address);
	const uint64_t end = page + pages;

	while (page < end) {
		/* before they are counted: a region cannot be retired then */
		const uint32_t pool = g4_alloc_region_pool(alloc, page / G4_REGION_PAGES);
		uint64_t next = page;
		while (next < end && g4_alloc_region_pool(alloc, next / G4_REGION_PAGES) == pool)
			next = (next / G4_REGION_PAGES + 1) * G4_REGION_PAGES;
		next = g4_min64(next, end);
		clear_pages(alloc, page, next - page);
		mark_freed(alloc, page, next - page);
		/* last: a claim that takes pages out of the count shall find them */
		g4_add64(g4_alloc_free_of(alloc, pool), next - page);
		page = next;
	}
}

/* ------------------------------------------------------------------ discarding */

/* Clear bits in a row from `page` on in a region, at most n. */
G4_FN static uint32_t count_clear(struct g4_alloc *alloc, uint64_t region, uint32_t page, uint32_t n)
{
	uint32_t done = 0;

	while (done < n) {
		uint32_t bit = (page + done) % 64, span = (uint32_t)g4_min64(64 - bit, n - done);
		uint64_t used = g4_load64_rlx(&alloc->used[region * 8 + (page + done) / 64]) & g4_bit_run(bit, span);

		if (used)
			return done + g4_lowest_bit(used) - bit;
		done += span;
	}
	return done;
}

/* Takes what it can of the first clear bits from *page on, up to `end`, both in one region. 0: go on at *page. */
G4_FN static uint32_t hide_in(struct g4_alloc *alloc, uint64_t *page, uint64_t end)
{
	uint64_t region = *page / G4_REGION_PAGES, base = region * G4_REGION_PAGES;
	uint32_t last = (uint32_t)(end - base);
	uint32_t at = next_clear(alloc, region, (uint32_t)(*page - base));

	if (at >= last) {
		*page = end;
		return 0;
	}
	*page = base + at;
	uint32_t right = take_right(alloc, region, count_clear(alloc, region, at, last - at), 1);
	uint32_t got = right ? set_run(alloc, region, at, right) : 0;
	return_right(alloc, region, right - got);
	if (got)
		g4_sub32(&alloc->group_free[region / G4_GROUP_REGIONS], got);
	else
		*page += 1; /* somebody claims it */
	return got;
}

G4_FN int g4_alloc_hide(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t *page, uint64_t end, uint64_t most,
			uint64_t *pages)
{
	uint64_t at = *page;

	*pages = 0;
	while (at < end && *pages < most) {
		uint64_t found = at, region_end = (at / G4_REGION_PAGES + 1) * G4_REGION_PAGES;
		int rc = load_group(wg, alloc, at / G4_GROUP_PAGES);

		if (rc < 0) {
			clear_pages(alloc, *page, *pages);
			*pages = 0;
			return rc;
		}
		uint32_t got = hide_in(alloc, &found, g4_min64(g4_min64(region_end, end), at + most - *pages));
		if (*pages > 0 && (found != at || got == 0)) {
			if (got)
				clear_pages(alloc, found, got); /* not in a row: the next call's */
			return 0;
		}
		if (*pages == 0)
			*page = found;
		*pages += got;
		at = found + got;
		if (*pages > 0 && at % G4_REGION_PAGES != 0)
			return 0;
	}
	return 0;
}

G4_FN void g4_alloc_unhide(struct g4_alloc *alloc, uint64_t page, uint64_t pages)
{
	clear_pages(alloc, page, pages);
}

G4_FN uint64_t g4_alloc_take_freed(struct g4_alloc *alloc, uint64_t *region)
{
	const uint64_t regions = g4_load64_acq(&alloc->region_count);
	uint64_t r = *region, count = 0;

	for (; r < regions; r++) {
		if (r % 64 == 0 && count == 0 && g4_load64_rlx(&alloc->freed[r / 64]) == 0) {
			r += 63;
			continue;
		}
		uint64_t bit = UINT64_C(1) << (r % 64);
		if (!(g4_load64_rlx(&alloc->freed[r / 64]) & bit)) {
			if (count)
				return count;
			continue;
		}
		g4_and64(&alloc->freed[r / 64], ~bit);
		if (count++ == 0)
			*region = r;
	}
	return count;
}

G4_FN int g4_alloc_in_use(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_address address)
{
	uint64_t page = g4_address_page(address);
	int rc = load_group(wg, alloc, page / G4_GROUP_PAGES);

	return rc < 0 ? rc : (int)(g4_load64_acq(&alloc->used[page / 64]) >> (page % 64) & 1);
}

/* ------------------------------------------------------------------ disk view */

/* Adds to the packed (free_pages, slabs, flags) word of a group's descriptor. */
G4_FN static int change_descriptor(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, uint64_t group,
				   int64_t free_pages, int64_t slabs)
{
	uint32_t line;
	int rc = get_descriptor(wg, alloc, group, &line);

	if (rc < 0)
		return rc;
	uint64_t *word = (uint64_t *)(void *)descriptor_in(g4_line_data(alloc->meta->cache, line), group);
	g4_txn_dirty(txn, line);
	const uint64_t old = g4_add64_rlx(word, (uint64_t)(free_pages + slabs * 65536));
	if (!(old >> 32 & G4_GROUP_INITIALISED))
		g4_or64(word, (uint64_t)G4_GROUP_INITIALISED << 32);
	g4_cache_put(alloc->meta->cache, line);
	return 0;
}

/* Sets or clears the map bits of pages that lie in one group. */
G4_FN static int change_map(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, uint64_t page, uint64_t pages,
			    bool set)
{
	uint64_t group = page / G4_GROUP_PAGES;
	uint32_t line;
	bool wrong = false;
	int rc;

	rc = g4_alloc_get_map(wg, alloc, group, &line);
	if (rc < 0)
		return rc;
	struct g4_alloc_page *map = (struct g4_alloc_page *)g4_line_data(alloc->meta->cache, line);
	g4_txn_dirty(txn, line);
	for (uint64_t done = 0; done < pages;) {
		uint64_t at = page + done;
		uint32_t bit = (uint32_t)(at % 64);
		uint32_t span = (uint32_t)g4_min64(64 - bit, pages - done);
		uint64_t mask = g4_bit_run(bit, span);
		uint64_t *word = &map->regions[at / G4_REGION_PAGES % G4_GROUP_REGIONS].used[at % G4_REGION_PAGES / 64];
		uint64_t old = set ? g4_or64(word, mask) : g4_and64(word, ~mask);
		wrong |= set ? (old & mask) != 0 : (old & mask) != mask;
		done += span;
	}
	g4_cache_put(alloc->meta->cache, line);
	return wrong ? -G4_E_CORRUPT_ALLOC : 0;
}

G4_FN static int change_run(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, uint64_t page, uint64_t pages,
			    bool set)
{
	while (pages > 0) {
		uint64_t group = page / G4_GROUP_PAGES;
		uint64_t n = g4_min64(pages, (group + 1) * G4_GROUP_PAGES - page);
		int rc = change_map(wg, alloc, txn, page, n, set);
		if (rc == 0)
			rc = change_descriptor(wg, alloc, txn, group, set ? -(int64_t)n : (int64_t)n, 0);
		if (rc < 0)
			return rc;
		page += n;
		pages -= n;
	}
	return 0;
}

G4_FN int g4_alloc_publish(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address address,
			   uint64_t pages)
{
	return change_run(wg, alloc, txn, g4_address_page(address), pages, true);
}

G4_FN int g4_alloc_free(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address address,
			uint64_t pages)
{
	const uint64_t first = g4_address_page(address), last_group = (first + pages - 1) / G4_GROUP_PAGES;
	int rc = 0;

	if (g4_address_is_before(address, g4_layout_data(&alloc->meta->layout)) ||
	    (first + pages) * G4_PAGE_BYTES > g4_layout_end(&alloc->meta->layout))
		return -G4_E_CORRUPT_MAP;
	for (uint64_t group = first / G4_GROUP_PAGES; group <= last_group && rc == 0; group++)
		rc = load_group(wg, alloc, group); /* the memory view must have the bits before the map loses them */
	if (rc == 0)
		rc = change_run(wg, alloc, txn, first, pages, false);
	if (rc == 0) {
		g4_add64_rlx(&alloc->pending_pages, pages); /* the gate orders it before its commit */
		g4_txn_free(txn, address, pages);
	}
	return rc;
}

/* ------------------------------------------------------------------ another size */

G4_FN int g4_alloc_set_end(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, uint64_t page, uint64_t pages,
			   bool used)
{
	int rc = load_group(wg, alloc, page / G4_GROUP_PAGES); /* before the map changes */

	return rc < 0 ? rc : change_run(wg, alloc, txn, page, pages, used);
}

G4_FN int g4_alloc_describe(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, uint64_t group,
			    uint64_t groups, uint64_t word)
{
	uint32_t line;
	int rc = get_descriptor(wg, alloc, group, &line);

	if (rc < 0)
		return rc;
	g4_txn_dirty(txn, line);
	for (uint64_t g = group; g < group + groups; g++)
		g4_store64_rlx((uint64_t *)(void *)descriptor_in(g4_line_data(alloc->meta->cache, line), g), word);
	g4_cache_put(alloc->meta->cache, line);
	return 0;
}

/* What is free of regions from one to another, all in one group that is in the memory view. */
G4_FN static int count_regions(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t region, uint64_t end, uint64_t *pages)
{
	const uint64_t group = region / G4_GROUP_REGIONS;
	int rc = 0;

	*pages = 0;
	if (g4_load32_acq(&alloc->group_state[group]) != G4_GROUP_LOADED) {
		const uint32_t all = g4_load32_acq(&alloc->group_free[group]);
		if (all == 0 || end - region == G4_GROUP_REGIONS) {
			*pages = all;
			return 0;
		}
	}
	rc = load_group(wg, alloc, group);
	for (; region < end && rc == 0; region++)
		*pages += g4_load32_acq(&alloc->region_free[region]);
	return rc;
}

G4_FN int g4_alloc_set_pool(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t page, uint64_t end, uint32_t pool,
			    bool alone)
{
	const uint64_t last =
		g4_min64((end + G4_REGION_PAGES - 1) / G4_REGION_PAGES, alloc->most_groups * G4_GROUP_REGIONS);
	uint64_t region = (page + G4_REGION_PAGES - 1) / G4_REGION_PAGES;
	int failed = 0;

	while (region < last) {
		uint64_t border = g4_min64((region / G4_GROUP_REGIONS + 1) * G4_GROUP_REGIONS, last), pages = 0;
		const uint32_t old = g4_alloc_region_pool(alloc, region);
		while (g4_alloc_region_pool(alloc, border - 1) != old)
			border--;
		int rc = region < alloc->region_count ? count_regions(wg, alloc, region, border, &pages) : 0;
		if (rc < 0)
			pages = 0;
		if (alone && g4_alloc_is_unreadable(rc))
			forget_free(alloc, region / G4_GROUP_REGIONS, old);
		else
			failed = failed < 0 ? failed : rc;
		for (; region < border; region++)
			g4_store8_rlx(&alloc->region_pool[region], (uint8_t)pool);
		g4_sub64(g4_alloc_free_of(alloc, old), pages);
		g4_add64(g4_alloc_free_of(alloc, pool), pages);
	}
	return failed;
}

/* New groups of which all is free but for what `free_pages` of the last one leave. */
G4_FN static void add_free(struct g4_alloc *alloc, uint64_t group, uint64_t free_pages)
{
	for (uint64_t r = 0; r < G4_GROUP_REGIONS && free_pages > 0; r++) {
		const uint64_t here = g4_min64(free_pages, G4_REGION_PAGES);
		g4_add64(g4_alloc_free_of(alloc, g4_alloc_region_pool(alloc, group * G4_GROUP_REGIONS + r)), here);
		free_pages -= here;
	}
}

G4_FN void g4_alloc_grow(struct g4_alloc *alloc, uint64_t groups, uint64_t last_free_pages,
			 struct g4_address freed_address, uint64_t freed_pages)
{
	const uint64_t old = alloc->group_count, pages = alloc->meta->layout.backup_address / G4_PAGE_BYTES;

	for (uint64_t g = old; g < groups; g++)
		g4_store32_rel(&alloc->group_free[g], (uint32_t)(g + 1 < groups ? G4_GROUP_PAGES : last_free_pages));
	g4_store64_rel(&alloc->total_pages, pages - alloc->meta->layout.data_address / G4_PAGE_BYTES);
	g4_store64_rel(&alloc->group_count, groups);
	g4_store64_rel(&alloc->region_count, groups * G4_GROUP_REGIONS);
	if (freed_pages)
		g4_alloc_release(alloc, freed_address, freed_pages);
	for (uint64_t g = old; g < groups; g++) /* last: who takes pages out of the counts shall find them */
		add_free(alloc, g, g + 1 < groups ? G4_GROUP_PAGES : last_free_pages);
}

G4_FN int g4_alloc_mark_slab(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address address,
			     bool set)
{
	uint64_t page = g4_address_page(address), group = page / G4_GROUP_PAGES;
	uint64_t mask = UINT64_C(1) << (page % 64);
	uint32_t line;
	int rc;

	rc = g4_alloc_get_map(wg, alloc, group, &line);
	if (rc < 0)
		return rc;
	struct g4_alloc_page *map = (struct g4_alloc_page *)g4_line_data(alloc->meta->cache, line);
	uint64_t *word = &map->regions[page / G4_REGION_PAGES % G4_GROUP_REGIONS].slab[page % G4_REGION_PAGES / 64];
	g4_txn_dirty(txn, line);
	if (set)
		g4_or64(word, mask);
	else
		g4_and64(word, ~mask);
	g4_cache_put(alloc->meta->cache, line);
	if (set)
		g4_add32(&alloc->group_slabs[group], 1);
	else
		g4_sub32(&alloc->group_slabs[group], 1);
	return change_descriptor(wg, alloc, txn, group, 0, set ? 1 : -1);
}
