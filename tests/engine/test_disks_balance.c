/* SPDX-License-Identifier: Apache-2.0 */
/* What lies on a set is spread over all of its disks, those that were added as well, whatever the power does and whichever disks fail. */
#include "removing.h"

#include "simt/simt_host.h"
#include "space/chunk.h"

#define FILES 6u
#define BYTES (24 * G4_MIB)

struct shape {
	enum g4_raid raid;
	uint32_t disks, copies;
	bool redundant;
	bool gone; /* a disk was removed, and took room of the others; none is added */
};
static const struct shape shapes[] = {{G4_RAID_NONE, 2, 0, false, false},
				      {G4_RAID_0, 2, 0, false, false},
				      {G4_RAID_1, 2, 2, true, false},
				      {G4_RAID_0, 3, 0, false, true},
				      {G4_RAID_1, 3, 3, true, false}};
#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))

/* A file is written from there on, up to there or until there is no room; where that is. */
static uint64_t write_on(struct disks *d, uint64_t ino, uint64_t from, uint64_t to)
{
	uint8_t *data = rig_memory(G4_MIB, 5); /* as disks_fill() */
	uint64_t done = 0;

	while (from < to && op_write(&d->rig, ino, 0, from, data, G4_MIB, &done) == 0 && done == G4_MIB)
		from += G4_MIB;
	free(data);
	return from;
}

/* With files, one of some MiB or of all there is room for, and one disk more that none of them is on. */
static void format(struct disks *d, const struct shape *shape, bool full, uint64_t *ino, uint64_t *filled)
{
	const struct g4_set_plan plan = {.raid = shape->raid,
					 .copies = shape->copies,
					 .stripe_bytes = 16 * 1024,
					 .journal_bytes = JOURNAL_BYTES};
	uint64_t sizes[MOST_DISKS], bytes;

	for (uint32_t n = 0; n < MOST_DISKS; n++)
		sizes[n] = BYTES;
	disks_make(d, shape->disks + 1, sizes);
	d->count = shape->disks;
	disks_format_plan(d, &plan, G4_CHECKSUM_CRC32C);
	disks_mount(d, all_of(d));
	for (uint32_t n = 0; n < FILES; n++)
		assert_int_equal(disks_put(d, n, 1), 0);
	assert_int_equal(op_mknod(&d->rig, G4_NODE_ROOT, "large", G4_S_IFREG | 0644, ino), 0);
	*filled = write_on(d, *ino, 0, full && !shape->gone ? UINT64_MAX : 10 * G4_MIB);
	disks_unmount(d);
	if (shape->gone) {
		struct g4_dev *set = open_all(d);
		if (g4_remove_disk(set, d->names[d->count - 1], NULL, &bytes, d->message, sizeof(d->message)) < 0)
			fail_msg("%s", d->message);
		g4_dev_close(set);
		d->count--;
	} else {
		add_next(d, true);
	}
}

static void release(struct disks *d, const struct shape *shape)
{
	d->count = shape->disks + 1;
	disks_free(d);
}

static uint64_t balance_all(struct disks *d)
{
	struct g4_dev *set = open_all(d);
	uint64_t moved = 0;

	if (g4_balance_disks(set, NULL, &moved, d->message, sizeof(d->message)) < 0)
		fail_msg("%s", d->message);
	g4_dev_close(set);
	return moved;
}

static uint64_t blocks(struct disks *d)
{
	struct g4_statfs s;

	disks_mount(d, all_of(d));
	assert_int_equal(op_statfs(&d->rig, &s), 0);
	disks_unmount(d);
	return s.blocks;
}

/* Bytes of chunks without places; *widest: the most disks that one lies on. */
static uint64_t gone_of(struct disks *d, uint32_t *widest)
{
	struct g4_dev *set = open_all(d);
	struct g4_chunk chunk;
	uint64_t gone = 0;

	*widest = 0;
	for (uint32_t n = 0; g4_set_chunk(set, n, &chunk); n++) {
		gone += g4_chunk_is_gone(&chunk) ? (uint64_t)chunk.bytes : 0;
		*widest = (uint32_t)g4_max64(*widest, chunk.columns);
	}
	g4_dev_close(set);
	return gone;
}

static void expect_files(struct disks *d, uint64_t ino, uint64_t filled)
{
	disks_expect_clean(d, all_of(d));
	disks_mount(d, all_of(d));
	disks_expect_files(d, FILES, 1);
	disks_expect_filled(d, ino, filled);
	disks_unmount(d);
}

