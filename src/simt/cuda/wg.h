/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workgroup of the cuda build: one whole warp. A kernel's blocks have a multiple of 32 threads in x, and all 32
 * lanes of a warp stay until the leader has dismissed them:
 *
 *     if (g4_wg_lane(wg) == 0) {
 *             ... operations ...
 *             g4_wg_dismiss(wg);
 *     } else {
 *             while (g4_wg_next(wg, &region))
 *                     ... what region.kind runs, and g4_region_end(wg) ...
 *     }
 *
 * Included by simt/simt.h.
 */
#ifndef G4_SIMT_CUDA_WG_H
#define G4_SIMT_CUDA_WG_H

#include "simt/simt.h"

#define G4_WARP_LANES 32
#define G4_WARP_ALL 0xffffffffu

/* In device memory, one a warp. */
struct g4_wg {
	struct g4_scratch scratch;
	uint32_t index;
};

/* What to add to the GPU's clock to get the host's CLOCK_REALTIME; the engine's host side sets it, see clock.c. */
extern G4_FN int64_t g4_realtime_offset_ns;
/* How far the host's CLOCK_REALTIME_COARSE may be behind that; set with it. */
extern G4_FN int64_t g4_coarse_lag_ns;

/*
 * Makes *wg from `bytes` of device memory, 64 B aligned: on the host, before it is copied to the GPU, or by one
 * lane before the others enter.
 */
G4_HD G4_INLINE void g4_wg_init(struct g4_wg *wg, uint32_t index, void *scratch, uint32_t bytes)
{
	g4_scratch_init(&wg->scratch, scratch, bytes);
	wg->index = index;
}

G4_FN G4_INLINE uint32_t g4_wg_width(const struct g4_wg *wg)
{
	(void)wg;
	return G4_WARP_LANES;
}

G4_FN G4_INLINE uint32_t g4_wg_lane(const struct g4_wg *wg)
{
	uint32_t lane;

	(void)wg;
	asm("mov.u32 %0, %%laneid;" : "=r"(lane));
	return lane;
}

G4_FN G4_INLINE uint32_t g4_wg_index(const struct g4_wg *wg)
{
	return wg->index;
}

G4_FN G4_INLINE uint32_t g4_wg_place(const struct g4_wg *wg)
{
	uint32_t place;

	(void)wg;
	asm("mov.u32 %0, %%smid;" : "=r"(place));
	return place;
}

G4_FN G4_INLINE struct g4_scratch *g4_wg_scratch(struct g4_wg *wg)
{
	return &wg->scratch;
}

/* Lanes but the leader: the next region of a layer above; kind 0: they were dismissed. */
G4_FN struct g4_wg_region g4_wg_take(struct g4_wg *wg);
G4_FN G4_INLINE bool g4_wg_next(struct g4_wg *wg, struct g4_wg_region *region)
{
	*region = g4_wg_take(wg);
	return region->kind != 0;
}

/* What the lanes wrote is the leader's to read. */
G4_FN G4_INLINE void g4_region_end(struct g4_wg *wg)
{
	(void)wg;
	__syncwarp();
}

G4_FN G4_INLINE void g4_converge(struct g4_wg *wg)
{
	(void)wg;
	__syncwarp();
}

/* Leader: lets the other lanes run the region, too. */
G4_FN void g4_region_begin(struct g4_wg *wg, uint32_t kind, void *args);
#define g4_region(wg, kind, run, args)                                                                                 \
	do {                                                                                                           \
		g4_region_begin(wg, kind, args);                                                                       \
		run(wg, args);                                                                                         \
		g4_region_end(wg);                                                                                     \
	} while (0)

/* Orders memory between the lanes as well. */
G4_FN G4_INLINE void g4_sync(struct g4_wg *wg)
{
	(void)wg;
	__syncwarp();
}

G4_FN G4_INLINE bool g4_any(struct g4_wg *wg, bool predicate)
{
	(void)wg;
	return __any_sync(G4_WARP_ALL, predicate) != 0;
}

G4_FN G4_INLINE bool g4_all(struct g4_wg *wg, bool predicate)
{
	(void)wg;
	return __all_sync(G4_WARP_ALL, predicate) != 0;
}

G4_FN G4_INLINE uint64_t g4_ballot(struct g4_wg *wg, bool predicate)
{
	(void)wg;
	return __ballot_sync(G4_WARP_ALL, predicate);
}

G4_FN G4_INLINE uint64_t g4_broadcast(struct g4_wg *wg, uint64_t value, uint32_t lane)
{
	(void)wg;
	return __shfl_sync(G4_WARP_ALL, value, (int)lane);
}

G4_FN G4_INLINE uint64_t g4_reduce_min(struct g4_wg *wg, uint64_t value)
{
	(void)wg;
	for (int step = G4_WARP_LANES / 2; step; step /= 2)
		value = g4_min64(value, __shfl_xor_sync(G4_WARP_ALL, value, step));
	return value;
}

G4_FN G4_INLINE uint64_t g4_reduce_max(struct g4_wg *wg, uint64_t value)
{
	(void)wg;
	for (int step = G4_WARP_LANES / 2; step; step /= 2)
		value = g4_max64(value, __shfl_xor_sync(G4_WARP_ALL, value, step));
	return value;
}

G4_FN G4_INLINE uint64_t g4_reduce_sum(struct g4_wg *wg, uint64_t value)
{
	(void)wg;
	for (int step = G4_WARP_LANES / 2; step; step /= 2)
		value += __shfl_xor_sync(G4_WARP_ALL, value, step);
	return value;
}

G4_FN G4_INLINE uint64_t g4_scan_exclusive(struct g4_wg *wg, uint64_t value)
{
	uint32_t lane = g4_wg_lane(wg);
	uint64_t sum = value;

	for (uint32_t step = 1; step < G4_WARP_LANES; step *= 2) {
		uint64_t below = __shfl_up_sync(G4_WARP_ALL, sum, step);

		if (lane >= step)
			sum += below;
	}
	return sum - value;
}

#endif
