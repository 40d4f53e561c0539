/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A clock that jumps: store_now() and the host's name are the test's (--wrap). Nothing may be lost, and no lock may be taken for a dead one's.
 * Of store/lock.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"
#include "store/backend.h"
#include "store/backup.h"
#include "store/index.h"
#include "store/maintain.h"
#include "store/restore.h"

#define DAY INT64_C(86400)
#define YEAR (365 * DAY)

struct store_time __real_store_now(void);
struct store_time __wrap_store_now(void);
void __wrap_store_host(char host[65]);

static int64_t ahead; /* of the kernel's clock, seconds */
static const char *host = "here";
static char folder[64], repository[96];

struct store_time __wrap_store_now(void)
{
	struct store_time now = __real_store_now();

	now.seconds += ahead;
	return now;
}

void __wrap_store_host(char name[65])
{
	snprintf(name, 65, "%s", host);
}

static int begin(void **state)
{
	char path[96];

	(void)state;
	ahead = 0;
	host = "here";
	if (test_folder(folder, sizeof(folder), "clock") < 0)
		return -1;
	snprintf(repository, sizeof(repository), "%s/repository", folder);
	snprintf(path, sizeof(path), "%s/tree", folder);
	return mkdir(path, 0700);
}

static int end(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

static struct store *open_repository(bool make)
{
	const struct store_place place = {.path = repository};
	struct store *s;

	if (make)
		assert_int_equal(store_create(&place, NULL, NULL, &s), 0);
	else
		assert_int_equal(store_open(&place, NULL, NULL, &s), 0);
	return s;
}

static void write_file(const char *name, const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/tree/%s", folder, name);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static void no_note(void *user, enum store_note kind, const char *path, const char *sentence)
{
	(void)user;
	(void)kind;
	(void)path;
	(void)sentence;
}

static void no_restore_note(void *user, const char *path, const char *sentence)
{
	(void)user;
	fail_msg("%s: %s", path, sentence);
}

/* A backup whose parent is the newest snapshot there is, as the command's. */
static struct store_id back_up(struct store_backup_stats *stats)
{
	const struct store_filter any = {0};
	struct store_snapshot parent = {0}, snapshot;
	struct store *s = open_repository(false);
	char path[96];
	const char *paths[] = {path};
	struct store_backup_options options = {
		.paths = paths, .paths_count = 1, .host = "here", .level = 1, .threads = 1, .note = no_note};

	snprintf(path, sizeof(path), "%s/tree", folder);
	if (store_snapshot_find(s, "latest", &any, &parent) == 0)
		options.parent = &parent;
	assert_int_equal(store_lock(s, false), 0);
	assert_int_equal(store_index_load(s, NULL, NULL, NULL), 0);
	assert_int_equal(store_backup(s, &options, &snapshot, stats), 0);
	const struct store_id name = snapshot.name;
	store_snapshot_free(&snapshot);
	store_snapshot_free(&parent);
	store_close(s);
	return name;
}

static void assert_restored(const struct store_id *name, const char *file, const char *wanted)
{
	struct store *s = open_repository(false);
	char target[96], path[128], source[96], text[64] = "";
	struct store_restore_stats stats;
	struct store_snapshot snapshot;

	snprintf(target, sizeof(target), "%s/out", folder);
	snprintf(source, sizeof(source), "%s/tree", folder);
	const struct store_restore_options options = {
		.target = target, .subpath = source, .threads = 1, .note = no_restore_note};
	assert_int_equal(store_index_load(s, NULL, NULL, NULL), 0);
	assert_int_equal(store_snapshot_get(s, name, &snapshot), 0);
	assert_int_equal(store_restore(s, &snapshot, &options, &stats), 0);
	snprintf(path, sizeof(path), "%s/%s", target, file);
	FILE *restored = fopen(path, "r");
	assert_non_null(restored);
	assert_non_null(fgets(text, sizeof(text), restored));
	fclose(restored);
	assert_string_equal(text, wanted);
	store_snapshot_free(&snapshot);
	store_close(s);
}

static void jumps_lose_no_change(void **state)
{
	static const int64_t jumps[] = {0, -20 * YEAR, 0, 20 * YEAR, -YEAR, 3, -3, 0};
	struct store_id names[sizeof(jumps) / sizeof(*jumps)];
	struct store_backup_stats stats;
	char text[64];

	(void)state;
	store_close(open_repository(true));
	for (size_t i = 0; i < sizeof(jumps) / sizeof(*jumps); i++) {
		ahead = jumps[i];
		snprintf(text, sizeof(text), "generation %zu", i); /* of one size always */
		write_file("file", text);
		names[i] = back_up(&stats);
		assert_int_equal(stats.files, 1);
	}
	for (size_t i = 0; i < sizeof(jumps) / sizeof(*jumps); i++) {
		snprintf(text, sizeof(text), "generation %zu", i);
		assert_restored(&names[i], "file", text);
	}
}

/* Its times are in the future then, and tell nothing: it is read again, whichever is right. */
static void a_file_is_read_again_while_the_clock_is_behind(void **state)
{
	struct store_backup_stats stats;

	(void)state;
	store_close(open_repository(true));
	write_file("file", "old");
	ahead = -DAY;
	back_up(&stats);
	back_up(&stats);
	assert_int_equal(stats.unchanged_files, 0);
	ahead = DAY;
	back_up(&stats);
	back_up(&stats);
	assert_int_equal(stats.unchanged_files, 1);
}

/* One snapshot of a clock that was ahead, or a clock that is ahead or behind when old ones are forgotten. */
static void a_policy_forgets_no_more(void **state)
{
	const struct store_policy policy = {.within_seconds = 30 * DAY};
	struct store_snapshot list[4];
	bool keep[4];

	(void)state;
	memset(list, 0, sizeof(list));
	list[0].time.seconds = 40 * YEAR;
	list[1].time.seconds = 50 * YEAR - 2 * DAY;
	list[2].time.seconds = 50 * YEAR;
	list[3].time.seconds = 70 * YEAR;
	store_policy_apply(&policy, list, 4, 50 * YEAR + 60, keep);
	assert_false(keep[0]);
	assert_true(keep[1] && keep[2] && keep[3]);
	store_policy_apply(&policy, list, 3, 70 * YEAR, keep);
	assert_false(keep[0]);
	assert_true(keep[1] && keep[2]);
	store_policy_apply(&policy, list, 3, 0, keep);
	assert_true(keep[0] && keep[1] && keep[2]);
	list[0].time.seconds = INT64_MIN;
	list[3].time.seconds = INT64_MAX;
	store_policy_apply(&policy, list, 4, INT64_MAX, keep);
	assert_false(keep[0]);
	assert_true(keep[3]);
}

static void assert_locked(void)
{
	struct store *s = open_repository(false);

	assert_int_equal(store_lock(s, true), STORE_E_LOCKED);
	store_close(s);
}

static void no_clock_takes_a_lock_away(void **state)
{
	static const int64_t jumps[] = {0, -20 * YEAR, 20 * YEAR};
	struct store *s = open_repository(true);
	uint64_t removed, left;

	(void)state;
	host = "elsewhere";
	assert_int_equal(store_lock(s, false), 0);
	host = "here";
	for (size_t i = 0; i < sizeof(jumps) / sizeof(*jumps); i++) {
		ahead = jumps[i];
		assert_locked();
	}
	/* only who says unlock asks for the time */
	for (ahead = -YEAR; ahead <= 0; ahead += YEAR) {
		assert_int_equal(store_locks_clear(s, false, &removed, &left), 0);
		assert_int_equal(removed, 0);
		assert_int_equal(left, 1);
	}
	ahead = 31 * 60;
	assert_int_equal(store_locks_clear(s, false, &removed, &left), 0);
	assert_int_equal(removed, 1);
	store_close(s);
	/* one of this host counts as long as its process is there, whatever the time */
	ahead = 0;
	s = open_repository(false);
	assert_int_equal(store_lock(s, false), 0);
	for (size_t i = 0; i < sizeof(jumps) / sizeof(*jumps); i++) {
		ahead = jumps[i];
		assert_int_equal(store_locks_clear(s, false, &removed, &left), 0);
		assert_int_equal(left, 1);
		assert_locked();
	}
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(jumps_lose_no_change, begin, end),
		cmocka_unit_test_setup_teardown(a_file_is_read_again_while_the_clock_is_behind, begin, end),
		cmocka_unit_test_setup_teardown(a_policy_forgets_no_more, begin, end),
		cmocka_unit_test_setup_teardown(no_clock_takes_a_lock_away, begin, end),
	};

	return cmocka_run_group_tests_name("store_clock", tests, NULL, NULL);
}
