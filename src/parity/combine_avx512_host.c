/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linear combinations with AVX-512 and GFNI: multiplying by a number is linear over GF(2), a matrix of 8 times 8 bits, which one
 * instruction multiplies 64 bytes with. (GFNI's own multiplication is of another field.)
 */
#include "parity/combine.h"

#if G4_PARITY_HAVE_X86
#include <immintrin.h>

#include "parity/field.h"

#define TARGET __attribute__((target("avx512f,avx512bw,gfni")))
#define COMBINE g4_parity_combine_avx512
#define VECTOR __m512i
#define ZERO _mm512_setzero_si512()
#define XOR(a, b) _mm512_xor_si512((a), (b))
#define LOAD(from) _mm512_loadu_si512(from)
#define STORE(to, vector) _mm512_storeu_si512((to), (vector))
#define IS_ZERO(vector) (_mm512_test_epi64_mask((vector), (vector)) == 0)
#define KEY uint64_t
#define SPLIT __m512i
#define STEP_1 4
#define STEP_2 4
#define STEP_4 4

/* Byte 7 - i: which bits of a number bit i of the product is the sum of. */
#define MATRIX(c)                                                                                                      \
	G4_GF_SUM(c, 0x0102040810204080, 0x8001828488102040, 0x408041c2c4881020, 0x2040a061e2c48810,                   \
		  0x102050b071e2c488, 0x8810a8d83871e2c4, 0xc488d46c1c3871e2, 0xe2c46a368e1c3871)

static const uint64_t matrix[256] = G4_GF_TABLE(MATRIX);

static inline uint64_t key_of(uint8_t coefficient)
{
	return matrix[coefficient];
}

TARGET static inline __m512i split(__m512i data)
{
	return data;
}

TARGET static inline __m512i product(__m512i data, uint64_t key)
{
	return _mm512_gf2p8affine_epi64_epi8(data, _mm512_set1_epi64((int64_t)key), 0);
}

#include "parity/combine_simd_host.h"

bool g4_parity_avx512_usable(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("gfni");
}
#endif
