/* SPDX-License-Identifier: Apache-2.0 */
/* When a GPU is worth its start, and what is said where it is not or is not there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gpu/sums_host.h"

static void the_crossover(void **state)
{
	const struct g4_gpu_sums_rates rates = {.copy = 10e9, .hash = 5e9, .gpu = 50e9}; /* alone: 3.33e9 a thread */

	(void)state;
	/* two threads: 6.67e9 against 20e9, since they can not read more */
	assert_true(g4_gpu_sums_pay(&rates, 2, UINT64_C(6000000000), 0.5));
	assert_false(g4_gpu_sums_pay(&rates, 2, UINT64_C(4000000000), 0.5));
	assert_true(g4_gpu_sums_pay(&rates, 2, 1000, 0));
	/* fifteen do as much as the GPU, however much there is */
	assert_true(g4_gpu_sums_pay(&rates, 14, UINT64_MAX, 0.5));
	assert_false(g4_gpu_sums_pay(&rates, 16, UINT64_MAX, 0));
}

static void without_one_somebody_says_why(void **state)
{
	char why[256] = "";

	(void)state;
	struct g4_page_hasher *hasher = g4_gpu_sums_open(2, 1000, false, why, sizeof(why)); /* too little for any */
	assert_null(hasher);
	assert_true(strlen(why) > 10);
	g4_gpu_sums_close(hasher);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_crossover),
		cmocka_unit_test(without_one_somebody_says_why),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
