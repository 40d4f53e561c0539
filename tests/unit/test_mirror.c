/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a mirror: what is found, what is old, and what threads that write it see. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka needs its own four first */
#include <cmocka.h>
#include <pthread.h>

#include "client/mirror.h"
#include "inode/epoch.h"
#include "simt/simt.h"

static uint64_t epochs[G4_EPOCHS];
static struct g4c_mirror *mirror;

static int setup(void **state)
{
	(void)state;
	memset(epochs, 0, sizeof(epochs));
	mirror = g4c_mirror_new(epochs, G4C_MIRROR_ENTRIES);
	return mirror ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	g4c_mirror_free(mirror);
	return 0;
}

static struct g4c_question about(const char *path)
{
	return (struct g4c_question){
		.start = 1, .asks = G4C_ASKS_PATH, .path = path, .path_bytes = (uint16_t)strlen(path)};
}

/* As the engine makes it, of epochs first, first + 1, ... */
static struct g4_trail trail_of(uint16_t first, uint32_t count)
{
	struct g4_trail trail;

	g4_trail_begin(&trail);
	for (uint32_t k = 0; k < count; k++)
		g4_trail_add(&trail, (uint16_t)(first + k), epochs[first + k]);
	return trail;
}

static void put(const char *path, int status, uint64_t ino, struct g4_trail trail)
{
	const struct g4c_question question = about(path);
	const struct g4_attr attr = {.ino = ino, .token = ~ino};

	g4c_mirror_put(mirror, &question, status, status ? NULL : &attr, &trail);
}

/* The inode number, 0: not known, or the status. */
static int64_t find(const struct g4c_question *question)
{
	struct g4_attr attr = {0};
	int status;

	if (!g4c_mirror_find(mirror, question, &status, &attr, NULL))
		return 0;
	if (status == 0)
		assert_int_equal(attr.token, ~attr.ino);
	return status ? status : (int64_t)attr.ino;
}

static int64_t find_path(const char *path)
{
	const struct g4c_question question = about(path);

	return find(&question);
}

static void an_answer_is_found_by_all_of_its_question(void **state)
{
	struct g4c_question question = about("a/b");

	(void)state;
	put("a/b", 0, 7, trail_of(1, 3));
	assert_int_equal(find(&question), 7);
	assert_int_equal(find_path("a/c"), 0);
	assert_int_equal(find_path("a/"), 0);
	assert_int_equal(find_path("a/b/c/d/e"), 0);
	question.start = 2;
	assert_int_equal(find(&question), 0);
	question.start = 1;
	question.generation = 1;
	assert_int_equal(find(&question), 0);
	question.generation = 0;
	question.asks = G4C_ASKS_PATH | 1 << G4C_ASKS_FLAGS_SHIFT;
	assert_int_equal(find(&question), 0);
	put("a/b", -2, 0, trail_of(1, 3));
	assert_int_equal(find_path("a/b"), -2);
}

/* Paths of all lengths that differ in one byte, of any place: what was put last of so few is found, nearly all of it. */
static void paths_that_are_nearly_alike_have_places_of_their_own(void **state)
{
	(void)state;
	for (uint32_t bytes = 1; bytes <= 24; bytes++) {
		char path[32] = "aaaaaaaaaaaaaaaaaaaaaaaa";
		uint32_t found = 0;

		path[bytes] = 0;
		for (uint32_t at = 0; at < bytes; at++) {
			for (char c = 'a'; c <= 'z'; c++) {
				path[at] = c;
				put(path, 0, 7, trail_of(1, 1));
			}
			for (char c = 'a'; c <= 'z'; c++) {
				path[at] = c;
				found += find_path(path) == 7;
			}
			path[at] = 'a';
		}
		assert_in_range(found, 25 * bytes, 26 * bytes);
	}
}

