/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for the arenas of workgroups on the host. */
#include <stdlib.h>

#include "simt/simt_host.h"

bool g4_scratch_allocate(struct g4_scratch *scratch, uint32_t bytes)
{
	void *memory = aligned_alloc(G4_PAGE_BYTES, g4_align_up(bytes, G4_PAGE_BYTES));

	if (!memory)
		return false;
	g4_scratch_init(scratch, memory, bytes);
	G4_SCRATCH_SHUT(scratch->base, scratch->bytes);
	return true;
}

struct g4_wg *g4_wg_create(uint32_t index)
{
	return g4_wg_create_with(index, G4_WG_SCRATCH_BYTES);
}

void g4_scratch_free(struct g4_scratch *scratch)
{
	if (scratch->base)
		G4_SCRATCH_OPEN(scratch->base, scratch->bytes);
	free(scratch->base);
}
