/* SPDX-License-Identifier: Apache-2.0 */
/* Replacement policies that keep one or three queues, or know the future. */
#include "trace/policy.h"

bool g4_policy_fifo(struct g4_sim *sim, struct g4_sim_set *set, uint32_t page, uint64_t at)
{
	(void)at;
	if (sim->pages[page].list)
		return true;
	if (set->lists[0].count == sim->ways)
		g4_sim_remove(sim, set, set->lists[0].oldest);
	g4_sim_push(sim, set, 0, page);
	return false;
}

bool g4_policy_lru(struct g4_sim *sim, struct g4_sim_set *set, uint32_t page, uint64_t at)
{
	if (!sim->pages[page].list)
		return g4_policy_fifo(sim, set, page, at);
	g4_sim_move(sim, set, 0, page);
	return true;
}

/* A clock's hand stands at the oldest page, and what it spares becomes the newest. */
static bool spare_once(struct g4_sim *sim, struct g4_sim_set *set, uint32_t page, uint8_t mark)
{
	if (sim->pages[page].list) {
		sim->pages[page].mark = 1;
		return true;
	}
	if (set->lists[0].count == sim->ways) {
		uint32_t victim;
		while (sim->pages[victim = set->lists[0].oldest].mark) {
			sim->pages[victim].mark = 0;
			g4_sim_move(sim, set, 0, victim);
		}
		g4_sim_remove(sim, set, victim);
	}
	sim->pages[page].mark = mark;
	g4_sim_push(sim, set, 0, page);
	return false;
}

bool g4_policy_clock(struct g4_sim *sim, struct g4_sim_set *set, uint32_t page, uint64_t at)
{
	(void)at;
	return spare_once(sim, set, page, 1);
}

bool g4_policy_second(struct g4_sim *sim, struct g4_sim_set *set, uint32_t page, uint64_t at)
{
	(void)at;
	return spare_once(sim, set, page, 0);
}

/* The hand goes from the oldest to the newest page and stays where it took one. */
bool g4_policy_sieve(struct g4_sim *sim, struct g4_sim_set *set, uint32_t page, uint64_t at)
{
	(void)at;
	if (sim->pages[page].list) {
		sim->pages[page].mark = 1;
		return true;
	}
	if (set->lists[0].count == sim->ways) {
		uint32_t hand = set->hands[0];
		for (;;) {
			if (hand == G4_NO_PAGE)
				hand = set->lists[0].oldest;
			if (!sim->pages[hand].mark)
				break;
			sim->pages[hand].mark = 0;
			hand = sim->pages[hand].newer;
		}
		set->hands[0] = sim->pages[hand].newer;
		g4_sim_remove(sim, set, hand);
	}
	sim->pages[page].mark = 0;
	g4_sim_push(sim, set, 0, page);
	return false;
}

/* ------------------------------------------------------------------ S3-FIFO */

enum { SMALL, MAIN, GHOST };

static void s3_to_ghost(struct g4_sim *sim, struct g4_sim_set *set, uint32_t page, uint32_t small)
{
	g4_sim_move(sim, set, GHOST, page);
	if (set->lists[GHOST].count > sim->ways - small) /* as many as the main queue has pages */
		g4_sim_remove(sim, set, set->lists[GHOST].oldest);
}

static void s3_evict_main(struct g4_sim *sim, struct g4_sim_set *set)
{
	for (;;) {
		const uint32_t page = set->lists[MAIN].oldest;
		if (sim->pages[page].mark == 0) {
			g4_sim_remove(sim, set, page);
			return;
		}
		sim->pages[page].mark--;
		g4_sim_move(sim, set, MAIN, page);
	}
}

/* One page leaves, or those of the small queue that were used `often` have moved to the main one. */
static void s3_evict(struct g4_sim *sim, struct g4_sim_set *set, uint32_t small, uint32_t often)
{
	if (set->lists[SMALL].count < small && set->lists[MAIN].count > 0) {
		s3_evict_main(sim, set);
		return;
	}
	while (set->lists[SMALL].count > 0) {
		const uint32_t page = set->lists[SMALL].oldest;
		if (sim->pages[page].mark < often) {
			s3_to_ghost(sim, set, page, small);
			return;
		}
		sim->pages[page].mark = 0;
		g4_sim_move(sim, set, MAIN, page);
		if (set->lists[MAIN].count > sim->ways - small) {
			s3_evict_main(sim, set);
			return;
		}
	}
}

static bool s3_access(struct g4_sim *sim, struct g4_sim_set *set, uint32_t page, uint32_t often)
{
	const uint32_t small = sim->ways >= 10 ? sim->ways / 10 : 1;
	const bool missed = g4_sim_on(sim, page, GHOST);

	if (sim->pages[page].list && !missed) {
		sim->pages[page].mark = sim->pages[page].mark < 3 ? sim->pages[page].mark + 1 : 3;
		return true;
	}
	if (missed)
		g4_sim_remove(sim, set, page);
	while (set->lists[SMALL].count + set->lists[MAIN].count >= sim->ways)
		s3_evict(sim, set, small, often);
	sim->pages[page].mark = 0;
	g4_sim_push(sim, set, missed ? MAIN : SMALL, page);
	return false;
}

