/* SPDX-License-Identifier: Apache-2.0 */
/* Host side of the SIMT layer for the cpu and lanes builds: making workgroups. */
#ifndef G4_SIMT_HOST_H
#define G4_SIMT_HOST_H

#include "simt/simt.h"

/* Workgroups an engine may have: what the 16-bit fields of the locks can count, with room to spare. */
#define G4_WG_MAX 32768

/*
 * Makes a workgroup whose leader is whichever thread calls engine operations with it, one at a time. On `lanes` this
 * starts the other lanes' threads, parked until the leader opens a region. `index` is below G4_WG_MAX. Returns NULL when it is not, or when memory or threads run out.
 */
struct g4_wg *g4_wg_create(uint32_t index);
/* The same with an arena of `scratch_bytes`. */
struct g4_wg *g4_wg_create_with(uint32_t index, uint32_t scratch_bytes);
/* Memory of a new workgroup's arena; false: there is none. For the files that make workgroups. */
bool g4_scratch_allocate(struct g4_scratch *scratch, uint32_t bytes);
void g4_scratch_free(struct g4_scratch *scratch);
/* Ends the workgroup's threads and frees it. No operation may be running in it. NULL is allowed. */
void g4_wg_destroy(struct g4_wg *wg);

#endif
