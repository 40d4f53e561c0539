/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rebuild of a mounted file system must not do: wipe what another disk does not have, believe what its disk said in an earlier life,
 * give up what can be made, or leave a disk behind that nobody can command.
 */
#include "rebuilding.h"

#include "simt/simt_host.h"

/* Each of two disks was mounted without the other: what the one has that is not used is nowhere else. */
static void the_other_half_of_a_split_set_is_not_wiped(void **state)
{
	struct g4_dev *dev;
	struct disks d;

	(void)state;
	disks_make(&d, 2, NULL);
	disks_format_copies(&d, G4_RAID_1, 2, G4_CHECKSUM_NONE);
	for (uint32_t writes = 0; writes < 2; writes++) { /* whether the one that is used was written itself */
		disks_mount_fs(&d, 2, &dev);
		assert_int_equal(disks_put(&d, 1, 2), 0);
		disks_unmount_fs(&d, dev, true);
		disks_mount_fs(&d, 1, &dev);
		if (writes)
			assert_int_equal(disks_put(&d, 1, 1), 0);
		assert_int_equal(order(&d, G4_DISK_REBUILD, d.names[1]), -G4_E_SB_DISKS);
		assert_non_null(strstr(d.message, "were each written without the other"));
		assert_int_equal(job_of(&d).kind, G4_JOB_NONE);
		disks_unmount_fs(&d, dev, true);
		disks_mount_fs(&d, 2, &dev);
		assert_int_equal(disks_has(&d, 1, 2), 1);
		disks_unmount_fs(&d, dev, true);
	}
	disks_free(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_other_half_of_a_split_set_is_not_wiped),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
