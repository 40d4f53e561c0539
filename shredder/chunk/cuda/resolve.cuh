/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From candidates to chunks, in parallel: the second half of the rule (docs/shredder.md "Cuts").
 *
 * Which candidates become cuts depends on the cut before, so on all before: the document (section 7.3) and others walk
 * through them one by one. But if a cut were made at candidate c, the next cut at a candidate would follow from the list
 * of candidates alone, forced cuts at the maximum between them included. That makes the candidates nodes of a graph with
 * one edge each, which all lanes compute side by side. The cuts are the nodes that can be reached from the beginning of
 * the open chunk, node 0; node i is candidate i - 1.
 *
 *	link	Every edge: its target, and how many chunks and leaves of BLAKE3 it stands for. Then blocks of LINK_NODES
 *		nodes find by pointer jumping, in 11 rounds at most, where a walk from each node leaves the block and
 *		what it passes (Wyllie, "The complexity of parallel computations", 1979: list ranking).
 *	hop	One lane goes from block to block, some fifty steps for a GiB, and notes where each is entered.
 *	emit	Each block that was entered marks what is reached from there, again by jumps of doubling length, and
 *		writes the chunks of its edges to where the sums say.
 *
 * Borders, where a stream is cut in any case, stand among the candidates, each behind a candidate at the same place: nodes from
 * which edges go on, and which no edge passes.
 *
 * Nothing is guessed and no step depends on what the data is like: the number of rounds is bounded.
 */
#ifndef SHREDDER_CUDA_RESOLVE_CUH
#define SHREDDER_CUDA_RESOLVE_CUH

#include "chunk/cuda/find.cuh"
#include "chunk/engine.h"
#include "hash/blake3_types.h"

#define LINK_THREADS 1024u
#define LINK_NODES 2048u
#define LINK_ROUNDS 11u
#define LINK_GRID 264u
#define NO_NODE UINT32_MAX
#define NO_JUMP 0xffffu
/* Edges with more forced cuts than this are written by a whole block. */
#define FEW_CUTS 8u

/* Where the stream stands between two batches; in device memory. */
struct chain {
	uint64_t open;	   /* the beginning of the open chunk */
	uint32_t poisoned; /* a batch could not be resolved: none may be until the host has done it */
	uint32_t reserved;
};

/* What a batch gave; in device memory, copied to the host. */
struct outcome {
	uint64_t open;
	uint32_t candidates, chunks, leaves;
	uint32_t failed; /* more candidates or chunks than there is room for, or poisoned */
};

/* An edge summed up to where it leaves the block. */
struct walk {
	uint32_t next;
	uint32_t chunks, leaves;
	uint32_t reserved;
};

struct resolve_job {
	struct stretch in;
	uint64_t position; /* of in.data in the stream */
	uint32_t last;	   /* the stream ends with it */
	/* the rule */
	uint32_t gear;
	uint64_t min_bytes, max_bytes, normal_bytes;
	uint32_t degree;
	const uint64_t *push; /* rabin: of the unshifted fingerprint */
	const uint32_t *gear_table;
	/* candidates: what find.cuh noted, and in order */
	uint32_t tasks, capacity;
	uint32_t *counts;
	const uint32_t *notes;
	uint32_t *bases;
	uint32_t *ends; /* capacity */
	uint32_t task_bytes;
	uint32_t flags; /* bits of an end that are none of its position */
	const uint32_t *borders;
	uint32_t borders_count;
	/* the graph: capacity + 1 nodes, and a word for each block */
	uint32_t *next;
	struct walk *walks;
	uint32_t *entry, *entry_chunks, *entry_leaves;
	/* chunks, for digest.cuh and for the caller; room for so many */
	uint32_t chunk_room;
	int64_t *start;
	uint32_t *first_leaf;
	uint32_t *group_chunk; /* null where no digests are wanted */
	struct shredder_end *chunks;
	struct chain *chain;
	struct outcome *outcome;
};

