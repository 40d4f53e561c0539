/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A quota for the table on the device: no more pages of sums are there than fit in it, at any time and behind any mount; what has none is
 * written as it is and reads back; what is listed is found; and what goes makes room again.
 */
#include "rig.h"

#include <pthread.h>
#include <stdlib.h>

#include "alloc/share.h"
#include "fs/fs.h"
#include "fs/super.h"
#include "fs/tune_host.h"
#include "simt/simt_host.h"
#include "space/set_host.h"

#define PAGES 700u /* six quarters of a region, or seven */
#define BYTES (PAGES * (uint64_t)G4_PAGE_BYTES)
#define QUOTA 3u /* pages of sums */
#define FILES 6u

static struct rig rig;
static uint8_t data[FILES][BYTES], found[BYTES];

/* What the pages of shares say: pages that others may find, and quarters with a page of sums for them. */
struct table {
	uint64_t listed, sums;
};

static struct table table_of(const struct rig *r)
{
	struct table table = {0, 0};
	uint64_t bits[G4_LISTING_WORDS];
	struct g4_address sums;

	for (uint64_t group = 0; group < r->fs->alloc.group_count; group++)
		for (uint32_t quarter = 0; quarter < G4_GROUP_REGIONS * G4_LISTING_QUARTERS; quarter++) {
			(void)g4_share_listed(r->wg, &r->fs->alloc, group, quarter, bits, &sums);
			table.sums += !g4_address_is_none(sums);
			for (uint32_t w = 0; w < G4_LISTING_WORDS; w++)
				table.listed += (uint64_t)__builtin_popcountll(bits[w]);
		}
	return table;
}

/* As who does background jobs: groups are counted, and hints made. */
static void load(void)
{
	while (g4_jobs_serve(rig.wg, rig.fs, true) == 0)
		;
	assert_int_equal(rig.fs->alloc.counted_groups, rig.fs->alloc.group_count);
}

/* Bytes; while it is not mounted. */
static void tune(struct rig *r, uint64_t quota)
{
	const struct g4_set_options options = {.open = {.flags = G4_DEV_EXCLUSIVE, .queues = 1}};
	const char *name = r->name;
	struct g4_dev *dev;
	char message[256];

	if (g4_set_open(&name, 1, &options, &dev, message, sizeof(message)) < 0)
		fail_msg("%s", message);
	assert_int_equal(g4_tune(dev, NULL, NULL, 0, &quota), 0);
	g4_dev_close(dev);
}

static void mount_with(uint64_t quota)
{
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	tune(&rig, quota);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
}

static void mount_again(bool clean)
{
	rig_unmount_fs(&rig, rig.wg, rig.fs, clean);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
}

static int setup(void **state)
{
	(void)state;
	rig_begin_as(&rig, G4_CHECKSUM_BLAKE3, 1, 128 * G4_MIB, 0, NULL);
	mount_with(QUOTA * G4_PAGE_BYTES);
	for (uint32_t k = 0; k < FILES; k++)
		rig_pattern(data[k], k + 1, BYTES);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	load();
	assert_int_equal(rig.fs->alloc.listing_pages, table_of(&rig).sums);
	rig_end(&rig);
	return 0;
}

static uint64_t make(uint32_t number, uint32_t what)
{
	const uint64_t ino = rig_make(&rig, number);

	assert_int_equal(op_write(&rig, ino, 0, 0, data[what], BYTES, NULL), 0);
	assert_int_equal(op_fsync(&rig, ino), 0);
	return ino;
}

static void expect(uint64_t ino, uint32_t what)
{
	rig_expect_contents(&rig, ino, 0, found, data[what], BYTES);
}

static void drop(uint32_t number)
{
	char name[16];

	snprintf(name, sizeof(name), "f%u", number);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, name), 0);
	assert_int_equal(op_sync(&rig), 0);
}

static uint64_t shared(uint64_t a, uint64_t b)
{
	uint64_t count = 0;

	for (uint64_t page = 0; page < PAGES; page++)
		count += rig_place(&rig, a, page) == rig_place(&rig, b, page);
	return count;
}

