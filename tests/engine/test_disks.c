/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File systems of several disks: nothing that was synced is lost with any one disk of two copies, at whatever write it fails, nor
 * with the power at whatever write; no disk that missed something is ever mixed in.
 */
#include "disks.h"

#include "fs/rebuild_host.h"

#include <unistd.h>

/* ---- tests ---- */

static void every_level_keeps_what_is_written(void **state)
{
	static const struct {
		enum g4_raid raid;
		uint32_t count;
		uint64_t bytes[MOST_DISKS];
	} cases[] = {
		{G4_RAID_NONE, 2, {16 * G4_MIB, 16 * G4_MIB}},
		{G4_RAID_NONE, 3, {9 * G4_MIB, 40 * G4_MIB, 17 * G4_MIB + 8192}},
		{G4_RAID_0, 2, {16 * G4_MIB, 16 * G4_MIB}},
		{G4_RAID_0, 3, {9 * G4_MIB, 40 * G4_MIB, 17 * G4_MIB + 8192}},
		{G4_RAID_0,
		 13,
		 {8 * G4_MIB, 8 * G4_MIB, 8 * G4_MIB, 8 * G4_MIB, 8 * G4_MIB, 8 * G4_MIB, 9 * G4_MIB, 8 * G4_MIB,
		  8 * G4_MIB, 8 * G4_MIB, 8 * G4_MIB, 8 * G4_MIB, 12 * G4_MIB}},
		{G4_RAID_1, 2, {16 * G4_MIB, 16 * G4_MIB}},
		{G4_RAID_1, 2, {16 * G4_MIB, 24 * G4_MIB}},
		{G4_RAID_1, 3, {16 * G4_MIB, 16 * G4_MIB, 16 * G4_MIB}},
		{G4_RAID_1, 5, {8 * G4_MIB, 40 * G4_MIB, 12 * G4_MIB, 9 * G4_MIB, 31 * G4_MIB}},
	};
	(void)state;
	for (uint32_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		const uint32_t all = (1u << cases[c].count) - 1;
		struct disks d;
		disks_make(&d, cases[c].count, cases[c].bytes);
		disks_format(&d, cases[c].raid, G4_CHECKSUM_NONE);
		disks_mount(&d, all);
		uint64_t ino;
		const uint64_t at = disks_fill(&d, &ino);
		assert_true(at >= 8 * G4_MIB);
		disks_unmount(&d);
		disks_expect_clean(&d, all);
		disks_mount(&d, all);
		disks_expect_filled(&d, ino, at);
		disks_unmount(&d);
		disks_free(&d);
	}
}

static void any_disk_of_two_copies_can_be_missing(void **state)
{
	(void)state;
	for (uint32_t count = 2; count <= 3; count++)
		for (uint32_t lost = 0; lost < count; lost++) {
			const uint32_t all = (1u << count) - 1, left = all & ~(1u << lost);
			struct disks d;
			disks_make(&d, count, NULL);
			disks_format(&d, G4_RAID_1, G4_CHECKSUM_NONE);
			disks_mount(&d, all);
			for (uint32_t n = 0; n < 20; n++)
				assert_int_equal(disks_put(&d, n, 1), 0);
			disks_unmount(&d);
			/* not unasked */
			assert_int_equal(disks_try_mount(&d, left, false), -G4_E_SB_DISKS);
			assert_non_null(strstr(d.message, "-o degraded"));
			disks_mount(&d, left);
			disks_expect_files(&d, 20, 1);
			assert_int_equal(disks_put(&d, 3, 2), 0);
			disks_unmount(&d);
			disks_expect_clean(&d, left);
			/* the one that missed it is never mixed in, with however much insistence */
			assert_int_equal(disks_try_mount(&d, all, true), -G4_E_SB_DISKS);
			assert_non_null(strstr(d.message, "stale"));
			disks_mount(&d, left);
			assert_int_equal(disks_has(&d, 3, 2), 1);
			disks_unmount(&d);
			disks_free(&d);
		}
}

