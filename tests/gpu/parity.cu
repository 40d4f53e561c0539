/* SPDX-License-Identifier: Apache-2.0 */
/* Parity in the GPU's memory by as many workgroups as it holds. */
#include <algorithm>
#include <cuda_runtime.h>
#include <stdio.h>
#include <vector>

#include "gpu/parity.h"
#include "parity/parity.h"

#define BLOCK_WARPS 4u
#define BLOCK_THREADS (BLOCK_WARPS * G4_WARP_LANES)
#define STACK_BYTES (16u * 1024)
#define MOST_CALL_CHUNKS 128u

/* What a workgroup has in its scratch. */
struct scratch {
	struct g4_parity_scratch scratch;
	void *chunk[G4_PARITY_DISKS];
	uint32_t term[2];
	const void *contents[2];
};
G4_STATIC_ASSERT(sizeof(struct scratch) <= G4_WG_SCRATCH_BYTES, "fits");

/* One call, as the GPU has it. */
struct device_call {
	struct g4_parity_scratch scratch;
	void *chunk[MOST_CALL_CHUNKS];
	uint32_t term[64];
	uint64_t result;
};

static uint8_t *memory;
static uint64_t memory_bytes;
static uint32_t warps;
static uint8_t *scratches; /* G4_WG_SCRATCH_BYTES a warp */
static struct device_call *one;
static uint32_t *unused;

static bool good(cudaError_t rc, const char *call)
{
	if (rc != cudaSuccess)
		fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(rc));
	return rc == cudaSuccess;
}
#define GOOD(call) good((call), #call)

static __global__ void fill(uint64_t *words, uint64_t count)
{
	for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < count;
	     i += (uint64_t)gridDim.x * blockDim.x) {
		uint64_t x = i * UINT64_C(0x9e3779b97f4a7c15);

		x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
		x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
		words[i] = x ^ x >> 31;
	}
}

/* All lanes: the call that `work` says. */
static __device__ uint64_t do_work(struct g4_wg *wg, enum parity_work work, uint32_t k, uint32_t m, uint64_t lost,
				   void **chunk, uint32_t n, const uint32_t *term, const void *const *contents,
				   uint64_t bytes, struct g4_parity_scratch *scratch)
{
	switch (work) {
	case PARITY_ENCODE:
		g4_parity_encode(wg, k, m, (const void *const *)chunk, chunk + k, bytes);
		return 0;
	case PARITY_VERIFY:
		return g4_parity_verify(wg, k, m, (const void *const *)chunk, chunk + k, bytes);
	case PARITY_UPDATE:
		g4_parity_update(wg, n, term, contents, m, chunk + k, bytes, scratch);
		return 0;
	default:
		return g4_parity_reconstruct(wg, k, m, lost, chunk, bytes, scratch);
	}
}

static __global__ void __launch_bounds__(G4_WARP_LANES)
	call_kernel(enum parity_work work, uint32_t k, uint32_t m, uint64_t lost, uint32_t n, uint64_t bytes,
		    struct device_call *call, uint8_t *scratch)
{
	struct g4_wg wg;

	g4_wg_init(&wg, 0, scratch, G4_WG_SCRATCH_BYTES);
	const uint64_t result = do_work(&wg, work, k, m, lost, call->chunk, n, call->term,
					(const void *const *)call->chunk + k + m, bytes, &call->scratch);
	if (!g4_all(&wg, result == g4_broadcast(&wg, result, 0)))
		__trap(); /* every lane has the same */
	if (g4_wg_lane(&wg) == 0)
		call->result = result;
}

