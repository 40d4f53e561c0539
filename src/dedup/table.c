/* SPDX-License-Identifier: Apache-2.0 */
/* The table of contents in memory: hints, which a crash forgets. */
#include "dedup/table.h"

#define PAGE_BITS 42u /* of a slot; what lies behind 16 PiB is not found */
#define PAGE_MASK ((UINT64_C(1) << PAGE_BITS) - 1)
#define ASKED (UINT64_C(1) << PAGE_BITS)
#define TAG_SHIFT (PAGE_BITS + 1)
#define ANCHORS 16u /* one hint in so many */

/* Where a hint with a hash is. */
struct home {
	uint64_t *slots;
	struct g4_ddt_tally *tally;
	uint64_t tag; /* in its position */
};

/* `first`: the first eight bytes of the hash. */
G4_FN static uint64_t bucket_of(const struct g4_ddt *ddt, uint64_t first)
{
	return (first >> 32) * ddt->bucket_count >> 32;
}

G4_FN static struct home home_of(struct g4_ddt *ddt, const void *hash)
{
	uint64_t words[2];
	struct home home;

	memcpy(words, hash, sizeof(words));
	const uint64_t bucket = bucket_of(ddt, words[0]);
	home.slots = &ddt->slots[bucket * G4_DDT_SLOTS];
	home.tally = &ddt->tallies[bucket % G4_DDT_TALLIES];
	home.tag = words[1] << TAG_SHIFT;
	return home;
}

G4_FN void g4_ddt_prefetch(const struct g4_ddt *ddt, const void *hash)
{
	uint64_t first;

	memcpy(&first, hash, sizeof(first));
	const uint64_t *slots = &ddt->slots[bucket_of(ddt, first) * G4_DDT_SLOTS];
	g4_prefetch(slots);
	g4_prefetch(slots + G4_DDT_SLOTS / 2);
}

G4_FN static bool has_tag(uint64_t slot, uint64_t tag)
{
	return slot != 0 && (slot ^ tag) >> TAG_SHIFT == 0;
}

/* A copy of a bucket, whose loads do not wait for each other: bits of the slots that have this part of the hash. */
G4_FN static uint32_t look(const struct home *home, uint64_t slots[G4_DDT_SLOTS])
{
	uint32_t match = 0;

	for (uint32_t k = 0; k < G4_DDT_SLOTS; k++)
		slots[k] = g4_load64_rlx(&home->slots[k]);
	for (uint32_t k = 0; k < G4_DDT_SLOTS; k++)
		match |= (uint32_t)has_tag(slots[k], home->tag) << k;
	return match;
}

G4_FN struct g4_address g4_ddt_find(struct g4_ddt *ddt, const void *hash)
{
	uint64_t slots[G4_DDT_SLOTS];

	if (!g4_ddt_is_there(ddt))
		return G4_NO_ADDRESS;
	const struct home home = home_of(ddt, hash);
	for (uint32_t match = look(&home, slots); match != 0; match &= match - 1) {
		/* again: a copy of which the place is not known in advance lies in memory on a GPU */
		uint64_t *at = &home.slots[g4_lowest_bit(match)];
		const uint64_t slot = g4_load64_rlx(at);
		const struct g4_address page = g4_page_address(slot & PAGE_MASK);
		if (!has_tag(slot, home.tag) || g4_ddt_is_suspect(ddt, page))
			continue;
		if (!(slot & ASKED))
			g4_cas64(at, slot, slot | ASKED);
		g4_add64_rlx(&home.tally->found, 1);
		return page;
	}
	return G4_NO_ADDRESS;
}

G4_FN static bool is_anchor(uint64_t slot)
{
	return (slot >> TAG_SHIFT) % ANCHORS == 0;
}

/* How much a hint is worth keeping; an empty slot is worth nothing. */
G4_FN static uint32_t worth(uint64_t slot)
{
	return slot == 0 ? 0 : 1 + (is_anchor(slot) ? 2 : 0) + ((slot & ASKED) != 0);
}

/*
 * The slot that a new hint goes to: the one that is worth the least, of several the first from one on that the hash chooses: the same
 * one for two copies of a page, of whose hints none is there yet.
 */
