/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's half of the CUDA engine: mounting, the agent that starts and ends the kernel, and sessions.
 *
 * Mounting is the CPU engine's work. The mounted state then moves to device memory (g4_fs_moved()) and never comes back:
 * the kernel writes everything at the end, and the CPU engine mounts the image once more to mark it clean. What "mem:"
 * holds moves too and dies with the mount, as it does on the CPU. "dax:" on tmpfs is registered with CUDA and used in
 * place. Any other device is the host's: an I/O agent (dev/agent_host.h) does the kernel's requests to it.
 *
 * The agent is a thread that sleeps: in CUDA while the kernel runs, on the doorbell while it does not; a client that rings in this
 * process starts the kernel itself. Between the two it
 * tells the clients that they have to ring, and then compares their tails with what the kernel saw when it left: a
 * client that stored its tail before it could know is found here, one that stored it later rings.
 *
 * Device-API callers (device/caller.h), warps of other kernels, change the file system while this one is away. As long as there may be
 * any, the agent lets it in now and then to commit, and once more at the end.
 *
 * Other processes on the GPU run beside the kernel where CUDA finds an MPS daemon; where not, the GPU gives each of them
 * turns, and the agent says so once it sees somebody.
 */
#include "gpu/cuda_host.h"

#include <stdio.h>

#if !defined(G4_HAVE_CUDA)
int g4_cuda_mount(struct g4_dev *dev, const struct g4_cuda_options *options, struct g4_cuda_engine **out, char *message,
		  size_t message_bytes)
{
	(void)dev;
	(void)options;
	(void)out;
	snprintf(message, message_bytes, "this gpu4fs was built without the CUDA engine");
	return -G4_E_NOTSUP;
}

/* Without the one above nobody has an engine to give to these. */
int g4_cuda_unmount(struct g4_cuda_engine *engine, bool clean)
{
	(void)engine;
	(void)clean;
	return -G4_E_NOTSUP;
}

void g4_cuda_visit(struct g4_cuda_engine *engine, bool begin)
{
	(void)engine;
	(void)begin;
}
#else

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log_host.h"
#include "base/memory_host.h"
#include "base/thread_host.h"
#include "base/units_host.h"
#include "dev/dev_host.h"
#include "dev/dev_types.h"
#include "gpu/gpu.h"
#include "gpu/io_host.h"
#include "gpu/sharing_host.h"
#include "gpu/teller_host.h"
#include "ring/client_host.h"
#include "ring/epochs_host.h"
#include "simt/simt_host.h"

#define IDLE_US 50000u /* then the kernel leaves the GPU */
#define OWN_DATA_BYTES (128 * G4_MIB)
#define PIECE_BYTES (16 * G4_MIB) /* of the state on its way to the device */
#define STOP_NS (UINT64_C(1000) * 1000 * 1000)
#define LOOK_US 200
#define PATIENCE_NS (UINT64_C(300) * 1000 * 1000)      /* a kernel without work is gone long before */
#define SHARING_NS (UINT64_C(60) * 1000 * 1000 * 1000) /* between two looks at the other processes on the GPU */
/* With MPS others' blocks get the room that ours leave, and nothing takes it back from a kernel that stays. */
#define MPS_SHARE 2u
/* For thousands of workgroups instead of tens; as far as cache, lookups and journal allow. */
#define MOST_INODES UINT32_MAX
#define MOST_TXN_BLOCKS 32768u

struct attached { /* one session */
	bool used;
	uint8_t *ring, *data; /* on the host */
	void *handles;	      /* on the device */
};

struct cuda_engine {
	struct g4_cuda_engine shown; /* first: what the caller has */
	struct g4_gpu *gpu;
	struct g4_gpu_control *control;
	struct g4_dev *dev;
	struct g4_cuda_options options;
	struct g4_fs *host_fs; /* the mapping that the state was built in */
	void *fs_memory;       /* on the device; the state in it begins at a page, for the sake of its frames */
	uint8_t *fs;
	uint8_t *image; /* on the device, of "mem:" */
	bool image_registered;
	struct g4_gpu_io io; /* to files, block devices, controllers */
	uint8_t *tier;	     /* pages of the cache's second tier, on the host; NULL: none */
	uint64_t tier_bytes;
	bool tier_registered, tier_refused;

	struct g4_gpu_sharing *sharing; /* NULL: nobody to be warned of; the agent's, once it runs */
	bool has_context;		/* this process computes there itself */
	uint64_t sharing_looked_ns;

