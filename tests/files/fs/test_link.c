/* SPDX-License-Identifier: Apache-2.0 */
/* Another name for an inode: counted, never of a directory, and for those who may change it. */
#include "files/files.h"

#define ROOT G4_NODE_ROOT

static void names_are_counted(void **state)
{
	struct g4_attr attr;
	uint64_t ino;

	(void)state;
	assert_int_equal(op_mknod(&rig, ROOT, "a", 0100644, &ino), 0);
	assert_int_equal(op_link(&rig, ino, ROOT, "b"), 0);
	assert_int_equal(op_link(&rig, ino, ROOT, "b"), -G4_E_EXIST);
	assert_int_equal(op_lookup(&rig, ROOT, "b", &attr), 0);
	assert_int_equal(attr.ino, ino);
	assert_int_equal(attr.nlink, 2);
	assert_int_equal(op_unlink(&rig, ROOT, "a"), 0);
	assert_int_equal(op_getattr(&rig, ino, &attr), 0);
	assert_int_equal(attr.nlink, 1);
}

static void a_directory_has_one_name(void **state)
{
	uint64_t dir;

	(void)state;
	assert_int_equal(op_mkdir(&rig, ROOT, "d", 0755, &dir), 0);
	assert_int_equal(op_link(&rig, dir, ROOT, "e"), -G4_E_PERM);
	assert_int_equal(op_link(&rig, dir, dir, "e"), -G4_E_PERM);
}

static void others_do_not_name_what_they_may_not_change(void **state)
{
	const struct g4_cred other = {.uid = 5, .gid = 5};
	struct g4_attr attr = {.mode = 0777};
	uint64_t dir, ino;

	(void)state;
	assert_int_equal(op_mkdir(&rig, ROOT, "d", 0777, &dir), 0);
	assert_int_equal(op_setattr(&rig, dir, G4_SET_MODE, &attr), 0);
	assert_int_equal(op_mknod(&rig, dir, "f", 0100644, &ino), 0);
	rig.cred = &other;
	assert_int_equal(op_link(&rig, ino, dir, "mine"), -G4_E_PERM);
	rig.cred = NULL;
	attr.mode = 0666;
	assert_int_equal(op_setattr(&rig, ino, G4_SET_MODE, &attr), 0);
	rig.cred = &other;
	assert_int_equal(op_link(&rig, ino, dir, "mine"), 0);
	rig.cred = NULL;
}

RUN_TESTS(fs_test(names_are_counted), fs_test(a_directory_has_one_name),
	  fs_test(others_do_not_name_what_they_may_not_change))
