/* SPDX-License-Identifier: Apache-2.0 */
/* What a session keeps of files: what is found, what is old, where files end, and what threads that fill it see. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka needs its own four first */
#include <cmocka.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/pages.h"
#include "inode/trail.h"
#include "simt/simt.h"

#define INO 77u
#define GENERATION 3u
#define EPOCH 5u
#define PAGES 6u

static uint64_t epochs[G4_EPOCHS];
static struct g4c_pages *pages;
static uint8_t to[PAGES * G4_PAGE_BYTES];

static int setup(void **state)
{
	(void)state;
	memset(epochs, 0, sizeof(epochs));
	memset(to, 0xee, sizeof(to));
	pages = g4c_pages_new(epochs);
	return pages ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	g4c_pages_free(pages);
	return 0;
}

static struct g4c_page_run run_of(uint64_t first, uint32_t count)
{
	return (struct g4c_page_run){.ino = INO, .generation = GENERATION, .first = first, .count = count};
}

/* Pages from `first` on of which each byte is the page's number and `by`. How many there was room for. */
static uint32_t fill(uint64_t first, uint32_t count, uint64_t bytes, bool ends, uint8_t by)
{
	struct g4c_page_run run = run_of(first, count);
	uint8_t *memory = g4c_pages_room(pages, &run, 1, &run.count);

	assert_non_null(memory);
	for (uint32_t k = 0; k < run.count; k++)
		memset(memory + (size_t)k * G4_PAGE_BYTES, (int)((first + k + by) & 0xff), G4_PAGE_BYTES);
	g4c_pages_filled(pages, &run, g4_min64(bytes, (uint64_t)run.count * G4_PAGE_BYTES), ends, EPOCH, epochs[EPOCH]);
	return run.count;
}

#define NOT_KEPT INT64_MIN
static int64_t find_by(uint64_t offset, size_t bytes, g4c_deliver *deliver, bool *old)
{
	int64_t done = NOT_KEPT;

	return g4c_pages_find(pages, INO, GENERATION, offset, bytes, deliver, to, &done, old) ? done : NOT_KEPT;
}

static int64_t find(uint64_t offset, size_t bytes)
{
	bool old;

	return find_by(offset, bytes, NULL, &old);
}

static void what_is_kept_is_found(void **state)
{
	int64_t done;
	bool old;

	(void)state;
	assert_int_equal(find(0, 1), NOT_KEPT); /* before there is memory, too */
	assert_int_equal(fill(2, 3, 3 * G4_PAGE_BYTES, false, 0), 3);
	assert_int_equal(find(2 * G4_PAGE_BYTES + 4000, 5000), 5000);
	assert_int_equal(to[0], 2);
	assert_int_equal(to[95], 2);
	assert_int_equal(to[96], 3);
	assert_int_equal(to[4999], 4);
	assert_int_equal(to[5000], 0xee);
	assert_int_equal(find(G4_PAGE_BYTES, G4_PAGE_BYTES), NOT_KEPT);
	assert_int_equal(find(4 * G4_PAGE_BYTES + 1, G4_PAGE_BYTES), NOT_KEPT); /* a byte of it is not there */
	assert_false(g4c_pages_find(pages, INO + 1, GENERATION, 2 * G4_PAGE_BYTES, 1, NULL, to, &done, &old));
	assert_false(g4c_pages_find(pages, INO, GENERATION + 1, 2 * G4_PAGE_BYTES, 1, NULL, to, &done, &old));
}

static void change_makes_it_old(void **state)
{
	bool old;

	(void)state;
	fill(0, 2, 2 * G4_PAGE_BYTES, false, 0);
	assert_int_equal(find_by(0, 10, NULL, &old), 10);
	assert_false(old);
	epochs[EPOCH]++;
	assert_int_equal(find_by(0, 10, NULL, &old), NOT_KEPT);
	assert_true(old);
	fill(0, 1, G4_PAGE_BYTES, false, 9);
	assert_int_equal(find(0, 10), 10);
	assert_int_equal(to[0], 9);
	assert_int_equal(find_by(4000, 200, NULL, &old), NOT_KEPT); /* the second page is from before */
	assert_true(old);
}

