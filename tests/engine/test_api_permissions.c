/* SPDX-License-Identifier: Apache-2.0 */
/* Who may do what through the public API: mode bits, groups, sticky and set-id bits, ownership, umask, sessions. */
#include "api_fixture.h"

enum { ALICE = 1001, BOB = 1002, STAFF = 2001, GUESTS = 2002 };

static gpu4fs *alice, *bob; /* alice: group STAFF; bob: group GUESTS, also in STAFF */

static int setup(void **state)
{
	api_setup(state);
	alice = api_session(ALICE, STAFF, 0);
	bob = api_session(BOB, GUESTS, STAFF);
	return 0;
}

static int teardown(void **state)
{
	ok(gpu4fs_session_close(alice));
	ok(gpu4fs_session_close(bob));
	return api_teardown(state);
}

/* A file with an owner, a group and a mode. */
static void make(const char *path, uint32_t uid, uint32_t gid, uint32_t mode)
{
	api_touch(path, 0600);
	ok(gpu4fs_chown(fs, NULL, path, uid, gid, 0));
	ok(gpu4fs_chmod(fs, NULL, path, mode));
}

static void make_dir(const char *path, uint32_t uid, uint32_t gid, uint32_t mode)
{
	ok(gpu4fs_mkdir(fs, NULL, path, 0700));
	ok(gpu4fs_chown(fs, NULL, path, uid, gid, 0));
	ok(gpu4fs_chmod(fs, NULL, path, mode));
}

static int try_open(gpu4fs *session, const char *path, int flags)
{
	gpu4fs_file *file;
	int rc = gpu4fs_open(session, NULL, path, flags, 0644, &file);

	return rc ? rc : gpu4fs_close(file);
}

static int try_opendir(gpu4fs *session, const char *path)
{
	gpu4fs_dir *dir;
	int rc = gpu4fs_opendir(session, NULL, path, 0, &dir);

	return rc ? rc : gpu4fs_closedir(dir);
}

/* ------------------------------------------------------------------ access */

static void the_most_specific_class_decides(void **state)
{
	(void)state;
	make("/owner", ALICE, STAFF, 0066); /* the owner is shut out although others are not */
	fails(try_open(alice, "/owner", O_RDONLY), EACCES);
	ok(try_open(bob, "/owner", O_RDWR));
	make("/group", 0, STAFF, 0606);
	fails(try_open(alice, "/group", O_RDONLY), EACCES);
	fails(try_open(bob, "/group", O_WRONLY), EACCES);
	make("/supplementary", 0, STAFF, 0640);
	ok(try_open(bob, "/supplementary", O_RDONLY));
	fails(try_open(bob, "/supplementary", O_RDWR), EACCES);
	make("/others", 0, 0, 0604);
	ok(try_open(alice, "/others", O_RDONLY));
	fails(try_open(alice, "/others", O_WRONLY), EACCES);
	fails(try_open(alice, "/others", O_RDONLY | O_TRUNC), EACCES);
	ok(try_open(fs, "/owner", O_RDWR));
}

static void access_answers_for_the_session(void **state)
{
	(void)state;
	make("/f", ALICE, STAFF, 0750);
	ok(gpu4fs_access(alice, NULL, "/f", R_OK | W_OK | X_OK));
	ok(gpu4fs_access(bob, NULL, "/f", R_OK | X_OK));
	fails(gpu4fs_access(bob, NULL, "/f", W_OK), EACCES);
	ok(gpu4fs_access(bob, NULL, "/f", F_OK));
	ok(gpu4fs_access(fs, NULL, "/f", R_OK | W_OK | X_OK));
}

static void walking_needs_search_permission_only(void **state)
{
	struct gpu4fs_stat stat;

	(void)state;
	make_dir("/d", ALICE, STAFF, 0711);
	make("/d/f", BOB, GUESTS, 0644);
	ok(try_open(bob, "/d/f", O_RDONLY));
	fails(try_opendir(bob, "/d"), EACCES);
	fails(gpu4fs_unlink(bob, NULL, "/d/f"), EACCES);
	ok(gpu4fs_chmod(fs, NULL, "/d", 0744));
	ok(try_opendir(bob, "/d"));
	fails(gpu4fs_stat(bob, NULL, "/d/f", &stat), EACCES);
	fails(gpu4fs_stat(bob, NULL, "/d/none", &stat), EACCES);
	fails(gpu4fs_stat(bob, NULL, "/d/..", &stat), EACCES);
	ok(gpu4fs_stat(fs, NULL, "/d/f", &stat));
}

