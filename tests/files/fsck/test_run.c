/* SPDX-License-Identifier: Apache-2.0 */
/* The checks in their order, and rounds of repair until one finds nothing. */
#include "files/fsck/checked.h"

#include "files/files.h"

static void a_whole_image_is_whole(void **state)
{
	(void)state;
	check();
	assert_int_equal(checked->fsck.problems, 0);
	assert_int_equal(checked->fsck.directories, 2);
	assert_int_equal(checked->fsck.files, CHECKED_FILES + 3);
	assert_int_equal(checked->fsck.pages_met, checked->fsck.pages_marked);
}

static void damage_of_several_kinds(void)
{
	uint64_t leaf;

	damage_inode(&checked->rig, checked->files[5])->nlink = 7;
	damage_seal(&checked->rig, g4_ptr_offset(checked->files[5]));
	damage_entry(&checked->rig, checked->dir, checked->files[30], &leaf)->inode = checked->files[31];
	damage_seal(&checked->rig, leaf);
	damage_free_page(&checked->rig, g4_ptr_offset(damage_inode(&checked->rig, checked->files[8])->map[0]), false);
}

static void several_problems_are_repaired_in_rounds(void **state)
{
	(void)state;
	damage_of_several_kinds();
	check();
	assert_true(checked->fsck.problems >= 3);
	expect_repaired(NULL);
	expect_page(checked->files[30], 0);
	expect_page(checked->files[8], 0);
}

static void a_dry_run_changes_nothing(void **state)
{
	struct rig_repair how = {.dry_run = true};

	(void)state;
	damage_of_several_kinds();
	uint8_t *before = malloc(checked->rig.bytes);
	assert_non_null(before);
	rig_copy(before, checked->rig.image, checked->rig.bytes);
	assert_int_equal(rig_repair(&checked->rig, &how), 0);
	assert_true(how.found >= 3);
	free(how.text);
	const int different = memcmp(before, checked->rig.image, checked->rig.bytes);
	free(before);
	assert_int_equal(different, 0);
}

RUN_TESTS(fsck_test(a_whole_image_is_whole), fsck_test(several_problems_are_repaired_in_rounds),
	  fsck_test(a_dry_run_changes_nothing))
