/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of inodes to be written back: first in, first out, each once and referenced. */
#include "files/files.h"

static void inodes_leave_in_the_order_in_which_they_came(void **state)
{
	const char *const names[] = {"a", "b", "c"};
	struct held held[3];

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		held[i] = files_hold(names[i]);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(g4_dequeue_dirty(fs), G4_NO_INODE);
	for (uint32_t i = 0; i < 3; i++)
		g4_queue_dirty(fs, held[i].index);
	g4_queue_dirty(fs, held[0].index); /* it is there */
	assert_int_equal(fs->queued_inodes, 3);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(g4_dequeue_dirty(fs), held[i].index);
		assert_int_equal(held[i].inode->queued, 0);
		g4_icache_put(fs, held[i].index);
	}
	assert_int_equal(g4_dequeue_dirty(fs), G4_NO_INODE);
	assert_int_equal(fs->queued_inodes, 0);
	for (uint32_t i = 0; i < 3; i++)
		files_let_go(held[i]);
}

static void much_that_is_dirty_is_pressure(void **state)
{
	const uint64_t dirty = fs->dirty_pages;

	(void)state;
	assert_false(g4_dirty_pressure(fs, false));
	fs->dirty_pages = fs->dirty_limit / 2 + 1;
	assert_true(g4_dirty_pressure(fs, false));
	assert_false(g4_dirty_pressure(fs, true));
	fs->dirty_pages = fs->dirty_limit + 1;
	assert_true(g4_dirty_pressure(fs, true));
	fs->dirty_pages = dirty;
}

RUN_TESTS(fs_test(inodes_leave_in_the_order_in_which_they_came), fs_test(much_that_is_dirty_is_pressure))
