/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lies on a set is spread over a disk that was added while users write: what they write is right on what was moved and on what was not,
 * whatever the power does and whichever disk fails meanwhile, and the order goes on after an unmount.
 */
#include "moving.h"
#include "rebuilding.h"
#include "removing.h"

#include <pthread.h>
#include <unistd.h>

#include "simt/simt_host.h"
#include "space/set_epoch_host.h"
#include "space/set_lend_host.h"
#include "space/set_spread_host.h"

#define BYTES (16 * G4_MIB)
#define BALLAST_BYTES (8 * G4_MIB)
#define EVEN_BYTES (4 * G4_MIB) /* two parts of the address space, which have a region here */

struct shape {
	enum g4_raid raid;
	uint32_t disks, copies;
	bool redundant;
	bool full; /* chunks have all of the old disks, and as soon as it is added of the new one: nothing moves but where free space makes room */
	uint64_t ballast;
};
static const struct shape shapes[] = {
	{G4_RAID_1, 2, 2, true, false, BALLAST_BYTES},	      {G4_RAID_NONE, 2, 0, false, false, BALLAST_BYTES},
	{G4_RAID_0, 2, 0, false, false, BALLAST_BYTES},	      {G4_RAID_1, 3, 3, true, false, BALLAST_BYTES},
	{G4_RAID_NONE, 2, 0, false, true, 4 * BALLAST_BYTES}, {G4_RAID_0, 2, 0, false, true, 4 * BALLAST_BYTES},
	{G4_RAID_1, 4, 2, true, true, 4 * BALLAST_BYTES}};
#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))

/* ---- a set with a disk that has nothing ---- */

/* The chunks that an addition has made are none any more: all of the new disk is room. */
static void forget_added(struct disks *d, uint32_t count)
{
	struct g4_dev *dev = open_all(d);
	struct g4_set *set = (struct g4_set *)dev->host;
	struct g4_wg *wg = g4_wg_create(0);
	const struct g4_set_growth growth = {
		.chunks = set->chunks, .chunk_count = count, .disk_count = set->count, .moves = true};

	pthread_mutex_lock(&set->orders);
	assert_int_equal(g4_set_change_over(wg, set, &growth), 0);
	pthread_mutex_unlock(&set->orders);
	g4_wg_destroy(wg);
	g4_dev_close(dev);
}

static uint32_t chunks_of(struct disks *d)
{
	struct g4_dev *dev = open_all(d);
	struct g4_chunk chunk;
	uint32_t count = 0;

	while (g4_set_chunk(dev, count, &chunk))
		count++;
	g4_dev_close(dev);
	return count;
}

/* With an old file, `ballast`, and a disk more that nothing lies on. Not mounted. */
static void format(struct disks *d, const struct shape *shape, uint64_t *ballast)
{
	const struct g4_set_plan plan = {.raid = shape->raid,
					 .copies = shape->copies,
					 .stripe_bytes = 16 * 1024,
					 .journal_bytes = JOURNAL_BYTES,
					 .leave_percent = shape->full || shape->raid == G4_RAID_1 ? 0 : 40};
	uint8_t *data = rig_memory(G4_MIB, 5); /* as disks_fill() */
	uint64_t sizes[MOST_DISKS], done = 0;
	struct g4_dev *dev;

	for (uint32_t n = 0; n < MOST_DISKS; n++)
		sizes[n] = shape->full ? 2 * BYTES : BYTES;
	disks_make(d, shape->disks + 1, sizes);
	d->count = shape->disks;
	disks_format_plan(d, &plan, G4_CHECKSUM_CRC32C);
	const uint32_t chunks = chunks_of(d);
	disks_mount_fs(d, all_of(d), &dev);
	assert_int_equal(op_mknod(&d->rig, G4_NODE_ROOT, "ballast", G4_S_IFREG | 0644, ballast), 0);
	for (uint64_t at = 0; at < shape->ballast; at += G4_MIB)
		assert_int_equal(op_write(&d->rig, *ballast, 0, at, data, G4_MIB, &done), 0);
	disks_unmount_fs(d, dev, true);
	free(data);
	add_next(d, shape->full);
	if (!shape->full && chunks_of(d) > chunks)
		forget_added(d, chunks);
}

