/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions. With the CPU engine each client has threads of its own, so that none waits for another's commands: they take
 * commands in order, one each, and sleep on the client's tail. An engine that runs elsewhere serves the session itself.
 */
#include "engine/session_host.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log_host.h"
#include "engine/engine_ops_host.h"

#define DEFAULT_HANDLES 4096u
#define MAX_THREADS 16u
#define SPIN_PAUSES 200u /* a few microseconds: what a client needs between two commands */

struct worker {
	struct g4_session_host *session;
	struct g4_session_stage *stage;
	pthread_t thread;
};

struct g4_session_host {
	struct g4_engine *engine;
	struct g4_session session;
	int ring_fd, data_fd;
	uint64_t ring_bytes;
	uint32_t remote_id;
	uint32_t stop;

	pthread_mutex_t lock; /* of sleeping, and engine_waits, which follows it */
	uint32_t sleeping;
	uint32_t worker_count;
	struct worker workers[MAX_THREADS];
};

static struct g4_ring_header *header_of(const struct g4_session_host *p)
{
	return (struct g4_ring_header *)p->session.ring;
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

static void count_sleeper(struct g4_session_host *p, int change)
{
	pthread_mutex_lock(&p->lock);
	p->sleeping += (uint32_t)change;
	g4_store32_rel(&header_of(p)->engine_waits, p->sleeping ? G4_RING_FUTEX : G4_RING_AWAKE);
	pthread_mutex_unlock(&p->lock);
}

static void sleep_on_tail(struct g4_session_host *p)
{
	uint32_t *tail = &header_of(p)->tail;

	for (uint32_t i = 0; i < SPIN_PAUSES; i++) {
		if (g4_load32_acq(tail) != g4_load32_acq(&p->session.claimed) || g4_load32_acq(&p->stop))
			return;
		g4_pause();
	}
	count_sleeper(p, 1);
	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* engine_waits before tail */
	uint32_t claimed = g4_load32_acq(&p->session.claimed);
	/* a stop changes tail, so that it is not missed either */
	if (!g4_load32_acq(&p->stop))
		syscall(SYS_futex, tail, FUTEX_WAIT, claimed, NULL, NULL, 0);
	count_sleeper(p, -1);
}

static void wake_client(struct g4_session_host *p, uint32_t number)
{
	struct g4_ring_result *result = g4_ring_result_of(p->session.ring, p->session.entries, number);

	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* the word before client_waits */
	if (g4_load32_acq(&header_of(p)->client_waits))
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
	struct g4_session_host *p = worker->session;
	uint32_t number;

	while (!g4_load32_acq(&p->stop)) {
		int got = g4_session_claim(&p->session, &number);
		if (got < 0) {
			g4_store32_rel(&p->session.broken, 1);
			g4_store32_rel(&header_of(p)->state, G4_RING_DEAD);
			break;
		}
		if (got == 0) {
			sleep_on_tail(p);
			continue;
		}
		/* no memory for a workgroup: others will give theirs back */
		while (g4_engine_serve_command(p->engine, &p->session, number, worker->stage) < 0 &&
		       !g4_load32_acq(&p->stop))
			sched_yield();
		wake_client(p, number);
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
static bool start_worker(struct g4_session_host *p)
{
	struct worker *worker = &p->workers[p->worker_count];

	*worker = (struct worker){.session = p, .stage = make_stage()};
	if (!worker->stage || pthread_create(&worker->thread, NULL, serve, worker) != 0) {
		free(worker->stage);
		return false;
	}
	p->worker_count++;
	return true;
}

static int start_workers(struct g4_session_host *p, uint32_t wanted)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (p->worker_count < wanted && start_worker(p))
		;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return p->worker_count ? 0 : -G4_E_NOMEM;
}

static void stop_workers(struct g4_session_host *p)
{
	g4_store32_rel(&p->stop, 1);
	/* the client writes tail, too: a value that no sleeper waits for comes in the end */
	for (uint32_t i = 0; i < p->worker_count; i++) {
		do {
			g4_add32(&header_of(p)->tail, 1);
			syscall(SYS_futex, &header_of(p)->tail, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
		} while (pthread_tryjoin_np(p->workers[i].thread, NULL) == EBUSY && usleep(1000) == 0);
		free(p->workers[i].stage);
	}
	p->worker_count = 0;
}

/* ------------------------------------------------------------------ making */

/* Shared memory that cannot change its size, for whose users a truncation would be a fault. */
static int make_memory(const char *name, uint64_t bytes, int *fd, uint8_t **memory)
{
	*fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*fd < 0)
		return -G4_E_NOMEM;
	if (ftruncate(*fd, (off_t)bytes) != 0 ||
	    fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
		return -G4_E_NOMEM;
	void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (map == MAP_FAILED)
		return -G4_E_NOMEM;
	/* advice, which the kernel takes where shmem_enabled says so: a GPU finds its way through large pages faster */
	(void)madvise(map, bytes, MADV_HUGEPAGE);
	*memory = map;
	return 0;
}

static void write_header(const struct g4_session_host *p)
{
	struct g4_ring_header *h = header_of(p);

	h->magic = G4_RING_MAGIC;
	h->version = G4_RING_VERSION;
	h->entries = p->session.entries;
	h->data_bytes = p->session.data_bytes;
	h->handles = p->session.handle_count;
	h->may_act = p->session.flags & G4_SESSION_MAY_ACT ? 1 : 0;
	h->completes = g4_engine_backend(p->engine) ? 0 : 1;
	g4_store32_rel(&h->state, G4_RING_RUNS);
}

static void free_session(struct g4_session_host *p)
{
	if (p->session.ring)
		munmap(p->session.ring, p->ring_bytes);
	if (p->session.data)
		munmap(p->session.data, p->session.data_bytes);
	if (p->ring_fd >= 0)
		close(p->ring_fd);
	if (p->data_fd >= 0)
		close(p->data_fd);
	free(p->session.handles);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

static int make_parts(struct g4_session_host *p, const struct g4_session_options *options)
{
	p->session.entries = options->entries ? options->entries : G4_RING_DEFAULT_ENTRIES;
	p->session.data_bytes = options->data_bytes ? options->data_bytes : G4_RING_DEFAULT_DATA_BYTES;
	p->session.handle_count = options->handles ? options->handles : DEFAULT_HANDLES;
	if (p->session.entries < 2 || p->session.entries > G4_RING_MAX_ENTRIES ||
	    (p->session.entries & (p->session.entries - 1)) || p->session.data_bytes < G4_RING_MIN_DATA_BYTES ||
	    (p->session.data_bytes & (G4_PAGE_BYTES - 1)))
		return -G4_E_INVAL;
	p->session.bytes_limit = p->session.data_bytes;
	p->session.flags = options->flags;
	p->session.cred = options->cred;
	p->ring_bytes = g4_ring_bytes(p->session.entries);
	p->session.handles = calloc(p->session.handle_count, sizeof(*p->session.handles));
	if (!p->session.handles)
		return -G4_E_NOMEM;
	if (getrandom(p->session.token_key, sizeof(p->session.token_key), 0) != (ssize_t)sizeof(p->session.token_key))
		return -G4_E_IO;
	int rc = make_memory("gpu4fs-ring", p->ring_bytes, &p->ring_fd, &p->session.ring);
	return rc < 0 ? rc : make_memory("gpu4fs-data", p->session.data_bytes, &p->data_fd, &p->session.data);
}

int g4_session_open(struct g4_engine *engine, const struct g4_session_options *options, struct g4_session_host **out)
{
	struct g4_engine_backend *backend = g4_engine_backend(engine);
	struct g4_session_host *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return -G4_E_NOMEM;
	p->engine = engine;
	p->ring_fd = p->data_fd = -1;
	pthread_mutex_init(&p->lock, NULL);
	rc = make_parts(p, options);
	if (rc == 0) {
		write_header(p);
		if (!backend)
			rc = start_workers(p, threads_wanted(options));
		else
			rc = backend->attach ?
				     backend->attach(backend->context, &p->session, p->ring_bytes, &p->remote_id) :
				     -G4_E_NOTSUP;
	}
	if (rc < 0) {
		free_session(p);
		return rc;
	}
	*out = p;
	return 0;
}

void g4_session_shut(struct g4_session_host *p)
{
	struct g4_engine_backend *backend = g4_engine_backend(p->engine);

	g4_store32_rel(&header_of(p)->state, G4_RING_DEAD);
	if (backend) {
		backend->detach(backend->context, p->remote_id);
	} else {
		stop_workers(p);
		if (g4_engine_close_session(p->engine, &p->session) < 0)
			g4_log(G4_LOG_ERROR,
			       "out of memory: files of a client stay open until the file system is unmounted");
	}
	free_session(p);
}

void g4_session_rung(struct g4_session_host *p)
{
	struct g4_engine_backend *backend = g4_engine_backend(p->engine);

	if (backend && backend->ring_doorbell)
		backend->ring_doorbell(backend->context);
}

void *g4_session_ring(const struct g4_session_host *p)
{
	return p->session.ring;
}

void *g4_session_data(const struct g4_session_host *p)
{
	return p->session.data;
}

int g4_session_ring_fd(const struct g4_session_host *p)
{
	return p->ring_fd;
}

int g4_session_data_fd(const struct g4_session_host *p)
{
	return p->data_fd;
}

uint64_t g4_session_ring_bytes(const struct g4_session_host *p)
{
	return p->ring_bytes;
}

uint64_t g4_session_data_bytes(const struct g4_session_host *p)
{
	return p->session.data_bytes;
}