G4_FN static uint32_t choose(const struct home *home, const uint64_t slots[G4_DDT_SLOTS])
{
	uint32_t least = UINT32_MAX, found = 0;

	for (uint32_t k = 0; k < G4_DDT_SLOTS && least > 0; k++) {
		const uint32_t at = (uint32_t)(((home->tag >> TAG_SHIFT) / ANCHORS + k) % G4_DDT_SLOTS);
		const uint32_t here = worth(slots[at]);
		if (here < least) {
			least = here;
			found = at;
		}
	}
	if (least > 0) /* what has been asked for once does not stay for ever */
		for (uint32_t k = 0; k < G4_DDT_SLOTS; k++) {
			const uint64_t slot = g4_load64_rlx(&home->slots[k]);
			if (slot & ASKED)
				g4_cas64(&home->slots[k], slot, slot & ~ASKED);
		}
	return found;
}

#define TRIES 4u /* where others change the slot meanwhile: then the hint is left out */

/* What it has taken the place of; 0: of nothing under this hash. */
G4_FN static uint64_t put(struct g4_ddt *ddt, const void *hash, struct g4_address address, uint64_t asked, bool fill)
{
	const uint64_t page = g4_address_page(address);

	if (!g4_ddt_is_there(ddt) || page > PAGE_MASK)
		return 0;
	const struct home home = home_of(ddt, hash);
	uint64_t slots[G4_DDT_SLOTS];
	for (uint32_t tries = 0; tries < TRIES; tries++) {
		const uint32_t match = look(&home, slots);
		const bool there = match != 0;
		if (there && fill)
			return 0;
		const uint32_t at = there ? g4_lowest_bit(match) : choose(&home, slots);
		const uint64_t before = g4_load64_rlx(&home.slots[at]);
		if (before != 0 && !there)
			g4_store32_rlx(&ddt->crowded, 1);
		if (fill && before != 0 && (is_anchor(before) || !is_anchor(home.tag)))
			return 0;
		if (!g4_cas64(&home.slots[at], before, home.tag | asked | page))
			continue;
		g4_add64_rlx(&home.tally->inserted, 1);
		/* what was found there may have gone meanwhile: what was replaced is what counts */
		if (before != 0)
			g4_add64_rlx(has_tag(before, home.tag) ? &home.tally->removed : &home.tally->evicted, 1);
		return has_tag(before, home.tag) ? before & PAGE_MASK : 0;
	}
	return 0;
}

G4_FN bool g4_ddt_brings(struct g4_ddt *ddt, struct g4_address page)
{
	const uint64_t quarter = g4_address_page(page) / G4_LISTING_PAGES;
	uint64_t *brought = &ddt->brought[quarter % G4_DDT_BROUGHT];

	if (!g4_load32_rlx(&ddt->crowded) || g4_load64_rlx(brought) == quarter)
		return false;
	g4_store64_rlx(brought, quarter);
	return true;
}

G4_FN struct g4_address g4_ddt_insert(struct g4_ddt *ddt, const void *hash, struct g4_address address)
{
	return g4_page_address(put(ddt, hash, address, 0, false));
}

G4_FN void g4_ddt_bring(struct g4_ddt *ddt, const void *hash, struct g4_address address)
{
	(void)put(ddt, hash, address, ASKED, false);
}

G4_FN void g4_ddt_fill(struct g4_ddt *ddt, const void *hash, struct g4_address address)
{
	(void)put(ddt, hash, address, 0, true);
}

G4_FN void g4_ddt_remove(struct g4_ddt *ddt, const void *hash, struct g4_address address, bool stale)
{
	if (!g4_ddt_is_there(ddt))
		return;
	const struct home home = home_of(ddt, hash);
	if (stale)
		g4_add64_rlx(&home.tally->stale, 1);
	for (uint32_t k = 0; k < G4_DDT_SLOTS; k++) {
		const uint64_t slot = g4_load64_rlx(&home.slots[k]);
		if (has_tag(slot, home.tag) && (slot & PAGE_MASK) == g4_address_page(address) &&
		    g4_cas64(&home.slots[k], slot, 0))
			g4_add64_rlx(&home.tally->removed, 1);
	}
}

