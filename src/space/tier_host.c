/* SPDX-License-Identifier: Apache-2.0 */
/* Sizing the second tier of the cache, and setting it up over memory that the mount took. */
#include "base/move_host.h"
#include "space/tier.h"

#define SET_BYTES (G4_TIER_WAYS * G4_PAGE_BYTES)
#define VERSIONS_A_BLOCK                                                                                               \
	8u /* of the tier's: words are shared by blocks of the device that are as many times as far apart */

static uint64_t sets_for(uint64_t bytes)
{
	return g4_min64(bytes / SET_BYTES, UINT32_MAX);
}

static uint64_t sets_bytes(uint64_t sets)
{
	return g4_align_up(sets * sizeof(struct g4_tier_set), G4_PAGE_BYTES);
}

static uint64_t versions_for(uint64_t sets)
{
	const uint64_t enough = sets * (G4_TIER_WAYS / G4_TIER_BLOCK_PAGES) * VERSIONS_A_BLOCK;
	uint64_t versions = G4_TIER_VERSIONS;

	while (versions < enough && versions <= UINT32_MAX / 2)
		versions *= 2;
	return versions;
}

uint64_t g4_tier_memory(uint64_t bytes)
{
	const uint64_t sets = sets_for(bytes);

	return sets > 0 ? versions_for(sets) * sizeof(uint64_t) + sets_bytes(sets) : 0;
}

uint64_t g4_tier_frames(uint64_t bytes)
{
	return sets_for(bytes) * SET_BYTES;
}

void g4_tier_init(struct g4_tier *tier, void *memory, void *frames, uint64_t bytes)
{
	const uint64_t sets = sets_for(bytes);
	uint8_t *at = memory;

	memset(tier, 0, sizeof(*tier));
	if (sets == 0)
		return;
	tier->versions = (uint64_t *)(void *)at;
	tier->version_mask = (uint32_t)(versions_for(sets) - 1);
	tier->sets = (struct g4_tier_set *)(void *)(at + versions_for(sets) * sizeof(uint64_t));
	tier->frames = frames;
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
	if (!tier->frames_apart)
		G4_MOVE(tier->frames, by);
}