static void prune(void)
{
	struct g4_dedup_counts counts = {.groups = 1};
	struct g4_cmd cmd = {.op = G4_CMD_DEDUP, .mask = G4_DEDUP_PRUNE, .data = &counts, .length = sizeof(counts)};

	while (counts.next < counts.groups) {
		cmd.cookie = counts.next;
		assert_int_equal(g4_execute(rig.wg, rig.fs, &cmd), 0);
	}
}

static struct g4_dedup_counts asked(void)
{
	struct g4_dedup_counts counts;
	struct g4_cmd cmd = {.op = G4_CMD_DEDUP, .mask = G4_DEDUP_STATS, .data = &counts, .length = sizeof(counts)};

	assert_int_equal(g4_execute(rig.wg, rig.fs, &cmd), 0);
	return counts;
}

/* As much as may be, no page more; what was listed is found, the rest is stored, and all of it is what was written. */
static void no_more_is_listed_than_the_quota_says(void **state)
{
	uint64_t first[FILES], again[FILES], known = 0;

	(void)state;
	load();
	for (uint32_t k = 0; k < FILES; k++) {
		first[k] = make(k, k);
		assert_int_equal(table_of(&rig).sums, QUOTA);
	}
	const struct table full = table_of(&rig);
	assert_true(full.listed > 0 && full.listed <= QUOTA * G4_LISTING_PAGES);
	for (uint32_t k = 0; k < FILES; k++) {
		again[k] = make(FILES + k, k);
		known += shared(first[k], again[k]);
	}
	assert_int_equal(known, full.listed);
	assert_int_equal(table_of(&rig).sums, QUOTA);
	for (uint32_t k = 0; k < FILES; k++) {
		expect(first[k], k);
		expect(again[k], k);
	}
	assert_int_equal(asked().quota_bytes, QUOTA * G4_PAGE_BYTES);
	assert_int_equal(asked().listing_bytes, QUOTA * G4_PAGE_BYTES);
	assert_int_equal(asked().counted, asked().groups);
}

static void what_is_removed_makes_room(void **state)
{
	(void)state;
	load();
	make(0, 0);
	const uint64_t b = make(1, 1);
	assert_int_equal(table_of(&rig).sums, QUOTA);
	drop(0);
	assert_int_equal(table_of(&rig).sums, 0);
	assert_int_equal(rig.fs->alloc.listing_pages, 0);
	const uint64_t c = make(2, 2), d = make(3, 2);
	assert_int_equal(table_of(&rig).sums, QUOTA);
	assert_int_equal(shared(c, d), table_of(&rig).listed);
	expect(b, 1);
	expect(d, 2);
}

/* What nobody shares goes, and its room is used; what is shared stays and is found. */
static void what_is_pruned_makes_room(void **state)
{
	(void)state;
	load();
	make(0, 0);
	prune();
	assert_int_equal(table_of(&rig).sums, 0);
	const uint64_t a = make(1, 1), b = make(2, 1);
	const struct table full = table_of(&rig);
	assert_int_equal(full.sums, QUOTA);
	assert_int_equal(shared(a, b), full.listed);
	prune();
	assert_int_equal(table_of(&rig).listed, full.listed);
	make(3, 2);
	assert_int_equal(table_of(&rig).sums, QUOTA);
	assert_int_equal(shared(a, make(4, 1)), full.listed);
}

/* Before the groups are counted nothing gets a page of sums for which there might be no room, and then as much as there is. */
static void mounts_keep_it(void **state)
{
	(void)state;
	load();
	const uint64_t a = make(0, 0);
	for (uint32_t round = 0; round < 4; round++) {
		const bool clean = round % 2 == 0;
		mount_again(clean);
		assert_int_equal(rig.fs->alloc.counted_groups, 0);
		assert_true(rig.fs->alloc.listing_pages >= QUOTA);
		make(1, 1);
		assert_int_equal(table_of(&rig).sums, QUOTA);
		load();
		assert_int_equal(rig.fs->alloc.listing_pages, QUOTA);
		const uint64_t c = make(2, 2), d = make(3, 0);
		assert_int_equal(table_of(&rig).sums, QUOTA);
		assert_int_equal(shared(a, d), table_of(&rig).listed);
		expect(a, 0);
		expect(c, 2);
		for (uint32_t number = 1; number < 4; number++)
			drop(number);
	}
	drop(0);
	mount_again(false);
	load();
	assert_int_equal(rig.fs->alloc.listing_pages, 0);
	make(0, 0);
	assert_int_equal(table_of(&rig).sums, QUOTA);
}