__device__ __forceinline__ uint32_t block_sum(uint32_t value, uint32_t *total)
{
	__shared__ uint32_t sums[WARP_LANES];
	uint32_t lane = threadIdx.x % WARP_LANES;
	uint32_t warp = threadIdx.x / WARP_LANES;
	uint32_t sum = value;

	for (uint32_t step = 1; step < WARP_LANES; step *= 2) {
		uint32_t below = __shfl_up_sync(WARP_ALL, sum, step);

		sum += lane >= step ? below : 0;
	}
	__syncthreads();
	if (lane == WARP_LANES - 1)
		sums[warp] = sum;
	__syncthreads();
	if (warp == 0) {
		uint32_t own = lane < blockDim.x / WARP_LANES ? sums[lane] : 0;
		uint32_t all = own;

		for (uint32_t step = 1; step < WARP_LANES; step *= 2) {
			uint32_t below = __shfl_up_sync(WARP_ALL, all, step);

			all += lane >= step ? below : 0;
		}
		sums[lane] = all;
	}
	__syncthreads();
	*total = sums[blockDim.x / WARP_LANES - 1];
	return sum - value + (warp ? sums[warp - 1] : 0);
}

/* One block: where in the list each task's candidates begin. */
__global__ void __launch_bounds__(1024) count_kernel(const __grid_constant__ resolve_job job)
{
	uint32_t total = 0;
	bool full = job.chain->poisoned != 0;

	for (uint32_t begin = 0; begin < job.tasks; begin += blockDim.x) {
		uint32_t task = begin + threadIdx.x;
		uint32_t count = task < job.tasks ? job.counts[task] : 0;
		uint32_t sum;
		uint32_t before = block_sum(min(count, TASK_ROOM), &sum);

		full = full || count > TASK_ROOM;
		if (task < job.tasks)
			job.bases[task] = total + before;
		total += sum;
	}
	total += job.borders_count;
	full = __syncthreads_or(full || total > job.capacity);
	if (threadIdx.x == 0) {
		job.outcome->failed = full;
		job.outcome->candidates = full ? 0 : total;
		job.outcome->chunks = 0;
		job.outcome->leaves = 0;
		job.outcome->open = job.chain->open;
		if (full)
			job.chain->poisoned = 1;
	}
}

