/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk is removed from a mounted set of rows with parity while users write: what was synced is there with any disks lost that the level bears,
 * whatever the power does and whichever disks fail meanwhile, rows fit together, and the disk is none of the set afterwards.
 */
#include "leveled.h"
#include "moving.h"
#include "rows_moving.h"

#include <unistd.h>

#include "alloc/alloc.h"
#include "simt/simt_host.h"
#include "space/set_rows_host.h"
#include "space/set_spread_host.h"

/* Of the first two a disk that was added has room for all. Of the third all disks are full of rows, so free ones are given up. */
static const struct shape shapes[] = {
	{3, 1, 1, 88 * G4_MIB}, {4, 2, 1, 88 * G4_MIB}, {3, 1, 3, 64 * G4_MIB}, {6, 4, 1, 64 * G4_MIB}};
#define SHAPES 3u /* and the last one, where that is not too much */
#define GIVES_UP 2u

/* Whether a test whose turn is that shape's takes this one: all of them where nothing slows them down. */
static bool takes(uint32_t turn, uint32_t s)
{
	return s == turn || rig_every(2) == 1;
}

static struct g4_job_record job(struct disks *d)
{
	return newest_of(d, G4_JOB_REMOVE);
}

static void start(struct disks *d, uint32_t disk, uint32_t flags)
{
	if (order_as(d, G4_DISK_REMOVE, d->names[disk], flags) < 0)
		fail_msg("%s", d->message);
}

/* Steps to its end, with so much of users between them. How many. */
static uint32_t run(struct disks *d, struct model *m, uint32_t uses)
{
	uint32_t steps = 0;

	for (; job(d).state == G4_JOB_RUNNING; steps++) {
		for (uint32_t k = 0; k < uses; k++)
			use(m, d);
		step(d);
		assert_true(steps < 2000);
	}
	return steps;
}

static void expect_done(struct disks *d)
{
	const struct g4_job_record record = job(d);

	if (record.state != G4_JOB_DONE)
		fail_msg("it ended with state %u, %s", record.state, g4_strerror(-(int)record.code));
	assert_int_equal(record.done, record.units);
}

static uint32_t rest_of(const struct disks *d, uint32_t disk)
{
	return all_of(d) & ~(1u << disk);
}

/* The others have what the model says, and all but any that may be lost, also where all that is free was written since. Not mounted. */
static void expect_without(struct disks *d, const struct shape *shape, uint32_t disk, struct model *m, uint64_t ballast)
{
	const uint32_t rest = rest_of(d, disk);
	uint8_t *before[MOST_DISKS];
	struct g4_dev *dev;
	uint64_t small;

	assert_true(disks_try_open(d, all_of(d), true, G4_DEV_READ_ONLY, &dev) < 0);
	disks_mount_fs(d, rest, &dev);
	const uint64_t bytes = fill_in_small_pieces(d, &small);
	assert_true(bytes > 4 * G4_MIB);
	disks_unmount_fs(d, dev, true);
	keep_disks(d, before);
	for (uint32_t lost = 0, turn = 0; lost <= rest; lost++) {
		if ((uint32_t)__builtin_popcount(lost) > shape->parity || (lost & ~rest) ||
		    (shape->parity > 2 && turn++ % 7 != 0) || !disks_takes_loss(lost))
			continue;
		disks_expect_clean(d, rest & ~lost);
		disks_mount_fs(d, rest & ~lost, &dev);
		if (m)
			expect_model(m, d);
		disks_expect_filled(d, ballast, shape->ballast);
		expect_small_pieces(d, small, bytes);
		if (!lost)
			assert_int_equal(disks_scrub(d), 0);
		disks_unmount_fs(d, dev, true);
		restore_disks(d, before);
	}
	for (uint32_t n = 0; n < d->count; n++)
		free(before[n]);
}

/*
 * Whether it left. Now and then what users write lies in all parts of so small a set, and there is no room for rows in a row
 * (docs/design/redundancy.md, Rows of a mount): then nothing is lost, and all disks stay in use.
 */
static bool left_while_users_write(const struct shape *shape, uint32_t disk, bool given_up)
{
	struct model m;
	struct disks d;
	struct g4_dev *dev;
	struct g4_disk_info info;
	uint64_t ballast;

	format(&d, shape, &ballast);
	disks_mount_fs(&d, all_of(&d), &dev);
	begin_model(&m, &d);
	start(&d, disk, 0);
	assert_int_equal(order(&d, G4_DISK_REMOVE, d.names[disk]), -G4_E_BUSY);
	assert_int_equal(order(&d, G4_DISK_REBALANCE, ""), -G4_E_BUSY);
	(void)run(&d, &m, 5);
	const bool left = job(&d).state != G4_JOB_FAILED || job(&d).code != G4_E_NOSPC;
	if (left) {
		expect_done(&d);
		assert_false(g4_set_disk(dev, d.count - 1, &info));
		const uint64_t gone = g4_alloc_free_in(&d.rig.fs->alloc, G4_POOL_GONE);
		if ((gone > 0) != given_up)
			fail_msg("disk %u: %llu pages are gone", disk, (unsigned long long)gone);
	} else {
		assert_true(g4_set_disk(dev, d.count - 1, &info));
	}
	expect_model(&m, &d);
	for (uint32_t k = 0; k < 50; k++)
		use(&m, &d);
	expect_model(&m, &d);
	disks_expect_filled(&d, ballast, shape->ballast);
	assert_int_equal(disks_scrub(&d), 0);
	disks_unmount_fs(&d, dev, true);
	if (left)
		expect_without(&d, shape, disk, &m, ballast);
	else
		disks_expect_clean(&d, all_of(&d));
	end_model(&m);
	disks_free(&d);
	return left;
}

