/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts of owners, and listed pages. Crash at any line: counts, the maps that lead to them and the pointers that are counted change
 * in one transaction, and so does what is listed.
 */
#include "alloc/share.h"

#include "alloc/buffered.h"
#include "alloc/count.h"
#include "alloc/listing.h"
#include "alloc/quota.h"
#include "alloc/share_count.h"
#include "alloc/share_lines.h"
#include "alloc/share_make.h"

/*
 * Whether what is empty can go: what that changes can be read. Else it stays, and goes with what is released there next. Whoever takes an owner off has
 * done so by now: an error would stop the journal, for a page.
 */
G4_FN static int can_go(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_address address)
{
	const int rc = g4_alloc_look(wg, alloc, address);

	return rc == 0 ? 1 : g4_alloc_is_unreadable(rc) ? 0 : rc;
}

/* Frees the page of the group if it leads to nothing, and counts nothing. */
G4_FN static int drop_shares(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_shares_lines *c)
{
	const struct g4_shares_page *shares = g4_shares_of(alloc, c);

	if (shares->buffered != 0)
		return 0;
	for (uint32_t region = 0; region < G4_GROUP_REGIONS; region++) {
		if (shares->owners[region] != 0 || g4_shares_whole(alloc, c, region) != 0)
			return 0;
		for (uint32_t quarter = 0; quarter < G4_LISTING_QUARTERS; quarter++)
			if (shares->listings[region][quarter] != 0)
				return 0;
	}
	const struct g4_address address = g4_address_from(g4_shares_map(alloc, c)->shares);
	const int rc = can_go(wg, alloc, address);
	if (rc <= 0)
		return rc;
	g4_txn_dirty(txn, c->map);
	g4_store64_rlx(&g4_shares_map(alloc, c)->shares, 0); /* g4_share_any() has no lock */
	g4_shares_put(alloc, &c->shares);
	return g4_alloc_free_metadata(wg, alloc, txn, address);
}

/* Frees a page in which no count is left. */
G4_FN static int drop_owners(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_shares_lines *c)
{
	struct g4_shares_page *shares = g4_shares_of(alloc, c);
	const struct g4_address address = g4_address_from(shares->owners[c->region]);
	const int rc = can_go(wg, alloc, address);

	if (rc <= 0)
		return rc;
	g4_txn_dirty(txn, c->shares);
	shares->owners[c->region] = 0;
	g4_shares_put(alloc, &c->owners);
	return g4_alloc_free_metadata(wg, alloc, txn, address);
}

/* Frees the page of buffered owners if it is empty. */
G4_FN static int drop_buffered(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_shares_lines *c)
{
	if (c->buffered == G4_NO_LINE || g4_shares_buffered(alloc, c)->count != 0)
		return 0;
	const struct g4_address address = g4_address_from(g4_shares_of(alloc, c)->buffered);
	const int rc = can_go(wg, alloc, address);
	if (rc <= 0)
		return rc;
	g4_txn_dirty(txn, c->shares);
	g4_shares_of(alloc, c)->buffered = 0;
	g4_shares_put(alloc, &c->buffered);
	return g4_alloc_free_metadata(wg, alloc, txn, address);
}

/* What a region's pages have beyond one owner. */
struct more {
	uint64_t buffered[G4_REGION_WORDS]; /* bits of those that have a buffered one */
	bool any_buffered;
	bool whole; /* all have one that is counted for the region */
};

G4_FN static void look_at_more(struct g4_wg *wg, struct g4_alloc *alloc, const struct g4_shares_lines *c,
			       struct more *more)
{
	more->any_buffered = false;
	more->whole = g4_shares_whole(alloc, c, c->region) != 0;
	if (c->buffered != G4_NO_LINE)
		more->any_buffered = g4_buffered_look(wg, g4_shares_buffered(alloc, c), c->region, more->buffered);
}

G4_FN static bool has_buffered(const struct more *more, uint32_t at)
{
	return more->any_buffered && (more->buffered[at / 64] >> at % 64 & 1) != 0;
}

/* Whether page `at` of the region has an owner beyond the first that is counted for it alone. */
G4_FN static bool has_own(struct g4_alloc *alloc, const struct g4_shares_lines *c, const struct more *more, uint32_t at)
{
	return (c->owners != G4_NO_LINE && g4_shares_owners(alloc, c)->more[at] != 0) || has_buffered(more, at);
}

/* Whether it has several owners. */
G4_FN static bool has_more(struct g4_alloc *alloc, const struct g4_shares_lines *c, const struct more *more,
			   uint32_t at)
{
	return more->whole || has_own(alloc, c, more, at);
}

/* ------------------------------------------------------------------ listed pages */

