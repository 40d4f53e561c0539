/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that call the engine as a GPU program does: on the mounted file system, beside the engine's own kernel. */
#include <cuda_runtime.h>
#include <stdio.h>

#include "fs/fs.h"
#include "gpu/gpu_bench.h"

#define BLOCK_WARPS 4u

struct scene {
	struct g4_fs *fs;
	struct g4_wg *wgs;
	uint8_t *buffers; /* one page a warp */
	struct gpu_bench_job job;
	unsigned long long done;
	long long first_error;
};

static __device__ const struct g4_cred root = {0, 0, 022, 0, 0, {0}};

static __device__ uint32_t put_number(char *to, char prefix, uint32_t number)
{
	uint32_t bytes = 0;

	to[bytes++] = prefix;
	for (int shift = 28; shift >= 0; shift -= 4)
		to[bytes++] = "0123456789abcdef"[number >> shift & 15];
	return bytes;
}

static __device__ uint64_t random_next(uint64_t *state)
{
	uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static __device__ int on_name(struct g4_wg *wg, struct scene *s, uint32_t op, uint64_t node, const char *name,
			      uint32_t bytes, struct g4_attr *attr)
{
	struct g4_cmd cmd = {};

	cmd.op = op;
	cmd.node = node;
	cmd.name = name;
	cmd.name_bytes = (uint16_t)bytes;
	cmd.mode = op == G4_CMD_MKDIR ? 0755 : G4_S_IFREG | 0644;
	cmd.attr = attr;
	cmd.cred = &root;
	return g4_execute(wg, s->fs, &cmd);
}

/* Directory number `index` of a warp, in the root. */
static __device__ int directory_of(struct g4_wg *wg, struct scene *s, uint32_t warp, uint32_t index, bool make,
				   uint64_t *node)
{
	char name[16];
	struct g4_attr attr;
	uint32_t bytes = put_number(name, 'd', warp << 16 | index);
	int rc = on_name(wg, s, make ? G4_CMD_MKDIR : G4_CMD_LOOKUP, G4_NODE_ROOT, name, bytes, &attr);

	*node = attr.ino;
	return rc;
}

static __device__ int one(struct g4_wg *wg, struct scene *s, uint32_t warp, uint32_t i, uint64_t *seed, uint64_t *node)
{
	const struct gpu_bench_job *job = &s->job;
	char name[16];
	struct g4_cmd cmd = {};
	int rc;

	switch (job->work) {
	case GPU_BENCH_DIRECTORIES:
		return directory_of(wg, s, warp, i, true, node);
	case GPU_BENCH_MAKE:
		rc = i % job->directory ? 0 : directory_of(wg, s, warp, i / job->directory, false, node);
		return rc < 0 ? rc : on_name(wg, s, G4_CMD_MKNOD, *node, name, put_number(name, 'f', i), NULL);
	case GPU_BENCH_LOOKUP:
		if (i % job->directory == 0) {
			rc = directory_of(wg, s, warp, i / job->directory, false, node);
			if (rc < 0)
				return rc;
		}
		i = i / job->directory * job->directory + (uint32_t)(random_next(seed) % job->directory);
		return on_name(wg, s, G4_CMD_LOOKUP, *node, name, put_number(name, 'f', i), NULL);
	case GPU_BENCH_READ:
		cmd.op = G4_CMD_READ;
		cmd.node = job->file;
		cmd.offset = random_next(seed) % (job->bytes / G4_PAGE_BYTES) * G4_PAGE_BYTES;
		cmd.length = G4_PAGE_BYTES;
		cmd.data = s->buffers + (uint64_t)warp * G4_PAGE_BYTES;
		cmd.cred = &root;
		rc = g4_execute(wg, s->fs, &cmd);
		return rc == 0 && cmd.value != G4_PAGE_BYTES ? -G4_E_IO : rc;
	default:
		cmd.op = G4_CMD_NOP;
		return g4_execute(wg, s->fs, &cmd);
	}
}

static __global__ void __launch_bounds__(BLOCK_WARPS *G4_WARP_LANES) bench_kernel(struct scene *s)
{
	uint32_t warp = blockIdx.x * BLOCK_WARPS + threadIdx.x / G4_WARP_LANES;
	struct g4_wg *wg = &s->wgs[warp];

	if (warp >= s->job.warps)
		return;
	if (threadIdx.x % G4_WARP_LANES == 0) {
		uint64_t seed = warp + 1, node = 0;
		uint32_t i = 0;
		int rc = 0;

		for (; i < s->job.count && rc >= 0; i++)
			rc = one(wg, s, warp, i, &seed, &node);
		atomicAdd(&s->done, (unsigned long long)(rc < 0 ? i - 1 : i));
		if (rc < 0)
			s->first_error = rc;
		g4_wg_dismiss(wg);
	} else {
		g4_wg_serve(wg);
	}
}

static bool good(cudaError_t rc, const char *call)
{
	if (rc != cudaSuccess)
		fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(rc));
	return rc == cudaSuccess;
}
#define GOOD(call) good((call), #call)

