/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The I/O agent. One thread takes requests out of the shared memory in the order of their posting, gives them to the
 * device, and reports what is complete.
 *
 * Nobody can wake it for a new request: the engine has no system calls. So it looks: for a moment all the time, since a
 * request is often followed by the next, then between naps that grow. Naps end early when the device completes something.
 * A nap costs what looking for 10 to 20 us does, therefore LOOK_NS; a thousand of them a second cost one or two percent of
 * a core. Where the last request came just after that, a client asks for one thing after the other, and looking longer is
 * cheaper than the nap, and saves it half the time of a request. With many requests under way the device has work enough,
 * and what is posted waits for the next completions. While the engine has left (g4_agent_rest()) naps are so long that they cost less than 0.1 %: programs that
 * work on the engine's state without it (device/caller.h) may post a request then.
 *
 * A set of disks is also asked about these; that, and the comparing of rows, takes long, and a thread of its own does it (errand_host.h).
 *
 * The engine's memory is not trusted further than it must be: a request is copied before it is checked, buffers are
 * checked against the areas that the host knows, ranges by dev.c.
 */
#define _GNU_SOURCE 1
#include "dev/agent_host.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/clock_host.h"
#include "base/log_host.h"
#include "base/thread_host.h"
#include "dev/dev_ops_host.h"
#include "dev/errand_host.h"
#include "simt/simt_host.h"

#define CHUNK_BYTES (256 * G4_KIB)
#define LOOK_NS 20000u
#define LONG_LOOK_NS 60000u /* more than a client on the host takes from a result to its next request */
#define NAP_NS 50000u
#define LONGEST_NAP_NS 1000000u
#define REST_NS 20000000u
#define DEEP 8u /* requests under way from which on throughput counts and not the time of one */
#define TIMER_SLACK_NS 5000u

struct flight { /* the request of a slot */
	struct g4_io io;
	struct g4_iov iov;
	struct g4_errand errand; /* the request is that instead of `io` */
	uint32_t area;		 /* that it uses */
	bool under_way;
	bool is_errand;
};

struct area {
	uint8_t *base;
	uint64_t bytes;
	uint32_t users; /* requests under way */
	bool changed;	/* and the thread has not seen it yet */
};
G4_STATIC_ASSERT(G4_REMOTE_AREAS <= G4_QUEUED_BUFFERS, "every area is a buffer of the queue");

struct g4_agent {
	struct g4_dev *inner;
	struct g4_wg *wg;
	uint32_t slots;
	uint64_t chunk_bytes;
	uint64_t memory_bytes;
	uint8_t *memory;
	const uint64_t *posted;
	uint64_t *finished;
	const struct g4_remote_request *requests;

	/* of the thread */
	uint32_t taken;	   /* entries of `posted` */
	uint32_t reported; /* entries of `finished` */
	struct flight flights[G4_REMOTE_SLOTS];
	uint32_t under_way[G4_REMOTE_SLOTS]; /* slots */
	uint32_t under_way_count;
	bool said_nonsense;
	bool owns;		    /* the inner device's queue; constant while the thread runs */
	struct g4_errands *errands; /* NULL: the device is no set */

	pthread_t thread;
	bool runs;
	pthread_mutex_t lock;  /* of all below */
	pthread_cond_t wake;   /* the thread */
	pthread_cond_t unused; /* an area, or seen by the thread */
	uint32_t stopping;     /* also looked at without it */
	uint32_t changed;      /* areas, likewise */
	bool resting;
	struct area areas[G4_REMOTE_AREAS];
	struct g4_agent_counts counts;
};

/* ---- one request ---- */

/* Staging memory needs no counting: it stays. */
static void let_go(struct g4_agent *agent, uint32_t area)
{
	if (area == G4_REMOTE_STAGING)
		return;
	pthread_mutex_lock(&agent->lock);
	if (--agent->areas[area].users == 0)
		pthread_cond_broadcast(&agent->unused);
	pthread_mutex_unlock(&agent->lock);
}

