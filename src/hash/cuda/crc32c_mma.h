/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC-32C of pages by a warp's matrix units. A CRC is linear: each bit of the message that is set adds a 32-bit number of its
 * own, and the sum is exclusive. So 512 bytes are a vector of 4096 bits, times a matrix of 4096 by 32 bits: matrix units that
 * multiply bits and count do that for 16 vectors at a time, and of a count the lowest bit is the sum.
 *
 * A row has 512 bytes of a page: 64 of each eighth, so that the lanes, each of which loads 16 bytes of its row in a step, load
 * 512 bytes that lie together: memory is slow with less. 16 rows are two pages, which a warp has at a time. Words 0 and 1 of the 16
 * bytes go into a first multiplication, 2 and 3 into a second one: which bits of a row come when does not matter as long as the
 * matrix has them in the same order.
 */
#ifndef G4_CRC32C_MMA_H
#define G4_CRC32C_MMA_H

#include "hash/crc32c.h"

#define G4_CRC32C_PIECE_BYTES 64u /* of a row, one a step */
#define G4_CRC32C_STEPS 8u
#define G4_CRC32C_ROWS 8u /* of a page */

struct g4_crc32c_matrix {
	uint4 part[G4_CRC32C_STEPS][4]
		  [32]; /* as the lanes load it: for each step and each eight columns four words a lane */
	uint32_t behind
		[G4_CRC32C_ROWS]; /* a row's sum is multiplied by this: x to the power of the bits behind its pieces */
};

constexpr uint32_t g4_crc32c_times_x(uint32_t number)
{
	return number >> 1 ^ (number & 1 ? UINT32_C(0x82f63b78) : 0);
}

/* One word of a page adds column[i], if its bit b is set and that of column[i] is, to bit i; `adds`: what its last bit adds. */
constexpr void g4_crc32c_set_word(struct g4_crc32c_matrix &matrix, uint32_t step, uint32_t word, uint32_t adds)
{
	for (uint32_t i = 0; i < 32; i++) {
		uint4 &four = matrix.part[step][i / 8][i % 8 * 4 + word / 4];
		uint32_t column = 0, number = adds;

		for (uint32_t bit = 32; bit-- > 0;) {
			column |= (number >> i & 1) << bit;
			number = g4_crc32c_times_x(number);
		}
		if (word % 4 == 0)
			four.x = column;
		else if (word % 4 == 1)
			four.y = column;
		else if (word % 4 == 2)
			four.z = column;
		else
			four.w = column;
	}
}

/* From a page's end to its beginning: its last bit adds the polynomial. */
constexpr struct g4_crc32c_matrix g4_crc32c_make_matrix(void)
{
	struct g4_crc32c_matrix matrix = {};
	uint32_t adds = UINT32_C(0x82f63b78), power = UINT32_C(0x80000000);

	for (uint32_t step = G4_CRC32C_STEPS; step-- > 0;) {
		for (uint32_t row = G4_CRC32C_ROWS; row-- > 0;) {
			for (uint32_t word = G4_CRC32C_PIECE_BYTES / 4; word-- > 0;) {
				if (row == G4_CRC32C_ROWS - 1) /* the others have the same, times `behind` */
					g4_crc32c_set_word(matrix, step, word, adds);
				for (uint32_t bit = 0; bit < 32; bit++)
					adds = g4_crc32c_times_x(adds);
			}
		}
	}
	for (uint32_t row = G4_CRC32C_ROWS; row-- > 0;) {
		matrix.behind[row] = power;
		for (uint32_t bit = 0; bit < G4_CRC32C_PIECE_BYTES * 8; bit++)
			power = g4_crc32c_times_x(power);
	}
	return matrix;
}

static __device__ const struct g4_crc32c_matrix g4_crc32c_matrix = g4_crc32c_make_matrix();

/* counts += 16 rows of 256 bits times 8 columns; a0, a2 are of row lane / 4, a1, a3 of that plus 8. */
G4_FN G4_INLINE void g4_crc32c_multiply(uint32_t counts[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
					uint32_t b0, uint32_t b1)
{
	asm("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
	    "{%0, %1, %2, %3};"
	    : "+r"(counts[0]), "+r"(counts[1]), "+r"(counts[2]), "+r"(counts[3])
	    : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/*
 * All lanes of a warp. Of two pages, 16 B aligned: lanes 4 i + k and 4 i + 2 + k have what row i of page k would add to a checksum
 * that begins with 0 if nothing came behind its pieces but other pieces.
 */
G4_FN G4_INLINE uint32_t g4_crc32c_rows(const void *first, const void *second, uint32_t lane)
{
	const uint4 *const a = (const uint4 *)first + lane, *const b = (const uint4 *)second + lane;
	uint32_t counts[4][4] = {};
	uint32_t row[2] = {};

#pragma unroll 4
	for (uint32_t step = 0; step < G4_CRC32C_STEPS; step++) {
		const uint4 of_a = a[32 * step], of_b = b[32 * step];

#pragma unroll
		for (uint32_t k = 0; k < 4; k++) {
			const uint4 m = g4_crc32c_matrix.part[step][k][lane];

			g4_crc32c_multiply(counts[k], of_a.x, of_b.x, of_a.y, of_b.y, m.x, m.y);
			g4_crc32c_multiply(counts[k], of_a.z, of_b.z, of_a.w, of_b.w, m.z, m.w);
		}
	}
	/* a lane has columns 8 k + 2 (lane % 4) and the next one of two rows */
#pragma unroll
	for (uint32_t k = 0; k < 4; k++) {
		row[0] |= (counts[k][0] & 1) << (8 * k) | (counts[k][1] & 1) << (8 * k + 1);
		row[1] |= (counts[k][2] & 1) << (8 * k) | (counts[k][3] & 1) << (8 * k + 1);
	}
#pragma unroll
	for (uint32_t i = 0; i < 2; i++) {
		row[i] <<= 2 * (lane % 4);
		row[i] |= __shfl_xor_sync(G4_WARP_ALL, row[i], 1);
		row[i] |= __shfl_xor_sync(G4_WARP_ALL, row[i], 2);
	}
	return lane & 1 ? row[1] : row[0];
}

#endif
