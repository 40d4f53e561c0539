/* SPDX-License-Identifier: Apache-2.0 */
/* Writing past the cache: nothing of it is cached, what was dirty there is replaced, and the file is as large as was written. */
#include "data/bounce_stage.h"
#include "files/files.h"

#include "data/writeback.h"

#define PAGES 128u

static void what_was_dirty_is_replaced_and_nothing_is_cached(void **state)
{
	const struct held held = files_hold("f");
	uint8_t *data = rig_memory(PAGES * G4_PAGE_BYTES, 9), *found = rig_memory(PAGES * G4_PAGE_BYTES, 0);
	struct g4_stage_ahead nothing = {.count = 0};
	uint64_t done;

	(void)state;
	assert_int_equal(op_write(&rig, held.ino, 0, 3 * G4_PAGE_BYTES, found, 4 * G4_PAGE_BYTES, NULL), 0);
	assert_int_equal(held.inode->dirty_count, 4);
	g4_write_lock(&held.inode->lock);
	assert_int_equal(g4_write_direct(wg, fs, held.index, 0, data, PAGES, PAGES * G4_PAGE_BYTES - 5,
					 G4_DEDUP_BY_POLICY, &nothing, &done),
			 0);
	assert_int_equal(done, PAGES);
	assert_int_equal(held.inode->dirty_count, 0);
	assert_int_equal(held.inode->size, PAGES * G4_PAGE_BYTES - 5);
	assert_int_equal(g4_pages_absent(wg, fs, held.inode, 0, PAGES), PAGES);
	g4_write_unlock(&held.inode->lock);
	rig_expect_contents(&rig, held.ino, 0, found, data, PAGES * G4_PAGE_BYTES - 5);
	files_let_go(held);
	free(data);
	free(found);
}

RUN_TESTS(fs_test(what_was_dirty_is_replaced_and_nothing_is_cached))
