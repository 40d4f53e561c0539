/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders that change what disks a set of rows with parity has, one after the other, mounted and not: rows that are gone, that were moved and that were
 * added lie beside each other then, and what files have survives the loss of any disk.
 */
#include "moving.h"
#include "rows_moving.h"

#include "alloc/alloc.h"
#include "leveled.h"
#include "space/set_epoch_host.h"

#define SLOTS 7u /* disks that there are; some of them are of the set */
static const struct shape shape = {3, 1, 3, 64 * G4_MIB};

struct set {
	struct disks d;
	struct model m;
	struct g4_dev *dev; /* mounted, or NULL */
	uint64_t ballast;
	uint32_t members; /* a bit for each disk */
};

static void mount_set(struct set *s)
{
	if (!s->dev)
		disks_mount_fs(&s->d, s->members, &s->dev);
}

static void unmount(struct set *s)
{
	if (s->dev)
		disks_unmount_fs(&s->d, s->dev, true);
	s->dev = NULL;
}

static struct g4_dev *open_set(struct set *s)
{
	struct g4_dev *dev;

	unmount(s);
	if (disks_try_open(&s->d, s->members, false, 0, &dev) < 0)
		fail_msg("%s", s->d.message);
	return dev;
}

static void expect_done(const struct set *s, int rc)
{
	if (rc < 0)
		fail_msg("members %x: %s", s->members, s->d.message);
}

/* Whether it was done. */
static bool run_to_its_end(struct set *s, uint32_t kind)
{
	for (uint32_t steps = 0; newest_of(&s->d, kind).state == G4_JOB_RUNNING; steps++) {
		for (uint32_t k = 0; k < 3; k++)
			use(&s->m, &s->d);
		step(&s->d);
		assert_true(steps < 4000);
	}
	return newest_of(&s->d, kind).state == G4_JOB_DONE;
}

static void run(struct set *s, uint32_t kind)
{
	assert_true(run_to_its_end(s, kind));
}

/* ---- orders ---- */

static void remove_unmounted(struct set *s, uint32_t slot)
{
	struct g4_dev *dev = open_set(s);
	uint64_t bytes;

	expect_done(s, g4_remove_disk(dev, s->d.names[slot], NULL, &bytes, s->d.message, sizeof(s->d.message)));
	g4_dev_close(dev);
	s->members &= ~(1u << slot);
}

static void add(struct set *s, uint32_t slot)
{
	struct g4_dev *dev = open_set(s);
	uint64_t bytes = 0;

	rig_pattern(s->d.memory[slot], 50 + slot, s->d.bytes[slot]);
	expect_done(s, g4_set_add_to(dev, NULL, s->d.names[slot], s->d.message, sizeof(s->d.message)));
	expect_done(s, g4_resize_device(dev, 0, &bytes, s->d.message, sizeof(s->d.message)));
	g4_dev_close(dev);
	s->members |= 1u << slot;
}

static void balance_mounted(struct set *s, uint32_t slot)
{
	(void)slot;
	mount_set(s);
	expect_done(s, order(&s->d, G4_DISK_REBALANCE, ""));
	run(s, G4_JOB_REBALANCE);
}

static void balance_unmounted(struct set *s, uint32_t slot)
{
	struct g4_dev *dev = open_set(s);
	uint64_t moved;

	(void)slot;
	expect_done(s, g4_balance_disks(dev, NULL, &moved, s->d.message, sizeof(s->d.message)));
	g4_dev_close(dev);
}

static void rebuild(struct set *s, uint32_t slot)
{
	mount_set(s);
	begin(&s->d, G4_DISK_OFFLINE, slot);
	for (uint32_t k = 0; k < 20; k++)
		use(&s->m, &s->d);
	begin(&s->d, G4_DISK_REBUILD, slot);
	run(s, G4_JOB_REBUILD);
}

/* ---- what is there ---- */

static void expect_there(struct set *s)
{
	for (uint32_t k = 0; k < 20; k++)
		use(&s->m, &s->d);
	expect_model(&s->m, &s->d);
	disks_expect_filled(&s->d, s->ballast, shape.ballast);
	assert_int_equal(disks_scrub(&s->d), 0);
	unmount(s);
	disks_expect_clean(&s->d, s->members);
}

