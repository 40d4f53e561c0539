/* SPDX-License-Identifier: Apache-2.0 */
/* Sizing the table of contents, setting it up over memory that the mount took, and counting what is in it. */
#include "base/move_host.h"
#include "dedup/table.h"

#define BUCKET_BYTES (G4_DDT_PLACES * sizeof(uint64_t))

static uint64_t buckets(uint64_t bytes)
{
	return g4_min64(bytes / BUCKET_BYTES, UINT32_MAX);
}

uint64_t g4_ddt_memory(uint64_t bytes)
{
	return buckets(bytes) * BUCKET_BYTES;
}

void g4_ddt_init(struct g4_ddt *ddt, void *memory, uint64_t bytes)
{
	memset(ddt, 0, sizeof(*ddt));
	ddt->bucket_count = buckets(bytes);
	ddt->places = (uint64_t *)memory;
}

void g4_ddt_moved(struct g4_ddt *ddt, intptr_t by)
{
	if (g4_ddt_is_there(ddt))
		G4_MOVE(ddt->places, by);
}

void g4_ddt_stats(const struct g4_ddt *ddt, struct g4_ddt_stats *stats)
{
	uint64_t gone = 0;

	memset(stats, 0, sizeof(*stats));
	stats->places = ddt->bucket_count * G4_DDT_PLACES;
	stats->bytes = ddt->bucket_count * BUCKET_BYTES;
	for (uint32_t t = 0; t < G4_DDT_TALLIES; t++) {
		const struct g4_ddt_tally *tally = &ddt->tallies[t];
		stats->found += g4_load64_rlx(&tally->found);
		stats->inserted += g4_load64_rlx(&tally->inserted);
		stats->evicted += g4_load64_rlx(&tally->evicted);
		stats->stale += g4_load64_rlx(&tally->stale);
		gone += g4_load64_rlx(&tally->removed);
	}
	stats->entries = stats->inserted - g4_min64(stats->inserted, stats->evicted + gone);
}
