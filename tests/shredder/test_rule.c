/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters: what is accepted, what zero stands for, and the arithmetic behind a fingerprint. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "chunk/rule.h"
#include "model.h"

/* The number of irreducible polynomials of a degree is known: Gauss counted them. */
static void irreducible_polynomials_are_as_many_as_there_are(void **state)
{
	static const uint32_t known[] = {[1] = 2,  [2] = 1,  [3] = 2,	[4] = 3,    [5] = 6,	[6] = 9,    [7] = 18,
					 [8] = 30, [9] = 56, [10] = 99, [11] = 186, [12] = 335, [16] = 4080};

	(void)state;
	assert_int_equal(shredder_polynomial_is_irreducible(0), 0);
	assert_int_equal(shredder_polynomial_is_irreducible(1), 0);
	for (uint32_t degree = 1; degree <= 16; degree++) {
		uint32_t count = 0;

		if (degree > 12 && degree < 16)
			continue;
		for (uint64_t p = UINT64_C(1) << degree; p < UINT64_C(2) << degree; p++)
			count += (uint32_t)shredder_polynomial_is_irreducible(p);
		assert_int_equal(count, known[degree]);
	}
}

static void products_of_polynomials_are_reducible(void **state)
{
	struct dice dice = {1};

	(void)state;
	for (int i = 0; i < 2000; i++) {
		const uint64_t a = 2 + dice_below(&dice, UINT64_C(1) << 31),
			       b = 2 + dice_below(&dice, UINT64_C(1) << 31);
		uint64_t product = 0;

		for (int bit = 0; bit < 32; bit++)
			product ^= (b >> bit & 1) != 0 ? a << bit : 0;
		assert_int_equal(shredder_polynomial_is_irreducible(product), 0);
	}
	assert_int_equal(shredder_polynomial_is_irreducible(UINT64_C(0x3DA3358B4DC173)),
			 1); /* restic's documentation */
	assert_int_equal(shredder_polynomial_is_irreducible(UINT64_C(0x8000000000000003)), 1); /* x^63 + x + 1 */
	assert_int_equal(shredder_polynomial_is_irreducible(SHREDDER_POLYNOMIAL), 1);
}

static void fingerprints_are_remainders(void **state)
{
	static const uint64_t polynomials[] = {SHREDDER_POLYNOMIAL, UINT64_C(0x1002D), UINT64_C(0x3DA3358B4DC173),
					       UINT64_C(0x8000000000000003)};
	struct shredder_params params = {.algorithm = SHREDDER_RABIN};
	struct shredder_rule rule;
	uint8_t *data = make_content(CONTENT_RANDOM, 1000, 7, NULL);

	(void)state;
	for (size_t k = 0; k < 5; k++) {
		params = (struct shredder_params){.algorithm = k < 4 ? SHREDDER_RABIN : SHREDDER_GEAR,
						  .polynomial = k < 4 ? polynomials[k] : 0};
		params = complete(params);
		shredder_rule_init(&rule, &params);
		for (uint64_t i = 47; i < 1000; i++)
			assert_int_equal(shredder_fingerprint(&rule, data + i - 47),
					 model_fingerprint(&params, data, i));
	}
	free(data);
}

static void runs_of_one_byte_are_no_markers(void **state)
{
	struct shredder_params rabin = complete((struct shredder_params){.mask_bits = 8});
	struct shredder_params gear =
		complete((struct shredder_params){.algorithm = SHREDDER_GEAR, .mask_bits = 10, .normalization = 2});
	uint8_t run[48];

	(void)state;
	for (int byte = 0; byte < 256; byte++) {
		memset(run, byte, sizeof(run));
		assert_false(model_candidate(&rabin, run, 47, false));
		assert_false(model_candidate(&gear, run, 47, false));
	}
}

static int check(struct shredder_params params)
{
	params.size = sizeof(params);
	return shredder_params_complete(&params);
}

