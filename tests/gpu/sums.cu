/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of pages in the GPU's memory by as many workgroups as it holds. */
#include <algorithm>
#include <cuda_runtime.h>
#include <stdio.h>
#include <vector>

#include "gpu/sums.h"
#include "hash/blake3_compress.h"
#include "hash/sums.h"

#define BLOCK_WARPS 4u
#define BLOCK_THREADS (BLOCK_WARPS * G4_WARP_LANES)
#define STACK_BYTES (16u * 1024)
#define CALL_PAGES 64u /* a workgroup's calls are of so many pages */
#define CALL_LISTS 8u  /* and of so many lists of sums */
#define LARGE_SUMS 512u

/* What a workgroup has in its scratch. */
struct scratch {
	union g4_sums_scratch scratch;
	const void *data[CALL_PAGES];
	uint64_t bytes[CALL_PAGES];
};
G4_STATIC_ASSERT(sizeof(struct scratch) <= G4_WG_SCRATCH_BYTES, "fits");

static uint8_t *data;
static uint64_t data_bytes;
static uint32_t warps;
static struct scratch *scratches; /* one a warp */
static struct g4_sum *sums;	  /* of all pages */
static struct g4_sum *hashes;	  /* of all 2 MiB */
static struct g4_sum *of_large;	  /* of all 1 GiB */
static struct g4_sum *some;
static uint64_t *places;
static uint32_t *unused;
#define MOST_SOME 4096u

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

/* The warp's number; makes its workgroup. */
static __device__ uint32_t begin(struct g4_wg *wg, struct scratch *scratches)
{
	const uint32_t warp = blockIdx.x * BLOCK_WARPS + threadIdx.x / G4_WARP_LANES;

	g4_wg_init(wg, warp, &scratches[warp], sizeof(*scratches));
	return warp;
}

static __global__ void __launch_bounds__(BLOCK_THREADS)
	some_kernel(enum g4_sum_algorithm algorithm, const uint8_t *data, uint32_t count, const uint64_t *places,
		    uint32_t pages, uint32_t batch, struct g4_sum *out, struct scratch *scratches)
{
	struct g4_wg wg;
	const uint32_t warp = begin(&wg, scratches), lane = g4_wg_lane(&wg);
	struct scratch *scratch = &scratches[warp];

	for (uint32_t first = warp * batch; first < count; first += gridDim.x * BLOCK_WARPS * batch) {
		const uint32_t n = (uint32_t)g4_min64(batch, count - first);

		for (uint32_t i = lane; i < n; i += G4_WARP_LANES)
			scratch->data[i] = data + places[first + i] * G4_PAGE_BYTES;
		g4_sync(&wg);
		g4_sums(&wg, algorithm, n, scratch->data, pages, out + first, &scratch->scratch);
	}
}

/* Of all pages, in order; `any`: by the function for buffers of any length. */
static __global__ void __launch_bounds__(BLOCK_THREADS)
	pages_kernel(enum g4_sum_algorithm algorithm, bool any, const uint8_t *data, uint64_t pages, struct g4_sum *out,
		     struct scratch *scratches)
{
	struct g4_wg wg;
	const uint32_t warp = begin(&wg, scratches), lane = g4_wg_lane(&wg);
	struct scratch *scratch = &scratches[warp];

	for (uint64_t first = warp * (uint64_t)CALL_PAGES; first < pages;
	     first += (uint64_t)gridDim.x * BLOCK_WARPS * CALL_PAGES) {
		const uint32_t n = (uint32_t)g4_min64(CALL_PAGES, pages - first);

		for (uint32_t i = lane; i < n; i += G4_WARP_LANES) {
			scratch->data[i] = data + (first + i) * G4_PAGE_BYTES;
			scratch->bytes[i] = G4_PAGE_BYTES;
		}
		g4_sync(&wg);
		if (any)
			g4_blake3_group(&wg, n, scratch->data, scratch->bytes, (uint8_t(*)[32])(out + first),
					&scratch->scratch.blake3.scratch);
		else
			g4_sums(&wg, algorithm, n, scratch->data, 1, out + first, &scratch->scratch);
	}
}