/* The page of sums of a quarter, which there is; referenced. */
G4_FN static int get_listing(struct g4_wg *wg, struct g4_alloc *alloc, const struct g4_shares_lines *c,
			     uint32_t quarter, uint32_t *line)
{
	const struct g4_address address = g4_address_from(g4_shares_of(alloc, c)->listings[c->region][quarter]);
	int rc = g4_meta_get(wg, alloc->meta, address, G4_BLOCK_LISTING, line);

	if (rc == 0) {
		rc = g4_listing_page_validate((const struct g4_listing_page *)g4_line_data(alloc->meta->cache, *line),
					      c->group * G4_GROUP_REGIONS + c->region, quarter);
		if (rc < 0)
			g4_cache_put(alloc->meta->cache, *line);
	}
	return rc;
}

/* How many pages of the region from `at` on, in one quarter, are listed with these sums in a domain. The group's lock is held. */
G4_FN static int listed_row(struct g4_wg *wg, struct g4_alloc *alloc, const struct g4_shares_lines *c, uint32_t at,
			    uint32_t pages, const struct g4_sum_entry *sums, uint64_t domain)
{
	uint32_t line, n = 0;

	if (c->shares == G4_NO_LINE || !g4_listed(g4_shares_of(alloc, c), c->region, at))
		return 0;
	const int rc = get_listing(wg, alloc, c, at / G4_LISTING_PAGES, &line);
	if (rc < 0)
		return rc;
	while (n < pages && g4_listed(g4_shares_of(alloc, c), c->region, at + n))
		n++;
	n = g4_listing_match(wg, (const struct g4_listing_page *)g4_line_data(alloc->meta->cache, line),
			     at % G4_LISTING_PAGES, n, sums, domain);
	g4_cache_put(alloc->meta->cache, line);
	return (int)n;
}

/* All pages of the region, if they are listed with these sums in a domain, or 0. The group's lock is held. */
G4_FN static int listed_region(struct g4_wg *wg, struct g4_alloc *alloc, const struct g4_shares_lines *c,
			       const struct g4_sum_entry *sums, uint64_t domain)
{
	for (uint32_t at = 0; at < G4_REGION_PAGES; at += G4_LISTING_PAGES) {
		const int n = listed_row(wg, alloc, c, at, G4_LISTING_PAGES, &sums[at], domain);
		if (n < (int)G4_LISTING_PAGES)
			return n < 0 ? n : 0;
	}
	return (int)G4_REGION_PAGES;
}

G4_FN static int free_listing(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_shares_lines *c,
			      uint32_t quarter)
{
	g4_le64 *place = &g4_shares_of(alloc, c)->listings[c->region][quarter];
	const struct g4_address address = g4_address_from(*place);
	const int rc = can_go(wg, alloc, address);

	if (rc <= 0)
		return rc;
	g4_txn_dirty(txn, c->shares);
	*place = 0;
	g4_quota_freed(alloc, c->group);
	return g4_alloc_free_metadata(wg, alloc, txn, address);
}

/* A page of the region is listed no more. */
G4_FN static void unlist(struct g4_alloc *alloc, struct g4_txn *txn, struct g4_shares_lines *c, uint32_t at)
{
	if (c->shares == G4_NO_LINE || !g4_listed(g4_shares_of(alloc, c), c->region, at))
		return;
	g4_txn_dirty(txn, c->shares);
	g4_shares_of(alloc, c)->listed[c->region][at / 64] &= ~(UINT64_C(1) << at % 64);
	const uint64_t page = (c->group * G4_GROUP_REGIONS + c->region) * G4_REGION_PAGES + at;
	g4_add32(g4_share_mark_of(alloc, g4_page_address(page)), 2);
}

/* Frees pages of sums of which none is listed, of the quarters that pages of the region lie in. */
G4_FN static int drop_listings(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_shares_lines *c,
			       uint32_t first, uint64_t pages)
{
	const uint32_t last = (uint32_t)(first + pages - 1) / G4_LISTING_PAGES;
	int rc = 0;

	for (uint32_t quarter = first / G4_LISTING_PAGES; quarter <= last && rc == 0; quarter++)
		if (g4_shares_of(alloc, c)->listings[c->region][quarter] != 0 &&
		    !g4_listed_any(g4_shares_of(alloc, c), c->region, quarter))
			rc = free_listing(wg, alloc, txn, c, quarter);
	return rc;
}

/* Frees what is empty, of the group and of the quarters that pages of the region lie in. */
G4_FN static int drop_unused(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_shares_lines *c,
			     uint32_t first, uint64_t pages)
{
	int rc = drop_buffered(wg, alloc, txn, c);

	if (rc == 0)
		rc = drop_listings(wg, alloc, txn, c, first, pages);
	return rc < 0 ? rc : drop_shares(wg, alloc, txn, c);
}

