/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders that change which disks and chunks a set has, where something else happens at the same time: another order, a
 * superblock that is written, a disk that fails, a crash after a crash.
 */
#include <pthread.h>
#include <time.h>

#include "rebuilding.h"

#include "fs/resize_host.h"

#define BYTES (48 * G4_MIB)
#define PIECE (2 * G4_MIB)
#define ORDERS 8u

/* The first disks of five, part of which are nobody's. */
static void format(struct disks *d, uint32_t count, const struct g4_set_plan *plan)
{
	uint64_t bytes[MOST_DISKS];

	for (uint32_t n = 0; n < MOST_DISKS; n++)
		bytes[n] = BYTES;
	disks_make(d, 5, bytes);
	d->count = count;
	disks_format_plan(d, plan, G4_CHECKSUM_NONE);
	disks_mount(d, (1u << count) - 1);
	assert_int_equal(disks_put(d, 0, 1), 0);
	disks_unmount(d);
}

static void release(struct disks *d)
{
	d->count = 5;
	disks_free(d);
}

static void expect_opens(struct disks *d, uint32_t which)
{
	struct g4_dev *dev;

	if (disks_try_open(d, which, true, G4_DEV_READ_ONLY, &dev) < 0)
		fail_msg("with disks %x: %s", which, d->message);
	disks_begin_fs(d, dev, G4_FS_READ_ONLY);
	disks_expect_files(d, 1, 1);
	disks_unmount_fs(d, dev, true);
}

static uint32_t chunks_of(const struct g4_dev *set)
{
	struct g4_chunk chunk;
	uint32_t n = 0;

	while (g4_set_chunk(set, n, &chunk))
		n++;
	return n;
}

/* Orders take long enough to meet each other. */
static void delay(void *context, const struct g4_io *io)
{
	const struct timespec time = {.tv_nsec = 300000};

	(void)context;
	if (io->op != G4_IO_READ)
		nanosleep(&time, NULL);
}

static void delay_all(struct disks *d, struct faulty *f)
{
	for (uint32_t n = 0; n < d->count; n++)
		g4_dev_fault_watch(f->fault[n], delay, NULL);
}

struct orderer {
	struct g4_dev *set;
	uint32_t level, done;
	bool over; /* atomic */
};

static void *give_orders(void *argument)
{
	struct orderer *o = (struct orderer *)argument;
	char message[512];

	for (uint32_t k = 0; k < ORDERS; k++)
		o->done += g4_set_assign_to(o->set, o->level, PIECE, message, sizeof(message)) == 0;
	__atomic_store_n(&o->over, true, __ATOMIC_RELEASE);
	return NULL;
}

static void two_orders_at_once_are_one_after_the_other(void **state)
{
	const struct g4_set_plan plan = {.raid = G4_RAID_NONE, .leave_percent = 50};

	(void)state;
	for (uint32_t round = 0; round < 3; round++) {
		struct disks d;
		struct faulty f;
		pthread_t threads[2];
		format(&d, 3, &plan);
		disks_open_faulty(&d, &f);
		delay_all(&d, &f);
		const uint32_t before = chunks_of(f.set);
		struct orderer orders[2] = {{.set = f.set, .level = G4_LEVEL_STRIPED},
					    {.set = f.set, .level = G4_LEVEL_STRIPED}};
		for (uint32_t k = 0; k < 2; k++)
			assert_int_equal(pthread_create(&threads[k], NULL, give_orders, &orders[k]), 0);
		for (uint32_t k = 0; k < 2; k++)
			pthread_join(threads[k], NULL);
		assert_true(orders[0].done + orders[1].done > 2);
		assert_int_equal(chunks_of(f.set), before + orders[0].done + orders[1].done);
		g4_dev_close(f.set);
		expect_opens(&d, 7);
		release(&d);
	}
}

struct adder {
	struct g4_dev *set, *disk;
	const char *name;
	int rc;
};

static void *add_one(void *argument)
{
	struct adder *a = (struct adder *)argument;
	char message[512];

	a->rc = g4_set_add_to(a->set, a->disk, a->name, message, sizeof(message));
	return NULL;
}

