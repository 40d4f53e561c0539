/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The persistent kernel. Warp 0 of block 0 is the dispatcher: it alone reads host memory in a loop, the clients' tails
 * and the control page, one round trip over PCIe for all of them. Warp 1 is the housekeeper: commits, also what is nearly full, and writes back.
 * All others are workers. What a command waits for is told in docs/design/persistent-kernel.md.
 *
 * Between dispatcher and workers lies a queue in device memory. A worker without work takes the next ticket, one atomic
 * addition, and looks at its own place of the queue until the dispatcher has put something there: a session and a few
 * commands of it in a row. Nobody searches, nobody compares and swaps, and one command wakes one warp. Those near their
 * turn look at their place alone, those far from it rarely. All lanes of a worker wait together, fetch the slot and write
 * the result; in between the leader executes.
 *
 * Leaving: after an idle time the dispatcher has the housekeeper write everything, looks at the tails a last time, and
 * raises `quit`. Whatever comes later, the host sees in the tails (cuda_host.c).
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>

#include "dev/nvme/lanes.h"
#include "fs/fs.h"
#include "gpu/gpu.h"
#include "ring/execute.h"
#include "simt/cuda/clock.h"
#include "simt/cuda/stop.h"

#define STACK_BYTES (16u * 1024)
#define BLOCK_WARPS 4u
#define BLOCKS_A_SM 6 /* with 80 registers a thread, as the engine is compiled for */
#define FIRST_WORKER 2u
#define QUEUE_PLACES 16384u /* more than there are workers, each of which may have one place to read */
#define EAGER_AHEAD 16u	    /* a worker with so many before it looks all the time */
#define AHEAD_NS 20u	    /* and one further back rests so long for each */
#define LONGEST_NS 32000u
#define HELPER_NS 8000u	 /* a helper rests no longer */
#define HELP_AHEAD 64u	 /* one with so many before it may do a piece of a large transfer or a commit meanwhile */
#define HELP_EVERY 4u	 /* one in so many looks for that: enough, and the others leave the word alone */
#define TURN_LOOKS 256u	 /* of an eager one at its place, before it asks whether the kernel ends */
#define HOUSE_NS 200000u /* the housekeeper's looks */
#define BATCH_SHIFT 5u	 /* from 32 new commands on, two are given out at a time, from 64 on four */
#define BATCH_MOST 3u	 /* and never more than 2^3 */
#define IDLE_ROUNDS 16u	 /* looks of the dispatcher between two at the clock */
#define STAGE_BYTES (uint64_t)(G4_RING_MAX_TEXT + G4_SESSION_STAGE_BYTES)

struct shared {		  /* in device memory */
	uint32_t tickets; /* of workers, the next one */
	uint8_t padding0[124];
	uint32_t filled; /* places that the dispatcher has filled; a hint for the workers */
	uint8_t padding2[124];
	uint32_t run;			   /* number of the launch; the queue is ready for it */
	uint32_t quit;			   /* the launch that is to end */
	uint32_t sync_wanted, sync_done;   /* the dispatcher asks, the housekeeper answers */
	uint32_t close_wanted, close_done; /* as g4_gpu_control.close */
	uint32_t sync_error;
	uint32_t works; /* a job runs */
	uint32_t users; /* commands are under way, as the dispatcher knows while a job runs */
	uint8_t padding1[92];
};

struct world { /* constant while the kernel runs */
	struct g4_fs *fs;
	struct g4_gpu_control *control;
	struct shared *shared;
	struct g4_session *sessions;
	uint64_t *queue; /* see place_word() */
	struct g4_wg *wgs;
	uint8_t *stages; /* STAGE_BYTES a warp */
	uint32_t warps;
	uint64_t commit_ns;
	uint64_t idle_ns;
};

/* ------------------------------------------------------------------ dispatcher, all lanes converged */

static __device__ bool is_active(uint64_t active, uint32_t session)
{
	return session < G4_GPU_SESSIONS && (active >> session & 1);
}

/* The host's words of the control page that the dispatcher reads: `active`, `stop` and `close`, `stay` and `once`. */
#define CONTROL_WORDS 3u
G4_STATIC_ASSERT(offsetof(struct g4_gpu_control, active) == 0 && offsetof(struct g4_gpu_control, stop) == 8 &&
			 offsetof(struct g4_gpu_control, close) == 12 && offsetof(struct g4_gpu_control, stay) == 16 &&
			 offsetof(struct g4_gpu_control, once) == 20,
		 "words of the control page");

/* What the dispatcher's lane knows of a session, in registers: its round must not wait for device memory, too. */
struct watched {
	const struct g4_ring_header *header; /* NULL: not served */
	uint32_t tail;			     /* as the workers see it */
	uint32_t entries;
};

