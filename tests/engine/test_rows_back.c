/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a removal gave up comes back with a rebalancing of a mount, and before that counts of space are right: rows with parity, which keep the bits of
 * the map behind them where they are, and chunks of other levels; whatever the power does and whichever disk fails meanwhile.
 */
#include "moving.h"
#include "rows_moving.h"

#include "alloc/alloc.h"
#include "simt/simt_host.h"
#include "space/set_rows_host.h"

/* Of all disks rows lie on the one that goes, or may take its places. */
static const struct shape shape = {3, 1, 3, 32 * G4_MIB};
#define LEAVES 4u
#define SOME 6u /* steps of its removal, when most of what is free was given up */

/* ---- orders ---- */

static void start(struct disks *d, uint32_t what, const char *name)
{
	if (order(d, what, name) < 0)
		fail_msg("%s", d->message);
}

static void run(struct disks *d, struct model *m, uint32_t kind)
{
	for (uint32_t steps = 0; newest_of(d, kind).state == G4_JOB_RUNNING; steps++) {
		for (uint32_t k = 0; m && k < 2; k++)
			use(m, d);
		step(d);
		assert_true(steps < 4000);
	}
	assert_int_equal(newest_of(d, kind).state, G4_JOB_DONE);
}

static void cancel(struct disks *d, uint32_t kind)
{
	struct g4_cmd set = {.op = G4_CMD_JOB_SET, .number = newest_of(d, kind).number, .mask = G4_JOB_CANCEL};

	assert_int_equal(g4_execute(d->rig.wg, d->rig.fs, &set), 0);
	assert_int_equal(newest_of(d, kind).state, G4_JOB_CANCELLED);
}

/* A removal that is cancelled on its way, after so many steps. */
static void remove_and_cancel(struct disks *d, struct model *m, uint32_t steps)
{
	start(d, G4_DISK_REMOVE, d->names[LEAVES]);
	for (uint32_t k = 0; k < steps; k++) {
		if (m)
			use(m, d);
		step(d);
	}
	cancel(d, G4_JOB_REMOVE);
	assert_true(g4_alloc_free_in(&d->rig.fs->alloc, G4_POOL_GONE) > 0);
}

/* ---- counts ---- */

/* Of each pool what the regions have; of those that lie nowhere, as the table says, all. */
static void expect_counts(struct disks *d, struct g4_dev *dev)
{
	struct g4_alloc *alloc = &d->rig.fs->alloc;
	uint64_t pages[G4_POOLS] = {0}, gone = 0, next = 0;
	struct g4_chunk chunk;

	for (uint64_t r = 0; r < alloc->region_count; r++) {
		const uint32_t pool = g4_alloc_region_pool(alloc, r);
		(void)g4_alloc_in_use(d->rig.wg, alloc, g4_page_address(r * G4_REGION_PAGES)); /* it is loaded */
		pages[pool] += pool == G4_POOL_GONE ? (uint64_t)G4_REGION_PAGES : alloc->region_free[r];
	}
	for (uint32_t pool = 0; pool < G4_POOLS; pool++)
		assert_int_equal(g4_alloc_free_in(alloc, pool), pages[pool]);
	for (uint32_t n = 0; g4_set_chunk(dev, n, &chunk); n++) {
		const uint64_t bytes = G4_REGION_PAGES * G4_PAGE_BYTES, from = chunk.address / bytes,
			       to = (chunk.address + chunk.bytes + bytes - 1) / bytes;
		if (chunk.columns > 0)
			continue;
		gone += to - g4_min64(to, g4_max64(from, next));
		next = g4_max64(next, to);
	}
	assert_int_equal(pages[G4_POOL_GONE], gone * G4_REGION_PAGES);
}

static uint64_t gone_pages(const struct disks *d)
{
	return g4_alloc_free_in(&d->rig.fs->alloc, G4_POOL_GONE);
}

/* What all that is free holds, and it is free again. */
static uint64_t bytes_that_fit(struct disks *d, struct g4_dev **dev)
{
	uint64_t file;
	const uint64_t bytes = disks_fill(d, &file);

	disks_expect_filled(d, file, bytes);
	assert_int_equal(op_unlink(&d->rig, G4_NODE_ROOT, "big"), 0);
	disks_unmount_fs(d, *dev, true);
	disks_mount_fs(d, all_of(d), dev);
	return bytes;
}

