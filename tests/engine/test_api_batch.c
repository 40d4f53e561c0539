/* SPDX-License-Identifier: Apache-2.0 */
/* Batches and missing parents through the public API: more entries, and longer paths, than one command of the engine takes. */
#include "api_fixture.h"
#include "rig.h"

static void one_by_one_or_together(void **state)
{
	struct gpu4fs_stat stat = {0}, link = {0};
	struct gpu4fs_batch_entry entries[] = {
		{.op = GPU4FS_BATCH_MKDIR, .path = "d", .mode = 07777},
		{.op = GPU4FS_BATCH_CREATE, .path = "d/f", .mode = 0666},
		{.op = GPU4FS_BATCH_CREATE, .path = "none/f", .mode = 0666},
		{.op = GPU4FS_BATCH_STAT, .path = "d/f", .stat = &stat},
		{.op = GPU4FS_BATCH_MKDIR_ALL, .path = "d/a/b/c", .mode = 0755},
		{.op = GPU4FS_BATCH_RENAME, .path = "d/f", .path2 = "d/a/g"},
		{.op = GPU4FS_BATCH_LSTAT, .path = "/link", .stat = &link},
		{.op = GPU4FS_BATCH_STAT, .path = "/link/a/none/x", .stat = &link},
		{.op = GPU4FS_BATCH_UNLINK, .path = "d/a/g"},
		{.op = GPU4FS_BATCH_RMDIR, .path = "d"},
		{.op = 77, .path = "d"},
		{.op = GPU4FS_BATCH_STAT, .path = NULL},
		{.op = GPU4FS_BATCH_CREATE, .path = "pipe", .mode = S_IFIFO | 0600},
		{.op = GPU4FS_BATCH_CREATE, .path = "disk", .mode = S_IFBLK | 0600},
	};
	const struct {
		int result;
		uint32_t component;
	} wanted[] = {
		{0, GPU4FS_BATCH_AT_NAME},
		{0, GPU4FS_BATCH_AT_NAME},
		{-ENOENT, 0},
		{0, GPU4FS_BATCH_AT_NAME},
		{0, GPU4FS_BATCH_AT_NAME},
		{0, GPU4FS_BATCH_AT_NAME},
		{0, GPU4FS_BATCH_AT_NAME},
		{-ENOENT, 2},
		{0, GPU4FS_BATCH_AT_NAME},
		{-ENOTEMPTY, GPU4FS_BATCH_AT_NAME},
		{-EINVAL, GPU4FS_BATCH_AT_NAME},
		{-ENOENT, GPU4FS_BATCH_AT_NAME},
		{0, GPU4FS_BATCH_AT_NAME},
		{-EPERM, GPU4FS_BATCH_AT_NAME},
	};
	const uint32_t count = sizeof(entries) / sizeof(entries[0]);

	(void)state;
	ok(gpu4fs_symlink(fs, "d", NULL, "/link"));
	gives(gpu4fs_batch(fs, NULL, entries, count, 0), 8);
	for (uint32_t k = 0; k < count; k++) {
		if (entries[k].result != wanted[k].result || entries[k].component != wanted[k].component)
			fail_msg("entry %u: %d at %d", k, entries[k].result, (int)entries[k].component);
	}
	assert_int_equal(stat.mode, S_IFREG | 0644);
	assert_int_equal(link.mode & S_IFMT, S_IFLNK);
	assert_int_equal(entries[4].made, 3);
	assert_int_equal(api_lstat("/d").mode, S_IFDIR | 01755);
	gpu4fs_file *d = api_open("/d", O_RDONLY | O_DIRECTORY, 0), *file = api_open("/x", O_RDWR | O_CREAT, 0600);
	struct gpu4fs_batch_entry more = {.op = GPU4FS_BATCH_CREATE, .path = "in d"};
	gives(gpu4fs_batch(fs, d, &more, 1, GPU4FS_BATCH_STOP), 1);
	assert_true(api_exists("/d/in d"));
	fails(gpu4fs_batch(fs, file, &more, 1, 0), ENOTDIR);
	fails(gpu4fs_batch(fs, d, &more, 1, 2), EINVAL);
	gives(gpu4fs_batch(fs, d, &more, 0, 0), 0);
	ok(gpu4fs_close(file));
	ok(gpu4fs_close(d));
}

