/* SPDX-License-Identifier: Apache-2.0 */
/* Superblocks of disks of a set that a crash has torn. */
#include "engine/disks.h"
#include "files/files.h"

#include "fs/mount_host.h"
#include "space/set_types_host.h"

/*
 * Whichever superblock of a disk is torn, it is whole again, and durably so, before the other one is written: a crash there would leave none.
 * A mount asks which superblock of the set is newer, and there is one that is whole on another disk.
 */
static void expect_one_is_whole(struct g4_dev *fault, uint64_t bytes, bool second)
{
	bool whole[2] = {second, !second};
	const struct g4_fault_op *op;

	for (uint64_t k = 0; (op = g4_dev_fault_recorded_op(fault, k)) != NULL; k++)
		for (uint32_t copy = 0; copy < 2; copy++) {
			if (op->op != G4_IO_WRITE || op->offset_bytes != g4_set_label_address(bytes, copy))
				continue;
			assert_true(whole[!copy]);
			assert_true(op->flags & G4_IO_FUA);
			whole[copy] = true;
		}
	assert_true(whole[0] && whole[1]);
}

static void a_torn_superblock_is_whole_before_the_other_one_is_written(void **state)
{
	static const enum g4_raid levels[] = {G4_RAID_0, G4_RAID_1};

	(void)state;
	for (uint32_t n = 0; n < 8; n++) {
		const bool second = n & 1;
		const uint32_t disk = n >> 1 & 1;
		struct disks_order *order = (struct disks_order *)calloc(1, sizeof(*order));
		struct faulty f;
		struct disks d;
		disks_make(&d, 2, NULL);
		disks_format(&d, levels[n >> 2], G4_CHECKSUM_NONE);
		d.memory[disk][g4_set_label_address(d.bytes[disk], second) + 200] ^= 1;
		disks_open_faulty(&d, &f);
		disks_watch(&d, &f, order);
		disks_begin_fs(&d, f.set, 0);
		assert_int_equal(disks_put(&d, 1, 1), 0);
		assert_int_equal(g4_fs_unmount(d.rig.wg, d.rig.fs, true), 0);
		g4_wg_destroy(d.rig.wg);
		expect_one_is_whole(f.fault[disk], d.bytes[disk], second);
		g4_dev_close(d.outer);
		disks_expect_clean(&d, 3);
		disks_free(&d);
		free(order);
	}
}

RUN_TESTS(cmocka_unit_test(a_torn_superblock_is_whole_before_the_other_one_is_written))
