/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What changes a repository as it is, killed before each of its system calls, and with a disk that is full from each of its writes on: the repository
 * is whole, every snapshot is there, something opens it, and the next one of its kind finishes.
 *
 * Of store/parity_change.c, store/keys.c, store/rewrite.c, store/tree.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "folder.h"
#include "store/backend.h"
#include "store/backup.h"
#include "store/maintain.h"
#include "store/rewrite.h"

#define SNAPSHOTS 2
#define CALLS_MAX 2000
/* With sanitizers a part of the calls. */
#if defined(G4_TSAN) || defined(G4_ASAN)
#define EACH 5
#else
#define EACH 1
#endif

static char folder[64], base[96], repository[96];
static const uint8_t old_key[32] = {7}, new_key[32] = {8};
static struct store_secret old_secret = {.key = old_key, .key_bytes = sizeof(old_key)};
static struct store_secret new_secret = {.key = new_key, .key_bytes = sizeof(new_key)};

/* ------------------------------------------------------------------------------------------------------------ faults */

enum fault { NONE, KILLED, FULL };
static enum fault fault;
static long calls_left;

int __real_openat64(int at, const char *path, int flags, ...);
int __wrap_openat64(int at, const char *path, int flags, ...);
ssize_t __real_write(int fd, const void *data, size_t bytes);
ssize_t __wrap_write(int fd, const void *data, size_t bytes);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_renameat(int from_at, const char *from, int to_at, const char *to);
int __wrap_renameat(int from_at, const char *from, int to_at, const char *to);
int __real_unlinkat(int at, const char *path, int flags);
int __wrap_unlinkat(int at, const char *path, int flags);

/* True from the chosen call on. Several threads may call; one call more or less is another state, and as good. */
static bool strikes(void)
{
	if (fault == NONE || __atomic_sub_fetch(&calls_left, 1, __ATOMIC_RELAXED) > 0)
		return false;
	if (fault == KILLED)
		raise(SIGKILL);
	return true;
}

int __wrap_openat64(int at, const char *path, int flags, ...)
{
	mode_t mode = 0;

	if ((flags & O_CREAT) != 0) {
		va_list list;

		va_start(list, flags);
		mode = (mode_t)va_arg(list, unsigned int);
		va_end(list);
		strikes(); /* of a file that is made there is room for its name still */
	}
	return __real_openat64(at, path, flags, mode);
}

ssize_t __wrap_write(int fd, const void *data, size_t bytes)
{
	if (strikes()) {
		errno = ENOSPC;
		return -1;
	}
	return __real_write(fd, data, bytes);
}

int __wrap_fsync(int fd)
{
	strikes();
	return __real_fsync(fd);
}

int __wrap_renameat(int from_at, const char *from, int to_at, const char *to)
{
	strikes();
	return __real_renameat(from_at, from, to_at, to);
}

int __wrap_unlinkat(int at, const char *path, int flags)
{
	strikes();
	return __real_unlinkat(at, path, flags);
}

/* ------------------------------------------------------------------------------------------------------- repositories */

static int give_secret(void *user, struct store_secret *secret)
{
	*secret = *(const struct store_secret *)user;
	return 0;
}

static int open_with(struct store_secret *secret, struct store **s)
{
	const struct store_place place = {.path = repository};

	return store_open(&place, give_secret, secret, s);
}

static struct store *open_any(void)
{
	struct store *s;

	if (open_with(&old_secret, &s) != 0)
		assert_int_equal(open_with(&new_secret, &s), 0);
	return s;
}

static void run_shell(const char *format, const char *a, const char *b)
{
	char command[512];

	snprintf(command, sizeof(command), format, a, b);
	assert_int_equal(system(command), 0);
}

static void problem(void *user, const char *sentence)
{
	(void)user;
	print_message("problem: %s\n", sentence);
}

static void check_all(struct store *s, struct store_check_result *result)
{
	const struct store_check_options options = {.read_data = true, .threads = 1, .problem = problem};

	assert_int_equal(store_check(s, &options, result), 0);
	assert_int_equal(result->problems, 0);
}

