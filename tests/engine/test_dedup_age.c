/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pruning by age: what one file alone has, and has been listed for so long, goes from the list, and nothing else does. Ages are kept for pairs of pages, in a
 * byte each; a page may be kept longer than it is old, and never goes earlier.
 */
#include "rig.h"

#include <stdlib.h>

#include "alloc/share.h"
#include "fs/fs.h"
#include "inode/times.h"

#define QUARTER G4_LISTING_PAGES
#define PAGES (3 * QUARTER)
#define BYTES (PAGES * (uint64_t)G4_PAGE_BYTES)
#define QUARTER_BYTES (QUARTER * (uint64_t)G4_PAGE_BYTES)

static struct rig rig;
static uint8_t data[BYTES], found[BYTES];
static uint32_t start; /* the day of the clock when the test began */

static void set_day(uint32_t day)
{
	rig.fs->days_ahead = 0;
	rig.fs->days_ahead = (int32_t)((int64_t)day - (int64_t)g4_today(rig.fs));
	assert_int_equal(g4_today(rig.fs), day);
}

static int setup(void **state)
{
	(void)state;
	rig_begin_as(&rig, G4_CHECKSUM_BLAKE3, 1, 64 * G4_MIB, 0, NULL);
	rig_pattern(data, 5, BYTES);
	start = g4_today(rig.fs);
	assert_true(start > 20000);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_end(&rig);
	return 0;
}

static void write_pages(uint64_t ino, uint64_t page, uint64_t from, uint64_t pages)
{
	assert_int_equal(op_write(&rig, ino, 0, page * G4_PAGE_BYTES, data + from * G4_PAGE_BYTES,
				  pages * G4_PAGE_BYTES, NULL),
			 0);
	assert_int_equal(op_fsync(&rig, ino), 0);
}

/* One call for each group, as a client does. */
static uint64_t prune_older(uint32_t last)
{
	struct g4_dedup_counts counts = {.groups = 1};
	struct g4_cmd cmd = {
		.op = G4_CMD_DEDUP, .mask = G4_DEDUP_PRUNE_OLDER, .data = &counts, .length = sizeof(counts)};
	uint64_t pruned = 0;

	while (counts.next < counts.groups) {
		cmd.cookie = counts.next | (uint64_t)last << 32;
		assert_int_equal(g4_execute(rig.wg, rig.fs, &cmd), 0);
		pruned += counts.pruned;
	}
	return pruned;
}

static uint64_t shared(uint64_t a, uint64_t b, uint64_t pages)
{
	uint64_t count = 0;

	for (uint64_t page = 0; page < pages; page++)
		count += rig_place(&rig, a, page) == rig_place(&rig, b, page);
	return count;
}

/* What is old and alone goes, and its pages of sums; what is young, or shared, is found by who writes it again. */
static void the_old_and_lonely_go(void **state)
{
	const uint64_t a = rig_make(&rig, 0), b = rig_make(&rig, 1), c = rig_make(&rig, 2);

	(void)state;
	set_day(start + 100);
	write_pages(a, 0, 0, QUARTER); /* old, alone */
	set_day(start + 120);
	write_pages(a, QUARTER, QUARTER, QUARTER); /* old, shared */
	write_pages(b, 0, QUARTER, QUARTER);
	set_day(start + 130);
	write_pages(a, 2 * QUARTER, 2 * QUARTER, QUARTER); /* young, alone */
	const uint64_t free_pages = rig_free_pages(&rig);
	assert_int_equal(prune_older(start + 99), 0);
	assert_int_equal(rig_free_pages(&rig), free_pages);
	assert_int_equal(prune_older(start + 120), QUARTER);
	assert_int_equal(prune_older(start + 120), 0);
	assert_int_equal(rig_free_pages(&rig), free_pages + 1); /* a page of sums */
	set_day(start + 131);
	write_pages(c, 0, 0, PAGES);
	assert_int_equal(shared(a, c, QUARTER), 0);
	for (uint64_t page = QUARTER; page < PAGES; page++)
		assert_int_equal(rig_place(&rig, a, page), rig_place(&rig, c, page));
	rig_expect_contents(&rig, a, 0, found, data, BYTES);
	rig_expect_contents(&rig, c, 0, found, data, BYTES);
	/* b and c go: what is alone again is as old as its listing says */
	assert_int_equal(op_truncate(&rig, b, 0), 0);
	assert_int_equal(op_truncate(&rig, c, 0), 0);
	assert_int_equal(prune_older(start + 119), 0);
	assert_int_equal(prune_older(start + 120), QUARTER);
	assert_int_equal(prune_older(start + 130), QUARTER);
	assert_int_equal(prune_older(UINT32_MAX), 0);
	assert_int_equal(op_truncate(&rig, a, 0), 0);
}