/* Where the counts of the region that an address lies in are, and their lock, which is held then unless there is an error. */
G4_FN static int lock_shares(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_address address,
			     struct g4_shares_lines *c)
{
	const uint64_t region = g4_address_page(address) / G4_REGION_PAGES;

	if (!g4_layout_holds(&alloc->meta->layout, address))
		return -G4_E_CORRUPT_MAP;
	g4_lock(g4_shares_lock(alloc, region / G4_GROUP_REGIONS));
	const int rc = g4_shares_get(wg, alloc, region, c);
	if (rc < 0)
		g4_unlock(g4_shares_lock(alloc, region / G4_GROUP_REGIONS));
	return rc;
}

G4_FN static void unlock_shares(struct g4_alloc *alloc, struct g4_shares_lines *c)
{
	g4_shares_put_counts(alloc, c);
	g4_unlock(g4_shares_lock(alloc, c->group));
}

/* A word of bits at a time. */
G4_FN static void set_listed(struct g4_shares_page *shares, uint32_t region, uint32_t first, uint32_t pages)
{
	for (uint32_t at = first, end = first + pages, n; at < end; at += n) {
		n = (uint32_t)g4_min64(end - at, 64 - at % 64);
		shares->listed[region][at / 64] |= (n == 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1) << at % 64;
	}
}

/* Pages of a quarter that are to be listed. */
struct to_list {
	struct g4_address address;
	uint32_t pages;
	const struct g4_sum_entry *sums;
	uint64_t domain;
	uint32_t today;
};

/* Their quarter's page of sums, with those of these pages. -G4_E_NOSPC: there is no room; G4_LIST_FULL: no more may be made. */
G4_FN static int make_listing(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, const struct to_list *what,
			      struct g4_shares_ahead *ahead)
{
	const uint64_t first = g4_address_page(what->address);

	if (!g4_quota_take(alloc))
		return G4_LIST_FULL;
	const int rc = g4_shares_make_ahead(wg, alloc, txn, G4_BLOCK_LISTING, ahead);
	if (rc < 0)
		g4_quota_give(alloc);
	if (rc == 0) {
		struct g4_listing_page *page = (struct g4_listing_page *)g4_line_data(alloc->meta->cache, ahead->line);
		page->region = first / G4_REGION_PAGES;
		page->quarter = first % G4_REGION_PAGES / G4_LISTING_PAGES;
		page->day = what->today;
		g4_listing_write(wg, page, first % G4_LISTING_PAGES, what->pages, what->sums, what->domain,
				 what->today);
	}
	return rc;
}

/* Under the lock: 1; 0: what leads there can not be read; -G4_E_AGAIN: there is no page of sums, and none was made; or an error. */
G4_FN static int list_locked(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, const struct to_list *what,
			     struct g4_shares_lines *c, struct g4_shares_ahead *ahead)
{
	const uint32_t first = (uint32_t)(g4_address_page(what->address) % G4_REGION_PAGES);
	const uint32_t quarter = first / G4_LISTING_PAGES;
	uint32_t line;
	int rc;

	if (c->shares != G4_NO_LINE && g4_shares_of(alloc, c)->listings[c->region][quarter] != 0) {
		rc = get_listing(wg, alloc, c, quarter, &line);
		if (rc < 0)
			return 0;
		g4_txn_dirty(txn, line);
		g4_txn_dirty(txn, c->shares);
		g4_listing_write(wg, (struct g4_listing_page *)g4_line_data(alloc->meta->cache, line),
				 first % G4_LISTING_PAGES, what->pages, what->sums, what->domain, what->today);
		g4_cache_put(alloc->meta->cache, line);
	} else {
		rc = ahead->line == G4_NO_LINE ? -G4_E_AGAIN : g4_shares_make_leader(wg, alloc, txn, c);
		if (rc < 0)
			return rc;
		g4_shares_of(alloc, c)->listings[c->region][quarter] = g4_address_stored(ahead->address);
		g4_shares_put(alloc, &ahead->line);
		g4_quota_took(alloc, c->group);
	}
	set_listed(g4_shares_of(alloc, c), c->region, first, what->pages);
	return 1;
}

G4_FN int g4_share_list(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address address,
			uint32_t pages, const struct g4_sum_entry *sums, uint64_t domain, uint32_t today)
{
	const struct to_list what = {address, pages, sums, domain, today};
	struct g4_shares_ahead ahead = {G4_NO_ADDRESS, G4_NO_LINE};
	struct g4_shares_lines c;
	/* of a whole quarter that is new nothing is listed: it needs no look */
	int rc = pages == G4_LISTING_PAGES ? -G4_E_AGAIN : 0;

	do {
		rc = rc == -G4_E_AGAIN ? make_listing(wg, alloc, txn, &what, &ahead) : 0;
		if (rc != 0)
			break;
		if (lock_shares(wg, alloc, address, &c) < 0)
			break;
		rc = list_locked(wg, alloc, txn, &what, &c, &ahead);
		unlock_shares(alloc, &c);
	} while (rc == -G4_E_AGAIN);
	if (ahead.line != G4_NO_LINE)
		g4_quota_give(alloc);
	const int dropped = g4_shares_drop_ahead(wg, alloc, txn, &ahead);
	rc = rc == -G4_E_NOSPC ? 0 : rc;
	return rc < 0 || dropped == 0 ? rc : dropped;
}