static void a_new_disk_gets_its_share(void **state)
{
	(void)state;
	for (uint32_t s = 0; s < SHAPES; s++) {
		uint64_t ino = 0, filled;
		uint32_t widest;
		struct disks d;
		format(&d, &shapes[s], true, &ino, &filled);
		const uint64_t had = blocks(&d);
		const uint64_t gone = gone_of(&d, &widest), moved = balance_all(&d);
		/* a third of what lay on all others, about */
		if (!shapes[s].gone && (moved < BYTES / 6 || moved > BYTES))
			fail_msg("shape %u: %lu bytes moved", s, (unsigned long)moved);
		assert_true(gone_of(&d, &widest) <= gone);
		assert_true(blocks(&d) >= had);
		if (shapes[s].gone) { /* what the removal took comes back */
			assert_true(gone > 0 && gone_of(&d, &widest) < gone);
			assert_true(blocks(&d) > had);
		}
		if (shapes[s].raid == G4_RAID_0) /* what is written from now on is striped over all */
			assert_true(widest >= d.count);
		expect_files(&d, ino, filled);
		assert_int_equal(balance_all(&d), 0); /* it is spread */
		expect_files(&d, ino, filled);
		if (shapes[s].raid == G4_RAID_1) { /* one disk more is of use to copies now */
			struct g4_dev *set = open_all(&d);
			uint64_t bytes = 0;
			int rc = g4_set_assign_to(set, G4_LEVEL_COPIES, 0, d.message, sizeof(d.message));
			if (rc == 0)
				rc = g4_resize_device(set, 0, &bytes, d.message, sizeof(d.message));
			if (rc < 0)
				fail_msg("shape %u: %s", s, d.message);
			g4_dev_close(set);
			assert_true(blocks(&d) * G4_PAGE_BYTES >= had * G4_PAGE_BYTES + BYTES / 4);
			expect_files(&d, ino, filled);
		}
		/* what is told to be free is */
		disks_mount(&d, all_of(&d));
		struct g4_statfs st;
		assert_int_equal(op_statfs(&d.rig, &st), 0);
		const uint64_t to = write_on(&d, ino, filled, UINT64_MAX);
		if (to - filled + 2 * G4_MIB < st.blocks_available * G4_PAGE_BYTES)
			fail_msg("shape %u: %lu of %lu pages", s, (unsigned long)((to - filled) / G4_PAGE_BYTES),
				 (unsigned long)st.blocks_available);
		disks_unmount(&d);
		expect_files(&d, ino, to);
		release(&d, &shapes[s]);
	}
}

/* Files of many sizes, of which some go again, on disks of many sizes, one of which goes, too. Whether it could. */
static bool make_ragged(struct disks *d, enum g4_raid raid, uint32_t disks, uint64_t random)
{
	const struct g4_set_plan plan = {.raid = raid,
					 .copies = raid == G4_RAID_1 ? 2 : 0,
					 .stripe_bytes = 16 * 1024,
					 .journal_bytes = JOURNAL_BYTES};
	uint8_t *data = rig_memory(G4_MIB, 5);
	uint64_t sizes[MOST_DISKS], bytes, ino, done = 0;
	char name[16];

	for (uint32_t k = 0; k < MOST_DISKS; k++)
		sizes[k] = (12 + rig_random(&random) % 12) * G4_MIB;
	disks_make(d, disks, sizes);
	disks_format_plan(d, &plan, G4_CHECKSUM_NONE);
	disks_mount(d, all_of(d));
	for (uint32_t k = 0; k < 80; k++) {
		snprintf(name, sizeof(name), "b%u", k % 40);
		if (k >= 40 && rig_random(&random) % 3)
			(void)op_unlink(&d->rig, G4_NODE_ROOT, name);
		else if (k < 40 && op_mknod(&d->rig, G4_NODE_ROOT, name, G4_S_IFREG | 0644, &ino) == 0)
			(void)op_write(&d->rig, ino, 0, 0, data, G4_PAGE_BYTES * (1 + rig_random(&random) % 256),
				       &done);
	}
	free(data);
	disks_unmount(d);
	struct g4_dev *set = open_all(d);
	const int rc = g4_remove_disk(set, d->names[d->count - 1], NULL, &bytes, d->message, sizeof(d->message));
	g4_dev_close(set);
	return rc == 0;
}