/* Also where all that is free was written since, in parts of rows. */
static void expect_survived(struct set *s)
{
	uint8_t *before[MOST_DISKS];
	uint64_t small;

	mount_set(s);
	const uint64_t bytes = fill_in_small_pieces(&s->d, &small);
	unmount(s);
	keep_disks(&s->d, before);
	for (uint32_t lost = 0; lost < SLOTS; lost++) {
		struct g4_dev *dev;
		if (!(s->members >> lost & 1))
			continue;
		disks_mount_fs(&s->d, s->members & ~(1u << lost), &dev);
		expect_model(&s->m, &s->d);
		disks_expect_filled(&s->d, s->ballast, shape.ballast);
		expect_small_pieces(&s->d, small, bytes);
		disks_unmount_fs(&s->d, dev, true);
		restore_disks(&s->d, before);
	}
	for (uint32_t n = 0; n < s->d.count; n++)
		free(before[n]);
}

/* ---- tests ---- */

static void begin_set(struct set *s)
{
	const uint64_t bytes = ROWS_BYTES;
	struct disks more;

	memset(s, 0, sizeof(*s));
	format(&s->d, &shape, &s->ballast);
	s->members = all_of(&s->d);
	disks_make(&more, SLOTS - s->d.count, &bytes);
	for (uint32_t n = 0, slot = s->d.count; n < more.count; n++, slot++) {
		s->d.fds[slot] = more.fds[n];
		s->d.memory[slot] = more.memory[n];
		s->d.bytes[slot] = more.bytes[n];
		memcpy(s->d.names[slot], more.names[n], sizeof(more.names[n]));
	}
	s->d.count = SLOTS;
	mount_set(s);
	begin_model(&s->m, &s->d);
}

/*
 * A set whose disk was removed while users wrote. Rows go to free places of their length: files may lie so that there is none left, and then the order
 * ends; so another set is begun.
 */
static void begin_without(struct set *s, uint32_t slot)
{
	for (uint32_t tries = 0;; tries++) {
		begin_set(s);
		expect_done(s, order(&s->d, G4_DISK_REMOVE, s->d.names[slot]));
		if (run_to_its_end(s, G4_JOB_REMOVE))
			break;
		assert_int_equal(newest_of(&s->d, G4_JOB_REMOVE).code, G4_E_NOSPC);
		assert_true(tries < 20);
		unmount(s);
		disks_expect_clean(&s->d, s->members);
		end_model(&s->m);
		disks_free(&s->d);
	}
	s->members &= ~(1u << slot);
}

static void expect_gone(struct set *s)
{
	mount_set(s);
	assert_true(g4_alloc_free_in(&s->d.rig.fs->alloc, G4_POOL_GONE) > 0);
	expect_there(s);
}

static void orders_follow_one_that_gave_rows_up(void **state)
{
	static const struct {
		void (*give)(struct set *s, uint32_t slot);
		uint32_t slot;
	} orders[] = {{rebuild, 1}, {remove_unmounted, 2}, {add, 6}, {balance_unmounted, 0},
		      {add, 4},	    {balance_mounted, 0}};
	static struct set s;

	(void)state;
	begin_without(&s, 4);
	expect_gone(&s);
	for (size_t k = 0; k < sizeof(orders) / sizeof(orders[0]); k++) {
		orders[k].give(&s, orders[k].slot);
		expect_gone(&s);
	}
	expect_survived(&s);
	end_model(&s.m);
	disks_free(&s.d);
}

/* ---- rows that have all disks ---- */

/* Chunks that lie on every disk of what is mounted; *used: pages of them that somebody has. */
static uint32_t chunks_on_all(struct set *s, uint64_t *used)
{
	uint32_t count = 0;
	struct g4_chunk chunk;

	*used = 0;
	for (uint32_t n = 0; g4_set_chunk(s->dev, n, &chunk); n++) {
		if (chunk.columns < (uint32_t)__builtin_popcount(s->members))
			continue;
		count++;
		for (uint64_t page = chunk.address / G4_PAGE_BYTES;
		     page < (chunk.address + chunk.bytes) / G4_PAGE_BYTES; page++)
			*used += g4_alloc_in_use(s->d.rig.wg, &s->d.rig.fs->alloc, g4_page_address(page)) == 1;
	}
	return count;
}

