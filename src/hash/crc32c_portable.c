/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC-32C in plain C: eight tables, eight bytes a step (Kounavis and Berry, "A Systematic Approach to Building High
 * Performance Software-based CRC Generators", 2005, "slicing-by-8").
 *
 * table[k][i] is the CRC of byte i followed by k zero bytes. A CRC is linear, so the entry of i is the exclusive-or of
 * the entries of i's bits: only those 64 are written down and the compiler makes the 2048.
 */
#include "hash/crc32c.h"

#define ENTRY(i, b0, b1, b2, b3, b4, b5, b6, b7)                                                                       \
	(((i)&1 ? (b0) : 0) ^ ((i)&2 ? (b1) : 0) ^ ((i)&4 ? (b2) : 0) ^ ((i)&8 ? (b3) : 0) ^ ((i)&16 ? (b4) : 0) ^     \
	 ((i)&32 ? (b5) : 0) ^ ((i)&64 ? (b6) : 0) ^ ((i)&128 ? (b7) : 0))
#define FOUR(row, i) row((i)), row((i) + 1), row((i) + 2), row((i) + 3)
#define SIXTEEN(row, i) FOUR(row, (i)), FOUR(row, (i) + 4), FOUR(row, (i) + 8), FOUR(row, (i) + 12)
#define SIXTY_FOUR(row, i) SIXTEEN(row, (i)), SIXTEEN(row, (i) + 16), SIXTEEN(row, (i) + 32), SIXTEEN(row, (i) + 48)
#define ROW(row)                                                                                                       \
	{                                                                                                              \
		SIXTY_FOUR(row, 0), SIXTY_FOUR(row, 64), SIXTY_FOUR(row, 128), SIXTY_FOUR(row, 192)                    \
	}

#define ROW0(i) ENTRY(i, 0xf26b8303, 0xe13b70f7, 0xc79a971f, 0x8ad958cf, 0x105ec76f, 0x20bd8ede, 0x417b1dbc, 0x82f63b78)
#define ROW1(i) ENTRY(i, 0x13a29877, 0x274530ee, 0x4e8a61dc, 0x9d14c3b8, 0x3fc5f181, 0x7f8be302, 0xff17c604, 0xfbc3faf9)
#define ROW2(i) ENTRY(i, 0xa541927e, 0x4f6f520d, 0x9edea41a, 0x38513ec5, 0x70a27d8a, 0xe144fb14, 0xc76580d9, 0x8b277743)
#define ROW3(i) ENTRY(i, 0xdd45aab8, 0xbf672381, 0x7b2231f3, 0xf64463e6, 0xe964b13d, 0xd725148b, 0xaba65fe7, 0x52a0c93f)
#define ROW4(i) ENTRY(i, 0x38116fac, 0x7022df58, 0xe045beb0, 0xc5670b91, 0x8f2261d3, 0x1ba8b557, 0x37516aae, 0x6ea2d55c)
#define ROW5(i) ENTRY(i, 0xef306b19, 0xdb8ca0c3, 0xb2f53777, 0x6006181f, 0xc00c303e, 0x85f4168d, 0x0e045beb, 0x1c08b7d6)
#define ROW6(i) ENTRY(i, 0x68032cc8, 0xd0065990, 0xa5e0c5d1, 0x4e2dfd53, 0x9c5bfaa6, 0x3d5b83bd, 0x7ab7077a, 0xf56e0ef4)
#define ROW7(i) ENTRY(i, 0x493c7d27, 0x9278fa4e, 0x211d826d, 0x423b04da, 0x847609b4, 0x0d006599, 0x1a00cb32, 0x34019664)

static G4_CONST uint32_t table[8][256] = {ROW(ROW0), ROW(ROW1), ROW(ROW2), ROW(ROW3),
					  ROW(ROW4), ROW(ROW5), ROW(ROW6), ROW(ROW7)};

G4_FN static uint32_t add_byte(uint32_t state, uint8_t byte)
{
	return state >> 8 ^ table[0][(state ^ byte) & 0xff];
}

G4_FN uint32_t g4_crc32c_portable(uint32_t crc, const void *data, uint64_t bytes)
{
	const uint8_t *p = (const uint8_t *)data;
	uint32_t state = ~crc;

	for (; bytes && ((uintptr_t)p & 7); bytes--)
		state = add_byte(state, *p++);
	for (; bytes >= 8; bytes -= 8, p += 8) {
		uint64_t word;

		memcpy(&word, __builtin_assume_aligned(p, 8), 8);
		word ^= state;
		state = table[7][word & 0xff] ^ table[6][word >> 8 & 0xff] ^ table[5][word >> 16 & 0xff] ^
			table[4][word >> 24 & 0xff] ^ table[3][word >> 32 & 0xff] ^ table[2][word >> 40 & 0xff] ^
			table[1][word >> 48 & 0xff] ^ table[0][word >> 56];
	}
	for (; bytes; bytes--)
		state = add_byte(state, *p++);
	return ~state;
}
