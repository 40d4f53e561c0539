/* SPDX-License-Identifier: Apache-2.0 */
/* Sizing the allocator and setting it up over memory that the mount took. */
#include "alloc/alloc.h"
#include "alloc/quota.h"
#include "base/move_host.h"
#include "format/owners.h"

uint64_t g4_alloc_memory(uint64_t most_groups)
{
	uint64_t regions = most_groups * G4_GROUP_REGIONS;

	return g4_align_up(regions * (2 * 8 * sizeof(uint64_t) + sizeof(uint32_t) + sizeof(uint8_t)) +
				   (regions + 63) / 64 * 8 + most_groups * (3 * sizeof(uint32_t) + sizeof(uint8_t)),
			   G4_PAGE_BYTES);
}

static int read_descriptors(struct g4_wg *wg, struct g4_alloc *alloc)
{
	const struct g4_layout *layout = &alloc->meta->layout;

	for (uint64_t first = 0; first < alloc->group_count; first += G4_GROUPS_PER_PAGE) {
		const struct g4_address address = g4_layout_groups_page(layout, first);
		uint32_t line;
		int rc = g4_meta_get(wg, alloc->meta, address, G4_BLOCK_GROUPS, &line);
		if (rc < 0)
			return rc;
		const struct g4_groups_page *page =
			(const struct g4_groups_page *)g4_line_data(alloc->meta->cache, line);
		rc = g4_groups_page_validate(page, first, alloc->group_count);
		for (uint64_t g = first; rc == 0 && g < alloc->group_count && g < first + G4_GROUPS_PER_PAGE; g++) {
			alloc->group_free[g] = page->groups[g - first].free_pages;
			alloc->group_slabs[g] = page->groups[g - first].slabs;
			alloc->free_pages += page->groups[g - first].free_pages;
		}
		g4_cache_put(alloc->meta->cache, line);
		if (rc < 0)
			return rc;
	}
	return 0;
}

#define FEW_SHARDS 64u /* as of the threads of a host, which begin at so many places: */
#define FEW_PLACES 16u

/* A shard's number with its bits in the other order: so the first shards, however many of them are used, lie apart. */
static uint32_t turn(uint32_t shard)
{
	uint32_t turned = 0;

	for (uint32_t bit = 1; bit < G4_ALLOC_SHARDS; bit *= 2)
		turned = turned * 2 + ((shard & bit) != 0);
	return turned;
}

/*
 * Shards start apart from each other; metadata starts half a share away from data, and empty regions are looked for behind the latter. Those
 * of hundreds of workgroups, which would only get into each other's way at a few places, start all over the device.
 */
static void begin_shard(struct g4_alloc *alloc, uint32_t s)
{
	struct g4_alloc_shard *shard = &alloc->shards[s];
	const uint64_t first = alloc->meta->layout.data_address / G4_REGION_BYTES, span = alloc->region_count - first;
	const uint64_t places = s < FEW_SHARDS ? FEW_PLACES : G4_ALLOC_SHARDS;
	const uint64_t place = s < FEW_SHARDS ? s % FEW_PLACES : turn(s);

	shard->region[G4_ALLOC_METADATA] = (uint32_t)(first + span * place / places);
	shard->region[G4_ALLOC_DATA] = (uint32_t)(first + span * (2 * place + 1) / (2 * places));
	shard->region[G4_ALLOC_ALIGNED] = (uint32_t)(first + span * (4 * place + 3) / (4 * places));
	shard->row = shard->region[G4_ALLOC_DATA] * (uint64_t)G4_REGION_PAGES;
}

/* How many pages of sums of listed pages groups may have: a quarter has one only if a page of it is in use. */
static void bound_listings(struct g4_alloc *alloc)
{
	const uint64_t fixed = alloc->meta->layout.data_address / G4_PAGE_BYTES;

	for (uint64_t group = fixed / G4_GROUP_PAGES; group < alloc->group_count; group++) {
		const uint64_t used = G4_GROUP_PAGES - g4_min64(alloc->group_free[group], G4_GROUP_PAGES);
		alloc->group_listings[group] = (uint8_t)g4_min64(used, G4_GROUP_REGIONS * G4_LISTING_QUARTERS);
		alloc->listing_pages += alloc->group_listings[group];
	}
}

int g4_alloc_init(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_journal *journal, void *memory,
		  uint64_t most_groups)
{
	const uint64_t most_regions = most_groups * G4_GROUP_REGIONS;

	uint8_t *at = (uint8_t *)memory;

	memset(alloc, 0, sizeof(*alloc));
	alloc->journal = journal;
	alloc->meta = journal->meta;
	alloc->group_count = alloc->meta->layout.group_count;
	alloc->region_count = alloc->group_count * G4_GROUP_REGIONS;
	alloc->most_groups = most_groups;
	alloc->total_pages = (alloc->meta->layout.backup_address - alloc->meta->layout.data_address) / G4_PAGE_BYTES;
	alloc->used = (uint64_t *)at;
	at += most_regions * 8 * sizeof(uint64_t);
	alloc->past_slabs = (uint64_t *)at;
	at += most_regions * 8 * sizeof(uint64_t);
	alloc->freed = (uint64_t *)at;
	at += (most_regions + 63) / 64 * sizeof(uint64_t);
	alloc->region_free = (uint32_t *)at;
	at += most_regions * sizeof(uint32_t);
	alloc->group_state = (uint32_t *)at;
	at += most_groups * sizeof(uint32_t);
	alloc->group_free = (uint32_t *)at;
	at += most_groups * sizeof(uint32_t);
	alloc->group_slabs = (uint32_t *)at;
	at += most_groups * sizeof(uint32_t);
	alloc->region_pool = at;
	at += most_regions * sizeof(uint8_t);
	alloc->group_listings = at;
	g4_quota_set(alloc, 0);
	for (uint32_t s = 0; s < G4_ALLOC_SHARDS; s++)
		begin_shard(alloc, s);
	const int rc = read_descriptors(wg, alloc);
	if (rc == 0)
		bound_listings(alloc);
	return rc;
}

void g4_alloc_moved(struct g4_alloc *alloc, intptr_t by)
{
	G4_MOVE(alloc->journal, by);
	G4_MOVE(alloc->meta, by);
	G4_MOVE(alloc->used, by);
	G4_MOVE(alloc->past_slabs, by);
	G4_MOVE(alloc->freed, by);
	G4_MOVE(alloc->region_free, by);
	G4_MOVE(alloc->group_state, by);
	G4_MOVE(alloc->group_free, by);
	G4_MOVE(alloc->group_slabs, by);
	G4_MOVE(alloc->region_pool, by);
	G4_MOVE(alloc->group_listings, by);
}