static void two_disks_at_once_are_added_both(void **state)
{
	const struct g4_set_plan plan = {.raid = G4_RAID_NONE};
	struct adder adders[2];
	pthread_t threads[2];
	struct disks d;
	struct faulty f;

	(void)state;
	format(&d, 3, &plan);
	disks_open_faulty(&d, &f);
	delay_all(&d, &f);
	for (uint32_t k = 0; k < 2; k++)
		adders[k] = (struct adder){f.set, disks_open_one(d.names[3 + k]), d.names[3 + k], 1};
	for (uint32_t k = 0; k < 2; k++)
		assert_int_equal(pthread_create(&threads[k], NULL, add_one, &adders[k]), 0);
	for (uint32_t k = 0; k < 2; k++) {
		pthread_join(threads[k], NULL);
		assert_int_equal(adders[k].rc, 0);
	}
	assert_int_equal(g4_dev_props(f.set)->disks, 5);
	g4_dev_close(f.set);
	d.count = 5;
	expect_opens(&d, 31);
	release(&d);
}

/* What was acknowledged is what is read, whatever an order does meanwhile. */
static void a_superblock_that_was_written_stays(void **state)
{
	const struct g4_set_plan plan = {.raid = G4_RAID_1, .copies = 2, .leave_percent = 60};
	struct g4_superblock *sb = (struct g4_superblock *)aligned_alloc(G4_PAGE_BYTES, G4_PAGE_BYTES),
			     *found = (struct g4_superblock *)aligned_alloc(G4_PAGE_BYTES, G4_PAGE_BYTES);
	struct g4_wg *wg = g4_wg_create(0);
	struct disks d;
	struct faulty f;
	pthread_t thread;

	(void)state;
	format(&d, 4, &plan);
	disks_open_faulty(&d, &f);
	delay_all(&d, &f);
	struct orderer order = {.set = f.set, .level = G4_LEVEL_PARITY};
	assert_int_equal(g4_dev_read(wg, f.set, G4_SUPERBLOCK_ADDRESS, sb, sizeof(*sb)), 0);
	assert_int_equal(pthread_create(&thread, NULL, give_orders, &order), 0);
	while (!__atomic_load_n(&order.over, __ATOMIC_ACQUIRE)) {
		sb->mount_count = sb->mount_count + 1;
		sb->header.generation = sb->header.generation + 1;
		g4_block_seal(sb, G4_BLOCK_SUPERBLOCK, g4_address_from(G4_SUPERBLOCK_ADDRESS), sb->header.generation,
			      g4_superblock_tag(sb));
		assert_int_equal(g4_dev_write(wg, f.set, G4_SUPERBLOCK_ADDRESS, sb, sizeof(*sb), G4_IO_FUA), 0);
		for (uint32_t k = 0; k < 4; k++) {
			assert_int_equal(g4_dev_read(wg, f.set, G4_SUPERBLOCK_ADDRESS, found, sizeof(*found)), 0);
			assert_int_equal(found->mount_count, sb->mount_count);
		}
	}
	pthread_join(thread, NULL);
	assert_true(order.done > 0);
	g4_dev_close(f.set);
	g4_wg_destroy(wg);
	free(sb);
	free(found);
	release(&d);
}

#define LABELS (MOST_DISKS * 2)
static void copy_labels(struct disks *d, uint8_t labels[LABELS][G4_PAGE_BYTES], bool put, uint32_t from)
{
	for (uint32_t n = from; n < d->count * 2; n++) {
		uint8_t *at = d->memory[n / 2] + (n % 2 ? G4_SUPERBLOCK_ADDRESS : d->bytes[n / 2] - G4_PAGE_BYTES);
		memcpy(put ? at : labels[n], put ? labels[n] : at, G4_PAGE_BYTES);
	}
}

/* What is on the disks. */
static void save(const struct disks *d, uint8_t **before)
{
	for (uint32_t n = 0; n < d->count; n++) {
		before[n] = (uint8_t *)malloc(d->bytes[n]);
		rig_copy(before[n], d->memory[n], d->bytes[n]);
	}
}

/* A crash behind each `step` writes of an order opens with all disks that there were, and without any one of them. */
static void expect_survives(struct disks *d, uint8_t **before, struct faulty *f, const struct disks_order *order,
			    uint32_t step, uint64_t seed)
{
	const uint32_t all = (1u << d->count) - 1;
	uint64_t random = seed;
	struct disks crashed;
	struct g4_dev *set;

	disks_make(&crashed, d->count, d->bytes);
	for (uint32_t at = 0; at <= order->count; at += step)
		for (uint32_t lost = 0; lost <= d->count; lost++) {
			disks_crash(&crashed, before, f, order, at, &random);
			if (disks_try_open(&crashed, all & ~(1u << lost), true, 0, &set) < 0)
				fail_msg("case %llu, crash after %u, without disk %u: %s", (unsigned long long)seed, at,
					 lost, crashed.message);
			g4_dev_close(set);
		}
	disks_free(&crashed);
}

