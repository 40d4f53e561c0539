/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One GPU of the CUDA engine: its memory, its streams, and what it launches for a batch.
 *
 * Two streams: one copies buffers to the GPU, one computes, so that the copy of a batch and the kernels of the one before
 * overlap. A buffer of the ring has headroom in front, which holds the end of the batch before: the window's history, and
 * the open chunk's bytes for its digest.
 *
 *	slot's memory	|  headroom: the end of the batch before  |  the batch's bytes  |
 */
#ifndef SHREDDER_CUDA_GPU_CUH
#define SHREDDER_CUDA_GPU_CUH

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#include "chunk/cuda/cuda_engine.h"
#include "chunk/cuda/digest.cuh"
#include "chunk/cuda/find.cuh"
#include "chunk/cuda/relay.cuh"
#include "chunk/cuda/resolve.cuh"

/* Chunks whose digest is wanted lie in a slot with all their bytes; longer ones are left to the CPU engine. */
#define LONGEST_HASHED_BYTES (64u << 20)
#define SLACK_BYTES 256u
#define MOST_SPAN 8160u
#define LEAST_SPAN (2 * TILE_BYTES)
/* Chunks for which there is room: as many as the minimum allows, or one in so many bytes. */
#define DENSE_CHUNK_BYTES 256u
/* Enough blocks to fill the bus when they write results to the host's memory. */
#define ADVANCE_GRID 16u
#define TROUBLE_BYTES 128u

struct slot {
	uint8_t *memory; /* headroom and buffer */
	struct shredder_end *chunks;
	struct outcome *outcome;
	struct shredder_end *host_chunks; /* page-locked */
	struct outcome *told;		  /* page-locked, written by the GPU */
	uint32_t *marks;
	uint32_t *borders;
	cudaEvent_t begun, copied, started, found, received, done;
	cudaEvent_t tailed; /* the end of another GPU's batch with this number has arrived in this GPU's `tail` */
	bool pending, fetched;
	struct stretch in;
	struct relay relay;
	struct gpu *next; /* got the end of this batch into its tail; or NULL */
	uint64_t position;
	bool last, alone;
	uint32_t borders_count;
	/* where the GPU writes chunks itself, page-locked: the caller's memory or host_chunks; or NULL */
	struct shredder_end *target;
	uint64_t target_room;
	const struct shredder_end *known; /* the caller's memory that was looked at last */
	bool known_locked;
	/* what collect() hands out */
	struct shredder_end *ready;
	uint64_t ready_count, given;
	struct shredder_end *resolved; /* by the host; owned */
};

struct gpu {
	uint32_t index; /* among those that the caller named */
	int number;	/* CUDA's */
	bool usable;
	char trouble[TROUBLE_BYTES]; /* why not */
	const struct shredder_rule *rule;
	struct shredder_device_setup setup;
	cudaStream_t copy, compute, fetch;
	uint32_t processors, headroom;
	uint32_t most_tasks, chunk_room, leaf_room;
	struct slot *slots;
	/* device memory that batches use one after the other */
	uint8_t *tail; /* the last `headroom` bytes before the next batch here */
	uint64_t *push64, *pop64;
	uint32_t *push, *pop, *gear;
	uint32_t *counts, *notes, *bases, *ends, *next, *entry, *entry_chunks, *entry_leaves;
	struct walk *walks;
	int64_t *start;
	uint32_t *first_leaf, *group_chunk;
	uint4 *cv;
	struct chain *chain;
};

/* What CUDA said to this thread when TRY failed last. */
static thread_local cudaError_t tried;

/* Returns the code of what failed from the function it stands in. */
#define TRY(call)                                                                                                      \
	do {                                                                                                           \
		cudaError_t error_ = (call);                                                                           \
		if (error_ != cudaSuccess) {                                                                           \
			tried = error_;                                                                                \
			return error_ == cudaErrorMemoryAllocation ? SHREDDER_E_NOMEM : SHREDDER_E_KERNEL;             \
		}                                                                                                      \
	} while (0)
#define TRY_CODE(call)                                                                                                 \
	do {                                                                                                           \
		int code_ = (call);                                                                                    \
		if (code_ != 0)                                                                                        \
			return code_;                                                                                  \
	} while (0)

/*
 * Copies to the GPU in front of the kernels that are launched next. Not cudaMemcpy(): from ordinary memory it returns
 * while the last bytes are on their way, and these streams do not wait for it.
 */
