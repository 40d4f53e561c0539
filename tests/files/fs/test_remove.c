/* SPDX-License-Identifier: Apache-2.0 */
/* Removing names: who may, what is in the way, and when the inode goes with the last one. */
#include "files/files.h"

#define ROOT G4_NODE_ROOT

static void a_sticky_directory_keeps_what_is_others(void **state)
{
	const struct g4_cred other = {.uid = 5, .gid = 5};
	struct g4_attr attr = {.mode = 01777};
	uint64_t dir, ino;

	(void)state;
	assert_int_equal(op_mkdir(&rig, ROOT, "d", 01777, &dir), 0);
	assert_int_equal(op_setattr(&rig, dir, G4_SET_MODE, &attr), 0);
	assert_int_equal(op_mknod(&rig, dir, "f", 0100666, &ino), 0);
	rig.cred = &other;
	assert_int_equal(op_unlink(&rig, dir, "f"), -G4_E_PERM);
	assert_int_equal(op_mknod(&rig, dir, "own", 0100666, &ino), 0);
	assert_int_equal(op_unlink(&rig, dir, "own"), 0);
	rig.cred = NULL;
	assert_int_equal(op_unlink(&rig, dir, "f"), 0);
}

static void each_kind_has_its_command(void **state)
{
	uint64_t dir, ino;

	(void)state;
	assert_int_equal(op_mkdir(&rig, ROOT, "d", 0755, &dir), 0);
	assert_int_equal(op_mknod(&rig, dir, "f", 0100644, &ino), 0);
	assert_int_equal(op_unlink(&rig, ROOT, "d"), -G4_E_ISDIR);
	assert_int_equal(op_rmdir(&rig, dir, "f"), -G4_E_NOTDIR);
	assert_int_equal(op_rmdir(&rig, ROOT, "d"), -G4_E_NOTEMPTY);
	assert_int_equal(op_unlink(&rig, dir, "none"), -G4_E_NOENT);
	assert_int_equal(op_unlink(&rig, dir, "f"), 0);
	assert_int_equal(op_rmdir(&rig, ROOT, "d"), 0);
}

static void what_is_open_lives_without_a_name(void **state)
{
	struct g4_attr attr;
	uint64_t ino, handle;
	char found[5];

	(void)state;
	assert_int_equal(op_mknod(&rig, ROOT, "f", 0100644, &ino), 0);
	assert_int_equal(op_write(&rig, ino, 0, 0, "alive", 5, NULL), 0);
	assert_int_equal(op_open(&rig, ino, G4_OPEN_READ, &handle), 0);
	assert_int_equal(op_unlink(&rig, ROOT, "f"), 0);
	assert_int_equal(op_lookup(&rig, ROOT, "f", &attr), -G4_E_NOENT);
	assert_int_equal(op_read(&rig, ino, handle, 0, found, 5, NULL), 0);
	assert_memory_equal(found, "alive", 5);
	assert_int_equal(op_release(&rig, handle), 0);
	assert_int_equal(op_getattr(&rig, ino, &attr), -G4_E_STALE);
}

RUN_TESTS(fs_test(a_sticky_directory_keeps_what_is_others), fs_test(each_kind_has_its_command),
	  fs_test(what_is_open_lives_without_a_name))