static void two_halves_are_not_put_together(void **state)
{
	struct disks d;
	uint8_t *before[2];

	(void)state;
	disks_make(&d, 2, NULL);
	disks_format(&d, G4_RAID_1, G4_CHECKSUM_NONE);
	for (uint32_t n = 0; n < 2; n++) {
		disks_mount(&d, 1u << n);
		assert_int_equal(disks_put(&d, n, 1), 0);
		disks_unmount(&d);
	}
	for (uint32_t n = 0; n < 2; n++) {
		before[n] = (uint8_t *)malloc(DISK_BYTES);
		rig_copy(before[n], d.memory[n], DISK_BYTES);
	}
	assert_int_equal(disks_try_mount(&d, 3, false), -G4_E_SB_DISKS);
	assert_non_null(strstr(d.message, "without the other"));
	assert_int_equal(disks_try_mount(&d, 3, true), -G4_E_SB_DISKS);
	for (uint32_t n = 0; n < 2; n++) {
		assert_memory_equal(before[n], d.memory[n], DISK_BYTES);
		free(before[n]);
	}
	disks_free(&d);
}

static void a_mount_that_writes_nothing_makes_no_disk_stale(void **state)
{
	struct g4_dev *dev;
	struct disks d;

	(void)state;
	disks_make(&d, 2, NULL);
	disks_format(&d, G4_RAID_1, G4_CHECKSUM_NONE);
	assert_int_equal(disks_try_open(&d, 1, true, 0, &dev), 0);
	assert_true(g4_set_is_degraded(dev));
	g4_dev_close(dev);
	/* reading needs no leave */
	assert_int_equal(disks_try_open(&d, 2, false, G4_DEV_READ_ONLY, &dev), 0);
	g4_dev_close(dev);
	disks_mount(&d, 3);
	disks_unmount(&d);
	disks_free(&d);
}

static void wrong_disks_are_told(void **state)
{
	struct g4_dev *dev;
	struct disks d, other;

	(void)state;
	disks_make(&d, 3, NULL);
	disks_make(&other, 2, NULL);
	disks_format(&d, G4_RAID_0, G4_CHECKSUM_NONE);
	disks_format(&other, G4_RAID_1, G4_CHECKSUM_NONE);
	assert_int_equal(disks_try_open(&d, 5, true, 0, &dev), -G4_E_SB_DISKS);
	assert_non_null(strstr(d.message, "disk 1"));
	const char *mixed[2] = {d.names[0], other.names[0]}, *twice[2] = {d.names[0], d.names[0]};
	const struct g4_set_options options = {.degraded = true};
	assert_int_equal(g4_set_open(mixed, 2, &options, &dev, d.message, sizeof(d.message)), -G4_E_SB_DISKS);
	assert_non_null(strstr(d.message, "different file systems"));
	assert_int_equal(g4_set_open(twice, 2, &options, &dev, d.message, sizeof(d.message)), -G4_E_SB_DISKS);
	assert_non_null(strstr(d.message, "twice"));
	/* a copy of a disk is that disk */
	rig_copy(d.memory[2], d.memory[0], DISK_BYTES);
	assert_int_equal(disks_try_open(&d, 7, true, 0, &dev), -G4_E_SB_DISKS);
	assert_non_null(strstr(d.message, "the same disk"));
	assert_return_code(ftruncate(other.fds[1], DISK_BYTES / 2), 0);
	assert_int_equal(disks_try_open(&other, 3, true, 0, &dev), -G4_E_SB_TRUNCATED);
	assert_non_null(strstr(other.message, "smaller than before"));
	assert_return_code(ftruncate(other.fds[1], DISK_BYTES), 0);
	disks_free(&d);
	disks_free(&other);
}

/* ---- a disk that fails ---- */