static void forget(const struct disks *d, uint8_t **before)
{
	for (uint32_t n = 0; n < d->count; n++)
		free(before[n]);
}

/* The superblocks of both crashes lead to places of the table that were written since; each is written in the order of `labels`. */
static void a_second_crash_and_a_lost_disk_leave_a_set(void **state)
{
	static uint8_t old[LABELS][G4_PAGE_BYTES];
	static struct disks_order order;
	const struct g4_set_plan plan = {.raid = G4_RAID_1, .copies = 2, .leave_percent = 60};

	(void)state;
	for (uint32_t written = 1; written < 8; written += 2) {
		struct disks d;
		struct faulty f;
		struct g4_dev *set;
		uint8_t *before[MOST_DISKS];
		format(&d, 4, &plan);
		copy_labels(&d, old, false, 0);
		assert_int_equal(disks_try_open(&d, 15, false, 0, &set), 0);
		assert_int_equal(g4_set_assign_to(set, G4_LEVEL_PARITY, PIECE, d.message, sizeof(d.message)), 0);
		g4_dev_close(set);
		/* so many superblocks were written, not the others */
		copy_labels(&d, old, true, written);
		save(&d, before);
		disks_open_faulty(&d, &f);
		memset(&order, 0, sizeof(order));
		disks_watch(&d, &f, &order);
		assert_int_equal(g4_set_assign_to(f.set, G4_LEVEL_PARITY, PIECE, d.message, sizeof(d.message)), 0);
		expect_survives(&d, before, &f, &order, rig_every(2), written);
		g4_dev_close(f.set);
		forget(&d, before);
		expect_opens(&d, 15);
		release(&d);
	}
}

/* It is dropped before the table is switched: all have to be there for that. */
static void a_disk_that_fails_before_the_switch_stops_it(void **state)
{
	const struct g4_set_plan plan = {.raid = G4_RAID_1, .copies = 2, .leave_percent = 60};

	(void)state;
	for (uint32_t at = 1; at < 4; at++) {
		const struct g4_fault fault = {.fail_write_at = at};
		struct disks d;
		struct faulty f;
		struct g4_dev *set;
		format(&d, 4, &plan);
		disks_open_faulty(&d, &f);
		const uint32_t chunks = chunks_of(f.set);
		g4_dev_fault_set(f.fault[1], &fault);
		const int rc = g4_set_assign_to(f.set, G4_LEVEL_PARITY, PIECE, d.message, sizeof(d.message));
		assert_true(rc < 0);
		assert_int_equal(chunks_of(f.set), chunks);
		assert_int_equal(state_of(f.set, 1), G4_DISK_DROPPED);
		g4_dev_close(f.set);
		expect_opens(&d, 13);
		/* by what the others say it is stale */
		assert_true(disks_try_open(&d, 15, false, G4_DEV_READ_ONLY, &set) < 0);
		assert_non_null(strstr(d.message, "stale"));
		release(&d);
	}
}

static void a_new_disk_that_dies_is_withdrawn(void **state)
{
	const struct g4_set_plan plans[2] = {{.raid = G4_RAID_NONE}, {.raid = G4_RAID_1, .copies = 2}};
	uint32_t failed = 0;

	(void)state;
	for (uint32_t k = 0; k < 2; k++)
		for (uint32_t at = 1; at < 24; at++) {
			const struct g4_fault fault = {
				.cut_after_writes = at, .keep_unflushed = true, .write_through = true};
			struct disks d;
			struct g4_dev *set, *disk;
			format(&d, 2, &plans[k]);
			assert_int_equal(disks_try_open(&d, 3, false, 0, &set), 0);
			assert_int_equal(g4_dev_fault_open(disks_open_one(d.names[2]), &disk), 0);
			g4_dev_fault_set(disk, &fault);
			const uint32_t chunks = chunks_of(set);
			if (g4_set_add_to(set, disk, d.names[2], d.message, sizeof(d.message)) < 0) {
				failed++;
				assert_int_equal(chunks_of(set), chunks);
				assert_int_equal(g4_dev_props(set)->disks, 2);
				/* another one, at once or later */
				if (at % 2) {
					g4_dev_close(set);
					expect_opens(&d, 3);
					assert_int_equal(disks_try_open(&d, 3, false, 0, &set), 0);
				}
				if (g4_set_add_to(set, NULL, d.names[2], d.message, sizeof(d.message)) < 0)
					fail_msg("after %u writes: %s", at, d.message);
			}
			assert_int_equal(g4_dev_props(set)->disks, 3);
			g4_dev_close(set);
			d.count = 3;
			expect_opens(&d, 7);
			release(&d);
		}
	assert_true(failed > 10);
}

