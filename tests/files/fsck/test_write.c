/* SPDX-License-Identifier: Apache-2.0 */
/* A repair that is interrupted at any of its writes can be repeated, and costs nothing. */
#include "files/fsck/checked.h"

#include "files/files.h"

static void the_power_fails_at_every_write(void **state)
{
	uint64_t leaf, writes = 0;
	int rc = -1;

	(void)state;
	damage_inode(&checked->rig, checked->linked)->nlink = 5;
	damage_seal(&checked->rig, g4_ptr_offset(checked->linked));
	damage_entry(&checked->rig, checked->dir, checked->files[7], &leaf)->hash ^= 0x100;
	damage_seal(&checked->rig, leaf);
	uint8_t *damaged = malloc(checked->rig.bytes);
	assert_non_null(damaged);
	rig_copy(damaged, checked->rig.image, checked->rig.bytes);
	while (rc != 0) {
		struct rig_repair how = {.stop_at_write = ++writes};
		rig_copy(checked->rig.image, damaged, checked->rig.bytes);
		rc = rig_repair(&checked->rig, &how);
		free(how.text);
		assert_true(writes < 200);
		if (rc != 0)
			expect_repaired(NULL);
		expect_page(checked->files[7], 0);
		assert_int_equal(damage_inode(&checked->rig, checked->linked)->nlink, 2);
	}
	free(damaged);
	assert_true(writes > 4); /* superblocks, records, pages at home */
}

RUN_TESTS(fsck_test(the_power_fails_at_every_write))
