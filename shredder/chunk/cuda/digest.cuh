/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BLAKE3 of chunks (hash/blake3.h has the function). Leaves of all chunks are numbered through; a warp hashes 32 of them
 * that follow each other, a lane one. A leaf begins at any byte, so the warp copies 80 aligned bytes of each leaf for each
 * block of 64, two blocks ahead, and a lane shifts its words into place. What lies behind a leaf's end arrives as zeros,
 * which is BLAKE3's padding.
 */
#ifndef SHREDDER_CUDA_DIGEST_CUH
#define SHREDDER_CUDA_DIGEST_CUH

#include "chunk/cuda/device.cuh"
#include "chunk/engine.h"
#include "hash/blake3_types.h"

#define LEAF_WARPS 8u
#define LEAF_THREADS (LEAF_WARPS * WARP_LANES)
#define LEAF_STAGES 2u
/* Blocks that a multiprocessor holds. */
#define LEAF_BLOCKS 3u
#define LEAF_PIECES 5u
#define LEAF_ROW_BYTES (LEAF_PIECES * PIECE_BYTES)
#define LEAF_STAGE_BYTES (WARP_LANES * LEAF_ROW_BYTES)

#define BLAKE3_ROTATE(x, n) __funnelshift_r((x), (x), (n))
#define BLAKE3_MIX(a, b, c, d, x, y)                                                                                   \
	do {                                                                                                           \
		(a) += (b) + (x);                                                                                      \
		(d) = __byte_perm((d) ^ (a), 0, 0x1032);                                                               \
		(c) += (d);                                                                                            \
		(b) = BLAKE3_ROTATE((b) ^ (c), 12);                                                                    \
		(a) += (b) + (y);                                                                                      \
		(d) = __byte_perm((d) ^ (a), 0, 0x0321);                                                               \
		(c) += (d);                                                                                            \
		(b) = BLAKE3_ROTATE((b) ^ (c), 7);                                                                     \
	} while (0)
#define BLAKE3_ROUND(a, b, c, d, e, f, g, h, i, j, k, l, m0, n, o, p)                                                  \
	G4_BLAKE3_ROUND(BLAKE3_MIX, a, b, c, d, e, f, g, h, i, j, k, l, m0, n, o, p)

/* In registers only; the same as g4_blake3_compress(). */
__device__ __forceinline__ void blake3_block(uint32_t cv[8], const uint32_t m[16], uint64_t leaf, uint32_t bytes,
					     uint32_t flags)
{
	const uint32_t iv[8] = G4_BLAKE3_IV;
	uint32_t v[16] = {cv[0], cv[1], cv[2], cv[3], cv[4], cv[5],	     cv[6],
			  cv[7], iv[0], iv[1], iv[2], iv[3], (uint32_t)leaf, (uint32_t)(leaf >> 32),
			  bytes, flags};

	G4_BLAKE3_ROUNDS(BLAKE3_ROUND)
#pragma unroll
	for (int i = 0; i < 8; i++)
		cv[i] = v[i] ^ v[i + 8];
}

struct digest_job {
	struct stretch in;
	/* chunks: [start[c], start[c + 1]) from in.data on, and the number of their first leaf */
	const int64_t *start;
	const uint32_t *first_leaf;  /* one entry more than chunks: all leaves */
	const uint32_t *totals;	     /* {chunks, leaves} */
	const uint32_t *group_chunk; /* chunk of leaf 32 i */
	uint4 *cv;		     /* two for each leaf */
	struct shredder_end *chunks; /* the digests go there */
};

/* The chunk of leaf 32 group + lane. */
__device__ __forceinline__ uint32_t chunk_of_leaf(const digest_job &job, uint32_t group, uint32_t leaf)
{
	uint32_t lane = threadIdx.x % WARP_LANES;
	uint32_t chunk = job.group_chunk[group];
	uint32_t next = chunk + 1 + lane <= job.totals[0] ? job.first_leaf[chunk + 1 + lane] : UINT32_MAX;
	uint32_t index = 0;

#pragma unroll
	for (uint32_t step = 16; step > 0; step /= 2) {
		uint32_t first = __shfl_sync(WARP_ALL, next, (int)(index + step - 1));

		index += first <= leaf ? step : 0;
	}
	return chunk + index;
}

struct leaf {
	int64_t begin;	 /* offset of its first byte */
	uint32_t bytes;	 /* 0: none */
	uint32_t number; /* in its chunk */
	bool root;	 /* the chunk has no other */
};

__device__ __forceinline__ leaf find_leaf(const digest_job &job, uint32_t group)
{
	uint32_t number = group * WARP_LANES + threadIdx.x % WARP_LANES;
	uint32_t chunk = chunk_of_leaf(job, group, number);
	leaf found = {0, 0, 0, false};

	if (number >= job.totals[1])
		return found;
	found.number = number - job.first_leaf[chunk];
	found.begin = job.start[chunk] + (int64_t)found.number * G4_BLAKE3_LEAF_BYTES;
	found.bytes = (uint32_t)min((int64_t)G4_BLAKE3_LEAF_BYTES, job.start[chunk + 1] - found.begin);
	found.root = job.first_leaf[chunk + 1] - job.first_leaf[chunk] == 1;
	return found;
}

