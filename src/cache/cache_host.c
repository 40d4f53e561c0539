/* SPDX-License-Identifier: Apache-2.0 */
/* Sizing the page cache and setting it up over memory that the mount took. */
#include "base/memory_host.h"
#include "base/move_host.h"
#include "cache/cache.h"

uint64_t g4_cache_lines_for(uint64_t bytes)
{
	uint64_t lines = bytes / G4_PAGE_BYTES;
	return lines < 512 ? 512 : lines > UINT32_MAX / 2 ? UINT32_MAX / 2 : lines;
}

uint32_t g4_cache_sets_for(uint32_t line_count)
{
	/* one line in eight is overflow */
	return (line_count - line_count / 8) / G4_CACHE_WAYS;
}

void g4_cache_init(struct g4_cache *cache, struct g4_line *lines, uint8_t *frames, uint32_t *frame_numbers,
		   struct g4_cache_set *sets, struct g4_note *notes, uint32_t line_count)
{
	memset(cache, 0, sizeof(*cache));
	cache->lines = lines;
	cache->frames = frames;
	cache->frame_numbers = frame_numbers;
	cache->sets = sets;
	cache->notes = notes;
	cache->line_count = line_count;
	cache->set_count = g4_cache_sets_for(line_count);
	cache->per_set = UINT64_MAX / cache->set_count;
	cache->overflow_first = cache->set_count * G4_CACHE_WAYS;
	for (uint32_t i = 0; i < cache->set_count; i++) {
		sets[i].overflow = G4_NO_LINE;
#if G4_CACHE_POLICY == G4_CACHE_S3FIFO
		sets[i].order = 0x76543210;
#elif G4_CACHE_POLICY == G4_CACHE_CLOCKPRO
		sets[i].target = G4_CACHE_WAYS;
#endif
	}
	cache->pool = G4_NO_LINE;
	cache->alone_first = line_count - line_count / 4;
	cache->pin_limit = (line_count - cache->overflow_first) / 2;
	for (uint32_t i = line_count; i-- > cache->overflow_first;) {
		lines[i].chain = cache->pool;
		cache->pool = i;
	}
	for (uint32_t i = 0; i < line_count; i++) {
		lines[i].owner = UINT64_MAX;
		lines[i].index = UINT64_MAX;
	}
}

void g4_cache_set_tier(struct g4_cache *cache, struct g4_tier *tier, struct g4_origin *origins)
{
	cache->tier = tier;
	cache->origins = origins;
	for (uint32_t i = 0; i < cache->line_count; i++)
		origins[i].version = G4_TIER_NO_VERSION;
}

#define TOUCH_AHEAD (2 * G4_CACHE_TOUCH_PAGES) /* 4 MiB: what a maker fills while so much is cleared */

/* A mount that needs less than half of 2 MiB is not given more. Those that come in alone have small pages, one for each. */
bool g4_cache_touch(struct g4_cache *cache, uint32_t *touched)
{
	const uint32_t used = g4_load32_rlx(&cache->numbered[0]);
	const uint32_t next = (uint32_t)g4_align_up(used, G4_CACHE_TOUCH_PAGES);
	const uint32_t from = *touched > next ? *touched : next;
	const uint32_t end = (uint32_t)g4_min64((uint64_t)next + TOUCH_AHEAD, cache->alone_first);

	if (!cache->frame_numbers || used < G4_CACHE_TOUCH_PAGES / 2 || from >= end)
		return false;
	const uint32_t count = (uint32_t)g4_min64(end - from, G4_CACHE_TOUCH_PAGES);
	g4_memory_touch(cache->frames + (uint64_t)from * G4_PAGE_BYTES, (uint64_t)count * G4_PAGE_BYTES);
	*touched = from + count;
	return true;
}

void g4_cache_moved(struct g4_cache *cache, intptr_t by)
{
	G4_MOVE(cache->lines, by);
	G4_MOVE(cache->frames, by);
	if (cache->frame_numbers)
		G4_MOVE(cache->frame_numbers, by);
	G4_MOVE(cache->sets, by);
	G4_MOVE(cache->notes, by);
	if (cache->origins) {
		G4_MOVE(cache->origins, by);
		G4_MOVE(cache->tier, by);
	}
}