static void a_disk_may_fail_at_any_write(void **state)
{
	const uint64_t step = disks_every(7);

	(void)state;
	for (uint32_t lost = 0; lost < 2; lost++) {
		bool failed = true;
		for (uint64_t at = 1; failed; at += step) {
			const struct g4_fault fault = {.cut_after_writes = at, .cut_inside = true, .seed = at};
			struct g4_disk_info info;
			struct faulty f;
			struct disks d;
			disks_make(&d, 2, NULL);
			disks_format(&d, G4_RAID_1, G4_CHECKSUM_NONE);
			disks_open_faulty(&d, &f);
			disks_mount_faulty(&d, &f);
			g4_dev_fault_set(f.fault[lost], &fault);
			for (uint32_t n = 0; n < 8; n++)
				assert_int_equal(disks_put(&d, n % 5, n), 0); /* users notice nothing */
			assert_true(g4_set_disk(f.set, lost, &info));
			failed = info.state == G4_DISK_DROPPED;
			disks_unmount(&d);
			if (failed) {
				assert_int_equal(disks_try_mount(&d, 3, true), -G4_E_SB_DISKS);
				assert_non_null(strstr(d.message, "stale"));
			}
			disks_mount(&d, 2u >> lost);
			for (uint32_t n = 3; n < 8; n++)
				assert_int_equal(disks_has(&d, n % 5, n), 1);
			disks_unmount(&d);
			disks_expect_clean(&d, 2u >> lost);
			disks_free(&d);
		}
	}
}

static void what_one_disk_can_not_read_comes_from_the_other(void **state)
{
	(void)state;
	for (uint64_t at = 1; at < 12; at++)
		for (uint32_t bad = 0; bad < 2; bad++) {
			const struct g4_fault fault = {.fail_read_at = at};
			struct g4_disk_info info;
			struct faulty f;
			struct disks d;
			disks_make(&d, 2, NULL);
			disks_format(&d, G4_RAID_1, G4_CHECKSUM_NONE);
			disks_mount(&d, 3);
			for (uint32_t n = 0; n < 10; n++)
				assert_int_equal(disks_put(&d, n, 1), 0);
			disks_unmount(&d);
			disks_open_faulty(&d, &f);
			g4_dev_fault_set(f.fault[bad], &fault);
			disks_mount_faulty(&d, &f);
			disks_expect_files(&d, 10, 1);
			assert_true(g4_set_disk(f.set, bad, &info));
			assert_int_equal(info.state, G4_DISK_ACTIVE);
			disks_unmount(&d);
			disks_free(&d);
		}
}

/* ---- the power fails ---- */

#define CRASH_PUTS 24u
/* Whether put n was acknowledged before request `at`, and the next one of the same file had not begun. */
static bool must_have(const uint32_t *durable, uint32_t n, uint32_t at)
{
	return durable[n] <= at && (n + 7 >= CRASH_PUTS || durable[n + 6] >= at);
}

static void nothing_synced_is_lost_when_the_power_fails(void **state)
{
	struct disks_order *order = (struct disks_order *)calloc(1, sizeof(*order));
	uint64_t random = 77, cases = 0;
	uint8_t *start[2];
	uint32_t durable[CRASH_PUTS]; /* requests until the put was acknowledged */
	struct faulty f;
	struct disks d, crashed;

	(void)state;
	disks_make(&d, 2, NULL);
	disks_format(&d, G4_RAID_1, G4_CHECKSUM_NONE);
	for (uint32_t n = 0; n < 2; n++) {
		start[n] = (uint8_t *)malloc(DISK_BYTES);
		rig_copy(start[n], d.memory[n], DISK_BYTES);
	}
	disks_open_faulty(&d, &f);
	disks_watch(&d, &f, order);
	disks_mount_faulty(&d, &f);
	for (uint32_t n = 0; n < CRASH_PUTS; n++) {
		assert_int_equal(disks_put(&d, n % 7, n), 0);
		durable[n] = __atomic_load_n(&order->count, __ATOMIC_RELAXED);
	}
	const uint32_t total = order->count;
	disks_make(&crashed, 2, NULL);
	for (uint32_t at = 0; at <= total; at += (uint32_t)disks_every(11)) {
		/* with both disks, and with either of them lost in the crash as well */
		for (uint32_t which = 1; which <= 3; which++, cases++) {
			disks_crash(&crashed, start, &f, order, at, &random);
			disks_mount(&crashed, which);
			for (uint32_t n = 0; n < CRASH_PUTS; n++) {
				if (must_have(durable, n, at) && disks_has(&crashed, n % 7, n) != 1)
					fail_msg("put %u is lost with disks %u at request %u of %u", n, which, at,
						 total);
			}
			/* what both have is the same, or is free: reads of either copy agree from now on */
			assert_int_equal(disks_put(&crashed, 8, 1), 0);
			disks_unmount(&crashed);
			disks_expect_clean(&crashed, which);
			if (which != 3)
				continue;
			for (uint32_t n = 0; n < 2; n++) {
				uint8_t *kept = (uint8_t *)malloc(DISK_BYTES);
				rig_copy(kept, crashed.memory[n], DISK_BYTES);
				disks_mount(&crashed, 1u << n);
				for (uint32_t p = 0; p < CRASH_PUTS; p++)
					if (must_have(durable, p, at))
						assert_int_equal(disks_has(&crashed, p % 7, p), 1);
				disks_unmount(&crashed);
				rig_copy(crashed.memory[n], kept, DISK_BYTES);
				free(kept);
			}
		}
	}
	print_message("%llu states\n", (unsigned long long)cases);
	disks_unmount(&d);
	for (uint32_t n = 0; n < 2; n++)
		free(start[n]);
	disks_free(&crashed);
	disks_free(&d);
	free(order);
}