static __device__ struct watched watch(const struct world *w, uint64_t active, uint32_t session)
{
	struct watched watched = {NULL, 0, 0};

	if (is_active(active, session) && !g4_load32_acq(&w->sessions[session].broken)) {
		watched.header = (const struct g4_ring_header *)w->sessions[session].ring;
		watched.tail = w->sessions[session].tail;
		watched.entries = w->sessions[session].entries;
	}
	return watched;
}

static __device__ uint32_t tail_of(const struct watched *watched)
{
	return watched->header ? g4_load32_rlx_sys(&watched->header->tail) : watched->tail;
}

/*
 * A place of the queue: 63..32 the ticket it is for, plus 1, low bits; 31..0 the first command's number; session and count
 * between them. One 8 B store fills it.
 *
 *       63               46 45        40 39     32 31                  0
 *      +-------------------+------------+---------+---------------------+
 *      |  ticket + 1       |    session    |  count  |  first number       |
 *      +-------------------+------------+---------+---------------------+
 */
#define TICKET_BITS 18u
static __device__ uint64_t place_word(uint32_t ticket, uint32_t session, uint32_t count, uint32_t number)
{
	return (uint64_t)((ticket + 1) & ((1u << TICKET_BITS) - 1)) << 46 | (uint64_t)session << 40 |
	       (uint64_t)count << 32 | number;
}

static __device__ bool is_for(uint64_t word, uint32_t ticket)
{
	return word >> 46 == ((ticket + 1) & ((1u << TICKET_BITS) - 1));
}

/* How much of what is new is given out in one piece, so that many workers share a burst: 2^n. Divisions are slow here. */
static __device__ uint32_t piece_shift(uint32_t fresh)
{
	uint32_t shift = 32 - (uint32_t)__clz((int)(fresh >> BATCH_SHIFT));

	return shift < BATCH_MOST ? shift : BATCH_MOST;
}

static __device__ uint32_t places_of(uint32_t fresh)
{
	uint32_t shift = piece_shift(fresh);

	return (fresh + (1u << shift) - 1) >> shift;
}

/* Commands of a session that are new; a tail that cannot be ends the session. */
static __device__ uint32_t fresh_of(struct g4_session *session, struct watched *watched, uint32_t tail)
{
	uint32_t fresh = tail - watched->tail;

	/* a slot is reused only after its result, which nobody has before the tail is here */
	if (fresh > watched->entries) {
		g4_store32_rlx(&session->broken, 1);
		g4_store32_rlx_sys(&((struct g4_ring_header *)session->ring)->state, G4_RING_DEAD);
		watched->header = NULL;
		return 0;
	}
	return fresh;
}

static __device__ void fill_places(const struct world *w, uint32_t place, uint32_t session, uint32_t first,
				   uint32_t fresh)
{
	const uint32_t piece = 1u << piece_shift(fresh);

	for (uint32_t at = 0; at < fresh; at += piece, place++)
		g4_store64_rlx(&w->queue[place % QUEUE_PLACES],
			       place_word(place, session, fresh - at < piece ? fresh - at : piece, first + at));
}

static __device__ bool is_busy(const struct world *w, uint32_t session)
{
	return session < G4_GPU_SESSIONS && g4_load32_acq(&w->sessions[session].done) != w->sessions[session].tail;
}

#define BURST 64u /* commands of a session that are worth asking how far the workers are */

/* Places that may be filled. `tickets` is what the workers had taken when the dispatcher looked last, or fewer. */
static __device__ uint32_t room_of(const struct world *w, uint32_t filled, uint32_t tickets)
{
	return QUEUE_PLACES - 2 * w->warps - (filled - tickets);
}

/* What a round of the dispatcher reads of the host's memory: lane i has two tails and word i of the control page. */
struct asked {
	uint32_t a, b;
	uint64_t word;
};

/*
 * All loads are on their way together, those of the control page as one: each instruction that reads the host's memory adds
 * to the round trip. Of two halves of a word either may be older; the next round has both.
 */
static __device__ struct asked ask(const struct world *w, const struct watched watched[2], uint32_t lane)
{
	struct asked asked;

	asked.word = g4_load64_rlx_sys((const uint64_t *)w->control + lane % CONTROL_WORDS);
	asked.a = tail_of(&watched[0]);
	asked.b = tail_of(&watched[1]);
	return asked;
}

