/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where free pages lie in a row, for what is to lie side by side (docs/design/space.md, "Rows for new files"). Nothing is claimed: a
 * row is a goal for g4_alloc_claim(), and others may claim its pages first.
 */
#ifndef G4_ALLOC_ROW_H
#define G4_ALLOC_ROW_H

#include "alloc/alloc.h"

#define G4_ALLOC_ROW_REGIONS 256u /* that one search looks at: 512 MiB */

struct g4_alloc_row {
	struct g4_address address; /* of its first page */
	uint64_t pages;		   /* in one region; 0: nothing was found */
};

/*
 * A row of at least `want` free pages of a pool, 2 to G4_REGION_PAGES: behind the last one that the caller's shard was given, in a region of which
 * some is used, or else in an empty one. Where the search meets neither, the longest row that it saw if that has two pages or more, and
 * the next search begins where this one has ended. Leader, thread-safe.
 */
G4_FN struct g4_alloc_row g4_alloc_find_row(struct g4_wg *wg, struct g4_alloc *alloc, uint32_t pool, uint64_t want);

#endif
