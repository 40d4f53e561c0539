/* SPDX-License-Identifier: Apache-2.0 */
/* Work in pieces that many threads share: each piece is done once, also while threads come and go and tasks follow each other. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "task/task.h"

#define HELPERS 3
#define MOST_PIECES 100u

static struct g4_task task;
static uint32_t times[MOST_PIECES]; /* each piece was done */
static uint64_t fails;		    /* bit k: piece k fails with code k + 1 */
static uint32_t over;

static bool help(uint32_t most)
{
	uint32_t first;
	const uint32_t count = g4_task_take(&task, most, &first);

	for (uint32_t k = first; count > 0 && k < first + count; k++) {
		g4_add32_rlx(&times[k], 1);
		if (k < 64 && (fails >> k & 1))
			g4_task_fail(&task, k, -(int)(k + 1));
	}
	if (count > 0)
		g4_task_done(&task, count);
	return count > 0;
}

static void *helper(void *number)
{
	while (!g4_load32_acq(&over))
		if (!help(1 + (uint32_t)(uintptr_t)number))
			g4_pause();
	return NULL;
}

/* As an owner: opens a task, takes part in it, waits. */
static int run(uint32_t pieces, uint64_t which_fail, uint64_t *position)
{
	memset(times, 0, sizeof(times));
	fails = which_fail;
	g4_task_open(&task, pieces);
	while (help(1))
		;
	return g4_task_wait(&task, position);
}

static void check_times(uint32_t pieces)
{
	for (uint32_t k = 0; k < MOST_PIECES; k++)
		assert_int_equal(times[k], k < pieces);
}

static void the_owner_alone_does_all_pieces(void **state)
{
	uint64_t position = 7;

	(void)state;
	assert_false(g4_task_is_open(&task));
	assert_int_equal(run(1, 0, &position), 0);
	check_times(1);
	assert_int_equal(run(MOST_PIECES, 0, &position), 0);
	check_times(MOST_PIECES);
	assert_false(g4_task_is_open(&task));
	assert_false(help(4)); /* nothing is left to take, and asking does no harm */
	assert_int_equal(position, 7);
}

static void the_failure_with_the_lowest_position_counts(void **state)
{
	uint64_t position = 0;

	(void)state;
	assert_int_equal(run(50, UINT64_C(1) << 40 | UINT64_C(1) << 12, &position), -13);
	assert_int_equal(position, 12);
	assert_true(g4_task_failed_before(&task, 12));
	assert_true(g4_task_failed_before(&task, 13));
	assert_false(g4_task_failed_before(&task, 11));
	assert_int_equal(run(50, 0, &position), 0); /* and is forgotten */
	assert_false(g4_task_failed_before(&task, 40));
	g4_task_open(&task, 1);
	g4_task_fail(&task, 9, -2);
	g4_task_fail(&task, 5, -3);
	g4_task_fail(&task, 6, -4);
	while (help(1))
		;
	assert_int_equal(g4_task_wait(&task, &position), -3);
	assert_int_equal(position, 5);
}

/* Helpers that come late for one task may take pieces of the next one. */
static void every_piece_of_many_tasks_is_done_once(void **state)
{
	pthread_t threads[HELPERS];
	uint64_t position = 0;

	(void)state;
	over = 0;
	for (uintptr_t i = 0; i < HELPERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, helper, (void *)i), 0);
	for (uint32_t round = 0; round < 20000; round++) {
		const uint32_t pieces = 1 + round % MOST_PIECES;
		const uint32_t bad = round % 64;
		const bool fail = round % 3 == 0 && bad < pieces;

		assert_int_equal(run(pieces, fail ? UINT64_C(1) << bad : 0, &position), fail ? -(int)(bad + 1) : 0);
		check_times(pieces);
		if (fail)
			assert_int_equal(position, bad);
	}
	g4_store32_rel(&over, 1);
	for (uint32_t i = 0; i < HELPERS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_owner_alone_does_all_pieces),
		cmocka_unit_test(the_failure_with_the_lowest_position_counts),
		cmocka_unit_test(every_piece_of_many_tasks_is_done_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
