/* SPDX-License-Identifier: Apache-2.0 */
/* Repairs for the end of a round: an inode without a name gets one, a page that two files have becomes two. */
#include "files/fsck/checked.h"

#include "files/files.h"

#include <inttypes.h>

static void a_file_without_a_name_is_in_lost_and_found(void **state)
{
	uint64_t outcome[3];
	struct g4_attr attr, found;
	char name[40];

	(void)state;
	damage_drop_name(&checked->rig, checked->dir, checked->files[12]);
	expect_problem(G4_FSCK_UNREACHABLE);
	expect_repaired(outcome);
	assert_int_equal(outcome[G4_FSCK_LOST], 0);
	checked_mount();
	snprintf(name, sizeof(name), "#%" PRIx64, g4_ptr_offset(checked->files[12]));
	assert_int_equal(op_lookup(&checked->rig, G4_NODE_ROOT, "lost+found", &attr), 0);
	assert_int_equal(op_lookup(&checked->rig, attr.ino, name, &found), 0);
	assert_int_equal(found.ino, checked->files[12]);
	checked_unmount(true);
	expect_page(checked->files[12], 0);
}

static void a_page_of_two_files_is_copied(void **state)
{
	struct rig *r = &checked->rig;

	(void)state;
	damage_inode(r, checked->files[30])->map[0] = damage_inode(r, checked->files[4])->map[0];
	damage_seal(r, g4_ptr_offset(checked->files[30]));
	expect_repaired(NULL);
	assert_int_not_equal(g4_ptr_offset(damage_inode(r, checked->files[30])->map[0]),
			     g4_ptr_offset(damage_inode(r, checked->files[4])->map[0]));
}

RUN_TESTS(fsck_test(a_file_without_a_name_is_in_lost_and_found), fsck_test(a_page_of_two_files_is_copied))
