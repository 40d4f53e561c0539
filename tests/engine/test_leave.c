/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk is removed from a mounted set while users write: what they write is right on what was moved and on what was not, whatever the power
 * does and whichever disk fails meanwhile, the order goes on after an unmount, and the disk is none of the set afterwards.
 */
#include "moving.h"
#include "rebuilding.h"
#include "removing.h"

#include <unistd.h>

#include "alloc/alloc.h"
#include "dev/dev_ops_host.h"
#include "simt/simt_host.h"
#include "space/set_epoch_host.h"
#include "space/set_spread_host.h"

#define BYTES (24 * G4_MIB)
#define BALLAST_BYTES (6 * G4_MIB)

struct shape {
	enum g4_raid raid;
	uint32_t disks, copies; /* a disk that mkfs is not given is room for what is moved */
	uint32_t added;
	bool redundant;
};
/* The first three have no room but what is free of the file system. */
static const struct shape shapes[] = {{G4_RAID_1, 4, 2, 0, true},
				      {G4_RAID_NONE, 3, 0, 0, false},
				      {G4_RAID_0, 3, 0, 0, false},
				      {G4_RAID_1, 2, 2, 1, true}};
#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))

/* ---- sets ---- */

static uint32_t disks_of(const struct shape *shape)
{
	return shape->disks + shape->added;
}

