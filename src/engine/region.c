/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions that layers above simt define (hashing, parity) are executed here, on every lane. Alone in its file, so that a
 * test of a lower layer can bring its own.
 */
#include "cache/cache.h"
#include "hash/crc32c.h"

G4_FN void g4_region_user(struct g4_wg *wg, uint32_t kind, void *args)
{
	switch (kind) {
	case G4_REGION_CRC32C:
		g4_crc32c_region(wg, (struct g4_crc32c_job *)args);
		break;
	case G4_REGION_CACHE_PROBE:
		g4_cache_probe_region(wg, (struct g4_cache_probe *)args);
		break;
	default:
		break;
	}
}
