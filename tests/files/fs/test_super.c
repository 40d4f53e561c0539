/* SPDX-License-Identifier: Apache-2.0 */
/* Superblocks of a mounted file system: a feature is in both copies before anything needs it. */
#include "files/files.h"

#include "space/sealed.h"

static void a_feature_is_in_both_copies(void **state)
{
	const uint64_t copies[2] = {G4_SUPERBLOCK_ADDRESS, fs->meta.layout.backup_address};

	(void)state;
	assert_false(fs->super.features_incompat & G4_FEATURE_INCOMPAT_SHARED);
	assert_int_equal(g4_super_add_feature(wg, fs, G4_FEATURE_INCOMPAT_SHARED), 0);
	assert_int_equal(g4_super_add_feature(wg, fs, G4_FEATURE_INCOMPAT_SHARED), 0);
	for (uint32_t i = 0; i < 2; i++) {
		const struct g4_superblock *sb = (const struct g4_superblock *)(const void *)(rig.image + copies[i]);
		assert_int_equal(g4_block_verify(sb, G4_BLOCK_SUPERBLOCK, g4_address_from(copies[i]), fs->meta.fs_tag),
				 0);
		assert_true(sb->features_incompat & G4_FEATURE_INCOMPAT_SHARED);
	}
}

static void nothing_is_added_during_a_resize_or_without_leave_to_write(void **state)
{
	(void)state;
	fs->resizing = 1;
	assert_int_equal(g4_super_add_feature(wg, fs, G4_FEATURE_INCOMPAT_SHARED), -G4_E_BUSY);
	fs->resizing = 0;
	fs->flags |= G4_FS_READ_ONLY;
	assert_int_equal(g4_super_add_feature(wg, fs, G4_FEATURE_INCOMPAT_SHARED), -G4_E_ROFS);
	fs->flags &= ~G4_FS_READ_ONLY;
	assert_false(fs->super.features_incompat & G4_FEATURE_INCOMPAT_SHARED);
}

/* Sums may come while it is mounted. */
static void a_mount_that_can_write_has_scratch_memory_for_sums(void **state)
{
	(void)state;
	assert_int_equal(fs->scratch_bytes, G4_LEAST_SCRATCH_BYTES + G4_SUMS_SCRATCH_BYTES);
	assert_true(fs->scratch_bytes <= G4_WG_SCRATCH_BYTES);
}

RUN_TESTS(fs_test(a_mount_that_can_write_has_scratch_memory_for_sums), fs_test(a_feature_is_in_both_copies),
	  fs_test(nothing_is_added_during_a_resize_or_without_leave_to_write))
