/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of directories: what is wrong in one is found, and the names that can be read stay. */
#include "files/fsck/checked.h"

#include "files/files.h"

static bool has_name(const char *name, uint64_t ino)
{
	struct g4_attr attr;

	checked_mount();
	const int rc = op_lookup(&checked->rig, checked->dir, name, &attr);
	checked_unmount(true);
	return rc == 0 && attr.ino == ino;
}

static void a_wrong_hash_is_found(void **state)
{
	uint64_t leaf;

	(void)state;
	damage_entry(&checked->rig, checked->dir, checked->files[7], &leaf)->hash ^= 0x100;
	damage_seal(&checked->rig, leaf);
	expect_problem(G4_FSCK_HASH);
	expect_repaired(NULL);
	assert_true(has_name("file 7", checked->files[7]));
}

static void a_damaged_leaf_is_found(void **state)
{
	uint64_t leaf;

	(void)state;
	damage_entry(&checked->rig, checked->dir, checked->files[7], &leaf)->hash ^= 0x100;
	expect_problem(G4_FSCK_DIRECTORY);
	expect_repaired(NULL);
	expect_page(checked->files[7], 0);
}

static void a_wrong_count_of_entries_is_found(void **state)
{
	(void)state;
	damage_inode(&checked->rig, checked->dir)->entries++;
	damage_seal(&checked->rig, g4_ptr_offset(checked->dir));
	expect_problems(G4_FSCK_ENTRIES, 1);
	expect_repaired(NULL);
	assert_true(has_name("file 39", checked->files[39]));
}

RUN_TESTS(fsck_test(a_wrong_hash_is_found), fsck_test(a_damaged_leaf_is_found),
	  fsck_test(a_wrong_count_of_entries_is_found))
