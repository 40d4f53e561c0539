/* SPDX-License-Identifier: Apache-2.0 */
/* The name space through the public API: directories, names, links, rename, reading directories. */
#include "api_fixture.h"
#include "rig.h"

#include <dirent.h>

/* ------------------------------------------------------------------ making and removing */

static void directories_are_made_and_removed(void **state)
{
	(void)state;
	ok(gpu4fs_mkdir(fs, NULL, "/d", 0755));
	assert_int_equal(api_lstat("/d").mode, S_IFDIR | 0755);
	fails(gpu4fs_mkdir(fs, NULL, "/d", 0755), EEXIST);
	fails(gpu4fs_mkdir(fs, NULL, "/none/d", 0755), ENOENT);
	ok(gpu4fs_mkdir(fs, NULL, "/d/e//", 0700));
	fails(gpu4fs_rmdir(fs, NULL, "/d"), ENOTEMPTY);
	ok(gpu4fs_rmdir(fs, NULL, "/d/e/"));
	ok(gpu4fs_rmdir(fs, NULL, "/d"));
	fails(gpu4fs_rmdir(fs, NULL, "/d"), ENOENT);
	assert_int_equal(api_count_names("/"), 0);
}

static void each_removal_refuses_the_wrong_type(void **state)
{
	(void)state;
	ok(gpu4fs_mkdir(fs, NULL, "/d", 0755));
	api_touch("/f", 0644);
	ok(gpu4fs_symlink(fs, "d", NULL, "/link"));
	fails(gpu4fs_rmdir(fs, NULL, "/f"), ENOTDIR);
	fails(gpu4fs_rmdir(fs, NULL, "/link"), ENOTDIR);
	fails(gpu4fs_rmdir(fs, NULL, "/link/"), ENOTDIR);
	fails(gpu4fs_unlink(fs, NULL, "/d"), EISDIR);
	fails(gpu4fs_unlink(fs, NULL, "/d/"), EISDIR);
	fails(gpu4fs_unlink(fs, NULL, "/f/"), ENOTDIR);
	fails(gpu4fs_unlink(fs, NULL, "/none/"), ENOENT);
	ok(gpu4fs_unlink(fs, NULL, "/link"));
	assert_true(api_exists("/d"));
}

static void dots_and_the_root_are_no_names(void **state)
{
	(void)state;
	ok(gpu4fs_mkdir(fs, NULL, "/d", 0755));
	fails(gpu4fs_mkdir(fs, NULL, "/", 0755), EEXIST);
	fails(gpu4fs_mkdir(fs, NULL, "/d/.", 0755), EEXIST);
	fails(gpu4fs_mkdir(fs, NULL, "/d/..", 0755), EEXIST);
	fails(gpu4fs_rmdir(fs, NULL, "/"), EBUSY);
	fails(gpu4fs_rmdir(fs, NULL, "/d/."), EINVAL);
	fails(gpu4fs_rmdir(fs, NULL, "/d/.."), ENOTEMPTY);
	fails(gpu4fs_unlink(fs, NULL, "/d/."), EISDIR);
	fails(gpu4fs_rename(fs, NULL, "/d/.", NULL, "/e", 0), EBUSY);
	fails(gpu4fs_rename(fs, NULL, "/d", NULL, "/e/..", 0), ENOENT);
	fails(gpu4fs_rename(fs, NULL, "/d", NULL, "/d/..", 0), EBUSY);
	fails(gpu4fs_rename(fs, NULL, "/", NULL, "/e", 0), EBUSY);
	fails(gpu4fs_rename(fs, NULL, "/d", NULL, "/", 0), EBUSY);
	fails(gpu4fs_symlink(fs, "x", NULL, "/d/."), EEXIST);
	fails(gpu4fs_link(fs, NULL, "/d", NULL, "/", 0), EEXIST);
}

static void only_directories_may_end_in_a_slash(void **state)
{
	(void)state;
	api_touch("/f", 0644);
	fails(gpu4fs_symlink(fs, "x", NULL, "/new/"), ENOENT);
	fails(gpu4fs_symlink(fs, "x", NULL, "/f/"), EEXIST);
	fails(gpu4fs_mknod(fs, NULL, "/new/", S_IFREG | 0644, 0), ENOENT);
	fails(gpu4fs_link(fs, NULL, "/f", NULL, "/new/", 0), ENOENT);
	fails(gpu4fs_link(fs, NULL, "/f/", NULL, "/new", 0), ENOTDIR);
	fails(gpu4fs_rename(fs, NULL, "/f/", NULL, "/new", 0), ENOTDIR);
	fails(gpu4fs_rename(fs, NULL, "/f", NULL, "/new/", 0), ENOTDIR);
	ok(gpu4fs_mkdir(fs, NULL, "/d/", 0755));
	ok(gpu4fs_rename(fs, NULL, "/d/", NULL, "/e/", 0));
	assert_true(api_exists("/e"));
}

static void the_link_count_of_a_directory_counts_its_subdirectories(void **state)
{
	(void)state;
	ok(gpu4fs_mkdir(fs, NULL, "/d", 0755));
	assert_int_equal(api_lstat("/d").nlink, 2);
	ok(gpu4fs_mkdir(fs, NULL, "/d/a", 0755));
	ok(gpu4fs_mkdir(fs, NULL, "/d/b", 0755));
	api_touch("/d/f", 0644);
	assert_int_equal(api_lstat("/d").nlink, 4);
	ok(gpu4fs_rename(fs, NULL, "/d/a", NULL, "/a", 0));
	assert_int_equal(api_lstat("/d").nlink, 3);
	ok(gpu4fs_rmdir(fs, NULL, "/d/b"));
	assert_int_equal(api_lstat("/d").nlink, 2);
}