/* What a lane copies for its warp: in each step five pieces, from these offsets on, as many bytes of each as are left. */
struct leaf_copies {
	int64_t from[LEAF_PIECES];
	int32_t left[LEAF_PIECES];
};

__device__ __forceinline__ void plan_copies(const leaf &mine, leaf_copies &copies)
{
	uint32_t lane = threadIdx.x % WARP_LANES;
	int64_t begin = mine.begin & ~(int64_t)(PIECE_BYTES - 1);
	int64_t end = mine.begin + mine.bytes;

#pragma unroll
	for (uint32_t i = 0; i < LEAF_PIECES; i++) {
		uint32_t piece = i * WARP_LANES + lane;
		int row = (int)(piece / LEAF_PIECES);
		uint32_t column = piece % LEAF_PIECES;

		copies.from[i] = __shfl_sync(WARP_ALL, begin, row) + column * PIECE_BYTES;
		copies.left[i] = (int32_t)(__shfl_sync(WARP_ALL, end, row) - copies.from[i]);
	}
}

__device__ __forceinline__ void stage_block(const digest_job &job, const leaf_copies &copies, uint32_t rows,
					    uint32_t block)
{
	uint32_t lane = threadIdx.x % WARP_LANES;

#pragma unroll
	for (uint32_t i = 0; i < LEAF_PIECES; i++) {
		int32_t left = copies.left[i] - (int32_t)(block * G4_BLAKE3_BLOCK_BYTES);
		uint32_t size = (uint32_t)min(max(left, 0), (int32_t)PIECE_BYTES);

		copy_piece(rows + (i * WARP_LANES + lane) * PIECE_BYTES,
			   job.in.data + copies.from[i] + (size ? block * G4_BLAKE3_BLOCK_BYTES : 0), size);
	}
	copies_commit();
}

__device__ __forceinline__ void load_block(uint32_t m[16], const uint8_t *row, uint32_t misaligned)
{
	const uint32_t *word = (const uint32_t *)row + misaligned / 4;
	uint32_t shift = misaligned % 4 * 8;
	uint32_t w[17];

#pragma unroll
	for (int i = 0; i < 17; i++)
		w[i] = word[i];
#pragma unroll
	for (int i = 0; i < 16; i++)
		m[i] = __funnelshift_r(w[i], w[i + 1], shift);
}

__device__ __forceinline__ void hash_group(const digest_job &job, uint32_t group, const uint8_t *row, uint32_t rows)
{
	uint32_t cv[8] = G4_BLAKE3_IV;
	uint32_t lane = threadIdx.x % WARP_LANES;
	leaf mine = find_leaf(job, group);
	uint32_t misaligned = (uint32_t)(mine.begin & (PIECE_BYTES - 1));
	uint32_t blocks = mine.bytes ? g4_blake3_blocks(mine.bytes) : 0;
	uint32_t steps = __reduce_max_sync(WARP_ALL, blocks);
	leaf_copies copies;

	plan_copies(mine, copies);
	stage_block(job, copies, rows, 0);
	for (uint32_t block = 0; block < steps; block++) {
		uint32_t m[16];

		if (block + 1 < steps)
			stage_block(job, copies, rows + (block + 1) % LEAF_STAGES * LEAF_STAGE_BYTES, block + 1);
		else
			copies_commit();
		copies_wait<1>();
		__syncwarp();
		load_block(m, row + block % LEAF_STAGES * LEAF_STAGE_BYTES, misaligned);
		__syncwarp();
		if (block < blocks)
			blake3_block(cv, m, mine.number,
				     min(mine.bytes - block * G4_BLAKE3_BLOCK_BYTES, G4_BLAKE3_BLOCK_BYTES),
				     g4_blake3_block_flags(mine.root ? G4_BLAKE3_ROOT : 0, block, blocks));
	}
	if (blocks > 0) {
		uint64_t at = 2 * ((uint64_t)group * WARP_LANES + lane);

		job.cv[at] = make_uint4(cv[0], cv[1], cv[2], cv[3]);
		job.cv[at + 1] = make_uint4(cv[4], cv[5], cv[6], cv[7]);
	}
}