/* Bytes that are in use. */
static void count_used(struct disks *d, struct g4_dev *dev, uint64_t *used)
{
	const uint64_t pages = g4_load64_acq(&d->rig.fs->alloc.region_count) * G4_REGION_PAGES;
	const struct g4_set *set = (const struct g4_set *)dev->host;
	struct g4_piece piece;

	for (uint64_t page = 0; page < g4_min64(pages, g4_dev_props(dev)->size_bytes / G4_PAGE_BYTES); page++) {
		if (g4_alloc_in_use(d->rig.wg, &d->rig.fs->alloc, g4_page_address(page)) != 1)
			continue;
		g4_chunk_translate(&set->map, page * G4_PAGE_BYTES, G4_PAGE_BYTES, &piece);
		for (uint32_t c = 0; c < piece.copies; c++)
			used[piece.disks[c]] += G4_PAGE_BYTES;
	}
}

/* How much of what is in use the fullest disk has more than the emptiest. Mounted. */
static uint64_t unevenness(struct disks *d, struct g4_dev *dev)
{
	uint64_t used[MOST_DISKS] = {0}, most = 0, least = UINT64_MAX;

	count_used(d, dev, used);
	for (uint32_t n = 0; n < g4_dev_props(dev)->disks; n++) {
		most = g4_max64(most, used[n]);
		least = g4_min64(least, used[n]);
	}
	return most - least;
}

static uint64_t unevenness_of(struct disks *d)
{
	struct g4_dev *dev;

	disks_mount_fs(d, all_of(d), &dev);
	const uint64_t bytes = unevenness(d, dev);
	disks_unmount_fs(d, dev, true);
	return bytes;
}

/* Chunks over so many disks. */
static uint32_t chunks_over(struct disks *d, uint32_t disks)
{
	struct g4_dev *dev = open_all(d);
	struct g4_chunk chunk;
	uint32_t count = 0;

	for (uint32_t n = 0; g4_set_chunk(dev, n, &chunk); n++)
		count += chunk.columns == disks;
	g4_dev_close(dev);
	return count;
}

static struct g4_job_record job(struct disks *d)
{
	return newest_of(d, G4_JOB_REBALANCE);
}

static void start(struct disks *d, uint32_t flags)
{
	if (order_as(d, G4_DISK_REBALANCE, "", flags) < 0)
		fail_msg("%s", d->message);
}

/* ---- users ---- */

/* All disks have what the model says, and with copies all but any one. Not mounted. */
static void expect_everywhere(struct disks *d, const struct shape *shape, struct model *m, uint64_t ballast)
{
	uint8_t *before[MOST_DISKS];
	struct g4_dev *dev;

	keep_disks(d, before);
	for (uint32_t lost = 0; lost <= (shape->redundant ? d->count : 0); lost++) {
		const uint32_t which = lost ? all_of(d) & ~(1u << (lost - 1)) : all_of(d);
		if (!disks_takes_loss(all_of(d) & ~which))
			continue;
		disks_expect_clean(d, which);
		disks_mount_fs(d, which, &dev);
		expect_model(m, d);
		disks_expect_filled(d, ballast, shape->ballast);
		if (!lost)
			assert_int_equal(disks_scrub(d), 0);
		disks_unmount_fs(d, dev, true);
		restore_disks(d, before);
	}
	for (uint32_t n = 0; n < d->count; n++)
		free(before[n]);
}