/* One set in some twenty or forty has no room: of three in a row one has. */
static void leave_while_users_write(const struct shape *shape, uint32_t disk, bool given_up)
{
	for (uint32_t sets = 0; !left_while_users_write(shape, disk, given_up); sets++)
		assert_true(sets < 2);
}

static void users_write_while_a_disk_leaves(void **state)
{
	(void)state;
	for (uint32_t s = 0; s < SHAPES;
	     s++) { /* one with the front, a later one and one that was added; or the first of those */
		const uint32_t disks = shapes[s].disks + shapes[s].added;
		for (uint32_t disk = s % 2; disk < disks && takes(2, s); disk += rig_every(1) == 1 ? disks / 2 : disks)
			leave_while_users_write(&shapes[s], disk, s == GIVES_UP);
	}
}

static void one_of_rows_with_four_parities_leaves(void **state)
{
	(void)state;
	if (takes(0, 3)) /* no turn is its own */
		leave_while_users_write(&shapes[3], 2, false);
}

/* Where rows lie here and there, and begin with any of their places. */
static void a_disk_leaves_that_a_rebalancing_has_filled(void **state)
{
	(void)state;
	for (uint32_t s = 0; s < 2; s++) {
		struct model m;
		struct disks d;
		struct g4_dev *dev;
		uint64_t ballast;
		const uint32_t disk = shapes[s].disks; /* that was added */
		if (!takes(1, s))
			continue;
		format(&d, &shapes[s], &ballast);
		disks_mount_fs(&d, all_of(&d), &dev);
		begin_model(&m, &d);
		if (order(&d, G4_DISK_REBALANCE, "") < 0)
			fail_msg("%s", d.message);
		while (newest_of(&d, G4_JOB_REBALANCE).state == G4_JOB_RUNNING)
			step(&d);
		assert_int_equal(newest_of(&d, G4_JOB_REBALANCE).state, G4_JOB_DONE);
		start(&d, disk, 0);
		assert_true(run(&d, &m, 3) > 3);
		expect_done(&d);
		assert_true(job(&d).bytes >= 2 * UNIT);
		disks_unmount_fs(&d, dev, true);
		expect_without(&d, &shapes[s], disk, &m, ballast);
		end_model(&m);
		disks_free(&d);
	}
}

/* Of a file system that is not mounted: rows go as a whole where they can, and in pieces where free ones have to be given up. */
static void a_disk_leaves_while_nobody_uses_it(void **state)
{
	(void)state;
	for (uint32_t s = 0; s < SHAPES; s++) {
		const uint32_t disk = s % 2;
		uint64_t ballast, bytes = 0;
		struct disks d;
		if (!takes(0, s))
			continue;
		format(&d, &shapes[s], &ballast);
		struct g4_dev *dev = open_all(&d);
		if (g4_remove_disk(dev, d.names[disk], NULL, &bytes, d.message, sizeof(d.message)) < 0)
			fail_msg("shape %u: %s", s, d.message);
		assert_in_range(bytes, shapes[s].ballast, 5 * ROWS_BYTES);
		g4_dev_close(dev);
		expect_without(&d, &shapes[s], disk, NULL, ballast);
		disks_free(&d);
	}
}

static void threads_write_while_a_disk_leaves(void **state)
{
	(void)state;
	for (uint32_t s = 0; s < SHAPES; s++) {
		const uint32_t disk = s % 3;
		struct user users[THREADS];
		struct disks d;
		uint64_t ballast;
		uint32_t stop = 0;
		if (!takes(0, s))
			continue;
		format(&d, &shapes[s], &ballast);
		disks_mount(&d, all_of(&d));
		begin_users(users, &d, &stop);
		start(&d, disk, G4_JOB_EAGER);
		while (job(&d).state == G4_JOB_RUNNING) {
			disks_expect_filled(&d, ballast, shapes[s].ballast);
			usleep(1000);
		}
		end_users(users);
		expect_done(&d);
		disks_unmount(&d);
		const uint32_t rest = rest_of(&d, disk),
			       lost = disk == 1 ? 5u : 8u; /* two of two parities, one of one */
		disks_expect_clean(&d, rest);
		disks_mount(&d, rest & ~lost);
		disks_expect_filled(&d, ballast, shapes[s].ballast);
		expect_users(users, &d);
		disks_unmount(&d);
		disks_free(&d);
	}
}

/* ---- the map of regions ---- */

/* Of all rows that are there, by their addresses. */
static uint64_t print_of_map(const struct g4_set *set, uint64_t *rows, uint64_t *made)
{
	uint64_t print = 0;

	*rows = *made = 0;
	for (uint32_t n = 0; n < set->map.count; n++) {
		const struct g4_chunk *chunk = &set->chunks[n];
		for (uint64_t r = 0; chunk->parity && r < g4_set_log_regions(chunk); r++) {
			const uint64_t bit = g4_set_log_region(set, chunk, r),
				       address = chunk->address + r * UNIT * g4_chunk_data_columns(chunk);
			print += (address / G4_MIB + 1) * (bit + 1) * UINT64_C(0x9e3779b97f4a7c15);
			*made += set->parity->made[bit / 8] >> bit % 8 & 1;
			++*rows;
		}
	}
	return print;
}

