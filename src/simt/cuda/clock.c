/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clocks of the cuda build: the GPU's nanosecond timer, which all its multiprocessors share. It counts evenly from
 * some point in time; the difference to the host's CLOCK_REALTIME is a variable that the host measures, in
 * g4_clock_sync() before the engine starts.
 */
#include "simt/cuda/clock.h"
#include "base/clock_host.h"
#include "simt/simt.h"

/* The best of so many measurements counts: the one in which the GPU answered fastest. */
#define MEASUREMENTS 8
/* The coarse clock is looked at for so many of its ticks: up to 16 ms. */
#define LAG_TICKS 4

G4_FN int64_t g4_realtime_offset_ns;
G4_FN int64_t g4_coarse_lag_ns;

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
	return g4_realtime_ns() - (int64_t)g4_load64_rlx((const uint64_t *)&g4_coarse_lag_ns);
}

static __global__ void read_clock(uint64_t *now)
{
	g4_store64_rel_sys(now, g4_monotonic_ns());
}

/*
 * How far CLOCK_REALTIME_COARSE is behind at most, just before its ticks. That is not its resolution: on virtual machines it has been
 * seen one to two ticks behind at all times.
 */
static int64_t coarse_lag_ns(void)
{
	int64_t most = 0, last = 0;

	for (unsigned int ticks = 0; ticks <= LAG_TICKS;) {
		const int64_t before = (int64_t)g4_clock_ns(CLOCK_REALTIME_COARSE);
		const int64_t now = (int64_t)g4_clock_ns(CLOCK_REALTIME);

		if ((int64_t)g4_clock_ns(CLOCK_REALTIME_COARSE) != before)
			continue; /* which of both belongs to `now`? */
		ticks += before != last;
		last = before;
		if (now - before > most)
			most = now - before;
	}
	return most;
}

cudaError_t g4_clock_sync(cudaStream_t stream)
{
	const int64_t lag = coarse_lag_ns();
	int64_t shortest = INT64_MAX;
	int64_t offset = 0;
	uint64_t *gpu_now;
	cudaError_t rc;

	rc = cudaHostAlloc((void **)&gpu_now, sizeof(*gpu_now), cudaHostAllocMapped);
	if (rc != cudaSuccess)
		return rc;
	for (int i = 0; i < MEASUREMENTS; i++) {
		const int64_t before = (int64_t)g4_clock_ns(CLOCK_REALTIME);

		read_clock<<<1, 1, 0, stream>>>(gpu_now);
		rc = cudaGetLastError();
		if (rc == cudaSuccess)
			rc = cudaStreamSynchronize(stream);
		if (rc != cudaSuccess)
			goto free_now;
		const int64_t after = (int64_t)g4_clock_ns(CLOCK_REALTIME);
		if (after - before < shortest) {
			shortest = after - before;
			offset = before + shortest / 2 - (int64_t)*gpu_now;
		}
	}
	rc = cudaMemcpyToSymbolAsync(g4_realtime_offset_ns, &offset, sizeof(offset), 0, cudaMemcpyHostToDevice, stream);
	if (rc == cudaSuccess)
		rc = cudaMemcpyToSymbolAsync(g4_coarse_lag_ns, &lag, sizeof(lag), 0, cudaMemcpyHostToDevice, stream);
	if (rc == cudaSuccess)
		rc = cudaStreamSynchronize(stream);
free_now:
	/* An error from here is one of an earlier operation, which matters more than the word it leaks. */
	if (cudaFreeHost(gpu_now) != cudaSuccess && rc == cudaSuccess)
		rc = cudaErrorUnknown;
	return rc;
}
