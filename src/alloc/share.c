/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of owners. Crash at any line: counts, the maps that lead to them and the pointers that are counted change in one transaction. */
#include "alloc/share.h"

#define MOST_OWNERS UINT32_MAX

/* The lines of what leads to the counts of a region, referenced; G4_NO_LINE: there is none. */
struct counts {
	uint64_t group;
	uint32_t region; /* of the group */
	uint32_t map, shares, owners;
};

G4_FN static struct g4_lock *lock_of(struct g4_alloc *alloc, uint64_t group)
{
	return &alloc->share_locks[group % G4_SHARE_LOCKS];
}

G4_FN static struct g4_alloc_page *map_of(struct g4_alloc *alloc, const struct counts *c)
{
	return (struct g4_alloc_page *)g4_line_data(alloc->meta->cache, c->map);
}

G4_FN static struct g4_shares_page *shares_of(struct g4_alloc *alloc, const struct counts *c)
{
	return (struct g4_shares_page *)g4_line_data(alloc->meta->cache, c->shares);
}

G4_FN static struct g4_owners_page *owners_of(struct g4_alloc *alloc, const struct counts *c)
{
	return (struct g4_owners_page *)g4_line_data(alloc->meta->cache, c->owners);
}

G4_FN static void put(struct g4_alloc *alloc, uint32_t *line)
{
	if (*line != G4_NO_LINE)
		g4_cache_put(alloc->meta->cache, *line);
	*line = G4_NO_LINE;
}

/* Also behind a get_counts() that has failed. */
G4_FN static void put_counts(struct g4_alloc *alloc, struct counts *c)
{
	put(alloc, &c->owners);
	put(alloc, &c->shares);
	put(alloc, &c->map);
}

/* The group's lock is held. */
G4_FN static int get_counts(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t region, struct counts *c)
{
	int rc;

	c->group = region / G4_GROUP_REGIONS;
	c->region = (uint32_t)(region % G4_GROUP_REGIONS);
	c->map = c->shares = c->owners = G4_NO_LINE;
	rc = g4_alloc_get_map(wg, alloc, c->group, &c->map);
	if (rc == 0 && map_of(alloc, c)->shares != 0) {
		rc = g4_meta_get(wg, alloc->meta, g4_address_from(map_of(alloc, c)->shares), G4_BLOCK_SHARES,
				 &c->shares);
		if (rc == 0 && shares_of(alloc, c)->group != c->group)
			rc = -G4_E_CORRUPT_ALLOC;
		if (rc == 0 && shares_of(alloc, c)->owners[c->region] != 0) {
			rc = g4_meta_get(wg, alloc->meta, g4_address_from(shares_of(alloc, c)->owners[c->region]),
					 G4_BLOCK_OWNERS, &c->owners);
			if (rc == 0 && owners_of(alloc, c)->region != region)
				rc = -G4_E_CORRUPT_ALLOC;
		}
	}
	if (rc < 0)
		put_counts(alloc, c);
	return rc;
}

/* A page of counts out of the *reserved pages. */
G4_FN static int make_page(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, uint32_t type,
			   uint64_t *reserved, struct g4_address *address, uint32_t *line)
{
	int rc = g4_alloc_reserved_metadata(wg, alloc, txn, address);

	if (rc < 0)
		return rc;
	--*reserved;
	rc = g4_meta_new(wg, alloc->meta, *address, type, line);
	if (rc == 0)
		g4_txn_dirty(txn, *line);
	return rc;
}

/* Makes what get_counts() has not found. */
G4_FN static int make_counts(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct counts *c)
{
	uint64_t reserved = c->shares == G4_NO_LINE ? 2 : 1;
	struct g4_address address;
	int rc = 0;

	if (!g4_alloc_reserve(alloc, reserved))
		return -G4_E_NOSPC;
	if (c->shares == G4_NO_LINE) {
		rc = make_page(wg, alloc, txn, G4_BLOCK_SHARES, &reserved, &address, &c->shares);
		if (rc == 0) {
			shares_of(alloc, c)->group = c->group;
			g4_txn_dirty(txn, c->map);
			map_of(alloc, c)->shares = g4_address_stored(address);
		}
	}
	if (rc == 0)
		rc = make_page(wg, alloc, txn, G4_BLOCK_OWNERS, &reserved, &address, &c->owners);
	if (rc == 0) {
		owners_of(alloc, c)->region = c->group * G4_GROUP_REGIONS + c->region;
		g4_txn_dirty(txn, c->shares);
		shares_of(alloc, c)->owners[c->region] = g4_address_stored(address);
	}
	g4_alloc_unreserve(alloc, reserved);
	return rc;
}

