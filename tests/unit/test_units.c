/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/units_host.h"

static uint64_t parsed(const char *text)
{
	uint64_t bytes = 0;

	assert_int_equal(g4_parse_size(text, &bytes), 0);
	return bytes;
}

static void assert_refused(const char *text, int code)
{
	uint64_t bytes = 4711;

	assert_int_equal(g4_parse_size(text, &bytes), code);
	assert_int_equal(bytes, 4711);
}

static void assert_formats(uint64_t bytes, const char *text)
{
	char buf[G4_SIZE_TEXT_BYTES];

	assert_string_equal(g4_format_size(bytes, buf, sizeof(buf)), text);
}

static void plain_numbers_are_bytes(void **state)
{
	(void)state;
	assert_int_equal(parsed("0"), 0);
	assert_int_equal(parsed("4096"), 4096);
	assert_int_equal(parsed("512B"), 512);
	assert_int_equal(parsed("18446744073709551615"), UINT64_MAX);
}

static void units_are_powers_of_1024_in_either_case(void **state)
{
	(void)state;
	assert_int_equal(parsed("1K"), G4_KIB);
	assert_int_equal(parsed("512M"), 512 * G4_MIB);
	assert_int_equal(parsed("2g"), 2 * G4_GIB);
	assert_int_equal(parsed("3T"), 3 * G4_TIB);
	assert_int_equal(parsed("1P"), 1024 * G4_TIB);
	assert_int_equal(parsed("15E"), UINT64_C(15) << 60);
}

static void units_take_b_and_ib(void **state)
{
	(void)state;
	assert_int_equal(parsed("4KB"), 4 * G4_KIB);
	assert_int_equal(parsed("4KiB"), 4 * G4_KIB);
	assert_int_equal(parsed("4gib"), 4 * G4_GIB);
}

static void fractions_are_exact_and_cut_to_bytes(void **state)
{
	(void)state;
	assert_int_equal(parsed("1.5T"), G4_TIB + G4_TIB / 2);
	assert_int_equal(parsed("0.001K"), 1);
	assert_int_equal(parsed("0.9999K"), 1023);
	assert_int_equal(parsed("15.999999999999999999999E"), UINT64_MAX - 1);
}

static void garbage_is_refused(void **state)
{
	static const char *const garbage[] = {"",    " ",   "x",    "-1", "+1",	   "1 ",   " 1",  "1X",	  "1KK",
					      "1Ki", "1iB", "1KBB", "1.", ".5",	   ".5G",  "1.5", "1.5B", "1..5G",
					      "0x1", "1e3", "1,5G", "G",  "1KiBB", "1G\n", "nan", "1.G"};

	(void)state;
	for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++)
		assert_refused(garbage[i], -G4_E_INVAL);
}

static void too_large_is_an_overflow(void **state)
{
	(void)state;
	assert_refused("18446744073709551616", -G4_E_OVERFLOW);
	assert_refused("16E", -G4_E_OVERFLOW);
	assert_refused("99999999999999999999999999999999999999999999G", -G4_E_OVERFLOW);
	assert_refused("18446744073709551615K", -G4_E_OVERFLOW);
}

static void sizes_format_with_at_most_one_decimal(void **state)
{
	(void)state;
	assert_formats(0, "0 B");
	assert_formats(1023, "1023 B");
	assert_formats(G4_KIB, "1 KiB");
	assert_formats(4 * G4_KIB, "4 KiB");
	assert_formats(1536, "1.5 KiB");
	assert_formats(G4_TIB + G4_TIB / 2, "1.5 TiB");
	assert_formats(UINT64_MAX, "16 EiB");
}

static void rounding_carries_into_the_next_unit(void **state)
{
	(void)state;
	assert_formats(G4_MIB - 1, "1 MiB");
	assert_formats(G4_TIB - 1, "1 TiB");
	assert_formats(1023 * G4_KIB + 900, "1023.9 KiB");
}

static void a_short_buffer_is_cut_not_overrun(void **state)
{
	char buf[4] = "zzz";

	(void)state;
	assert_string_equal(g4_format_size(1536, buf, 3), "1.");
	assert_int_equal(buf[3], '\0');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_numbers_are_bytes),
		cmocka_unit_test(units_are_powers_of_1024_in_either_case),
		cmocka_unit_test(units_take_b_and_ib),
		cmocka_unit_test(fractions_are_exact_and_cut_to_bytes),
		cmocka_unit_test(garbage_is_refused),
		cmocka_unit_test(too_large_is_an_overflow),
		cmocka_unit_test(sizes_format_with_at_most_one_decimal),
		cmocka_unit_test(rounding_carries_into_the_next_unit),
		cmocka_unit_test(a_short_buffer_is_cut_not_overrun),
	};

	return cmocka_run_group_tests_name("units", tests, NULL, NULL);
}
