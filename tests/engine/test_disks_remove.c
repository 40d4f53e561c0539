/* SPDX-License-Identifier: Apache-2.0 */
/* The disk that was added last is removed from a set of each level, whatever the power does; one that is needed is not. */
#include "disks.h"

#include "fs/resize_host.h"
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

static uint32_t all_of(const struct disks *d)
{
	return (1u << d->count) - 1;
}

static uint64_t add_next(struct disks *d)
{
	struct g4_dev *set;
	uint64_t bytes = 0;

	assert_int_equal(disks_try_open(d, all_of(d), false, 0, &set), 0);
	int rc = g4_set_add_to(set, NULL, d->names[d->count], d->message, sizeof(d->message));
	if (rc == 0)
		rc = g4_resize_device(set, 0, &bytes, d->message, sizeof(d->message));
	if (rc < 0)
		fail_msg("%s", d->message);
	g4_dev_close(set);
	d->count++;
	return bytes;
}

static int remove_one(struct disks *d, uint32_t disk, uint64_t *bytes)
{
	struct g4_dev *set;

	if (disks_try_open(d, all_of(d), false, 0, &set) < 0)
		fail_msg("%s", d->message);
	const int rc = g4_remove_disk(set, d->names[disk], bytes, d->message, sizeof(d->message));
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
		add_next(d);
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
			bytes = add_next(&d);
		assert_true(bytes > before);
		disks_mount(&d, all_of(&d));
		const uint64_t filled = disks_fill(&d, &ino);
		disks_expect_filled(&d, ino, filled);
		disks_unmount(&d);
		expect_good(&d);
		/* now it is needed */
		assert_int_equal(remove_one(&d, d.count - 1, &bytes), -G4_E_NOSPC);
		assert_non_null(strstr(d.message, "would have to be moved"));
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
	expect_refused(&d, 0, "not the disk that was added last");
	for (uint32_t n = 0; n < 2; n++) {
		assert_int_equal(remove_one(&d, d.count - 1, &bytes), 0);
		d.count--;
	}
	expect_refused(&d, 1, "keeps two of them");
	release(&d, &levels[2]);
	struct disks three;
	disks_make(&three, 3, NULL);
	disks_format(&three, G4_RAID_0, G4_CHECKSUM_NONE);
	disks_mount(&three, 7);
	for (uint32_t n = 0; n < FILES; n++)
		assert_int_equal(disks_put(&three, n, 1), 0);
	disks_unmount(&three);
	expect_refused(&three, 2, "it was made with it");
	disks_free(&three);
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
		if (g4_remove_disk(f.set, d.names[old - 1], &bytes, d.message, sizeof(d.message)) < 0)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_added_is_removed),
		cmocka_unit_test(what_can_not_be_removed_is_told),
		cmocka_unit_test(a_power_cut_leaves_the_set_with_it_or_without_it),
	};
	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
