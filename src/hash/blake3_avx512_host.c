/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BLAKE3 with AVX-512, sixteen jobs side by side. What does not fill more than eight lanes goes to
 * blake3_avx512vl_host.c.
 */
#include "hash/blake3_types.h"

#if G4_BLAKE3_HAVE_X86
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512vl")))
#define JOBS g4_blake3_jobs_avx512
#define LANES 16
#define VECTOR __m512i
#define ADD(a, b) _mm512_add_epi32((a), (b))
#define XOR(a, b) _mm512_xor_si512((a), (b))
#define ROTATE_16(words) _mm512_ror_epi32((words), 16)
#define ROTATE_12(words) _mm512_ror_epi32((words), 12)
#define ROTATE_8(words) _mm512_ror_epi32((words), 8)
#define ROTATE_7(words) _mm512_ror_epi32((words), 7)
#define SPREAD(word) _mm512_set1_epi32(word)
#define WORDS(from) _mm512_loadu_si512(from)
#define STORE(to, words) _mm512_storeu_si512((to), (words))
#define SELECT(old, new, active) _mm512_mask_mov_epi32((old), _mm512_test_epi32_mask((active), (active)), (new))
#define JOBS_MIN (LANES / 2 + 1)
#define JOBS_FEWER g4_blake3_jobs_avx512vl

/* m[i] = word i of each row: a 16x16 transposition in four stages, each of which pairs registers. */
TARGET static inline __attribute__((always_inline)) void load_message(__m512i m[LANES], const uint8_t *const row[LANES])
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

#include "hash/blake3_lanes_host.h"

bool g4_blake3_avx512_usable(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && g4_blake3_avx2_usable();
}
#endif