/* ---- bit rot ---- */

static void a_scrub_mends_a_disk_that_is_rotten_throughout(void **state)
{
	(void)state;
	for (uint32_t bad = 0; bad < 2; bad++) {
		const uint64_t sizes[2] = {32 * G4_MIB, 32 * G4_MIB};
		struct g4_disk_info info;
		struct g4_dev *dev;
		struct disks d;
		disks_make(&d, 2, sizes);
		disks_format(&d, G4_RAID_1, G4_CHECKSUM_CRC32C);
		disks_mount_fs(&d, 3, &dev);
		disks_populate(&d);
		disks_unmount_fs(&d, dev, true);
		disks_rot(&d, bad);
		disks_mount_fs(&d, 3, &dev);
		disks_expect_all(&d); /* users notice nothing */
		assert_int_equal(disks_scrub(&d), 0);
		assert_true(g4_set_disk(dev, bad, &info));
		assert_true(info.mended > 1000);
		assert_true(g4_set_disk(dev, 1 - bad, &info));
		assert_int_equal(info.mended, 0);
		assert_true(disks_health.mended_since_mount > 1000); /* as the last look at the job said */
		disks_unmount_fs(&d, dev, true);
		/* the one that was rotten has everything by itself */
		disks_expect_clean(&d, 1u << bad);
		disks_mount_fs(&d, 1u << bad, &dev);
		disks_expect_all(&d);
		assert_int_equal(disks_scrub(&d), 0);
		assert_int_equal(disks_health.mended_since_mount, 0);
		assert_true(g4_set_disk(dev, bad, &info));
		assert_true(info.mended > 1000); /* it is remembered */
		disks_unmount_fs(&d, dev, true);
		disks_free(&d);
	}
}

static void what_is_read_is_mended(void **state)
{
	(void)state;
	for (uint32_t bad = 0; bad < 2; bad++) {
		const uint64_t sizes[2] = {32 * G4_MIB, 32 * G4_MIB};
		struct g4_disk_info info;
		uint64_t mended;
		struct g4_dev *dev;
		struct disks d;
		disks_make(&d, 2, sizes);
		disks_format(&d, G4_RAID_1, G4_CHECKSUM_BLAKE3);
		disks_mount_fs(&d, 3, &dev);
		disks_populate(&d);
		disks_unmount_fs(&d, dev, true);
		disks_rot(&d, bad);
		disks_mount_fs(&d, 3, &dev);
		disks_expect_all(&d);
		assert_true(g4_set_disk(dev, bad, &info));
		mended = info.mended;
		assert_true(mended > 100);
		disks_unmount_fs(&d, dev, true);
		disks_mount_fs(&d, 3, &dev);
		disks_expect_all(&d);
		assert_true(g4_set_disk(dev, bad, &info));
		assert_int_equal(info.mended, mended); /* for good */
		disks_unmount_fs(&d, dev, true);
		disks_free(&d);
	}
}

/* One bit of each copy of a page that stands on some disks as it is: those disks. */
static uint32_t flip_all_copies(struct disks *d, const uint8_t *page)
{
	uint32_t disks = 0;

	for (uint32_t n = 0; n < d->count; n++)
		for (uint64_t at = 0; at < d->bytes[n]; at += G4_PAGE_BYTES)
			if (memcmp(d->memory[n] + at, page, G4_PAGE_BYTES) == 0) {
				d->memory[n][at + 99] ^= 4;
				disks |= 1u << n;
			}
	return disks;
}

