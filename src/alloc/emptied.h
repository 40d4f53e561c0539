/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a file begins that has no goal (docs/design/space.md, "Where files begin"). One word has the first of the regions that became empty since
 * a file began in one: a hint, for whoever claims there finds what is free by then. Thread-safe.
 */
#ifndef G4_ALLOC_EMPTIED_H
#define G4_ALLOC_EMPTIED_H

#include "alloc/alloc.h"

/* The region that became empty, which one file at a time is told, or the one where the shard had its last beginning. */
G4_FN G4_INLINE uint64_t g4_alloc_beginning(struct g4_alloc *alloc, const struct g4_alloc_shard *shard)
{
	const uint32_t emptied = g4_load32_rlx(&alloc->emptied) ? g4_xchg32(&alloc->emptied, 0) : 0;

	return emptied ? emptied - 1 : g4_load32_rlx(&shard->region[G4_ALLOC_ALIGNED]);
}

/* Pages of a region were given back. */
G4_FN G4_INLINE void g4_alloc_note_emptied(struct g4_alloc *alloc, uint64_t region)
{
	uint32_t first = g4_load32_rlx(&alloc->emptied);

	if (g4_load32_rlx(&alloc->region_free[region]) != G4_REGION_PAGES)
		return;
	while ((first == 0 || region + 1 < first) && !g4_cas32(&alloc->emptied, first, (uint32_t)region + 1))
		first = g4_load32_rlx(&alloc->emptied);
}

#endif
