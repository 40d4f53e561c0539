/* SPDX-License-Identifier: Apache-2.0 */
/* Extended attributes and POSIX ACLs through the public API. */
#include "api_fixture.h"

#include <fcntl.h>

/* ------------------------------------------------------------------ extended attributes */

static void expect_none(gpu4fs_file *file, const char *name)
{
	struct gpu4fs_stat st;
	char found[64];

	for (uint32_t round = 0; round < 2; round++) { /* what was told is asked for again, and attributes between */
		fails(gpu4fs_getxattr(fs, NULL, "/link", name, found, sizeof(found)), ENODATA);
		fails(gpu4fs_lgetxattr(fs, NULL, "/f", name, NULL, 0), ENODATA);
		fails(gpu4fs_fgetxattr(file, name, found, sizeof(found)), ENODATA);
		gives(gpu4fs_listxattr(fs, NULL, "/f", found, sizeof(found)), 0);
		gives(gpu4fs_flistxattr(file, NULL, 0), 0);
		ok(gpu4fs_fstat(file, &st));
		ok(gpu4fs_stat(fs, NULL, "/f", &st));
	}
}

/* What has none says so by its attributes: what another client sets and removes is seen at once all the same. */
static void attributes_of_what_had_none_are_seen(void **state)
{
	static const char *const names[] = {"security.x", "system.posix_acl_access", "user.x", "trusted.x"};
	/* version 2: the owner rw-, user 5 r--, the group r--, the mask r--, others r-- */
	static const unsigned char acl[] = {2, 0, 0,   0,   1,	 0,   6,  0, 255, 255, 255, 255, 2,   0,  4,
					    0, 5, 0,   0,   0,	 4,   0,  4, 0,	  255, 255, 255, 255, 16, 0,
					    4, 0, 255, 255, 255, 255, 32, 0, 4,	  0,   255, 255, 255, 255};
	gpu4fs *other = api_in_process();
	gpu4fs_file *file;
	char found[64];

	(void)state;
	api_touch("/f", 0644);
	ok(gpu4fs_symlink(fs, "f", NULL, "/link"));
	file = api_open("/f", O_RDONLY, 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const void *value = i == 1 ? (const void *)acl : "value";
		const size_t bytes = i == 1 ? sizeof(acl) : 5;
		expect_none(file, names[i]);
		ok(gpu4fs_setxattr(other, NULL, "/f", names[i], value, bytes, 0));
		gives(gpu4fs_getxattr(fs, NULL, "/link", names[i], found, sizeof(found)), bytes);
		assert_memory_equal(found, value, bytes);
		gives(gpu4fs_fgetxattr(file, names[i], found, sizeof(found)), bytes);
		gives(gpu4fs_listxattr(fs, NULL, "/f", found, sizeof(found)), strlen(names[i]) + 1);
		gives(gpu4fs_flistxattr(file, found, sizeof(found)), strlen(names[i]) + 1);
		assert_string_equal(found, names[i]);
		ok(gpu4fs_removexattr(other, NULL, "/f", names[i]));
	}
	expect_none(file, "security.x");
	fails(gpu4fs_lgetxattr(fs, NULL, "/link", "system.posix_acl_access", NULL, 0), EOPNOTSUPP);
	fails(gpu4fs_getxattr(fs, NULL, "/f", "security.", NULL, 0), EOPNOTSUPP);
	fails(gpu4fs_getxattr(fs, NULL, "/f", "system.posix_acl_accesses", NULL, 0), EOPNOTSUPP);
	fails(gpu4fs_getxattr(fs, NULL, "/none", "security.x", NULL, 0), ENOENT);
	ok(gpu4fs_close(file));
}