/* Without users until none of those is left: what they write may lie there, and then it can not be done. */
static void remove_quietly(struct set *s, uint32_t slot)
{
	uint64_t used;

	mount_set(s);
	expect_done(s, order(&s->d, G4_DISK_REMOVE, s->d.names[slot]));
	for (uint32_t steps = 0; chunks_on_all(s, &used) > 0 && newest_of(&s->d, G4_JOB_REMOVE).state == G4_JOB_RUNNING;
	     steps++) {
		step(&s->d);
		assert_true(steps < 4000);
	}
	run(s, G4_JOB_REMOVE);
	s->members &= ~(1u << slot);
}

/*
 * A set in which the addition that followed a removal has laid rows over all disks, of which nothing is in use; mounted. Where what users wrote made the removal move
 * rows in pieces, what is left on the disks may be too little for that: then another set is begun.
 */
static void begin_with_free_rows_on_all(struct set *s)
{
	uint64_t used;

	for (uint32_t tries = 0;; tries++) {
		begin_without(s, 4);
		add(s, 6);
		mount_set(s);
		if (chunks_on_all(s, &used) > 0)
			break;
		assert_true(tries < 20);
		expect_there(s);
		end_model(&s->m);
		disks_free(&s->d);
	}
	assert_int_equal(used, 0);
}

static void free_rows_that_have_all_disks_are_given_up(void **state)
{
	static struct set s;
	uint64_t used;

	(void)state;
	begin_with_free_rows_on_all(&s);
	remove_quietly(&s, 1);
	mount_set(&s);
	expect_there(&s);
	add(&s, 4);
	mount_set(&s);
	assert_true(chunks_on_all(&s, &used) > 0);
	assert_int_equal(used, 0);
	remove_unmounted(&s, 0);
	mount_set(&s);
	expect_there(&s);
	expect_survived(&s);
	end_model(&s.m);
	disks_free(&s.d);
}

/* A request that takes long looks at a table of before, so nothing more is given up, however often that is asked; and that is no want of room. */
static void one_slow_request_is_waited_for(void **state)
{
	static struct set s;
	uint64_t epoch;

	(void)state;
	begin_with_free_rows_on_all(&s);
	struct g4_set *set = (struct g4_set *)s.dev->host;
	expect_done(&s, order(&s.d, G4_DISK_REMOVE, s.d.names[1]));
	(void)g4_set_view_enter(set, &epoch);
	for (uint32_t k = 0; k < 12 && newest_of(&s.d, G4_JOB_REMOVE).state == G4_JOB_RUNNING; k++)
		step(&s.d);
	assert_int_equal(g4_load64_acq(&set->epoch), epoch + 1); /* it has begun, and stands still */
	const struct g4_job_record job = newest_of(&s.d, G4_JOB_REMOVE);
	if (job.state != G4_JOB_RUNNING)
		fail_msg("state %u, %s", job.state, g4_strerror(-(int)job.code));
	g4_set_view_leave(set, epoch);
	run(&s, G4_JOB_REMOVE);
	s.members &= ~(1u << 1);
	mount_set(&s);
	expect_there(&s);
	end_model(&s.m);
	disks_free(&s.d);
}

/* What is in use there can go nowhere: that is told before anything is changed, and by a mount and without one. */
static void what_is_in_use_of_them_keeps_all_disks(void **state)
{
	static struct set s;
	uint64_t used, file, moved;

	(void)state;
	begin_with_free_rows_on_all(&s);
	const uint64_t bytes = disks_fill(&s.d, &file), gone = g4_alloc_free_in(&s.d.rig.fs->alloc, G4_POOL_GONE);
	assert_true(chunks_on_all(&s, &used) > 0 && used > 0);
	assert_int_equal(order(&s.d, G4_DISK_REMOVE, s.d.names[1]), -G4_E_INVAL);
	assert_non_null(strstr(s.d.message, "lies on all of its disks"));
	assert_int_equal(newest_of(&s.d, G4_JOB_REMOVE).state, G4_JOB_DONE); /* the one before */
	struct g4_dev *dev = open_set(&s);
	assert_int_equal(g4_remove_disk(dev, s.d.names[1], NULL, &moved, s.d.message, sizeof(s.d.message)),
			 -G4_E_INVAL);
	assert_non_null(strstr(s.d.message, "lies on all of its disks"));
	g4_dev_close(dev);
	mount_set(&s);
	assert_int_equal(g4_alloc_free_in(&s.d.rig.fs->alloc, G4_POOL_GONE), gone);
	disks_expect_filled(&s.d, file, bytes);
	/* and once that is deleted it goes */
	assert_int_equal(op_unlink(&s.d.rig, G4_NODE_ROOT, "big"), 0);
	unmount(&s);
	remove_quietly(&s, 1);
	mount_set(&s);
	expect_there(&s);
	end_model(&s.m);
	disks_free(&s.d);
}

