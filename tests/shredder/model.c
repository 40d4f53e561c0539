/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "model.h"

/* ------------------------------------------------------------------------------------------------------ the rule */

static uint8_t byte_at(const uint8_t *data, int64_t i)
{
	return i < 0 ? 0 : data[i];
}

/* The window's 384 bits divided by the polynomial, one bit after the other. */
static uint64_t rabin(uint64_t polynomial, const uint8_t *data, uint64_t i)
{
	const int degree = 63 - __builtin_clzll(polynomial);
	uint64_t rest = 0;

	for (int64_t k = (int64_t)i - 47; k <= (int64_t)i; k++)
		for (int bit = 7; bit >= 0; bit--) {
			rest = rest << 1 | (byte_at(data, k) >> bit & 1);
			if (rest >> degree != 0)
				rest ^= polynomial;
		}
	return rest;
}

static uint32_t gear_entry(uint8_t byte)
{
	uint64_t z = UINT64_C(0xA4093822299F31D0) + (byte + UINT64_C(1)) * UINT64_C(0x9E3779B97F4A7C15);

	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return (uint32_t)((z ^ (z >> 31)) >> 32);
}

static uint32_t gear(const uint8_t *data, uint64_t i)
{
	uint32_t hash = 0;

	for (int64_t k = 0; k < 32; k++)
		hash += gear_entry(byte_at(data, (int64_t)i - k)) << k;
	return hash;
}

uint64_t model_fingerprint(const struct shredder_params *params, const uint8_t *data, uint64_t i)
{
	return params->algorithm == SHREDDER_GEAR ? gear(data, i) : rabin(params->polynomial, data, i);
}

bool model_candidate(const struct shredder_params *params, const uint8_t *data, uint64_t i, bool strict)
{
	const uint64_t value = model_fingerprint(params, data, i);

	if (params->algorithm == SHREDDER_GEAR) {
		const uint32_t v = params->normalization == SHREDDER_NO_NORMALIZATION ? 0 : params->normalization;
		const uint32_t bits = strict ? params->mask_bits + v : params->mask_bits - v;

		return value >> (32 - bits) == 0;
	}
	const uint64_t marker = params->marker == SHREDDER_ZERO_MARKER ? 0 : params->marker;
	return value % (UINT64_C(1) << params->mask_bits) == marker;
}

static bool border(const struct shredder_params *params, const uint8_t *data, uint64_t end)
{
	for (uint32_t k = 0; k < params->delimiter_bytes; k++)
		if (byte_at(data, (int64_t)end - params->delimiter_bytes + k) != params->delimiter[k])
			return false;
	return true;
}

static uint64_t move(const struct shredder_params *params, const uint8_t *data, uint64_t bytes, uint64_t end)
{
	const uint64_t raw = end;

	if (params->delimiter_bytes != 0)
		while (end < bytes && end - raw < params->record_bytes && !border(params, data, end))
			end++;
	return end;
}

size_t model_cuts(const struct shredder_params *params, const uint8_t *data, uint64_t bytes, struct model_cut **out)
{
	const uint64_t min = params->min_bytes == SHREDDER_NONE ? 1 : params->min_bytes;
	struct model_cut *cuts = malloc((bytes + 1) * sizeof(*cuts));
	size_t count = 0;
	uint64_t start = 0;

	for (uint64_t end = 1; end <= bytes; end++) {
		const uint64_t length = end - start;
		const bool strict = params->algorithm == SHREDDER_GEAR && length < params->normal_bytes;
		uint32_t cut = 0;

		if (length >= min && model_candidate(params, data, end - 1, strict))
			cut = SHREDDER_CUT_MARKER;
		else if (length == params->max_bytes)
			cut = SHREDDER_CUT_MAX;
		else if (end == bytes)
			cut = SHREDDER_CUT_END;
		if (cut == 0)
			continue;
		end = move(params, data, bytes, end);
		cuts[count].end = end;
		cuts[count].fingerprint = model_fingerprint(params, data, end - 1);
		cuts[count++].cut = cut;
		start = end;
	}
	*out = cuts;
	return count;
}

/* ------------------------------------------------------------------------------------------------------ contents */

uint64_t dice_roll(struct dice *dice)
{
	uint64_t x = dice->state += UINT64_C(0x9E3779B97F4A7C15);

	x = (x ^ (x >> 32)) * UINT64_C(0xD6E8FEB86659FD93);
	x = (x ^ (x >> 32)) * UINT64_C(0xD6E8FEB86659FD93);
	return x ^ (x >> 32);
}

uint64_t dice_below(struct dice *dice, uint64_t n)
{
	return dice_roll(dice) % n;
}

static void make_text(uint8_t *data, uint64_t bytes, struct dice *dice)
{
	static const char words[][8] = {"the", "of", "chunk", "window", "marker", "stream", "a", "cut", "where"};

	for (uint64_t i = 0; i < bytes;) {
		const char *word = words[dice_below(dice, sizeof(words) / sizeof(*words))];

		for (; *word != 0 && i < bytes; i++)
			data[i] = (uint8_t)*word++;
		if (i < bytes)
			data[i++] = dice_below(dice, 9) == 0 ? '\n' : ' ';
	}
}

/* Copies of one window that is a marker, some bytes apart, found by trying. */
static void add_markers(uint8_t *data, uint64_t bytes, struct dice *dice, const struct shredder_params *params)
{
	uint64_t found = 0;

	for (uint64_t i = 47; i < bytes && found == 0; i++)
		if (model_candidate(params, data, i, true))
			found = i;
	if (found == 0)
		return;
	for (uint64_t at = found + 1; at + 48 <= bytes; at += 48 + dice_below(dice, 100))
		memmove(data + at, data + found - 47, 48);
}

uint8_t *make_content(enum content content, uint64_t bytes, uint64_t seed, const struct shredder_params *params)
{
	struct dice dice = {seed};
	uint8_t *data = malloc(bytes == 0 ? 1 : bytes);
	const uint64_t period = 1 + dice_below(&dice, 200);

	memset(data, 0, bytes);
	switch (content) {
	case CONTENT_CONSTANT:
		memset(data, (int)dice_below(&dice, 256), bytes);
		break;
	case CONTENT_TEXT:
		make_text(data, bytes, &dice);
		break;
	case CONTENT_RANDOM:
	case CONTENT_MARKERS:
		for (uint64_t i = 0; i < bytes; i++)
			data[i] = (uint8_t)dice_roll(&dice);
		if (content == CONTENT_MARKERS)
			add_markers(data, bytes, &dice, params);
		break;
	case CONTENT_PERIODIC:
		for (uint64_t i = 0; i < bytes; i++)
			data[i] = i < period ? (uint8_t)dice_roll(&dice) : data[i - period];
		break;
	default:
		break;
	}
	return data;
}

struct shredder_params complete(struct shredder_params params)
{
	params.size = sizeof(params);
	if (shredder_params_complete(&params) != 0)
		abort();
	return params;
}
