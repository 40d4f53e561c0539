/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Restores into places that change under them, or take several names for one: a directory that folds the case of letters, and a file that is
 * exchanged for a link to another one between a look at it and its opening. And what a restore reads of packs.
 *
 * Of store/restore.c, store/restore_delete.c, store/blob.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"
#include "store/backend.h"
#include "store/backup.h"
#include "store/restore.h"

static char folder[64], target[96];
static struct store *s;
static struct store_snapshot snapshot;

/* ------------------------------------------------------------------------------------------------------------ the place */

static bool folds;
static const char *exchanged; /* this name becomes a link to `outside` before it is opened for writing, once */
static char outside[96];

int __real_openat64(int at, const char *path, int flags, ...);
int __wrap_openat64(int at, const char *path, int flags, ...);
int __real_fstatat64(int at, const char *path, struct stat *st, int flags);
int __wrap_fstatat64(int at, const char *path, struct stat *st, int flags);
int __real_unlinkat(int at, const char *path, int flags);
int __wrap_unlinkat(int at, const char *path, int flags);
int __real_mkdirat(int at, const char *path, mode_t mode);
int __wrap_mkdirat(int at, const char *path, mode_t mode);

/* The name under which a directory has it, whatever the case. */
static const char *folded(int at, const char *name, char found[256])
{
	const int fd = folds && at != AT_FDCWD && strchr(name, '/') == NULL && strcmp(name, ".") != 0 ?
			       __real_openat64(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) :
			       -1;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	snprintf(found, 256, "%s", name);
	while (dir != NULL && (entry = readdir(dir)) != NULL)
		if (strcasecmp(entry->d_name, name) == 0)
			snprintf(found, 256, "%s", entry->d_name);
	if (dir != NULL)
		closedir(dir);
	return strchr(name, '/') != NULL ? name : found;
}

int __wrap_openat64(int at, const char *path, int flags, ...)
{
	char found[256];
	mode_t mode = 0;

	if ((flags & O_CREAT) != 0) {
		va_list list;

		va_start(list, flags);
		mode = (mode_t)va_arg(list, unsigned int);
		va_end(list);
	}
	if (exchanged != NULL && strcmp(path, exchanged) == 0 && (flags & O_ACCMODE) == O_RDWR) {
		exchanged = NULL;
		assert_int_equal(__real_unlinkat(at, path, 0), 0);
		assert_int_equal(linkat(AT_FDCWD, outside, at, path, 0), 0);
	}
	return __real_openat64(at, folded(at, path, found), flags, mode);
}

int __wrap_fstatat64(int at, const char *path, struct stat *st, int flags)
{
	char found[256];

	return __real_fstatat64(at, folded(at, path, found), st, flags);
}

int __wrap_unlinkat(int at, const char *path, int flags)
{
	char found[256];

	return __real_unlinkat(at, folded(at, path, found), flags);
}

int __wrap_mkdirat(int at, const char *path, mode_t mode)
{
	char found[256];

	return __real_mkdirat(at, folded(at, path, found), mode);
}

/* ---------------------------------------------------------------------------------------------------------------- tests */

static void write_text(const char *format, const char *where, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), format, where);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void has_text(const char *format, const char *where, const char *wanted)
{
	char path[256], text[256] = "";

	snprintf(path, sizeof(path), format, where);
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	assert_true(fread(text, 1, sizeof(text) - 1, file) < sizeof(text));
	fclose(file);
	assert_string_equal(text, wanted);
}

static void run_shell(const char *format, const char *path)
{
	char command[512];

	snprintf(command, sizeof(command), format, path, path);
	assert_int_equal(system(command), 0);
}

static void note(void *user, enum store_note kind, const char *path, const char *sentence)
{
	(void)user;
	(void)kind;
	(void)path;
	(void)sentence;
}

static int begin(void **state)
{
	char path[128], tree[128];
	const struct store_place place = {.path = path};
	const char *paths[] = {tree};
	const struct store_backup_options options = {
		.paths = paths, .paths_count = 1, .host = "here", .level = 1, .threads = 1, .note = note};
	struct store_backup_stats stats;

	(void)state;
	if (test_folder(folder, sizeof(folder), "restore") < 0)
		return -1;
	snprintf(path, sizeof(path), "%s/repository", folder);
	snprintf(tree, sizeof(tree), "%s/tree", folder);
	snprintf(target, sizeof(target), "%s/target", folder);
	snprintf(outside, sizeof(outside), "%s/outside", folder);
	run_shell("mkdir '%s' '%s/Directory'", tree);
	write_text("%s/tree/File", folder, "file");
	write_text("%s/tree/Directory/Inner", folder, "inner");
	if (store_create(&place, NULL, NULL, &s) != 0)
		return -1;
	assert_int_equal(store_index_load(s, NULL, NULL, NULL), 0);
	assert_int_equal(store_backup(s, &options, &snapshot, &stats), 0);
	assert_int_equal(store_index_load(s, NULL, NULL, NULL), 0);
	return 0;
}

static int end(void **state)
{
	(void)state;
	store_snapshot_free(&snapshot);
	store_close(s);
	run_shell("rm -rf '%s'", folder);
	return 0;
}

static void note_path(void *user, const char *path, const char *sentence)
{
	(void)user;
	print_message("%s: %s\n", path, sentence);
}