/* A crash while the others say again what they said: some know of the new disk, which is no more. */
static void a_crash_while_a_disk_is_withdrawn_leaves_the_set(void **state)
{
	static struct disks_order order;
	const struct g4_set_plan plan = {.raid = G4_RAID_1, .copies = 2};
	uint32_t withdrawn = 0;

	(void)state;
	for (uint32_t cut = 1; cut < 24; cut++) {
		const struct g4_fault fault = {.cut_after_writes = cut, .keep_unflushed = true, .write_through = true};
		struct disks d;
		struct faulty f;
		struct g4_dev *disk;
		uint8_t *before[MOST_DISKS];
		format(&d, 3, &plan);
		save(&d, before);
		disks_open_faulty(&d, &f);
		memset(&order, 0, sizeof(order));
		disks_watch(&d, &f, &order);
		assert_int_equal(g4_dev_fault_open(disks_open_one(d.names[3]), &disk), 0);
		g4_dev_fault_set(disk, &fault);
		const bool failed = g4_set_add_to(f.set, disk, d.names[3], d.message, sizeof(d.message)) < 0;
		withdrawn += failed && order.count > 8;
		if (failed)
			expect_survives(&d, before, &f, &order, 1, cut);
		g4_dev_close(f.set);
		forget(&d, before);
		release(&d);
	}
	assert_true(withdrawn > 0);
}

static uint64_t available(struct disks *d)
{
	struct g4_statfs s;
	struct g4_cmd cmd = {.op = G4_CMD_STATFS, .data = &s, .length = sizeof(s)};

	assert_int_equal(g4_engine_execute(d->rig.engine, &cmd), 0);
	return s.blocks_available;
}

/* Mounted or not, the level of what there was may be asked for by its name. */
static void more_of_the_own_level_is_for_all(void **state)
{
	static const struct {
		struct g4_set_plan plan;
		uint32_t level;
	} own[] = {{{.raid = G4_RAID_NONE, .leave_percent = 60}, G4_LEVEL_NONE},
		   {{.raid = G4_RAID_0, .leave_percent = 60}, G4_LEVEL_STRIPED},
		   {{.raid = G4_RAID_1, .copies = 2, .leave_percent = 60}, G4_LEVEL_COPIES},
		   {{.raid = G4_RAID_PARITY, .parity = 1, .stripe_bytes = ROWS_STRIPE, .leave_percent = 60},
		    G4_LEVEL_PARITY}};

	(void)state;
	for (uint32_t k = 0; k < sizeof(own) / sizeof(own[0]); k++) {
		struct disks d;
		struct g4_dev *set;
		struct g4_chunk chunk;
		uint64_t bytes, ino;
		format(&d, 4, &own[k].plan);
		disks_mount(&d, 15);
		const uint64_t before = available(&d);
		disks_unmount(&d);
		assert_int_equal(disks_try_open(&d, 15, false, 0, &set), 0);
		const uint32_t chunks = chunks_of(set);
		const uint64_t old = g4_dev_props(set)->size_bytes;
		if (g4_set_assign_to(set, own[k].level, 8 * G4_MIB, d.message, sizeof(d.message)) < 0 ||
		    g4_resize_device(set, 0, &bytes, d.message, sizeof(d.message)) < 0)
			fail_msg("%s", d.message);
		for (uint32_t n = chunks; g4_set_chunk(set, n, &chunk); n++)
			assert_int_equal(chunk.level, G4_LEVEL_OWN);
		const uint64_t more = g4_dev_props(set)->size_bytes - old;
		assert_true(more > 0);
		g4_dev_close(set);
		disks_mount(&d, 15);
		assert_true(available(&d) + 16 >= before + more / G4_PAGE_BYTES);
		bytes = disks_fill(&d, &ino);
		assert_true(bytes / G4_PAGE_BYTES > before);
		disks_expect_filled(&d, ino, bytes);
		disks_unmount(&d);
		disks_expect_clean(&d, 15);
		release(&d);
	}
}