/* What is new in the tails goes into the queue. True when there was something. */
static __device__ bool take(const struct world *w, struct watched watched[2], const struct asked *asked,
			    uint32_t *filled, uint32_t *tickets, uint32_t lane)
{
	const uint32_t a = asked->a, b = asked->b;

	if (!__any_sync(G4_WARP_ALL, a != watched[0].tail || b != watched[1].tail))
		return false;
	/*
	 * What the clients wrote before their tails is there for readers of the queue: both halves of this fence are
	 * needed, and at the scope of the host. __threadfence_system() is the dearer kind.
	 */
	__nv_atomic_thread_fence(__NV_ATOMIC_ACQ_REL, __NV_THREAD_SCOPE_SYSTEM);
	uint32_t fresh_a = fresh_of(&w->sessions[lane], &watched[0], a);
	uint32_t fresh_b = fresh_of(&w->sessions[lane + G4_WARP_LANES], &watched[1], b);
	/* no more than fits: every worker may have one place that it has not read yet */
	uint32_t share = room_of(w, *filled, *tickets) / (2 * G4_WARP_LANES);
	if (share < BURST) {
		*tickets = g4_load32_rlx(&w->shared->tickets);
		share = room_of(w, *filled, *tickets) / (2 * G4_WARP_LANES);
	}
	fresh_a = fresh_a < share ? fresh_a : share;
	fresh_b = fresh_b < share ? fresh_b : share;
	uint32_t places_a = places_of(fresh_a);
	uint32_t places = places_a + places_of(fresh_b);
	uint32_t sum = places;
	for (uint32_t step = 1; step < G4_WARP_LANES; step *= 2) {
		uint32_t below = __shfl_up_sync(G4_WARP_ALL, sum, step);
		sum += lane >= step ? below : 0;
	}
	const uint32_t place = *filled + sum - places;
	fill_places(w, place, lane, watched[0].tail + 1, fresh_a);
	fill_places(w, place + places_a, lane + G4_WARP_LANES, watched[1].tail + 1, fresh_b);
	if (fresh_a)
		g4_store32_rlx(&w->sessions[lane].tail, watched[0].tail + fresh_a);
	if (fresh_b)
		g4_store32_rlx(&w->sessions[lane + G4_WARP_LANES].tail, watched[1].tail + fresh_b);
	watched[0].tail += fresh_a;
	watched[1].tail += fresh_b;
	*filled += __shfl_sync(G4_WARP_ALL, sum, G4_WARP_LANES - 1);
	if (lane == 0)
		g4_store32_rlx(&w->shared->filled, *filled);
	return true;
}

static __device__ bool look(const struct world *w, struct watched watched[2], uint32_t *filled, uint32_t *tickets,
			    uint32_t lane)
{
	const struct asked asked = ask(w, watched, lane);

	return take(w, watched, &asked, filled, tickets, lane);
}

static __device__ bool any_busy(const struct world *w, uint32_t lane)
{
	return __any_sync(G4_WARP_ALL, is_busy(w, lane) || is_busy(w, lane + G4_WARP_LANES));
}

/* Has everything written, while still looking; true when it is done and nothing came meanwhile. */
static __device__ bool settle(const struct world *w, struct watched watched[2], uint32_t *filled, uint32_t *tickets,
			      uint32_t lane)
{
	struct shared *s = w->shared;
	uint32_t wanted = g4_load32_acq(&s->sync_done) + 1;

	if (lane == 0)
		g4_store32_rel(&s->sync_wanted, wanted);
	__syncwarp();
	while (g4_load32_acq(&s->sync_done) != wanted) {
		look(w, watched, filled, tickets, lane);
	}
	return !any_busy(w, lane) && !look(w, watched, filled, tickets, lane);
}

/* served: the sessions that this launch has seen. The others' places may be given to clients meanwhile. */
static __device__ void leave(const struct world *w, uint64_t served, uint32_t lane)
{
	for (uint32_t session = lane; session < G4_GPU_SESSIONS; session += G4_WARP_LANES)
		if (is_active(served, session))
			g4_store32_rlx_sys(&w->control->tails[session], w->sessions[session].tail);
	__threadfence_system();
	__syncwarp();
	if (lane == 0) {
		g4_store32_rel_sys(&w->control->left, 1);
		g4_store32_rel(&w->shared->quit, g4_load32_rlx(&w->shared->run));
	}
}