/* What comes and goes before its group is counted is counted once. */
static void pages_come_and_go_before_they_are_counted(void **state)
{
	(void)state;
	mount_with(64 * G4_MIB);
	make(0, 0);
	const uint64_t b = make(1, 1);
	assert_true(rig.fs->alloc.listing_pages >= table_of(&rig).sums);
	drop(0);
	make(2, 2);
	assert_true(table_of(&rig).sums >= 2 * QUOTA);
	assert_true(rig.fs->alloc.listing_pages >= table_of(&rig).sums);
	load();
	assert_int_equal(rig.fs->alloc.listing_pages, table_of(&rig).sums);
	mount_again(true);
	drop(2);
	load();
	assert_int_equal(rig.fs->alloc.listing_pages, table_of(&rig).sums);
	expect(b, 1);
}

/* One that is lowered leaves what is there, and waits until it has gone. */
static void another_quota(void **state)
{
	(void)state;
	mount_with(0);
	load();
	const uint64_t a = make(0, 0);
	const struct table whole = table_of(&rig);
	assert_int_equal(whole.listed, PAGES);
	assert_true(whole.sums > QUOTA);
	assert_int_equal(asked().quota_bytes, 0);
	mount_with(QUOTA * G4_PAGE_BYTES);
	load();
	make(1, 1);
	assert_int_equal(table_of(&rig).sums, whole.sums);
	assert_int_equal(shared(a, make(2, 0)), PAGES);
	drop(2);
	drop(0);
	make(3, 3);
	assert_int_equal(table_of(&rig).sums, QUOTA);
	mount_with((QUOTA + 1) * G4_PAGE_BYTES);
	load();
	make(4, 4);
	assert_int_equal(table_of(&rig).sums, QUOTA + 1);
}

/* A superblock may say anything. */
static void any_number_is_a_quota(void **state)
{
	static const uint64_t quotas[] = {1, G4_PAGE_BYTES - 1, UINT64_MAX, UINT64_MAX - G4_PAGE_BYTES,
					  UINT64_C(1) << 63};

	(void)state;
	for (uint32_t k = 0; k < sizeof(quotas) / sizeof(quotas[0]); k++) {
		mount_with(quotas[k]);
		load();
		const uint64_t a = make(k, k);
		assert_int_equal(table_of(&rig).listed, quotas[k] < G4_PAGE_BYTES ? 0 : PAGES);
		expect(a, k);
		drop(k);
	}
}

/* Of the mount: what the command comes to. */
static int order_in(const struct rig *r, uint64_t bytes, struct g4_dedup_counts *counts)
{
	struct g4_cmd cmd = {.op = G4_CMD_DEDUP, .mask = G4_DEDUP_QUOTA, .data = counts, .length = sizeof(*counts)};

	cmd.cookie = bytes;
	return g4_execute(r->wg, r->fs, &cmd);
}

static int order(uint64_t bytes)
{
	struct g4_dedup_counts counts;
	const int rc = order_in(&rig, bytes, &counts);

	if (rc == 0)
		assert_int_equal(counts.quota_bytes, bytes);
	return rc;
}

/* Both superblocks on the device say so, and they are whole. */
static void expect_on_device(const struct rig *r, uint64_t bytes)
{
	const uint64_t copies[2] = {G4_SUPERBLOCK_ADDRESS, r->fs->meta.layout.backup_address};

	for (uint32_t k = 0; k < 2; k++) {
		const struct g4_superblock *sb = (const struct g4_superblock *)(const void *)(r->image + copies[k]);
		assert_int_equal(
			g4_block_verify(sb, G4_BLOCK_SUPERBLOCK, g4_address_from(copies[k]), r->fs->meta.fs_tag), 0);
		assert_int_equal(sb->dedup_quota, bytes);
	}
}

