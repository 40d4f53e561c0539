/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions. With the CPU engine each client has threads of its own, so that none waits for another's commands: they take
 * commands in order, one each, and sleep on the client's tail. An engine that runs elsewhere serves the session itself.
 */
#include "ring/session_host.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log_host.h"
#include "base/memory_host.h"
#include "base/thread_host.h"
#include "ring/client_host.h"
#include "ring/polling_host.h"

#define DEFAULT_HANDLES 4096u
#define MAX_THREADS 16u
/* How long a worker looks for the next command before it sleeps. */
#define LEAST_LOOK_NS 5000u /* what a client needs between two commands that it has at hand */
#define MOST_LOOK_NS 50000u
#define SHORT_SLEEP_NS 100000u /* to sleep so long, and to be woken, costs more than to look */
#define HELP_LOOKS 40u	       /* about a microsecond: at a command that the first worker does not take */
#define CLOCK_LOOKS 8u	       /* the clock is slower than a look */

struct worker {
	struct g4_session_host *session;
	struct g4_session_stage *stage;
	pthread_t thread;
	bool first; /* takes commands at once; the others help it */
};

struct g4_session_host {
	const struct g4_session_engine *engine;
	struct g4_session session;
	int ring_fd, data_fd;
	uint64_t ring_bytes;
	uint32_t remote_id;
	uint32_t stop;

	bool alone;	    /* there is one processor: nothing comes while a thread looks for it */
	uint32_t has_first; /* atomic: a worker is the first */
	uint32_t look_ns;   /* atomic: how long the first one looks; set by that one */

	pthread_mutex_t lock; /* of sleeping, and engine_waits, which follows it */
	uint32_t sleeping;
	uint32_t threads; /* workers that there are, or will be in a moment; guarded by lock */
	uint32_t worker_count;
	struct worker workers[MAX_THREADS];
};

struct g4_session *g4_session_of(struct g4_session_host *host)
{
	return &host->session;
}

static struct g4_ring_header *header_of(const struct g4_session_host *host)
{
	return (struct g4_ring_header *)host->session.ring;
}

/* ------------------------------------------------------------------ serving */

int g4_session_claim(struct g4_session *session, uint32_t *number)
{
	uint32_t *tail = &((struct g4_ring_header *)session->ring)->tail;

	for (;;) {
		uint32_t claimed = g4_load32_acq(&session->claimed);
		uint32_t pending = g4_load32_acq(tail) - claimed;

		if (pending == 0)
			return 0;
		if (pending > session->entries) {
			if (g4_load32_acq(&session->claimed) == claimed)
				return -1;
			continue; /* others claimed between the two looks, and the client went on: that is its right */
		}
		*number = claimed + 1;
		if (g4_cas32(&session->claimed, claimed, claimed + 1)) {
			g4_load32_acq(&session->published);
			return 1;
		}
	}
}

static void count_sleeper(struct g4_session_host *host, int change)
{
	pthread_mutex_lock(&host->lock);
	host->sleeping += (uint32_t)change;
	g4_store32_rel(&header_of(host)->engine_waits, host->sleeping == 0	       ? G4_RING_AWAKE :
						       host->sleeping == host->threads ? G4_RING_FUTEX :
											 G4_RING_FUTEX_SOME);
	pthread_mutex_unlock(&host->lock);
}

static bool has_work(const struct g4_session_host *host, uint32_t *claimed)
{
	*claimed = g4_load32_acq(&host->session.claimed);
	return g4_load32_acq(&header_of(host)->tail) != *claimed || g4_load32_acq(&host->stop);
}

/* One worker takes what comes at once, so that a client with one thread has one worker that is awake. */
static bool becomes_first(struct worker *worker)
{
	if (!worker->first)
		worker->first = g4_cas32(&worker->session->has_first, 0, 1);
	return worker->first;
}

