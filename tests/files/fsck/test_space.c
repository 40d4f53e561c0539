/* SPDX-License-Identifier: Apache-2.0 */
/* Superblocks, group descriptors and allocation maps against what was met. */
#include "files/fsck/checked.h"

#include "files/files.h"

static void a_page_that_is_used_and_marked_free_is_found(void **state)
{
	(void)state;
	damage_free_page(&checked->rig, g4_ptr_offset(damage_inode(&checked->rig, checked->files[8])->map[0]), true);
	expect_problems(G4_FSCK_UNMARKED, 1);
	expect_repaired(NULL);
	expect_page(checked->files[8], 0);
}

static void a_page_that_nothing_uses_is_found(void **state)
{
	struct g4_alloc_page *map = damage_map(&checked->rig, 0);

	(void)state;
	assert_int_equal(map->regions[9].used[7], 0);
	map->regions[9].used[7] = 1;
	damage_seal(&checked->rig, (uint64_t)((uint8_t *)map - checked->rig.image));
	expect_problem(G4_FSCK_LEAKED);
	expect_repaired(NULL);
	assert_int_equal(damage_map(&checked->rig, 0)->regions[9].used[7], 0);
}

static void a_wrong_count_of_a_group_is_found(void **state)
{
	struct g4_groups_page *groups =
		(struct g4_groups_page *)(void *)(checked->rig.image + checked_layout()->groups_address);

	(void)state;
	groups->groups[0].free_pages++;
	damage_seal(&checked->rig, checked_layout()->groups_address);
	expect_problems(G4_FSCK_GROUP_COUNT, 1);
	expect_repaired(NULL);
}

static void a_damaged_superblock_is_found(void **state)
{
	(void)state;
	checked->rig.image[checked_layout()->backup_address + 600] ^= 1;
	expect_problems(G4_FSCK_SUPERBLOCK, 1);
	expect_repaired(NULL);
}

RUN_TESTS(fsck_test(a_page_that_is_used_and_marked_free_is_found), fsck_test(a_page_that_nothing_uses_is_found),
	  fsck_test(a_wrong_count_of_a_group_is_found), fsck_test(a_damaged_superblock_is_found))
