/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second tier of the cache (tier.h, docs/design/cache.md).
 *
 * No stale page. A page comes in only under its set's lock, if the version of its block is what it was before the device was asked
 * for it, and without writers. A writer raises the version first, takes the page out under the set's lock then, and is counted until
 * its write is complete. So a read of the device that a write may have overlapped is one whose version has changed, or that began
 * with a writer there; where the version is looked at before the writer raises it the page comes in before the writer has the
 * lock, and goes. What is read after the write was complete is what was written.
 *
 * Versions of blocks that have one word together change together: pages are dropped, or do not come, without need, and never the
 * reverse. What is written everywhere has a word of its own, and a block's version is the sum of both: their numbers only grow, so
 * that the sum is the same only where both are.
 *
 * A victim is a read of the device that took long: its version is of before it was read, and it comes in as such a read does.
 *
 * Pages are copied without the lock. Who copies one out of a way is counted in `readers`, and the way is not given to another page
 * meanwhile; its own page may be dropped by a writer of another address with the same version, or by somebody who distrusts it, and
 * is what it was.
 */
#include "space/tier.h"

#define WRITERS ((UINT64_C(1) << 20) - 1) /* of a version's word */
#define VERSION (WRITERS + 1)
#define MISSES UINT64_C(255) /* of a region's word */
#define AT_ONCE 16u
#define MOST_READERS UINT8_MAX
#define ENOUGH 2u /* small reads that missed in a region before the next is one of many */

G4_FN static struct g4_tier_set *set_of(const struct g4_tier *tier, uint64_t block)
{
	return &tier->sets[block % tier->set_count];
}

G4_FN static uint64_t *version_of(const struct g4_tier *tier, uint64_t block)
{
	return &tier->versions[block & tier->version_mask];
}

G4_FN static uint64_t version_now(const struct g4_tier *tier, uint64_t block)
{
	return g4_load64_acq(version_of(tier, block)) + g4_load64_acq(&tier->everywhere);
}

G4_FN static uint8_t *frame(const struct g4_tier *tier, uint64_t block, uint32_t way)
{
	return tier->frames + (block % tier->set_count * G4_TIER_WAYS + way) * G4_PAGE_BYTES;
}

/*
 * Of the ways in the mask those with a page of the range. The set's lock is held. Several numbers are asked for before one is looked
 * at: on a GPU their ways to memory overlap.
 */
G4_FN static uint64_t ways_in(const struct g4_tier_set *tier_set, uint64_t mask, uint64_t page, uint64_t pages)
{
	uint64_t found = 0;

	for (uint32_t first = 0; first < G4_TIER_WAYS && mask >> first; first += AT_ONCE) {
		uint64_t has[AT_ONCE];
		for (uint32_t k = 0; k < AT_ONCE; k++)
			has[k] = tier_set->pages[first + k];
		for (uint32_t k = 0; k < AT_ONCE; k++)
			found |= (uint64_t)(has[k] - page < pages) << (first + k);
	}
	return found & mask;
}

G4_FN static uint64_t bit(uint32_t way)
{
	return UINT64_C(1) << way;
}

/* ---- reading ---- */

/* Where the parts of a request have got to; pages do not lie in two of them. */
struct parts_at {
	const struct g4_iov *part;
	uint64_t within;
};

G4_FN static uint8_t *next_page(struct parts_at *at)
{
	while (at->within == at->part->bytes) {
		at->part++;
		at->within = 0;
	}
	uint8_t *page = (uint8_t *)at->part->base + at->within;
	at->within += G4_PAGE_BYTES;
	return page;
}

/* Pages of one block that are here, as a mask of ways that stay until leave_ways(); where[k] is the way of page + k. */
G4_FN static uint64_t visit_ways(struct g4_tier *tier, struct g4_tier_set *tier_set, uint64_t page, uint64_t pages,
				 uint8_t *where)
{
	uint64_t victims = 0;

	g4_lock(&tier_set->lock);
	uint64_t found = ways_in(tier_set, tier_set->valid, page, pages);
	for (uint64_t left = found; left; left &= left - 1) {
		const uint32_t way = g4_lowest_bit(left);
		if (tier_set->readers[way] == MOST_READERS) {
			found &= ~bit(way);
			continue;
		}
		tier_set->readers[way]++;
		where[tier_set->pages[way] - page] = (uint8_t)way;
	}
	tier_set->read |= found;
	tier_set->used |= found;
	victims = found & tier_set->victims;
	g4_unlock(&tier_set->lock);
	if (victims)
		g4_add64_rlx(&tier->counts.up, g4_count_bits(victims));
	return found;
}