/* Such a set is balanced, if a disk could go, and has no fewer pages then. Whether that was refused, for then it would have. */
static bool balance_ragged(enum g4_raid raid, uint32_t disks, uint64_t random, uint32_t *grown)
{
	uint64_t moved = 0;
	struct disks d;
	int rc = 0;

	if (make_ragged(&d, raid, disks, random)) {
		d.count--;
		const uint64_t had = blocks(&d);
		struct g4_dev *set = open_all(&d);
		rc = g4_balance_disks(set, NULL, &moved, d.message, sizeof(d.message));
		g4_dev_close(set);
		if (rc < 0 && (rc != -G4_E_NOSPC || !strstr(d.message, "without less room")))
			fail_msg("random %lu: %s", (unsigned long)random, d.message);
		const uint64_t has = blocks(&d);
		if (has < had)
			fail_msg("random %lu: %lu pages, then %lu", (unsigned long)random, (unsigned long)had,
				 (unsigned long)has);
		*grown += has > had;
		disks_expect_clean(&d, all_of(&d));
		d.count++;
	}
	disks_free(&d);
	return rc < 0;
}

/*
 * The allocator loses a region as a whole: what is left of one is of no use to it. An order that would leave fewer of them is refused, as
 * one that would leave fewer bytes.
 */
static void no_region_is_lost_by_it(void **state)
{
	static const struct {
		enum g4_raid raid;
		uint32_t disks;
		uint64_t random;
		bool refused; /* as many bytes would be gone as before, of one region more */
	} sets[] = {{G4_RAID_0, 4, 1415, true}, {G4_RAID_0, 4, 2, false},  {G4_RAID_1, 4, 3, false},
		    {G4_RAID_0, 3, 8, false},	{G4_RAID_1, 4, 10, false}, {G4_RAID_0, 4, 92, false}};
	uint32_t grown = 0;

	(void)state;
	/* where things lie depends on when what is written is written back: a slow machine may make another set of the same numbers */
	for (size_t n = 0; n < sizeof(sets) / sizeof(sets[0]); n++) {
		bool as_expected = false;
		for (uint32_t turn = 0; turn < 5 && !as_expected; turn++)
			as_expected =
				balance_ragged(sets[n].raid, sets[n].disks, sets[n].random, &grown) == sets[n].refused;
		assert_true(as_expected);
	}
	assert_true(grown > 0);
}

/* Neighbours that would be one chunk are no reason to write a table that versions of before refuse. */
static void what_would_only_be_joined_stays(void **state)
{
	const struct g4_set_plan plan = {
		.raid = G4_RAID_1, .copies = 2, .journal_bytes = JOURNAL_BYTES, .leave_percent = 50};
	struct g4_superblock *sb = (struct g4_superblock *)(void *)rig_memory(G4_PAGE_BYTES, 1);
	struct g4_wg *wg = g4_wg_create(0);
	uint64_t bytes, ino;
	struct g4_dev *set;
	struct disks d;

	(void)state;
	disks_make(&d, 2, NULL);
	disks_format_plan(&d, &plan, G4_CHECKSUM_CRC32C);
	for (uint32_t turn = 0; turn < 2; turn++) {
		set = open_all(&d);
		int rc = g4_set_assign_to(set, G4_LEVEL_COPIES, 2 * G4_MIB, d.message, sizeof(d.message));
		if (rc == 0)
			rc = g4_resize_device(set, 0, &bytes, d.message, sizeof(d.message));
		if (rc < 0)
			fail_msg("%s", d.message);
		g4_dev_close(set);
	}
	disks_mount(&d, all_of(&d));
	disks_fill(&d, &ino); /* so that nothing is laid anew */
	disks_unmount(&d);
	assert_int_equal(balance_all(&d), 0);
	set = open_all(&d);
	assert_int_equal(g4_dev_read(wg, set, G4_SUPERBLOCK_ADDRESS, sb, G4_PAGE_BYTES), 0);
	assert_int_equal(sb->features_incompat & G4_FEATURE_INCOMPAT_MOVED, 0);
	g4_dev_close(set);
	g4_wg_destroy(wg);
	free(sb);
	disks_free(&d);
}

/* What has nowhere to go; where rows do go is test_rebalance_rows.c's. */
static void rows_on_all_disks_stay_where_they_are(void **state)
{
	uint64_t moved;
	struct disks d;

	(void)state;
	disks_make(&d, 3, NULL);
	disks_format_rows(&d, 1, G4_CHECKSUM_CRC32C);
	struct g4_dev *set = open_all(&d);
	if (g4_balance_disks(set, NULL, &moved, d.message, sizeof(d.message)) < 0)
		fail_msg("%s", d.message);
	assert_int_equal(moved, 0);
	g4_dev_close(set);
	disks_expect_clean(&d, all_of(&d));
	disks_free(&d);
}