static void values_of_every_size_come_back(void **state)
{
	static const size_t sizes[] = {0, 1, 15, 100, 1023, 1024, 1025, 4000, 4032, 4033, 8100, 20000, 65535, 65536};
	static unsigned char value[65537], found[65537];

	(void)state;
	api_touch("/f", 0644);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		api_pattern(value, i, 0, sizes[i]);
		ok(gpu4fs_setxattr(fs, NULL, "/f", "user.v", value, sizes[i], 0));
		gives(gpu4fs_getxattr(fs, NULL, "/f", "user.v", NULL, 0), sizes[i]);
		gives(gpu4fs_getxattr(fs, NULL, "/f", "user.v", found, sizeof(found)), sizes[i]);
		assert_memory_equal(found, value, sizes[i]);
		if (sizes[i] > 1) {
			gives(gpu4fs_getxattr(fs, NULL, "/f", "user.v", found, sizes[i]), sizes[i]);
			fails(gpu4fs_getxattr(fs, NULL, "/f", "user.v", found, sizes[i] - 1), ERANGE);
		}
	}
	fails(gpu4fs_setxattr(fs, NULL, "/f", "user.v", value, 65537, 0), E2BIG);
	gives(gpu4fs_getxattr(fs, NULL, "/f", "user.v", NULL, 0), 65536);
	ok(gpu4fs_removexattr(fs, NULL, "/f", "user.v"));
	fails(gpu4fs_getxattr(fs, NULL, "/f", "user.v", found, 10), ENODATA);
	fails(gpu4fs_removexattr(fs, NULL, "/f", "user.v"), ENODATA);
}

static void create_and_replace_flags_are_kept(void **state)
{
	char found[8];

	(void)state;
	api_touch("/f", 0644);
	fails(gpu4fs_setxattr(fs, NULL, "/f", "user.a", "1", 1, GPU4FS_XATTR_REPLACE), ENODATA);
	ok(gpu4fs_setxattr(fs, NULL, "/f", "user.a", "1", 1, GPU4FS_XATTR_CREATE));
	fails(gpu4fs_setxattr(fs, NULL, "/f", "user.a", "2", 1, GPU4FS_XATTR_CREATE), EEXIST);
	gives(gpu4fs_getxattr(fs, NULL, "/f", "user.a", found, 8), 1);
	assert_int_equal(found[0], '1');
	ok(gpu4fs_setxattr(fs, NULL, "/f", "user.a", "22", 2, GPU4FS_XATTR_REPLACE));
	gives(gpu4fs_getxattr(fs, NULL, "/f", "user.a", found, 8), 2);
	fails(gpu4fs_setxattr(fs, NULL, "/f", "user.a", "3", 1, 4), EINVAL);
}

static void names_are_checked(void **state)
{
	char name[300] = "user.";
	gpu4fs_file *file;

	(void)state;
	api_touch("/f", 0644);
	memset(name + 5, 'n', 250);
	ok(gpu4fs_setxattr(fs, NULL, "/f", name, "x", 1, 0));
	gives(gpu4fs_getxattr(fs, NULL, "/f", name, NULL, 0), 1);
	name[255] = 'n';
	fails(gpu4fs_setxattr(fs, NULL, "/f", name, "x", 1, 0), ERANGE);
	fails(gpu4fs_setxattr(fs, NULL, "/f", "", "x", 1, 0), ERANGE);
	fails(gpu4fs_setxattr(fs, NULL, "/f", "noprefix", "x", 1, 0), EOPNOTSUPP);
	fails(gpu4fs_setxattr(fs, NULL, "/f", "other.name", "x", 1, 0), EOPNOTSUPP);
	fails(gpu4fs_setxattr(fs, NULL, "/none", "user.a", "x", 1, 0), ENOENT);
	file = api_open("/f", O_RDONLY, 0);
	fails(gpu4fs_fgetxattr(file, "", NULL, 0), ERANGE);
	ok(gpu4fs_close(file));
}

static bool list_has(const char *list, int64_t bytes, const char *name)
{
	for (const char *at = list; at < list + bytes; at += strlen(at) + 1) {
		if (strcmp(at, name) == 0)
			return true;
	}
	return false;
}

