/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 64 positions at a time with AVX-512, GFNI and VBMI.
 *
 * rabin: a fingerprint of `planes` bytes lies in as many registers. Multiplying by x^8 renames them; what falls out at the
 * top and what leaves the window comes back through linear maps of one byte, which GF2P8AFFINEQB computes for all
 * lanes: 2 * planes of them a step, for 64 positions. gear: 32-bit sums, four registers of 16 lanes.
 */
#include "chunk/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,gfni")))
#define KERNEL(algorithm) shredder_find_##algorithm##_avx512
#define LANES 64
#define BLOCK 64
#define VECTOR __m512i

struct rabin {
	__m512i push[SHREDDER_PLANES], pop[SHREDDER_PLANES],
		reduce[SHREDDER_PLANES]; /* matrices, one in each 8 bytes */
	__m512i marker[SHREDDER_PLANES], mask[SHREDDER_PLANES];
};

struct gear {
	__m512i table[4][4]; /* byte p of the entries 64 q to 64 q + 63 */
	__m512i limit;	     /* a hash below it is a candidate */
};

#include "chunk/kernel_lanes.h"

/* The last two transposed blocks: what enters, and what entered 48 steps before. */
struct blocks {
	__m512i step[2 * BLOCK]; /* this block and the one before, by turns */
};

/* 16 vectors of four groups of 16 bytes: byte j of group q of vector i goes to byte i of group q of vector j. */
INLINE void transpose_groups(__m512i v[16])
{
	__m512i w[16];

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 8; i++) {
			w[2 * i] = _mm512_unpacklo_epi8(v[i], v[i + 8]);
			w[2 * i + 1] = _mm512_unpackhi_epi8(v[i], v[i + 8]);
		}
		for (int i = 0; i < 8; i++) {
			v[2 * i] = _mm512_unpacklo_epi8(w[i], w[i + 8]);
			v[2 * i + 1] = _mm512_unpackhi_epi8(w[i], w[i + 8]);
		}
	}
}

TARGET static void transpose(__m512i *to, const uint8_t *from, uint64_t stride)
{
	__m512i group[4][16];

	for (int i = 0; i < 16; i++) { /* group[c][i]: bytes 16 c to 16 c + 15 of the lanes i, i + 16, i + 32, i + 48 */
		const __m512i a = _mm512_loadu_si512(from + (uint64_t)i * stride);
		const __m512i b = _mm512_loadu_si512(from + (uint64_t)(i + 16) * stride);
		const __m512i c = _mm512_loadu_si512(from + (uint64_t)(i + 32) * stride);
		const __m512i d = _mm512_loadu_si512(from + (uint64_t)(i + 48) * stride);
		const __m512i ab_low = _mm512_shuffle_i64x2(a, b, 0x44);
		const __m512i ab_high = _mm512_shuffle_i64x2(a, b, 0xee);
		const __m512i cd_low = _mm512_shuffle_i64x2(c, d, 0x44);
		const __m512i cd_high = _mm512_shuffle_i64x2(c, d, 0xee);

		group[0][i] = _mm512_shuffle_i64x2(ab_low, cd_low, 0x88);
		group[1][i] = _mm512_shuffle_i64x2(ab_low, cd_low, 0xdd);
		group[2][i] = _mm512_shuffle_i64x2(ab_high, cd_high, 0x88);
		group[3][i] = _mm512_shuffle_i64x2(ab_high, cd_high, 0xdd);
	}
	for (int c = 0; c < 4; c++) {
		__m512i v[16];

		for (int i = 0; i < 16; i++)
			v[i] = group[c][i];
		transpose_groups(v);
		for (int i = 0; i < 16; i++)
			to[16 * c + i] = v[i];
	}
}

/* ------------------------------------------------------------------------------------------------------- rabin */

/* The matrix of byte `plane` of a linear map, as GF2P8AFFINEQB takes it: row 7 - i gives bit i. */
TARGET static __m512i matrix(const uint64_t *image, uint32_t plane)
{
	uint64_t rows = 0;

	for (uint32_t i = 0; i < 8; i++)
		for (uint32_t j = 0; j < 8; j++)
			rows |= (image[j] >> (8 * plane + i) & 1) << (8 * (7 - i) + j);
	return _mm512_set1_epi64((long long)rows);
}