/* Rows that are given up keep their bits, so those of all others stay what they were; and say nothing, for others lie there since. */
static void rows_behind_those_that_are_given_up_keep_their_bits(void **state)
{
	struct disks d;
	struct g4_dev *dev;
	uint64_t ballast, rows, made, before_rows, before_made, gone = 0;

	(void)state;
	format(&d, &shapes[GIVES_UP], &ballast);
	disks_mount_fs(&d, all_of(&d), &dev);
	const struct g4_set *set = (const struct g4_set *)dev->host;
	const uint64_t regions = set->parity->regions;
	(void)print_of_map(set, &before_rows, &before_made);
	assert_int_equal(before_rows, regions);
	start(&d, 0, 0);
	(void)run(&d, NULL, 0);
	expect_done(&d);
	const uint64_t print = print_of_map(set, &rows, &made);
	assert_true(rows < before_rows);
	assert_int_equal(set->parity->regions, regions);
	for (uint32_t n = 0; n < set->map.count; n++)
		gone += g4_chunk_is_gone(&set->chunks[n]) ? g4_set_log_regions(&set->chunks[n]) : 0;
	assert_int_equal(gone + rows, regions);
	assert_true(made > 0);
	disks_unmount_fs(&d, dev, true);
	disks_mount_fs(&d, rest_of(&d, 0), &dev);
	set = (const struct g4_set *)dev->host;
	uint64_t rows_now, made_now;
	assert_int_equal(print_of_map(set, &rows_now, &made_now), print);
	assert_int_equal(rows_now, rows);
	assert_int_equal(made_now, made);
	assert_int_equal(set->parity->regions, regions);
	/* what is gone stays gone, though others are laid anew */
	if (order(&d, G4_DISK_REBALANCE, "") < 0)
		fail_msg("%s", d.message);
	while (newest_of(&d, G4_JOB_REBALANCE).state == G4_JOB_RUNNING)
		step(&d);
	assert_int_equal(newest_of(&d, G4_JOB_REBALANCE).state, G4_JOB_DONE);
	assert_int_equal(set->parity->regions, regions);
	disks_unmount_fs(&d, dev, true);
	expect_without(&d, &shapes[GIVES_UP], 0, NULL, ballast);
	disks_free(&d);
}

/* ---- tables ---- */

/* Where several disks have room what is moved is cut into parts of the address space, not into pieces that are moved at once. */
static void what_is_moved_goes_to_one_disk_for_a_while(void **state)
{
	struct g4_wg *wg = g4_wg_create(0);
	struct g4_dev_order next = {.op = G4_ORDER_LEAVE_NEXT};
	uint64_t sizes[MOST_DISKS];
	struct g4_disk_info info;
	uint32_t moves = 0;
	struct disks d;

	(void)state;
	for (uint32_t n = 0; n < MOST_DISKS; n++)
		sizes[n] = 4096 * G4_MIB; /* nothing is written to most of it */
	disks_make(&d, 5, sizes);
	d.count = 3;
	disks_format_rows(&d, 1, G4_CHECKSUM_NONE);
	add_next(&d, true);
	add_next(&d, true);
	struct g4_dev *dev = open_all(&d);
	struct g4_set *set = (struct g4_set *)dev->host;
	assert_true(g4_set_disk(dev, 0, &info));
	for (;; moves++) {
		uint64_t moved = 0, bytes;
		memcpy(&next.done, info.uuid, sizeof(next.done));
		memcpy(&next.all, info.uuid + sizeof(next.done), sizeof(next.all));
		assert_int_equal(g4_dev_order(wg, dev, &next), 0);
		if (next.bytes == 0)
			break;
		const struct g4_chunk *chunk = g4_chunk_find(&set->map, next.done);
		assert_int_equal(next.disk, G4_ROOM_FOR_ALL);
		bytes = g4_min64(next.bytes, UNIT * g4_chunk_data_columns(chunk)); /* as if more were in use behind */
		assert_int_equal(g4_set_spread_move(wg, set, true, &bytes, &moved), 0);
		assert_true(moved > 0);
	}
	assert_true(moves > 400);
	if (set->map.count > 256)
		fail_msg("%u moves left %u chunks", moves, set->map.count);
	for (uint32_t n = 3; n < 5; n++) { /* and both have some */
		uint64_t places = 0;
		for (uint32_t c = 0; c < set->map.count; c++)
			for (uint32_t k = 0; k < (uint32_t)set->chunks[c].columns * set->chunks[c].copies; k++)
				places += g4_place_disk(set->chunks[c].places[k]) == n ? set->chunks[c].place_bytes : 0;
		assert_in_range(places, 1536 * G4_MIB, 2560 * G4_MIB);
	}
	g4_dev_close(dev);
	g4_wg_destroy(wg);
	disks_free(&d);
}

/* ---- interruptions ---- */

