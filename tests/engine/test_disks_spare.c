/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hot spares: one takes the place of a disk that fails while programs write, or is missing at a mount, whatever the power does meanwhile;
 * it does not where an order took the disk out, where it is too small, or where nothing could be made again; and what is no spare is told.
 */
#include "sparing.h"

#include "fs/resize_host.h"

#define SPARES_MOST 2u

static const struct level levels[] = {{2, 2, 0}, {3, 2, 0}, {3, 3, 0}, {3, 0, 1}, {4, 0, 2}};
#define LEVELS (sizeof(levels) / sizeof(levels[0]))

static void a_spare_takes_the_place_of_a_disk_that_fails(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++)
		for (uint32_t disk = 0; disk < levels[l].disks; disk += levels[l].disks - 1) {
			struct g4_disk_info before, after;
			struct g4_dev *dev;
			struct faulty f;
			struct disks d;
			format(&d, &levels[l], 1);
			mount_faulty(&d, &f, NULL);
			assert_int_equal(spares_of(f.set), 1);
			look(&d); /* nothing is missing */
			assert_int_equal(spares_of(f.set), 1);
			assert_true(g4_set_disk(f.set, disk, &before));
			fail_disk(&d, &f, disk);
			disks_expect_files(&d, FILES, 1);
			look(&d);
			assert_int_equal(state_of(f.set, disk), G4_DISK_REBUILDING);
			assert_int_equal(spares_of(f.set), 0);
			assert_int_equal(job_of(&d).state, G4_JOB_RUNNING);
			assert_int_equal(job_of(&d).arguments[0], disk);
			assert_true(g4_set_disk(f.set, disk, &after));
			assert_string_equal(after.name, d.names[levels[l].disks]);
			assert_true(memcmp(before.uuid, after.uuid, sizeof(after.uuid)) != 0);
			for (uint32_t n = 0; n < FILES; n++) {
				assert_int_equal(disks_put(&d, n, 2), 0);
				step(&d);
			}
			finish(&d);
			assert_int_equal(state_of(f.set, disk), G4_DISK_ACTIVE);
			disks_unmount_fs(&d, f.set, true);
			expect_everywhere(&d, &levels[l], all_of(&d) & ~(1u << disk), 2);
			/* the old one is none of them any more */
			assert_true(disks_try_open(&d, all_of(&d), true, 0, &dev) < 0);
			assert_non_null(strstr(d.message, "replaced"));
			disks_free(&d);
		}
}

/*
 * Whoever asks about the disk that a spare took the place of, and about that one, hears which of them the set has now, in whatever order
 * they are named, and though the disks that knew both are lost.
 */
static void who_is_the_sets_is_told_of_the_new_one_and_the_old(void **state)
{
	static struct g4_set_status status;

	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		struct faulty f;
		struct disks d;
		format(&d, &levels[l], 1);
		mount_faulty(&d, &f, NULL);
		fail_disk(&d, &f, 0);
		look(&d);
		finish(&d);
		disks_unmount_fs(&d, f.set, true);
		/* as many of the others as may be lost */
		for (uint32_t turn = 0; turn < 2; turn++) {
			const char *names[MOST_DISKS];
			uint32_t count = 0;
			names[count++] = d.names[turn ? levels[l].disks : 0];
			names[count++] = d.names[turn ? 0 : levels[l].disks];
			for (uint32_t n = 1 + tolerated(&levels[l]); n < levels[l].disks; n++)
				names[count++] = d.names[n];
			assert_int_equal(g4_set_examine(names, count, &status, d.message, sizeof(d.message)), 0);
			if (!status.usable)
				fail_msg("level %u: %s", l, d.message);
			assert_string_equal(status.disks[0].name, d.names[levels[l].disks]);
			assert_int_equal(status.other_count, 1);
			assert_string_equal(status.others[0].name, d.names[0]);
		}
		disks_free(&d);
	}
}

