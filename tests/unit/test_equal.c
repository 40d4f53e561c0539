/* SPDX-License-Identifier: Apache-2.0 */
/* What all tests compare with (tests/engine/equal.c): each byte counts, wherever it is, and none beside them. */
#include "engine/rig.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 40u

static void each_byte_counts(void **state)
{
	uint8_t a[MOST + 16], b[MOST + 16];

	(void)state;
	for (uint32_t bytes = 0; bytes <= MOST; bytes++)
		for (uint32_t from = 0; from < 64; from++) {
			uint8_t *x = a + from % 8, *y = b + from / 8;
			rig_pattern(a, 1, sizeof(a));
			rig_pattern(b, 2, sizeof(b));
			memcpy(y, x, bytes);
			assert_true(rig_equal(x, y, bytes));
			assert_memory_equal(x, y, bytes);
			y[bytes]++; /* behind them */
			assert_true(rig_equal(x, y, bytes));
			for (uint32_t at = 0; at < bytes; at++) {
				y[at] ^= (uint8_t)(1u << (at + from) % 8);
				assert_false(rig_equal(x, y, bytes));
				y[at] ^= (uint8_t)(1u << (at + from) % 8);
			}
			assert_true(rig_equal(x, y, bytes));
		}
	assert_true(rig_equal(NULL, NULL, 0));
}

static void differs(void **state)
{
	const uint8_t a[] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, b[] = {1, 2, 3, 4, 5, 6, 7, 8, 8};

	(void)state;
	assert_memory_equal(a, b, sizeof(a));
}

/* In a process of its own, of which nobody wants to read that it failed. */
static void what_differs_fails_a_test(void **state)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(differs)};
	int status;

	(void)state;
	const pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		const int none = open("/dev/null", O_WRONLY);
		if (none < 0 || dup2(none, STDOUT_FILENO) < 0 || dup2(none, STDERR_FILENO) < 0)
			_exit(2);
		_exit(cmocka_run_group_tests(tests, NULL, NULL) == 1 ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_byte_counts),
		cmocka_unit_test(what_differs_fails_a_test),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
