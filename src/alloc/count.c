/* SPDX-License-Identifier: Apache-2.0 */
/* What of a range of pages nobody has, for who copies all of it (alloc.h, "memory view"). Nothing is claimed: it is true when it is asked. */
#include "alloc/count.h"

/*
 * g4_alloc_count() of pages of one region, up to `end`, whose words are fetched side by side: of a rebuild a GPU asks for
 * a hundred thousand pages at a time, where each word in its turn is a trip to memory.
 */
G4_FN static uint64_t count_in_region(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t page, uint64_t end, bool used)
{
	uint64_t words[G4_REGION_PAGES / 64], at = page;
	const uint64_t region = page / G4_REGION_PAGES;

	if (region >= g4_load64_acq(&alloc->region_count))
		return used ? 0 : end - page;
	if (g4_alloc_in_use(wg, alloc, g4_page_address(page)) < 0) /* its group's map can not be read */
		return used ? end - page : 0;
	for (uint32_t w = 0; w < G4_REGION_PAGES / 64; w++)
		words[w] = g4_load64_rlx(&alloc->used[region * (G4_REGION_PAGES / 64) + w]);
	g4_fence_acq();
	while (at < end) {
		const uint64_t next = g4_min64(g4_align_down(at, 64) + 64, end);
		const uint64_t mask = g4_bit_run((uint32_t)(at % 64), (uint32_t)(next - at));
		if (((words[at % G4_REGION_PAGES / 64] & mask) != 0) != used)
			break;
		at = next;
	}
	return at - page;
}

/*
 * So many regions of a group, all of whose pages are so, from its beginning `page` on, at most a few: one fence, and no look at the group for each. 0: the next one
 * is to be looked at by itself.
 */
#define SIDE_BY_SIDE 4u
G4_FN static uint64_t count_regions(struct g4_alloc *alloc, uint64_t page, uint64_t end, bool used)
{
	const uint64_t region = page / G4_REGION_PAGES, group = region / G4_GROUP_REGIONS,
		       last = region + SIDE_BY_SIDE - 1;
	bool whole[SIDE_BY_SIDE];
	uint64_t count = 0;

	if (page % G4_REGION_PAGES != 0 || end - page < (uint64_t)SIDE_BY_SIDE * G4_REGION_PAGES ||
	    last / G4_GROUP_REGIONS != group || last >= g4_load64_acq(&alloc->region_count) ||
	    g4_load32_acq(&alloc->group_state[group]) != G4_GROUP_LOADED)
		return 0;
	for (uint32_t r = 0; r < SIDE_BY_SIDE; r++) {
		whole[r] = true;
		for (uint32_t w = 0; w < G4_REGION_PAGES / 64; w++)
			whole[r] &=
				(g4_load64_rlx(&alloc->used[(region + r) * (G4_REGION_PAGES / 64) + w]) != 0) == used;
	}
	g4_fence_acq();
	for (uint32_t r = 0; r < SIDE_BY_SIDE; r++)
		count += count == r && whole[r];
	return count;
}

G4_FN uint64_t g4_alloc_count(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t page, uint64_t most, bool used)
{
	const uint64_t end = page + most;
	uint64_t at = page;

	while (at < end) {
		const uint64_t regions = count_regions(alloc, at, end, used);
		at += regions * G4_REGION_PAGES;
		if (regions > 0)
			continue;
		const uint64_t border = g4_min64(g4_align_down(at, G4_REGION_PAGES) + G4_REGION_PAGES, end);
		const uint64_t here = count_in_region(wg, alloc, at, border, used);
		at += here;
		if (at < border)
			break;
	}
	return at - page;
}

G4_FN int g4_alloc_look(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_address address)
{
	uint32_t map;
	int rc = g4_layout_holds(&alloc->meta->layout, address) ? g4_alloc_in_use(wg, alloc, address) :
								  -G4_E_CORRUPT_ALLOC;

	if (rc >= 0)
		rc = g4_alloc_get_map(wg, alloc, g4_address_page(address) / G4_GROUP_PAGES, &map);
	if (rc == 0)
		g4_cache_put(alloc->meta->cache, map);
	return rc;
}