static void a_removed_directory_that_is_open_is_empty_and_takes_nothing(void **state)
{
	struct gpu4fs_dirent entry;
	gpu4fs_file *dir, *file;
	gpu4fs_dir *stream;

	(void)state;
	ok(gpu4fs_mkdir(fs, NULL, "/d", 0755));
	dir = api_open("/d", O_RDONLY | O_DIRECTORY, 0);
	ok(gpu4fs_rmdir(fs, NULL, "/d"));
	fails(gpu4fs_mkdir(fs, dir, "e", 0755), ENOENT);
	fails(gpu4fs_open(fs, dir, "f", O_WRONLY | O_CREAT, 0644, &file), ENOENT);
	fails(gpu4fs_symlink(fs, "x", dir, "l"), ENOENT);
	ok(gpu4fs_opendir_file(dir, 0, &stream));
	gives(gpu4fs_readdir(stream, &entry), 0);
	ok(gpu4fs_closedir(stream));
	ok(gpu4fs_close(dir));
}

/* ------------------------------------------------------------------ names and paths */

static void names_have_up_to_255_bytes(void **state)
{
	char path[300] = "/", bytes[4] = {(char)0xff, 1, '\n', 0};
	gpu4fs_file *file;

	(void)state;
	memset(path + 1, 'n', 255);
	api_write_text(path, "long");
	api_check_text(path, "long");
	ok(gpu4fs_rename(fs, NULL, path, NULL, "/short", 0));
	ok(gpu4fs_rename(fs, NULL, "/short", NULL, path, 0));
	path[256] = 'n';
	fails(gpu4fs_open(fs, NULL, path, O_RDONLY, 0, &file), ENAMETOOLONG);
	fails(gpu4fs_open(fs, NULL, path, O_WRONLY | O_CREAT, 0644, &file), ENAMETOOLONG);
	fails(gpu4fs_mkdir(fs, NULL, path, 0755), ENAMETOOLONG);
	fails(gpu4fs_unlink(fs, NULL, path), ENAMETOOLONG);
	fails(gpu4fs_rename(fs, NULL, "/short", NULL, path, 0), ENAMETOOLONG);
	strcpy(path + 257, "/x");
	fails(gpu4fs_unlink(fs, NULL, path), ENAMETOOLONG);
	api_write_text(bytes, "any bytes");
	api_check_text(bytes, "any bytes");
}

static void paths_have_up_to_4095_bytes(void **state)
{
	char path[4200] = "";
	struct gpu4fs_stat stat;

	(void)state;
	for (int i = 0; i < 16; i++) {
		memset(path + strlen(path), '/', 1);
		memset(path + strlen(path), 'p', 250);
		ok(gpu4fs_mkdir(fs, NULL, path, 0755));
	}
	assert_int_equal(strlen(path), 16 * 251);
	strcat(path, "/");
	memset(path + strlen(path), 'f', 4095 - strlen(path));
	assert_int_equal(strlen(path), 4095);
	api_write_text(path, "deep");
	api_check_text(path, "deep");
	strcat(path, "f");
	fails(gpu4fs_stat(fs, NULL, path, &stat), ENAMETOOLONG);
	memset(path, '/', 4095);
	path[4095] = 0;
	ok(gpu4fs_stat(fs, NULL, path, &stat));
	path[4095] = '/';
	path[4096] = 0;
	fails(gpu4fs_stat(fs, NULL, path, &stat), ENAMETOOLONG);
}

static void paths_walk_dots_slashes_and_handles(void **state)
{
	gpu4fs_file *dir, *file;
	struct gpu4fs_stat stat;

	(void)state;
	ok(gpu4fs_mkdir(fs, NULL, "/a", 0755));
	ok(gpu4fs_mkdir(fs, NULL, "/a/b", 0755));
	api_write_text("/a/b/f", "x");
	api_check_text("a/b/f", "x");
	api_check_text("//a/.//b/../b/f", "x");
	api_check_text("/../../a/b/f", "x");
	dir = api_open("/a/b", O_RDONLY, 0);
	ok(gpu4fs_stat(fs, dir, "f", &stat));
	ok(gpu4fs_stat(fs, dir, "../b/./f", &stat));
	ok(gpu4fs_stat(fs, dir, "/a", &stat));
	ok(gpu4fs_stat(fs, dir, ".", &stat));
	assert_int_equal(stat.ino, api_lstat("/a/b").ino);
	ok(gpu4fs_stat(fs, dir, "..", &stat));
	assert_int_equal(stat.ino, api_lstat("/a").ino);
	fails(gpu4fs_stat(fs, dir, "", &stat), ENOENT);
	ok(gpu4fs_rename(fs, NULL, "/a", NULL, "/c", 0));
	ok(gpu4fs_rename(fs, dir, "f", dir, "../g", 0));
	api_check_text("/c/g", "x");
	file = api_open("/c/g", O_RDONLY, 0);
	fails(gpu4fs_stat(fs, file, "x", &stat), ENOTDIR);
	ok(gpu4fs_stat(fs, file, "/c", &stat));
	ok(gpu4fs_close(file));
	ok(gpu4fs_close(dir));
}

static void the_parent_of_a_moved_directory_is_its_new_one(void **state)
{
	struct gpu4fs_stat stat;

	(void)state;
	ok(gpu4fs_mkdir(fs, NULL, "/a", 0755));
	ok(gpu4fs_mkdir(fs, NULL, "/b", 0755));
	ok(gpu4fs_mkdir(fs, NULL, "/a/d", 0755));
	ok(gpu4fs_rename(fs, NULL, "/a/d", NULL, "/b/d", 0));
	ok(gpu4fs_stat(fs, NULL, "/b/d/..", &stat));
	assert_int_equal(stat.ino, api_lstat("/b").ino);
}

