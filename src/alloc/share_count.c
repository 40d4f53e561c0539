/* SPDX-License-Identifier: Apache-2.0 */
/* Crash at any line: a count changes in the transaction of the pointer that it counts. */
#include "alloc/share_count.h"

#include "alloc/buffered.h"
#include "alloc/share.h"
#include "alloc/share_make.h"

#define MOST_OWNERS (UINT32_MAX - G4_BUFFERED_MOST) /* and as many as are buffered: that fits, too */
#define OWNERS_STEP 8u				    /* counts that a leader has under way at a time */

/* A page of counts that was made: the group's, which is dirty, leads to it. */
G4_FN void g4_counts_lead_to(struct g4_alloc *alloc, struct g4_shares_lines *c, struct g4_address address)
{
	g4_shares_owners(alloc, c)->region = c->group * G4_GROUP_REGIONS + c->region;
	g4_shares_of(alloc, c)->owners[c->region] = g4_address_stored(address);
}

/* Makes what g4_shares_get_counts() has not found: a page of counts. */
G4_FN static int make_counts(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_shares_lines *c)
{
	struct g4_address address;
	const int rc = g4_shares_make_below(wg, alloc, txn, c, G4_BLOCK_OWNERS, &address, &c->owners);

	if (rc == 0)
		g4_counts_lead_to(alloc, c, address);
	return rc;
}

/* The same of the group's page of buffered owners. */
G4_FN static int make_buffered(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_shares_lines *c)
{
	struct g4_address address;
	const int rc = g4_shares_make_below(wg, alloc, txn, c, G4_BLOCK_BUFFERED, &address, &c->buffered);

	if (rc == 0) {
		g4_shares_buffered(alloc, c)->group = c->group;
		g4_shares_of(alloc, c)->buffered = g4_address_stored(address);
	}
	return rc;
}

/* Whether pages of c's region can have an owner more. */
G4_FN int g4_counts_check(struct g4_alloc *alloc, const struct g4_shares_lines *c, uint32_t first, uint64_t pages)
{
	const struct g4_region *bits = &g4_shares_map(alloc, c)->regions[c->region];
	const g4_le32 *more = c->owners == G4_NO_LINE ? NULL : g4_shares_owners(alloc, c)->more;
	const uint64_t whole = g4_shares_whole(alloc, c, c->region);

	for (uint64_t at = first, end = first + pages, n; at < end; at += n) { /* a word of bits at a time */
		n = g4_min64(end - at, 64 - at % 64);
		const uint64_t mask = (n == 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1) << at % 64;
		if ((g4_load64_rlx(&bits->used[at / 64]) & mask) != mask ||
		    (g4_load64_rlx(&bits->slab[at / 64]) & mask) != 0)
			return -G4_E_CORRUPT_MAP;
	}
	for (uint64_t at = first, end = first + pages; at < end && more; at += OWNERS_STEP) { /* loaded together */
		uint64_t most = 0;
		for (uint64_t i = 0; i < OWNERS_STEP; i++)
			most = g4_max64(most, at + i < end ? more[at + i] : 0);
		if (whole + most >= MOST_OWNERS)
			return -G4_E_MLINK;
	}
	return whole >= MOST_OWNERS ? -G4_E_MLINK : 0;
}

/*
 * Puts the buffered owners of the region that has most of them into its page of counts. 1; 0: that can not be had, or it takes none (of a
 * hostile image), and nothing has changed; or an error.
 *
 * The region may be c's, and its page of counts made here: `c` does not know it then. Nobody makes another one for that. A full buffer has owners of
 * pages of the group alone (g4_buffered_page_validate()), so the region has a 31st of them, and a page that was made takes them all: this is 1,
 * the owner is buffered, and whoever buffers owners adds none to c's page of counts behind one that was buffered.
 */
G4_FN static int settle_most(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn,
			     const struct g4_shares_lines *c)
{
	struct g4_buffered_page *buffered = g4_shares_buffered(alloc, c);
	struct g4_shares_lines of = *c;

	of.region = g4_buffered_most(buffered);
	of.owners = G4_NO_LINE;
	if (g4_shares_get_owners(wg, alloc, &of) < 0)
		return 0;
	const int rc = of.owners == G4_NO_LINE ? make_counts(wg, alloc, txn, &of) : 0;
	if (rc < 0)
		return rc == -G4_E_NOSPC ? 0 : rc;
	struct g4_owners_page *owners = g4_shares_owners(alloc, &of);
	g4_txn_dirty(txn, of.owners);
	g4_txn_dirty(txn, c->buffered);
	for (uint32_t k = buffered->count; k-- > 0;) {
		const uint32_t at = buffered->pages[k] - of.region * G4_REGION_PAGES;
		if (at >= G4_REGION_PAGES || owners->more[at] == UINT32_MAX) /* the latter: a hostile image's */
			continue;
		owners->shared += owners->more[at]++ == 0;
		g4_buffered_take(buffered, k);
	}
	g4_shares_put(alloc, &of.owners);
	return buffered->count < G4_BUFFERED_MOST;
}