static void a_spare_takes_the_place_of_a_disk_that_is_missing(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		const uint32_t there = ((1u << (levels[l].disks + 1)) - 1) & ~2u;
		struct g4_dev *dev;
		struct disks d;
		format(&d, &levels[l], 1);
		/* a mount that only reads takes nothing */
		assert_int_equal(disks_try_open(&d, there, false, G4_DEV_READ_ONLY, &dev), 0);
		disks_begin_fs(&d, dev, G4_FS_READ_ONLY);
		look(&d);
		assert_int_equal(spares_of(dev), 1);
		disks_unmount_fs(&d, dev, true);
		disks_mount_fs(&d, there, &dev);
		look(&d);
		assert_int_equal(state_of(dev, 1), G4_DISK_REBUILDING);
		/* it goes on with the next mount, and nothing is missing */
		disks_unmount_fs(&d, dev, true);
		assert_int_equal(disks_try_open(&d, there, false, 0, &dev), 0);
		disks_begin_fs(&d, dev, 0);
		assert_int_equal(state_of(dev, 1), G4_DISK_REBUILDING);
		assert_int_equal(spares_of(dev), 0);
		finish(&d);
		disks_unmount_fs(&d, dev, true);
		expect_everywhere(&d, &levels[l], there, 1);
		disks_free(&d);
	}
}

static void one_that_fails_is_followed_by_the_next(void **state)
{
	const struct level level = {3, 3, 0};
	const struct g4_fault fault = {.fail_write_at = 1};
	struct faulty f;
	struct disks d;

	(void)state;
	format(&d, &level, 3);
	mount_faulty(&d, &f, NULL);
	fail_disk(&d, &f, 0);
	look(&d);
	assert_int_equal(state_of(f.set, 0), G4_DISK_REBUILDING);
	g4_dev_fault_set(f.fault[3], &fault);
	while (job_of(&d).state == G4_JOB_RUNNING)
		step(&d);
	assert_int_equal(job_of(&d).state, G4_JOB_FAILED);
	assert_int_equal(state_of(f.set, 0), G4_DISK_DROPPED);
	look(&d);
	assert_int_equal(state_of(f.set, 0), G4_DISK_REBUILDING);
	assert_int_equal(spares_of(f.set), 1);
	/* another disk meanwhile, which has its turn behind it */
	fail_disk(&d, &f, 2);
	look(&d);
	assert_int_equal(spares_of(f.set), 1);
	finish(&d);
	look(&d);
	assert_int_equal(state_of(f.set, 2), G4_DISK_REBUILDING);
	assert_int_equal(spares_of(f.set), 0);
	finish(&d);
	disks_unmount_fs(&d, f.set, true);
	expect_everywhere(&d, &level, 1u << 4 | 2u | 1u << 5, 1);
	disks_free(&d);
}

/* ---- when none does ---- */

static void not_of_a_disk_that_an_order_took_out(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		const uint32_t there = ((1u << (levels[l].disks + 2)) - 1) & ~2u;
		struct g4_dev *dev;
		struct disks d;
		format(&d, &levels[l], 2);
		disks_mount_fs(&d, all_of(&d), &dev);
		begin(&d, G4_DISK_OFFLINE, 1);
		look(&d);
		assert_int_equal(state_of(dev, 1), G4_DISK_DROPPED);
		disks_unmount_fs(&d, dev, true);
		/* nor after another mount */
		disks_mount_fs(&d, there, &dev);
		assert_int_equal(disks_put(&d, 0, 1), 0);
		look(&d);
		assert_int_equal(state_of(dev, 1), G4_DISK_MISSING);
		assert_int_equal(spares_of(dev), 2);
		/* but by an order */
		begin(&d, G4_DISK_REPLACE, levels[l].disks + 1);
		assert_int_equal(state_of(dev, 1), G4_DISK_REBUILDING);
		assert_int_equal(spares_of(dev), 1);
		/* nor of one that another order gave up */
		tell(&d, G4_JOB_CANCEL);
		look(&d);
		assert_int_equal(state_of(dev, 1), G4_DISK_DROPPED);
		assert_int_equal(spares_of(dev), 1);
		begin(&d, G4_DISK_REPLACE, levels[l].disks);
		finish(&d);
		disks_unmount_fs(&d, dev, true);
		expect_everywhere(&d, &levels[l], there & ~(2u << levels[l].disks), 1);
		disks_free(&d);
	}
}

/* One that comes back is as the others: when it is missing then, a spare takes its place. */
static void of_one_that_was_taken_out_and_came_back(void **state)
{
	const struct level level = {2, 2, 0};
	struct g4_dev *dev;
	struct disks d;

	(void)state;
	format(&d, &level, 1);
	disks_mount_fs(&d, 7, &dev);
	begin(&d, G4_DISK_OFFLINE, 0);
	begin(&d, G4_DISK_REBUILD, 0);
	finish(&d);
	disks_unmount_fs(&d, dev, true);
	disks_mount_fs(&d, 6, &dev);
	look(&d);
	assert_int_equal(state_of(dev, 0), G4_DISK_REBUILDING);
	finish(&d);
	disks_unmount_fs(&d, dev, true);
	expect_everywhere(&d, &level, 6, 1);
	disks_free(&d);
}

