/* SPDX-License-Identifier: Apache-2.0 */
/* Acquire, release and evict-and-replace (NVMe document 4.2.3, 4.2.4). */
#include "cache/cache.h"
#include "cache/victim.h"

/* Neighbouring pages fall into different sets; different owners start at unrelated places. */
G4_FN static uint32_t set_of(const struct g4_cache *cache, uint64_t owner, uint64_t index)
{
	uint64_t x = owner * UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ (x >> 29)) + index;
	/* x % set_count: the quotient is right or one less, as 2^64 / set_count is per_set and at most 1 */
	const uint64_t rest = x - g4_mul_high64(x, cache->per_set) * cache->set_count;
	return (uint32_t)(rest < cache->set_count ? rest : rest - cache->set_count);
}

G4_FN static void note(struct g4_cache *cache, uint32_t set, enum g4_cache_event event)
{
	g4_add64_rlx(&cache->events[set % G4_CACHE_EVENT_TALLIES].counts[event], 1);
}

/* Counts a reference in and keeps it if the line is valid and still (owner, index). Waits while it is being filled. */
G4_FN static bool try_ref(struct g4_cache *cache, struct g4_line *lines, uint32_t i, uint64_t owner, uint64_t index)
{
	struct g4_line *line = &lines[i];
	uint32_t state = g4_add32_acq(&line->state, 1) + 1;
	bool waited = false;

	for (;;) {
		if (!g4_line_is(line, owner, index))
			break;
		if (!(state & G4_LINE_BUSY)) {
			if (!(state & G4_LINE_VALID))
				break;
			g4_line_touch(line, state);
			return true;
		}
		if (!waited)
			note(cache, i / G4_CACHE_WAYS, G4_CACHE_WAITED_HIT);
		waited = true;
		if (!(state & G4_LINE_WAITERS)) {
			state = g4_or32(&line->state, G4_LINE_WAITERS) | G4_LINE_WAITERS;
			continue;
		}
		g4_wait(&line->state, state);
		state = g4_load32_acq(&line->state);
	}
	g4_cache_put(cache, i);
	return false;
}

/* With all tags asked for before one is looked at: on a GPU their ways to memory overlap. */
G4_FN static uint32_t search_ways_at_once(const struct g4_cache *cache, uint32_t set, uint64_t owner, uint64_t index)
{
	const struct g4_line *lines =
		&cache->lines[set * G4_CACHE_WAYS]; /* once: a GPU would look it up for each load */
	uint64_t tags[G4_CACHE_WAYS][2];
	uint32_t found = G4_NO_LINE;

	for (uint32_t way = 0; way < G4_CACHE_WAYS; way++)
		g4_load_pair_rlx(tags[way], &lines[way].owner);
	for (uint32_t way = 0; way < G4_CACHE_WAYS; way++)
		if (tags[way][0] == owner && tags[way][1] == index)
			found = set * G4_CACHE_WAYS + way;
	return found;
}

/* The line with this tag in its set or the set's overflow chain, unreferenced; the chain only under the set's lock. */
G4_FN static uint32_t search_ways(const struct g4_cache *cache, uint32_t set, uint64_t owner, uint64_t index)
{
#if G4_CUDA
	return search_ways_at_once(cache, set, owner, index);
#else
	const uint32_t first = set * G4_CACHE_WAYS;

	for (uint32_t way = 0; way < G4_CACHE_WAYS; way++)
		if (g4_line_is(&cache->lines[first + way], owner, index))
			return first + way;
	return G4_NO_LINE;
#endif
}

G4_FN static uint32_t search_chain(const struct g4_cache *cache, uint32_t set, uint64_t owner, uint64_t index)
{
	uint32_t i = cache->sets[set].overflow;

	while (i != G4_NO_LINE && !g4_line_is(&cache->lines[i], owner, index))
		i = cache->lines[i].chain;
	return i;
}

G4_FN static uint32_t find_locked(struct g4_cache *cache, uint32_t set, uint64_t owner, uint64_t index)
{
	uint32_t i = search_ways(cache, set, owner, index);
	return i != G4_NO_LINE ? i : search_chain(cache, set, owner, index);
}