G4_FN int g4_share_unlist(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address address)
{
	struct g4_shares_lines c;
	int rc = lock_shares(wg, alloc, address, &c);

	if (rc < 0)
		return rc;
	unlist(alloc, txn, &c, (uint32_t)(g4_address_page(address) % G4_REGION_PAGES));
	unlock_shares(alloc, &c);
	return 0;
}

G4_FN int g4_share_listed_row(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_address address, uint32_t pages,
			      const struct g4_sum_entry *sums, uint64_t domain)
{
	struct g4_shares_lines c;
	int rc = lock_shares(wg, alloc, address, &c);

	if (rc < 0)
		return rc;
	rc = listed_row(wg, alloc, &c, (uint32_t)(g4_address_page(address) % G4_REGION_PAGES), pages, sums, domain);
	unlock_shares(alloc, &c);
	return rc;
}

G4_FN void g4_share_listed_each(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_address one, uint32_t count,
				const uint64_t *places, const struct g4_sum_entry *sums, uint64_t domain,
				struct g4_listing_each *each)
{
	const uint64_t quarter = g4_address_page(one) / G4_LISTING_PAGES;
	const uint32_t part = (uint32_t)(quarter % G4_LISTING_QUARTERS);
	const uint64_t none[G4_LISTING_WORDS] = {0};
	struct g4_shares_lines c;
	uint32_t line;

	if (lock_shares(wg, alloc, one, &c) < 0) {
		g4_listing_each(wg, NULL, quarter, none, count, places, sums, domain, each);
		return;
	}
	const bool any = c.shares != G4_NO_LINE && g4_listed_any(g4_shares_of(alloc, &c), c.region, part) &&
			 get_listing(wg, alloc, &c, part, &line) == 0;
	g4_listing_each(wg, any ? (const struct g4_listing_page *)g4_line_data(alloc->meta->cache, line) : NULL,
			quarter, any ? &g4_shares_of(alloc, &c)->listed[c.region][part * G4_LISTING_WORDS] : none,
			count, places, sums, domain, each);
	if (any)
		g4_cache_put(alloc->meta->cache, line);
	unlock_shares(alloc, &c);
}

/* Of the group that is locked; *c is to be put, also after an error. */
G4_FN static int get_listed(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t group, uint32_t quarter,
			    uint64_t bits[G4_LISTING_WORDS], struct g4_shares_lines *c)
{
	const uint32_t region = quarter / G4_LISTING_QUARTERS, part = quarter % G4_LISTING_QUARTERS;
	int rc = g4_shares_get(wg, alloc, group * G4_GROUP_REGIONS + region, c);

	memset(bits, 0, G4_LISTING_WORDS * sizeof(*bits));
	if (rc == 0 && c->shares == G4_NO_LINE)
		rc = -G4_E_NOENT;
	if (rc == 0)
		memcpy(bits, &g4_shares_of(alloc, c)->listed[region][part * G4_LISTING_WORDS],
		       G4_LISTING_WORDS * sizeof(*bits));
	return rc;
}

G4_FN int g4_share_listed(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t group, uint32_t quarter,
			  uint64_t bits[G4_LISTING_WORDS], struct g4_address *sums)
{
	const uint32_t part = quarter % G4_LISTING_QUARTERS;
	struct g4_shares_lines c;

	*sums = G4_NO_ADDRESS;
	g4_lock(g4_shares_lock(alloc, group));
	const int rc = get_listed(wg, alloc, group, quarter, bits, &c);
	if (rc == 0 && g4_listed_any(g4_shares_of(alloc, &c), c.region, part))
		*sums = g4_address_from(g4_shares_of(alloc, &c)->listings[c.region][part]);
	g4_shares_put_counts(alloc, &c);
	g4_unlock(g4_shares_lock(alloc, group));
	return rc;
}