/* It is what counts from then on, is on the device, and what was left plain for it is counted. */
static void another_quota_of_a_mount(void **state)
{
	(void)state;
	load();
	assert_int_equal(asked().plain, 0);
	const uint64_t a = make(0, 0); /* fills the one of before */
	struct table full = table_of(&rig);
	assert_int_equal(full.sums, QUOTA);
	uint64_t plain = asked().plain;
	assert_int_equal(plain, PAGES - full.listed);
	/* raised */
	assert_int_equal(order((QUOTA + 2) * G4_PAGE_BYTES + 1), 0);
	expect_on_device(&rig, (QUOTA + 2) * G4_PAGE_BYTES + 1);
	const uint64_t b = make(1, 1);
	struct table more = table_of(&rig);
	assert_int_equal(more.sums, QUOTA + 2);
	assert_int_equal(asked().plain, plain + PAGES - (more.listed - full.listed));
	/* lowered: what is there stays and is found, and nothing comes */
	assert_int_equal(order(G4_PAGE_BYTES), 0);
	expect_on_device(&rig, G4_PAGE_BYTES);
	plain = asked().plain;
	const uint64_t c = make(2, 2);
	assert_int_equal(asked().plain, plain + PAGES);
	assert_int_equal(table_of(&rig).listed, more.listed);
	const uint64_t d = make(3, 0);
	assert_int_equal(shared(a, d), full.listed);
	expect(b, 1);
	expect(c, 2);
	expect(d, 0);
	/* ... until enough has gone */
	for (uint32_t number = 0; number < 4; number++)
		drop(number);
	assert_int_equal(table_of(&rig).sums, 0);
	make(0, 3);
	assert_int_equal(table_of(&rig).sums, 1);
	/* none: nothing more is plain */
	assert_int_equal(order(0), 0);
	expect_on_device(&rig, 0);
	plain = asked().plain;
	full = table_of(&rig);
	make(1, 4);
	assert_int_equal(table_of(&rig).listed, full.listed + PAGES);
	assert_int_equal(asked().plain, plain);
	/* and one again, which mounts have, whatever way they end; what is counted is since the mount */
	for (uint32_t round = 0; round < 2; round++) {
		assert_int_equal(order((QUOTA + round) * G4_PAGE_BYTES), 0);
		mount_again(round == 0);
		assert_int_equal(asked().quota_bytes, (QUOTA + round) * G4_PAGE_BYTES);
		assert_int_equal(asked().plain, 0);
	}
	load();
	drop(0);
	drop(1);
	make(0, 5);
	assert_int_equal(table_of(&rig).sums, QUOTA + 1);
}

/* By a large write in which known pages lie between new ones, too. */
static void stretches_are_counted(void **state)
{
	static uint8_t mixed[4 * G4_MIB];
	const uint64_t pages = sizeof(mixed) / G4_PAGE_BYTES;
	uint64_t ino, fresh = 0;

	(void)state;
	assert_int_equal(order(0), 0);
	load();
	const uint64_t a = make(0, 0);
	rig_pattern(mixed, 99, sizeof(mixed));
	for (uint64_t page = 0; page < pages; page++)
		if (page % 10 != 0)
			memcpy(mixed + page * G4_PAGE_BYTES, data[0] + page % PAGES * G4_PAGE_BYTES, G4_PAGE_BYTES);
		else
			fresh++;
	assert_int_equal(order(G4_PAGE_BYTES), 0); /* full: it has more */
	const struct table before = table_of(&rig);
	assert_int_equal(before.listed, PAGES);
	ino = rig_make(&rig, 1);
	assert_int_equal(op_write(&rig, ino, 0, 0, mixed, sizeof(mixed), NULL), 0);
	assert_int_equal(op_fsync(&rig, ino), 0);
	assert_int_equal(asked().misses, PAGES + fresh);
	assert_int_equal(asked().plain, fresh);
	assert_int_equal(table_of(&rig).listed, before.listed);
	expect(a, 0);
	drop(1);
	assert_int_equal(table_of(&rig).sums, before.sums);
}