static void users_write_while_a_disk_gets_its_share(void **state)
{
	(void)state;
	for (uint32_t s = 0; s < SHAPES; s++) {
		struct model m;
		struct disks d;
		struct g4_dev *dev;
		uint64_t ballast;
		uint64_t by_disk[MOST_DISKS] = {0}, used = 0;
		uint32_t steps = 0;
		format(&d, &shapes[s], &ballast);
		if (unevenness_of(&d) <= EVEN_BYTES)
			fail_msg("shape %u: the disks are used evenly", s);
		disks_mount_fs(&d, all_of(&d), &dev);
		count_used(&d, dev, by_disk);
		for (uint32_t n = 0; n < d.count; n++)
			used += by_disk[n];
		begin_model(&m, &d);
		start(&d, 0);
		for (; job(&d).state == G4_JOB_RUNNING; steps++) {
			for (uint32_t k = 0; k < 10; k++)
				use(&m, &d);
			step(&d);
		}
		const struct g4_job_record record = job(&d);
		assert_int_equal(record.state, G4_JOB_DONE);
		assert_int_equal(record.done, record.units);
		/* of what is in use a disk's share went there, and not nearly twice as much; and nothing that is free */
		if (steps < 3 || record.bytes == 0 || record.bytes > record.done * G4_PAGE_BYTES ||
		    5 * record.bytes * d.count > 8 * used)
			fail_msg("shape %u: %u steps, %lu bytes of %lu pages", s, steps, (unsigned long)record.bytes,
				 (unsigned long)record.done);
		expect_model(&m, &d);
		for (uint32_t k = 0; k < 20; k++)
			use(&m, &d);
		disks_unmount_fs(&d, dev, true);
		const uint64_t left = unevenness_of(&d);
		if (left > EVEN_BYTES)
			fail_msg("shape %u: a disk has %lu bytes more than another", s, (unsigned long)left);
		if (shapes[s].full && shapes[s].raid == G4_RAID_0)
			assert_true(chunks_over(&d, d.count) > 0);
		expect_everywhere(&d, &shapes[s], &m, ballast);
		/* and given again it moves nothing */
		disks_mount_fs(&d, all_of(&d), &dev);
		start(&d, 0);
		while (job(&d).state == G4_JOB_RUNNING)
			step(&d);
		if (job(&d).done != 0)
			fail_msg("shape %u: given again it moves %lu pages", s, (unsigned long)job(&d).done);
		disks_unmount_fs(&d, dev, true);
		end_model(&m);
		disks_free(&d);
	}
}

/* ---- several threads ---- */

static void threads_write_while_a_disk_gets_its_share(void **state)
{
	(void)state;
	for (uint32_t s = 0; s < SHAPES; s++) {
		struct user users[THREADS];
		struct disks d;
		uint64_t ballast;
		uint32_t stop = 0;
		format(&d, &shapes[s], &ballast);
		disks_mount(&d, all_of(&d));
		begin_users(users, &d, &stop);
		start(&d, G4_JOB_EAGER);
		while (job(&d).state == G4_JOB_RUNNING) {
			disks_expect_filled(&d, ballast, shapes[s].ballast);
			usleep(1000);
		}
		end_users(users);
		assert_int_equal(job(&d).state, G4_JOB_DONE);
		assert_true(job(&d).done > 0);
		disks_unmount(&d);
		/* what users write meanwhile is where there is room: their files, of before and after */
		const uint64_t left = unevenness_of(&d);
		if (left > EVEN_BYTES + (uint64_t)2 * THREADS * FILE_BYTES)
			fail_msg("shape %u: a disk has %lu bytes more than another", s, (unsigned long)left);
		disks_expect_clean(&d, all_of(&d));
		disks_mount(&d, shapes[s].redundant ? all_of(&d) & ~2u : all_of(&d));
		disks_expect_filled(&d, ballast, shapes[s].ballast);
		expect_users(users, &d);
		disks_unmount(&d);
		disks_free(&d);
	}
}

/* ---- requests that are under way ---- */

struct piece {
	uint64_t address, bytes, left;
};

static struct piece next(struct g4_set *set)
{
	struct piece p;

	assert_int_equal(g4_set_spread_next(set, &p.address, &p.bytes, &p.left), 0);
	return p;
}

static uint64_t moved(struct g4_wg *wg, struct g4_set *set, bool idle, uint64_t bytes, uint64_t *copied)
{
	uint64_t moved = 0;

	*copied = bytes;
	assert_int_equal(g4_set_spread_move(wg, set, idle, copied, &moved), 0);
	return moved;
}