/* What can not be read of the others is so for the next spare as well. */
static void not_where_the_others_can_not_be_read(void **state)
{
	const struct level level = {2, 2, 0};
	struct faulty f;
	struct disks d;

	(void)state;
	format(&d, &level, 2);
	mount_faulty(&d, &f, NULL);
	fail_disk(&d, &f, 1);
	look(&d);
	g4_dev_fault_set(f.fault[0], &(struct g4_fault){.bad_at = G4_CHUNK_UNIT, .bad_bytes = UINT64_MAX / 2});
	while (job_of(&d).state == G4_JOB_RUNNING)
		step(&d);
	g4_dev_fault_set(f.fault[0], &(struct g4_fault){.bad_bytes = 0});
	assert_int_equal(job_of(&d).code, G4_E_SOURCE);
	look(&d);
	assert_int_equal(state_of(f.set, 1), G4_DISK_DROPPED);
	assert_int_equal(spares_of(f.set), 1);
	disks_unmount_fs(&d, f.set, true);
	disks_free(&d);
}

static void not_by_one_that_is_too_small(void **state)
{
	const uint64_t unequal[MOST_DISKS] = {16 * G4_MIB, 10 * G4_MIB, 12 * G4_MIB, 9 * G4_MIB, 16 * G4_MIB};
	const struct level level = {2, 2, 0};
	struct faulty f;
	struct disks d;

	(void)state;
	disks_make(&d, 5, unequal);
	struct disks others = d; /* devices that are none of the set */
	format_sizes(&d, &level, 1, unequal);
	assert_int_equal(add_spare(&d, 3, others.names[3]), -G4_E_DEV_SMALL);
	assert_non_null(strstr(d.message, "too small"));
	mount_faulty(&d, &f, NULL);
	fail_disk(&d, &f, 0);
	assert_int_equal(looks_that_tell(&d, 2, "no spare takes its place"), 1);
	assert_int_equal(state_of(f.set, 0), G4_DISK_DROPPED);
	assert_int_equal(spares_of(f.set), 1);
	assert_int_equal(order(&d, G4_DISK_REPLACE, d.names[2]), -G4_E_DEV_SMALL);
	assert_int_equal(spares_of(f.set), 1);
	/* one that is large enough comes, and is taken at once */
	if (order(&d, G4_DISK_ADD_SPARE, others.names[4]) < 0)
		fail_msg("%s", d.message);
	step(&d);
	assert_int_equal(state_of(f.set, 0), G4_DISK_REBUILDING);
	assert_int_equal(spares_of(f.set), 1);
	finish(&d);
	disks_unmount_fs(&d, f.set, true);
	disks_free(&others);
	disks_free(&d);
}

/* ---- what is refused, and changes nothing ---- */

static void expect_order(struct disks *d, uint32_t what, const char *name, int code, const char *words)
{
	assert_int_equal(order(d, what, name), code);
	if (!strstr(d->message, words))
		fail_msg("%s", d->message);
}

