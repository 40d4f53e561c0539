/* SPDX-License-Identifier: Apache-2.0 */
/* Replacement policies that learn from pages which have left. */
#include "trace/policy.h"

/* ------------------------------------------------------------------ ARC: the names are the paper's */

enum { T1, T2, B1, B2 }; /* used once, used more than once, and what has left both */

/* REPLACE of the paper; again: the page that comes in was in B2. */
static void arc_replace(struct g4_sim *sim, struct g4_sim_set *set, bool again)
{
	const struct g4_sim_list *l = set->lists;
	const bool once = l[T1].count > 0 && (l[T1].count > set->target || (again && l[T1].count == set->target));

	if (once || l[T2].count == 0)
		g4_sim_move(sim, set, B1, l[T1].oldest);
	else
		g4_sim_move(sim, set, B2, l[T2].oldest);
}

/* A page that none of the lists has. */
static void arc_miss(struct g4_sim *sim, struct g4_sim_set *set, uint32_t page)
{
	const struct g4_sim_list *l = set->lists;

	if (l[T1].count + l[B1].count == sim->ways) {
		if (l[T1].count < sim->ways) {
			g4_sim_remove(sim, set, l[B1].oldest);
			arc_replace(sim, set, false);
		} else {
			g4_sim_remove(sim, set, l[T1].oldest);
		}
	} else if (l[T1].count + l[T2].count + l[B1].count + l[B2].count >= sim->ways) {
		if (l[T1].count + l[T2].count + l[B1].count + l[B2].count == 2 * sim->ways)
			g4_sim_remove(sim, set, l[B2].oldest);
		if (l[T1].count + l[T2].count == sim->ways)
			arc_replace(sim, set, false);
	}
	g4_sim_push(sim, set, T1, page);
}

bool g4_policy_arc(struct g4_sim *sim, struct g4_sim_set *set, uint32_t page, uint64_t at)
{
	const uint32_t once = set->lists[B1].count, more = set->lists[B2].count;

	(void)at;
	if (g4_sim_on(sim, page, T1) || g4_sim_on(sim, page, T2)) {
		g4_sim_move(sim, set, T2, page);
		return true;
	}
	if (g4_sim_on(sim, page, B1)) {
		const uint32_t by = more > once ? more / once : 1;
		set->target = by > sim->ways - set->target ? sim->ways : set->target + by;
		arc_replace(sim, set, false);
		g4_sim_move(sim, set, T2, page);
	} else if (g4_sim_on(sim, page, B2)) {
		const uint32_t by = once > more ? once / more : 1;
		set->target = by > set->target ? 0 : set->target - by;
		arc_replace(sim, set, true);
		g4_sim_move(sim, set, T2, page);
	} else {
		arc_miss(sim, set, page);
	}
	return false;
}

/* ------------------------------------------------------------------ CLOCK-Pro */

/*
 * One clock, the list, of hot pages, cold ones and those that have left and are still in their test period; hands go from
 * the older to the newer and round. A resident cold page is always in its test period, which is simpler than the paper and
 * what implementations do. The target: cold pages that there shall be.
 */
enum { ABSENT, HOT, COLD, GONE, KIND = 3, USED = 4 }; /* of a page's mark */
enum { HAND_HOT, HAND_COLD, HAND_TEST };

static uint32_t pro_kind(const struct g4_sim *sim, uint32_t page)
{
	return sim->pages[page].mark & KIND;
}

static void pro_become(struct g4_sim *sim, struct g4_sim_set *set, uint32_t page, uint8_t kind)
{
	const uint32_t before = pro_kind(sim, page);

	if (before != ABSENT)
		set->kinds[before]--;
	if (kind != ABSENT)
		set->kinds[kind]++;
	sim->pages[page].mark = kind;
}

static uint32_t pro_behind(const struct g4_sim *sim, const struct g4_sim_set *set, uint32_t page)
{
	return sim->pages[page].newer == G4_NO_PAGE ? set->lists[0].oldest : sim->pages[page].newer;
}

static void pro_remove(struct g4_sim *sim, struct g4_sim_set *set, uint32_t page)
{
	const uint32_t behind = set->lists[0].count == 1 ? G4_NO_PAGE : pro_behind(sim, set, page);

	for (uint32_t i = 0; i < G4_SIM_HANDS; i++)
		if (set->hands[i] == page)
			set->hands[i] = behind;
	pro_become(sim, set, page, ABSENT);
	g4_sim_remove(sim, set, page);
}

/* Where the hand stands; it goes on. */
static uint32_t pro_step(struct g4_sim *sim, struct g4_sim_set *set, uint32_t hand)
{
	const uint32_t page = set->hands[hand];

	set->hands[hand] = pro_behind(sim, set, page);
	return page;
}

/* The test period of a page that has left is over: cold pages do not need more room. */
static void pro_end_test(struct g4_sim *sim, struct g4_sim_set *set, uint32_t page)
{
	pro_remove(sim, set, page);
	if (set->target > 1)
		set->target--;
}

static void pro_hot_hand(struct g4_sim *sim, struct g4_sim_set *set)
{
	const uint32_t page = pro_step(sim, set, HAND_HOT);

	if (pro_kind(sim, page) == GONE)
		pro_end_test(sim, set, page);
	else if (pro_kind(sim, page) == HOT && (sim->pages[page].mark & USED))
		sim->pages[page].mark = HOT;
	else if (pro_kind(sim, page) == HOT)
		pro_become(sim, set, page, COLD);
}

static void pro_test_hand(struct g4_sim *sim, struct g4_sim_set *set)
{
	const uint32_t page = pro_step(sim, set, HAND_TEST);

	if (pro_kind(sim, page) == GONE)
		pro_end_test(sim, set, page);
}

static void pro_cold_hand(struct g4_sim *sim, struct g4_sim_set *set)
{
	const uint32_t page = pro_step(sim, set, HAND_COLD);

	if (pro_kind(sim, page) == COLD)
		pro_become(sim, set, page, sim->pages[page].mark & USED ? HOT : GONE);
	while (set->kinds[GONE] > sim->ways)
		pro_test_hand(sim, set);
	while (set->kinds[HOT] > sim->ways - set->target)
		pro_hot_hand(sim, set);
}

bool g4_policy_clockpro(struct g4_sim *sim, struct g4_sim_set *set, uint32_t page, uint64_t at)
{
	const uint32_t kind = pro_kind(sim, page);

	(void)at;
	if (kind == HOT || kind == COLD) {
		sim->pages[page].mark |= USED;
		return true;
	}
	if (kind == GONE) {
		pro_remove(sim, set, page);
		if (set->target < sim->ways)
			set->target++;
	}
	while (set->kinds[HOT] + set->kinds[COLD] >= sim->ways)
		pro_cold_hand(sim, set);
	const uint32_t hot = set->hands[HAND_HOT];
	/* in front of the hot hand: where it comes to last */
	g4_sim_insert(sim, set, 0, page, hot == G4_NO_PAGE ? set->lists[0].newest : sim->pages[hot].older);
	pro_become(sim, set, page, kind == GONE ? HOT : COLD);
	for (uint32_t i = 0; i < G4_SIM_HANDS; i++)
		if (set->hands[i] == G4_NO_PAGE)
			set->hands[i] = page;
	return false;
}
