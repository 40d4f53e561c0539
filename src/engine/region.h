/* SPDX-License-Identifier: Apache-2.0 */
#ifndef G4_REGION_H
#define G4_REGION_H

#include "simt/simt.h"

/* Collective. Executes a region that a layer of the engine defines; false: it is none of those. */
G4_FN bool g4_engine_region(struct g4_wg *wg, uint32_t kind, void *args);

#endif
