/* SPDX-License-Identifier: Apache-2.0 */
/* Repairs that need one page: they change its patch, not the device, and leave it sealed. */
#include "files/fsck/checked.h"

#include "files/files.h"

#include "fsck/fix.h"

static void a_patch_is_sealed_and_not_on_the_device(void **state)
{
	const struct g4_address address = g4_address_from(page_of(checked->linked));
	uint8_t before[G4_PAGE_BYTES], slab[G4_PAGE_BYTES];
	struct g4_inode inode;

	(void)state;
	memcpy(before, checked->rig.image + page_of(checked->linked), sizeof(before));
	check();
	g4_fsck_edit_inode(&checked->fsck, checked->linked)->nlink = 9;
	assert_int_not_equal(g4_image_block(&checked->image, address, G4_BLOCK_SLAB, slab), 0);
	g4_fsck_seal_inode(&checked->fsck, checked->linked);
	assert_int_equal(g4_image_block(&checked->image, address, G4_BLOCK_SLAB, slab), 0);
	assert_int_equal(g4_image_inode(&checked->image, checked->linked, &inode), 0);
	assert_int_equal(inode.nlink, 9);
	assert_memory_equal(before, checked->rig.image + page_of(checked->linked), sizeof(before));
}

static void a_wrong_count_of_pages_is_set_right(void **state)
{
	uint64_t outcome[3];

	(void)state;
	const uint64_t pages = damage_inode(&checked->rig, checked->large)->pages;
	damage_inode(&checked->rig, checked->large)->pages = pages + 5;
	damage_seal(&checked->rig, g4_ptr_offset(checked->large));
	expect_problems(G4_FSCK_PAGES, 1);
	expect_repaired(outcome);
	assert_int_equal(outcome[G4_FSCK_DOUBTFUL], 1); /* something may have been there */
	assert_int_equal(outcome[G4_FSCK_LOST], 0);
	assert_int_equal(damage_inode(&checked->rig, checked->large)->pages, pages);
	expect_page(checked->large, CHECKED_LARGE_PAGE);
}

RUN_TESTS(fsck_test(a_patch_is_sealed_and_not_on_the_device), fsck_test(a_wrong_count_of_pages_is_set_right))
