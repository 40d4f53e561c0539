/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's own walk of gpu4fs_clear(), over a tree that no file system has but a damaged one: a directory that counts a name and lists none. (Of trees
 * that are whole: test_api_batch.c, at a mount's socket.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka needs its own four first */
#include <cmocka.h>

#include <dirent.h>

#include "client/client.h"

#define gpu4fs_open tree_open
#define gpu4fs_close tree_close
#define gpu4fs_opendir_file tree_list
#define gpu4fs_readdir tree_next
#define gpu4fs_seekdir tree_seek
#define gpu4fs_closedir tree_end
#define gpu4fs_rmdir tree_rmdir
#define gpu4fs_unlink tree_unlink
#define gpu4fs_clear tree_clear
#define g4c_resolve_directory tree_resolve
#define g4c_run tree_run

struct dir {
	const char *names[4]; /* NULL: it is gone */
	bool counts;	      /* a name that it does not have */
};
/* "bad" is a directory of the top's, the others are files. */
static struct dir above, bad;
static struct listing {
	const struct dir *dir;
	uint32_t at;
} listing;
static uint64_t calls;

static struct dir *dir_of(gpu4fs_file *file)
{
	return (struct dir *)(void *)file;
}

/* A walk without an end is ended here. */
static void count_call(void)
{
	if (++calls > 100000)
		fail_msg("the walk goes on and on");
}

static int tree_open(gpu4fs *fs, gpu4fs_file *at, const char *path, int flags, uint32_t mode, gpu4fs_file **file)
{
	(void)fs, (void)flags, (void)mode;
	count_call();
	*file = (gpu4fs_file *)(void *)(at ? &bad : &above);
	return at && strcmp(path, "bad") != 0 ? -ENOTDIR : 0;
}

static int tree_close(gpu4fs_file *file)
{
	(void)file;
	return 0;
}

static int tree_list(gpu4fs_file *file, uint32_t flags, gpu4fs_dir **stream)
{
	(void)flags;
	count_call();
	listing = (struct listing){dir_of(file), 0};
	*stream = (gpu4fs_dir *)(void *)&listing;
	return 0;
}

static void tree_seek(gpu4fs_dir *stream, uint64_t at)
{
	(void)stream;
	listing.at = (uint32_t)at;
}

static int tree_next(gpu4fs_dir *stream, struct gpu4fs_dirent *entry)
{
	(void)stream;
	while (listing.at < 4 && listing.dir->names[listing.at] == NULL)
		listing.at++;
	if (listing.at == 4)
		return 0;
	entry->name = listing.dir->names[listing.at++];
	entry->type = strcmp(entry->name, "bad") == 0 ? DT_DIR : DT_REG;
	return 1;
}

static int tree_end(gpu4fs_dir *stream)
{
	(void)stream;
	return 0;
}

static int take(gpu4fs_file *at, const char *name)
{
	for (uint32_t k = 0; k < 4; k++)
		if (dir_of(at)->names[k] && strcmp(dir_of(at)->names[k], name) == 0) {
			dir_of(at)->names[k] = NULL;
			return 0;
		}
	return -ENOENT;
}

static int tree_rmdir(gpu4fs *fs, gpu4fs_file *at, const char *path)
{
	(void)fs;
	count_call();
	for (uint32_t k = 0; k < 4; k++)
		if (bad.names[k])
			return -ENOTEMPTY;
	return bad.counts ? -ENOTEMPTY : take(at, path);
}

static int tree_unlink(gpu4fs *fs, gpu4fs_file *at, const char *path)
{
	(void)fs;
	count_call();
	return take(at, path);
}

static int tree_resolve(gpu4fs *fs, gpu4fs_file *at, const char *path, bool lists, struct g4_attr *attr,
			struct g4_cmd *cmd)
{
	(void)fs, (void)at, (void)path, (void)lists, (void)attr, (void)cmd;
	return 0;
}

static int tree_run(struct g4_engine *engine, struct g4_cmd *cmd)
{
	(void)engine, (void)cmd;
	return -EOPNOTSUPP; /* as at a mount's socket */
}

int64_t gpu4fs_clear(gpu4fs *fs, gpu4fs_file *at, const char *path, uint64_t most, uint32_t from);
#include "client/clear.c" /* NOLINT(bugprone-suspicious-include) */

static struct g4c_mount mount;
static gpu4fs fs = {.mount = &mount};

static void what_is_whole_goes(void **state)
{
	(void)state;
	above = (struct dir){.names = {"a", "bad", "b", "c"}};
	bad = (struct dir){.names = {"x", "y"}};
	assert_int_equal(gpu4fs_clear(&fs, NULL, "/", UINT64_MAX, 0), 6);
	assert_int_equal(gpu4fs_clear(&fs, NULL, "/", UINT64_MAX, 0), 0);
}

/* It can not go, whatever was asked for: the walk ends there, and the next call says so. */
static void a_directory_that_counts_names_and_has_none_ends_the_walk(void **state)
{
	const uint64_t mosts[] = {UINT64_MAX, UINT64_MAX / 8, 1000, 10};

	(void)state;
	for (uint32_t k = 0; k < sizeof(mosts) / sizeof(mosts[0]); k++) {
		above = (struct dir){.names = {"a", "bad", "b", "c"}};
		bad = (struct dir){.names = {"x", "y"}, .counts = true};
		calls = 0;
		assert_int_equal(gpu4fs_clear(&fs, NULL, "/", mosts[k], 0), 3);
		assert_int_equal(gpu4fs_clear(&fs, NULL, "/", mosts[k], 0), -ENOTEMPTY);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_whole_goes),
		cmocka_unit_test(a_directory_that_counts_names_and_has_none_ends_the_walk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
