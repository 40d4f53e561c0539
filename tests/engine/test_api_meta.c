/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes through the public API: modes, owners, times, links, flags, space. */
#include "api_fixture.h"

#include <sys/sysmacros.h>

static bool same_time(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static bool later(struct timespec a, struct timespec b)
{
	return a.tv_sec > b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec > b.tv_nsec);
}

/* Clocks may be coarse: long enough for any. */
static void wait_a_tick(void)
{
	const struct timespec tick = {.tv_nsec = 12000000};

	nanosleep(&tick, NULL);
}

static void a_new_file_has_the_attributes_it_was_made_with(void **state)
{
	struct timespec before, after;
	struct gpu4fs_stat stat;

	(void)state;
	clock_gettime(CLOCK_REALTIME, &before);
	before.tv_sec--;
	ok(gpu4fs_close(api_open("/f", O_WRONLY | O_CREAT, 0666)));
	ok(gpu4fs_mkdir(fs, NULL, "/d", 01777));
	clock_gettime(CLOCK_REALTIME, &after);
	after.tv_sec++;
	stat = api_lstat("/f");
	assert_int_equal(stat.mode, S_IFREG | 0644);
	assert_int_equal(stat.nlink, 1);
	assert_int_equal(stat.uid, 0);
	assert_int_equal(stat.gid, 0);
	assert_int_equal(stat.size, 0);
	assert_int_equal(stat.blocks, 0);
	assert_true(stat.block_bytes >= 512);
	assert_true(later(stat.btime, before) && later(after, stat.btime));
	assert_true(same_time(stat.btime, stat.mtime) && same_time(stat.btime, stat.ctime));
	assert_true(same_time(stat.btime, stat.atime));
	assert_int_equal(api_lstat("/d").mode, S_IFDIR | 01755);
	assert_int_not_equal(stat.ino, api_lstat("/d").ino);
}

static void path_handle_and_link_give_the_same_attributes(void **state)
{
	struct gpu4fs_stat by_path, by_handle, by_link;
	gpu4fs_file *file;

	(void)state;
	api_write_text("/f", "text");
	ok(gpu4fs_link(fs, NULL, "/f", NULL, "/g", 0));
	file = api_open("/f", O_RDONLY, 0);
	ok(gpu4fs_stat(fs, NULL, "/f", &by_path));
	ok(gpu4fs_fstat(file, &by_handle));
	ok(gpu4fs_stat(fs, NULL, "/g", &by_link));
	assert_memory_equal(&by_path, &by_handle, sizeof(by_path));
	assert_memory_equal(&by_path, &by_link, sizeof(by_path));
	ok(gpu4fs_close(file));
}

static void a_reused_number_has_another_generation(void **state)
{
	struct gpu4fs_stat first, next;

	(void)state;
	api_touch("/f", 0644);
	first = api_lstat("/f");
	for (int i = 0; i < 20; i++) {
		ok(gpu4fs_unlink(fs, NULL, "/f"));
		ok(gpu4fs_syncfs(fs));
		api_touch("/f", 0644);
		next = api_lstat("/f");
		if (next.ino == first.ino)
			assert_int_not_equal(next.generation, first.generation);
	}
}

/* ------------------------------------------------------------------ mode and owner */

static void chmod_sets_all_twelve_bits(void **state)
{
	gpu4fs_file *file;

	(void)state;
	api_touch("/f", 0644);
	ok(gpu4fs_chmod(fs, NULL, "/f", 07777));
	assert_int_equal(api_lstat("/f").mode, S_IFREG | 07777);
	ok(gpu4fs_chmod(fs, NULL, "/f", 0));
	assert_int_equal(api_lstat("/f").mode, S_IFREG);
	ok(gpu4fs_chmod(fs, NULL, "/f", S_IFDIR | 0640));
	assert_int_equal(api_lstat("/f").mode, S_IFREG | 0640);
	file = api_open("/f", O_RDONLY, 0);
	ok(gpu4fs_fchmod(file, 0600));
	assert_int_equal(api_lstat("/f").mode, S_IFREG | 0600);
	ok(gpu4fs_close(file));
	fails(gpu4fs_chmod(fs, NULL, "/none", 0), ENOENT);
	ok(gpu4fs_symlink(fs, "f", NULL, "/s"));
	ok(gpu4fs_chmod(fs, NULL, "/s", 0444));
	assert_int_equal(api_lstat("/f").mode, S_IFREG | 0444);
	assert_int_equal(api_lstat("/s").mode, S_IFLNK | 0777);
	/* not through a link, wherever that leads */
	fails(gpu4fs_lchmod(fs, NULL, "/s", 0600), EOPNOTSUPP);
	assert_int_equal(api_lstat("/f").mode, S_IFREG | 0444);
	assert_int_equal(api_lstat("/s").mode, S_IFLNK | 0777);
	ok(gpu4fs_lchmod(fs, NULL, "/f", 0640));
	assert_int_equal(api_lstat("/f").mode, S_IFREG | 0640);
	fails(gpu4fs_lchmod(fs, NULL, "/none", 0), ENOENT);
}