/* ------------------------------------------------------------------ links */

static void hard_links_share_one_file(void **state)
{
	(void)state;
	ok(gpu4fs_mkdir(fs, NULL, "/d", 0755));
	api_write_text("/a", "one");
	ok(gpu4fs_link(fs, NULL, "/a", NULL, "/d/b", 0));
	assert_int_equal(api_lstat("/a").nlink, 2);
	assert_int_equal(api_lstat("/a").ino, api_lstat("/d/b").ino);
	api_write_text("/d/b", "two");
	api_check_text("/a", "two");
	fails(gpu4fs_link(fs, NULL, "/a", NULL, "/d/b", 0), EEXIST);
	fails(gpu4fs_link(fs, NULL, "/d", NULL, "/e", 0), EPERM);
	fails(gpu4fs_link(fs, NULL, "/none", NULL, "/e", 0), ENOENT);
	fails(gpu4fs_link(fs, NULL, "/a", NULL, "/none/e", 0), ENOENT);
	ok(gpu4fs_unlink(fs, NULL, "/a"));
	assert_int_equal(api_lstat("/d/b").nlink, 1);
	api_check_text("/d/b", "two");
}

static void a_link_to_a_symbolic_link_is_chosen_by_the_flag(void **state)
{
	(void)state;
	api_write_text("/f", "x");
	ok(gpu4fs_symlink(fs, "f", NULL, "/s"));
	ok(gpu4fs_link(fs, NULL, "/s", NULL, "/same", 0));
	ok(gpu4fs_link(fs, NULL, "/s", NULL, "/followed", AT_SYMLINK_FOLLOW));
	assert_int_equal(api_lstat("/same").ino, api_lstat("/s").ino);
	assert_int_equal(api_lstat("/followed").ino, api_lstat("/f").ino);
	fails(gpu4fs_link(fs, NULL, "/s", NULL, "/x", AT_SYMLINK_NOFOLLOW), EINVAL);
}

static void a_file_takes_more_than_65000_links(void **state)
{
	/* It is a matter of the number's width, which no check and no number of lanes changes: there as many as a byte counts. */
	const int LINKS = rig_slow() ? 257 : 65537, MORE = 100;
	char path[32];

	(void)state;
	/* The number is the engine's affair: a connection carries it, and would only wait 65 000 times. */
	api_touch("/f", 0644);
	ok(gpu4fs_mkdir(fs, NULL, "/d", 0755));
	for (int i = 1; i < LINKS; i++) {
		snprintf(path, sizeof(path), "/d/%d", i);
		ok(gpu4fs_link(api_in_process(), NULL, "/f", NULL, path, 0));
	}
	assert_int_equal(api_lstat("/d/77").nlink, LINKS);
	for (int i = LINKS; i < LINKS + MORE; i++) {
		snprintf(path, sizeof(path), "/d/%d", i);
		ok(gpu4fs_link(fs, NULL, "/f", NULL, path, 0));
	}
	assert_int_equal(api_lstat("/f").nlink, LINKS + MORE);
	for (int i = 1; i <= 2 * MORE; i++) {
		snprintf(path, sizeof(path), "/d/%d", i);
		ok(gpu4fs_unlink(fs, NULL, path));
		assert_int_equal(api_lstat("/f").nlink, LINKS + MORE - i); /* back across the border */
	}
}

static void symbolic_links_keep_their_text(void **state)
{
	char target[4097], found[4097];
	struct gpu4fs_stat stat;

	(void)state;
	for (size_t bytes = 1; bytes < 4096; bytes = bytes * 2 + 1) {
		memset(target, 't', bytes);
		target[bytes] = 0;
		ok(gpu4fs_symlink(fs, target, NULL, "/s"));
		gives(gpu4fs_readlink(fs, NULL, "/s", found, sizeof(found)), bytes);
		assert_memory_equal(found, target, bytes);
		gives(gpu4fs_readlink(fs, NULL, "/s", found, 1), 1);
		stat = api_lstat("/s");
		assert_int_equal(stat.size, bytes);
		assert_int_equal(stat.mode, S_IFLNK | 0777);
		ok(gpu4fs_unlink(fs, NULL, "/s"));
	}
	memset(target, 't', 4096);
	target[4096] = 0;
	fails(gpu4fs_symlink(fs, target, NULL, "/s"), ENAMETOOLONG);
	fails(gpu4fs_symlink(fs, "", NULL, "/s"), ENOENT);
	api_touch("/f", 0644);
	fails(gpu4fs_symlink(fs, "x", NULL, "/f"), EEXIST);
	fails(gpu4fs_readlink(fs, NULL, "/f", found, 10), EINVAL);
	fails(gpu4fs_readlink(fs, NULL, "/f", found, 0), EINVAL);
}

static void symbolic_links_are_followed_in_paths(void **state)
{
	struct gpu4fs_stat stat;

	(void)state;
	ok(gpu4fs_mkdir(fs, NULL, "/d", 0755));
	ok(gpu4fs_mkdir(fs, NULL, "/d/e", 0755));
	api_write_text("/d/e/f", "x");
	ok(gpu4fs_symlink(fs, "d/e", NULL, "/relative"));
	ok(gpu4fs_symlink(fs, "/d", NULL, "/d/e/absolute"));
	ok(gpu4fs_symlink(fs, "../relative/", NULL, "/d/back"));
	ok(gpu4fs_symlink(fs, "/none", NULL, "/dangling"));
	api_check_text("/relative/f", "x");
	api_check_text("/d/back/absolute/back/f", "x");
	ok(gpu4fs_stat(fs, NULL, "/relative", &stat));
	assert_true(S_ISDIR(stat.mode));
	assert_true(S_ISLNK(api_lstat("/relative").mode));
	assert_true(S_ISDIR(api_lstat("/relative/").mode));
	ok(gpu4fs_stat(fs, NULL, "/relative/..", &stat));
	assert_int_equal(stat.ino, api_lstat("/d").ino);
	fails(gpu4fs_stat(fs, NULL, "/dangling", &stat), ENOENT);
	fails(gpu4fs_mkdir(fs, NULL, "/dangling", 0755), EEXIST);
}

