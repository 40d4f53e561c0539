/* SPDX-License-Identifier: Apache-2.0 */
/* SipHash-1-3, section 2 of the document with c = 1 and d = 3. */
#include "hash/siphash.h"

struct sip_state {
	uint64_t v0;
	uint64_t v1;
	uint64_t v2;
	uint64_t v3;
};

G4_FN static inline uint64_t rotate_left(uint64_t value, uint32_t bits)
{
	return value << bits | value >> (64 - bits);
}

G4_FN static inline void sip_round(struct sip_state *s)
{
	s->v0 += s->v1;
	s->v1 = rotate_left(s->v1, 13) ^ s->v0;
	s->v0 = rotate_left(s->v0, 32);
	s->v2 += s->v3;
	s->v3 = rotate_left(s->v3, 16) ^ s->v2;
	s->v0 += s->v3;
	s->v3 = rotate_left(s->v3, 21) ^ s->v0;
	s->v2 += s->v1;
	s->v1 = rotate_left(s->v1, 17) ^ s->v2;
	s->v2 = rotate_left(s->v2, 32);
}

G4_FN static inline void compress(struct sip_state *s, uint64_t word)
{
	s->v3 ^= word;
	sip_round(s);
	s->v0 ^= word;
}

G4_FN uint64_t g4_siphash13(const uint64_t key[2], const void *data, uint64_t bytes)
{
	const uint8_t *p = (const uint8_t *)data;
	struct sip_state s;
	uint64_t last = bytes << 56;
	uint64_t left = bytes;

	s.v0 = key[0] ^ UINT64_C(0x736f6d6570736575);
	s.v1 = key[1] ^ UINT64_C(0x646f72616e646f6d);
	s.v2 = key[0] ^ UINT64_C(0x6c7967656e657261);
	s.v3 = key[1] ^ UINT64_C(0x7465646279746573);
	G4_ROLLED
	for (; left >= 8; left -= 8, p += 8)
		compress(&s, g4_load_bytes(p, 8));
	if (left > 0)
		last |= g4_load_bytes(p, (uint32_t)left);
	compress(&s, last);
	s.v2 ^= 0xff;
	G4_ROLLED
	for (uint32_t round = 0; round < 3; round++)
		sip_round(&s);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