/* Who was told a value before the change, and keeps what he read only then, keeps nothing that is found. */
static void what_was_read_before_a_change_is_old(void **state)
{
	struct g4c_page_run run = run_of(0, 1);
	const uint64_t before = g4c_pages_epoch(pages, EPOCH);

	(void)state;
	assert_non_null(g4c_pages_room(pages, &run, 1, &run.count));
	epochs[EPOCH]++;
	g4c_pages_filled(pages, &run, G4_PAGE_BYTES, false, EPOCH, before);
	assert_int_equal(find(0, 1), NOT_KEPT);
}

static void ends_are_known_where_somebody_said_so(void **state)
{
	(void)state;
	fill(0, 4, G4_PAGE_BYTES + 100, true, 0);
	assert_int_equal(find(G4_PAGE_BYTES, G4_PAGE_BYTES), 100);
	assert_int_equal(find(4000, 3 * G4_PAGE_BYTES), 196);
	assert_int_equal(find(G4_PAGE_BYTES + 100, 1), 0);
	assert_int_equal(find(G4_PAGE_BYTES + 4000, 1), 0);
	assert_int_equal(find(2 * G4_PAGE_BYTES, 1), NOT_KEPT);

	epochs[EPOCH]++;
	fill(0, 3, 2 * G4_PAGE_BYTES, true, 0); /* it ends with a page */
	assert_int_equal(find(G4_PAGE_BYTES + 4000, 200), 96);
	assert_int_equal(find(2 * G4_PAGE_BYTES, 10), 0);

	epochs[EPOCH]++;
	fill(0, 3, G4_PAGE_BYTES + 100, false, 0); /* short, but not the end */
	assert_int_equal(find(0, G4_PAGE_BYTES), G4_PAGE_BYTES);
	assert_int_equal(find(G4_PAGE_BYTES, 10), NOT_KEPT);
}

/* Wherever a file's place is, also at the table's end. */
static void pages_of_any_file_are_kept(void **state)
{
	(void)state;
	for (uint64_t generation = 0; generation < 3 * 4096; generation++) {
		struct g4c_page_run run = {.ino = INO, .generation = generation, .first = 0, .count = 2};
		uint8_t *memory = g4c_pages_room(pages, &run, 2, &run.count);
		int64_t done;
		bool old;

		assert_non_null(memory);
		memory[G4_PAGE_BYTES - 1] = (uint8_t)generation;
		memory[G4_PAGE_BYTES] = (uint8_t)(generation >> 8);
		g4c_pages_filled(pages, &run, (uint64_t)2 * G4_PAGE_BYTES, false, EPOCH, epochs[EPOCH]);
		assert_true(g4c_pages_find(pages, INO, generation, G4_PAGE_BYTES - 1, 2, NULL, to, &done, &old));
		assert_int_equal(done, 2);
		assert_int_equal(to[0], (uint8_t)generation);
		assert_int_equal(to[1], (uint8_t)(generation >> 8));
	}
}

static bool deliver_nothing(void *where, const void *from, size_t bytes)
{
	(void)where;
	(void)from;
	(void)bytes;
	return false;
}

static void bad_memory_is_a_fault(void **state)
{
	bool old;

	(void)state;
	fill(0, 1, G4_PAGE_BYTES, false, 0);
	assert_int_equal(find_by(0, 10, deliver_nothing, &old), -EFAULT);
	fill(1, 1, 0, true, 0);
	assert_int_equal(find_by(G4_PAGE_BYTES, 10, deliver_nothing, &old), 0); /* as read(2): nothing to put there */
}

