/* SPDX-License-Identifier: Apache-2.0 */
/* The disk that was added last, on which nothing lies, is removed from a set of each level, whatever the power does (test_disks_move.c: of others). */
#include "removing.h"

#include "simt/simt_host.h"

#define FILES 6u

struct level {
	enum g4_raid raid;
	uint32_t disks, copies, parity;
	uint32_t added; /* so many bring room */
};
static const struct level levels[] = {
	{G4_RAID_NONE, 2, 0, 0, 1}, {G4_RAID_0, 2, 0, 0, 1}, {G4_RAID_1, 2, 2, 0, 2}, {G4_RAID_PARITY, 3, 0, 1, 3}};
#define LEVELS (sizeof(levels) / sizeof(levels[0]))

static int remove_one(struct disks *d, uint32_t disk, uint64_t *bytes)
{
	struct g4_dev *set = open_all(d);
	const int rc = g4_remove_disk(set, d->names[disk], NULL, bytes, d->message, sizeof(d->message));

	g4_dev_close(set);
	return rc;
}

/* With files, and d->count grown by what brings room; *bytes: of the file system before. */
static void format(struct disks *d, const struct level *level, uint64_t *bytes)
{
	const struct g4_set_plan plan = {.raid = level->raid,
					 .copies = level->copies,
					 .parity = level->parity,
					 .stripe_bytes = 16 * 1024,
					 .journal_bytes = JOURNAL_BYTES};
	struct g4_dev *set;

	disks_make(d, level->disks + level->added, NULL);
	d->count = level->disks;
	disks_format_plan(d, &plan, G4_CHECKSUM_NONE);
	disks_mount(d, all_of(d));
	for (uint32_t n = 0; n < FILES; n++)
		assert_int_equal(disks_put(d, n, 1), 0);
	disks_unmount(d);
	assert_int_equal(disks_try_open(d, all_of(d), false, 0, &set), 0);
	*bytes = g4_dev_props(set)->size_bytes;
	g4_dev_close(set);
	for (uint32_t n = 0; n < level->added; n++)
		add_next(d, true);
}

static void expect_good(struct disks *d)
{
	disks_expect_clean(d, all_of(d));
	disks_mount(d, all_of(d));
	disks_expect_files(d, FILES, 1);
	disks_unmount(d);
}

static void release(struct disks *d, const struct level *level)
{
	d->count = level->disks + level->added;
	disks_free(d);
}

static void what_was_added_is_removed(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		uint64_t before, bytes = 0, ino;
		struct g4_dev *set;
		struct disks d;
		format(&d, &levels[l], &before);
		while (d.count > levels[l].disks) {
			if (remove_one(&d, d.count - 1, &bytes) < 0)
				fail_msg("%s", d.message);
			/* it is nobody's, and the others need it no more */
			assert_true(disks_try_open(&d, all_of(&d), true, 0, &set) < 0);
			assert_true(disks_try_open(&d, all_of(&d) & ~1u, true, 0, &set) < 0);
			d.count--;
			expect_good(&d);
			assert_true(bytes >= before);
		}
		assert_int_equal(bytes, before);
		/* and it can come back, to be used to its end */
		for (uint32_t n = 0; n < levels[l].added; n++)
			bytes = add_next(&d, true);
		assert_true(bytes > before);
		disks_mount(&d, all_of(&d));
		const uint64_t filled = disks_fill(&d, &ino);
		disks_expect_filled(&d, ino, filled);
		disks_unmount(&d);
		expect_good(&d);
		/* now it is needed */
		assert_int_equal(remove_one(&d, d.count - 1, &bytes), -G4_E_NOSPC);
		assert_non_null(strstr(d.message, "have no room"));
		expect_good(&d);
		release(&d, &levels[l]);
	}
}

static void expect_refused(struct disks *d, uint32_t disk, const char *words)
{
	uint64_t bytes;

	assert_int_equal(remove_one(d, disk, &bytes), -G4_E_INVAL);
	if (!strstr(d->message, words))
		fail_msg("%s", d->message);
	expect_good(d);
}

