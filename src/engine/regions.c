/* SPDX-License-Identifier: Apache-2.0 */
/* Regions that layers above simt define (hashing, caches, commits, callers of the device API). */
#include "dir/leaf.h"
#include "engine/caller.h"
#include "engine/region.h"
#include "engine/ring.h"
#include "hash/crc32c.h"
#include "journal/wide.h"

G4_FN bool g4_engine_region(struct g4_wg *wg, uint32_t kind, void *args)
{
	switch (kind) {
	case G4_REGION_CRC32C:
		g4_crc32c_region(wg, (struct g4_crc32c_job *)args);
		return true;
	case G4_REGION_CACHE_PROBE:
		g4_cache_probe_region(wg, (struct g4_cache_probe *)args);
		return true;
	case G4_REGION_LEAF_SEARCH:
		g4_leaf_search_region(wg, (struct g4_leaf_search *)args);
		return true;
	case G4_REGION_COMMIT:
		g4_commit_region(wg, (struct g4_commit_job *)args);
		return true;
	case G4_REGION_OPTIMISTIC_LOOKUP:
		g4_session_optimistic_region(wg, args);
		return true;
	case G4_REGION_CALLER:
		g4_caller_region(wg, (struct g4_caller *)args);
		return true;
	default:
		return false;
	}
}