bool g4_policy_s3fifo(struct g4_sim *sim, struct g4_sim_set *set, uint32_t page, uint64_t at)
{
	(void)at;
	return s3_access(sim, set, page, 2);
}

bool g4_policy_s3fifo1(struct g4_sim *sim, struct g4_sim_set *set, uint32_t page, uint64_t at)
{
	(void)at;
	return s3_access(sim, set, page, 1);
}

/* ------------------------------------------------------------------ RRIP */

/*
 * Four lists, from cold to warm (the paper's RRPV 3 to 0), and which of them is the coldest: to cool all pages down is to go on to
 * the next, which an empty list of cold pages allows. The page that was cold first goes.
 */
enum { COLD, LUKEWARM, WARM = 3 };

static uint32_t rrip_list(const struct g4_sim_set *set, uint32_t warmth)
{
	return (set->coldest + warmth) % G4_SIM_LISTS;
}

static bool rrip(struct g4_sim *sim, struct g4_sim_set *set, uint32_t page, uint32_t warmth)
{
	uint32_t count = 0;

	if (sim->pages[page].list) {
		g4_sim_move(sim, set, rrip_list(set, WARM), page);
		return true;
	}
	for (uint32_t i = 0; i < G4_SIM_LISTS; i++)
		count += set->lists[i].count;
	if (count == sim->ways) {
		while (set->lists[set->coldest].count == 0)
			set->coldest = (set->coldest + 1) % G4_SIM_LISTS;
		g4_sim_remove(sim, set, set->lists[set->coldest].oldest);
	}
	g4_sim_push(sim, set, rrip_list(set, warmth), page);
	return false;
}

bool g4_policy_srrip(struct g4_sim *sim, struct g4_sim_set *set, uint32_t page, uint64_t at)
{
	(void)at;
	return rrip(sim, set, page, LUKEWARM);
}

/* Of 32 sets one always takes new pages as lukewarm, another one as cold, all but each 32nd; the others follow the better one. */
bool g4_policy_drrip(struct g4_sim *sim, struct g4_sim_set *set, uint32_t page, uint64_t at)
{
	const uint32_t place = (uint32_t)(set - sim->sets) % 32;
	const bool missed = !sim->pages[page].list;
	bool cold = sim->duel > G4_DUEL_MIDDLE;

	(void)at;
	if (sim->set_count > 1 && place == 0) {
		cold = false;
		sim->duel += missed && sim->duel < 2 * G4_DUEL_MIDDLE - 1;
	} else if (sim->set_count > 1 && place == 1) {
		cold = true;
		sim->duel -= missed && sim->duel > 0;
	}
	return rrip(sim, set, page, cold && missed && ++sim->turn % 32 != 0 ? COLD : LUKEWARM);
}

/* ------------------------------------------------------------------ Belady's bound */

/* The root of a set's heap is what is used last; list 0 counts its pages and is not ordered. */
static void heap_put(struct g4_sim *sim, uint32_t *heap, uint32_t at, uint32_t page)
{
	heap[at] = page;
	sim->place[page] = at;
}

static void heap_up(struct g4_sim *sim, uint32_t *heap, uint32_t at)
{
	const uint32_t page = heap[at];

	for (; at > 0 && sim->used[heap[(at - 1) / 2]] < sim->used[page]; at = (at - 1) / 2)
		heap_put(sim, heap, at, heap[(at - 1) / 2]);
	heap_put(sim, heap, at, page);
}

static void heap_down(struct g4_sim *sim, uint32_t *heap, uint32_t count)
{
	const uint32_t page = heap[0];
	uint32_t at = 0;

	for (uint32_t child; (child = 2 * at + 1) < count; at = child) {
		if (child + 1 < count && sim->used[heap[child + 1]] > sim->used[heap[child]])
			child++;
		if (sim->used[heap[child]] <= sim->used[page])
			break;
		heap_put(sim, heap, at, heap[child]);
	}
	heap_put(sim, heap, at, page);
}

bool g4_policy_min(struct g4_sim *sim, struct g4_sim_set *set, uint32_t page, uint64_t at)
{
	uint32_t *heap = sim->heap + (size_t)(set - sim->sets) * sim->ways;
	const bool hit = sim->pages[page].list;

	sim->used[page] = sim->trace->next[at];
	if (hit) {
		heap_up(sim, heap, sim->place[page]);
		return true;
	}
	if (set->lists[0].count == sim->ways) {
		g4_sim_remove(sim, set, heap[0]);
		heap_put(sim, heap, 0, page);
		heap_down(sim, heap, sim->ways);
	} else {
		heap[set->lists[0].count] = page;
		heap_up(sim, heap, set->lists[0].count);
	}
	g4_sim_push(sim, set, 0, page);
	return false;
}
