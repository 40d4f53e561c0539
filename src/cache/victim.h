/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which page of a set goes. The policy is chosen when gpu4fs is built (G4_CACHE_POLICY, CMakeLists.txt). Private to cache.c. All of it
 * with the set's lock held.
 */
#ifndef G4_CACHE_VICTIM_H
#define G4_CACHE_VICTIM_H

#include "cache/cache.h"

/* Makes a line busy with one reference if it is as it was seen, without references. */
G4_FN G4_INLINE bool g4_victim_take(struct g4_line *line, uint32_t state)
{
	return !(state & (G4_LINE_REFS | G4_LINE_BUSY)) && g4_cas32(&line->state, state, G4_LINE_BUSY | 1);
}

#if G4_CACHE_ASKS_TWICE

/* 16 bits that stand for a page. */
G4_FN G4_INLINE uint16_t g4_victim_name(uint64_t owner, uint64_t index)
{
	const uint64_t x = (owner * UINT64_C(0x9e3779b97f4a7c15) ^ index) * UINT64_C(0xd6e8feb86659fd93);

	return (uint16_t)(x >> 48);
}

/*
 * Takes one of the ways in `among`, a bit each, that has no page and that nobody uses; G4_CACHE_WAYS: there is none any more. Who has found his
 * line by a look at all of a set's lines looks again before he takes it, and passes over what somebody uses now.
 */
G4_FN G4_INLINE uint32_t g4_victim_without(struct g4_line *lines, uint32_t among)
{
	for (; among; among &= among - 1) {
		const uint32_t way = g4_lowest_bit(among), state = g4_load32_acq(&lines[way].state);
		if (!(state & G4_LINE_VALID) && g4_victim_take(&lines[way], state))
			return way;
	}
	return G4_CACHE_WAYS;
}

#endif
#if G4_CACHE_POLICY == G4_CACHE_S3FIFO

/*
 * S3-FIFO (Yang et al., SOSP 2023) of 8 pages with one bit: pages that come in are in the small queue, which has one; who was asked
 * for again there, or is known to have left a short time ago, is in the main queue, whose pages are spared once after each access. So is
 * metadata from the start: a page of it is wanted for each of many pages of files, and often not before these have pushed it out.
 * What came in beside another page or was read ahead and still waits to be asked for gets a place there as well, once.
 * `order` of a set has its ways, four bits each, the one that is longest in its queue at the bottom.
 */
#define G4_VICTIM_TRIES (3u * G4_CACHE_WAYS)

G4_FN G4_INLINE void g4_victim_newest(struct g4_cache_set *s, uint32_t way)
{
	uint32_t at = 0;

	while (((s->order >> (4 * at)) & 15) != way)
		at++;
	const uint32_t below = s->order & (((uint32_t)1 << (4 * at)) - 1);
	const uint32_t above = at == G4_CACHE_WAYS - 1 ? 0 : s->order >> (4 * (at + 1));
	s->order = below | above << (4 * at) | way << (4 * (G4_CACHE_WAYS - 1));
}

G4_FN G4_INLINE void g4_victim_forget(struct g4_cache_set *s, uint32_t at)
{
	s->ghost_count--;
	for (; at < s->ghost_count; at++)
		s->ghosts[at] = s->ghosts[at + 1];
}

/* The page of a line leaves the small queue. */
G4_FN G4_INLINE void g4_victim_leaves(struct g4_cache_set *s, const struct g4_line *line)
{
	if (s->ghost_count == G4_CACHE_GHOSTS)
		g4_victim_forget(s, 0);
	s->ghosts[s->ghost_count++] = g4_victim_name(line->owner, line->index);
}

