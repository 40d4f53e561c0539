/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SIMT layer: what engine code may assume about the processor it runs on.
 *
 * A *workgroup* executes one operation. It has one leader lane and, on `lanes` and `cuda`, further lanes:
 *     cpu    width 1: the calling thread
 *     lanes  width G4_LANES (4 by default): one after the other, for tests only
 *     cuda   width 32: one warp
 *
 * Execution model (DESIGN.md "One source, three builds"): control flow of an operation runs on the leader alone, in plain
 * sequential C. Data-parallel work is a *region*: the leader calls g4_copy(), g4_zero(), g4_equal(), ... and all lanes
 * execute it together. The other lanes sit in g4_wg_next() between regions. Inside a region, code is SPMD and uses the
 * collectives below. A function's comment says "leader" (called by the leader, may open regions), "collective" (every
 * lane enters, converged, same arguments) or "per-lane".
 */
#ifndef G4_SIMT_H
#define G4_SIMT_H

#include "base/base.h"
#include "simt/lock.h"
#include "simt/scratch.h"

/*
 * What a build defines inline in its wg.h and what it defines in a .c file. The cpu build inlines everything: a region
 * on one lane is a plain function call, and g4_copy() is memcpy().
 */
#if G4_CUDA
#define G4_WG_FN G4_FN G4_INLINE
#define G4_REGION_FN G4_FN
#define G4_REGION_BODY G4_FN __noinline__
#elif defined(G4_LANES)
#define G4_WG_FN G4_FN
#define G4_REGION_FN G4_FN
#define G4_REGION_BODY G4_FN
#else
#define G4_WG_FN G4_FN G4_INLINE
#define G4_REGION_FN G4_FN G4_INLINE
#define G4_REGION_BODY G4_FN
#endif

struct g4_wg;

/* ---- workgroup (per-lane) ---- */
G4_WG_FN uint32_t g4_wg_width(const struct g4_wg *wg);
G4_WG_FN uint32_t g4_wg_lane(const struct g4_wg *wg);
/* Index of the workgroup in its engine, for sharding; stable for its life. */
G4_WG_FN uint32_t g4_wg_index(const struct g4_wg *wg);
/*
 * The workgroup's scratch memory, in memory that its lanes share. An engine's workgroups have what its mount may take at a time
 * (scratch_bytes in inode/mounted.h), all others G4_WG_SCRATCH_BYTES, which is enough for any mount.
 */
#define G4_WG_SCRATCH_BYTES (144u * 1024)
G4_WG_FN struct g4_scratch *g4_wg_scratch(struct g4_wg *wg);

/* ---- regions (leader) ---- */
G4_REGION_FN void g4_copy(struct g4_wg *wg, void *to, const void *from, uint64_t bytes); /* no overlap */
G4_REGION_FN void g4_zero(struct g4_wg *wg, void *to, uint64_t bytes);
G4_REGION_FN bool g4_equal(struct g4_wg *wg, const void *a, const void *b, uint64_t bytes);
/*
 *     g4_region(wg, kind, run, args)
 * Runs a region of a layer above on all lanes: run(wg, args), a collective function that is declared G4_REGION_BODY and begins
 * with g4_converge(). `args` lies in memory that all lanes share, such as the scratch area; never on the leader's stack, which on
 * a GPU is the leader's own. (The three above take addresses on the stack: the leader then works alone.)
 *
 * A GPU has no pointers to functions: there the lanes learn from `kind` what the leader runs. Code that lets lanes serve calls
 * for them what may come: each layer has a function for the regions that it and those below it open, around g4_wg_next().
 */
#define G4_REGION_USER 16
/* The numbers, one list so that no two are the same: X(NAME, the header that declares what it runs). */
#define G4_USER_REGIONS(X)                                                                                             \
	X(CRC32C, "hash/crc32c.h")                                                                                     \
	X(DIRECT, "space/direct.h")                                                                                    \
	X(REMAKE, "space/direct.h")                                                                                    \
	X(CACHE_PROBE, "cache/cache.h")                                                                                \
	X(COMMIT, "journal/wide.h")                                                                                    \
	X(SEALED, "journal/sealed_wide.h")                                                                             \
	X(OPTIMISTIC_LOOKUP, "ring/ring.h")                                                                            \
	X(CALLER, "device/caller.h")                                                                                   \
	X(SUMS, "data/sums_region.h")                                                                                  \
	X(BUFFERED, "alloc/buffered.h")                                                                                \
	X(RELEASE, "alloc/release.h")                                                                                  \
	X(LISTING, "alloc/listing.h")                                                                                  \
	X(HINTS, "data/hints.h")                                                                                       \
	X(LISTED, "fs/listed.h")                                                                                       \
	X(LEAF_KEYS, "dir/leaf.h")