static int upload(struct gpu *gpu, void *to, const void *from, uint64_t bytes)
{
	TRY(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, gpu->compute));
	TRY(cudaStreamSynchronize(gpu->compute));
	return 0;
}

template <class T> static int device_array(T **out, uint64_t count)
{
	TRY(cudaMalloc((void **)out, count * sizeof(T)));
	return 0;
}

/* ---------------------------------------------------------------------------------------------- open and close */

/* Tables of the rule. Degrees up to 32 are shifted so that the fingerprint ends at bit 31. */
static int upload_tables(struct gpu *gpu)
{
	const struct shredder_rule *rule = gpu->rule;
	uint32_t push[256], pop[256];
	uint32_t shift = rule->degree <= 32 ? 32 - rule->degree : 0;

	for (uint32_t i = 0; i < 256; i++) {
		push[i] = (uint32_t)(rule->push[i] << shift);
		pop[i] = (uint32_t)(rule->pop[i] << shift);
	}
	TRY_CODE(device_array(&gpu->push, 256));
	TRY_CODE(device_array(&gpu->pop, 256));
	TRY_CODE(device_array(&gpu->gear, 256));
	TRY_CODE(device_array(&gpu->push64, 256));
	TRY_CODE(device_array(&gpu->pop64, 256));
	TRY_CODE(upload(gpu, gpu->push, push, sizeof(push)));
	TRY_CODE(upload(gpu, gpu->pop, pop, sizeof(pop)));
	TRY_CODE(upload(gpu, gpu->gear, shredder_gear_table, sizeof(push)));
	TRY_CODE(upload(gpu, gpu->push64, rule->push, sizeof(rule->push)));
	TRY_CODE(upload(gpu, gpu->pop64, rule->pop, sizeof(rule->pop)));
	return 0;
}

/* Bytes of a lane, so that each warp on the GPU has the same number of tasks. */
static uint32_t span_for(const struct gpu *gpu, uint64_t bytes)
{
	uint64_t warps = (uint64_t)gpu->processors * FIND_WARPS * WARP_LANES;
	uint64_t span = bytes / warps + 1;

	for (uint64_t rounds = 2; span > MOST_SPAN; rounds++)
		span = bytes / (warps * rounds) + 1;
	return (uint32_t)g4_max64((span + TILE_BYTES - 1) / TILE_BYTES * TILE_BYTES, LEAST_SPAN);
}

static uint32_t tasks_for(uint64_t bytes, uint32_t span)
{
	uint64_t task = (uint64_t)span * WARP_LANES;

	return (uint32_t)((bytes + task - 1) / task);
}

/* Bytes in front of a batch that it needs: the window's and, for digests, the longest chunk's. */
static uint32_t headroom_for(const struct shredder_device_setup *setup)
{
	uint64_t longest = g4_min64(setup->rule->params.max_bytes, LONGEST_HASHED_BYTES);

	return (uint32_t)(setup->digests ? g4_align_up(longest + 2 * WINDOW_BYTES, SLACK_BYTES) : SLACK_BYTES);
}

/* A batch has at most as many tasks as warps, or as the longest or the shortest spans make. */
static void size_arrays(struct gpu *gpu)
{
	const struct shredder_params *params = &gpu->rule->params;
	uint64_t buffer = gpu->setup.buffer_bytes;
	uint64_t warps = (uint64_t)gpu->processors * FIND_WARPS;

	gpu->headroom = headroom_for(&gpu->setup);
	gpu->most_tasks = (uint32_t)(2 * buffer / ((uint64_t)MOST_SPAN * WARP_LANES) + warps + 1);
	gpu->chunk_room = (uint32_t)((buffer + gpu->headroom) / g4_max64(params->min_bytes, DENSE_CHUNK_BYTES) + 64) +
			  gpu->setup.borders;
	gpu->leaf_room = (uint32_t)((buffer + gpu->headroom) / G4_BLAKE3_LEAF_BYTES + gpu->chunk_room + 64);
}