/* ---- what is there ---- */

static void expect_sound(struct disks *d, struct model *m, uint64_t ballast, struct g4_dev **dev)
{
	if (m)
		expect_model(m, d);
	disks_expect_filled(d, ballast, shape.ballast);
	assert_int_equal(disks_scrub(d), 0);
	expect_counts(d, *dev);
	const uint64_t gone = gone_pages(d);
	disks_unmount_fs(d, *dev, true);
	disks_expect_clean(d, all_of(d));
	disks_mount_fs(d, all_of(d), dev);
	expect_counts(d, *dev);
	assert_int_equal(gone_pages(d), gone);
}

/* Without any disk, also where all that is free was written since, in parts of rows. It is unmounted then. */
static void expect_survives(struct disks *d, struct model *m, uint64_t ballast, struct g4_dev *dev)
{
	uint8_t *before[MOST_DISKS];
	uint64_t small;
	const uint64_t bytes = fill_in_small_pieces(d, &small);

	disks_unmount_fs(d, dev, true);
	keep_disks(d, before);
	for (uint32_t lost = 0; lost < d->count; lost++) {
		disks_mount_fs(d, all_of(d) & ~(1u << lost), &dev);
		if (m)
			expect_model(m, d);
		disks_expect_filled(d, ballast, shape.ballast);
		expect_small_pieces(d, small, bytes);
		disks_unmount_fs(d, dev, true);
		restore_disks(d, before);
	}
	for (uint32_t n = 0; n < d->count; n++)
		free(before[n]);
}

/* ---- after a cancel ---- */

static void all_that_a_cancelled_removal_gave_up_comes_back(void **state)
{
	(void)state;
	for (uint32_t mounted = 0; mounted < 2; mounted++) {
		struct model m;
		struct disks d;
		struct g4_dev *dev;
		uint64_t ballast, moved;
		format(&d, &shape, &ballast);
		disks_mount_fs(&d, all_of(&d), &dev);
		const uint64_t fits = bytes_that_fit(&d, &dev);
		begin_model(&m, &d);
		remove_and_cancel(&d, &m, SOME);
		if (mounted) {
			start(&d, G4_DISK_REBALANCE, "");
			run(&d, &m, G4_JOB_REBALANCE);
		} else {
			disks_unmount_fs(&d, dev, true);
			dev = open_all(&d);
			if (g4_balance_disks(dev, NULL, &moved, d.message, sizeof(d.message)) < 0)
				fail_msg("%s", d.message);
			g4_dev_close(dev);
			disks_mount_fs(&d, all_of(&d), &dev);
		}
		assert_int_equal(gone_pages(&d), 0);
		expect_sound(&d, &m, ballast, &dev);
		assert_in_range(bytes_that_fit(&d, &dev), fits - 2 * FILES * FILE_BYTES, fits);
		if (mounted)
			expect_survives(&d, &m, ballast, dev);
		else
			disks_unmount_fs(&d, dev, true);
		end_model(&m);
		disks_free(&d);
	}
}

static void a_new_removal_follows_one_that_was_cancelled(void **state)
{
	struct model m;
	struct disks d;
	struct g4_dev *dev;
	uint64_t ballast;

	(void)state;
	format(&d, &shape, &ballast);
	disks_mount_fs(&d, all_of(&d), &dev);
	begin_model(&m, &d);
	for (uint32_t k = 0; k < 2; k++) {
		remove_and_cancel(&d, &m, k == 0 ? SOME : 1);
		expect_sound(&d, &m, ballast, &dev);
	}
	start(&d, G4_DISK_REMOVE, d.names[LEAVES]);
	run(&d, &m, G4_JOB_REMOVE);
	expect_counts(&d, dev);
	const uint64_t gone = gone_pages(&d);
	disks_unmount_fs(&d, dev, true);
	disks_mount_fs(&d, all_of(&d) & ~(1u << LEAVES), &dev);
	expect_counts(&d, dev);
	assert_int_equal(gone_pages(&d), gone);
	expect_model(&m, &d);
	disks_expect_filled(&d, ballast, shape.ballast);
	assert_int_equal(disks_scrub(&d), 0);
	disks_unmount_fs(&d, dev, true);
	disks_expect_clean(&d, all_of(&d) & ~(1u << LEAVES));
	end_model(&m);
	disks_free(&d);
}

