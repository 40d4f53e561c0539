/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What changes a repository as it is, killed before each of its system calls, and with a disk that is full from each of its writes on: the repository
 * is whole, every snapshot is there, something opens it, and the next one of its kind finishes.
 *
 * Of store/parity_change.c, store/keys.c, store/rewrite.c, store/tree.c, store/check.c, store/salvage.c, store/replace.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
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

static char folder[64], base[96], damaged[96], forgotten[96], worn[96], repository[96];
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

static void note_mended(void *user, const char *sentence)
{
	(void)user;
	(void)sentence;
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

static void back_up(struct store *s, int64_t seconds, struct store_id *name)
{
	char path[128];
	const char *paths[] = {path};
	const struct store_time time = {.seconds = seconds};
	const struct store_backup_options options = {.paths = paths,
						     .paths_count = 1,
						     .host = "here",
						     .level = 1,
						     .threads = 1,
						     .time = &time,
						     .note = note_nothing};
	struct store_backup_stats stats;
	struct store_snapshot snapshot;

	snprintf(path, sizeof(path), "%s/tree", folder);
	assert_int_equal(store_index_load(s, NULL, NULL, NULL), 0);
	assert_int_equal(store_backup(s, &options, &snapshot, &stats), 0);
	*name = snapshot.name;
	store_snapshot_free(&snapshot);
}

static int open_at(const char *path, struct store **s)
{
	const struct store_place place = {.path = path};

	return store_open(&place, give_secret, &old_secret, s);
}

static void flip_byte(const char *at, enum store_kind kind, const struct store_id *name, uint64_t offset)
{
	char hex[STORE_HEX_BYTES], path[300], byte;

	store_hex(name, hex);
	snprintf(path, sizeof(path), "%s/%s/%.2s%s%s", at, kind == STORE_PACK ? "packs" : "snapshots",
		 kind == STORE_PACK ? hex : "", kind == STORE_PACK ? "/" : "", hex);
	const int fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &byte, 1, (off_t)offset), 1);
	byte ^= 4;
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)offset), 1);
	close(fd);
}

/* Of each file of a kind, a byte in the middle; of packs those of 10 000 bytes and more alone, where `large`. */
static void flip_bytes(const char *at, enum store_kind kind, bool large)
{
	struct store_listed *files;
	size_t count, flipped = 0;
	struct store *s;

	assert_int_equal(open_at(at, &s), 0);
	assert_int_equal(store_list_all(s->backend, kind, &files, &count), 0);
	for (size_t i = 0; i < count; i++)
		if (!large || files[i].bytes >= 10000) {
			flip_byte(at, kind, &files[i].name, files[i].bytes / 2);
			flipped++;
		}
	assert_true(flipped > 0);
	free(files);
	store_close(s);
}

/* One with parity, of which each pack and snapshot is damaged and the index is lost. */
static void make_damaged(void)
{
	struct store_parity_change change = {.problem = problem};
	struct store *s;

	run_shell("cp -a '%s' '%s'", base, damaged);
	assert_int_equal(open_at(damaged, &s), 0);
	assert_int_equal(store_parity_set(s, 1, &change), 0);
	store_close(s);
	flip_bytes(damaged, STORE_PACK, false);
	flip_bytes(damaged, STORE_SNAPSHOT, false);
	run_shell("rm '%s'/index/*%s", damaged, "");
}

/* One with directories that are in no snapshot. */
static void make_forgotten(void)
{
	struct store_id name;
	struct store *s;

	run_shell("cp -a '%s' '%s'", base, forgotten);
	assert_int_equal(open_at(forgotten, &s), 0);
	write_file("forgotten", 70000, 1234);
	back_up(s, SNAPSHOTS, &name);
	assert_int_equal(s->backend->ops->remove(s->backend, STORE_SNAPSHOT, &name), 0);
	store_close(s);
	run_shell("rm '%s'/tree/%s", folder, "forgotten");
}