__global__ void __launch_bounds__(LEAF_THREADS, LEAF_BLOCKS) leaf_kernel(const __grid_constant__ digest_job job)
{
	__shared__ __align__(16) uint8_t staged[LEAF_WARPS][LEAF_STAGES][LEAF_STAGE_BYTES];
	uint32_t warp = threadIdx.x / WARP_LANES;
	uint32_t rows = (uint32_t)__cvta_generic_to_shared(staged[warp][0]);
	const uint8_t *row = staged[warp][0] + threadIdx.x % WARP_LANES * LEAF_ROW_BYTES;
	uint32_t groups = (job.totals[1] + WARP_LANES - 1) / WARP_LANES;

	for (uint32_t group = blockIdx.x * LEAF_WARPS + warp; group < groups; group += gridDim.x * LEAF_WARPS)
		hash_group(job, group, row, rows);
}

/* ---------------------------------------------------------------------------------------------------- trees */

/* The parent of the chaining values 2 i and 2 i + 1 behind `at`, to i behind `at`. All lanes enter. */
__device__ __forceinline__ void join(uint4 *at, uint32_t i, bool active, bool root)
{
	uint32_t cv[8] = G4_BLAKE3_IV;
	uint4 m[4];

	if (active) {
#pragma unroll
		for (uint32_t k = 0; k < 4; k++)
			m[k] = at[4 * (uint64_t)i + k];
	}
	/* What this lane overwrites another one reads. */
	__syncwarp();
	if (active) {
		const uint32_t words[16] = {m[0].x, m[0].y, m[0].z, m[0].w, m[1].x, m[1].y, m[1].z, m[1].w,
					    m[2].x, m[2].y, m[2].z, m[2].w, m[3].x, m[3].y, m[3].z, m[3].w};

		blake3_block(cv, words, 0, G4_BLAKE3_BLOCK_BYTES, G4_BLAKE3_PARENT | (root ? G4_BLAKE3_ROOT : 0));
		at[2 * (uint64_t)i] = make_uint4(cv[0], cv[1], cv[2], cv[3]);
		at[2 * (uint64_t)i + 1] = make_uint4(cv[4], cv[5], cv[6], cv[7]);
	}
	__syncwarp();
}

/* One level of the trees of 32 chunks, a lane each: `count` chaining values at `at`. */
__device__ __forceinline__ void join_level(uint4 *at, uint32_t count)
{
	uint32_t lane = threadIdx.x % WARP_LANES;
	uint32_t pairs = count / 2;
	uint32_t sum = pairs;

#pragma unroll
	for (uint32_t step = 1; step < WARP_LANES; step *= 2) {
		uint32_t below = __shfl_up_sync(WARP_ALL, sum, step);

		sum += lane >= step ? below : 0;
	}
	uint32_t before = sum - pairs;
	uint32_t all = __shfl_sync(WARP_ALL, sum, WARP_LANES - 1);

	/* The pairs of all chunks are numbered through; a lane joins pair `pair` of the chunk of lane `owner`. */
	for (uint32_t first = 0; first < all; first += WARP_LANES) {
		uint32_t pair = first + lane;
		uint32_t owner = 0;

#pragma unroll
		for (uint32_t step = 16; step > 0; step /= 2) {
			uint32_t begin = __shfl_sync(WARP_ALL, before, (int)(owner + step));

			owner += begin <= pair ? step : 0;
		}
		uint32_t begin = __shfl_sync(WARP_ALL, before, (int)owner);
		uint32_t of = __shfl_sync(WARP_ALL, count, (int)owner);
		uint4 *where = (uint4 *)__shfl_sync(WARP_ALL, (unsigned long long)at, (int)owner);

		join(where, pair - begin, pair < all, of == 2);
	}
	if (count > 1 && count % 2) {
		at[2 * (uint64_t)(count / 2)] = at[2 * (uint64_t)(count - 1)];
		at[2 * (uint64_t)(count / 2) + 1] = at[2 * (uint64_t)(count - 1) + 1];
	}
	__syncwarp();
}

/*
 * A warp joins the trees of 32 chunks level by level: chaining values are paired from the left and an odd one moves up,
 * which gives BLAKE3's tree.
 */
__global__ void __launch_bounds__(LEAF_THREADS) tree_kernel(const __grid_constant__ digest_job job)
{
	uint32_t lane = threadIdx.x % WARP_LANES;
	uint32_t warps = gridDim.x * LEAF_WARPS;

	for (uint32_t first = (blockIdx.x * LEAF_WARPS + threadIdx.x / WARP_LANES) * WARP_LANES; first < job.totals[0];
	     first += warps * WARP_LANES) {
		uint32_t chunk = first + lane;
		bool mine = chunk < job.totals[0];
		uint32_t leaf = mine ? job.first_leaf[chunk] : 0;
		uint32_t count = mine ? job.first_leaf[chunk + 1] - leaf : 0;
		uint4 *at = job.cv + 2 * (uint64_t)leaf;

		for (; __any_sync(WARP_ALL, count > 1); count = (count + 1) / 2)
			join_level(at, count);
		if (mine) {
			memcpy(job.chunks[chunk].digest, at, SHREDDER_DIGEST_BYTES);
			job.chunks[chunk].has_digest = 1;
		}
	}
}

#endif
