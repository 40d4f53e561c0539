/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BLAKE3 with vectors: LANES jobs side by side. Register i holds word i of all of them, so that the rounds are those of
 * the portable variant; the message is transposed on its way in.
 *
 * The body of the variants. A source that includes it defines
 *      TARGET, JOBS            the functions' attribute; the name of the one that others call
 *      LANES, VECTOR           32-bit words of a register; its type
 *      ADD, XOR, ROTATE_16, ROTATE_12, ROTATE_8, ROTATE_7      of words, to the right
 *      SPREAD(word), WORDS(from), STORE(to, words)
 *      SELECT(old, new, active)        where active is all ones: new
 *      load_message(m, row)            m[i] = word i of the 64 bytes at each row
 *      JOBS_MIN, JOBS_FEWER            how many jobs this is for; the function for fewer
 */
#ifndef G4_BLAKE3_LANES_HOST_H
#define G4_BLAKE3_LANES_HOST_H

#include "hash/blake3_types.h"

#if G4_BLAKE3_HAVE_X86 && defined(TARGET)
#include <immintrin.h>

#include "hash/blake3_simd_host.h"

#define MIX(a, b, c, d, x, y)                                                                                          \
	do {                                                                                                           \
		(a) = ADD(ADD((a), (x)), (b));                                                                         \
		(d) = ROTATE_16(XOR((d), (a)));                                                                        \
		(c) = ADD((c), (d));                                                                                   \
		(b) = ROTATE_12(XOR((b), (c)));                                                                        \
		(a) = ADD(ADD((a), (y)), (b));                                                                         \
		(d) = ROTATE_8(XOR((d), (a)));                                                                         \
		(c) = ADD((c), (d));                                                                                   \
		(b) = ROTATE_7(XOR((b), (c)));                                                                         \
	} while (0)
#define ROUND(a, b, c, d, e, f, g, h, i, j, k, l, m0, n, o, p)                                                         \
	G4_BLAKE3_ROUND(MIX, a, b, c, d, e, f, g, h, i, j, k, l, m0, n, o, p)

TARGET static inline __attribute__((always_inline)) void compress(VECTOR cv[8], const VECTOR m[16], VECTOR low,
								  VECTOR high, VECTOR bytes, VECTOR flags)
{
	static const uint32_t iv[8] = G4_BLAKE3_IV;
	VECTOR v[16];

	for (int i = 0; i < 8; i++)
		v[i] = cv[i];
	for (int i = 0; i < 4; i++)
		v[8 + i] = SPREAD((int)iv[i]);
	v[12] = low;
	v[13] = high;
	v[14] = bytes;
	v[15] = flags;
	G4_BLAKE3_ROUNDS(ROUND)
	for (int i = 0; i < 8; i++)
		cv[i] = XOR(v[i], v[i + 8]);
}

/* The state of a batch. */
struct lanes {
	VECTOR cv[8], low, high;
};

TARGET static inline void begin(struct lanes *lanes, uint32_t n, const struct g4_blake3_job *jobs)
{
	static const uint32_t iv[8] = G4_BLAKE3_IV;
	uint32_t low[LANES] = {0};
	uint32_t high[LANES] = {0};

	for (uint32_t i = 0; i < n; i++) {
		low[i] = (uint32_t)jobs[i].leaf;
		high[i] = (uint32_t)(jobs[i].leaf >> 32);
	}
	lanes->low = WORDS(low);
	lanes->high = WORDS(high);
	for (int i = 0; i < 8; i++)
		lanes->cv[i] = SPREAD((int)iv[i]);
}

TARGET static inline void deliver(const struct lanes *lanes, uint32_t n, const struct g4_blake3_job *jobs)
{
	uint32_t words[8][LANES];

	for (int i = 0; i < 8; i++)
		STORE(words[i], lanes->cv[i]);
	for (uint32_t lane = 0; lane < n; lane++) {
		for (int i = 0; i < 8; i++)
			jobs[lane].cv[i] = words[i][lane];
	}
}

/*
 * Full leaves without flags: no lane differs from the others, and lanes without a job do what the first one does. Memory is
 * slower than this: it is asked for what the next batch reads.
 */
TARGET static void hash_full(uint32_t n, const struct g4_blake3_job *jobs, const struct g4_blake3_job *next)
{
	const uint8_t *row[LANES];
	struct lanes lanes;

	begin(&lanes, n, jobs);
	for (uint32_t i = 0; i < LANES; i++)
		row[i] = jobs[i < n ? i : 0].data;
	for (uint32_t block = 0; block < 16; block++) {
		uint32_t flags = g4_blake3_block_flags(0, block, 16);
		VECTOR m[16];

		load_message(m, row);
		compress(lanes.cv, m, lanes.low, lanes.high, SPREAD(G4_BLAKE3_BLOCK_BYTES), SPREAD((int)flags));
		for (uint32_t i = 0; i < n; i++)
			_mm_prefetch(next[i].data + (size_t)block * G4_BLAKE3_BLOCK_BYTES, _MM_HINT_T0);
		for (int i = 0; i < LANES; i++)
			row[i] += G4_BLAKE3_BLOCK_BYTES;
	}
	deliver(&lanes, n, jobs);
}

/* Parents that have the same flags: one block each, and no lane differs from the others. */
TARGET static void hash_parents(uint32_t n, const struct g4_blake3_job *jobs)
{
	const uint8_t *row[LANES];
	struct lanes lanes;
	VECTOR m[16];

	begin(&lanes, n, jobs);
	for (uint32_t i = 0; i < LANES; i++)
		row[i] = jobs[i < n ? i : 0].data;
	load_message(m, row);
	compress(lanes.cv, m, lanes.low, lanes.high, SPREAD(G4_BLAKE3_BLOCK_BYTES), SPREAD((int)jobs[0].flags));
	deliver(&lanes, n, jobs);
}

TARGET static void hash_mixed(uint32_t n, const struct g4_blake3_job *jobs)
{
	uint32_t steps = g4_blake3_steps(n, jobs);
	struct g4_blake3_step step;
	struct lanes lanes;

	begin(&lanes, n, jobs);
	g4_blake3_step_init(LANES, &step);
	for (uint32_t block = 0; block < steps; block++) {
		VECTOR old[8];
		VECTOR m[16];
		VECTOR active;

		g4_blake3_plan(n, jobs, block, &step);
		memcpy(old, lanes.cv, sizeof(old));
		load_message(m, step.row);
		compress(lanes.cv, m, lanes.low, lanes.high, WORDS(step.bytes), WORDS(step.flags));
		active = WORDS(step.active);
		for (int i = 0; i < 8; i++)
			lanes.cv[i] = SELECT(old[i], lanes.cv[i], active);
	}
	deliver(&lanes, n, jobs);
}

void JOBS(uint32_t n, const struct g4_blake3_job *jobs)
{
	while (n >= JOBS_MIN) {
		uint32_t take = n < LANES ? n : LANES;

		if (g4_blake3_all_full(take, jobs))
			hash_full(take, jobs, n >= 2 * LANES ? jobs + LANES : jobs);
		else if (g4_blake3_all_parents(take, jobs))
			hash_parents(take, jobs);
		else
			hash_mixed(take, jobs);
		n -= take;
		jobs += take;
	}
	if (n > 0)
		JOBS_FEWER(n, jobs);
}
#endif
#endif