	struct g4_shared_epochs epochs; /* what clients read; the counters themselves are on the device */
	void *epoch_counts;

	struct g4_session_host *own_session;

	struct g4_gpu_teller *teller;
	pthread_t agent;
	bool agent_runs;
	int doorbell;
	uint32_t ending; /* the agent ends when the kernel has left */
	uint32_t failed; /* the kernel ended by a fault */

	pthread_mutex_t lock; /* of all below, and of the sleeping of the sessions */
	pthread_cond_t back;  /* nobody keeps the kernel away any more */
	bool sleeping;	      /* the kernel is not there: clients ring */
	uint32_t away;	      /* threads that keep it so */
	bool launched;	      /* it was started and the agent does not know yet */
	int launch_rc;
	char launch_error[256]; /* CUDA's sentence, where that is negative */
	uint32_t callers;	/* threads that let callers of the device API in, now */
	bool had_callers;
	uint32_t closes; /* questions asked in control->close */
	struct attached attached[G4_GPU_SESSIONS];
};

/* ------------------------------------------------------------------ the agent */

static struct g4_ring_header *header_of(const struct attached *a)
{
	return (struct g4_ring_header *)a->ring;
}

/* Without the kernel only callers of the device API have requests for the I/O agent. */
static void rest_io(struct cuda_engine *e)
{
	g4_gpu_io_rest(&e->io, e->sleeping && e->callers == 0);
}

