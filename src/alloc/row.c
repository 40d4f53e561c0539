/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searching for rows of free pages. Only reads the memory view, without locks: what it finds was free when it looked. A region's eight
 * words are fetched together, for on a GPU each fetch that waits for another one is a trip to the L2 cache.
 */
#include "alloc/row.h"
#include "format/owners.h"

struct row_in { /* of one region */
	uint32_t first, pages;
};

/* From page `from` of a region on: the first row of `want` pages or more, with all that it has, or the longest. */
G4_FN static struct row_in row_in_region(const struct g4_alloc *alloc, uint64_t region, uint32_t from, uint32_t want)
{
	struct row_in best = {0, 0};
	uint64_t used[G4_REGION_WORDS];
	uint32_t run = 0;

	for (uint32_t w = 0; w < G4_REGION_WORDS; w++)
		used[w] = g4_load64_rlx(&alloc->used[region * G4_REGION_WORDS + w]);
	for (uint32_t at = from; at < G4_REGION_PAGES;) { /* bits that are alike, up to the end of their word */
		const uint32_t left = 64 - at % 64;
		const uint64_t rest = used[at / 64] >> at % 64;
		const bool is_used = rest & 1;
		const uint64_t other = is_used ? ~rest : rest;
		const uint32_t n = other ? (uint32_t)g4_min64(g4_lowest_bit(other), left) : left;

		if (is_used && best.pages >= want)
			break;
		run = is_used ? 0 : run + n;
		at += n;
		if (run > best.pages) {
			best.first = at - run;
			best.pages = run;
		}
	}
	return best;
}

/* Whether a region may have a row that is longer than `pages`. */
G4_FN static bool may_have(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t region, uint32_t pool, uint64_t pages)
{
	if (g4_load32_rlx(&alloc->group_free[region / G4_GROUP_REGIONS]) <= pages ||
	    g4_alloc_region_pool(alloc, region) != pool)
		return false;
	/* this loads the group's view; what can not be read is for the claim to report */
	if (g4_load32_acq(&alloc->group_state[region / G4_GROUP_REGIONS]) != G4_GROUP_LOADED &&
	    g4_alloc_in_use(wg, alloc, g4_page_address(region * G4_REGION_PAGES)) < 0)
		return false;
	return g4_load32_rlx(&alloc->region_free[region]) > pages;
}

G4_FN struct g4_alloc_row g4_alloc_find_row(struct g4_wg *wg, struct g4_alloc *alloc, uint32_t pool, uint64_t want)
{
	struct g4_alloc_shard *shard = &alloc->shards[g4_wg_index(wg) % G4_ALLOC_SHARDS];
	uint64_t *const last = pool == G4_LEVEL_OWN ? &shard->row : &alloc->pool_row[pool];
	const uint64_t count = g4_load64_acq(&alloc->region_count), begin = g4_load64_rlx(last);
	const uint64_t steps = g4_min64(count, G4_ALLOC_ROW_REGIONS);
	uint64_t region = begin / G4_REGION_PAGES % count, first = 0, pages = 1, empty = 0;
	bool has_empty = false;

	for (uint64_t step = 0; step <= steps && pages < want; step++, region = (region + 1) % count) {
		/* the first region from the last row on, and once more as a whole where the search has come round */
		const uint32_t from = step == 0 ? (uint32_t)(begin % G4_REGION_PAGES) : 0;

		if (!may_have(wg, alloc, region, pool, pages))
			continue;
		const struct row_in row = row_in_region(alloc, region, from, (uint32_t)want);
		if (row.pages == G4_REGION_PAGES) {
			empty = has_empty ? empty : region;
			has_empty = true;
		} else if (row.pages > pages) {
			first = region * G4_REGION_PAGES + row.first;
			pages = row.pages;
		}
	}
	if (pages < want && has_empty) {
		first = empty * G4_REGION_PAGES;
		pages = G4_REGION_PAGES;
	}
	g4_store64_rlx(last, pages >= want ? first : region * G4_REGION_PAGES);
	const struct g4_alloc_row found = {first > 0 ? g4_page_address(first) : G4_NO_ADDRESS, first > 0 ? pages : 0};
	return found;
}