/* Disk d of the stripes lies at d * disk_bytes. */
static __global__ void __launch_bounds__(BLOCK_THREADS)
	work_kernel(enum parity_work work, uint32_t k, uint32_t m, uint64_t lost, uint8_t *memory, uint64_t disk_bytes,
		    uint64_t bytes, uint8_t *scratches)
{
	const uint32_t warp = blockIdx.x * BLOCK_WARPS + threadIdx.x / G4_WARP_LANES;
	struct scratch *scratch = (struct scratch *)(scratches + warp * (uint64_t)G4_WG_SCRATCH_BYTES);
	struct g4_wg wg;

	g4_wg_init(&wg, warp, scratch, G4_WG_SCRATCH_BYTES);
	const uint32_t lane = g4_wg_lane(&wg);

	for (uint64_t at = warp * bytes; at + bytes <= disk_bytes; at += gridDim.x * BLOCK_WARPS * bytes) {
		for (uint32_t d = lane; d < k + m; d += G4_WARP_LANES)
			scratch->chunk[d] = memory + d * disk_bytes + at;
		if (lane < 2) {
			/* the new contents are those of the next disk */
			scratch->term[lane] = 0;
			scratch->contents[lane] = memory + lane * disk_bytes + at;
		}
		g4_sync(&wg);
		do_work(&wg, work, k, m, lost, scratch->chunk, 2, scratch->term, scratch->contents, bytes,
			&scratch->scratch);
	}
}

static __global__ void read_kernel(const uint4 *from, uint64_t count, uint32_t *unused)
{
	const uint64_t stride = (uint64_t)gridDim.x * blockDim.x;
	uint32_t all = 0;

#pragma unroll 8
	for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < count; i += stride) {
		const uint4 four = from[i];

		all ^= four.x ^ four.y ^ four.z ^ four.w;
	}
	if (all == 1)
		*unused = all;
}

bool parity_gpu_open(uint64_t bytes)
{
	int sms, blocks;

	memory_bytes = bytes;
	if (!GOOD(cudaDeviceSetLimit(cudaLimitStackSize, STACK_BYTES)) ||
	    !GOOD(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0)) ||
	    !GOOD(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, work_kernel, BLOCK_THREADS, 0)))
		return false;
	warps = (uint32_t)(sms * blocks) * BLOCK_WARPS;
	if (!GOOD(cudaMalloc((void **)&memory, bytes)) ||
	    !GOOD(cudaMalloc((void **)&scratches, warps * (uint64_t)G4_WG_SCRATCH_BYTES)) ||
	    !GOOD(cudaMalloc((void **)&one, sizeof(*one))) || !GOOD(cudaMalloc((void **)&unused, sizeof(*unused))))
		return false;
	fill<<<(uint32_t)sms * 8, 256>>>((uint64_t *)memory, bytes / 8);
	printf("%d multiprocessors, %u workgroups on each\n", sms, (uint32_t)blocks * BLOCK_WARPS);
	return GOOD(cudaGetLastError()) && GOOD(cudaDeviceSynchronize());
}

void parity_gpu_close(void)
{
	for (void *each : {(void *)memory, (void *)scratches, (void *)one, (void *)unused})
		(void)GOOD(cudaFree(each));
}

double parity_gpu_nominal(void)
{
	int khz = 0, bits = 0;

	if (!GOOD(cudaDeviceGetAttribute(&khz, cudaDevAttrMemoryClockRate, 0)) ||
	    !GOOD(cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, 0)))
		return 0;
	return 2.0 * khz * 1e3 * bits / 8; /* twice a clock */
}