static void a_file_system_is_filled_after_a_cancel(void **state)
{
	struct model m;
	struct disks d;
	struct g4_dev *dev;
	uint64_t ballast, file;

	(void)state;
	format(&d, &shape, &ballast);
	disks_mount_fs(&d, all_of(&d), &dev);
	begin_model(&m, &d);
	remove_and_cancel(&d, &m, SOME);
	const uint64_t gone = gone_pages(&d), bytes = disks_fill(&d, &file);
	assert_true(bytes > 0);
	expect_sound(&d, &m, ballast, &dev);
	assert_int_equal(gone_pages(&d), gone);
	/* where nothing is free there is room for what is gone all the same, and for what a user writes then */
	start(&d, G4_DISK_REBALANCE, "");
	run(&d, NULL, G4_JOB_REBALANCE);
	assert_int_equal(gone_pages(&d), 0);
	disks_expect_filled(&d, file, bytes);
	expect_sound(&d, &m, ballast, &dev);
	expect_survives(&d, &m, ballast, dev);
	end_model(&m);
	disks_free(&d);
}

/* ---- after a removal ---- */

/* Where each row has its bit, and how many of them say that parity is right. */
static uint64_t bits_of_rows(const struct g4_set *set, uint64_t *made)
{
	uint64_t bits = 0;

	*made = 0;
	for (uint32_t n = 0; n < set->map.count; n++) {
		const struct g4_chunk *chunk = &set->chunks[n];
		for (uint64_t r = 0; chunk->parity && r < g4_set_log_regions(chunk); r++) {
			const uint64_t bit = g4_set_log_region(set, chunk, r);
			*made += set->parity->made[bit / 8] >> bit % 8 & 1;
			bits++;
		}
	}
	return bits;
}

/* As much as there is room for; all other rows have their bits still, and those that come back say nothing. */
static void rows_come_back_after_a_removal(void **state)
{
	struct model m;
	struct disks d;
	struct g4_dev *dev;
	uint64_t ballast, made, made_before;

	(void)state;
	format(&d, &shape, &ballast);
	disks_mount_fs(&d, all_of(&d), &dev);
	begin_model(&m, &d);
	start(&d, G4_DISK_REMOVE, d.names[d.count - 1]);
	run(&d, &m, G4_JOB_REMOVE);
	d.count--;
	const struct g4_set *set = (const struct g4_set *)dev->host;
	const uint64_t gone = gone_pages(&d), regions = set->parity->regions, rows = bits_of_rows(set, &made_before);
	start(&d, G4_DISK_REBALANCE, "");
	step(&d); /* which is the first time that they come back */
	const uint64_t back = bits_of_rows(set, &made);
	assert_true(back > rows);
	assert_true(made <= made_before);
	assert_int_equal(set->parity->regions, regions);
	run(&d, &m, G4_JOB_REBALANCE);
	assert_int_equal(set->parity->regions, regions);
	print_message("gone %llu then %llu\n", (unsigned long long)gone, (unsigned long long)gone_pages(&d));
	assert_true(gone_pages(&d) < gone);
	expect_sound(&d, &m, ballast, &dev);
	expect_survives(&d, &m, ballast, dev);
	end_model(&m);
	disks_free(&d);
}

/* ---- the power fails, and disks ---- */

#define STEPS 3u
static struct disks_order requests;

/* The disks before an order by which rows come back. */
static void begin_to_fill(struct disks *d, uint64_t *ballast, uint8_t **before)
{
	struct g4_dev *dev;

	format(d, &shape, ballast);
	disks_mount_fs(d, all_of(d), &dev);
	remove_and_cancel(d, NULL, SOME);
	disks_unmount_fs(d, dev, true);
	keep_disks(d, before);
}

