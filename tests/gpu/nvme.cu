/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes of a GPU that fill and poll the queues of NVMe controllers by themselves. Queue state is in the GPU's memory, where its
 * atomics work; commands, completions, lists of PRPs, doorbells and data are in page-locked memory of the host.
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>

#include "dev/nvme/lanes.h"
#include "gpu/nvme.h"

#define BLOCK_WARPS 2u
#define BLOCK_THREADS (BLOCK_WARPS * G4_WARP_LANES)
#define STACK_BYTES (4u * 1024)
#define SILENCE_NS UINT64_C(10000000000)
#define DEPTH_MOST 64u

/* What a caller has in the GPU's memory: others end its request. */
struct caller {
	struct g4_io io;
	struct g4_iov iov;
	uint64_t done, wrong, random;
	uint32_t sample_count, error;
};

/* Lanes' side of a queue, as dev/remote.c has it. */
struct lanes_side {
	struct g4_nvme_lanes lanes;
	struct g4_slots pool;
};

static struct g4_nvme_queue *queues;
static struct lanes_side *sides;
static struct g4_nvme_cache *cache; /* of all */
static struct caller *callers;
static uint32_t *samples;
static uint8_t *buffers, *buffers_host; /* page-locked */
static uint64_t *times;			/* ns and cycles, at the begin and the end of one lane */

static bool good(cudaError_t rc, const char *call)
{
	if (rc != cudaSuccess)
		fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(rc));
	return rc == cudaSuccess;
}
#define GOOD(call) good((call), #call)

struct job {
	struct nvme_run run;
	struct g4_nvme_queue *queues;
	struct lanes_side *sides;
	struct caller *callers;
	uint32_t *samples; /* those of a caller lie one after the other */
	uint32_t samples_each;
	uint8_t *buffers;
	uint64_t buffer_bytes;
	uint64_t *times;
};

static __device__ uint64_t next_block(struct caller *c, uint64_t blocks)
{
	c->random = c->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (c->random >> 33) % blocks;
}

static __device__ void ended(const struct job *job, struct caller *c, uint32_t number, uint64_t since)
{
	const uint64_t cycles = clock64() - since;

	if (c->sample_count < job->samples_each)
		job->samples[(uint64_t)number * job->samples_each + c->sample_count++] =
			(uint32_t)g4_min64(cycles, UINT32_MAX);
	c->done++;
}

/* ---- raw and pair: one lane ---- */

struct by_hand {
	uint64_t since[DEPTH_MOST];
	uint32_t tail, head;
};

static __device__ void send(const struct job *job, struct caller *c, struct by_hand *hand, uint32_t index)
{
	struct g4_nvme_pair *pair = &job->queues[0].flight.pair;
	const uint32_t shift = job->queues[0].first.block_shift;
	alignas(16) struct g4_nvme_command command;

	memset(&command, 0, sizeof(command));
	hand->since[index] = clock64();
	command.opcode = job->run.writes ? G4_NVME_WRITE : G4_NVME_READ;
	command.id = (g4_le16)index;
	command.nsid = 1;
	command.prp1 = (uintptr_t)job->buffers + index * job->buffer_bytes;
	if (job->run.bytes > 2 * G4_PAGE_BYTES) /* which the host has written */
		command.prp2 = (uintptr_t)job->queues[0].lists + index * G4_NVME_LIST_BYTES;
	else if (job->run.bytes > G4_PAGE_BYTES)
		command.prp2 = command.prp1 + G4_PAGE_BYTES;
	command.dword10 = (uint32_t)(next_block(c, job->run.blocks) * job->run.bytes >> shift);
	command.dword12 = (job->run.bytes >> shift) - 1;
	if (job->run.way == NVME_PAIR) {
		g4_nvme_pair_submit(pair, &command, NULL, 0, NULL);
		return;
	}
	g4_copy16(&pair->commands[hand->tail], &command, sizeof(command));
	hand->tail = (hand->tail + 1) % pair->entries;
	g4_store32_rel_sys(pair->tail_doorbell, hand->tail);
}

