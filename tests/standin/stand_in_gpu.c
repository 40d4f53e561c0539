/* SPDX-License-Identifier: Apache-2.0 */
/* The threads do what the warps of gpu/kernel.cu do; the queue between them is the sessions' own counters. */
#include "stand_in_gpu.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "dev/nvme/lanes.h"
#include "fs/fs.h"
#include "ring/execute.h"
#include "simt/simt_host.h"

#define WORKERS 3u
#define PIECES 1024u	 /* of device memory, at a time */
#define EAGER_ROUNDS 64u /* of the dispatcher without anything new, before it rests between two */
#define REST_NS 20000
#define HOUSE_NS 200000

struct stand_in stand_in;

struct piece {
	void *memory; /* NULL: the place is free */
	uint64_t bytes;
};

struct worker {
	struct g4_gpu *gpu;
	struct g4_wg *wg;
	struct g4_session_stage *stage;
	pthread_t thread;
};

struct g4_gpu {
	struct g4_gpu_control *control;
	struct g4_session *sessions;
	struct g4_fs *fs;
	uint64_t commit_ns, idle_ns;
	uint32_t scratch_bytes;
	struct worker workers[WORKERS], keeper;
	uint32_t works; /* a job runs */
	pthread_t kernel;
	bool launched; /* and not waited for */

	pthread_mutex_t lock; /* of all below, of claiming commands, and of the pieces */
	pthread_cond_t work;  /* for workers: commands came, or the kernel leaves */
	pthread_cond_t ended; /* the kernel did */
	bool running, quit;
	uint32_t sync_wanted, sync_done, close_wanted, close_done; /* as in kernel.cu */
	struct piece pieces[PIECES];
};

/* ------------------------------------------------------------------ the kernel */

static void rest(long ns)
{
	const struct timespec pause = {.tv_nsec = ns};

	nanosleep(&pause, NULL);
}

static __thread const char *last_error = "this thread has seen no failure";

static int refused(const char *why)
{
	last_error = why;
	return -G4_E_IO;
}

static bool has_faulted(void)
{
	return g4_load32_acq(&stand_in.fault) != 0;
}

static struct g4_ring_header *header_of(const struct g4_session *session)
{
	return (struct g4_ring_header *)session->ring;
}

/* A command that nobody has begun. The lock is held. */
static struct g4_session *claim(struct g4_gpu *gpu, uint32_t *number)
{
	for (uint32_t i = 0; i < G4_GPU_SESSIONS; i++) {
		struct g4_session *session = &gpu->sessions[i];

		if (session->claimed == session->tail)
			continue;
		*number = ++session->claimed;
		g4_load32_acq(&session->published); /* see ring.c */
		return session;
	}
	return NULL;
}

static void *work(void *argument)
{
	struct worker *worker = argument;
	struct g4_gpu *gpu = worker->gpu;
	uint32_t number;

	pthread_mutex_lock(&gpu->lock);
	while (!gpu->quit && !has_faulted()) {
		struct g4_session *session = claim(gpu, &number);
		if (!session) {
			pthread_cond_wait(&gpu->work, &gpu->lock);
			continue;
		}
		pthread_mutex_unlock(&gpu->lock);
		g4_session_execute(worker->wg, gpu->fs, session, number, worker->stage);
		pthread_mutex_lock(&gpu->lock);
	}
	pthread_mutex_unlock(&gpu->lock);
	return NULL;
}

static bool any_busy(struct g4_gpu *gpu)
{
	bool busy = false;

	pthread_mutex_lock(&gpu->lock); /* sessions come meanwhile */
	for (uint32_t i = 0; i < G4_GPU_SESSIONS; i++)
		busy |= g4_load32_acq(&gpu->sessions[i].done) != gpu->sessions[i].tail;
	pthread_mutex_unlock(&gpu->lock);
	return busy;
}