static void is_first_no_more(struct worker *worker)
{
	if (worker->first)
		g4_store32_rel(&worker->session->has_first, 0);
	worker->first = false;
}

/* Looks for a command. False: none has come for this worker. */
static bool look(struct worker *worker)
{
	struct g4_session_host *host = worker->session;
	const bool first = becomes_first(worker);
	const uint64_t until = g4_monotonic_ns() + (first ? g4_load32_rlx(&host->look_ns) : LEAST_LOOK_NS);
	uint32_t claimed, seen = 0, pending = 0;

	if (host->alone)
		return has_work(host, &claimed);
	for (uint32_t looks = 1; looks % CLOCK_LOOKS || g4_monotonic_ns() < until; looks++) {
		if (has_work(host, &claimed)) {
			pending = claimed == seen ? pending + 1 : 0;
			seen = claimed;
			if (first || pending >= HELP_LOOKS)
				return true;
		}
		const enum g4_step step = g4_step_aside(&header_of(host)->client_runs_on);
		if (step == G4_STEP_SLEEPS)
			break;
		if (step == G4_STEP_LOOKS)
			g4_pause();
	}
	return false;
}

/* What a longer look would have found makes the next one longer. */
static void learn(struct g4_session_host *host, uint64_t slept_ns)
{
	const uint32_t looked_ns = g4_load32_rlx(&host->look_ns);
	const bool longer = slept_ns < SHORT_SLEEP_NS && looked_ns < MOST_LOOK_NS;

	g4_store32_rlx(&host->look_ns, (uint32_t)(longer ? g4_min64(looked_ns * 2, MOST_LOOK_NS) :
							   g4_max64(looked_ns / 2, LEAST_LOOK_NS)));
}

static void sleep_on_tail(struct worker *worker)
{
	struct g4_session_host *host = worker->session;
	uint32_t claimed;

	count_sleeper(host, 1);
	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* engine_looks and engine_waits before tail */
	/* a stop changes tail, so that it is not missed either */
	if (!has_work(host, &claimed)) {
		const uint64_t since = g4_monotonic_ns();
		const bool first = worker->first;
		is_first_no_more(worker);
		syscall(SYS_futex, &header_of(host)->tail, FUTEX_WAIT, claimed, NULL, NULL, 0);
		if (first)
			learn(host, g4_monotonic_ns() - since);
	}
	count_sleeper(host, -1);
}

/* Until there may be a command to claim. */
static void await_command(struct worker *worker)
{
	uint32_t *looks = &header_of(worker->session)->engine_looks;

	g4_add32(looks, 1);
	const bool found = look(worker);
	__atomic_fetch_sub(looks, 1, __ATOMIC_SEQ_CST);
	if (!found)
		sleep_on_tail(worker);
}

