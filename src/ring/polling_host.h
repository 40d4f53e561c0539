/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for something that nobody announces: looking all the time, or between naps. Which of the two, and how long,
 * follows from how long it took before. Host only.
 */
#ifndef G4_POLLING_HOST_H
#define G4_POLLING_HOST_H

#include "base/base.h"

/*
 * How long something takes that is waited for again and again: `usual_ns` is the mean, or what all but a few take at
 * least where it is slept for. It begins with G4_POLLING_START_NS. Threads may share it.
 */
struct g4_polling {
	uint32_t usual_ns;
	uint32_t slept; /* waits that were slept for; what is woken looks now and then in place of that */
};
#define G4_POLLING_START_NS 30000u

/* One wait, by one thread. */
struct g4_waiter {
	struct g4_polling *polling;
	uint64_t began_ns;
	uint32_t usual_ns;
	uint32_t first_ns; /* sleeps so long before it looks at all */
	uint32_t spin_ns;  /* looks until then, and then sleeps */
	uint32_t looks, naps;
	bool tries;	      /* looks although it usually takes too long */
	const uint32_t *peer; /* for g4_step_aside(); NULL: it cannot be there */
	bool overslept;	      /* perhaps: it may have come during the one nap so far */
	bool crowded;	      /* it sleeps for others' sake: how long it took tells nothing of what is waited for */
	int slack_ns;	      /* the thread's own */
};

/* The processor that this thread runs on, + 1. */
uint32_t g4_runs_on(void);
enum g4_step {
	G4_STEP_LOOKS, /* it is elsewhere, as far as is known, and nothing was done */
	G4_STEP_ASIDE, /* it was here and had the processor meanwhile, or others did: look again */
	G4_STEP_SLEEPS /* many want this processor: to sleep and to be woken takes less time than to look */
};
/*
 * One step of looking for what a thread does that said in *runs_on where it runs: if that is here, it gets the processor, as long as that
 * does not take long. NULL: nobody says so, and the processor is offered to all.
 */
enum g4_step g4_step_aside(const uint32_t *runs_on);

/*
 * A wait begins. What is over within `most_spin_ns` as a rule is looked for, twice as long as usual and never longer than that,
 * all the time or after a nap of half the usual time. For what takes longer the waiter sleeps. woken: its sleep is not a nap
 * but has an end that somebody tells. That takes longer than many a command, so what is slept for looks slow: one wait of G4_POLLING_TRIES
 * is looked for all the same, to learn of what has become quick.
 */
#define G4_POLLING_TRIES 16u
void g4_waiter_begin(struct g4_waiter *waiter, struct g4_polling *polling, uint32_t most_spin_ns, bool woken);
/* After a look in vain. True: look again, a moment went by. False: sleep now. */
bool g4_waiter_spins(struct g4_waiter *waiter);
/* Sleeps, first for most of the usual time, then for a part of the time that went by. */
void g4_waiter_nap(struct g4_waiter *waiter);
/* done: it came. False: it will not, and nothing is learned of it. */
void g4_waiter_end(struct g4_waiter *waiter, bool done);

#endif