static void changing_a_directory_needs_write_and_search(void **state)
{
	(void)state;
	make_dir("/d", ALICE, STAFF, 0755);
	make_dir("/mine", BOB, GUESTS, 0755);
	make("/d/f", BOB, GUESTS, 0644);
	fails(try_open(bob, "/d/new", O_WRONLY | O_CREAT), EACCES);
	fails(gpu4fs_mkdir(bob, NULL, "/d/new", 0755), EACCES);
	fails(gpu4fs_symlink(bob, "x", NULL, "/d/new"), EACCES);
	fails(gpu4fs_mknod(bob, NULL, "/d/new", S_IFIFO | 0600, 0), EACCES);
	fails(gpu4fs_link(bob, NULL, "/d/f", NULL, "/d/new", 0), EACCES);
	fails(gpu4fs_unlink(bob, NULL, "/d/f"), EACCES);
	fails(gpu4fs_rename(bob, NULL, "/d/f", NULL, "/mine/f", 0), EACCES);
	make("/mine/g", BOB, GUESTS, 0644);
	fails(gpu4fs_rename(bob, NULL, "/mine/g", NULL, "/d/g", 0), EACCES);
	ok(try_open(bob, "/d/f", O_WRONLY | O_CREAT)); /* it exists: no change of the directory */
	ok(gpu4fs_chmod(fs, NULL, "/d", 0777));
	ok(gpu4fs_rename(bob, NULL, "/d/f", NULL, "/mine/f", 0));
	ok(gpu4fs_mkdir(bob, NULL, "/d/new", 0755));
	ok(gpu4fs_rmdir(bob, NULL, "/d/new"));
}

static void moving_a_directory_needs_write_permission_on_it(void **state)
{
	(void)state;
	make_dir("/a", 0, 0, 0777);
	make_dir("/b", 0, 0, 0777);
	make_dir("/a/d", ALICE, STAFF, 0555);
	fails(gpu4fs_rename(bob, NULL, "/a/d", NULL, "/b/d", 0), EACCES);
	ok(gpu4fs_rename(bob, NULL, "/a/d", NULL, "/a/e", 0));
	ok(gpu4fs_chmod(fs, NULL, "/a/e", 0777));
	ok(gpu4fs_rename(bob, NULL, "/a/e", NULL, "/b/e", 0));
}

static void a_handle_keeps_what_it_was_opened_for(void **state)
{
	gpu4fs_file *file;
	char byte;

	(void)state;
	make("/f", ALICE, STAFF, 0644);
	file = api_open_as(alice, "/f", O_RDWR, 0);
	ok(gpu4fs_chown(fs, NULL, "/f", 0, 0, 0));
	ok(gpu4fs_chmod(fs, NULL, "/f", 0));
	gives(gpu4fs_pwrite(file, "x", 1, 0), 1);
	gives(gpu4fs_pread(file, &byte, 1, 0), 1);
	ok(gpu4fs_ftruncate(file, 10));
	fails(gpu4fs_fchmod(file, 0644), EPERM);
	ok(gpu4fs_close(file));
	fails(try_open(alice, "/f", O_RDONLY), EACCES);
}

static void a_new_file_may_be_written_whatever_its_mode(void **state)
{
	gpu4fs_file *file;

	(void)state;
	make_dir("/d", 0, 0, 0777);
	file = api_open_as(alice, "/d/f", O_RDWR | O_CREAT | O_EXCL, 0);
	gives(gpu4fs_write(file, "x", 1), 1);
	ok(gpu4fs_close(file));
	fails(try_open(alice, "/d/f", O_RDONLY), EACCES);
	assert_int_equal(api_lstat("/d/f").mode, S_IFREG);
}

/* ------------------------------------------------------------------ new files */

