/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of pages that are copied here from host memory. A slot has a stream of its own: pages go there, are hashed, and their sums come
 * back, while those of other slots do the same. A workgroup takes eight pages, so that each lane has a leaf; the copy takes longer.
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpu/sums_gpu.h"

#define CALL_PAGES (G4_WARP_LANES / 4u)
#define BLOCK_WARPS 4u
#define BLOCK_PAGES (BLOCK_WARPS * CALL_PAGES)

struct slot {
	cudaStream_t stream;
	uint8_t *pages;
	struct g4_sum *sums, *sums_there; /* the host's, and the GPU's */
	struct g4_blake3_pages_scratch *all_scratch;
};

struct g4_gpu_sums {
	uint8_t *memory;
	bool registered;
	uint32_t slot_pages, slots;
	struct slot *slot;
};

static thread_local char last_error[256];

static bool good(cudaError_t rc, const char *call)
{
	if (rc != cudaSuccess)
		snprintf(last_error, sizeof(last_error), "%s: %s", call, cudaGetErrorString(rc));
	return rc == cudaSuccess;
}
#define GOOD(call) good((call), #call)

static __global__ void __launch_bounds__(BLOCK_WARPS *G4_WARP_LANES)
	sums_kernel(const uint8_t *data, uint32_t pages, struct g4_sum *sums,
		    struct g4_blake3_pages_scratch *all_scratch)
{
	__shared__ const void *where[BLOCK_WARPS][CALL_PAGES];
	const uint32_t in_block = threadIdx.x / G4_WARP_LANES, warp = blockIdx.x * BLOCK_WARPS + in_block;
	const uint32_t first = warp * CALL_PAGES;
	struct g4_wg wg;

	if (first >= pages)
		return;
	g4_wg_init(&wg, warp, &all_scratch[warp], sizeof(all_scratch[warp]));
	const uint32_t lane = g4_wg_lane(&wg), count = (uint32_t)g4_min64(CALL_PAGES, pages - first);
	if (lane < count)
		where[in_block][lane] = data + (uint64_t)(first + lane) * G4_PAGE_BYTES;
	g4_sync(&wg);
	g4_blake3_pages(&wg, count, where[in_block], (uint8_t(*)[G4_BLAKE3_BYTES])(sums + first), &all_scratch[warp]);
	if (lane < count)
		g4_sum_of_blake3(&sums[first + lane]);
}

extern "C" const char *g4_gpu_sums_error(void)
{
	return last_error;
}

extern "C" bool g4_gpu_sums_there(void)
{
	int count = 0;
	const bool there = GOOD(cudaGetDeviceCount(&count)) && count > 0;

	(void)cudaGetLastError();
	return there;
}

static bool make_slot(struct slot *slot, uint32_t pages)
{
	const uint32_t warps = (pages + BLOCK_PAGES - 1) / BLOCK_PAGES * BLOCK_WARPS;

	return GOOD(cudaStreamCreateWithFlags(&slot->stream, cudaStreamNonBlocking)) &&
	       GOOD(cudaMalloc((void **)&slot->pages, (uint64_t)pages * G4_PAGE_BYTES)) &&
	       GOOD(cudaMalloc((void **)&slot->sums_there, pages * sizeof(struct g4_sum))) &&
	       GOOD(cudaMalloc((void **)&slot->all_scratch, warps * sizeof(struct g4_blake3_pages_scratch))) &&
	       GOOD(cudaHostAlloc((void **)&slot->sums, pages * sizeof(struct g4_sum), cudaHostAllocDefault));
}

extern "C" int g4_gpu_sums_make(void *memory, uint32_t slots, uint32_t slot_pages, struct g4_gpu_sums **out)
{
	struct g4_gpu_sums *gpu = (struct g4_gpu_sums *)calloc(1, sizeof(*gpu));
	bool made;

	if (!gpu)
		return -G4_E_NOMEM;
	gpu->memory = (uint8_t *)memory;
	gpu->slot_pages = slot_pages;
	gpu->slot = (struct slot *)calloc(slots, sizeof(*gpu->slot));
	/* a thread that waits for a slot has a processor to spare for others */
	made = gpu->slot && GOOD(cudaSetDevice(0)) && GOOD(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
	gpu->registered = made && GOOD(cudaHostRegister(memory, (uint64_t)slots * slot_pages * G4_PAGE_BYTES,
							cudaHostRegisterDefault));
	made = gpu->registered;
	while (made && gpu->slots < slots)
		made = make_slot(&gpu->slot[gpu->slots++], slot_pages);
	if (made) {
		*out = gpu;
		return 0;
	}
	g4_gpu_sums_end(gpu);
	return -G4_E_NOTSUP;
}

extern "C" void g4_gpu_sums_end(struct g4_gpu_sums *gpu)
{
	if (!gpu)
		return;
	for (uint32_t k = 0; k < gpu->slots; k++) { /* nothing helps where these fail */
		struct slot *slot = &gpu->slot[k];

		if (slot->stream)
			(void)GOOD(cudaStreamDestroy(slot->stream));
		(void)GOOD(cudaFree(slot->pages));
		(void)GOOD(cudaFree(slot->sums_there));
		(void)GOOD(cudaFree(slot->all_scratch));
		(void)GOOD(cudaFreeHost(slot->sums));
	}
	if (gpu->registered)
		(void)GOOD(cudaHostUnregister(gpu->memory));
	(void)cudaGetLastError();
	free(gpu->slot);
	free(gpu);
}

extern "C" int g4_gpu_sums_start(struct g4_gpu_sums *gpu, uint32_t k, uint32_t pages)
{
	struct slot *slot = &gpu->slot[k];
	const uint8_t *from = gpu->memory + (uint64_t)k * gpu->slot_pages * G4_PAGE_BYTES;

	if (!GOOD(cudaMemcpyAsync(slot->pages, from, (uint64_t)pages * G4_PAGE_BYTES, cudaMemcpyHostToDevice,
				  slot->stream)))
		return -G4_E_IO;
	sums_kernel<<<(pages + BLOCK_PAGES - 1) / BLOCK_PAGES, BLOCK_WARPS * G4_WARP_LANES, 0, slot->stream>>>(
		slot->pages, pages, slot->sums_there, slot->all_scratch);
	return GOOD(cudaGetLastError()) &&
			       GOOD(cudaMemcpyAsync(slot->sums, slot->sums_there, pages * sizeof(struct g4_sum),
						    cudaMemcpyDeviceToHost, slot->stream)) ?
		       0 :
		       -G4_E_IO;
}

extern "C" int g4_gpu_sums_wait(struct g4_gpu_sums *gpu, uint32_t k, const struct g4_sum **sums)
{
	*sums = gpu->slot[k].sums;
	return GOOD(cudaStreamSynchronize(gpu->slot[k].stream)) ? 0 : -G4_E_IO;
}
