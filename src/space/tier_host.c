/* SPDX-License-Identifier: Apache-2.0 */
/* Sizing the second tier of the cache, and setting it up over memory that the mount took. */
#include "base/move_host.h"
#include "space/tier.h"

#define SET_BYTES (G4_TIER_WAYS * G4_PAGE_BYTES)
#define VERSIONS_BYTES g4_align_up(G4_TIER_VERSIONS * sizeof(uint64_t), G4_PAGE_BYTES)

static uint64_t sets_for(uint64_t bytes)
{
	return g4_min64(bytes / SET_BYTES, UINT32_MAX);
}

static uint64_t sets_bytes(uint64_t sets)
{
	return g4_align_up(sets * sizeof(struct g4_tier_set), G4_PAGE_BYTES);
}

uint64_t g4_tier_memory(uint64_t bytes)
{
	const uint64_t sets = sets_for(bytes);

	return sets > 0 ? VERSIONS_BYTES + sets_bytes(sets) + sets * SET_BYTES : 0;
}

void g4_tier_init(struct g4_tier *tier, void *memory, uint64_t bytes)
{
	const uint64_t sets = sets_for(bytes);
	uint8_t *at = memory;

	memset(tier, 0, sizeof(*tier));
	if (sets == 0)
		return;
	tier->versions = (uint64_t *)(void *)at;
	tier->sets = (struct g4_tier_set *)(void *)(at + VERSIONS_BYTES);
	tier->frames = at + VERSIONS_BYTES + sets_bytes(sets);
	tier->set_count = (uint32_t)sets;
	/* of more regions not all blocks would be kept until they are wanted */
	tier->region_count =
		(uint32_t)g4_min64(g4_max64(sets * G4_TIER_WAYS / G4_TIER_REGION_PAGES, 4), G4_TIER_REGIONS);
}

void g4_tier_moved(struct g4_tier *tier, intptr_t by)
{
	if (tier->set_count == 0)
		return;
	G4_MOVE(tier->versions, by);
	G4_MOVE(tier->sets, by);
	G4_MOVE(tier->frames, by);
}
