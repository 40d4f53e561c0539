/* SPDX-License-Identifier: Apache-2.0 */
/* fallocate(2) and lseek(2): space that reads as zeros, and where data and holes begin. */
#include "files/files.h"

#define PAGE G4_PAGE_BYTES

static void space_is_there_and_reads_as_zeros(void **state)
{
	const struct held held = files_hold("f");
	uint8_t zeros[3 * PAGE] = {0}, found[3 * PAGE];
	struct g4_run run;

	(void)state;
	const uint64_t free_pages = fs->alloc.free_pages;
	assert_int_equal(op_fallocate(&rig, held.ino, 0, 0, 3 * PAGE), 0);
	assert_int_equal(held.inode->size, 3 * PAGE);
	assert_true(fs->alloc.free_pages <= free_pages - 3);
	rig_run_at(&rig, held.ino, 1, &run);
	assert_int_equal(run.kind, G4_UNWRITTEN);
	rig_expect_contents(&rig, held.ino, 0, found, zeros, sizeof(zeros));
	files_let_go(held);
}

static void data_and_holes_are_found(void **state)
{
	const struct held held = files_hold("f");
	uint64_t at;

	(void)state;
	assert_int_equal(op_write(&rig, held.ino, 0, 5 * PAGE, "data", 4, NULL), 0);
	assert_int_equal(op_truncate(&rig, held.ino, 10 * PAGE), 0);
	assert_int_equal(op_seek(&rig, held.ino, 0, G4_SEEK_DATA, &at), 0);
	assert_int_equal(at, 5 * PAGE);
	assert_int_equal(op_seek(&rig, held.ino, 5 * PAGE, G4_SEEK_HOLE, &at), 0);
	assert_int_equal(at, 6 * PAGE);
	assert_int_equal(op_seek(&rig, held.ino, 6 * PAGE, G4_SEEK_DATA, &at), -G4_E_NXIO);
	files_let_go(held);
}

static void what_is_asked_is_checked_before_anything_changes(void **state)
{
	(void)state;
	assert_int_equal(g4_file_check_range(0, 0, 1), 0);
	assert_int_equal(g4_file_check_range(0, 0, 0), -G4_E_INVAL);
	assert_int_equal(g4_file_check_range(UINT32_C(1) << 31, 0, 1), -G4_E_NOTSUP);
	assert_int_equal(g4_file_check_range(0, G4_FILE_MAX_BYTES, 1), -G4_E_FBIG);
	assert_int_equal(g4_file_check_range(0, UINT64_MAX, 2), -G4_E_INVAL);
}

RUN_TESTS(fs_test(space_is_there_and_reads_as_zeros), fs_test(data_and_holes_are_found),
	  cmocka_unit_test(what_is_asked_is_checked_before_anything_changes))