static void *flush_in_background(void *argument)
{
	struct worker *worker = argument;
	struct g4_gpu *gpu = worker->gpu;
	uint64_t last = g4_monotonic_ns(), job_ns = 0, damaged = g4_load64_rlx(&gpu->fs->damaged_pages);

	while (!has_faulted()) {
		pthread_mutex_lock(&gpu->lock);
		uint32_t wanted = gpu->sync_wanted, close = gpu->close_wanted;
		bool closes = close && close != gpu->close_done, asked = wanted != gpu->sync_done, quit = gpu->quit;
		pthread_mutex_unlock(&gpu->lock);
		int rc = 0;

		g4_gpu_put_told(gpu->fs, &gpu->control->told);
		if (quit)
			break;
		if (closes)
			g4_session_close(worker->wg, gpu->fs, &gpu->sessions[(close & 0xff) - 1]);
		const uint64_t met = g4_load64_rlx(&gpu->fs->damaged_pages);
		if (met != damaged && !(gpu->fs->flags & G4_FS_READ_ONLY))
			(void)g4_jobs_log(worker->wg, gpu->fs);
		damaged = met;
		if (asked || g4_monotonic_ns() - last > gpu->commit_ns || g4_dirty_pressure(gpu->fs, false)) {
			rc = g4_sync_all(worker->wg, gpu->fs, false);
			last = g4_monotonic_ns();
		}
		const int early = g4_commit_early(worker->wg, gpu->fs);
		rc = rc < 0 ? rc : early;
		if (rc < 0)
			g4_store32_rel(&gpu->control->error, (uint32_t)-rc);
		if (g4_monotonic_ns() >= job_ns) {
			const uint64_t wait = g4_jobs_serve(worker->wg, gpu->fs, !any_busy(gpu));
			g4_store32_rlx(&gpu->works, wait != UINT64_MAX);
			job_ns = g4_monotonic_ns() + (wait == UINT64_MAX ? HOUSE_NS : wait);
		}
		pthread_mutex_lock(&gpu->lock);
		if (closes) {
			gpu->close_done = close;
			g4_store32_rel(&gpu->control->closed, close);
		}
		if (asked)
			gpu->sync_done = wanted;
		pthread_mutex_unlock(&gpu->lock);
		if (!asked)
			rest(HOUSE_NS);
	}
	return NULL;
}

/* What is new in the tails is the workers'. True when there was something. */
static bool take(struct g4_gpu *gpu, uint64_t active)
{
	bool found = false;

	for (uint32_t i = 0; i < G4_GPU_SESSIONS; i++) {
		struct g4_session *session = &gpu->sessions[i];

		if (!(active >> i & 1) || g4_load32_acq(&session->broken))
			continue;
		uint32_t tail = g4_load32_acq(&header_of(session)->tail), fresh = tail - session->tail;
		if (fresh > session->entries) {
			g4_store32_rel(&session->broken, 1);
			g4_store32_rel(&header_of(session)->state, G4_RING_DEAD);
		} else if (fresh > 0) {
			pthread_mutex_lock(&gpu->lock);
			g4_store32_rel(&session->tail, tail);
			for (uint32_t k = 0; k < fresh && k < WORKERS; k++)
				pthread_cond_signal(&gpu->work);
			pthread_mutex_unlock(&gpu->lock);
			found = true;
		}
	}
	return found;
}

/* Has everything written, while still looking; true when it is done and nothing came meanwhile. */
static bool settle(struct g4_gpu *gpu, uint64_t active)
{
	bool done = false;

	pthread_mutex_lock(&gpu->lock);
	gpu->sync_wanted++;
	pthread_mutex_unlock(&gpu->lock);
	while (!done && !has_faulted()) {
		take(gpu, active);
		pthread_mutex_lock(&gpu->lock);
		done = gpu->sync_done == gpu->sync_wanted;
		pthread_mutex_unlock(&gpu->lock);
		rest(REST_NS);
	}
	return !any_busy(gpu) && !take(gpu, active);
}