/* Each of the snapshots is there, by its time; how many there are. */
static size_t count_snapshots(struct store *s)
{
	const struct store_filter all = {0};
	struct store_snapshot *list;
	size_t count;
	bool there[SNAPSHOTS] = {false};

	assert_int_equal(store_snapshots(s, &all, &list, &count), 0);
	for (size_t i = 0; i < count; i++)
		if (list[i].time.seconds < SNAPSHOTS)
			there[list[i].time.seconds] = true;
	for (size_t i = 0; i < SNAPSHOTS; i++)
		assert_true(there[i]);
	store_snapshots_free(list, count);
	return count;
}

static void note_nothing(void *user, enum store_note note, const char *path, const char *sentence)
{
	(void)user;
	(void)note;
	(void)path;
	(void)sentence;
}

static void write_file(const char *name, size_t bytes, unsigned int seed)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/tree/%s", folder, name);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	for (size_t i = 0; i < bytes; i++) {
		seed = seed * 1103515245 + 12345;
		fputc((int)(seed >> 16 & 255), file);
	}
	fclose(file);
}

static int begin(void **state)
{
	const struct store_place place = {.path = base};
	char path[128];
	const char *paths[] = {path};
	struct store *s;

	(void)state;
	if (test_folder(folder, sizeof(folder), "kill") < 0)
		return -1;
	snprintf(base, sizeof(base), "%s/base", folder);
	snprintf(repository, sizeof(repository), "%s/repository", folder);
	snprintf(path, sizeof(path), "%s/tree", folder);
	if (mkdir(path, 0700) != 0 || store_create(&place, &old_secret, NULL, &s) != 0)
		return -1;
	for (int i = 0; i < SNAPSHOTS; i++) {
		const struct store_time time = {.seconds = i};
		const struct store_backup_options options = {.paths = paths,
							     .paths_count = 1,
							     .host = "here",
							     .level = 1,
							     .threads = 1,
							     .time = &time,
							     .note = note_nothing};
		struct store_backup_stats stats;
		struct store_snapshot snapshot;
		char name[16];

		snprintf(name, sizeof(name), "large%d", i);
		write_file(name, 70000, (unsigned int)i);
		snprintf(name, sizeof(name), "small%d", i);
		write_file(name, 100, (unsigned int)i + 77);
		assert_int_equal(store_index_load(s, NULL, NULL, NULL), 0);
		assert_int_equal(store_backup(s, &options, &snapshot, &stats), 0);
		store_snapshot_free(&snapshot);
	}
	store_close(s);
	return 0;
}

static int end(void **state)
{
	(void)state;
	run_shell("rm -rf '%s'%s", folder, "");
	return 0;
}

/* --------------------------------------------------------------------------------------------------------- operations */

static int for_all(struct store *s, int (*each)(struct store *s, struct store_snapshot *snapshot))
{
	const struct store_filter all = {0};
	struct store_snapshot *list;
	size_t count;
	int rc = store_snapshots(s, &all, &list, &count);

	for (size_t i = 0; i < count && rc == 0; i++)
		rc = each(s, &list[i]);
	if (list != NULL)
		store_snapshots_free(list, count);
	return rc;
}

static int tag_one(struct store *s, struct store_snapshot *snapshot)
{
	if (snapshot->tags_count == 0) {
		snapshot->tags = (char **)store_realloc(snapshot->tags, sizeof(char *));
		snapshot->tags[snapshot->tags_count++] = store_strdup("tagged");
	}
	return store_snapshot_replace(s, snapshot);
}

static int do_tag(struct store *s)
{
	return for_all(s, tag_one);
}

static int rewrite_one(struct store *s, struct store_snapshot *snapshot)
{
	struct store_excludes excludes = {0};
	const struct store_rewrite_options options = {.excludes = &excludes, .level = 1};

	store_exclude_add(&excludes, "small0");
	const int rc = store_rewrite(s, &options, snapshot);
	store_excludes_free(&excludes);
	return rc == 1 ? store_snapshot_replace(s, snapshot) : rc;
}

static int do_rewrite(struct store *s)
{
	const int rc = store_index_load(s, NULL, NULL, NULL);

	return rc == 0 ? for_all(s, rewrite_one) : rc;
}

static int do_parity(struct store *s)
{
	struct store_parity_change change = {.problem = problem};
	const int rc = store_parity_set(s, 2, &change);

	assert_int_equal(change.problems, 0);
	return rc;
}

