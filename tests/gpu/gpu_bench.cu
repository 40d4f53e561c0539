/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that call the engine as a GPU program does: on the mounted file system, beside the engine's own kernel. */
#include <cuda_runtime.h>
#include <stdio.h>

#include "device/caller.h"
#include "gpu/gpu_bench.h"

#define BLOCK_WARPS 4u

struct scene {
	struct g4_fs *fs;
	struct g4_wg *wgs;
	uint8_t *buffers; /* one page a warp; READ_EACH: a lane */
	struct g4_callers callers;
	struct gpu_bench_job job;
	uint32_t *took;		       /* ACQUIRE, PIN_EACH: cycles, one a lane and call; NULL */
	unsigned long long cycles, ns; /* of the first warp, from its first call to its last */
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

/* The same with letters behind it, so that the name is as long as is asked for, if that is longer. */
static __device__ uint32_t put_long(char *to, char prefix, uint32_t number, uint64_t wanted)
{
	uint32_t bytes = put_number(to, prefix, number);

	while (bytes < wanted && bytes < G4_NAME_MAX)
		to[bytes++] = 'n';
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
	char name[32];
	struct g4_cmd cmd = {};
	int rc;

	switch (job->work) {
	case GPU_BENCH_DIRECTORIES:
		return directory_of(wg, s, warp, i, true, node);
	case GPU_BENCH_MAKE:
		rc = i % job->directory ? 0 : directory_of(wg, s, warp, i / job->directory, false, node);
		if (rc < 0)
			return rc;
		i += (uint32_t)job->bytes;
		return on_name(wg, s, G4_CMD_MKNOD, *node, name, put_number(name, 'f', i), NULL);
	case GPU_BENCH_MAKE_SHARED:
		cmd.op = put_number(name, 'g', warp);
		return on_name(wg, s, G4_CMD_MKNOD, job->file, name, cmd.op + put_number(name + cmd.op, 'f', i), NULL);
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
	case GPU_BENCH_READ_ALL:
		cmd.op = G4_CMD_READ;
		cmd.node = job->file;
		cmd.length = job->directory * G4_PAGE_BYTES;
		cmd.offset = ((uint64_t)i * job->warps + warp) * cmd.length;
		cmd.data = s->buffers + warp * cmd.length;
		cmd.cred = &root;
		rc = g4_execute(wg, s->fs, &cmd);
		return rc == 0 && cmd.value != cmd.length ? -G4_E_IO : rc;
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
		g4_caller_serve(wg);
	}
}

/* ------------------------------------------------------------------ callers of the device API */

static __device__ struct g4_caller_file forest[GPU_BENCH_DIRS], small;

static __device__ int open_path(struct g4_caller *caller, const char *path, uint32_t bytes, struct g4_caller_file *file)
{
	const struct g4_caller_open how = {G4_OPEN_READ, 0, false, false, false};
	int rc = g4_caller_open(caller, NULL, path, bytes, &how);

	if (rc == 0)
		*file = caller->file;
	return rc;
}

/* Leader. Directory number `index` of a warp, in a directory of the warp's own: /w........./d......... */
static __device__ int make_tree(struct scene *s, struct g4_caller *caller, uint32_t warp, uint32_t index,
				uint64_t *node)
{
	char path[32] = "/", name[G4_NAME_MAX];
	struct g4_attr attr;
	uint32_t bytes = 1 + put_number(path + 1, 'w', warp);
	int rc = 0;

	if (index == 0) {
		rc = on_name(caller->wg, s, G4_CMD_MKDIR, G4_NODE_ROOT, path + 1, bytes - 1, &attr);
		*node = attr.ino;
	}
	path[bytes++] = '/';
	uint32_t last = put_number(path + bytes, 'd', index);
	if (rc == 0)
		rc = on_name(caller->wg, s, G4_CMD_MKDIR, *node, path + bytes, last, &attr);
	for (uint32_t f = 0; f < s->job.directory && rc == 0; f++)
		rc = on_name(caller->wg, s, G4_CMD_MKNOD, attr.ino, name, put_long(name, 'f', f, s->job.bytes), NULL);
	return rc < 0 ? rc : open_path(caller, path, bytes + last, &forest[warp * s->job.count + index]);
}

/* Collective: runs `call` on lane 0, as the functions of the device API do. */
template <class Call> static __device__ void together(struct g4_wg *wg, Call call)
{
	__syncwarp();
	if (g4_wg_lane(wg) == 0) {
		call();
		g4_wg_dismiss(wg);
	} else {
		g4_caller_serve(wg);
	}
	__syncwarp();
}

/* Collective: one name a lane, of those below `lanes`; whether this lane's was there. */
static __device__ bool find(struct g4_caller *caller, uint32_t dir, uint32_t number, bool attr, uint32_t lanes,
			    uint64_t bytes)
{
	struct g4_caller_lane *mine = &caller->lane[g4_wg_lane(caller->wg)];
	char name[G4_NAME_MAX];

	mine->bytes = g4_wg_lane(caller->wg) < lanes ? put_long(name, 'f', number, bytes) : 0;
	mine->ino = 0;
	mine->name = name;
	mine->wants_attr = attr;
	together(caller->wg, [&] { g4_caller_lookup_each(caller, &forest[dir]); });
	if (mine->bytes > 0 && mine->result == 0 && attr &&
	    g4_caller_attr_of(caller, g4_wg_lane(caller->wg))->ino != mine->ino)
		return false;
	return mine->result == 0 && mine->ino != 0;
}

/* Collective: one page a lane, to memory. The file is all sevens. */
static __device__ bool read_page(struct scene *s, struct g4_caller *caller, uint32_t warp, uint64_t page)
{
	struct g4_caller_lane *mine = &caller->lane[g4_wg_lane(caller->wg)];
	const uint64_t *words =
		(const uint64_t *)(s->buffers + (warp * 32ull + g4_wg_lane(caller->wg)) * G4_PAGE_BYTES);

	mine->to = const_cast<uint64_t *>(words);
	mine->bytes = G4_PAGE_BYTES;
	mine->offset = page * G4_PAGE_BYTES;
	together(caller->wg, [&] { g4_caller_read_each(caller, &small); });
	return mine->result == (int64_t)G4_PAGE_BYTES && words[page % 512] == UINT64_C(0x0707070707070707);
}

/* Collective: one page a lane, in place; all lanes add up all pages. */
static __device__ bool sum_page(struct scene *s, struct g4_caller *caller, uint64_t page)
{
	const uint32_t lane = g4_wg_lane(caller->wg);
	struct g4_caller_lane *mine = &caller->lane[lane];
	uint32_t wrong = 0;

	mine->offset = page * G4_PAGE_BYTES;
	together(caller->wg, [&] { g4_caller_map_each(caller, &small); });
	const bool mapped = mine->result == 0;
	const uint32_t line = mine->page.line, count = (uint32_t)__popc(__ballot_sync(G4_WARP_ALL, mapped));
	for (uint32_t left = __ballot_sync(G4_WARP_ALL, mapped); left; left &= left - 1) {
		const uint4 *data =
			(const uint4 *)__shfl_sync(G4_WARP_ALL, (uint64_t)mine->page.data, __ffs((int)left) - 1);
		uint4 part[8];
#pragma unroll
		for (int k = 0; k < 8; k++)
			part[k] = data[k * 32 + lane];
#pragma unroll
		for (int k = 0; k < 8; k++)
			wrong |= (part[k].x ^ 0x07070707) | (part[k].y ^ 0x07070707) | (part[k].z ^ 0x07070707) |
				 (part[k].w ^ 0x07070707);
	}
	wrong = __reduce_or_sync(G4_WARP_ALL, wrong);
	const bool left = mapped && !g4_caller_unmap_lane(&s->callers, line);
	for (uint32_t lanes = __ballot_sync(G4_WARP_ALL, left); lanes; lanes &= lanes - 1) {
		const uint32_t theirs = __shfl_sync(G4_WARP_ALL, line, __ffs((int)lanes) - 1);
		if (lane == 0)
			g4_caller_unmap(&s->callers, theirs, false);
		__syncwarp();
	}
	if (lane == 0 && count > 0)
		g4_caller_unpin(&s->callers, count);
	return mapped && wrong == 0;
}

static __device__ uint64_t now_ns(void)
{
	uint64_t ns;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
	return ns;
}

static __device__ bool stamps(uint32_t work)
{
	return work == GPU_BENCH_ACQUIRE || work == GPU_BENCH_PIN_EACH;
}

/* A page in place, one a lane, each by itself; *took: until it is there. */
static __device__ bool acquire(struct scene *s, uint64_t page, uint32_t *took)
{
	uint32_t line;
	const long long begin = clock64();
	const uint64_t *words = (const uint64_t *)g4_caller_peek(&s->callers, &small, page, &line);

	*took = (uint32_t)(clock64() - begin);
	if (!words)
		return false;
	const bool right = words[page % 512] == UINT64_C(0x0707070707070707);
	g4_caller_unpeek(&s->callers, line);
	return right;
}

/* Collective: pins a page a lane, and lets all go. */
static __device__ bool pin(struct scene *s, struct g4_caller *caller, uint64_t page, uint32_t *took)
{
	struct g4_caller_lane *mine = &caller->lane[g4_wg_lane(caller->wg)];

	mine->offset = page * G4_PAGE_BYTES;
	const long long begin = clock64();
	together(caller->wg, [&] { g4_caller_map_each(caller, &small); });
	*took = (uint32_t)(clock64() - begin);
	const bool mapped = mine->result == 0;
	const bool right = mapped && ((const uint64_t *)mine->page.data)[page % 512] == UINT64_C(0x0707070707070707);
	for (uint32_t left = __ballot_sync(G4_WARP_ALL, mapped); left; left &= left - 1) {
		const uint32_t line = __shfl_sync(G4_WARP_ALL, mine->page.line, __ffs((int)left) - 1);
		if (g4_wg_lane(caller->wg) == 0)
			g4_caller_unmap(&s->callers, line, true);
		__syncwarp();
	}
	return right;
}

/* Lanes of a warp that want something. */
static __device__ uint32_t lanes_of(const struct gpu_bench_job *job)
{
	return job->work == GPU_BENCH_LOOKUP_EACH && job->file ? (uint32_t)job->file : G4_WARP_LANES;
}

/* Collective: call number i of a warp; whether this lane got what it wanted. seed: each lane's own. */
static __device__ bool one_each(struct scene *s, struct g4_caller *caller, uint32_t warp, uint32_t i, uint64_t *seed)
{
	const struct gpu_bench_job *job = &s->job;
	const uint32_t lane = g4_wg_lane(caller->wg), calls = job->directory / 32;
	const uint32_t lanes = lanes_of(job);
	const uint64_t random = random_next(seed);
	const uint32_t dir = (uint32_t)(__shfl_sync(G4_WARP_ALL, random, 0) >> 32) % GPU_BENCH_DIRS;

	switch (job->work) {
	case GPU_BENCH_FIND_ALL:
		return find(caller, warp * (job->count / calls) + i / calls, i % calls * 32 + lane, true, G4_WARP_LANES,
			    job->bytes);
	case GPU_BENCH_LOOKUP_EACH:
		return find(caller, dir, (uint32_t)random % job->directory, true, lanes, job->bytes);
	case GPU_BENCH_INO_EACH:
		return find(caller, dir, (uint32_t)random % job->directory, false, lanes, job->bytes);
	case GPU_BENCH_READ_EACH:
		return read_page(s, caller, warp, random % (job->bytes / G4_PAGE_BYTES));
	case GPU_BENCH_ACQUIRE:
	case GPU_BENCH_PIN_EACH: {
		uint32_t *took = &s->took[((uint64_t)i * job->warps + warp) * G4_WARP_LANES + lane];
		const uint64_t page = random % (job->bytes / G4_PAGE_BYTES);
		return job->work == GPU_BENCH_ACQUIRE ? acquire(s, page, took) : pin(s, caller, page, took);
	}
	default:
		return sum_page(s, caller, random % (job->bytes / G4_PAGE_BYTES));
	}
}

static __device__ void build(struct scene *s, struct g4_caller *caller, uint32_t warp)
{
	int rc = 0;

	together(caller->wg, [&] {
		uint64_t node = 0;
		for (uint32_t i = 0; i < s->job.count && rc >= 0; i++)
			rc = s->job.work == GPU_BENCH_OPEN ? open_path(caller, "/small", 6, &small) :
							     make_tree(s, caller, warp, i, &node);
		if (rc < 0)
			s->first_error = rc;
		else
			atomicAdd(&s->done, (unsigned long long)s->job.count * s->job.directory);
	});
}

static __device__ void leave(struct g4_caller *caller)
{
	__syncwarp();
	if (threadIdx.x % G4_WARP_LANES == 0)
		g4_caller_leave(caller);
}

/* No more registers than the engine: as many warps as it could have. */
static __global__ void __launch_bounds__(BLOCK_WARPS *G4_WARP_LANES, 65536 / (80 * BLOCK_WARPS * G4_WARP_LANES))
	caller_kernel(struct scene *s)
{
	const uint32_t warp = blockIdx.x * BLOCK_WARPS + threadIdx.x / G4_WARP_LANES;
	uint64_t seed = (uint64_t)warp << 8 | (threadIdx.x % G4_WARP_LANES), good = 0;

	if (warp >= s->job.warps)
		return;
	struct g4_caller *caller = &s->callers.caller[warp];
	if (threadIdx.x % G4_WARP_LANES == 0)
		g4_caller_enter(&s->callers, warp); /* its own place: nobody else has this hint */
	__syncwarp();
	if (s->job.work == GPU_BENCH_FOREST || s->job.work == GPU_BENCH_OPEN) {
		build(s, caller, warp);
		leave(caller);
		return;
	}
	const bool times = stamps(s->job.work) && warp == 0 && threadIdx.x == 0;
	const long long first_cycle = clock64();
	const uint64_t first_ns = now_ns();
	for (uint32_t i = 0; i < s->job.count; i++) {
		if (one_each(s, caller, warp, i, &seed))
			good++;
		else if (threadIdx.x % G4_WARP_LANES < lanes_of(&s->job))
			s->first_error = caller->lane[threadIdx.x % G4_WARP_LANES].result < 0 ?
						 caller->lane[threadIdx.x % G4_WARP_LANES].result :
						 -G4_E_IO;
		__syncwarp();
	}
	if (times) {
		s->cycles = (unsigned long long)(clock64() - first_cycle);
		s->ns = now_ns() - first_ns;
	}
	good = g4_reduce_sum(caller->wg, good);
	if (threadIdx.x % G4_WARP_LANES == 0)
		atomicAdd(&s->done, (unsigned long long)good);
	leave(caller);
}

/* ------------------------------------------------------------------ the table of contents */

#define TABLE_THREADS 256u
#define TAG_SHIFT 43 /* of a slot (dedup/table.c): above it is its part of the hash */

struct table_scene {
	struct g4_ddt ddt;
	struct gpu_bench_keys keys;
	unsigned long long right, others, none, slots, doubles;
};

static __device__ uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static __device__ uint64_t lane_of_grid(void)
{
	return blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
}

static __global__ void __launch_bounds__(TABLE_THREADS) table_kernel(struct table_scene *s)
{
	const struct gpu_bench_keys keys = s->keys;
	unsigned long long right = 0, others = 0, none = 0;

	for (uint64_t i = lane_of_grid(); i < keys.count; i += (uint64_t)gridDim.x * blockDim.x) {
		const uint64_t n = keys.same ? keys.first[0] : (i % 2 ? keys.first[1] : keys.first[0]) + i / 2;
		const uint64_t hash[2] = {mix(2 * n + 1), mix(2 * n + 2)};
		const struct g4_address page = g4_ddt_find(&s->ddt, hash);
		if (!g4_address_is_none(page)) {
			right += g4_address_page(page) == n + 1;
			others += g4_address_page(page) != n + 1;
			continue;
		}
		none++;
		if (keys.insert)
			g4_ddt_insert(&s->ddt, hash, g4_page_address(n + 1));
	}
	atomicAdd(&s->right, right);
	atomicAdd(&s->others, others);
	atomicAdd(&s->none, none);
}

/* A bucket a lane. */
static __global__ void __launch_bounds__(TABLE_THREADS) slots_kernel(struct table_scene *s)
{
	unsigned long long used = 0, doubles = 0;

	for (uint64_t b = lane_of_grid(); b < s->ddt.bucket_count; b += (uint64_t)gridDim.x * blockDim.x) {
		const uint64_t *slots = &s->ddt.slots[b * G4_DDT_SLOTS];
		for (uint32_t k = 0; k < G4_DDT_SLOTS; k++) {
			uint32_t same = 0;
			while (same < k && (slots[same] == 0 || slots[same] >> TAG_SHIFT != slots[k] >> TAG_SHIFT))
				same++;
			used += slots[k] != 0;
			doubles += slots[k] != 0 && same < k;
		}
	}
	atomicAdd(&s->slots, used);
	atomicAdd(&s->doubles, doubles);
}

/* ------------------------------------------------------------------ host */

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

uint32_t gpu_bench_resident_warps(void)
{
	int blocks = 0;

	if (!GOOD(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, caller_kernel, BLOCK_WARPS * G4_WARP_LANES,
								0)))
		return 0;
	return (uint32_t)blocks * BLOCK_WARPS * gpu_bench_multiprocessors();
}