G4_FN static void leave_ways(struct g4_tier_set *tier_set, uint64_t found)
{
	g4_lock(&tier_set->lock);
	for (uint64_t left = found; left; left &= left - 1) {
		const uint32_t way = g4_lowest_bit(left);
		if (--tier_set->readers[way] == 0)
			tier_set->read &= ~bit(way);
	}
	g4_unlock(&tier_set->lock);
}

/* Pages of one block, the first of which is number `first` of the request. How many were here. */
G4_FN static uint64_t read_block(struct g4_wg *wg, struct g4_tier *tier, uint64_t page, uint64_t pages, uint64_t first,
				 struct parts_at *at, uint64_t *from, uint64_t *to)
{
	const uint64_t block = page / G4_TIER_BLOCK_PAGES;
	struct g4_tier_set *tier_set = set_of(tier, block);
	uint8_t where[G4_TIER_BLOCK_PAGES];
	uint64_t here = 0;

	memset(where, G4_TIER_WAYS, sizeof(where));
	const uint64_t found = visit_ways(tier, tier_set, page, pages, where);
	for (uint64_t k = 0; k < pages; k++) {
		uint8_t *into = next_page(at);
		if (where[k] < G4_TIER_WAYS) {
			g4_copy(wg, into, frame(tier, block, where[k]), G4_PAGE_BYTES);
			here++;
			continue;
		}
		*from = g4_min64(*from, first + k);
		*to = first + k + 1;
	}
	if (found)
		leave_ways(tier_set, found);
	return here;
}

G4_FN bool g4_tier_read(struct g4_wg *wg, struct g4_tier *tier, uint64_t page, uint64_t pages,
			const struct g4_iov *parts, uint32_t part_count, uint64_t *from, uint64_t *to)
{
	struct parts_at at = {parts, 0};
	uint64_t here = 0;

	*from = 0;
	*to = pages;
	if (!g4_tier_is_used(tier))
		return false;
	if (part_count == 0 || pages == 0 || pages > G4_TIER_MOST_PAGES) {
		g4_add64_rlx(&tier->counts.misses, pages);
		return false;
	}
	*from = pages;
	*to = 0;
	for (uint64_t done = 0, n; done < pages; done += n) {
		n = g4_min64(pages - done, G4_TIER_BLOCK_PAGES - (page + done) % G4_TIER_BLOCK_PAGES);
		here += read_block(wg, tier, page + done, n, done, &at, from, to);
	}
	if (here > 0)
		g4_add64_rlx(&tier->counts.hits, here);
	if (here < pages)
		g4_add64_rlx(&tier->counts.misses, pages - here);
	return here == pages;
}

/* ---- reading ahead ---- */

/* A small read has missed there. Whether others have before, in the same region or at the end of the one in front of it. */
G4_FN static bool is_one_of_many(struct g4_tier *tier, uint64_t page)
{
	const uint64_t region = page / G4_TIER_REGION_PAGES;
	uint64_t *word = &tier->regions[region % tier->region_count];
	const uint64_t seen = g4_load64_rlx(word);
	uint64_t misses = 0;

	if (seen >> 8 == region) {
		misses = seen & MISSES;
	} else if (region > 0) {
		const uint64_t before = g4_load64_rlx(&tier->regions[(region - 1) % tier->region_count]);
		if (before >> 8 == region - 1 && (before & MISSES) >= ENOUGH)
			misses = ENOUGH;
	}
	g4_store64_rlx(word, region << 8 | g4_min64(misses + 1, MISSES));
	return misses >= ENOUGH;
}

G4_FN static bool has_failed(const struct g4_tier *tier, uint64_t block)
{
	for (uint32_t k = 0; k < G4_TIER_FAILED; k++)
		if (g4_load64_rlx(&tier->failed[k]) == block + 1)
			return true;
	return false;
}

/* Their pages are not found any more. */
G4_FN static void forget_ways(struct g4_tier_set *tier_set, uint64_t ways)
{
	tier_set->valid &= ~ways;
	tier_set->used &= ~ways;
	tier_set->victims &= ~ways;
}

/*
 * The next way from the set's hand on: one that nobody will miss, if there is one. Those that somebody fills or copies from stay;
 * G4_TIER_WAYS: there are no others.
 */