static void what_can_not_be_removed_is_told(void **state)
{
	uint64_t bytes;
	struct disks d;

	(void)state;
	format(&d, &levels[2], &bytes);
	for (uint32_t n = 0; n < 2; n++) {
		assert_int_equal(remove_one(&d, d.count - 1, &bytes), 0);
		d.count--;
	}
	expect_refused(&d, 1, "keeps two of them");
	release(&d, &levels[2]);
}

/* ---- the power fails ---- */

/* The crashed disks are the set that was or the one without it. True: the former; then the order can be given again. */
static bool judge_crash(struct disks *crashed, uint32_t old, uint32_t at, bool may_lose)
{
	const uint32_t gone = may_lose && at % 3 == 0 ? 1u << at / 3 % (old - 1) : 0;
	uint64_t bytes;

	crashed->count = old;
	int rc = disks_try_mount(crashed, all_of(crashed) & ~gone, gone != 0);
	const bool is_old = rc == 0;
	if (!is_old) {
		crashed->count = old - 1;
		rc = disks_try_mount(crashed, all_of(crashed) & ~gone, gone != 0);
	}
	if (rc < 0)
		fail_msg("after %u requests without %x: %s", at, gone, crashed->message);
	disks_expect_files(crashed, FILES, 1);
	disks_unmount(crashed);
	disks_expect_clean(crashed, all_of(crashed) & ~gone);
	if (is_old && !gone) {
		if (remove_one(crashed, old - 1, &bytes) < 0)
			fail_msg("after %u requests: %s", at, crashed->message);
		crashed->count = old - 1;
		expect_good(crashed);
	}
	return is_old;
}

static void a_power_cut_leaves_the_set_with_it_or_without_it(void **state)
{
	static struct disks_order order;
	uint32_t states = 0, old_sets = 0;

	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		const uint32_t old = levels[l].disks + levels[l].added;
		struct disks d, crashed;
		struct faulty f;
		uint8_t *before[MOST_DISKS];
		uint64_t random = 1 + l, bytes;
		format(&d, &levels[l], &bytes);
		for (uint32_t n = 0; n < old; n++) {
			before[n] = (uint8_t *)malloc(d.bytes[n]);
			rig_copy(before[n], d.memory[n], d.bytes[n]);
		}
		disks_open_faulty(&d, &f);
		memset(&order, 0, sizeof(order));
		disks_watch(&d, &f, &order);
		/* it is closed when it is removed, and what was asked of it is wanted later */
		g4_dev_fault_share(f.fault[old - 1]);
		if (g4_remove_disk(f.set, d.names[old - 1], NULL, &bytes, d.message, sizeof(d.message)) < 0)
			fail_msg("%s", d.message);
		disks_make(&crashed, old, d.bytes);
		for (uint32_t at = l % 2; at <= order.count; at += rig_every(2)) {
			crashed.count = old;
			disks_crash(&crashed, before, &f, &order, at, &random);
			old_sets += judge_crash(&crashed, old, at, levels[l].parity + levels[l].copies > 0);
			states++;
		}
		crashed.count = old;
		disks_free(&crashed);
		g4_dev_close(f.set);
		g4_dev_close(f.fault[old - 1]);
		for (uint32_t n = 0; n < old; n++)
			free(before[n]);
		release(&d, &levels[l]);
	}
	print_message("%u states, %u with the old set\n", states, old_sets);
	assert_true(old_sets > 0 && old_sets < states);
}

/* ---- what an interrupted order has left, and nobody has mounted since ---- */

struct images {
	uint8_t *of[MOST_DISKS];
	uint32_t count;
};

static void keep(const struct disks *d, struct images *images)
{
	images->count = d->count;
	for (uint32_t n = 0; n < d->count; n++) {
		images->of[n] = (uint8_t *)malloc(d->bytes[n]);
		rig_copy(images->of[n], d->memory[n], d->bytes[n]);
	}
}

static void forget(struct images *images)
{
	for (uint32_t n = 0; n < images->count; n++)
		free(images->of[n]);
}

/* With the disks named in that order or the other one. */
static int open_named(struct disks *d, bool backwards, struct g4_dev **set)
{
	const struct g4_set_options options = {.degraded = false};
	const char *names[MOST_DISKS];

	for (uint32_t n = 0; n < d->count; n++)
		names[n] = d->names[backwards ? d->count - 1 - n : n];
	return g4_set_open(names, d->count, &options, set, d->message, sizeof(d->message));
}