G4_FN uint32_t g4_cache_find(struct g4_cache *cache, uint64_t owner, uint64_t index)
{
	/* once: behind a reference a GPU would go for it again */
	struct g4_line *lines = cache->lines;
	uint32_t set = set_of(cache, owner, index);
	uint32_t i = search_ways(cache, set, owner, index);

	if (i != G4_NO_LINE)
		return try_ref(cache, lines, i, owner, index) ? i : G4_NO_LINE;
	if (g4_load32_acq(&cache->sets[set].overflow) == G4_NO_LINE)
		return G4_NO_LINE;
	g4_lock(&cache->sets[set].lock);
	i = search_chain(cache, set, owner, index);
	if (i != G4_NO_LINE)
		g4_add32(&cache->lines[i].state, 1);
	g4_unlock(&cache->sets[set].lock);
	if (i == G4_NO_LINE)
		return i;
	/* our first reference keeps the line in the chain; try_ref takes the one we return */
	bool valid = try_ref(cache, lines, i, owner, index);
	g4_cache_put(cache, i);
	if (valid)
		note(cache, set, G4_CACHE_LOCKED_HIT);
	return valid ? i : G4_NO_LINE;
}

G4_FN uint32_t g4_cache_peek(struct g4_cache *cache, uint64_t owner, uint64_t index)
{
	uint32_t i = search_ways_at_once(cache, set_of(cache, owner, index), owner, index);

	return g4_cache_peek_near(cache, owner, index, i) ? i : G4_NO_LINE;
}

G4_FN const void *g4_cache_peek_page(struct g4_cache *cache, uint64_t owner, uint64_t index, uint32_t *line)
{
	const struct g4_cache_frames frames = g4_cache_frames(cache);

	*line = g4_cache_peek(cache, owner, index);
	return *line == G4_NO_LINE ? NULL : g4_frame_data(frames, *line);
}

G4_FN bool g4_cache_pin(struct g4_cache *cache, uint32_t count)
{
	if (g4_add32(&cache->pins, count) + count <= cache->pin_limit)
		return true;
	g4_sub32(&cache->pins, count);
	return false;
}

G4_FN void g4_cache_unpin_none(struct g4_cache *cache, uint32_t count)
{
	g4_sub32(&cache->pins, count);
}

G4_FN void g4_cache_unpin(struct g4_cache *cache, uint32_t line)
{
	g4_cache_put(cache, line);
	g4_cache_unpin_none(cache, 1);
}

G4_FN bool g4_cache_put_way(struct g4_cache *cache, uint32_t i)
{
	if (i >= cache->overflow_first)
		return false;
	g4_sub32_rel(&cache->lines[i].state, 1);
	return true;
}

/* Makes an unreferenced way busy with a reference of ours; G4_NO_LINE when all are in use. Set lock held. */
G4_FN static uint32_t take_victim(struct g4_cache *cache, uint32_t set)
{
	const uint32_t i = g4_victim_find(cache, set);

	/* only whoever holds the set's lock gives a line another tag: a line that has none had no page */
	if (i != G4_NO_LINE)
		note(cache, set, cache->lines[i].owner == UINT64_MAX ? G4_CACHE_COLD_MISS : G4_CACHE_CLEAN_MISS);
	return i;
}

/* The same from the overflow pool, linked into the set's chain. Set lock held. */
G4_FN static uint32_t take_overflow(struct g4_cache *cache, uint32_t set)
{
	g4_lock(&cache->pool_lock);
	uint32_t i = cache->pool;
	if (i != G4_NO_LINE)
		cache->pool = cache->lines[i].chain;
	g4_unlock(&cache->pool_lock);
	if (i == G4_NO_LINE)
		return i;
	g4_add32(&cache->lines[i].state, G4_LINE_BUSY | 1);
	cache->lines[i].set = set;
	cache->lines[i].chain = cache->sets[set].overflow;
	g4_store32_rel(&cache->sets[set].overflow, i);
	return i;
}

