/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of parity share: chunks of a stripe at any alignment, guarded on both sides, with random contents. */
#ifndef G4_TEST_PARITY_STRIPE_H
#define G4_TEST_PARITY_STRIPE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "parity/combine.h"
#include "simt/simt_host.h"

#define MOST_BYTES 8320u /* a multiple of 64, as GUARD is: so all chunks can be aligned */
#define GUARD 64u
#define MOST_CHUNKS (2 * G4_PARITY_DISKS)

static uint8_t memory[MOST_CHUNKS][MOST_BYTES + 2 * GUARD] __attribute__((aligned(64)));
static uint64_t random_state = 88172645463325252u;

static inline uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static inline uint32_t below(uint32_t n)
{
	return (uint32_t)(next_random() % n);
}

struct stripe {
	uint32_t k, m, bytes;
	uint32_t shift[G4_PARITY_DISKS]; /* of each chunk's beginning from a multiple of 64 */
	void *chunk[G4_PARITY_DISKS];	 /* k of data, m of parity */
};

static struct stripe stripe;

static inline void place_stripe(uint32_t k, uint32_t m, uint32_t bytes, bool aligned)
{
	stripe.k = k;
	stripe.m = m;
	stripe.bytes = bytes;
	for (uint32_t i = 0; i < k + m; i++) {
		stripe.shift[i] = aligned ? 0 : below(GUARD);
		stripe.chunk[i] = memory[i] + GUARD + stripe.shift[i];
		memset(memory[i], 0xee, GUARD + stripe.shift[i]);
		memset((uint8_t *)stripe.chunk[i] + bytes, 0xee, GUARD);
	}
}

static inline void fill_random(void *to, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		((uint8_t *)to)[i] = (uint8_t)(next_random() >> 20);
}

static inline void fill_stripe(void)
{
	for (uint32_t j = 0; j < stripe.k; j++)
		fill_random(stripe.chunk[j], stripe.bytes);
}

#endif