static void new_files_belong_to_their_maker_less_the_umask(void **state)
{
	const struct gpu4fs_credentials careful = {
		.size = sizeof(careful), .uid = ALICE, .gid = STAFF, .umask = 077, .cwd = "/d"};
	gpu4fs_file *file;
	gpu4fs *session;

	(void)state;
	make_dir("/d", 0, 0, 0777);
	file = api_open_as(alice, "/d/f", O_RDWR | O_CREAT, 0666);
	ok(gpu4fs_close(file));
	assert_int_equal(api_lstat("/d/f").uid, ALICE);
	assert_int_equal(api_lstat("/d/f").gid, STAFF);
	assert_int_equal(api_lstat("/d/f").mode, S_IFREG | 0644);
	ok(gpu4fs_session(fs, &careful, &session));
	ok(gpu4fs_mkdir(session, NULL, "here", 0777));
	ok(gpu4fs_mknod(session, NULL, "fifo", S_IFIFO | 0666, 0));
	assert_int_equal(api_lstat("/d/here").mode, S_IFDIR | 0700);
	assert_int_equal(api_lstat("/d/fifo").mode, S_IFIFO | 0600);
	ok(gpu4fs_session_close(session));
}

static void a_setgid_directory_passes_its_group_on(void **state)
{
	(void)state;
	make_dir("/d", 0, GUESTS, 02777);
	ok(gpu4fs_close(api_open_as(alice, "/d/f", O_WRONLY | O_CREAT, 0664)));
	ok(gpu4fs_mkdir(alice, NULL, "/d/e", 0755));
	ok(gpu4fs_symlink(alice, "x", NULL, "/d/l"));
	assert_int_equal(api_lstat("/d/f").gid, GUESTS);
	assert_int_equal(api_lstat("/d/f").mode, S_IFREG | 0644);
	assert_int_equal(api_lstat("/d/e").gid, GUESTS);
	assert_int_equal(api_lstat("/d/e").mode, S_IFDIR | 02755);
	assert_int_equal(api_lstat("/d/l").gid, GUESTS);
	/* An executable with the bit needs membership; the bit is dropped without. */
	ok(gpu4fs_close(api_open_as(alice, "/d/g", O_WRONLY | O_CREAT, 02755)));
	assert_int_equal(api_lstat("/d/g").mode, S_IFREG | 0755);
	ok(gpu4fs_close(api_open_as(bob, "/d/h", O_WRONLY | O_CREAT, 02755)));
	assert_int_equal(api_lstat("/d/h").mode, S_IFREG | 02755);
}

/* ------------------------------------------------------------------ sticky directories */

static void in_a_sticky_directory_only_owners_remove_and_rename(void **state)
{
	(void)state;
	make_dir("/tmp", 0, 0, 01777);
	make("/tmp/a", ALICE, STAFF, 0666);
	make("/tmp/b", BOB, GUESTS, 0666);
	fails(gpu4fs_unlink(bob, NULL, "/tmp/a"), EPERM);
	fails(gpu4fs_rename(bob, NULL, "/tmp/a", NULL, "/tmp/c", 0), EPERM);
	fails(gpu4fs_rename(bob, NULL, "/tmp/b", NULL, "/tmp/a", 0), EPERM);
	fails(gpu4fs_rename(bob, NULL, "/tmp/b", NULL, "/tmp/a", GPU4FS_RENAME_EXCHANGE), EPERM);
	ok(gpu4fs_rename(bob, NULL, "/tmp/b", NULL, "/tmp/c", 0));
	ok(gpu4fs_unlink(bob, NULL, "/tmp/c"));
	ok(gpu4fs_mkdir(alice, NULL, "/tmp/d", 0777));
	fails(gpu4fs_rmdir(bob, NULL, "/tmp/d"), EPERM);
	ok(gpu4fs_rmdir(alice, NULL, "/tmp/d"));
	ok(gpu4fs_chown(fs, NULL, "/tmp", BOB, GUESTS, 0));
	ok(gpu4fs_unlink(bob, NULL, "/tmp/a")); /* the directory's owner may */
}

/* ------------------------------------------------------------------ ownership */

static void only_the_owner_changes_the_mode(void **state)
{
	(void)state;
	make("/f", ALICE, STAFF, 0666);
	fails(gpu4fs_chmod(bob, NULL, "/f", 0600), EPERM);
	ok(gpu4fs_chmod(alice, NULL, "/f", 0600));
	ok(gpu4fs_chmod(alice, NULL, "/f", 02755));
	assert_int_equal(api_lstat("/f").mode, S_IFREG | 02755);
	/* The set-gid bit of a group one is not in is dropped. */
	ok(gpu4fs_chown(fs, NULL, "/f", ALICE, GUESTS, 0));
	ok(gpu4fs_chmod(alice, NULL, "/f", 02755));
	assert_int_equal(api_lstat("/f").mode, S_IFREG | 0755);
}

