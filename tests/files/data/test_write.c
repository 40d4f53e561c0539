/* SPDX-License-Identifier: Apache-2.0 */
/* Writing through the cache: what is beside the bytes stays, and a tiny file leaves the inode when it has to. */
#include "files/files.h"

#include "data/write.h"

static uint8_t found[2 * G4_PAGE_BYTES];

static void what_is_beside_the_bytes_stays(void **state)
{
	const struct held held = files_hold("f");
	uint8_t *data = rig_memory(sizeof(found), 5);

	(void)state;
	assert_int_equal(op_write(&rig, held.ino, 0, 0, data, sizeof(found), NULL), 0);
	assert_int_equal(op_sync(&rig), 0);
	g4_write_lock(&held.inode->lock);
	g4_cache_drop_range(&fs->cache, held.inode->data_key, 0, 2);
	assert_int_equal(g4_page_write(wg, fs, held.index, 1, 100, "abc", 3), 0);
	assert_int_equal(g4_page_write(wg, fs, held.index, 0, 4000, NULL, 96), 0);
	g4_write_unlock(&held.inode->lock);
	memcpy(data + G4_PAGE_BYTES + 100, "abc", 3);
	memset(data + 4000, 0, 96);
	rig_expect_contents(&rig, held.ino, 0, found, data, sizeof(found));
	files_let_go(held);
	free(data);
}

static void contents_in_the_inode_become_a_page(void **state)
{
	const struct held held = files_hold("f");

	(void)state;
	assert_int_equal(op_write(&rig, held.ino, 0, 0, "tiny", 4, NULL), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_true(held.inode->disk.flags & G4_INODE_INLINE);
	g4_write_lock(&held.inode->lock);
	assert_int_equal(g4_inline_load(wg, fs, held.index), 0);
	assert_int_equal(held.inode->dirty_count, 1);
	assert_int_equal(g4_inline_leave(wg, fs, held.index), 0);
	assert_false(held.inode->disk.flags & G4_INODE_INLINE);
	assert_int_equal(held.inode->disk.pages, 1);
	g4_write_unlock(&held.inode->lock);
	rig_expect_contents(&rig, held.ino, 0, found, (const uint8_t *)"tiny", 4);
	files_let_go(held);
}

static void no_file_is_larger_than_a_file_can_be(void **state)
{
	const struct held held = files_hold("f");

	(void)state;
	assert_int_equal(op_write(&rig, held.ino, 0, G4_FILE_MAX_BYTES, "x", 1, NULL), -G4_E_FBIG);
	files_let_go(held);
}

RUN_TESTS(fs_test(what_is_beside_the_bytes_stays), fs_test(contents_in_the_inode_become_a_page),
	  fs_test(no_file_is_larger_than_a_file_can_be))