TARGET static void prepare_rabin(struct rabin *rabin, const struct shredder_rule *rule)
{
	for (uint32_t i = 0; i < SHREDDER_PLANES; i++) {
		rabin->push[i] = matrix(rule->plane_push, i);
		rabin->pop[i] = matrix(rule->plane_pop, i);
		rabin->reduce[i] = matrix(rule->plane_reduce, i);
		rabin->marker[i] = _mm512_set1_epi8((char)(rule->marker >> (8 * i)));
		rabin->mask[i] = _mm512_set1_epi8((char)(rule->mask >> (8 * i)));
	}
}

/* state = state * x^8 + byte, without `old`, modulo Q. */
INLINE void rabin_step(const struct rabin *m, __m512i *state, __m512i byte, __m512i old, int planes)
{
	const __m512i top = state[planes - 1];

	for (int i = planes - 1; i >= 0; i--)
		state[i] = _mm512_ternarylogic_epi64(i == 0 ? byte : state[i - 1],
						     _mm512_gf2p8affine_epi64_epi8(top, m->push[i], 0),
						     _mm512_gf2p8affine_epi64_epi8(old, m->pop[i], 0), 0x96);
}

/* What differs from the marker in byte i of the fingerprint. */
INLINE __m512i rabin_differs(const struct rabin *m, const __m512i *state, int i, int planes, bool reduce)
{
	__m512i plane = state[i];

	if (reduce)
		plane = _mm512_xor_si512(plane, _mm512_gf2p8affine_epi64_epi8(state[planes - 1], m->reduce[i], 0));
	return _mm512_ternarylogic_epi64(plane, m->marker[i], m->mask[i], 0x28); /* (plane ^ marker) & mask */
}

/* The lanes whose fingerprint is a marker. Two bytes rule out nearly all. */
INLINE uint64_t rabin_candidates(const struct rabin *m, const __m512i *state, int planes, bool reduce)
{
	const __m512i low =
		_mm512_or_si512(rabin_differs(m, state, 0, planes, reduce), rabin_differs(m, state, 1, planes, reduce));
	uint64_t lanes = _mm512_testn_epi8_mask(low, low);

	if (__builtin_expect(lanes == 0, 1))
		return 0;
	for (int i = 2; i < planes; i++) {
		const __m512i differs = rabin_differs(m, state, i, planes, reduce);

		lanes &= _mm512_testn_epi8_mask(differs, differs);
	}
	return lanes;
}

INLINE void rabin_tile(const struct rabin *rabin, const uint8_t *before, const uint8_t *data, uint64_t stride,
		       uint64_t *marks, int planes, bool reduce)
{
	const struct rabin m = *rabin;
	struct blocks blocks;
	__m512i state[SHREDDER_PLANES];

	for (int i = 0; i < planes; i++)
		state[i] = _mm512_setzero_si512();
	transpose_history(blocks.step + BLOCK, before, data, stride);
	for (int t = 2 * BLOCK - SHREDDER_WINDOW_BYTES; t < 2 * BLOCK; t++)
		rabin_step(&m, state, blocks.step[t], _mm512_setzero_si512(), planes);
	for (uint64_t at = 0; at < stride; at += BLOCK) {
		__m512i *now = blocks.step + at % (2 * BLOCK);

		transpose(now, data + at, stride);
		for (uint32_t t = 0; t < BLOCK; t++) {
			prefetch(data, stride, at, t);
			rabin_step(&m, state, now[t], blocks.step[(at + t - SHREDDER_WINDOW_BYTES) % (2 * BLOCK)],
				   planes);
			const uint64_t lanes = rabin_candidates(&m, state, planes, reduce);
			if (__builtin_expect(lanes != 0, 0))
				mark(marks, stride / 64, lanes, at + t);
		}
	}
}

/* -------------------------------------------------------------------------------------------------------- gear */

