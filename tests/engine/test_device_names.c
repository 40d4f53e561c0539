/* SPDX-License-Identifier: Apache-2.0 */
/* What device-API callers do to names (device/caller_names.c). */
#include "caller_fixture.h"

static struct g4_caller_path at_path(const struct g4_caller_file *at, const char *text)
{
	return (struct g4_caller_path){at, text, strlen(text)};
}

static int make_dir(struct g4_caller *caller, const char *text)
{
	const struct g4_caller_path path = at_path(NULL, text);
	return g4_caller_mkdir(caller, &path, 01777);
}

static int remove_dir(struct g4_caller *caller, const char *text)
{
	const struct g4_caller_path path = at_path(NULL, text);
	return g4_caller_rmdir(caller, &path);
}

static int remove_name(struct g4_caller *caller, const char *text)
{
	const struct g4_caller_path path = at_path(NULL, text);
	return g4_caller_unlink(caller, &path);
}

static int make_link(struct g4_caller *caller, const char *target, const char *text)
{
	const struct g4_caller_path path = at_path(NULL, text);
	return g4_caller_symlink(caller, target, strlen(target), &path);
}

static int move(struct g4_caller *caller, const char *from, const char *to, uint32_t flags)
{
	const struct g4_caller_path old = at_path(NULL, from), path = at_path(NULL, to);
	return g4_caller_rename(caller, &old, &path, flags);
}

static int give_name(struct g4_caller *caller, const char *from, const char *to, bool follow)
{
	const struct g4_caller_path old = at_path(NULL, from), path = at_path(NULL, to);
	return g4_caller_link(caller, &old, &path, follow);
}

/* The inode that a path leads to, a link itself; 0: none. */
static uint64_t node_of(struct g4_caller *caller, const char *path)
{
	return g4_caller_stat(caller, NULL, path, strlen(path), true) == 0 ? caller->attr.ino : 0;
}