bool parity_gpu_call(struct parity_call *call)
{
	static struct device_call copy;
	const uint32_t chunks = call->k + call->m + (call->work == PARITY_UPDATE ? call->n : 0);
	const uint64_t room = g4_align_up(call->bytes, 64) + 192; /* with guards of 64 and what they are shifted by */

	if (chunks > MOST_CALL_CHUNKS || chunks * room > memory_bytes)
		return false;
	if (!GOOD(cudaMemset(memory, 0xee, chunks * room)))
		return false;
	for (uint32_t i = 0; i < chunks; i++) {
		copy.chunk[i] = call->chunk[i] ? memory + i * room + 64 + call->shift[i] : NULL;
		if (call->chunk[i] &&
		    !GOOD(cudaMemcpy(copy.chunk[i], call->chunk[i], call->bytes, cudaMemcpyHostToDevice)))
			return false;
	}
	memcpy(copy.term, call->term, sizeof(copy.term));
	memset(&copy.scratch, 0xa5, sizeof(copy.scratch));
	if (!GOOD(cudaMemcpy(one, &copy, sizeof(copy), cudaMemcpyHostToDevice)))
		return false;
	call_kernel<<<1, G4_WARP_LANES>>>(call->work, call->k, call->m, call->lost, call->n, call->bytes, one,
					  scratches);
	if (!GOOD(cudaGetLastError()) || !GOOD(cudaDeviceSynchronize()) ||
	    !GOOD(cudaMemcpy(&copy, one, sizeof(copy), cudaMemcpyDeviceToHost)))
		return false;
	call->result = copy.result;
	for (uint32_t i = 0; i < chunks; i++) {
		std::vector<uint8_t> back(room);
		uint8_t *begin = back.data() + 64 + call->shift[i];

		if (!call->chunk[i])
			continue;
		if (!GOOD(cudaMemcpy(back.data(), memory + i * room, room, cudaMemcpyDeviceToHost)))
			return false;
		memcpy(call->chunk[i], begin, call->bytes);
		memset(begin, 0xee, call->bytes);
		for (uint8_t byte : back) {
			if (byte != 0xee) {
				fprintf(stderr, "parity: something beside a chunk was written\n");
				return false;
			}
		}
	}
	return true;
}

/* The median of `repeat` launches, in seconds. */
template <class F> static double time_of(uint32_t repeat, F launch)
{
	std::vector<float> times(repeat);
	cudaEvent_t from, to;
	bool ok = GOOD(cudaEventCreate(&from)) && GOOD(cudaEventCreate(&to));

	launch(); /* what is only needed once */
	for (uint32_t i = 0; i < repeat && ok; i++) {
		ok = GOOD(cudaEventRecord(from));
		launch();
		ok = ok && GOOD(cudaGetLastError()) && GOOD(cudaEventRecord(to)) && GOOD(cudaEventSynchronize(to)) &&
		     GOOD(cudaEventElapsedTime(&times[i], from, to));
	}
	ok = GOOD(cudaEventDestroy(from)) && GOOD(cudaEventDestroy(to)) && ok;
	std::sort(times.begin(), times.end());
	return ok ? times[repeat / 2] / 1e3 : -1;
}

double parity_gpu_time(enum parity_work work, uint32_t k, uint32_t m, uint64_t bytes, uint32_t repeat, double *moved)
{
	const uint64_t lost = (UINT64_C(1) << m) - 1; /* the first data chunks */
	const uint32_t blocks = warps / BLOCK_WARPS;

	if (work == PARITY_READ) {
		*moved = (double)memory_bytes;
		return time_of(repeat, [&] {
			read_kernel<<<blocks * 2, BLOCK_THREADS>>>((const uint4 *)memory, memory_bytes / 16, unused);
		});
	}
	if (m > k)
		return -1;
	const uint64_t disk_bytes = g4_align_down(memory_bytes / (k + m), bytes);
	/* reconstruction reads the k - m others and the m parities; a change reads and writes the parities */
	*moved = (double)disk_bytes * (work == PARITY_UPDATE ? 2 + 2 * m : k + m);
	return time_of(repeat, [&] {
		work_kernel<<<blocks, BLOCK_THREADS>>>(work, k, m, lost, memory, disk_bytes, bytes, scratches);
	});
}

double parity_gpu_copy_time(uint32_t repeat, double *moved)
{
	const uint64_t half = memory_bytes / 2;

	*moved = (double)half * 2;
	return time_of(repeat,
		       [&] { (void)GOOD(cudaMemcpyAsync(memory + half, memory, half, cudaMemcpyDeviceToDevice)); });
}
