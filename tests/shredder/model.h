/* SPDX-License-Identifier: Apache-2.0 */
/*
 * docs/shredder.md once more, as plainly as it can be written and sharing no code with the library: what the tests compare
 * it with. And contents to try things on.
 */
#ifndef SHREDDER_MODEL_H
#define SHREDDER_MODEL_H

#include <shredder/shredder.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct model_cut {
	uint64_t end;
	uint64_t fingerprint;
	uint32_t cut;
};

/* The fingerprint or hash of position i, from its definition. */
uint64_t model_fingerprint(const struct shredder_params *params, const uint8_t *data, uint64_t i);
/* Whether position i is a candidate; for gear a loose one, or a strict one. */
bool model_candidate(const struct shredder_params *params, const uint8_t *data, uint64_t i, bool strict);
/* All chunks of the bytes; `params` are complete. Gives how many; *out is freed by the caller. */
size_t model_cuts(const struct shredder_params *params, const uint8_t *data, uint64_t bytes, struct model_cut **out);

/* Numbers that look random and are always the same. */
struct dice {
	uint64_t state;
};
uint64_t dice_roll(struct dice *dice);
/* 0 to n - 1 */
uint64_t dice_below(struct dice *dice, uint64_t n);

enum content {
	CONTENT_RANDOM,
	CONTENT_ZERO,
	CONTENT_CONSTANT,
	CONTENT_PERIODIC, /* a period of 1 to 200 bytes */
	CONTENT_TEXT,	  /* lines of words */
	CONTENT_MARKERS,  /* random, with a window that is a marker every few bytes */
	CONTENTS
};
/* Malloced, `bytes` long. */
uint8_t *make_content(enum content content, uint64_t bytes, uint64_t seed, const struct shredder_params *params);

/* Complete parameters, or the test fails. */
struct shredder_params complete(struct shredder_params params);

#endif