static void chown_changes_what_it_is_told_to(void **state)
{
	gpu4fs_file *file;

	(void)state;
	api_touch("/f", 0644);
	ok(gpu4fs_symlink(fs, "f", NULL, "/s"));
	ok(gpu4fs_chown(fs, NULL, "/f", 10, 20, 0));
	assert_int_equal(api_lstat("/f").uid, 10);
	assert_int_equal(api_lstat("/f").gid, 20);
	ok(gpu4fs_chown(fs, NULL, "/f", (uint32_t)-1, 21, 0));
	ok(gpu4fs_chown(fs, NULL, "/f", 11, (uint32_t)-1, 0));
	ok(gpu4fs_chown(fs, NULL, "/f", (uint32_t)-1, (uint32_t)-1, 0));
	assert_int_equal(api_lstat("/f").uid, 11);
	assert_int_equal(api_lstat("/f").gid, 21);
	ok(gpu4fs_chown(fs, NULL, "/s", 30, 30, AT_SYMLINK_NOFOLLOW));
	assert_int_equal(api_lstat("/s").uid, 30);
	assert_int_equal(api_lstat("/f").uid, 11);
	ok(gpu4fs_chown(fs, NULL, "/s", 40, 4000000000u, 0));
	assert_int_equal(api_lstat("/f").uid, 40);
	assert_int_equal(api_lstat("/f").gid, 4000000000u);
	file = api_open("/f", O_RDONLY, 0);
	ok(gpu4fs_fchown(file, 50, 60));
	assert_int_equal(api_lstat("/f").uid, 50);
	assert_int_equal(api_lstat("/f").gid, 60);
	ok(gpu4fs_close(file));
	fails(gpu4fs_chown(fs, NULL, "/f", 0, 0, AT_SYMLINK_FOLLOW), EINVAL);
}

static void device_nodes_keep_their_numbers(void **state)
{
	struct gpu4fs_stat stat;

	(void)state;
	ok(gpu4fs_mknod(fs, NULL, "/c", S_IFCHR | 0600, makedev(1, 3)));
	ok(gpu4fs_mknod(fs, NULL, "/b", S_IFBLK | 0600, makedev(259, 70000)));
	ok(gpu4fs_mknod(fs, NULL, "/r", 0640, 0));
	stat = api_lstat("/c");
	assert_int_equal(stat.mode, S_IFCHR | 0600);
	assert_int_equal(stat.rdev, makedev(1, 3));
	assert_int_equal(api_lstat("/b").rdev, makedev(259, 70000));
	assert_int_equal(api_lstat("/r").mode, S_IFREG | 0640);
	fails(gpu4fs_mknod(fs, NULL, "/d", S_IFDIR | 0700, 0), EPERM);
	fails(gpu4fs_mknod(fs, NULL, "/l", S_IFLNK | 0700, 0), EINVAL);
	fails(gpu4fs_mknod(fs, NULL, "/c", S_IFREG | 0700, 0), EEXIST);
}

/* ------------------------------------------------------------------ times */

static void times_are_exact_to_the_nanosecond(void **state)
{
	static const struct timespec pairs[][2] = {
		{{1, 1}, {2, 2}},
		{{0, 0}, {0, 999999999}},
		{{-1, 999999999}, {-1, 0}},
		{{-1000000000, 123456789}, {-2, 1}},
		{{1700000000, 987654321}, {4102444800, 1}},
		{{9000000000, 5}, {-9000000000, 7}},
	};
	gpu4fs_file *file;

	(void)state;
	api_touch("/f", 0644);
	file = api_open("/f", O_RDWR, 0);
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		struct gpu4fs_stat stat;

		if (i % 2)
			ok(gpu4fs_utimens(fs, NULL, "/f", pairs[i], 0));
		else
			ok(gpu4fs_futimens(file, pairs[i]));
		stat = api_lstat("/f");
		assert_true(same_time(stat.atime, pairs[i][0]));
		assert_true(same_time(stat.mtime, pairs[i][1]));
		assert_true(stat.ctime.tv_sec > 1500000000);
	}
	ok(gpu4fs_close(file));
}