static void what_can_be_no_spare_is_told(void **state)
{
	const struct level level = {2, 2, 0};
	struct disks d, other, striped;
	struct g4_dev *dev;

	(void)state;
	format(&d, &level, 1);
	format(&other, &level, 1);
	disks_make(&striped, 3, NULL);
	striped.count = 2;
	disks_format(&striped, G4_RAID_0, G4_CHECKSUM_NONE);
	assert_int_equal(add_spare(&striped, 3, striped.names[2]), -G4_E_INVAL);
	assert_non_null(strstr(striped.message, "has no use for a spare"));
	striped.count = 3;
	assert_int_equal(add_spare(&d, 3, d.names[1]), -G4_E_SB_DISKS);
	assert_non_null(strstr(d.message, "is disk 1 of this file system"));
	/* alone it is nothing; and it is of its set only */
	assert_int_equal(disks_try_open(&d, 4, true, 0, &dev), -G4_E_SB_DISKS);
	assert_non_null(strstr(d.message, "is a spare, which holds nothing"));
	struct disks mixed = d;
	memcpy(mixed.names[2], other.names[2], sizeof(mixed.names[2]));
	assert_int_equal(disks_try_open(&mixed, 7, false, 0, &dev), -G4_E_SB_DISKS);
	assert_non_null(strstr(mixed.message, "is a spare of another file system"));
	assert_int_equal(disks_try_open(&d, 7, false, 0, &dev), 0);
	assert_int_equal(g4_set_add_to(dev, NULL, d.names[2], d.message, sizeof(d.message)), -G4_E_SB_DISKS);
	assert_non_null(strstr(d.message, "is a spare of this file system already"));
	g4_dev_close(dev);
	disks_mount_fs(&d, 7, &dev);
	expect_order(&d, G4_DISK_ADD_SPARE, d.names[2], -G4_E_SB_DISKS, "is a spare of this file system already");
	expect_order(&d, G4_DISK_ADD_SPARE, d.names[0], -G4_E_SB_DISKS, "is disk 0 of this file system");
	expect_order(&d, G4_DISK_REMOVE_SPARE, d.names[0], -G4_E_INVAL, "is a disk of this file system");
	expect_order(&d, G4_DISK_REMOVE_SPARE, other.names[2], -G4_E_INVAL, "is no spare of this file system");
	expect_order(&d, G4_DISK_REMOVE_SPARE, striped.names[2], -G4_E_INVAL, "is no spare of this file system");
	expect_order(&d, G4_DISK_ADD_SPARE, "/nowhere", -G4_E_NOENT, "/nowhere");
	assert_int_equal(spares_of(dev), 1);
	disks_unmount_fs(&d, dev, true);
	disks_mount_fs(&other, 7, &dev); /* whose spare was not touched */
	assert_int_equal(spares_of(dev), 1);
	disks_unmount_fs(&other, dev, true);
	disks_free(&striped);
	disks_free(&other);
	disks_free(&d);
}

static void a_spare_comes_and_goes(void **state)
{
	const struct level level = {2, 2, 0};
	struct g4_dev *dev;
	struct disks d;

	(void)state;
	format(&d, &level, SPARES_MOST);
	/* mounted with one of them: the other one is known by what it says */
	disks_mount_fs(&d, 7, &dev);
	assert_int_equal(spares_of(dev), 1);
	begin(&d, G4_DISK_REMOVE_SPARE, 3);
	assert_int_equal(spares_of(dev), 1);
	begin(&d, G4_DISK_REMOVE_SPARE, 2);
	assert_int_equal(spares_of(dev), 0);
	for (uint32_t n = 2; n < 4; n++)
		assert_false(g4_set_is_spare(d.names[n]));
	begin(&d, G4_DISK_ADD_SPARE, 3);
	assert_true(g4_set_is_spare(d.names[3]));
	assert_int_equal(spares_of(dev), 1);
	disks_unmount_fs(&d, dev, true);
	/* nothing is missed that does not come back, and the names are in any order */
	disks_expect_clean(&d, 3);
	assert_int_equal(disks_try_open(&d, 3u | 8u, false, 0, &dev), 0);
	assert_int_equal(spares_of(dev), 1);
	assert_int_equal(g4_set_remove_spare(dev, d.names[3], d.message, sizeof(d.message)), 0);
	g4_dev_close(dev);
	assert_false(g4_set_is_spare(d.names[3]));
	disks_free(&d);
}

/* As long as a disk that it knows is there. */
static void it_is_one_however_the_set_changes(void **state)
{
	const struct level level = {2, 2, 0};
	uint64_t bytes[MOST_DISKS], size = 0;
	struct g4_dev *dev;
	struct disks d;

	(void)state;
	for (uint32_t n = 0; n < MOST_DISKS; n++)
		bytes[n] = 12 * G4_MIB;
	format_sizes(&d, &level, 1, bytes);
	struct disks more;
	disks_make(&more, 4, bytes);
	/* two disks more, and one of the others is another one */
	assert_int_equal(disks_try_open(&d, 3, false, 0, &dev), 0);
	for (uint32_t n = 0; n < 2; n++)
		if (g4_set_add_to(dev, NULL, more.names[n], d.message, sizeof(d.message)) < 0)
			fail_msg("%s", d.message);
	assert_int_equal(g4_resize_device(dev, 0, &size, d.message, sizeof(d.message)), 0);
	g4_dev_close(dev);
	struct disks now = d;
	memcpy(now.names[3], more.names[0], sizeof(now.names[3]));
	memcpy(now.names[4], more.names[1], sizeof(now.names[4]));
	now.count = 5;
	for (uint32_t disk = 0; disk < 2; disk++) {
		disks_mount_fs(&now, 31, &dev);
		assert_int_equal(spares_of(dev), 1);
		disks_unmount_fs(&now, dev, true);
		disks_mount_fs(&now, 31 & ~4u, &dev); /* so that it does not hear of this */
		begin(&now, G4_DISK_OFFLINE, disk);
		assert_int_equal(order(&now, G4_DISK_REPLACE, more.names[2 + disk]), 0);
		finish(&now);
		disks_unmount_fs(&now, dev, true);
		memcpy(now.names[disk], more.names[2 + disk], sizeof(now.names[disk]));
	}
	/* of those that it knew none is left */
	assert_int_equal(disks_try_open(&now, 31, false, 0, &dev), -G4_E_SB_DISKS);
	assert_non_null(strstr(now.message, "before all its disks were replaced"));
	disks_mount_fs(&now, 31 & ~4u, &dev);
	begin(&now, G4_DISK_ADD_SPARE, 2);
	assert_int_equal(spares_of(dev), 1);
	disks_expect_files(&now, FILES, 1);
	disks_unmount_fs(&now, dev, true);
	disks_expect_clean(&now, 31);
	disks_free(&more);
	disks_free(&d);
}

