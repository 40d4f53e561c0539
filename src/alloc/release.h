/* SPDX-License-Identifier: Apache-2.0 */
/* What a durable transaction freed, back into the memory view: all of its runs at once. Leader. */
#ifndef G4_RELEASE_H
#define G4_RELEASE_H

#include "alloc/alloc.h"

/* Gives back so many runs, in any order, no page twice, and takes them out of what is pending. Needs G4_RELEASE_SCRATCH_BYTES. */
G4_FN void g4_alloc_release_runs(struct g4_wg *wg, struct g4_alloc *alloc, const struct g4_extent *runs,
				 uint32_t count);

#define G4_RELEASE_ROWS 64u /* regions that one lane puts together */
struct g4_release_row {
	uint64_t region;
	uint64_t words[G4_REGION_PAGES / 64]; /* pages that are given back, of words that `has` names */
	uint32_t has;
	uint32_t pages;
};
#define G4_RELEASE_SCRATCH_BYTES (G4_RELEASE_ROWS * sizeof(struct g4_release_row))
G4_STATIC_ASSERT(G4_RELEASE_SCRATCH_BYTES <= G4_COMMIT_SCRATCH_BYTES, "taken when a commit has given its own back");

/* The region that they open. Collective. */
struct g4_release_job { /* in scratch memory */
	struct g4_alloc *alloc;
	const struct g4_extent *runs;
	uint32_t count;
	uint64_t own, pages;	  /* given back: of pool OWN, of all */
	uint64_t pools[G4_POOLS]; /* of the others */
};
G4_FN void g4_release_region(struct g4_wg *wg, void *args);

#endif