static int do_passwd(struct store *s)
{
	struct store_id name;

	return store_key_replace(s, &new_secret, &name);
}

/* In a process of its own, which may be killed: true when it came to its end without meeting the fault. */
static bool run_struck(int (*operation)(struct store *s), enum fault kind, long call)
{
	int status;
	const pid_t child = fork();

	if (child == 0) {
		struct store *s;
		int rc = open_with(&old_secret, &s);

		if (rc == 0)
			rc = store_lock(s, true);
		calls_left = call;
		fault = kind;
		if (rc == 0)
			rc = operation(s);
		fault = NONE;
		_exit(rc != 0 ? 1 : calls_left > 0 ? 0 : 2);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFSIGNALED(status)) {
		assert_int_equal(WTERMSIG(status), SIGKILL);
		return false;
	}
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) <= 2);
	return WEXITSTATUS(status) == 0;
}

static void strike_everywhere(int (*operation)(struct store *s), enum fault kind)
{
	struct store_check_result result;
	long call = 1;
	bool ended = false;

	for (; !ended; call += EACH) {
		assert_true(call < CALLS_MAX);
		run_shell("rm -rf '%s'%s", repository, "");
		run_shell("cp -a '%s' '%s'", base, repository);
		ended = run_struck(operation, kind, call);
		struct store *s = open_any();
		check_all(s, &result);
		count_snapshots(s);
		if (kind == FULL &&
		    operation != do_rewrite) /* what was written in vain does not fill it; of a rewrite it is little */
			assert_int_equal(result.unknown_packs, 0);
		assert_int_equal(store_lock(s, true), 0);
		assert_int_equal(operation(s), 0);
		check_all(s, &result);
		store_close(s);
		if (operation ==
		    do_parity) { /* whatever is left of it, who changes the key then has closed the old one */
			s = open_any();
			assert_int_equal(do_passwd(s), 0);
			store_close(s);
			assert_int_not_equal(open_with(&old_secret, &s), 0);
			s = open_any();
			assert_int_equal(count_snapshots(s), SNAPSHOTS);
			store_close(s);
		}
	}
	print_message("%ld calls\n", call / EACH);
}

/* Before the next change of parity mends it: a key that is there twice goes twice. */
static void test_key_twice(void **state)
{
	struct store *s;
	size_t twice = 0;

	(void)state;
	for (long call = 1;; call++) {
		run_shell("rm -rf '%s'%s", repository, "");
		run_shell("cp -a '%s' '%s'", base, repository);
		const bool ended = run_struck(do_parity, KILLED, call);
		struct store_key_info *keys;
		size_t count;

		s = open_any();
		assert_int_equal(store_key_list(s, &keys, &count), 0);
		free(keys);
		twice += count == 2;
		if (count == 2) {
			assert_int_equal(do_passwd(s), 0);
			store_close(s);
			assert_int_not_equal(open_with(&old_secret, &s), 0);
			assert_int_equal(open_with(&new_secret, &s), 0);
		}
		store_close(s);
		if (ended || (twice > 0 && count == 1))
			break;
	}
	assert_true(twice > 0);
}

#define TEST_BOTH(operation)                                                                                           \
	static void test_##operation##_killed(void **state)                                                            \
	{                                                                                                              \
		(void)state;                                                                                           \
		strike_everywhere(do_##operation, KILLED);                                                             \
	}                                                                                                              \
	static void test_##operation##_full(void **state)                                                              \
	{                                                                                                              \
		(void)state;                                                                                           \
		strike_everywhere(do_##operation, FULL);                                                               \
	}
TEST_BOTH(tag)
TEST_BOTH(rewrite)
TEST_BOTH(parity)
TEST_BOTH(passwd)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_key_twice),    cmocka_unit_test(test_tag_killed),
		cmocka_unit_test(test_tag_full),     cmocka_unit_test(test_passwd_killed),
		cmocka_unit_test(test_passwd_full),  cmocka_unit_test(test_rewrite_killed),
		cmocka_unit_test(test_rewrite_full), cmocka_unit_test(test_parity_killed),
		cmocka_unit_test(test_parity_full),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
