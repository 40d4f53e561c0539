/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workgroup of the cpu build: the calling thread, alone. Everything is inline, so that a region is a function call
 * and a collective is its argument. Included by simt/simt.h; empty in the other builds.
 */
#ifndef G4_SIMT_CPU_WG_H
#define G4_SIMT_CPU_WG_H

#include "simt/simt.h"

#if !G4_CUDA && !defined(G4_LANES)

struct g4_wg {
	struct g4_scratch scratch;
	uint32_t index;
};

G4_INLINE uint32_t g4_wg_width(const struct g4_wg *wg)
{
	(void)wg;
	return 1;
}

G4_INLINE uint32_t g4_wg_lane(const struct g4_wg *wg)
{
	(void)wg;
	return 0;
}

G4_INLINE uint32_t g4_wg_index(const struct g4_wg *wg)
{
	return wg->index;
}

G4_INLINE struct g4_scratch *g4_wg_scratch(struct g4_wg *wg)
{
	return &wg->scratch;
}

/* memcpy and its kin want valid pointers even for no bytes; engine code may pass NULL then. */
G4_INLINE void g4_copy(struct g4_wg *wg, void *to, const void *from, uint64_t bytes)
{
	(void)wg;
	if (bytes)
		memcpy(to, from, bytes);
}

G4_INLINE void g4_copy_in_region(struct g4_wg *wg, void *to, const void *from, uint64_t bytes)
{
	g4_copy(wg, to, from, bytes);
}

G4_INLINE void g4_zero(struct g4_wg *wg, void *to, uint64_t bytes)
{
	(void)wg;
	if (bytes)
		memset(to, 0, bytes);
}

G4_INLINE bool g4_equal(struct g4_wg *wg, const void *a, const void *b, uint64_t bytes)
{
	(void)wg;
	return bytes == 0 || memcmp(a, b, bytes) == 0;
}

#define g4_region(wg, kind, run, args) run(wg, args)

G4_INLINE bool g4_wg_next(struct g4_wg *wg, struct g4_wg_region *region)
{
	(void)wg;
	(void)region;
	return false;
}

G4_INLINE void g4_region_end(struct g4_wg *wg)
{
	(void)wg;
}

G4_INLINE void g4_converge(struct g4_wg *wg)
{
	(void)wg;
}

G4_INLINE void g4_wg_dismiss(struct g4_wg *wg)
{
	(void)wg;
}

G4_INLINE void g4_sync(struct g4_wg *wg)
{
	(void)wg;
}

G4_INLINE bool g4_any(struct g4_wg *wg, bool predicate)
{
	(void)wg;
	return predicate;
}

G4_INLINE bool g4_all(struct g4_wg *wg, bool predicate)
{
	(void)wg;
	return predicate;
}

G4_INLINE uint64_t g4_ballot(struct g4_wg *wg, bool predicate)
{
	(void)wg;
	return predicate;
}

G4_INLINE uint64_t g4_broadcast(struct g4_wg *wg, uint64_t value, uint32_t lane)
{
	(void)wg;
	(void)lane;
	return value;
}

G4_INLINE uint64_t g4_reduce_min(struct g4_wg *wg, uint64_t value)
{
	(void)wg;
	return value;
}

G4_INLINE uint64_t g4_reduce_max(struct g4_wg *wg, uint64_t value)
{
	(void)wg;
	return value;
}

G4_INLINE uint64_t g4_reduce_sum(struct g4_wg *wg, uint64_t value)
{
	(void)wg;
	return value;
}

G4_INLINE uint64_t g4_scan_exclusive(struct g4_wg *wg, uint64_t value)
{
	(void)wg;
	(void)value;
	return 0;
}

#endif
#endif