static void it_goes_on_after_a_pause_and_an_unmount(void **state)
{
	struct g4_cmd set = {.op = G4_CMD_JOB_SET, .mask = G4_JOB_PAUSE};

	(void)state;
	for (uint32_t s = 0; s < SHAPES; s++) {
		struct model m;
		struct disks d;
		struct g4_dev *dev;
		uint64_t ballast;
		if (!takes(0, s))
			continue;
		format(&d, &shapes[s], &ballast);
		disks_mount_fs(&d, all_of(&d), &dev);
		begin_model(&m, &d);
		start(&d, 1, 0);
		step(&d);
		step(&d);
		set.mask = G4_JOB_PAUSE;
		set.number = job(&d).number;
		assert_int_equal(g4_execute(d.rig.wg, d.rig.fs, &set), 0);
		const struct g4_job_record paused = job(&d);
		assert_true(paused.done > 0 && paused.done < paused.units);
		step(&d);
		assert_int_equal(job(&d).done, paused.done);
		disks_unmount_fs(&d, dev, true);
		disks_mount_fs(&d, all_of(&d), &dev);
		assert_int_equal(job(&d).state, G4_JOB_PAUSED);
		set.mask = G4_JOB_RESUME;
		assert_int_equal(g4_execute(d.rig.wg, d.rig.fs, &set), 0);
		for (uint32_t k = 0; k < 20; k++)
			use(&m, &d);
		step(&d);
		disks_unmount_fs(&d, dev, true);
		disks_mount_fs(&d, all_of(&d), &dev);
		(void)run(&d, &m, 1);
		expect_done(&d);
		disks_unmount_fs(&d, dev, true);
		expect_without(&d, &shapes[s], 1, &m, ballast);
		end_model(&m);
		disks_free(&d);
	}
}

/* After a cancel all is there, with any disk lost, and the same disk or another one can go. */
static void one_that_is_cancelled_leaves_all_disks_in_use(void **state)
{
	struct g4_cmd set = {.op = G4_CMD_JOB_SET, .mask = G4_JOB_CANCEL};

	(void)state;
	for (uint32_t s = 0; s < SHAPES; s++) {
		const uint32_t next = 1 + s % 2;
		struct model m;
		struct disks d;
		struct g4_dev *dev;
		uint64_t ballast;
		if (!takes(1, s))
			continue;
		format(&d, &shapes[s], &ballast);
		disks_mount_fs(&d, all_of(&d), &dev);
		begin_model(&m, &d);
		start(&d, 1, 0);
		for (uint32_t k = 0; k < 6; k++) {
			use(&m, &d);
			step(&d);
		}
		set.number = job(&d).number;
		assert_int_equal(g4_execute(d.rig.wg, d.rig.fs, &set), 0);
		const struct g4_job_record cancelled = job(&d);
		assert_int_equal(cancelled.state, G4_JOB_CANCELLED);
		step(&d);
		assert_int_equal(job(&d).done, cancelled.done);
		for (uint32_t k = 0; k < 20; k++)
			use(&m, &d);
		disks_unmount_fs(&d, dev, true);
		disks_expect_clean(&d, all_of(&d));
		uint8_t *before[MOST_DISKS];
		keep_disks(&d, before);
		for (uint32_t lost = 0; lost < d.count; lost++) {
			if (!disks_takes_loss(1u << lost))
				continue;
			disks_mount_fs(&d, all_of(&d) & ~(1u << lost), &dev);
			expect_model(&m, &d);
			disks_expect_filled(&d, ballast, shapes[s].ballast);
			disks_unmount_fs(&d, dev, true);
			restore_disks(&d, before);
		}
		for (uint32_t n = 0; n < d.count; n++)
			free(before[n]);
		disks_mount_fs(&d, all_of(&d), &dev);
		start(&d, next, 0);
		(void)run(&d, &m, 1);
		expect_done(&d);
		disks_unmount_fs(&d, dev, true);
		expect_without(&d, &shapes[s], next, &m, ballast);
		end_model(&m);
		disks_free(&d);
	}
}

static bool has_label(struct disks *d, uint32_t disk)
{
	uint8_t zeros[64] = {0};

	return memcmp(d->memory[disk] + G4_SUPERBLOCK_ADDRESS, zeros, sizeof(zeros)) != 0;
}

/* With it, or where it is out already without it. True: with it. */
static bool mount_either(struct disks *d, uint32_t disk, uint32_t lost, uint32_t s, uint32_t at)
{
	const uint32_t all = all_of(d) & ~lost;

	if (disks_try_mount(d, all, lost != 0) == 0)
		return true;
	if (disks_try_mount(d, all & ~(1u << disk), lost != 0) < 0)
		fail_msg("shape %u, after %u requests without %x: %s", s, at, lost, d->message);
	return false;
}

#define END_REQUESTS 96u /* that the last switch has, and what follows it, about */

/* Steps of `every` on the way, of `more` in the end, which begins and ends with one. */
static uint32_t next_cut(uint32_t at, uint32_t every, uint32_t more, uint32_t count)
{
	const uint32_t end = count > END_REQUESTS ? count - END_REQUESTS : 0;

	if (at == count)
		return count + 1;
	return (uint32_t)(at < end ? g4_min64(at + every, end) : g4_min64(at + more, count));
}

/* The sets of others that the level does without, by turns; the disk itself is none of them. */
static uint32_t lost_in_turn(const struct disks *d, const struct shape *shape, uint32_t disk, uint32_t turn)
{
	uint32_t lost = 0;

	do
		lost = lost_of(d, shape, turn++ % lost_sets(d, shape));
	while (lost == 0 || (lost >> disk & 1));
	return lost;
}