static __device__ void dispatch(const struct world *w, uint32_t run, uint32_t lane)
{
	struct g4_gpu_control *c = w->control;
	struct shared *s = w->shared;
	uint64_t idle_since = g4_monotonic_ns(), seen_active = 0, served = 0;
	uint32_t seen_close = 0, stop = 0, rounds = 0; /* rounds without anything new */
	bool users = true;			       /* as s->users: not known yet */
	struct watched watched[2] = {{NULL, 0, 0}, {NULL, 0, 0}};
	/* tickets of the last launch that found nothing are void: new ones begin where the queue is empty */
	uint32_t filled = s->filled, tickets = filled;

	if (lane == 0) {
		c->started_ns = g4_realtime_ns();
		g4_store32_rlx(&s->tickets, filled);
		g4_store32_rlx(&s->users, 1);
		g4_store32_rel(&s->run, run);
	}
	for (;;) {
		const struct asked asked = ask(w, watched, lane);
		bool found = take(w, watched, &asked, &filled, &tickets, lane);
		uint64_t active = __shfl_sync(G4_WARP_ALL, asked.word, 0);
		uint64_t ends = __shfl_sync(G4_WARP_ALL, asked.word, 1),
			 leaves = __shfl_sync(G4_WARP_ALL, asked.word, 2);
		const uint32_t close = (uint32_t)(ends >> 32);
		const bool stay = (uint32_t)leaves != 0, once = leaves >> 32 != 0;

		stop = (uint32_t)ends;
		if (stop)
			active = 0;
		if (active != seen_active) {
			seen_active = active;
			served |= active;
			watched[0] = watch(w, active, lane);
			watched[1] = watch(w, active, lane + G4_WARP_LANES);
			if (lane == 0)
				g4_store64_rel_sys(&c->seen_active, active);
		}
		if (close != seen_close) {
			seen_close = close;
			if (lane == 0)
				g4_store32_rel(&s->close_wanted, close);
		}
		if (found && !stop) {
			if (!users && lane == 0)
				g4_store32_rlx(&s->users, 1);
			users = true;
			rounds = 0;
			continue;
		}
		/* the clock and the rest are for when nothing happens */
		if (++rounds % IDLE_ROUNDS && !stop && close == 0)
			continue;
		uint64_t now = __shfl_sync(G4_WARP_ALL, g4_monotonic_ns(), 0);
		if (rounds < 2 * IDLE_ROUNDS)
			idle_since = now;
		bool closing = seen_close && seen_close != __shfl_sync(G4_WARP_ALL, g4_load32_acq(&s->close_done), 0);
		bool works = !stop && !once && __shfl_sync(G4_WARP_ALL, g4_load32_rlx(&s->works), 0);
		if (works && users && !found && !any_busy(w, lane)) {
			users = false;
			if (lane == 0)
				g4_store32_rlx(&s->users, 0);
		}
		if (found || closing || works) {
			idle_since = now;
			continue;
		}
		if (!stop && !once && (now - idle_since < w->idle_ns || stay))
			continue;
		if (any_busy(w, lane)) {
			if (!stop)
				idle_since = now;
			continue;
		}
		if (settle(w, watched, &filled, &tickets, lane))
			break;
		idle_since = now;
	}
	leave(w, served, lane);
}

/* ------------------------------------------------------------------ housekeeper, the leader */

static __device__ void flush_in_background(const struct world *w, uint32_t run, struct g4_wg *wg)
{
	struct shared *s = w->shared;
	uint64_t last = g4_monotonic_ns(), job_ns = 0, damaged = g4_load64_rlx(&w->fs->damaged_pages);

	while (g4_load32_acq(&s->quit) != run) {
		uint32_t wanted = g4_load32_acq(&s->sync_wanted), close = g4_load32_acq(&s->close_wanted);
		int rc = 0;

		if (close && close != g4_load32_rlx(&s->close_done)) {
			g4_session_close(wg, w->fs, &w->sessions[(close & 0xff) - 1]);
			g4_store32_rel(&s->close_done, close);
			g4_store32_rel_sys(&w->control->closed, close);
		}
		const uint64_t met = g4_load64_rlx(&w->fs->damaged_pages);
		if (met != damaged && !(w->fs->flags & G4_FS_READ_ONLY)) {
			(void)g4_jobs_log(wg, w->fs); /* the count; where nothing can be logged it is lost */
			damaged = met;
		}
		g4_gpu_put_told(w->fs, &w->control->told);
		bool asked = wanted != g4_load32_rlx(&s->sync_done);
		if (asked || g4_monotonic_ns() - last > w->commit_ns || g4_dirty_pressure(w->fs, false)) {
			rc = g4_sync_all(wg, w->fs, false);
			int discarded = g4_discard_freed(wg, w->fs);
			rc = rc < 0 ? rc : discarded;
			last = g4_monotonic_ns();
			g4_jobs_look(w->fs);
		}
		/* before a worker has to, for whose command others wait */
		const int early = g4_commit_early(wg, w->fs);
		rc = rc < 0 ? rc : early;
		if (rc < 0)
			g4_store32_rel_sys(&w->control->error, (uint32_t)-rc);
		uint64_t wait = 1;
		if (g4_monotonic_ns() >= job_ns) {
			wait = g4_jobs_serve(wg, w->fs, !g4_load32_rlx(&s->users));
			g4_store32_rlx(&s->works, wait != UINT64_MAX);
			job_ns = g4_monotonic_ns() + (wait == UINT64_MAX ? HOUSE_NS : wait);
		}
		if (asked)
			g4_store32_rel(&s->sync_done, wanted);
		else if (wait != 0)
			__nanosleep(HOUSE_NS);
	}
	g4_gpu_put_told(w->fs, &w->control->told);
}