G4_FN int g4_share_listed_sums(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t group, uint32_t quarter,
			       uint64_t bits[G4_LISTING_WORDS], struct g4_listing_page *to)
{
	const uint32_t part = quarter % G4_LISTING_QUARTERS;
	struct g4_shares_lines c;
	uint32_t line;

	g4_lock(g4_shares_lock(alloc, group));
	int rc = get_listed(wg, alloc, group, quarter, bits, &c);
	if (rc == 0 && g4_listed_any(g4_shares_of(alloc, &c), c.region, part)) {
		rc = get_listing(wg, alloc, &c, part, &line);
		if (rc == 0) {
			g4_copy(wg, to, g4_line_data(alloc->meta->cache, line), sizeof(*to));
			g4_cache_put(alloc->meta->cache, line);
		} else {
			memset(bits, 0, G4_LISTING_WORDS * sizeof(*bits));
		}
	}
	g4_shares_put_counts(alloc, &c);
	g4_unlock(g4_shares_lock(alloc, group));
	return rc;
}

G4_FN void g4_share_count_listings(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t group)
{
	struct g4_shares_lines c;
	uint32_t count = 0;
	int rc = 0;

	g4_lock(g4_shares_lock(alloc, group));
	/* where nothing is in use nothing is listed: most groups of a device that is young */
	if (g4_load32_rlx(&alloc->group_free[group]) < G4_GROUP_PAGES) {
		rc = g4_shares_get(wg, alloc, group * G4_GROUP_REGIONS, &c);
		for (uint32_t region = 0; rc == 0 && c.shares != G4_NO_LINE && region < G4_GROUP_REGIONS; region++)
			for (uint32_t quarter = 0; quarter < G4_LISTING_QUARTERS; quarter++)
				count += g4_shares_of(alloc, &c)->listings[region][quarter] != 0;
		g4_shares_put_counts(alloc, &c);
	}
	if (rc == 0)
		g4_quota_counted(alloc, group, count);
	g4_unlock(g4_shares_lock(alloc, group));
}

/* Page k of those whose page of sums `line` has, on the day `last` or before. */
G4_FN static bool was_listed_by(struct g4_alloc *alloc, uint32_t line, uint32_t k, uint64_t last)
{
	return g4_listing_day((const struct g4_listing_page *)g4_line_data(alloc->meta->cache, line), k) <= last;
}

/* The page of sums of a quarter that lists something; `line` stays G4_NO_LINE where nothing is listed, or that page can not be read. */
G4_FN static int get_days(struct g4_wg *wg, struct g4_alloc *alloc, const struct g4_shares_lines *c, uint32_t part,
			  uint32_t *line)
{
	if (c->shares == G4_NO_LINE || !g4_listed_any(g4_shares_of(alloc, c), c->region, part))
		return 0;
	const int rc = get_listing(wg, alloc, c, part, line);
	if (rc < 0)
		*line = G4_NO_LINE;
	return rc < 0 && !g4_alloc_is_unreadable(rc) ? rc : 0;
}

G4_FN int g4_share_prune(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, uint64_t group, uint32_t quarter,
			 uint64_t last, uint64_t gone[G4_LISTING_WORDS])
{
	const uint32_t region = quarter / G4_LISTING_QUARTERS, part = quarter % G4_LISTING_QUARTERS;
	const uint32_t first = part * G4_LISTING_PAGES;
	const bool any_day = last == G4_LISTING_ANY_DAY;
	struct g4_shares_lines c;
	struct more more;
	uint32_t days = G4_NO_LINE;

	memset(gone, 0, G4_LISTING_WORDS * sizeof(*gone));
	g4_lock(g4_shares_lock(alloc, group));
	int rc = g4_shares_get_counts(wg, alloc, group * G4_GROUP_REGIONS + region, &c);
	if (rc == 0)
		look_at_more(wg, alloc, &c, &more);
	if (rc == 0 && !any_day)
		rc = get_days(wg, alloc, &c, part, &days);
	for (uint32_t k = 0; rc == 0 && c.shares != G4_NO_LINE && k < G4_LISTING_PAGES; k++) {
		if (!g4_listed(g4_shares_of(alloc, &c), region, first + k) || has_more(alloc, &c, &more, first + k))
			continue;
		if (!any_day && (days == G4_NO_LINE || !was_listed_by(alloc, days, k, last)))
			continue;
		unlist(alloc, txn, &c, first + k);
		gone[k / 64] |= UINT64_C(1) << k % 64;
	}
	g4_shares_put(alloc, &days);
	if (rc == 0 && c.shares != G4_NO_LINE)
		rc = drop_unused(wg, alloc, txn, &c, 0, G4_REGION_PAGES);
	g4_shares_put_counts(alloc, &c);
	g4_unlock(g4_shares_lock(alloc, group));
	return rc;
}

/* ------------------------------------------------------------------ owners */

/* What makes pages others' that are listed. */
struct found {
	const struct g4_sum_entry *sums; /* with these, */
	uint64_t domain;
	uint32_t mark; /* of one page: not 0: and was all the time since */
};

enum how {
	EACH,
	FEW /* buffered, if they are */,
	WHOLE /* as a region */,
	SAME /* each, by which others become free */
};