/* Until it is time to leave. The sessions that were served. */
static uint64_t dispatch(struct g4_gpu *gpu)
{
	struct g4_gpu_control *c = gpu->control;
	uint64_t idle_since = g4_monotonic_ns(), seen_active = 0, served = 0;
	uint32_t rounds = 0;

	while (!has_faulted()) {
		bool found = take(gpu, seen_active);
		const bool stop = g4_load32_acq(&c->stop);
		const uint64_t active = stop ? 0 : g4_load64_acq(&c->active);
		const uint32_t close = g4_load32_acq(&c->close);
		const bool works = !stop && !c->once && g4_load32_rlx(&gpu->works);

		if (active != seen_active) {
			seen_active = active;
			served |= active;
			g4_store64_rel(&c->seen_active, active);
		}
		pthread_mutex_lock(&gpu->lock);
		gpu->close_wanted = close;
		bool closing = close && close != gpu->close_done;
		pthread_mutex_unlock(&gpu->lock);
		const uint64_t now = g4_monotonic_ns();
		if (found || closing || works || (any_busy(gpu) && !stop)) {
			idle_since = now;
			rounds = found ? 0 : rounds + 1;
		} else if ((stop || c->once || (now - idle_since >= gpu->idle_ns && !g4_load32_acq(&c->stay))) &&
			   !any_busy(gpu)) {
			if (settle(gpu, seen_active))
				return served;
			idle_since = g4_monotonic_ns();
		}
		if (rounds++ < EAGER_ROUNDS)
			sched_yield();
		else
			rest(REST_NS);
	}
	return served;
}

static void *run(void *argument)
{
	struct g4_gpu *gpu = argument;

	gpu->control->started_ns = g4_realtime_ns();
	const uint64_t served = dispatch(gpu);
	for (uint32_t i = 0; i < G4_GPU_SESSIONS; i++)
		if (served >> i & 1)
			g4_store32_rlx(&gpu->control->tails[i], gpu->sessions[i].tail);
	g4_store32_rel(&gpu->control->left, 1);
	pthread_mutex_lock(&gpu->lock);
	gpu->quit = true;
	pthread_cond_broadcast(&gpu->work);
	pthread_mutex_unlock(&gpu->lock);
	for (uint32_t i = 0; i < WORKERS; i++)
		pthread_join(gpu->workers[i].thread, NULL);
	pthread_join(gpu->keeper.thread, NULL);
	pthread_mutex_lock(&gpu->lock);
	gpu->running = false;
	g4_store32_rel(&stand_in.running, 0);
	pthread_cond_broadcast(&gpu->ended);
	pthread_mutex_unlock(&gpu->lock);
	return NULL;
}

static void start_thread(pthread_t *thread, void *(*function)(void *), void *argument)
{
	if (pthread_create(thread, NULL, function, argument) != 0)
		abort(); /* the tests do not go on without it */
}

int g4_gpu_launch(struct g4_gpu *gpu, void *fs)
{
	gpu->control->left = 0;
	if (g4_load32_acq(&stand_in.refuse) || has_faulted())
		return refused("the stand-in was told not to launch");
	if (gpu->launched)
		abort(); /* nobody waited for the last one: with CUDA this one would run, and be taken for that */
	gpu->fs = fs;
	gpu->launched = true;
	g4_add32(&stand_in.launches, 1);
	pthread_mutex_lock(&gpu->lock);
	gpu->running = true;
	gpu->quit = false;
	g4_store32_rel(&stand_in.running, 1);
	pthread_mutex_unlock(&gpu->lock);
	for (uint32_t i = 0; i < WORKERS; i++)
		start_thread(&gpu->workers[i].thread, work, &gpu->workers[i]);
	start_thread(&gpu->keeper.thread, flush_in_background, &gpu->keeper);
	start_thread(&gpu->kernel, run, gpu);
	return 0;
}

int g4_gpu_wait(struct g4_gpu *gpu)
{
	if (gpu->launched)
		pthread_join(gpu->kernel, NULL);
	gpu->launched = false;
	return has_faulted() ? refused("the stand-in was told to fault") : 0;
}

void g4_gpu_abort(struct g4_gpu *gpu)
{
	(void)gpu;
	g4_store32_rel(&stand_in.fault, 1);
}

/* ------------------------------------------------------------------ memory */