/* A disk that was larger than what it stands for says at its end nothing any more. */
static void a_larger_spare_is_a_disk_and_nothing_else(void **state)
{
	const uint64_t larger[MOST_DISKS] = {10 * G4_MIB, 10 * G4_MIB, 14 * G4_MIB};
	const struct level level = {2, 2, 0};
	struct g4_dev *dev;
	struct disks d;

	(void)state;
	format_sizes(&d, &level, 1, larger);
	disks_mount_fs(&d, 5, &dev);
	look(&d);
	finish(&d);
	disks_unmount_fs(&d, dev, true);
	assert_false(g4_set_is_spare(d.names[2]));
	memset(d.memory[2] + G4_SUPERBLOCK_ADDRESS, 0, G4_PAGE_BYTES);
	assert_false(g4_set_is_spare(d.names[2]));
	disks_free(&d);
}

static void replaced_offline_by_its_spare(void **state)
{
	const struct level level = {2, 2, 0};
	struct disks d;

	(void)state;
	format(&d, &level, 1);
	replace_with(&d, 1u << 0, 2);
	expect_everywhere(&d, &level, 5, 1);
	disks_free(&d);
}

/* ---- the power fails ---- */

/* After a request, without the disk that failed: the spare is one, or that disk; with it all is whole again. */
static void judge(struct disks *crashed, const struct level *level, uint32_t at, uint32_t *taken)
{
	const uint32_t there = all_of(crashed) & ~2u;
	struct g4_dev *dev;

	if (tolerated(level) > 1) { /* and another one with it, which the set is opened without first */
		if (disks_try_open(crashed, there & ~1u, false, G4_DEV_READ_ONLY, &dev) < 0)
			fail_msg("after %u requests without two: %s", at, crashed->message);
		disks_begin_fs(crashed, dev, G4_FS_READ_ONLY);
		disks_expect_files(crashed, FILES, 1);
		disks_unmount_fs(crashed, dev, true);
	}
	if (disks_try_open(crashed, there, true, 0, &dev) < 0)
		fail_msg("after %u requests: %s", at, crashed->message);
	disks_begin_fs(crashed, dev, 0);
	disks_expect_files(crashed, FILES, 1);
	*taken += state_of(dev, 1) != G4_DISK_MISSING;
	assert_int_equal(spares_of(dev), state_of(dev, 1) == G4_DISK_MISSING);
	look(crashed);
	while (job_of(crashed).state == G4_JOB_RUNNING)
		step(crashed);
	assert_int_equal(state_of(dev, 1), G4_DISK_ACTIVE);
	disks_expect_files(crashed, FILES, 1);
	disks_unmount_fs(crashed, dev, true);
	disks_expect_clean(crashed, there);
	if (disks_try_open(crashed, there & ~1u, false, G4_DEV_READ_ONLY, &dev) < 0)
		fail_msg("after %u requests it stands for no other: %s", at, crashed->message);
	disks_begin_fs(crashed, dev, G4_FS_READ_ONLY);
	disks_expect_files(crashed, FILES, 1);
	disks_unmount_fs(crashed, dev, true);
}