/* A MiB is not moved under a write to it, nor as free one that was written to; and no place is used again under who may read it still. */
static void nothing_moves_under_a_request(void **state)
{
	uint8_t *page = rig_memory(G4_PAGE_BYTES, 3), *found = rig_memory(G4_PAGE_BYTES, 4);
	struct g4_iov iov = {page, G4_PAGE_BYTES};
	struct g4_wg *wg = g4_wg_create(0);
	uint64_t ballast, copied, epoch;
	struct g4_dev *dev;
	struct disks d;

	(void)state;
	format(&d, &shapes[0], &ballast);
	dev = open_all(&d);
	struct g4_set *set = (struct g4_set *)dev->host;
	struct piece p = next(set);
	assert_true(p.bytes >= G4_MIB && p.left >= 6 * G4_MIB);
	struct g4_io io = {
		.op = G4_IO_WRITE, .offset_bytes = p.address + 4 * G4_PAGE_BYTES, .iov = &iov, .iov_count = 1};
	g4_dev_submit(wg, dev, &io);
	assert_int_equal(moved(wg, set, true, p.bytes, &copied), 0);
	assert_int_equal(moved(wg, set, false, p.bytes, &copied), 0);
	assert_int_equal(g4_dev_wait(wg, dev, &io), 0);
	assert_int_equal(moved(wg, set, true, p.bytes, &copied), 0); /* it was told to be free before */
	assert_int_equal(moved(wg, set, false, G4_PAGE_BYTES, &copied), G4_MIB);
	assert_int_equal(copied, G4_MIB);
	assert_int_equal(moved(wg, set, false, G4_PAGE_BYTES, &copied), 0); /* nothing was chosen since */
	assert_int_equal(g4_dev_read(wg, dev, io.offset_bytes, found, G4_PAGE_BYTES), 0);
	assert_memory_equal(found, page, G4_PAGE_BYTES);
	/* one looks at the chunks while they change: it keeps those, and the next move waits for it */
	const struct g4_chunk_map *map = g4_set_view_enter(set, &epoch);
	p = next(set);
	const struct g4_chunk before = *g4_chunk_find(map, p.address);
	assert_int_equal(moved(wg, set, true, p.bytes, &copied), p.bytes);
	assert_int_equal(copied, 0);
	assert_memory_equal(g4_chunk_find(map, p.address), &before, sizeof(before));
	struct g4_chunk now;
	for (uint32_t n = 0; g4_set_chunk(dev, n, &now) && now.address + now.bytes <= p.address; n++)
		;
	assert_memory_not_equal(now.places, before.places, sizeof(before.places));
	p = next(set);
	assert_int_equal(moved(wg, set, true, p.bytes, &copied), 0);
	g4_set_view_leave(set, epoch);
	assert_int_equal(moved(wg, set, true, p.bytes, &copied), p.bytes);
	g4_dev_close(dev);
	g4_wg_destroy(wg);
	free(page);
	free(found);
	disks_free(&d);
}

static bool lent(struct g4_wg *wg, struct g4_set *set, uint64_t address, uint64_t bytes)
{
	bool ready = true;

	assert_int_equal(g4_set_lend(wg, set, address, bytes, &ready), 0);
	return ready;
}

static void expect_no_gone(struct g4_dev *dev)
{
	struct g4_chunk chunk;

	for (uint32_t n = 0; g4_set_chunk(dev, n, &chunk); n++)
		assert_false(g4_chunk_is_gone(&chunk));
}

/*
 * Nothing is copied to what is lent under a request that began before, and it is not given back under one that began before the switch. It has
 * places at any time.
 */