/* ------------------------------------------------------------------ workers, all lanes converged */

static __device__ bool has_come(const uint64_t *place, uint32_t ticket, uint64_t *word)
{
	*word = __shfl_sync(G4_WARP_ALL, g4_load64_rlx(place), 0);
	if (!is_for(*word, ticket))
		return false;
	/* the word stays until the ticket is used; a fence would wait for whatever else is on its way */
	g4_load64_acq(place);
	__syncwarp();
	return true;
}

/*
 * Does a piece of somebody's large transfer or commit, if it is one of those that look for these, or of a scrub. False: there was none.
 */
static __device__ bool help(const struct world *w, struct g4_wg *wg, bool helper, bool works, uint32_t lane)
{
	struct g4_fs *fs = w->fs;
	bool helped = false;

	if (!__any_sync(G4_WARP_ALL,
			(helper && (g4_load64_rlx(&fs->split.open) != 0 || g4_commit_workers_call(&fs->journal))) ||
				(works && g4_scrub_calls(fs))))
		return false;
	if (lane == 0) {
		helped = (helper && (g4_split_help(wg, fs) || g4_commit_workers_help(wg, &fs->journal))) ||
			 g4_scrub_help(wg, fs);
		g4_wg_dismiss(wg);
	} else {
		g4_fs_serve(wg);
	}
	return __any_sync(G4_WARP_ALL, helped);
}

/*
 * Waits for the ticket's place to be filled. Those whose turn is near look at their place and at hardly anything else:
 * `filled` and `quit` are one line each for all warps. Those far from it rest, or help others. False: the kernel ends.
 */
static __device__ bool await_turn(const struct world *w, struct g4_wg *wg, uint32_t run, uint32_t ticket, uint32_t lane,
				  uint64_t *word)
{
	struct shared *s = w->shared;
	const uint64_t *place = &w->queue[ticket % QUEUE_PLACES];

	for (;;) {
		const int32_t ahead = (int32_t)(ticket - __shfl_sync(G4_WARP_ALL, g4_load32_rlx(&s->filled), 0));
		const bool eager = ahead < (int32_t)EAGER_AHEAD;

		for (uint32_t look = 0; look < (eager ? TURN_LOOKS : 1); look++)
			if (has_come(place, ticket, word))
				return true;
		if (__any_sync(G4_WARP_ALL, g4_load32_rlx(&s->quit) == run))
			return false;
		if (eager)
			continue;
		const bool far = ahead >= (int32_t)HELP_AHEAD, helper = far && ticket % HELP_EVERY == 0;
		/* a job wants all of them */
		const bool works = far && __any_sync(G4_WARP_ALL, g4_load32_rlx(&s->works) != 0);
		if ((helper || works) && help(w, wg, helper, works, lane))
			continue;
		const uint32_t rest = (uint32_t)ahead * AHEAD_NS, most = helper || works ? HELPER_NS : LONGEST_NS;
		__nanosleep(rest < most ? rest : most);
	}
}

static __device__ void work(const struct world *w, uint32_t run, uint32_t warp, uint32_t lane,
			    struct g4_optimistic_memory *memory, struct g4_session_stage *stage)
{
	struct g4_wg *wg = &w->wgs[warp];
	uint64_t word;

	while (__any_sync(G4_WARP_ALL, g4_load32_acq(&w->shared->run) != run))
		__nanosleep(AHEAD_NS);
	if (warp == FIRST_WORKER && lane == 0) {
		g4_store32_rlx(&w->fs->split.helpers, (w->warps - FIRST_WORKER) / HELP_EVERY);
		g4_store32_rlx(&w->fs->jobs.scrub.helpers, w->warps - FIRST_WORKER);
	}
	for (;;) {
		uint32_t ticket = lane == 0 ? atomicAdd(&w->shared->tickets, 1u) : 0;

		ticket = __shfl_sync(G4_WARP_ALL, ticket, 0);
		if (!await_turn(w, wg, run, ticket, lane, &word))
			break;
		struct g4_session *session = &w->sessions[word >> 40 & 0x3f];
		for (uint32_t k = 0; k < (word >> 32 & 0xff); k++)
			g4_session_execute_as(true, wg, memory, w->fs, session, (uint32_t)word + k, stage);
	}
	if (warp == FIRST_WORKER && lane == 0) {
		g4_store32_rlx(&w->fs->split.helpers, 0);
		g4_store32_rlx(&w->fs->jobs.scrub.helpers, 0);
	}
}

