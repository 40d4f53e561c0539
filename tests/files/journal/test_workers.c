/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A commit's work page by page: all pages are done once, by the committer alone or with help, and the first error is told. The log
 * is empty here, so that what is written behind its head counts for nobody.
 */
#include "files/files.h"

#include <pthread.h>

#include "journal/workers.h"

static uint32_t stop;

static void *help(void *argument)
{
	struct g4_wg *helper = g4_wg_create(1);
	uint64_t *times = (uint64_t *)argument;

	while (!g4_load32_acq(&stop)) {
		if (g4_commit_workers_help(helper, &fs->journal))
			g4_add64(times, 1);
		else
			g4_pause();
	}
	g4_wg_destroy(helper);
	return NULL;
}

/* Writes so many pages of the record to the log, and looks for them there. */
static void write_record(uint32_t pages, uint64_t seed)
{
	struct g4_journal *j = &fs->journal;

	rig_pattern(j->record, seed, (uint64_t)pages * G4_PAGE_BYTES);
	g4_lock(&j->commit_lock);
	assert_int_equal(g4_commit_workers_run(wg, j, G4_COMMIT_TASK_WRITE, j->running, pages), 0);
	g4_unlock(&j->commit_lock);
	for (uint32_t k = 0; k < pages; k++)
		assert_memory_equal(rig.image + g4_address_stored(g4_log_address(j, j->head_page + k)),
				    j->record + (uint64_t)k * G4_PAGE_BYTES, G4_PAGE_BYTES);
}

static void all_pages_are_done_alone(void **state)
{
	(void)state;
	assert_false(g4_commit_workers_help(wg, &fs->journal)); /* nothing is open */
	write_record(1, 1);
	write_record(7, 2);
	write_record(50, 3);
	assert_false(g4_commit_workers_call(&fs->journal));
}

static void all_pages_are_done_with_help(void **state)
{
	uint64_t helped = 0;
	pthread_t thread;

	(void)state;
	g4_store32_rel(&stop, 0);
	assert_int_equal(pthread_create(&thread, NULL, help, &helped), 0);
	for (uint64_t round = 0; round < 20 || g4_load64_rlx(&helped) == 0; round++)
		write_record(50, round);
	g4_store32_rel(&stop, 1);
	pthread_join(thread, NULL);
}

/* A page that can not be written, as one of few or many. */
static void an_error_is_told(void **state)
{
	struct g4_journal *j = &fs->journal;
	const struct g4_address area = j->area;

	(void)state;
	g4_lock(&j->commit_lock);
	j->area = g4_address_from(fs->meta.layout.size_bytes);
	assert_true(g4_commit_workers_run(wg, j, G4_COMMIT_TASK_WRITE, j->running, 3) < 0);
	assert_true(g4_commit_workers_run(wg, j, G4_COMMIT_TASK_WRITE, j->running, 50) < 0);
	j->area = area;
	assert_int_equal(g4_commit_workers_run(wg, j, G4_COMMIT_TASK_WRITE, j->running, 50), 0);
	g4_unlock(&j->commit_lock);
}

static void the_log_is_a_ring_of_pages(void **state)
{
	const struct g4_journal *j = &fs->journal;

	(void)state;
	assert_true(g4_address_is(g4_log_address(j, 0), g4_address_after_pages(j->area, 1)));
	assert_true(g4_address_is(g4_log_address(j, j->log_pages - 1), g4_address_after_pages(j->area, j->log_pages)));
	assert_true(g4_address_is(g4_log_address(j, j->log_pages), g4_log_address(j, 0)));
}

/* What a transaction frees is on no list behind its commit, however much that is. */
static void freed_pages_are_on_no_list(void **state)
{
	static const uint32_t counts[] = {5, 40, 700, 3000};
	struct g4_journal *j = &fs->journal;
	char name[32];

	(void)state;
	for (uint32_t t = 0; t < 4; t++) {
		for (uint32_t k = 0; k < counts[t]; k++) {
			snprintf(name, sizeof(name), "f%u", k);
			assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, name, G4_S_IFREG | 0644, NULL), 0);
		}
		assert_int_equal(g4_commit(wg, fs, UINT64_MAX, false), 0);
		for (uint32_t k = 0; k < counts[t]; k++) {
			snprintf(name, sizeof(name), "f%u", k);
			assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, name), 0);
		}
		assert_int_equal(g4_commit(wg, fs, UINT64_MAX, false), 0);
		assert_int_equal(j->logs[j->running & 1].line_count, 0);
		for (uint32_t k = 0; k < j->home_count; k++) {
			const uint32_t line = j->home_lines[k];
			assert_int_not_equal(line, G4_NO_LINE);
			assert_false(g4_meta_line(&fs->cache, line)->freed);
			assert_int_not_equal(g4_meta_line(&fs->cache, line)->home, 0);
			for (uint32_t other = 0; other < k; other++)
				assert_int_not_equal(j->home_lines[other], line);
		}
	}
	assert_int_equal(g4_commit(wg, fs, UINT64_MAX, true), 0);
	assert_int_equal(j->home_count, 0);
}

RUN_TESTS(fs_test(all_pages_are_done_alone), fs_test(all_pages_are_done_with_help), fs_test(an_error_is_told),
	  fs_test(the_log_is_a_ring_of_pages), fs_test(freed_pages_are_on_no_list))