static int make_arrays(struct gpu *gpu)
{
	uint64_t noted = (uint64_t)gpu->most_tasks * TASK_ROOM;
	uint64_t candidates = noted + gpu->setup.borders;
	uint64_t blocks = candidates / LINK_NODES + 2;

	TRY_CODE(device_array(&gpu->chain, 1));
	TRY_CODE(device_array(&gpu->tail, gpu->headroom));
	TRY_CODE(device_array(&gpu->counts, gpu->most_tasks));
	TRY(cudaMemsetAsync(gpu->counts, 0, gpu->most_tasks * sizeof(*gpu->counts), gpu->compute));
	TRY_CODE(device_array(&gpu->notes, noted));
	if (!gpu->setup.find_chunks)
		return 0;
	TRY_CODE(device_array(&gpu->bases, gpu->most_tasks));
	TRY_CODE(device_array(&gpu->ends, candidates));
	TRY_CODE(device_array(&gpu->next, candidates + 1));
	TRY_CODE(device_array(&gpu->walks, candidates + 1));
	TRY_CODE(device_array(&gpu->entry, blocks));
	TRY_CODE(device_array(&gpu->entry_chunks, blocks));
	TRY_CODE(device_array(&gpu->entry_leaves, blocks));
	TRY_CODE(device_array(&gpu->start, (uint64_t)gpu->chunk_room + 1));
	TRY_CODE(device_array(&gpu->first_leaf, (uint64_t)gpu->chunk_room + 1));
	TRY_CODE(device_array(&gpu->group_chunk, (uint64_t)gpu->leaf_room / WARP_LANES + 1));
	TRY_CODE(device_array(&gpu->cv, 2 * (uint64_t)gpu->leaf_room));
	return 0;
}

static int make_slot(const struct gpu *gpu, struct slot *slot)
{
	uint64_t room = gpu->chunk_room * sizeof(struct shredder_end);

	for (cudaEvent_t *event :
	     {&slot->begun, &slot->copied, &slot->started, &slot->found, &slot->received, &slot->done, &slot->tailed})
		TRY(cudaEventCreateWithFlags(event, cudaEventBlockingSync));
	TRY_CODE(device_array(&slot->memory, gpu->headroom + gpu->setup.buffer_bytes + SLACK_BYTES));
	TRY_CODE(device_array(&slot->outcome, 1));
	TRY(cudaHostAlloc((void **)&slot->told, sizeof(*slot->told), cudaHostAllocDefault));
	if (!gpu->setup.find_chunks) {
		TRY_CODE(device_array(&slot->marks, shredder_mark_words(gpu->setup.buffer_bytes) * 2));
		return 0;
	}
	TRY_CODE(device_array(&slot->chunks, gpu->chunk_room));
	TRY_CODE(device_array(&slot->borders, (uint64_t)gpu->setup.borders + 1));
	TRY(cudaHostAlloc((void **)&slot->host_chunks, room, cudaHostAllocDefault));
	return 0;
}

template <class Hash> static int allow_shared(void)
{
	TRY(cudaFuncSetAttribute(find_kernel<Hash>, cudaFuncAttributeMaxDynamicSharedMemorySize, FIND_SHARED_BYTES));
	return 0;
}

static int prepare_gpu(struct gpu *gpu)
{
	int processors = 0;

	TRY(cudaSetDevice(gpu->number));
	TRY(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, gpu->number));
	gpu->processors = (uint32_t)processors;
	TRY_CODE(allow_shared<rabin32<true>>());
	TRY_CODE(allow_shared<rabin32<false>>());
	TRY_CODE(allow_shared<rabin64>());
	TRY_CODE(allow_shared<gear32>());
	TRY(cudaFuncSetAttribute(link_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(link_shared)));
	TRY(cudaFuncSetAttribute(emit_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(emit_shared)));
	TRY(cudaStreamCreateWithFlags(&gpu->copy, cudaStreamNonBlocking));
	TRY(cudaStreamCreateWithFlags(&gpu->compute, cudaStreamNonBlocking));
	TRY(cudaStreamCreateWithFlags(&gpu->fetch, cudaStreamNonBlocking));
	size_arrays(gpu);
	TRY_CODE(upload_tables(gpu));
	TRY_CODE(make_arrays(gpu));
	for (uint32_t i = 0; i < gpu->setup.buffers; i++)
		TRY_CODE(make_slot(gpu, &gpu->slots[i]));
	return 0;
}

static void free_slot(struct slot *slot)
{
	cudaFree(slot->memory);
	cudaFree(slot->chunks);
	cudaFree(slot->outcome);
	cudaFree(slot->marks);
	cudaFree(slot->borders);
	cudaFreeHost(slot->host_chunks);
	cudaFreeHost(slot->told);
	for (cudaEvent_t event :
	     {slot->begun, slot->copied, slot->started, slot->found, slot->received, slot->done, slot->tailed}) {
		if (event)
			cudaEventDestroy(event);
	}
	free(slot->resolved);
}

