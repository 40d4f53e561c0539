/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Abort, reset and death (recovery_host.h).
 *
 * A controller is stopped first (CC.EN, or its provider if it does not obey). Only then commands are sent again, or fail: buffers go
 * back to their owners when nothing writes to them any more.
 */
#define _GNU_SOURCE 1
#include <time.h>

#include "base/log_host.h"
#include "base/thread_host.h"
#include "dev/nvme/events_host.h"
#include "dev/nvme/lanes.h"
#include "dev/nvme/patience_host.h"
#include "dev/nvme/recovery_host.h"
#include "dev/nvme/waking_host.h"

#define CHECK_NS UINT64_C(10000000)
#define HOUR_NS UINT64_C(3600000000000)
#define GONE_NS UINT64_C(1000000000)
#define NAP_NS 50000
#define SILENT "the controller does not answer in time"

/* ---- queues: nobody else looks at their completions meanwhile ---- */

static void begin_to_look(struct g4_nvme_queue *queue)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};

	while (!g4_slots_try_look(&queue->pool))
		nanosleep(&nap, NULL); /* ending early does no harm */
}

static void pause_queues(struct g4_nvme *nvme)
{
	uint32_t loses = 0;

	for (uint32_t i = 0; i < nvme->queue_count; i++) {
		begin_to_look(&nvme->queues[i]);
		loses |= g4_nvme_flight_pause(&nvme->queues[i].flight);
		g4_slots_looked(&nvme->queues[i].pool);
	}
	for (uint32_t s = 0; s < G4_NVME_SPACES_MOST; s++)
		if (loses >> s & 1)
			g4_store32_rel(&nvme->caches[s].lost, G4_NVME_LOST);
}

static void restart_queues(struct g4_nvme *nvme)
{
	for (uint32_t i = 0; i < nvme->queue_count; i++) {
		begin_to_look(&nvme->queues[i]);
		g4_nvme_flight_restart(&nvme->queues[i].flight);
		g4_slots_looked(&nvme->queues[i].pool);
	}
	g4_nvme_wake_all(nvme);
}

/* ---- the thread ---- */

static void die(struct g4_nvme *nvme, bool stopped)
{
	g4_log(G4_LOG_ERROR, "%s: %s; all requests to it fail until it is opened again", nvme->name, nvme->finding.why);
	if (!stopped)
		g4_nvme_stop(nvme);
	for (uint32_t i = 0; i < nvme->queue_count; i++) {
		begin_to_look(&nvme->queues[i]);
		nvme->queues[i].flight.dead = 1;
		g4_slots_looked(&nvme->queues[i].pool);
	}
	g4_nvme_wake_all(nvme);
}

static bool may_reset(struct g4_nvme *nvme)
{
	const uint64_t now = g4_monotonic_ns();

	if (now - nvme->hour_ns >= HOUR_NS) {
		nvme->hour_ns = now;
		nvme->resets = 0;
	}
	return nvme->resets++ < nvme->resets_most;
}

/* A function that is reset through PCI reads all ones for a moment. */
static bool is_there(const struct g4_nvme *nvme)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};
	struct g4_patience patience = g4_patience(GONE_NS, g4_monotonic_ns());

	while (g4_nvme_csts(nvme) == G4_NVME_GONE) {
		if (!g4_patience_lasts(&patience, g4_monotonic_ns()))
			return false;
		nanosleep(&nap, NULL);
	}
	return true;
}

static struct g4_nvme_cache *lanes_cache(struct g4_nvme *nvme)
{
	return &nvme->caches[nvme->lanes_space];
}

static bool has_lost(const struct g4_nvme *nvme)
{
	bool lost = false;

	for (uint32_t s = 0; s < G4_NVME_SPACES_MOST; s++)
		lost = lost || g4_load32_acq(&nvme->caches[s].lost);
	return lost;
}

/* Lanes have not said whether they lost something: until they have, a flush of the host's succeeds no more than after a loss. */
static void note_reset(struct g4_nvme *nvme)
{
	g4_store32_rel(&nvme->reset, nvme->reset + 1);
	if (nvme->lanes_taken && lanes_cache(nvme)->is_volatile)
		g4_cas32(&lanes_cache(nvme)->lost, 0, G4_NVME_UNSURE);
	if (nvme->lanes_taken)
		return;
	nvme->lanes_reset = nvme->reset;
	nvme->lanes_used = false;
}

static bool reset(struct g4_nvme *nvme)
{
	char text[256];
	const struct g4_dev_message message = {.text = text, .bytes = sizeof(text)};
	bool stopped = false;

	pause_queues(nvme);
	while (may_reset(nvme) && is_there(nvme)) {
		g4_log(G4_LOG_WARN, "%s: %s; it is reset (%u of at most %u an hour)%s", nvme->name, nvme->finding.why,
		       nvme->resets, nvme->resets_most,
		       has_lost(nvme) ? ": what it has not flushed counts as lost" : "");
		stopped = true;
		if (!g4_nvme_stop(nvme))
			break;
		if (g4_nvme_start_again(nvme, nvme->queue_count + (nvme->lanes_taken ? 0 : nvme->lane_count),
					message) == 0) {
			note_reset(nvme);
			restart_queues(nvme);
			return true;
		}
		g4_log(G4_LOG_WARN, "%s", text);
		stopped = false;
	}
	die(nvme, stopped);
	return false;
}