static void what_is_no_quota_is_refused(void **state)
{
	const struct g4_fault none = {0};

	(void)state;
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = rig_mount_fs(&rig, rig.wg, &none);
	assert_int_equal(order(1), -G4_E_INVAL);
	assert_int_equal(order(G4_PAGE_BYTES - 1), -G4_E_INVAL);
	rig.fs->flags |= G4_FS_READ_ONLY;
	assert_int_equal(order(0), -G4_E_ROFS);
	rig.fs->flags &= ~G4_FS_READ_ONLY;
	rig.fs->resizing = G4_FS_RESIZES;
	assert_int_equal(order(0), -G4_E_BUSY);
	rig.fs->resizing = 0;
	expect_on_device(&rig, QUOTA * G4_PAGE_BYTES);
	assert_int_equal(asked().quota_bytes, QUOTA * G4_PAGE_BYTES);
	for (uint32_t k = 0; k < 2; k++) { /* the one or the other can not be written */
		const struct g4_fault fault = {.fail_write_at = 1 + k};
		g4_dev_fault_set(rig.fault, &fault);
		assert_int_equal(order((QUOTA + 1) * G4_PAGE_BYTES), -G4_E_IO);
		g4_dev_fault_set(rig.fault, &none);
		assert_int_equal(asked().quota_bytes, QUOTA * G4_PAGE_BYTES);
	}
	load();
	make(0, 0);
	assert_int_equal(table_of(&rig).sums, QUOTA);
	assert_int_equal(order(UINT64_MAX), 0); /* and it can still be done */
	make(1, 1);
	assert_true(table_of(&rig).sums > QUOTA);
	mount_again(true);
	expect_on_device(&rig, UINT64_MAX);
}

/* ---------------------------------------------------------------------------------------------------- side by side */

#define WRITERS 2u
static pthread_barrier_t writers;

static void *write_apart(void *argument)
{
	const uint32_t number = (uint32_t)(uintptr_t)argument;
	struct rig own = rig; /* its workgroup */
	uint64_t ino;

	own.wg = g4_wg_create(1 + number);
	for (uint32_t round = 0; round < (rig_slow() ? 6u : 20u); round++) {
		char name[16];

		snprintf(name, sizeof(name), "w%u-%u", number, round);
		assert_int_equal(op_mknod(&own, G4_NODE_ROOT, name, G4_S_IFREG | 0644, &ino), 0);
		(void)pthread_barrier_wait(&writers);
		assert_int_equal(op_write(&own, ino, 0, 0, data[number], BYTES, NULL), 0);
		assert_int_equal(op_fsync(&own, ino), 0);
		(void)pthread_barrier_wait(&writers);
		if (number == 0)
			assert_int_equal(table_of(&own).sums, QUOTA);
		(void)pthread_barrier_wait(&writers);
		assert_int_equal(op_unlink(&own, G4_NODE_ROOT, name), 0);
	}
	g4_wg_destroy(own.wg);
	return NULL;
}

static uint64_t most_ordered; /* pages of sums */
static uint32_t writing;

static void *write_on(void *argument)
{
	const uint32_t number = (uint32_t)(uintptr_t)argument;
	struct rig own = rig;
	uint64_t ino;

	own.wg = g4_wg_create(1 + number);
	for (uint32_t round = 0; round < (rig_slow() ? 8u : 40u); round++) {
		char name[16];

		snprintf(name, sizeof(name), "w%u-%u", number, round);
		assert_int_equal(op_mknod(&own, G4_NODE_ROOT, name, G4_S_IFREG | 0644, &ino), 0);
		assert_int_equal(op_write(&own, ino, 0, 0, data[number], BYTES, NULL), 0);
		assert_int_equal(op_fsync(&own, ino), 0);
		assert_int_equal(op_unlink(&own, G4_NODE_ROOT, name), 0);
	}
	g4_sub32(&writing, 1);
	g4_wg_destroy(own.wg);
	return NULL;
}

/* Nobody makes more than the largest of them lets, and whoever has set one finds no more than it says or than there were. */
static void it_changes_beside_writers(void **state)
{
	pthread_t threads[WRITERS];
	uint64_t orders = 0;

	(void)state;
	load();
	writing = WRITERS;
	most_ordered = QUOTA;
	for (uintptr_t k = 0; k < WRITERS; k++)
		assert_int_equal(pthread_create(&threads[k], NULL, write_on, (void *)k), 0);
	while (g4_load32_acq(&writing) > 0 || orders < 12) {
		const uint64_t pages = 1 + orders++ % 6;

		most_ordered = g4_max64(most_ordered, pages);
		assert_int_equal(order(pages * G4_PAGE_BYTES), 0);
		const uint64_t before = g4_load64_acq(&rig.fs->alloc.listing_pages);
		assert_true(before <= most_ordered + WRITERS); /* one of each that looks again */
	}
	for (uint32_t k = 0; k < WRITERS; k++)
		pthread_join(threads[k], NULL);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(rig.fs->alloc.listing_pages, 0);
	assert_int_equal(order(QUOTA * G4_PAGE_BYTES), 0);
	make(0, 0);
	assert_int_equal(table_of(&rig).sums, QUOTA);
}

