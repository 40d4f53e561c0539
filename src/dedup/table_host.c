/* SPDX-License-Identifier: Apache-2.0 */
/* Sizing the table of contents, setting it up over memory that the mount took, and counting what is in it. */
#include "base/move_host.h"
#include "dedup/table.h"

/* An entry and its heads of both chains. */
#define ENTRY_BYTES (sizeof(struct g4_ddt_entry) + 2 * sizeof(uint32_t))
#define MOST_SHARD_ENTRIES (UINT32_MAX / G4_DDT_SHARDS / 2)

static uint64_t shard_entries(uint64_t bytes)
{
	return g4_min64(bytes / ENTRY_BYTES / G4_DDT_SHARDS, MOST_SHARD_ENTRIES);
}

uint64_t g4_ddt_memory(uint64_t bytes, uint64_t regions)
{
	const uint64_t entries = shard_entries(bytes) * G4_DDT_SHARDS;

	return entries ? entries * ENTRY_BYTES + regions * sizeof(uint32_t) : 0;
}

void g4_ddt_init(struct g4_ddt *ddt, void *memory, uint64_t bytes, uint64_t regions)
{
	uint8_t *at = (uint8_t *)memory;

	memset(ddt, 0, sizeof(*ddt));
	ddt->shard_entries = (uint32_t)shard_entries(bytes);
	ddt->places = ddt->shard_entries * G4_DDT_SHARDS;
	if (!g4_ddt_is_there(ddt))
		return;
	ddt->region_count = regions;
	ddt->entries = (struct g4_ddt_entry *)at;
	at += (uint64_t)ddt->places * sizeof(*ddt->entries);
	ddt->heads = (uint32_t *)at;
	at += (uint64_t)ddt->places * sizeof(*ddt->heads);
	ddt->by_address = (uint32_t *)at;
	at += (uint64_t)ddt->places * sizeof(*ddt->by_address);
	ddt->regions = (uint32_t *)at;
}

void g4_ddt_moved(struct g4_ddt *ddt, intptr_t by)
{
	if (!g4_ddt_is_there(ddt))
		return;
	G4_MOVE(ddt->entries, by);
	G4_MOVE(ddt->heads, by);
	G4_MOVE(ddt->by_address, by);
	G4_MOVE(ddt->regions, by);
}

void g4_ddt_stats(struct g4_ddt *ddt, struct g4_ddt_stats *stats)
{
	memset(stats, 0, sizeof(*stats));
	stats->places = ddt->places;
	stats->bytes = ddt->places * ENTRY_BYTES;
	for (uint32_t s = 0; s < G4_DDT_SHARDS; s++) {
		struct g4_ddt_shard *shard = &ddt->shards[s];
		g4_lock(&shard->entries_lock);
		stats->entries += shard->count;
		stats->found += shard->found;
		stats->inserted += shard->inserted;
		stats->evicted += shard->evicted;
		stats->stale += shard->stale;
		g4_unlock(&shard->entries_lock);
	}
}