static void what_is_lent_waits_for_requests(void **state)
{
	struct g4_wg *wg = g4_wg_create(0);
	uint64_t ballast, copied, epoch;
	struct g4_dev *dev;
	struct disks d;

	(void)state;
	format(&d, &shapes[4], &ballast);
	dev = open_all(&d);
	struct g4_set *set = (struct g4_set *)dev->host;
	const uint64_t end = g4_dev_props(dev)->size_bytes;
	assert_int_equal(next(set).bytes, 0); /* there is no room, and nothing is lent */
	assert_false(lent(wg, set, end - 8 * G4_MIB, 8 * G4_MIB));
	assert_true(next(set).bytes > 0);
	assert_int_equal(moved(wg, set, false, G4_PAGE_BYTES, &copied), 0); /* one may have begun before */
	g4_set_view_enter(set, &epoch);
	assert_false(lent(wg, set, 0, 0));
	assert_true(next(set).bytes > 0);
	assert_int_equal(moved(wg, set, false, G4_PAGE_BYTES, &copied), 0);
	assert_int_equal(g4_set_lay(wg, set), 0);
	g4_set_view_leave(set, epoch);
	assert_true(lent(wg, set, 0, 0));
	const struct piece p = next(set);
	assert_true(p.bytes > 0 && p.address < end - 8 * G4_MIB);
	const struct g4_chunk_map *map = g4_set_view_enter(set, &epoch);
	const struct g4_chunk before = *g4_chunk_find(map, p.address);
	assert_int_equal(moved(wg, set, false, G4_PAGE_BYTES, &copied), G4_MIB);
	assert_memory_equal(g4_chunk_find(map, p.address), &before, sizeof(before)); /* it reads where it began to */
	expect_no_gone(dev);
	assert_false(g4_set_take_back(set));
	assert_int_equal(moved(wg, set, false, G4_PAGE_BYTES, &copied), 0);
	g4_set_view_leave(set, epoch);
	assert_int_equal(g4_set_lay(wg, set), 0);
	expect_no_gone(dev);
	assert_true(g4_set_take_back(set));
	assert_int_equal(set->lent_count, 0);
	/* so many parts and no more */
	for (uint32_t n = 0; n < G4_LEND_MOST; n++)
		assert_false(lent(wg, set, end - 8 * G4_MIB + n * G4_PAGE_BYTES, G4_PAGE_BYTES));
	bool ready;
	assert_int_equal(g4_set_lend(wg, set, 0, G4_PAGE_BYTES, &ready), -G4_E_NOSPC);
	assert_true(g4_set_take_back(set));
	g4_dev_close(dev);
	g4_wg_destroy(wg);
	disks_free(&d);
}

/*
 * While free space is lent the file system is as large and as free as before; who finds no room is given it back, and what can not be given back
 * yet comes back with a later step.
 */
static void what_is_lent_is_free(void **state)
{
	struct g4_statfs before, now;
	static struct g4_health told, health; /* too large for a stack */
	uint64_t ballast, epoch, node;
	struct g4_dev *dev;
	struct disks d;

	(void)state;
	format(&d, &shapes[4], &ballast);
	disks_mount_fs(&d, all_of(&d), &dev);
	struct g4_set *set = (struct g4_set *)dev->host;
	const struct g4_fs *fs = d.rig.fs;
	assert_int_equal(op_mknod(&d.rig, G4_NODE_ROOT, "all", G4_S_IFREG | 0644, &node), 0);
	start(&d, 0);
	const uint64_t free_pages = fs->alloc.free_pages, gone = fs->alloc.pool_free[G4_POOL_GONE];
	assert_int_equal(op_statfs(&d.rig, &before), 0);
	rig_last_job(&d.rig, &told);
	g4_set_view_enter(set, &epoch); /* somebody who is slow */
	step(&d);
	assert_true(fs->jobs.lent.count > 0);
	assert_true(fs->alloc.free_pages < free_pages);
	assert_int_equal(op_statfs(&d.rig, &now), 0);
	assert_int_equal(now.blocks, before.blocks);
	assert_int_equal(now.blocks_free, before.blocks_free);
	assert_int_equal(now.blocks_available, before.blocks_available);
	rig_last_job(&d.rig, &health);
	assert_int_equal(health.level_free[G4_LEVEL_OWN], told.level_free[G4_LEVEL_OWN]);
	g4_set_view_leave(set, epoch);
	/* all of it, of which a part is lent */
	assert_int_equal(op_fallocate(&d.rig, node, 0, 0, before.blocks_available * G4_PAGE_BYTES), 0);
	assert_int_equal(fs->jobs.lent.count, 0);
	assert_int_equal(fs->alloc.pool_free[G4_POOL_GONE], gone);
	assert_int_equal(op_truncate(&d.rig, node, 0), 0);
	while (job(&d).state == G4_JOB_RUNNING)
		step(&d);
	assert_int_equal(job(&d).state, G4_JOB_DONE);
	assert_int_equal(fs->alloc.pool_free[G4_POOL_GONE], gone);
	disks_expect_filled(&d, ballast, shapes[4].ballast);
	disks_unmount_fs(&d, dev, true);
	disks_expect_clean(&d, all_of(&d));
	disks_free(&d);
}