static __global__ void __launch_bounds__(BLOCK_WARPS *G4_WARP_LANES, BLOCKS_A_SM)
	persistent(const __grid_constant__ struct world world, uint32_t run)
{
	const struct world *w = &world; /* in constant memory: no way to the L2 cache for each look at it */
	__shared__ __align__(64) struct g4_session_stage stages[BLOCK_WARPS];
	uint32_t warp = blockIdx.x * BLOCK_WARPS + threadIdx.x / G4_WARP_LANES, lane = threadIdx.x % G4_WARP_LANES;
	struct g4_session_stage *stage = &stages[threadIdx.x / G4_WARP_LANES];
	__shared__ __align__(64) struct g4_optimistic_memory memories[BLOCK_WARPS];
	struct g4_optimistic_memory *memory = &memories[threadIdx.x / G4_WARP_LANES];

	if (lane == 0) {
		g4_optimistic_furnish(memory, w->fs);
		stage->text = w->stages + warp * STAGE_BYTES;
		stage->data = stage->text + G4_RING_MAX_TEXT;
	}
	__syncwarp();
	if (warp == 0) {
		dispatch(w, run, lane);
	} else if (warp == 1) {
		struct g4_wg *wg = &w->wgs[warp];
		if (lane == 0) {
			flush_in_background(w, run, wg);
			g4_wg_dismiss(wg);
		} else {
			g4_fs_serve(wg);
		}
	} else {
		work(w, run, warp, lane, memory, stage);
	}
}

/* ------------------------------------------------------------------ host side */

struct g4_gpu {
	struct world world; /* addresses in device memory, and the control page's */
	struct g4_gpu_control *control;
	uint8_t *scratch; /* of all workers */
	uint32_t blocks;
	uint32_t launches;
	cudaStream_t kernel, admin;
};

static thread_local char last_error[256]; /* clients, the agent and the mounting thread call at the same time */

static bool good(cudaError_t rc, const char *call)
{
	if (rc == cudaSuccess)
		return true;
	snprintf(last_error, sizeof(last_error), "%s: %s", call, cudaGetErrorString(rc));
	(void)cudaGetLastError(); /* told; the next call starts anew */
	return false;
}
#define GOOD(call) good((call), #call)

extern "C" const char *g4_gpu_error(void)
{
	return last_error;
}

extern "C" int g4_gpu_count(void)
{
	int count = 0;

	return GOOD(cudaGetDeviceCount(&count)) ? count : 0;
}

extern "C" int g4_gpu_put(struct g4_gpu *gpu, void *device, const void *host, uint64_t bytes)
{
	return GOOD(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, gpu->admin)) &&
			       GOOD(cudaStreamSynchronize(gpu->admin)) ?
		       0 :
		       -G4_E_IO;
}

extern "C" int g4_gpu_get(struct g4_gpu *gpu, void *host, const void *device, uint64_t bytes)
{
	return GOOD(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, gpu->admin)) &&
			       GOOD(cudaStreamSynchronize(gpu->admin)) ?
		       0 :
		       -G4_E_IO;
}

#define CLEAR_BYTES 65536u

/*
 * CUDA clears by a kernel of its own, which would wait for a multiprocessor: the persistent kernel may have all of them, for
 * as long as there is work. Once it has been started, zeros are copied, which needs none.
 */
static bool clear(struct g4_gpu *gpu, uint8_t *memory, uint64_t bytes)
{
	static const uint8_t zeros[CLEAR_BYTES] = {0};

	if (gpu->launches == 0)
		return GOOD(cudaMemsetAsync(memory, 0, bytes, gpu->admin)) && GOOD(cudaStreamSynchronize(gpu->admin));
	for (uint64_t at = 0; at < bytes; at += CLEAR_BYTES)
		if (g4_gpu_put(gpu, memory + at, zeros, g4_min64(CLEAR_BYTES, bytes - at)) < 0)
			return false;
	return true;
}

extern "C" void *g4_gpu_alloc(struct g4_gpu *gpu, uint64_t bytes)
{
	void *memory = NULL;

	/* on the admin stream: the default stream would wait for the kernel */
	if (!GOOD(cudaMallocAsync(&memory, bytes, gpu->admin)))
		return NULL;
	if (!clear(gpu, (uint8_t *)memory, bytes)) {
		(void)cudaFreeAsync(memory, gpu->admin); /* the error that is told is the first one */
		return NULL;
	}
	return memory;
}

extern "C" void g4_gpu_free(struct g4_gpu *gpu, void *memory)
{
	if (memory)
		(void)GOOD(cudaFreeAsync(memory, gpu->admin));
}