/* Hashes over lists of entries, which lie one after the other. */
static __global__ void __launch_bounds__(BLOCK_THREADS)
	lists_kernel(const struct g4_sum *lists, uint64_t count, struct g4_sum *out, struct scratch *scratches)
{
	struct g4_wg wg;
	const uint32_t warp = begin(&wg, scratches), lane = g4_wg_lane(&wg);
	struct scratch *scratch = &scratches[warp];

	for (uint64_t first = warp * (uint64_t)CALL_LISTS; first < count;
	     first += (uint64_t)gridDim.x * BLOCK_WARPS * CALL_LISTS) {
		const uint32_t n = (uint32_t)g4_min64(CALL_LISTS, count - first);

		if (lane < n)
			scratch->data[lane] = lists + (first + lane) * LARGE_SUMS;
		g4_sync(&wg);
		g4_sums(&wg, G4_SUM_BLAKE3, n, scratch->data, LARGE_SUMS * sizeof(*lists) / G4_PAGE_BYTES, out + first,
			&scratch->scratch);
	}
}

/* One warp: one page after the other. */
static __global__ void latency_kernel(enum g4_sum_algorithm algorithm, const uint8_t *data, uint32_t repeat,
				      struct g4_sum *out, struct scratch *scratches)
{
	struct g4_wg wg;
	const uint32_t lane = g4_wg_lane(&wg);
	struct scratch *scratch = &scratches[0];

	g4_wg_init(&wg, 0, scratch, sizeof(*scratch));
	for (uint32_t i = 0; i < repeat; i++) {
		if (lane == 0)
			scratch->data[0] = data + i * G4_PAGE_BYTES;
		g4_sync(&wg);
		g4_sums(&wg, algorithm, 1, scratch->data, 1, out, &scratch->scratch);
	}
}

static __global__ void __launch_bounds__(BLOCK_THREADS) compress_kernel(uint64_t leaves, uint32_t *unused)
{
	uint32_t cv[8] = G4_BLAKE3_IV;
	uint32_t m[16];

	for (uint32_t i = 0; i < 16; i++)
		m[i] = threadIdx.x * i;
	for (uint64_t i = blockIdx.x * (uint64_t)BLOCK_THREADS + threadIdx.x; i < leaves;
	     i += (uint64_t)gridDim.x * BLOCK_THREADS) {
		G4_ROLLED
		for (uint32_t block = 0; block < 16; block++)
			g4_blake3_add_block(cv, m, G4_BLAKE3_BLOCK_BYTES, i, block);
	}
	if (cv[0] == 1 && cv[1] == 2 && cv[2] == 3)
		*unused = cv[3];
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

bool sums_gpu_open(uint64_t bytes)
{
	const void *kernels[] = {(const void *)pages_kernel, (const void *)lists_kernel, (const void *)some_kernel};
	const uint64_t pages = bytes / G4_PAGE_BYTES;
	int sms, most = 0;

	data_bytes = bytes;
	if (!GOOD(cudaDeviceSetLimit(cudaLimitStackSize, STACK_BYTES)) ||
	    !GOOD(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0)))
		return false;
	for (const void *kernel : kernels) {
		int blocks;

		if (!GOOD(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, BLOCK_THREADS, 0)))
			return false;
		most = std::max(most, blocks);
	}
	warps = (uint32_t)(sms * most) * BLOCK_WARPS;
	if (!GOOD(cudaMalloc((void **)&data, bytes)) ||
	    !GOOD(cudaMalloc((void **)&scratches, warps * sizeof(*scratches))) ||
	    !GOOD(cudaMalloc((void **)&sums, pages * sizeof(*sums))) ||
	    !GOOD(cudaMalloc((void **)&hashes, pages / LARGE_SUMS * sizeof(*hashes))) ||
	    !GOOD(cudaMalloc((void **)&of_large, bytes / G4_GIB * sizeof(*of_large))) ||
	    !GOOD(cudaMalloc((void **)&some, MOST_SOME * sizeof(*some))) ||
	    !GOOD(cudaMalloc((void **)&places, MOST_SOME * sizeof(*places))) ||
	    !GOOD(cudaMalloc((void **)&unused, sizeof(*unused))))
		return false;
	fill<<<(uint32_t)sms * 8, 256>>>((uint64_t *)data, bytes / 8);
	printf("%d multiprocessors, %u workgroups on each\n", sms, (uint32_t)most * BLOCK_WARPS);
	return GOOD(cudaGetLastError()) && GOOD(cudaDeviceSynchronize());
}