/* The GPU becomes unusable: `why`, or what CUDA said last. Whoever submits and whoever collects may both find that. */
static void give_up(struct gpu *gpu, const char *why)
{
	if (!__atomic_exchange_n(&gpu->usable, false, __ATOMIC_ACQ_REL))
		return;
	snprintf(gpu->trouble, sizeof(gpu->trouble), "%s", why ? why : cudaGetErrorString(tried));
	/* It stays the last error otherwise. */
	cudaGetLastError();
}

static void free_gpu(struct gpu *gpu)
{
	void *const arrays[] = {gpu->tail,  gpu->push64,     gpu->pop64,       gpu->push,	  gpu->pop,
				gpu->gear,  gpu->counts,     gpu->notes,       gpu->bases,	  gpu->ends,
				gpu->next,  gpu->entry,	     gpu->walks,       gpu->entry_chunks, gpu->entry_leaves,
				gpu->start, gpu->first_leaf, gpu->group_chunk, gpu->cv,		  gpu->chain};

	/* A GPU that failed gives errors here, too; there is nobody left to tell. */
	if (!gpu->slots || cudaSetDevice(gpu->number) != cudaSuccess)
		return;
	cudaDeviceSynchronize();
	for (uint32_t i = 0; i < gpu->setup.buffers; i++)
		free_slot(&gpu->slots[i]);
	for (void *array : arrays)
		cudaFree(array);
	for (cudaStream_t stream : {gpu->copy, gpu->compute, gpu->fetch}) {
		if (stream)
			cudaStreamDestroy(stream);
	}
	cudaGetLastError();
	free(gpu->slots);
	gpu->slots = NULL;
}

static int open_gpu(struct gpu *gpu, const struct shredder_device_setup *setup)
{
	gpu->setup = *setup;
	gpu->rule = setup->rule;
	gpu->slots = (struct slot *)calloc(setup->buffers, sizeof(*gpu->slots));
	return gpu->slots ? prepare_gpu(gpu) : SHREDDER_E_NOMEM;
}

/* --------------------------------------------------------------------------------------------------- launching */

static struct find_job find_job_for(const struct gpu *gpu, const struct slot *slot, uint32_t *marks)
{
	const struct shredder_rule *rule = gpu->rule;
	struct find_job job = {};

	job.in = slot->in;
	job.span = span_for(gpu, slot->in.bytes);
	job.tasks = tasks_for(slot->in.bytes, job.span);
	job.shift = rule->degree <= 32 ? 32 - rule->degree : 0;
	job.mask = (uint32_t)(rule->mask << job.shift);
	job.marker = (uint32_t)(rule->marker << job.shift);
	job.mask64 = rule->mask;
	job.marker64 = rule->marker;
	job.top_shift = rule->degree - 8;
	job.push = gpu->push;
	job.pop = gpu->pop;
	job.push64 = gpu->push64;
	job.pop64 = gpu->pop64;
	if (rule->params.algorithm == SHREDDER_GEAR) {
		job.mask = rule->loose;
		job.strict = rule->strict;
		job.push = gpu->gear;
	}
	job.counts = gpu->counts;
	job.notes = gpu->notes;
	job.marks = marks;
	return job;
}

/* Candidates of a batch: notes, or a bitmap. */
static int launch_find(struct gpu *gpu, const struct slot *slot, uint32_t *marks)
{
	const struct shredder_rule *rule = gpu->rule;
	struct find_job job = find_job_for(gpu, slot, marks);
	uint32_t grid = (uint32_t)g4_min64(gpu->processors, job.tasks);

	if (marks)
		TRY(cudaMemsetAsync(marks, 0, shredder_mark_words(slot->in.bytes) * 8, gpu->compute));
	if (rule->params.algorithm == SHREDDER_GEAR)
		find_kernel<gear32><<<grid, FIND_THREADS, FIND_SHARED_BYTES, gpu->compute>>>(job);
	else if (rule->degree == 32)
		find_kernel<rabin32<true>><<<grid, FIND_THREADS, FIND_SHARED_BYTES, gpu->compute>>>(job);
	else if (rule->degree < 32)
		find_kernel<rabin32<false>><<<grid, FIND_THREADS, FIND_SHARED_BYTES, gpu->compute>>>(job);
	else
		find_kernel<rabin64><<<grid, FIND_THREADS, FIND_SHARED_BYTES, gpu->compute>>>(job);
	TRY(cudaGetLastError());
	return 0;
}