/* What is under way is not sent again: it fails, as all that comes later. What is complete, the controller has kept. */
static bool leave(struct g4_nvme *nvme)
{
	pause_queues(nvme);
	if (g4_nvme_csts(nvme) != G4_NVME_GONE)
		g4_nvme_shut_down(nvme);
	die(nvme, false);
	return false;
}

/* Noted here, where nothing else is done meanwhile: a command that is noted is aborted. Lanes note theirs. */
static enum g4_nvme_lateness note_late(struct g4_nvme *nvme)
{
	const struct g4_nvme_finding *finding = &nvme->finding;

	if (finding->queue >= nvme->queue_count)
		return G4_NVME_LATE;
	return g4_nvme_flight_give_time(&nvme->queues[finding->queue].flight, finding->late,
					g4_max64(finding->now_ns, g4_monotonic_ns()));
}

/*
 * False: that is not enough, or there is no answer. The command that is aborted ends with a completion of its own; one that has ended by itself
 * is left in peace.
 */
static bool abort_late(struct g4_nvme *nvme)
{
	if (nvme->finding.late == 0)
		return false;
	const enum g4_nvme_lateness lateness = note_late(nvme);
	if (lateness != G4_NVME_LATE)
		return lateness == G4_NVME_NOT_LATE;
	g4_log(G4_LOG_WARN, "%s: a command is late, and is to be aborted", nvme->name);
	g4_add64(&nvme->aborted, 1);
	return g4_nvme_abort(nvme, nvme->finding.queue, nvme->finding.late - 1);
}

/* What is less than a reset. */
static bool is_enough(struct g4_nvme *nvme)
{
	return nvme->finding.event ? g4_nvme_hear_event(nvme, &nvme->finding.why) : abort_late(nvme);
}

static void *recover(void *context)
{
	struct g4_nvme *nvme = context;

	pthread_mutex_lock(&nvme->admin_lock);
	const bool works = nvme->finding.leaves ? leave(nvme) : is_enough(nvme) || reset(nvme);
	pthread_mutex_unlock(&nvme->admin_lock);
	g4_store32_rlx(&nvme->mended, nvme->mended + 1);
	g4_store32_rel(&nvme->state, works ? G4_NVME_WORKS : G4_NVME_DEAD);
	return NULL;
}

/* The state is this caller's to change back. If no thread can be had now, somebody will try again: what is wrong stays so. */
static bool start_thread(struct g4_nvme *nvme, const struct g4_nvme_finding *finding)
{
	bool runs;

	pthread_mutex_lock(&nvme->start_lock);
	if (nvme->thread_runs)
		pthread_join(nvme->thread, NULL); /* nothing is left to it but to end */
	nvme->finding = *finding;
	nvme->thread_runs = runs = g4_thread_start(&nvme->thread, recover, nvme) == 0;
	if (!runs)
		g4_store32_rel(&nvme->state, G4_NVME_WORKS);
	pthread_mutex_unlock(&nvme->start_lock);
	return runs;
}

/* ---- looking ---- */

static const char *what_is_wrong(uint32_t csts)
{
	if (csts == G4_NVME_GONE)
		return "the controller is gone: its registers read all ones";
	if (csts & G4_NVME_CSTS_CFS)
		return "the controller reports that it has failed";
	return csts & G4_NVME_CSTS_RDY ? NULL : "the controller was reset by somebody else";
}

/* Controllers that are being recovered, or are dead, have nothing wrong. */
bool g4_nvme_find(struct g4_nvme *nvme, uint64_t now_ns, struct g4_nvme_finding *finding)
{
	*finding = (struct g4_nvme_finding){.mended = g4_load32_acq(&nvme->mended), .now_ns = now_ns};
	if (g4_load32_acq(&nvme->state) != G4_NVME_WORKS)
		return false;
	finding->why = what_is_wrong(g4_nvme_csts(nvme));
	for (uint32_t i = 0; i < nvme->queue_count && !finding->why; i++) {
		finding->late = g4_nvme_overdue(&nvme->queues[i], now_ns, nvme->timeout_ns);
		finding->queue = i;
		finding->why = finding->late ? SILENT : NULL; /* others' turn comes when this is over */
	}
	if (!finding->why && (finding->event = g4_nvme_has_event(nvme)))
		finding->why = "the controller reports an event";
	return finding->why != NULL;
}

/* False: something else is done about the controller now, or was since the look, or no thread could be had. */
bool g4_nvme_mend(struct g4_nvme *nvme, const struct g4_nvme_finding *finding)
{
	if (!g4_cas32(&nvme->state, G4_NVME_WORKS, G4_NVME_RECOVERS))
		return false;
	if (g4_load32_rlx(&nvme->mended) == finding->mended)
		return start_thread(nvme, finding);
	g4_store32_rel(&nvme->state, G4_NVME_WORKS);
	return false;
}

