/* SPDX-License-Identifier: Apache-2.0 */
/* SipHash-1-3, section 2 of the document with c = 1 and d = 3. */
#include "hash/siphash.h"

G4_FN uint64_t g4_siphash13(const uint64_t key[2], const void *data, uint64_t bytes)
{
	const uint8_t *p = (const uint8_t *)data;
	struct g4_sip s = g4_sip_begin(key);
	uint64_t last = bytes << 56;
	uint64_t left = bytes;

	G4_ROLLED
	for (; left >= 8; left -= 8, p += 8)
		g4_sip_add(&s, g4_load_bytes(p, 8));
	if (left > 0)
		last |= g4_load_bytes(p, (uint32_t)left);
	g4_sip_add(&s, last);
	return g4_sip_end(&s);
}
