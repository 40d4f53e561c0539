/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of memory are known while they are there, and who watches is told before one goes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka needs its own four first */
#include <cmocka.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory_host.h"

#define PIECES 40u

static void *gone;
static uint64_t gone_bytes;
static uint32_t told;

static void goes(void *context, void *memory, uint64_t bytes)
{
	assert_ptr_equal(context, &told);
	*(volatile uint8_t *)memory = 1; /* it is there still */
	gone = memory;
	gone_bytes = bytes;
	told++;
}

static void a_piece_is_known_as_long_as_it_is_there(void **state)
{
	uint8_t *pieces[PIECES];
	uint64_t bytes;
	void *found;

	(void)state;
	for (uint32_t i = 0; i < PIECES; i++) {
		pieces[i] = g4_memory_map(i % 2 ? 3 * G4_MIB : 5000);
		assert_non_null(pieces[i]);
	}
	for (uint32_t i = 0; i < PIECES; i += 3)
		g4_memory_unmap(pieces[i], i % 2 ? 3 * G4_MIB : 5000);
	for (uint32_t i = 0; i < PIECES; i++) {
		if (i % 3 == 0)
			continue;
		assert_true(g4_memory_find(pieces[i] + 4999, &found, &bytes));
		assert_ptr_equal(found, pieces[i]);
		assert_int_equal(bytes, i % 2 ? 4 * G4_MIB : 8192); /* whole pages */
		g4_memory_unmap(pieces[i], i % 2 ? 3 * G4_MIB : 5000);
	}
	assert_false(g4_memory_find(&found, &found, &bytes));
}

static void watchers_hear_of_what_goes_until_they_leave(void **state)
{
	struct g4_memory_watcher one = {.goes = goes, .context = &told}, other = one, never = one;
	void *piece = g4_memory_map(100), *later = g4_memory_map(3 * G4_MIB);

	(void)state;
	g4_memory_watch(&one);
	g4_memory_watch(&other);
	g4_memory_unwatch(&never);
	g4_memory_unmap(piece, 100);
	assert_int_equal(told, 2);
	assert_ptr_equal(gone, piece);
	assert_int_equal(gone_bytes, 4096);
	g4_memory_unwatch(&one);
	g4_memory_unmap(later, 3 * G4_MIB);
	assert_int_equal(told, 3);
	assert_int_equal(gone_bytes, 4 * G4_MIB);
	g4_memory_unwatch(&other);
	g4_memory_unmap(g4_memory_map(100), 100);
	assert_int_equal(told, 3);
	g4_memory_unmap(NULL, 100);
}

#ifdef MADV_POPULATE_READ
#define POPULATED_BYTES (200 * G4_MIB)

/* How many pages of a mapping are in this process's page table. */
static uint64_t pages_mapped(const uint8_t *memory, uint64_t bytes)
{
	const uint64_t present = UINT64_C(1) << 63;
	const int fd = open("/proc/self/pagemap", O_RDONLY);
	uint64_t words[512], count = 0;

	assert_true(fd >= 0);
	for (uint64_t page = 0; page < bytes / 4096; page += 512) {
		const off_t at = (off_t)(((uintptr_t)memory / 4096 + page) * sizeof(words[0]));

		assert_int_equal(pread(fd, words, sizeof(words), at), sizeof(words));
		for (uint32_t k = 0; k < 512; k++)
			count += (words[k] & present) != 0;
	}
	close(fd);
	return count;
}

/* What a file in memory has and has not is there afterwards, as it was. */
static void a_populated_mapping_has_all_pages_of_its_file(void **state)
{
	int fd;
	void *memory;

	(void)state;
	assert_int_equal(g4_memory_share("test", POPULATED_BYTES, false, &fd, &memory), 0);
	memset(memory, 3, POPULATED_BYTES / 2);
	munmap(memory, POPULATED_BYTES);
	uint8_t *again = (uint8_t *)mmap(NULL, POPULATED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(again, MAP_FAILED);
	if (madvise(again, 4096, MADV_POPULATE_READ) != 0)
		skip(); /* the kernel is older than the C library */
	g4_memory_populate(again, POPULATED_BYTES);
	assert_int_equal(pages_mapped(again, POPULATED_BYTES), POPULATED_BYTES / 4096);
	for (uint64_t at = 0; at < POPULATED_BYTES; at += 4096)
		if (again[at] != (at < POPULATED_BYTES / 2 ? 3 : 0))
			fail_msg("byte %lu is %u", (unsigned long)at, again[at]);
	munmap(again, POPULATED_BYTES);
	close(fd);
	g4_memory_populate(NULL, 0);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_piece_is_known_as_long_as_it_is_there),
		cmocka_unit_test(watchers_hear_of_what_goes_until_they_leave),
#ifdef MADV_POPULATE_READ
		cmocka_unit_test(a_populated_mapping_has_all_pages_of_its_file),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