static void set_sleeping(struct cuda_engine *e, bool sleeping)
{
	e->sleeping = sleeping;
	rest_io(e);
	for (uint32_t i = 0; i < G4_GPU_SESSIONS; i++)
		if (e->attached[i].used)
			g4_store32_rel(&header_of(&e->attached[i])->engine_waits,
				       sleeping ? G4_RING_DOORBELL : G4_RING_AWAKE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* engine_waits before the tails */
	g4_gpu_teller_look(e->teller, !sleeping);
}

/* Whether a client has something that the kernel did not see. */
static bool has_work(const struct cuda_engine *e)
{
	for (uint32_t i = 0; i < G4_GPU_SESSIONS; i++)
		if (e->attached[i].used && (e->control->active >> i & 1) &&
		    g4_load32_acq(&header_of(&e->attached[i])->tail) != e->control->tails[i])
			return true;
	return g4_load32_acq(&e->control->close) != 0;
}

/* why: the sentence for the failure, which may be another thread's. */
static void fail_all(struct cuda_engine *e, const char *why)
{
	pthread_mutex_lock(&e->lock);
	g4_store32_rel(&e->failed, 1);
	for (uint32_t i = 0; i < G4_GPU_SESSIONS; i++)
		if (e->attached[i].used)
			g4_store32_rel(&header_of(&e->attached[i])->state, G4_RING_DEAD);
	pthread_mutex_unlock(&e->lock);
	g4_log(G4_LOG_ERROR, "the engine on the GPU stopped: %s; unmount the file system and mount it again", why);
}

/* How long what callers of the device API change may wait for the kernel, in milliseconds; -1: there are none. */
static int patience_ms(struct cuda_engine *e)
{
	pthread_mutex_lock(&e->lock);
	bool callers = e->callers > 0;
	pthread_mutex_unlock(&e->lock);
	return callers ? (int)g4_min64(e->options.commit_ms, INT32_MAX) : -1;
}

static bool is_wanted(struct cuda_engine *e)
{
	pthread_mutex_lock(&e->lock);
	bool wanted = e->launched || has_work(e) || g4_load32_acq(&e->ending);
	pthread_mutex_unlock(&e->lock);
	return wanted;
}

/* Sleeps until there is work. False: the time has come to commit what callers of the device API may have changed. */
static bool await_work(struct cuda_engine *e)
{
	struct pollfd doorbell = {.fd = e->doorbell, .events = POLLIN};
	uint64_t rings;

	for (;;) {
		int ready = poll(&doorbell, 1, patience_ms(e));
		if (ready == 0)
			return false;
		/* a doorbell without work says that somebody let callers of the device API in, or has ended that */
		if (ready > 0 && read(e->doorbell, &rings, sizeof(rings)) == sizeof(rings) && is_wanted(e))
			return true;
	}
}

/* Warns once of processes that the GPU is shared with in turns. */
static void look_for_sharing(struct cuda_engine *e)
{
	char sentence[512];
	uint64_t now = g4_monotonic_ns();

	if (!e->sharing || (e->sharing_looked_ns && now - e->sharing_looked_ns < SHARING_NS))
		return;
	e->sharing_looked_ns = now;
	if (!g4_gpu_sharing_disturb(e->sharing, e->has_context, sentence, sizeof(sentence)))
		return;
	g4_log(G4_LOG_WARN, "%s", sentence);
	g4_gpu_sharing_close(e->sharing);
	e->sharing = NULL;
}

/* Starts the kernel. The lock is held. once: it is to write everything and leave. */
static void launch(struct cuda_engine *e, bool once)
{
	e->control->once = once;
	set_sleeping(e, false);
	e->control->launch_ns = g4_realtime_ns();
	e->launch_rc = g4_gpu_launch(e->gpu, e->fs);
	if (e->launch_rc < 0)
		snprintf(e->launch_error, sizeof(e->launch_error), "%s", g4_gpu_error());
	e->control->launched_ns = g4_realtime_ns();
	e->launched = true;
}

static void *agent(void *argument)
{
	struct cuda_engine *e = argument;
	bool once = false;

	for (;;) {
		bool last = g4_load32_acq(&e->ending) != 0;
		pthread_mutex_lock(&e->lock);
		while (e->away && !e->launched) /* a kernel that runs is waited for: only then it sleeps */
			pthread_cond_wait(&e->back, &e->lock);
		if (!e->launched) /* by the client that rang the doorbell */
			launch(e, once);
		else
			last = false;
		e->launched = false;
		int rc = e->launch_rc;
		pthread_mutex_unlock(&e->lock);
		if (rc == 0 && g4_gpu_wait(e->gpu) < 0) {
			fail_all(e, g4_gpu_error());
			return NULL;
		}
		if (rc < 0) { /* it is not called asleep, so nobody has tried again since */
			fail_all(e, e->launch_error);
			return NULL;
		}
		if (g4_load32_acq(&e->control->error))
			g4_log(G4_LOG_ERROR, "write-back: %s", g4_strerror(-(int)e->control->error));
		bool ending = g4_load32_acq(&e->ending) != 0;
		pthread_mutex_lock(&e->lock);
		set_sleeping(e, true);
		bool more = has_work(e), callers = e->had_callers;
		pthread_mutex_unlock(&e->lock);
		/* a kernel that was launched before the end was near may have written everything before callers of the device API did something */
		if (ending && (last || !callers))
			return NULL;
		if (!more)
			look_for_sharing(e);
		once = !more && !await_work(e);
	}
}

/*
 * A client that rings is awake: it starts the kernel itself, which saves waking a thread for that (80 us on a virtual machine). The
 * agent is told, and waits for the kernel's end.
 */
static void ring_doorbell(void *context)
{
	struct cuda_engine *e = context;
	const uint64_t one = 1;

	pthread_mutex_lock(&e->lock);
	e->control->wanted_ns = g4_realtime_ns();
	if (e->sleeping && !e->away && !e->launched && !g4_load32_acq(&e->ending) && !g4_load32_acq(&e->failed) &&
	    has_work(e))
		launch(e, false);
	pthread_mutex_unlock(&e->lock);
	/* an eventfd refuses only when it would overflow, and then it rings */
	if (write(e->doorbell, &one, sizeof(one)) < 0)
		return;
}

static bool has_failed(struct cuda_engine *e)
{
	return g4_load32_acq(&e->failed) != 0;
}

/* Ends the kernel, writing everything first, and the agent with it. */
static void stop_agent(struct cuda_engine *e)
{
	uint64_t until = g4_monotonic_ns() + 60 * STOP_NS; /* for what has to be written */
	struct timespec pause = {.tv_nsec = LOOK_US * 1000};

	if (!e->agent_runs)
		return;
	pthread_mutex_lock(&e->lock);
	g4_store32_rel(&e->ending, 1);
	__atomic_store_n(&e->control->stop, 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&e->lock);
	ring_doorbell(e);
	while (pthread_tryjoin_np(e->agent, NULL) == EBUSY) {
		if (g4_monotonic_ns() > until) {
			g4_gpu_abort(e->gpu);
			pthread_join(e->agent, NULL);
			break;
		}
		nanosleep(&pause, NULL);
	}
	e->agent_runs = false;
}

/* ------------------------------------------------------------------ sessions */

#define TIER_AREA 1u
#define FIRST_SESSION_AREA 2u
G4_STATIC_ASSERT(FIRST_SESSION_AREA + G4_GPU_SESSIONS <= G4_REMOTE_AREAS, "every session has an area");

static int place_session(struct cuda_engine *e, struct attached *a, const struct g4_session *session,
			 uint64_t ring_bytes, uint32_t id)
{
	struct g4_session on_gpu = *session;
	void *ring, *data;
	int rc;

	rc = g4_gpu_register(e->gpu, session->ring, ring_bytes, &ring);
	if (rc < 0)
		return rc;
	rc = g4_gpu_register(e->gpu, session->data, session->data_bytes, &data);
	if (rc == 0) {
		rc = g4_gpu_io_set_area(&e->io, FIRST_SESSION_AREA + id, session->data, data, session->data_bytes);
		a->handles = g4_gpu_alloc(e->gpu, session->handle_count * sizeof(struct g4_session_handle));
		on_gpu.ring = ring;
		on_gpu.data = data;
		on_gpu.handles = a->handles;
		if (rc == 0)
			rc = a->handles ? g4_gpu_set_session(e->gpu, id, &on_gpu) : -G4_E_NOMEM;
		if (rc < 0) {
			/* the GPU does not work any more if it refuses this */
			g4_gpu_io_set_area(&e->io, FIRST_SESSION_AREA + id, NULL, NULL, 0);
			g4_gpu_unregister(e->gpu, session->data);
		}
	}
	if (rc < 0) {
		g4_gpu_free(e->gpu, a->handles);
		a->handles = NULL;
		g4_gpu_unregister(e->gpu, session->ring);
	}
	return rc;
}

static int attach(void *context, const struct g4_session *session, uint64_t ring_bytes, uint32_t *id)
{
	struct cuda_engine *e = context;
	int rc = -G4_E_NFILE;

	pthread_mutex_lock(&e->lock);
	for (uint32_t i = 0; i < G4_GPU_SESSIONS && rc == -G4_E_NFILE; i++) {
		struct attached *a = &e->attached[i];
		if (a->used)
			continue;
		rc = has_failed(e) ? -G4_E_IO : place_session(e, a, session, ring_bytes, i);
		if (rc < 0)
			break;
		a->used = true;
		a->ring = session->ring;
		a->data = session->data;
		e->control->tails[i] = 0;
		g4_store32_rel(&header_of(a)->engine_waits, e->sleeping ? G4_RING_DOORBELL : G4_RING_AWAKE);
		g4_store64_rel(&e->control->active, e->control->active | UINT64_C(1) << i);
		*id = i;
	}
	pthread_mutex_unlock(&e->lock);
	return rc;
}

static void look_again(void)
{
	const struct timespec pause = {.tv_nsec = LOOK_US * 1000};

	nanosleep(&pause, NULL);
}

/* Until the dispatcher knows that the session is no more, and what it saw of it is done. The kernel may be asleep. */
static void drain(struct cuda_engine *e, uint32_t id)
{
	struct g4_session session;

	for (;;) {
		pthread_mutex_lock(&e->lock);
		bool seen = e->sleeping || !(g4_load64_acq(&e->control->seen_active) >> id & 1);
		pthread_mutex_unlock(&e->lock);
		if (has_failed(e) || (seen && (g4_gpu_get_session(e->gpu, id, &session) < 0 ||
					       session.done == session.tail || session.broken)))
			return;
		look_again();
	}
}

/* Has the engine close the files of a session that has no commands any more. */
static void close_handles(struct cuda_engine *e, uint32_t id)
{
	uint32_t question = 0;

	while (!question && !has_failed(e)) { /* one at a time */
		pthread_mutex_lock(&e->lock);
		if (g4_load32_acq(&e->control->close) == 0) {
			question = ++e->closes << 8 | (id + 1); /* never the same as the last */
			g4_store32_rel(&e->control->close, question);
		}
		pthread_mutex_unlock(&e->lock);
		if (!question)
			look_again();
	}
	ring_doorbell(e);
	while (!has_failed(e) && g4_load32_acq(&e->control->closed) != question)
		look_again();
	g4_store32_rel(&e->control->close, 0);
}

/*
 * CUDA takes registered memory back only while no kernel runs, and ours may stay for as long as anybody has work. Where it
 * does not leave by itself, and at once where nobody else is served, it is sent away: it finishes and writes what it has
 * taken. What comes then waits for the lock, which is held from here to let_return().
 */
static void send_away(struct cuda_engine *e)
{
	uint64_t until;

	pthread_mutex_lock(&e->lock);
	until = g4_monotonic_ns() + (e->control->active ? PATIENCE_NS : 0);
	e->away++;
	while (!e->sleeping && !has_failed(e)) {
		if (g4_monotonic_ns() >= until)
			__atomic_store_n(&e->control->stop, 1, __ATOMIC_RELEASE);
		pthread_mutex_unlock(&e->lock);
		look_again();
		pthread_mutex_lock(&e->lock);
	}
}

static void let_return(struct cuda_engine *e)
{
	if (--e->away == 0 && !g4_load32_acq(&e->ending))
		__atomic_store_n(&e->control->stop, 0, __ATOMIC_RELEASE);
	pthread_cond_signal(&e->back);
	pthread_mutex_unlock(&e->lock);
	ring_doorbell(e);
}

static void detach(void *context, uint32_t id)
{
	struct cuda_engine *e = context;
	struct attached *a = &e->attached[id];

	pthread_mutex_lock(&e->lock);
	g4_store64_rel(&e->control->active, e->control->active & ~(UINT64_C(1) << id));
	pthread_mutex_unlock(&e->lock);
	if (e->agent_runs) {
		drain(e, id);
		close_handles(e, id);
	}
	g4_gpu_io_set_area(&e->io, FIRST_SESSION_AREA + id, NULL, NULL, 0);
	if (e->agent_runs)
		send_away(e);
	g4_gpu_unregister(e->gpu, a->data);
	g4_gpu_unregister(e->gpu, a->ring);
	if (e->agent_runs)
		let_return(e);
	g4_gpu_free(e->gpu, a->handles);
	pthread_mutex_lock(&e->lock);
	*a = (struct attached){0};
	pthread_mutex_unlock(&e->lock);
}

/* ------------------------------------------------------------------ moving */

/*
 * Copies what of a private mapping was ever written; the rest is zero on both sides. Most of a fresh mount's memory is
 * the cache's, of which a few pages are in use.
 */
static int put_resident(struct cuda_engine *e, uint8_t *device, const uint8_t *host, uint64_t bytes)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	unsigned char resident[PIECE_BYTES / 4096];
	int rc = 0;

	for (uint64_t at = 0; at < bytes && rc == 0; at += PIECE_BYTES) {
		uint64_t piece = g4_min64(PIECE_BYTES, bytes - at), pages = (piece + page - 1) / page;

		if (mincore((void *)(uintptr_t)(host + at), piece, resident) != 0)
			return -G4_E_IO;
		for (uint64_t i = 0; i < pages && rc == 0;) {
			uint64_t n = 0;
			while (i + n < pages && (resident[i + n] & 1))
				n++;
			if (n > 0)
				rc = g4_gpu_put(e->gpu, device + at + i * page, host + at + i * page,
						g4_min64(n * page, piece - i * page));
			i += n > 0 ? n : 1;
		}
	}
	return rc;
}