static void circles_of_symbolic_links_end(void **state)
{
	char from[32], to[32];
	struct gpu4fs_stat stat;

	(void)state;
	ok(gpu4fs_symlink(fs, "b", NULL, "/a"));
	ok(gpu4fs_symlink(fs, "a", NULL, "/b"));
	fails(gpu4fs_stat(fs, NULL, "/a", &stat), ELOOP);
	fails(gpu4fs_stat(fs, NULL, "/a/x", &stat), ELOOP);
	assert_true(S_ISLNK(api_lstat("/a").mode));
	api_touch("/l0", 0644);
	for (int i = 1; i <= 41; i++) {
		snprintf(from, sizeof(from), "/l%d", i);
		snprintf(to, sizeof(to), "l%d", i - 1);
		ok(gpu4fs_symlink(fs, to, NULL, from));
	}
	ok(gpu4fs_stat(fs, NULL, "/l40", &stat));
	fails(gpu4fs_stat(fs, NULL, "/l41", &stat), ELOOP);
}

/* ------------------------------------------------------------------ rename */

static void rename_replaces_what_is_there(void **state)
{
	uint64_t ino;

	(void)state;
	api_write_text("/a", "a");
	api_write_text("/b", "b");
	ok(gpu4fs_link(fs, NULL, "/b", NULL, "/b2", 0));
	ino = api_lstat("/a").ino;
	ok(gpu4fs_rename(fs, NULL, "/a", NULL, "/b", 0));
	assert_false(api_exists("/a"));
	api_check_text("/b", "a");
	assert_int_equal(api_lstat("/b").ino, ino);
	assert_int_equal(api_lstat("/b2").nlink, 1);
	ok(gpu4fs_rename(fs, NULL, "/b", NULL, "/b", 0));
	api_check_text("/b", "a");
	fails(gpu4fs_rename(fs, NULL, "/none", NULL, "/b", 0), ENOENT);
	ok(gpu4fs_symlink(fs, "b", NULL, "/s"));
	ok(gpu4fs_rename(fs, NULL, "/s", NULL, "/t", 0));
	assert_true(S_ISLNK(api_lstat("/t").mode));
	ok(gpu4fs_rename(fs, NULL, "/b2", NULL, "/t", 0));
	api_check_text("/t", "b");
	api_check_text("/b", "a");
}

/* A long name does not fit where the short one was: the page of both is split, with the old name on either side. */
static void renames_to_longer_names_keep_every_file(void **state)
{
	enum { FILES = 60 };
	char from[16], to[300], text[16];

	(void)state;
	ok(gpu4fs_mkdir(fs, NULL, "/d", 0755));
	for (int i = 0; i < FILES; i++) {
		snprintf(from, sizeof(from), "/d/s%d", i);
		snprintf(text, sizeof(text), "%d", i);
		api_write_text(from, text);
	}
	for (int i = 0; i < FILES; i++) {
		snprintf(from, sizeof(from), "/d/s%d", i);
		snprintf(to, sizeof(to), "/d/%d-%0200d", i, i);
		ok(gpu4fs_rename(fs, NULL, from, NULL, to, 0));
	}
	for (int i = 0; i < FILES; i++) {
		struct gpu4fs_stat st;
		snprintf(from, sizeof(from), "/d/s%d", i);
		snprintf(to, sizeof(to), "/d/%d-%0200d", i, i);
		snprintf(text, sizeof(text), "%d", i);
		fails(gpu4fs_stat(fs, NULL, from, &st), ENOENT);
		api_check_text(to, text);
		ok(gpu4fs_unlink(fs, NULL, to));
	}
	ok(gpu4fs_rmdir(fs, NULL, "/d"));
}

static void rename_between_links_of_one_file_does_nothing(void **state)
{
	(void)state;
	api_write_text("/a", "x");
	ok(gpu4fs_link(fs, NULL, "/a", NULL, "/b", 0));
	ok(gpu4fs_rename(fs, NULL, "/a", NULL, "/b", 0));
	assert_true(api_exists("/a"));
	assert_int_equal(api_lstat("/b").nlink, 2);
}

static void rename_wants_types_to_match_and_targets_to_be_empty(void **state)
{
	(void)state;
	api_touch("/f", 0644);
	ok(gpu4fs_mkdir(fs, NULL, "/d", 0755));
	ok(gpu4fs_mkdir(fs, NULL, "/e", 0755));
	ok(gpu4fs_mkdir(fs, NULL, "/full", 0755));
	api_touch("/full/x", 0644);
	fails(gpu4fs_rename(fs, NULL, "/f", NULL, "/d", 0), EISDIR);
	fails(gpu4fs_rename(fs, NULL, "/d", NULL, "/f", 0), ENOTDIR);
	fails(gpu4fs_rename(fs, NULL, "/d", NULL, "/full", 0), ENOTEMPTY);
	ok(gpu4fs_rename(fs, NULL, "/full", NULL, "/e", 0));
	assert_true(api_exists("/e/x"));
	assert_false(api_exists("/full"));
	ok(gpu4fs_rename(fs, NULL, "/e", NULL, "/e", 0));
}

