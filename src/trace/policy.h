/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What policies are made of: lists of pages, of which each set has some. A page is on one list or on none. Private to
 * src/trace.
 */
#ifndef G4_TRACE_POLICY_H
#define G4_TRACE_POLICY_H

#include "trace/replay.h"

#define G4_NO_PAGE UINT32_MAX
#define G4_SIM_LISTS 4u
#define G4_SIM_HANDS 3u
#define G4_DUEL_MIDDLE 512u /* of 0 .. 1023 */

struct g4_sim_page {
	uint32_t newer, older; /* on its list, G4_NO_PAGE at the ends */
	uint8_t list;	       /* 1 + its number in the set; 0: none */
	uint8_t mark;	       /* the policy's */
};

struct g4_sim_list {
	uint32_t newest, oldest, count;
};

struct g4_sim_set {
	struct g4_sim_list lists[G4_SIM_LISTS];
	uint32_t hands[G4_SIM_HANDS]; /* pages where hands of clocks stand */
	uint32_t target;	      /* ARC: pages of T1; CLOCK-Pro: cold pages */
	uint32_t kinds[4];	      /* CLOCK-Pro: pages of each kind */
	uint32_t coldest;	      /* RRIP: the list of cold pages */
};

struct g4_sim {
	const struct g4_pages *trace;
	uint32_t ways; /* pages of a set */
	uint32_t set_count;
	uint32_t duel; /* DRRIP: above its middle, cold new pages miss less */
	uint32_t turn; /* DRRIP: cold new pages so far */
	struct g4_sim_page *pages;
	struct g4_sim_set *sets;
	uint32_t *heap;	 /* MIN: ways pages a set, the one that is used last first */
	uint32_t *used;	 /* MIN: of each page, when it is used next */
	uint32_t *place; /* MIN: of each page, where it is in its heap */
};

void g4_sim_start(struct g4_sim_set *set);						    /* a set without pages */
void g4_sim_push(struct g4_sim *sim, struct g4_sim_set *set, uint32_t list, uint32_t page); /* as the newest */
/* Beside `older`, which is on the list. */
void g4_sim_insert(struct g4_sim *sim, struct g4_sim_set *set, uint32_t list, uint32_t page, uint32_t older);
void g4_sim_remove(struct g4_sim *sim, struct g4_sim_set *set, uint32_t page);
void g4_sim_move(struct g4_sim *sim, struct g4_sim_set *set, uint32_t list, uint32_t page); /* remove and push */
/* True: the page is on this list. */
static inline bool g4_sim_on(const struct g4_sim *sim, uint32_t page, uint32_t list)
{
	return sim->pages[page].list == list + 1;
}

/* A policy: access `at` of the trace, to a page of this set. True: it was there. */
typedef bool g4_policy_access(struct g4_sim *sim, struct g4_sim_set *set, uint32_t page, uint64_t at);
#define G4_POLICY_DECLARE(NAME, name, function, words) g4_policy_access g4_policy_##function;
G4_POLICIES(G4_POLICY_DECLARE)
#undef G4_POLICY_DECLARE

#endif
