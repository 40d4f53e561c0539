/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing is changed here. */
#include "alloc/share_lines.h"

G4_FN void g4_shares_put_counts(struct g4_alloc *alloc, struct g4_shares_lines *c)
{
	g4_shares_put(alloc, &c->buffered);
	g4_shares_put(alloc, &c->owners);
	g4_shares_put(alloc, &c->shares);
	g4_shares_put(alloc, &c->map);
}

G4_FN int g4_shares_get(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t region, struct g4_shares_lines *c)
{
	int rc;

	c->group = region / G4_GROUP_REGIONS;
	c->region = (uint32_t)(region % G4_GROUP_REGIONS);
	c->map = c->shares = c->owners = c->buffered = G4_NO_LINE;
	c->frees = false;
	rc = g4_alloc_get_map(wg, alloc, c->group, &c->map);
	if (rc == 0 && g4_shares_map(alloc, c)->shares != 0) {
		rc = g4_meta_get(wg, alloc->meta, g4_address_from(g4_shares_map(alloc, c)->shares), G4_BLOCK_SHARES,
				 &c->shares);
		if (rc == 0 && g4_shares_of(alloc, c)->group != c->group)
			rc = -G4_E_CORRUPT_ALLOC;
	}
	if (rc < 0)
		g4_shares_put_counts(alloc, c);
	return rc;
}

G4_FN int g4_shares_get_owners(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_shares_lines *c)
{
	const uint64_t address = g4_shares_of(alloc, c)->owners[c->region];
	int rc = 0;

	if (address != 0)
		rc = g4_meta_get(wg, alloc->meta, g4_address_from(address), G4_BLOCK_OWNERS, &c->owners);
	if (rc < 0)
		c->owners = G4_NO_LINE;
	if (rc == 0 && address != 0 && g4_shares_owners(alloc, c)->region != c->group * G4_GROUP_REGIONS + c->region) {
		g4_shares_put(alloc, &c->owners);
		rc = -G4_E_CORRUPT_ALLOC;
	}
	return rc;
}

/* The group's page of buffered owners, if there is one. */
G4_FN static int get_buffered(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_shares_lines *c)
{
	const uint64_t address = g4_shares_of(alloc, c)->buffered;

	if (address == 0 || !g4_load32_acq(&alloc->buffers_owners)) /* without the feature it is reserved */
		return 0;
	int rc = g4_meta_get(wg, alloc->meta, g4_address_from(address), G4_BLOCK_BUFFERED, &c->buffered);
	if (rc < 0)
		c->buffered = G4_NO_LINE;
	return rc == 0 && g4_shares_buffered(alloc, c)->group != c->group ? -G4_E_CORRUPT_ALLOC : rc;
}

G4_FN int g4_shares_get_counts(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t region, struct g4_shares_lines *c)
{
	int rc = g4_shares_get(wg, alloc, region, c);

	if (rc == 0 && c->shares != G4_NO_LINE)
		rc = g4_shares_get_owners(wg, alloc, c);
	if (rc == 0 && c->shares != G4_NO_LINE)
		rc = get_buffered(wg, alloc, c);
	if (rc < 0)
		g4_shares_put_counts(alloc, c);
	return rc;
}