static void times_can_be_set_one_by_one_and_to_now(void **state)
{
	const struct timespec old[2] = {{1000, 1}, {2000, 2}};
	struct timespec some[2] = {{0, UTIME_OMIT}, {3000, 3}};
	struct gpu4fs_stat stat;

	(void)state;
	api_touch("/f", 0644);
	ok(gpu4fs_utimens(fs, NULL, "/f", old, 0));
	ok(gpu4fs_utimens(fs, NULL, "/f", some, 0));
	stat = api_lstat("/f");
	assert_true(same_time(stat.atime, old[0]) && same_time(stat.mtime, some[1]));
	some[0].tv_nsec = UTIME_NOW;
	some[1].tv_nsec = UTIME_OMIT;
	ok(gpu4fs_utimens(fs, NULL, "/f", some, 0));
	stat = api_lstat("/f");
	assert_true(stat.atime.tv_sec > 1500000000 && stat.mtime.tv_sec == 3000);
	ok(gpu4fs_utimens(fs, NULL, "/f", old, 0));
	ok(gpu4fs_utimens(fs, NULL, "/f", NULL, 0));
	stat = api_lstat("/f");
	assert_true(stat.atime.tv_sec > 1500000000 && same_time(stat.atime, stat.mtime));
	some[0].tv_nsec = UTIME_OMIT;
	ok(gpu4fs_utimens(fs, NULL, "/f", some, 0));
	some[0].tv_nsec = 1000000000;
	fails(gpu4fs_utimens(fs, NULL, "/f", some, 0), EINVAL);
	some[0].tv_nsec = -1;
	fails(gpu4fs_utimens(fs, NULL, "/f", some, 0), EINVAL);
	ok(gpu4fs_symlink(fs, "f", NULL, "/s"));
	ok(gpu4fs_utimens(fs, NULL, "/s", old, AT_SYMLINK_NOFOLLOW));
	assert_true(same_time(api_lstat("/s").mtime, old[1]));
	assert_false(same_time(api_lstat("/f").mtime, old[1]));
}

static void times_out_of_range_move_to_the_nearer_end(void **state)
{
	const struct timespec times[2] = {{INT64_MAX, 0}, {INT64_MIN, 0}};
	struct gpu4fs_stat stat;

	(void)state;
	api_touch("/f", 0644);
	ok(gpu4fs_utimens(fs, NULL, "/f", times, 0));
	stat = api_lstat("/f");
	assert_int_equal(stat.atime.tv_sec, INT64_MAX / 1000000000);
	assert_int_equal(stat.mtime.tv_sec, INT64_MIN / 1000000000 - 1);
}

/* Which of a file's times an operation moves. */
static void check_times(const char *path, const struct gpu4fs_stat *before, bool mtime, bool ctime)
{
	struct gpu4fs_stat after = api_lstat(path);

	assert_int_equal(later(after.mtime, before->mtime), mtime);
	assert_int_equal(later(after.ctime, before->ctime), ctime);
	assert_true(same_time(after.btime, before->btime));
	assert_true(mtime || ctime ? after.change_count > before->change_count :
				     after.change_count == before->change_count);
}