static void only_root_gives_files_away(void **state)
{
	(void)state;
	make("/f", BOB, GUESTS, 0644);
	fails(gpu4fs_chown(bob, NULL, "/f", ALICE, (uint32_t)-1, 0), EPERM);
	fails(gpu4fs_chown(alice, NULL, "/f", ALICE, (uint32_t)-1, 0), EPERM);
	fails(gpu4fs_chown(bob, NULL, "/f", (uint32_t)-1, 0, 0), EPERM);
	fails(gpu4fs_chown(alice, NULL, "/f", (uint32_t)-1, STAFF, 0), EPERM);
	ok(gpu4fs_chown(bob, NULL, "/f", (uint32_t)-1, STAFF, 0));
	ok(gpu4fs_chown(bob, NULL, "/f", BOB, GUESTS, 0));
	ok(gpu4fs_chown(fs, NULL, "/f", ALICE, STAFF, 0));
	assert_int_equal(api_lstat("/f").uid, ALICE);
}

static void writing_and_giving_away_drop_the_set_id_bits(void **state)
{
	gpu4fs_file *file;

	(void)state;
	make("/f", ALICE, STAFF, 06777);
	file = api_open_as(alice, "/f", O_WRONLY, 0);
	gives(gpu4fs_pwrite(file, "", 0, 0), 0);
	assert_int_equal(api_lstat("/f").mode, S_IFREG | 06777);
	gives(gpu4fs_pwrite(file, "x", 1, 0), 1);
	assert_int_equal(api_lstat("/f").mode, S_IFREG | 0777);
	ok(gpu4fs_chmod(fs, NULL, "/f", 06777));
	ok(gpu4fs_ftruncate(file, 0));
	assert_int_equal(api_lstat("/f").mode, S_IFREG | 0777);
	ok(gpu4fs_close(file));
	ok(gpu4fs_chmod(fs, NULL, "/f", 06777));
	ok(gpu4fs_truncate(bob, NULL, "/f", 5));
	assert_int_equal(api_lstat("/f").mode, S_IFREG | 0777);
	ok(gpu4fs_chmod(fs, NULL, "/f", 06777));
	ok(gpu4fs_chown(fs, NULL, "/f", BOB, GUESTS, 0));
	assert_int_equal(api_lstat("/f").mode, S_IFREG | 0777);
	/* uid 0 writes without dropping them; without group execution set-gid means something else. */
	ok(gpu4fs_chmod(fs, NULL, "/f", 06777));
	file = api_open("/f", O_WRONLY, 0);
	gives(gpu4fs_pwrite(file, "x", 1, 0), 1);
	assert_int_equal(api_lstat("/f").mode, S_IFREG | 06777);
	ok(gpu4fs_close(file));
	make_dir("/d", 0, 0, 02755);
	ok(gpu4fs_chown(fs, NULL, "/d", ALICE, STAFF, 0));
	assert_int_equal(api_lstat("/d").mode, S_IFDIR | 02755);
}

static uint32_t permissions_of(const char *path)
{
	return api_lstat(path).mode & 07777;
}

