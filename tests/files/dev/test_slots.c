/* SPDX-License-Identifier: Apache-2.0 */
/* Slots go to those who ask in the order of asking, over more turns than there are places. */
#include "files/files.h"

#include "dev/slots.h"

static struct g4_slots slots;

static void all_can_be_taken_and_no_more(void **state)
{
	uint64_t seen = 0;
	uint32_t slot;

	(void)state;
	g4_slots_init(&slots, 8);
	for (uint32_t i = 0; i < 8; i++) {
		assert_true(g4_slots_take(&slots, &slot));
		assert_true(slot < 8 && !(seen >> slot & 1));
		seen |= UINT64_C(1) << slot;
	}
	assert_false(g4_slots_take(&slots, &slot));
	g4_slots_give(&slots, 3);
	assert_true(g4_slots_take(&slots, &slot));
	assert_int_equal(slot, 3);
}

static void who_asked_first_is_first(void **state)
{
	uint32_t slot;

	(void)state;
	g4_slots_init(&slots, 2);
	assert_true(g4_slots_take(&slots, &slot));
	assert_true(g4_slots_take(&slots, &slot));
	const uint32_t first = g4_slots_ask(&slots), second = g4_slots_ask(&slots);
	g4_slots_give(&slots, 1);
	assert_false(g4_slots_has(&slots, second));
	assert_false(g4_slots_got(&slots, second, &slot));
	assert_true(g4_slots_got(&slots, first, &slot));
	assert_int_equal(slot, 1);
	g4_slots_give(&slots, 0);
	assert_true(g4_slots_got(&slots, second, &slot));
	assert_int_equal(slot, 0);
}

static void turns_wrap_around(void **state)
{
	uint32_t slot;

	(void)state;
	g4_slots_init(&slots, 4);
	for (uint32_t i = 0; i < 1000; i++) {
		assert_true(g4_slots_take(&slots, &slot));
		g4_slots_give(&slots, slot);
	}
}

static void one_looks_at_a_time(void **state)
{
	(void)state;
	g4_slots_init(&slots, 1);
	assert_true(g4_slots_try_look(&slots));
	assert_false(g4_slots_try_look(&slots));
	g4_slots_looked(&slots);
	assert_true(g4_slots_try_look(&slots));
}

RUN_TESTS(cmocka_unit_test(all_can_be_taken_and_no_more), cmocka_unit_test(who_asked_first_is_first),
	  cmocka_unit_test(turns_wrap_around), cmocka_unit_test(one_looks_at_a_time))