/* What is there after a crash, without some disk or with all, is written to until all that is free was, and another one can be lost then. */
static void expect_crashed(struct disks *crashed, uint64_t ballast, uint32_t lost, uint32_t next, bool fills)
{
	const uint32_t there = all_of(crashed) & ~lost;
	uint64_t small = 0, bytes = 0;
	struct g4_dev *dev;

	disks_mount_fs(crashed, there, &dev);
	disks_expect_filled(crashed, ballast, shape.ballast);
	if (fills)
		bytes = fill_in_small_pieces(crashed, &small);
	expect_counts(crashed, dev);
	disks_unmount_fs(crashed, dev, true);
	disks_expect_clean(crashed, there);
	disks_mount_fs(crashed, lost ? there : there & ~next,
		       &dev); /* of one that was lost the others are all that there is */
	disks_expect_filled(crashed, ballast, shape.ballast);
	if (fills)
		expect_small_pieces(crashed, small, bytes);
	disks_unmount_fs(crashed, dev, true);
}

/* After some of the requests of so many steps of an order, given to the disks as they were kept. */
static void crash(struct disks *d, uint8_t *const *before, uint64_t ballast, uint32_t what, const char *name,
		  uint32_t steps)
{
	struct disks crashed;
	struct faulty f;
	uint64_t random = 5;
	uint32_t states = 0;

	memset(&requests, 0, sizeof(requests));
	mount_faulty(d, &f, &requests);
	g4_dev_fault_share(f.fault[0]);
	start(d, what, name);
	for (uint32_t k = 0; k < steps; k++)
		step(d);
	expect_counts(d, f.set);
	/* with a disk lost and without, filled and not */
	const uint32_t every = (uint32_t)g4_min64(rig_setting("G4_CRASH_EVERY", 37 * rig_every(3)), requests.count / 3);
	disks_make(&crashed, d->count, d->bytes);
	for (uint32_t at = 0; at <= requests.count; at += every, states++) {
		disks_crash(&crashed, before, &f, &requests, at, &random);
		expect_crashed(&crashed, ballast, states % 2 ? 1u << states / 2 % d->count : 0,
			       1u << (states + 1) % d->count, states % 4 < 2);
	}
	print_message("%u requests, %u states\n", requests.count, states);
	assert_true(states > 3);
	disks_free(&crashed);
	disks_unmount_fs(d, f.set, true);
	g4_dev_close(f.fault[0]);
}

static void end_crashes(struct disks *d, uint8_t **before)
{
	for (uint32_t n = 0; n < d->count; n++)
		free(before[n]);
	disks_free(d);
}

static void the_power_fails_while_rows_come_back(void **state)
{
	uint8_t *before[MOST_DISKS];
	struct disks d;
	uint64_t ballast;

	(void)state;
	begin_to_fill(&d, &ballast, before);
	crash(&d, before, ballast, G4_DISK_REBALANCE, "", STEPS);
	end_crashes(&d, before);
}

static uint32_t widest(const struct g4_dev *dev)
{
	uint32_t columns = 0;
	struct g4_chunk chunk;

	for (uint32_t n = 0; g4_set_chunk(dev, n, &chunk); n++)
		columns = (uint32_t)g4_max64(columns, chunk.columns);
	return columns;
}

/* Rows on all disks, which an addition lays where a removal gave some up, are given up first. */
static void the_power_fails_while_rows_of_all_disks_are_given_up(void **state)
{
	uint8_t *before[MOST_DISKS];
	struct g4_dev *dev;
	struct disks d;
	uint64_t ballast;

	(void)state;
	format(&d, &shape, &ballast);
	disks_mount_fs(&d, all_of(&d), &dev);
	start(&d, G4_DISK_REMOVE, d.names[d.count - 1]);
	run(&d, NULL, G4_JOB_REMOVE);
	disks_unmount_fs(&d, dev, true);
	d.count--;
	add_next(&d, true);
	disks_mount_fs(&d, all_of(&d), &dev);
	assert_int_equal(widest(dev), d.count);
	disks_unmount_fs(&d, dev, true);
	keep_disks(&d, before);
	crash(&d, before, ballast, G4_DISK_REMOVE, d.names[1], STEPS);
	disks_mount_fs(&d, all_of(&d), &dev);
	assert_true(widest(dev) < d.count);
	disks_unmount_fs(&d, dev, true);
	end_crashes(&d, before);
}