static void report(struct g4_agent *agent, uint32_t slot, int code)
{
	uint32_t number = agent->reported++;

	let_go(agent, agent->flights[slot].area);
	g4_store64_rel_sys(&agent->finished[number % agent->slots],
			   g4_remote_word(number, slot << G4_REMOTE_CODE_BITS | (uint32_t)-code));
}

/* The buffer of a request, in this process; under the lock. */
static int find_buffer(struct g4_agent *agent, const struct g4_remote_request *request, struct flight *flight)
{
	struct area *area = request->area < G4_REMOTE_AREAS ? &agent->areas[request->area] : NULL;

	if (!area || request->at > area->bytes || request->bytes > area->bytes - request->at)
		return -G4_E_INVAL;
	flight->iov.base = area->base + request->at;
	flight->area = request->area;
	area->users += request->area != G4_REMOTE_STAGING;
	agent->counts.placed += request->area != G4_REMOTE_STAGING;
	return 0;
}

static int prepare(struct g4_agent *agent, const struct g4_remote_request *request, struct flight *flight)
{
	const bool asks = g4_remote_asks(request->op);
	const bool data = request->op == G4_IO_READ || request->op == G4_IO_WRITE || asks;
	int code = asks && !agent->errands ? -G4_E_NOTSUP : 0;

	flight->is_errand = agent->errands && g4_errand_is(request);
	flight->area = G4_REMOTE_STAGING;
	flight->io = (struct g4_io){.op = request->op, .flags = request->flags, .offset_bytes = request->offset_bytes};
	pthread_mutex_lock(&agent->lock);
	agent->counts.requests++;
	if (agent->stopping)
		code = -G4_E_IO;
	else if (data && code == 0)
		code = find_buffer(agent, request, flight);
	pthread_mutex_unlock(&agent->lock);
	flight->errand = (struct g4_errand){.request = *request, .message = asks ? flight->iov.base : NULL};
	if (data) {
		flight->iov.bytes = request->bytes;
		flight->io.iov = &flight->iov;
		flight->io.iov_count = 1;
	} else {
		flight->io.discard_bytes = request->bytes;
	}
	return code;
}

static bool is_done(const struct flight *flight)
{
	return g4_load32_acq(flight->is_errand ? &flight->errand.done : &flight->io.done) != 0;
}

/*
 * An errand for which nobody is to wait until a disk is opened: a reader's that met damage, and a writer's who asks for rows. The latter may wait
 * for rows that others were given, who end that without the agent.
 */
static bool is_short(uint32_t op)
{
	return op == G4_REMOTE_WHERE || op == G4_REMOTE_GRANT;
}

/* Gives it to the thread that does it. True: it is done already. */
static bool start(struct g4_agent *agent, struct flight *flight)
{
	if (!flight->is_errand) {
		g4_dev_submit(agent->wg, agent->inner, &flight->io);
	} else if (is_short(flight->errand.request.op)) {
		flight->errand.result = g4_errand_do(agent->wg, agent->inner, &flight->errand);
		g4_store32_rel(&flight->errand.done, 1);
	} else {
		g4_errands_post(agent->errands, &flight->errand);
	}
	return is_done(flight);
}

static int result_of(const struct flight *flight)
{
	return flight->is_errand ? flight->errand.result : flight->io.result;
}

static void begin(struct g4_agent *agent, uint32_t slot)
{
	/* only an engine gone wrong posts these; there is nobody to answer to */
	if (slot >= agent->slots || agent->flights[slot].under_way) {
		if (!agent->said_nonsense)
			g4_log(G4_LOG_ERROR, "the engine posted an impossible request (slot %u)", slot);
		agent->said_nonsense = true;
		return;
	}
	struct flight *flight = &agent->flights[slot];
	const struct g4_remote_request request = agent->requests[slot];
	int code = prepare(agent, &request, flight);

	if (code < 0) {
		report(agent, slot, code);
		return;
	}
	if (start(agent, flight)) {
		report(agent, slot, result_of(flight));
		return;
	}
	flight->under_way = true;
	agent->under_way[agent->under_way_count++] = slot;
}

