/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SIMT layer: what engine code may assume about the processor it runs on.
 *
 * A *workgroup* executes one operation. It has one leader lane and, on `lanes` and `cuda`, further lanes:
 *     cpu    width 1: the calling thread
 *     lanes  width G4_LANES (4 by default): real threads, for tests only
 *     cuda   width 32: one warp
 *
 * Execution model (DESIGN.md "One source, three builds"): control flow of an operation runs on the leader alone, in plain
 * sequential C. Data-parallel work is a *region*: the leader calls g4_copy(), g4_zero(), g4_equal(), ... and all lanes
 * execute it together. The other lanes sit in g4_wg_serve() between regions. Inside a region, code is SPMD and uses the
 * collectives below. A function's comment says "leader" (called by the leader, may open regions), "collective" (every
 * lane enters, converged, same arguments) or "per-lane".
 */
#ifndef G4_SIMT_H
#define G4_SIMT_H

#include "base/base.h"

/*
 * What a build defines inline in its wg.h and what it defines in a .c file. The cpu build inlines everything: a region
 * on one lane is a plain function call, and g4_copy() is memcpy().
 */
#if G4_CUDA
#define G4_WG_FN G4_FN G4_INLINE
#define G4_REGION_FN G4_FN
#elif defined(G4_LANES)
#define G4_WG_FN G4_FN
#define G4_REGION_FN G4_FN
#else
#define G4_WG_FN G4_FN G4_INLINE
#define G4_REGION_FN G4_FN G4_INLINE
#endif

struct g4_wg;

/* ---- workgroup (per-lane) ---- */
G4_WG_FN uint32_t g4_wg_width(const struct g4_wg *wg);
G4_WG_FN uint32_t g4_wg_lane(const struct g4_wg *wg);
/* Index of the workgroup in its engine, for sharding; stable for its life. */
G4_WG_FN uint32_t g4_wg_index(const struct g4_wg *wg);
/* The workgroup's scratch memory: G4_WG_SCRATCH_BYTES bytes, 64 B aligned, shared by its lanes, contents arbitrary. */
#define G4_WG_SCRATCH_BYTES (64 * 1024)
G4_WG_FN void *g4_wg_scratch(const struct g4_wg *wg);

/* ---- regions (leader) ---- */
G4_REGION_FN void g4_copy(struct g4_wg *wg, void *to, const void *from, uint64_t bytes); /* no overlap */
G4_REGION_FN void g4_zero(struct g4_wg *wg, void *to, uint64_t bytes);
G4_REGION_FN bool g4_equal(struct g4_wg *wg, const void *a, const void *b, uint64_t bytes);
/*
 * Runs region `kind` (G4_REGION_USER and above, implemented by g4_region_user) on all lanes. `args` lies in memory that
 * all lanes share, such as the scratch area; never on the leader's stack, which on a GPU is the leader's own. (The three
 * above take addresses on the stack: the leader then works alone.)
 */
#define G4_REGION_USER 16
/*
 * The user regions of the engine, one list so that no two have one number: X(NAME, the header that declares what it runs).
 * engine/regions.c executes them.
 */
#define G4_USER_REGIONS(X)                                                                                             \
	X(CRC32C, "hash/crc32c.h")                                                                                     \
	X(CACHE_PROBE, "cache/cache.h")                                                                                \
	X(LEAF_SEARCH, "dir/leaf.h")                                                                                   \
	X(COMMIT, "journal/wide.h")                                                                                    \
	X(OPTIMISTIC_LOOKUP, "engine/ring.h")                                                                          \
	X(CALLER, "engine/caller.h")
enum g4_user_region {
	G4_REGION_BEFORE_ENGINE = G4_REGION_USER,
#define G4_USER_REGION_NUMBER(name, header) G4_REGION_##name,
	G4_USER_REGIONS(G4_USER_REGION_NUMBER)
#undef G4_USER_REGION_NUMBER
};
G4_REGION_FN void g4_region(struct g4_wg *wg, uint32_t kind, void *args);
/* Defined once above this layer: executes a user region on every lane. Collective. */
G4_FN void g4_region_user(struct g4_wg *wg, uint32_t kind, void *args);
/* What lanes other than the leader do while the leader runs an operation: execute regions until dismissed. */
G4_REGION_FN void g4_wg_serve(struct g4_wg *wg);
/* Leader: ends g4_wg_serve() in the other lanes. */
G4_REGION_FN void g4_wg_dismiss(struct g4_wg *wg);

/* ---- collectives (inside regions; every lane enters) ---- */
G4_WG_FN void g4_sync(struct g4_wg *wg);
G4_WG_FN bool g4_any(struct g4_wg *wg, bool predicate);
G4_WG_FN bool g4_all(struct g4_wg *wg, bool predicate);
G4_WG_FN uint64_t g4_ballot(struct g4_wg *wg, bool predicate); /* bit i: lane i */
G4_WG_FN uint64_t g4_broadcast(struct g4_wg *wg, uint64_t value, uint32_t lane);
G4_WG_FN uint64_t g4_reduce_min(struct g4_wg *wg, uint64_t value);
G4_WG_FN uint64_t g4_reduce_max(struct g4_wg *wg, uint64_t value);
G4_WG_FN uint64_t g4_reduce_sum(struct g4_wg *wg, uint64_t value);
G4_WG_FN uint64_t g4_scan_exclusive(struct g4_wg *wg, uint64_t value);
/* g4_copy() for lanes that are in a region already. The copy is there for all after the next collective. */
G4_REGION_FN void g4_copy_in_region(struct g4_wg *wg, void *to, const void *from, uint64_t bytes);