G4_FN static uint32_t take_way(struct g4_tier_set *tier_set)
{
	uint32_t way = G4_TIER_WAYS;

	for (uint32_t pass = 0; pass < 2 && way == G4_TIER_WAYS; pass++) {
		for (uint32_t step = 0; step < G4_TIER_WAYS; step++) {
			const uint32_t at = (uint32_t)((tier_set->hand + step) % G4_TIER_WAYS);
			const uint64_t kept = pass == 0 ? tier_set->valid & ~tier_set->used : 0;
			if ((tier_set->busy | tier_set->read | kept) >> at & 1)
				continue;
			way = at;
			break;
		}
	}
	if (way == G4_TIER_WAYS)
		return way;
	tier_set->hand = way + 1;
	forget_ways(tier_set, bit(way));
	tier_set->busy |= bit(way);
	return way;
}

G4_FN static void add_part(struct g4_tier_fill *fill, void *base, uint64_t bytes)
{
	struct g4_iov *last = fill->part_count > 0 ? &fill->parts[fill->part_count - 1] : NULL;

	if (last && (uint8_t *)last->base + last->bytes == (uint8_t *)base) {
		last->bytes += bytes;
		return;
	}
	fill->parts[fill->part_count].base = base;
	fill->parts[fill->part_count++].bytes = bytes;
}

/* Ways for the pages from `page` to `end`, as parts of the read; false: there are too few. The set's lock is held. */
G4_FN static bool take_ways(const struct g4_tier *tier, struct g4_tier_set *tier_set, struct g4_tier_fill *fill,
			    uint64_t page, uint64_t end)
{
	for (; page < end; page++) {
		const uint32_t way = take_way(tier_set);

		if (way == G4_TIER_WAYS)
			return false;
		tier_set->pages[way] = page;
		fill->ways[fill->way_count++] = (uint8_t)way;
		add_part(fill, frame(tier, fill->block, way), G4_PAGE_BYTES);
	}
	return true;
}

G4_FN static uint64_t ways_of(const struct g4_tier_fill *fill)
{
	uint64_t mask = 0;

	for (uint32_t k = 0; k < fill->way_count; k++)
		mask |= UINT64_C(1) << fill->ways[k];
	return mask;
}

G4_FN bool g4_tier_begin(struct g4_tier *tier, uint64_t page, uint64_t pages, const struct g4_iov *parts,
			 uint32_t part_count, uint64_t end, struct g4_tier_fill *fill)
{
	if (!g4_tier_is_used(tier) || !is_one_of_many(tier, page))
		return false;
	/* what lies in two blocks is read up to the end of the second one, whose other pages come in */
	const uint64_t behind = page + pages, block = (behind - 1) / G4_TIER_BLOCK_PAGES;
	const uint64_t start = g4_min64(page, block * G4_TIER_BLOCK_PAGES);
	const uint64_t from = page / G4_TIER_BLOCK_PAGES == block ? start : page;
	const uint64_t stop = g4_min64((block + 1) * G4_TIER_BLOCK_PAGES, end);
	if (has_failed(tier, block) || part_count > G4_TIER_SMALL_PAGES || stop < behind)
		return false;
	fill->block = block;
	fill->page = from;
	fill->part_count = fill->way_count = 0;
	fill->version = version_now(tier, block);
	if (fill->version & WRITERS)
		return false;

	struct g4_tier_set *tier_set = set_of(tier, block);
	g4_lock(&tier_set->lock);
	/* somebody else is reading it */
	bool taken = ways_in(tier_set, tier_set->busy, block * G4_TIER_BLOCK_PAGES, G4_TIER_BLOCK_PAGES) == 0;
	if (taken) {
		forget_ways(tier_set, ways_in(tier_set, tier_set->valid, from, stop - from));
		taken = take_ways(tier, tier_set, fill, from, page);
		for (uint32_t k = 0; k < part_count && taken; k++)
			add_part(fill, parts[k].base, parts[k].bytes);
		taken = taken && take_ways(tier, tier_set, fill, behind, stop);
		if (!taken)
			tier_set->busy &= ~ways_of(fill);
	}
	g4_unlock(&tier_set->lock);
	return taken;
}

G4_FN void g4_tier_filled(struct g4_tier *tier, const struct g4_tier_fill *fill, bool read)
{
	struct g4_tier_set *tier_set = set_of(tier, fill->block);
	const uint64_t ways = ways_of(fill);

	g4_lock(&tier_set->lock);
	tier_set->busy &= ~ways;
	if (read && version_now(tier, fill->block) == fill->version)
		tier_set->valid |= ways;
	g4_unlock(&tier_set->lock);
	if (read) {
		g4_add64_rlx(&tier->counts.ahead, fill->way_count);
		g4_add64_rlx(&tier->counts.ahead_reads, 1);
	} else {
		const uint64_t slot = g4_add64_rlx(&tier->failed_count, 1) % G4_TIER_FAILED;
		g4_store64_rlx(&tier->failed[slot], fill->block + 1);
	}
}

