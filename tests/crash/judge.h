/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may be there after a crash (docs/reliability.md), as a check of one recovered tree against the states that the
 * workload went through. A party is one thread's share of a workload: parts in order, names that nobody else touches.
 *
 * After k of its parts a party is in state k. Everything but the contents and sizes of files changes in transactions,
 * which become durable in order: names, types, modes, links, attributes and targets found must all be those of one state
 * m. Contents are written later: pages are old or new, each for itself, within what syncs and some operations (pins) order.
 */
#ifndef CRASH_JUDGE_H
#define CRASH_JUDGE_H

#include "look.h"
#include "script.h"

#define MAX_PARTS 40u
#define MAX_PARTIES 4u
#define SECOND_LIFE "zz" /* a file that is made after some recoveries */

struct party {
	char tag; /* its names are t<tag>, all below it, and sh/<tag>...; 0: all names there are */
	uint32_t count;
	struct part parts[MAX_PARTS];
	/* from a run without faults: */
	struct tree states[MAX_PARTS + 1];
	int codes[MAX_PARTS];
	/* from the recorded run: requests that the device had seen when a part began and ended, and a common clock */
	uint32_t begun[MAX_PARTS], ended[MAX_PARTS];
	uint64_t begun_at[MAX_PARTS], ended_at[MAX_PARTS];
	uint32_t done; /* parts that ended */
	/* prepared from the states: for a sync, the oldest state of names that it allows */
	uint32_t sync_names[MAX_PARTS];
	uint32_t sync_ids[MAX_PARTS]; /* whose contents it made durable; 0: nobody's, UINT32_MAX: everybody's */
};

struct window {		  /* what holds when `requests` requests are complete and at most one more is under way */
	uint32_t names;	  /* the oldest state of names */
	uint32_t reached; /* the newest: parts that had begun */
	uint32_t files;	  /* the oldest state of everybody's contents */
	uint32_t count;
	struct {
		uint32_t id, from;
	} file[MAX_PARTS]; /* and of some inodes' */
};

bool party_owns(const struct party *party, const char *path);
/* Once states and codes are there. */
void party_prepare(struct party *party);
void party_window(const struct party *party, uint32_t requests, struct window *window);
bool window_same(const struct window *a, const struct window *b);
/* A bit for each state of names that the tree could stand for; 0: it is impossible, and *why says the last reason. */
uint64_t party_judge(const struct party *party, const struct window *window, const struct tree *now, const char **why);
/* Whether several parties' answers contradict the order in which things happened. */
bool parties_in_order(const struct party *parties, uint32_t count, const uint64_t *possible);
void party_print(const struct party *party);

#endif