struct crashing {
	const struct shape *shape;
	uint32_t s, disk;
	struct disks d, crashed;
	struct synced synced;
	uint8_t *before[MOST_DISKS];
	struct faulty f;
	uint64_t ballast, random;
	uint32_t without, again;
};
static struct disks_order requests;

/* The order, with files that are put, durably, between its steps and after the last. */
static void record_order(struct crashing *c)
{
	format(&c->d, c->shape, &c->ballast);
	keep_disks(&c->d, c->before);
	memset(&requests, 0, sizeof(requests));
	mount_faulty(&c->d, &c->f, &requests);
	g4_dev_fault_share(c->f.fault[c->disk]);
	start(&c->d, c->disk, 0);
	for (uint32_t after = 0; after < 2 && c->synced.count < MOST_SYNCED;) {
		assert_int_equal(disks_put(&c->d, c->synced.count, 1), 0);
		c->synced.at[c->synced.count++] = requests.count;
		if (job(&c->d).state == G4_JOB_RUNNING)
			step(&c->d);
		else
			after++;
	}
	while (job(&c->d).state == G4_JOB_RUNNING)
		step(&c->d);
	expect_done(&c->d);
	disks_make(&c->crashed, c->d.count, c->d.bytes);
}

static void expect_contents(struct crashing *c, uint32_t files)
{
	disks_expect_files(&c->crashed, files, 1);
	disks_expect_filled(&c->crashed, c->ballast, c->shape->ballast);
}

/* It goes on, or is given again where no record of it was durable; rows fit together, and any of the rest may be lost. */
static void go_on(struct crashing *c, uint32_t files, uint32_t turn)
{
	const uint32_t rest = rest_of(&c->crashed, c->disk);
	struct g4_dev *dev;

	disks_mount_fs(&c->crashed, all_of(&c->crashed), &dev);
	if (job(&c->crashed).state != G4_JOB_RUNNING)
		start(&c->crashed, c->disk, 0);
	(void)run(&c->crashed, NULL, 0);
	expect_done(&c->crashed);
	c->again++;
	assert_int_equal(disks_scrub(&c->crashed), 0);
	disks_unmount_fs(&c->crashed, dev, true);
	disks_expect_clean(&c->crashed, rest);
	disks_mount(&c->crashed, rest & ~lost_in_turn(&c->crashed, c->shape, c->disk, turn));
	expect_contents(c, files);
	disks_unmount(&c->crashed);
}

/* What is there after so many requests, without some disks or with all, and without some afterwards. */
static void expect_crashed(struct crashing *c, uint32_t at, uint32_t turn)
{
	const uint32_t lost = turn % 2 ? lost_in_turn(&c->d, c->shape, c->disk, turn / 2) : 0;
	uint32_t files = 0;

	while (files < c->synced.count && c->synced.at[files] <= at)
		files++;
	disks_crash(&c->crashed, c->before, &c->f, &requests, at, &c->random);
	const bool with = mount_either(&c->crashed, c->disk, lost, c->s, at);
	const uint32_t all = with ? all_of(&c->d) : rest_of(&c->d, c->disk);
	c->without += !with;
	expect_contents(c, files);
	assert_int_equal(disks_put(&c->crashed, MOST_SYNCED, 1), 0); /* and it is written to */
	/* also all that is free, of which some lay elsewhere in the table that did not come to count */
	uint64_t small = 0;
	const uint64_t bytes = turn % 8 == 0 ? fill_in_small_pieces(&c->crashed, &small) : 0;
	disks_unmount(&c->crashed);
	/* a mount of all goes on with it, and may have come to its end */
	const bool is_out = !with || !has_label(&c->crashed, c->disk);
	const uint32_t there = all & ~(is_out ? 1u << c->disk : 0);
	disks_expect_clean(&c->crashed, there & ~lost);
	if (!lost && !is_out && bytes == 0 && turn % 4 == 2) {
		go_on(c, files, turn);
		return;
	}
	disks_mount(&c->crashed, there & ~(lost ? lost : lost_in_turn(&c->d, c->shape, c->disk, turn)));
	expect_contents(c, files);
	expect_small_pieces(&c->crashed, small, bytes);
	disks_unmount(&c->crashed);
}

static void the_power_fails_at_any_request(void **state)
{
	uint32_t states = 0, without = 0, again = 0;

	(void)state;
	for (uint32_t s = 0; s < SHAPES; s++) {
		const uint32_t every = (uint32_t)rig_setting("G4_CRASH_EVERY", 61 * rig_every(3)),
			       more = every / 14 + 1;
		struct crashing c = {.shape = &shapes[s], .s = s, .disk = s % 2, .random = 1 + s};
		if (!takes(2, s) || !(rig_setting("G4_CRASH_SHAPES", UINT32_MAX) >> s & 1))
			continue;
		record_order(&c);
		print_message("shape %u: %u requests, %u files\n", s, requests.count, c.synced.count);
		for (uint32_t at = s % every, turn = s; at <= requests.count;
		     at = next_cut(at, every, more, requests.count), turn++, states++)
			expect_crashed(&c, at, turn);
		without += c.without;
		again += c.again;
		disks_free(&c.crashed);
		disks_unmount_fs(&c.d, c.f.set, true);
		g4_dev_close(c.f.fault[c.disk]);
		for (uint32_t n = 0; n < c.d.count; n++)
			free(c.before[n]);
		disks_free(&c.d);
	}
	print_message("%u states, %u without the disk; %u times it went on\n", states, without, again);
	assert_true(without > 0 && again > 0);
}