/* The queue of a page that is about to come, before a victim is looked for. */
G4_FN G4_INLINE uint32_t g4_victim_queue(struct g4_cache *cache, uint32_t set, uint64_t owner, uint64_t index)
{
	struct g4_cache_set *s = &cache->sets[set];
	const uint16_t name = g4_victim_name(owner, index);

	if (owner == 0)
		return G4_CACHE_MAIN;
	for (uint32_t k = 0; k < s->ghost_count; k++) {
		if (s->ghosts[k] != name)
			continue;
		g4_victim_forget(s, k);
		return G4_CACHE_MAIN;
	}
	return 0;
}

/* There is no line for it: who left a short time ago is known as before. No victim was found, so the place of its name is free. */
G4_FN G4_INLINE void g4_victim_stays_away(struct g4_cache *cache, uint32_t set, uint64_t owner, uint64_t index,
					  uint32_t queue)
{
	struct g4_cache_set *s = &cache->sets[set];

	if (owner != 0 && queue == G4_CACHE_MAIN)
		s->ghosts[s->ghost_count++] = g4_victim_name(owner, index);
}

/* The page comes into this line. */
G4_FN G4_INLINE void g4_victim_comes(struct g4_cache *cache, uint32_t set, uint32_t i, uint32_t queue)
{
	cache->lines[i].queue = queue;
	if (i < cache->overflow_first)
		g4_victim_newest(&cache->sets[set], i % G4_CACHE_WAYS);
}

/* Of the ways in `among`, a bit each, the one that is longest in its queue; G4_CACHE_WAYS: there is none. */
G4_FN G4_INLINE uint32_t g4_victim_oldest(const struct g4_cache_set *s, uint32_t among)
{
	for (uint32_t at = 0; at < G4_CACHE_WAYS; at++) {
		const uint32_t way = (s->order >> (4 * at)) & 15;
		if (among >> way & 1)
			return way;
	}
	return G4_CACHE_WAYS;
}

/* What all lines say is asked for at once, without an order: on a GPU the ways to memory overlap. */
G4_FN G4_INLINE uint32_t g4_victim_find(struct g4_cache *cache, uint32_t set)
{
	struct g4_cache_set *s = &cache->sets[set];
	struct g4_line *lines = &cache->lines[set * G4_CACHE_WAYS];
	uint32_t in_main = 0, unused = 0, without = 0;

	for (uint32_t way = 0; way < G4_CACHE_WAYS; way++) {
		const uint32_t state = g4_load32_rlx(&lines[way].state);
		in_main |= (uint32_t)(lines[way].queue == G4_CACHE_MAIN) << way;
		unused |= (uint32_t) !(state & (G4_LINE_REFS | G4_LINE_BUSY)) << way;
		without |= (uint32_t) !(state & G4_LINE_VALID) << way;
	}
	const uint32_t empty = g4_victim_without(lines, without & unused);
	if (empty != G4_CACHE_WAYS)
		return set * G4_CACHE_WAYS + empty;
	const uint32_t all = (1u << G4_CACHE_WAYS) - 1;
	for (uint32_t tries = 0; tries < G4_VICTIM_TRIES; tries++) {
		/* the oldest of its queue that nobody uses; where the queue has none, of the other */
		const uint32_t queue = in_main == all ? in_main : ~in_main;
		uint32_t chosen = g4_victim_oldest(s, unused & queue);
		if (chosen == G4_CACHE_WAYS)
			chosen = g4_victim_oldest(s, unused & ~queue);
		if (chosen == G4_CACHE_WAYS)
			return G4_NO_LINE;
		struct g4_line *line = &lines[chosen];
		const uint32_t state = g4_load32_acq(&line->state);
		if (state & (G4_LINE_REFS | G4_LINE_BUSY)) {
			unused &= ~(1u << chosen);
		} else if ((state & G4_LINE_ACCESSED) || (!(in_main >> chosen & 1) && (state & G4_LINE_NEW))) {
			g4_and32(&line->state, ~G4_LINE_ACCESSED);
			line->queue = G4_CACHE_MAIN;
			in_main |= 1u << chosen;
			g4_victim_newest(s, chosen);
		} else if (g4_victim_take(line, state)) {
			if (!(in_main >> chosen & 1))
				g4_victim_leaves(s, line);
			return set * G4_CACHE_WAYS + chosen;
		}
	}
	return G4_NO_LINE;
}

