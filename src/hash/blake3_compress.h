/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BLAKE3's compression of one block by one lane, to be inlined into loops over blocks.
 *
 * A GPU is bound here by those of its units that combine and shift bits, which also add three numbers. Its other units multiply
 * and add, and would wait. So what is added to a is multiplied by one: 448 instead of 560 of a block's operations are left
 * for the units that are short.
 */
#ifndef G4_BLAKE3_COMPRESS_H
#define G4_BLAKE3_COMPRESS_H

#include "hash/blake3_types.h"

G4_FN G4_INLINE uint32_t g4_blake3_rotate(uint32_t word, uint32_t right)
{
	return word >> right | word << (32 - right);
}

#if G4_CUDA
static __constant__ uint32_t g4_blake3_one = 1; /* of which the compiler must not know that it is */

G4_FN G4_INLINE uint32_t g4_blake3_sum(uint32_t a, uint32_t b, uint32_t c)
{
	asm("mad.lo.u32 %0, %1, %2, %0;" : "+r"(a) : "r"(c), "r"(g4_blake3_one));
	asm("mad.lo.u32 %0, %1, %2, %0;" : "+r"(a) : "r"(b), "r"(g4_blake3_one));
	return a;
}
#else
G4_INLINE uint32_t g4_blake3_sum(uint32_t a, uint32_t b, uint32_t c)
{
	return a + b + c;
}
#endif

#define G4_BLAKE3_MIX(a, b, c, d, x, y)                                                                                \
	do {                                                                                                           \
		(a) = g4_blake3_sum((a), (b), (x));                                                                    \
		(d) = g4_blake3_rotate((d) ^ (a), 16);                                                                 \
		(c) += (d);                                                                                            \
		(b) = g4_blake3_rotate((b) ^ (c), 12);                                                                 \
		(a) = g4_blake3_sum((a), (b), (y));                                                                    \
		(d) = g4_blake3_rotate((d) ^ (a), 8);                                                                  \
		(c) += (d);                                                                                            \
		(b) = g4_blake3_rotate((b) ^ (c), 7);                                                                  \
	} while (0)
#define G4_BLAKE3_MIX_ROUND(a, b, c, d, e, f, g, h, i, j, k, l, m0, n, o, p)                                           \
	G4_BLAKE3_ROUND(G4_BLAKE3_MIX, a, b, c, d, e, f, g, h, i, j, k, l, m0, n, o, p)

/* cv becomes that of `bytes` (0 to 64) more bytes, which m holds. Per-lane. */
G4_FN G4_INLINE void g4_blake3_add_block(uint32_t cv[8], const uint32_t m[16], uint32_t bytes, uint64_t leaf,
					 uint32_t flags)
{
	const uint32_t iv[8] = G4_BLAKE3_IV;
	uint32_t v[16] = {cv[0], cv[1], cv[2], cv[3], cv[4], cv[5],	     cv[6],
			  cv[7], iv[0], iv[1], iv[2], iv[3], (uint32_t)leaf, (uint32_t)(leaf >> 32),
			  bytes, flags};

	G4_BLAKE3_ROUNDS(G4_BLAKE3_MIX_ROUND)
	for (uint32_t i = 0; i < 8; i++)
		cv[i] = v[i] ^ v[i + 8];
}

#endif
