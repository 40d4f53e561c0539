/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions that become nobody's while others claim space, and come back. A workgroup may have looked at a region's pool, and claim a page
 * there a while later; so the pages of a region that is retired stay taken in the view: its counter says that there are none. One that comes
 * back is of its pool before its pages are there, and these are before they are counted: who takes pages out of a count finds them.
 *
 * One that comes back may have been gone when the file system was mounted: its pages are free in the view then, as in the map, for nobody looks
 * for pages of POOL_GONE. So what is taken in the view and free in the map was retired since; what is neither is somebody's, and stays.
 *
 * What is free of the pool is promised to nobody: a reservation is held from before the look until the count has lost the pages.
 */
#include "alloc/retire.h"

G4_FN bool g4_alloc_is_empty(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t region)
{
	if (region >= g4_load64_acq(&alloc->region_count) ||
	    g4_load32_rlx(&alloc->group_free[region / G4_GROUP_REGIONS]) < G4_REGION_PAGES)
		return false;
	/* this loads the group's view; what can not be read is in use */
	if (g4_load32_acq(&alloc->group_state[region / G4_GROUP_REGIONS]) != G4_GROUP_LOADED &&
	    g4_alloc_in_use(wg, alloc, g4_page_address(region * G4_REGION_PAGES)) != 0)
		return false;
	return g4_load32_acq(&alloc->region_free[region]) == G4_REGION_PAGES;
}

G4_FN static void put_pool(struct g4_alloc *alloc, uint64_t region, uint32_t pool)
{
	g4_store8_rlx(&alloc->region_pool[region], (uint8_t)pool);
}

G4_FN bool g4_alloc_retire(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t region, uint32_t *pool)
{
	const uint64_t first = region * G4_REGION_PAGES;
	uint64_t page = first, pages = 0;

	if (!g4_alloc_is_empty(wg, alloc, region))
		return false;
	*pool = g4_alloc_region_pool(alloc, region);
	if (*pool == G4_POOL_GONE || !g4_alloc_reserve_in(alloc, *pool, G4_REGION_PAGES))
		return false;
	if (g4_alloc_hide(wg, alloc, &page, first + G4_REGION_PAGES, G4_REGION_PAGES, &pages) < 0)
		pages = 0;
	const bool all = pages == G4_REGION_PAGES;
	if (all) {
		put_pool(alloc, region, G4_POOL_GONE);
		g4_sub64(g4_alloc_free_of(alloc, *pool), G4_REGION_PAGES);
		g4_add64(&alloc->pool_free[G4_POOL_GONE], G4_REGION_PAGES);
	} else if (pages > 0) {
		g4_alloc_unhide(alloc, page, pages);
	}
	g4_alloc_unreserve_in(alloc, *pool, G4_REGION_PAGES);
	return all;
}

G4_FN void g4_alloc_take_back(struct g4_alloc *alloc, uint64_t region, uint32_t pool)
{
	put_pool(alloc, region, pool);
	g4_sub64(&alloc->pool_free[G4_POOL_GONE], G4_REGION_PAGES);
	g4_alloc_unhide(alloc, region * G4_REGION_PAGES, G4_REGION_PAGES);
	g4_add64(g4_alloc_free_of(alloc, pool), G4_REGION_PAGES);
}

/* Whether the map page, of transactions, has nothing of a region. */
G4_FN static bool is_clear(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t region)
{
	uint64_t used = 0;
	uint32_t line;

	if (g4_alloc_get_map(wg, alloc, region / G4_GROUP_REGIONS, &line) < 0)
		return false;
	const struct g4_alloc_page *map = (const struct g4_alloc_page *)g4_line_data(alloc->meta->cache, line);
	for (uint32_t w = 0; w < G4_REGION_PAGES / 64; w++)
		used |= g4_load64_acq(&map->regions[region % G4_GROUP_REGIONS].used[w]);
	g4_cache_put(alloc->meta->cache, line);
	return used == 0;
}

/* Whether the view has all of it. */
G4_FN static bool is_taken(const struct g4_alloc *alloc, uint64_t region)
{
	uint64_t taken = UINT64_MAX;

	for (uint32_t w = 0; w < G4_REGION_PAGES / 64; w++)
		taken &= g4_load64_acq(&alloc->used[region * 8 + w]);
	return taken == UINT64_MAX;
}

G4_FN bool g4_alloc_bring_back(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t region, uint32_t pool)
{
	if (region >= g4_load64_acq(&alloc->region_count) || g4_alloc_region_pool(alloc, region) != G4_POOL_GONE ||
	    g4_alloc_in_use(wg, alloc, g4_page_address(region * G4_REGION_PAGES)) < 0 || !is_clear(wg, alloc, region))
		return false;
	const uint32_t here = g4_load32_acq(&alloc->region_free[region]); /* the group's view is loaded */
	if (here == 0 && is_taken(alloc, region)) {
		g4_alloc_take_back(alloc, region, pool);
		return true;
	}
	if (here < G4_REGION_PAGES) /* also of a group that could not be read at first, of which nothing is counted */
		return false;
	put_pool(alloc, region, pool);
	g4_sub64(&alloc->pool_free[G4_POOL_GONE], G4_REGION_PAGES);
	g4_add64(g4_alloc_free_of(alloc, pool), G4_REGION_PAGES);
	return true;
}