static void the_power_fails_while_it_takes_over(void **state)
{
	static struct disks_order requests;
	uint32_t states = 0, taken = 0;

	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		struct disks d, crashed;
		uint8_t *before[MOST_DISKS];
		uint64_t random = 1 + l;
		struct faulty f;
		format(&d, &levels[l], 1);
		for (uint32_t n = 0; n < d.count; n++) {
			before[n] = (uint8_t *)malloc(d.bytes[n]);
			rig_copy(before[n], d.memory[n], d.bytes[n]);
		}
		memset(&requests, 0, sizeof(requests));
		mount_faulty(&d, &f, &requests);
		for (uint32_t n = 0; n < d.count; n++)
			g4_dev_fault_share(f.fault[n]); /* what was asked of them is wanted later */
		fail_disk(&d, &f, 1);
		const uint32_t begun = requests.count;
		look(&d);
		const uint32_t told = requests.count;
		finish(&d);
		disks_unmount_fs(&d, f.set, true);
		disks_make(&crashed, d.count, d.bytes);
		/* each request of the beginning, and some of the rest */
		for (uint32_t at = begun; at <= requests.count; at += at < told ? rig_every(1) : 7 * rig_every(1)) {
			disks_crash(&crashed, before, &f, &requests, at, &random);
			judge(&crashed, &levels[l], at, &taken);
			states++;
		}
		disks_free(&crashed);
		for (uint32_t n = 0; n < d.count; n++) {
			g4_dev_close(f.fault[n]);
			free(before[n]);
		}
		disks_free(&d);
	}
	print_message("%u states, in %u the spare was a disk\n", states, taken);
	assert_true(taken > 0 && taken < states);
}

/* A device becomes a spare, or is none: nothing else, and the set is as it was. */
static void the_power_fails_while_it_becomes_one(void **state)
{
	const struct level level = {2, 2, 0};
	struct disks d, crashed;
	uint8_t *before;
	struct g4_dev *dev;
	uint32_t states = 0, spares = 0;

	(void)state;
	format(&d, &level, 0);
	disks_make(&crashed, 1, sizes);
	before = (uint8_t *)malloc(sizes[0]);
	rig_copy(before, crashed.memory[0], sizes[0]);
	assert_int_equal(add_spare(&d, 3, crashed.names[0]), 0);
	/* the two superblocks are written one after the other: either is enough */
	for (uint32_t copies = 0; copies < 4; copies++) {
		struct disks all = d;
		const uint64_t at[2] = {G4_SUPERBLOCK_ADDRESS, sizes[0] - G4_PAGE_BYTES};
		uint8_t pages[2][G4_PAGE_BYTES];
		for (uint32_t k = 0; k < 2; k++) {
			memcpy(pages[k], crashed.memory[0] + at[k], G4_PAGE_BYTES);
			if (!(copies >> k & 1))
				rig_copy(crashed.memory[0] + at[k], before + at[k], G4_PAGE_BYTES);
		}
		memcpy(all.names[2], crashed.names[0], sizeof(all.names[2]));
		all.count = 3;
		const int rc = disks_try_open(&all, 7, false, G4_DEV_READ_ONLY, &dev);
		assert_int_equal(rc == 0, copies != 0);
		assert_int_equal(g4_set_is_spare(crashed.names[0]), copies != 0);
		if (rc == 0) {
			spares += spares_of(dev);
			g4_dev_close(dev);
		}
		for (uint32_t k = 0; k < 2; k++)
			rig_copy(crashed.memory[0] + at[k], pages[k], G4_PAGE_BYTES);
		states++;
	}
	assert_int_equal(spares, states - 1);
	disks_expect_clean(&d, 3);
	free(before);
	disks_free(&crashed);
	disks_free(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_spare_takes_the_place_of_a_disk_that_fails),
		cmocka_unit_test(who_is_the_sets_is_told_of_the_new_one_and_the_old),
		cmocka_unit_test(a_spare_takes_the_place_of_a_disk_that_is_missing),
		cmocka_unit_test(one_that_fails_is_followed_by_the_next),
		cmocka_unit_test(not_of_a_disk_that_an_order_took_out),
		cmocka_unit_test(of_one_that_was_taken_out_and_came_back),
		cmocka_unit_test(not_where_the_others_can_not_be_read),
		cmocka_unit_test(not_by_one_that_is_too_small),
		cmocka_unit_test(what_can_be_no_spare_is_told),
		cmocka_unit_test(a_spare_comes_and_goes),
		cmocka_unit_test(it_is_one_however_the_set_changes),
		cmocka_unit_test(a_larger_spare_is_a_disk_and_nothing_else),
		cmocka_unit_test(replaced_offline_by_its_spare),
		cmocka_unit_test(the_power_fails_while_it_takes_over),
		cmocka_unit_test(the_power_fails_while_it_becomes_one),
	};
	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
