/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BLAKE3 with AVX-512: sixteen jobs side by side. Register i holds word i of all of them, so that the rounds are those
 * of the portable variant; the message is transposed on its way in. What does not fill more than eight lanes goes to
 * blake3_avx512vl_host.c.
 */
#include "hash/blake3_types.h"

#if G4_BLAKE3_HAVE_X86
#include <immintrin.h>

#include "hash/blake3_simd_host.h"

#define TARGET __attribute__((target("avx512f,avx512vl")))
#define LANES 16

#define ADD(a, b) _mm512_add_epi32((a), (b))
#define XOR_ROTATE(a, b, right) _mm512_ror_epi32(_mm512_xor_si512((a), (b)), (right))
#define MIX(a, b, c, d, x, y)                                                                                          \
	do {                                                                                                           \
		(a) = ADD(ADD((a), (x)), (b));                                                                         \
		(d) = XOR_ROTATE((d), (a), 16);                                                                        \
		(c) = ADD((c), (d));                                                                                   \
		(b) = XOR_ROTATE((b), (c), 12);                                                                        \
		(a) = ADD(ADD((a), (y)), (b));                                                                         \
		(d) = XOR_ROTATE((d), (a), 8);                                                                         \
		(c) = ADD((c), (d));                                                                                   \
		(b) = XOR_ROTATE((b), (c), 7);                                                                         \
	} while (0)
#define ROUND(a, b, c, d, e, f, g, h, i, j, k, l, m0, n, o, p)                                                         \
	G4_BLAKE3_ROUND(MIX, a, b, c, d, e, f, g, h, i, j, k, l, m0, n, o, p)

/* m[i] = word i of each row: a 16x16 transposition in four stages, each of which pairs registers. */
TARGET static inline __attribute__((always_inline)) void load(__m512i m[LANES], const uint8_t *const row[LANES])
{
	__m512i t[LANES];

	for (int i = 0; i < LANES; i++)
		m[i] = _mm512_loadu_si512(row[i]);
	for (int i = 0; i < LANES; i += 2) {
		t[i] = _mm512_unpacklo_epi32(m[i], m[i + 1]);
		t[i + 1] = _mm512_unpackhi_epi32(m[i], m[i + 1]);
	}
	/* m[4 q + k]: words k, k + 4, k + 8, k + 12 of rows 4 q to 4 q + 3, one a 128-bit lane */
	for (int i = 0; i < LANES; i += 4) {
		m[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
		m[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
		m[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
		m[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
	}
	for (int k = 0; k < 4; k++) {
		__m512i ab_even = _mm512_shuffle_i32x4(m[k], m[k + 4], 0x88);
		__m512i ab_odd = _mm512_shuffle_i32x4(m[k], m[k + 4], 0xdd);
		__m512i cd_even = _mm512_shuffle_i32x4(m[k + 8], m[k + 12], 0x88);
		__m512i cd_odd = _mm512_shuffle_i32x4(m[k + 8], m[k + 12], 0xdd);

		t[k] = _mm512_shuffle_i32x4(ab_even, cd_even, 0x88);
		t[k + 8] = _mm512_shuffle_i32x4(ab_even, cd_even, 0xdd);
		t[k + 4] = _mm512_shuffle_i32x4(ab_odd, cd_odd, 0x88);
		t[k + 12] = _mm512_shuffle_i32x4(ab_odd, cd_odd, 0xdd);
	}
	for (int i = 0; i < LANES; i++)
		m[i] = t[i];
}

TARGET static inline __attribute__((always_inline)) void compress(__m512i cv[8], const __m512i m[16], __m512i low,
								  __m512i high, __m512i bytes, __m512i flags)
{
	static const uint32_t iv[8] = G4_BLAKE3_IV;
	__m512i v[16];

	for (int i = 0; i < 8; i++)
		v[i] = cv[i];
	for (int i = 0; i < 4; i++)
		v[8 + i] = _mm512_set1_epi32((int)iv[i]);
	v[12] = low;
	v[13] = high;
	v[14] = bytes;
	v[15] = flags;
	G4_BLAKE3_ROUNDS(ROUND)
	for (int i = 0; i < 8; i++)
		cv[i] = _mm512_xor_si512(v[i], v[i + 8]);
}

/* The state of a batch. */
struct lanes {
	__m512i cv[8], low, high;
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
	lanes->low = _mm512_loadu_si512(low);
	lanes->high = _mm512_loadu_si512(high);
	for (int i = 0; i < 8; i++)
		lanes->cv[i] = _mm512_set1_epi32((int)iv[i]);
}

TARGET static inline void deliver(const struct lanes *lanes, uint32_t n, const struct g4_blake3_job *jobs)
{
	uint32_t words[8][LANES];

	for (int i = 0; i < 8; i++)
		_mm512_storeu_si512(words[i], lanes->cv[i]);
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
		__m512i m[16];

		load(m, row);
		compress(lanes.cv, m, lanes.low, lanes.high, _mm512_set1_epi32(G4_BLAKE3_BLOCK_BYTES),
			 _mm512_set1_epi32((int)flags));
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
		__m512i old[8];
		__m512i m[16];
		__m512i active;
		__mmask16 mask;

		g4_blake3_plan(n, jobs, block, &step);
		memcpy(old, lanes.cv, sizeof(old));
		load(m, step.row);
		compress(lanes.cv, m, lanes.low, lanes.high, _mm512_loadu_si512(step.bytes),
			 _mm512_loadu_si512(step.flags));
		active = _mm512_loadu_si512(step.active);
		mask = _mm512_test_epi32_mask(active, active);
		for (int i = 0; i < 8; i++)
			lanes.cv[i] = _mm512_mask_mov_epi32(old[i], mask, lanes.cv[i]);
	}
	deliver(&lanes, n, jobs);
}

void g4_blake3_jobs_avx512(uint32_t n, const struct g4_blake3_job *jobs)
{
	while (n > LANES / 2) {
		uint32_t take = n < LANES ? n : LANES;

		if (g4_blake3_all_full(take, jobs))
			hash_full(take, jobs, n >= 2 * LANES ? jobs + LANES : jobs);
		else
			hash_mixed(take, jobs);
		n -= take;
		jobs += take;
	}
	if (n > 0)
		g4_blake3_jobs_avx512vl(n, jobs);
}

bool g4_blake3_avx512_usable(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && g4_blake3_avx2_usable();
}
#endif
