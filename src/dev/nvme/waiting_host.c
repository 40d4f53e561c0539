/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Polling, then sleeping (waiting_host.h).
 *
 * A thread that goes to sleep counts itself among the sleepers, has the interrupt turned on, and looks a last time, with the look lock held. From
 * then on a completion interrupts, and a look by somebody else sees the sleeper. One of those that sleep listens to the interrupt; that
 * it has ended others' requests, and that it leaves, it tells them. What an interrupt that it has taken was for, it finds itself, or
 * one of those whom it wakes when it leaves: each looks before it sleeps again.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/log_host.h"
#include "dev/nvme/recovery_host.h"
#include "dev/nvme/waiting_host.h"
#include "dev/nvme/waking_host.h"

#define LOOKS_PER_CHECK 64u
#define LOOKS_PER_CLOCK 16u
#define LOOKS_FIRST 16u	 /* by everybody, without the clock */
#define LOOKS_AWAKE 50u	 /* at a controller that is a thread: it may need the processor */
#define LOOKS_DEAF 4000u /* where there is no interrupt, before naps */
#define NAP_NS 50000
#define SLEEP_NS 10000000 /* the longest; then the controller is looked at */
#define SLEEP_FOR_SLOT_NS 1000000
#define SCORE_LOW 64u
#define SCORE_STEP 8u	/* a wait changes the score by an 8th of what is missing, or there */
#define POLLS_EVERY 16u /* of waits that are to sleep at once */
#define POLLED_MOST 64u /* waits in a row, until the interrupt is turned off */
#define UNHEARD_MOST 8u

/* A wait, from its first look on. */
struct wait {
	struct g4_nvme *nvme;
	struct g4_nvme_queue *queue;
	struct g4_nvme_waking *waking;
	const struct g4_nvme_target *target;
	struct g4_io *io;
	uint32_t index, looks;
	uint64_t until_ns; /* to be polled; 0: not by the clock */
	uint64_t sleeps;
	bool decided; /* whether to poll on by the clock */
	bool over;    /* polling */
	bool listens;
	struct g4_nvme_turn turn;
};

static bool step(struct wait *wait)
{
	const bool done = g4_nvme_step(wait->queue, wait->target, wait->io, &wait->turn);

	wait->looks++;
	g4_nvme_pass_on(wait->nvme, wait->index);
	return done;
}

/* ---- sleeping ---- */

/* Nobody else takes interrupts now. A completion that none came for: if that happens again and again, there are none. */
static void note_silence(struct wait *wait)
{
	struct g4_nvme_waking *waking = wait->waking;

	if (!g4_slots_try_look(&wait->queue->pool))
		return;
	const bool answered = !wait->queue->flight.paused && g4_nvme_pair_is_answered(&wait->queue->flight.pair);
	g4_slots_looked(&wait->queue->pool);
	if (!answered || g4_nvme_take_interrupts(waking))
		return;
	g4_store32_rlx(&waking->unheard, waking->unheard + 1);
	if (waking->unheard < UNHEARD_MOST || g4_xchg32(&waking->deaf, 1))
		return;
	g4_log(G4_LOG_WARN, "%s: the controller's interrupts do not arrive; waiting for it takes more processor time",
	       wait->nvme->name);
	g4_nvme_wake(waking);
}

/* For all that sleep. */
static void sleep_listening(struct wait *wait, long ns)
{
	const struct timespec longest = {.tv_nsec = ns};
	struct pollfd file = {.fd = wait->waking->event, .events = POLLIN};
	const int found = ppoll(&file, 1, &longest, NULL);

	if (found == 0)
		note_silence(wait);
	else if (found > 0 && g4_nvme_take_interrupts(wait->waking))
		g4_store32_rlx(&wait->waking->unheard, 0);
}

static void sleep_beside(const struct wait *wait, uint32_t seen, long ns)
{
	const struct timespec longest = {.tv_nsec = ns};

	if (syscall(SYS_futex, &wait->waking->generation, FUTEX_WAIT_PRIVATE, seen, &longest, NULL, 0) < 0 &&
	    errno != EAGAIN && errno != EINTR && errno != ETIMEDOUT)
		nanosleep(&longest, NULL); /* such a kernel has no faster way */
}

/* Whether the last look, which is this thread's own, finds nothing to wait for but others. What it starts needs another one. */
static bool may_sleep(struct wait *wait, bool *done)
{
	const uint64_t started = wait->io->cookie;
	const bool asked = wait->turn.asked;

	if (!g4_nvme_is_quiet(wait->queue))
		return false;
	*done = step(wait);
	return !*done && wait->io->cookie == started && wait->turn.asked == asked;
}

/*
 * By a thread that is one of the sleepers. `generation` comes first: who leaves off listening behind that changes it, and who has
 * left off before is found to have. True: the request is done.
 */
static bool sleep_unless_done(struct wait *wait)
{
	struct g4_nvme_waking *waking = wait->waking;
	const uint32_t seen = g4_load32_acq(&waking->generation);
	bool done = false;

	wait->listens = wait->listens || g4_xchg32(&waking->listening, 1) == 0;
	if (may_sleep(wait, &done)) {
		const long ns = wait->turn.asked ? SLEEP_FOR_SLOT_NS : SLEEP_NS;
		wait->sleeps++;
		if (wait->listens)
			sleep_listening(wait, ns);
		else
			sleep_beside(wait, seen, ns);
	}
	g4_sub32(&wait->queue->sleepers, 1);
	g4_nvme_pass_on(wait->nvme, wait->index);
	return done;
}