/* Who writes there between the order and its first step ends it, before anything else was given up or moved. */
static void who_is_there_before_the_order_ends_it(void **state)
{
	static struct set s;
	uint64_t file, used;

	(void)state;
	begin_with_free_rows_on_all(&s);
	const uint64_t gone = g4_alloc_free_in(&s.d.rig.fs->alloc, G4_POOL_GONE);
	assert_int_equal(order(&s.d, G4_DISK_REMOVE, s.d.names[1]), 0);
	const uint64_t bytes = disks_fill(&s.d, &file);
	while (newest_of(&s.d, G4_JOB_REMOVE).state == G4_JOB_RUNNING)
		step(&s.d);
	const struct g4_job_record job = newest_of(&s.d, G4_JOB_REMOVE);
	assert_int_equal(job.state, G4_JOB_FAILED);
	assert_int_equal(job.code, G4_E_NOSPC);
	assert_int_equal(job.bytes, 0);
	assert_int_equal(g4_alloc_free_in(&s.d.rig.fs->alloc, G4_POOL_GONE), gone);
	assert_true(chunks_on_all(&s, &used) > 0 && used > 0);
	disks_expect_filled(&s.d, file, bytes);
	expect_model(&s.m, &s.d);
	unmount(&s);
	disks_expect_clean(&s.d, s.members);
	end_model(&s.m);
	disks_free(&s.d);
}

/* Nor are all rows of a level given up, though nothing lies in any: files that ask for it would have no place. */
static void a_level_does_not_end_with_a_disk(void **state)
{
	uint64_t bytes;
	struct world w;

	(void)state;
	begin_part(&w, G4_CHECKSUM_CRC32C, 16 * G4_MIB);
	disks_unmount_fs(&w.d, w.set, true);
	w.set = open_all(&w.d); /* and something behind it, for the last page has the second superblock */
	if (g4_set_assign_to(w.set, G4_LEVEL_COPIES, 0, w.d.message, sizeof(w.d.message)) < 0 ||
	    g4_resize_device(w.set, 0, &bytes, w.d.message, sizeof(w.d.message)) < 0)
		fail_msg("%s", w.d.message);
	assert_int_equal(g4_remove_disk(w.set, w.d.names[1], NULL, &bytes, w.d.message, sizeof(w.d.message)),
			 -G4_E_INVAL);
	assert_non_null(strstr(w.d.message, "lies on all of its disks"));
	g4_dev_close(w.set);
	mount_world(&w);
	const uint64_t free_pages = g4_alloc_free_in(&w.d.rig.fs->alloc, LEVEL);
	assert_true(free_pages >= w.free_at_first);
	assert_int_equal(order(&w.d, G4_DISK_REMOVE, w.d.names[1]), -G4_E_INVAL);
	assert_non_null(strstr(w.d.message, "lies on all of its disks"));
	assert_int_equal(g4_alloc_free_in(&w.d.rig.fs->alloc, LEVEL), free_pages);
	assert_int_equal(g4_alloc_free_in(&w.d.rig.fs->alloc, G4_POOL_GONE), 0);
	end_world(&w);
}