/* Pages of an image that no version with ages has written: they are old, also when others are listed beside them. */
static void what_has_no_day_is_old(void **state)
{
	const uint64_t a = rig_make(&rig, 0);

	(void)state;
	set_day(0); /* as an older version leaves the bytes */
	write_pages(a, 0, 0, 64);
	const uint64_t first = rig_place(&rig, a, 0) / G4_PAGE_BYTES;
	set_day(start);
	write_pages(a, 64, 64, 32);
	assert_int_equal(rig_place(&rig, a, 64) / G4_PAGE_BYTES, first + 64);
	assert_int_equal(prune_older(start - 256), 0); /* older than a byte of days can not be told any more */
	assert_int_equal(prune_older(start - 255), 64);
	assert_int_equal(prune_older(start - 1), 0);
	assert_int_equal(prune_older(start), 32);
}

static void a_clock_that_was_set_back_keeps_longer(void **state)
{
	const uint64_t a = rig_make(&rig, 0);

	(void)state;
	set_day(start + 50);
	write_pages(a, 0, 0, 2);
	set_day(start);
	write_pages(a, 2, 2, 2);
	assert_int_equal(prune_older(start + 49), 0);
	assert_int_equal(prune_older(start + 50), 4);
}

/* ------------------------------------------------------------------ beside a model */

#define FILES 4u
#define FILE_PAGES 96u
#define CONTENTS 300u
#define QUARTERS (G4_GROUP_REGIONS * G4_LISTING_QUARTERS)
#define GROUP_PAGES (QUARTERS * QUARTER)

static uint64_t inodes[FILES];
static uint32_t has[FILES][FILE_PAGES]; /* contents; 0: a hole */
/* of pages of the device, all in one group: the day of each pair, and that of its page of sums below which nothing is told from each other */
static uint32_t pair_day[GROUP_PAGES / 2], base[QUARTERS];
static uint64_t before[QUARTERS][G4_LISTING_WORDS], now[QUARTERS][G4_LISTING_WORDS];
static uint64_t owners[GROUP_PAGES];
static bool there[QUARTERS];

static bool bit(uint64_t bits[][G4_LISTING_WORDS], uint64_t page)
{
	return bits[page / QUARTER][page % QUARTER / 64] >> page % 64 & 1;
}

static void look(void)
{
	struct g4_address sums;

	for (uint32_t q = 0; q < QUARTERS; q++) {
		memset(now[q], 0, sizeof(now[q]));
		if (g4_share_listed(rig.wg, &rig.fs->alloc, 0, q, now[q], &sums) < 0)
			memset(now[q], 0, sizeof(now[q]));
	}
	memset(owners, 0, sizeof(owners));
	for (uint32_t f = 0; f < FILES; f++)
		for (uint32_t p = 0; p < FILE_PAGES; p++)
			if (has[f][p] != 0)
				owners[rig_place(&rig, inodes[f], p) / G4_PAGE_BYTES]++;
}

/* Pages of one file were written today; those that are listed where they were not, or by another owner's leave, are of today. */
static void note(uint32_t f, uint32_t today, const uint64_t *was)
{
	look();
	for (uint32_t p = 0; p < FILE_PAGES; p++) {
		if (has[f][p] == 0)
			continue;
		const uint64_t page = rig_place(&rig, inodes[f], p) / G4_PAGE_BYTES, q = page / QUARTER;
		if (page == was[p] || (owners[page] > 1 && bit(before, page)))
			continue; /* it was not stored */
		if (!bit(now, page))
			continue;
		if (!there[q]) {
			for (uint32_t k = 0; k < QUARTER / 2; k++)
				pair_day[q * QUARTER / 2 + k] = 0;
			base[q] = today;
		}
		there[q] = true;
		if (today > base[q] + 255)
			base[q] = today - 255;
		if (pair_day[page / 2] < today)
			pair_day[page / 2] = today;
	}
}

static void remember(void)
{
	memcpy(before, now, sizeof(before));
	for (uint32_t q = 0; q < QUARTERS; q++)
		there[q] = (now[q][0] | now[q][1]) != 0;
}