/* How many borders are at `end` or in front of it. */
__device__ __forceinline__ uint32_t borders_to(const resolve_job &job, int64_t end)
{
	uint32_t low = 0;
	uint32_t high = job.borders_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if ((int64_t)job.borders[middle] <= end)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The borders of a task, to the places that its candidates leave. */
__device__ __forceinline__ void place_borders(const resolve_job &job, uint32_t task, const uint32_t *notes,
					      uint32_t count)
{
	int64_t begin = (int64_t)task * job.task_bytes;
	uint32_t end = borders_to(job, begin + job.task_bytes);

	for (uint32_t i = borders_to(job, begin) + threadIdx.x % WARP_LANES; i < end; i += WARP_LANES) {
		uint32_t below = 0;

		for (uint32_t k = 0; k < count; k++)
			below += (notes[k] & ~NOTE_STRICT) <= job.borders[i];
		job.ends[job.bases[task] + i + below] = job.borders[i] | NOTE_BORDER;
	}
}

/* A warp a task: its candidates in order, each to the place that those below it leave. The counts are zero again after. */
__global__ void __launch_bounds__(256) sort_kernel(const __grid_constant__ resolve_job job)
{
	uint32_t lane = threadIdx.x % WARP_LANES;
	uint32_t warps = gridDim.x * (blockDim.x / WARP_LANES);

	for (uint32_t task = (blockIdx.x * blockDim.x + threadIdx.x) / WARP_LANES; task < job.tasks; task += warps) {
		const uint32_t *notes = job.notes + (uint64_t)task * TASK_ROOM;
		uint32_t count = job.outcome->failed ? 0 : job.counts[task];

		__syncwarp();
		if (lane == 0)
			job.counts[task] = 0;
		for (uint32_t i = lane; i < count; i += WARP_LANES) {
			uint32_t mine = notes[i];
			uint32_t rank = 0;

			for (uint32_t k = 0; k < count; k++)
				rank += (notes[k] & ~NOTE_STRICT) < (mine & ~NOTE_STRICT);
			rank += borders_to(job, (int64_t)(mine & ~NOTE_STRICT) - 1);
			job.ends[job.bases[task] + rank] = mine;
		}
		if (!job.outcome->failed)
			place_borders(job, task, notes, count);
	}
}

/* ---------------------------------------------------------------------------------------------------- edges */

/* From a node: `forced` chunks of the maximum size from `from` on, then one that ends at candidate `next` - 1. */
struct edge {
	int64_t from;
	uint32_t forced;
	uint32_t next; /* NO_NODE: the candidates are over */
	int64_t end;   /* of the chunk behind the forced ones: at the candidate, or the stream's end */
	bool closed;   /* there is such a chunk */
	bool border;   /* `end` is one: no candidate is there */
};

__device__ __forceinline__ int64_t end_of(const resolve_job &job, uint32_t candidate)
{
	return job.ends[candidate] & ~job.flags;
}

__device__ __forceinline__ bool is_border(const resolve_job &job, uint32_t candidate)
{
	return job.borders_count && (job.ends[candidate] & NOTE_BORDER);
}

/* The first candidate from `first` on that ends at `least` or behind it. Mostly that is one of the next. */
__device__ __forceinline__ uint32_t candidate_from(const resolve_job &job, uint32_t first, uint32_t candidates,
						   int64_t least)
{
	uint32_t high = candidates;

	for (uint32_t i = 0; i < 4; i++, first++) {
		if (first == candidates || end_of(job, first) >= least)
			return first;
	}
	while (first < high) {
		uint32_t middle = first + (high - first) / 2;

		if (end_of(job, middle) < least)
			first = middle + 1;
		else
			high = middle;
	}
	return first;
}

/* The first candidate from `first` on that may end a chunk from `from` on, the maximum aside, or a border in front of it. */
__device__ __forceinline__ uint32_t usable_from(const resolve_job &job, uint32_t first, uint32_t candidates,
						int64_t from)
{
	first = candidate_from(job, first, candidates, from + (int64_t)job.min_bytes);
	if (job.gear) {
		while (first < candidates && !is_border(job, first) && !(job.ends[first] & NOTE_STRICT) &&
		       end_of(job, first) - from < (int64_t)job.normal_bytes)
			first++;
	}
	return first;
}

__device__ __forceinline__ void over(const resolve_job &job, int64_t from, edge &e)
{
	int64_t left = (int64_t)job.in.bytes - from;
	uint32_t more = left > 0 ? (uint32_t)((uint64_t)left / job.max_bytes) : 0;

	e.forced += more;
	e.next = NO_NODE;
	e.end = job.in.bytes;
	e.closed = job.last && from + (int64_t)(more * job.max_bytes) < (int64_t)job.in.bytes;
}

/* No candidate is usable in front of this border or at it. */
__device__ __forceinline__ void stop(const resolve_job &job, uint32_t node, uint32_t candidates, int64_t from,
				     int64_t border, edge &e)
{
	uint32_t more = (uint32_t)((uint64_t)(border - from) / job.max_bytes);

	e.forced += more;
	e.next = candidate_from(job, node, candidates, border) + 1;
	e.end = border;
	e.closed = from + (int64_t)(more * job.max_bytes) < border;
	e.border = true;
}

__device__ __forceinline__ edge edge_of(const resolve_job &job, uint32_t node, uint32_t candidates)
{
	int64_t from = node ? end_of(job, node - 1) : (int64_t)(job.chain->open - job.position);
	uint32_t candidate = node;
	uint32_t next = borders_to(job, from);
	int64_t border = next < job.borders_count ? job.borders[next] : INT64_MAX;
	edge e = {from, 0, 0, 0, true, false};

	for (;;) {
		candidate = usable_from(job, candidate, candidates, from);
		if (border != INT64_MAX &&
		    (candidate == candidates || is_border(job, candidate) || end_of(job, candidate) > border)) {
			stop(job, node, candidates, from, border, e);
			return e;
		}
		if (candidate == candidates) {
			over(job, from, e);
			return e;
		}
		uint64_t length = (uint64_t)(end_of(job, candidate) - from);
		if (length <= job.max_bytes)
			break;
		/* No candidate for longer than the maximum: the last forced cut comes in front of this one. */
		uint32_t forced = (uint32_t)((length - 1) / job.max_bytes);
		e.forced += forced;
		from += (int64_t)(forced * job.max_bytes);
	}
	e.next = candidate + 1;
	e.end = end_of(job, candidate);
	return e;
}

__device__ __forceinline__ uint32_t leaves_of(uint64_t bytes)
{
	return (uint32_t)((bytes + G4_BLAKE3_LEAF_BYTES - 1) / G4_BLAKE3_LEAF_BYTES);
}

__device__ __forceinline__ walk weigh(const resolve_job &job, const edge &e)
{
	int64_t begin = e.from + (int64_t)(e.forced * job.max_bytes);
	walk w = {e.next, e.forced + e.closed, 0, 0};

	w.leaves = e.forced ? e.forced * leaves_of(job.max_bytes) : 0;
	w.leaves += e.closed ? leaves_of((uint64_t)(e.end - begin)) : 0;
	return w;
}

/* ----------------------------------------------------------------------------------------------------- link */

struct link_shared {
	uint16_t jump[LINK_NODES]; /* in the block, or NO_JUMP: `w.next` leaves it */
	walk w[LINK_NODES];
};

/* Doubles all jumps of a block. */
__device__ __forceinline__ void double_jumps(link_shared *s)
{
	uint16_t jump[LINK_NODES / LINK_THREADS];
	walk w[LINK_NODES / LINK_THREADS];

	__syncthreads();
#pragma unroll
	for (uint32_t i = 0; i < LINK_NODES / LINK_THREADS; i++) {
		uint32_t node = i * LINK_THREADS + threadIdx.x;

		jump[i] = s->jump[node];
		w[i] = s->w[node];
		if (jump[i] != NO_JUMP) {
			const walk &then = s->w[jump[i]];

			w[i].next = then.next;
			w[i].chunks += then.chunks;
			w[i].leaves += then.leaves;
			jump[i] = s->jump[jump[i]];
		}
	}
	__syncthreads();
#pragma unroll
	for (uint32_t i = 0; i < LINK_NODES / LINK_THREADS; i++) {
		uint32_t node = i * LINK_THREADS + threadIdx.x;

		s->jump[node] = jump[i];
		s->w[node] = w[i];
	}
}

extern __shared__ __align__(16) uint8_t link_memory[];

__global__ void __launch_bounds__(LINK_THREADS) link_kernel(const __grid_constant__ resolve_job job)
{
	link_shared *s = (link_shared *)link_memory;
	uint32_t candidates = job.outcome->candidates;

	if (job.outcome->failed)
		return;
	for (uint32_t base = blockIdx.x * LINK_NODES; base <= candidates; base += gridDim.x * LINK_NODES) {
		if (threadIdx.x == 0)
			job.entry[base / LINK_NODES] = NO_NODE;
		for (uint32_t i = threadIdx.x; i < LINK_NODES; i += LINK_THREADS) {
			uint32_t node = base + i;
			walk w = {NO_NODE, 0, 0, 0};

			if (node <= candidates) {
				w = weigh(job, edge_of(job, node, candidates));
				job.next[node] = w.next;
			}
			s->jump[i] = w.next < base + LINK_NODES ? (uint16_t)(w.next - base) : NO_JUMP;
			s->w[i] = w;
		}
		for (uint32_t round = 0; round < LINK_ROUNDS; round++)
			double_jumps(s);
		__syncthreads();
		for (uint32_t i = threadIdx.x; i < LINK_NODES && base + i <= candidates; i += LINK_THREADS)
			job.walks[base + i] = s->w[i];
		__syncthreads();
	}
}

__global__ void hop_kernel(const __grid_constant__ resolve_job job)
{
	uint32_t chunks = 0;
	uint32_t leaves = 0;

	if (job.outcome->failed)
		return;
	for (uint32_t node = 0; node != NO_NODE;) {
		uint32_t block = node / LINK_NODES;
		uint4 w = *(const uint4 *)&job.walks[node];

		job.entry[block] = node;
		job.entry_chunks[block] = chunks;
		job.entry_leaves[block] = leaves;
		node = w.x;
		chunks += w.y;
		leaves += w.z;
	}
	if (chunks > job.chunk_room) {
		job.outcome->failed = 1;
		job.chain->poisoned = 1;
		return;
	}
	job.outcome->chunks = chunks;
	job.outcome->leaves = leaves;
	job.start[0] = (int64_t)(job.chain->open - job.position);
	job.first_leaf[0] = 0;
}

/* ----------------------------------------------------------------------------------------------------- emit */

__device__ __forceinline__ uint64_t fingerprint(const resolve_job &job, int64_t end)
{
	uint64_t r = 0;

	for (int64_t at = end - WINDOW_BYTES; at < end; at++) {
		uint32_t byte = at >= job.in.low ? job.in.data[at] : 0;

		if (job.gear)
			r = (uint32_t)(2 * r + job.gear_table[byte]);
		else
			r = (r & (((uint64_t)1 << (job.degree - 8)) - 1)) << 8 ^ byte ^ job.push[r >> (job.degree - 8)];
	}
	return r;
}

/* Chunk `index`, which begins with leaf `leaf` and goes from `begin` to `end`. */
__device__ __forceinline__ void write_chunk(const resolve_job &job, uint32_t index, uint32_t leaf, int64_t begin,
					    int64_t end, uint32_t cut)
{
	uint32_t leaves = leaves_of((uint64_t)(end - begin));
	struct shredder_end *chunk = &job.chunks[index];

	chunk->end = job.position + (uint64_t)end;
	chunk->fingerprint = fingerprint(job, end);
	chunk->cut = cut;
	chunk->has_digest = 0;
	job.start[index + 1] = end;
	job.first_leaf[index + 1] = leaf + leaves;
	if (!job.group_chunk)
		return;
	for (uint32_t group = (leaf + WARP_LANES - 1) / WARP_LANES; group * WARP_LANES < leaf + leaves; group++)
		job.group_chunk[group] = index;
}

/* Forced chunks `first`, first + step, ... of an edge whose first chunk is `index` and begins with leaf `leaf`. */
__device__ __forceinline__ void write_forced(const resolve_job &job, const edge &e, uint32_t index, uint32_t leaf,
					     uint32_t first, uint32_t step)
{
	uint32_t leaves = leaves_of(job.max_bytes);

	for (uint32_t i = first; i < e.forced; i += step) {
		int64_t begin = e.from + (int64_t)(i * job.max_bytes);

		write_chunk(job, index + i, leaf + i * leaves, begin, begin + (int64_t)job.max_bytes, SHREDDER_CUT_MAX);
	}
}

/* What comes behind the forced chunks. */
__device__ __forceinline__ void write_rest(const resolve_job &job, const edge &e, uint32_t index, uint32_t leaf)
{
	int64_t begin = e.from + (int64_t)(e.forced * job.max_bytes);

	leaf += e.forced ? e.forced * leaves_of(job.max_bytes) : 0;
	if (e.closed)
		write_chunk(job, index + e.forced, leaf, begin, e.end,
			    e.next == NO_NODE || e.border ? SHREDDER_CUT_END : SHREDDER_CUT_MARKER);
	if (e.next == NO_NODE)
		job.outcome->open = job.position + (uint64_t)(e.closed ? e.end : begin);
}

struct emit_shared {
	uint16_t jump[LINK_ROUNDS][LINK_NODES]; /* jump[k]: 2^k edges further */
	uint8_t reached[LINK_NODES];
	uint16_t many[LINK_NODES]; /* nodes whose edges have many forced cuts */
	uint32_t many_count;
};

/* Which nodes of the block can be reached from where it is entered. */
__device__ __forceinline__ void mark(const resolve_job &job, emit_shared *s, uint32_t base, uint32_t candidates)
{
	for (uint32_t i = threadIdx.x; i < LINK_NODES; i += LINK_THREADS) {
		uint32_t next = base + i <= candidates ? job.next[base + i] : NO_NODE;

		s->jump[0][i] = next < base + LINK_NODES ? (uint16_t)(next - base) : NO_JUMP;
		s->reached[i] = base + i == job.entry[base / LINK_NODES];
	}
	for (uint32_t round = 1; round < LINK_ROUNDS; round++) {
		__syncthreads();
		for (uint32_t i = threadIdx.x; i < LINK_NODES; i += LINK_THREADS) {
			uint32_t half = s->jump[round - 1][i];

			s->jump[round][i] = half == NO_JUMP ? NO_JUMP : s->jump[round - 1][half];
		}
	}
	for (uint32_t round = LINK_ROUNDS; round-- > 0;) {
		__syncthreads();
		for (uint32_t i = threadIdx.x; i < LINK_NODES; i += LINK_THREADS) {
			if (s->reached[i] && s->jump[round][i] != NO_JUMP)
				s->reached[s->jump[round][i]] = 1;
		}
	}
	__syncthreads();
}

/* Where the first chunk of a reached node's edge goes: sums to the end of the block, counted backwards. */
__device__ __forceinline__ uint2 place_of(const resolve_job &job, uint32_t node)
{
	uint32_t block = node / LINK_NODES;
	const walk &all = job.walks[job.entry[block]];
	const walk &rest = job.walks[node];

	return make_uint2(job.entry_chunks[block] + all.chunks - rest.chunks,
			  job.entry_leaves[block] + all.leaves - rest.leaves);
}

__device__ __forceinline__ void emit_many(const resolve_job &job, const emit_shared *s, uint32_t base,
					  uint32_t candidates)
{
	for (uint32_t i = 0; i < s->many_count; i++) {
		uint32_t node = base + s->many[i];
		uint2 place = place_of(job, node);

		write_forced(job, edge_of(job, node, candidates), place.x, place.y, threadIdx.x, LINK_THREADS);
	}
}

__global__ void __launch_bounds__(LINK_THREADS) emit_kernel(const __grid_constant__ resolve_job job)
{
	emit_shared *s = (emit_shared *)link_memory;
	uint32_t candidates = job.outcome->candidates;

	if (job.outcome->failed)
		return;
	for (uint32_t base = blockIdx.x * LINK_NODES; base <= candidates; base += gridDim.x * LINK_NODES) {
		if (job.entry[base / LINK_NODES] == NO_NODE)
			continue;
		if (threadIdx.x == 0)
			s->many_count = 0;
		mark(job, s, base, candidates);
		for (uint32_t i = threadIdx.x; i < LINK_NODES; i += LINK_THREADS) {
			if (!s->reached[i])
				continue;
			edge e = edge_of(job, base + i, candidates);
			uint2 place = place_of(job, base + i);

			if (e.forced <= FEW_CUTS)
				write_forced(job, e, place.x, place.y, 0, 1);
			else
				s->many[atomicAdd(&s->many_count, 1)] = (uint16_t)i;
			write_rest(job, e, place.x, place.y);
		}
		__syncthreads();
		emit_many(job, s, base, candidates);
		__syncthreads();
	}
}

/*
 * The open chunk moves on, after all edges were made, and the host is told. `told` is its memory, `to` too: room for so
 * many chunks, or null.
 */
__global__ void advance_kernel(const __grid_constant__ resolve_job job, struct outcome *told, struct shredder_end *to,
			       uint64_t room)
{
	const uint64_t *from = (const uint64_t *)job.chunks;
	uint64_t words = (uint64_t)job.outcome->chunks * (sizeof(struct shredder_end) / 8);

	if (to && job.outcome->chunks <= room) {
		for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x)
			((uint64_t *)to)[i] = from[i];
	}
	if (blockIdx.x != 0 || threadIdx.x != 0)
		return;
	if (!job.outcome->failed)
		job.chain->open = job.outcome->open;
	*told = *job.outcome;
}

#endif