/* One fails for good after so many writes: the order ends or is done, users do not notice, and all is there. */
static void a_disk_fails_while_rows_come_back(void **state)
{
	uint32_t ended = 0, without = 0;
	uint8_t *before[MOST_DISKS];
	struct disks d;
	uint64_t ballast;

	(void)state;
	begin_to_fill(&d, &ballast, before);
	for (uint32_t at = 1, which = 0; at < 60; at += (uint32_t)(7 * rig_every(3)), which = (which + 1) % d.count) {
		struct g4_fault fault = {.cut_after_writes = at, .write_through = true};
		struct faulty f;
		restore_disks(&d, before);
		mount_faulty(&d, &f, NULL);
		g4_dev_fault_share(f.fault[0]);
		g4_dev_fault_set(f.fault[which], &fault);
		int rc = order(&d, G4_DISK_REBALANCE, "");
		for (uint32_t k = 0; rc == 0 && k < STEPS && newest_of(&d, G4_JOB_REBALANCE).state == G4_JOB_RUNNING;
		     k++)
			step(&d);
		for (uint32_t n = 0; n < 3; n++)
			assert_int_equal(disks_put(&d, n, 1), 0);
		ended += rc < 0 || newest_of(&d, G4_JOB_REBALANCE).state == G4_JOB_FAILED;
		disks_expect_files(&d, 3, 1);
		expect_counts(&d, f.set);
		without += state_of(f.set, which) != G4_DISK_ACTIVE;
		disks_unmount_fs(&d, f.set, true);
		g4_dev_close(f.fault[0]);
		disks_mount(&d, all_of(&d) & ~(1u << which));
		disks_expect_files(&d, 3, 1);
		disks_expect_filled(&d, ballast, shape.ballast);
		disks_unmount(&d);
		disks_expect_clean(&d, all_of(&d) & ~(1u << which));
	}
	print_message("%u times it ended, %u times without the disk\n", ended, without);
	assert_true(ended > 0 && without > 0);
	end_crashes(&d, before);
}

/* Space that comes back is claimed at once. */
static void threads_write_while_rows_come_back(void **state)
{
	struct user users[THREADS];
	uint8_t *before[MOST_DISKS];
	struct g4_statfs gone, back;
	struct disks d;
	uint64_t ballast;
	uint32_t stop = 0;

	(void)state;
	begin_to_fill(&d, &ballast, before);
	disks_mount(&d, all_of(&d));
	assert_int_equal(op_statfs(&d.rig, &gone), 0);
	begin_users(users, &d, &stop);
	if (order_as(&d, G4_DISK_REBALANCE, "", G4_JOB_EAGER) < 0)
		fail_msg("%s", d.message);
	while (newest_of(&d, G4_JOB_REBALANCE).state == G4_JOB_RUNNING)
		disks_expect_filled(&d, ballast, shape.ballast);
	end_users(users);
	assert_int_equal(newest_of(&d, G4_JOB_REBALANCE).state, G4_JOB_DONE);
	assert_int_equal(op_statfs(&d.rig, &back), 0);
	assert_true(back.blocks > gone.blocks);
	disks_unmount(&d);
	disks_expect_clean(&d, all_of(&d));
	disks_mount(&d, all_of(&d) & ~2u);
	expect_users(users, &d);
	disks_expect_filled(&d, ballast, shape.ballast);
	disks_unmount(&d);
	end_crashes(&d, before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_that_a_cancelled_removal_gave_up_comes_back),
		cmocka_unit_test(a_new_removal_follows_one_that_was_cancelled),
		cmocka_unit_test(a_file_system_is_filled_after_a_cancel),
		cmocka_unit_test(rows_come_back_after_a_removal),
		cmocka_unit_test(the_power_fails_while_rows_come_back),
		cmocka_unit_test(the_power_fails_while_rows_of_all_disks_are_given_up),
		cmocka_unit_test(a_disk_fails_while_rows_come_back),
		cmocka_unit_test(threads_write_while_rows_come_back),
	};

	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
