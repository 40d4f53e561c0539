/* SPDX-License-Identifier: Apache-2.0 */
/* Between recording (record.c) and exploring (explore.c). */
#ifndef CRASH_EXPLORE_H
#define CRASH_EXPLORE_H

#include "lab.h"

struct trace {
	uint32_t count;
	uint32_t first;		  /* requests before this one prepared the tree */
	struct request *requests; /* one allocation, data behind it */
};

enum fate_kind { DROP, KEEP, FIRST, WITHOUT, LINES, ANY };
struct fate { /* of a request that is not durable */
	enum fate_kind kind;
	uint64_t argument;
};
struct pending { /* made, and not surely on the medium when the list began */
	uint32_t request;
	bool durable;
};

struct session { /* a walk through one record */
	struct lab *lab;
	struct workload *w;
	const struct trace *trace;
	uint32_t now;			/* requests before this one were made */
	bool flying;			/* this one is under way */
	uint32_t flushed[MEMORY_DISKS]; /* what was complete when so many requests were made is on the medium */
	uint32_t present;		/* disks there are; of them as many may be lost as the set bears */
	uint32_t out, gone; /* those that an order has put aside, which count as lost; that may be none of the set */
	uint32_t nobody;    /* of these the ones that have nothing: it is no loss to lose them */
	struct fate flying_fate;
	struct pending *pending;
	struct fate *fates;
	uint32_t pending_count;
	uint64_t *first_sum; /* of a request, a page each: */
	uint64_t *sums;	     /* of pages as a request has them, 0: not known yet */
	uint64_t seed, random;
	uint64_t number; /* of the next state */
	struct window windows[MAX_PARTIES];
	bool window_changed;
	uint32_t window_serial;
	/* of the record of a recovery */
	struct session *outer;
	uint32_t outer_outcome;
	uint32_t second_begun, second_durable; /* requests */
};

/* Puts the requests that prepared the tree on the device, for good. */
void settle_preamble(struct lab *lab, const struct trace *trace);
/* Every moment of the record is a crash. The device holds what it held when the record began. */
void walk(struct session *s);
/* The state in memory, which begins at `mark`, recovers, lives on for a moment, and crashes anywhere in that. */
void second_crash(struct session *s, uint32_t mark, uint32_t outcome);
/* Says what is wrong with the state at hand, and how it is made again. */
void violation(struct session *s, const struct outcome *outcome, const char *why);
#define ANY_SPACE UINT64_MAX /* what was freed last is not counted yet */
/* What fsck finds on the image as it lies there, which is a violation of the outcome's. */
void run_fsck(struct lab *lab, struct outcome *outcome, bool recovered, uint64_t free_pages);

/* ---- sets_orders.c ---- */
/* What orders about disks have made of them by now: out, gone, nobody. */
void sets_orders(struct session *s);

/* ---- sets_after.c ---- */
/* Whether of the state at hand, which recovers to that outcome, it is looked at what becomes of it. */
bool sets_lives_on(const struct session *s, uint32_t index);
/*
 * The state is in memory, in the level that was begun last: it is mounted, what it lacks is made again, and all is there with others
 * lost. The disks that are present are the same afterwards, and memory is not.
 */
void sets_live_on(struct session *s, uint32_t index);

static inline uint64_t mix(uint64_t a, uint64_t b)
{
	a += b;
	return rig_random(&a);
}

/* Writes a record that would not repeat to a file, from which it can be explored again. */
void trace_keep(struct lab *lab, const struct workload *w, const struct trace *trace);

#endif