/* What the GPU reads and writes itself needs no flush: everything else does, and system calls. */
static bool needs_requests(const struct g4_dev *dev)
{
	return !dev->props.mapped || dev->persist != G4_DEV_PERSIST_NEVER;
}

/* The device as the kernel sees it, behind the state. */
static int place_device(struct cuda_engine *e, struct g4_dev *on_gpu)
{
	void *map;
	int rc;

	if (needs_requests(e->dev)) {
		rc = g4_gpu_io_open(&e->io, e->gpu, e->dev, e->options.wants_queues, &e->host_fs->space.direct, on_gpu);
		rest_io(e);
		return rc;
	}
	*on_gpu = *e->dev;
	on_gpu->host = NULL;
	on_gpu->ops = NULL;
	on_gpu->props.discard = false;
	if (e->dev->anonymous) {
		e->image = g4_gpu_alloc(e->gpu, e->dev->props.size_bytes);
		on_gpu->map = e->image;
		return e->image ? put_resident(e, e->image, e->dev->map, e->dev->props.size_bytes) : -G4_E_NOMEM;
	}
	g4_memory_populate(e->dev->map, e->dev->props.size_bytes);
	rc = g4_gpu_register(e->gpu, e->dev->map, e->dev->props.size_bytes, &map);
	e->image_registered = rc == 0;
	on_gpu->map = map;
	return rc;
}

