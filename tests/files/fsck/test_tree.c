/* SPDX-License-Identifier: Apache-2.0 */
/* From the root to every inode: names, links and parents fit together. */
#include "files/fsck/checked.h"

#include "files/files.h"

static void a_wrong_count_of_links_is_found(void **state)
{
	(void)state;
	damage_inode(&checked->rig, checked->linked)->nlink = 1;
	damage_seal(&checked->rig, g4_ptr_offset(checked->linked));
	expect_problems(G4_FSCK_LINKS, 1);
	expect_repaired(NULL);
	assert_int_equal(damage_inode(&checked->rig, checked->linked)->nlink, 2);
}

static void a_wrong_parent_is_found(void **state)
{
	(void)state;
	damage_inode(&checked->rig, checked->dir)->parent = checked->large;
	damage_seal(&checked->rig, g4_ptr_offset(checked->dir));
	expect_problem(G4_FSCK_PARENT);
	expect_repaired(NULL);
	assert_int_equal(damage_inode(&checked->rig, checked->dir)->parent, checked->root);
}

static void an_entry_of_another_type_is_found(void **state)
{
	uint64_t leaf;

	(void)state;
	damage_entry(&checked->rig, checked->dir, checked->files[9], &leaf)->file_type = 2;
	damage_seal(&checked->rig, leaf);
	expect_problem(G4_FSCK_ENTRY);
	expect_repaired(NULL);
	expect_page(checked->files[9], 0);
}

RUN_TESTS(fsck_test(a_wrong_count_of_links_is_found), fsck_test(a_wrong_parent_is_found),
	  fsck_test(an_entry_of_another_type_is_found))