/* As many disks as there are parities fail for good, each after so many of its writes; users do not notice, and all is there. */
static void disks_fail_meanwhile(void **state)
{
	uint32_t failed = 0, done = 0;

	(void)state;
	for (uint32_t s = 0; s < SHAPES; s++) {
		uint8_t *before[MOST_DISKS];
		uint64_t ballast;
		struct disks d;
		if (!takes(1, s) || !(rig_setting("G4_CRASH_SHAPES", UINT32_MAX) >> s & 1))
			continue;
		format(&d, &shapes[s], &ballast);
		keep_disks(&d, before);
		for (uint32_t which = 0; which < d.count; which++)
			for (uint32_t at = 1 + which, over = 0; !over;
			     at += (uint32_t)rig_setting("G4_FAULT_EVERY", 47 * rig_every(3))) {
				uint32_t files = 0, faulty = 0;
				struct faulty f;
				restore_disks(&d, before);
				mount_faulty(&d, &f, NULL);
				g4_dev_fault_share(f.fault[0]);
				for (uint32_t k = 0; k < shapes[s].parity; k++) {
					struct g4_fault fault = {.cut_after_writes = at + 17 * k,
								 .write_through = true};
					g4_dev_fault_set(f.fault[(which + 2 * k) % d.count], &fault);
					faulty |= 1u << (which + 2 * k) % d.count;
				}
				int rc = order(&d, G4_DISK_REMOVE, d.names[0]);
				while (rc == 0 && job(&d).state == G4_JOB_RUNNING) {
					rc = files < MOST_SYNCED ? disks_put(&d, files, 1) : 0;
					files += rc == 0 && files < MOST_SYNCED;
					step(&d);
				}
				for (uint32_t k = 0; rc == 0 && k < 3 && files < MOST_SYNCED; k++) {
					rc = disks_put(&d, files, 1);
					files += rc == 0;
				}
				if (rc < 0)
					fail_msg("shape %u, disk %u, %u writes: %s", s, which, at, g4_strerror(rc));
				over = job(&d).state == G4_JOB_DONE;
				if (over)
					done++;
				else
					failed++;
				disks_expect_files(&d, files, 1);
				disks_unmount_fs(&d, f.set, true);
				g4_dev_close(f.fault[0]);
				/* those that failed may be a set by themselves */
				if (disks_try_mount(&d, all_of(&d) & ~faulty, true) < 0 &&
				    disks_try_mount(&d, rest_of(&d, 0) & ~faulty, true) < 0)
					fail_msg("shape %u, disk %u, %u writes: %s", s, which, at, d.message);
				disks_expect_files(&d, files, 1);
				disks_expect_filled(&d, ballast, shapes[s].ballast);
				disks_unmount(&d);
			}
		for (uint32_t n = 0; n < d.count; n++)
			free(before[n]);
		disks_free(&d);
	}
	print_message("%u times it ended, %u times it was done\n", failed, done);
	assert_true(failed > 0 && done > 0);
}

/* ---- what is refused ---- */

static void expect_refused(struct disks *d, const char *name, int code, const char *words)
{
	assert_int_equal(order(d, G4_DISK_REMOVE, name), code);
	if (!strstr(d->message, words))
		fail_msg("'%s' has not '%s'", d->message, words);
	assert_int_equal(job(d).kind, G4_JOB_NONE);
}

static void what_can_not_be_done_is_told(void **state)
{
	static const struct shape narrow = {3, 1, 0, 8 * G4_MIB};
	struct g4_chunk before, after;
	struct g4_dev *dev;
	uint64_t ballast, file;
	struct disks d;

	(void)state;
	format(&d, &narrow, &ballast);
	disks_mount_fs(&d, all_of(&d), &dev);
	assert_true(g4_set_chunk(dev, 1, &before));
	expect_refused(&d, d.names[1], -G4_E_INVAL, "lies on all of its disks");
	assert_true(g4_set_chunk(dev, 1, &after));
	assert_memory_equal(&after, &before, sizeof(before));
	disks_unmount_fs(&d, dev, true);
	disks_free(&d);

	format(&d, &shapes[GIVES_UP], &ballast);
	disks_mount_fs(&d, all_of(&d), &dev);
	const uint64_t bytes = disks_fill(&d, &file);
	expect_refused(&d, d.names[1], -G4_E_NOSPC, "are missing");
	disks_expect_filled(&d, file, bytes);
	disks_unmount_fs(&d, dev, true);
	disks_free(&d);

	/* what begins meanwhile ends it, and nothing is lost */
	format(&d, &shapes[0], &ballast);
	disks_mount_fs(&d, all_of(&d), &dev);
	start(&d, 0, 0);
	step(&d);
	begin(&d, G4_DISK_OFFLINE, 1);
	(void)run(&d, NULL, 0);
	assert_int_equal(job(&d).state, G4_JOB_FAILED);
	assert_int_equal(job(&d).code, G4_E_BUSY);
	disks_expect_filled(&d, ballast, shapes[0].ballast);
	disks_unmount_fs(&d, dev, true);
	disks_free(&d);
}