/* Set lock held: nobody else asks for this line's page. One part being full, there is room in the other. */
G4_FN static void give_frame(struct g4_cache *cache, uint32_t i, bool alone)
{
	if (!cache->frame_numbers || cache->frame_numbers[i] != 0)
		return;
	g4_lock(&cache->pool_lock);
	const uint32_t room = alone ? cache->line_count - cache->alone_first : cache->alone_first;
	const uint32_t part = cache->numbered[alone] < room ? alone : !alone;
	const uint32_t number = cache->numbered[part] + 1;
	g4_store32_rlx(&cache->numbered[part], number);
	cache->frame_numbers[i] = (part ? cache->alone_first : 0) + number;
	g4_unlock(&cache->pool_lock);
	if (!part && number % (G4_CACHE_TOUCH_PAGES / 2) == 0) {
		g4_add32(&cache->coming, 1);
		g4_wake(&cache->coming);
	}
}

G4_FN static void set_tag(struct g4_line *line, uint64_t owner, uint64_t index)
{
	g4_store64_rel(&line->owner, owner);
	g4_store64_rel(&line->index, index);
}

/* What a line has until now of a file is handed over: nobody else gets at it while the line is busy. The set's lock is held. */
G4_FN static void hand_over(struct g4_cache *cache, uint32_t i, struct g4_origin *victim)
{
	if (!cache->origins)
		return;
	/* metadata went down as it was read; what was dropped or borrowed has no name */
	if (cache->lines[i].owner != 0 && cache->lines[i].owner != UINT64_MAX)
		*victim = cache->origins[i];
	cache->origins[i].version = G4_TIER_NO_VERSION;
}

/* *victim: where what a fresh line has until it is filled came from. */
G4_FN static uint32_t get(struct g4_cache *cache, uint64_t owner, uint64_t index, bool alone, bool *fresh,
			  struct g4_origin *victim)
{
	uint32_t set = set_of(cache, owner, index);

	*fresh = false;
	for (;;) {
		uint32_t i = g4_cache_find(cache, owner, index);
		if (i != G4_NO_LINE)
			return i;
		g4_lock(&cache->sets[set].lock);
		i = find_locked(cache, set, owner, index);
		if (i != G4_NO_LINE) { /* came in meanwhile, or lies there invalid after a failed fill */
			uint32_t state = g4_load32_acq(&cache->lines[i].state);
			if (!(state & (G4_LINE_VALID | G4_LINE_BUSY)))
				set_tag(&cache->lines[i], UINT64_MAX, UINT64_MAX);
			g4_unlock(&cache->sets[set].lock);
			continue;
		}
		const uint32_t queue = g4_victim_queue(cache, set, owner, index);
		i = take_victim(cache, set);
		if (i == G4_NO_LINE) {
			i = take_overflow(cache, set);
			note(cache, set, i == G4_NO_LINE ? G4_CACHE_NO_LINE : G4_CACHE_BORROWED);
		}
		if (i != G4_NO_LINE) {
			struct g4_line *line = &cache->lines[i];
			hand_over(cache, i, victim);
			give_frame(cache, i, alone);
			g4_victim_comes(cache, set, i, queue);
			set_tag(line, owner, index);
			for (uint32_t w = 0; w < sizeof(line->kept) / 8;
			     w++) /* somebody may be looking, without a reference */
				g4_store64_rlx(&line->kept[w], 0);
			*fresh = true;
		} else {
			g4_victim_stays_away(cache, set, owner, index, queue);
		}
		g4_unlock(&cache->sets[set].lock);
		return i;
	}
}

G4_FN uint32_t g4_cache_get(struct g4_wg *wg, struct g4_cache *cache, uint64_t owner, uint64_t index, bool alone,
			    bool *fresh)
{
	struct g4_origin victim = {0, G4_TIER_NO_VERSION};
	const uint32_t line = get(cache, owner, index, alone, fresh, &victim);

	if (victim.version != G4_TIER_NO_VERSION)
		g4_tier_put(wg, cache->tier, victim.page, victim.version, g4_line_data(cache, line));
	return line;
}

