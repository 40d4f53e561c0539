/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's memory: what is small takes a small page, and what is large has all of it. The library leaves the front end out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fuse/payload.c"

/* How many of the pages have memory. */
static uint64_t resident(uint8_t *data, uint64_t bytes)
{
	static unsigned char pages[G4_FUSE_DATA_BYTES / G4_PAGE_BYTES];
	uint64_t count = 0;

	assert_int_equal(mincore(data, bytes, pages), 0);
	for (uint64_t k = 0; k < bytes / G4_PAGE_BYTES; k++)
		count += pages[k] & 1;
	return count;
}

static void what_is_small_takes_a_small_page(void **state)
{
	uint8_t *data = g4_fuse_payload_take();

	(void)state;
	assert_non_null(data);
	assert_int_equal((uintptr_t)data % G4_PAGE_BYTES, 0);
	assert_int_equal(resident(data, G4_FUSE_DATA_BYTES), 0);
	memset(data, 1, G4_PAGE_BYTES);
	assert_int_equal(resident(data, G4_FUSE_DATA_BYTES), 1);
	g4_fuse_payload_give(data);
}

static void what_is_large_has_all_of_it(void **state)
{
	uint8_t *data = g4_fuse_payload_take();

	(void)state;
	assert_non_null(data);
	memset(data, 1, G4_FUSE_DATA_BYTES);
	assert_int_equal(resident(data, G4_FUSE_DATA_BYTES), G4_FUSE_DATA_BYTES / G4_PAGE_BYTES);
	/* a device has it in two ranges: the huge page begins behind the small one */
	assert_int_equal((uintptr_t)(data + G4_PAGE_BYTES) % HUGE_BYTES, 0);
	g4_fuse_payload_give(data);
	g4_fuse_payload_give(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_small_takes_a_small_page),
		cmocka_unit_test(what_is_large_has_all_of_it),
	};

	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests_name("fuse_payload", tests, NULL, NULL);
}
