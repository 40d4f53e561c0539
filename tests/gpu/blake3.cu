/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BLAKE3 as the GPU runs it: the published vectors by one lane, in one call and in pieces, and by a workgroup; and many
 * buffers of random length and place by workgroups against single lanes. Run on a machine with a GPU.
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>

#include "hash/blake3.h"
#include "unit/blake3_vectors.h"

#define BUFFERS 400u
#define DATA_BYTES (8u << 20)
#define STACK_BYTES (16u * 1024)

/* Device memory: n buffers and the digests that each way gives. */
struct job {
	uint64_t n;
	const void **data;
	uint64_t *bytes;
	uint8_t (*by_lane)[32], (*in_pieces)[32], (*by_group)[32];
	uint8_t *scratch;
	struct g4_wg *wgs;
	uint32_t groups;
};

static void need(cudaError_t error, const char *what)
{
	if (error != cudaSuccess) {
		fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
		exit(2);
	}
}

static __global__ void lanes(job j)
{
	uint64_t i = blockIdx.x * blockDim.x + threadIdx.x;
	struct g4_blake3 hash;
	uint64_t step = 1;

	if (i >= j.n)
		return;
	g4_blake3(j.data[i], j.bytes[i], j.by_lane[i]);
	g4_blake3_init(&hash);
	for (uint64_t at = 0; at < j.bytes[i]; at += step) {
		step = g4_min64((at * 7 + i) % 3001, j.bytes[i] - at);
		step = step ? step : 1;
		g4_blake3_update(&hash, (const uint8_t *)j.data[i] + at, step);
	}
	g4_blake3_final(&hash, j.in_pieces[i]);
}

/* A workgroup a block; each takes every groups-th stretch of 37 buffers. */
static __global__ void groups(job j)
{
	struct g4_wg *wg = &j.wgs[blockIdx.x];
	struct g4_blake3_scratch *scratch =
		(struct g4_blake3_scratch *)(j.scratch + blockIdx.x * (uint64_t)G4_WG_SCRATCH_BYTES);

	if (threadIdx.x == 0)
		g4_wg_init(wg, blockIdx.x, scratch, G4_WG_SCRATCH_BYTES);
	__syncwarp();
	for (uint64_t first = blockIdx.x * 37ull; first < j.n; first += gridDim.x * 37ull)
		g4_blake3_group(wg, g4_min64(37, j.n - first), j.data + first, j.bytes + first, j.by_group + first,
				scratch);
}

static uint32_t compare(const char *what, const std::vector<uint8_t> &got, uint64_t i, const char *wanted)
{
	char text[65];

	for (uint64_t k = 0; k < 32; k++)
		snprintf(text + 2 * k, 3, "%02x", got[32 * i + k]);
	if (strcmp(text, wanted) == 0)
		return 0;
	printf("FAILED: buffer %llu %s: %s, not %s\n", (unsigned long long)i, what, text, wanted);
	return 1;
}

static std::vector<uint8_t> fetch(const void *from, uint64_t bytes)
{
	std::vector<uint8_t> out(bytes);

	need(cudaMemcpy(out.data(), from, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
	return out;
}

template <class T> static T *upload(const std::vector<T> &from)
{
	T *to = NULL;

	need(cudaMalloc((void **)&to, from.size() * sizeof(T)), "cudaMalloc");
	need(cudaMemcpy(to, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
	return to;
}

int main(void)
{
	std::vector<uint8_t> data(DATA_BYTES), none(32 * BUFFERS, 0xee);
	std::vector<const void *> where(BUFFERS);
	std::vector<uint64_t> bytes(BUFFERS);
	uint32_t wrong = 0;
	job j = {};

	for (uint64_t i = 0; i < DATA_BYTES; i++)
		data[i] = blake3_vector_byte(i);
	const uint8_t *device_data = upload(data);
	srand(1);
	for (uint64_t i = 0; i < BUFFERS; i++) {
		bool vector = i < BLAKE3_VECTORS;
		uint64_t most = i % 10 == 0 ? 700000 : i % 3 == 0 ? 4097 : 30000;

		bytes[i] = vector ? blake3_vectors[i].bytes : (uint64_t)rand() % most;
		where[i] = device_data + (vector ? 0 : (uint64_t)rand() % (DATA_BYTES - bytes[i]));
	}
	j.n = BUFFERS;
	j.data = upload(where);
	j.bytes = upload(bytes);
	j.by_lane = (uint8_t(*)[32])upload(none);
	j.in_pieces = (uint8_t(*)[32])upload(none);
	j.by_group = (uint8_t(*)[32])upload(none);
	j.groups = 5;
	need(cudaMalloc((void **)&j.scratch, j.groups * (uint64_t)G4_WG_SCRATCH_BYTES), "cudaMalloc");
	need(cudaMalloc((void **)&j.wgs, j.groups * sizeof(*j.wgs)), "cudaMalloc");
	need(cudaDeviceSetLimit(cudaLimitStackSize, STACK_BYTES), "cudaDeviceSetLimit");
	lanes<<<(BUFFERS + 63) / 64, 64>>>(j);
	need(cudaGetLastError(), "lanes");
	groups<<<j.groups, 32>>>(j);
	need(cudaGetLastError(), "groups");
	need(cudaDeviceSynchronize(), "kernels");

	std::vector<uint8_t> by_lane = fetch(j.by_lane, 32 * BUFFERS);
	std::vector<uint8_t> in_pieces = fetch(j.in_pieces, 32 * BUFFERS);
	std::vector<uint8_t> by_group = fetch(j.by_group, 32 * BUFFERS);
	for (uint64_t i = 0; i < BLAKE3_VECTORS; i++) {
		wrong += compare("by a lane", by_lane, i, blake3_vectors[i].digest);
		wrong += compare("in pieces", in_pieces, i, blake3_vectors[i].digest);
		wrong += compare("by a workgroup", by_group, i, blake3_vectors[i].digest);
	}
	for (uint64_t i = 0; i < BUFFERS; i++) {
		if (memcmp(&by_lane[32 * i], &by_group[32 * i], 32) != 0 ||
		    memcmp(&by_lane[32 * i], &in_pieces[32 * i], 32) != 0) {
			printf("FAILED: the ways differ for buffer %llu of %llu bytes\n", (unsigned long long)i,
			       (unsigned long long)bytes[i]);
			wrong++;
		}
	}
	printf("BLAKE3 on the GPU: %u buffers, %u failures\n", BUFFERS, wrong);
	for (void *memory : {(void *)device_data, (void *)j.data, (void *)j.bytes, (void *)j.by_lane,
			     (void *)j.in_pieces, (void *)j.by_group, (void *)j.scratch, (void *)j.wgs})
		need(cudaFree(memory), "cudaFree");
	return wrong != 0;
}