static void each_operation_moves_its_times(void **state)
{
	struct gpu4fs_stat file_before, dir_before;
	gpu4fs_file *file;
	char byte;

	(void)state;
	ok(gpu4fs_mkdir(fs, NULL, "/d", 0755));
	api_write_text("/d/f", "content");
	file = api_open("/d/f", O_RDWR, 0);
#define MOVES(operation, file_mtime, file_ctime, dir_mtime)                                                            \
	do {                                                                                                           \
		file_before = api_lstat("/d/f");                                                                       \
		dir_before = api_lstat("/d");                                                                          \
		wait_a_tick();                                                                                         \
		operation;                                                                                             \
		check_times("/d/f", &file_before, file_mtime, file_ctime);                                             \
		check_times("/d", &dir_before, dir_mtime, dir_mtime);                                                  \
	} while (0)
	MOVES(gives(gpu4fs_pwrite(file, "x", 1, 0), 1), true, true, false);
	MOVES(gives(gpu4fs_pread(file, &byte, 1, 0), 1), false, false, false);
	MOVES(ok(gpu4fs_ftruncate(file, 3)), true, true, false);
	MOVES(ok(gpu4fs_ftruncate(file, 3)), true, true, false);
	MOVES(ok(gpu4fs_fchmod(file, 0600)), false, true, false);
	MOVES(ok(gpu4fs_fchown(file, 1, 1)), false, true, false);
	MOVES(ok(gpu4fs_fsetxattr(file, "user.x", "1", 1, 0)), false, true, false);
	MOVES(ok(gpu4fs_fremovexattr(file, "user.x")), false, true, false);
	MOVES(ok(gpu4fs_link(fs, NULL, "/d/f", NULL, "/d/g", 0)), false, true, true);
	MOVES(ok(gpu4fs_unlink(fs, NULL, "/d/g")), false, true, true);
	MOVES(ok(gpu4fs_mkdir(fs, NULL, "/d/e", 0755)), false, false, true);
	MOVES(ok(gpu4fs_rmdir(fs, NULL, "/d/e")), false, false, true);
	MOVES(ok(gpu4fs_fallocate(file, GPU4FS_FALLOC_PUNCH_HOLE | GPU4FS_FALLOC_KEEP_SIZE, 0, 1)), true, true, false);
	MOVES(ok(gpu4fs_truncate(fs, NULL, "/d/f", 10)), true, true, false);
#undef MOVES
	ok(gpu4fs_close(file));
}

static void rename_moves_the_times_of_both_directories(void **state)
{
	struct gpu4fs_stat a, b, file;

	(void)state;
	ok(gpu4fs_mkdir(fs, NULL, "/a", 0755));
	ok(gpu4fs_mkdir(fs, NULL, "/b", 0755));
	api_touch("/a/f", 0644);
	a = api_lstat("/a");
	b = api_lstat("/b");
	file = api_lstat("/a/f");
	wait_a_tick();
	ok(gpu4fs_rename(fs, NULL, "/a/f", NULL, "/b/f", 0));
	check_times("/a", &a, true, true);
	check_times("/b", &b, true, true);
	check_times("/b/f", &file, false, true);
}

static void reading_moves_the_access_time_once_after_a_change(void **state)
{
	const struct timespec old[2] = {{1000, 0}, {2000, 0}};
	struct gpu4fs_stat first, second;
	gpu4fs_file *file;
	char byte;

	(void)state;
	api_write_text("/f", "x");
	ok(gpu4fs_utimens(fs, NULL, "/f", old, 0));
	file = api_open("/f", O_RDONLY, 0);
	gives(gpu4fs_pread(file, &byte, 1, 0), 1);
	first = api_lstat("/f");
	assert_true(first.atime.tv_sec > 1500000000);
	wait_a_tick();
	gives(gpu4fs_pread(file, &byte, 1, 0), 1);
	second = api_lstat("/f");
	assert_true(same_time(first.atime, second.atime));
	ok(gpu4fs_close(file));
	ok(gpu4fs_utimens(fs, NULL, "/f", old, 0));
	file = api_open("/f", O_RDONLY | O_NOATIME, 0);
	gives(gpu4fs_pread(file, &byte, 1, 0), 1);
	assert_int_equal(api_lstat("/f").atime.tv_sec, 1000);
	ok(gpu4fs_close(file));
}

/* ------------------------------------------------------------------ space, flags, access */

static void blocks_tell_the_space_a_file_takes(void **state)
{
	(void)state;
	api_write_pattern("/big", 1, 1 << 20);
	ok(gpu4fs_syncfs(fs));
	assert_in_range(api_lstat("/big").blocks, (1 << 20) / 512, (1 << 20) / 512 * 11 / 10);
	ok(gpu4fs_truncate(fs, NULL, "/big", 0));
	ok(gpu4fs_syncfs(fs));
	assert_int_equal(api_lstat("/big").blocks, 0);
	ok(gpu4fs_truncate(fs, NULL, "/big", 1 << 30));
	assert_true(api_lstat("/big").blocks < 64);
}