/* ---- all of them ---- */

/* Begins what was posted, all at once. Returns how many, at most one round of slots. */
static uint32_t take_posted(struct g4_agent *agent)
{
	uint32_t count = 0;

	while (count < agent->slots) {
		uint64_t word = g4_load64_acq_sys(&agent->posted[agent->taken % agent->slots]);
		if (!g4_remote_is(word, agent->taken))
			break;
		if (agent->owns && count == 0)
			g4_queued_hold(agent->inner, true);
		agent->taken++;
		count++;
		begin(agent, (uint32_t)word);
	}
	if (agent->owns && count > 0)
		g4_queued_hold(agent->inner, false);
	return count;
}

/* Reports what is complete. Returns how many. */
static uint32_t report_complete(struct g4_agent *agent)
{
	uint32_t left = 0, count = agent->under_way_count;
	bool polled = false;

	for (uint32_t i = 0; i < count; i++) {
		struct flight *flight = &agent->flights[agent->under_way[i]];
		bool done = is_done(flight);

		/* one look at a file's queue is one for all its requests */
		if (!done && !flight->is_errand && !(polled && g4_queued_is(agent->inner))) {
			done = g4_dev_poll(agent->wg, agent->inner, &flight->io);
			polled = true;
		}
		if (!done) {
			agent->under_way[left++] = agent->under_way[i];
			continue;
		}
		flight->under_way = false;
		report(agent, agent->under_way[i], result_of(flight));
	}
	agent->under_way_count = left;
	return count - left;
}

static void nap(struct g4_agent *agent, uint64_t ns)
{
	const struct timespec time = {.tv_nsec = (long)ns};
	uint32_t count = agent->under_way_count;

	pthread_mutex_lock(&agent->lock);
	agent->counts.naps++;
	pthread_mutex_unlock(&agent->lock);
	if (count > 0 && g4_queued_is(agent->inner))
		g4_queued_doze(agent->inner, 1 + count / 4, ns);
	else
		nanosleep(&time, NULL); /* ending early does no harm */
}

/* Returns early when it is to end. False: it was not resting, nor is now. */
static bool rest(struct g4_agent *agent)
{
	const struct timespec until = g4_clock_after(CLOCK_MONOTONIC, REST_NS);
	bool rested = false;

	pthread_mutex_lock(&agent->lock);
	while (agent->resting && !agent->stopping && !agent->changed) {
		rested = true;
		if (pthread_cond_timedwait(&agent->wake, &agent->lock, &until) == ETIMEDOUT)
			break;
	}
	pthread_mutex_unlock(&agent->lock);
	return rested;
}

/* Registers areas that are new with the device, and takes back those that are gone. */
static void see_areas(struct g4_agent *agent)
{
	if (g4_load32_acq(&agent->changed) == 0)
		return;
	pthread_mutex_lock(&agent->lock);
	for (uint32_t i = 0; i < G4_REMOTE_AREAS; i++) {
		struct area *area = &agent->areas[i];
		if (area->changed && agent->owns)
			g4_queued_register(agent->inner, i, area->base, area->bytes);
		area->changed = false;
	}
	g4_store32_rel(&agent->changed, 0);
	pthread_cond_broadcast(&agent->unused);
	pthread_mutex_unlock(&agent->lock);
}

static void serve(struct g4_agent *agent)
{
	uint64_t busy_at = g4_monotonic_ns(), ns = NAP_NS;
	uint32_t naps = 0; /* since then */
	bool soon = false; /* the last request came before a second one */

	for (;;) {
		bool stopping = g4_load32_acq(&agent->stopping) != 0;
		see_areas(agent);
		uint32_t taken = take_posted(agent);

		if (taken > 0)
			soon = naps <= 1;
		if (taken + report_complete(agent) > 0) {
			busy_at = g4_monotonic_ns();
			naps = 0;
			ns = agent->under_way_count < DEEP ? NAP_NS : LONGEST_NAP_NS;
			continue;
		}
		if (stopping && agent->under_way_count == 0)
			return;
		if (agent->under_way_count < DEEP &&
		    g4_monotonic_ns() - busy_at < (soon && agent->under_way_count == 0 ? LONG_LOOK_NS : LOOK_NS)) {
			g4_pause();
			continue;
		}
		if (agent->under_way_count > 0 || ns < LONGEST_NAP_NS || !rest(agent))
			nap(agent, ns);
		naps++;
		ns = g4_min64(2 * ns, LONGEST_NAP_NS);
	}
}