/*
 * With `found` as many of the pages, from the first on, as are listed so, where all lie in one quarter, and all of a region or none of it; -G4_E_AGAIN: none.
 * How many pages have an owner more.
 */
G4_FN static int acquire(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address address,
			 uint64_t pages, enum how how, const struct found *found)
{
	const uint64_t page = g4_address_page(address), region = page / G4_REGION_PAGES;
	const uint32_t first = (uint32_t)(page % G4_REGION_PAGES);
	struct g4_lock *lock = g4_shares_lock(alloc, region / G4_GROUP_REGIONS);
	struct g4_shares_lines c;
	int rc;

	if (g4_address_is_before(address, g4_layout_data(&alloc->meta->layout)) ||
	    (page + pages) * G4_PAGE_BYTES > g4_layout_end(&alloc->meta->layout))
		return -G4_E_CORRUPT_MAP;
	g4_lock(lock);
	rc = g4_shares_get_counts(wg, alloc, region, &c);
	c.frees = how == SAME;
	if (rc == 0 && found) {
		const int listed = pages == G4_REGION_PAGES ? listed_region(wg, alloc, &c, found->sums, found->domain) :
							      listed_row(wg, alloc, &c, first, (uint32_t)pages,
									 found->sums, found->domain);
		rc = listed < 0 ? listed : listed ? 0 : -G4_E_AGAIN;
		pages = (uint64_t)g4_max64(listed > 0 ? (uint64_t)listed : 0, 1);
		/* it is taken off under this lock */
		if (rc == 0 && found->mark != 0 && found->mark != g4_share_mark(alloc, address))
			rc = -G4_E_AGAIN;
	}
	if (rc == 0)
		rc = g4_counts_check(alloc, &c, first, pages);
	if (found && g4_alloc_is_unreadable(rc)) /* before anything has changed */
		rc = -G4_E_AGAIN;
	if (rc == 0 && how == WHOLE && g4_load32_acq(&alloc->counts_regions)) {
		rc = g4_counts_add_whole(wg, alloc, txn, &c);
	} else if (rc == 0 && (found || how == FEW || pages == 1)) {
		rc = g4_counts_add_or_buffer(wg, alloc, txn, &c, first, pages);
		pages = rc > 0 ? (uint64_t)rc : pages;
	} else if (rc == 0) {
		rc = g4_counts_add(wg, alloc, txn, &c, first, pages);
	}
	g4_shares_put_counts(alloc, &c);
	g4_unlock(lock);
	return rc < 0 ? rc : (int)pages;
}

G4_FN int g4_share_acquire(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address address,
			   uint64_t pages)
{
	const int rc = acquire(wg, alloc, txn, address, pages, EACH, NULL);

	return rc < 0 ? rc : 0;
}

G4_FN int g4_share_acquire_few(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address address,
			       uint64_t pages)
{
	return acquire(wg, alloc, txn, address, pages, FEW, NULL);
}

G4_FN int g4_share_acquire_same(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address address,
				uint64_t pages)
{
	const int rc = acquire(wg, alloc, txn, address, pages, SAME, NULL);

	return rc < 0 ? rc : 0;
}

G4_FN int g4_share_acquire_whole(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn,
				 struct g4_address address)
{
	const int rc = acquire(wg, alloc, txn, address, G4_REGION_PAGES, WHOLE, NULL);

	return rc < 0 ? rc : 0;
}

G4_FN int g4_share_acquire_listed(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn,
				  struct g4_address address, uint32_t pages, const struct g4_sum_entry *sums,
				  uint64_t domain, uint32_t mark)
{
	const struct found found = {sums, domain, mark};

	return acquire(wg, alloc, txn, address, pages, EACH, &found);
}

G4_FN int g4_share_acquire_listed_region(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn,
					 struct g4_address address, const struct g4_sum_entry *sums, uint64_t domain)
{
	const struct found found = {sums, domain, 0};
	const int rc = acquire(wg, alloc, txn, address, G4_REGION_PAGES, EACH, &found);

	return rc < 0 ? rc : 0;
}

/* The first page of `which` that is not in `listed`; or `count`. */
G4_FN static uint32_t first_missing(const struct g4_listing_each *each, uint32_t count)
{
	for (uint32_t w = 0; w < G4_LISTING_EACH / 64; w++)
		if (each->which[w] & ~each->listed[w])
			return w * 64 + g4_lowest_bit(each->which[w] & ~each->listed[w]);
	return count;
}