/*
 * Counters on the device, twice as many as epochs (inode/epoch.h), and where clients read them. Before the state is copied there. Where
 * they can not be had, clients ask for everything.
 */
static void place_epochs(struct cuda_engine *e)
{
	void *shown;

	if (g4_epochs_make(&e->epochs) < 0)
		return;
	if (g4_gpu_register(e->gpu, e->epochs.memory, G4_EPOCHS_BYTES, &shown) == 0) {
		e->epoch_counts = g4_gpu_alloc(e->gpu, 2 * G4_EPOCHS_BYTES);
		if (!e->epoch_counts)
			g4_gpu_unregister(e->gpu, e->epochs.memory);
	}
	if (!e->epoch_counts) {
		g4_epochs_free(&e->epochs);
		return;
	}
	e->host_fs->epochs = (uint64_t)(uintptr_t)e->epoch_counts;
	e->host_fs->epochs_shown = shown;
	e->shown.epochs = e->epochs.memory;
}

/* The tier's pages stay where they are; the lanes reach them there, and an I/O agent moves data to and from them without a copy. */
static int place_tier(struct cuda_engine *e)
{
	void *frames;

	if (!g4_tier_is_used(&e->host_fs->space.tier))
		return 0;
	e->tier_refused = g4_gpu_register(e->gpu, e->tier, e->tier_bytes, &frames) < 0;
	if (e->tier_refused)
		return -G4_E_NOMEM;
	e->tier_registered = e->shown.tier = true;
	e->host_fs->space.tier.frames = frames;
	return g4_gpu_io_set_area(&e->io, TIER_AREA, e->tier, frames, e->tier_bytes);
}

