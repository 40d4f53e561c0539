/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clocks of the cuda build: the GPU's nanosecond timer, which all its multiprocessors share. It counts evenly from
 * some point in time; the difference to the host's CLOCK_REALTIME is a variable that the host measures. The host calls
 * g4_clock_sync() before the engine starts and now and then, for the host's clock is steered and the GPU's is not.
 */
#include <time.h>

#include "simt/cuda/clock.h"
#include "simt/simt.h"

/* The best of so many measurements counts: the one in which the GPU answered fastest. */
#define MEASUREMENTS 8

G4_FN int64_t g4_realtime_offset_ns;
G4_FN int64_t g4_tick_ns;

G4_FN uint64_t g4_monotonic_ns(void)
{
	uint64_t now;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	return now;
}

G4_FN int64_t g4_realtime_ns(void)
{
	uint64_t offset = g4_load64_rlx((const uint64_t *)&g4_realtime_offset_ns);

	return (int64_t)(g4_monotonic_ns() + offset);
}

G4_FN int64_t g4_realtime_of_tick_ns(void)
{
	return g4_realtime_ns() - (int64_t)g4_load64_rlx((const uint64_t *)&g4_tick_ns);
}

static __global__ void read_clock(uint64_t *now)
{
	g4_store64_rel_sys(now, g4_monotonic_ns());
}

/* Fails only for a clock that the kernel does not have, and every kernel has this one; -1 then. */
static int64_t host_realtime_ns(void)
{
	struct timespec now;

	if (clock_gettime(CLOCK_REALTIME, &now) != 0)
		return -1;
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

cudaError_t g4_clock_sync(cudaStream_t stream)
{
	int64_t shortest = INT64_MAX;
	int64_t offset = 0, tick;
	struct timespec resolution;
	uint64_t *gpu_now;
	cudaError_t rc;

	if (clock_getres(CLOCK_REALTIME_COARSE, &resolution) != 0)
		return cudaErrorUnknown;
	tick = (int64_t)resolution.tv_sec * 1000000000 + resolution.tv_nsec;
	rc = cudaHostAlloc((void **)&gpu_now, sizeof(*gpu_now), cudaHostAllocMapped);
	if (rc != cudaSuccess)
		return rc;
	for (int i = 0; i < MEASUREMENTS; i++) {
		int64_t before = host_realtime_ns();
		int64_t after;

		read_clock<<<1, 1, 0, stream>>>(gpu_now);
		rc = cudaGetLastError();
		if (rc == cudaSuccess)
			rc = cudaStreamSynchronize(stream);
		if (rc != cudaSuccess)
			goto free_now;
		after = host_realtime_ns();
		if (before < 0 || after < 0) {
			rc = cudaErrorUnknown;
			goto free_now;
		}
		if (after - before < shortest) {
			shortest = after - before;
			offset = before + shortest / 2 - (int64_t)*gpu_now;
		}
	}
	rc = cudaMemcpyToSymbolAsync(g4_realtime_offset_ns, &offset, sizeof(offset), 0, cudaMemcpyHostToDevice, stream);
	if (rc == cudaSuccess)
		rc = cudaMemcpyToSymbolAsync(g4_tick_ns, &tick, sizeof(tick), 0, cudaMemcpyHostToDevice, stream);
	if (rc == cudaSuccess)
		rc = cudaStreamSynchronize(stream);
free_now:
	/* An error from here is one of an earlier operation, which matters more than the word it leaks. */
	if (cudaFreeHost(gpu_now) != cudaSuccess && rc == cudaSuccess)
		rc = cudaErrorUnknown;
	return rc;
}
