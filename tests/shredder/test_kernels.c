/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every kernel finds exactly the candidates that the definition has.
 * Of chunk/kernel_portable.c, chunk/kernel_avx2.c, chunk/kernel_avx512.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "chunk/kernels.h"
#include "model.h"

/* x^k + ... for some k of every number of bytes, with and without bits to spare. */
static const uint64_t polynomials[] = {
	UINT64_C(0x1002D),
	UINT64_C(0x20009),
	UINT64_C(0x100001B),
	UINT64_C(0x2000009),
	SHREDDER_POLYNOMIAL,
	UINT64_C(0x200002001),
	UINT64_C(0x10000000039),
	UINT64_C(0x20000000009),
	UINT64_C(0x10000000000B7),
	UINT64_C(0x3DA3358B4DC173),
	UINT64_C(0x100000000000095),
	UINT64_C(0x200000000000011),
	UINT64_C(0x8000000000000003),
};
#define POLYNOMIALS (sizeof(polynomials) / sizeof(*polynomials))

static const char *const names[] = {"portable", "avx2", "avx512"};
#define KERNELS (sizeof(names) / sizeof(*names))

static shredder_find_fn *find_of(const struct shredder_kernel *kernel, const struct shredder_params *params)
{
	return params->algorithm == SHREDDER_GEAR ? kernel->find_gear : kernel->find_rabin;
}

static void the_reference_is_the_definition(void **state)
{
	const uint64_t bytes = 20000;

	(void)state;
	for (size_t k = 0; k <= POLYNOMIALS; k++) {
		const struct shredder_params params = complete((struct shredder_params){
			.algorithm = k < POLYNOMIALS ? SHREDDER_RABIN : SHREDDER_GEAR,
			.polynomial = k < POLYNOMIALS ? polynomials[k] : 0,
			.mask_bits = 5,
		});
		struct shredder_rule rule;
		uint8_t *data = make_content(CONTENT_RANDOM, bytes, k, &params);
		uint64_t marks[20000 / 64 + 1];
		uint64_t found = 0;

		/* the first half is before what is searched */
		shredder_rule_init(&rule, &params);
		find_of(shredder_kernel_find("portable"), &params)(&rule, data + bytes / 2 - SHREDDER_HISTORY_BYTES,
								   data + bytes / 2, bytes / 2, marks);
		for (uint64_t i = 0; i < bytes / 2; i++) {
			const bool candidate = model_candidate(&params, data, bytes / 2 + i, false);

			assert_int_equal(marks[i / 64] >> (i % 64) & 1, candidate);
			found += candidate;
		}
		assert_true(found > 100);
		free(data);
	}
}

struct place {
	uint8_t *memory; /* as large as needed, so that a sanitizer sees what reads beyond it */
	const uint8_t *before, *data;
	uint64_t bytes;
};

/* `bytes` bytes to search, `off` bytes from an aligned address, with the bytes before them somewhere else. */
static struct place place_content(enum content content, uint64_t bytes, uint64_t off, uint64_t seed,
				  const struct shredder_params *params)
{
	uint8_t *stream = make_content(content, SHREDDER_HISTORY_BYTES + bytes, seed, params);
	struct place place = {.memory = malloc(SHREDDER_HISTORY_BYTES + off + bytes), .bytes = bytes};

	memcpy(place.memory, stream, SHREDDER_HISTORY_BYTES);
	memset(place.memory + SHREDDER_HISTORY_BYTES, 0xa5, off);
	memcpy(place.memory + SHREDDER_HISTORY_BYTES + off, stream + SHREDDER_HISTORY_BYTES, bytes);
	place.before = place.memory;
	place.data = place.memory + SHREDDER_HISTORY_BYTES + off;
	free(stream);
	return place;
}