static int move_there(struct cuda_engine *e)
{
	const uint64_t bytes = e->host_fs->memory_bytes;
	struct g4_dev on_gpu;
	int rc;

	e->fs_memory = g4_gpu_alloc(e->gpu, bytes + sizeof(on_gpu) + G4_PAGE_BYTES);
	if (!e->fs_memory)
		return -G4_E_NOMEM;
	e->fs = (uint8_t *)g4_align_up((uintptr_t)e->fs_memory, G4_PAGE_BYTES);
	rc = place_device(e, &on_gpu);
	if (rc == 0)
		rc = place_tier(e);
	if (rc < 0)
		return rc;
	g4_fs_moved(e->host_fs, (intptr_t)e->fs - (intptr_t)e->host_fs, (struct g4_dev *)(e->fs + bytes));
	place_epochs(e);
	rc = put_resident(e, e->fs, (const uint8_t *)e->host_fs, bytes);
	return rc < 0 ? rc : g4_gpu_put(e->gpu, e->fs + bytes, &on_gpu, sizeof(on_gpu));
}

/*
 * A context takes hundreds of megabytes of the GPU. One that was made for an engine which then did not start goes again,
 * unless others in this process used it before, or other engines do. (A library that first uses CUDA during such a mount loses.)
 */
static pthread_mutex_t context_lock = PTHREAD_MUTEX_INITIALIZER; /* of these two */
static uint32_t context_users;					 /* engines, and those that try to start */
static bool context_is_shared;

static void take_context(const struct g4_gpu_description *gpu)
{
	pthread_mutex_lock(&context_lock);
	if (context_users++ == 0)
		context_is_shared = gpu->context;
	pthread_mutex_unlock(&context_lock);
}

static void drop_context(bool unused)
{
	pthread_mutex_lock(&context_lock);
	if (--context_users == 0 && unused && !context_is_shared)
		g4_gpu_leave();
	pthread_mutex_unlock(&context_lock);
}

/* ------------------------------------------------------------------ ending */

/* The image was written by the kernel: the CPU engine marks it clean. */
static int mark_clean(struct cuda_engine *e)
{
	struct g4_fs_options options = e->options.fs;
	struct g4_wg *wg = g4_wg_create(0);
	char message[256];
	struct g4_fs *fs;
	int rc = -G4_E_NOMEM;

	if (wg) {
		options.cache_bytes = 64 * G4_MIB;
		options.tier_bytes = 0;
		rc = g4_fs_mount(wg, e->dev, &options, &fs, message, sizeof(message));
		if (rc == 0) {
			const bool marked = !(fs->flags & G4_FS_READ_ONLY); /* it may have found no room to replay */
			rc = g4_fs_unmount(wg, fs, true);
			rc = rc == 0 && !marked ? -G4_E_NOSPC : rc;
		}
		g4_wg_destroy(wg);
	}
	return rc;
}