static void restore(bool delete_others)
{
	char tree[128];
	const struct store_restore_options options = {
		.target = target, .subpath = tree, .delete_others = delete_others, .threads = 1, .note = note_path};
	struct store_restore_stats stats;

	snprintf(tree, sizeof(tree), "%s/tree", folder);
	assert_int_equal(store_restore(s, &snapshot, &options, &stats), 0);
	assert_int_equal(stats.errors, 0);
}

/* The target has the same names in other letters: they are what the snapshot has. */
static void test_folding(void **state)
{
	(void)state;
	run_shell("rm -rf '%s' && mkdir -p '%s/directory'", target);
	write_text("%s/file", target, "old");
	write_text("%s/other", target, "other");
	write_text("%s/directory/inner", target, "old");
	write_text("%s/directory/MORE", target, "more");
	folds = true;
	restore(true);
	folds = false;
	has_text("%s/file", target, "file");
	has_text("%s/directory/inner", target, "inner");
	char path[128];
	snprintf(path, sizeof(path), "%s/other", target);
	assert_int_equal(access(path, F_OK), -1);
	snprintf(path, sizeof(path), "%s/directory/MORE", target);
	assert_int_equal(access(path, F_OK), -1);
}

/* Elsewhere a name of other letters is another name, and a link to what is restored goes as well. */
static void test_no_folding(void **state)
{
	char path[128], other[128];

	(void)state;
	run_shell("rm -rf '%s' && mkdir -p '%s'", target);
	restore(false);
	snprintf(path, sizeof(path), "%s/File", target);
	snprintf(other, sizeof(other), "%s/beside", target);
	assert_int_equal(link(path, other), 0);
	write_text("%s/FILE", target, "other");
	restore(true);
	assert_int_equal(access(other, F_OK), -1);
	snprintf(other, sizeof(other), "%s/FILE", target);
	assert_int_equal(access(other, F_OK), -1);
	has_text("%s/File", target, "file");
}

static void test_exchanged(void **state)
{
	(void)state;
	run_shell("rm -rf '%s' && mkdir -p '%s'", target);
	write_text("%s/File", target, "old");
	write_text("%s", outside, "precious, and longer than the file");
	exchanged = "File";
	restore(false);
	assert_null(exchanged);
	has_text("%s", outside, "precious, and longer than the file");
	has_text("%s/File", target, "file");
}

#define GENERATIONS 12
#define READS_MAX 1000
static const struct store_backend_ops *real_ops;
static struct {
	struct store_id pack;
	uint64_t offset;
} reads[READS_MAX];
static size_t reads_count, read_twice;
static pthread_mutex_t reads_lock = PTHREAD_MUTEX_INITIALIZER; /* several threads restore */

static int count_get(struct store_backend *b, enum store_kind kind, const struct store_id *name, uint64_t offset,
		     void *to, size_t bytes)
{
	if (kind == STORE_PACK) {
		pthread_mutex_lock(&reads_lock);
		for (size_t i = 0; i < reads_count && i < READS_MAX; i++)
			read_twice += reads[i].offset == offset && store_id_equal(&reads[i].pack, name);
		if (reads_count < READS_MAX) {
			reads[reads_count].pack = *name;
			reads[reads_count].offset = offset;
		}
		reads_count++;
		pthread_mutex_unlock(&reads_lock);
	}
	return real_ops->get(b, kind, name, offset, to, bytes);
}

/* Each file of a directory is in the group of another backup than the one before it, three times around: no group is read twice. */
static void test_generations(void **state)
{
	struct store *first = s;
	struct store_snapshot first_snapshot = snapshot;
	struct store_backend_ops hooked;
	char path[128], tree[128], name[32];
	const struct store_place place = {.path = path};
	const char *paths[] = {tree};
	const struct store_backup_options options = {
		.paths = paths, .paths_count = 1, .host = "here", .level = 1, .threads = 1, .note = note};
	struct store_backup_stats stats;

	(void)state;
	snprintf(path, sizeof(path), "%s/generations", folder);
	snprintf(tree, sizeof(tree), "%s/tree", folder);
	run_shell("rm -rf '%s' && mkdir '%s'", target);
	assert_int_equal(store_create(&place, NULL, NULL, &s), 0);
	for (int generation = 0; generation < GENERATIONS; generation++) {
		for (int i = generation; i < 3 * GENERATIONS; i += GENERATIONS) {
			char text[32];

			snprintf(name, sizeof(name), "%%s/tree/%02d", i);
			snprintf(text, sizeof(text), "contents of %d", i);
			write_text(name, folder, text);
		}
		if (generation > 0)
			store_snapshot_free(&snapshot);
		assert_int_equal(store_index_load(s, NULL, NULL, NULL), 0);
		assert_int_equal(store_backup(s, &options, &snapshot, &stats), 0);
	}
	assert_int_equal(store_index_load(s, NULL, NULL, NULL), 0);
	real_ops = s->backend->ops;
	hooked = *real_ops;
	hooked.get = count_get;
	s->backend->ops = &hooked;
	restore(false);
	s->backend->ops = real_ops;
	has_text("%s/35", target, "contents of 35");
	assert_in_range(reads_count, GENERATIONS, READS_MAX);
	assert_int_equal(read_twice, 0);
	store_snapshot_free(&snapshot);
	store_close(s);
	s = first;
	snapshot = first_snapshot;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_folding),
		cmocka_unit_test(test_no_folding),
		cmocka_unit_test(test_exchanged),
		cmocka_unit_test(test_generations),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