static uint64_t compare(const char *name, const struct shredder_params *params, const struct place *place)
{
	const uint64_t words = shredder_mark_words(place->bytes);
	uint64_t *expected = malloc((words + 1) * 8), *found = malloc((words + 1) * 8);
	uint64_t count = 0;
	struct shredder_rule rule;

	shredder_rule_init(&rule, params);
	memset(expected, 0x55, (words + 1) * 8);
	memset(found, 0x55, (words + 1) * 8);
	find_of(shredder_kernel_find("portable"), params)(&rule, place->before, place->data, place->bytes, expected);
	find_of(shredder_kernel_find(name), params)(&rule, place->before, place->data, place->bytes, found);
	assert_memory_equal(found, expected, (words + 1) * 8);
	for (uint64_t i = 0; i < words; i++)
		count += (uint64_t)__builtin_popcountll(found[i]);
	free(expected);
	free(found);
	return count;
}

/* Sizes at which a kernel may begin and end tiles. */
static uint64_t pick_bytes(struct dice *dice)
{
	static const uint64_t tiles[] = {64, 2048, 4096, 32 * 65 * 64, 64 * 65 * 64};

	if (dice_below(dice, 2) == 0)
		return dice_below(dice, 40000);
	return dice_below(dice, 3) * 4096 + tiles[dice_below(dice, 5)] + dice_below(dice, 130) - 64;
}

static void kernels_agree(void **state)
{
	struct dice dice = {3};
	uint64_t checked = 0;

	(void)state;
	for (size_t k = 1; k < KERNELS; k++) {
		uint64_t found[CONTENTS] = {0};

		if (shredder_kernel_find(names[k]) == NULL)
			continue;
		for (int i = 0; i < 400; i++) {
			const bool gear = dice_below(&dice, 4) == 0;
			const enum content content = (enum content)dice_below(&dice, CONTENTS);
			const uint64_t polynomial = polynomials[dice_below(&dice, POLYNOMIALS)];
			const uint64_t marker = dice_below(&dice, 2) == 0 ? SHREDDER_ZERO_MARKER : 0;
			/* one value can only be a marker where many are */
			const uint32_t mask_bits =
				1 + (uint32_t)dice_below(&dice, content == CONTENT_CONSTANT ? 2 : 16);
			const struct shredder_params params = complete((struct shredder_params){
				.algorithm = gear ? SHREDDER_GEAR : SHREDDER_RABIN,
				.polynomial = gear ? 0 : polynomial,
				.mask_bits = mask_bits,
				.marker = marker,
				.normalization = SHREDDER_NO_NORMALIZATION,
			});
			const uint64_t bytes = pick_bytes(&dice), off = dice_below(&dice, 70);
			struct place place = place_content(content, bytes, off, (uint64_t)i, &params);

			found[content] += compare(names[k], &params, &place);
			free(place.memory);
			checked++;
		}
		for (int content = 0; content < CONTENTS; content++)
			assert_true(found[content] > 0);
	}
	if (checked == 0)
		skip();
}

/* Masks of more than 16 bits are looked at in a second step. */
static void wide_masks_agree(void **state)
{
	const uint64_t bytes = 300000;
	uint64_t found = 0;

	(void)state;
	for (size_t k = 1; k < KERNELS; k++) {
		if (shredder_kernel_find(names[k]) == NULL)
			continue;
		for (size_t p = 0; p < POLYNOMIALS; p++)
			for (uint32_t mask_bits = 17; mask_bits < 64; mask_bits += 9) {
				struct shredder_params params = {.size = sizeof(params),
								 .polynomial = polynomials[p],
								 .mask_bits = mask_bits,
								 .marker = SHREDDER_ZERO_MARKER};

				if (shredder_params_complete(&params) != 0)
					continue;
				/* zeros are markers; random bytes are hardly ever */
				struct place place = place_content(CONTENT_RANDOM, bytes, 0, p, &params);
				memset(place.memory + 123456, 0, 60);
				found += compare(names[k], &params, &place);
				free(place.memory);
			}
	}
	assert_true(found > 0 || shredder_kernel_find("avx2") == NULL);
}

static void kernels_are_found_by_name(void **state)
{
	(void)state;
	assert_non_null(shredder_kernel_find(NULL));
	assert_string_equal(shredder_kernel_find("portable")->name, "portable");
	assert_null(shredder_kernel_find("abacus"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernels_are_found_by_name),
		cmocka_unit_test(the_reference_is_the_definition),
		cmocka_unit_test(kernels_agree),
		cmocka_unit_test(wide_masks_agree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