/* Whether there is a file, and all of it lies between two addresses. */
static bool lies_between(struct disks *d, uint64_t ino, uint64_t from, uint64_t to)
{
	struct g4_map_extent extents[64];
	uint32_t count = 0;

	if (op_map(&d->rig, ino, 0, extents, 64, &count) == -G4_E_STALE)
		return false;
	assert_true(count > 0);
	for (uint32_t e = 0; e < count; e++)
		if (extents[e].address < from || extents[e].address + extents[e].length > to)
			return false;
	return true;
}

#define MOST_FILES 512u
/* Files of a MiB, as many as there is room for. How many. */
static uint32_t fill_with_files(struct disks *d, uint64_t *inos)
{
	uint8_t *data = rig_memory(G4_MIB, 5);
	uint64_t done = G4_MIB;
	uint32_t count = 0;
	char name[16];

	for (; done == G4_MIB && count < MOST_FILES; count++) {
		snprintf(name, sizeof(name), "n%u", count);
		if (op_mknod(&d->rig, G4_NODE_ROOT, name, G4_S_IFREG | 0644, &inos[count]) < 0)
			break;
		if (op_write(&d->rig, inos[count], 0, 0, data, G4_MIB, &done) < 0)
			done = 0;
	}
	assert_true(count > 0 && count < MOST_FILES);
	assert_int_equal(op_sync(&d->rig), 0);
	free(data);
	return done == G4_MIB ? count : count - 1; /* the last one is none of a MiB */
}

/* Those between two addresses are deleted. */
static void delete_between(struct disks *d, const uint64_t *inos, uint32_t count, uint64_t from, uint64_t to,
			   struct g4_dev **dev)
{
	char name[16];

	for (uint32_t n = 0; n < count; n++) {
		snprintf(name, sizeof(name), "n%u", n);
		if (lies_between(d, inos[n], from, to))
			assert_int_equal(op_unlink(&d->rig, G4_NODE_ROOT, name), 0);
	}
	disks_unmount_fs(d, *dev, true);
	disks_mount_fs(d, all_of(d), dev);
}

/* Free space is room where what has to move may go: rows of which the disk has a part have others on the disks beside it already. */
static void what_is_free_where_rows_may_not_go_is_no_room(void **state)
{
	static const struct shape empty = {3, 1, 3, 0};
	static uint64_t inos[MOST_FILES];
	struct g4_chunk chunk = {.parity = 0}, other = {.parity = 0};
	struct g4_dev *dev;
	struct disks d;
	uint64_t ballast;

	(void)state;
	format(&d, &empty, &ballast);
	disks_mount_fs(&d, all_of(&d), &dev);
	const uint32_t count = fill_with_files(&d, inos);
	for (uint32_t n = 0; g4_set_chunk(dev, n, &chunk); n++)
		if (chunk.parity && g4_place_disk(chunk.places[0]) == 2 && chunk.place_bytes > 6 * UNIT)
			other = chunk; /* the first rows, of the first three disks */
	for (uint32_t n = 0; g4_set_chunk(dev, n, &chunk) && g4_place_disk(chunk.places[0]) != 5; n++)
		;
	assert_true(other.parity > 0 && chunk.place_bytes > 6 * UNIT && chunk.columns == 3);
	delete_between(&d, inos, count, chunk.address + chunk.bytes / 3, chunk.address + chunk.bytes, &dev);
	expect_refused(&d, d.names[3], -G4_E_NOSPC, "are missing");
	assert_int_equal(g4_alloc_free_in(&d.rig.fs->alloc, G4_POOL_GONE), 0);
	/* as much on the others is room for all of it */
	delete_between(&d, inos, count, other.address, other.address + other.bytes, &dev);
	start(&d, 3, 0);
	(void)run(&d, NULL, 0);
	expect_done(&d);
	disks_unmount_fs(&d, dev, true);
	disks_expect_clean(&d, rest_of(&d, 3));
	disks_free(&d);
}

/* What is written meanwhile takes the room: it ends, tells so, and nothing is lost. */
static void a_file_system_that_gets_full_meanwhile_keeps_the_disk(void **state)
{
	struct disks d;
	struct g4_dev *dev;
	uint64_t ballast, file;

	(void)state;
	format(&d, &shapes[GIVES_UP], &ballast);
	disks_mount_fs(&d, all_of(&d), &dev);
	start(&d, 0, 0);
	step(&d);
	const uint64_t bytes = disks_fill(&d, &file);
	(void)run(&d, NULL, 0);
	assert_int_equal(job(&d).state, G4_JOB_FAILED);
	assert_int_equal(job(&d).code, G4_E_NOSPC);
	disks_expect_filled(&d, file, bytes);
	disks_unmount_fs(&d, dev, true);
	disks_expect_clean(&d, all_of(&d));
	for (uint32_t lost = 0; lost < d.count; lost++) {
		struct g4_dev *without;
		assert_int_equal(disks_try_open(&d, all_of(&d) & ~(1u << lost), true, G4_DEV_READ_ONLY, &without), 0);
		disks_begin_fs(&d, without, G4_FS_READ_ONLY);
		disks_expect_filled(&d, file, bytes);
		disks_expect_filled(&d, ballast, shapes[GIVES_UP].ballast);
		disks_unmount_fs(&d, without, false);
	}
	disks_free(&d);
}

/* ---- sets of copies with rows of another level ---- */

