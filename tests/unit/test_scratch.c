/* SPDX-License-Identifier: Apache-2.0 */
/* The arena of a workgroup: what is taken stays where it is while others take and release behind it. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "simt/simt_host.h"

#define SCRATCH_BYTES (40u * 1024) /* what is made with it; no more than that */

static int make_wg(void **state)
{
	*state = g4_wg_create_with(3, SCRATCH_BYTES);
	return *state ? 0 : -1;
}

static int drop_wg(void **state)
{
	g4_wg_destroy((struct g4_wg *)*state);
	return 0;
}

static bool holds(const uint8_t *at, uint8_t byte, uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes; i++)
		if (at[i] != byte)
			return false;
	return true;
}

static void what_is_taken_stays_while_others_take_behind_it(void **state)
{
	struct g4_wg *wg = (struct g4_wg *)*state;
	const uint32_t bottom = g4_scratch_mark(wg);
	uint8_t *first = (uint8_t *)g4_scratch_take(wg, 1000);

	memset(first, 0x11, 1000);
	for (uint32_t round = 0; round < 3; round++) {
		const uint32_t mark = g4_scratch_mark(wg);
		uint8_t *second = (uint8_t *)g4_scratch_take(wg, 100 + round),
			*third = (uint8_t *)g4_scratch_take(wg, 1);

		assert_true(second >= first + 1000);
		assert_true(third >= second + 100 + round);
		assert_int_equal((uintptr_t)second % 64, 0);
		assert_int_equal((uintptr_t)third % 64, 0);
		memset(second, 0x22, 100 + round);
		*third = 0x33;
		assert_true(holds(second, 0x22, 100 + round));
		g4_scratch_release(wg, mark);
		assert_int_equal(g4_scratch_mark(wg), mark);
	}
	assert_true(holds(first, 0x11, 1000));
	g4_scratch_release(wg, bottom);
	assert_ptr_equal(g4_scratch_take(wg, 64), first);
}

static void a_page_lies_at_a_multiple_of_its_size(void **state)
{
	struct g4_wg *wg = (struct g4_wg *)*state;

	for (uint32_t before = 0; before < 3; before++) {
		g4_scratch_release(wg, 0);
		if (before)
			g4_scratch_take(wg, before * 64);
		uint8_t *page = g4_scratch_take_page(wg);
		assert_int_equal((uintptr_t)page % G4_PAGE_BYTES, 0);
		memset(page, 0x44, G4_PAGE_BYTES);
		assert_true((uint8_t *)g4_scratch_take(wg, 64) >= page + G4_PAGE_BYTES);
	}
}

static void all_of_it_can_be_taken_and_no_more(void **state)
{
	struct g4_wg *wg = (struct g4_wg *)*state;
	int status;

	memset(g4_scratch_take(wg, SCRATCH_BYTES), 0x55, SCRATCH_BYTES);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		const struct rlimit no_core = {0, 0};
		setrlimit(RLIMIT_CORE, &no_core);
		signal(SIGILL, SIG_DFL); /* not cmocka's, which would wait for lanes that a child does not have */
		signal(SIGABRT, SIG_DFL);
		signal(SIGSEGV, SIG_DFL);
		g4_scratch_take(wg, 1);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

#if defined(G4_ASAN)
static void what_is_not_taken_must_not_be_touched(void **state)
{
	struct g4_wg *wg = (struct g4_wg *)*state;
	uint8_t *first = (uint8_t *)g4_scratch_take(wg, 128);
	const uint32_t mark = g4_scratch_mark(wg);
	uint8_t *second = (uint8_t *)g4_scratch_take(wg, 128);

	assert_false(__asan_address_is_poisoned(first));
	assert_false(__asan_address_is_poisoned(second + 127));
	assert_true(__asan_address_is_poisoned(second + 128));
	g4_scratch_release(wg, mark);
	assert_false(__asan_address_is_poisoned(first + 127));
	assert_true(__asan_address_is_poisoned(second));
}
#elif !defined(NDEBUG)
static void what_is_released_is_overwritten(void **state)
{
	struct g4_wg *wg = (struct g4_wg *)*state;
	uint8_t *memory = (uint8_t *)g4_scratch_take(wg, 128);

	assert_true(holds(memory, 0xdb, 128));
	memset(memory, 0, 128);
	g4_scratch_release(wg, 0);
	assert_true(holds(memory, 0xdb, 128));
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_taken_stays_while_others_take_behind_it, make_wg, drop_wg),
		cmocka_unit_test_setup_teardown(a_page_lies_at_a_multiple_of_its_size, make_wg, drop_wg),
		cmocka_unit_test_setup_teardown(all_of_it_can_be_taken_and_no_more, make_wg, drop_wg),
#if defined(G4_ASAN)
		cmocka_unit_test_setup_teardown(what_is_not_taken_must_not_be_touched, make_wg, drop_wg),
#elif !defined(NDEBUG)
		cmocka_unit_test_setup_teardown(what_is_released_is_overwritten, make_wg, drop_wg),
#endif
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