static struct resolve_job resolve_job_for(const struct gpu *gpu, const struct slot *slot)
{
	const struct shredder_params *params = &gpu->rule->params;
	const uint64_t far = UINT64_C(1) << 62;
	struct resolve_job job = {};

	job.in = slot->in;
	job.position = slot->position;
	job.last = slot->last;
	job.gear = params->algorithm == SHREDDER_GEAR;
	job.min_bytes = g4_min64(params->min_bytes, far);
	job.max_bytes = params->max_bytes;
	job.normal_bytes = g4_min64(params->normal_bytes, far);
	job.degree = gpu->rule->degree;
	job.push = gpu->push64;
	job.gear_table = gpu->gear;
	job.tasks = slot->in.bytes ? tasks_for(slot->in.bytes, span_for(gpu, slot->in.bytes)) : 0;
	job.task_bytes = slot->in.bytes ? span_for(gpu, slot->in.bytes) * WARP_LANES : 0;
	job.borders = slot->borders;
	job.borders_count = slot->borders_count;
	job.flags = NOTE_STRICT | (slot->borders_count ? NOTE_BORDER : 0);
	job.capacity = gpu->most_tasks * TASK_ROOM + gpu->setup.borders;
	job.counts = gpu->counts;
	job.notes = gpu->notes;
	job.bases = gpu->bases;
	job.ends = gpu->ends;
	job.next = gpu->next;
	job.walks = gpu->walks;
	job.entry = gpu->entry;
	job.entry_chunks = gpu->entry_chunks;
	job.entry_leaves = gpu->entry_leaves;
	job.chunk_room = gpu->chunk_room;
	job.start = gpu->start;
	job.first_leaf = gpu->first_leaf;
	job.group_chunk = gpu->setup.digests ? gpu->group_chunk : NULL;
	job.chunks = slot->chunks;
	job.chain = gpu->chain;
	job.outcome = slot->outcome;
	return job;
}

/* Digests of the chunks that start, first_leaf, group_chunk and the slot's outcome tell of. */
static int launch_digests(struct gpu *gpu, const struct slot *slot)
{
	struct digest_job job = {};

	job.in = slot->in;
	job.start = gpu->start;
	job.first_leaf = gpu->first_leaf;
	job.group_chunk = gpu->group_chunk;
	job.totals = &slot->outcome->chunks;
	job.cv = gpu->cv;
	job.chunks = slot->chunks;
	leaf_kernel<<<gpu->processors * LEAF_BLOCKS, LEAF_THREADS, 0, gpu->compute>>>(job);
	tree_kernel<<<gpu->processors * LEAF_BLOCKS, LEAF_THREADS, 0, gpu->compute>>>(job);
	TRY(cudaGetLastError());
	return 0;
}

/* Chunks of a batch. Candidates need nothing of the batch before; resolution needs the beginning of its open chunk. */
static int launch_chunks(struct gpu *gpu, const struct slot *slot)
{
	const struct relay *relay = &slot->relay;
	struct resolve_job job = resolve_job_for(gpu, slot);

	if (slot->in.bytes)
		TRY_CODE(launch_find(gpu, slot, NULL));
	if (relay->from) {
		TRY(cudaEventRecord(slot->found, gpu->compute));
		receive_kernel<<<1, 1, 0, gpu->compute>>>(*relay, gpu->chain);
		TRY(cudaEventRecord(slot->received, gpu->compute));
	}
	count_kernel<<<1, 1024, 0, gpu->compute>>>(job);
	sort_kernel<<<gpu->processors * 4, 256, 0, gpu->compute>>>(job);
	link_kernel<<<LINK_GRID, LINK_THREADS, sizeof(link_shared), gpu->compute>>>(job);
	hop_kernel<<<1, 1, 0, gpu->compute>>>(job);
	emit_kernel<<<LINK_GRID, LINK_THREADS, sizeof(emit_shared), gpu->compute>>>(job);
	if (relay->to)
		send_kernel<<<1, 1, 0, gpu->compute>>>(*relay, gpu->chain, slot->outcome);
	if (gpu->setup.digests)
		TRY_CODE(launch_digests(gpu, slot));
	advance_kernel<<<ADVANCE_GRID, 256, 0, gpu->compute>>>(job, slot->told, slot->target, slot->target_room);
	TRY(cudaGetLastError());
	return 0;
}

#endif
