/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading ahead what says how many owners pages have. Each look at a group is under its lock, the reads are not: what has gone meanwhile is read in vain, and
 * its line is free space's, as those of freed pages are that were in the cache before.
 */
#include "alloc/share.h"
#include "alloc/share_lines.h"

/* What leads to the next one. */
enum step { MAPS, SHARES, COUNTS, STEPS };

/* Where a step's pages of metadata are for one page: up to two, 0: none. */
G4_FN static void find(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t page, enum step step, uint64_t at[2])
{
	const uint64_t region = page / G4_REGION_PAGES, group = region / G4_GROUP_REGIONS;
	struct g4_shares_lines c;

	at[0] = at[1] = 0;
	if (step == MAPS) {
		at[0] = g4_address_stored(g4_layout_map_page(&alloc->meta->layout, group));
		return;
	}
	g4_lock(g4_shares_lock(alloc, group));
	if (step == SHARES) {
		uint32_t map;
		if (g4_alloc_get_map(wg, alloc, group, &map) == 0) {
			at[0] = g4_load64_rlx(
				&((const struct g4_alloc_page *)g4_line_data(alloc->meta->cache, map))->shares);
			g4_cache_put(alloc->meta->cache, map);
		}
	} else if (g4_shares_get(wg, alloc, region, &c) == 0) {
		if (c.shares != G4_NO_LINE) {
			at[0] = g4_shares_of(alloc, &c)->owners[c.region];
			at[1] = g4_load32_acq(&alloc->buffers_owners) ? g4_shares_of(alloc, &c)->buffered : 0;
		}
		g4_shares_put_counts(alloc, &c);
	}
	g4_unlock(g4_shares_lock(alloc, group));
}

G4_FN void g4_share_read_ahead(struct g4_wg *wg, struct g4_alloc *alloc, const struct g4_address *pages, uint32_t count,
			       struct g4_meta_ahead *ahead)
{
	const uint32_t types[STEPS][2] = {{G4_BLOCK_ALLOC, G4_BLOCK_ALLOC},
					  {G4_BLOCK_SHARES, G4_BLOCK_SHARES},
					  {G4_BLOCK_OWNERS, G4_BLOCK_BUFFERED}};

	for (uint32_t step = MAPS; step < STEPS; step++) {
		uint64_t last = UINT64_MAX;
		for (uint32_t k = 0; k < count; k++) {
			const uint64_t page = g4_address_page(pages[k]);
			uint64_t at[2];
			if (page / G4_REGION_PAGES == last || !g4_layout_holds(&alloc->meta->layout, pages[k]))
				continue;
			last = page / G4_REGION_PAGES;
			find(wg, alloc, page, (enum step)step, at);
			for (uint32_t n = 0; n < 2; n++) {
				const struct g4_address address = g4_address_from(at[n]);
				if (at[n] == 0 || g4_meta_want(ahead, address, types[step][n]))
					continue;
				g4_meta_read_ahead(wg, alloc->meta, ahead);
				(void)g4_meta_want(ahead, address, types[step][n]);
			}
		}
		g4_meta_read_ahead(wg, alloc->meta, ahead);
	}
}