/* With an old file, so that all disks have something. Not mounted. */
static void format(struct disks *d, const struct shape *shape, uint64_t *ballast)
{
	const struct g4_set_plan plan = {.raid = shape->raid,
					 .copies = shape->copies,
					 .stripe_bytes = 16 * 1024,
					 .journal_bytes = JOURNAL_BYTES};
	uint8_t *data = rig_memory(G4_MIB, 5); /* as disks_fill() */
	uint64_t sizes[MOST_DISKS], done = 0;
	struct g4_dev *dev;

	for (uint32_t n = 0; n < MOST_DISKS; n++)
		sizes[n] = BYTES;
	disks_make(d, disks_of(shape), sizes);
	d->count = shape->disks;
	disks_format_plan(d, &plan, G4_CHECKSUM_CRC32C);
	while (d->count < disks_of(shape))
		add_next(d, true);
	disks_mount_fs(d, all_of(d), &dev);
	assert_int_equal(op_mknod(&d->rig, G4_NODE_ROOT, "ballast", G4_S_IFREG | 0644, ballast), 0);
	for (uint64_t at = 0; at < BALLAST_BYTES; at += G4_MIB)
		assert_int_equal(op_write(&d->rig, *ballast, 0, at, data, G4_MIB, &done), 0);
	disks_unmount_fs(d, dev, true);
	free(data);
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

/* These are all disks of the set, and have all of it; with copies all but any one. The one that left is refused. Not mounted. */
static void expect_without(struct disks *d, const struct shape *shape, uint32_t disk, struct model *m, uint64_t ballast)
{
	const uint32_t rest = all_of(d) & ~(1u << disk);
	uint8_t *before[MOST_DISKS];
	struct g4_dev *dev;

	keep_disks(d, before);
	assert_true(disks_try_open(d, all_of(d), true, G4_DEV_READ_ONLY, &dev) < 0);
	for (uint32_t lost = 0; lost <= (shape->redundant ? d->count : 0); lost++) {
		const uint32_t which = lost ? rest & ~(1u << (lost - 1)) : rest;
		if (lost == disk + 1 || !disks_takes_loss(rest & ~which))
			continue;
		disks_expect_clean(d, which);
		disks_mount_fs(d, which, &dev);
		if (m)
			expect_model(m, d);
		disks_expect_filled(d, ballast, BALLAST_BYTES);
		if (!lost)
			assert_int_equal(disks_scrub(d), 0);
		disks_unmount_fs(d, dev, true);
		restore_disks(d, before);
	}
	for (uint32_t n = 0; n < d->count; n++)
		free(before[n]);
}

static void users_write_while_a_disk_leaves(void **state)
{
	(void)state;
	for (uint32_t s = 0; s < SHAPES; s++) {
		uint64_t copied = 0;
		for (uint32_t disk = 0; disk < disks_of(&shapes[s]); disk++) {
			struct model m;
			struct disks d;
			struct g4_dev *dev;
			struct g4_disk_info info;
			uint64_t ballast;
			format(&d, &shapes[s], &ballast);
			disks_mount_fs(&d, all_of(&d), &dev);
			begin_model(&m, &d);
			start(&d, disk, 0);
			assert_int_equal(order(&d, G4_DISK_REMOVE, d.names[disk]), -G4_E_BUSY);
			assert_int_equal(order(&d, G4_DISK_REBALANCE, ""), -G4_E_BUSY);
			const uint32_t steps = run(&d, &m, 5);
			expect_done(&d);
			assert_true(steps > 3 || disk == 2);
			copied += job(&d).bytes;
			assert_false(g4_set_disk(dev, disks_of(&shapes[s]) - 1, &info));
			expect_model(&m, &d);
			for (uint32_t k = 0; k < 50; k++)
				use(&m, &d);
			expect_model(&m, &d);
			disks_expect_filled(&d, ballast, BALLAST_BYTES);
			disks_unmount_fs(&d, dev, true);
			expect_without(&d, &shapes[s], disk, &m, ballast);
			end_model(&m);
			disks_free(&d);
		}
		assert_true(copied > 0);
	}
}

/* What is left is as large as the next mount says, and can be filled to its end. */
static void what_is_given_up_is_no_part_of_the_file_system(void **state)
{
	(void)state;
	for (uint32_t s = 0; s < 3; s++) {
		struct g4_statfs during, after;
		struct disks d;
		struct g4_dev *dev;
		uint64_t ballast, file;
		format(&d, &shapes[s], &ballast);
		disks_mount_fs(&d, all_of(&d), &dev);
		start(&d, 1, 0);
		(void)run(&d, NULL, 0);
		expect_done(&d);
		const uint64_t gone = g4_alloc_free_in(&d.rig.fs->alloc, G4_POOL_GONE) * G4_PAGE_BYTES;
		assert_true(gone > 0);
		/*
		 * As much as the disk had, but for the rest of a piece. With copies each region lies on two pairs: one that is lost
		 * frees a place of the disk that goes, and two for others that it has.
		 */
		const uint64_t most = shapes[s].redundant ? 16 * G4_MIB : BYTES + shapes[s].disks * G4_CHUNK_UNIT;
		if (gone > most)
			fail_msg("shape %u: %llu MiB are gone", s, (unsigned long long)(gone / G4_MIB));
		assert_int_equal(op_statfs(&d.rig, &during), 0);
		disks_unmount_fs(&d, dev, true);
		disks_mount_fs(&d, all_of(&d) & ~2u, &dev);
		assert_int_equal(op_statfs(&d.rig, &after), 0);
		assert_int_equal(during.blocks, after.blocks);
		assert_in_range(during.blocks_free, after.blocks_free - 64, after.blocks_free + 64);
		disks_unmount_fs(&d, dev, true);
		disks_mount(&d, all_of(&d) & ~2u);
		const uint64_t bytes = disks_fill(&d, &file);
		disks_expect_filled(&d, file, bytes);
		disks_expect_filled(&d, ballast, BALLAST_BYTES);
		disks_unmount(&d);
		disks_expect_clean(&d, all_of(&d) & ~2u);
		disks_free(&d);
	}
}

/* After a cancel, by a rebalancing of the mount: as large as it was, now and for the next mount. */
static void what_was_given_up_comes_back(void **state)
{
	struct g4_cmd set = {.op = G4_CMD_JOB_SET, .mask = G4_JOB_CANCEL};

	(void)state;
	for (uint32_t s = 0; s < 3; s++) {
		struct g4_statfs before, after;
		struct model m;
		struct disks d;
		struct g4_dev *dev;
		uint64_t ballast, file;
		format(&d, &shapes[s], &ballast);
		disks_mount_fs(&d, all_of(&d), &dev);
		begin_model(&m, &d);
		assert_int_equal(op_statfs(&d.rig, &before), 0);
		start(&d, 1, 0);
		for (uint32_t k = 0; k < 3 || g4_alloc_free_in(&d.rig.fs->alloc, G4_POOL_GONE) == 0; k++) {
			use(&m, &d);
			step(&d);
			assert_int_equal(job(&d).state, G4_JOB_RUNNING);
		}
		set.number = job(&d).number;
		assert_int_equal(g4_execute(d.rig.wg, d.rig.fs, &set), 0);
		if (s == 1) { /* gone since before the mount */
			disks_unmount_fs(&d, dev, true);
			disks_mount_fs(&d, all_of(&d), &dev);
		}
		if (order(&d, G4_DISK_REBALANCE, "") < 0)
			fail_msg("%s", d.message);
		for (uint32_t k = 0; newest_of(&d, G4_JOB_REBALANCE).state == G4_JOB_RUNNING; k++) {
			use(&m, &d);
			step(&d);
			assert_true(k < 2000);
		}
		assert_int_equal(newest_of(&d, G4_JOB_REBALANCE).state, G4_JOB_DONE);
		assert_int_equal(g4_alloc_free_in(&d.rig.fs->alloc, G4_POOL_GONE), 0);
		for (uint32_t mounts = 0; mounts < 2; mounts++) {
			assert_int_equal(op_statfs(&d.rig, &after), 0);
			assert_int_equal(after.blocks, before.blocks);
			expect_model(&m, &d);
			disks_unmount_fs(&d, dev, true);
			disks_expect_clean(&d, all_of(&d));
			disks_mount_fs(&d, all_of(&d), &dev);
		}
		const uint64_t bytes = disks_fill(&d, &file);
		disks_expect_filled(&d, file, bytes);
		disks_expect_filled(&d, ballast, BALLAST_BYTES);
		assert_int_equal(disks_scrub(&d), 0);
		disks_unmount_fs(&d, dev, true);
		disks_expect_clean(&d, all_of(&d));
		end_model(&m);
		disks_free(&d);
	}
}

/* ---- several threads ---- */

static void threads_write_while_a_disk_leaves(void **state)
{
	(void)state;
	for (uint32_t s = 0; s < SHAPES; s++) {
		const uint32_t disk = s % 2, rest = ((1u << disks_of(&shapes[s])) - 1) & ~(1u << disk);
		struct user users[THREADS];
		struct disks d;
		uint64_t ballast;
		uint32_t stop = 0;
		format(&d, &shapes[s], &ballast);
		disks_mount(&d, all_of(&d));
		begin_users(users, &d, &stop);
		start(&d, disk, G4_JOB_EAGER);
		while (job(&d).state == G4_JOB_RUNNING) {
			disks_expect_filled(&d, ballast, BALLAST_BYTES);
			usleep(1000);
		}
		end_users(users);
		expect_done(&d);
		disks_unmount(&d);
		disks_expect_clean(&d, rest);
		disks_mount(&d, shapes[s].redundant ? rest & ~4u : rest);
		disks_expect_filled(&d, ballast, BALLAST_BYTES);
		expect_users(users, &d);
		disks_unmount(&d);
		disks_free(&d);
	}
}

/* ---- requests that are under way ---- */

static void find_uuid(struct g4_dev *dev, uint32_t disk, struct g4_dev_order *order)
{
	struct g4_disk_info info;

	assert_true(g4_set_disk(dev, disk, &info));
	memcpy(&order->done, info.uuid, sizeof(order->done));
	memcpy(&order->all, info.uuid + sizeof(order->done), sizeof(order->all));
}

static struct g4_dev_order leave(struct g4_wg *wg, struct g4_dev *dev, uint32_t disk, uint32_t op)
{
	struct g4_dev_order order = {.op = op};

	find_uuid(dev, disk, &order);
	assert_int_equal(g4_dev_order(wg, dev, &order), 0);
	return order;
}

/* Disk 0 has nothing then. Nobody has the set mounted, so all of it is as if it were in use. */
static void empty(struct g4_wg *wg, struct g4_dev *dev)
{
	struct g4_set *set = (struct g4_set *)dev->host;
	struct g4_dev_order next;

	while ((next = leave(wg, dev, 0, G4_ORDER_LEAVE_NEXT)).bytes > 0) {
		uint64_t bytes = next.bytes, moved;
		assert_int_not_equal(next.disk, G4_ROOM_FOR_NOTHING);
		assert_int_equal(g4_set_spread_move(wg, set, false, &bytes, &moved), 0);
		assert_true(moved > 0);
	}
}

/* A request that began when the last disk had another number is done on that disk, and one that fails there drops it. */
static void requests_keep_the_numbers_that_they_began_with(void **state)
{
	uint8_t *page = rig_memory(G4_PAGE_BYTES, 3), *found = rig_memory(G4_PAGE_BYTES, 4);
	struct g4_iov iov = {page, G4_PAGE_BYTES};
	struct g4_wg *wg = g4_wg_create(0);

	(void)state;
	for (uint32_t fails = 0; fails < 2; fails++) {
		struct g4_fault broken = {.cut_after_writes = 1, .write_through = true};
		struct g4_io flush = {.op = G4_IO_FLUSH};
		uint64_t ballast, epoch;
		struct faulty f;
		struct disks d;
		format(&d, &shapes[3], &ballast);
		disks_open_faulty(&d, &f);
		struct g4_dev *dev = f.set;
		struct g4_set *set = (struct g4_set *)dev->host;
		empty(wg, dev);
		/* one looks at a table with places on the disk: those are moved, but it can not go */
		assert_int_equal(leave(wg, dev, 1, G4_ORDER_LEAVE_END).bytes, 0); /* this one is in use */
		/* a flush of all disks that nobody has collected */
		g4_add32(&set->disks[0].users, 1);
		assert_int_equal(leave(wg, dev, 0, G4_ORDER_LEAVE_END).bytes, 0);
		assert_int_equal(set->leaving, 0);
		g4_sub32(&set->disks[0].users, 1);
		/* a write to the last disk that nobody has collected, looked up before it gets another number */
		struct g4_chunk chunk;
		for (uint32_t n = 0; g4_set_chunk(dev, n, &chunk) && g4_place_disk(chunk.places[0]) != 2 &&
				     g4_place_disk(chunk.places[1]) != 2;
		     n++)
			;
		struct g4_io io = {.op = G4_IO_WRITE,
				   .offset_bytes = chunk.address + chunk.bytes - 8 * G4_PAGE_BYTES,
				   .iov = &iov,
				   .iov_count = 1};
		(void)g4_set_view_enter(set, &epoch);
		const struct g4_dev_order end = leave(wg, dev, 0, G4_ORDER_LEAVE_END);
		assert_int_equal(end.bytes, 1);
		assert_int_equal(end.disk, 0);
		assert_int_equal(end.all, 2);
		assert_int_equal(set->count, 2);
		assert_ptr_equal(set->disks[2].dev, set->disks[0].dev);
		/* who has the table of before knows it by the old number, and nobody else gets that */
		assert_int_equal(g4_set_add_to(dev, NULL, d.names[0], d.message, sizeof(d.message)), -G4_E_BUSY);
		if (fails) {
			g4_dev_fault_set(f.fault[2], &broken);
			assert_int_equal(g4_set_drop(wg, set, 2), 0);
			assert_int_equal(set->disks[0].state, G4_DISK_DROPPED);
			assert_int_equal(set->disks[2].state, G4_DISK_DROPPED);
		}
		g4_set_view_leave(set, epoch);
		assert_int_equal(g4_dev_write(wg, dev, io.offset_bytes, page, G4_PAGE_BYTES, 0), 0);
		g4_dev_submit(wg, dev, &flush);
		assert_int_equal(g4_dev_wait(wg, dev, &flush), 0);
		assert_int_equal(g4_dev_read(wg, dev, io.offset_bytes, found, G4_PAGE_BYTES), 0);
		assert_memory_equal(found, page, G4_PAGE_BYTES);
		if (!fails) { /* and it is the number of the next one */
			if (g4_set_add_to(dev, NULL, d.names[0], d.message, sizeof(d.message)) < 0)
				fail_msg("%s", d.message);
			assert_int_equal(set->count, 3);
		}
		g4_dev_close(dev);
		disks_free(&d);
	}
	g4_wg_destroy(wg);
	free(page);
	free(found);
}

/* The last chunk that lies on the disk, to the last page of it. */
static uint64_t page_on(struct g4_dev *dev, uint32_t disk)
{
	struct g4_chunk chunk;
	uint64_t address = 0;

	for (uint32_t n = 0; g4_set_chunk(dev, n, &chunk); n++)
		for (uint32_t k = 0; k < (uint32_t)chunk.columns * chunk.copies; k++)
			if (g4_place_disk(chunk.places[k]) == disk)
				address = chunk.address + chunk.bytes - 8 * G4_PAGE_BYTES;
	assert_true(address > 0);
	return address;
}

/* How many of the first disks a flush of the set asks. */
static uint32_t asked(struct g4_wg *wg, const struct faulty *f, uint32_t disks)
{
	uint64_t reads, writes, before[MOST_DISKS], after;
	uint32_t count = 0;

	for (uint32_t n = 0; n < disks; n++)
		g4_dev_fault_counts(f->fault[n], &reads, &writes, &before[n]);
	assert_int_equal(g4_dev_flush(wg, f->set), 0);
	for (uint32_t n = 0; n < disks; n++) {
		g4_dev_fault_counts(f->fault[n], &reads, &writes, &after);
		count += after > before[n];
	}
	return count;
}

/* What others do meanwhile. */
static struct {
	const struct g4_dev_ops *before;
	struct g4_dev *set, *moved; /* moved: the device whose number is another one */
	struct g4_wg *wg;
	uint8_t *page;
	uint64_t address;
	uint32_t writes;
} others;

/* A flush in the middle of the switch, when a disk has another number already, and requests look at the table of before. */
static int flush_in_switch(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	const struct g4_set *set = (const struct g4_set *)others.set->host;

	if (io->op == G4_IO_WRITE && set->disks[0].dev == others.moved && g4_load32_acq(&set->count) == 3 &&
	    others.writes++ == 0)
		assert_int_equal(g4_dev_flush(others.wg, others.set), 0);
	return others.before->execute(wg, dev, io);
}

/* All disks are flushed as long as a write by an old number is under way, and once when it is done. */
static void flushes_ask_few_disks_again_when_old_numbers_are_forgotten(void **state)
{
	uint8_t *page = rig_memory(G4_PAGE_BYTES, 3);
	struct g4_iov iov = {page, G4_PAGE_BYTES};
	struct g4_wg *wg = g4_wg_create(0);
	uint64_t ballast, before, after, reads, writes;
	struct faulty f;
	struct disks d;

	(void)state;
	format(&d, &shapes[3], &ballast);
	disks_open_faulty(&d, &f);
	empty(wg, f.set);
	assert_true(asked(wg, &f, 3) > 0);
	assert_int_equal(asked(wg, &f, 3), 0);
	struct g4_io io = {.op = G4_IO_WRITE, .offset_bytes = page_on(f.set, 2), .iov = &iov, .iov_count = 1};
	g4_dev_submit(wg, f.set, &io);
	g4_dev_fault_share(f.fault[0]);
	memset(&others, 0, sizeof(others));
	others.before = f.fault[1]->ops;
	others.set = f.set;
	others.moved = f.fault[2];
	others.wg = g4_wg_create(1);
	struct g4_dev_ops flushes = *others.before;
	flushes.execute = flush_in_switch;
	f.fault[1]->ops = &flushes;
	assert_int_equal(leave(wg, f.set, 0, G4_ORDER_LEAVE_END).bytes, 1);
	assert_true(others.writes > 0);
	f.fault[1]->ops = others.before;
	for (uint32_t k = 0; k < 3; k++)
		assert_int_equal(asked(wg, &f, 3), 2);
	assert_int_equal(g4_dev_wait(wg, f.set, &io), 0);
	g4_dev_fault_counts(f.fault[2], &reads, &writes, &before);
	assert_int_equal(asked(wg, &f, 3), 2);
	g4_dev_fault_counts(f.fault[2], &reads, &writes, &after);
	assert_true(after > before);
	for (uint32_t k = 0; k < 3; k++)
		assert_int_equal(asked(wg, &f, 3), 0);
	assert_int_equal(g4_dev_write(wg, f.set, io.offset_bytes, page, G4_PAGE_BYTES, 0), 0);
	assert_int_equal(asked(wg, &f, 3), 2); /* of both copies */
	assert_int_equal(asked(wg, &f, 3), 0);
	g4_dev_close(f.fault[0]);
	g4_dev_close(f.set);
	g4_wg_destroy(wg);
	g4_wg_destroy(others.wg);
	free(page);
	disks_free(&d);
}

/* While the disk is wiped, which is none of the set any more, and the order is not done. */
static void use_meanwhile(void)
{
	struct g4_io flush = {.op = G4_IO_FLUSH};
	uint64_t reads, writes, flushes, after;

	assert_int_equal(g4_dev_write(others.wg, others.set, others.address, others.page, G4_PAGE_BYTES, 0), 0);
	g4_dev_fault_counts(others.moved, &reads, &writes, &flushes);
	g4_dev_submit(others.wg, others.set, &flush);
	assert_int_equal(g4_dev_wait(others.wg, others.set, &flush), 0);
	g4_dev_fault_counts(others.moved, &reads, &writes, &after);
	assert_true(after > flushes);
}

static int wipe_slowly(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	const struct g4_set *set = (const struct g4_set *)others.set->host;

	if (io->op == G4_IO_WRITE && g4_load32_acq(&set->count) == 2 && others.writes++ == 0)
		use_meanwhile();
	return others.before->execute(wg, dev, io);
}

/* From the moment on that the last disk has another number it is written to and flushed by that, on all copies. */
static void the_disk_with_another_number_is_written_and_flushed_at_once(void **state)
{
	struct g4_wg *wg = g4_wg_create(0);

	(void)state;
	for (uint32_t copy = 0; copy < 2; copy++) {
		uint8_t *found = rig_memory(G4_PAGE_BYTES, 4);
		uint64_t ballast;
		struct faulty f;
		struct disks d;
		format(&d, &shapes[3], &ballast);
		disks_open_faulty(&d, &f);
		empty(wg, f.set);
		memset(&others, 0, sizeof(others));
		others.before = f.fault[0]->ops;
		others.set = f.set;
		others.moved = f.fault[2];
		others.wg = g4_wg_create(1);
		others.page = rig_memory(G4_PAGE_BYTES, 7);
		others.address = page_on(f.set, 2);
		struct g4_dev_ops slow = *others.before;
		slow.execute = wipe_slowly;
		g4_dev_fault_share(f.fault[0]);
		f.fault[0]->ops = &slow;
		assert_int_equal(leave(wg, f.set, 0, G4_ORDER_LEAVE_END).bytes, 1);
		assert_true(others.writes > 0);
		assert_int_equal(g4_dev_read_as(wg, f.set, others.address, found, G4_PAGE_BYTES, G4_IO_COPY(copy)), 0);
		assert_memory_equal(found, others.page, G4_PAGE_BYTES);
		f.fault[0]->ops = others.before;
		g4_dev_close(f.fault[0]);
		g4_dev_close(f.set);
		g4_wg_destroy(others.wg);
		free(others.page);
		free(found);
		disks_free(&d);
	}
	g4_wg_destroy(wg);
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

static void one_that_is_cancelled_leaves_all_disks_in_use(void **state)
{
	struct g4_cmd set = {.op = G4_CMD_JOB_SET, .mask = G4_JOB_CANCEL};

	(void)state;
	for (uint32_t s = 0; s < SHAPES; s++) {
		struct model m;
		struct disks d;
		struct g4_dev *dev;
		uint64_t ballast;
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
		disks_mount_fs(&d, all_of(&d), &dev);
		expect_model(&m, &d);
		disks_expect_filled(&d, ballast, BALLAST_BYTES);
		start(&d, 2, 0); /* and another one can go */
		(void)run(&d, &m, 1);
		expect_done(&d);
		disks_unmount_fs(&d, dev, true);
		expect_without(&d, &shapes[s], 2, &m, ballast);
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

#define END_REQUESTS 48u /* that the last switch has, and what follows it, about */

/* Steps of `every` on the way, of `more` in the end, which begins and ends with one. */
static uint32_t next_cut(uint32_t at, uint32_t every, uint32_t more, uint32_t count)
{
	const uint32_t end = count > END_REQUESTS ? count - END_REQUESTS : 0;

	if (at == count)
		return count + 1;
	return (uint32_t)(at < end ? g4_min64(at + every, end) : g4_min64(at + more, count));
}

/* Files are put, durably, between the steps; the power fails after any request. */
static void the_power_fails_at_any_request(void **state)
{
	const uint32_t every = (uint32_t)rig_setting("G4_CRASH_EVERY", 28 * rig_every(4)), more = every / 14 + 1;
	static struct disks_order requests;
	uint32_t states = 0, without = 0, again = 0;

	(void)state;
	for (uint32_t s = 0; s < SHAPES; s++) {
		const uint32_t disk = s % 2;
		uint64_t ballast, random = 1 + s;
		struct synced synced = {0};
		struct disks d, crashed;
		uint8_t *before[MOST_DISKS];
		struct faulty f;
		format(&d, &shapes[s], &ballast);
		keep_disks(&d, before);
		memset(&requests, 0, sizeof(requests));
		mount_faulty(&d, &f, &requests);
		g4_dev_fault_share(f.fault[disk]);
		start(&d, disk, 0);
		while (job(&d).state == G4_JOB_RUNNING) {
			if (synced.count < MOST_SYNCED) {
				assert_int_equal(disks_put(&d, synced.count, 1), 0);
				synced.at[synced.count++] = requests.count;
			}
			step(&d);
		}
		expect_done(&d);
		disks_make(&crashed, d.count, d.bytes);
		for (uint32_t at = s % every; at <= requests.count;
		     at = next_cut(at, every, more, requests.count), states++) {
			uint32_t lost = shapes[s].redundant && at % 3 == 0 ? 1u << random % d.count : 0, files = 0;
			while (files < synced.count && synced.at[files] <= at)
				files++;
			lost &= ~(1u << disk);
			disks_crash(&crashed, before, &f, &requests, at, &random);
			const bool with = mount_either(&crashed, disk, lost, s, at);
			const uint32_t all = with ? all_of(&d) : all_of(&d) & ~(1u << disk);
			without += !with;
			disks_expect_files(&crashed, files, 1);
			disks_expect_filled(&crashed, ballast, BALLAST_BYTES);
			assert_int_equal(disks_put(&crashed, MOST_SYNCED, 1), 0); /* and it is written to */
			disks_unmount(&crashed);
			/* a mount of all goes on with it, and may have come to its end */
			const bool is_out = !with || !has_label(&crashed, disk);
			disks_expect_clean(&crashed, all & ~lost & ~(is_out ? 1u << disk : 0));
			if (lost || is_out || (states % 4 && !rig_slow()))
				continue;
			/* it goes on, or is given again where no record of it was durable */
			struct g4_dev *dev;
			disks_mount_fs(&crashed, all_of(&d), &dev);
			if (job(&crashed).state != G4_JOB_RUNNING)
				start(&crashed, disk, 0);
			(void)run(&crashed, NULL, 0);
			expect_done(&crashed);
			again++;
			disks_unmount_fs(&crashed, dev, true);
			disks_expect_clean(&crashed, all_of(&d) & ~(1u << disk));
			disks_mount(&crashed, all_of(&d) & ~(1u << disk));
			disks_expect_files(&crashed, files, 1);
			disks_expect_filled(&crashed, ballast, BALLAST_BYTES);
			disks_unmount(&crashed);
		}
		disks_free(&crashed);
		disks_unmount_fs(&d, f.set, true);
		g4_dev_close(f.fault[disk]);
		for (uint32_t n = 0; n < d.count; n++)
			free(before[n]);
		disks_free(&d);
	}
	print_message("%u states, %u without the disk; %u times it went on\n", states, without, again);
	assert_true(without > 0 && again > 0);
}

/* One disk fails for good after so many of its writes; what was synced until then is there, and with copies users do not notice. */
static void a_disk_fails_meanwhile(void **state)
{
	uint32_t failed = 0, done = 0;

	(void)state;
	for (uint32_t s = 0; s < SHAPES; s++) {
		uint8_t *before[MOST_DISKS];
		uint64_t ballast;
		struct disks d;
		format(&d, &shapes[s], &ballast);
		keep_disks(&d, before);
		for (uint32_t which = 0; which < d.count; which++)
			for (uint32_t at = 1 + which, over = 0; !over; at += 11 * (uint32_t)rig_every(4)) {
				struct g4_fault fault = {.cut_after_writes = at, .write_through = true};
				uint32_t files = 0;
				struct faulty f;
				restore_disks(&d, before);
				mount_faulty(&d, &f, NULL);
				g4_dev_fault_share(f.fault[0]);
				g4_dev_fault_set(f.fault[which], &fault);
				int rc = order(&d, G4_DISK_REMOVE, d.names[0]);
				while (rc == 0 && job(&d).state == G4_JOB_RUNNING) {
					rc = files < MOST_SYNCED ? disks_put(&d, files, 1) : 0;
					files += rc == 0 && files < MOST_SYNCED;
					step(&d);
				}
				if (rc < 0 && shapes[s].redundant)
					fail_msg("shape %u, disk %u, %u writes: %s", s, which, at, g4_strerror(rc));
				over = rc == 0 && job(&d).state == G4_JOB_DONE;
				if (over)
					done++;
				else
					failed++;
				(void)g4_fs_unmount(d.rig.wg, d.rig.fs, rc == 0);
				g4_wg_destroy(d.rig.wg);
				d.rig.fs = NULL;
				d.rig.wg = NULL;
				g4_dev_close(d.outer);
				g4_dev_close(f.fault[0]);
				if (!mount_most(&d, all_of(&d)) && !mount_most(&d, all_of(&d) & ~1u))
					fail_msg("shape %u, disk %u, %u writes: %s", s, which, at, d.message);
				disks_expect_files(&d, files, 1);
				disks_expect_filled(&d, ballast, BALLAST_BYTES);
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
	static const struct shape most = {G4_RAID_1, 3, 3, 0, true}, two = {G4_RAID_1, 2, 2, 0, true};
	struct g4_dev *dev;
	uint64_t ballast, file;
	struct disks d;

	(void)state;
	format(&d, &two, &ballast);
	disks_mount_fs(&d, all_of(&d), &dev);
	expect_refused(&d, d.names[1], -G4_E_INVAL, "keeps two");
	expect_refused(&d, "/nowhere", -G4_E_NOENT, "is no disk of the file system");
	disks_unmount_fs(&d, dev, true);
	disks_free(&d);

	format(&d, &most, &ballast);
	disks_mount_fs(&d, all_of(&d), &dev);
	expect_refused(&d, d.names[1], -G4_E_INVAL, "lies on all of its disks");
	disks_unmount_fs(&d, dev, true);
	disks_free(&d);

	for (uint32_t s = 0; s < 3; s++) {
		format(&d, &shapes[s], &ballast);
		disks_mount_fs(&d, all_of(&d), &dev);
		const uint64_t bytes = disks_fill(&d, &file);
		expect_refused(&d, d.names[1], -G4_E_NOSPC, "are missing");
		disks_expect_filled(&d, file, bytes);
		disks_unmount_fs(&d, dev, true);
		disks_free(&d);
	}

	/* what begins meanwhile ends it, and nothing is lost */
	format(&d, &shapes[0], &ballast);
	disks_mount_fs(&d, all_of(&d), &dev);
	start(&d, 0, 0);
	step(&d);
	begin(&d, G4_DISK_OFFLINE, 1);
	(void)run(&d, NULL, 0);
	assert_int_equal(job(&d).state, G4_JOB_FAILED);
	assert_int_equal(job(&d).code, G4_E_BUSY);
	disks_expect_filled(&d, ballast, BALLAST_BYTES);
	disks_unmount_fs(&d, dev, true);
	disks_free(&d);
}

/* What is written meanwhile takes the room: it ends, tells so, and nothing is lost. */
static void a_file_system_that_gets_full_meanwhile_keeps_the_disk(void **state)
{
	(void)state;
	for (uint32_t s = 0; s < 3; s++) {
		struct disks d;
		struct g4_dev *dev;
		uint64_t ballast, file;
		format(&d, &shapes[s], &ballast);
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
		disks_mount(&d, all_of(&d));
		disks_expect_filled(&d, file, bytes);
		disks_expect_filled(&d, ballast, BALLAST_BYTES);
		disks_unmount(&d);
		disks_free(&d);
	}
}

/* Stripes may have several columns on a disk, by removals before: all of them have to find room. */
static void room_is_needed_for_all_columns_on_the_disk(void **state)
{
	const struct g4_set_plan plan = {.raid = G4_RAID_0, .stripe_bytes = 16 * 1024, .journal_bytes = JOURNAL_BYTES};
	const uint64_t sizes[MOST_DISKS] = {BYTES, BYTES, BYTES, 2 * BYTES + 8 * G4_MIB, BYTES + 8 * G4_MIB};
	uint32_t members = 1 | 2 | 4, columns = 0;
	struct g4_dev *dev;
	struct g4_chunk chunk;
	uint64_t file, grown;
	struct disks d;

	(void)state;
	disks_make(&d, 5, sizes);
	d.count = 3;
	disks_format_plan(&d, &plan, G4_CHECKSUM_CRC32C);
	disks_mount_fs(&d, members, &dev);
	const uint64_t bytes = disks_fill(&d, &file);
	disks_unmount_fs(&d, dev, true);
	d.count = 5;
	/* two leave for the first of them, and it has no other way than the second */
	for (uint32_t added = 3; added < 5; added++) {
		assert_int_equal(disks_try_open(&d, members, false, 0, &dev), 0);
		if (g4_set_add_to(dev, NULL, d.names[added], d.message, sizeof(d.message)) < 0 ||
		    g4_resize_device(dev, 0, &grown, d.message, sizeof(d.message)) < 0)
			fail_msg("%s", d.message);
		g4_dev_close(dev);
		members |= 1u << added;
		disks_mount_fs(&d, members, &dev);
		for (uint32_t gone = 2; added == 3 && gone > 0; gone--) {
			start(&d, gone, 0);
			(void)run(&d, NULL, 0);
			expect_done(&d);
			members &= ~(1u << gone);
		}
		if (added == 3)
			disks_unmount_fs(&d, dev, true);
	}
	for (uint32_t n = 0; g4_set_chunk(dev, n, &chunk); n++)
		for (uint32_t a = 0; a < chunk.columns; a++)
			for (uint32_t b = 0; b < a; b++)
				columns += g4_place_disk(chunk.places[a]) == g4_place_disk(chunk.places[b]);
	assert_true(columns > 0);
	const uint64_t gone = g4_alloc_free_in(&d.rig.fs->alloc, G4_POOL_GONE);
	assert_int_equal(order(&d, G4_DISK_REMOVE, d.names[3]), -G4_E_NOSPC);
	assert_non_null(strstr(d.message, "are missing"));
	assert_int_equal(g4_alloc_free_in(&d.rig.fs->alloc, G4_POOL_GONE), gone);
	disks_expect_filled(&d, file, bytes);
	disks_unmount_fs(&d, dev, true);
	disks_expect_clean(&d, members);
	disks_free(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(users_write_while_a_disk_leaves),
		cmocka_unit_test(what_is_given_up_is_no_part_of_the_file_system),
		cmocka_unit_test(what_was_given_up_comes_back),
		cmocka_unit_test(threads_write_while_a_disk_leaves),
		cmocka_unit_test(requests_keep_the_numbers_that_they_began_with),
		cmocka_unit_test(flushes_ask_few_disks_again_when_old_numbers_are_forgotten),
		cmocka_unit_test(the_disk_with_another_number_is_written_and_flushed_at_once),
		cmocka_unit_test(it_goes_on_after_a_pause_and_an_unmount),
		cmocka_unit_test(one_that_is_cancelled_leaves_all_disks_in_use),
		cmocka_unit_test(the_power_fails_at_any_request),
		cmocka_unit_test(a_disk_fails_meanwhile),
		cmocka_unit_test(what_can_not_be_done_is_told),
		cmocka_unit_test(room_is_needed_for_all_columns_on_the_disk),
		cmocka_unit_test(a_file_system_that_gets_full_meanwhile_keeps_the_disk),
	};
	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