static int begin(void **state)
{
	const struct store_place place = {.path = base};
	char path[128];
	struct store_id snapshot;
	struct store *s;

	(void)state;
	if (test_folder(folder, sizeof(folder), "kill") < 0)
		return -1;
	snprintf(base, sizeof(base), "%s/base", folder);
	snprintf(damaged, sizeof(damaged), "%s/damaged", folder);
	snprintf(forgotten, sizeof(forgotten), "%s/forgotten", folder);
	snprintf(worn, sizeof(worn), "%s/worn", folder);
	snprintf(repository, sizeof(repository), "%s/repository", folder);
	snprintf(path, sizeof(path), "%s/tree", folder);
	if (mkdir(path, 0700) != 0 || store_create(&place, &old_secret, NULL, &s) != 0)
		return -1;
	for (int i = 0; i < SNAPSHOTS; i++) {
		char name[16];

		snprintf(name, sizeof(name), "large%d", i);
		write_file(name, 70000, (unsigned int)i);
		snprintf(name, sizeof(name), "small%d", i);
		write_file(name, 100, (unsigned int)i + 77);
		back_up(s, i, &snapshot);
	}
	store_close(s);
	make_damaged();
	make_forgotten();
	run_shell("cp -a '%s' '%s'", base, worn); /* whose large packs are damaged, without parity */
	flip_bytes(worn, STORE_PACK, true);
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

static int do_repair(struct store *s)
{
	const struct store_check_options options = {
		.repair = true, .read_data = true, .threads = 1, .problem = problem, .mended = note_mended};
	struct store_check_result result;
	const int rc = store_check(s, &options, &result);

	return rc != 0 || result.problems == 0 ? rc : store_fail(STORE_E_DAMAGED, "there are problems left");
}

/* Where there was no room for a second index, and then none for the new one, the index is made anew before. */
static int do_prune(struct store *s)
{
	const struct store_prune_options options = {.max_unused = HUGE_VAL, .level = 1};
	struct store_prune_result result;
	const int rc = do_repair(s);

	return rc == 0 ? store_prune(s, &options, &result) : rc;
}

static int do_recover(struct store *s)
{
	const struct store_rewrite_options options = {.level = 1};
	struct store_snapshot snapshot = {0};
	uint64_t found = 0;
	int rc = store_index_load(s, NULL, NULL, NULL);

	if (rc == 0)
		rc = store_recover(s, &options, &snapshot, &found);
	if (rc == 0 && found > 0)
		rc = store_snapshot_put(s, &snapshot);
	store_snapshot_free(&snapshot);
	return rc;
}

static int do_salvage(struct store *s)
{
	const struct store_salvage_options options = {.threads = 1, .level = 1, .told = note_mended};
	struct store_salvage_result result;

	return store_salvage(s, &options, &result);
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

/* Whatever is left of a change of parity, who changes the key then has closed the old one. */
static void change_key(void)
{
	struct store *s = open_any();

	assert_int_equal(do_passwd(s), 0);
	store_close(s);
	assert_int_not_equal(open_with(&old_secret, &s), 0);
	s = open_any();
	assert_int_equal(count_snapshots(s), SNAPSHOTS);
	store_close(s);
}

/* What a backup has stored again makes whole all that had lost it. */
static void store_again(void)
{
	struct store_check_result result;
	struct store_id name;
	struct store *s = open_any();

	back_up(s, SNAPSHOTS, &name);
	check_all(s, &result);
	assert_int_equal(count_snapshots(s), SNAPSHOTS + 1);
	store_close(s);
}

/* The directories of the snapshot that was removed are in one again, and once. */
static void find_nothing(void)
{
	struct store_check_result result;
	struct store *s = open_any();
	const size_t count = count_snapshots(s);

	assert_true(count > SNAPSHOTS);
	assert_int_equal(do_recover(s), 0);
	assert_int_equal(count_snapshots(s), count);
	check_all(s, &result);
	store_close(s);
}

/* Whatever the index names is there: what is lost is what was damaged, and nothing else. */
static void none_is_missing(struct store *s)
{
	const struct store_check_options options = {.threads = 1, .problem = note_mended};
	struct store_check_result result;

	assert_int_equal(store_check(s, &options, &result), 0);
	assert_int_equal(result.bad_packs, 0);
	assert_true(result.problems <=
		    SNAPSHOTS * SNAPSHOTS); /* a damaged file of each snapshot, in those behind it as well */
}

struct struck {
	const char *from; /* the repository that it begins with */
	int (*operation)(struct store *s);
	bool whole;			  /* the repository is whole before it, in between, and behind it */
	bool cleans;			  /* what was written in vain does not fill a disk; else it is little */
	void (*between)(struct store *s); /* where it was struck, besides; NULL: nothing */
	void (*then)(void);		  /* behind it; NULL: nothing */
};

static void strike_everywhere(const struct struck *struck, enum fault kind)
{
	struct store_check_result result;
	long call = 1;
	bool ended = false;

	for (; !ended; call += EACH) {
		assert_true(call < CALLS_MAX);
		run_shell("rm -rf '%s'%s", repository, "");
		run_shell("cp -a '%s' '%s'", struck->from, repository);
		ended = run_struck(struck->operation, kind, call);
		struct store *s = open_any();
		if (struck->whole)
			check_all(s, &result);
		count_snapshots(s);
		if (struck->between != NULL)
			struck->between(s);
		if (struck->whole && struck->cleans && kind == FULL)
			assert_int_equal(result.unknown_packs, 0);
		assert_int_equal(store_lock(s, true), 0);
		assert_int_equal(struck->operation(s), 0);
		if (struck->operation != do_salvage) /* which leaves snapshots that have lost something */
			check_all(s, &result);
		count_snapshots(s);
		store_close(s);
		if (struck->then != NULL)
			struck->then();
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

#define TEST_BOTH(name, ...)                                                                                           \
	static const struct struck name##_struck = {__VA_ARGS__};                                                      \
	static void test_##name##_killed(void **state)                                                                 \
	{                                                                                                              \
		(void)state;                                                                                           \
		strike_everywhere(&name##_struck, KILLED);                                                             \
	}                                                                                                              \
	static void test_##name##_full(void **state)                                                                   \
	{                                                                                                              \
		(void)state;                                                                                           \
		strike_everywhere(&name##_struck, FULL);                                                               \
	}
TEST_BOTH(tag, .from = base, .operation = do_tag, .whole = true, .cleans = true)
TEST_BOTH(rewrite, .from = base, .operation = do_rewrite, .whole = true)
TEST_BOTH(parity, .from = base, .operation = do_parity, .whole = true, .cleans = true, .then = change_key)
TEST_BOTH(passwd, .from = base, .operation = do_passwd, .whole = true, .cleans = true)
TEST_BOTH(repair, .from = damaged, .operation = do_repair)
TEST_BOTH(recover, .from = forgotten, .operation = do_recover, .whole = true, .then = find_nothing)
TEST_BOTH(prune, .from = forgotten, .operation = do_prune)
TEST_BOTH(salvage, .from = worn, .operation = do_salvage, .between = none_is_missing, .then = store_again)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_key_twice),    cmocka_unit_test(test_tag_killed),
		cmocka_unit_test(test_tag_full),     cmocka_unit_test(test_passwd_killed),
		cmocka_unit_test(test_passwd_full),  cmocka_unit_test(test_rewrite_killed),
		cmocka_unit_test(test_rewrite_full), cmocka_unit_test(test_parity_killed),
		cmocka_unit_test(test_parity_full),  cmocka_unit_test(test_repair_killed),
		cmocka_unit_test(test_repair_full),  cmocka_unit_test(test_recover_killed),
		cmocka_unit_test(test_recover_full), cmocka_unit_test(test_salvage_killed),
		cmocka_unit_test(test_salvage_full), cmocka_unit_test(test_prune_killed),
		cmocka_unit_test(test_prune_full),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