static void wake_client(struct g4_session_host *host, uint32_t number)
{
	struct g4_ring_result *result = g4_ring_result_of(host->session.ring, host->session.entries, number);

	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* the word before client_waits */
	if (g4_load32_acq(&header_of(host)->client_waits))
		syscall(SYS_futex, &result->word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static struct g4_session_stage *make_stage(void)
{
	const uint64_t head = g4_align_up(sizeof(struct g4_session_stage), 64);
	uint8_t *memory = aligned_alloc(64, head + G4_RING_MAX_TEXT + G4_SESSION_STAGE_BYTES);
	struct g4_session_stage *stage = (struct g4_session_stage *)memory;

	if (stage) {
		stage->text = memory + head;
		stage->data = stage->text + G4_RING_MAX_TEXT;
	}
	return stage;
}

static void *serve(void *argument)
{
	struct worker *worker = argument;
	struct g4_session_host *host = worker->session;
	uint32_t number;

	while (!g4_load32_acq(&host->stop)) {
		int got = g4_session_claim(&host->session, &number);
		if (got < 0) {
			g4_store32_rel(&host->session.broken, 1);
			g4_store32_rel(&header_of(host)->state, G4_RING_DEAD);
			break;
		}
		if (got == 0) {
			g4_store32_rlx(&header_of(host)->engine_runs_on, g4_runs_on());
			await_command(worker);
			continue;
		}
		g4_store32_rel(&header_of(host)->engine_claimed, number);
		/* no memory for a workgroup: others will give theirs back */
		while (host->engine->run(host->engine->context, &host->session, number, worker->stage) < 0 &&
		       !g4_load32_acq(&host->stop))
			sched_yield();
		wake_client(host, number);
	}
	return NULL;
}

static uint32_t threads_wanted(const struct g4_session_options *options)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	if (options->threads)
		return (uint32_t)g4_min64(options->threads, MAX_THREADS);
	return (uint32_t)g4_min64(g4_max64(cores > 0 ? (uint64_t)cores : 1, 2), 8);
}

/* One thread more, with all the memory that it needs. */
static bool start_worker(struct g4_session_host *host)
{
	struct worker *worker = &host->workers[host->worker_count];

	*worker = (struct worker){.session = host, .stage = make_stage()};
	if (!worker->stage || g4_thread_start(&worker->thread, serve, worker) != 0) {
		free(worker->stage);
		return false;
	}
	host->worker_count++;
	return true;
}

static int start_workers(struct g4_session_host *host, uint32_t wanted)
{
	host->threads = wanted;
	host->look_ns = LEAST_LOOK_NS;
	host->alone = sysconf(_SC_NPROCESSORS_ONLN) == 1;
	while (host->worker_count < wanted && start_worker(host))
		;
	pthread_mutex_lock(&host->lock);
	host->threads = host->worker_count;
	pthread_mutex_unlock(&host->lock);
	return host->worker_count ? 0 : -G4_E_NOMEM;
}

static void stop_workers(struct g4_session_host *host)
{
	g4_store32_rel(&host->stop, 1);
	/* the client writes tail, too: a value that no sleeper waits for comes in the end */
	for (uint32_t i = 0; i < host->worker_count; i++) {
		do {
			g4_add32(&header_of(host)->tail, 1);
			syscall(SYS_futex, &header_of(host)->tail, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
		} while (pthread_tryjoin_np(host->workers[i].thread, NULL) == EBUSY && usleep(1000) == 0);
		free(host->workers[i].stage);
	}
	host->worker_count = 0;
}

/* ------------------------------------------------------------------ making */

static int make_memory(const char *name, uint64_t bytes, int *fd, uint8_t **memory)
{
	void *map;
	const int rc = g4_memory_share(name, bytes, false, fd, &map);

	if (rc < 0)
		return rc;
	/* advice, which the kernel takes where shmem_enabled says so: a GPU finds its way through large pages faster */
	(void)madvise(map, bytes, MADV_HUGEPAGE);
	*memory = map;
	return 0;
}

static void write_header(const struct g4_session_host *host)
{
	struct g4_ring_header *h = header_of(host);

	h->magic = G4_RING_MAGIC;
	h->version = G4_RING_VERSION;
	h->entries = host->session.entries;
	h->data_bytes = host->session.data_bytes;
	h->handles = host->session.handle_count;
	h->may_act = host->session.flags & G4_SESSION_MAY_ACT ? 1 : 0;
	h->completes = host->engine->run ? 1 : 0;
	g4_store32_rel(&h->state, G4_RING_RUNS);
}

static void free_session(struct g4_session_host *host)
{
	if (host->session.ring)
		munmap(host->session.ring, host->ring_bytes);
	if (host->session.data)
		munmap(host->session.data, host->session.data_bytes);
	if (host->ring_fd >= 0)
		close(host->ring_fd);
	if (host->data_fd >= 0)
		close(host->data_fd);
	free(host->session.handles);
	pthread_mutex_destroy(&host->lock);
	free(host);
}

static int make_parts(struct g4_session_host *host, const struct g4_session_options *options)
{
	host->session.entries = options->entries ? options->entries : G4_RING_DEFAULT_ENTRIES;
	host->session.data_bytes = options->data_bytes ? options->data_bytes : G4_RING_DEFAULT_DATA_BYTES;
	host->session.handle_count = options->handles ? options->handles : DEFAULT_HANDLES;
	if (host->session.entries < 2 || host->session.entries > G4_RING_MAX_ENTRIES ||
	    (host->session.entries & (host->session.entries - 1)) ||
	    host->session.data_bytes < G4_RING_MIN_DATA_BYTES || (host->session.data_bytes & (G4_PAGE_BYTES - 1)))
		return -G4_E_INVAL;
	host->session.bytes_limit = host->session.data_bytes;
	host->session.flags = options->flags;
	host->session.cred = options->cred;
	host->ring_bytes = g4_ring_bytes(host->session.entries);
	host->session.handles = calloc(host->session.handle_count, sizeof(*host->session.handles));
	if (!host->session.handles)
		return -G4_E_NOMEM;
	if (getrandom(host->session.token_key, sizeof(host->session.token_key), 0) !=
	    (ssize_t)sizeof(host->session.token_key))
		return -G4_E_IO;
	int rc = make_memory("gpu4fs-ring", host->ring_bytes, &host->ring_fd, &host->session.ring);
	return rc < 0 ? rc : make_memory("gpu4fs-data", host->session.data_bytes, &host->data_fd, &host->session.data);
}

int g4_session_open(const struct g4_session_engine *engine, const struct g4_session_options *options,
		    struct g4_session_host **out)
{
	struct g4_session_host *host = calloc(1, sizeof(*host));
	int rc;

	if (!host)
		return -G4_E_NOMEM;
	host->engine = engine;
	host->ring_fd = host->data_fd = -1;
	pthread_mutex_init(&host->lock, NULL);
	rc = make_parts(host, options);
	if (rc == 0) {
		write_header(host);
		if (engine->run)
			rc = start_workers(host, threads_wanted(options));
		else
			rc = engine->attach ? engine->attach(engine->context, &host->session, host->ring_bytes,
							     &host->remote_id) :
					      -G4_E_NOTSUP;
	}
	if (rc < 0) {
		free_session(host);
		return rc;
	}
	*out = host;
	return 0;
}

void g4_session_shut(struct g4_session_host *host)
{
	const struct g4_session_engine *engine = host->engine;

	g4_store32_rel(&header_of(host)->state, G4_RING_DEAD);
	if (!engine->run) {
		engine->detach(engine->context, host->remote_id);
	} else {
		stop_workers(host);
		if (engine->close(engine->context, &host->session) < 0)
			g4_log(G4_LOG_ERROR,
			       "out of memory: files of a client stay open until the file system is unmounted");
	}
	free_session(host);
}

void g4_session_rung(struct g4_session_host *host)
{
	if (host->engine->ring_doorbell)
		host->engine->ring_doorbell(host->engine->context);
}

void *g4_session_ring(const struct g4_session_host *host)
{
	return host->session.ring;
}

void *g4_session_data(const struct g4_session_host *host)
{
	return host->session.data;
}

int g4_session_ring_fd(const struct g4_session_host *host)
{
	return host->ring_fd;
}

int g4_session_data_fd(const struct g4_session_host *host)
{
	return host->data_fd;
}

uint64_t g4_session_ring_bytes(const struct g4_session_host *host)
{
	return host->ring_bytes;
}

uint64_t g4_session_data_bytes(const struct g4_session_host *host)
{
	return host->session.data_bytes;
}

void g4_session_mounts_changed(struct g4_session_host *host)
{
	uint32_t *changes = &header_of(host)->mount_changes;

	g4_store32_rel(changes, g4_load32_rlx(changes) + 1);
}