/* Removals and renames whose paths are at fault in all ways. */
static void what_fails_of_removals_is_told(void **state)
{
	static char deep[3][66000];
	const struct {
		struct gpu4fs_batch_entry entry;
		int result;
		uint32_t component, made;
	} cases[] = {
		{{.op = GPU4FS_BATCH_UNLINK, .path = "d/e/none"}, -ENOENT, GPU4FS_BATCH_AT_NAME, 0},
		{{.op = GPU4FS_BATCH_UNLINK, .path = "d/e/"}, -EISDIR, GPU4FS_BATCH_AT_NAME, 0},
		{{.op = GPU4FS_BATCH_UNLINK, .path = "d/f/"}, -ENOTDIR, GPU4FS_BATCH_AT_NAME, 0},
		{{.op = GPU4FS_BATCH_UNLINK, .path = "d/e"}, -EISDIR, GPU4FS_BATCH_AT_NAME, 0},
		{{.op = GPU4FS_BATCH_UNLINK, .path = "d/none/e/x"}, -ENOENT, 1, 0},
		{{.op = GPU4FS_BATCH_UNLINK, .path = "/none/x"}, -ENOENT, 0, 0},
		{{.op = GPU4FS_BATCH_UNLINK, .path = "d/e/none//x"}, -ENOENT, 2, 0},
		{{.op = GPU4FS_BATCH_UNLINK, .path = "d/f/x"}, -ENOTDIR, 1, 0},
		{{.op = GPU4FS_BATCH_UNLINK, .path = "."}, -EISDIR, GPU4FS_BATCH_AT_NAME, 0},
		{{.op = GPU4FS_BATCH_UNLINK, .path = ""}, -ENOENT, GPU4FS_BATCH_AT_NAME, 0},
		{{.op = GPU4FS_BATCH_UNLINK, .path = NULL}, -ENOENT, GPU4FS_BATCH_AT_NAME, 0},
		{{.op = GPU4FS_BATCH_UNLINK, .path = deep[0]}, -ENAMETOOLONG, GPU4FS_BATCH_AT_NAME, 0},
		{{.op = GPU4FS_BATCH_RMDIR, .path = "d/f"}, -ENOTDIR, GPU4FS_BATCH_AT_NAME, 0},
		{{.op = GPU4FS_BATCH_RMDIR, .path = "d"}, -ENOTEMPTY, GPU4FS_BATCH_AT_NAME, 0},
		{{.op = GPU4FS_BATCH_RMDIR, .path = "d/.."}, -ENOTEMPTY, GPU4FS_BATCH_AT_NAME, 0},
		{{.op = GPU4FS_BATCH_RMDIR, .path = "/"}, -EBUSY, GPU4FS_BATCH_AT_NAME, 0},
		{{.op = GPU4FS_BATCH_RENAME, .path = "d/none", .path2 = "d/x"}, -ENOENT, GPU4FS_BATCH_AT_NAME, 0},
		{{.op = GPU4FS_BATCH_RENAME, .path = "d/none/x", .path2 = "d/x"}, -ENOENT, 1, 0},
		{{.op = GPU4FS_BATCH_RENAME, .path = "d/f", .path2 = "d/e/none/x"}, -ENOENT, 2, 1},
		{{.op = GPU4FS_BATCH_RENAME, .path = "d/f", .path2 = "d/x/"}, -ENOTDIR, GPU4FS_BATCH_AT_NAME, 0},
		{{.op = GPU4FS_BATCH_RENAME, .path = "d/f/", .path2 = "d/x"}, -ENOTDIR, GPU4FS_BATCH_AT_NAME, 0},
		{{.op = GPU4FS_BATCH_RENAME, .path = "d/f", .path2 = NULL}, -ENOENT, GPU4FS_BATCH_AT_NAME, 1},
		{{.op = GPU4FS_BATCH_RENAME, .path = "d/f", .path2 = ".."}, -EBUSY, GPU4FS_BATCH_AT_NAME, 1},
		{{.op = GPU4FS_BATCH_RENAME, .path = "d/f", .path2 = "d/e", .mode = GPU4FS_RENAME_NOREPLACE},
		 -EEXIST,
		 GPU4FS_BATCH_AT_NAME,
		 0},
		{{.op = GPU4FS_BATCH_RENAME, .path = "d/f", .path2 = "d/e", .mode = 1u << 20},
		 -EINVAL,
		 GPU4FS_BATCH_AT_NAME,
		 0},
		{{.op = GPU4FS_BATCH_RENAME, .path = "d/e", .path2 = "d/f/", .mode = GPU4FS_RENAME_EXCHANGE},
		 -ENOTDIR,
		 GPU4FS_BATCH_AT_NAME,
		 0},
		{{.op = GPU4FS_BATCH_RENAME, .path = "d/e/", .path2 = "d/f", .mode = GPU4FS_RENAME_EXCHANGE},
		 0,
		 GPU4FS_BATCH_AT_NAME,
		 0},
		{{.op = GPU4FS_BATCH_UNLINK, .path = deep[1]}, 0, GPU4FS_BATCH_AT_NAME, 0},
		{{.op = GPU4FS_BATCH_RENAME, .path = "d/e", .path2 = deep[2]}, 0, GPU4FS_BATCH_AT_NAME, 0},
	};
	enum { COUNT = sizeof(cases) / sizeof(cases[0]), CHANGE = 3 };
	struct gpu4fs_batch_entry entries[COUNT];

	(void)state;
	memset(deep[0], '/', sizeof(deep[0]) - 1);
	memcpy(deep[0], "d/f", 3); /* cut at what a command takes it would be another path */
	for (int k = 1; k < 3; k++) {
		memset(deep[k], '/', 60000);
		memcpy(deep[k], "d", 1);
		strcpy(deep[k] + 60000, k == 1 ? "g" : "h");
	}
	ok(gpu4fs_mkdir_all(fs, NULL, "/d/e", 0755, NULL));
	api_touch("/d/f", 0644);
	api_touch("/d/g", 0644);
	for (uint32_t k = 0; k < COUNT; k++)
		entries[k] = cases[k].entry;
	/* entries have no order, and only the last ones change anything */
	gives(gpu4fs_batch(fs, NULL, entries, COUNT - CHANGE, 0), 0);
	for (uint32_t k = COUNT - CHANGE; k < COUNT; k++)
		gives(gpu4fs_batch(fs, NULL, &entries[k], 1, 0), 1);
	for (uint32_t k = 0; k < COUNT; k++) {
		if (entries[k].result != cases[k].result || entries[k].component != cases[k].component ||
		    entries[k].made != cases[k].made)
			fail_msg("entry %u: %d at %d, %u", k, entries[k].result, (int)entries[k].component,
				 entries[k].made);
	}
	assert_true(api_exists("/d/h") && !api_exists("/d/g") && !api_exists("/d/e"));
}