TARGET static void prepare_gear(struct gear *gear, const struct shredder_rule *rule)
{
	uint8_t bytes[4][256];

	for (uint32_t i = 0; i < 256; i++)
		for (uint32_t p = 0; p < 4; p++)
			bytes[p][i] = (uint8_t)(shredder_gear_table[i] >> (8 * p));
	for (uint32_t p = 0; p < 4; p++)
		for (uint32_t q = 0; q < 4; q++)
			gear->table[p][q] = _mm512_loadu_si512(bytes[p] + 64 * q);
	gear->limit = _mm512_set1_epi32((int)(~rule->loose + 1 == 0 ? 1 : ~rule->loose + 1));
}

/* hash = 2 hash + table[byte]. The unpacking leaves lanes 16 r + 4 q to 16 r + 4 q + 3 in dwords 4 r to 4 r + 3 of hash[q]. */
INLINE void gear_step(const struct gear *g, __m512i hash[4], __m512i byte)
{
	const __mmask64 high = _mm512_movepi8_mask(byte);
	__m512i plane[4];

	for (int p = 0; p < 4; p++) {
		const __m512i low = _mm512_permutex2var_epi8(g->table[p][0], byte, g->table[p][1]);

		plane[p] = _mm512_mask_blend_epi8(high, low,
						  _mm512_permutex2var_epi8(g->table[p][2], byte, g->table[p][3]));
	}
	const __m512i a = _mm512_unpacklo_epi8(plane[0], plane[1]);
	const __m512i b = _mm512_unpacklo_epi8(plane[2], plane[3]);
	const __m512i c = _mm512_unpackhi_epi8(plane[0], plane[1]);
	const __m512i d = _mm512_unpackhi_epi8(plane[2], plane[3]);

	hash[0] = _mm512_add_epi32(_mm512_add_epi32(hash[0], hash[0]), _mm512_unpacklo_epi16(a, b));
	hash[1] = _mm512_add_epi32(_mm512_add_epi32(hash[1], hash[1]), _mm512_unpackhi_epi16(a, b));
	hash[2] = _mm512_add_epi32(_mm512_add_epi32(hash[2], hash[2]), _mm512_unpacklo_epi16(c, d));
	hash[3] = _mm512_add_epi32(_mm512_add_epi32(hash[3], hash[3]), _mm512_unpackhi_epi16(c, d));
}

/* The lanes that are candidates, in the order of the lanes. */
TARGET static __attribute__((noinline)) uint64_t gear_lanes(const struct gear *g, const __m512i hash[4])
{
	uint64_t lanes = 0;

	for (uint32_t q = 0; q < 4; q++) {
		const uint32_t dwords = _mm512_cmplt_epu32_mask(hash[q], g->limit);

		for (uint32_t r = 0; r < 4; r++)
			lanes |= (uint64_t)(dwords >> (4 * r) & 15) << (16 * r + 4 * q);
	}
	return lanes;
}

TARGET static void gear_tile(const void *gear, const uint8_t *before, const uint8_t *data, uint64_t stride,
			     uint64_t *marks)
{
	const struct gear g = *(const struct gear *)gear;
	__m512i block[BLOCK];
	__m512i hash[4];

	for (int q = 0; q < 4; q++)
		hash[q] = _mm512_setzero_si512();
	transpose_history(block, before, data, stride);
	for (int t = BLOCK - SHREDDER_GEAR_WINDOW_BYTES; t < BLOCK; t++)
		gear_step(&g, hash, block[t]);
	for (uint64_t at = 0; at < stride; at += BLOCK) {
		transpose(block, data + at, stride);
		for (uint32_t t = 0; t < BLOCK; t++) {
			prefetch(data, stride, at, t);
			gear_step(&g, hash, block[t]);
			const __m512i least = _mm512_min_epu32(_mm512_min_epu32(hash[0], hash[1]),
							       _mm512_min_epu32(hash[2], hash[3]));
			if (__builtin_expect(_mm512_cmplt_epu32_mask(least, g.limit) != 0, 0))
				mark(marks, stride / 64, gear_lanes(&g, hash), at + t);
		}
	}
}

bool shredder_avx512_usable(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
	       __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("gfni");
}
#endif