/* A disk more, and something in copies and in rows of what was assigned: of so many bytes, or of all that was left. */
static void begin_with_rows(struct world *w, uint64_t most, uint64_t *ballast, uint64_t *in_rows)
{
	uint8_t *data = rig_memory(G4_MIB, 5);
	uint64_t done = 0;

	begin_sized(w, G4_CHECKSUM_CRC32C, most, 48 * G4_MIB);
	assert_int_equal(op_mknod(&w->d.rig, G4_NODE_ROOT, "ballast", G4_S_IFREG | 0644, ballast), 0);
	assert_int_equal(op_mknod(&w->d.rig, w->dir, "rows", G4_S_IFREG | 0644, in_rows), 0);
	for (uint64_t at = 0; at < 8 * G4_MIB; at += G4_MIB) {
		assert_int_equal(op_write(&w->d.rig, *ballast, 0, at, data, G4_MIB, &done), 0);
		assert_int_equal(op_write(&w->d.rig, *in_rows, 0, at, data, G4_MIB, &done), 0);
	}
	disks_unmount_fs(&w->d, w->set, true);
	add_next(&w->d, true);
	mount_world(w);
	free(data);
}

static void expect_with_rows(struct world *w, uint32_t which, uint64_t ballast, uint64_t in_rows)
{
	struct g4_dev *dev;

	disks_expect_clean(&w->d, which);
	if (disks_try_open(&w->d, which, true, G4_DEV_READ_ONLY, &dev) < 0)
		fail_msg("%s", w->d.message);
	disks_begin_fs(&w->d, dev, G4_FS_READ_ONLY);
	disks_expect_filled(&w->d, ballast, 8 * G4_MIB);
	disks_expect_filled(&w->d, in_rows, 8 * G4_MIB);
	disks_unmount_fs(&w->d, dev, false);
}

static void rows_of_another_level_leave_as_well(void **state)
{
	uint8_t *data = rig_memory(G4_MIB, 5);
	uint64_t ballast, in_rows, done = 0;
	struct g4_disk_info info;
	const uint32_t disk = 1;
	struct world w;

	(void)state;
	begin_with_rows(&w, 0, &ballast, &in_rows);
	start(&w.d, disk, 0);
	for (uint32_t k = 0; job(&w.d).state == G4_JOB_RUNNING; k++) {
		assert_int_equal(disks_put(&w.d, k % 10, 1), 0);
		assert_int_equal(op_write(&w.d.rig, in_rows, 0, k % 5 * G4_MIB, data, 3 * G4_PAGE_BYTES, &done), 0);
		step(&w.d); /* which is to find rows that are held */
	}
	expect_done(&w.d);
	assert_false(g4_set_disk(w.set, w.d.count - 1, &info));
	assert_int_equal(disks_scrub(&w.d), 0);
	disks_unmount_fs(&w.d, w.set, true);
	const uint32_t rest = rest_of(&w.d, disk);
	expect_with_rows(&w, rest, ballast, in_rows);
	for (uint32_t lost = 0; lost < w.d.count; lost++)
		if (lost != disk)
			expect_with_rows(&w, rest & ~(1u << lost), ballast, in_rows);
	free(data);
	free_world(&w);
}

/* Rows go where 8 MiB are in a row. What is free in smaller pieces is not given up for them in vain, but for some of what the disk itself had. */
static void little_is_given_up_for_rows_that_have_no_room_then(void **state)
{
	uint64_t ballast, in_rows;
	struct world w;

	(void)state;
	begin_with_rows(&w, 16 * G4_MIB, &ballast, &in_rows);
	const uint64_t idle = g4_alloc_free_in(&w.d.rig.fs->alloc, G4_LEVEL_OWN);
	start(&w.d, 1, 0);
	(void)run(&w.d, NULL, 0);
	assert_int_equal(job(&w.d).state, G4_JOB_FAILED);
	assert_int_equal(job(&w.d).code, G4_E_NOSPC);
	assert_true(g4_alloc_free_in(&w.d.rig.fs->alloc, G4_POOL_GONE) < idle / 4);
	disks_unmount_fs(&w.d, w.set, true);
	expect_with_rows(&w, all_of(&w.d), ballast, in_rows);
	free_world(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(users_write_while_a_disk_leaves),
		cmocka_unit_test(one_of_rows_with_four_parities_leaves),
		cmocka_unit_test(a_disk_leaves_that_a_rebalancing_has_filled),
		cmocka_unit_test(a_disk_leaves_while_nobody_uses_it),
		cmocka_unit_test(threads_write_while_a_disk_leaves),
		cmocka_unit_test(rows_behind_those_that_are_given_up_keep_their_bits),
		cmocka_unit_test(what_is_moved_goes_to_one_disk_for_a_while),
		cmocka_unit_test(it_goes_on_after_a_pause_and_an_unmount),
		cmocka_unit_test(one_that_is_cancelled_leaves_all_disks_in_use),
		cmocka_unit_test(the_power_fails_at_any_request),
		cmocka_unit_test(disks_fail_meanwhile),
		cmocka_unit_test(what_can_not_be_done_is_told),
		cmocka_unit_test(what_is_free_where_rows_may_not_go_is_no_room),
		cmocka_unit_test(a_file_system_that_gets_full_meanwhile_keeps_the_disk),
		cmocka_unit_test(rows_of_another_level_leave_as_well),
		cmocka_unit_test(little_is_given_up_for_rows_that_have_no_room_then),
	};
	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
