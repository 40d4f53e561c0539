/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rule of cuts, prepared for computing: what every engine and every kernel is given. docs/shredder.md defines it.
 *
 * Two questions are kept apart. Whether a position is a *candidate* depends on the SHREDDER_WINDOW_BYTES bytes before it
 * and on nothing else, so kernels answer it for all positions at once, in any order. Which candidates become cuts depends
 * on where the last cut was; resolve.h decides that from the candidates alone.
 *
 * A candidate at i means: the window that ends with byte i (byte i included) is a marker, so a chunk may end behind byte i.
 * The stream is taken as preceded by zeros.
 */
#ifndef SHREDDER_RULE_H
#define SHREDDER_RULE_H

#include "base/base.h"
#include <shredder/shredder.h>

/* Bytes before a position that its window may reach: what a kernel needs to have seen before its first position. */
#define SHREDDER_HISTORY_BYTES (SHREDDER_WINDOW_BYTES - 1)
#define SHREDDER_GEAR_WINDOW_BYTES 32

/* Bytes of a fingerprint when the polynomial's degree is 63: planes of the vector kernels. */
#define SHREDDER_PLANES 8

struct shredder_rule {
	struct shredder_params params; /* complete: no zero stands for a default, SHREDDER_NONE minimum is 1 */
	uint32_t degree;	       /* rabin: of the polynomial */
	uint32_t planes;	       /* rabin: bytes that hold `degree` bits */

	/* rabin: position i is a candidate when (fingerprint & mask) == marker. */
	uint64_t mask;
	uint64_t marker;
	/* gear: a candidate when (hash & loose) == 0, a strict one when (hash & strict) == 0. loose is a part of strict. */
	uint32_t loose;
	uint32_t strict;

	/*
	 * rabin: r' = ((r << 8) & (2^degree - 1)) ^ b ^ push[r >> (degree - 8)] ^ pop[old], where b is the byte that
	 * enters and old the byte that entered 48 steps before: push[t] = t * x^degree mod P, pop[t] = t * x^384 mod P.
	 */
	uint64_t push[256];
	uint64_t pop[256];

	/*
	 * rabin, for kernels that hold a fingerprint as `planes` bytes, one vector for each: they compute modulo
	 * Q = P * x^(8 planes - degree), where a step moves whole bytes, and reduce by P when they look. All three maps are
	 * linear in a byte; entry j is the image of bit j: of the byte that leaves at the top, of the byte that leaves the
	 * window, and of the top byte of a remainder by Q, what makes it the remainder by P.
	 */
	uint64_t plane_push[8];
	uint64_t plane_pop[8];
	uint64_t plane_reduce[8];
};

#ifdef __cplusplus
extern "C" {
#endif

/* Prepares the rule for complete parameters (shredder_params_complete()). */
void shredder_rule_init(struct shredder_rule *rule, const struct shredder_params *params);

/* The gear table: docs/shredder.md says how to make it. */
extern const uint32_t shredder_gear_table[256];

/* (a * b) mod p over GF(2); p has degree 1 to 63, a and b are of lower degree. */
uint64_t shredder_gf2_multiply(uint64_t a, uint64_t b, uint64_t p);
/* The degree of p, which is not 0. */
uint32_t shredder_gf2_degree(uint64_t p);

/* (r * x^8 + byte) mod P: a byte enters the window and none leaves. */
static inline uint64_t shredder_rabin_push(const struct shredder_rule *rule, uint64_t r, uint8_t byte)
{
	const uint64_t low = (UINT64_C(1) << (rule->degree - 8)) - 1;

	return ((r & low) << 8) ^ byte ^ rule->push[r >> (rule->degree - 8)];
}

/* The fingerprint of the window that ends with window[SHREDDER_HISTORY_BYTES]: 48 bytes are read. Either algorithm. */
uint64_t shredder_fingerprint(const struct shredder_rule *rule, const uint8_t *window);

#ifdef __cplusplus
}
#endif

#endif
