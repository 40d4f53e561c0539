/* SPDX-License-Identifier: Apache-2.0 */
/* Error codes at the boundary. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"

static const int codes[] = {
#define CODE(name, number, unix_errno, sentence) G4_E_##name,
	G4_ERRORS(CODE)
#undef CODE
};
#define CODES (sizeof(codes) / sizeof(codes[0]))

static void every_code_has_an_errno_and_a_sentence(void **state)
{
	(void)state;
	for (size_t i = 0; i < CODES; i++) {
		assert_true(g4_errno(-codes[i]) > 0);
		assert_true(strlen(g4_strerror(-codes[i])) > 3);
		assert_string_not_equal(g4_strerror(-codes[i]), "unknown error");
	}
}

static void numbers_are_positive_and_distinct(void **state)
{
	(void)state;
	for (size_t i = 0; i < CODES; i++) {
		assert_true(codes[i] > 0);
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(codes[i], codes[k]);
	}
}

static void codes_map_to_the_errno_of_the_list(void **state)
{
	(void)state;
	assert_int_equal(g4_errno(-G4_E_NOENT), ENOENT);
	assert_int_equal(g4_errno(-G4_E_NOSPC), ENOSPC);
	assert_int_equal(g4_errno(-G4_E_XATTR_SPACE), ENOSPC);
	assert_int_equal(g4_errno(-G4_E_CHECKSUM), EUCLEAN);
	assert_int_equal(g4_errno(-G4_E_SHUTDOWN), EIO);
	assert_string_equal(g4_strerror(-G4_E_ISDIR), "is a directory");
}

static void success_is_no_error(void **state)
{
	(void)state;
	assert_int_equal(g4_errno(0), 0);
	assert_string_equal(g4_strerror(0), "success");
}

static void a_number_that_is_no_code_is_an_io_error(void **state)
{
	(void)state;
	assert_int_equal(g4_errno(-12345), EIO);
	assert_int_equal(g4_errno(G4_E_NOENT), EIO);
	assert_int_equal(g4_errno(INT32_MIN), EIO);
	assert_string_equal(g4_strerror(INT32_MIN), "unknown error");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_code_has_an_errno_and_a_sentence),
		cmocka_unit_test(numbers_are_positive_and_distinct),
		cmocka_unit_test(codes_map_to_the_errno_of_the_list),
		cmocka_unit_test(success_is_no_error),
		cmocka_unit_test(a_number_that_is_no_code_is_an_io_error),
	};

	return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
