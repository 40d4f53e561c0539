/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the vector variants of BLAKE3 share: a batch of up to 16 jobs, one a lane, goes through its blocks in step. This
 * says for each step what each lane loads and which lengths and flags it has. Lanes whose job is over, or that have none,
 * load zeros and keep their chaining value.
 */
#ifndef G4_BLAKE3_SIMD_HOST_H
#define G4_BLAKE3_SIMD_HOST_H

#include "hash/blake3_types.h"

#define G4_BLAKE3_LANES 16

struct g4_blake3_step {
	const uint8_t *row[G4_BLAKE3_LANES]; /* 64 bytes to load */
	uint32_t bytes[G4_BLAKE3_LANES];
	uint32_t flags[G4_BLAKE3_LANES];
	uint32_t active[G4_BLAKE3_LANES]; /* all ones: the lane has a block in this step */
	uint8_t padded[G4_BLAKE3_LANES][G4_BLAKE3_BLOCK_BYTES];
	uint8_t zeros[G4_BLAKE3_BLOCK_BYTES];
};

/* Steps that n jobs take. */
static inline uint32_t g4_blake3_steps(uint32_t n, const struct g4_blake3_job *jobs)
{
	uint32_t steps = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t blocks = g4_blake3_blocks(jobs[i].bytes);

		steps = blocks > steps ? blocks : steps;
	}
	return steps;
}

/* True where all n jobs are full leaves without flags: no lane differs from the others. */
static inline bool g4_blake3_all_full(uint32_t n, const struct g4_blake3_job *jobs)
{
	bool full = true;

	for (uint32_t i = 0; i < n; i++)
		full = full && jobs[i].bytes == G4_BLAKE3_LEAF_BYTES && jobs[i].flags == 0;
	return full;
}

/* True where all n jobs are parents with the flags of the first. */
static inline bool g4_blake3_all_parents(uint32_t n, const struct g4_blake3_job *jobs)
{
	bool parents = (jobs[0].flags & G4_BLAKE3_PARENT) != 0;

	for (uint32_t i = 0; i < n; i++)
		parents = parents && jobs[i].flags == jobs[0].flags;
	return parents;
}

static inline void g4_blake3_lane_step(const struct g4_blake3_job *job, uint32_t block, uint32_t lane,
				       struct g4_blake3_step *step)
{
	uint32_t blocks = g4_blake3_blocks(job->bytes);
	uint32_t at = block * G4_BLAKE3_BLOCK_BYTES;

	if (block >= blocks) {
		step->active[lane] = 0;
		step->row[lane] = step->zeros;
		return;
	}
	step->active[lane] = UINT32_MAX;
	step->bytes[lane] = (uint32_t)g4_min64(job->bytes - at, G4_BLAKE3_BLOCK_BYTES);
	step->flags[lane] = g4_blake3_block_flags(job->flags, block, blocks);
	if (step->bytes[lane] == G4_BLAKE3_BLOCK_BYTES) {
		step->row[lane] = job->data + at;
		return;
	}
	memset(step->padded[lane], 0, G4_BLAKE3_BLOCK_BYTES);
	if (step->bytes[lane] > 0)
		memcpy(step->padded[lane], job->data + at, step->bytes[lane]);
	step->row[lane] = step->padded[lane];
}

static inline void g4_blake3_step_init(uint32_t lanes, struct g4_blake3_step *step)
{
	memset(step->zeros, 0, sizeof(step->zeros));
	for (uint32_t lane = 0; lane < lanes; lane++) {
		step->row[lane] = step->zeros;
		step->bytes[lane] = G4_BLAKE3_BLOCK_BYTES;
		step->flags[lane] = 0;
		step->active[lane] = 0;
	}
}

/* Fills *step, which g4_blake3_step_init() made, for block `block` of n jobs. */
static inline void g4_blake3_plan(uint32_t n, const struct g4_blake3_job *jobs, uint32_t block,
				  struct g4_blake3_step *step)
{
	for (uint32_t lane = 0; lane < n; lane++)
		g4_blake3_lane_step(&jobs[lane], block, lane, step);
}

#endif
