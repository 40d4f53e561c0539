/* SPDX-License-Identifier: Apache-2.0 */
/* What members of a team share: each job is taken once, and all end when none can come any more, or when one stops. */
#include "files/fsck/checked.h"

#include "files/files.h"

#include <pthread.h>

#include "fsck/team.h"

#define MEMBERS 3u
#define JOBS 500u

static struct g4_fsck_team team;
static struct g4_fsck members[MEMBERS];
static uint32_t taken[JOBS];

static int begin(void **state)
{
	(void)state;
	memset(&team, 0, sizeof(team));
	memset(members, 0, sizeof(members));
	memset(taken, 0, sizeof(taken));
	team.first = &members[0];
	team.members = MEMBERS;
	pthread_mutex_init(&team.lock, NULL);
	pthread_cond_init(&team.wake, NULL);
	for (uint32_t k = 0; k < MEMBERS; k++)
		members[k].team = &team;
	return 0;
}

static int end(void **state)
{
	(void)state;
	free(team.jobs);
	pthread_cond_destroy(&team.wake);
	pthread_mutex_destroy(&team.lock);
	return 0;
}

/* A job for directory n hands out those for 2n and 2n + 1. */
static void *work(void *of)
{
	struct g4_fsck *fsck = (struct g4_fsck *)of;
	struct g4_fsck_job job;

	while (g4_fsck_take_job(&team, &job)) {
		__atomic_fetch_add(&taken[job.dir], 1, __ATOMIC_RELAXED);
		for (uint64_t n = 2 * job.dir; n < 2 * job.dir + 2 && n < JOBS; n++)
			g4_fsck_hand_out(fsck, n, NULL, 0);
	}
	return NULL;
}

static void every_job_is_taken_once(void **state)
{
	pthread_t threads[MEMBERS];

	(void)state;
	g4_fsck_hand_out(&members[0], 1, NULL, 0);
	for (uint32_t k = 0; k < MEMBERS; k++)
		assert_int_equal(pthread_create(&threads[k], NULL, work, &members[k]), 0);
	for (uint32_t k = 0; k < MEMBERS; k++)
		pthread_join(threads[k], NULL);
	for (uint32_t n = 1; n < JOBS; n++)
		assert_int_equal(taken[n], 1);
}

static void entries_are_copied(void **state)
{
	struct g4_fsck_entry entries[2] = {{.ino = 5}, {.ino = 6}};
	struct g4_fsck_job job;

	(void)state;
	g4_fsck_hand_out(&members[1], 9, entries, 2);
	entries[1].ino = 0;
	assert_true(g4_fsck_take_job(&team, &job));
	assert_int_equal(job.count, 2);
	assert_int_equal(job.entries[1].ino, 6);
	free(job.entries);
}

static void nobody_works_when_one_has_stopped(void **state)
{
	struct g4_fsck_job job;

	(void)state;
	g4_fsck_hand_out(&members[0], 1, NULL, 0);
	g4_fsck_stop_team(&members[2]);
	assert_int_not_equal(members[2].fatal, 0);
	assert_false(g4_fsck_take_job(&team, &job));
	assert_ptr_equal(g4_fsck_lock_links(&members[1]), &members[0].links);
	g4_fsck_unlock_links(&members[1]);
}

RUN_TESTS(cmocka_unit_test_setup_teardown(every_job_is_taken_once, begin, end),
	  cmocka_unit_test_setup_teardown(entries_are_copied, begin, end),
	  cmocka_unit_test_setup_teardown(nobody_works_when_one_has_stopped, begin, end))