/* The places of callers of the device API, made here and copied there. */
static bool make_callers(struct scene *scene, struct scene *on_gpu, cudaStream_t stream)
{
	const uint32_t warps = scene->job.warps;
	struct g4_caller *caller = (struct g4_caller *)calloc(warps, sizeof(*caller));

	if (!caller || !GOOD(cudaMallocAsync((void **)&scene->callers.caller, warps * sizeof(*caller), stream)))
		return false;
	for (uint32_t i = 0; i < warps; i++) {
		caller[i].callers = &on_gpu->callers;
		caller[i].wg = &scene->wgs[i];
	}
	scene->callers.fs = scene->fs;
	scene->callers.count = warps;
	scene->callers.start = G4_NODE_ROOT;
	scene->callers.cred.umask = 022;
	bool copied = GOOD(cudaMemcpyAsync(scene->callers.caller, caller, warps * sizeof(*caller),
					   cudaMemcpyHostToDevice, stream)) &&
		      GOOD(cudaStreamSynchronize(stream));
	free(caller);
	return copied;
}

static int by_value(const void *a, const void *b)
{
	const uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

	return (left > right) - (left < right);
}

static uint64_t stamp_count(const struct gpu_bench_job *job)
{
	return (uint64_t)job->count * job->warps * G4_WARP_LANES;
}

