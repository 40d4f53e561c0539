/* SPDX-License-Identifier: Apache-2.0 */
/* What simt calls for a region. Alone in its file, so that a test with regions of its own can bring another. */
#include "engine/region.h"

G4_FN void g4_region_user(struct g4_wg *wg, uint32_t kind, void *args)
{
	/* a region that nobody executes would leave its work undone without a word */
	if (!g4_engine_region(wg, kind, args))
		G4_TRAP();
}
