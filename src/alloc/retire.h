/* SPDX-License-Identifier: Apache-2.0 */
/* Regions that become nobody's while others claim space. Leader. */
#ifndef G4_RETIRE_H
#define G4_RETIRE_H

#include "alloc/alloc.h"

/*
 * A region of which nothing is in use, while others use the view: nobody claims a page of it from now on, and it is of POOL_GONE; false: a
 * page is in use or claimed, or its pool can not do without. Taken back, it is of its pool as before. One caller at a time.
 */
G4_FN bool g4_alloc_is_empty(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t region);
G4_FN bool g4_alloc_retire(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t region, uint32_t *pool);
G4_FN void g4_alloc_take_back(struct g4_alloc *alloc, uint64_t region, uint32_t pool);
/*
 * A region of POOL_GONE is of a pool from now on, whether it was retired or gone when the file system was mounted: its addresses lie somewhere. False: it
 * is not gone, or not known to be free, and stays as it is. As above.
 */
G4_FN bool g4_alloc_bring_back(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t region, uint32_t pool);

#endif
