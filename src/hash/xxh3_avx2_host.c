/* SPDX-License-Identifier: Apache-2.0 */
/* XXH3 with AVX2: the eight sums in two registers. */
#include "hash/xxh3_types.h"

#if G4_XXH3_HAVE_X86
#include <immintrin.h>

#define TARGET __attribute__((target("avx2")))

static const uint8_t secret[] = G4_XXH3_SECRET;

struct sums {
	__m256i half[2];
};

TARGET static inline __m256i load(const void *from)
{
	return _mm256_loadu_si256((const __m256i *)from);
}

TARGET static inline void add_stripe(struct sums *sums, const uint8_t *data, uint32_t secret_at)
{
	for (uint32_t i = 0; i < 2; i++) {
		const __m256i words = load(data + 32 * i);
		const __m256i keyed = _mm256_xor_si256(words, load(secret + secret_at + 32 * i));
		const __m256i products = _mm256_mul_epu32(keyed, _mm256_srli_epi64(keyed, 32));
		const __m256i swapped = _mm256_shuffle_epi32(words, _MM_SHUFFLE(1, 0, 3, 2));

		sums->half[i] = _mm256_add_epi64(_mm256_add_epi64(sums->half[i], swapped), products);
	}
}

TARGET static inline void scramble(struct sums *sums)
{
	const __m256i prime = _mm256_set1_epi32((int)G4_XXH3_PRIME32_1);

	for (uint32_t i = 0; i < 2; i++) {
		const __m256i sum = sums->half[i];
		const __m256i keyed = _mm256_xor_si256(_mm256_xor_si256(sum, _mm256_srli_epi64(sum, 47)),
						       load(secret + G4_XXH3_SCRAMBLE_AT + 32 * i));
		const __m256i high = _mm256_mul_epu32(_mm256_srli_epi64(keyed, 32), prime);

		sums->half[i] = _mm256_add_epi64(_mm256_mul_epu32(keyed, prime), _mm256_slli_epi64(high, 32));
	}
}

TARGET void g4_xxh3_sums_avx2(const uint8_t *data, uint64_t bytes, uint64_t out[8])
{
	static const uint64_t start[8] = G4_XXH3_START;
	const uint8_t *last = data + bytes - G4_XXH3_STRIPE;
	uint64_t stripes = (bytes - 1) / G4_XXH3_STRIPE; /* before the last */
	struct sums sums = {{load(start), load(start + 4)}};

	for (; stripes >= G4_XXH3_BLOCK_STRIPES; stripes -= G4_XXH3_BLOCK_STRIPES, data += G4_XXH3_BLOCK) {
		for (uint32_t i = 0; i < G4_XXH3_BLOCK_STRIPES; i++)
			add_stripe(&sums, data + i * G4_XXH3_STRIPE, i * G4_XXH3_STEP);
		scramble(&sums);
	}
	for (uint32_t i = 0; i < stripes; i++)
		add_stripe(&sums, data + i * G4_XXH3_STRIPE, i * G4_XXH3_STEP);
	add_stripe(&sums, last, G4_XXH3_LAST_AT);
	_mm256_storeu_si256((__m256i *)out, sums.half[0]);
	_mm256_storeu_si256((__m256i *)(out + 4), sums.half[1]);
}

bool g4_xxh3_avx2_usable(void)
{
	return __builtin_cpu_supports("avx2");
}
#endif