/* Frees pages in which no count is left. */
G4_FN static int drop_counts(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct counts *c)
{
	struct g4_shares_page *shares = shares_of(alloc, c);
	struct g4_address address = g4_address_from(shares->owners[c->region]);

	g4_txn_dirty(txn, c->shares);
	shares->owners[c->region] = 0;
	put(alloc, &c->owners);
	int rc = g4_alloc_free_metadata(wg, alloc, txn, address);
	for (uint32_t region = 0; region < G4_GROUP_REGIONS; region++)
		if (rc < 0 || shares->owners[region] != 0)
			return rc;
	address = g4_address_from(map_of(alloc, c)->shares);
	g4_txn_dirty(txn, c->map);
	map_of(alloc, c)->shares = 0;
	put(alloc, &c->shares);
	return g4_alloc_free_metadata(wg, alloc, txn, address);
}

/* Whether pages of a region can have an owner more; `more` of the first of them, or NULL. */
G4_FN static int check_acquire(const struct g4_region *bits, const g4_le32 *more, uint32_t first, uint64_t pages)
{
	for (uint64_t i = first; i < first + pages; i++) {
		if ((g4_load64_rlx(&bits->used[i / 64]) >> i % 64 & 1) == 0 ||
		    (g4_load64_rlx(&bits->slab[i / 64]) >> i % 64 & 1) != 0)
			return -G4_E_CORRUPT_MAP;
		if (more && more[i] == MOST_OWNERS)
			return -G4_E_MLINK;
	}
	return 0;
}

G4_FN int g4_share_acquire(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address address,
			   uint64_t pages)
{
	const uint64_t page = g4_address_page(address), region = page / G4_REGION_PAGES;
	const uint32_t first = (uint32_t)(page % G4_REGION_PAGES);
	struct g4_lock *lock = lock_of(alloc, region / G4_GROUP_REGIONS);
	struct counts c;
	int rc;

	if (g4_address_is_before(address, g4_layout_data(&alloc->meta->layout)) ||
	    (page + pages) * G4_PAGE_BYTES > g4_layout_end(&alloc->meta->layout))
		return -G4_E_CORRUPT_MAP;
	g4_lock(lock);
	rc = get_counts(wg, alloc, region, &c);
	if (rc == 0) {
		rc = check_acquire(&map_of(alloc, &c)->regions[c.region],
				   c.owners == G4_NO_LINE ? NULL : owners_of(alloc, &c)->more, first, pages);
		if (rc == 0 && c.owners == G4_NO_LINE)
			rc = make_counts(wg, alloc, txn, &c);
		if (rc == 0) {
			struct g4_owners_page *owners = owners_of(alloc, &c);
			g4_txn_dirty(txn, c.owners);
			for (uint64_t i = first; i < first + pages; i++)
				owners->shared += owners->more[i]++ == 0;
		}
		put_counts(alloc, &c);
	}
	g4_unlock(lock);
	return rc;
}

/* Of pages that are counted: one owner less each, and runs of those that had no other are freed. */
G4_FN static int release_counted(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn,
				 struct g4_owners_page *owners, struct g4_address address, uint64_t pages)
{
	const uint32_t first = (uint32_t)(g4_address_page(address) % G4_REGION_PAGES);
	uint64_t done = 0, run;
	int rc = 0;

	for (; done < pages && rc == 0; done += run) {
		for (run = 0; done + run < pages && owners->more[first + done + run] == 0; run++)
			;
		if (run > 0) {
			rc = g4_alloc_free(wg, alloc, txn, g4_address_after_pages(address, done), run);
		} else {
			run = 1;
			owners->shared -= --owners->more[first + done] == 0;
		}
	}
	return rc;
}