G4_FN void g4_ddt_count(struct g4_ddt *ddt, uint64_t page, uint64_t hits, uint64_t misses, uint64_t zeros)
{
	struct g4_ddt_tally *tally = &ddt->tallies[page % G4_DDT_TALLIES];

	if (hits)
		g4_add64_rlx(&tally->hits, hits);
	if (misses)
		g4_add64_rlx(&tally->misses, misses);
	if (zeros)
		g4_add64_rlx(&tally->zeros, zeros);
}

G4_FN void g4_ddt_count_plain(struct g4_ddt *ddt, struct g4_address address, uint64_t pages)
{
	g4_add64_rlx(&ddt->plain[g4_address_page(address) / G4_REGION_PAGES % G4_DDT_TALLIES], pages);
}

G4_FN void g4_ddt_stats(const struct g4_ddt *ddt, struct g4_ddt_stats *stats)
{
	uint64_t gone = 0;

	memset(stats, 0, sizeof(*stats));
	stats->places = ddt->bucket_count * G4_DDT_SLOTS;
	stats->bytes = ddt->bucket_count * G4_DDT_SLOTS * sizeof(uint64_t);
	for (uint32_t t = 0; t < G4_DDT_TALLIES; t++) {
		const struct g4_ddt_tally *tally = &ddt->tallies[t];
		stats->found += g4_load64_rlx(&tally->found);
		stats->inserted += g4_load64_rlx(&tally->inserted);
		stats->evicted += g4_load64_rlx(&tally->evicted);
		stats->stale += g4_load64_rlx(&tally->stale);
		stats->hits += g4_load64_rlx(&tally->hits);
		stats->misses += g4_load64_rlx(&tally->misses);
		stats->zeros += g4_load64_rlx(&tally->zeros);
		stats->plain += g4_load64_rlx(&ddt->plain[t]);
		gone += g4_load64_rlx(&tally->removed);
	}
	stats->entries = stats->inserted - g4_min64(stats->inserted, stats->evicted + gone);
}

G4_FN static uint64_t suspect_bit(struct g4_address page)
{
	return g4_address_page(page) * UINT64_C(0x9e3779b97f4a7c15) >> 32;
}

/* The next reader that meets it queues it again: it may have been listed anew, and to unlist what is not listed changes nothing. */
G4_FN void g4_ddt_suspect(struct g4_ddt *ddt, struct g4_address page)
{
	const uint64_t bit = suspect_bit(page), stored = g4_address_stored(page);

	g4_store32_rel(&ddt->has_suspects, 1);
	g4_or64(&ddt->suspects[bit / 64 % G4_DDT_SUSPECT_WORDS], UINT64_C(1) << bit % 64);
	for (uint32_t k = 0; k < G4_DDT_DAMAGED; k++)
		if (g4_load64_rlx(&ddt->damaged[k]) == stored)
			return;
	for (uint32_t k = 0; k < G4_DDT_DAMAGED; k++)
		if (g4_cas64(&ddt->damaged[k], 0, stored))
			return;
	g4_store32_rel(&ddt->overflow, 1);
}

G4_FN struct g4_address g4_ddt_damaged(const struct g4_ddt *ddt, uint32_t k)
{
	const uint64_t page = g4_load64_rlx(&ddt->damaged[k]);

	return page == 0 ? G4_NO_ADDRESS : g4_address_from(page);
}

G4_FN void g4_ddt_unlisted(struct g4_ddt *ddt, uint32_t k, struct g4_address page)
{
	g4_cas64(&ddt->damaged[k], g4_address_stored(page), 0);
}

G4_FN bool g4_ddt_overflowed(struct g4_ddt *ddt)
{
	return g4_load32_acq(&ddt->overflow) && g4_cas32(&ddt->overflow, 1, 0);
}

G4_FN bool g4_ddt_is_suspect(const struct g4_ddt *ddt, struct g4_address page)
{
	const uint64_t bit = suspect_bit(page);

	return (g4_load64_rlx(&ddt->suspects[bit / 64 % G4_DDT_SUSPECT_WORDS]) >> bit % 64 & 1) != 0;
}
