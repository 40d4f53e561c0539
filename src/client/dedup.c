/* SPDX-License-Identifier: Apache-2.0 */
#include "client/dedup.h"

#include "client/client.h"

static int ask_session(void *from, uint32_t order, uint64_t group, struct g4_dedup_counts *counts)
{
	const gpu4fs *fs = from;
	struct g4_cmd cmd = {
		.op = G4_CMD_DEDUP, .mask = order, .cookie = group, .length = sizeof(*counts), .data = counts};

	return g4c_run(fs->mount->engine, &cmd);
}

int gpu4fs_dedup_stats(gpu4fs *fs, struct gpu4fs_dedup_stats *out)
{
	struct g4_dedup_counts counts = {0};
	int rc = ask_session(fs, G4_DEDUP_STATS, 0, &counts);

	if (rc)
		return rc;
	*out = (struct gpu4fs_dedup_stats){
		.hits = counts.hits,
		.misses = counts.misses,
		.zeros = counts.zeros,
		.saved_bytes = (counts.hits + counts.zeros) * G4_PAGE_BYTES,
		.places = counts.places,
		.hints = counts.hints,
		.inserted = counts.inserted,
		.evicted = counts.evicted,
		.stale = counts.stale,
		.groups = counts.groups,
		.groups_loaded = counts.loaded,
		.quota_bytes = counts.quota_bytes,
		.listing_bytes = counts.listing_bytes,
		.groups_counted = counts.counted,
		.plain = counts.plain,
	};
	return 0;
}

int64_t g4c_dedup_prune(g4c_dedup_ask *ask, void *from)
{
	struct g4_dedup_counts counts = {.groups = 1};
	int64_t pruned = 0;
	int rc = 0;

	while (rc == 0 && counts.next < counts.groups) {
		rc = ask(from, G4_DEDUP_PRUNE, counts.next, &counts);
		pruned += (int64_t)counts.pruned;
	}
	return rc < 0 ? rc : pruned;
}

int64_t gpu4fs_dedup_prune(gpu4fs *fs)
{
	return g4c_dedup_prune(ask_session, fs);
}

int gpu4fs_dedup_quota(gpu4fs *fs, uint64_t bytes)
{
	struct g4_dedup_counts counts = {0};

	return ask_session(fs, G4_DEDUP_QUOTA, bytes, &counts);
}
