/* SPDX-License-Identifier: Apache-2.0 */
/* A program that shares the GPU with the engine: it copies from device memory to device memory, by a kernel of its own. */
#include <cuda_runtime.h>
#include <stdio.h>
#include <time.h>

#include "gpu/share.h"

#define BLOCK_THREADS 256u
#define BLOCKS_A_SM 4u
#define COPIES 8 /* between two looks at the clock */

struct share_copier {
	uint4 *from, *to;
	uint64_t words;
	uint32_t blocks;
	unsigned long long *wrong;
};

static bool good(cudaError_t rc, const char *call)
{
	if (rc != cudaSuccess)
		fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(rc));
	return rc == cudaSuccess;
}
#define GOOD(call) good((call), #call)

static __device__ uint4 pattern(uint64_t i)
{
	return make_uint4((uint32_t)i, (uint32_t)(i >> 32), (uint32_t)i * 0x9e3779b9u, ~(uint32_t)i);
}

static __global__ void fill(uint4 *to, uint64_t words)
{
	for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < words;
	     i += (uint64_t)gridDim.x * blockDim.x)
		to[i] = pattern(i);
}

static __global__ void copy(uint4 *to, const uint4 *from, uint64_t words)
{
	for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < words;
	     i += (uint64_t)gridDim.x * blockDim.x)
		to[i] = from[i];
}

static __global__ void check(const uint4 *at, uint64_t words, unsigned long long *wrong)
{
	for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < words;
	     i += (uint64_t)gridDim.x * blockDim.x) {
		uint4 wanted = pattern(i);
		if (at[i].x != wanted.x || at[i].y != wanted.y || at[i].z != wanted.z || at[i].w != wanted.w)
			atomicAdd(wrong, 1ull);
	}
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct share_copier *share_copier_open(uint64_t bytes)
{
	struct share_copier *c = (struct share_copier *)calloc(1, sizeof(*c));
	int sms;

	if (!c || !GOOD(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0)))
		return NULL;
	c->words = bytes / sizeof(uint4);
	c->blocks = (uint32_t)sms * BLOCKS_A_SM;
	if (!GOOD(cudaMalloc((void **)&c->from, bytes)) || !GOOD(cudaMalloc((void **)&c->to, bytes)) ||
	    !GOOD(cudaMalloc((void **)&c->wrong, sizeof(*c->wrong))))
		return NULL;
	fill<<<c->blocks, BLOCK_THREADS>>>(c->from, c->words);
	return GOOD(cudaGetLastError()) && GOOD(cudaMemset(c->to, 0, bytes)) && GOOD(cudaDeviceSynchronize()) ? c :
														NULL;
}

double share_copier_run(struct share_copier *c, double seconds)
{
	double begin = now(), end = begin;
	uint64_t copies = 0;

	while (end - begin < seconds) {
		for (int i = 0; i < COPIES; i++)
			copy<<<c->blocks, BLOCK_THREADS>>>(c->to, c->from, c->words);
		if (!GOOD(cudaGetLastError()) || !GOOD(cudaDeviceSynchronize()))
			return 0;
		copies += COPIES;
		end = now();
	}
	return (double)(copies * c->words * sizeof(uint4)) / (end - begin);
}

bool share_copier_is_good(struct share_copier *c)
{
	unsigned long long wrong = 1;

	if (!GOOD(cudaMemset(c->wrong, 0, sizeof(*c->wrong))))
		return false;
	check<<<c->blocks, BLOCK_THREADS>>>(c->to, c->words, c->wrong);
	return GOOD(cudaGetLastError()) && GOOD(cudaMemcpy(&wrong, c->wrong, sizeof(wrong), cudaMemcpyDeviceToHost)) &&
	       wrong == 0;
}

void share_copier_close(struct share_copier *c)
{
	(void)GOOD(cudaFree(c->from));
	(void)GOOD(cudaFree(c->to));
	(void)GOOD(cudaFree(c->wrong));
	free(c);
}