void *g4_gpu_alloc(struct g4_gpu *gpu, uint64_t bytes)
{
	if (bytes == g4_load32_acq(&stand_in.refuse_bytes))
		return NULL;
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	pthread_mutex_lock(&gpu->lock);
	uint32_t i = 0;
	while (gpu->pieces[i].memory)
		if (++i == PIECES)
			abort(); /* more than any test needs: somebody forgets to free */
	gpu->pieces[i] = (struct piece){memory, bytes};
	pthread_mutex_unlock(&gpu->lock);
	g4_add32(&stand_in.allocated, 1);
	return memory;
}

void g4_gpu_free(struct g4_gpu *gpu, void *memory)
{
	pthread_mutex_lock(&gpu->lock);
	for (uint32_t i = 0; memory && i < PIECES; i++) {
		if (gpu->pieces[i].memory != memory)
			continue;
		munmap(memory, gpu->pieces[i].bytes);
		gpu->pieces[i].memory = NULL;
		g4_sub32(&stand_in.allocated, 1);
		break;
	}
	pthread_mutex_unlock(&gpu->lock);
}

/* Words that the kernel may look at meanwhile come one by one; large pieces are what it does not know yet. */
int g4_gpu_put(struct g4_gpu *gpu, void *device, const void *host, uint64_t bytes)
{
	(void)gpu;
	if (bytes > 64 || bytes % 4) {
		memcpy(device, host, bytes);
		return 0;
	}
	for (uint64_t i = 0; i < bytes / 4; i++)
		g4_store32_rlx((uint32_t *)device + i, ((const uint32_t *)host)[i]);
	return 0;
}

int g4_gpu_get(struct g4_gpu *gpu, void *host, const void *device, uint64_t bytes)
{
	(void)gpu;
	memcpy(host, device, bytes);
	return 0;
}

int g4_gpu_register(struct g4_gpu *gpu, void *host, uint64_t bytes, void **device)
{
	(void)gpu;
	if (bytes == g4_load32_acq(&stand_in.refuse_to_lock))
		return -G4_E_NOTSUP;
	*device = host;
	g4_add32(&stand_in.registered, 1);
	return 0;
}

int g4_gpu_register_io(struct g4_gpu *gpu, void *registers, uint64_t bytes, void **device)
{
	(void)gpu;
	if (g4_load32_acq(&stand_in.refuse_io))
		return refused("the stand-in takes no registers");
	*device = (uint8_t *)registers + (g4_load32_acq(&stand_in.move_io) ? bytes : 0);
	g4_add32(&stand_in.registered_io, 1);
	g4_store64_rel(&stand_in.registers, (uintptr_t)registers);
	g4_add32(&stand_in.registered, 1);
	return 0;
}

#define LOST_NS UINT64_C(20000000) /* of what has no answer, however long one waits */

int g4_gpu_try_lanes(struct g4_gpu *gpu, struct g4_nvme_lanes *lanes, uint32_t count, uint64_t ns)
{
	static uint32_t nowhere;
	const bool lose = g4_load32_acq(&stand_in.lose_doorbells);
	int rc = 0;

	(void)gpu;
	for (uint32_t i = 0; i < count && rc == 0; i++) {
		if (lose)
			lanes[i].flight.pair.tail_doorbell = &nowhere;
		rc = g4_nvme_lanes_try(&lanes[i], lose ? LOST_NS : ns);
		if (g4_load32_acq(&stand_in.misread))
			lanes[i].staging[g4_nvme_lanes_try_bytes(&lanes[i]) - 1] ^= 1;
	}
	return rc;
}

/* As CUDA's does, it waits for what runs. */
void g4_gpu_unregister(struct g4_gpu *gpu, void *host)
{
	pthread_mutex_lock(&gpu->lock);
	if (gpu->running)
		g4_add32(&stand_in.blocked, 1);
	while (gpu->running)
		pthread_cond_wait(&gpu->ended, &gpu->lock);
	pthread_mutex_unlock(&gpu->lock);
	g4_cas64(&stand_in.registers, (uintptr_t)host, 0);
	g4_sub32(&stand_in.registered, 1);
}

