/* SPDX-License-Identifier: Apache-2.0 */
/* Cloned pages are shared, not copied, and who writes to one of them does not change the other. */
#include "files/files.h"

#define PAGES 64u

static void a_clone_takes_no_space_for_contents_and_is_independent(void **state)
{
	uint8_t *data = rig_memory(PAGES * G4_PAGE_BYTES, 6), *found = rig_memory(PAGES * G4_PAGE_BYTES, 0);
	const uint64_t from = rig_make_file(&rig, "from", 0, data, PAGES * G4_PAGE_BYTES);
	const struct held to = files_hold("to");
	uint64_t in, out, done;

	(void)state;
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_open(&rig, from, G4_OPEN_READ, &in), 0);
	assert_int_equal(op_open(&rig, to.ino, G4_OPEN_READ | G4_OPEN_WRITE, &out), 0);
	const uint64_t free_pages = fs->alloc.free_pages;
	assert_int_equal(op_copy(&rig, in, 0, out, 0, PAGES * G4_PAGE_BYTES, &done), 0);
	assert_int_equal(done, PAGES * G4_PAGE_BYTES);
	assert_true(free_pages - fs->alloc.free_pages < PAGES / 2);
	for (uint64_t page = 0; page < PAGES; page += 9)
		assert_int_equal(rig_place(&rig, to.ino, page), rig_place(&rig, from, page));
	assert_int_equal(op_write(&rig, to.ino, 0, 0, "other", 5, NULL), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_true(rig_place(&rig, to.ino, 0) != rig_place(&rig, from, 0));
	rig_expect_contents(&rig, from, 0, found, data, PAGES * G4_PAGE_BYTES);
	memcpy(data, "other", 5);
	rig_expect_contents(&rig, to.ino, 0, found, data, PAGES * G4_PAGE_BYTES);
	assert_int_equal(op_release(&rig, in), 0);
	assert_int_equal(op_release(&rig, out), 0);
	files_let_go(to);
	free(data);
	free(found);
}

RUN_TESTS(fs_test(a_clone_takes_no_space_for_contents_and_is_independent))