static void statfs_tells_free_space_and_the_name(void **state)
{
	struct gpu4fs_statfs before, after;
	const uint8_t zero[16] = {0};

	(void)state;
	ok(gpu4fs_statfs(fs, &before));
	assert_int_equal(before.name_max, 255);
	assert_int_equal(before.state, 0);
	assert_true(before.block_bytes >= 512);
	assert_in_range(before.blocks * before.block_bytes, 40 << 20, 64 << 20);
	assert_true(before.blocks_free <= before.blocks && before.blocks_available <= before.blocks_free);
	assert_true(before.inodes_free > 1000);
	assert_int_equal(before.inodes, 0);
	assert_memory_not_equal(before.uuid, zero, 16);
	api_write_pattern("/f", 1, 4 << 20);
	ok(gpu4fs_syncfs(fs));
	ok(gpu4fs_statfs(fs, &after));
	assert_in_range((before.blocks_free - after.blocks_free) * before.block_bytes, 4 << 20, 5 << 20);
}

static void immutable_and_append_only_files_are_protected(void **state)
{
	gpu4fs_file *file;

	(void)state;
	api_write_text("/f", "log");
	ok(gpu4fs_chflags(fs, NULL, "/f", GPU4FS_FLAG_APPEND));
	assert_int_equal(api_lstat("/f").flags, GPU4FS_FLAG_APPEND);
	fails(gpu4fs_open(fs, NULL, "/f", O_WRONLY, 0, &file), EPERM);
	fails(gpu4fs_truncate(fs, NULL, "/f", 0), EPERM);
	fails(gpu4fs_unlink(fs, NULL, "/f"), EPERM);
	file = api_open("/f", O_WRONLY | O_APPEND, 0);
	gives(gpu4fs_write(file, "ged", 3), 3);
	fails(gpu4fs_fallocate(file, GPU4FS_FALLOC_PUNCH_HOLE | GPU4FS_FALLOC_KEEP_SIZE, 0, 3), EPERM);
	fails(gpu4fs_fallocate(file, GPU4FS_FALLOC_ZERO_RANGE, 0, 3), EPERM);
	ok(gpu4fs_fallocate(file, GPU4FS_FALLOC_KEEP_SIZE, 0, 8192));
	ok(gpu4fs_close(file));
	ok(gpu4fs_chflags(fs, NULL, "/f", GPU4FS_FLAG_IMMUTABLE));
	fails(gpu4fs_open(fs, NULL, "/f", O_WRONLY | O_APPEND, 0, &file), EPERM);
	fails(gpu4fs_chmod(fs, NULL, "/f", 0600), EPERM);
	fails(gpu4fs_link(fs, NULL, "/f", NULL, "/g", 0), EPERM);
	fails(gpu4fs_rename(fs, NULL, "/f", NULL, "/g", 0), EPERM);
	api_check_text("/f", "logged");
	ok(gpu4fs_chflags(fs, NULL, "/f", 0));
	file = api_open("/f", O_RDONLY, 0);
	ok(gpu4fs_fchflags(file, GPU4FS_FLAG_NODUMP | GPU4FS_FLAG_NOATIME));
	assert_int_equal(api_lstat("/f").flags, GPU4FS_FLAG_NODUMP | GPU4FS_FLAG_NOATIME);
	fails(gpu4fs_fchflags(file, 1), EINVAL);
	ok(gpu4fs_fchflags(file, 0));
	ok(gpu4fs_close(file));
	ok(gpu4fs_unlink(fs, NULL, "/f"));
	fails(gpu4fs_chflags(fs, NULL, "/", 1), EINVAL);
}

