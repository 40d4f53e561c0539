/* SPDX-License-Identifier: Apache-2.0 */
/* The list of an inode's dirty pages: it keeps their order, and what is dropped is neither written nor reserved for. */
#include "files/files.h"

static uint8_t page[G4_PAGE_BYTES];

static void write_pages(struct held held, uint32_t count)
{
	for (uint32_t k = 0; k < count; k++)
		assert_int_equal(op_write(&rig, held.ino, 0, k * G4_PAGE_BYTES, page, sizeof(page), NULL), 0);
}

static void pages_stand_in_the_order_in_which_they_became_dirty(void **state)
{
	const struct held held = files_hold("f");
	uint32_t k = 0;

	(void)state;
	write_pages(held, 5);
	write_pages(held, 3); /* again: they keep their places */
	assert_int_equal(held.inode->dirty_count, 5);
	for (uint32_t line = held.inode->dirty_head; line != G4_NO_LINE; line = g4_data_line(&fs->cache, line)->next)
		assert_int_equal(fs->cache.lines[line].index, k++);
	assert_int_equal(k, 5);
	files_let_go(held);
}

static void a_line_in_the_middle_can_leave(void **state)
{
	const struct held held = files_hold("f");

	(void)state;
	write_pages(held, 3);
	const uint32_t first = held.inode->dirty_head, second = g4_data_line(&fs->cache, first)->next;
	g4_alloc_unreserve(&fs->alloc, g4_data_line(&fs->cache, second)->reservation);
	g4_dirty_remove(fs, held.inode, second);
	assert_int_equal(held.inode->dirty_count, 2);
	assert_int_equal(g4_data_line(&fs->cache, first)->next, held.inode->dirty_tail);
	assert_int_equal(g4_data_line(&fs->cache, held.inode->dirty_tail)->prev, first);
	assert_int_equal(g4_data_line(&fs->cache, second)->dirty, 0);
	files_let_go(held);
}

static void dropped_pages_give_their_reservation_back(void **state)
{
	const struct held held = files_hold("f");
	const uint64_t reserved = fs->alloc.reserved, dirty = fs->dirty_pages;

	(void)state;
	write_pages(held, 20);
	assert_true(fs->alloc.reserved >= reserved + 20);
	assert_int_equal(fs->dirty_pages, dirty + 20);
	g4_write_lock(&held.inode->lock);
	g4_drop_dirty(fs, held.index, 0, 20);
	g4_write_unlock(&held.inode->lock);
	assert_int_equal(held.inode->dirty_count, 0);
	assert_int_equal(held.inode->dirty_head, G4_NO_LINE);
	assert_int_equal(fs->alloc.reserved, reserved);
	assert_int_equal(fs->dirty_pages, dirty);
	assert_int_equal(g4_pages_absent(wg, fs, held.inode, 0, 20), 20);
	files_let_go(held);
}

RUN_TESTS(fs_test(pages_stand_in_the_order_in_which_they_became_dirty), fs_test(a_line_in_the_middle_can_leave),
	  fs_test(dropped_pages_give_their_reservation_back))
