/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Levels of chunks. The set knows chunks, the allocator pools of pages; here one becomes the other, when a file system is
 * mounted and when it grows. A region that lies in two chunks is of the first: all chunks of a set bear the loss of the same
 * number of disks, so that costs nobody anything. One of which a part lies nowhere is nobody's: no page of it is in use.
 */
#include "fs/levels.h"

G4_FN int g4_levels_apply(struct g4_wg *wg, struct g4_fs *fs, uint64_t from)
{
	uint64_t at = from;
	int rc = 0;

	if (!(fs->super.features_incompat & G4_FEATURE_INCOMPAT_DISKS))
		return 0;
	while (rc == 0) {
		struct g4_dev_order order;
		memset(&order, 0, sizeof(order));
		order.op = G4_ORDER_CHUNK;
		order.bytes = at;
		rc = g4_space_order(wg, &fs->space, &order);
		if (rc < 0)
			return rc == -G4_E_NOENT ? 0 : rc;
		fs->own_level = order.disk < G4_LEVELS ? order.disk : (uint32_t)G4_LEVEL_OWN;
		at = order.bytes;
		/* what was assigned to the own level by that name is own: files that ask for that level lie there */
		if (order.all == G4_LEVEL_OWN || order.all == fs->own_level || order.all >= G4_POOLS)
			continue;
		uint64_t first = g4_max64(order.done, from);
		if (order.all == G4_POOL_GONE)
			first = g4_align_down(first, G4_REGION_PAGES * G4_PAGE_BYTES);
		rc = g4_alloc_set_pool(wg, &fs->alloc, first / G4_PAGE_BYTES, order.bytes / G4_PAGE_BYTES,
				       (uint32_t)order.all, from == 0);
	}
	return rc;
}