/*
 * One owner more of page `at` of c's region, in the group's page of buffered owners. 1; 0: it is to be counted in its page of counts, which
 * the transaction changes anyway, or there is no room; or an error, half done.
 */
G4_FN static int buffer_owner(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_shares_lines *c,
			      uint32_t at)
{
	int rc = 1;

	if (!g4_load32_acq(&alloc->buffers_owners) ||
	    (c->owners != G4_NO_LINE &&
	     g4_load64_rlx(&g4_meta_line(alloc->meta->cache, c->owners)->txn) == txn->sequence))
		return 0;
	if (c->buffered == G4_NO_LINE) {
		rc = make_buffered(wg, alloc, txn, c);
		rc = rc == -G4_E_NOSPC ? 0 : rc < 0 ? rc : 1;
	} else if (g4_shares_buffered(alloc, c)->count == G4_BUFFERED_MOST) {
		rc = settle_most(wg, alloc, txn, c);
	}
	if (rc <= 0)
		return rc;
	struct g4_buffered_page *buffered = g4_shares_buffered(alloc, c);
	g4_txn_dirty(txn, c->buffered);
	buffered->pages[buffered->count++] = (uint16_t)(c->region * G4_REGION_PAGES + at);
	return 1;
}

/* Pages of c's region have an owner more, each in its page of counts. */
G4_FN int g4_counts_add(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_shares_lines *c,
			uint32_t first, uint64_t pages)
{
	int rc = c->owners == G4_NO_LINE ? make_counts(wg, alloc, txn, c) : 0;

	if (rc < 0)
		return rc;
	struct g4_owners_page *owners = g4_shares_owners(alloc, c);
	g4_txn_dirty(txn, c->owners);
	uint32_t shared = 0;
	for (uint64_t at = first, end = first + pages; at < end; at += OWNERS_STEP) { /* loaded together */
		uint32_t more[OWNERS_STEP];
		for (uint64_t i = 0; i < OWNERS_STEP; i++)
			more[i] = at + i < end ? owners->more[at + i] : 0;
		for (uint64_t i = 0; i < OWNERS_STEP && at + i < end; i++) {
			shared += more[i] == 0;
			owners->more[at + i] = more[i] + 1;
		}
	}
	owners->shared += shared;
	return 0;
}

/*
 * The same, or buffered ones, where they are fewer in a row than what a full buffer has of a region at least. How many pages, from the first
 * on: a buffer that gets full ends it, so that it is settled once at most.
 */
G4_FN int g4_counts_add_or_buffer(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn,
				  struct g4_shares_lines *c, uint32_t first, uint64_t pages)
{
	uint32_t done = 0;
	int rc;

	do {
		rc = pages < G4_SHARE_ROW ? buffer_owner(wg, alloc, txn, c, first + done) : 0;
		done += rc > 0;
	} while (rc > 0 && done < pages && g4_shares_buffered(alloc, c)->count < G4_BUFFERED_MOST);
	if (rc < 0 || done > 0) /* who asks for the next one is told */
		return done > 0 ? (int)done : rc;
	rc = g4_counts_add(wg, alloc, txn, c, first, pages);
	return rc < 0 ? rc : (int)pages;
}

/* c's region has an owner more as a whole, in the group's page, which is made if there is none. */
G4_FN int g4_counts_add_whole(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_shares_lines *c)
{
	const int rc = g4_shares_make_leader(wg, alloc, txn, c);

	if (rc == 0)
		g4_shares_of(alloc, c)->whole[c->region]++;
	return rc;
}

/* Pages at `places` that are in `listed`, in front of the page `end`: where what has an owner more ends. As g4_counts_add_or_buffer(). */
G4_FN int g4_counts_add_each(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_shares_lines *c,
			     const uint64_t *places, const uint64_t *listed, uint32_t end)
{
	uint32_t n = 0, done = 0;
	int rc = 0;

	for (uint32_t k = 0; k < end; k++)
		n += listed[k / 64] >> k % 64 & 1;
	bool buffers = n < G4_SHARE_ROW;
	for (uint32_t k = 0; k < end; k++) {
		if (!(listed[k / 64] >> k % 64 & 1))
			continue;
		const uint32_t at = (uint32_t)(places[k] / G4_PAGE_BYTES % G4_REGION_PAGES);
		rc = g4_counts_check(alloc, c, at, 1);
		if (rc < 0) /* what is in front of it is there */
			return done > 0 ? (int)k : rc;
		rc = buffers ? buffer_owner(wg, alloc, txn, c, at) : 0;
		if (rc == 0 && buffers && done > 0)
			return (int)k;
		buffers = rc > 0;
		if (rc == 0)
			rc = g4_counts_add(wg, alloc, txn, c, at, 1);
		if (rc < 0)
			return rc;
		done++;
		if (buffers && g4_shares_buffered(alloc, c)->count == G4_BUFFERED_MOST) /* it is settled once at most */
			return (int)k + 1;
	}
	return (int)end;
}