static int register_as(void *host, uint64_t bytes, unsigned flags, void **device)
{
	if (!GOOD(cudaHostRegister(host, bytes, cudaHostRegisterMapped | cudaHostRegisterPortable | flags)))
		return -G4_E_NOTSUP;
	if (GOOD(cudaHostGetDevicePointer(device, host, 0)))
		return 0;
	(void)GOOD(cudaHostUnregister(host));
	return -G4_E_NOTSUP;
}

extern "C" int g4_gpu_register(struct g4_gpu *gpu, void *host, uint64_t bytes, void **device)
{
	(void)gpu;
	return register_as(host, bytes, 0, device);
}

extern "C" int g4_gpu_register_io(struct g4_gpu *gpu, void *registers, uint64_t bytes, void **device)
{
	(void)gpu;
	return register_as(registers, bytes, cudaHostRegisterIoMemory, device);
}

static __global__ void try_lanes(struct g4_nvme_lanes *lanes, uint32_t count, uint64_t ns, int32_t *result)
{
	for (uint32_t i = 0; i < count && *result == 0; i++)
		*result = g4_nvme_lanes_try(&lanes[i], ns);
}

extern "C" int g4_gpu_try_lanes(struct g4_gpu *gpu, struct g4_nvme_lanes *lanes, uint32_t count, uint64_t ns)
{
	int32_t *on_gpu = (int32_t *)g4_gpu_alloc(gpu, sizeof(*on_gpu)), result = 0;

	if (!on_gpu)
		return -G4_E_NOMEM;
	try_lanes<<<1, 1, 0, gpu->admin>>>(lanes, count, ns, on_gpu);
	const int rc = GOOD(cudaGetLastError()) ? g4_gpu_get(gpu, &result, on_gpu, sizeof(result)) : -G4_E_IO;
	g4_gpu_free(gpu, on_gpu);
	return rc < 0 ? rc : result;
}

extern "C" void g4_gpu_unregister(struct g4_gpu *gpu, void *host)
{
	(void)gpu;
	(void)GOOD(cudaHostUnregister(host));
}

extern "C" int g4_gpu_set_session(struct g4_gpu *gpu, uint32_t id, const struct g4_session *session)
{
	return g4_gpu_put(gpu, &gpu->world.sessions[id], session, sizeof(*session));
}

extern "C" int g4_gpu_get_session(struct g4_gpu *gpu, uint32_t id, struct g4_session *session)
{
	return g4_gpu_get(gpu, session, &gpu->world.sessions[id], sizeof(*session));
}

extern "C" uint32_t g4_gpu_workers(const struct g4_gpu *gpu)
{
	return gpu->world.warps - 2;
}

extern "C" struct g4_gpu_control *g4_gpu_control(struct g4_gpu *gpu)
{
	return gpu->control;
}

/* As many blocks as are resident at a time: a block that waits for a place would hold up nobody, but serve nobody. */
static bool choose_size(struct g4_gpu *gpu, const struct g4_gpu_options *options)
{
	uint64_t keep = UINT64_MAX; /* freed memory stays with us: giving it back would wait for the kernel */
	cudaDeviceProp props;
	cudaMemPool_t pool;
	int a_sm = 0;

	/* a kernel that is loaded at its first launch waits for those that run, and one of these runs for ever */
	if (setenv("CUDA_MODULE_LOADING", "EAGER", 0) != 0 || !GOOD(cudaSetDevice(0)) ||
	    !GOOD(cudaDeviceGetDefaultMemPool(&pool, 0)) ||
	    !GOOD(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep)) ||
	    !GOOD(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync | cudaDeviceMapHost)) ||
	    !GOOD(cudaDeviceSetLimit(cudaLimitStackSize, STACK_BYTES)) || !GOOD(cudaGetDeviceProperties(&props, 0)) ||
	    !GOOD(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&a_sm, persistent, BLOCK_WARPS * G4_WARP_LANES, 0)))
		return false;
	uint32_t sms = (uint32_t)props.multiProcessorCount;
	if (options->sms && options->sms < sms)
		sms = options->sms;
	gpu->blocks = sms * (uint32_t)a_sm;
	gpu->world.warps = gpu->blocks * BLOCK_WARPS;
	return gpu->blocks > 0;
}

