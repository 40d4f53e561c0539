/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking costs the processor all of the time. A nap costs it 6 to 15 us on virtual machines and ends 5 to 25 us late, and 50
 * more with the timer slack that threads have by default, which is taken from them here while they nap. So what takes less
 * than a few naps is looked for, where a nap ends in time from half of the usual time on, as Linux polls block devices
 * ("hybrid polling").
 *
 * A client that sleeps first learns of a result that came earlier only that it was there at the first look. So `usual_ns` goes down
 * by an eighth then, and up by a sixteenth of what was missing otherwise: it settles where nearly all take longer, and the
 * nap after it finds most of them. Where results are looked for it is their mean. What takes long once, as a sync does now and
 * then, counts as twice the usual at most.
 *
 * A thread that yields comes back when all others that can run have had their time, while one that sleeps and is woken comes before them. So
 * where a yield took long, nobody of this process yields for a while: in its place waiters sleep. The first one that does ends
 * its own wait only; for behind the next one waiters sleep as long as it took, and twice as many times that long with each further one, up to MOST_GAP:
 * a program that runs for a moment costs a moment, and many that stay a thirtieth of the time. The first yield that is short again tells that they are gone.
 */
#include "ring/polling_host.h"

#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include "simt/simt.h"

#define CLOCK_LOOKS 8u	     /* the clock is slower than a look */
#define YIELD_LOOKS 256u     /* some microseconds: others may want the processor */
#define LEAST_SPIN_NS 30000u /* looking so long costs little more than a nap */
#define HYBRID_NS 60000u     /* a nap of half of it ends in time */
#define LATE_NS 20000u	     /* how late naps end, about */
#define LEAST_NAP_NS 25000u  /* between looks */
#define MOST_NAP_NS 1000000u /* but for the first one */
#define MOST_USUAL_NS                                                                                                  \
	(10u * 1000 * 1000) /* what was slow for a while is not slept for so long when it is quick again */
#define PARTS 16u	    /* a nap is this part of the time that went by */
#define LONG_YIELD_NS                                                                                                  \
	1000000u /* longer than one command of the peer's, and shorter than others' time on the processor */
#define MOST_GAP 32u
#define MOST_CROWDED_NS 100000000u /* a yield in which the process was stopped says nothing of others */

static uint64_t crowded_until_ns; /* atomic; CLOCK_MONOTONIC */
static uint32_t gap;		  /* atomic: of the next yield that takes long */

uint32_t g4_runs_on(void)
{
	return (uint32_t)sched_getcpu() + 1;
}

enum g4_step g4_step_aside(const uint32_t *runs_on)
{
	if (runs_on && g4_load32_rlx(runs_on) != g4_runs_on())
		return G4_STEP_LOOKS;
	const uint64_t before = g4_monotonic_ns();
	if (before < g4_load64_rlx(&crowded_until_ns))
		return G4_STEP_SLEEPS;
	sched_yield();
	const uint64_t after = g4_monotonic_ns();
	const uint32_t times = g4_load32_rlx(&gap);
	if (after - before < LONG_YIELD_NS) {
		if (times != 0)
			g4_store32_rlx(&gap, 0);
		return G4_STEP_ASIDE;
	}
	g4_store64_rlx(&crowded_until_ns, after + g4_min64(times * (after - before), MOST_CROWDED_NS));
	g4_store32_rlx(&gap, times == 0 ? 1 : times < MOST_GAP ? 2 * times : MOST_GAP);
	return G4_STEP_SLEEPS;
}

void g4_waiter_begin(struct g4_waiter *waiter, struct g4_polling *polling, uint32_t most_spin_ns, bool woken)
{
	uint32_t usual_ns = g4_load32_rlx(&polling->usual_ns);

	*waiter = (struct g4_waiter){.polling = polling, .began_ns = g4_monotonic_ns(), .usual_ns = usual_ns};
	if (usual_ns > most_spin_ns && woken && g4_add32(&polling->slept, 1) % G4_POLLING_TRIES == 0) {
		waiter->tries = true;
		waiter->spin_ns = most_spin_ns;
		return;
	}
	if (usual_ns > most_spin_ns) {
		waiter->first_ns = (uint32_t)g4_max64(usual_ns, LATE_NS + LEAST_NAP_NS) - LATE_NS;
		return;
	}
	waiter->spin_ns = (uint32_t)g4_min64(g4_max64(2 * usual_ns, LEAST_SPIN_NS), most_spin_ns);
	if (!woken && usual_ns >= HYBRID_NS)
		waiter->first_ns = usual_ns / 2;
}

bool g4_waiter_spins(struct g4_waiter *waiter)
{
	if (waiter->spin_ns == 0 || (waiter->first_ns && waiter->naps == 0))
		return false;
	waiter->overslept = false;
	if (waiter->looks++ % CLOCK_LOOKS == 0 && g4_monotonic_ns() - waiter->began_ns >= waiter->spin_ns) {
		waiter->spin_ns = 0;
		return false;
	}
	enum g4_step step = waiter->peer ? g4_step_aside(waiter->peer) : G4_STEP_LOOKS;
	if (step == G4_STEP_LOOKS && waiter->looks % YIELD_LOOKS == 0)
		step = g4_step_aside(NULL);
	if (step == G4_STEP_SLEEPS) {
		waiter->spin_ns = 0;
		waiter->crowded = true;
	}
	if (step == G4_STEP_LOOKS)
		g4_pause();
	return step != G4_STEP_SLEEPS;
}

static uint64_t next_nap(const struct g4_waiter *waiter)
{
	if (waiter->naps == 0 && waiter->first_ns)
		return waiter->first_ns;
	return g4_min64(g4_max64((g4_monotonic_ns() - waiter->began_ns) / PARTS, LEAST_NAP_NS), MOST_NAP_NS);
}

void g4_waiter_nap(struct g4_waiter *waiter)
{
	struct timespec pause = {.tv_nsec = (long)next_nap(waiter)};

	waiter->overslept = waiter->naps == 0 && waiter->first_ns;
	if (waiter->naps++ == 0) {
		waiter->slack_ns = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
		(void)prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	}
	nanosleep(&pause, NULL);
}

/* What the next wait shall expect. */
static uint64_t learn(const struct g4_waiter *waiter)
{
	const uint64_t usual = waiter->usual_ns, took = g4_monotonic_ns() - waiter->began_ns;

	if (waiter->overslept)
		return usual - usual / 8;
	if (waiter->tries && waiter->spin_ns)
		return took;
	if (took < usual)
		return usual - (usual - took) / 8;
	return usual + (g4_min64(took, 2 * usual) - usual) / (waiter->looks ? 8 : 16) + 1;
}

void g4_waiter_end(struct g4_waiter *waiter, bool done)
{
	if (waiter->naps && waiter->slack_ns > 0)
		(void)prctl(PR_SET_TIMERSLACK, waiter->slack_ns, 0, 0, 0);
	if (done && !waiter->crowded)
		g4_store32_rlx(&waiter->polling->usual_ns, (uint32_t)g4_min64(learn(waiter), MOST_USUAL_NS));
}
