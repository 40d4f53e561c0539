/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses: to and from what is stored, block pointers and page numbers, and what is a step away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "format/format.h"

#define FAR ((UINT64_C(1) << 62) - 4096) /* the last page of the largest device */

static void an_address_is_what_was_stored(void **state)
{
	(void)state;
	assert_int_equal(g4_address_stored(g4_address_from(0)), 0);
	assert_int_equal(g4_address_stored(g4_address_from(FAR)), FAR);
	assert_true(g4_address_is_none(G4_NO_ADDRESS));
	assert_false(g4_address_is_none(g4_address_from(256)));
}

static void a_pointer_leads_to_the_address_it_was_made_of(void **state)
{
	(void)state;
	for (uint32_t tag = G4_TAG_SMALL; tag <= G4_TAG_1G; tag++) {
		const struct g4_address address = g4_address_from(tag == G4_TAG_SMALL ? FAR + 256 : FAR);
		const g4_ptr ptr = g4_ptr_make(address, tag, G4_PTR_VALID | G4_PTR_SPARE);

		assert_true(g4_address_is(g4_ptr_address(ptr), address));
		assert_int_equal(g4_ptr_tag(ptr), tag);
		assert_int_equal(ptr, g4_ptr_at(g4_address_stored(address), tag, G4_PTR_VALID | G4_PTR_SPARE));
		assert_int_equal(g4_ptr_offset(ptr), g4_address_stored(address));
	}
	assert_int_equal(g4_ino_make(g4_address_from(FAR + 512)), g4_ino_at(FAR + 512));
}

static void pages_are_counted_through_the_space(void **state)
{
	(void)state;
	const struct g4_address slot = g4_address_from(FAR + 3 * G4_SLAB_SLOT_BYTES);

	assert_int_equal(g4_address_page(slot), FAR / 4096);
	assert_true(g4_address_is(g4_page_address(FAR / 4096), g4_address_from(FAR)));
	assert_true(g4_address_is(g4_address_page_start(slot), g4_address_from(FAR)));
	assert_int_equal(g4_slab_slot_of(slot), 3);
	assert_true(g4_address_starts_region(g4_address_from(4 * G4_REGION_BYTES)));
	assert_false(g4_address_starts_region(g4_address_from(4 * G4_REGION_BYTES + 4096)));
}

static void steps_and_runs(void **state)
{
	(void)state;
	const struct g4_address first = g4_address_from(64 * 4096);

	assert_true(g4_address_is(g4_address_after_pages(first, 3), g4_address_from(67 * 4096)));
	assert_true(g4_address_is(g4_address_after(first, 256), g4_address_from(64 * 4096 + 256)));
	assert_true(g4_address_is_before(first, g4_address_after_pages(first, 1)));
	assert_false(g4_address_is_before(first, first));
	assert_true(g4_address_in(first, first, 1));
	assert_true(g4_address_in(g4_address_after_pages(first, 2), first, 3));
	assert_false(g4_address_in(g4_address_after_pages(first, 3), first, 3));
	assert_false(g4_address_in(g4_address_from(63 * 4096), first, 3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_address_is_what_was_stored),
		cmocka_unit_test(a_pointer_leads_to_the_address_it_was_made_of),
		cmocka_unit_test(pages_are_counted_through_the_space),
		cmocka_unit_test(steps_and_runs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