/* The stamps of a job that has ended, in order. */
static bool order_stamps(const struct scene *scene, struct gpu_bench_result *result)
{
	static const uint32_t places[GPU_BENCH_PLACES] = {0, 250, 500, 750, 999, 1000};
	const uint64_t count = stamp_count(&scene->job);
	uint32_t *took = (uint32_t *)malloc(count * sizeof(*took));

	if (!took || !GOOD(cudaMemcpy(took, scene->took, count * sizeof(*took), cudaMemcpyDeviceToHost)) ||
	    !GOOD(cudaFree(scene->took)))
		return false;
	qsort(took, count, sizeof(*took), by_value);
	for (uint32_t k = 0; k < GPU_BENCH_PLACES; k++)
		result->took_ns[k] =
			(double)took[(count - 1) * places[k] / 1000] * (double)scene->ns / (double)scene->cycles;
	free(took);
	return true;
}

bool gpu_bench_run(void *fs, const struct gpu_bench_job *job, struct gpu_bench_result *result)
{
	struct scene scene = {};
	struct scene *on_gpu;
	struct g4_wg *wgs = (struct g4_wg *)calloc(job->warps, sizeof(*wgs));
	uint8_t *scratch;
	cudaStream_t stream;
	cudaEvent_t begin, end;
	const uint64_t pages = (uint64_t)job->warps * (job->work == GPU_BENCH_READ_EACH ? G4_WARP_LANES :
						       job->work == GPU_BENCH_READ_ALL	? job->directory :
											  1);
	const uint32_t blocks = (job->warps + BLOCK_WARPS - 1) / BLOCK_WARPS;
	float ms = 0;

	scene.fs = (struct g4_fs *)fs;
	scene.job = *job;
	const bool with_stamps = job->work >= GPU_BENCH_ACQUIRE;
	if (with_stamps && !GOOD(cudaMalloc((void **)&scene.took, stamp_count(job) * sizeof(*scene.took))))
		return false;
	if (!GOOD(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)) || !GOOD(cudaEventCreate(&begin)) ||
	    !GOOD(cudaEventCreate(&end)) ||
	    !GOOD(cudaMallocAsync((void **)&scratch, (uint64_t)job->warps * G4_WG_SCRATCH_BYTES, stream)) ||
	    !GOOD(cudaMallocAsync((void **)&scene.wgs, job->warps * sizeof(*wgs), stream)) ||
	    !GOOD(cudaMallocAsync((void **)&scene.buffers, pages * G4_PAGE_BYTES, stream)) ||
	    !GOOD(cudaMallocAsync((void **)&on_gpu, sizeof(scene), stream)) || !make_callers(&scene, on_gpu, stream))
		return false;
	for (uint32_t i = 0; i < job->warps; i++) /* their numbers are behind the engine's own */
		g4_wg_init(&wgs[i], 4096 + i, scratch + (uint64_t)i * G4_WG_SCRATCH_BYTES, G4_WG_SCRATCH_BYTES);
	if (!GOOD(cudaMemcpyAsync(scene.wgs, wgs, job->warps * sizeof(*wgs), cudaMemcpyHostToDevice, stream)) ||
	    !GOOD(cudaMemcpyAsync(on_gpu, &scene, sizeof(scene), cudaMemcpyHostToDevice, stream)) ||
	    !GOOD(cudaEventRecord(begin, stream)))
		return false;
	if (job->work >= GPU_BENCH_FOREST)
		caller_kernel<<<blocks, BLOCK_WARPS * G4_WARP_LANES, 0, stream>>>(on_gpu);
	else
		bench_kernel<<<blocks, BLOCK_WARPS * G4_WARP_LANES, 0, stream>>>(on_gpu);
	if (!GOOD(cudaGetLastError()) || !GOOD(cudaEventRecord(end, stream)) || !GOOD(cudaStreamSynchronize(stream)) ||
	    !GOOD(cudaEventElapsedTime(&ms, begin, end)) ||
	    !GOOD(cudaMemcpyAsync(&scene, on_gpu, sizeof(scene), cudaMemcpyDeviceToHost, stream)) ||
	    !GOOD(cudaStreamSynchronize(stream)))
		return false;
	result->seconds = ms / 1000.0;
	result->done = scene.done;
	result->first_error = scene.first_error;
	if (with_stamps && !order_stamps(&scene, result))
		return false;
	free(wgs);
	return GOOD(cudaFreeAsync(scratch, stream)) && GOOD(cudaFreeAsync(scene.wgs, stream)) &&
	       GOOD(cudaFreeAsync(scene.buffers, stream)) && GOOD(cudaFreeAsync(scene.callers.caller, stream)) &&
	       GOOD(cudaFreeAsync(on_gpu, stream)) && GOOD(cudaEventDestroy(begin)) && GOOD(cudaEventDestroy(end)) &&
	       GOOD(cudaStreamSynchronize(stream)) && GOOD(cudaStreamDestroy(stream));
}

