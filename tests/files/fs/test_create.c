/* SPDX-License-Identifier: Apache-2.0 */
/* New inodes: whose they are and what they may, and that nothing is left of one that could not get its name. */
#include "files/files.h"

#define ROOT G4_NODE_ROOT

static void a_new_inode_is_its_makers_less_the_umask(void **state)
{
	const struct g4_cred cred = {.uid = 7, .gid = 8, .umask = 022};
	struct g4_attr attr = {.mode = 0777};
	uint64_t dir, ino;

	(void)state;
	assert_int_equal(op_mkdir(&rig, ROOT, "d", 0777, &dir), 0);
	assert_int_equal(op_setattr(&rig, dir, G4_SET_MODE, &attr), 0);
	rig.cred = &cred;
	assert_int_equal(op_mknod(&rig, dir, "f", 0666 | 0100000, &ino), 0);
	rig.cred = NULL;
	assert_int_equal(op_getattr(&rig, ino, &attr), 0);
	assert_int_equal(attr.uid, 7);
	assert_int_equal(attr.gid, 8);
	assert_int_equal(attr.mode & 07777, 0644);
	assert_int_equal(attr.nlink, 1);
}

static void a_directory_with_set_gid_gives_its_group(void **state)
{
	struct g4_attr attr = {.mode = 02777, .gid = 99};
	uint64_t dir, below;

	(void)state;
	assert_int_equal(op_mkdir(&rig, ROOT, "d", 0777, &dir), 0);
	assert_int_equal(op_setattr(&rig, dir, G4_SET_MODE | G4_SET_GID, &attr), 0);
	attr.mode = 02777;
	assert_int_equal(op_setattr(&rig, dir, G4_SET_MODE, &attr), 0);
	assert_int_equal(op_mkdir(&rig, dir, "below", 0755, &below), 0);
	assert_int_equal(op_getattr(&rig, below, &attr), 0);
	assert_int_equal(attr.gid, 99);
	assert_int_equal(attr.mode & 02000, 02000);
	assert_int_equal(attr.nlink, 2);
}

static void a_name_that_is_there_leaves_nothing_behind(void **state)
{
	uint64_t ino;

	(void)state;
	assert_int_equal(op_mknod(&rig, ROOT, "f", 0100644, &ino), 0);
	assert_int_equal(op_sync(&rig), 0);
	const uint64_t free_pages = fs->alloc.free_pages;
	for (uint32_t i = 0; i < 40; i++) {
		assert_int_equal(op_mknod(&rig, ROOT, "f", 0100644, &ino), -G4_E_EXIST);
		assert_int_equal(op_mkdir(&rig, ROOT, "f", 0755, &ino), -G4_E_EXIST);
		assert_int_equal(op_symlink(&rig, ROOT, "f", "target", &ino), -G4_E_EXIST);
	}
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(fs->alloc.free_pages, free_pages);
}

RUN_TESTS(fs_test(a_new_inode_is_its_makers_less_the_umask), fs_test(a_directory_with_set_gid_gives_its_group),
	  fs_test(a_name_that_is_there_leaves_nothing_behind))