/* All places are taken, and none twice, whoever comes first. */
static void two_writers_at_a_time(void **state)
{
	pthread_t threads[WRITERS];

	(void)state;
	load();
	assert_int_equal(pthread_barrier_init(&writers, NULL, WRITERS), 0);
	for (uintptr_t k = 0; k < WRITERS; k++)
		assert_int_equal(pthread_create(&threads[k], NULL, write_apart, (void *)k), 0);
	for (uint32_t k = 0; k < WRITERS; k++)
		pthread_join(threads[k], NULL);
	(void)pthread_barrier_destroy(&writers);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(rig.fs->alloc.listing_pages, 0);
}

/* ---------------------------------------------------------------------------------------------------- a power cut */

/* Full, emptied, and full of others. Whether all of it is durable. */
static bool fill_twice(struct rig *r)
{
	uint64_t ino;

	for (uint32_t k = 0; k < 2; k++) {
		if (op_mknod(r, G4_NODE_ROOT, k ? "b" : "a", G4_S_IFREG | 0644, &ino) < 0 ||
		    op_write(r, ino, 0, 0, data[k], BYTES, NULL) < 0 || op_fsync(r, ino) < 0)
			return false;
		if (k == 0 && (op_unlink(r, G4_NODE_ROOT, "a") < 0 || op_sync(r) < 0))
			return false;
	}
	return op_sync(r) == 0;
}

static void a_power_cut_leaves_no_more(void **state)
{
	const uint64_t every = rig_every(3);
	uint64_t reads, flushes, last = 0, seed = 5, with = 0;
	struct rig r;

	(void)state;
	rig_pattern(data[0], 1, BYTES);
	rig_pattern(data[1], 2, BYTES);
	rig_open_as(&r, G4_CHECKSUM_BLAKE3, 1, 32 * G4_MIB, 2 * G4_MIB);
	tune(&r, QUOTA * G4_PAGE_BYTES);
	uint8_t *base = malloc(r.bytes);
	assert_non_null(base);
	rig_copy(base, r.image, r.bytes);
	const struct g4_fault none = {0};
	for (uint64_t cut = 0; cut == 0 || cut <= last; cut += cut == 0 ? 1 : every) {
		const struct g4_fault fault = {.cut_after_writes = cut,
					       .seed = cut % 3 == 1 ? rig_random(&seed) | 1 : 0,
					       .keep_unflushed = cut % 3 == 2,
					       .cut_inside = cut % 2 == 1};

		rig_copy(r.image, base, r.bytes);
		r.wg = g4_wg_create(0);
		if (rig_try_mount_fs(&r, r.wg, cut == 0 ? &none : &fault, &r.fs) ==
		    0) { /* or it is cut while it is mounted */
			while (g4_jobs_serve(r.wg, r.fs, true) == 0)
				;
			const bool done = fill_twice(&r);
			if (cut == 0) {
				assert_true(done);
				assert_int_equal(table_of(&r).sums, QUOTA);
				g4_dev_fault_counts(r.fault, &reads, &last, &flushes);
			}
			rig_unmount_fs(&r, r.wg, r.fs, false);
		}
		r.fs = rig_mount_fs(&r, r.wg, NULL);
		const struct table left = table_of(&r);
		assert_true(left.sums <= QUOTA);
		with += left.sums > 0;
		while (g4_jobs_serve(r.wg, r.fs, true) == 0)
			;
		assert_int_equal(r.fs->alloc.listing_pages, left.sums);
		struct g4_statfs statfs;
		assert_int_equal(op_statfs(&r, &statfs), 0);
		rig_unmount_fs(&r, r.wg, r.fs, true);
		r.fs = NULL;
		rig_expect_clean(&r, statfs.blocks_free, "after the cut");
		g4_wg_destroy(r.wg);
		r.wg = NULL;
	}
	assert_true(last > 20 && with > 0);
	free(base);
	rig_close(&r);
}

