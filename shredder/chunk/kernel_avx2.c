/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 32 positions at a time with AVX2: rabin as in kernel_avx512.c. Without GF2P8AFFINEQB a linear map of a byte is two
 * look-ups of 16 entries, one for each half of the byte, which PSHUFB does. gear: gathers from its table.
 */
#include "chunk/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx2")))
#define KERNEL(algorithm) shredder_find_##algorithm##_avx2
#define LANES 32
#define BLOCK 32
#define VECTOR __m256i

/* One byte of a linear map: the images of the low and of the high half of a byte, twice. */
struct map {
	__m256i low, high;
};

struct rabin {
	struct map push[SHREDDER_PLANES], pop[SHREDDER_PLANES], reduce[SHREDDER_PLANES];
	__m256i marker[SHREDDER_PLANES], mask[SHREDDER_PLANES];
};

struct gear {
	__m256i loose;
};

#include "chunk/kernel_lanes.h"

/* 16 vectors of two groups of 16 bytes: byte j of group q of vector i goes to byte i of group q of vector j. */
INLINE void transpose_groups(__m256i *v)
{
	__m256i w[16];

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 8; i++) {
			w[2 * i] = _mm256_unpacklo_epi8(v[i], v[i + 8]);
			w[2 * i + 1] = _mm256_unpackhi_epi8(v[i], v[i + 8]);
		}
		for (int i = 0; i < 8; i++) {
			v[2 * i] = _mm256_unpacklo_epi8(w[i], w[i + 8]);
			v[2 * i + 1] = _mm256_unpackhi_epi8(w[i], w[i + 8]);
		}
	}
}

TARGET static void transpose(__m256i *to, const uint8_t *from, uint64_t stride)
{
	for (int i = 0; i < 16; i++) { /* to[16 c + i]: bytes 16 c to 16 c + 15 of the lanes i and i + 16 */
		const __m256i a = _mm256_loadu_si256((const __m256i *)(from + (uint64_t)i * stride));
		const __m256i b = _mm256_loadu_si256((const __m256i *)(from + (uint64_t)(i + 16) * stride));

		to[i] = _mm256_permute2x128_si256(a, b, 0x20);
		to[16 + i] = _mm256_permute2x128_si256(a, b, 0x31);
	}
	transpose_groups(to);
	transpose_groups(to + 16);
}

/* ------------------------------------------------------------------------------------------------------- rabin */

TARGET static void prepare_map(struct map *map, const uint64_t *image, uint32_t plane)
{
	uint8_t low[32], high[32];

	for (uint32_t i = 0; i < 32; i++) {
		uint64_t a = 0, b = 0;

		for (uint32_t j = 0; j < 4; j++) {
			a ^= (i >> j & 1) != 0 ? image[j] : 0;
			b ^= (i >> j & 1) != 0 ? image[j + 4] : 0;
		}
		low[i] = (uint8_t)(a >> (8 * plane));
		high[i] = (uint8_t)(b >> (8 * plane));
	}
	map->low = _mm256_loadu_si256((const __m256i *)low);
	map->high = _mm256_loadu_si256((const __m256i *)high);
}

TARGET static void prepare_rabin(struct rabin *rabin, const struct shredder_rule *rule)
{
	for (uint32_t i = 0; i < SHREDDER_PLANES; i++) {
		prepare_map(&rabin->push[i], rule->plane_push, i);
		prepare_map(&rabin->pop[i], rule->plane_pop, i);
		prepare_map(&rabin->reduce[i], rule->plane_reduce, i);
		rabin->marker[i] = _mm256_set1_epi8((char)(rule->marker >> (8 * i)));
		rabin->mask[i] = _mm256_set1_epi8((char)(rule->mask >> (8 * i)));
	}
}

struct halves {
	__m256i low, high;
};

INLINE struct halves split(__m256i bytes)
{
	const __m256i nibble = _mm256_set1_epi8(15);
	const struct halves halves = {_mm256_and_si256(bytes, nibble),
				      _mm256_and_si256(_mm256_srli_epi16(bytes, 4), nibble)};

	return halves;
}

INLINE __m256i apply(const struct map *map, struct halves of)
{
	return _mm256_xor_si256(_mm256_shuffle_epi8(map->low, of.low), _mm256_shuffle_epi8(map->high, of.high));
}

/* state = state * x^8 + byte, without `old`, modulo Q. */
INLINE void rabin_step(const struct rabin *m, __m256i *state, __m256i byte, __m256i old, int planes)
{
	const struct halves top = split(state[planes - 1]);
	const struct halves leaving = split(old);

	for (int i = planes - 1; i >= 0; i--)
		state[i] = _mm256_xor_si256(_mm256_xor_si256(i == 0 ? byte : state[i - 1], apply(&m->push[i], top)),
					    apply(&m->pop[i], leaving));
}