static void a_directory_does_not_move_into_itself(void **state)
{
	(void)state;
	ok(gpu4fs_mkdir(fs, NULL, "/a", 0755));
	ok(gpu4fs_mkdir(fs, NULL, "/a/b", 0755));
	ok(gpu4fs_mkdir(fs, NULL, "/a/b/c", 0755));
	fails(gpu4fs_rename(fs, NULL, "/a", NULL, "/a/x", 0), EINVAL);
	fails(gpu4fs_rename(fs, NULL, "/a", NULL, "/a/b/c/x", 0), EINVAL);
	fails(gpu4fs_rename(fs, NULL, "/a", NULL, "/a/b/c", GPU4FS_RENAME_EXCHANGE), EINVAL);
	fails(gpu4fs_rename(fs, NULL, "/a/b/c", NULL, "/a", 0), ENOTEMPTY);
	ok(gpu4fs_rename(fs, NULL, "/a/b/c", NULL, "/c", 0));
	ok(gpu4fs_rename(fs, NULL, "/a", NULL, "/c/a", 0));
	assert_true(api_exists("/c/a/b"));
}

static void noreplace_never_replaces(void **state)
{
	(void)state;
	api_write_text("/a", "a");
	api_write_text("/b", "b");
	fails(gpu4fs_rename(fs, NULL, "/a", NULL, "/b", GPU4FS_RENAME_NOREPLACE), EEXIST);
	api_check_text("/b", "b");
	ok(gpu4fs_rename(fs, NULL, "/a", NULL, "/c", GPU4FS_RENAME_NOREPLACE));
	api_check_text("/c", "a");
	fails(gpu4fs_rename(fs, NULL, "/c", NULL, "/x", 8), EINVAL);
	fails(gpu4fs_rename(fs, NULL, "/c", NULL, "/b", GPU4FS_RENAME_NOREPLACE | GPU4FS_RENAME_EXCHANGE), EINVAL);
}

static void exchange_swaps_any_two_names(void **state)
{
	struct gpu4fs_stat stat;

	(void)state;
	ok(gpu4fs_mkdir(fs, NULL, "/a", 0755));
	ok(gpu4fs_mkdir(fs, NULL, "/a/sub", 0755));
	ok(gpu4fs_mkdir(fs, NULL, "/b", 0755));
	api_write_text("/b/f", "file");
	ok(gpu4fs_rename(fs, NULL, "/a/sub", NULL, "/b/f", GPU4FS_RENAME_EXCHANGE));
	api_check_text("/a/sub", "file");
	assert_true(S_ISDIR(api_lstat("/b/f").mode));
	ok(gpu4fs_stat(fs, NULL, "/b/f/..", &stat));
	assert_int_equal(stat.ino, api_lstat("/b").ino);
	assert_int_equal(api_lstat("/a").nlink, 2);
	assert_int_equal(api_lstat("/b").nlink, 3);
	fails(gpu4fs_rename(fs, NULL, "/a", NULL, "/none", GPU4FS_RENAME_EXCHANGE), ENOENT);
	ok(gpu4fs_rename(fs, NULL, "/a", NULL, "/b", GPU4FS_RENAME_EXCHANGE));
	api_check_text("/b/sub", "file");
}

static void expect_whiteout(const char *path)
{
	struct gpu4fs_stat stat = api_lstat(path);

	assert_int_equal(stat.mode, S_IFCHR);
	assert_int_equal(stat.rdev, 0);
	assert_int_equal(stat.nlink, 1);
}

static void a_rename_leaves_a_whiteout(void **state)
{
	static const uint32_t wrong[] = {GPU4FS_RENAME_WHITEOUT | GPU4FS_RENAME_EXCHANGE, 7, 8};

	(void)state;
	ok(gpu4fs_mkdir(fs, NULL, "/a", 0755));
	ok(gpu4fs_mkdir(fs, NULL, "/a/sub", 0755));
	ok(gpu4fs_mkdir(fs, NULL, "/b", 0755));
	api_write_text("/a/f", "file");
	api_write_text("/b/old", "other");
	for (size_t k = 0; k < sizeof(wrong) / sizeof(wrong[0]); k++)
		fails(gpu4fs_rename(fs, NULL, "/a/f", NULL, "/b/f", wrong[k]), EINVAL);
	ok(gpu4fs_rename(fs, NULL, "/a/f", NULL, "/a/g", GPU4FS_RENAME_WHITEOUT));
	api_check_text("/a/g", "file");
	expect_whiteout("/a/f");
	ok(gpu4fs_rename(fs, NULL, "/a/g", NULL, "/b/old", GPU4FS_RENAME_WHITEOUT)); /* over another */
	api_check_text("/b/old", "file");
	expect_whiteout("/a/g");
	fails(gpu4fs_rename(fs, NULL, "/b/old", NULL, "/a/g", GPU4FS_RENAME_WHITEOUT | GPU4FS_RENAME_NOREPLACE),
	      EEXIST);
	ok(gpu4fs_rename(fs, NULL, "/b/old", NULL, "/a/h", GPU4FS_RENAME_WHITEOUT | GPU4FS_RENAME_NOREPLACE));
	expect_whiteout("/b/old");
	ok(gpu4fs_rename(fs, NULL, "/a/sub", NULL, "/b/sub", GPU4FS_RENAME_WHITEOUT)); /* a directory */
	expect_whiteout("/a/sub");
	assert_int_equal(api_lstat("/a").nlink, 2);
	assert_int_equal(api_lstat("/b").nlink, 3);
	assert_int_equal(api_count_names("/a"), 4);
	ok(gpu4fs_link(fs, NULL, "/a/h", NULL, "/a/same", 0)); /* two names of one file: nothing happens */
	ok(gpu4fs_rename(fs, NULL, "/a/h", NULL, "/a/same", GPU4FS_RENAME_WHITEOUT));
	api_check_text("/a/h", "file");
	ok(gpu4fs_unlink(fs, NULL, "/a/sub"));
	fails(gpu4fs_rmdir(fs, NULL, "/b"), ENOTEMPTY);
}

