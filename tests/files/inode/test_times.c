/* SPDX-License-Identifier: Apache-2.0 */
/* Time stamps: what changes with which event, and that a stamp of the kernel's is not followed by an older one. */
#include "files/files.h"

static void changes_stamp_what_they_say(void **state)
{
	const struct held held = files_hold("f");
	const struct g4_inode before = held.inode->disk;

	(void)state;
	g4_write_lock(&held.inode->lock);
	held.inode->disk.mtime_ns = held.inode->disk.ctime_ns = 1;
	g4_touch(fs, held.index, false, true);
	assert_int_equal(held.inode->disk.mtime_ns, 1);
	assert_true(held.inode->disk.ctime_ns >= before.ctime_ns);
	g4_touch(fs, held.index, true, false);
	assert_true(held.inode->disk.mtime_ns >= before.mtime_ns);
	assert_int_equal(held.inode->disk.change_count, before.change_count + 2);
	g4_write_unlock(&held.inode->lock);
	files_let_go(held);
}

static void a_read_is_noted_once_after_a_change(void **state)
{
	const struct held held = files_hold("f");

	(void)state;
	g4_read_lock(&held.inode->lock);
	held.inode->disk.atime_ns = held.inode->disk.mtime_ns - 1;
	g4_touch_read(fs, held.index);
	const uint64_t first = held.inode->disk.atime_ns;
	assert_true(first >= held.inode->disk.mtime_ns);
	held.inode->disk.atime_ns = g4_max64(held.inode->disk.mtime_ns, held.inode->disk.ctime_ns) + 1;
	const uint64_t newer = held.inode->disk.atime_ns;
	g4_touch_read(fs, held.index);
	assert_int_equal(held.inode->disk.atime_ns, newer);
	fs->flags |= G4_FS_NOATIME;
	held.inode->disk.atime_ns = 1;
	g4_touch_read(fs, held.index);
	assert_int_equal(held.inode->disk.atime_ns, 1);
	fs->flags &= ~G4_FS_NOATIME;
	g4_read_unlock(&held.inode->lock);
	files_let_go(held);
}

static void no_stamp_is_older_than_the_kernels(void **state)
{
	(void)state;
	fs->flags |= G4_FS_TICK_TIMES;
	const uint64_t ahead = g4_now(fs) + 30000000; /* some ticks */
	g4_saw_stamp(fs, ahead);
	assert_true(g4_now(fs) >= ahead);
	g4_saw_stamp(fs, ahead - 1000000);
	assert_true(g4_now(fs) >= ahead);
	fs->flags &= ~G4_FS_TICK_TIMES;
}

RUN_TESTS(fs_test(changes_stamp_what_they_say), fs_test(a_read_is_noted_once_after_a_change),
	  fs_test(no_stamp_is_older_than_the_kernels))