#elif G4_CACHE_POLICY == G4_CACHE_CLOCKPRO

/*
 * CLOCK-Pro (Jiang et al., USENIX 2005) of 8 pages, as `gpu4fs trace replay` has it (trace/adaptive.c), whose clock is a list. Here it is a ring
 * of numbers: below G4_CACHE_WAYS of a way, from there on of a name of a page that has left and is in its test period still. Pages are hot
 * or cold. A cold one that was asked for when the cold hand comes becomes hot, another one goes and leaves its name; the hot hand makes
 * hot ones cold that were not asked for. Who comes back during his test period is hot, and cold pages get more room; when it has ended, less.
 * As with S3-FIFO metadata comes in as hot, for which half of a set is always there, and what came in beside another page or was read ahead, and still waits, is spared once.
 */
#define G4_VICTIM_METADATA (G4_CACHE_MAIN | 2u) /* in place of the queue that it comes into */
#define G4_VICTIM_METADATA_ROOM (G4_CACHE_WAYS / 2)
enum g4_victim_hand { G4_HAND_HOT, G4_HAND_COLD, G4_HAND_TEST };
#define G4_VICTIM_RING (2u * G4_CACHE_WAYS + 1)

G4_FN G4_INLINE void g4_victim_remove(struct g4_cache_set *s, uint32_t at)
{
	s->count--;
	for (uint32_t i = at; i < s->count; i++)
		s->ring[i] = s->ring[i + 1];
	for (uint32_t hand = 0; hand < 3; hand++) {
		if (s->hands[hand] > at)
			s->hands[hand]--;
		if (s->hands[hand] >= s->count) /* from there on it is the first */
			s->hands[hand] = 0;
	}
}

/* In front of the hot hand: where it comes to last. */
G4_FN G4_INLINE void g4_victim_insert(struct g4_cache_set *s, uint32_t number)
{
	const uint32_t at = s->hands[G4_HAND_HOT];

	for (uint32_t i = s->count; i > at; i--)
		s->ring[i] = s->ring[i - 1];
	s->ring[at] = (uint8_t)number;
	for (uint32_t hand = 0; hand < 3 && s->count > 0; hand++)
		if (s->hands[hand] >= at)
			s->hands[hand]++;
	s->count++;
}

/* The place at which a hand stands; it goes on. */
G4_FN G4_INLINE uint32_t g4_victim_step(struct g4_cache_set *s, enum g4_victim_hand hand)
{
	const uint32_t at = s->hands[hand];

	s->hands[hand] = (uint8_t)(at + 1 < s->count ? at + 1 : 0);
	return at;
}

/* A page that has left is forgotten. */
G4_FN G4_INLINE void g4_victim_forget(struct g4_cache_set *s, uint32_t at)
{
	s->gone &= (uint16_t) ~(1u << (s->ring[at] - G4_CACHE_WAYS));
	g4_victim_remove(s, at);
}

/* The same, because its test period is over. */
G4_FN G4_INLINE void g4_victim_end_test(struct g4_cache_set *s, uint32_t at)
{
	g4_victim_forget(s, at);
	if (s->target > 1)
		s->target--;
}

G4_FN G4_INLINE void g4_victim_hot_hand(struct g4_cache_set *s, struct g4_line *lines)
{
	const uint32_t at = g4_victim_step(s, G4_HAND_HOT), way = s->ring[at];

	if (way >= G4_CACHE_WAYS) {
		g4_victim_end_test(s, at);
	} else if (s->hot >> way & 1) {
		if (g4_load32_rlx(&lines[way].state) & G4_LINE_ACCESSED) {
			g4_and32(&lines[way].state, ~G4_LINE_ACCESSED);
		} else {
			s->hot &= (uint8_t) ~(1u << way);
			g4_and32(&lines[way].state, ~G4_LINE_NEW); /* it was spared */
		}
	}
}