/* Whatever write is cut or torn: the next mount has the old quota or the new one, the new one if the order came back, and it holds. */
static void a_power_cut_while_it_changes(void **state)
{
	static const uint64_t steps[] = {QUOTA, QUOTA + 2, 1, 0};
	const struct g4_fault none = {0};
	uint64_t seed = 9, olds = 0, news = 0;
	struct rig r;

	(void)state;
	rig_pattern(data[0], 1, BYTES);
	rig_open_as(&r, G4_CHECKSUM_BLAKE3, 1, 32 * G4_MIB, 2 * G4_MIB);
	uint8_t *base = malloc(r.bytes);
	assert_non_null(base);
	for (uint32_t step = 0; step + 1 < sizeof(steps) / sizeof(steps[0]); step++) {
		const uint64_t old = steps[step] * G4_PAGE_BYTES, next = steps[step + 1] * G4_PAGE_BYTES;

		tune(&r, old);
		rig_copy(base, r.image, r.bytes);
		for (uint32_t run = 0; run < 2 * 6; run++) { /* of two writes */
			const struct g4_fault fault = {.cut_after_writes = 1 + run / 6,
						       .seed = run % 3 == 1 ? rig_random(&seed) | 1 : 0,
						       .keep_unflushed = run % 3 == 2,
						       .cut_inside = run % 2 == 1};
			struct g4_dedup_counts counts;

			rig_copy(r.image, base, r.bytes);
			r.wg = g4_wg_create(0);
			r.fs = rig_mount_fs(&r, r.wg, &none);
			while (g4_jobs_serve(r.wg, r.fs, true) == 0)
				;
			g4_dev_fault_set(r.fault, &fault);
			const int rc = order_in(&r, next, &counts);
			assert_true(rc == (run >= 6 && run % 2 == 0 ? 0 : -G4_E_IO));
			rig_unmount_fs(&r, r.wg, r.fs, false);
			r.fs = rig_mount_fs(&r, r.wg, NULL);
			const uint64_t found_quota = g4_load64_acq(&r.fs->super.dedup_quota);
			assert_true(found_quota == next || (rc < 0 && found_quota == old));
			olds += found_quota == old;
			news += found_quota == next;
			while (g4_jobs_serve(r.wg, r.fs, true) == 0)
				;
			uint64_t ino;
			assert_int_equal(op_mknod(&r, G4_NODE_ROOT, "a", G4_S_IFREG | 0644, &ino), 0);
			assert_int_equal(op_write(&r, ino, 0, 0, data[0], BYTES, NULL), 0);
			assert_int_equal(op_fsync(&r, ino), 0);
			if (found_quota != 0)
				assert_int_equal(table_of(&r).sums, found_quota / G4_PAGE_BYTES);
			else
				assert_int_equal(table_of(&r).listed, PAGES);
			struct g4_statfs statfs;
			assert_int_equal(op_statfs(&r, &statfs), 0);
			rig_unmount_fs(&r, r.wg, r.fs, true);
			r.fs = NULL;
			rig_expect_clean(&r, statfs.blocks_free, "after the cut");
			g4_wg_destroy(r.wg);
			r.wg = NULL;
		}
		rig_copy(r.image, base, r.bytes);
	}
	assert_true(olds > 0 && news > 0);
	free(base);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(no_more_is_listed_than_the_quota_says, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_removed_makes_room, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_pruned_makes_room, setup, teardown),
		cmocka_unit_test_setup_teardown(mounts_keep_it, setup, teardown),
		cmocka_unit_test_setup_teardown(pages_come_and_go_before_they_are_counted, setup, teardown),
		cmocka_unit_test_setup_teardown(another_quota, setup, teardown),
		cmocka_unit_test_setup_teardown(any_number_is_a_quota, setup, teardown),
		cmocka_unit_test_setup_teardown(another_quota_of_a_mount, setup, teardown),
		cmocka_unit_test_setup_teardown(stretches_are_counted, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_no_quota_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(two_writers_at_a_time, setup, teardown),
		cmocka_unit_test_setup_teardown(it_changes_beside_writers, setup, teardown),
		cmocka_unit_test(a_power_cut_leaves_no_more),
		cmocka_unit_test(a_power_cut_while_it_changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
