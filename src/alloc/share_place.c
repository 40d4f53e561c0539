/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of counts and of listed pages by their place in a group, for a scrub. Crash at any line: what is written anew is what was there. */
#include "alloc/share.h"
#include "alloc/share_lines.h"

/* The group's lock is held; *c is to be put, also after an error. */
G4_FN static int find_place(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t group, uint32_t n,
			    struct g4_shares_lines *c, struct g4_address *address, uint32_t *type)
{
	const uint32_t step = 1 + G4_LISTING_QUARTERS, region = n ? (n - 1) / step : 0, k = n ? (n - 1) % step : 0;
	const bool is_buffered = n == G4_SHARE_PLACES - 1;
	uint64_t at;

	c->map = c->shares = c->owners = c->buffered = G4_NO_LINE;
	if (n == 0) { /* it need not be whole */
		c->group = group;
		int rc = g4_alloc_get_map(wg, alloc, group, &c->map);
		if (rc < 0)
			return rc;
		at = g4_shares_map(alloc, c)->shares;
		*type = G4_BLOCK_SHARES;
	} else {
		int rc = g4_shares_get(wg, alloc, group * G4_GROUP_REGIONS + (is_buffered ? 0 : region), c);
		if (rc < 0 || c->shares == G4_NO_LINE)
			return rc < 0 ? rc : -G4_E_NOENT;
		if (is_buffered && !g4_load32_acq(&alloc->buffers_owners))
			return -G4_E_NOENT;
		at = is_buffered ? g4_shares_of(alloc, c)->buffered :
		     k == 0	 ? g4_shares_of(alloc, c)->owners[region] :
				   g4_shares_of(alloc, c)->listings[region][k - 1];
		*type = is_buffered ? G4_BLOCK_BUFFERED : k == 0 ? G4_BLOCK_OWNERS : G4_BLOCK_LISTING;
	}
	*address = g4_address_from(at);
	return at ? 0 : -G4_E_NOENT;
}

G4_FN int g4_share_place(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t group, uint32_t n,
			 struct g4_address *address, uint32_t *type)
{
	struct g4_shares_lines c;

	g4_lock(g4_shares_lock(alloc, group));
	const int rc = find_place(wg, alloc, group, n, &c, address, type);
	g4_shares_put_counts(alloc, &c);
	g4_unlock(g4_shares_lock(alloc, group));
	return rc;
}

G4_FN int g4_share_rewrite(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, uint64_t group, uint32_t n)
{
	struct g4_address address;
	struct g4_shares_lines c;
	uint32_t line, type;

	g4_lock(g4_shares_lock(alloc, group));
	int rc = find_place(wg, alloc, group, n, &c, &address, &type);
	if (rc == 0)
		rc = g4_meta_get(wg, alloc->meta, address, type, &line);
	if (rc == 0) {
		g4_txn_dirty(txn, line);
		g4_cache_put(alloc->meta->cache, line);
	}
	g4_shares_put_counts(alloc, &c);
	g4_unlock(g4_shares_lock(alloc, group));
	return rc;
}
