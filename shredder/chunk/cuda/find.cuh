/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Candidates for cuts: the kernels that look at every byte (docs/shredder.md has the rule).
 *
 * A warp has a task of 32 * `span` bytes, a lane a span of consecutive bytes. It learns the fingerprint of the 48 bytes
 * before its span and then rolls: one byte enters, one leaves. The warp brings the bytes cooperatively, 96 of each span
 * at a time, into shared memory with rows that are 112 bytes apart: the loads from global memory are whole sectors, and
 * eight lanes that read 16 bytes each touch every bank once (the document's memory coalescing, section 4.3).
 *
 * A step of the fingerprint takes two table look-ups, for the byte that falls off the top and for the one that leaves
 * the window. Thirty-two lanes that read one table in shared memory meet in a bank 3.4-fold on average. So there is a copy
 * of both tables for every lane, each in its own bank: row t of 256 bytes holds push[t] 32 times and pop[t] 32 times,
 * 64 KiB in all. A row's address is made from a byte of a register by one byte permutation.
 *
 * The test is a minimum over 16 positions; only where it is zero are they looked at one by one, so that lanes hardly
 * ever diverge: in 8 KiB there is one candidate.
 */
#ifndef SHREDDER_CUDA_FIND_CUH
#define SHREDDER_CUDA_FIND_CUH

#include "chunk/cuda/device.cuh"

#define WINDOW_BYTES 48u
#define TILE_BYTES 96u
#define TILE_PIECES (TILE_BYTES / PIECE_BYTES)
#define WINDOW_PIECES (WINDOW_BYTES / PIECE_BYTES)
#define ROW_BYTES (TILE_BYTES + PIECE_BYTES)
#define FIND_WARPS 32u
#define FIND_THREADS (FIND_WARPS * WARP_LANES)
#define TABLE_BYTES (256u * 256u)
#define FIND_SHARED_BYTES (TABLE_BYTES + FIND_WARPS * WARP_LANES * ROW_BYTES)
/* Candidates that a task can note. */
#define TASK_ROOM 256u
/* In a note: gear's strict mask is met as well. */
#define NOTE_STRICT 0x80000000u
/* Among candidates in order (resolve.cuh): no candidate but a border. Buffers of 1 GiB have none, since a position may have this bit. */
#define NOTE_BORDER 0x40000000u

struct find_job {
	struct stretch in;
	uint32_t span; /* bytes of a lane; a multiple of TILE_BYTES */
	uint32_t tasks;
	/* rabin with degree up to 32: the fingerprint and its tables are shifted left so that they end at bit 31 */
	uint32_t shift;
	uint32_t mask, marker, strict;
	uint64_t mask64, marker64;	/* rabin with a larger degree */
	uint32_t top_shift;		/* degree - 8 */
	const uint32_t *push, *pop;	/* 256 entries each; gear: push is its table and pop null */
	const uint64_t *push64, *pop64; /* for the larger degrees */
	/* results: per task how many candidates, zeros before, and the first TASK_ROOM of them in any order; or a bitmap */
	uint32_t *counts, *notes;
	uint32_t *marks; /* if not null: a bit for each byte, zeroed before; counts and notes are not used */
};

extern __shared__ __align__(1024) uint8_t find_shared[];

__device__ __forceinline__ uint32_t table(uint32_t address, uint32_t which)
{
	return *(const uint32_t *)(find_shared + which * 128 + address);
}

/* Address of row `byte` k of word, this lane's column: byte 0 is lane * 4, byte 1 the row. */
template <int k> __device__ __forceinline__ uint32_t row_of(uint32_t word, uint32_t lane4)
{
	return __byte_perm(word, lane4, 0x5504 | k << 4);
}

/* ------------------------------------------------------------------------------------------ what is rolled */

/* The tables for every lane. `pop` may be null. */
__device__ __forceinline__ void fill_banks(const uint32_t *push, const uint32_t *pop)
{
	for (uint32_t i = threadIdx.x; i < TABLE_BYTES / 4; i += blockDim.x) {
		uint32_t entry = i / 64;

		((uint32_t *)find_shared)[i] = i % 64 < 32 ? push[entry] : pop ? pop[entry] : 0;
	}
}

/* Rabin, degree 32: a new byte comes in at the bottom by one permutation. Below that: `shift` places higher. */
template <bool whole> struct rabin32 {
	typedef uint32_t value;
	static constexpr uint32_t window_pieces = WINDOW_PIECES;
	value state;

	static __device__ __forceinline__ void fill(const find_job &job)
	{
		fill_banks(job.push, job.pop);
	}

	template <int k> __device__ __forceinline__ uint32_t shifted(const find_job &job, uint32_t word) const
	{
		if (whole)
			return __byte_perm(state, word, 0x2104 | k);
		return state << 8 ^ __byte_perm(word, 0, 0x4440 | k) << job.shift;
	}

	template <int k> __device__ __forceinline__ void push(const find_job &job, uint32_t word, uint32_t lane4)
	{
		state = shifted<k>(job, word) ^ table(row_of<3>(state, lane4), 0);
	}

	template <int k>
	__device__ __forceinline__ void roll(const find_job &job, uint32_t word, uint32_t old, uint32_t lane4)
	{
		state = shifted<k>(job, word) ^ table(row_of<3>(state, lane4), 0) ^ table(row_of<k>(old, lane4), 1);
	}

	/* Zero where there is a candidate. */
	static __device__ __forceinline__ uint32_t test(const find_job &job, value state)
	{
		return (state & job.mask) ^ job.marker;
	}

	static __device__ __forceinline__ uint32_t flags(const find_job &, value)
	{
		return NOTE_STRICT;
	}
};

/* Rabin, degree 33 to 63: two registers, and tables that all lanes share. */
struct rabin64 {
	typedef uint64_t value;
	static constexpr uint32_t window_pieces = WINDOW_PIECES;
	value state;

	static __device__ __forceinline__ void fill(const find_job &job)
	{
		uint64_t *tables = (uint64_t *)find_shared;

		for (uint32_t i = threadIdx.x; i < 256; i += blockDim.x) {
			tables[i] = job.push64[i];
			tables[256 + i] = job.pop64[i];
		}
	}

	template <int k> __device__ __forceinline__ void push(const find_job &job, uint32_t word, uint32_t)
	{
		const uint64_t *tables = (const uint64_t *)find_shared;
		uint64_t low = ((uint64_t)1 << job.top_shift) - 1;

		state = (state & low) << 8 ^ (word >> 8 * k & 0xff) ^ tables[state >> job.top_shift];
	}

	template <int k>
	__device__ __forceinline__ void roll(const find_job &job, uint32_t word, uint32_t old, uint32_t lane4)
	{
		const uint64_t *tables = (const uint64_t *)find_shared;

		push<k>(job, word, lane4);
		state ^= tables[256 + (old >> 8 * k & 0xff)];
	}

	static __device__ __forceinline__ uint32_t test(const find_job &job, value state)
	{
		uint64_t rest = (state & job.mask64) ^ job.marker64;

		return (uint32_t)rest | (uint32_t)(rest >> 32);
	}

	static __device__ __forceinline__ uint32_t flags(const find_job &, value)
	{
		return NOTE_STRICT;
	}
};

/* Gear: a byte's weight doubles with each step and is gone after 32. */
struct gear32 {
	typedef uint32_t value;
	static constexpr uint32_t window_pieces = 2;
	value state;

	static __device__ __forceinline__ void fill(const find_job &job)
	{
		fill_banks(job.push, nullptr);
	}

	template <int k> __device__ __forceinline__ void push(const find_job &, uint32_t word, uint32_t lane4)
	{
		state = 2 * state + table(row_of<k>(word, lane4), 0);
	}

	template <int k>
	__device__ __forceinline__ void roll(const find_job &job, uint32_t word, uint32_t, uint32_t lane4)
	{
		push<k>(job, word, lane4);
	}

	static __device__ __forceinline__ uint32_t test(const find_job &job, value state)
	{
		return state & job.mask;
	}

	static __device__ __forceinline__ uint32_t flags(const find_job &job, value state)
	{
		return (state & job.strict) == 0 ? NOTE_STRICT : 0;
	}
};

/* ------------------------------------------------------------------------------------------------- results */

__device__ __forceinline__ void note(const find_job &job, uint32_t task, int64_t end, uint32_t flags)
{
	if (end > (int64_t)job.in.bytes)
		return;
	if (job.marks) {
		uint32_t bit = (uint32_t)end - 1;

		atomicOr(&job.marks[bit / 32], 1u << bit % 32);
		return;
	}
	uint32_t slot = atomicAdd(&job.counts[task], 1);
	if (slot < TASK_ROOM)
		job.notes[(uint64_t)task * TASK_ROOM + slot] = (uint32_t)end | flags;
}

/* ------------------------------------------------------------------------------------------------ the loops */

/* Sixteen positions from `offset` on. */
template <class Hash>
__device__ __forceinline__ void roll_piece(const find_job &job, Hash &hash, const uint4 &now, const uint4 &old,
					   uint32_t lane4, uint32_t task, int64_t offset)
{
	const uint32_t word[4] = {now.x, now.y, now.z, now.w};
	const uint32_t left[4] = {old.x, old.y, old.z, old.w};
	typename Hash::value state[16];
	uint32_t least = UINT32_MAX;

#pragma unroll
	for (int i = 0; i < 4; i++) {
		hash.template roll<0>(job, word[i], left[i], lane4);
		state[4 * i] = hash.state;
		hash.template roll<1>(job, word[i], left[i], lane4);
		state[4 * i + 1] = hash.state;
		hash.template roll<2>(job, word[i], left[i], lane4);
		state[4 * i + 2] = hash.state;
		hash.template roll<3>(job, word[i], left[i], lane4);
		state[4 * i + 3] = hash.state;
		least = __vimin3_u32(least, Hash::test(job, state[4 * i]), Hash::test(job, state[4 * i + 1]));
		least = __vimin3_u32(least, Hash::test(job, state[4 * i + 2]), Hash::test(job, state[4 * i + 3]));
	}
	if (least == 0) {
#pragma unroll
		for (int i = 0; i < 16; i++) {
			if (Hash::test(job, state[i]) == 0)
				note(job, task, offset + i + 1, Hash::flags(job, state[i]));
		}
	}
}

template <class Hash>
__device__ __forceinline__ void push_piece(const find_job &job, Hash &hash, const uint4 &now, uint32_t lane4)
{
	const uint32_t word[4] = {now.x, now.y, now.z, now.w};

#pragma unroll
	for (int i = 0; i < 4; i++) {
		hash.template push<0>(job, word[i], lane4);
		hash.template push<1>(job, word[i], lane4);
		hash.template push<2>(job, word[i], lane4);
		hash.template push<3>(job, word[i], lane4);
	}
}

__device__ __forceinline__ uint4 load_piece(const stretch &in, int64_t offset)
{
	if (piece_bytes(in, offset) == PIECE_BYTES)
		return *(const uint4 *)(in.data + offset);
	/* Only history is loaded so: pieces that are not there are zeros. */
	return make_uint4(0, 0, 0, 0);
}

/* The pieces of each tile that a lane copies for its warp. */
struct copies {
	int64_t begin;		    /* of the task */
	uint32_t from[TILE_PIECES]; /* offsets from there in the first tile */
	uint32_t to;		    /* in shared memory, of the warp's rows */
	bool inside;		    /* the whole task lies inside the stretch */
};

__device__ __forceinline__ void plan_copies(const find_job &job, int64_t begin, uint32_t rows, copies &plan)
{
	uint32_t lane = threadIdx.x % WARP_LANES;

	plan.begin = begin;
	plan.to = rows;
	plan.inside = begin >= job.in.low && begin + (int64_t)job.span * WARP_LANES <= (int64_t)job.in.bytes;
#pragma unroll
	for (uint32_t i = 0; i < TILE_PIECES; i++) {
		uint32_t piece = i * WARP_LANES + lane;

		plan.from[i] = piece / TILE_PIECES * job.span + piece % TILE_PIECES * PIECE_BYTES;
	}
}

/* The warp brings tile `tile` of its 32 spans into its rows. */
__device__ __forceinline__ void stage(const find_job &job, const copies &plan, uint32_t tile)
{
	uint32_t lane = threadIdx.x % WARP_LANES;
	const uint8_t *data = job.in.data + plan.begin + tile * TILE_BYTES;

#pragma unroll
	for (uint32_t i = 0; i < TILE_PIECES; i++) {
		uint32_t piece = i * WARP_LANES + lane;
		uint32_t to = plan.to + piece / TILE_PIECES * ROW_BYTES + piece % TILE_PIECES * PIECE_BYTES;
		uint32_t size = PIECE_BYTES;

		if (!plan.inside)
			size = piece_bytes(job.in, plan.begin + plan.from[i] + tile * TILE_BYTES);
		copy_piece(to, size ? data + plan.from[i] : job.in.data, size);
	}
	copies_commit();
}

template <class Hash>
__device__ __forceinline__ void find_task(const find_job &job, uint32_t task, uint32_t lane4, const uint4 *row,
					  uint32_t rows)
{
	uint32_t lane = threadIdx.x % WARP_LANES;
	int64_t begin = (int64_t)task * WARP_LANES * job.span;
	int64_t offset = begin + (int64_t)lane * job.span;
	uint4 old[WINDOW_PIECES];
	struct copies plan;
	Hash hash;

	plan_copies(job, begin, rows, plan);
	stage(job, plan, 0);
	hash.state = 0;
#pragma unroll
	for (int i = 0; i < (int)WINDOW_PIECES; i++) {
		old[i] = load_piece(job.in, offset + (i - (int)WINDOW_PIECES) * (int)PIECE_BYTES);
		if (i >= (int)(WINDOW_PIECES - Hash::window_pieces))
			push_piece(job, hash, old[i], lane4);
	}
	for (uint32_t tile = 0; tile < job.span / TILE_BYTES; tile++) {
		copies_wait<0>();
		__syncwarp();
#pragma unroll 1
		for (int half = 0; half < 2; half++) {
#pragma unroll
			for (int i = 0; i < (int)WINDOW_PIECES; i++) {
				uint4 now = row[half * WINDOW_PIECES + i];

				roll_piece(job, hash, now, old[i], lane4, task, offset);
				old[i] = now;
				offset += PIECE_BYTES;
			}
		}
		__syncwarp();
		if (tile + 1 < job.span / TILE_BYTES)
			stage(job, plan, tile + 1);
	}
}

/* The grid's warps share the tasks. */
template <class Hash>
__global__ void __launch_bounds__(FIND_THREADS, 1) find_kernel(const __grid_constant__ find_job job)
{
	uint32_t warp = threadIdx.x / WARP_LANES;
	uint32_t lane = threadIdx.x % WARP_LANES;
	uint32_t warp_rows = TABLE_BYTES + warp * WARP_LANES * ROW_BYTES;
	uint32_t rows = (uint32_t)__cvta_generic_to_shared(find_shared) + warp_rows;
	const uint4 *row = (const uint4 *)(find_shared + warp_rows + lane * ROW_BYTES);

	Hash::fill(job);
	__syncthreads();
	for (uint32_t task = warp * gridDim.x + blockIdx.x; task < job.tasks;
	     task += gridDim.x * (blockDim.x / WARP_LANES))
		find_task<Hash>(job, task, lane * 4, row, rows);
}

#endif
