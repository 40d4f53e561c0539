/* SPDX-License-Identifier: Apache-2.0 */
/* Making workgroups in the cpu build: a scratch area and an index. */
#include <stdlib.h>

#include "simt/simt_host.h"

struct g4_wg *g4_wg_create_with(uint32_t index, uint32_t scratch_bytes)
{
	struct g4_wg *wg;

	if (index >= G4_WG_MAX)
		return NULL;
	wg = (struct g4_wg *)calloc(1, sizeof(*wg));
	if (!wg)
		return NULL;
	if (!g4_scratch_allocate(&wg->scratch, scratch_bytes)) {
		free(wg);
		return NULL;
	}
	wg->index = index;
	return wg;
}

void g4_wg_destroy(struct g4_wg *wg)
{
	if (!wg)
		return;
	g4_scratch_free(&wg->scratch);
	free(wg);
}