/* The last disk is removed, as if nothing had been interrupted; or it is none of them already. False: the latter. */
static bool expect_removed(struct disks *crashed, uint32_t old, uint32_t at, bool backwards)
{
	struct g4_dev *set;
	uint64_t bytes;

	crashed->count = old;
	const bool is_old = open_named(crashed, backwards, &set) == 0;
	if (is_old) {
		const int rc = g4_remove_disk(set, crashed->names[old - 1], NULL, &bytes, crashed->message,
					      sizeof(crashed->message));
		g4_dev_close(set);
		if (rc < 0)
			fail_msg("after %u requests: %s", at, crashed->message);
	}
	crashed->count = old - 1;
	expect_good(crashed);
	return is_old;
}

/* The power fails while the file system is made longer, after an addition, or shorter, for a removal. */
static void cut_and_remove(const struct level *level, bool grows, uint32_t *old_sets, uint32_t *states)
{
	static struct disks_order order;
	const uint32_t old = level->disks + level->added;
	struct disks d, crashed;
	struct images before;
	struct faulty f;
	uint64_t random = 1, bytes;

	format(&d, level, &bytes);
	if (grows) {
		assert_int_equal(remove_one(&d, old - 1, &bytes), 0);
		d.count--;
		add_next(&d, false);
	}
	keep(&d, &before);
	disks_open_faulty(&d, &f);
	memset(&order, 0, sizeof(order));
	disks_watch(&d, &f, &order);
	g4_dev_fault_share(f.fault[old - 1]);
	const int rc = grows ? g4_resize_device(f.set, 0, &bytes, d.message, sizeof(d.message)) :
			       g4_remove_disk(f.set, d.names[old - 1], NULL, &bytes, d.message, sizeof(d.message));
	if (rc < 0)
		fail_msg("%s", d.message);
	disks_make(&crashed, old, d.bytes);
	for (uint32_t at = 0; at <= order.count; at += rig_every(1)) {
		disks_crash(&crashed, before.of, &f, &order, at, &random);
		*old_sets += expect_removed(&crashed, old, at, at % 2);
		++*states;
		crashed.count = old;
	}
	disks_free(&crashed);
	g4_dev_close(f.set);
	g4_dev_close(f.fault[old - 1]);
	forget(&before);
	release(&d, level);
}

static void a_growth_that_was_interrupted_is_seen(void **state)
{
	uint32_t old_sets = 0, states = 0;

	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++)
		cut_and_remove(&levels[l], true, &old_sets, &states);
	print_message("%u states\n", states);
	assert_int_equal(old_sets, states);
}

static void a_removal_that_was_interrupted_is_done_by_the_next_one(void **state)
{
	uint32_t old_sets = 0, states = 0;

	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++)
		cut_and_remove(&levels[l], false, &old_sets, &states);
	print_message("%u states, %u with the old set\n", states, old_sets);
	assert_true(old_sets > 0 && old_sets < states);
}

static void put_back(struct disks *d, const struct images *images)
{
	d->count = images->count;
	for (uint32_t n = 0; n < images->count; n++)
		rig_copy(d->memory[n], images->of[n], d->bytes[n]);
}

static void nothing_is_lost_where_the_others_do_not_take_it(void **state)
{
	static uint8_t disks[MOST_REQUESTS];
	uint32_t failed = 0, with_it = 0;

	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		const uint32_t old = levels[l].disks + levels[l].added;
		uint32_t has = 0, at = 0;
		struct images before;
		struct disks d;
		uint64_t bytes;
		format(&d, &levels[l], &bytes);
		keep(&d, &before);
		const uint32_t writes = rehearse_removal(&d, d.count - 1, disks);
		for (; at < writes && has != (1u << (old - 1)) - 1; at++) /* each has one that works */
			has |= disks[at] < old - 1 ? 1u << disks[at] : 0;
		for (; at < writes; at++) {
			put_back(&d, &before);
			const bool removed = remove_while_failing(&d, d.count - 1, disks, at);
			failed += !removed;
			bool mounted = !removed && mount_most(&d, all_of(&d));
			with_it += mounted;
			if (!mounted) {
				d.count = old - 1;
				mounted = mount_most(&d, all_of(&d));
			}
			if (!mounted)
				fail_msg("level %u, %u of %u writes: %s", l, at, writes, d.message);
			disks_expect_files(&d, FILES, 1);
			disks_unmount(&d);
		}
		forget(&before);
		release(&d, &levels[l]);
	}
	print_message("%u failures, after %u the disk is one still\n", failed, with_it);
	assert_true(failed > 0 && with_it > 0);
}

