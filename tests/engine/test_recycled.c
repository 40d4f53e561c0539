/* SPDX-License-Identifier: Apache-2.0 */
/* What recycled.c hands out again is zeroed, or has what its file has, and can not be touched before. */
#include "rig.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory_host.h"
#include "recycled.h"

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

static bool is_untouchable(const volatile uint8_t *byte)
{
	int status;

	const pid_t child = fork();
	if (child == 0) {
		signal(SIGSEGV, SIG_DFL);
		_exit(*byte & 0);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true((WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) ||
		    (WIFEXITED(status) && WEXITSTATUS(status) == 0));
	return WIFSIGNALED(status);
}

static void expect_untouchable(const volatile uint8_t *memory)
{
	assert_true(is_untouchable(memory));
}

static void what_was_given_back_can_not_be_touched(void **state)
{
	volatile uint8_t *memory = (volatile uint8_t *)g4_memory_map(BYTES);

	(void)state;
	assert_non_null(memory);
	memory[0] = 1;
	g4_memory_unmap((void *)(uintptr_t)memory, BYTES);
	expect_untouchable(memory);
}

/* Of all of a file. */
static volatile uint8_t *map_file(int fd, int protection)
{
	void *memory = mmap(NULL, BYTES, protection, MAP_SHARED, fd, 0);

	assert_true(memory != MAP_FAILED);
	return (volatile uint8_t *)memory;
}

static void unmap_file(volatile uint8_t *memory)
{
	assert_int_equal(munmap((void *)(uintptr_t)memory, BYTES), 0);
}

static int make_file(void)
{
	const int fd = memfd_create("gpu4fs-test", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_return_code(ftruncate(fd, BYTES), 0);
	return fd;
}

static void a_mapping_is_kept_while_its_file_has_another(void **state)
{
	const int fd = make_file(), other = make_file();
	volatile uint8_t *all_the_while = map_file(fd, PROT_READ | PROT_WRITE),
			 *first = map_file(fd, PROT_READ | PROT_WRITE);

	(void)state;
	assert_ptr_not_equal(first, all_the_while); /* it is in use */
	first[BYTES / 2] = 7;
	unmap_file(first);
	expect_untouchable(first);
	assert_int_equal(all_the_while[BYTES / 2], 7);
	all_the_while[BYTES / 2] = 8;
	volatile uint8_t *elsewhere = map_file(other, PROT_READ | PROT_WRITE), *reader = map_file(fd, PROT_READ);
	assert_ptr_not_equal(elsewhere, first);
	assert_ptr_not_equal(reader, first);
	assert_int_equal(elsewhere[BYTES / 2], 0);
	assert_int_equal(reader[BYTES / 2], 8);
	volatile uint8_t *again = map_file(fd, PROT_READ | PROT_WRITE);
	assert_ptr_equal(again, first);
	assert_int_equal(again[BYTES / 2], 8);
	again[0] = 9;
	assert_int_equal(reader[0], 9);
	unmap_file(again);
	unmap_file(reader);
	unmap_file(all_the_while);
	for (volatile uint8_t *gone = again; gone; gone = gone == again ? reader : NULL)
		assert_true(msync((void *)(uintptr_t)gone, BYTES, MS_ASYNC) != 0); /* nothing is mapped there */
	unmap_file(elsewhere);
	close(fd);
	close(other);
}

static void sanitizers_guard_a_mapping_as_a_whole_now_and_then(void **state)
{
#if defined(G4_ASAN) || defined(G4_TSAN)
	const uint32_t wanted = 1;
#else
	const uint32_t wanted = 0;
#endif
	const int fd = make_file();
	volatile uint8_t *all_the_while = map_file(fd, PROT_READ);
	uint32_t whole = 0;

	(void)state;
	for (uint32_t k = 0; k < RECYCLED_WHOLE_EVERY; k++) {
		volatile uint8_t *memory = map_file(fd, PROT_READ | PROT_WRITE);

		memory[BYTES - 1] = (uint8_t)k; /* all of it can be touched again */
		memory[0] = (uint8_t)k;
		unmap_file(memory);
		expect_untouchable(memory);
		whole += is_untouchable(memory + BYTES - 1);
	}
	assert_int_equal(whole, wanted);
	unmap_file(all_the_while);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_is_zeroed_whoever_had_it),
		cmocka_unit_test(what_was_given_back_can_not_be_touched),
		cmocka_unit_test(a_mapping_is_kept_while_its_file_has_another),
		cmocka_unit_test(sanitizers_guard_a_mapping_as_a_whole_now_and_then),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