static void removals_stop_at_the_first_error(void **state)
{
	struct gpu4fs_batch_entry entries[] = {
		{.op = GPU4FS_BATCH_CREATE, .path = "a", .mode = 0644},
		{.op = GPU4FS_BATCH_RENAME, .path = "a", .path2 = "b"},
		{.op = GPU4FS_BATCH_CREATE, .path = "a", .mode = 0644},
		{.op = GPU4FS_BATCH_UNLINK, .path = "a"},
		{.op = GPU4FS_BATCH_UNLINK, .path = "b"},
		{.op = GPU4FS_BATCH_MKDIR, .path = "a", .mode = 0755},
		{.op = GPU4FS_BATCH_RMDIR, .path = "a"},
		{.op = GPU4FS_BATCH_UNLINK, .path = "a"},
		{.op = GPU4FS_BATCH_CREATE, .path = "c", .mode = 0644},
		{.op = GPU4FS_BATCH_UNLINK, .path = "c"},
	};
	const uint32_t count = sizeof(entries) / sizeof(entries[0]);

	(void)state;
	gives(gpu4fs_batch(fs, NULL, entries, count, GPU4FS_BATCH_STOP), 7);
	for (uint32_t k = 0; k < count; k++)
		assert_int_equal(entries[k].result, k < 7 ? 0 : k == 7 ? -ENOENT : -ECANCELED);
	assert_int_equal(api_count_names("/"), 0);
}