/* ---- the map of regions ---- */

/* A page of it has regions of 252 GiB of a disk. */
#define LARGE_BYTES (300 * G4_GIB)

static struct g4_parity_log *map_page(const struct disks *d, uint32_t disk, uint64_t from_end)
{
	const struct g4_superblock *sb =
		(const struct g4_superblock *)(void *)(d->memory[disk] + G4_SUPERBLOCK_ADDRESS);

	return (struct g4_parity_log *)(void *)(d->memory[disk] + G4_CHUNK_UNIT + sb->parity_log_bytes -
						from_end * G4_PAGE_BYTES);
}

/* The last disk is added, and all others fail after so many writes. */
static int add_while_failing(struct disks *d, uint64_t writes)
{
	const struct g4_fault fails = {.cut_after_writes = writes, .write_through = true};
	struct faulty f;

	disks_open_faulty(d, &f);
	for (uint32_t k = 0; k < d->count; k++)
		g4_dev_fault_set(f.fault[k], &fails);
	const int rc = g4_set_add_to(f.set, NULL, d->names[d->count], d->message, sizeof(d->message));
	g4_dev_close(f.set);
	return rc;
}

/* Regions that a set had once are not those that it gets: no map of them is left when the new ones count. */
static void a_map_of_regions_that_are_gone_is_none(void **state)
{
	const struct g4_set_plan plan = {
		.raid = G4_RAID_PARITY, .parity = 1, .journal_bytes = JOURNAL_BYTES, .leave_percent = 40};
	const uint64_t sizes[4] = {LARGE_BYTES, LARGE_BYTES, LARGE_BYTES, LARGE_BYTES};
	static uint8_t stale[G4_PAGE_BYTES];
	uint32_t switched = 0, tries = 0;
	struct disks d;
	uint64_t bytes;
	int rc = -1;

	(void)state;
	disks_make(&d, 4, sizes);
	for (; rc < 0; tries++) {
		struct g4_dev *set;
		bool is_left = false;
		d.count = 3;
		disks_format_plan(&d, &plan, G4_CHECKSUM_NONE);
		const uint64_t page = (uint64_t)((uint8_t *)map_page(&d, 0, 2) - d.memory[0]);
		add_next(&d, false);
		rig_copy(stale, d.memory[0] + page, G4_PAGE_BYTES);
		assert_int_equal(((const struct g4_parity_log *)(void *)stale)->kind, G4_PARITY_LOG_MAP);
		if (remove_one(&d, 3, &bytes) < 0)
			fail_msg("%s", d.message);
		rig_copy(d.memory[3] + page, stale, G4_PAGE_BYTES); /* as if it had not been wiped */
		d.count = 3;
		rc = add_while_failing(&d, 1 + tries);
		for (uint32_t k = 0; k < 4; k++)
			is_left = is_left || memcmp(d.memory[k] + page, stale, G4_PAGE_BYTES) == 0;
		d.count = 4;
		/* the new one may say of the first that it has missed something */
		if (disks_try_open(&d, 15, false, 0, &set) < 0 && disks_try_open(&d, 14, true, 0, &set) < 0)
			continue;
		g4_dev_close(set);
		switched++;
		if (is_left)
			fail_msg("an old page of the map counts where disks fail after %u writes", 1 + tries);
	}
	print_message("%u tries, %u with the new disk\n", tries, switched);
	assert_true(switched > 1 && switched < tries);
	disks_free(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_added_is_removed),
		cmocka_unit_test(what_can_not_be_removed_is_told),
		cmocka_unit_test(a_power_cut_leaves_the_set_with_it_or_without_it),
		cmocka_unit_test(a_growth_that_was_interrupted_is_seen),
		cmocka_unit_test(a_removal_that_was_interrupted_is_done_by_the_next_one),
		cmocka_unit_test(nothing_is_lost_where_the_others_do_not_take_it),
		cmocka_unit_test(a_map_of_regions_that_are_gone_is_none),
	};
	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