G4_FN int g4_share_release(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address address,
			   uint64_t pages)
{
	const uint64_t region = g4_address_page(address) / G4_REGION_PAGES;
	struct g4_lock *lock = lock_of(alloc, region / G4_GROUP_REGIONS);
	struct counts c;
	int rc;

	if (g4_address_page(address) * G4_PAGE_BYTES >= g4_layout_end(&alloc->meta->layout))
		return -G4_E_CORRUPT_MAP;
	g4_lock(lock);
	rc = get_counts(wg, alloc, region, &c);
	if (rc == 0 && c.owners == G4_NO_LINE) {
		rc = g4_alloc_free(wg, alloc, txn, address, pages);
	} else if (rc == 0) {
		g4_txn_dirty(txn, c.owners);
		rc = release_counted(wg, alloc, txn, owners_of(alloc, &c), address, pages);
		if (rc == 0 && owners_of(alloc, &c)->shared == 0)
			rc = drop_counts(wg, alloc, txn, &c);
	}
	put_counts(alloc, &c);
	g4_unlock(lock);
	return rc;
}

G4_FN int g4_share_any(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_address address, uint64_t pages)
{
	const uint64_t first = g4_address_page(address), last = first + pages - 1;
	int rc = 0;

	if (last * G4_PAGE_BYTES >= g4_layout_end(&alloc->meta->layout))
		return -G4_E_CORRUPT_MAP;
	for (uint64_t group = first / G4_GROUP_PAGES; group <= last / G4_GROUP_PAGES && rc == 0; group++) {
		uint32_t map;

		rc = g4_alloc_get_map(wg, alloc, group, &map);
		if (rc < 0)
			return rc;
		rc = ((const struct g4_alloc_page *)g4_line_data(alloc->meta->cache, map))->shares != 0;
		g4_cache_put(alloc->meta->cache, map);
	}
	return rc;
}

G4_FN int g4_share_is_used(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_address address)
{
	const uint64_t page = g4_address_page(address), region = page / G4_REGION_PAGES;
	uint32_t line;
	int rc = g4_alloc_get_map(wg, alloc, region / G4_GROUP_REGIONS, &line);

	if (rc < 0)
		return rc;
	const struct g4_alloc_page *map = (const struct g4_alloc_page *)g4_line_data(alloc->meta->cache, line);
	const uint64_t used = g4_load64_rlx(&map->regions[region % G4_GROUP_REGIONS].used[page % G4_REGION_PAGES / 64]);
	g4_cache_put(alloc->meta->cache, line);
	return (int)(used >> page % 64 & 1);
}

G4_FN int g4_share_places(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t group,
			  struct g4_address places[G4_SHARE_PLACES], uint32_t *count)
{
	uint32_t map, line;

	*count = 0;
	g4_lock(lock_of(alloc, group));
	int rc = g4_alloc_get_map(wg, alloc, group, &map);
	if (rc == 0) {
		const uint64_t shares = ((const struct g4_alloc_page *)g4_line_data(alloc->meta->cache, map))->shares;
		g4_cache_put(alloc->meta->cache, map);
		if (shares)
			places[(*count)++] = g4_address_from(shares);
		if (shares && g4_meta_get(wg, alloc->meta, places[0], G4_BLOCK_SHARES, &line) == 0) {
			const struct g4_shares_page *page =
				(const struct g4_shares_page *)g4_line_data(alloc->meta->cache, line);
			for (uint32_t region = 0; region < G4_GROUP_REGIONS; region++)
				if (page->owners[region])
					places[(*count)++] = g4_address_from(page->owners[region]);
			g4_cache_put(alloc->meta->cache, line);
		}
	}
	g4_unlock(lock_of(alloc, group));
	return rc;
}

G4_FN int g4_share_rewrite(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, uint64_t group)
{
	struct counts c;
	int rc = 0;

	g4_lock(lock_of(alloc, group));
	for (uint32_t region = 0; region < G4_GROUP_REGIONS && rc == 0; region++) {
		rc = get_counts(wg, alloc, group * G4_GROUP_REGIONS + region, &c);
		if (rc == 0 && c.shares != G4_NO_LINE)
			g4_txn_dirty(txn, c.shares);
		if (rc == 0 && c.owners != G4_NO_LINE)
			g4_txn_dirty(txn, c.owners);
		if (rc == 0)
			put_counts(alloc, &c);
	}
	g4_unlock(lock_of(alloc, group));
	return rc;
}