/* Entries share a walk; that ends where what it led to is another directory by now. */
static void removals_in_a_directory_that_moves(void **state)
{
	struct gpu4fs_batch_entry entries[] = {
		{.op = GPU4FS_BATCH_UNLINK, .path = "d/a"},
		{.op = GPU4FS_BATCH_RENAME, .path = "e", .path2 = "d", .mode = GPU4FS_RENAME_EXCHANGE},
		{.op = GPU4FS_BATCH_UNLINK, .path = "d/b"},
		{.op = GPU4FS_BATCH_UNLINK, .path = "d/c"},
		{.op = GPU4FS_BATCH_RMDIR, .path = "d"},
		{.op = GPU4FS_BATCH_UNLINK, .path = "d/c"},
	};
	const char *const names[] = {"/d/a", "/e/b", "/e/c"};

	(void)state;
	ok(gpu4fs_mkdir(fs, NULL, "/d", 0755));
	ok(gpu4fs_mkdir(fs, NULL, "/e", 0755));
	for (int k = 0; k < 3; k++)
		api_touch(names[k], 0644);
	gives(gpu4fs_batch(fs, NULL, entries, 6, GPU4FS_BATCH_STOP), 5);
	assert_int_equal(entries[5].result, -ENOENT);
	assert_int_equal(entries[5].component, 0);
	assert_int_equal(api_count_names("/"), 1);
}

/* The same where a link to it does. */
static void removals_behind_a_link_that_goes(void **state)
{
	struct gpu4fs_batch_entry entries[] = {
		{.op = GPU4FS_BATCH_RENAME, .path = "l/a", .path2 = "l"},
		{.op = GPU4FS_BATCH_UNLINK, .path = "l/b"},
	};

	(void)state;
	ok(gpu4fs_mkdir(fs, NULL, "/d", 0755));
	ok(gpu4fs_symlink(fs, "d", NULL, "/l"));
	api_touch("/d/a", 0644);
	api_touch("/d/b", 0644);
	gives(gpu4fs_batch(fs, NULL, entries, 2, GPU4FS_BATCH_STOP), 1);
	assert_int_equal(entries[1].result, -ENOTDIR);
	assert_true(api_exists("/d/b"));
	assert_int_equal(api_lstat("/l").mode & S_IFMT, S_IFREG);
}

#define MANY 3000u

static void more_than_one_command_takes(void **state)
{
	static struct gpu4fs_batch_entry entries[MANY];
	static struct gpu4fs_stat stats[MANY];
	static char names[MANY][200];
	const uint32_t count = rig_slow() ? MANY / 3 : MANY;

	(void)state;
	for (uint32_t k = 0; k < count; k++) {
		snprintf(names[k], sizeof(names[k]), "%s%0*u", k == count / 2 ? "none/" : "", (int)(8 + k % 150), k);
		entries[k] = (struct gpu4fs_batch_entry){
			.op = GPU4FS_BATCH_CREATE, .path = names[k], .mode = 0600, .stat = k % 3 ? &stats[k] : NULL};
	}
	gives(gpu4fs_batch(fs, NULL, entries, count, 0), count - 1);
	assert_int_equal(api_count_names("/"), count - 1);
	for (uint32_t k = 0; k < count; k++) {
		assert_int_equal(entries[k].result, k == count / 2 ? -ENOENT : 0);
		if (k % 3 && k != count / 2)
			assert_int_equal(stats[k].ino, api_lstat(names[k]).ino);
		entries[k].op = GPU4FS_BATCH_UNLINK;
	}
	gives(gpu4fs_batch(fs, NULL, entries, count, GPU4FS_BATCH_STOP), count / 2);
	for (uint32_t k = 0; k < count; k++)
		assert_int_equal(entries[k].result, k < count / 2 ? 0 : k == count / 2 ? -ENOENT : -ECANCELED);
	assert_int_equal(api_count_names("/"), count - count / 2 - 1);
}

