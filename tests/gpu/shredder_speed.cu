/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast Shredder's CUDA engine is: a JSON array on standard output, one object for each metric, as bench/ has them.
 * `peers` are the steps of the FAST'12 document on the same machine in the same run (section 4): its host-only version
 * with threads, and on the GPU
 *	basic		pageable memory, copy and kernel in turns, each thread its own stretch from global memory
 *	streams		page-locked buffers, copy and kernel overlap
 *	streams+memory	and the kernel loads cooperatively through shared memory
 * Every figure is the best of some rounds; a round is long enough that neither launches nor timers matter.
 * From the host's memory, with 1, 2, 4, ... GPUs, too.
 *	shredder_speed [GiB in the GPU's memory [GiB in the host's]]; 0 GiB in the GPU's memory: several GPUs only
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <vector>

#include "chunk/cuda/cuda_engine.h"
#include "chunk/cuda/find.cuh"
#include "gpu/shredder_host.h"

#define GIB (UINT64_C(1) << 30)
#define BUFFERS_MAX 32u
#define ROUNDS 4

static void need(cudaError_t error, const char *what)
{
	if (error != cudaSuccess) {
		fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
		exit(2);
	}
}

static void need_code(int code, const char *what)
{
	if (code != 0) {
		fprintf(stderr, "%s: %d\n", what, code);
		exit(2);
	}
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double cpu_seconds(void)
{
	struct rusage use;

	getrusage(RUSAGE_SELF, &use);
	return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
	       (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1e-6;
}

struct measured {
	double bytes_per_s, cpu, wall;
	uint64_t chunks;
};

/* ------------------------------------------------------------------------------------------------------ output */

static bool first_line = true;

/* GB are 10^9 bytes. target 0: none. at_most: the target is an upper limit. */
static void report(const char *metric, const char *unit, double ours, const char *peers, double target, bool at_most,
		   double cpu)
{
	printf("%s\n\t{\"bench\": \"shredder-gpu\", \"engine\": \"cuda\", \"metric\": \"%s\", \"unit\": \"%s\", \"ours\": %.4g, "
	       "\"peers\": {%s}, ",
	       first_line ? "[" : ",", metric, unit, ours, peers);
	first_line = false;
	if (target > 0)
		printf("\"target\": {\"%s\": %.4g}, \"met\": %s, ", at_most ? "at_most" : "at_least", target,
		       (at_most ? ours <= target : ours >= target) ? "true" : "false");
	else
		printf("\"target\": null, \"met\": null, ");
	printf("\"cpu_seconds\": %.4g}", cpu);
	fflush(stdout);
}

/* ------------------------------------------------------------------------------------------------------- data */

static __global__ void fill(uint64_t *data, uint64_t words, uint64_t seed)
{
	for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < words;
	     i += (uint64_t)gridDim.x * blockDim.x) {
		uint64_t z = i * 0x9E3779B97F4A7C15u + seed;

		z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
		z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
		data[i] = z ^ (z >> 31);
	}
}

static struct shredder_rule rule_for(uint32_t algorithm, bool limits)
{
	struct shredder_params params = {};
	struct shredder_rule rule;

	params.size = sizeof(params);
	params.algorithm = algorithm;
	params.min_bytes = limits ? 0 : SHREDDER_NONE;
	params.max_bytes = limits ? 0 : SHREDDER_NONE;
	need_code(shredder_params_complete(&params), "parameters");
	shredder_rule_init(&rule, &params);
	return rule;
}

/* ----------------------------------------------------------------------------------------------- the engine */

struct engine {
	struct shredder_rule rule;
	struct shredder_device *device;
	struct shredder_end *ends[BUFFERS_MAX];
	uint32_t buffers;
	uint64_t buffer_bytes, room;
};

static void open_engine(struct engine *e, uint64_t buffer_bytes, bool digests, uint32_t gpus)
{
	struct shredder_device_setup setup = {&e->rule, buffer_bytes, 4 * gpus, true, digests, NULL, gpus, 0};
	const char *why = "";

	e->buffers = setup.buffers;
	e->buffer_bytes = buffer_bytes;
	e->room = buffer_bytes / 2048;
	if (shredder_device_cuda.open(&setup, &e->device, &why) != 0) {
		fprintf(stderr, "open: %s\n", why);
		exit(2);
	}
	for (uint32_t i = 0; i < e->buffers; i++) {
		e->ends[i] = (struct shredder_end *)shredder_device_cuda.alloc(e->device, e->room * sizeof(**e->ends));
		if (!e->ends[i]) {
			fprintf(stderr, "no page-locked memory\n");
			exit(2);
		}
	}
}

static void close_engine(struct engine *e)
{
	for (uint32_t i = 0; i < e->buffers; i++)
		shredder_device_cuda.free(e->device, e->ends[i], e->room * sizeof(**e->ends));
	shredder_device_cuda.close(e->device);
}

/* One stream of `total` bytes from data, again and again the `bytes` that are there. */
static struct measured stream(struct engine *e, const uint8_t *data, uint64_t bytes, uint64_t total)
{
	struct shredder_batch batches[BUFFERS_MAX] = {};
	uint64_t count = total / e->buffer_bytes;
	struct measured m = {};
	double cpu = cpu_seconds();
	double begin = now();

	need_code(shredder_device_cuda.restart(e->device, NULL), "restart");
	for (uint64_t submitted = 0, collected = 0; collected < count;) {
		if (submitted < count && submitted - collected < e->buffers) {
			struct shredder_batch *batch = &batches[submitted % e->buffers];

			batch->slot = (uint32_t)(submitted % e->buffers);
			batch->data = data + submitted * e->buffer_bytes % bytes;
			batch->position = submitted * e->buffer_bytes;
			batch->bytes = e->buffer_bytes;
			batch->last = submitted + 1 == count;
			batch->ends = e->ends[batch->slot];
			batch->room = e->room;
			need_code(shredder_device_cuda.submit(e->device, batch), "submit");
			submitted++;
			continue;
		}
		struct shredder_batch *batch = &batches[collected % e->buffers];
		do {
			need_code(shredder_device_cuda.collect(e->device, batch), "collect");
			m.chunks += batch->count;
		} while (batch->more);
		collected++;
	}
	m.wall = now() - begin;
	m.cpu = cpu_seconds() - cpu;
	m.bytes_per_s = (double)total / m.wall;
	return m;
}

static struct measured best_stream(struct engine *e, const uint8_t *data, uint64_t bytes, uint64_t total)
{
	struct measured best = {};

	for (int round = 0; round < ROUNDS; round++) {
		struct measured m = stream(e, data, bytes, total);

		if (m.bytes_per_s > best.bytes_per_s)
			best = m;
	}
	return best;
}

static void in_gpu_memory(const uint8_t *data, uint64_t bytes)
{
	static const struct {
		const char *metric;
		uint32_t algorithm;
		bool limits, digests;
		double target;
	} cases[] = {
		{"rabin, data in VRAM", SHREDDER_RABIN, false, false, 1000},
		{"rabin with minimum and maximum, data in VRAM", SHREDDER_RABIN, true, false, 900},
		{"rabin with BLAKE3 of every chunk, data in VRAM", SHREDDER_RABIN, true, true, 600},
		{"gear, data in VRAM", SHREDDER_GEAR, true, false, 0},
		{"gear with BLAKE3 of every chunk, data in VRAM", SHREDDER_GEAR, true, true, 0},
	};

	for (const auto &c : cases) {
		struct engine e = {};

		e.rule = rule_for(c.algorithm, c.limits);
		open_engine(&e, GIB, c.digests, 1);
		struct measured m = best_stream(&e, data, bytes, bytes);
		report(c.metric, "GB/s", m.bytes_per_s / 1e9, "", c.target, false, m.cpu);
		close_engine(&e);
	}
}

static void in_host_memory(const uint8_t *data, uint64_t bytes, uint64_t mib, bool digests, uint32_t gpus)
{
	struct engine e = {};
	char metric[128];
	char name[96];

	snprintf(name, sizeof(name), "%s, page-locked host memory, %u MiB buffers, %u GPU%s",
		 digests ? " with BLAKE3" : "", (unsigned int)mib, gpus, gpus == 1 ? "" : "s");
	e.rule = rule_for(SHREDDER_RABIN, true);
	open_engine(&e, mib << 20, digests, gpus);
	struct measured m = best_stream(&e, data, bytes, 4 * gpus * bytes);
	snprintf(metric, sizeof(metric), "rabin%s", name);
	report(metric, "GB/s", m.bytes_per_s / 1e9, "", 50 * gpus, false, m.cpu);
	snprintf(metric, sizeof(metric), "host CPU%s", name);
	report(metric, "% of a core", 100 * m.cpu / m.wall, "", gpus == 1 ? 10 : 0, true, m.cpu);
	close_engine(&e);
}

static void all_in_host_memory(const uint8_t *data, uint64_t bytes)
{
	int devices = 0;

	need(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
	for (uint32_t gpus = 1; gpus <= (uint32_t)devices && 4 * gpus <= BUFFERS_MAX; gpus *= 2)
		for (uint64_t mib : {64, 128})
			for (int digests = 0; digests < 2; digests++)
				in_host_memory(data, bytes, mib, digests, gpus);
}

/* ------------------------------------------------------------------------------------- the document's steps */

/* Each thread rolls over a stretch of its own, byte by byte from global memory; both tables in shared memory. */
static __global__ void basic_kernel(const __grid_constant__ find_job job)
{
	__shared__ uint32_t push[256], pop[256];
	uint64_t begin = (uint64_t)(blockIdx.x * blockDim.x + threadIdx.x) * job.span;
	uint32_t state = 0;

	for (uint32_t i = threadIdx.x; i < 256; i += blockDim.x) {
		push[i] = job.push[i];
		pop[i] = job.pop[i];
	}
	__syncthreads();
	for (uint64_t at = begin < WINDOW_BYTES ? 0 : begin - WINDOW_BYTES; at < begin; at++)
		state = (state << 8 | job.in.data[at]) ^ push[state >> 24];
	for (uint64_t at = begin; at < begin + job.span && at < job.in.bytes; at++) {
		uint8_t old = at < WINDOW_BYTES ? 0 : job.in.data[at - WINDOW_BYTES];

		state = (state << 8 | job.in.data[at]) ^ push[state >> 24] ^ pop[old];
		if ((state & job.mask) == job.marker)
			note(job, (uint32_t)(begin / ((uint64_t)job.span * WARP_LANES)), (int64_t)at + 1, NOTE_STRICT);
	}
}

struct steps {
	struct find_job job;
	uint32_t grid;
	uint8_t *buffer[2];
	cudaStream_t stream[2];
	cudaEvent_t event[2];
	uint64_t bytes;
};

static void make_steps(struct steps *s, uint64_t bytes)
{
	struct shredder_rule rule = rule_for(SHREDDER_RABIN, false);
	uint32_t tables[512];
	uint32_t *device_tables = NULL;
	int processors = 0;

	need(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0), "attributes");
	need(cudaFuncSetAttribute(find_kernel<rabin32<true>>, cudaFuncAttributeMaxDynamicSharedMemorySize,
				  FIND_SHARED_BYTES),
	     "shared memory");
	for (uint32_t i = 0; i < 256; i++) {
		tables[i] = (uint32_t)rule.push[i];
		tables[256 + i] = (uint32_t)rule.pop[i];
	}
	need(cudaMalloc((void **)&device_tables, sizeof(tables)), "cudaMalloc");
	need(cudaMemcpy(device_tables, tables, sizeof(tables), cudaMemcpyHostToDevice), "cudaMemcpy");
	s->bytes = bytes;
	s->grid = (uint32_t)processors;
	s->job.in.bytes = (uint32_t)bytes;
	s->job.span = 576;
	s->job.tasks = (uint32_t)((bytes + s->job.span * WARP_LANES - 1) / (s->job.span * WARP_LANES));
	s->job.mask = (uint32_t)rule.mask;
	s->job.marker = (uint32_t)rule.marker;
	s->job.push = device_tables;
	s->job.pop = device_tables + 256;
	need(cudaMalloc((void **)&s->job.counts, s->job.tasks * sizeof(uint32_t)), "cudaMalloc");
	need(cudaMalloc((void **)&s->job.notes, (uint64_t)s->job.tasks * TASK_ROOM * sizeof(uint32_t)), "cudaMalloc");
	for (int i = 0; i < 2; i++) {
		need(cudaMalloc((void **)&s->buffer[i], bytes + 256), "cudaMalloc");
		need(cudaStreamCreateWithFlags(&s->stream[i], cudaStreamNonBlocking), "stream");
		need(cudaEventCreateWithFlags(&s->event[i], cudaEventBlockingSync | cudaEventDisableTiming), "event");
	}
}

static void run_kernel(struct steps *s, int which, bool cooperative)
{
	struct find_job job = s->job;

	job.in.data = s->buffer[which];
	need(cudaMemsetAsync(job.counts, 0, job.tasks * sizeof(uint32_t), s->stream[which]), "memset");
	if (cooperative)
		find_kernel<rabin32<true>><<<s->grid, FIND_THREADS, FIND_SHARED_BYTES, s->stream[which]>>>(job);
	else
		basic_kernel<<<(job.tasks * WARP_LANES + 255) / 256, 256, 0, s->stream[which]>>>(job);
	need(cudaGetLastError(), "kernel");
}

/* Two buffers, each with a stream: one is filled while the other is looked at. `overlap` off: one after the other. */
static double run_step(struct steps *s, const uint8_t *data, uint64_t bytes, bool overlap, bool cooperative)
{
	double best = 0;

	for (int round = 0; round < 3; round++) {
		double begin = now();

		for (uint64_t i = 0; i < bytes / s->bytes; i++) {
			int which = overlap ? (int)(i % 2) : 0;

			need(cudaMemcpyAsync(s->buffer[which], data + i * s->bytes, s->bytes, cudaMemcpyHostToDevice,
					     s->stream[which]),
			     "copy");
			run_kernel(s, which, cooperative);
			need(cudaEventRecord(s->event[which], s->stream[which]), "event");
			if (!overlap || i > 0)
				need(cudaEventSynchronize(s->event[overlap ? 1 - which : which]), "wait");
		}
		need(cudaDeviceSynchronize(), "wait");
		double rate = (double)(bytes / s->bytes * s->bytes) / (now() - begin);
		best = rate > best ? rate : best;
	}
	return best;
}

/* The kernel alone on data that is there, repeated. */
static double run_alone(struct steps *s, bool cooperative)
{
	const int repeats = 20;
	double best = 0;

	for (int round = 0; round < 3; round++) {
		double begin = now();

		for (int i = 0; i < repeats; i++)
			run_kernel(s, 0, cooperative);
		need(cudaDeviceSynchronize(), "wait");
		double rate = (double)s->bytes * repeats / (now() - begin);
		best = rate > best ? rate : best;
	}
	return best;
}

static void document_steps(const uint8_t *pageable, const uint8_t *locked, uint64_t bytes, double ours)
{
	struct steps s = {};
	char peers[512];

	make_steps(&s, 64 << 20);
	double host = reference_threads(pageable, bytes, 16) / 1e9;
	double basic = run_step(&s, pageable, bytes, false, false) / 1e9;
	double streams = run_step(&s, locked, bytes, true, false) / 1e9;
	double memory = run_step(&s, locked, bytes, true, true) / 1e9;
	snprintf(peers, sizeof(peers),
		 "\"host only, 16 threads\": %.4g, \"basic\": %.4g, \"streams\": %.4g, \"streams+memory\": %.4g", host,
		 basic, streams, memory);
	report("rabin from host memory, the document's steps", "GB/s", ours, peers, 0, false, 0);
	snprintf(peers, sizeof(peers), "\"basic\": %.4g", run_alone(&s, false) / 1e9);
	report("rabin kernel alone", "GB/s", run_alone(&s, true) / 1e9, peers, 0, false, 0);
}

int main(int argc, char **argv)
{
	uint64_t device_bytes = (argc > 1 ? strtoull(argv[1], NULL, 0) : 16) * GIB;
	uint64_t host_bytes = (argc > 2 ? strtoull(argv[2], NULL, 0) : 4) * GIB;
	uint8_t *data = NULL;
	uint8_t *locked = NULL;
	uint8_t *pageable = (uint8_t *)malloc(host_bytes);
	bool all = device_bytes > 0;

	device_bytes = all ? device_bytes : host_bytes;
	need(cudaMalloc((void **)&data, device_bytes), "cudaMalloc");
	need(cudaHostAlloc((void **)&locked, host_bytes, cudaHostAllocPortable), "cudaHostAlloc");
	if (!pageable)
		return 2;
	fill<<<1024, 256>>>((uint64_t *)data, device_bytes / 8, 42);
	need(cudaMemcpy(locked, data, host_bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
	memcpy(pageable, locked, host_bytes);
	if (all)
		in_gpu_memory(data, device_bytes);
	need(cudaFree(data), "cudaFree");
	all_in_host_memory(locked, host_bytes);
	if (!all) {
		printf("\n]\n");
		return 0;
	}

	struct engine e = {};
	e.rule = rule_for(SHREDDER_RABIN, false);
	open_engine(&e, 64 << 20, false, 1);
	struct measured m = best_stream(&e, locked, host_bytes, host_bytes);
	close_engine(&e);
	document_steps(pageable, locked, host_bytes, m.bytes_per_s / 1e9);
	printf("\n]\n");
	return 0;
}