static void listing_gives_every_name_once(void **state)
{
	char name[128] = "", list[8192];
	int64_t bytes, wanted = 0;

	(void)state;
	api_touch("/f", 0644);
	gives(gpu4fs_listxattr(fs, NULL, "/f", list, sizeof(list)), 0);
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "user.name-%d", i);
		ok(gpu4fs_setxattr(fs, NULL, "/f", name, name, (size_t)i, 0));
		wanted += (int64_t)strlen(name) + 1;
	}
	gives(gpu4fs_listxattr(fs, NULL, "/f", NULL, 0), wanted);
	bytes = gpu4fs_listxattr(fs, NULL, "/f", list, sizeof(list));
	gives(bytes, wanted);
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "user.name-%d", i);
		assert_true(list_has(list, bytes, name));
	}
	fails(gpu4fs_listxattr(fs, NULL, "/f", list, (size_t)wanted - 1), ERANGE);
	for (int i = 0; i < 100; i += 2) {
		snprintf(name, sizeof(name), "user.name-%d", i);
		ok(gpu4fs_removexattr(fs, NULL, "/f", name));
	}
	for (int i = 0; i < 100; i++) {
		char value[128];

		snprintf(name, sizeof(name), "user.name-%d", i);
		if (i % 2) {
			gives(gpu4fs_getxattr(fs, NULL, "/f", name, value, sizeof(value)), i);
			assert_memory_equal(value, name, i);
		} else {
			fails(gpu4fs_getxattr(fs, NULL, "/f", name, value, sizeof(value)), ENODATA);
		}
	}
}

static void links_directories_and_handles_have_their_own(void **state)
{
	gpu4fs_file *file, *dir;
	char found[8];

	(void)state;
	api_touch("/f", 0644);
	ok(gpu4fs_mkdir(fs, NULL, "/d", 0755));
	ok(gpu4fs_symlink(fs, "f", NULL, "/s"));
	ok(gpu4fs_setxattr(fs, NULL, "/s", "user.a", "f", 1, 0));
	fails(gpu4fs_lsetxattr(fs, NULL, "/s", "user.a", "s", 1, 0), EPERM);
	ok(gpu4fs_lsetxattr(fs, NULL, "/s", "trusted.a", "s", 1, 0));
	gives(gpu4fs_getxattr(fs, NULL, "/f", "user.a", found, 8), 1);
	fails(gpu4fs_getxattr(fs, NULL, "/f", "trusted.a", found, 8), ENODATA);
	gives(gpu4fs_lgetxattr(fs, NULL, "/s", "trusted.a", found, 8), 1);
	gives(gpu4fs_llistxattr(fs, NULL, "/s", NULL, 0), sizeof("trusted.a"));
	ok(gpu4fs_lremovexattr(fs, NULL, "/s", "trusted.a"));
	file = api_open("/f", O_RDWR, 0);
	dir = api_open("/d", O_RDONLY, 0);
	ok(gpu4fs_fsetxattr(dir, "user.d", "1", 1, 0));
	gives(gpu4fs_fgetxattr(file, "user.a", found, 8), 1);
	gives(gpu4fs_flistxattr(dir, NULL, 0), sizeof("user.d"));
	ok(gpu4fs_unlink(fs, NULL, "/f"));
	ok(gpu4fs_fsetxattr(file, "user.b", "still", 5, 0));
	gives(gpu4fs_fgetxattr(file, "user.b", found, 8), 5);
	ok(gpu4fs_fremovexattr(file, "user.b"));
	ok(gpu4fs_close(file));
	ok(gpu4fs_close(dir));
}