/* Who asks of one chunk after the other, as a file system that grows, is told of each address once, though pieces move meanwhile. */
static void chunks_are_told_while_they_move(void **state)
{
	struct g4_wg *wg = g4_wg_create(0);
	uint64_t ballast, copied, at = 0;
	struct g4_dev_order chunk;
	struct g4_dev *dev;
	struct disks d;

	(void)state;
	format(&d, &shapes[0], &ballast);
	dev = open_all(&d);
	struct g4_set *set = (struct g4_set *)dev->host;
	for (;;) {
		memset(&chunk, 0, sizeof(chunk));
		chunk.op = G4_ORDER_CHUNK;
		chunk.bytes = at;
		if (g4_dev_order(wg, dev, &chunk) < 0)
			break;
		assert_true(chunk.done <= at);
		assert_true(chunk.bytes > at);
		assert_int_equal(chunk.all, G4_LEVEL_OWN);
		assert_int_equal(chunk.disk, G4_LEVEL_COPIES);
		at = chunk.bytes;
		for (uint32_t k = 0; k < 2; k++) {
			const struct piece p = next(set);
			if (p.bytes > 0)
				(void)moved(wg, set, false, G4_MIB, &copied);
		}
	}
	assert_int_equal(at, g4_dev_props(dev)->size_bytes);
	g4_dev_close(dev);
	g4_wg_destroy(wg);
	disks_free(&d);
}

/* ---- interruptions ---- */

static void it_goes_on_after_a_pause_and_an_unmount(void **state)
{
	struct g4_cmd set = {.op = G4_CMD_JOB_SET, .mask = G4_JOB_PAUSE};
	struct model m;
	struct disks d;
	struct g4_dev *dev;
	uint64_t ballast;

	(void)state;
	format(&d, &shapes[0], &ballast);
	disks_mount_fs(&d, all_of(&d), &dev);
	begin_model(&m, &d);
	start(&d, 0);
	assert_int_equal(order(&d, G4_DISK_REBALANCE, ""), -G4_E_BUSY);
	step(&d);
	step(&d);
	set.number = job(&d).number;
	assert_int_equal(g4_execute(d.rig.wg, d.rig.fs, &set), 0);
	const struct g4_job_record paused = job(&d);
	assert_int_equal(paused.state, G4_JOB_PAUSED);
	assert_true(paused.done > 0 && paused.done < paused.units);
	step(&d);
	assert_int_equal(job(&d).done, paused.done);
	disks_unmount_fs(&d, dev, true);
	disks_mount_fs(&d, all_of(&d), &dev);
	assert_int_equal(job(&d).state, G4_JOB_PAUSED);
	assert_int_equal(job(&d).done, paused.done);
	set.mask = G4_JOB_RESUME;
	assert_int_equal(g4_execute(d.rig.wg, d.rig.fs, &set), 0);
	for (uint32_t k = 0; k < 20; k++)
		use(&m, &d);
	step(&d);
	disks_unmount_fs(&d, dev, true);
	disks_mount_fs(&d, all_of(&d), &dev);
	while (job(&d).state == G4_JOB_RUNNING)
		step(&d);
	assert_int_equal(job(&d).state, G4_JOB_DONE);
	disks_unmount_fs(&d, dev, true);
	assert_true(unevenness_of(&d) <= EVEN_BYTES);
	expect_everywhere(&d, &shapes[0], &m, ballast);
	end_model(&m);
	disks_free(&d);
}