/* All but the device. */
static void free_engine(struct cuda_engine *e)
{
	g4_gpu_teller_stop(e->teller); /* the kernel has left for good */
	if (e->host_fs)
		munmap(e->host_fs, e->host_fs->memory_bytes);
	if (e->image_registered)
		g4_gpu_unregister(e->gpu, e->dev->map);
	if (e->epoch_counts)
		g4_gpu_unregister(e->gpu, e->epochs.memory);
	g4_gpu_io_close(&e->io);
	if (e->tier_registered)
		g4_gpu_unregister(e->gpu, e->tier);
	g4_memory_unmap(e->tier, e->tier_bytes);
	if (e->gpu) {
		g4_gpu_free(e->gpu, e->fs_memory);
		g4_gpu_free(e->gpu, e->image);
		g4_gpu_free(e->gpu, e->epoch_counts);
		g4_gpu_close(e->gpu);
	}
	g4_epochs_free(&e->epochs);
	if (e->doorbell >= 0)
		close(e->doorbell);
	g4_gpu_sharing_close(e->sharing);
	pthread_cond_destroy(&e->back);
	pthread_mutex_destroy(&e->lock);
	free(e);
}

static void close_own(struct cuda_engine *e)
{
	if (e->shown.ring)
		g4_ring_client_free(e->shown.ring);
	if (e->own_session)
		g4_session_shut(e->own_session);
}

int g4_cuda_unmount(struct g4_cuda_engine *engine, bool clean)
{
	struct cuda_engine *e = (struct cuda_engine *)engine;
	int rc = 0;

	close_own(e);
	stop_agent(e);
	g4_gpu_io_close(&e->io);
	if (has_failed(e) || e->control->error)
		rc = -G4_E_IO;
	if (clean && !e->dev->anonymous && !(e->options.fs.flags & G4_FS_READ_ONLY)) {
		int marked = mark_clean(e);
		rc = rc < 0 ? rc : marked;
	}
	struct g4_dev *dev = e->dev;
	free_engine(e);
	drop_context(false);
	g4_dev_close(dev);
	return rc;
}

/* ------------------------------------------------------------------ mounting */

/* Why the engine did not start, with what the host's state and the image would take of the GPU. */
static void say_gpu(const struct cuda_engine *e, int code, char *message, size_t bytes)
{
	uint64_t wanted = e->host_fs->memory_bytes;
	char text[G4_SIZE_TEXT_BYTES];

	if (e->dev->anonymous)
		wanted += e->dev->props.size_bytes;
	if (e->tier_refused)
		snprintf(message, bytes, "the CUDA engine: a second tier of %s can not be page-locked here: %s",
			 g4_format_size(e->tier_bytes, text, sizeof(text)), g4_gpu_error());
	else if (code == -G4_E_NOMEM)
		snprintf(message, bytes, "the CUDA engine: the GPU has no room for cache and state, %s",
			 g4_format_size(wanted, text, sizeof(text)));
	else
		snprintf(message, bytes, "the CUDA engine: cannot start: %s", g4_gpu_error());
}

/* -G4_E_NOTSUP with a sentence where there is no GPU. */
static int check_gpu(struct g4_gpu_description *gpu, char *message, size_t bytes)
{
	if (g4_gpu_count() > 0) {
		if (!g4_gpu_describe(gpu))
			*gpu = (struct g4_gpu_description){.name = "a GPU"};
		return 0;
	}
	snprintf(message, bytes, "the CUDA engine: here is no NVIDIA GPU, or no driver that can use it (%s)",
		 g4_gpu_error());
	return -G4_E_NOTSUP;
}

static int mount_on_host(struct cuda_engine *e, char *message, size_t message_bytes)
{
	struct g4_fs_options options = e->options.fs;
	int rc = -G4_E_NOMEM;

	options.most_inodes = MOST_INODES;
	options.most_txn_blocks = MOST_TXN_BLOCKS;
	options.frames_fixed = true; /* nothing is cleared on first use there, and a look into a table costs more */
	e->tier_bytes = e->dev->props.mapped ? 0 : g4_tier_frames(options.tier_bytes);
	options.tier_frames = e->tier = e->tier_bytes > 0 ? g4_memory_map(e->tier_bytes) : NULL;
	if (e->tier_bytes > 0 && !e->tier)
		return -G4_E_NOMEM;
	struct g4_wg *wg = g4_wg_create(0);
	if (wg) {
		rc = g4_fs_mount(wg, e->dev, &options, &e->host_fs, message, message_bytes);
		g4_wg_destroy(wg);
	}
	return rc;
}