static void each_page_is_as_old_as_the_model_says(void **state)
{
	static uint8_t contents[CONTENTS][G4_PAGE_BYTES];
	uint64_t seed = rig_setting("G4_TEST_SEED", 17), pruned_in_all = 0, kept_in_all = 0, was[FILE_PAGES];
	const uint32_t steps = (uint32_t)(400 / rig_every(4));
	uint32_t today = start;

	(void)state;
	assert_true(rig.fs->alloc.group_count >= 1);
	memset(has, 0, sizeof(has));
	memset(there, 0, sizeof(there));
	for (uint32_t k = 1; k < CONTENTS; k++)
		rig_pattern(contents[k], k + 1000, G4_PAGE_BYTES);
	for (uint32_t f = 0; f < FILES; f++)
		inodes[f] = rig_make(&rig, f);
	look();
	remember();
	for (uint32_t step = 0; step < steps; step++) {
		const uint32_t f = (uint32_t)(rig_random(&seed) % FILES);
		today += rig_random(&seed) % 4 == 0 ? (uint32_t)(rig_random(&seed) % 90) : 0;
		set_day(today);
		if (rig_random(&seed) % 3 != 0) { /* pages beside each other, of which others have some */
			const uint32_t p = (uint32_t)(rig_random(&seed) % FILE_PAGES);
			const uint32_t n = 1 + (uint32_t)(rig_random(&seed) % 8);
			const uint32_t c = 1 + (uint32_t)(rig_random(&seed) % (CONTENTS - 9));
			for (uint32_t k = 0; k < FILE_PAGES; k++)
				was[k] = has[f][k] == 0 ? 0 : rig_place(&rig, inodes[f], k) / G4_PAGE_BYTES;
			for (uint32_t k = 0; k < n && p + k < FILE_PAGES; k++) {
				assert_int_equal(op_write(&rig, inodes[f], 0, (p + k) * (uint64_t)G4_PAGE_BYTES,
							  contents[c + k], G4_PAGE_BYTES, NULL),
						 0);
				has[f][p + k] = c + k;
			}
			assert_int_equal(op_fsync(&rig, inodes[f]), 0);
			note(f, today, was);
			remember();
			continue;
		}
		const uint32_t last = today - (uint32_t)(rig_random(&seed) % 300);
		uint64_t expected = 0, kept = 0;
		look();
		for (uint64_t page = 0; page < GROUP_PAGES; page++) {
			const uint64_t told =
				pair_day[page / 2] > base[page / QUARTER] ? pair_day[page / 2] : base[page / QUARTER];
			const bool goes = bit(now, page) && owners[page] == 1 && told <= last;
			expected += goes;
			kept += bit(now, page) && !goes;
			if (goes)
				before[page / QUARTER][page % QUARTER / 64] &= ~(UINT64_C(1) << page % 64);
		}
		assert_int_equal(prune_older(last), expected);
		look();
		assert_memory_equal(now, before, sizeof(now));
		remember();
		pruned_in_all += expected;
		kept_in_all += kept;
	}
	assert_true(rig_every(4) > 1 || (pruned_in_all > 50 && kept_in_all > 50));
	for (uint32_t f = 0; f < FILES; f++) {
		for (uint32_t p = 0; p < FILE_PAGES; p++) {
			if (has[f][p] != 0)
				rig_expect_contents(&rig, inodes[f], p * (uint64_t)G4_PAGE_BYTES, found,
						    contents[has[f][p]], G4_PAGE_BYTES);
		}
	}
}

/* ------------------------------------------------------------------ crashes, and what can not be read */

/* Two ages, of which one is pruned: false where the power went. */
static bool make_and_prune(uint32_t last)
{
	struct g4_dedup_counts counts = {.groups = 1};
	struct g4_cmd cmd = {
		.op = G4_CMD_DEDUP, .mask = G4_DEDUP_PRUNE_OLDER, .data = &counts, .length = sizeof(counts)};
	uint64_t ino = 0;

	for (uint32_t k = 0; k < 3; k++) {
		char name[8];
		snprintf(name, sizeof(name), "%u", k);
		set_day(start + 10 * k);
		if (op_mknod(&rig, G4_NODE_ROOT, name, G4_S_IFREG | 0644, &ino) < 0 ||
		    op_write(&rig, ino, 0, 0, data + k * QUARTER_BYTES, QUARTER_BYTES, NULL) < 0 ||
		    op_fsync(&rig, ino) < 0)
			return false;
	}
	for (cmd.cookie = (uint64_t)last << 32; counts.next < counts.groups;
	     cmd.cookie = counts.next | (uint64_t)last << 32)
		if (g4_execute(rig.wg, rig.fs, &cmd) < 0)
			return false;
	return op_sync(&rig) == 0;
}

