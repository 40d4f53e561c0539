/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linear combinations with AVX2: a product is the sum of two that are looked up, of the lower and of the upper four bits (Plank,
 * Greenan and Miller, "Screaming Fast Galois Field Arithmetic Using Intel SIMD Instructions", FAST 2013).
 */
#include "parity/combine.h"

#if G4_PARITY_HAVE_X86
#include <immintrin.h>

#include "parity/field.h"

#define TARGET __attribute__((target("avx2")))
#define COMBINE g4_parity_combine_avx2
#define VECTOR __m256i
#define ZERO _mm256_setzero_si256()
#define XOR(a, b) _mm256_xor_si256((a), (b))
#define LOAD(from) _mm256_loadu_si256((const __m256i *)(from))
#define STORE(to, vector) _mm256_storeu_si256((__m256i *)(to), (vector))
#define IS_ZERO(vector) _mm256_testz_si256((vector), (vector))
#define KEY const uint64_t *
#define SPLIT struct nibbles
#define STEP_1 4
#define STEP_2 2
#define STEP_4 2

/* products[c]: c times 0 to 15, then c times 16 times 0 to 15. */
#define LOW_0(c)                                                                                                       \
	G4_GF_SUM(c, 0x0706050403020100, 0x0e0c0a0806040200, 0x1c1814100c080400, 0x3830282018100800,                   \
		  0x7060504030201000, 0xe0c0a08060402000, 0xdd9d5d1dc0804000, 0xa727ba3a9d1d8000)
#define LOW_8(c)                                                                                                       \
	G4_GF_SUM(c, 0x0f0e0d0c0b0a0908, 0x1e1c1a1816141210, 0x3c3834302c282420, 0x7870686058504840,                   \
		  0xf0e0d0c0b0a09080, 0xfdddbd9d7d5d3d1d, 0xe7a76727faba7a3a, 0xd353ce4ee969f474)
#define HIGH_0(c)                                                                                                      \
	G4_GF_SUM(c, 0x7060504030201000, 0xe0c0a08060402000, 0xdd9d5d1dc0804000, 0xa727ba3a9d1d8000,                   \
		  0x534e6974273a1d00, 0xa69cd2e84e743a00, 0x5125b9cd9ce87400, 0xa24a6f8725cde800)
#define HIGH_8(c)                                                                                                      \
	G4_GF_SUM(c, 0xf0e0d0c0b0a09080, 0xfdddbd9d7d5d3d1d, 0xe7a76727faba7a3a, 0xd353ce4ee969f474,                   \
		  0xbba6819ccfd2f5e8, 0x6b511f2583b9f7cd, 0xd6a23e4a1b6ff387, 0xb1597c9436defb13)
#define PRODUCTS(c)                                                                                                    \
	{                                                                                                              \
		LOW_0(c), LOW_8(c), HIGH_0(c), HIGH_8(c)                                                               \
	}

static const uint64_t products[256][4] __attribute__((aligned(64))) = G4_GF_TABLE(PRODUCTS);

struct nibbles {
	__m256i low, high;
};

static inline const uint64_t *key_of(uint8_t coefficient)
{
	return products[coefficient];
}

TARGET static inline struct nibbles split(__m256i data)
{
	const __m256i mask = _mm256_set1_epi8(15);
	const struct nibbles nibbles = {_mm256_and_si256(data, mask),
					_mm256_and_si256(_mm256_srli_epi64(data, 4), mask)};

	return nibbles;
}

TARGET static inline __m256i product(struct nibbles nibbles, const uint64_t *key)
{
	const __m256i low = _mm256_broadcastsi128_si256(_mm_load_si128((const __m128i *)key));
	const __m256i high = _mm256_broadcastsi128_si256(_mm_load_si128((const __m128i *)(key + 2)));

	return _mm256_xor_si256(_mm256_shuffle_epi8(low, nibbles.low), _mm256_shuffle_epi8(high, nibbles.high));
}

#include "parity/combine_simd_host.h"

bool g4_parity_avx2_usable(void)
{
	return __builtin_cpu_supports("avx2");
}
#endif