static void what_cannot_work_is_refused(void **state)
{
	struct shredder_params params = {0};

	(void)state;
	assert_int_equal(shredder_params_complete(NULL), SHREDDER_E_INVAL);
	assert_int_equal(shredder_params_complete(&params), SHREDDER_E_VERSION);
#define REFUSED(code, ...) assert_int_equal(check((struct shredder_params){__VA_ARGS__}), SHREDDER_E_##code)
	REFUSED(ALGORITHM, .algorithm = 3);
	REFUSED(DEGREE, .polynomial = 0x11b);
	REFUSED(DEGREE, .polynomial = 0xffff);
	REFUSED(REDUCIBLE, .polynomial = SHREDDER_POLYNOMIAL ^ 2);
	REFUSED(REDUCIBLE, .polynomial = SHREDDER_POLYNOMIAL - 1); /* x divides it */
	REFUSED(MASK, .mask_bits = 33);
	REFUSED(MASK, .mask_bits = UINT32_MAX);
	REFUSED(MARKER, .mask_bits = 8, .marker = 256);
	REFUSED(SIZES, .min_bytes = 2, .max_bytes = 1);
	REFUSED(SIZES, .min_bytes = UINT64_MAX - 1, .max_bytes = 1);
	REFUSED(MASK, .algorithm = SHREDDER_GEAR, .mask_bits = 29);
	REFUSED(MASK, .algorithm = SHREDDER_GEAR, .mask_bits = 4, .normalization = 4);
	REFUSED(MASK, .algorithm = SHREDDER_GEAR, .mask_bits = 28, .normalization = 5);
	REFUSED(MASK, .algorithm = SHREDDER_GEAR, .mask_bits = 28, .normalization = UINT32_MAX - 1);
	REFUSED(SIZES, .algorithm = SHREDDER_GEAR, .min_bytes = 100, .max_bytes = 200, .normal_bytes = 99);
	REFUSED(SIZES, .algorithm = SHREDDER_GEAR, .min_bytes = 100, .max_bytes = 200, .normal_bytes = 201);
	REFUSED(RECORD, .delimiter_bytes = 33);
	REFUSED(RECORD, .delimiter_bytes = 1, .record_bytes = UINT64_MAX);
	REFUSED(VERSION, .reserved = 1);
#undef REFUSED
}

static void zero_stands_for_defaults_once(void **state)
{
	struct shredder_params rabin = complete((struct shredder_params){0}), again = rabin;
	struct shredder_params gear = complete((struct shredder_params){.algorithm = SHREDDER_GEAR, .mask_bits = 20});

	(void)state;
	assert_int_equal(rabin.algorithm, SHREDDER_RABIN);
	assert_int_equal(rabin.polynomial, SHREDDER_POLYNOMIAL);
	assert_int_equal(rabin.mask_bits, 13);
	assert_int_equal(rabin.marker, SHREDDER_MARKER & 0x1fff);
	assert_int_equal(rabin.min_bytes, 2048);
	assert_int_equal(rabin.max_bytes, 65536);
	assert_int_equal(gear.normal_bytes, 1 << 20);
	assert_int_equal(gear.min_bytes, 1 << 18);
	assert_int_equal(gear.max_bytes, 1 << 23);
	assert_int_equal(gear.normalization, 2);
	assert_int_equal(shredder_params_complete(&again), 0);
	assert_memory_equal(&again, &rabin, sizeof(rabin));
	/* a bound that is given moves the other one's default */
	assert_int_equal(complete((struct shredder_params){.max_bytes = 100}).min_bytes, 100);
	assert_int_equal(complete((struct shredder_params){.min_bytes = 100000}).max_bytes, 100000);
}

static void refused_parameters_stay_as_they_were(void **state)
{
	struct shredder_params params = {.size = sizeof(params), .min_bytes = 9, .max_bytes = 3}, before = params;

	(void)state;
	assert_int_equal(shredder_params_complete(&params), SHREDDER_E_SIZES);
	assert_memory_equal(&params, &before, sizeof(params));
}

static void every_code_has_its_sentence(void **state)
{
	(void)state;
	assert_string_equal(shredder_strerror(SHREDDER_E_REDUCIBLE), "the polynomial is reducible");
	assert_string_equal(shredder_strerror(0), "no error");
	assert_string_equal(shredder_strerror(-1000), "unknown error");
#define DIFFERS(name, number, sentence) assert_string_not_equal(shredder_strerror(-(number)), "unknown error");
	SHREDDER_ERRORS(DIFFERS)
#undef DIFFERS
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(irreducible_polynomials_are_as_many_as_there_are),
		cmocka_unit_test(products_of_polynomials_are_reducible),
		cmocka_unit_test(fingerprints_are_remainders),
		cmocka_unit_test(runs_of_one_byte_are_no_markers),
		cmocka_unit_test(what_cannot_work_is_refused),
		cmocka_unit_test(zero_stands_for_defaults_once),
		cmocka_unit_test(refused_parameters_stay_as_they_were),
		cmocka_unit_test(every_code_has_its_sentence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