/*
 * ---- atomics (per-lane), implemented in simt/cpu/atomic.h and simt/cuda/atomic.h, included below ----
 * On plain uint32_t / uint64_t objects, naturally aligned. Names: g4_[op][width]_[order]; orders rlx, acq, rel, acqrel.
 * Scope is the engine (all workgroups); the suffix _sys widens it to the system (host and GPU).
 *     g4_load32_rlx g4_load32_acq g4_store32_rlx g4_store32_rel, the same with _sys, and all of them for 64
 *     g4_add32 g4_sub32 g4_or32 g4_and32 g4_xchg32 g4_atomic_max32 (and 64): fetch-and-op, acquire-release, return the
 *     old value (max has the long name because g4_max64() compares two numbers)
 *     g4_add32_acq g4_add32_rel g4_sub32_rel, the same for 64: with one half of that order. On a GPU each half is a wait
 *     for the memory system of about half a microsecond; where a counter only takes or only gives, use these
 *     g4_cas32_acq g4_cas64_acq: acquire only
 *     g4_fence_acq(): relaxed loads before it come before what is behind it
 *     g4_cas32 g4_cas64(p, expected, desired): bool, acquire-release on success, acquire on failure
 */

/*
 * ---- locks: fair, leader only. A workgroup holds them in the order its module's README gives. ----
 * Ticket locks, laid out in simt/ticket.h; zero is unlocked. Rules, numbered: simt/README.md.
 */
struct g4_lock {
	uint64_t word;
};
G4_FN void g4_lock(struct g4_lock *lock);
G4_FN bool g4_trylock(struct g4_lock *lock);
G4_FN void g4_unlock(struct g4_lock *lock);

/*
 * Readers/writer: arrival order, adjacent readers share. On a CPU writers that wait for one another enter as they are awake, for
 * a millisecond, and one at a time is in the order with the readers.
 */
struct g4_rwlock {
	uint64_t word;
	/* on a CPU: */
	uint32_t version; /* grows whenever a writer has finished */
	uint32_t gate;	  /* of writers */
};
G4_FN void g4_read_lock(struct g4_rwlock *lock);
/*
 * Per-lane. Fails where a writer has the lock or waits for it. At most one lane of a workgroup at a time tries or holds one
 * and the same lock in this way.
 */
G4_FN bool g4_read_trylock(struct g4_rwlock *lock);
G4_FN void g4_read_unlock(struct g4_rwlock *lock);
G4_FN void g4_write_lock(struct g4_rwlock *lock);
G4_FN bool g4_write_trylock(struct g4_rwlock *lock);
G4_FN void g4_write_unlock(struct g4_rwlock *lock);
/*
 * Per-lane. Reading without the lock: notes the version, false where a writer is inside or somebody waits. Then the caller
 * takes copies of what the lock guards, with g4_peek(), follows no pointer in them, and believes them only if
 * g4_read_unchanged(), behind a g4_fence_acq(), says that no writer was there meanwhile. (Optimistic lock coupling, Leis et
 * al., DaMoN 2016.)
 */
#if !G4_CUDA /* there they are inline, in simt/ticket.h and simt/cuda/atomic.h */
G4_FN bool g4_read_begin(const struct g4_rwlock *lock, uint32_t *version);
G4_FN bool g4_read_unchanged(const struct g4_rwlock *lock, uint32_t version);
/* Per-lane. Copies 8 B words that others may be changing, each of them whole. 8 B aligned. */
G4_FN void g4_peek(void *to, const void *from, uint32_t words);
#endif
/* Per-lane. A version more of a lock that nobody has or can take meanwhile, with release order. */
G4_FN void g4_next_version(struct g4_rwlock *lock);

/*
 * ---- waiting (leader): blocks while *word == seen; spurious returns allowed. Woken by g4_wake(). ----
 * The waker changes *word with an atomic before it calls g4_wake(). Both are of one engine: `word` is no memory that
 * another process shares.
 */
G4_FN void g4_wait(uint32_t *word, uint32_t seen);
G4_FN void g4_wake(uint32_t *word); /* wakes every waiter on word */
G4_FN void g4_pause(void);	    /* one polite step of a spin loop */

/* ---- time ---- */
G4_FN int64_t g4_realtime_ns(void); /* nanoseconds since 1970-01-01 UTC */
G4_FN int64_t
g4_realtime_of_tick_ns(void);	      /* the same at the host's last tick, or a little before: CLOCK_REALTIME_COARSE */
G4_FN uint64_t g4_monotonic_ns(void); /* for intervals */

#if G4_CUDA
#include "simt/cuda/atomic.h"
#include "simt/cuda/wg.h"
#include "simt/ticket.h"
#else
#include "simt/cpu/atomic.h"
#ifndef G4_LANES
#include "simt/cpu/wg.h"
#endif
#if defined(G4_LOCK_ORDER) && !defined(G4_ORDER_IS_BELOW)
#include "simt/order.h"
#endif

/* Per-lane. g4_peek() of one word; what is read behind it is read later. */
G4_INLINE void g4_peek_acq(uint64_t *to, const uint64_t *from)
{
	g4_peek(to, from, 1);
	g4_fence_acq();
}

/*
 * Per-lane. With a lock, begins to read it: its version times 2, plus 1, or 0 where a writer is about. Without, loads the
 * word with acquire order. On a GPU the lanes of a warp do both with one instruction.
 */
G4_INLINE uint64_t g4_read_begin_or(const struct g4_rwlock *lock, const uint64_t *word)
{
	uint32_t version;

	if (!lock)
		return g4_load64_acq(word);
	return g4_read_begin(lock, &version) ? (uint64_t)version << 1 | 1 : 0;
}
#endif

#endif