void *gpu_bench_memory(uint64_t bytes)
{
	void *memory;

	return GOOD(cudaMalloc(&memory, bytes)) && GOOD(cudaMemset(memory, 0, bytes)) ? memory : NULL;
}

bool gpu_bench_free(void *memory)
{
	return GOOD(cudaFree(memory));
}

static bool run_table(struct table_scene *scene, struct table_scene *on_gpu, cudaStream_t stream, float *ms)
{
	const uint32_t multiprocessors = gpu_bench_multiprocessors();
	cudaEvent_t begin, end;
	int blocks = 0;

	if (!GOOD(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, table_kernel, TABLE_THREADS, 0)) ||
	    !GOOD(cudaEventCreate(&begin)) || !GOOD(cudaEventCreate(&end)) ||
	    !GOOD(cudaMemcpyAsync(on_gpu, scene, sizeof(*scene), cudaMemcpyHostToDevice, stream)) ||
	    !GOOD(cudaEventRecord(begin, stream)))
		return false;
	table_kernel<<<(uint32_t)blocks * multiprocessors, TABLE_THREADS, 0, stream>>>(on_gpu);
	if (!GOOD(cudaGetLastError()) || !GOOD(cudaEventRecord(end, stream)))
		return false;
	slots_kernel<<<(uint32_t)blocks * multiprocessors, TABLE_THREADS, 0, stream>>>(on_gpu);
	return GOOD(cudaGetLastError()) &&
	       GOOD(cudaMemcpyAsync(scene, on_gpu, sizeof(*scene), cudaMemcpyDeviceToHost, stream)) &&
	       GOOD(cudaStreamSynchronize(stream)) && GOOD(cudaEventElapsedTime(ms, begin, end)) &&
	       GOOD(cudaEventDestroy(begin)) && GOOD(cudaEventDestroy(end));
}

bool gpu_bench_table(struct g4_ddt *ddt, const struct gpu_bench_keys *keys, struct gpu_bench_found *found)
{
	struct table_scene *scene = (struct table_scene *)calloc(1, sizeof(*scene)), *on_gpu;
	cudaStream_t stream;
	float ms = 0;

	if (!scene)
		return false;
	scene->ddt = *ddt;
	scene->keys = *keys;
	const bool done = GOOD(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)) &&
			  GOOD(cudaMallocAsync((void **)&on_gpu, sizeof(*scene), stream)) &&
			  run_table(scene, on_gpu, stream, &ms) && GOOD(cudaFreeAsync(on_gpu, stream)) &&
			  GOOD(cudaStreamSynchronize(stream)) && GOOD(cudaStreamDestroy(stream));
	*ddt = scene->ddt;
	found->seconds = ms / 1000.0;
	found->right = scene->right;
	found->others = scene->others;
	found->none = scene->none;
	found->slots = scene->slots;
	found->doubles = scene->doubles;
	free(scene);
	return done;
}