void sums_gpu_close(void)
{
	for (void *memory : {(void *)data, (void *)scratches, (void *)sums, (void *)hashes, (void *)of_large,
			     (void *)some, (void *)places, (void *)unused})
		(void)GOOD(cudaFree(memory));
}

bool sums_gpu_fetch(void *to, uint64_t bytes)
{
	return GOOD(cudaMemcpy(to, data, bytes, cudaMemcpyDeviceToHost));
}

bool sums_gpu_some(uint32_t algorithm, uint32_t count, const uint64_t *at, uint32_t pages, uint32_t batch,
		   uint8_t (*out)[32])
{
	if (count > MOST_SOME || batch > CALL_PAGES)
		return false;
	if (!GOOD(cudaMemset(some, 0xee, count * sizeof(*some))) ||
	    !GOOD(cudaMemset(scratches, 0xdd, warps * sizeof(*scratches))) ||
	    !GOOD(cudaMemcpy(places, at, count * sizeof(*at), cudaMemcpyHostToDevice)))
		return false;
	some_kernel<<<3, BLOCK_THREADS>>>((enum g4_sum_algorithm)algorithm, data, count, places, pages, batch, some,
					  scratches);
	return GOOD(cudaGetLastError()) && GOOD(cudaDeviceSynchronize()) &&
	       GOOD(cudaMemcpy(out, some, count * sizeof(*some), cudaMemcpyDeviceToHost));
}

static void launch(enum sums_work work, enum g4_sum_algorithm algorithm)
{
	const uint64_t pages = data_bytes / G4_PAGE_BYTES, large = pages / LARGE_SUMS;
	const uint32_t blocks = warps / BLOCK_WARPS;

	if (work == SUMS_ONLY_COMPRESS) {
		compress_kernel<<<blocks, BLOCK_THREADS>>>(pages * 4, unused);
		return;
	}
	if (work == SUMS_ONLY_READ) {
		read_kernel<<<blocks * 2, BLOCK_THREADS>>>((const uint4 *)data, data_bytes / 16, unused);
		return;
	}
	pages_kernel<<<blocks, BLOCK_THREADS>>>(algorithm, work == SUMS_BY_ANY_BUFFERS, data, pages, sums, scratches);
	/* hashes over entries are BLAKE3's, whatever the pages' sums are */
	if (work == SUMS_OF_2M_PAGES || work == SUMS_OF_1G_PAGES)
		lists_kernel<<<blocks, BLOCK_THREADS>>>(sums, large, hashes, scratches);
	if (work == SUMS_OF_1G_PAGES)
		lists_kernel<<<blocks, BLOCK_THREADS>>>(hashes, large / LARGE_SUMS, of_large, scratches);
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

double sums_gpu_time(enum sums_work work, uint32_t algorithm, uint32_t repeat)
{
	return time_of(repeat, [&] { launch(work, (enum g4_sum_algorithm)algorithm); });
}

bool sums_gpu_hash(enum sums_work work, uint64_t i, uint8_t hash[24])
{
	return GOOD(cudaMemcpy(hash, (work == SUMS_OF_1G_PAGES ? of_large : hashes) + i, 24, cudaMemcpyDeviceToHost));
}

double sums_gpu_latency(uint32_t algorithm, uint32_t repeat)
{
	return time_of(5,
		       [&] {
			       latency_kernel<<<1, G4_WARP_LANES>>>((enum g4_sum_algorithm)algorithm, data, repeat,
								    some, scratches);
		       }) /
	       repeat;
}