/* The identifier of the next completion; DEPTH_MOST: there was none for long, or it is no good. */
static __device__ uint32_t receive(const struct job *job, struct caller *c, struct by_hand *hand)
{
	struct g4_nvme_pair *pair = &job->queues[0].flight.pair;
	const uint64_t until = g4_monotonic_ns() + SILENCE_NS;
	uint64_t end = 0;
	uint32_t looks = 0;

	for (;;) {
		if (job->run.way == NVME_PAIR) {
			if (g4_nvme_pair_next(pair, &end, NULL)) {
				g4_nvme_pair_consumed(pair);
				break;
			}
		} else {
			end = g4_load64_acq_sys(&pair->completions[hand->head % pair->entries].end);
			if (g4_nvme_completion_phase(end) != (hand->head / pair->entries & 1)) {
				hand->head++;
				g4_store32_rel_sys(pair->head_doorbell, hand->head % pair->entries);
				break;
			}
		}
		if (++looks % 1024 == 0 && g4_monotonic_ns() > until) {
			c->error = 2;
			return DEPTH_MOST;
		}
	}
	if (g4_nvme_completion_status(end) != 0 || g4_nvme_completion_id(end) >= job->run.depth) {
		c->error = 1;
		return DEPTH_MOST;
	}
	return g4_nvme_completion_id(end);
}

static __device__ void run_by_hand(const struct job *job, struct caller *c, uint64_t until)
{
	struct by_hand hand;
	bool more = true;

	hand.tail = hand.head = 0;
	for (uint32_t i = 0; i < job->run.depth; i++)
		send(job, c, &hand, i);
	while (more) {
		const uint32_t index = receive(job, c, &hand);
		if (index == DEPTH_MOST)
			return;
		ended(job, c, 0, hand.since[index]);
		more = g4_monotonic_ns() < until;
		if (more)
			send(job, c, &hand, index);
	}
	for (uint32_t i = 1; i < job->run.depth; i++)
		if (receive(job, c, &hand) == DEPTH_MOST)
			return;
}

/* ---- the driver: any number of lanes ---- */

static __device__ bool execute(const struct job *job, struct caller *c, uint32_t number, uint32_t op, uint64_t block)
{
	struct g4_nvme_queue *queue = &job->queues[number % job->run.queues];
	const uint64_t until = g4_monotonic_ns() + SILENCE_NS;
	struct g4_nvme_turn turn = {false, 0};
	struct g4_io *io = &c->io;
	uint32_t rests = 1, looks = 0;

	memset(io, 0, sizeof(*io));
	c->iov.base = job->buffers + number * job->buffer_bytes;
	c->iov.bytes = job->run.bytes;
	io->op = op;
	io->offset_bytes = block * job->run.bytes;
	io->iov = &c->iov;
	io->iov_count = 1;
	g4_nvme_start(queue, &queue->first, io);
	while (!g4_nvme_step(queue, &queue->first, io, &turn)) {
		g4_slots_rest(&rests);
		if (++looks % 1024 == 0 && g4_monotonic_ns() > until) {
			c->error = 2;
			return false;
		}
	}
	if (io->result != 0)
		c->error = 1;
	return io->result == 0;
}

static __device__ void run_driver(const struct job *job, struct caller *c, uint32_t number, uint64_t until)
{
	do {
		const uint64_t since = clock64();
		if (!execute(job, c, number, job->run.writes ? G4_IO_WRITE : G4_IO_READ,
			     next_block(c, job->run.blocks)))
			return;
		ended(job, c, number, since);
	} while (g4_monotonic_ns() < until);
}

/* ---- lanes: any number of them; what dev/remote.c does for a workgroup, without moving data ---- */

#define LOOKS 32u /* of a waiter, as in dev/remote.c */

static __device__ void pass_on(struct lanes_side *side, uint32_t own)
{
	bool more = true;
	int32_t code;

	if (!g4_slots_try_look(&side->pool))
		return;
	for (uint32_t round = 0; round < side->lanes.flight.count && more; round++) {
		more = g4_nvme_lanes_take(&side->lanes, own == G4_NVME_NO_SLOT ? 1 : LOOKS, own) > 0;
		more = more && (own == G4_NVME_NO_SLOT || !g4_nvme_lanes_ended(&side->lanes, own, &code));
	}
	g4_slots_looked(&side->pool);
}

static __device__ uint32_t take_slot(struct lanes_side *side)
{
	uint32_t slot, rests = 1;

	if (g4_slots_take(&side->pool, G4_CLASS_FOREGROUND, &slot))
		return slot;
	const uint32_t ticket = g4_slots_ask(&side->pool, G4_CLASS_FOREGROUND);
	while (!g4_slots_got(&side->pool, G4_CLASS_FOREGROUND, ticket, &slot)) {
		pass_on(side, G4_NVME_NO_SLOT);
		g4_slots_rest(&rests);
	}
	return slot;
}

