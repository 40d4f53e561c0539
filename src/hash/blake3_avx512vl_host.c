/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BLAKE3 with AVX-512's instructions on 256-bit vectors, eight jobs side by side: what is left when sixteen do not come
 * together, such as a page alone. Every rotation is one instruction.
 */
#include "hash/blake3_types.h"

#if G4_BLAKE3_HAVE_X86
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,avx512f,avx512vl")))
#define JOBS g4_blake3_jobs_avx512vl

#define ROTATE_16(words) _mm256_ror_epi32((words), 16)
#define ROTATE_12(words) _mm256_ror_epi32((words), 12)
#define ROTATE_8(words) _mm256_ror_epi32((words), 8)
#define ROTATE_7(words) _mm256_ror_epi32((words), 7)
#include "hash/blake3_eight_host.h"
#endif
