/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is looked for in a page of buffered owners, by all lanes: it has 2 016 entries in any order, and each extent that goes looks at all of
 * them. Leader; the lock of the page's group is held.
 */
#ifndef G4_BUFFERED_H
#define G4_BUFFERED_H

#include "format/owners.h"
#include "simt/simt.h"

/* As g4_buffered_bits(). */
G4_FN bool g4_buffered_look(struct g4_wg *wg, const struct g4_buffered_page *page, uint32_t region,
			    uint64_t bits[G4_REGION_WORDS]);
/* The first entry of a page of the group, by its number; page->count: there is none. */
G4_FN uint32_t g4_buffered_find(struct g4_wg *wg, const struct g4_buffered_page *page, uint32_t number);

/* The region that they open. Collective. */
#define G4_BUFFERED_LANES 64u
struct g4_buffered_job { /* in scratch memory */
	const struct g4_buffered_page *page;
	bool finds;	 /* an entry; else the bits of a region */
	uint32_t number; /* of a page, or of the region */
	uint32_t found;
	uint64_t bits[G4_BUFFERED_LANES][G4_REGION_WORDS]; /* what each lane has seen; then [0]: all */
};
G4_FN void g4_buffered_region(struct g4_wg *wg, void *args);

#endif