/* Files are put, durably, between the steps of the order; the power fails after any request. */
static void the_power_fails_at_any_request(void **state)
{
	static struct disks_order requests;
	uint32_t states = 0, again = 0;

	(void)state;
	for (uint32_t s = 0; s < SHAPES; s++) {
		uint64_t ballast, random = 1 + s;
		/* larger disks take longer to be set back */
		const uint32_t every =
			(uint32_t)rig_setting("G4_CRASH_EVERY", (shapes[s].full ? 25 : 5) * rig_every(4));
		struct synced synced = {0};
		struct disks d, crashed;
		uint8_t *before[MOST_DISKS];
		struct faulty f;
		format(&d, &shapes[s], &ballast);
		keep_disks(&d, before);
		memset(&requests, 0, sizeof(requests));
		mount_faulty(&d, &f, &requests);
		start(&d, 0);
		while (job(&d).state == G4_JOB_RUNNING && synced.count < MOST_SYNCED) {
			assert_int_equal(disks_put(&d, synced.count, 1), 0);
			synced.at[synced.count++] = requests.count;
			step(&d);
		}
		assert_int_equal(job(&d).state, G4_JOB_DONE);
		disks_make(&crashed, d.count, d.bytes);
		for (uint32_t at = s % every; at <= requests.count; at += every, states++) {
			const uint32_t lost = shapes[s].redundant && at % 3 == 0 ? 1u << random % d.count : 0;
			uint32_t files = 0;
			while (files < synced.count && synced.at[files] <= at)
				files++;
			disks_crash(&crashed, before, &f, &requests, at, &random);
			if (disks_try_mount(&crashed, all_of(&d) & ~lost, lost != 0) < 0)
				fail_msg("shape %u, after %u requests without %x: %s", s, at, lost, crashed.message);
			disks_expect_files(&crashed, files, 1);
			disks_expect_filled(&crashed, ballast, shapes[s].ballast);
			assert_int_equal(disks_put(&crashed, MOST_SYNCED, 1), 0); /* and it is written to */
			disks_unmount(&crashed);
			disks_expect_clean(&crashed, all_of(&d) & ~lost);
			/* before the first step has ended all of them, so that some have much to move */
			if (lost || (at > synced.at[0] && states % 4 && !rig_slow()))
				continue;
			/* it goes on, or is given again where no record of it was durable */
			struct g4_dev *dev;
			disks_mount_fs(&crashed, all_of(&d), &dev);
			if (job(&crashed).state != G4_JOB_RUNNING)
				start(&crashed, 0);
			while (job(&crashed).state == G4_JOB_RUNNING)
				step(&crashed);
			assert_int_equal(job(&crashed).state, G4_JOB_DONE);
			again += job(&crashed).done > 0;
			const uint64_t left = unevenness(&crashed, dev);
			if (left > EVEN_BYTES)
				fail_msg("shape %u, after %u requests: a disk has %lu bytes more than another", s, at,
					 (unsigned long)left);
			disks_unmount_fs(&crashed, dev, true);
			disks_expect_clean(&crashed, all_of(&d));
			disks_mount(&crashed, all_of(&d));
			disks_expect_files(&crashed, files, 1);
			disks_expect_filled(&crashed, ballast, shapes[s].ballast);
			disks_unmount(&crashed);
		}
		disks_free(&crashed);
		disks_unmount_fs(&d, f.set, true);
		for (uint32_t n = 0; n < d.count; n++)
			free(before[n]);
		disks_free(&d);
	}
	print_message("%u states, after %u it moved something more\n", states, again);
	assert_true(again > 0);
}

/*
 * The power fails while the table is switched, and disks say one thing and the other. What is written next, by whoever opens the set, is there
 * when any one disk is lost after that: not one of them still speaks for the table of before.
 */
