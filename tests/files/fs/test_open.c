/* SPDX-License-Identifier: Apache-2.0 */
/* Opening: what can be opened how, and that a handle keeps the inode. */
#include "files/files.h"

#define ROOT G4_NODE_ROOT

static void each_kind_is_opened_as_it_can_be(void **state)
{
	uint64_t dir, file, link, pipe, handle;

	(void)state;
	assert_int_equal(op_mkdir(&rig, ROOT, "d", 0755, &dir), 0);
	assert_int_equal(op_mknod(&rig, ROOT, "f", 0100644, &file), 0);
	assert_int_equal(op_symlink(&rig, ROOT, "l", "f", &link), 0);
	assert_int_equal(op_mknod(&rig, ROOT, "p", 0010644, &pipe), 0);
	assert_int_equal(op_open(&rig, dir, G4_OPEN_WRITE, &handle), -G4_E_ISDIR);
	assert_int_equal(op_open(&rig, file, G4_OPEN_READ | G4_OPEN_DIRECTORY, &handle), -G4_E_NOTDIR);
	assert_int_equal(op_open(&rig, link, G4_OPEN_READ, &handle), -G4_E_LOOP);
	assert_int_equal(op_open(&rig, pipe, G4_OPEN_READ, &handle), -G4_E_NXIO);
	assert_int_equal(op_open(&rig, dir, G4_OPEN_READ, &handle), 0);
	assert_int_equal(op_release(&rig, handle), 0);
	assert_int_equal(op_release(&rig, handle), -G4_E_BADF);
}

static void truncating_opens_need_and_do_what_they_say(void **state)
{
	const struct g4_cred other = {.uid = 5, .gid = 5};
	struct g4_attr attr;
	uint64_t ino, handle;

	(void)state;
	assert_int_equal(op_mknod(&rig, ROOT, "f", 0100644, &ino), 0);
	assert_int_equal(op_write(&rig, ino, 0, 0, "contents", 8, NULL), 0);
	rig.cred = &other;
	assert_int_equal(op_open(&rig, ino, G4_OPEN_READ | G4_OPEN_TRUNC, &handle), -G4_E_ACCES);
	assert_int_equal(op_open(&rig, ino, G4_OPEN_READ, &handle), 0);
	rig.cred = NULL;
	assert_int_equal(op_release(&rig, handle), 0);
	assert_int_equal(op_open(&rig, ino, G4_OPEN_WRITE | G4_OPEN_TRUNC, &handle), 0);
	assert_int_equal(op_getattr(&rig, ino, &attr), 0);
	assert_int_equal(attr.size, 0);
	assert_int_equal(op_release(&rig, handle), 0);
}

RUN_TESTS(fs_test(each_kind_is_opened_as_it_can_be), fs_test(truncating_opens_need_and_do_what_they_say))
