/* SPDX-License-Identifier: Apache-2.0 */
/* Which version of a page is believed, and when it is settled. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "journal/newest.h"

static void the_newest_of_what_is_whole(void **state)
{
	struct g4_newest newest = g4_newest_none();

	(void)state;
	assert_true(newest.version == G4_NO_VERSION);
	assert_true(g4_newest_take(&newest, 1, false, 7));
	assert_int_equal(newest.version, 1);
	assert_true(g4_newest_take(&newest, 2, false, 5)); /* a copy that has missed a write */
	assert_int_equal(newest.version, 1);
	assert_true(g4_newest_take(&newest, 3, true, 9));
	assert_int_equal(newest.version, 3);
}

/* A page of generation 0 is one as well. */
static void the_first_one_has_any_generation(void **state)
{
	struct g4_newest newest = g4_newest_none();

	(void)state;
	assert_true(g4_newest_take(&newest, 2, true, 0));
	assert_int_equal(newest.version, 2);
}

static void copies_settle_nothing(void **state)
{
	struct g4_newest newest = g4_newest_none();

	(void)state;
	for (uint32_t copy = 0; copy < 11; copy++)
		assert_true(g4_newest_take(&newest, copy, false, 7));
}

static void as_many_as_there_can_be_parities_settle_it(void **state)
{
	struct g4_newest newest = g4_newest_none();

	(void)state;
	assert_true(g4_newest_take(&newest, 0, false, 3));
	/* all parities but the last have missed a write */
	for (uint32_t parity = 0; parity + 1 < G4_CHUNK_PARITY_MOST; parity++)
		assert_true(g4_newest_take(&newest, 1 + parity, true, 7));
	assert_true(g4_newest_take(&newest, G4_CHUNK_PARITY_MOST, true, 8));
	assert_int_equal(newest.version, G4_CHUNK_PARITY_MOST);
	/* older ones count for nothing */
	for (uint32_t version = 10; version < 20; version++)
		assert_true(g4_newest_take(&newest, version, true, 7));
	for (uint32_t more = 2; more < G4_CHUNK_PARITY_MOST; more++)
		assert_true(g4_newest_take(&newest, 20 + more, true, 8));
	assert_false(g4_newest_take(&newest, 30, true, 8));
	assert_int_equal(newest.version, G4_CHUNK_PARITY_MOST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_newest_of_what_is_whole),
		cmocka_unit_test(the_first_one_has_any_generation),
		cmocka_unit_test(copies_settle_nothing),
		cmocka_unit_test(as_many_as_there_can_be_parities_settle_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