G4_FN int g4_share_acquire_each(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address one,
				uint32_t count, const uint64_t *places, const struct g4_sum_entry *sums,
				uint64_t domain, struct g4_listing_each *each)
{
	const uint64_t quarter = g4_address_page(one) / G4_LISTING_PAGES;
	const uint32_t part = (uint32_t)(quarter % G4_LISTING_QUARTERS);
	struct g4_lock *lock = g4_shares_lock(alloc, quarter / G4_LISTING_QUARTERS / G4_GROUP_REGIONS);
	struct g4_shares_lines c;
	uint32_t line;

	if (!g4_layout_holds(&alloc->meta->layout, one))
		return -G4_E_CORRUPT_MAP;
	g4_lock(lock);
	int rc = g4_shares_get_counts(wg, alloc, quarter / G4_LISTING_QUARTERS, &c);
	if (rc == 0 && (c.shares == G4_NO_LINE || !g4_listed_any(g4_shares_of(alloc, &c), c.region, part) ||
			get_listing(wg, alloc, &c, part, &line) < 0))
		rc = -G4_E_AGAIN;
	if (rc == 0) {
		g4_listing_each(wg, (const struct g4_listing_page *)g4_line_data(alloc->meta->cache, line), quarter,
				&g4_shares_of(alloc, &c)->listed[c.region][part * G4_LISTING_WORDS], count, places,
				sums, domain, each);
		g4_cache_put(alloc->meta->cache, line);
		const uint32_t end = first_missing(each, count);
		rc = end > 0 ? g4_counts_add_each(wg, alloc, txn, &c, places, each->listed, end) : -G4_E_AGAIN;
	} else if (g4_alloc_is_unreadable(rc)) { /* before anything has changed */
		rc = -G4_E_AGAIN;
	}
	g4_shares_put_counts(alloc, &c);
	g4_unlock(lock);
	return rc;
}

G4_FN int g4_share_divide(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address address,
			  uint64_t *reserved)
{
	struct g4_address made;
	struct g4_shares_lines c;

	if (!g4_load32_acq(&alloc->counts_regions))
		return 0;
	int rc = lock_shares(wg, alloc, address, &c);
	if (rc < 0)
		return rc;
	const bool whole = g4_shares_whole(alloc, &c, c.region) != 0;
	if (whole)
		rc = g4_shares_get_owners(wg, alloc, &c);
	for (uint32_t k = 0; rc == 0 && whole && c.owners != G4_NO_LINE && k < G4_REGION_PAGES; k++)
		if (g4_shares_owners(alloc, &c)->more[k] == UINT32_MAX) /* of a hostile image: owners stay as many */
			rc = -G4_E_CORRUPT_ALLOC;
	if (rc == 0 && whole && c.owners == G4_NO_LINE) {
		rc = g4_shares_make_page(wg, alloc, txn, G4_BLOCK_OWNERS, reserved, &made, &c.owners);
		if (rc == 0)
			g4_counts_lead_to(alloc, &c, made);
	}
	if (rc == 0 && whole) {
		g4_txn_dirty(txn, c.shares);
		g4_shares_of(alloc, &c)->whole[c.region]--;
		rc = g4_counts_add(wg, alloc, txn, &c, 0, G4_REGION_PAGES);
	}
	unlock_shares(alloc, &c);
	return rc;
}

/* Pages of which the last owner goes. */
G4_FN static int release_last(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_shares_lines *c,
			      struct g4_address address, uint64_t pages)
{
	const uint32_t first = (uint32_t)(g4_address_page(address) % G4_REGION_PAGES);

	for (uint32_t at = first; at < first + pages; at++)
		unlist(alloc, txn, c, at);
	return g4_alloc_free(wg, alloc, txn, address, pages);
}

/* One owner less of a page that has several: one that is buffered goes first, for that page is changed anyway while others come. */
G4_FN static void take_owner(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_shares_lines *c,
			     const struct more *more, uint32_t at)
{
	if (has_buffered(more, at)) {
		struct g4_buffered_page *buffered = g4_shares_buffered(alloc, c);
		g4_txn_dirty(txn, c->buffered);
		g4_buffered_take(buffered, g4_buffered_find(wg, buffered, c->region * G4_REGION_PAGES + at));
		return;
	}
	struct g4_owners_page *owners = g4_shares_owners(alloc, c);
	g4_txn_dirty(txn, c->owners);
	owners->shared -= --owners->more[at] == 0;
}

/* Of pages that are counted: one owner less each, and runs of those that had no other are freed. */
G4_FN static int release_counted(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn,
				 struct g4_shares_lines *c, struct g4_address address, uint64_t pages)
{
	const uint32_t first = (uint32_t)(g4_address_page(address) % G4_REGION_PAGES);
	struct more more;
	uint64_t done = 0, run;
	int rc = 0;

