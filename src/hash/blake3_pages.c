/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BLAKE3 of 4 KiB pages by all lanes. A page is four leaves and two levels of parents, so nothing has to be planned as in
 * blake3_group.c: 32 pages are 128 leaves, then 64 parents, then 32 roots, and a warp of 32 lanes is full in each of these.
 */
#include "hash/blake3_compress.h"

#define PAGE_LEAVES (G4_PAGE_BYTES / G4_BLAKE3_LEAF_BYTES)

enum { LEAVES, PARENTS, ROOTS, STAGES };

/*
 * 64 bytes at an address of 16. The lanes' leaves are 1 KiB apart, and a GPU's memory is slow where it is asked for little here
 * and there: so it brings the next 192 bytes into its cache, too.
 */
G4_FN static inline void load(uint32_t m[16], const uint8_t *block)
{
#if G4_CUDA
	for (uint32_t i = 0; i < 4; i++)
		asm volatile("ld.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
			     : "=r"(m[4 * i]), "=r"(m[4 * i + 1]), "=r"(m[4 * i + 2]), "=r"(m[4 * i + 3])
			     : "l"(block + 16 * i)
			     : "memory");
#else
	memcpy(m, block, G4_BLAKE3_BLOCK_BYTES);
#endif
}

G4_FN static inline void run(const struct g4_blake3_job *job)
{
	uint32_t cv[8] = G4_BLAKE3_IV;

	G4_ROLLED
	for (uint32_t at = 0; at < job->bytes; at += G4_BLAKE3_BLOCK_BYTES) {
		const uint32_t ends = (at == 0 ? G4_BLAKE3_START : 0) |
				      (at == G4_BLAKE3_LEAF_BYTES - G4_BLAKE3_BLOCK_BYTES ? G4_BLAKE3_END : 0);
		uint32_t m[16];

		load(m, job->data + at);
		g4_blake3_add_block(cv, m, G4_BLAKE3_BLOCK_BYTES, (uint32_t)job->leaf, job->flags ? job->flags : ends);
	}
	memcpy(job->cv, cv, sizeof(cv));
}

/* Job i of a stage. */
G4_FN static inline void plan(const void *const *pages, uint8_t (*out)[G4_BLAKE3_BYTES],
			      struct g4_blake3_pages_scratch *scratch, uint32_t stage, uint32_t i,
			      struct g4_blake3_job *job)
{
	if (stage == LEAVES) {
		job->leaf = i % PAGE_LEAVES;
		job->data = (const uint8_t *)pages[i / PAGE_LEAVES] + job->leaf * G4_BLAKE3_LEAF_BYTES;
		job->bytes = G4_BLAKE3_LEAF_BYTES;
		job->flags = 0;
		job->cv = scratch->leaf[i];
		return;
	}
	job->leaf = 0;
	job->bytes = G4_BLAKE3_BLOCK_BYTES;
	job->flags = stage == ROOTS ? G4_BLAKE3_PARENT | G4_BLAKE3_ROOT : G4_BLAKE3_PARENT;
	job->data = (const uint8_t *)(stage == ROOTS ? scratch->parent[2 * i] : scratch->leaf[2 * i]);
	job->cv = stage == ROOTS ? (uint32_t *)out[i] : scratch->parent[i];
}

/* Each lane does jobs of its own; one lane of a CPU has vectors. */
G4_FN static inline void run_stage(struct g4_wg *wg, uint32_t jobs, const void *const *pages,
				   uint8_t (*out)[G4_BLAKE3_BYTES], struct g4_blake3_pages_scratch *scratch,
				   uint32_t stage)
{
	const uint32_t lane = g4_wg_lane(wg), width = g4_wg_width(wg);

#if !G4_CUDA
	if (width == 1) {
		struct g4_blake3_job all[G4_BLAKE3_SCRATCH_PAGES * PAGE_LEAVES];

		for (uint32_t i = 0; i < jobs; i++)
			plan(pages, out, scratch, stage, i, &all[i]);
		g4_blake3_jobs(jobs, all);
		return;
	}
#endif
	G4_ROLLED
	for (uint32_t i = lane; i < jobs; i += width) {
		struct g4_blake3_job job;

		plan(pages, out, scratch, stage, i, &job);
		run(&job);
	}
	g4_sync(wg);
}

G4_FN void g4_blake3_pages(struct g4_wg *wg, uint32_t n, const void *const *pages, uint8_t (*out)[G4_BLAKE3_BYTES],
			   struct g4_blake3_pages_scratch *scratch)
{
	G4_ROLLED
	for (uint32_t first = 0; first < n; first += G4_BLAKE3_SCRATCH_PAGES) {
		const uint32_t count = (uint32_t)g4_min64(n - first, G4_BLAKE3_SCRATCH_PAGES);

		G4_ROLLED
		for (uint32_t stage = LEAVES; stage < STAGES; stage++)
			run_stage(wg, count * (uint32_t)PAGE_LEAVES >> stage, pages + first, out + first, scratch,
				  stage);
	}
}