static void a_caller_makes_moves_and_removes_names(void **state)
{
	struct g4_caller *caller = g4_caller_enter(&callers, 0);
	char long_name[G4_NAME_MAX + 2], long_path[G4_PATH_MAX + 1];
	struct g4_caller_file file, dir;

	(void)state;
	memset(long_name, 'n', sizeof(long_name));
	long_name[G4_NAME_MAX + 1] = 0;
	memset(long_path, 'p', sizeof(long_path));
	long_path[G4_PATH_MAX] = 0;
	assert_int_equal(make_dir(caller, "/a"), 0);
	assert_int_equal(g4_caller_stat(caller, NULL, "/a", 2, false), 0);
	assert_int_equal(caller->attr.mode, G4_S_IFDIR | 01755); /* less the umask */
	assert_int_equal(make_dir(caller, "a/b///"), 0);
	assert_int_equal(make_dir(caller, "/a/b"), -G4_E_EXIST);
	assert_int_equal(make_dir(caller, "/"), -G4_E_EXIST);
	assert_int_equal(make_dir(caller, "/a/."), -G4_E_EXIST);
	assert_int_equal(make_dir(caller, "/a/.."), -G4_E_EXIST);
	assert_int_equal(make_dir(caller, ""), -G4_E_NOENT);
	assert_int_equal(make_dir(caller, "/none/x"), -G4_E_NOENT);
	assert_int_equal(make_dir(caller, long_name), -G4_E_NAMETOOLONG);
	assert_int_equal(make_dir(caller, long_path), -G4_E_NAMETOOLONG);
	file = make_file(caller, "/a/file", 100);
	assert_int_equal(make_dir(caller, "/a/file/x"), -G4_E_NOTDIR);

	assert_int_equal(make_link(caller, "file", "/a/link"), 0);
	assert_int_equal(make_link(caller, "file", "/a/link"), -G4_E_EXIST);
	assert_int_equal(make_link(caller, "file", "/a/new/"), -G4_E_NOENT);
	assert_int_equal(make_link(caller, "", "/a/new"), -G4_E_NOENT);
	assert_int_equal(make_link(caller, long_path, "/a/new"), -G4_E_NAMETOOLONG);
	assert_int_equal(g4_caller_stat(caller, NULL, "/a/link", 7, false), 0);
	assert_int_equal(caller->attr.ino, file.ino);
	assert_int_equal(give_name(caller, "/a/link", "/followed", true), 0);
	assert_int_equal(node_of(caller, "/followed"), file.ino);
	assert_int_equal(give_name(caller, "/a/link", "/itself", false), 0);
	assert_int_equal(node_of(caller, "/itself"), node_of(caller, "/a/link"));
	assert_int_equal(give_name(caller, "/a/file", "/followed", false), -G4_E_EXIST);
	assert_int_equal(give_name(caller, "/a/file", "/followed/", false), -G4_E_EXIST);
	assert_int_equal(give_name(caller, "/a/none", "/x", false), -G4_E_NOENT);
	assert_int_equal(give_name(caller, "/a", "/x", false), -G4_E_PERM);

	assert_int_equal(move(caller, "/followed", "/a/b/moved", 0), 0);
	assert_int_equal(node_of(caller, "/followed"), 0);
	assert_int_equal(node_of(caller, "/a/b/moved"), file.ino);
	assert_int_equal(move(caller, "/a/b/moved", "/itself", G4_RENAME_NOREPLACE), -G4_E_EXIST);
	assert_int_equal(move(caller, "/a/b/moved", "/itself", G4_RENAME_EXCHANGE), 0);
	assert_int_equal(node_of(caller, "/itself"), file.ino);
	assert_int_equal(move(caller, "/itself", "/x", 3), -G4_E_INVAL);
	assert_int_equal(move(caller, "/itself", "/x", 8), -G4_E_INVAL);
	assert_int_equal(move(caller, "/a", "/a/b/c", 0), -G4_E_INVAL);
	assert_int_equal(move(caller, "/itself/", "/x", 0), -G4_E_NOTDIR);
	assert_int_equal(move(caller, "/itself", "/x/", 0), -G4_E_NOTDIR);
	assert_int_equal(move(caller, "/a/", "/itself/", G4_RENAME_EXCHANGE), -G4_E_NOTDIR);
	assert_int_equal(move(caller, "/none", "/x", 0), -G4_E_NOENT);
	assert_int_equal(move(caller, "/a/.", "/x", 0), -G4_E_BUSY);
	assert_int_equal(move(caller, "/a/b", "/", 0), -G4_E_BUSY);
	assert_int_equal(move(caller, "/a/b", "/a/..", G4_RENAME_NOREPLACE), -G4_E_EXIST);
	assert_int_equal(move(caller, "/a/b/", "/b/", 0), 0);
	assert_int_equal(open_at(caller, NULL, "/a", &to_read, &dir), 0);
	const struct g4_caller_path relative = at_path(&dir, "../b"), back = at_path(&dir, "b");
	assert_int_equal(g4_caller_rename(caller, &relative, &back, 0), 0);
	assert_int_equal(g4_caller_close(caller, &dir), 0);

	assert_int_equal(remove_name(caller, "/a"), -G4_E_ISDIR);
	assert_int_equal(remove_name(caller, "/"), -G4_E_ISDIR);
	assert_int_equal(remove_name(caller, "/a/"), -G4_E_ISDIR);
	assert_int_equal(remove_name(caller, "/itself/"), -G4_E_NOTDIR);
	assert_int_equal(remove_name(caller, "/none"), -G4_E_NOENT);
	assert_int_equal(remove_name(caller, "/itself"), 0);
	assert_int_equal(remove_name(caller, "/itself"), -G4_E_NOENT);
	assert_int_equal(remove_dir(caller, "/a"), -G4_E_NOTEMPTY);
	assert_int_equal(remove_dir(caller, "/"), -G4_E_BUSY);
	assert_int_equal(remove_dir(caller, "/a/."), -G4_E_INVAL);
	assert_int_equal(remove_dir(caller, "/a/.."), -G4_E_NOTEMPTY);
	assert_int_equal(remove_dir(caller, "/a/file"), -G4_E_NOTDIR);
	assert_int_equal(remove_name(caller, "/a/b/moved"), 0);
	assert_int_equal(remove_dir(caller, "/a/b/"), 0);

	assert_int_equal(g4_caller_truncate(caller, &file, 10), 0);
	expect_contents(caller, &file, data, 10);
	assert_int_equal(g4_caller_truncate(caller, &file, 30000), 0);
	assert_int_equal(g4_caller_fstat(caller, &file), 0);
	assert_int_equal(caller->attr.size, 30000);
	assert_int_equal(g4_caller_truncate(caller, &file, UINT64_MAX), -G4_E_FBIG);
	assert_int_equal(g4_caller_close(caller, &file), 0);
	assert_int_equal(g4_caller_truncate(caller, &file, 0), -G4_E_BADF);
	assert_int_equal(open_at(caller, NULL, "/a/file", &to_read, &file), 0);
	assert_int_equal(g4_caller_truncate(caller, &file, 0), -G4_E_INVAL);
	assert_int_equal(g4_caller_close(caller, &file), 0);
	callers.cred.uid = callers.cred.gid = 1000;
	assert_int_equal(make_dir(caller, "/mine"), -G4_E_ACCES);
	assert_int_equal(remove_name(caller, "/a/file"), -G4_E_ACCES);
	assert_int_equal(move(caller, "/a/file", "/x", 0), -G4_E_ACCES);
	g4_caller_leave(caller);
}