static void each_epoch_of_the_trail_makes_it_old(void **state)
{
	(void)state;
	for (uint16_t k = 0; k < G4_TRAIL_PLACES; k++) {
		put("path", 0, 5, trail_of(100, G4_TRAIL_PLACES));
		assert_int_equal(find_path("path"), 5);
		epochs[99]++;
		epochs[100 + G4_TRAIL_PLACES]++;
		assert_int_equal(find_path("path"), 5);
		epochs[100 + k]++;
		assert_int_equal(find_path("path"), 0);
	}
}

static void what_changed_on_its_way_is_not_kept(void **state)
{
	(void)state;
	for (uint16_t k = 0; k < 4; k++) {
		const struct g4_trail trail = trail_of(200, 4);
		epochs[200 + k]++;
		put("path", 0, 5, trail);
		assert_int_equal(find_path("path"), 0);
	}
	/* also where one has grown by what another one lacks */
	struct g4_trail trail = trail_of(200, 2);
	epochs[200]++;
	epochs[201]--;
	put("path", 0, 5, trail);
	assert_int_equal(find_path("path"), 0);
}

static void trails_that_say_nothing_are_not_kept(void **state)
{
	struct g4_trail trail;
	char path[1024];

	(void)state;
	put("none", 0, 5, trail_of(1, 0));
	assert_int_equal(find_path("none"), 0);
	trail = trail_of(1, G4_TRAIL_PLACES + 1);
	assert_false(g4_trail_is_good(&trail));
	put("long way", 0, 5, trail);
	assert_int_equal(find_path("long way"), 0);
	memset(path, 'x', sizeof(path));
	for (uint32_t bytes = 1; bytes < sizeof(path); bytes++) {
		path[bytes] = 0;
		put(path, 0, bytes, trail_of(1, 1));
		const int64_t found = find_path(path);
		assert_true(found == bytes || (bytes > 200 && found == 0));
		path[bytes] = 'x';
	}
}

/* The table is small: what does not fit is lost, and nothing is taken for another one. */
static void many_answers_push_others_out(void **state)
{
	uint32_t found = 0;
	char path[32];

	(void)state;
	for (uint32_t k = 1; k <= 20000; k++) {
		snprintf(path, sizeof(path), "directory/%u", k);
		put(path, 0, k, trail_of(1, 2));
		assert_int_equal(find_path(path), k);
	}
	for (uint32_t k = 1; k <= 20000; k++) {
		snprintf(path, sizeof(path), "directory/%u", k);
		const int64_t ino = find_path(path);
		assert_true(ino == 0 || ino == k);
		found += ino == k;
	}
	assert_in_range(found, 2000, 4096);
}

/* ------------------------------------------------------------------ threads */

#define THREADS 3u
#define TIMES 20000u
#define PLACES 4u /* paths, which threads write at once */

static uint64_t truth
	[PLACES]; /* grows before its epoch does, and what is told is never older than the last one that was seen */

static void *work(void *argument)
{
	uint64_t random = (uint64_t)(uintptr_t)argument, failures = 0;

	for (uint32_t k = 0; k < TIMES; k++) {
		random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
		const uint32_t place = (uint32_t)(random >> 40) % PLACES;
		char path[16] = "file 0";
		path[5] = (char)('0' + place);
		const struct g4c_question question = about(path);
		if ((random >> 50) % 8 == 0) { /* a change: who sees it sees the epoch, too */
			g4_add64(&epochs[place], 1);
			g4_add64(&truth[place], 1);
			continue;
		}
		struct g4_attr attr = {0};
		int status;
		const uint64_t least = g4_load64_acq(&truth[place]);
		if (g4c_mirror_find(mirror, &question, &status, &attr, NULL)) {
			failures += attr.token != ~attr.ino || status != 0 || attr.ino - 1 < least;
			continue;
		}
		struct g4_trail trail;
		g4_trail_begin(&trail);
		/* an epoch that is ahead of the truth is of a change that is not done: then there is no trail */
		const uint64_t epoch = g4_load64_acq(&epochs[place]);
		const uint64_t value = g4_load64_acq(&truth[place]);
		g4_trail_add(&trail, (uint16_t)place, epoch);
		attr.ino = value + 1;
		attr.token = ~attr.ino;
		if (value >= epoch)
			g4c_mirror_put(mirror, &question, 0, &attr, &trail);
	}
	return (void *)(uintptr_t)failures;
}