static bool make_workers(struct g4_gpu *gpu, uint32_t scratch_bytes)
{
	struct world *w = &gpu->world;
	struct g4_wg *wgs = (struct g4_wg *)calloc(w->warps, sizeof(*wgs));

	gpu->scratch = (uint8_t *)g4_gpu_alloc(gpu, (uint64_t)w->warps * scratch_bytes);
	w->wgs = (struct g4_wg *)g4_gpu_alloc(gpu, w->warps * sizeof(struct g4_wg));
	w->stages = (uint8_t *)g4_gpu_alloc(gpu, w->warps * STAGE_BYTES);
	w->sessions = (struct g4_session *)g4_gpu_alloc(gpu, (G4_GPU_SESSIONS + 1) * sizeof(struct g4_session));
	w->queue = (uint64_t *)g4_gpu_alloc(gpu, QUEUE_PLACES * sizeof(uint64_t));
	w->shared = (struct shared *)g4_gpu_alloc(gpu, sizeof(struct shared));
	for (uint32_t i = 0; wgs && i < w->warps; i++)
		g4_wg_init(&wgs[i], i, gpu->scratch + (uint64_t)i * scratch_bytes, scratch_bytes);
	bool made = gpu->scratch && wgs && w->wgs && w->stages && w->sessions && w->queue && w->shared &&
		    g4_gpu_put(gpu, w->wgs, wgs, w->warps * sizeof(*wgs)) == 0;
	free(wgs);
	return made;
}

extern "C" int g4_gpu_open(const struct g4_gpu_options *options, struct g4_gpu **out)
{
	struct g4_gpu *gpu = (struct g4_gpu *)calloc(1, sizeof(*gpu));

	if (!gpu)
		return -G4_E_NOMEM;
	if (!choose_size(gpu, options) || !GOOD(cudaStreamCreateWithFlags(&gpu->kernel, cudaStreamNonBlocking)) ||
	    !GOOD(cudaStreamCreateWithFlags(&gpu->admin, cudaStreamNonBlocking)) ||
	    !GOOD(cudaHostAlloc((void **)&gpu->control, sizeof(*gpu->control), cudaHostAllocMapped)) ||
	    !make_workers(gpu, options->scratch_bytes) || !GOOD(g4_clock_sync(gpu->admin))) {
		g4_gpu_close(gpu);
		return -G4_E_NOTSUP;
	}
	memset(gpu->control, 0, sizeof(*gpu->control));
	gpu->world.control = gpu->control;
	gpu->world.commit_ns = (uint64_t)options->commit_ms * 1000000;
	gpu->world.idle_ns = (uint64_t)options->idle_us * 1000;
	*out = gpu;
	return 0;
}

/* Device memory goes with the context; streams and pinned memory are this object's. */
extern "C" void g4_gpu_close(struct g4_gpu *gpu)
{
	struct world *w = &gpu->world;
	cudaMemPool_t pool;

	g4_gpu_free(gpu, gpu->scratch);
	g4_gpu_free(gpu, w->wgs);
	g4_gpu_free(gpu, w->stages);
	g4_gpu_free(gpu, w->sessions);
	g4_gpu_free(gpu, w->queue);
	g4_gpu_free(gpu, w->shared);
	if (gpu->admin)
		(void)GOOD(cudaStreamSynchronize(gpu->admin));
	/* an engine that never ran leaves the GPU to others: the CPU may run this file system for days */
	if (gpu->launches == 0 && GOOD(cudaDeviceGetDefaultMemPool(&pool, 0)))
		(void)GOOD(cudaMemPoolTrimTo(pool, 0));
	if (gpu->control)
		(void)GOOD(cudaFreeHost(gpu->control));
	if (gpu->kernel)
		(void)GOOD(cudaStreamDestroy(gpu->kernel));
	if (gpu->admin)
		(void)GOOD(cudaStreamDestroy(gpu->admin));
	free(gpu);
}

extern "C" int g4_gpu_launch(struct g4_gpu *gpu, void *fs)
{
	int theirs = 0;

	gpu->control->left = 0;
	gpu->world.fs = (struct g4_fs *)fs;
	/* any thread of the program may call, and it may work on another GPU */
	if (!GOOD(cudaGetDevice(&theirs)) || !GOOD(cudaSetDevice(0)))
		return -G4_E_IO;
	persistent<<<gpu->blocks, BLOCK_WARPS * G4_WARP_LANES, 0, gpu->kernel>>>(gpu->world, ++gpu->launches);
	bool launched = GOOD(cudaGetLastError());
	return GOOD(cudaSetDevice(theirs)) && launched ? 0 : -G4_E_IO;
}

extern "C" int g4_gpu_wait(struct g4_gpu *gpu)
{
	return GOOD(cudaStreamSynchronize(gpu->kernel)) ? 0 : -G4_E_IO;
}

extern "C" void g4_gpu_abort(struct g4_gpu *gpu)
{
	const uint32_t one = 1;

	if (GOOD(cudaMemcpyToSymbolAsync(g4_abort_word, &one, sizeof(one), 0, cudaMemcpyHostToDevice, gpu->admin)))
		(void)GOOD(cudaStreamSynchronize(gpu->admin));
}