enum g4_user_region {
	G4_REGION_BEFORE_ENGINE = G4_REGION_USER,
#define G4_USER_REGION_NUMBER(name, header) G4_REGION_##name,
	G4_USER_REGIONS(G4_USER_REGION_NUMBER)
#undef G4_USER_REGION_NUMBER
};
/* A region that a lane other than the leader is to run. */
struct g4_wg_region {
	uint32_t kind;
	void *args;
};
/*
 * What lanes other than the leader do while the leader runs an operation: they execute regions. False: they were dismissed.
 * True, on a GPU alone: *region is of a layer above; call what it runs, then g4_region_end().
 */
G4_WG_FN bool g4_wg_next(struct g4_wg *wg, struct g4_wg_region *region);
G4_WG_FN void g4_region_end(struct g4_wg *wg);
/* The first thing in a region's function: from here on all lanes run the same instructions. */
G4_WG_FN void g4_converge(struct g4_wg *wg);
/* Leader: ends that in the other lanes. */
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
 *     g4_load32_rlx g4_load32_acq g4_store32_rlx g4_store32_rel, the same with _sys, and all of them for 64;
 *     g4_load8_rlx g4_store8_rlx
 *     g4_add32 g4_sub32 g4_or32 g4_and32 g4_xchg32 g4_atomic_max32 (and 64): fetch-and-op, acquire-release, return the
 *     old value (max has the long name because g4_max64() compares two numbers)
 *     g4_add32_acq g4_add32_rel g4_sub32_rel g4_xchg32_acq, the same for 64: with one half of that order. On a GPU each half is a wait
 *     for the memory system of about half a microsecond; where a counter only takes or only gives, use these
 *     g4_add32_rlx g4_or32_rlx g4_and32_rlx, the same for 64, g4_atomic_max64_rlx: without order. On a GPU one whose old value nobody looks at waits for nothing
 *     g4_cas32_acq g4_cas64_acq: acquire only
 *     g4_fence_acq(), g4_fence_acq_sys(): relaxed loads before it come before what is behind it
 *     g4_fence_rel(), g4_fence_rel_sys(): what is before it comes before relaxed stores behind it
 *     g4_load32_fenced g4_load64_fenced g4_load64_fenced_sys g4_store64_fenced g4_store64_fenced_sys: one of several loads before an
 *     acquire fence, of several stores behind a release fence. On a GPU relaxed, so that they do not wait for each other; elsewhere they acquire or release
 *     themselves, which costs nothing there, and ThreadSanitizer knows no fences. The same of counts and locks, behind one g4_fence_rel()
 *     with nothing written since that they are to publish: g4_add32_fenced g4_add64_fenced g4_sub32_fenced g4_sub64_fenced, g4_unlock_fenced g4_read_unlock_fenced
 *     g4_write_unlock_fenced. Each release of its own would wait until the one before it has arrived
 *     g4_load_pair_rlx(pair, from): two neighbouring words, 16 B aligned, each of them whole and without order. On a GPU one load
 *     g4_cas32 g4_cas64(p, expected, desired): bool, acquire-release on success, acquire on failure
 */

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

#if defined(G4_LANES) && !G4_CUDA
void g4_region(struct g4_wg *wg, uint32_t kind, void (*run)(struct g4_wg *wg, void *args), void *args);
#endif
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

/* A number by which workgroups spread what they count: the index, or, on a GPU, the multiprocessor's, which is no trip to memory. */
G4_INLINE uint32_t g4_wg_place(const struct g4_wg *wg)
{
	return g4_wg_index(wg);
}

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

/* ---- scratch memory (leader): taken and released in opposite order; scratch.h has the rules ---- */
G4_FN G4_INLINE uint32_t g4_scratch_mark(struct g4_wg *wg)
{
	return g4_wg_scratch(wg)->used;
}
/* 64 B aligned. */
G4_FN G4_INLINE void *g4_scratch_take(struct g4_wg *wg, uint64_t bytes)
{
	return g4_scratch_cut(g4_wg_scratch(wg), bytes, 64);
}
/* 4 KiB at a multiple of that, for transfers past the cache. */
G4_FN G4_INLINE uint8_t *g4_scratch_take_page(struct g4_wg *wg)
{
	return (uint8_t *)g4_scratch_cut(g4_wg_scratch(wg), G4_PAGE_BYTES, (uint32_t)G4_PAGE_BYTES);
}
/* Gives back what was taken since. */
G4_FN G4_INLINE void g4_scratch_release(struct g4_wg *wg, uint32_t mark)
{
	g4_scratch_cut_back(g4_wg_scratch(wg), mark);
}

#endif
