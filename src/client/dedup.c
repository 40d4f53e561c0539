/* SPDX-License-Identifier: Apache-2.0 */
#include "client/dedup.h"

#include <errno.h>
#include <time.h>

#include "client/client.h"

#define SECONDS_OF_DAY 86400

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

int64_t g4c_dedup_prune(g4c_dedup_ask *ask, void *from, bool older, uint32_t days)
{
	const int64_t last = older ? (int64_t)time(NULL) / SECONDS_OF_DAY - (int64_t)days : 0;
	struct g4_dedup_counts counts = {.groups = 1};
	int64_t pruned = 0;
	int rc = last < 0 || last > UINT32_MAX ? -EINVAL : 0;

	while (rc == 0 && counts.next < counts.groups) {
		rc = ask(from, older ? G4_DEDUP_PRUNE_OLDER : G4_DEDUP_PRUNE, counts.next | (uint64_t)last << 32,
			 &counts);
		pruned += (int64_t)counts.pruned;
	}
	return rc < 0 ? rc : pruned;
}

int64_t gpu4fs_dedup_prune(gpu4fs *fs)
{
	return g4c_dedup_prune(ask_session, fs, false, 0);
}

int64_t gpu4fs_dedup_prune_older(gpu4fs *fs, uint32_t days)
{
	return g4c_dedup_prune(ask_session, fs, true, days);
}

int gpu4fs_dedup_quota(gpu4fs *fs, uint64_t bytes)
{
	struct g4_dedup_counts counts = {0};

	return ask_session(fs, G4_DEDUP_QUOTA, bytes, &counts);
}
