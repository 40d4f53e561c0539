/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernels with vectors share. A tile is cut into LANES lanes of equal length. The bytes of the lanes are
 * transposed, BLOCK of them at a time, so that vector t holds byte t of every lane; then each byte of a vector register
 * follows a lane of its own, one byte a step, and no window is ever loaded from an unaligned address:
 *
 *      lane 0   |a0 a1 a2 ...|                 step 0   a0 b0 c0 ...
 *      lane 1   |b0 b1 b2 ...|    becomes      step 1   a1 b1 c1 ...
 *      lane 2   |c0 c1 c2 ...|                 step 2   a2 b2 c2 ...
 *
 * Lanes begin with the bytes before them, which are the end of the lane before.
 *
 * Its includer defines TARGET (the functions' attribute), KERNEL(algorithm) (the name of a find function), LANES, BLOCK,
 * VECTOR, struct rabin and struct gear (what a tile takes of the rule), and behind the inclusion the functions that are
 * declared first here.
 */
#ifndef SHREDDER_KERNEL_LANES_H
#define SHREDDER_KERNEL_LANES_H

#include "chunk/kernels.h"

#if defined(TARGET)
#include <immintrin.h>

#define INLINE TARGET static inline __attribute__((always_inline))

/* Bytes of a lane at most. Not a multiple of 4 KiB, or all lanes would share the few lines of one set of the cache. */
#define LANE_BYTES_MAX (65 * 64)
#define HISTORY 64

/* BLOCK bytes of each lane, `stride` bytes apart, become as many steps. */
static void transpose(VECTOR *to, const uint8_t *from, uint64_t stride);
static void prepare_rabin(struct rabin *rabin, const struct shredder_rule *rule);
static void prepare_gear(struct gear *gear, const struct shredder_rule *rule);
/* A tile of lanes of `stride` bytes, a multiple of 64. */
INLINE void rabin_tile(const struct rabin *rabin, const uint8_t *before, const uint8_t *data, uint64_t stride,
		       uint64_t *marks, int planes, bool reduce);
static void gear_tile(const void *gear, const uint8_t *before, const uint8_t *data, uint64_t stride, uint64_t *marks);

/* The 64 bytes before each lane, as 64 steps: those before lane 0 are the caller's. */
TARGET static void transpose_history(VECTOR *to, const uint8_t *before, const uint8_t *data, uint64_t stride)
{
	uint8_t rows[LANES][HISTORY];

	memset(rows[0], 0, HISTORY - SHREDDER_HISTORY_BYTES);
	memcpy(rows[0] + HISTORY - SHREDDER_HISTORY_BYTES, before, SHREDDER_HISTORY_BYTES);
	for (uint64_t i = 1; i < LANES; i++)
		memcpy(rows[i], data + i * stride - HISTORY, HISTORY);
	for (uint64_t at = 0; at < HISTORY; at += BLOCK)
		transpose(to + at, rows[0] + at, HISTORY);
}

/*
 * Step t of the block at `at`: asks for the same place of the next tile, where there is one. A processor does not notice by
 * itself that it is read, in so many places at a time; spread over the steps, this doubles the speed from main memory.
 */
INLINE void prefetch(const uint8_t *data, uint64_t stride, uint64_t at, uint32_t t)
{
	_mm_prefetch((const char *)((uintptr_t)data + LANES * stride + LANES * at + (uint64_t)LANES * t), _MM_HINT_T1);
}

/* Candidates at byte `at` of each lane, whose marks are `words` words: bit i of `lanes` is lane i. */
static inline void mark(uint64_t *marks, uint64_t words, uint64_t lanes, uint64_t at)
{
	for (; lanes != 0; lanes &= lanes - 1)
		marks[(uint64_t)__builtin_ctzll(lanes) * words + at / 64] |= UINT64_C(1) << (at % 64);
}

/* Bytes of a lane for the next tile of `bytes` bytes, or 0 when they are too few for one. */
static uint64_t lane_bytes(uint64_t bytes)
{
	const uint64_t each = bytes / LANES / 64 * 64;

	return each < LANE_BYTES_MAX ? each : LANE_BYTES_MAX;
}

typedef void tile_fn(const void *prepared, const uint8_t *before, const uint8_t *data, uint64_t stride,
		     uint64_t *marks);

/* Tiles, and `rest` for what is too short for one. */
static void find(tile_fn *tile, const void *prepared, shredder_find_fn *rest, const struct shredder_rule *rule,
		 const uint8_t *before, const uint8_t *data, uint64_t bytes, uint64_t *marks)
{
	memset(marks, 0, shredder_mark_words(bytes) * sizeof(*marks));
	for (uint64_t stride; (stride = lane_bytes(bytes)) != 0;) {
		const uint64_t done = stride * LANES;

		tile(prepared, before, data, stride, marks);
		data += done;
		marks += done / 64;
		bytes -= done;
		before = data - SHREDDER_HISTORY_BYTES;
	}
	rest(rule, before, data, bytes, marks);
}

#define RABIN_TILE(planes, reduce, name)                                                                               \
	TARGET static void name(const void *rabin, const uint8_t *before, const uint8_t *data, uint64_t stride,        \
				uint64_t *marks)                                                                       \
	{                                                                                                              \
		rabin_tile((const struct rabin *)rabin, before, data, stride, marks, planes, reduce);                  \
	}
RABIN_TILE(2, false, rabin_tile_2)
RABIN_TILE(3, false, rabin_tile_3)
RABIN_TILE(4, false, rabin_tile_4)
RABIN_TILE(5, false, rabin_tile_5)
RABIN_TILE(6, false, rabin_tile_6)
RABIN_TILE(7, false, rabin_tile_7)
RABIN_TILE(3, true, rabin_tile_3r)
RABIN_TILE(4, true, rabin_tile_4r)
RABIN_TILE(5, true, rabin_tile_5r)
RABIN_TILE(6, true, rabin_tile_6r)
RABIN_TILE(7, true, rabin_tile_7r)
RABIN_TILE(8, true, rabin_tile_8r)

/* By planes and whether 8 * planes is more than the degree, which is 16 to 63. */
static tile_fn *const rabin_tiles[SHREDDER_PLANES + 1][2] = {
	[2] = {rabin_tile_2, NULL},	     [3] = {rabin_tile_3, rabin_tile_3r}, [4] = {rabin_tile_4, rabin_tile_4r},
	[5] = {rabin_tile_5, rabin_tile_5r}, [6] = {rabin_tile_6, rabin_tile_6r}, [7] = {rabin_tile_7, rabin_tile_7r},
	[8] = {NULL, rabin_tile_8r},
};

TARGET void KERNEL(rabin)(const struct shredder_rule *rule, const uint8_t *before, const uint8_t *data, uint64_t bytes,
			  uint64_t *marks)
{
	tile_fn *const tile = rabin_tiles[rule->planes][rule->planes * 8 != rule->degree];
	struct rabin rabin;

	prepare_rabin(&rabin, rule);
	find(tile, &rabin, shredder_find_rabin_portable, rule, before, data, bytes, marks);
}

TARGET void KERNEL(gear)(const struct shredder_rule *rule, const uint8_t *before, const uint8_t *data, uint64_t bytes,
			 uint64_t *marks)
{
	struct gear gear;

	prepare_gear(&gear, rule);
	find(gear_tile, &gear, shredder_find_gear_portable, rule, before, data, bytes, marks);
}
#endif
#endif
