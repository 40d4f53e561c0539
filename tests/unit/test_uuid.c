/* SPDX-License-Identifier: Apache-2.0 */
/* UUIDs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/uuid_host.h"

static void random_ones_are_version_4_and_differ(void **state)
{
	uint8_t a[16];
	uint8_t b[16];

	(void)state;
	assert_int_equal(g4_uuid_random(a), 0);
	assert_int_equal(g4_uuid_random(b), 0);
	assert_int_equal(a[6] >> 4, 4);
	assert_int_equal(a[8] >> 6, 2);
	assert_memory_not_equal(a, b, 16);
}

static void text_is_bytes_in_order(void **state)
{
	/* RFC 9562, appendix A.3 */
	static const uint8_t uuid[16] = {0x91, 0x91, 0x08, 0xf7, 0x52, 0xd1, 0x43, 0x20,
					 0x9b, 0xac, 0xf8, 0x47, 0xdb, 0x41, 0x48, 0xa8};
	char text[G4_UUID_TEXT_BYTES];
	uint8_t back[16];

	(void)state;
	assert_string_equal(g4_uuid_format(uuid, text), "919108f7-52d1-4320-9bac-f847db4148a8");
	assert_int_equal(g4_uuid_parse("919108F7-52d1-4320-9BAC-f847db4148a8", back), 0);
	assert_memory_equal(back, uuid, 16);
}

static void malformed_text_is_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"919108f7",
		"919108f7-52d1-4320-9bac-f847db4148a",
		"919108f7-52d1-4320-9bac-f847db4148a8a",
		"919108f7052d1-4320-9bac-f847db4148a8",
		"919108f7-52d1-4320-9bac-f847db4148ag",
		"919108f752d143209bacf847db4148a8",
		"{919108f7-52d1-4320-9bac-f847db4148a8}",
	};
	uint8_t uuid[16] = {7};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(g4_uuid_parse(bad[i], uuid), -G4_E_INVAL);
	assert_int_equal(uuid[0], 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_ones_are_version_4_and_differ),
		cmocka_unit_test(text_is_bytes_in_order),
		cmocka_unit_test(malformed_text_is_refused),
	};

	return cmocka_run_group_tests_name("uuid", tests, NULL, NULL);
}