void g4_nvme_check_at(struct g4_nvme *nvme, uint64_t now_ns)
{
	struct g4_nvme_finding finding;

	if (g4_nvme_find(nvme, now_ns, &finding))
		g4_nvme_mend(nvme, &finding);
}

void g4_nvme_check(struct g4_nvme *nvme)
{
	const uint64_t now = g4_monotonic_ns(), due = g4_load64_rlx(&nvme->next_check_ns);

	if (now >= due && g4_cas64(&nvme->next_check_ns, due, now + CHECK_NS))
		g4_nvme_check_at(nvme, now);
}

/* ---- lanes ---- */

static bool make_lanes_queues(struct g4_nvme *nvme)
{
	const struct g4_dev_message none = {0};

	if (nvme->lanes_reset == nvme->reset)
		return true;
	for (uint32_t i = 0; i < nvme->lane_count; i++)
		if (g4_nvme_make_queue(nvme, nvme->queue_count + i, none) < 0)
			return false;
	nvme->lanes_reset = nvme->reset;
	return true;
}

bool g4_nvme_take_lanes(struct g4_nvme *nvme, uint32_t space)
{
	pthread_mutex_lock(&nvme->admin_lock);
	const bool taken = !nvme->lanes_taken && !nvme->lanes_used && g4_load32_acq(&nvme->state) != G4_NVME_DEAD &&
			   make_lanes_queues(nvme);
	if (taken) {
		nvme->lanes_space = space;
		nvme->lanes_taken = true;
	}
	pthread_mutex_unlock(&nvme->admin_lock);
	return taken;
}

void g4_nvme_leave_lanes(struct g4_nvme *nvme, bool used)
{
	pthread_mutex_lock(&nvme->admin_lock);
	nvme->lanes_used = nvme->lanes_used || used;
	/* they will say no more whether they lost something, nor whether they have written what nobody has flushed */
	g4_cas32(&lanes_cache(nvme)->lost, G4_NVME_UNSURE, G4_NVME_LOST);
	if (used)
		g4_store32_rel(&lanes_cache(nvme)->dirty, 1);
	nvme->lanes_taken = false;
	pthread_cond_broadcast(&nvme->lanes_left);
	pthread_mutex_unlock(&nvme->admin_lock);
}

void g4_nvme_await_lanes(struct g4_nvme *nvme)
{
	pthread_mutex_lock(&nvme->admin_lock);
	if (nvme->lanes_taken)
		g4_log(G4_LOG_WARN, "%s: the system waits for it until it is closed: a GPU has its registers",
		       nvme->name);
	while (nvme->lanes_taken)
		pthread_cond_wait(&nvme->lanes_left, &nvme->admin_lock);
	pthread_mutex_unlock(&nvme->admin_lock);
}

static uint32_t flags_for_lanes(struct g4_nvme *nvme, uint32_t said)
{
	if (nvme->lanes_reset != nvme->reset && said >> G4_NVME_RESET_SHIFT != nvme->reset)
		return 0;
	if (said & G4_NVME_SAID_LOST)
		g4_store32_rel(&lanes_cache(nvme)->lost, G4_NVME_LOST);
	else
		g4_cas32(&lanes_cache(nvme)->lost, G4_NVME_UNSURE, 0);
	const struct g4_nvme_finding refused = {.why = "the controller refuses to make a queue again",
						.mended = g4_load32_acq(&nvme->mended)};
	if (!make_lanes_queues(nvme)) {
		g4_nvme_mend(nvme, &refused);
		return 0;
	}
	return G4_NVME_TOLD_READY | (g4_load32_acq(&lanes_cache(nvme)->lost) ? G4_NVME_TOLD_LOST : 0) |
	       (g4_load32_acq(&lanes_cache(nvme)->shut) ? G4_NVME_TOLD_SHUT : 0);
}

uint32_t g4_nvme_tell_lanes(struct g4_nvme *nvme, uint32_t said, uint32_t told)
{
	if (pthread_mutex_trylock(&nvme->admin_lock) != 0)
		return told;
	const uint32_t state = g4_load32_acq(&nvme->state);
	if (state == G4_NVME_DEAD)
		told |= G4_NVME_TOLD_DEAD;
	else if (state == G4_NVME_WORKS)
		told = nvme->reset << G4_NVME_RESET_SHIFT | flags_for_lanes(nvme, said);
	pthread_mutex_unlock(&nvme->admin_lock);
	return told;
}

bool g4_nvme_lanes_late(struct g4_nvme *nvme, uint32_t index, uint32_t late, uint32_t reset)
{
	const struct g4_nvme_finding finding = {.why = SILENT,
						.mended = g4_load32_acq(&nvme->mended),
						.late = late,
						.queue = nvme->queue_count + index,
						.now_ns = g4_monotonic_ns()};

	return g4_load32_acq(&nvme->reset) == reset && g4_nvme_mend(nvme, &finding);
}
