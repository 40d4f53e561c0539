/* SPDX-License-Identifier: Apache-2.0 */
/* Crash at any line: what is made, and what leads to it, are of one transaction. */
#include "alloc/share_make.h"

G4_FN int g4_shares_make_page(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, uint32_t type,
			      uint64_t *reserved, struct g4_address *address, uint32_t *line)
{
	const bool from_reserved = *reserved > 0;
	int rc = from_reserved ? g4_alloc_reserved_metadata(wg, alloc, txn, address) :
				 g4_alloc_metadata(wg, alloc, txn, address);

	if (rc < 0)
		return rc;
	*reserved -= from_reserved;
	rc = g4_meta_new(wg, alloc->meta, *address, type, line);
	if (rc == 0)
		g4_txn_dirty(txn, *line);
	return rc;
}

G4_FN int g4_shares_make(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, uint64_t *reserved,
			 struct g4_shares_lines *c)
{
	struct g4_address address;

	if (c->shares != G4_NO_LINE)
		return 0;
	int rc = g4_shares_make_page(wg, alloc, txn, G4_BLOCK_SHARES, reserved, &address, &c->shares);
	if (rc == 0) {
		g4_shares_of(alloc, c)->group = c->group;
		g4_txn_dirty(txn, c->map);
		g4_store64_rlx(&g4_shares_map(alloc, c)->shares, g4_address_stored(address));
	}
	return rc;
}

G4_FN int g4_shares_make_below(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_shares_lines *c,
			       uint32_t type, struct g4_address *address, uint32_t *line)
{
	uint64_t reserved = c->shares == G4_NO_LINE ? 2 : 1;

	if (!g4_alloc_reserve(alloc, reserved) && !(c->frees && g4_alloc_reserve_kept(alloc, reserved)))
		return -G4_E_NOSPC;
	int rc = g4_shares_make(wg, alloc, txn, &reserved, c);
	if (rc == 0)
		rc = g4_shares_make_page(wg, alloc, txn, type, &reserved, address, line);
	if (rc == 0)
		g4_txn_dirty(txn, c->shares);
	g4_alloc_unreserve(alloc, reserved);
	return rc;
}

G4_FN int g4_shares_make_ahead(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, uint32_t type,
			       struct g4_shares_ahead *ahead)
{
	uint64_t reserved = 1;

	if (!g4_alloc_reserve(alloc, reserved))
		return -G4_E_NOSPC;
	const int rc = g4_shares_make_page(wg, alloc, txn, type, &reserved, &ahead->address, &ahead->line);
	g4_alloc_unreserve(alloc, reserved);
	if (rc < 0)
		ahead->line = G4_NO_LINE;
	return rc;
}

G4_FN int g4_shares_make_leader(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_shares_lines *c)
{
	uint64_t reserved = c->shares == G4_NO_LINE;

	if (!g4_alloc_reserve(alloc, reserved))
		return -G4_E_NOSPC;
	const int rc = g4_shares_make(wg, alloc, txn, &reserved, c);
	g4_alloc_unreserve(alloc, reserved);
	if (rc == 0)
		g4_txn_dirty(txn, c->shares);
	return rc;
}

G4_FN int g4_shares_drop_ahead(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn,
			       struct g4_shares_ahead *ahead)
{
	if (ahead->line == G4_NO_LINE)
		return 0;
	g4_shares_put(alloc, &ahead->line);
	return g4_alloc_free_metadata(wg, alloc, txn, ahead->address);
}