/* The same where rows could move, but no disk has room for any: all are free, and the last ones are not given up, by which the rest comes back. */
static void rows_do_not_end_with_a_disk(void **state)
{
	const uint64_t sizes[MOST_DISKS] = {ROWS_BYTES, ROWS_BYTES, ROWS_BYTES, 9 * G4_MIB};
	const struct g4_set_plan plan = {
		.raid = G4_RAID_PARITY, .parity = 1, .leave_percent = 20, .journal_bytes = JOURNAL_BYTES};
	uint64_t bytes = 0;
	struct g4_dev *dev;
	struct disks d;

	(void)state;
	disks_make(&d, 4, sizes);
	d.count = 3;
	disks_format_plan(&d, &plan, G4_CHECKSUM_CRC32C);
	add_next(&d, false);
	dev = open_all(&d);
	if (g4_set_assign_to(dev, G4_LEVEL_COPIES, 0, d.message, sizeof(d.message)) < 0 ||
	    g4_resize_device(dev, 0, &bytes, d.message, sizeof(d.message)) < 0)
		fail_msg("%s", d.message);
	g4_dev_close(dev);
	for (uint32_t mounted = 0; mounted < 2; mounted++) {
		if (mounted) {
			disks_mount_fs(&d, all_of(&d), &dev);
			begin(&d, G4_DISK_REMOVE, 0);
			while (newest_of(&d, G4_JOB_REMOVE).state == G4_JOB_RUNNING)
				step(&d);
			assert_int_equal(newest_of(&d, G4_JOB_REMOVE).state, G4_JOB_FAILED);
			assert_int_equal(newest_of(&d, G4_JOB_REMOVE).code, G4_E_NOSPC);
		} else {
			dev = open_all(&d);
			assert_int_equal(g4_remove_disk(dev, d.names[0], NULL, &bytes, d.message, sizeof(d.message)),
					 -G4_E_NOSPC);
			g4_dev_close(dev);
			disks_mount_fs(&d, all_of(&d), &dev);
		}
		const uint64_t gone = g4_alloc_free_in(&d.rig.fs->alloc, G4_POOL_GONE);
		assert_true(gone > 0);
		begin(&d, G4_DISK_REBALANCE, 0);
		while (newest_of(&d, G4_JOB_REBALANCE).state == G4_JOB_RUNNING)
			step(&d);
		assert_int_equal(newest_of(&d, G4_JOB_REBALANCE).state, G4_JOB_DONE);
		/* but for what lay on the fourth disk as well, which has parts of the other level by now */
		assert_true(g4_alloc_free_in(&d.rig.fs->alloc, G4_POOL_GONE) < gone / 2);
		disks_unmount_fs(&d, dev, true);
		disks_expect_clean(&d, all_of(&d));
	}
	disks_free(&d);
}

/* Nor where rows take all the room there is: what is free of others is given up for the last of a level. */
static void a_free_level_does_not_end_with_a_disk(void **state)
{
	const uint64_t sizes[MOST_DISKS] = {ROWS_BYTES, ROWS_BYTES, ROWS_BYTES, 60 * G4_MIB};
	const struct g4_set_plan plan = {
		.raid = G4_RAID_PARITY, .parity = 1, .leave_percent = 50, .journal_bytes = JOURNAL_BYTES};
	uint64_t bytes = 0;
	uint32_t on = G4_MAX_DISKS, left = 0;
	struct g4_chunk chunk;
	struct g4_dev *dev;
	struct disks d;

	(void)state;
	disks_make(&d, 4, sizes);
	d.count = 3;
	disks_format_plan(&d, &plan, G4_CHECKSUM_CRC32C);
	dev = open_all(&d);
	if (g4_set_assign_to(dev, G4_LEVEL_COPIES, G4_MIB, d.message, sizeof(d.message)) < 0 ||
	    g4_set_assign_to(dev, G4_LEVEL_PARITY, 0, d.message, sizeof(d.message)) < 0 ||
	    g4_resize_device(dev, 0, &bytes, d.message, sizeof(d.message)) < 0)
		fail_msg("%s", d.message);
	for (uint32_t n = 0; g4_set_chunk(dev, n, &chunk); n++)
		if (chunk.level == G4_LEVEL_COPIES)
			on = g4_place_disk(chunk.places[0]);
	assert_true(on < d.count);
	g4_dev_close(dev);
	add_next(&d, false);
	dev = open_all(&d);
	if (g4_remove_disk(dev, d.names[on], NULL, &bytes, d.message, sizeof(d.message)) < 0)
		fail_msg("%s", d.message);
	for (uint32_t n = 0; g4_set_chunk(dev, n, &chunk); n++)
		left += chunk.level == G4_LEVEL_COPIES;
	assert_true(left > 0);
	g4_dev_close(dev);
	disks_expect_clean(&d, all_of(&d) & ~(1u << on));
	disks_free(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(orders_follow_one_that_gave_rows_up),
		cmocka_unit_test(free_rows_that_have_all_disks_are_given_up),
		cmocka_unit_test(one_slow_request_is_waited_for),
		cmocka_unit_test(what_is_in_use_of_them_keeps_all_disks),
		cmocka_unit_test(who_is_there_before_the_order_ends_it),
		cmocka_unit_test(a_level_does_not_end_with_a_disk),
		cmocka_unit_test(rows_do_not_end_with_a_disk),
		cmocka_unit_test(a_free_level_does_not_end_with_a_disk),
	};

	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