/* ------------------------------------------------------------------ reading directories */

/* Several leaves, and several requests to read them all. */
enum { MOST = 10000, FEWER = 2000 };
static int many; /* of them */

static void make_many(void)
{
	char path[64];

	many = rig_slow() ? FEWER : MOST;
	ok(gpu4fs_mkdir(fs, NULL, "/many", 0755));
	for (int i = 0; i < many; i++) {
		snprintf(path, sizeof(path), "/many/name-%d", i);
		ok(gpu4fs_mknod(fs, NULL, path, S_IFREG | 0644, 0));
	}
}

static int number_of(const struct gpu4fs_dirent *entry)
{
	int number = -1;

	assert_int_equal(sscanf(entry->name, "name-%d", &number), 1);
	assert_in_range(number, 0, many - 1);
	return number;
}

static void every_name_is_read_once(void **state)
{
	static unsigned char seen[MOST];
	struct gpu4fs_dirent entry;
	gpu4fs_dir *dir;

	(void)state;
	memset(seen, 0, sizeof(seen));
	make_many();
	ok(gpu4fs_opendir(fs, NULL, "/many", 0, &dir));
	while (gpu4fs_readdir(dir, &entry) == 1) {
		assert_int_equal(entry.type, DT_REG);
		assert_int_equal(entry.name_bytes, strlen(entry.name));
		assert_null(entry.stat);
		seen[number_of(&entry)]++;
	}
	for (int i = 0; i < many; i++)
		assert_int_equal(seen[i], 1);
	ok(gpu4fs_closedir(dir));
}

static void names_that_stay_are_read_once_while_others_come_and_go(void **state)
{
	static unsigned char seen[MOST];
	struct gpu4fs_dirent entry;
	gpu4fs_dir *dir;
	char path[64];
	int read = 0, removed = 0;

	(void)state;
	memset(seen, 0, sizeof(seen));
	make_many();
	ok(gpu4fs_opendir(fs, NULL, "/many", 0, &dir));
	while (gpu4fs_readdir(dir, &entry) == 1) {
		if (strncmp(entry.name, "new-", 4) != 0)
			seen[number_of(&entry)]++;
		/* With every name read, one with an odd number goes and a new one comes. */
		if (removed < many / 2) {
			snprintf(path, sizeof(path), "/many/name-%d", 2 * removed + 1);
			ok(gpu4fs_unlink(fs, NULL, path));
			snprintf(path, sizeof(path), "/many/new-%d", removed++);
			ok(gpu4fs_mknod(fs, NULL, path, S_IFREG | 0644, 0));
		}
		assert_true(++read < 4 * many);
	}
	for (int i = 0; i < many; i++) {
		if (i % 2 == 0)
			assert_int_equal(seen[i], 1);
		else
			assert_true(seen[i] <= 1);
	}
	ok(gpu4fs_closedir(dir));
}

static void *remove_odd_names(void *argument)
{
	char path[64];

	(void)argument;
	for (int i = 1; i < many; i += 2) {
		snprintf(path, sizeof(path), "/many/name-%d", i);
		if (gpu4fs_unlink(fs, NULL, path))
			return (void *)1;
	}
	return NULL;
}

static void names_that_stay_are_read_once_while_a_thread_deletes_half(void **state)
{
	static unsigned char seen[MOST];
	struct gpu4fs_dirent entry;
	pthread_t thread;
	void *failed;

	(void)state;
	make_many();
	assert_int_equal(pthread_create(&thread, NULL, remove_odd_names, NULL), 0);
	for (int round = 0; round < 5; round++) {
		gpu4fs_dir *dir;
		int rc;

		memset(seen, 0, sizeof(seen));
		ok(gpu4fs_opendir(fs, NULL, "/many", 0, &dir));
		while ((rc = gpu4fs_readdir(dir, &entry)) == 1)
			seen[number_of(&entry)]++;
		ok(rc);
		ok(gpu4fs_closedir(dir));
		for (int i = 0; i < many; i++)
			assert_true(i % 2 ? seen[i] <= 1 : seen[i] == 1);
	}
	pthread_join(thread, &failed);
	assert_null(failed);
	assert_int_equal(api_count_names("/many"), many / 2);
}

static void a_directory_is_removed_while_it_is_read(void **state)
{
	struct gpu4fs_dirent entry;
	gpu4fs_dir *dir;
	char path[64];
	int count = 0;

	(void)state;
	make_many();
	ok(gpu4fs_opendir(fs, NULL, "/many", 0, &dir));
	while (gpu4fs_readdir(dir, &entry) == 1) {
		snprintf(path, sizeof(path), "/many/%s", entry.name);
		ok(gpu4fs_unlink(fs, NULL, path));
		count++;
	}
	ok(gpu4fs_closedir(dir));
	assert_int_equal(count, many);
	ok(gpu4fs_rmdir(fs, NULL, "/many"));
}

