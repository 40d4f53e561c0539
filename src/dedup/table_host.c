/* SPDX-License-Identifier: Apache-2.0 */
/* Sizing the table of contents, and setting it up over memory that the mount took. */
#include "base/move_host.h"
#include "dedup/table.h"

#define BUCKET_BYTES (G4_DDT_SLOTS * sizeof(uint64_t))

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
	ddt->slots = (uint64_t *)memory;
}

void g4_ddt_moved(struct g4_ddt *ddt, intptr_t by)
{
	if (g4_ddt_is_there(ddt))
		G4_MOVE(ddt->slots, by);
}