struct commander {
	struct disks *d;
	uint32_t done, busy;
};

static void *command(void *argument)
{
	struct commander *c = (struct commander *)argument;
	char message[1024];

	for (uint32_t k = 0; k < ORDERS; k++) {
		struct g4_cmd more = {.op = G4_CMD_DISK,
				      .mask = G4_DISK_ASSIGN,
				      .number = G4_LEVEL_STRIPED,
				      .name = "2097152",
				      .name_bytes = 7,
				      .data = message,
				      .length = sizeof(message)};
		const int rc = g4_engine_execute(c->d->rig.engine, &more);
		c->done += rc == 0;
		c->busy += rc == -G4_E_BUSY;
	}
	return NULL;
}

static void mounted_two_orders_at_once_are_carried_out_both(void **state)
{
	const struct g4_set_plan plan = {.raid = G4_RAID_NONE, .leave_percent = 50};
	struct commander commanders[2];
	pthread_t threads[2];
	struct disks d;
	struct faulty f;

	(void)state;
	format(&d, 3, &plan);
	disks_open_faulty(&d, &f);
	disks_mount_faulty(&d, &f);
	delay_all(&d, &f);
	const uint32_t before = chunks_of(f.set);
	for (uint32_t k = 0; k < 2; k++) {
		commanders[k] = (struct commander){.d = &d};
		assert_int_equal(pthread_create(&threads[k], NULL, command, &commanders[k]), 0);
	}
	for (uint32_t k = 0; k < 2; k++) {
		pthread_join(threads[k], NULL);
		assert_true(commanders[k].done > 0);
		assert_int_equal(commanders[k].busy, 0);
	}
	assert_int_equal(chunks_of(f.set), before + commanders[0].done + commanders[1].done);
	disks_unmount(&d);
	disks_expect_clean(&d, 7);
	expect_opens(&d, 7);
	release(&d);
}

/*
 * All that were there fail at the switch, one as the others: the new disk may not call one of them stale that is as good as they are, for then
 * all would be refused together when they come back.
 */
static void old_disks_that_all_fail_are_told_apart_by_nobody(void **state)
{
	const struct g4_set_plan plan = {.raid = G4_RAID_1, .copies = 3};
	uint32_t tries = 0, switched = 0;
	int rc = -1;

	(void)state;
	for (; rc < 0; tries++) {
		const struct g4_fault fails = {.cut_after_writes = 1 + tries, .write_through = true};
		struct disks d;
		struct faulty f;
		struct g4_dev *dev;
		format(&d, 3, &plan);
		disks_open_faulty(&d, &f);
		for (uint32_t k = 0; k < 3; k++)
			g4_dev_fault_set(f.fault[k], &fails);
		rc = g4_set_add_to(f.set, NULL, d.names[3], d.message, sizeof(d.message));
		g4_dev_close(f.set);
		d.count = 4;
		const bool opens = disks_try_open(&d, 15, true, G4_DEV_READ_ONLY, &dev) == 0;
		if (opens)
			g4_dev_close(dev);
		if (!opens && strstr(d.message, "stale"))
			fail_msg("disks that fail after %u writes: %s", 1 + tries, d.message);
		switched += opens;
		expect_opens(&d, opens ? 15 : 7);
		release(&d);
	}
	print_message("%u tries, %u with the new disk\n", tries, switched);
	assert_true(switched > 1 && switched < tries);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_orders_at_once_are_one_after_the_other),
		cmocka_unit_test(two_disks_at_once_are_added_both),
		cmocka_unit_test(a_superblock_that_was_written_stays),
		cmocka_unit_test(a_second_crash_and_a_lost_disk_leave_a_set),
		cmocka_unit_test(a_disk_that_fails_before_the_switch_stops_it),
		cmocka_unit_test(a_new_disk_that_dies_is_withdrawn),
		cmocka_unit_test(a_crash_while_a_disk_is_withdrawn_leaves_the_set),
		cmocka_unit_test(more_of_the_own_level_is_for_all),
		cmocka_unit_test(mounted_two_orders_at_once_are_carried_out_both),
		cmocka_unit_test(old_disks_that_all_fail_are_told_apart_by_nobody),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