/* Each way to change contents; of a file of BOB's that all may write. */
static void every_change_of_contents_drops_the_set_id_bits(void **state)
{
	static const uint32_t modes[] = {0,
					 GPU4FS_FALLOC_KEEP_SIZE,
					 GPU4FS_FALLOC_KEEP_SIZE | GPU4FS_FALLOC_PUNCH_HOLE,
					 GPU4FS_FALLOC_ZERO_RANGE,
					 GPU4FS_FALLOC_INSERT_RANGE,
					 GPU4FS_FALLOC_COLLAPSE_RANGE};
	gpu4fs_file *file, *source;
	int64_t from, to;

	(void)state;
	make("/f", BOB, GUESTS, 06777);
	api_write_pattern("/source", 1, 20000);
	for (size_t k = 0; k < sizeof(modes) / sizeof(modes[0]); k++) {
		ok(gpu4fs_chmod(fs, NULL, "/f", 06777));
		file = api_open_as(alice, "/f", O_RDWR, 0);
		ok(gpu4fs_fallocate(file, modes[k], 4096, 8192));
		ok(gpu4fs_close(file));
		assert_int_equal(permissions_of("/f"), 0777);
	}
	ok(gpu4fs_chmod(fs, NULL, "/f", 06777));
	file = api_open_as(alice, "/f", O_RDWR, 0);
	fails(gpu4fs_fallocate(file, GPU4FS_FALLOC_KEEP_SIZE, 4096, INT64_MAX), EFBIG);
	fails(gpu4fs_fallocate(file, GPU4FS_FALLOC_INSERT_RANGE, 4096, 100), EINVAL);
	fails(gpu4fs_fallocate(file, GPU4FS_FALLOC_COLLAPSE_RANGE, 4096, 1 << 30), EINVAL);
	assert_int_equal(permissions_of("/f"), 06777);
	source = api_open_as(alice, "/source", O_RDONLY, 0);
	from = to = 0;
	gives(gpu4fs_copy_file_range(source, &from, file, &to, 20000), 20000);
	assert_int_equal(permissions_of("/f"), 0777);
	ok(gpu4fs_close(source));
	ok(gpu4fs_close(file));
	ok(gpu4fs_chmod(fs, NULL, "/f", 06777));
	ok(gpu4fs_close(api_open_as(alice, "/f", O_WRONLY | O_TRUNC, 0)));
	assert_int_equal(permissions_of("/f"), 0777);
	/* root keeps them */
	ok(gpu4fs_chmod(fs, NULL, "/f", 06777));
	file = api_open("/f", O_RDWR | O_TRUNC, 0);
	ok(gpu4fs_fallocate(file, 0, 0, 8192));
	ok(gpu4fs_close(file));
	assert_int_equal(permissions_of("/f"), 06777);
}

static void set_gid_without_execution_stays_for_members_of_the_group(void **state)
{
	(void)state;
	make("/f", 0, GUESTS, 06766);
	ok(gpu4fs_truncate(bob, NULL, "/f", 10));
	assert_int_equal(permissions_of("/f"), 02766);
	ok(gpu4fs_truncate(alice, NULL, "/f", 20));
	assert_int_equal(permissions_of("/f"), 0766);
}

/* Whichever user does it. */
static void every_change_of_contents_drops_capabilities(void **state)
{
	static const char name[] = "security.capability";
	gpu4fs_file *file;
	char value[20];

	(void)state;
	memset(value, 1, sizeof(value));
	for (uint32_t way = 0; way < 6; way++) {
		api_write_pattern("/f", way, 10000);
		file = api_open("/f", O_RDWR, 0);
		ok(gpu4fs_fsetxattr(file, "user.other", "kept", 4, 0));
		ok(gpu4fs_fsetxattr(file, name, value, sizeof(value), 0));
		gives(gpu4fs_pwrite(file, "", 0, 0), 0);
		ok(gpu4fs_fchmod(file, 0755));
		gives(gpu4fs_fgetxattr(file, name, value, sizeof(value)), sizeof(value));
		switch (way) {
		case 0:
			gives(gpu4fs_pwrite(file, "x", 1, 0), 1);
			break;
		case 1:
			ok(gpu4fs_ftruncate(file, 10));
			break;
		case 2:
			ok(gpu4fs_fallocate(file, 0, 0, 20000));
			break;
		case 3:
			ok(gpu4fs_fchown(file, 1, (uint32_t)-1));
			break;
		case 4:
			ok(gpu4fs_truncate(fs, NULL, "/f", 0));
			break;
		default:
			ok(gpu4fs_close(api_open("/f", O_WRONLY | O_TRUNC, 0)));
			break;
		}
		fails(gpu4fs_fgetxattr(file, name, value, sizeof(value)), ENODATA);
		gives(gpu4fs_fgetxattr(file, "user.other", value, sizeof(value)), 4);
		ok(gpu4fs_close(file));
		ok(gpu4fs_unlink(fs, NULL, "/f"));
	}
}