static void what_follows_a_torn_switch_is_on_all_disks(void **state)
{
	uint8_t *page = rig_memory(G4_PAGE_BYTES, 3), *found = rig_memory(G4_PAGE_BYTES, 4);
	static struct disks_order requests;
	struct g4_wg *wg = g4_wg_create(0);
	uint64_t ballast, copied, random = 7;
	uint8_t *before[MOST_DISKS], *after[MOST_DISKS];
	struct disks d, crashed;
	struct g4_dev *dev;
	uint32_t torn = 0;
	struct faulty f;

	(void)state;
	format(&d, &shapes[0], &ballast);
	/* up to a piece that leaves another disk than the one that is told first: that one has it before and after */
	dev = open_all(&d);
	struct g4_set *set = (struct g4_set *)dev->host;
	struct piece p = next(set);
	for (; g4_place_disk(set->chunks[set->next.chunk].places[set->next.number]) == 0; p = next(set))
		assert_true(moved(wg, set, true, p.bytes, &copied) > 0);
	g4_dev_close(dev);
	keep_disks(&d, before);
	disks_open_faulty(&d, &f);
	disks_watch(&d, &f, &requests);
	p = next((struct g4_set *)f.set->host);
	assert_int_equal(moved(wg, (struct g4_set *)f.set->host, false, G4_PAGE_BYTES, &copied), G4_MIB);
	disks_make(&crashed, d.count, d.bytes);
	for (uint32_t at = 0; at <= requests.count; at++) {
		disks_crash(&crashed, before, &f, &requests, at, &random);
		dev = open_all(&crashed);
		torn += ((struct g4_set *)dev->host)->uneven;
		assert_int_equal(g4_dev_write(wg, dev, p.address, page, G4_PAGE_BYTES, G4_IO_FUA), 0);
		keep_disks(&crashed, after); /* the power fails again */
		g4_dev_close(dev);
		for (uint32_t lost = 0; lost < d.count; lost++) {
			restore_disks(&crashed, after);
			if (disks_try_open(&crashed, all_of(&d) & ~(1u << lost), true, 0, &dev) < 0)
				fail_msg("after %u requests without %u: %s", at, lost, crashed.message);
			assert_int_equal(g4_dev_read(wg, dev, p.address, found, G4_PAGE_BYTES), 0);
			if (memcmp(found, page, G4_PAGE_BYTES) != 0)
				fail_msg("after %u requests disk %u was lost, and what was written with it", at, lost);
			g4_dev_close(dev);
		}
		for (uint32_t n = 0; n < d.count; n++)
			free(after[n]);
	}
	assert_true(torn > 0);
	disks_free(&crashed);
	g4_dev_close(f.set);
	for (uint32_t n = 0; n < d.count; n++)
		free(before[n]);
	g4_wg_destroy(wg);
	free(page);
	free(found);
	disks_free(&d);
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
			for (uint32_t at = 1, over = 0; !over;
			     at += (shapes[s].full ? 4 : 1) * (uint32_t)rig_every(41)) {
				struct g4_fault fault = {.cut_after_writes = at, .write_through = true};
				uint32_t files = 0;
				struct faulty f;
				restore_disks(&d, before);
				mount_faulty(&d, &f, NULL);
				g4_dev_fault_set(f.fault[which], &fault);
				int rc = order(&d, G4_DISK_REBALANCE, "");
				while (rc == 0 && job(&d).state == G4_JOB_RUNNING && files < MOST_SYNCED) {
					rc = disks_put(&d, files, 1);
					files += rc == 0;
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
				if (!mount_most(&d, all_of(&d)))
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

static void what_can_not_be_done_is_told(void **state)
{
	struct g4_dev *dev;
	uint64_t ballast;
	struct disks d;

	(void)state;
	format(&d, &shapes[0], &ballast);
	disks_mount_fs(&d, all_of(&d), &dev);
	begin(&d, G4_DISK_OFFLINE, 0);
	assert_int_equal(order(&d, G4_DISK_REBALANCE, ""), -G4_E_BUSY);
	assert_non_null(strstr(d.message, "disk 0 is missing"));
	begin(&d, G4_DISK_REBUILD, 0);
	assert_int_equal(order(&d, G4_DISK_REBALANCE, ""), -G4_E_BUSY);
	assert_non_null(strstr(d.message, "is being rebuilt"));
	finish(&d);
	/* what begins meanwhile ends it, and nothing is lost */
	start(&d, 0);
	step(&d);
	begin(&d, G4_DISK_OFFLINE, 1);
	while (job(&d).state == G4_JOB_RUNNING)
		step(&d);
	assert_int_equal(job(&d).state, G4_JOB_FAILED);
	assert_int_equal(job(&d).code, G4_E_BUSY);
	disks_expect_filled(&d, ballast, shapes[0].ballast);
	disks_unmount_fs(&d, dev, true);
	disks_free(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(users_write_while_a_disk_gets_its_share),
		cmocka_unit_test(threads_write_while_a_disk_gets_its_share),
		cmocka_unit_test(nothing_moves_under_a_request),
		cmocka_unit_test(what_is_lent_waits_for_requests),
		cmocka_unit_test(what_is_lent_is_free),
		cmocka_unit_test(chunks_are_told_while_they_move),
		cmocka_unit_test(it_goes_on_after_a_pause_and_an_unmount),
		cmocka_unit_test(the_power_fails_at_any_request),
		cmocka_unit_test(what_follows_a_torn_switch_is_on_all_disks),
		cmocka_unit_test(a_disk_fails_meanwhile),
		cmocka_unit_test(what_can_not_be_done_is_told),
	};
	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
