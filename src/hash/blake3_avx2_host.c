/* SPDX-License-Identifier: Apache-2.0 */
/* BLAKE3 with AVX2, eight jobs side by side: rotations by whole bytes are one shuffle, the others shifts. */
#include "hash/blake3_types.h"

#if G4_BLAKE3_HAVE_X86
#include <immintrin.h>

#define TARGET __attribute__((target("avx2")))
#define JOBS g4_blake3_jobs_avx2

TARGET static inline __m256i rotate_16(__m256i words)
{
	return _mm256_shuffle_epi8(words, _mm256_setr_epi8(2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13, 2, 3,
							   0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
}

TARGET static inline __m256i rotate_8(__m256i words)
{
	return _mm256_shuffle_epi8(words, _mm256_setr_epi8(1, 2, 3, 0, 5, 6, 7, 4, 9, 10, 11, 8, 13, 14, 15, 12, 1, 2,
							   3, 0, 5, 6, 7, 4, 9, 10, 11, 8, 13, 14, 15, 12));
}

/* Inlined with a constant. */
TARGET static inline __attribute__((always_inline)) __m256i rotate(__m256i words, int right)
{
	return _mm256_or_si256(_mm256_srli_epi32(words, right), _mm256_slli_epi32(words, 32 - right));
}

#define ROTATE_16(words) rotate_16(words)
#define ROTATE_12(words) rotate((words), 12)
#define ROTATE_8(words) rotate_8(words)
#define ROTATE_7(words) rotate((words), 7)
#include "hash/blake3_eight_host.h"

bool g4_blake3_avx2_usable(void)
{
	return __builtin_cpu_supports("avx2");
}
#endif