/* So many hot pages may be there. */
G4_FN G4_INLINE uint32_t g4_victim_room(const struct g4_cache_set *s)
{
	const uint32_t metadata = g4_count_bits((uint64_t)(s->hot & s->metadata)), room = G4_CACHE_WAYS - s->target;
	const uint32_t least = metadata < G4_VICTIM_METADATA_ROOM ? metadata : G4_VICTIM_METADATA_ROOM;

	return room > least ? room : least;
}

/* Not too many names, and not too many hot pages; others may go on asking for these, so not for ever. */
G4_FN G4_INLINE void g4_victim_balance(struct g4_cache_set *s, struct g4_line *lines)
{
	while (g4_count_bits(s->gone) > G4_CACHE_WAYS) {
		const uint32_t at = g4_victim_step(s, G4_HAND_TEST);
		if (s->ring[at] >= G4_CACHE_WAYS)
			g4_victim_end_test(s, at);
	}
	for (uint32_t k = 0; k < 3 * G4_VICTIM_RING && g4_count_bits(s->hot) > g4_victim_room(s); k++)
		g4_victim_hot_hand(s, lines);
}

/* The page at this place of the ring leaves: its name stays. */
G4_FN G4_INLINE void g4_victim_leaves(struct g4_cache_set *s, struct g4_line *lines, uint32_t at)
{
	const uint32_t way = s->ring[at], place = g4_lowest_bit(~(uint64_t)s->gone);

	s->names[place] = g4_victim_name(lines[way].owner, lines[way].index);
	s->gone |= (uint16_t)(1u << place);
	s->hot &= (uint8_t) ~(1u << way);
	s->ring[at] = (uint8_t)(G4_CACHE_WAYS + place);
	g4_victim_balance(s, lines);
}

G4_FN G4_INLINE uint32_t g4_victim_queue(struct g4_cache *cache, uint32_t set, uint64_t owner, uint64_t index)
{
	struct g4_cache_set *s = &cache->sets[set];
	const uint16_t name = g4_victim_name(owner, index);

	for (uint32_t at = 0; at < s->count; at++) {
		if (s->ring[at] < G4_CACHE_WAYS || s->names[s->ring[at] - G4_CACHE_WAYS] != name)
			continue;
		g4_victim_forget(s, at);
		if (s->target < G4_CACHE_WAYS)
			s->target++;
		return owner == 0 ? G4_VICTIM_METADATA : G4_CACHE_MAIN;
	}
	return owner == 0 ? G4_VICTIM_METADATA : 0;
}

/* Its test period has ended with its coming back, whether there is a line for it or not. */
G4_FN G4_INLINE void g4_victim_stays_away(struct g4_cache *cache, uint32_t set, uint64_t owner, uint64_t index,
					  uint32_t queue)
{
	(void)cache, (void)set, (void)owner, (void)index, (void)queue;
}

G4_FN G4_INLINE void g4_victim_comes(struct g4_cache *cache, uint32_t set, uint32_t i, uint32_t queue)
{
	struct g4_cache_set *s = &cache->sets[set];
	const uint32_t way = i % G4_CACHE_WAYS;

	if (i >= cache->overflow_first)
		return;
	for (uint32_t at = 0; at < s->count; at++) { /* what it had was dropped */
		if (s->ring[at] == way) {
			g4_victim_remove(s, at);
			break;
		}
	}
	g4_victim_insert(s, way);
	s->hot = (uint8_t)((s->hot & ~(1u << way)) | (queue & G4_CACHE_MAIN) << way);
	s->metadata = (uint8_t)((s->metadata & ~(1u << way)) | (uint32_t)(queue == G4_VICTIM_METADATA) << way);
}