static void *run(void *argument)
{
	struct g4_agent *agent = argument;

	/* as delivered, naps are half as long again; a refusal does no harm */
	(void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
	agent->owns = g4_queued_is(agent->inner) && g4_queued_own(agent->inner);
	serve(agent);
	if (agent->owns)
		g4_queued_disown(agent->inner);
	return NULL;
}

/* ---- opening and closing ---- */

static int start_thread(struct g4_agent *agent)
{
	agent->runs = g4_thread_start(&agent->thread, run, agent) == 0;
	return agent->runs ? 0 : -G4_E_NOMEM;
}

static bool map_memory(struct g4_agent *agent)
{
	const struct g4_remote_layout layout = g4_remote_layout(agent->slots, agent->chunk_bytes);
	void *memory = mmap(NULL, layout.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return false;
	(void)madvise(memory, layout.bytes, MADV_HUGEPAGE); /* cheaper for the device; a refusal does no harm */
	agent->memory = memory;
	agent->memory_bytes = layout.bytes;
	agent->posted = memory;
	agent->finished = (uint64_t *)(agent->memory + layout.finished_at);
	agent->requests = (const struct g4_remote_request *)(agent->memory + layout.requests_at);
	agent->areas[G4_REMOTE_STAGING] = (struct area){
		.base = agent->memory + layout.staging_at, .bytes = agent->slots * agent->chunk_bytes, .changed = true};
	agent->changed = 1;
	return true;
}

/* A set's words are where the engine sees them. */
static void use_words(struct g4_agent *agent, uint32_t *words)
{
	struct g4_dev *inner = agent->inner;

	if (inner->ops && inner->ops->use_words)
		inner->ops->use_words(inner, words);
}

int g4_agent_open(struct g4_dev *inner, const struct g4_agent_options *options, struct g4_agent **out)
{
	struct g4_agent *agent = calloc(1, sizeof(*agent));
	pthread_condattr_t clock;

	if (!agent)
		return -G4_E_NOMEM;
	agent->inner = inner;
	agent->resting = true;
	agent->slots = options && options->slots ? options->slots : G4_REMOTE_SLOTS;
	agent->chunk_bytes = options && options->chunk_bytes ? options->chunk_bytes : CHUNK_BYTES;
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&agent->wake, &clock);
	pthread_condattr_destroy(&clock);
	pthread_cond_init(&agent->unused, NULL);
	pthread_mutex_init(&agent->lock, NULL);
	agent->wg = g4_wg_create(0);
	const bool is_set = g4_dev_props(inner)->disks > 0;
	if (is_set)
		agent->errands = g4_errands_open(inner);
	if (!agent->wg || (is_set && !agent->errands) || !map_memory(agent) || start_thread(agent) < 0) {
		g4_agent_close(agent);
		return -G4_E_NOMEM;
	}
	use_words(agent, (uint32_t *)(agent->memory + g4_remote_layout(agent->slots, agent->chunk_bytes).words_at));
	*out = agent;
	return 0;
}

void g4_agent_close(struct g4_agent *agent)
{
	if (!agent)
		return;
	if (agent->runs) {
		pthread_mutex_lock(&agent->lock);
		g4_store32_rel(&agent->stopping, 1);
		pthread_cond_signal(&agent->wake);
		pthread_mutex_unlock(&agent->lock);
		pthread_join(agent->thread, NULL);
	}
	g4_errands_close(agent->errands);
	if (agent->memory)
		use_words(agent, NULL);
	g4_wg_destroy(agent->wg);
	if (agent->memory)
		munmap(agent->memory, agent->memory_bytes);
	pthread_cond_destroy(&agent->unused);
	pthread_cond_destroy(&agent->wake);
	pthread_mutex_destroy(&agent->lock);
	free(agent);
}

/* ---- what others ask and tell ---- */

void *g4_agent_memory(const struct g4_agent *agent, uint64_t *bytes)
{
	*bytes = agent->memory_bytes;
	return agent->memory;
}

static void close_remote(struct g4_dev *dev)
{
	struct g4_agent *agent = dev->host;
	struct g4_dev *inner = agent->inner;

	g4_agent_close(agent);
	free(dev->remote);
	free(dev);
	g4_dev_close(inner);
}

static const struct g4_dev_ops remote_ops = {.submit = g4_remote_submit,
					     .poll = g4_remote_poll,
					     .wait = g4_remote_wait,
					     .disks_at = g4_remote_disks_at,
					     .order = g4_remote_order,
					     .layout = g4_remote_layout_of,
					     .grant = g4_remote_grant,
					     .close = close_remote};

void g4_agent_describe(const struct g4_agent *agent, void *memory, struct g4_remote *remote,
		       struct g4_remote *remote_at, struct g4_dev *dev)
{
	g4_remote_init(remote, memory, agent->slots, agent->chunk_bytes);
	/* a GPU has no use for the functions; threads that stand in for one have */
	*dev = (struct g4_dev){.props = agent->inner->props, .ops = &remote_ops, .remote = remote_at};
	dev->props.mapped = false;
}

void g4_agent_set_area(struct g4_agent *agent, uint32_t index, void *base, uint64_t bytes)
{
	struct area *area = &agent->areas[index];

	pthread_mutex_lock(&agent->lock);
	area->bytes = 0;
	while (area->users > 0)
		pthread_cond_wait(&agent->unused, &agent->lock);
	*area = (struct area){.base = base, .bytes = bytes, .changed = true};
	g4_store32_rel(&agent->changed, 1);
	pthread_cond_signal(&agent->wake);
	while (area->changed) /* the memory may go when this returns */
		pthread_cond_wait(&agent->unused, &agent->lock);
	pthread_mutex_unlock(&agent->lock);
}

void g4_agent_place(struct g4_agent *agent, g4_errand_found *found, void *context)
{
	if (agent->errands)
		g4_errands_place(agent->errands, found, context);
}

void g4_agent_rest(struct g4_agent *agent, bool resting)
{
	pthread_mutex_lock(&agent->lock);
	agent->resting = resting;
	pthread_cond_signal(&agent->wake);
	pthread_mutex_unlock(&agent->lock);
}

struct g4_agent_counts g4_agent_counts(struct g4_agent *agent)
{
	struct g4_agent_counts counts;

	pthread_mutex_lock(&agent->lock);
	counts = agent->counts;
	pthread_mutex_unlock(&agent->lock);
	return counts;
}

/* ---- a device of this process ---- */

int g4_dev_remote_open(struct g4_dev *inner, const struct g4_agent_options *options, struct g4_dev **out)
{
	struct g4_remote *remote = aligned_alloc(128, g4_align_up(sizeof(*remote), 128));
	struct g4_dev *dev = calloc(1, sizeof(*dev));
	struct g4_agent *agent = NULL;
	uint64_t bytes;
	int rc = -G4_E_NOMEM;

	if (remote && dev)
		rc = g4_agent_open(inner, options, &agent);
	if (rc < 0) {
		free(remote);
		free(dev);
		return rc;
	}
	g4_agent_describe(agent, g4_agent_memory(agent, &bytes), remote, remote, dev);
	dev->host = agent;
	g4_agent_rest(agent, false);
	*out = dev;
	return 0;
}

struct g4_agent *g4_dev_remote_agent(struct g4_dev *dev)
{
	return dev->host;
}