static void paths_longer_than_a_command(void **state)
{
	const uint32_t levels = rig_slow() ? 400 : 1200, name_bytes = 200;
	static char name[256], path[1200 * 201 + 64];
	static const char *names[1200];
	struct gpu4fs_batch_entry too_long = {.op = GPU4FS_BATCH_STAT, .path = path};
	uint64_t made = 99, left = 0;
	int64_t removed;
	char *end = path;

	(void)state;
	memset(name, 'n', name_bytes);
	*end++ = '/';
	for (uint32_t k = 0; k < levels; k++) {
		memcpy(end, name, name_bytes);
		end[name_bytes] = '/';
		end += name_bytes + 1;
		names[k] = name;
	}
	ok(gpu4fs_mkdir_all(fs, NULL, path, 0750, &made));
	assert_int_equal(made, levels);
	ok(gpu4fs_mkdir_all(fs, NULL, path, 0750, &made));
	assert_int_equal(made, 0);
	ok(gpu4fs_mkdir_all_names(fs, NULL, names, levels, 0750, &made));
	assert_int_equal(made, 0);
	strcpy(end, "///more//");
	ok(gpu4fs_mkdir_all(fs, NULL, path, 0750, NULL));
	gives(gpu4fs_batch(fs, NULL, &too_long, 1, 0), 0);
	assert_int_equal(too_long.result, -ENAMETOOLONG);
	while ((removed = gpu4fs_clear(fs, NULL, "/", 1000, 0)) > 0)
		left += (uint64_t)removed;
	assert_int_equal(left, levels + 1);
	ok(gpu4fs_mkdir_all_names(fs, NULL, names, levels, 0750, &made));
	assert_int_equal(made, levels);
}

static void missing_parents(void **state)
{
	const char *names[] = {"p", "q", "r"}, *dots[] = {"p", "..", "r"}, *slash[] = {"p", "q/r"}, *none[] = {"", "x"};
	gpu4fs *user = api_session(1000, 1000, 0);
	uint64_t made;

	(void)state;
	ok(gpu4fs_mkdir_all(fs, NULL, "a/b/c", 0555, &made));
	assert_int_equal(made, 3);
	assert_int_equal(api_lstat("/a/b").mode & 0777, 0755);
	assert_int_equal(api_lstat("/a/b/c").mode & 0777, 0555);
	ok(gpu4fs_mkdir_all_names(fs, NULL, names, 3, 0755, &made));
	assert_int_equal(made, 3);
	assert_true(api_exists("/p/q/r"));
	fails(gpu4fs_mkdir_all_names(fs, NULL, dots, 3, 0755, &made), EINVAL);
	assert_int_equal(made, 0);
	fails(gpu4fs_mkdir_all_names(fs, NULL, slash, 2, 0755, &made), EINVAL);
	fails(gpu4fs_mkdir_all_names(fs, NULL, none, 2, 0755, &made), ENOENT);
	fails(gpu4fs_mkdir_all_names(fs, NULL, names, 0, 0755, &made), ENOENT);
	fails(gpu4fs_mkdir_all(fs, NULL, "", 0755, &made), ENOENT);
	fails(gpu4fs_mkdir_all(fs, NULL, NULL, 0755, &made), ENOENT);
	ok(gpu4fs_mkdir_all(fs, NULL, "///", 0755, &made));
	api_touch("/file", 0644);
	fails(gpu4fs_mkdir_all(fs, NULL, "/file", 0755, &made), EEXIST);
	fails(gpu4fs_mkdir_all(fs, NULL, "/file/x", 0755, &made), ENOTDIR);
	fails(gpu4fs_mkdir_all(user, NULL, "/p/u/v", 0755, &made), EACCES);
	ok(gpu4fs_chmod(fs, NULL, "/p", 0777));
	ok(gpu4fs_mkdir_all(user, NULL, "/p/u/v", 0755, &made));
	assert_int_equal(made, 2);
	assert_int_equal(api_lstat("/p/u/v").uid, 1000);
	ok(gpu4fs_session_close(user));
}

static int count_calls(void *context, const struct gpu4fs_usage *so_far)
{
	uint32_t *left = context;

	assert_true(so_far->directories > 0);
	return (*left)-- == 1;
}

