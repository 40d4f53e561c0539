/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages hashed by the GPU as well as its device code for BLAKE3 allows: a warp takes eight pages, so that each lane has one
 * leaf, and large batches are cut into pieces whose copies overlap with the hashing of others.
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpu/hash_crossover.h"
#include "hash/blake3.h"

#define WARP_PAGES 8u
#define BLOCK_WARPS 4u
#define STREAMS 3u
#define STACK_BYTES (16u * 1024)
#define PIECE_BYTES (UINT64_C(4) << 20)

struct stream {
	cudaStream_t stream;
	uint8_t *data;
};

static struct stream streams[STREAMS];
static uint8_t (*gpu_digests)[32];
static uint8_t *placed;
static struct g4_blake3_scratch *all_scratch; /* one a warp */
static uint32_t most_blocks;

static bool good(cudaError_t rc, const char *call)
{
	if (rc != cudaSuccess)
		fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(rc));
	return rc == cudaSuccess;
}
#define GOOD(call) good((call), #call)

static __global__ void __launch_bounds__(BLOCK_WARPS *G4_WARP_LANES)
	hash_pages(const uint8_t *data, uint64_t pages, uint8_t (*digests)[32], struct g4_blake3_scratch *all_scratch)
{
	__shared__ const void *where[BLOCK_WARPS][WARP_PAGES];
	__shared__ uint64_t bytes[BLOCK_WARPS][WARP_PAGES];
	const uint32_t in_block = threadIdx.x / G4_WARP_LANES, lane = threadIdx.x % G4_WARP_LANES;
	const uint32_t warp = blockIdx.x * BLOCK_WARPS + in_block;
	struct g4_wg wg;

	g4_wg_init(&wg, warp, &all_scratch[warp], sizeof(*all_scratch));
	for (uint64_t first = warp * (uint64_t)WARP_PAGES; first < pages;
	     first += (uint64_t)gridDim.x * BLOCK_WARPS * WARP_PAGES) {
		uint64_t count = g4_min64(WARP_PAGES, pages - first);
		if (lane < WARP_PAGES) {
			where[in_block][lane] = data + (first + lane) * HASH_PAGE_BYTES;
			bytes[in_block][lane] = HASH_PAGE_BYTES;
		}
		__syncwarp();
		g4_blake3_group(&wg, count, where[in_block], bytes[in_block], digests + first, &all_scratch[warp]);
		__syncwarp();
	}
}

bool hash_gpu_open(uint64_t most_bytes)
{
	int sms, a_sm;

	if (!GOOD(cudaSetDeviceFlags(cudaDeviceScheduleSpin)) ||
	    !GOOD(cudaDeviceSetLimit(cudaLimitStackSize, STACK_BYTES)) ||
	    !GOOD(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0)) ||
	    !GOOD(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&a_sm, hash_pages, BLOCK_WARPS * G4_WARP_LANES, 0)))
		return false;
	most_blocks = (uint32_t)(sms * a_sm);
	for (uint32_t i = 0; i < STREAMS; i++)
		if (!GOOD(cudaStreamCreateWithFlags(&streams[i].stream, cudaStreamNonBlocking)) ||
		    !GOOD(cudaMalloc((void **)&streams[i].data, PIECE_BYTES)))
			return false;
	/* the streams' kernels run side by side */
	return GOOD(cudaMalloc((void **)&all_scratch, STREAMS * most_blocks * BLOCK_WARPS * sizeof(*all_scratch))) &&
	       GOOD(cudaMalloc((void **)&gpu_digests, most_bytes / HASH_PAGE_BYTES * 32)) &&
	       GOOD(cudaMalloc((void **)&placed, most_bytes));
}

void hash_gpu_close(void)
{
	for (uint32_t i = 0; i < STREAMS; i++) {
		(void)GOOD(cudaStreamDestroy(streams[i].stream));
		(void)GOOD(cudaFree(streams[i].data));
	}
	(void)GOOD(cudaFree(all_scratch));
	(void)GOOD(cudaFree(gpu_digests));
	(void)GOOD(cudaFree(placed));
}

void *hash_gpu_pinned(uint64_t bytes)
{
	void *memory;

	return GOOD(cudaHostAlloc(&memory, bytes, cudaHostAllocDefault)) ? memory : NULL;
}

bool hash_gpu_place(const void *data, uint64_t bytes)
{
	return GOOD(cudaMemcpy(placed, data, bytes, cudaMemcpyHostToDevice));
}

static bool hash_piece(uint32_t stream, const uint8_t *on_gpu, uint64_t first, uint64_t pages, uint8_t (*digests)[32])
{
	const uint64_t wanted = (pages + WARP_PAGES * BLOCK_WARPS - 1) / (WARP_PAGES * BLOCK_WARPS);
	const uint32_t blocks = (uint32_t)g4_min64(wanted, most_blocks);

	hash_pages<<<blocks, BLOCK_WARPS * G4_WARP_LANES, 0, streams[stream].stream>>>(
		on_gpu, pages, gpu_digests + first, all_scratch + (uint64_t)stream * most_blocks * BLOCK_WARPS);
	return GOOD(cudaGetLastError()) && GOOD(cudaMemcpyAsync(digests + first, gpu_digests + first, pages * 32,
								cudaMemcpyDeviceToHost, streams[stream].stream));
}

bool hash_gpu_pages(enum hash_place place, const void *data, uint64_t at, uint64_t bytes, uint8_t (*digests)[32])
{
	const uint64_t piece_bytes = place == HASH_DEVICE ? bytes : PIECE_BYTES;
	uint32_t stream = 0, used = 0;

	for (uint64_t done = 0; done < bytes; done += piece_bytes) {
		uint64_t piece = g4_min64(piece_bytes, bytes - done);
		const uint8_t *on_gpu = place == HASH_DEVICE ? placed + at : streams[stream].data;

		if (place != HASH_DEVICE &&
		    !GOOD(cudaMemcpyAsync(streams[stream].data, (const uint8_t *)data + done, piece,
					  cudaMemcpyHostToDevice, streams[stream].stream)))
			return false;
		if (!hash_piece(stream, on_gpu, done / HASH_PAGE_BYTES, piece / HASH_PAGE_BYTES, digests))
			return false;
		used = used > stream + 1 ? used : stream + 1;
		stream = (stream + 1) % STREAMS;
	}
	for (uint32_t i = 0; i < used; i++)
		if (!GOOD(cudaStreamSynchronize(streams[i].stream)))
			return false;
	return true;
}