/* A batch from the caller's own memory, by a helper and by itself; entries begin at a directory of the caller's. */
static void a_caller_has_a_batch_of_names(void **state)
{
	enum { NAMES = 64 };
	struct g4_caller *caller = g4_caller_enter(&callers, 0);
	const struct g4_caller_file none = {0, 0, 0};
	struct g4_caller_file dir;
	struct g4_batch_entry *entries = (struct g4_batch_entry *)caller->scratch;
	const struct g4_attr *attrs = (const struct g4_attr *)(const void *)(entries + NAMES);
	char name[16];

	(void)state;
	assert_int_equal(make_dir(caller, "/d"), 0);
	assert_int_equal(open_at(caller, NULL, "/d", &to_read, &dir), 0);
	for (uint32_t turn = 0; turn < 2; turn++) {
		uint64_t at = g4_batch_head_bytes(NAMES, G4_BATCH_ATTR);
		const uint64_t head = at;

		memset(caller->scratch, 0, at);
		for (uint32_t k = 0; k < NAMES; k++) {
			const int n = snprintf(name, sizeof(name), k % 8 == 7 ? "/n/%u" : "%u", k);
			entries[k] = (struct g4_batch_entry){.op = turn == 0 ? (uint32_t)G4_CMD_MKNOD :
									       (uint32_t)G4_CMD_LOOKUP,
							     .mode = turn == 0 ? G4_S_IFREG | 0666 : 0,
							     .path_at = (uint32_t)at,
							     .path_bytes = (uint32_t)n};
			memcpy((uint8_t *)caller->scratch + at, name, (size_t)n);
			at += (uint64_t)n;
		}
		assert_true(at <= G4_COPY_SCRATCH_BYTES);
		callers.fs->split.helpers = 1; /* who never looks */
		assert_int_equal(g4_caller_batch(caller, &none, caller->scratch, at, NAMES, G4_BATCH_ATTR), -G4_E_BADF);
		assert_int_equal(g4_caller_batch(caller, &dir, caller->scratch, at, NAMES, G4_BATCH_ATTR), head);
		callers.fs->split.helpers = 0;
		for (uint32_t k = 0; k < NAMES; k++) {
			assert_int_equal(entries[k].status, k % 8 == 7 ? -G4_E_NOENT : 0);
			assert_int_equal(attrs[k].mode, k % 8 == 7 ? 0 : G4_S_IFREG | 0644);
		}
	}
	assert_true(node_of(caller, "/d/0") != 0);
	assert_int_equal(g4_caller_batch(caller, NULL, caller->scratch, 10, NAMES, 0), -G4_E_INVAL);
	assert_int_equal(g4_caller_close(caller, &dir), 0);
	g4_caller_leave(caller);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		caller_test(a_caller_makes_moves_and_removes_names),
		caller_test(a_caller_has_a_batch_of_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