	look_at_more(wg, alloc, c, &more);
	if (more.whole && pages == G4_REGION_PAGES) {
		g4_txn_dirty(txn, c->shares);
		g4_shares_of(alloc, c)->whole[c->region]--;
		return 0;
	}
	for (uint64_t k = 0; more.whole && k < pages;
	     k++) /* of a hostile image: no page goes that large pointers lead to */
		if (!has_own(alloc, c, &more, (uint32_t)(first + k)))
			return -G4_E_CORRUPT_ALLOC;
	for (; done < pages && rc == 0; done += run) {
		for (run = 0; done + run < pages && !has_own(alloc, c, &more, (uint32_t)(first + done + run)); run++)
			;
		if (run > 0) {
			rc = release_last(wg, alloc, txn, c, g4_address_after_pages(address, done), run);
		} else {
			run = 1;
			take_owner(wg, alloc, txn, c, &more, (uint32_t)(first + done));
		}
	}
	return rc;
}

/* Frees what is empty when owners have gone. */
G4_FN static int drop_empty(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_shares_lines *c,
			    uint32_t first, uint64_t pages)
{
	int rc = 0;

	if (c->owners != G4_NO_LINE && g4_shares_owners(alloc, c)->shared == 0)
		rc = drop_owners(wg, alloc, txn, c);
	return rc < 0 ? rc : drop_unused(wg, alloc, txn, c, first, pages);
}

G4_FN int g4_share_release(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address address,
			   uint64_t pages)
{
	const uint64_t page = g4_address_page(address), region = page / G4_REGION_PAGES;
	struct g4_lock *lock = g4_shares_lock(alloc, region / G4_GROUP_REGIONS);
	struct g4_shares_lines c;
	int rc;

	/* a pointer to more than a region, whose space nobody shared when it was looked at, is what a hostile image has */
	if (page * G4_PAGE_BYTES >= g4_layout_end(&alloc->meta->layout) || pages > G4_REGION_PAGES ||
	    page % G4_REGION_PAGES + pages > G4_REGION_PAGES)
		return -G4_E_CORRUPT_MAP;
	g4_lock(lock);
	rc = g4_shares_get_counts(wg, alloc, region, &c);
	if (rc == 0 && c.shares == G4_NO_LINE) {
		rc = g4_alloc_free(wg, alloc, txn, address, pages);
	} else if (rc == 0) {
		rc = release_counted(wg, alloc, txn, &c, address, pages);
		if (rc == 0)
			rc = drop_empty(wg, alloc, txn, &c, (uint32_t)(page % G4_REGION_PAGES), pages);
	}
	g4_shares_put_counts(alloc, &c);
	g4_unlock(lock);
	return rc;
}

G4_FN int g4_share_leave(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address address)
{
	const uint64_t page = g4_address_page(address), region = page / G4_REGION_PAGES;
	const uint32_t at = (uint32_t)(page % G4_REGION_PAGES);
	struct g4_shares_lines c;
	struct more more;
	bool several = false;

	if (!g4_layout_holds(&alloc->meta->layout, address))
		return -G4_E_CORRUPT_MAP;
	g4_lock(g4_shares_lock(alloc, region / G4_GROUP_REGIONS));
	int rc = g4_shares_get_counts(wg, alloc, region, &c);
	if (rc == 0 && c.shares != G4_NO_LINE) {
		look_at_more(wg, alloc, &c, &more);
		several = has_own(alloc, &c, &more, at);
	}
	if (several) {
		take_owner(wg, alloc, txn, &c, &more, at);
		rc = drop_empty(wg, alloc, txn, &c, at, 1);
	}
	g4_shares_put_counts(alloc, &c);
	g4_unlock(g4_shares_lock(alloc, region / G4_GROUP_REGIONS));
	return rc < 0 ? rc : several;
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
		rc = g4_load64_rlx(&((const struct g4_alloc_page *)g4_line_data(alloc->meta->cache, map))->shares) != 0;
		g4_cache_put(alloc->meta->cache, map);
	}
	return rc;
}

G4_FN int g4_share_several(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_address address, uint64_t *pages)
{
	const uint64_t page = g4_address_page(address), region = page / G4_REGION_PAGES;
	const uint32_t first = (uint32_t)(page % G4_REGION_PAGES);
	struct g4_shares_lines c;
	struct more more;
	bool several = false;

	if (!g4_layout_holds(&alloc->meta->layout, address))
		return -G4_E_CORRUPT_MAP;
	g4_lock(g4_shares_lock(alloc, region / G4_GROUP_REGIONS));
	const int rc = g4_shares_get_counts(wg, alloc, region, &c);
	if (rc == 0 && c.shares != G4_NO_LINE) {
		uint64_t same = 1;
		look_at_more(wg, alloc, &c, &more);
		several = has_more(alloc, &c, &more, first);
		while (same < *pages && has_more(alloc, &c, &more, first + (uint32_t)same) == several)
			same++;
		*pages = same;
	}
	g4_shares_put_counts(alloc, &c);
	g4_unlock(g4_shares_lock(alloc, region / G4_GROUP_REGIONS));
	return rc < 0 ? rc : several;
}