G4_FN void g4_cache_filled(struct g4_cache *cache, uint32_t line)
{
	struct g4_line *about = &cache->lines[line];

	g4_or32(&about->state, G4_LINE_VALID | G4_LINE_FILLED);
	if (g4_and32(&about->state, ~(G4_LINE_BUSY | G4_LINE_WAITERS)) & G4_LINE_WAITERS)
		g4_wake(&about->state);
}

G4_FN void g4_cache_filled_ahead(struct g4_cache *cache, uint32_t line)
{
	if (G4_LINE_NEW != 0)
		g4_or32(&cache->lines[line].state, G4_LINE_NEW);
	g4_cache_filled(cache, line);
}

G4_FN void g4_cache_abort(struct g4_cache *cache, uint32_t line)
{
	struct g4_line *about = &cache->lines[line];

	set_tag(about, UINT64_MAX, UINT64_MAX);
	if (g4_and32(&about->state, ~(G4_LINE_VALID | G4_LINE_BUSY | G4_LINE_WAITERS)) & G4_LINE_WAITERS)
		g4_wake(&about->state);
	g4_cache_put(cache, line);
}

G4_FN void g4_cache_ref(struct g4_cache *cache, uint32_t line)
{
	g4_add32(&cache->lines[line].state, 1);
}

/* Unlinks an overflow line that lost its last reference and gives it back to the pool. */
G4_FN static void return_overflow(struct g4_cache *cache, uint32_t i, uint32_t set)
{
	struct g4_cache_set *s = &cache->sets[set];
	bool unlinked = false;

	g4_lock(&s->lock);
	uint32_t state = g4_load32_acq(&cache->lines[i].state);
	if (!(state & (G4_LINE_REFS | G4_LINE_BUSY))) {
		uint32_t prev = G4_NO_LINE, at = s->overflow;
		while (at != G4_NO_LINE && at != i) {
			prev = at;
			at = cache->lines[at].chain;
		}
		if (at == i && g4_cas32(&cache->lines[i].state, state, 0)) {
			if (prev == G4_NO_LINE)
				g4_store32_rel(&s->overflow, cache->lines[i].chain);
			else
				cache->lines[prev].chain = cache->lines[i].chain;
			set_tag(&cache->lines[i], UINT64_MAX, UINT64_MAX);
			unlinked = true;
		}
	}
	g4_unlock(&s->lock);
	if (!unlinked)
		return;
	g4_lock(&cache->pool_lock);
	cache->lines[i].chain = cache->pool;
	cache->pool = i;
	g4_unlock(&cache->pool_lock);
}

G4_FN void g4_cache_put(struct g4_cache *cache, uint32_t line)
{
	struct g4_line *about = &cache->lines[line];

	if (g4_cache_put_way(cache, line))
		return;
	uint32_t set = about->set; /* read before the reference goes: the line may be reused after that */
	if ((g4_sub32(&about->state, 1) & G4_LINE_REFS) == 1)
		return_overflow(cache, line, set);
}

G4_FN void g4_cache_put_cold(struct g4_cache *cache, uint32_t line)
{
	g4_and32(&cache->lines[line].state, ~G4_LINE_ACCESSED);
	g4_cache_put(cache, line);
}

/* Set lock held. */
G4_FN static void forget_line(struct g4_cache *cache, uint32_t i)
{
	struct g4_line *line = &cache->lines[i];
	uint32_t state = g4_load32_acq(&line->state);

	/* an overflow line has a reference, or is on its way back to the pool */
	if (i < cache->overflow_first && !(state & (G4_LINE_REFS | G4_LINE_BUSY)) &&
	    g4_cas32(&line->state, state, G4_LINE_BUSY)) {
		set_tag(line, UINT64_MAX, UINT64_MAX);
		if (g4_and32(&line->state, ~(G4_LINE_BUSY | G4_LINE_VALID | G4_LINE_WAITERS)) & G4_LINE_WAITERS)
			g4_wake(&line->state);
	} else if (line->owner != 0 && !(g4_load32_acq(&line->state) & G4_LINE_BUSY)) {
		set_tag(line, UINT64_MAX, UINT64_MAX);
	}
}