static void cookies_lead_back_to_their_place(void **state)
{
	static uint64_t cookies[200];
	static char names[200][32];
	struct gpu4fs_dirent entry;
	gpu4fs_dir *dir, *other;
	char path[64];
	int count = 0;

	(void)state;
	ok(gpu4fs_mkdir(fs, NULL, "/d", 0755));
	for (int i = 0; i < 200; i++) {
		snprintf(path, sizeof(path), "/d/name-%d", i);
		api_touch(path, 0644);
	}
	ok(gpu4fs_opendir(fs, NULL, "/d", 0, &dir));
	assert_int_equal(gpu4fs_telldir(dir), 0);
	while (gpu4fs_readdir(dir, &entry) == 1) {
		assert_int_equal(entry.cookie, gpu4fs_telldir(dir));
		snprintf(names[count], sizeof(names[0]), "%s", entry.name);
		cookies[count++] = entry.cookie;
	}
	assert_int_equal(count, 200);
	ok(gpu4fs_opendir(fs, NULL, "/d", 0, &other));
	for (int i = 198; i >= 0; i -= 7) {
		gpu4fs_seekdir(other, cookies[i]);
		gives(gpu4fs_readdir(other, &entry), 1);
		assert_string_equal(entry.name, names[i + 1]);
	}
	/* Also when the entry itself is gone. */
	snprintf(path, sizeof(path), "/d/%s", names[50]);
	ok(gpu4fs_unlink(fs, NULL, path));
	gpu4fs_seekdir(dir, cookies[50]);
	gives(gpu4fs_readdir(dir, &entry), 1);
	assert_string_equal(entry.name, names[51]);
	gpu4fs_seekdir(dir, 0);
	gives(gpu4fs_readdir(dir, &entry), 1);
	assert_string_equal(entry.name, names[0]);
	ok(gpu4fs_closedir(dir));
	ok(gpu4fs_closedir(other));
}

static void a_stream_delivers_types_and_attributes(void **state)
{
	static const struct {
		const char *name;
		uint32_t type;
	} nodes[] = {{"file", DT_REG},	{"dir", DT_DIR},     {"link", DT_LNK},
		     {"fifo", DT_FIFO}, {"socket", DT_SOCK}, {"null", DT_CHR}};
	struct gpu4fs_dirent entry;
	gpu4fs_dir *dir;
	char path[64];
	int count = 0;

	(void)state;
	ok(gpu4fs_mkdir(fs, NULL, "/d", 0755));
	api_write_text("/d/file", "12345");
	ok(gpu4fs_mkdir(fs, NULL, "/d/dir", 0755));
	ok(gpu4fs_symlink(fs, "x", NULL, "/d/link"));
	ok(gpu4fs_mknod(fs, NULL, "/d/fifo", S_IFIFO | 0600, 0));
	ok(gpu4fs_mknod(fs, NULL, "/d/socket", S_IFSOCK | 0600, 0));
	ok(gpu4fs_mknod(fs, NULL, "/d/null", S_IFCHR | 0666, 0x103));
	ok(gpu4fs_opendir(fs, NULL, "/d", GPU4FS_DIR_STAT, &dir));
	while (gpu4fs_readdir(dir, &entry) == 1) {
		struct gpu4fs_stat stat;

		for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
			if (strcmp(entry.name, nodes[i].name) == 0)
				assert_int_equal(entry.type, nodes[i].type);
		}
		snprintf(path, sizeof(path), "/d/%s", entry.name);
		stat = api_lstat(path);
		assert_non_null(entry.stat);
		assert_int_equal(entry.ino, stat.ino);
		assert_memory_equal(entry.stat, &stat, sizeof(stat));
		count++;
	}
	assert_int_equal(count, 6);
	ok(gpu4fs_closedir(dir));
}

static void dots_come_where_they_are_asked_for(void **state)
{
	struct gpu4fs_stat child, root;
	struct gpu4fs_dirent entry;
	gpu4fs_dir *dir;

	(void)state;
	ok(gpu4fs_mkdir(fs, NULL, "/d", 0755));
	api_touch("/d/f", 0644);
	ok(gpu4fs_stat(fs, NULL, "/d", &child));
	ok(gpu4fs_stat(fs, NULL, "/", &root));
	ok(gpu4fs_opendir(fs, NULL, "/d", GPU4FS_DIR_DOTS, &dir));
	gives(gpu4fs_readdir(dir, &entry), 1);
	assert_string_equal(entry.name, ".");
	assert_int_equal(entry.ino, child.ino);
	gives(gpu4fs_readdir(dir, &entry), 1);
	assert_string_equal(entry.name, "..");
	assert_int_equal(entry.ino, root.ino);
	gives(gpu4fs_readdir(dir, &entry), 1);
	assert_string_equal(entry.name, "f");
	gives(gpu4fs_readdir(dir, &entry), 0);
	ok(gpu4fs_closedir(dir));
}

static void streams_need_a_directory(void **state)
{
	gpu4fs_file *file;
	gpu4fs_dir *dir;

	(void)state;
	api_touch("/f", 0644);
	fails(gpu4fs_opendir(fs, NULL, "/f", 0, &dir), ENOTDIR);
	fails(gpu4fs_opendir(fs, NULL, "/none", 0, &dir), ENOENT);
	fails(gpu4fs_opendir(fs, NULL, "/", 4, &dir), EINVAL);
	file = api_open("/f", O_RDONLY, 0);
	fails(gpu4fs_opendir_file(file, 0, &dir), ENOTDIR);
	ok(gpu4fs_close(file));
}

/* ------------------------------------------------------------------ together */

enum { WORKERS = 4, ROUNDS = 300 };

static void *churn(void *argument)
{
	uint64_t random = *(int *)argument;
	char from[32], to[32];

	for (int i = 0; i < ROUNDS; i++) {
		gpu4fs_file *file;
		int rc;

		snprintf(from, sizeof(from), "/c%d/n%d", (int)(api_random(&random) % 3),
			 (int)(api_random(&random) % 5));
		snprintf(to, sizeof(to), "/c%d/n%d", (int)(api_random(&random) % 3), (int)(api_random(&random) % 5));
		switch (api_random(&random) % 5) {
		case 0:
			rc = gpu4fs_unlink(fs, NULL, from);
			break;
		case 1:
			rc = gpu4fs_rename(fs, NULL, from, NULL, to, (uint32_t)(api_random(&random) % 3));
			break;
		case 2:
			rc = gpu4fs_link(fs, NULL, from, NULL, to, 0);
			break;
		default:
			rc = gpu4fs_open(fs, NULL, from, O_RDWR | O_CREAT, 0644, &file);
			if (rc == 0) {
				rc = gpu4fs_pwrite(file, from, sizeof(from), 0) == sizeof(from) ? 0 : -EIO;
				gpu4fs_close(file);
			}
			break;
		}
		if (rc && rc != -ENOENT && rc != -EEXIST) {
			print_error("%s %s: %s\n", from, to, gpu4fs_strerror(rc));
			return (void *)1;
		}
	}
	return NULL;
}