uint32_t gpu_bench_multiprocessors(void)
{
	int count = 0;

	return GOOD(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0)) ? (uint32_t)count : 0;
}

bool gpu_bench_run(void *fs, const struct gpu_bench_job *job, struct gpu_bench_result *result)
{
	struct scene scene = {};
	struct scene *on_gpu;
	struct g4_wg *wgs = (struct g4_wg *)calloc(job->warps, sizeof(*wgs));
	uint8_t *scratch;
	cudaStream_t stream;
	cudaEvent_t begin, end;
	float ms = 0;

	scene.fs = (struct g4_fs *)fs;
	scene.job = *job;
	if (!GOOD(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)) || !GOOD(cudaEventCreate(&begin)) ||
	    !GOOD(cudaEventCreate(&end)) ||
	    !GOOD(cudaMallocAsync((void **)&scratch, (uint64_t)job->warps * G4_WG_SCRATCH_BYTES, stream)) ||
	    !GOOD(cudaMallocAsync((void **)&scene.wgs, job->warps * sizeof(*wgs), stream)) ||
	    !GOOD(cudaMallocAsync((void **)&scene.buffers, (uint64_t)job->warps * G4_PAGE_BYTES, stream)) ||
	    !GOOD(cudaMallocAsync((void **)&on_gpu, sizeof(scene), stream)))
		return false;
	for (uint32_t i = 0; i < job->warps; i++) {
		wgs[i].scratch = scratch + (uint64_t)i * G4_WG_SCRATCH_BYTES;
		wgs[i].index = 4096 + i; /* behind the engine's own */
	}
	if (!GOOD(cudaMemcpyAsync(scene.wgs, wgs, job->warps * sizeof(*wgs), cudaMemcpyHostToDevice, stream)) ||
	    !GOOD(cudaMemcpyAsync(on_gpu, &scene, sizeof(scene), cudaMemcpyHostToDevice, stream)) ||
	    !GOOD(cudaEventRecord(begin, stream)))
		return false;
	bench_kernel<<<(job->warps + BLOCK_WARPS - 1) / BLOCK_WARPS, BLOCK_WARPS * G4_WARP_LANES, 0, stream>>>(on_gpu);
	if (!GOOD(cudaGetLastError()) || !GOOD(cudaEventRecord(end, stream)) || !GOOD(cudaStreamSynchronize(stream)) ||
	    !GOOD(cudaEventElapsedTime(&ms, begin, end)) ||
	    !GOOD(cudaMemcpyAsync(&scene, on_gpu, sizeof(scene), cudaMemcpyDeviceToHost, stream)) ||
	    !GOOD(cudaStreamSynchronize(stream)))
		return false;
	result->seconds = ms / 1000.0;
	result->done = scene.done;
	result->first_error = scene.first_error;
	free(wgs);
	return GOOD(cudaFreeAsync(scratch, stream)) && GOOD(cudaFreeAsync(scene.wgs, stream)) &&
	       GOOD(cudaFreeAsync(scene.buffers, stream)) && GOOD(cudaFreeAsync(on_gpu, stream)) &&
	       GOOD(cudaEventDestroy(begin)) && GOOD(cudaEventDestroy(end)) && GOOD(cudaStreamSynchronize(stream)) &&
	       GOOD(cudaStreamDestroy(stream));
}
