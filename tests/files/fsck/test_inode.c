/* SPDX-License-Identifier: Apache-2.0 */
/* What an inode owns: its map, its attributes. What can not be right is cut, and the rest of the file stays. */
#include "files/fsck/checked.h"

#include "files/files.h"

static void a_pointer_out_of_the_device_is_cut(void **state)
{
	(void)state;
	damage_inode(&checked->rig, checked->files[3])->map[1] =
		g4_ptr_at(checked->rig.bytes + 64 * G4_MIB, G4_TAG_4K, G4_PTR_VALID);
	damage_seal(&checked->rig, g4_ptr_offset(checked->files[3]));
	check();
	assert_int_not_equal(checked->fsck.problems, 0);
	expect_repaired(NULL);
	expect_page(checked->files[4], 0);
}

static void a_damaged_page_of_attributes_is_found(void **state)
{
	(void)state;
	checked->rig.image[g4_ptr_offset(damage_inode(&checked->rig, checked->with_attributes)->xattr) + 100] ^= 1;
	expect_problem(G4_FSCK_XATTR);
	expect_repaired(NULL);
}

static void a_damaged_indirect_page_is_found(void **state)
{
	struct g4_inode *inode = damage_inode(&checked->rig, checked->large);
	uint32_t slot = 0;

	(void)state;
	assert_true(inode->map_height > 0);
	while (inode->map[slot] == 0)
		slot++;
	checked->rig.image[g4_ptr_offset(inode->map[slot]) + 8] ^= 0x10;
	expect_problem(G4_FSCK_MAP);
	expect_repaired(NULL);
	expect_page(checked->files[4], 0);
}

RUN_TESTS(fsck_test(a_pointer_out_of_the_device_is_cut), fsck_test(a_damaged_page_of_attributes_is_found),
	  fsck_test(a_damaged_indirect_page_is_found))
