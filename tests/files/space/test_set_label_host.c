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

static uint64_t generation_of(const void *label)
{
	return ((const struct g4_superblock *)label)->set_generation;
}

/*
 * A crash between the two superblocks of a generation leaves disks of which the one has it, and the other not. Both have it before anything is
 * written, and before the next generation is begun. Else a crash that tears the newer one would leave a disk that does not know who has missed
 * what was written, and would go on with that one; or one that is two generations behind, of which nobody could say what it has missed.
 */
static void expect_levelled(struct disks *d, struct faulty *f, uint64_t *has)
{
	uint64_t labels = 0, others = 0;
	const struct g4_fault_op *op;

	for (uint64_t k = 0; (op = g4_dev_fault_recorded_op(f->fault[0], k)) != NULL; k++) {
		const uint32_t copy = op->offset_bytes != g4_set_label_address(d->bytes[0], false);
		if (op->op != G4_IO_WRITE)
			continue;
		if (op->offset_bytes != g4_set_label_address(d->bytes[0], copy)) {
			assert_int_equal(has[0], has[1]);
			others++;
			continue;
		}
		if (generation_of(op->data) > has[!copy] + 1)
			fail_msg("generation %lu is begun where one superblock is of %lu",
				 (unsigned long)generation_of(op->data), (unsigned long)has[!copy]);
		has[copy] = generation_of(op->data);
		labels++;
	}
	assert_true(labels >= 2 && others > 0);
}

/* One disk was left out in that generation. lost: another one is now, which is to be said in one more. */
static void both_have_a_generation_before_anything_else_is_written(void **state)
{
	(void)state;
	for (uint32_t lost = 0; lost < 2; lost++) {
		const struct g4_set_options options = {.degraded = true};
		struct disks_order *order = (struct disks_order *)calloc(1, sizeof(*order));
		struct g4_wg *writer = g4_wg_create(0);
		uint8_t *page = rig_memory(G4_PAGE_BYTES, 7), before[2][G4_PAGE_BYTES];
		const char *names[2];
		struct g4_dev *dev;
		uint64_t has[2];
		struct faulty f;
		struct disks d;
		disks_make(&d, 3, NULL);
		disks_format_copies(&d, G4_RAID_1, 3, G4_CHECKSUM_NONE);
		for (uint32_t n = 0; n < 2; n++) {
			names[n] = d.names[n];
			rig_copy(before[n], d.memory[n] + g4_set_label_address(d.bytes[n], false), G4_PAGE_BYTES);
		}
		disks_mount_fs(&d, 3, &dev);
		assert_int_equal(disks_put(&d, 1, 1), 0);
		disks_unmount_fs(&d, dev, true);
		for (uint32_t n = 0; n < 2; n++)
			rig_copy(d.memory[n] + g4_set_label_address(d.bytes[n], false), before[n], G4_PAGE_BYTES);
		for (uint32_t copy = 0; copy < 2; copy++)
			has[copy] = generation_of(d.memory[0] + g4_set_label_address(d.bytes[0], copy));
		assert_int_equal(has[1], has[0] + 1);
		disks_wrap_faulty(&d, &f);
		disks_watch(&d, &f, order);
		if (g4_set_assemble(f.fault, names, 2 - lost, &options, &f.set, d.message, sizeof(d.message)) < 0)
			fail_msg("%s", d.message);
		/* as by a recovery, before a mount writes superblocks */
		assert_int_equal(g4_dev_write(writer, f.set, DISK_BYTES / 2, page, G4_PAGE_BYTES, 0), 0);
		expect_levelled(&d, &f, has);
		g4_dev_close(f.set);
		for (uint32_t n = 2 - lost; n < 3; n++)
			g4_dev_close(f.fault[n]);
		g4_wg_destroy(writer);
		disks_free(&d);
		free(order);
		free(page);
	}
}

RUN_TESTS(cmocka_unit_test(a_torn_superblock_is_whole_before_the_other_one_is_written),
	  cmocka_unit_test(both_have_a_generation_before_anything_else_is_written))