static void each_space_has_its_own_permissions(void **state)
{
	gpu4fs *user = api_session(1001, 1001, 0);
	char list[64];

	(void)state;
	api_touch("/f", 0644);
	ok(gpu4fs_setxattr(fs, NULL, "/f", "user.a", "1", 1, 0));
	ok(gpu4fs_setxattr(fs, NULL, "/f", "trusted.a", "1", 1, 0));
	ok(gpu4fs_setxattr(fs, NULL, "/f", "security.a", "1", 1, 0));
	gives(gpu4fs_getxattr(user, NULL, "/f", "user.a", NULL, 0), 1);
	fails(gpu4fs_setxattr(user, NULL, "/f", "user.a", "2", 1, 0), EACCES);
	fails(gpu4fs_getxattr(user, NULL, "/f", "trusted.a", NULL, 0), ENODATA);
	fails(gpu4fs_setxattr(user, NULL, "/f", "trusted.a", "2", 1, 0), EPERM);
	gives(gpu4fs_getxattr(user, NULL, "/f", "security.a", NULL, 0), 1);
	fails(gpu4fs_setxattr(user, NULL, "/f", "security.a", "2", 1, 0), EPERM);
	assert_false(list_has(list, gpu4fs_listxattr(user, NULL, "/f", list, sizeof(list)), "trusted.a"));
	assert_true(list_has(list, gpu4fs_listxattr(fs, NULL, "/f", list, sizeof(list)), "trusted.a"));
	ok(gpu4fs_chmod(fs, NULL, "/f", 0602));
	fails(gpu4fs_getxattr(user, NULL, "/f", "user.a", NULL, 0), EACCES);
	ok(gpu4fs_setxattr(user, NULL, "/f", "user.a", "2", 1, 0));
	ok(gpu4fs_mknod(fs, NULL, "/fifo", S_IFIFO | 0666, 0));
	fails(gpu4fs_setxattr(fs, NULL, "/fifo", "user.a", "1", 1, 0), EPERM);
	ok(gpu4fs_session_close(user));
}

/* ------------------------------------------------------------------ ACLs, in the kernel's format */

struct entry {
	uint16_t tag, permissions;
	uint32_t id;
};
struct acl {
	uint32_t version;
	struct entry entries[8];
};
enum { USER_OBJ = 1, USER = 2, GROUP_OBJ = 4, GROUP = 8, MASK = 16, OTHER = 32 };
#define ANY UINT32_MAX
#define ACL_BYTES(count) (4 + (size_t)(count)*8)
static const char access_acl[] = "system.posix_acl_access", default_acl[] = "system.posix_acl_default";

static int may(gpu4fs *session, const char *path, int mode)
{
	return gpu4fs_access(session, NULL, path, mode);
}

static void an_acl_names_users_and_groups(void **state)
{
	const struct acl acl = {2,
				{{USER_OBJ, 6, ANY},
				 {USER, 6, 1001},
				 {USER, 0, 1002},
				 {GROUP_OBJ, 4, ANY},
				 {GROUP, 6, 2001},
				 {MASK, 6, ANY},
				 {OTHER, 4, ANY}}};
	struct acl found;
	gpu4fs *named = api_session(1001, 1, 0), *denied = api_session(1002, 2001, 0);
	gpu4fs *group = api_session(1003, 1, 2001), *other = api_session(1004, 1, 0);

	(void)state;
	api_touch("/f", 0600);
	ok(gpu4fs_setxattr(fs, NULL, "/f", access_acl, &acl, ACL_BYTES(7), 0));
	gives(gpu4fs_getxattr(fs, NULL, "/f", access_acl, &found, sizeof(found)), ACL_BYTES(7));
	assert_memory_equal(&found, &acl, ACL_BYTES(7));
	assert_int_equal(api_lstat("/f").mode, S_IFREG | 0664); /* the group bits show the mask */
	ok(may(named, "/f", R_OK | W_OK));
	fails(may(denied, "/f", R_OK), EACCES);
	ok(may(group, "/f", R_OK | W_OK));
	ok(may(other, "/f", R_OK));
	fails(may(other, "/f", W_OK), EACCES);
	/* chmod changes the mask, which limits all but owner and others */
	ok(gpu4fs_chmod(fs, NULL, "/f", 0644));
	fails(may(named, "/f", W_OK), EACCES);
	ok(may(named, "/f", R_OK));
	fails(may(group, "/f", W_OK), EACCES);
	ok(gpu4fs_removexattr(fs, NULL, "/f", access_acl));
	fails(gpu4fs_getxattr(fs, NULL, "/f", access_acl, NULL, 0), ENODATA);
	ok(may(denied, "/f", R_OK));
	ok(gpu4fs_session_close(named));
	ok(gpu4fs_session_close(denied));
	ok(gpu4fs_session_close(group));
	ok(gpu4fs_session_close(other));
}