int g4_gpu_set_session(struct g4_gpu *gpu, uint32_t id, const struct g4_session *session)
{
	pthread_mutex_lock(&gpu->lock);
	gpu->sessions[id] = *session;
	pthread_mutex_unlock(&gpu->lock);
	return 0;
}

/* What changes while the kernel runs. */
int g4_gpu_get_session(struct g4_gpu *gpu, uint32_t id, struct g4_session *session)
{
	*session = (struct g4_session){.done = g4_load32_acq(&gpu->sessions[id].done),
				       .tail = g4_load32_acq(&gpu->sessions[id].tail),
				       .broken = g4_load32_acq(&gpu->sessions[id].broken)};
	return 0;
}

/* ------------------------------------------------------------------ the device */

int g4_gpu_count(void)
{
	return 1;
}

bool g4_gpu_describe(struct g4_gpu_description *out)
{
	/* with MPS: nobody looks for NVIDIA's library to learn of neighbours */
	*out = (struct g4_gpu_description){.name = "a stand-in", .multiprocessors = 2, .mps = true};
	return true;
}

void g4_gpu_leave(void)
{
}

const char *g4_gpu_error(void)
{
	return last_error;
}

uint32_t g4_gpu_workers(const struct g4_gpu *gpu)
{
	(void)gpu;
	return WORKERS;
}

struct g4_gpu_control *g4_gpu_control(struct g4_gpu *gpu)
{
	return gpu->control;
}

static bool make_worker(struct g4_gpu *gpu, struct worker *worker, uint32_t index)
{
	const uint64_t head = sizeof(struct g4_session_stage);
	uint8_t *memory = aligned_alloc(64, head + G4_RING_MAX_TEXT + G4_SESSION_STAGE_BYTES);

	*worker = (struct worker){.gpu = gpu,
				  .wg = g4_wg_create_with(index, gpu->scratch_bytes),
				  .stage = (struct g4_session_stage *)memory};
	if (!memory || !worker->wg)
		return false;
	worker->stage->text = memory + head;
	worker->stage->data = worker->stage->text + G4_RING_MAX_TEXT;
	return true;
}

int g4_gpu_open(const struct g4_gpu_options *options, struct g4_gpu **out)
{
	struct g4_gpu *gpu = calloc(1, sizeof(*gpu));
	bool made = gpu != NULL;

	if (!gpu)
		return -G4_E_NOMEM;
	pthread_mutex_init(&gpu->lock, NULL);
	pthread_cond_init(&gpu->work, NULL);
	pthread_cond_init(&gpu->ended, NULL);
	gpu->commit_ns = (uint64_t)options->commit_ms * 1000000;
	gpu->idle_ns = (uint64_t)options->idle_us * 1000;
	gpu->scratch_bytes = options->scratch_bytes;
	gpu->control = g4_gpu_alloc(gpu, sizeof(*gpu->control));
	gpu->sessions = g4_gpu_alloc(gpu, G4_GPU_SESSIONS * sizeof(*gpu->sessions));
	for (uint32_t i = 0; i < WORKERS; i++)
		made &= make_worker(gpu, &gpu->workers[i], 1 + i);
	made &= make_worker(gpu, &gpu->keeper, 0);
	if (!made || !gpu->control || !gpu->sessions) {
		g4_gpu_close(gpu);
		return -G4_E_NOMEM;
	}
	*out = gpu;
	return 0;
}

void g4_gpu_close(struct g4_gpu *gpu)
{
	if (gpu->launched)
		abort(); /* the kernel would use what is freed here */
	for (uint32_t i = 0; i <= WORKERS; i++) {
		struct worker *worker = i < WORKERS ? &gpu->workers[i] : &gpu->keeper;
		g4_wg_destroy(worker->wg);
		free(worker->stage);
	}
	for (uint32_t i = 0; i < PIECES; i++)
		g4_gpu_free(gpu, gpu->pieces[i].memory);
	pthread_cond_destroy(&gpu->ended);
	pthread_cond_destroy(&gpu->work);
	pthread_mutex_destroy(&gpu->lock);
	free(gpu);
}
