/* SPDX-License-Identifier: Apache-2.0 */
/* What a restore wrote and something changed since is found when it is read again. Of store/restore_verify.c. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"
#include "model.h"
#include "store/backup.h"
#include "store/restore.h"

#define LARGE_BYTES 3000000
#define HOLE_AT 1000000

static char folder[64];
static unsigned notes;
static char noted[512];

static void note(void *user, const char *path, const char *sentence)
{
	(void)user;
	notes++;
	snprintf(noted, sizeof(noted), "%s: %s", path, sentence);
}

static void fail_note(void *user, enum store_note kind, const char *path, const char *sentence)
{
	(void)user;
	(void)kind;
	fail_msg("%s: %s", path, sentence);
}

__attribute__((format(printf, 1, 2))) static void shell(const char *format, ...)
{
	char command[1024];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(command, sizeof(command), format, arguments);
	va_end(arguments);
	assert_int_equal(system(command), 0);
}

static int set_up(void **state)
{
	const struct shredder_params params = complete((struct shredder_params){.mask_bits = 18});
	uint8_t *random = make_content(CONTENT_RANDOM, LARGE_BYTES, 3, &params);
	char path[128];

	(void)state;
	if (test_folder(folder, sizeof(folder), "store-verify") != 0)
		return -1;
	shell("mkdir -p %s/tree/a/b", folder);
	snprintf(path, sizeof(path), "%s/tree/a/b/large", folder);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(random, 1, LARGE_BYTES, file), LARGE_BYTES);
	assert_int_equal(fclose(file), 0);
	shell("cd %s/tree && echo x >other && ln other linked && ln -s other link && : >empty && truncate -s %u hole && echo end >>hole",
	      folder, HOLE_AT);
	free(random);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	shell("rm -rf %s", folder);
	return 0;
}

static void poke(const char *name, off_t at, char byte)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/out/%s", folder, name);
	const int fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

/* Each change by itself, with a sentence that names the file. */
static void each_change_is_found(void **state)
{
	static const struct {
		const char *name, *command; /* in the target; NULL: a byte of it is another one */
		off_t at;
		const char *wanted;
		unsigned files; /* that are wrong */
	} changes[] = {
		{"a/b/large", NULL, 0, "contents", 1},
		{"a/b/large", NULL, LARGE_BYTES - 1, "contents", 1},
		{"hole", NULL, 500, "hole", 1},
		{"hole", NULL, HOLE_AT + 1, "contents", 1},
		{"other", NULL, 0, "contents", 2}, /* it has two names */
		{"empty", "echo y >empty", 0, "size", 1},
		{"a/b/large", "truncate -s -1 a/b/large", 0, "size", 1},
		{"empty", "rm empty", 0, "No such file", 1},
		{"empty", "rm empty; mkdir empty", 0, "no regular file", 1},
		{"empty", "rm empty; mkfifo empty", 0, "no regular file", 1},
		/* what can be reached only through links is not what was restored */
		{"a/b/large", "mv a/b/large elsewhere; ln -s ../../elsewhere a/b/large", 0, "symbolic links", 1},
		{"a/b/large", "mv a/b b; ln -s ../b a/b", 0, "Not a directory", 1},
	};
	char repository[96], tree[96], target[96];
	const char *paths[] = {tree};
	const struct store_backup_options saving = {
		.paths = paths, .paths_count = 1, .host = "here", .level = 1, .threads = 1, .note = fail_note};
	struct store_restore_options options = {.target = target, .subpath = tree, .threads = 2, .note = note};
	struct store_backup_stats saved;
	struct store_restore_stats restored;
	struct store_verify_result result;
	struct store_snapshot snapshot;
	struct store *s;

	(void)state;
	snprintf(repository, sizeof(repository), "%s/repository", folder);
	snprintf(tree, sizeof(tree), "%s/tree", folder);
	snprintf(target, sizeof(target), "%s/out", folder);
	assert_int_equal(store_create(&(struct store_place){.path = repository}, NULL, NULL, &s), 0);
	assert_int_equal(store_index_load(s, NULL, NULL, NULL), 0);
	assert_int_equal(store_backup(s, &saving, &snapshot, &saved), 0);
	assert_int_equal(store_index_load(s, NULL, NULL, NULL), 0);
	notes = 0;
	for (size_t i = 0; i <= sizeof(changes) / sizeof(*changes); i++) {
		shell("rm -rf %s", target);
		assert_int_equal(store_restore(s, &snapshot, &options, &restored), 0);
		assert_int_equal(restored.errors, 0);
		if (i == sizeof(changes) / sizeof(*changes))
			break;
		if (changes[i].command != NULL)
			shell("cd %s && { %s; }", target, changes[i].command);
		else
			poke(changes[i].name, changes[i].at, '\a');
		notes = 0;
		assert_int_equal(store_restore_verify(s, &snapshot, &options, &result), 0);
		assert_int_equal(result.errors, changes[i].files);
		assert_int_equal(result.files, 5 - changes[i].files);
		assert_int_equal(notes, changes[i].files);
		if (strstr(noted, changes[i].wanted) == NULL)
			fail_msg("change %zu: %s", i, noted);
		if (changes[i].files == 1)
			assert_non_null(strstr(noted, changes[i].name));
	}
	notes = 0;
	assert_int_equal(store_restore_verify(s, &snapshot, &options, &result), 0);
	assert_int_equal(result.errors, 0);
	assert_int_equal(result.files, 5);
	assert_int_equal(notes, 0);
	assert_true(result.bytes >= LARGE_BYTES);
	assert_true(result.bytes < LARGE_BYTES + HOLE_AT); /* what is no hole */
	/* what it leaves out is not asked for */
	struct store_excludes includes = {0};
	store_exclude_add(&includes, "a");
	options.includes = &includes;
	shell("rm %s/other", target);
	assert_int_equal(store_restore_verify(s, &snapshot, &options, &result), 0);
	assert_int_equal(result.errors, 0);
	assert_int_equal(result.files, 1);
	options.includes = NULL;
	store_excludes_free(&includes);
	/* nothing is there */
	shell("rm -r %s", target);
	assert_int_not_equal(store_restore_verify(s, &snapshot, &options, &result), 0);
	store_snapshot_free(&snapshot);
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(each_change_is_found)};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