static void threads_see_whole_answers_and_no_old_ones(void **state)
{
	pthread_t threads[THREADS];
	void *failures;

	(void)state;
	memset(truth, 0, sizeof(truth));
	for (uintptr_t t = 0; t < THREADS; t++)
		assert_int_equal(pthread_create(&threads[t], NULL, work, (void *)(t + 1)), 0);
	for (uint32_t t = 0; t < THREADS; t++) {
		assert_int_equal(pthread_join(threads[t], &failures), 0);
		assert_null(failures);
	}
}

/*
 * Counters in one memory that clients read in another one: what an engine told while somebody was between an addition and its store is
 * not kept, for that store may arrive behind that of a later addition, and show clients a value again.
 */
static void an_addition_that_is_not_stored_yet_loses_the_trail(void **state)
{
	enum { EPOCH = 7 };
	static struct g4_fs fs;
	static uint64_t counters[2 * G4_EPOCHS];
	struct g4_inode_core inode = {.epoch = EPOCH};
	struct g4_trail trail;

	(void)state;
	fs.epochs = (uint64_t)(uintptr_t)counters;
	fs.epochs_shown = epochs;
	g4_epoch_advance(&fs, &inode);
	assert_int_equal(epochs[EPOCH], 1);
	g4_trail_begin(&trail);
	g4_trail_note(&fs, &trail, &inode);
	assert_true(g4_trail_is_good(&trail));
	put("path", 0, 5, trail);
	assert_int_equal(find_path("path"), 5);

	counters[EPOCH]++; /* by one who is interrupted then */
	g4_trail_begin(&trail);
	g4_trail_note(&fs, &trail, &inode);
	assert_false(g4_trail_is_good(&trail));
	g4_epoch_advance(&fs, &inode); /* by another one */
	assert_int_equal(epochs[EPOCH], 3);
	assert_int_equal(find_path("path"), 0);
	g4_trail_begin(&trail);
	g4_trail_note(&fs, &trail, &inode);
	assert_int_equal(trail.count, G4_TRAIL_LOST);
	g4_trail_note(&fs, &trail, &inode); /* for good */
	assert_int_equal(trail.count, G4_TRAIL_LOST);

	epochs[EPOCH] = 2; /* the first one goes on */
	counters[G4_EPOCHS + EPOCH]++;
	g4_trail_begin(&trail);
	g4_trail_note(&fs, &trail, &inode);
	assert_true(g4_trail_is_good(&trail));
	put("path", 0, 6, trail); /* clients do not see the value that the engine has */
	assert_int_equal(find_path("path"), 0);
	g4_epoch_advance(&fs, &inode);
	g4_trail_begin(&trail);
	g4_trail_note(&fs, &trail, &inode);
	put("path", 0, 8, trail);
	assert_int_equal(find_path("path"), 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_answer_is_found_by_all_of_its_question, setup, teardown),
		cmocka_unit_test_setup_teardown(paths_that_are_nearly_alike_have_places_of_their_own, setup, teardown),
		cmocka_unit_test_setup_teardown(each_epoch_of_the_trail_makes_it_old, setup, teardown),
		cmocka_unit_test_setup_teardown(what_changed_on_its_way_is_not_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(trails_that_say_nothing_are_not_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(an_addition_that_is_not_stored_yet_loses_the_trail, setup, teardown),
		cmocka_unit_test_setup_teardown(many_answers_push_others_out, setup, teardown),
		cmocka_unit_test_setup_teardown(threads_see_whole_answers_and_no_old_ones, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