/* ---- victims ---- */

G4_FN uint64_t g4_tier_version(const struct g4_tier *tier, uint64_t page)
{
	if (!tier->victims)
		return G4_TIER_NO_VERSION;
	const uint64_t version = version_now(tier, page / G4_TIER_BLOCK_PAGES);
	return version & WRITERS ? G4_TIER_NO_VERSION : version;
}

G4_FN void g4_tier_put(struct g4_wg *wg, struct g4_tier *tier, uint64_t page, uint64_t version, const void *data)
{
	const uint64_t block = page / G4_TIER_BLOCK_PAGES;
	uint32_t way = G4_TIER_WAYS;

	if (!tier->victims || version & WRITERS)
		return;
	if (version_now(tier, block) != version) {
		g4_add64_rlx(&tier->counts.down_old, 1);
		return;
	}
	struct g4_tier_set *tier_set = set_of(tier, block);
	g4_lock(&tier_set->lock);
	/* the same page of two files, or of one that has given it up twice */
	const uint64_t there = ways_in(tier_set, tier_set->valid | tier_set->busy, page, 1);
	tier_set->used &= ~there;
	if (!there)
		way = take_way(tier_set);
	if (way != G4_TIER_WAYS)
		tier_set->pages[way] = page;
	g4_unlock(&tier_set->lock);
	if (there)
		g4_add64_rlx(&tier->counts.down_again, 1);
	if (way == G4_TIER_WAYS)
		return;
	g4_copy(wg, frame(tier, block, way), data, G4_PAGE_BYTES);
	g4_lock(&tier_set->lock);
	tier_set->busy &= ~bit(way);
	const bool same = version_now(tier, block) == version;
	if (same) {
		tier_set->valid |= bit(way);
		tier_set->victims |= bit(way);
	}
	g4_unlock(&tier_set->lock);
	g4_add64_rlx(same ? &tier->counts.down : &tier->counts.down_old, 1);
}

/* ---- writing ---- */

/* Whether a range is looked at block by block; else all of the tier is. */
G4_FN static bool by_block(uint64_t page, uint64_t pages)
{
	return (page + pages - 1) / G4_TIER_BLOCK_PAGES - page / G4_TIER_BLOCK_PAGES < G4_TIER_VERSIONS;
}

G4_FN static void drop(struct g4_tier *tier, struct g4_tier_set *tier_set, uint64_t page, uint64_t pages)
{
	g4_lock(&tier_set->lock);
	const uint64_t gone = tier_set->valid ? ways_in(tier_set, tier_set->valid, page, pages) : 0;
	forget_ways(tier_set, gone);
	g4_unlock(&tier_set->lock);
	if (gone)
		g4_add64_rlx(&tier->counts.dropped, g4_count_bits(gone));
}

G4_FN static void change_all(struct g4_tier *tier, uint64_t change)
{
	g4_add64(&tier->everywhere, change);
	for (uint32_t s = 0; s < tier->set_count; s++)
		drop(tier, &tier->sets[s], 0, UINT64_MAX);
}

G4_FN void g4_tier_write_begin(struct g4_tier *tier, uint64_t page, uint64_t pages)
{
	if (!g4_tier_is_used(tier) || pages == 0)
		return;
	if (!by_block(page, pages)) {
		change_all(tier, VERSION + 1);
		return;
	}
	for (uint64_t block = page / G4_TIER_BLOCK_PAGES; block * G4_TIER_BLOCK_PAGES < page + pages; block++) {
		g4_add64(version_of(tier, block), VERSION + 1);
		drop(tier, set_of(tier, block), page, pages);
	}
}

G4_FN void g4_tier_write_end(struct g4_tier *tier, uint64_t page, uint64_t pages)
{
	if (!g4_tier_is_used(tier) || pages == 0)
		return;
	if (!by_block(page, pages)) {
		g4_sub64_rel(&tier->everywhere, 1);
		return;
	}
	for (uint64_t block = page / G4_TIER_BLOCK_PAGES; block * G4_TIER_BLOCK_PAGES < page + pages; block++)
		g4_sub64_rel(version_of(tier, block), 1);
}

G4_FN void g4_tier_forget(struct g4_tier *tier)
{
	if (g4_tier_is_used(tier))
		change_all(tier, VERSION);
}