/* Whatever nobody uses, hot or cold, from the hot hand on: all cold pages are in use. */
G4_FN G4_INLINE uint32_t g4_victim_any(struct g4_cache_set *s, struct g4_line *lines)
{
	for (uint32_t k = 0; k < s->count; k++) {
		const uint32_t at = (s->hands[G4_HAND_HOT] + k) % s->count, way = s->ring[at];
		if (way < G4_CACHE_WAYS && g4_victim_take(&lines[way], g4_load32_acq(&lines[way].state))) {
			g4_victim_leaves(s, lines, at);
			return way;
		}
	}
	return G4_CACHE_WAYS;
}

G4_FN G4_INLINE uint32_t g4_victim_find(struct g4_cache *cache, uint32_t set)
{
	struct g4_cache_set *s = &cache->sets[set];
	struct g4_line *lines = &cache->lines[set * G4_CACHE_WAYS];
	uint32_t without = 0, way;

	for (way = 0; way < G4_CACHE_WAYS; way++)
		without |=
			(uint32_t) !(g4_load32_rlx(&lines[way].state) & (G4_LINE_VALID | G4_LINE_REFS | G4_LINE_BUSY))
			<< way;
	way = g4_victim_without(lines, without);
	if (way != G4_CACHE_WAYS)
		return set * G4_CACHE_WAYS + way;
	for (uint32_t tries = 0; tries < 3 * G4_VICTIM_RING && s->count > 0; tries++) {
		const uint32_t at = g4_victim_step(s, G4_HAND_COLD);
		way = s->ring[at];
		if (way < G4_CACHE_WAYS && !(s->hot >> way & 1)) {
			const uint32_t state = g4_load32_acq(&lines[way].state);
			if (state & (G4_LINE_REFS | G4_LINE_BUSY))
				continue;
			if (state & (G4_LINE_ACCESSED | G4_LINE_NEW)) {
				g4_and32(&lines[way].state, ~G4_LINE_ACCESSED);
				s->hot |= (uint8_t)(1u << way);
			} else if (g4_victim_take(&lines[way], state)) {
				g4_victim_leaves(s, lines, at);
				return set * G4_CACHE_WAYS + way;
			}
		}
		g4_victim_balance(s, lines);
	}
	way = g4_victim_any(s, lines);
	return way == G4_CACHE_WAYS ? G4_NO_LINE : set * G4_CACHE_WAYS + way;
}

#else

G4_FN G4_INLINE uint32_t g4_victim_queue(struct g4_cache *cache, uint32_t set, uint64_t owner, uint64_t index)
{
	(void)cache, (void)set, (void)owner, (void)index;
	return 0;
}

G4_FN G4_INLINE void g4_victim_stays_away(struct g4_cache *cache, uint32_t set, uint64_t owner, uint64_t index,
					  uint32_t queue)
{
	(void)cache, (void)set, (void)owner, (void)index, (void)queue;
}

G4_FN G4_INLINE void g4_victim_comes(struct g4_cache *cache, uint32_t set, uint32_t i, uint32_t queue)
{
	(void)cache, (void)set, (void)i, (void)queue;
}

/* A clock. */
G4_FN G4_INLINE uint32_t g4_victim_find(struct g4_cache *cache, uint32_t set)
{
	struct g4_cache_set *s = &cache->sets[set];

	for (uint32_t step = 0; step < 2 * G4_CACHE_WAYS; step++) {
		uint32_t i = set * G4_CACHE_WAYS + (s->hand++ % G4_CACHE_WAYS);
		struct g4_line *line = &cache->lines[i];
		uint32_t state = g4_load32_acq(&line->state);

		if (state & (G4_LINE_REFS | G4_LINE_BUSY))
			continue;
		if (state & G4_LINE_ACCESSED) {
			g4_and32(&line->state, ~G4_LINE_ACCESSED);
			continue;
		}
		if (g4_victim_take(line, state))
			return i;
	}
	return G4_NO_LINE;
}

#endif
#endif
