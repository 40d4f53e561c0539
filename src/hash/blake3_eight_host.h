/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BLAKE3 in 256-bit vectors: eight jobs side by side. Register i holds word i of all of them, so that the rounds are those
 * of the portable variant; the message is transposed on its way in.
 *
 * The body of two variants: who includes it defines TARGET, JOBS (the function's name) and the rotations to the right
 * ROTATE_16, ROTATE_12, ROTATE_8 and ROTATE_7.
 */
#ifndef G4_BLAKE3_EIGHT_HOST_H
#define G4_BLAKE3_EIGHT_HOST_H

#include "hash/blake3_types.h"

#if G4_BLAKE3_HAVE_X86 && defined(TARGET)
#include <immintrin.h>

#include "hash/blake3_simd_host.h"

#define LANES 8

#define ADD(a, b) _mm256_add_epi32((a), (b))
#define XOR(a, b) _mm256_xor_si256((a), (b))
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

/* m[i] = word i of each row at `row + at`: an 8x8 transposition in three stages. */
TARGET static inline __attribute__((always_inline)) void load_half(__m256i m[LANES], const uint8_t *const row[LANES],
								   uint32_t at)
{
	__m256i t[LANES];

	for (int i = 0; i < LANES; i++)
		m[i] = _mm256_loadu_si256((const __m256i *)(const void *)(row[i] + at));
	for (int i = 0; i < LANES; i += 2) {
		t[i] = _mm256_unpacklo_epi32(m[i], m[i + 1]);
		t[i + 1] = _mm256_unpackhi_epi32(m[i], m[i + 1]);
	}
	for (int i = 0; i < LANES; i += 4) {
		m[i] = _mm256_unpacklo_epi64(t[i], t[i + 2]);
		m[i + 1] = _mm256_unpackhi_epi64(t[i], t[i + 2]);
		m[i + 2] = _mm256_unpacklo_epi64(t[i + 1], t[i + 3]);
		m[i + 3] = _mm256_unpackhi_epi64(t[i + 1], t[i + 3]);
	}
	for (int k = 0; k < 4; k++) {
		t[k] = _mm256_permute2x128_si256(m[k], m[k + 4], 0x20);
		t[k + 4] = _mm256_permute2x128_si256(m[k], m[k + 4], 0x31);
	}
	for (int i = 0; i < LANES; i++)
		m[i] = t[i];
}

TARGET static inline __attribute__((always_inline)) void compress(__m256i cv[8], const __m256i m[16], __m256i low,
								  __m256i high, __m256i bytes, __m256i flags)
{
	static const uint32_t iv[8] = G4_BLAKE3_IV;
	__m256i v[16];

	for (int i = 0; i < 8; i++)
		v[i] = cv[i];
	for (int i = 0; i < 4; i++)
		v[8 + i] = _mm256_set1_epi32((int)iv[i]);
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
	__m256i cv[8], low, high;
};

TARGET static inline __m256i words(const uint32_t from[LANES])
{
	return _mm256_loadu_si256((const __m256i *)(const void *)from);
}

TARGET static inline void begin(struct lanes *lanes, uint32_t n, const struct g4_blake3_job *jobs)
{
	static const uint32_t iv[8] = G4_BLAKE3_IV;
	uint32_t low[LANES] = {0};
	uint32_t high[LANES] = {0};

	for (uint32_t i = 0; i < n; i++) {
		low[i] = (uint32_t)jobs[i].leaf;
		high[i] = (uint32_t)(jobs[i].leaf >> 32);
	}
	lanes->low = words(low);
	lanes->high = words(high);
	for (int i = 0; i < 8; i++)
		lanes->cv[i] = _mm256_set1_epi32((int)iv[i]);
}

TARGET static inline void deliver(const struct lanes *lanes, uint32_t n, const struct g4_blake3_job *jobs)
{
	uint32_t out[8][LANES];

	for (int i = 0; i < 8; i++)
		_mm256_storeu_si256((__m256i *)(void *)out[i], lanes->cv[i]);
	for (uint32_t lane = 0; lane < n; lane++) {
		for (int i = 0; i < 8; i++)
			jobs[lane].cv[i] = out[i][lane];
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
		__m256i m[16];

		load_half(m, row, 0);
		load_half(m + LANES, row, 32);
		compress(lanes.cv, m, lanes.low, lanes.high, _mm256_set1_epi32(G4_BLAKE3_BLOCK_BYTES),
			 _mm256_set1_epi32((int)flags));
		for (uint32_t i = 0; i < n; i++)
			_mm_prefetch(next[i].data + (size_t)block * G4_BLAKE3_BLOCK_BYTES, _MM_HINT_T0);
		for (int i = 0; i < LANES; i++)
			row[i] += G4_BLAKE3_BLOCK_BYTES;
	}
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
		__m256i old[8];
		__m256i m[16];
		__m256i active;

		g4_blake3_plan(n, jobs, block, &step);
		memcpy(old, lanes.cv, sizeof(old));
		load_half(m, step.row, 0);
		load_half(m + LANES, step.row, 32);
		compress(lanes.cv, m, lanes.low, lanes.high, words(step.bytes), words(step.flags));
		active = words(step.active);
		for (int i = 0; i < 8; i++)
			lanes.cv[i] = _mm256_blendv_epi8(old[i], lanes.cv[i], active);
	}
	deliver(&lanes, n, jobs);
}

/* One job alone is faster without vectors. */
void JOBS(uint32_t n, const struct g4_blake3_job *jobs)
{
	while (n > 1) {
		uint32_t take = n < LANES ? n : LANES;

		if (g4_blake3_all_full(take, jobs))
			hash_full(take, jobs, n >= 2 * LANES ? jobs + LANES : jobs);
		else
			hash_mixed(take, jobs);
		n -= take;
		jobs += take;
	}
	if (n == 1)
		g4_blake3_job_portable(jobs);
}
#endif
#endif