/* A prune that a crash has ended is begun again, and ends as if there had been none; what is listed has its age. */
static void a_prune_goes_on_after_a_power_cut(void **state)
{
	const uint64_t every = rig_every(5);
	uint64_t reads, flushes, last = 0, seed = 3, with = 0;
	struct g4_statfs statfs;
	struct rig whole = {0};

	(void)state;
	rig_end(&rig);
	rig_open_as(&rig, G4_CHECKSUM_BLAKE3, 1, 16 * G4_MIB, 2 * G4_MIB);
	rig_begin_as(&whole, G4_CHECKSUM_BLAKE3, 1, 64 * G4_MIB, 0, NULL); /* its workgroup */
	rig.wg = whole.wg;
	uint8_t *base_image = malloc(rig.bytes);
	assert_non_null(base_image);
	rig_copy(base_image, rig.image, rig.bytes);
	const struct g4_fault none = {0};
	for (uint64_t cut = 0; cut == 0 || cut <= last; cut += cut == 0 ? 1 : every) {
		const struct g4_fault fault = {.cut_after_writes = cut,
					       .seed = cut % 3 == 1 ? rig_random(&seed) | 1 : 0,
					       .keep_unflushed = cut % 3 == 2,
					       .cut_inside = cut % 2 == 1};
		bool synced = false;

		rig_copy(rig.image, base_image, rig.bytes);
		if (rig_try_mount_fs(&rig, rig.wg, cut == 0 ? &none : &fault, &rig.fs) == 0) {
			synced = make_and_prune(start + 10);
			if (cut == 0)
				g4_dev_fault_counts(rig.fault, &reads, &last, &flushes);
			g4_dev_fault_cut(rig.fault);
			rig_unmount_fs(&rig, rig.wg, rig.fs, false);
		}
		assert_true(cut > 0 || (synced && last > 4));
		rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
		const uint64_t pruned = prune_older(start + 10);
		assert_true(pruned <= 2 * QUARTER && (!synced || pruned == 0));
		const uint64_t young = prune_older(start + 20);
		assert_true(young <= QUARTER && (!synced || young == QUARTER));
		with += pruned > 0;
		assert_int_equal(op_statfs(&rig, &statfs), 0);
		rig_unmount_fs(&rig, rig.wg, rig.fs, true);
		rig_expect_clean(&rig, RIG_ANY_FREE, "after a crash while old pages are pruned");
	}
	assert_true(every > 1 || with > 0);
	free(base_image);
	rig.wg = NULL;
	rig_close(&rig);
	rig_end(&whole);
	rig_begin_as(&rig, G4_CHECKSUM_BLAKE3, 1, 64 * G4_MIB, 0, NULL);
}

/* Nothing of a quarter goes whose ages nobody knows; the others' do. */
static void what_can_not_be_read_stays(void **state)
{
	const uint64_t a = rig_make(&rig, 0);
	uint64_t bits[G4_LISTING_WORDS];
	struct g4_address sums;

	(void)state;
	set_day(start);
	for (uint64_t k = 0; k < 3; k++)
		write_pages(a, k * QUARTER, k * QUARTER, QUARTER);
	assert_int_equal(op_sync(&rig), 0);
	const uint64_t quarter = rig_place(&rig, a, QUARTER) / G4_PAGE_BYTES / QUARTER;
	assert_int_equal(rig_place(&rig, a, QUARTER) / G4_PAGE_BYTES % QUARTER, 0);
	assert_int_equal(g4_share_listed(rig.wg, &rig.fs->alloc, quarter / QUARTERS, (uint32_t)(quarter % QUARTERS),
					 bits, &sums),
			 0);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	uint8_t *page = rig.image + g4_address_stored(sums);
	page[100] ^= 1;
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	assert_int_equal(prune_older(start), 2 * QUARTER);
	assert_int_equal(prune_older(start), 0);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	page[100] ^= 1;
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	assert_int_equal(prune_older(start - 1), 0);
	assert_int_equal(prune_older(start), QUARTER);
}

static void what_is_no_group_has_nothing(void **state)
{
	struct g4_dedup_counts counts;
	struct g4_cmd cmd = {
		.op = G4_CMD_DEDUP, .mask = G4_DEDUP_PRUNE_OLDER, .data = &counts, .length = sizeof(counts)};

	(void)state;
	cmd.cookie = UINT64_MAX;
	assert_int_equal(g4_execute(rig.wg, rig.fs, &cmd), 0);
	assert_int_equal(counts.next, counts.groups);
	assert_int_equal(counts.pruned, 0);
	rig.fs->flags |= G4_FS_READ_ONLY;
	assert_int_equal(g4_execute(rig.wg, rig.fs, &cmd), -G4_E_ROFS);
	rig.fs->flags &= ~G4_FS_READ_ONLY;
}

#define age_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void)
{
	const struct CMUnitTest tests[] = {
		age_test(the_old_and_lonely_go),
		age_test(what_has_no_day_is_old),
		age_test(a_clock_that_was_set_back_keeps_longer),
		age_test(each_page_is_as_old_as_the_model_says),
		age_test(a_prune_goes_on_after_a_power_cut),
		age_test(what_can_not_be_read_stays),
		age_test(what_is_no_group_has_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
