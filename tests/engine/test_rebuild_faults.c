/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rebuild of a mounted file system must not do: wipe what another disk does not have, believe what its disk said in an earlier life,
 * give up what can be made, or leave a disk behind that nobody can command.
 */
#include "rebuilding.h"

#include "simt/simt_host.h"
#include "space/set_rows_host.h"

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

static bool is_empty(const uint8_t *page)
{
	for (uint32_t k = 0; k < G4_PAGE_BYTES; k++)
		if (page[k])
			return false;
	return true;
}

/* The map of rows that are right is of what the disk had before; the newest map of any disk is believed. */
static void the_map_of_an_earlier_life_is_gone(void **state)
{
	struct g4_dev *dev;
	struct disks d;

	(void)state;
	disks_make(&d, 3, NULL);
	disks_format_rows(&d, 1, G4_CHECKSUM_NONE);
	disks_mount_fs(&d, 7, &dev);
	assert_int_equal(disks_put(&d, 1, 1), 0);
	const uint64_t map = G4_CHUNK_UNIT + ((struct g4_set *)dev->host)->parity->pages * G4_PAGE_BYTES;
	disks_unmount_fs(&d, dev, true);
	assert_false(is_empty(d.memory[1] + map));
	disks_mount_fs(&d, 5, &dev);
	begin(&d, G4_DISK_REBUILD, 1);
	assert_true(is_empty(d.memory[1] + map));
	finish(&d);
	disks_unmount_fs(&d, dev, true);
	assert_false(is_empty(d.memory[1] + map));
	assert_memory_equal(d.memory[1] + map, d.memory[0] + map, G4_PAGE_BYTES);
	disks_free(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_other_half_of_a_split_set_is_not_wiped),
		cmocka_unit_test(the_map_of_an_earlier_life_is_gone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
