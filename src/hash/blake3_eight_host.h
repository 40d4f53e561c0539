/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BLAKE3 in 256-bit vectors, for two variants. A source that includes it defines TARGET, JOBS and the rotations of
 * blake3_lanes_host.h. One job alone is faster without vectors.
 */
#ifndef G4_BLAKE3_EIGHT_HOST_H
#define G4_BLAKE3_EIGHT_HOST_H

#include "hash/blake3_types.h"

#if G4_BLAKE3_HAVE_X86 && defined(TARGET)
#include <immintrin.h>

#define LANES 8
#define VECTOR __m256i
#define ADD(a, b) _mm256_add_epi32((a), (b))
#define XOR(a, b) _mm256_xor_si256((a), (b))
#define SPREAD(word) _mm256_set1_epi32(word)
#define WORDS(from) _mm256_loadu_si256((const __m256i *)(const void *)(from))
#define STORE(to, words) _mm256_storeu_si256((__m256i *)(void *)(to), (words))
#define SELECT(old, new, active) _mm256_blendv_epi8((old), (new), (active))
#define JOBS_MIN 2
#define JOBS_FEWER g4_blake3_jobs_portable

/* m[i] = word i of each row at `row + at`: an 8x8 transposition in three stages. */
TARGET static inline __attribute__((always_inline)) void load_half(__m256i m[LANES], const uint8_t *const row[LANES],
								   uint32_t at)
{
	__m256i t[LANES];

	for (int i = 0; i < LANES; i++)
		m[i] = WORDS(row[i] + at);
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

TARGET static inline __attribute__((always_inline)) void load_message(__m256i m[16], const uint8_t *const row[LANES])
{
	load_half(m, row, 0);
	load_half(m + LANES, row, 32);
}

#include "hash/blake3_lanes_host.h"
#endif
#endif