static void an_acl_that_mode_bits_can_say_becomes_mode_bits(void **state)
{
	const struct acl acl = {2, {{USER_OBJ, 7, ANY}, {GROUP_OBJ, 5, ANY}, {OTHER, 1, ANY}}};

	(void)state;
	api_touch("/f", 0600);
	ok(gpu4fs_setxattr(fs, NULL, "/f", access_acl, &acl, ACL_BYTES(3), 0));
	assert_int_equal(api_lstat("/f").mode, S_IFREG | 0751);
	fails(gpu4fs_getxattr(fs, NULL, "/f", access_acl, NULL, 0), ENODATA);
}

static void a_default_acl_is_inherited_instead_of_the_umask(void **state)
{
	const struct acl acl = {
		2, {{USER_OBJ, 7, ANY}, {USER, 7, 1001}, {GROUP_OBJ, 5, ANY}, {MASK, 7, ANY}, {OTHER, 0, ANY}}};
	gpu4fs *named = api_session(1001, 1, 0);

	(void)state;
	ok(gpu4fs_mkdir(fs, NULL, "/d", 0755));
	ok(gpu4fs_setxattr(fs, NULL, "/d", default_acl, &acl, ACL_BYTES(5), 0));
	assert_int_equal(api_lstat("/d").mode, S_IFDIR | 0755);
	ok(gpu4fs_close(api_open("/d/f", O_WRONLY | O_CREAT, 0666)));
	assert_int_equal(api_lstat("/d/f").mode, S_IFREG | 0660); /* not less the umask of 022 */
	gives(gpu4fs_getxattr(fs, NULL, "/d/f", access_acl, NULL, 0), ACL_BYTES(5));
	fails(gpu4fs_getxattr(fs, NULL, "/d/f", default_acl, NULL, 0), ENODATA);
	ok(may(named, "/d/f", R_OK | W_OK));
	ok(gpu4fs_mkdir(fs, NULL, "/d/e", 0777));
	assert_int_equal(api_lstat("/d/e").mode, S_IFDIR | 0770);
	gives(gpu4fs_getxattr(fs, NULL, "/d/e", default_acl, NULL, 0), ACL_BYTES(5));
	ok(may(named, "/d/e", R_OK | W_OK | X_OK));
	ok(gpu4fs_symlink(fs, "x", NULL, "/d/l"));
	assert_int_equal(api_lstat("/d/l").mode, S_IFLNK | 0777);
	ok(gpu4fs_removexattr(fs, NULL, "/d", default_acl));
	ok(gpu4fs_close(api_open("/d/g", O_WRONLY | O_CREAT, 0666)));
	assert_int_equal(api_lstat("/d/g").mode, S_IFREG | 0644);
	ok(gpu4fs_session_close(named));
}

static void damaged_and_misplaced_acls_are_refused(void **state)
{
	const struct acl good = {2, {{USER_OBJ, 6, ANY}, {GROUP_OBJ, 4, ANY}, {OTHER, 4, ANY}}};
	const struct acl no_mask = {2, {{USER_OBJ, 6, ANY}, {USER, 6, 1}, {GROUP_OBJ, 4, ANY}, {OTHER, 4, ANY}}};
	const struct acl bad_bits = {2, {{USER_OBJ, 8, ANY}, {GROUP_OBJ, 4, ANY}, {OTHER, 4, ANY}}};
	struct acl bad_version = good;
	gpu4fs *user = api_session(1001, 1001, 0);

	(void)state;
	bad_version.version = 1;
	api_touch("/f", 0644);
	fails(gpu4fs_setxattr(fs, NULL, "/f", access_acl, &no_mask, ACL_BYTES(4), 0), EINVAL);
	fails(gpu4fs_setxattr(fs, NULL, "/f", access_acl, &bad_bits, ACL_BYTES(3), 0), EINVAL);
	fails(gpu4fs_setxattr(fs, NULL, "/f", access_acl, &bad_version, ACL_BYTES(3), 0), EOPNOTSUPP);
	fails(gpu4fs_setxattr(fs, NULL, "/f", access_acl, &good, ACL_BYTES(2), 0), EINVAL);
	fails(gpu4fs_setxattr(fs, NULL, "/f", access_acl, &good, ACL_BYTES(3) - 1, 0), EINVAL);
	fails(gpu4fs_setxattr(fs, NULL, "/f", default_acl, &good, ACL_BYTES(3), 0), EACCES);
	fails(gpu4fs_setxattr(user, NULL, "/f", access_acl, &good, ACL_BYTES(3), 0), EPERM);
	assert_int_equal(api_lstat("/f").mode, S_IFREG | 0644);
	ok(gpu4fs_session_close(user));
}