static void a_power_cut_loses_nothing(void **state)
{
	static struct disks_order order;
	uint32_t states = 0, again = 0;

	(void)state;
	for (uint32_t s = 0; s < SHAPES; s++) {
		uint64_t ino = 0, filled, moved, random = 1 + s;
		struct disks d, crashed;
		struct faulty f;
		uint8_t *before[MOST_DISKS];
		format(&d, &shapes[s], false, &ino, &filled);
		keep_disks(&d, before);
		disks_open_faulty(&d, &f);
		memset(&order, 0, sizeof(order));
		disks_watch(&d, &f, &order);
		if (g4_balance_disks(f.set, NULL, &moved, d.message, sizeof(d.message)) < 0)
			fail_msg("%s", d.message);
		assert_true(moved > 0 || shapes[s].gone);
		disks_make(&crashed, d.count, d.bytes);
		for (uint32_t at = s % 2; at <= order.count; at += (uint32_t)rig_every(3)) {
			const uint32_t lost = shapes[s].redundant && at % 3 == 0 ? 1u << at / 3 % d.count : 0;
			disks_crash(&crashed, before, &f, &order, at, &random);
			if (disks_try_mount(&crashed, all_of(&d) & ~lost, lost != 0) < 0)
				fail_msg("shape %u, after %u requests without %x: %s", s, at, lost, crashed.message);
			disks_expect_files(&crashed, FILES, 1);
			disks_expect_filled(&crashed, ino, filled);
			/* and it is written to */
			assert_int_equal(disks_put(&crashed, FILES, 1), 0);
			disks_unmount(&crashed);
			disks_expect_clean(&crashed, all_of(&d) & ~lost);
			if (!lost) { /* the order is given again */
				again += balance_all(&crashed) > 0;
				disks_expect_clean(&crashed, all_of(&d));
				disks_mount(&crashed, all_of(&d));
				disks_expect_files(&crashed, FILES + 1, 1);
				disks_expect_filled(&crashed, ino, filled);
				disks_unmount(&crashed);
			}
			states++;
		}
		disks_free(&crashed);
		g4_dev_close(f.set);
		for (uint32_t n = 0; n < d.count; n++)
			free(before[n]);
		release(&d, &shapes[s]);
	}
	print_message("%u states, after %u the order moved something\n", states, again);
	assert_true(again > 0 && again < states);
}

/* One disk fails for good after so many of its writes, or all do; what was there before is there. */
static void a_disk_that_fails_loses_nothing(void **state)
{
	uint32_t failed = 0, done = 0;

	(void)state;
	for (uint32_t s = 0; s < SHAPES; s++) {
		uint64_t ino = 0, filled, moved;
		uint8_t *before[MOST_DISKS];
		struct disks d;
		format(&d, &shapes[s], false, &ino, &filled);
		keep_disks(&d, before);
		for (uint32_t which = 0; which <= d.count; which++) /* the last round: all */
			for (uint32_t at = 1, over = 0; !over; at += (uint32_t)rig_every(5)) {
				struct g4_fault fault = {.cut_after_writes = at, .write_through = true};
				struct faulty f;
				restore_disks(&d, before);
				disks_open_faulty(&d, &f);
				for (uint32_t n = 0; n < d.count; n++)
					if (n == which || which == d.count)
						g4_dev_fault_set(f.fault[n], &fault);
				const int rc = g4_balance_disks(f.set, NULL, &moved, d.message, sizeof(d.message));
				g4_dev_close(f.set);
				if (rc < 0 && d.message[0] == 0)
					fail_msg("shape %u: no sentence", s);
				over = rc == 0;
				failed += rc < 0;
				done += rc == 0;
				if (!mount_most(&d, all_of(&d)))
					fail_msg("shape %u, disk %u, %u writes: %s", s, which, at, d.message);
				disks_expect_files(&d, FILES, 1);
				disks_expect_filled(&d, ino, filled);
				disks_unmount(&d);
			}
		for (uint32_t n = 0; n < d.count; n++)
			free(before[n]);
		release(&d, &shapes[s]);
	}
	print_message("%u failures, %u went on\n", failed, done);
	assert_true(failed > 0 && done > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_disk_gets_its_share), cmocka_unit_test(what_would_only_be_joined_stays),
		cmocka_unit_test(no_region_is_lost_by_it),   cmocka_unit_test(rows_on_all_disks_stay_where_they_are),
		cmocka_unit_test(a_power_cut_loses_nothing), cmocka_unit_test(a_disk_that_fails_loses_nothing),
	};
	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