static __device__ void run_lanes(const struct job *job, struct caller *c, uint32_t number, uint64_t until)
{
	struct lanes_side *side = &job->sides[number % job->run.queues];
	struct g4_remote_request request;

	memset(&request, 0, sizeof(request));
	request.op = job->run.writes ? G4_IO_WRITE : G4_IO_READ;
	request.bytes = job->run.bytes;
	do {
		const uint64_t since = clock64();
		const uint32_t slot = take_slot(side);
		uint32_t rests = 1;
		int32_t code;

		request.offset_bytes = next_block(c, job->run.blocks) * job->run.bytes;
		g4_nvme_lanes_post(&side->lanes, slot, &request);
		while (!g4_nvme_lanes_ended(&side->lanes, slot, &code)) {
			pass_on(side, slot);
			if (!g4_nvme_lanes_ended(&side->lanes, slot, &code))
				g4_slots_rest(&rests);
		}
		g4_slots_give(&side->pool, G4_CLASS_FOREGROUND, slot);
		ended(job, c, number, since);
		if (code != 0) {
			c->error = 1;
			return;
		}
	} while (g4_monotonic_ns() < until);
}

static __device__ uint64_t pattern(uint32_t number, uint64_t turn, uint32_t word)
{
	return (uint64_t)number << 40 ^ turn << 10 ^ word ^ UINT64_C(0x9e3779b97f4a7c15);
}

/* Each caller has the blocks of its number, modulo the callers. */
static __device__ void run_check(const struct job *job, struct caller *c, uint32_t number, uint64_t until)
{
	volatile uint64_t *words = (volatile uint64_t *)(job->buffers + number * job->buffer_bytes);
	const uint64_t own = job->run.blocks / job->run.callers;
	uint64_t turn = 0;

	do {
		const uint64_t block = number + next_block(c, own) * job->run.callers;

		turn++;
		for (uint32_t i = 0; i < job->run.bytes / 8; i++)
			words[i] = pattern(number, turn, i);
		__threadfence_system();
		if (!execute(job, c, number, G4_IO_WRITE, block))
			return;
		for (uint32_t i = 0; i < job->run.bytes / 8; i++)
			words[i] = 0;
		__threadfence_system();
		if (!execute(job, c, number, G4_IO_READ, block))
			return;
		for (uint32_t i = 0; i < job->run.bytes / 8; i++)
			if (words[i] != pattern(number, turn, i)) {
				c->wrong++;
				break;
			}
		c->done++;
	} while (g4_monotonic_ns() < until);
}

static __global__ void __launch_bounds__(BLOCK_THREADS) run_kernel(const struct job job)
{
	const uint32_t warp = blockIdx.x * BLOCK_WARPS + threadIdx.x / G4_WARP_LANES;
	const uint32_t lane = threadIdx.x % G4_WARP_LANES;
	const uint32_t number = warp * job.run.lanes_per_warp + lane;
	const uint64_t begin = g4_monotonic_ns(), until = begin + (uint64_t)(job.run.seconds * 1e9);

	if (lane >= job.run.lanes_per_warp || number >= job.run.callers)
		return;
	struct caller *c = &job.callers[number];
	if (number == 0) {
		job.times[0] = begin;
		job.times[1] = clock64();
	}
	c->random = number * UINT64_C(0x9e3779b97f4a7c15) + 1;
	if (job.run.way == NVME_CHECK)
		run_check(&job, c, number, until);
	else if (job.run.way == NVME_LANES)
		run_lanes(&job, c, number, until);
	else if (job.run.way == NVME_DRIVER)
		run_driver(&job, c, number, until);
	else
		run_by_hand(&job, c, until);
	if (number == 0) {
		job.times[2] = g4_monotonic_ns();
		job.times[3] = clock64();
	}
}

/* ---- for the host ---- */

bool nvme_gpu_open(void)
{
	return GOOD(cudaDeviceSetLimit(cudaLimitStackSize, STACK_BYTES)) &&
	       GOOD(cudaMalloc(&queues, NVME_GPU_QUEUES * sizeof(*queues))) &&
	       GOOD(cudaMalloc(&sides, NVME_GPU_QUEUES * sizeof(*sides))) && GOOD(cudaMalloc(&cache, sizeof(*cache))) &&
	       GOOD(cudaMemset(cache, 0, sizeof(*cache))) &&
	       GOOD(cudaMalloc(&callers, NVME_GPU_CALLERS * sizeof(*callers))) &&
	       GOOD(cudaMalloc(&samples, NVME_GPU_SAMPLES * sizeof(*samples))) &&
	       GOOD(cudaMalloc(&times, 4 * sizeof(*times))) &&
	       GOOD(cudaHostAlloc(&buffers_host, NVME_GPU_BUFFERS_BYTES, cudaHostAllocMapped)) &&
	       GOOD(cudaHostGetDevicePointer(&buffers, buffers_host, 0));
}

