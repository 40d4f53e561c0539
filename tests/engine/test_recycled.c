/* SPDX-License-Identifier: Apache-2.0 */
/* What recycled.c hands out again is zeroed, and can not be touched before. */
#include "rig.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory_host.h"

#define BYTES (5 * G4_MIB)
#define PAGES (BYTES / G4_PAGE_BYTES)

static uint8_t *take(void)
{
	uint8_t *memory = (uint8_t *)g4_memory_map(BYTES);

	assert_non_null(memory);
	for (uint64_t at = 0; at < BYTES; at++)
		if (memory[at] != 0)
			fail_msg("byte %llu is not zero", (unsigned long long)at);
	return memory;
}

static void touch(uint8_t *memory, uint64_t every)
{
	for (uint64_t page = 0; page < PAGES; page += every)
		memory[page * G4_PAGE_BYTES + page % G4_PAGE_BYTES] = 1;
}

static void memory_is_zeroed_whoever_had_it(void **state)
{
	const uint64_t every[] = {1, 2, 3, 7, 9, 500, PAGES};

	(void)state;
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	for (size_t i = 0; i < sizeof(every) / sizeof(every[0]); i++) {
		uint8_t *memory = (uint8_t *)g4_memory_map(BYTES), *others[6];
		assert_non_null(memory);
		touch(memory, every[i]);
		g4_memory_unmap(memory, BYTES);
		for (size_t k = 0; k < 6; k++) {
			others[k] = take();
			touch(others[k], every[i] + k);
		}
		for (size_t k = 0; k < 6; k++)
			g4_memory_unmap(others[k], BYTES);
	}
}

static void what_was_given_back_can_not_be_touched(void **state)
{
	volatile uint8_t *memory = (volatile uint8_t *)g4_memory_map(BYTES);
	int status;

	(void)state;
	assert_non_null(memory);
	memory[0] = 1;
	g4_memory_unmap((void *)(uintptr_t)memory, BYTES);
	const pid_t child = fork();
	if (child == 0) {
		signal(SIGSEGV, SIG_DFL);
		_exit(memory[0]);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_is_zeroed_whoever_had_it),
		cmocka_unit_test(what_was_given_back_can_not_be_touched),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