/* The flag binds those who opened the file before it was set, as Linux's file systems have it. */
static void flags_bind_open_files(void **state)
{
	const struct timespec times[2] = {{1, 0}, {2, 0}};
	const struct timespec mixed[2] = {{0, UTIME_OMIT}, {2, 0}};
	gpu4fs_file *file, *source;
	int64_t from = 0, to = 0;

	(void)state;
	api_write_text("/f", "contents");
	api_write_text("/source", "other");
	file = api_open("/f", O_RDWR, 0);
	source = api_open("/source", O_RDONLY, 0);
	ok(gpu4fs_chflags(fs, NULL, "/f", GPU4FS_FLAG_IMMUTABLE));
	fails(gpu4fs_pwrite(file, "x", 1, 0), EPERM);
	fails(gpu4fs_copy_file_range(source, &from, file, &to, 5), EPERM);
	fails(gpu4fs_ftruncate(file, 0), EPERM);
	fails(gpu4fs_fallocate(file, 0, 0, 8192), EPERM);
	fails(gpu4fs_futimens(file, NULL), EPERM);
	fails(gpu4fs_futimens(file, times), EPERM);
	ok(gpu4fs_fsync(file));
	api_check_text("/f", "contents");
	ok(gpu4fs_chflags(fs, NULL, "/f", GPU4FS_FLAG_APPEND));
	fails(gpu4fs_ftruncate(file, 0), EPERM);
	fails(gpu4fs_futimens(file, times), EPERM);
	fails(gpu4fs_futimens(file, mixed), EPERM);
	ok(gpu4fs_futimens(file, NULL)); /* what touch(1) does */
	gives(gpu4fs_pwrite(file, "C", 1, 0), 1);
	gives(gpu4fs_copy_file_range(source, &from, file, &to, 5), 5);
	api_check_text("/f", "othernts");
	ok(gpu4fs_chflags(fs, NULL, "/f", 0));
	ok(gpu4fs_close(source));
	ok(gpu4fs_close(file));
}

static void access_asks_without_opening(void **state)
{
	(void)state;
	api_touch("/f", 0644);
	ok(gpu4fs_access(fs, NULL, "/f", F_OK));
	ok(gpu4fs_access(fs, NULL, "/f", R_OK | W_OK));
	fails(gpu4fs_access(fs, NULL, "/f", X_OK), EACCES);
	fails(gpu4fs_access(fs, NULL, "/none", F_OK), ENOENT);
	fails(gpu4fs_access(fs, NULL, "/f", 8), EINVAL);
	ok(gpu4fs_access(fs, NULL, "/", R_OK | W_OK | X_OK));
}

static void attributes_survive_unmount_and_mount(void **state)
{
	static const char image[] = "api_meta_remount.img";
	const struct timespec times[2] = {{-5, 123456789}, {1234567890, 987654321}};
	gpu4fs *memory = fs;
	struct gpu4fs_stat file, dir, node;

	(void)state;
	api_image(image, 32 << 20);
	fs = api_mount(image, true);
	api_write_pattern("/f", 1, 10000);
	ok(gpu4fs_chown(fs, NULL, "/f", 123, 456, 0));
	ok(gpu4fs_chmod(fs, NULL, "/f", 06751));
	ok(gpu4fs_utimens(fs, NULL, "/f", times, 0));
	ok(gpu4fs_mkdir(fs, NULL, "/d", 0711));
	ok(gpu4fs_mkdir(fs, NULL, "/d/e", 0700));
	ok(gpu4fs_mknod(fs, NULL, "/n", S_IFBLK | 0600, makedev(8, 1)));
	ok(gpu4fs_syncfs(fs));
	file = api_lstat("/f");
	dir = api_lstat("/d");
	node = api_lstat("/n");
	ok(gpu4fs_unmount(fs));
	fs = api_mount(image, false);
#define SAME(path, wanted)                                                                                             \
	do {                                                                                                           \
		struct gpu4fs_stat found = api_lstat(path);                                                            \
		assert_memory_equal(&found, &(wanted), sizeof(found));                                                 \
	} while (0)
	SAME("/f", file);
	SAME("/d", dir);
	SAME("/n", node);
#undef SAME
	ok(gpu4fs_unmount(fs));
	fs = memory;
	unlink(image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(a_new_file_has_the_attributes_it_was_made_with),
		api_test(path_handle_and_link_give_the_same_attributes),
		api_test(a_reused_number_has_another_generation),
		api_test(chmod_sets_all_twelve_bits),
		api_test(chown_changes_what_it_is_told_to),
		api_test(device_nodes_keep_their_numbers),
		api_test(times_are_exact_to_the_nanosecond),
		api_test(times_can_be_set_one_by_one_and_to_now),
		api_test(times_out_of_range_move_to_the_nearer_end),
		api_test(each_operation_moves_its_times),
		api_test(rename_moves_the_times_of_both_directories),
		api_test(reading_moves_the_access_time_once_after_a_change),
		api_test(blocks_tell_the_space_a_file_takes),
		api_test(statfs_tells_free_space_and_the_name),
		api_test(immutable_and_append_only_files_are_protected),
		api_test(flags_bind_open_files),
		api_test(access_asks_without_opening),
		api_test(attributes_survive_unmount_and_mount),
	};

	return cmocka_run_group_tests_name("api attributes", tests, NULL, NULL);
}