static void room_is_for_one_at_a_time(void **state)
{
	struct g4c_page_run run = run_of(0, 4), other = run_of(2, 2);

	(void)state;
	assert_non_null(g4c_pages_room(pages, &run, 4, &run.count));
	assert_int_equal(run.count, 4);
	assert_null(g4c_pages_room(pages, &other, 1, &other.count));
	assert_int_equal(find(0, 1), NOT_KEPT);
	g4c_pages_filled(pages, &run, 0, false, 0, 0);
	assert_int_equal(find(0, 1), NOT_KEPT); /* nothing was read */
	fill(3, 1, G4_PAGE_BYTES, false, 0);
	assert_int_equal(fill(0, 4, 4 * G4_PAGE_BYTES, false, 0), 3); /* what lies ahead is there */
	assert_int_equal(find(0, 4 * G4_PAGE_BYTES), 4 * G4_PAGE_BYTES);
}

/* A child finds nothing of its parent's, has room also where a thread of that was filling, and the parent does not pay for it. */
static void a_child_of_a_fork_begins_with_nothing(void **state)
{
	struct g4c_page_run run = run_of(4, 2);
	int status;

	(void)state;
	fill(0, 2, 2 * G4_PAGE_BYTES, false, 0);
	assert_non_null(g4c_pages_room(pages, &run, 2, &run.count));
	const pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct g4c_page_run same = run_of(4, 2);

		const bool nothing = find(0, 1) == NOT_KEPT;
		const bool room = g4c_pages_room(pages, &same, 2, &same.count) != NULL;
		_exit((nothing ? 0 : 1) | (room ? 0 : 2));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	g4c_pages_filled(pages, &run, (uint64_t)2 * G4_PAGE_BYTES, false, EPOCH, epochs[EPOCH]);
	assert_int_equal(find(0, 1), 1);
	assert_int_equal(find(4 * G4_PAGE_BYTES, 1), 1);
}

#define ROUNDS 3000u
static uint32_t stopped;

/* A page's bytes are its epoch's value when it was filled. */
static void *filler(void *context)
{
	(void)context;
	for (uint32_t round = 0; round < ROUNDS; round++) {
		struct g4c_page_run run = run_of(0, 3);
		const uint64_t value = g4_add64(&epochs[EPOCH], 1) + 1;
		uint8_t *memory = g4c_pages_room(pages, &run, 1, &run.count);

		if (!memory)
			continue;
		memset(memory, (int)(value & 0xff), (size_t)run.count * G4_PAGE_BYTES);
		g4c_pages_filled(pages, &run, (uint64_t)run.count * G4_PAGE_BYTES, false, EPOCH, value);
	}
	g4_store32_rel(&stopped, 1);
	return NULL;
}

static void readers_see_one_fill(void **state)
{
	pthread_t thread;
	uint32_t found = 0;

	(void)state;
	g4_store32_rel(&stopped, 0);
	assert_int_equal(pthread_create(&thread, NULL, filler, NULL), 0);
	while (!g4_load32_acq(&stopped) || found == 0) {
		if (g4_load32_acq(&stopped))
			fill(0, 3, 3 * G4_PAGE_BYTES, false, 0); /* a slow reader finds something, too */
		const bool after = g4_load32_acq(&stopped) != 0;
		if (find(4000, 5000) != 5000)
			continue;
		found++;
		for (uint32_t k = 1; k < 5000 && !after; k++)
			assert_int_equal(to[k], to[0]);
	}
	pthread_join(thread, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_kept_is_found, setup, teardown),
		cmocka_unit_test_setup_teardown(change_makes_it_old, setup, teardown),
		cmocka_unit_test_setup_teardown(what_was_read_before_a_change_is_old, setup, teardown),
		cmocka_unit_test_setup_teardown(ends_are_known_where_somebody_said_so, setup, teardown),
		cmocka_unit_test_setup_teardown(pages_of_any_file_are_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(bad_memory_is_a_fault, setup, teardown),
		cmocka_unit_test_setup_teardown(room_is_for_one_at_a_time, setup, teardown),
		cmocka_unit_test_setup_teardown(a_child_of_a_fork_begins_with_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(readers_see_one_fill, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
