/* SPDX-License-Identifier: Apache-2.0 */
/* Many pages for metadata at once, wherever they lie. Leader, thread-safe. */
#ifndef G4_ALLOC_PAGES_H
#define G4_ALLOC_PAGES_H

#include "alloc/alloc.h"

#define G4_ALLOC_PAGES_RUNS 16u /* of pages in a row, at most, that one call takes */
/* Credits for them: a run's page of the allocation map, and its descriptor. */
#define G4_ALLOC_PAGES_CREDITS (2u * G4_ALLOC_PAGES_RUNS)

struct g4_alloc_runs { /* claimed, not published */
	struct g4_address address[G4_ALLOC_PAGES_RUNS];
	uint64_t pages[G4_ALLOC_PAGES_RUNS];
	uint32_t runs;
	uint32_t count; /* pages of all of them */
};

/* Claims up to so many pages: fewer where there are no more, or they lie one here and one there. */
G4_FN void g4_alloc_claim_runs(struct g4_wg *wg, struct g4_alloc *alloc, uint32_t want, struct g4_alloc_runs *runs);
/* Publishes the first `count` of them in the transaction, with their numbers in pages[], and gives the others back. After an error the transaction must not commit. */
G4_FN int g4_alloc_publish_runs(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn,
				const struct g4_alloc_runs *runs, uint32_t count, uint64_t *pages);
/* Frees such pages in the transaction that published them: nothing leads to them. */
G4_FN int g4_alloc_drop_pages(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, const uint64_t *pages,
			      uint32_t count);

#endif