/* What differs from the marker in byte i of the fingerprint. */
INLINE __m256i rabin_differs(const struct rabin *m, const __m256i *state, int i, int planes, bool reduce)
{
	__m256i plane = state[i];

	if (reduce)
		plane = _mm256_xor_si256(plane, apply(&m->reduce[i], split(state[planes - 1])));
	return _mm256_and_si256(_mm256_xor_si256(plane, m->marker[i]), m->mask[i]);
}

/* The lanes whose fingerprint is a marker. Two bytes rule out nearly all. */
INLINE uint32_t rabin_candidates(const struct rabin *m, const __m256i *state, int planes, bool reduce)
{
	__m256i differs =
		_mm256_or_si256(rabin_differs(m, state, 0, planes, reduce), rabin_differs(m, state, 1, planes, reduce));
	const __m256i zero = _mm256_setzero_si256();

	if (__builtin_expect(_mm256_movemask_epi8(_mm256_cmpeq_epi8(differs, zero)) == 0, 1))
		return 0;
	for (int i = 2; i < planes; i++)
		differs = _mm256_or_si256(differs, rabin_differs(m, state, i, planes, reduce));
	return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(differs, zero));
}

INLINE void rabin_tile(const struct rabin *m, const uint8_t *before, const uint8_t *data, uint64_t stride,
		       uint64_t *marks, int planes, bool reduce)
{
	__m256i steps[4 * BLOCK]; /* the last four blocks */
	__m256i state[SHREDDER_PLANES];

	for (int i = 0; i < planes; i++)
		state[i] = _mm256_setzero_si256();
	transpose_history(steps + 2 * (size_t)BLOCK, before, data, stride);
	for (int t = 4 * BLOCK - SHREDDER_WINDOW_BYTES; t < 4 * BLOCK; t++)
		rabin_step(m, state, steps[t], _mm256_setzero_si256(), planes);
	for (uint64_t at = 0; at < stride; at += BLOCK) {
		transpose(steps + at % (4 * BLOCK), data + at, stride);
		for (uint32_t t = 0; t < BLOCK; t++) {
			prefetch(data, stride, at, t);
			rabin_step(m, state, steps[(at + t) % (4 * BLOCK)],
				   steps[(at + t - SHREDDER_WINDOW_BYTES) % (4 * BLOCK)], planes);
			const uint32_t lanes = rabin_candidates(m, state, planes, reduce);
			if (__builtin_expect(lanes != 0, 0))
				mark(marks, stride / 64, lanes, at + t);
		}
	}
}

/* -------------------------------------------------------------------------------------------------------- gear */

TARGET static void prepare_gear(struct gear *gear, const struct shredder_rule *rule)
{
	gear->loose = _mm256_set1_epi32((int)rule->loose);
}

/* hash[q]: lanes 8 q to 8 q + 7. */
INLINE void gear_step(__m256i hash[4], const __m256i *bytes)
{
	for (int q = 0; q < 4; q++) {
		const __m256i index =
			_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)((const uint8_t *)bytes + 8 * q)));
		const __m256i entry = _mm256_i32gather_epi32((const int *)shredder_gear_table, index, 4);

		hash[q] = _mm256_add_epi32(_mm256_add_epi32(hash[q], hash[q]), entry);
	}
}

/* The lanes whose masked hash is 0. */
INLINE uint32_t gear_candidates(const __m256i hash[4], __m256i loose)
{
	uint32_t lanes = 0;

	for (int q = 0; q < 4; q++) {
		const __m256i zero = _mm256_cmpeq_epi32(_mm256_and_si256(hash[q], loose), _mm256_setzero_si256());

		lanes |= (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(zero)) << (8 * q);
	}
	return lanes;
}

TARGET static void gear_tile(const void *gear, const uint8_t *before, const uint8_t *data, uint64_t stride,
			     uint64_t *marks)
{
	const __m256i loose = ((const struct gear *)gear)->loose;
	__m256i steps[2 * BLOCK];
	__m256i hash[4];

	for (int q = 0; q < 4; q++)
		hash[q] = _mm256_setzero_si256();
	transpose_history(steps, before, data, stride);
	for (int t = 2 * BLOCK - SHREDDER_GEAR_WINDOW_BYTES; t < 2 * BLOCK; t++)
		gear_step(hash, &steps[t]);
	for (uint64_t at = 0; at < stride; at += BLOCK) {
		transpose(steps, data + at, stride);
		for (uint32_t t = 0; t < BLOCK; t++) {
			prefetch(data, stride, at, t);
			gear_step(hash, &steps[t]);
			const uint32_t lanes = gear_candidates(hash, loose);
			if (__builtin_expect(lanes != 0, 0))
				mark(marks, stride / 64, lanes, at + t);
		}
	}
}

bool shredder_avx2_usable(void)
{
	return __builtin_cpu_supports("avx2");
}
#endif