/* ------------------------------------------------------------------ space and remount */

/* An engine with many workers keeps a slab page or two for each of them, which is not lost. */
#define KEPT_PAGES 256
#define ROUNDS 6 /* a page lost of each file and round is 600 of them */

static void attributes_give_their_space_back(void **state)
{
	static char value[65536];
	struct gpu4fs_statfs before, after;
	char path[16];

	(void)state;
	ok(gpu4fs_syncfs(fs));
	ok(gpu4fs_statfs(fs, &before));
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < 100; i++) {
			snprintf(path, sizeof(path), "/f%d", i);
			api_touch(path, 0644);
			ok(gpu4fs_setxattr(fs, NULL, path, "user.big", value, sizeof(value), 0));
			ok(gpu4fs_setxattr(fs, NULL, path, "user.big", value, sizeof(value) / 2, 0));
		}
		for (int i = 0; i < 100; i++) {
			snprintf(path, sizeof(path), "/f%d", i);
			ok(gpu4fs_unlink(fs, NULL, path));
		}
		ok(gpu4fs_syncfs(fs));
	}
	ok(gpu4fs_statfs(fs, &after));
	assert_true(after.blocks_free + KEPT_PAGES >= before.blocks_free);
}

static void attributes_survive_unmount_and_mount(void **state)
{
	static const char image[] = "api_xattr_remount.img";
	static const size_t sizes[] = {0, 10, 1024, 1025, 5000, 65536};
	static unsigned char value[65536], found[65536];
	const struct acl acl = {
		2, {{USER_OBJ, 6, ANY}, {USER, 4, 1001}, {GROUP_OBJ, 0, ANY}, {MASK, 4, ANY}, {OTHER, 0, ANY}}};
	gpu4fs *memory = fs;
	char name[32];

	(void)state;
	api_image(image, 32 << 20);
	fs = api_mount(image, true);
	api_touch("/f", 0600);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		snprintf(name, sizeof(name), "user.%zu", i);
		api_pattern(value, i, 0, sizes[i]);
		ok(gpu4fs_setxattr(fs, NULL, "/f", name, value, sizes[i], 0));
	}
	ok(gpu4fs_setxattr(fs, NULL, "/f", access_acl, &acl, ACL_BYTES(5), 0));
	ok(gpu4fs_unmount(fs));
	fs = api_mount(image, false);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		snprintf(name, sizeof(name), "user.%zu", i);
		api_pattern(value, i, 0, sizes[i]);
		gives(gpu4fs_getxattr(fs, NULL, "/f", name, found, sizeof(found)), sizes[i]);
		assert_memory_equal(found, value, sizes[i]);
	}
	gives(gpu4fs_getxattr(fs, NULL, "/f", access_acl, found, sizeof(found)), ACL_BYTES(5));
	assert_memory_equal(found, &acl, ACL_BYTES(5));
	ok(gpu4fs_unmount(fs));
	fs = memory;
	unlink(image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(attributes_of_what_had_none_are_seen),
		api_test(values_of_every_size_come_back),
		api_test(create_and_replace_flags_are_kept),
		api_test(names_are_checked),
		api_test(listing_gives_every_name_once),
		api_test(links_directories_and_handles_have_their_own),
		api_test(each_space_has_its_own_permissions),
		api_test(an_acl_names_users_and_groups),
		api_test(an_acl_that_mode_bits_can_say_becomes_mode_bits),
		api_test(a_default_acl_is_inherited_instead_of_the_umask),
		api_test(damaged_and_misplaced_acls_are_refused),
		api_test(attributes_give_their_space_back),
		api_test(attributes_survive_unmount_and_mount),
	};

	return cmocka_run_group_tests_name("api extended attributes", tests, NULL, NULL);
}
