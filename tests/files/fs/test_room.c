/* SPDX-License-Identifier: Apache-2.0 */
/* Room that an operation did not find: what others hold and need not is given back, and only for what may help. */
#include "files/files.h"

static void space_that_a_commit_frees(void **state)
{
	static uint8_t data[64 * G4_PAGE_BYTES];
	uint64_t ino;

	(void)state;
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "f", G4_S_IFREG | 0644, &ino), 0);
	assert_int_equal(op_write(&rig, ino, 0, 0, data, sizeof(data), NULL), 0);
	assert_int_equal(op_sync(&rig), 0);
	/* nothing is pending; what is free may be since the operation looked (tests/files/alloc/test_release.c has a device without any) */
	assert_int_equal(fs->alloc.pending_pages, 0);
	assert_true(g4_fs_make_room(wg, fs, G4_CMD_MKDIR, -G4_E_NOSPC));
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f"), 0);
	assert_true(fs->alloc.pending_pages > 0);
	assert_false(g4_fs_make_room(wg, fs, G4_CMD_RESIZE, -G4_E_NOSPC));
	assert_false(g4_fs_make_room(wg, fs, G4_CMD_LOOKUP, -G4_E_NOSPC));
	assert_false(g4_fs_make_room(wg, fs, G4_CMD_MKDIR, -G4_E_EXIST));
	assert_true(fs->alloc.pending_pages > 0);
	assert_true(g4_fs_make_room(wg, fs, G4_CMD_MKDIR, -G4_E_NOSPC));
	assert_int_equal(fs->alloc.pending_pages, 0);
}

static void inodes_that_wait_for_being_written(void **state)
{
	static uint8_t data[G4_PAGE_BYTES];
	uint64_t ino;

	(void)state;
	assert_int_equal(op_sync(&rig), 0);
	assert_false(g4_fs_make_room(wg, fs, G4_CMD_LOOKUP, -G4_E_NFILE));
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "f", G4_S_IFREG | 0644, &ino), 0);
	assert_int_equal(op_write(&rig, ino, 0, 0, data, sizeof(data), NULL), 0);
	assert_int_equal(fs->queued_inodes, 1);
	assert_true(g4_fs_make_room(wg, fs, G4_CMD_LOOKUP, -G4_E_NFILE));
	assert_int_equal(fs->queued_inodes, 0);
}

RUN_TESTS(fs_test(space_that_a_commit_frees), fs_test(inodes_that_wait_for_being_written))