static void threads_on_the_same_names_leave_counts_that_add_up(void **state)
{
	pthread_t threads[WORKERS];
	void *failed[WORKERS];
	int seeds[WORKERS];
	struct gpu4fs_dirent entry;

	(void)state;
	ok(gpu4fs_mkdir(fs, NULL, "/c0", 0755));
	ok(gpu4fs_mkdir(fs, NULL, "/c1", 0755));
	ok(gpu4fs_mkdir(fs, NULL, "/c2", 0755));
	for (int i = 0; i < WORKERS; i++) {
		seeds[i] = i;
		assert_int_equal(pthread_create(&threads[i], NULL, churn, &seeds[i]), 0);
	}
	for (int i = 0; i < WORKERS; i++)
		pthread_join(threads[i], &failed[i]);
	for (int i = 0; i < WORKERS; i++)
		assert_null(failed[i]);
	/* Every name is counted once in the link count of its file. */
	for (int d = 0; d < 3; d++) {
		char path[8];
		gpu4fs_dir *dir;

		snprintf(path, sizeof(path), "/c%d", d);
		ok(gpu4fs_opendir(fs, NULL, path, GPU4FS_DIR_STAT, &dir));
		while (gpu4fs_readdir(dir, &entry) == 1) {
			uint64_t ino = entry.ino;
			uint32_t links = entry.stat->nlink, found = 0;

			for (int n = 0; n < 15; n++) {
				char name[32];

				snprintf(name, sizeof(name), "/c%d/n%d", n / 5, n % 5);
				found += api_exists(name) && api_lstat(name).ino == ino;
			}
			assert_int_equal(found, links);
		}
		ok(gpu4fs_closedir(dir));
	}
}

static void the_tree_survives_unmount_and_mount(void **state)
{
	static const char image[] = "api_dirs_remount.img";
	gpu4fs *memory = fs;
	char path[64], target[16];

	(void)state;
	api_image(image, 32 << 20);
	fs = api_mount(image, true);
	make_many();
	for (int i = 0; i < many; i += 2) {
		snprintf(path, sizeof(path), "/many/name-%d", i);
		ok(gpu4fs_unlink(fs, NULL, path));
	}
	ok(gpu4fs_symlink(fs, "many/name-1", NULL, "/s"));
	ok(gpu4fs_link(fs, NULL, "/many/name-3", NULL, "/hard", 0));
	ok(gpu4fs_rename(fs, NULL, "/many/name-5", NULL, "/moved", 0));
	ok(gpu4fs_unmount(fs));
	fs = api_mount(image, false);
	assert_int_equal(api_count_names("/many"), many / 2 - 1);
	gives(gpu4fs_readlink(fs, NULL, "/s", target, sizeof(target)), 11);
	assert_int_equal(api_lstat("/hard").nlink, 2);
	assert_true(api_exists("/moved"));
	assert_false(api_exists("/many/name-5"));
	assert_false(api_exists("/many/name-4"));
	ok(gpu4fs_unmount(fs));
	fs = memory;
	unlink(image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(directories_are_made_and_removed),
		api_test(each_removal_refuses_the_wrong_type),
		api_test(dots_and_the_root_are_no_names),
		api_test(only_directories_may_end_in_a_slash),
		api_test(the_link_count_of_a_directory_counts_its_subdirectories),
		api_test(a_removed_directory_that_is_open_is_empty_and_takes_nothing),
		api_test(names_have_up_to_255_bytes),
		api_test(paths_have_up_to_4095_bytes),
		api_test(paths_walk_dots_slashes_and_handles),
		api_test(the_parent_of_a_moved_directory_is_its_new_one),
		api_test(hard_links_share_one_file),
		api_test(a_link_to_a_symbolic_link_is_chosen_by_the_flag),
		api_test(a_file_takes_more_than_65000_links),
		api_test(symbolic_links_keep_their_text),
		api_test(symbolic_links_are_followed_in_paths),
		api_test(circles_of_symbolic_links_end),
		api_test(rename_replaces_what_is_there),
		api_test(renames_to_longer_names_keep_every_file),
		api_test(rename_between_links_of_one_file_does_nothing),
		api_test(rename_wants_types_to_match_and_targets_to_be_empty),
		api_test(a_directory_does_not_move_into_itself),
		api_test(noreplace_never_replaces),
		api_test(exchange_swaps_any_two_names),
		api_test(a_rename_leaves_a_whiteout),
		api_test(every_name_is_read_once),
		api_test(names_that_stay_are_read_once_while_others_come_and_go),
		api_test(names_that_stay_are_read_once_while_a_thread_deletes_half),
		api_test(a_directory_is_removed_while_it_is_read),
		api_test(cookies_lead_back_to_their_place),
		api_test(a_stream_delivers_types_and_attributes),
		api_test(dots_come_where_they_are_asked_for),
		api_test(streams_need_a_directory),
		api_test(threads_on_the_same_names_leave_counts_that_add_up),
		api_test(the_tree_survives_unmount_and_mount),
	};

	return cmocka_run_group_tests_name("api directories", tests, NULL, NULL);
}