/* By the mounted file system, and by the superblocks of a set that is open. */
static void expect_damaged(struct disks *d, const struct g4_dev *dev, uint32_t disks, uint64_t each)
{
	struct g4_cmd list = {.op = G4_CMD_JOB_LIST, .length = sizeof(disks_health), .data = &disks_health};
	struct g4_disk_info info;

	assert_int_equal(g4_execute(d->rig.wg, d->rig.fs, &list), 0);
	assert_int_equal(disks_health.disk_count, d->count);
	for (uint32_t n = 0; n < d->count; n++) {
		assert_int_equal(disks_health.disk_damaged[n], disks >> n & 1 ? each : 0);
		assert_true(g4_set_disk(dev, n, &info));
		if (each > 1) /* of mounts before */
			assert_in_range(info.damaged, disks >> n & 1 ? each - 1 : 0, disks >> n & 1 ? each : 0);
	}
}

static void what_no_copy_has_is_counted_by_disk(void **state)
{
	const uint64_t sizes[3] = {32 * G4_MIB, 32 * G4_MIB, 32 * G4_MIB};
	uint8_t *data = rig_memory(8 * G4_PAGE_BYTES, 77), *page = data + 3 * G4_PAGE_BYTES, back[16];
	struct g4_set_status status;
	struct g4_dev *dev;
	uint64_t ino, done;
	struct disks d;

	(void)state;
	disks_make(&d, 3, sizes);
	disks_format_copies(&d, G4_RAID_1, 2, G4_CHECKSUM_BLAKE3);
	disks_mount_fs(&d, 7, &dev);
	assert_int_equal(op_mknod(&d.rig, G4_NODE_ROOT, "f", G4_S_IFREG | 0644, &ino), 0);
	assert_int_equal(op_write(&d.rig, ino, 0, 0, data, 8 * G4_PAGE_BYTES, &done), 0);
	disks_unmount_fs(&d, dev, true);
	const uint32_t disks = flip_all_copies(&d, page);
	assert_int_equal(__builtin_popcount(disks), 2);
	for (uint64_t mount = 1; mount <= 3; mount++) {
		disks_mount_fs(&d, 7, &dev);
		assert_int_equal(op_read(&d.rig, ino, 0, 3 * G4_PAGE_BYTES, back, sizeof(back), &done), -G4_E_DATA);
		expect_damaged(&d, dev, disks, mount);
		assert_int_equal(disks_health.last_disks, disks);
		disks_unmount_fs(&d, dev, true);
	}
	const char *names[3] = {d.names[0], d.names[1], d.names[2]};
	assert_int_equal(g4_set_examine(names, 3, &status, d.message, sizeof(d.message)), 0);
	for (uint32_t n = 0; n < 3; n++)
		assert_int_equal(status.disks[n].damaged, disks >> n & 1 ? 3 : 0);
	free(data);
	disks_free(&d);
}