void nvme_gpu_close(void)
{
	GOOD(cudaFree(queues));
	GOOD(cudaFree(sides));
	GOOD(cudaFree(cache));
	GOOD(cudaFree(callers));
	GOOD(cudaFree(samples));
	GOOD(cudaFree(times));
	GOOD(cudaFreeHost(buffers_host));
}

uint64_t nvme_gpu_buffer_bytes(const struct nvme_run *run)
{
	return g4_align_up(run->bytes, G4_PAGE_BYTES);
}

void *nvme_gpu_buffer(const struct nvme_run *run, uint32_t index)
{
	return buffers + index * nvme_gpu_buffer_bytes(run);
}

bool nvme_gpu_share(void *memory, uint64_t bytes)
{
	void *seen;

	if (!GOOD(cudaHostRegister(memory, bytes, cudaHostRegisterMapped)) ||
	    !GOOD(cudaHostGetDevicePointer(&seen, memory, 0)))
		return false;
	if (seen != memory)
		fprintf(stderr, "the GPU has this memory at another address\n");
	return seen == memory;
}

void nvme_gpu_unshare(void *memory)
{
	GOOD(cudaHostUnregister(memory));
}

static bool put_cache(struct g4_nvme_flight *flight)
{
	return GOOD(cudaMemcpy(&flight->cache, &cache, sizeof(cache), cudaMemcpyHostToDevice));
}

bool nvme_gpu_put_queue(uint32_t index, const void *queue)
{
	return GOOD(cudaMemcpy(&queues[index], queue, sizeof(*queues), cudaMemcpyHostToDevice)) &&
	       put_cache(&queues[index].flight);
}

bool nvme_gpu_put_lanes(uint32_t index, const void *lanes, const void *pool)
{
	return GOOD(cudaMemset(&sides[index], 0, sizeof(*sides))) &&
	       GOOD(cudaMemcpy(&sides[index].lanes, lanes, sizeof(sides->lanes), cudaMemcpyHostToDevice)) &&
	       put_cache(&sides[index].lanes.flight) &&
	       GOOD(cudaMemcpy(&sides[index].pool, pool, sizeof(sides->pool), cudaMemcpyHostToDevice));
}

static bool collect(struct nvme_run *run, const struct job *job)
{
	static struct caller seen[NVME_GPU_CALLERS];
	uint64_t at[4];

	if (!GOOD(cudaMemcpy(seen, callers, run->callers * sizeof(*seen), cudaMemcpyDeviceToHost)) ||
	    !GOOD(cudaMemcpy(at, times, sizeof(at), cudaMemcpyDeviceToHost)))
		return false;
	const double ns_a_cycle = (double)(at[2] - at[0]) / (double)(at[3] - at[1]);
	run->elapsed_s = (double)(at[2] - at[0]) / 1e9;
	run->done = run->wrong = run->error = run->sample_count = 0;
	for (uint32_t i = 0; i < run->callers; i++) {
		run->done += seen[i].done;
		run->wrong += seen[i].wrong;
		run->error = run->error ? run->error : seen[i].error;
		if (seen[i].sample_count > 0 &&
		    !GOOD(cudaMemcpy(run->samples + run->sample_count, samples + (uint64_t)i * job->samples_each,
				     seen[i].sample_count * sizeof(*samples), cudaMemcpyDeviceToHost)))
			return false;
		run->sample_count += seen[i].sample_count;
	}
	for (uint32_t i = 0; i < run->sample_count; i++)
		run->samples[i] = (uint32_t)((double)run->samples[i] * ns_a_cycle);
	return true;
}

bool nvme_gpu_run(struct nvme_run *run)
{
	struct job job;
	const uint32_t warps = (run->callers + run->lanes_per_warp - 1) / run->lanes_per_warp;

	job.run = *run;
	job.queues = queues;
	job.sides = sides;
	job.callers = callers;
	job.samples = samples;
	job.samples_each = NVME_GPU_SAMPLES / run->callers;
	job.buffers = buffers;
	job.buffer_bytes = nvme_gpu_buffer_bytes(run);
	job.times = times;
	if (!GOOD(cudaMemset(callers, 0, NVME_GPU_CALLERS * sizeof(*callers))))
		return false;
	run_kernel<<<(warps + BLOCK_WARPS - 1) / BLOCK_WARPS, BLOCK_THREADS>>>(job);
	return GOOD(cudaGetLastError()) && GOOD(cudaDeviceSynchronize()) && collect(run, &job);
}