static void times_are_set_by_the_owner_or_to_now_by_a_writer(void **state)
{
	const struct timespec times[2] = {{1, 0}, {2, 0}};
	const struct timespec now[2] = {{0, UTIME_NOW}, {0, UTIME_NOW}};

	(void)state;
	make("/f", ALICE, STAFF, 0646);
	ok(gpu4fs_utimens(alice, NULL, "/f", times, 0));
	fails(gpu4fs_utimens(bob, NULL, "/f", times, 0), EPERM);
	fails(gpu4fs_utimens(bob, NULL, "/f", NULL, 0), EACCES);
	ok(gpu4fs_chmod(fs, NULL, "/f", 0666));
	ok(gpu4fs_utimens(bob, NULL, "/f", NULL, 0));
	ok(gpu4fs_utimens(bob, NULL, "/f", now, 0));
	fails(gpu4fs_utimens(bob, NULL, "/f", times, 0), EPERM);
}

static void some_things_are_for_root_or_the_owner(void **state)
{
	(void)state;
	make_dir("/d", 0, 0, 0777);
	make("/f", ALICE, STAFF, 0666);
	fails(gpu4fs_mknod(alice, NULL, "/d/null", S_IFCHR | 0666, 0x103), EPERM);
	ok(gpu4fs_mknod(alice, NULL, "/d/fifo", S_IFIFO | 0666, 0));
	fails(gpu4fs_chflags(alice, NULL, "/f", GPU4FS_FLAG_IMMUTABLE), EPERM);
	ok(gpu4fs_chflags(alice, NULL, "/f", GPU4FS_FLAG_NODUMP));
	fails(gpu4fs_chflags(bob, NULL, "/f", 0), EPERM);
	fails(try_open(bob, "/f", O_RDONLY | O_NOATIME), EPERM);
	ok(try_open(alice, "/f", O_RDONLY | O_NOATIME));
	fails(gpu4fs_truncate(bob, NULL, "/d", 0), EISDIR);
	ok(gpu4fs_chmod(fs, NULL, "/f", 0644));
	fails(gpu4fs_truncate(bob, NULL, "/f", 0), EACCES);
}

static void a_session_starts_where_it_was_told_to(void **state)
{
	struct gpu4fs_credentials there = {.size = sizeof(there), .uid = ALICE, .gid = STAFF, .cwd = "/d"};
	gpu4fs *session;

	(void)state;
	make_dir("/d", ALICE, STAFF, 0700);
	make("/d/f", ALICE, STAFF, 0600);
	ok(gpu4fs_session(fs, &there, &session));
	ok(gpu4fs_access(session, NULL, "f", R_OK));
	ok(gpu4fs_rename(fs, NULL, "/d", NULL, "/e", 0));
	ok(gpu4fs_access(session, NULL, "f", R_OK));
	ok(gpu4fs_access(session, NULL, "/e/f", R_OK));
	fails(gpu4fs_access(session, NULL, "/d/f", R_OK), ENOENT);
	ok(gpu4fs_session_close(session));
	fails(gpu4fs_session(fs, &there, &session), ENOENT);
	there.cwd = "/e";
	there.uid = BOB;
	fails(gpu4fs_session(fs, &there, &session), EACCES);
	there.cwd = NULL;
	there.group_count = 65;
	fails(gpu4fs_session(fs, &there, &session), EINVAL);
	there.group_count = 0;
	there.umask = 01000;
	fails(gpu4fs_session(fs, &there, &session), EINVAL);
}

#define permission_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		permission_test(the_most_specific_class_decides),
		permission_test(access_answers_for_the_session),
		permission_test(walking_needs_search_permission_only),
		permission_test(changing_a_directory_needs_write_and_search),
		permission_test(moving_a_directory_needs_write_permission_on_it),
		permission_test(a_handle_keeps_what_it_was_opened_for),
		permission_test(a_new_file_may_be_written_whatever_its_mode),
		permission_test(new_files_belong_to_their_maker_less_the_umask),
		permission_test(a_setgid_directory_passes_its_group_on),
		permission_test(in_a_sticky_directory_only_owners_remove_and_rename),
		permission_test(only_the_owner_changes_the_mode),
		permission_test(only_root_gives_files_away),
		permission_test(writing_and_giving_away_drop_the_set_id_bits),
		permission_test(every_change_of_contents_drops_the_set_id_bits),
		permission_test(set_gid_without_execution_stays_for_members_of_the_group),
		permission_test(every_change_of_contents_drops_capabilities),
		permission_test(times_are_set_by_the_owner_or_to_now_by_a_writer),
		permission_test(some_things_are_for_root_or_the_owner),
		permission_test(a_session_starts_where_it_was_told_to),
	};

	return cmocka_run_group_tests_name("api permissions", tests, NULL, NULL);
}
