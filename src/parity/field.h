/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GF(2^8): the polynomials over GF(2) modulo x^8 + x^4 + x^3 + x^2 + 1, a byte each (0x11d, which Linux's RAID 6 and ISA-L have, too).
 * Addition is exclusive-or; every number but 0 is a power of 2.
 */
#ifndef G4_PARITY_FIELD_H
#define G4_PARITY_FIELD_H

#include "base/base.h"

#define G4_GF_REDUCE 0x1du /* x^8 */

/* Eight numbers times 2, side by side. */
G4_HD G4_INLINE uint64_t g4_gf_twice8(uint64_t eight)
{
	const uint64_t high = eight & UINT64_C(0x8080808080808080);

	return (eight ^ high) << 1 ^ (high >> 7) * G4_GF_REDUCE;
}

/* Four numbers, side by side, times one. */
G4_HD G4_INLINE uint32_t g4_gf_multiply4(uint32_t four, uint8_t by)
{
	uint32_t product = 0;

	for (uint32_t bit = 0; bit < 8; bit++) {
		const uint32_t high = four & UINT32_C(0x80808080);

		product ^= four & (0u - (by >> bit & 1u));
		four = (four ^ high) << 1 ^ (high >> 7) * G4_GF_REDUCE;
	}
	return product;
}

G4_HD G4_INLINE uint8_t g4_gf_multiply(uint8_t a, uint8_t b)
{
	return (uint8_t)g4_gf_multiply4(a, b);
}

/* 1 / a, which is a^254; a is not 0. */
G4_HD G4_INLINE uint8_t g4_gf_inverse(uint8_t a)
{
	uint8_t result = 1;

	for (uint32_t i = 0; i < 7; i++) {
		a = g4_gf_multiply(a, a); /* to the powers 2, 4, ... 128 */
		result = g4_gf_multiply(result, a);
	}
	return result;
}

/*
 * Tables of 256 entries, for multiplication by lookup. What an entry says is linear in its number: G4_GF_SUM() is the sum of
 * what the entries 1, 2, 4, ... 128 say, for the bits that number c has, and the compiler makes the 256.
 */
#define G4_GF_SUM(c, b0, b1, b2, b3, b4, b5, b6, b7)                                                                   \
	(((c)&1 ? (b0) : 0) ^ ((c)&2 ? (b1) : 0) ^ ((c)&4 ? (b2) : 0) ^ ((c)&8 ? (b3) : 0) ^ ((c)&16 ? (b4) : 0) ^     \
	 ((c)&32 ? (b5) : 0) ^ ((c)&64 ? (b6) : 0) ^ ((c)&128 ? (b7) : 0))
#define G4_GF_4(ENTRY, c) ENTRY((c)), ENTRY((c) + 1), ENTRY((c) + 2), ENTRY((c) + 3)
#define G4_GF_16(ENTRY, c) G4_GF_4(ENTRY, c), G4_GF_4(ENTRY, (c) + 4), G4_GF_4(ENTRY, (c) + 8), G4_GF_4(ENTRY, (c) + 12)
#define G4_GF_64(ENTRY, c)                                                                                             \
	G4_GF_16(ENTRY, c), G4_GF_16(ENTRY, (c) + 16), G4_GF_16(ENTRY, (c) + 32), G4_GF_16(ENTRY, (c) + 48)
#define G4_GF_TABLE(ENTRY)                                                                                             \
	{                                                                                                              \
		G4_GF_64(ENTRY, 0), G4_GF_64(ENTRY, 64), G4_GF_64(ENTRY, 128), G4_GF_64(ENTRY, 192)                    \
	}

#endif