static void a_disk_is_rebuilt_or_replaced(void **state)
{
	(void)state;
	for (uint32_t count = 2; count <= 3; count++)
		for (uint32_t lost = 0; lost < count; lost++) {
			const uint32_t all = (1u << count) - 1;
			const char *names[MOST_DISKS];
			uint32_t disk = MOST_DISKS, n = 0;
			uint8_t *old = (uint8_t *)malloc(DISK_BYTES);
			struct g4_dev *dev;
			struct disks d;
			disks_make(&d, count, NULL);
			disks_format(&d, G4_RAID_1, G4_CHECKSUM_NONE);
			disks_mount(&d, all);
			for (uint32_t f = 0; f < 20; f++)
				assert_int_equal(disks_put(&d, f, 1), 0);
			disks_unmount(&d);
			disks_mount(&d, all & ~(1u << lost));
			for (uint32_t f = 0; f < 20; f++)
				assert_int_equal(disks_put(&d, f, 2), 0);
			disks_unmount(&d);
			/* the stale one */
			for (n = 0; n < count; n++)
				names[n] = d.names[n];
			if (g4_rebuild_offline(names, count, true, NULL, &disk, d.message, sizeof(d.message)) < 0)
				fail_msg("%s", d.message);
			assert_int_equal(disk, lost);
			/* and it stands for any other then */
			disks_mount(&d, all & ~(1u << (lost + 1) % count));
			disks_expect_files(&d, 20, 2);
			disks_unmount(&d);
			disks_expect_clean(&d, all & ~(1u << (lost + 1) % count));
			assert_int_equal(
				g4_rebuild_offline(names, count, true, NULL, &disk, d.message, sizeof(d.message)), 0);
			assert_int_equal(disk, (lost + 1) % count);
			assert_int_equal(g4_rebuild_offline(names, count, true, NULL, &disk, d.message,
							    sizeof(d.message)),
					 -G4_E_INVAL);
			disks_mount(&d, all);
			disks_expect_files(&d, 20, 2);
			assert_int_equal(disks_put(&d, 1, 3), 0);
			disks_unmount(&d);
			/* a new one in its place: the old one does not come back */
			rig_copy(old, d.memory[lost], DISK_BYTES);
			memset(d.memory[lost], 0xa5, DISK_BYTES);
			n = 0;
			for (uint32_t k = 0; k < count; k++)
				if (k != lost)
					names[n++] = d.names[k];
			names[n] = d.names[lost];
			if (g4_rebuild_offline(names, count, false, NULL, &disk, d.message, sizeof(d.message)) < 0)
				fail_msg("%s", d.message);
			assert_int_equal(disk, lost);
			disks_mount(&d, all & ~(1u << (lost + 1) % count));
			assert_int_equal(disks_has(&d, 1, 3), 1);
			assert_int_equal(disks_has(&d, 2, 2), 1);
			disks_unmount(&d);
			rig_copy(d.memory[lost], old, DISK_BYTES);
			assert_int_equal(disks_try_open(&d, all, true, 0, &dev), -G4_E_SB_DISKS);
			assert_non_null(strstr(d.message, "replaced"));
			free(old);
			disks_free(&d);
		}
}

static void a_journal_of_which_one_copy_is_rotten_is_replayed(void **state)
{
	(void)state;
	for (uint32_t bad = 0; bad < 2; bad++) {
		const uint64_t sizes[2] = {32 * G4_MIB, 32 * G4_MIB};
		struct g4_dev *dev;
		struct disks d;
		disks_make(&d, 2, sizes);
		disks_format(&d, G4_RAID_1, G4_CHECKSUM_XXH3);
		disks_mount_fs(&d, 3, &dev);
		disks_populate(&d);
		assert_int_equal(op_sync(&d.rig), 0);
		disks_unmount_fs(&d, dev, false);
		disks_rot(&d, bad);
		disks_mount_fs(&d, 3, &dev);
		disks_expect_all(&d);
		disks_unmount_fs(&d, dev, true);
		disks_expect_clean(&d, 2u >> bad);
		disks_free(&d);
	}
}

/* ---- names ---- */

static void names_may_have_commas(void **state)
{
	const char *const names[] = {"a,b", "c\\", "d"};
	char **split, *joined = g4_set_join(names, 3);
	uint32_t count;

	(void)state;
	assert_int_equal(g4_set_names(joined, &split, &count), 0);
	assert_int_equal(count, 3);
	assert_string_equal(split[0], "a,b");
	assert_string_equal(split[2], "d");
	free(split);
	free(joined);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_level_keeps_what_is_written),
		cmocka_unit_test(any_disk_of_two_copies_can_be_missing),
		cmocka_unit_test(two_halves_are_not_put_together),
		cmocka_unit_test(a_mount_that_writes_nothing_makes_no_disk_stale),
		cmocka_unit_test(wrong_disks_are_told),
		cmocka_unit_test(a_disk_may_fail_at_any_write),
		cmocka_unit_test(what_one_disk_can_not_read_comes_from_the_other),
		cmocka_unit_test(nothing_synced_is_lost_when_the_power_fails),
		cmocka_unit_test(a_scrub_mends_a_disk_that_is_rotten_throughout),
		cmocka_unit_test(what_is_read_is_mended),
		cmocka_unit_test(what_no_copy_has_is_counted_by_disk),
		cmocka_unit_test(a_journal_of_which_one_copy_is_rotten_is_replayed),
		cmocka_unit_test(a_disk_is_rebuilt_or_replaced),
		cmocka_unit_test(names_may_have_commas),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
