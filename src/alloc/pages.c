/* SPDX-License-Identifier: Apache-2.0 */
/* Pages for metadata, one or a row, and many in a few runs: the first free run of a region may be a short one. */
#include "alloc/pages.h"

G4_FN static int claim_metadata(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, bool reserved,
				uint32_t count, struct g4_address *address)
{
	uint64_t got;
	int rc = g4_alloc_claim(wg, alloc, G4_ALLOC_METADATA, G4_NO_ADDRESS, count, reserved, address, &got);

	if (rc < 0)
		return rc;
	rc = got < count ? -G4_E_NOSPC : g4_alloc_publish(wg, alloc, txn, *address, count);
	if (rc < 0) {
		g4_alloc_release(alloc, *address, got);
		if (reserved)
			g4_add64(&alloc->reserved, got);
	}
	return rc;
}

G4_FN int g4_alloc_metadata(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address *address)
{
	return claim_metadata(wg, alloc, txn, false, 1, address);
}

G4_FN int g4_alloc_reserved_metadata(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn,
				     struct g4_address *address)
{
	return claim_metadata(wg, alloc, txn, true, 1, address);
}

G4_FN int g4_alloc_metadata_row(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, bool reserved,
				uint32_t count, struct g4_address *address)
{
	return claim_metadata(wg, alloc, txn, reserved, count, address);
}

G4_FN int g4_alloc_free_metadata(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn,
				 struct g4_address address)
{
	int rc = g4_alloc_free(wg, alloc, txn, address, 1);

	if (rc == 0)
		g4_txn_forget(txn, address);
	return rc;
}

G4_FN void g4_alloc_claim_runs(struct g4_wg *wg, struct g4_alloc *alloc, uint32_t want, struct g4_alloc_runs *runs)
{
	struct g4_address goal = G4_NO_ADDRESS;

	runs->count = 0;
	for (runs->runs = 0; runs->runs < G4_ALLOC_PAGES_RUNS && runs->count < want; runs->runs++) {
		struct g4_address *address = &runs->address[runs->runs];
		uint64_t *pages = &runs->pages[runs->runs];

		if (g4_alloc_claim(wg, alloc, G4_ALLOC_METADATA, goal, want - runs->count, false, address, pages) < 0)
			return;
		runs->count += (uint32_t)*pages;
		goal = g4_address_after_pages(*address, *pages);
	}
}

G4_FN int g4_alloc_publish_runs(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn,
				const struct g4_alloc_runs *runs, uint32_t count, uint64_t *pages)
{
	uint32_t k = 0;
	int rc = 0;

	for (uint32_t r = 0; r < runs->runs; r++) {
		const struct g4_address address = runs->address[r];
		const uint64_t mine = rc == 0 ? g4_min64(runs->pages[r], count - k) : 0;

		if (mine > 0)
			rc = g4_alloc_publish(wg, alloc, txn, address, mine);
		if (mine < runs->pages[r])
			g4_alloc_release(alloc, g4_address_after_pages(address, mine), runs->pages[r] - mine);
		for (uint64_t p = 0; p < mine; p++)
			pages[k++] = g4_address_page(address) + p;
	}
	return rc;
}

G4_FN int g4_alloc_drop_pages(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, const uint64_t *pages,
			      uint32_t count)
{
	int rc = 0;

	for (uint32_t k = 0; k < count && rc == 0; k++)
		rc = g4_alloc_free_metadata(wg, alloc, txn, g4_page_address(pages[k]));
	return rc;
}