static int start_agent(struct cuda_engine *e)
{
	e->agent_runs = g4_thread_start(&e->agent, agent, e) == 0;
	return e->agent_runs ? 0 : -G4_E_NOMEM;
}

static int epochs_of(void *context)
{
	const struct cuda_engine *e = context;

	return e->epochs.memory ? e->epochs.fd : -G4_E_NOTSUP;
}

/* This process's own way in. */
static int open_own(struct cuda_engine *e)
{
	const struct g4_session_options own = {.cred = {.umask = 022},
					       .flags = G4_SESSION_MAY_ACT | G4_SESSION_IN_PROCESS,
					       .entries = 4096,
					       .handles = 1 << 16,
					       .data_bytes = OWN_DATA_BYTES};
	int rc;

	e->shown.sessions = (struct g4_session_engine){
		.context = e, .attach = attach, .detach = detach, .epochs = epochs_of, .ring_doorbell = ring_doorbell};
	rc = g4_session_open(&e->shown.sessions, &own, &e->own_session);
	if (rc < 0)
		return rc;
	e->shown.ring = g4_ring_client_new(g4_session_ring(e->own_session), g4_session_data(e->own_session),
					   e->doorbell, -1, &own.cred);
	if (!e->shown.ring)
		return -G4_E_NOMEM;
	g4_ring_client_ring_by(e->shown.ring, ring_doorbell, e);
	return 0;
}

/* The kernel's home, and the kernel. */
static int start(struct cuda_engine *e, const struct g4_gpu_description *gpu)
{
	const struct g4_gpu_options options = {.sms = e->options.sms || !gpu->mps ?
							      e->options.sms :
							      (gpu->multiprocessors + MPS_SHARE - 1) / MPS_SHARE,
					       .commit_ms = e->options.commit_ms,
					       .idle_us = IDLE_US,
					       .scratch_bytes = e->host_fs->scratch_bytes};
	int rc;

	if (!gpu->mps)
		e->sharing = g4_gpu_sharing_open(G4_NVML_LIBRARY, gpu->bus_id);
	e->has_context = gpu->context;
	look_for_sharing(e);
	e->has_context = true;
	rc = g4_gpu_open(&options, &e->gpu);
	if (rc == 0) {
		e->shown.control = e->control = g4_gpu_control(e->gpu);
		rc = move_there(e);
		e->shown.fs = e->fs;
		e->shown.scratch_bytes = options.scratch_bytes;
	}
	if (rc == 0)
		rc = open_own(e);
	if (rc == 0)
		rc = g4_gpu_teller_start(&e->control->told, e->dev, &e->teller);
	return rc < 0 ? rc : start_agent(e);
}

int g4_cuda_mount(struct g4_dev *dev, const struct g4_cuda_options *options, struct g4_cuda_engine **out, char *message,
		  size_t message_bytes)
{
	struct g4_gpu_description gpu;
	struct cuda_engine *e;
	bool tried = false;
	int rc = check_gpu(&gpu, message, message_bytes);

	if (rc < 0)
		return rc;
	e = calloc(1, sizeof(*e));
	if (!e) {
		snprintf(message, message_bytes, "cannot mount: %s", g4_strerror(-G4_E_NOMEM));
		return -G4_E_NOMEM;
	}
	e->dev = dev;
	e->options = *options;
	e->epochs.fd = -1;
	e->doorbell = eventfd(0, EFD_CLOEXEC);
	pthread_mutex_init(&e->lock, NULL);
	pthread_cond_init(&e->back, NULL);
	e->sleeping = true; /* the kernel does, so far */
	rc = mount_on_host(e, message, message_bytes);
	if (rc == 0) {
		tried = true;
		take_context(&gpu);
		rc = start(e, &gpu);
		if (rc < 0)
			say_gpu(e, rc, message, message_bytes);
	}
	if (rc < 0) {
		close_own(e);
		free_engine(e);
		if (tried)
			drop_context(true);
		return rc;
	}
	*out = &e->shown;
	return 0;
}

void g4_cuda_visit(struct g4_cuda_engine *engine, bool begin)
{
	struct cuda_engine *e = (struct cuda_engine *)engine;

	pthread_mutex_lock(&e->lock);
	e->callers += begin ? 1 : -1u;
	e->had_callers = true;
	rest_io(e);
	pthread_mutex_unlock(&e->lock);
	ring_doorbell(e);
}
#endif