/* ---- polling ---- */

/* Whether to, or to sleep at once. Threads may overwrite each other's counts. */
static bool is_to_poll(struct g4_nvme_waking *waking)
{
	if (g4_load32_rlx(&waking->score) >= SCORE_LOW)
		return true;
	const uint32_t unpolled = g4_load32_rlx(&waking->unpolled) + 1;
	g4_store32_rlx(&waking->unpolled, unpolled % POLLS_EVERY);
	return unpolled % POLLS_EVERY == 0;
}

/* Behind a look in vain. */
static bool polls_on(struct wait *wait)
{
	const uint32_t by_looks = wait->nvme->provider.work ? LOOKS_AWAKE : LOOKS_DEAF;

	if (wait->over || wait->looks < LOOKS_FIRST)
		return !wait->over;
	if (wait->nvme->provider.work || !g4_nvme_can_listen(wait->waking)) {
		wait->over = wait->looks >= by_looks;
	} else if (!wait->decided) {
		wait->decided = true;
		wait->over = !is_to_poll(wait->waking);
		wait->until_ns = wait->over ? 0 : g4_monotonic_ns() + wait->nvme->poll_ns;
	} else if (wait->looks % LOOKS_PER_CLOCK == 0) {
		wait->over = g4_monotonic_ns() >= wait->until_ns;
	}
	return !wait->over;
}

/* One step between two looks. True: the request is done. */
static bool rest(struct wait *wait)
{
	const struct g4_nvme_provider *provider = &wait->nvme->provider;
	const struct timespec nap = {.tv_nsec = NAP_NS};

	if (polls_on(wait)) {
		g4_pause();
		return false;
	}
	if (provider->work && provider->work(provider->context))
		return false;
	if (g4_nvme_begin_to_sleep(wait->nvme, wait->index))
		return sleep_unless_done(wait);
	nanosleep(&nap, NULL); /* ending early does no harm */
	return false;
}

/* ---- what a wait tells those to come ---- */

static void note_score(struct g4_nvme_waking *waking, bool polled)
{
	const uint32_t score = g4_load32_rlx(&waking->score);
	const uint32_t now = polled ? score + (G4_NVME_SCORE_MOST - score + SCORE_STEP - 1) / SCORE_STEP :
				      score - score / SCORE_STEP;

	if (now != score)
		g4_store32_rlx(&waking->score, now);
}

/* One that ended with its first look says nothing of how long requests take: it may have been submitted long before. */
static void note_polled(struct wait *wait)
{
	struct g4_nvme_waking *waking = wait->waking;

	if (wait->looks > 1)
		note_score(waking, true);
	if (!g4_load32_rlx(&waking->on))
		return;
	const uint32_t polled = g4_load32_rlx(&waking->polled) + 1;
	g4_store32_rlx(&waking->polled, polled);
	if (polled >= POLLED_MOST)
		g4_nvme_turn_off(wait->nvme, wait->index);
}

static void end(struct wait *wait)
{
	struct g4_nvme_waking *waking = wait->waking;

	if (wait->listens) {
		g4_xchg32(&waking->listening, 0);
		if (g4_load32_rlx(&wait->queue->sleepers) > 0)
			g4_nvme_wake(waking);
	}
	if (!wait->over)
		note_polled(wait);
	else if (wait->until_ns)
		note_score(waking, false);
	if (wait->sleeps) {
		g4_add64_rlx(&waking->sleeps, wait->sleeps);
		g4_add64_rlx(&waking->looks, wait->looks);
	}
}

/* For a workgroup that has to wait for a slot of a queue: where it begins the next time. */
static void consider_moving(struct g4_nvme *nvme, const struct g4_wg *wg, uint32_t index)
{
	uint32_t other;

	if (wg && g4_mapper_waited(&nvme->mapper, g4_wg_index(wg), index, &other))
		g4_mapper_move(&nvme->mapper, g4_wg_index(wg), index, g4_slots_load(&nvme->queues[index].pool), other,
			       g4_slots_load(&nvme->queues[other].pool));
}

void g4_nvme_wait(struct g4_nvme *nvme, struct g4_wg *wg, uint32_t index, const struct g4_nvme_target *target,
		  struct g4_io *io)
{
	struct wait wait = {.nvme = nvme,
			    .queue = &nvme->queues[index],
			    .waking = &nvme->waking[index],
			    .target = target,
			    .io = io,
			    .index = index};
	bool waited = false; /* for a slot */

	while (!step(&wait)) {
		if (wait.turn.asked && !waited)
			consider_moving(nvme, wg, index);
		waited = waited || wait.turn.asked;
		if (wait.looks % LOOKS_PER_CHECK == 1 || wait.over) {
			g4_nvme_rung(nvme); /* more of it may have been started */
			g4_nvme_check(nvme);
		}
		if (rest(&wait))
			break;
	}
	g4_nvme_rung(nvme); /* a command of somebody else's may have been sent again */
	end(&wait);
}