G4_FN void g4_cache_drop(struct g4_cache *cache, uint64_t owner, uint64_t index)
{
	uint32_t set = set_of(cache, owner, index);

	if (search_ways(cache, set, owner, index) == G4_NO_LINE &&
	    g4_load32_acq(&cache->sets[set].overflow) == G4_NO_LINE)
		return;
	g4_lock(&cache->sets[set].lock);
	uint32_t i = find_locked(cache, set, owner, index);
	if (i != G4_NO_LINE)
		forget_line(cache, i);
	g4_unlock(&cache->sets[set].lock);
}

G4_FN void g4_cache_drop_range(struct g4_cache *cache, uint64_t owner, uint64_t first, uint64_t end)
{
	if (end - first <= cache->line_count) {
		for (uint64_t index = first; index < end; index++)
			g4_cache_drop(cache, owner, index);
		return;
	}
	for (uint32_t i = 0; i < cache->line_count; i++) {
		struct g4_line *line = &cache->lines[i];
		uint64_t index = g4_load64_rlx(&line->index);
		if (g4_load64_rlx(&line->owner) == owner && index >= first && index < end)
			g4_cache_drop(cache, owner, index);
	}
}

G4_FN static bool is_there(const struct g4_cache *cache, uint64_t owner, uint64_t index)
{
	uint32_t set = set_of(cache, owner, index);

	/* what a set borrowed counts as there: looking through the chain would need its lock */
	return search_ways(cache, set, owner, index) != G4_NO_LINE ||
	       g4_load32_acq(&cache->sets[set].overflow) != G4_NO_LINE;
}

G4_REGION_BODY void g4_cache_probe_region(struct g4_wg *wg, void *args)
{
	struct g4_cache_probe *probe = (struct g4_cache_probe *)args;
	const uint32_t lane = g4_wg_lane(wg), width = g4_wg_width(wg);

	g4_converge(wg);
	uint64_t absent = probe->count;
	/* step by step together: a file that begins in the cache is not searched to its end */
	for (uint64_t at = 0; at < probe->count && absent == probe->count; at += width) {
		if (at + lane < probe->count && is_there(probe->cache, probe->owner, probe->first + at + lane))
			absent = at + lane;
		absent = g4_reduce_min(wg, absent);
	}
	if (lane == 0)
		probe->absent = absent;
}

G4_FN uint64_t g4_cache_absent(struct g4_wg *wg, const struct g4_cache *cache, uint64_t owner, uint64_t first,
			       uint64_t count)
{
	if (g4_wg_width(wg) == 1) {
		for (uint64_t n = 0; n < count; n++)
			if (is_there(cache, owner, first + n))
				return n;
		return count;
	}
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_cache_probe *probe = (struct g4_cache_probe *)g4_scratch_take(wg, sizeof(*probe));
	probe->cache = cache;
	probe->owner = owner;
	probe->first = first;
	probe->count = count;
	g4_region(wg, G4_REGION_CACHE_PROBE, g4_cache_probe_region, probe);
	const uint64_t absent = probe->absent;
	g4_scratch_release(wg, mark);
	return absent;
}

G4_FN void g4_cache_count_all(const struct g4_cache *cache, struct g4_cache_counts *counts)
{
	memset(counts, 0, sizeof(*counts));
	for (uint32_t t = 0; t < G4_CACHE_TALLIES; t++) {
		for (uint32_t kind = 0; kind < G4_CACHE_KINDS; kind++) {
			counts->hits[kind] += g4_load64_rlx(&cache->tallies[t].hits[kind]);
			counts->misses[kind] += g4_load64_rlx(&cache->tallies[t].misses[kind]);
			counts->without[kind] += g4_load64_rlx(&cache->tallies[t].without[kind]);
		}
		counts->waited += g4_load64_rlx(&cache->tallies[t].waited);
		counts->peeked += g4_load64_rlx(&cache->tallies[t].peeked);
	}
	counts->hits[G4_CACHE_DATA] += counts->peeked;
	for (uint32_t t = 0; t < G4_CACHE_EVENT_TALLIES; t++)
		for (uint32_t event = 0; event < G4_CACHE_EVENTS; event++)
			counts->events[event] += g4_load64_rlx(&cache->events[t].counts[event]);
}
