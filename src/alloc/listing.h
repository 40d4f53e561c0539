/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a page of sums of listed pages, by all lanes: sums have 31 bytes there, and a leader writes them one after the other. */
#ifndef G4_LISTING_H
#define G4_LISTING_H

#include "format/owners.h"
#include "simt/simt.h"

/* ---- leader; the lock of the page's group is held, or nothing leads to the page yet. `sums` lie in memory that all lanes reach ---- */
/* Pages from `at` on are listed with these sums, in a domain, today (days since 1970). */
G4_FN void g4_listing_write(struct g4_wg *wg, struct g4_listing_page *page, uint32_t at, uint32_t count,
			    const struct g4_sum_entry *sums, uint64_t domain, uint32_t today);
/* How many pages from `at` on have these sums there. */
G4_FN uint32_t g4_listing_match(struct g4_wg *wg, const struct g4_listing_page *page, uint32_t at, uint32_t count,
				const struct g4_sum_entry *sums, uint64_t domain);

/*
 * Of pages that may lie anywhere, where `places` says (g4_address_stored()): `are` gets those that lie in one quarter, `listed` those of them that have
 * these sums in its page (NULL: none), and a bit in `bits`. Only what is in `which` is looked at. A bit each, of at most G4_LISTING_EACH.
 */
#define G4_LISTING_EACH 512u
struct g4_listing_each {
	uint64_t which[G4_LISTING_EACH / 64];
	uint64_t are[G4_LISTING_EACH / 64];
	uint64_t listed[G4_LISTING_EACH / 64];
};
G4_FN void g4_listing_each(struct g4_wg *wg, const struct g4_listing_page *page, uint64_t quarter,
			   const uint64_t bits[G4_LISTING_PAGES / 64], uint32_t count, const uint64_t *places,
			   const struct g4_sum_entry *sums, uint64_t domain, struct g4_listing_each *each);

/* The region that they open. Collective. */
struct g4_listing_job { /* in scratch memory */
	struct g4_listing_page *page;
	const struct g4_sum_entry *sums;
	uint64_t domain;
	uint32_t at, count;
	bool writes;
	uint8_t since; /* that the pages are listed */
	uint32_t match;
	/* pages that may lie anywhere */
	const uint64_t *places;
	uint64_t quarter, bits[G4_LISTING_PAGES / 64];
	struct g4_listing_each each;
};
G4_FN void g4_listing_region(struct g4_wg *wg, void *args);

#endif
