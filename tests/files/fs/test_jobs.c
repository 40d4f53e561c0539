/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry of background jobs: one of a kind at a time, steps when one is due and nobody pauses it, orders that hold over a crash, and
 * records that are bounded and told. (What a scrub's steps do: engine/test_scrub.c.)
 */
#include "files/files.h"

static struct g4_health health;

static const struct g4_job_record *last(void)
{
	return rig_last_job(&rig, &health);
}

static int start(uint64_t rate)
{
	return op_job_start(&rig, G4_JOB_SCRUB, 0, rate);
}

/* Something to do for several steps. */
static void make_work(void)
{
	uint8_t *data = rig_memory(2 * G4_MIB, 1);
	char name[8];

	for (uint32_t i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "w%u", i);
		rig_make_file(&rig, name, 0, data, 2 * G4_MIB);
	}
	assert_int_equal(op_sync(&rig), 0);
	free(data);
}

static void step(uint32_t count)
{
	while (count-- > 0)
		assert_int_equal(g4_jobs_serve(wg, fs, true), 0);
}

/* The power goes. */
static void crash(void)
{
	rig_unmount_fs(&rig, wg, fs, false);
	fs = rig.fs = rig_mount_fs(&rig, wg, NULL);
}

static void what_is_started_runs_to_its_end(void **state)
{
	(void)state;
	make_work();
	assert_int_equal(g4_jobs_serve(wg, fs, true), UINT64_MAX); /* there is none */
	const uint32_t changed = g4_load32_acq(&fs->jobs.changed);
	assert_int_equal(start(0), 0);
	assert_int_not_equal(g4_load32_acq(&fs->jobs.changed), changed);
	while (last()->state == G4_JOB_RUNNING)
		step(1);
	assert_int_equal(last()->state, G4_JOB_DONE);
	assert_int_equal(last()->errors, 0);
	assert_true(last()->bytes >= 8 * G4_MIB);
	assert_int_equal(g4_jobs_serve(wg, fs, true), UINT64_MAX);
}

static void orders_are_obeyed_and_hold_over_a_crash(void **state)
{
	(void)state;
	make_work();
	assert_int_equal(start(0), 0);
	assert_int_equal(start(0), -G4_E_BUSY);
	step(2);
	const uint64_t number = last()->number, done = last()->done;
	assert_int_equal(op_job_set(&rig, number, G4_JOB_PAUSE, 0), 0);
	assert_int_equal(g4_jobs_serve(wg, fs, true), UINT64_MAX);
	crash();
	assert_int_equal(last()->state, G4_JOB_PAUSED);
	assert_int_equal(last()->done, done);
	assert_int_equal(g4_jobs_serve(wg, fs, true), UINT64_MAX);
	assert_int_equal(op_job_set(&rig, number, G4_JOB_RESUME, 0), 0);
	step(1);
	assert_true(last()->done > done);
	assert_int_equal(op_job_set(&rig, number, G4_JOB_CANCEL, 0), 0);
	assert_int_equal(last()->state, G4_JOB_CANCELLED);
	assert_int_equal(g4_jobs_serve(wg, fs, true), UINT64_MAX);
	assert_int_equal(op_job_set(&rig, number, G4_JOB_RESUME, 0), -G4_E_INVAL);
	assert_int_equal(op_job_set(&rig, number + 7, G4_JOB_PAUSE, 0), -G4_E_NOENT);
}

static void what_is_no_order_is_refused(void **state)
{
	struct g4_cmd list = {.op = G4_CMD_JOB_LIST, .data = &health, .length = sizeof(health) - 1};

	(void)state;
	assert_int_equal(op_job_start(&rig, G4_JOB_NONE, 0, 0), -G4_E_INVAL);
	assert_int_equal(op_job_start(&rig, G4_JOB_KINDS, 0, 0), -G4_E_INVAL);
	assert_int_equal(op_job_start(&rig, G4_JOB_SCRUB, ~G4_JOB_FLAGS, 0), -G4_E_INVAL);
	assert_int_equal(g4_execute(wg, fs, &list), -G4_E_INVAL);
	assert_int_equal(start(0), 0);
	assert_int_equal(op_job_set(&rig, last()->number, 0, 0), -G4_E_INVAL);
	assert_int_equal(op_job_set(&rig, last()->number, UINT32_MAX, 0), -G4_E_INVAL);
	assert_int_equal(last()->state, G4_JOB_RUNNING);
}

/* A step's bytes are paid for; a limit that is lifted is no longer waited for. */
static void a_limit_is_kept(void **state)
{
	(void)state;
	make_work();
	assert_int_equal(start(4096), 0);
	uint64_t wait = 0;
	while (wait == 0) /* the first steps may be of little */
		wait = g4_jobs_serve(wg, fs, true);
	assert_true(wait > UINT64_C(1000000) && wait != UINT64_MAX);
	assert_int_equal(last()->rate, 4096);
	assert_int_equal(op_job_set(&rig, last()->number, G4_JOB_LIMIT, 0), 0);
	step(1);
}

static void no_step_is_done_where_nothing_may_change(void **state)
{
	(void)state;
	assert_int_equal(start(0), 0);
	fs->flags |= G4_FS_READ_ONLY;
	assert_int_equal(g4_jobs_serve(wg, fs, true), UINT64_MAX);
	assert_int_equal(g4_fs_state(fs), 1);
	fs->flags &= ~G4_FS_READ_ONLY;
	g4_store32_rel(&fs->journal.aborted, G4_E_IO);
	assert_int_equal(g4_jobs_serve(wg, fs, true), UINT64_MAX);
	assert_int_equal(g4_fs_state(fs), 2);
	g4_store32_rel(&fs->journal.aborted, 0);
	step(1);
}

/* The oldest that is over makes way; numbers go on. */
static void records_are_bounded_and_numbers_are_not(void **state)
{
	(void)state;
	for (uint64_t n = 1; n <= 2 * G4_JOBS + 1; n++) {
		assert_int_equal(start(0), 0);
		assert_int_equal(last()->number, n);
		assert_int_equal(op_job_set(&rig, n, G4_JOB_CANCEL, 0), 0);
	}
	last();
	for (uint32_t i = 0; i < G4_JOBS; i++)
		assert_true(health.jobs[i].number > G4_JOBS + 1);
	crash();
	assert_int_equal(last()->number, 2 * G4_JOBS + 1);
	assert_int_equal(start(0), 0);
	assert_int_equal(last()->number, 2 * G4_JOBS + 2);
}

/* Nothing is written where nothing has changed. */
static void a_log_of_the_same_changes_nothing(void **state)
{
	(void)state;
	assert_int_equal(start(0), 0);
	const uint64_t commits = fs->journal.commits;
	assert_int_equal(g4_jobs_log(wg, fs), 0);
	assert_int_equal(g4_commit(wg, fs, UINT64_MAX, false), 0);
	assert_int_equal(fs->journal.commits, commits);
}

RUN_TESTS(fs_test(what_is_started_runs_to_its_end), fs_test(orders_are_obeyed_and_hold_over_a_crash),
	  fs_test(what_is_no_order_is_refused), fs_test(a_limit_is_kept),
	  fs_test(no_step_is_done_where_nothing_may_change), fs_test(records_are_bounded_and_numbers_are_not),
	  fs_test(a_log_of_the_same_changes_nothing))
