/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SipHash-1-3: the keyed hash of directory names. A secret key per file system keeps someone who chooses names from
 * choosing collisions (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012; with one compression and
 * three finalisation rounds, as Rust's and Ruby's hash tables use it).
 */
#ifndef G4_SIPHASH_H
#define G4_SIPHASH_H

#include "base/base.h"

/*
 * The hash of `bytes` bytes at `data` under the 128-bit key: key[0] holds its bytes 0 to 7, little-endian, key[1] its
 * bytes 8 to 15. Per-lane. `data` needs no alignment and may be NULL where `bytes` is 0.
 */
G4_FN uint64_t g4_siphash13(const uint64_t key[2], const void *data, uint64_t bytes);

/*
 * The same in steps, inline, for those who have the data in registers: begin, add each whole word, add the last word, which has
 * the bytes that are left and in its highest byte the number of all, end.
 */
struct g4_sip {
	uint64_t v0;
	uint64_t v1;
	uint64_t v2;
	uint64_t v3;
};

G4_FN G4_INLINE uint64_t g4_rotate_left(uint64_t value, uint32_t bits)
{
	return value << bits | value >> (64 - bits);
}

G4_FN G4_INLINE void g4_sip_round(struct g4_sip *s)
{
	s->v0 += s->v1;
	s->v1 = g4_rotate_left(s->v1, 13) ^ s->v0;
	s->v0 = g4_rotate_left(s->v0, 32);
	s->v2 += s->v3;
	s->v3 = g4_rotate_left(s->v3, 16) ^ s->v2;
	s->v0 += s->v3;
	s->v3 = g4_rotate_left(s->v3, 21) ^ s->v0;
	s->v2 += s->v1;
	s->v1 = g4_rotate_left(s->v1, 17) ^ s->v2;
	s->v2 = g4_rotate_left(s->v2, 32);
}

G4_FN G4_INLINE struct g4_sip g4_sip_begin(const uint64_t key[2])
{
	const struct g4_sip s = {key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
				 key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573)};

	return s;
}

G4_FN G4_INLINE void g4_sip_add(struct g4_sip *s, uint64_t word)
{
	s->v3 ^= word;
	g4_sip_round(s);
	s->v0 ^= word;
}

G4_FN G4_INLINE uint64_t g4_sip_end(struct g4_sip *s)
{
	s->v2 ^= 0xff;
	G4_ROLLED
	for (uint32_t round = 0; round < 3; round++)
		g4_sip_round(s);
	return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

#endif
