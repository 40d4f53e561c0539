/* SPDX-License-Identifier: Apache-2.0 */
/* What lanes run while their leader executes commands: the regions of this layer and of those below it. */
#include "alloc/buffered.h"
#include "alloc/listing.h"
#include "alloc/release.h"
#include "data/hints.h"
#include "data/sums_region.h"
#include "dir/leaf.h"
#include "fs/execute.h"
#include "fs/listed.h"
#include "hash/crc32c.h"
#include "journal/sealed_wide.h"
#include "journal/wide.h"
#include "space/direct.h"

G4_FN void g4_fs_region(struct g4_wg *wg, const struct g4_wg_region *region)
{
	switch (region->kind) {
	case G4_REGION_SUMS:
		g4_sums_region(wg, region->args);
		break;
	case G4_REGION_CRC32C:
		g4_crc32c_region(wg, region->args);
		break;
	case G4_REGION_DIRECT:
		g4_direct_region(wg, region->args);
		break;
	case G4_REGION_REMAKE:
		g4_direct_remake_region(wg, region->args);
		break;
	case G4_REGION_CACHE_PROBE:
		g4_cache_probe_region(wg, region->args);
		break;
	case G4_REGION_SEALED:
		g4_sealed_region(wg, region->args);
		break;
	case G4_REGION_BUFFERED:
		g4_buffered_region(wg, region->args);
		break;
	case G4_REGION_RELEASE:
		g4_release_region(wg, region->args);
		break;
	case G4_REGION_LISTING:
		g4_listing_region(wg, region->args);
		break;
	case G4_REGION_HINTS:
		g4_hints_region(wg, region->args);
		break;
	case G4_REGION_COMMIT:
		g4_commit_region(wg, region->args);
		break;
	case G4_REGION_LEAF_KEYS:
		g4_leaf_keys_region(wg, region->args);
		break;
	case G4_REGION_LISTED:
		g4_listed_region(wg, region->args);
		break;
	default: /* one that nobody executes would leave its work undone without a word */
		G4_TRAP();
	}
}

G4_FN void g4_fs_serve(struct g4_wg *wg)
{
	struct g4_wg_region region;

	while (g4_wg_next(wg, &region)) {
		g4_fs_region(wg, &region);
		g4_region_end(wg);
	}
}