static void what_a_tree_takes(void **state)
{
	gpu4fs *user = api_session(1000, 1000, 0);
	struct gpu4fs_usage usage;
	uint32_t calls = 1000;
	char name[64];

	(void)state;
	for (uint32_t k = 0; k < 200; k++) {
		snprintf(name, sizeof(name), "/t/%u/%u", k % 20, k);
		ok(gpu4fs_mkdir_all(fs, NULL, name, 0755, NULL));
	}
	api_write_pattern("/t/file", 1, 50000);
	api_write_pattern("/outside", 1, 100);
	for (uint32_t k = 0; k < 30; k++) {
		snprintf(name, sizeof(name), "/t/%u/link", k);
		if (k < 20)
			ok(gpu4fs_link(fs, NULL, k % 2 ? "/outside" : "/t/file", NULL, name, 0));
	}
	ok(gpu4fs_symlink(fs, "/t", NULL, "/t/around"));
	ok(gpu4fs_mknod(fs, NULL, "/t/pipe", S_IFIFO | 0600, 0));
	ok(gpu4fs_syncfs(fs));
	ok(gpu4fs_usage(fs, NULL, "/t", &usage, count_calls, &calls));
	assert_int_equal(usage.directories, 221);
	assert_int_equal(usage.files, 2);
	assert_int_equal(usage.links, 1);
	assert_int_equal(usage.others, 1);
	assert_int_equal(usage.bytes, 50100 + 2);
	assert_int_equal(usage.unread, 0);
	/* one page for each directory that has names */
	assert_int_equal(usage.blocks,
			 api_lstat("/t").blocks + 20 * 8 + api_lstat("/t/file").blocks + api_lstat("/outside").blocks);
	assert_true(calls < 1000);
	for (uint32_t threads = 1; threads <= 64; threads *= 4) {
		struct gpu4fs_usage again = {.files = 7};
		ok(gpu4fs_usage_by(fs, NULL, "/t", threads, &again, NULL, NULL));
		assert_memory_equal(&again, &usage, sizeof(usage));
		calls = 5;
		fails(gpu4fs_usage_by(fs, NULL, "/t", threads, &again, count_calls, &calls), ECANCELED);
		assert_int_equal(calls, 0);
	}
	fails(gpu4fs_usage_by(fs, NULL, "/t", 0, &usage, NULL, NULL), EINVAL);
	fails(gpu4fs_usage_by(fs, NULL, "/t", 65, &usage, NULL, NULL), EINVAL);
	calls = 5;
	fails(gpu4fs_usage(fs, NULL, "/t", &usage, count_calls, &calls), ECANCELED);
	ok(gpu4fs_usage(fs, NULL, "/t/file", &usage, NULL, NULL));
	assert_int_equal(usage.files, 1);
	assert_int_equal(usage.bytes, 50000);
	ok(gpu4fs_usage(fs, NULL, "/t/around", &usage, NULL, NULL));
	assert_int_equal(usage.links, 1);
	fails(gpu4fs_usage(fs, NULL, "/none", &usage, NULL, NULL), ENOENT);
	ok(gpu4fs_chmod(fs, NULL, "/t/7", 0700));
	ok(gpu4fs_usage(user, NULL, "/t", &usage, NULL, NULL));
	assert_int_equal(usage.unread, 1);
	assert_int_equal(usage.directories, 211);
	ok(gpu4fs_session_close(user));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(one_by_one_or_together),
		api_test(more_than_one_command_takes),
		api_test(paths_longer_than_a_command),
		api_test(missing_parents),
		api_test(what_fails_of_removals_is_told),
		api_test(removals_stop_at_the_first_error),
		api_test(removals_in_a_directory_that_moves),
		api_test(removals_behind_a_link_that_goes),
		api_test(what_a_tree_takes),
		api_held_test(one_by_one_or_together),
		api_held_test(more_than_one_command_takes),
		api_held_test(what_fails_of_removals_is_told),
		api_held_test(removals_stop_at_the_first_error),
		api_held_test(removals_in_a_directory_that_moves),
		api_held_test(removals_behind_a_link_that_goes),
	};

	return cmocka_run_group_tests_name("api batches", tests, NULL, NULL);
}
