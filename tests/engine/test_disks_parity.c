/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows with parity: any m disks may be lost, before, during and after writes, with the power at any request, and nothing that was synced
 * goes with them. Pages of a row that was half written when the power failed are those of other files: the write hole.
 */
#include "removing.h"

#include "fs/rebuild_host.h"

#define FILES 7u

struct level {
	uint32_t disks, parity;
};

/* Parts of rows and whole ones. */
static uint64_t bytes_of(uint32_t number)
{
	static const uint32_t pages[FILES] = {1, 6, 2, 40, 3, 17, 5};

	return pages[number % FILES] * G4_PAGE_BYTES;
}

static int put(struct disks *d, uint32_t number, uint32_t version)
{
	const uint64_t bytes = bytes_of(number);
	uint8_t *data = rig_memory(bytes, 1000 * number + version);
	struct g4_attr attr;
	uint64_t ino, done = 0;
	char name[32];

	snprintf(name, sizeof(name), "p%u", number);
	int rc = op_lookup(&d->rig, G4_NODE_ROOT, name, &attr);
	ino = attr.ino;
	if (rc == -G4_E_NOENT)
		rc = op_mknod(&d->rig, G4_NODE_ROOT, name, G4_S_IFREG | 0644, &ino);
	if (rc == 0)
		rc = op_write(&d->rig, ino, 0, 0, data, bytes, &done);
	if (rc == 0)
		rc = op_fsync(&d->rig, ino);
	free(data);
	return rc;
}

static int has(struct disks *d, uint32_t number, uint32_t version)
{
	const uint64_t bytes = bytes_of(number);
	uint8_t *data = rig_memory(bytes, 1000 * number + version), *found = rig_memory(bytes, 1);
	struct g4_attr attr;
	uint64_t done = 0;
	char name[32];

	snprintf(name, sizeof(name), "p%u", number);
	int rc = op_lookup(&d->rig, G4_NODE_ROOT, name, &attr);
	if (rc == 0)
		rc = op_read(&d->rig, attr.ino, 0, 0, found, bytes, &done);
	if (rc == 0)
		rc = done == bytes && memcmp(data, found, bytes) == 0;
	free(data);
	free(found);
	return rc;
}

static void expect(struct disks *d, uint32_t version)
{
	for (uint32_t n = 0; n < FILES; n++)
		if (has(d, n, version) != 1)
			fail_msg("file %u is not what was written: %d", n, has(d, n, version));
}

static void let_go(struct disks *d, uint8_t **before)
{
	for (uint32_t n = 0; n < d->count; n++)
		free(before[n]);
}

static void any_disks_can_be_missing(void **state)
{
	static const struct level levels[] = {{3, 1}, {4, 1}, {4, 2}, {5, 3}, {6, 4}, {12, 2}};
	uint32_t combinations = 0;

	(void)state;
	for (uint32_t l = 0; l < sizeof(levels) / sizeof(levels[0]); l++) {
		const uint32_t count = levels[l].disks, all = (1u << count) - 1,
			       step = count > 6 ? 331 :
				      count > 4 ? 5 :
						  1;
		const uint64_t sizes[12] = {16 * G4_MIB, 20 * G4_MIB, 16 * G4_MIB, 17 * G4_MIB + 8192,
					    16 * G4_MIB, 16 * G4_MIB, 16 * G4_MIB, 16 * G4_MIB,
					    30 * G4_MIB, 16 * G4_MIB, 16 * G4_MIB, 16 * G4_MIB};
		uint8_t *before[MOST_DISKS];
		struct disks d;
		disks_make(&d, count, sizes);
		disks_format_rows(&d, levels[l].parity, G4_CHECKSUM_NONE);
		disks_mount(&d, all);
		for (uint32_t n = 0; n < FILES; n++)
			assert_int_equal(put(&d, n, 1), 0);
		disks_unmount(&d);
		disks_expect_clean(&d, all);
		keep_disks(&d, before);
		for (uint32_t left = 1; left < all; left += step) {
			if (count - (uint32_t)__builtin_popcount(left) > levels[l].parity)
				continue;
			assert_int_equal(disks_try_mount(&d, left, false), -G4_E_SB_DISKS); /* not unasked */
			disks_mount(&d, left);
			expect(&d, 1);
			for (uint32_t n = 0; n < FILES; n++)
				assert_int_equal(put(&d, n, 2), 0);
			disks_unmount(&d);
			disks_expect_clean(&d, left);
			disks_mount(&d, left);
			expect(&d, 2);
			disks_unmount(&d);
			assert_int_equal(disks_try_mount(&d, all, true), -G4_E_SB_DISKS);
			assert_non_null(strstr(d.message, "stale"));
			combinations++;
			restore_disks(&d, before);
		}
		/* one more than there are parities */
		assert_int_equal(disks_try_mount(&d, all >> (levels[l].parity + 1), true), -G4_E_SB_DISKS);
		let_go(&d, before);
		disks_free(&d);
	}
	print_message("%u combinations\n", combinations);
}

static void it_is_used_to_its_end(void **state)
{
	struct disks d;
	uint64_t ino;

	(void)state;
	disks_make(&d, 4, NULL);
	disks_format_rows(&d, 1, G4_CHECKSUM_CRC32C);
	disks_mount(&d, 15);
	const uint64_t at = disks_fill(&d, &ino);
	assert_true(at >= 24 * G4_MIB);
	disks_unmount(&d);
	for (uint32_t lost = 0; lost < 4; lost++) {
		disks_expect_clean(&d, 15 & ~(1u << lost));
		struct g4_dev *dev;
		assert_int_equal(disks_try_open(&d, 15 & ~(1u << lost), false, G4_DEV_READ_ONLY, &dev), 0);
		g4_dev_close(dev);
	}
	disks_mount(&d, 13);
	disks_expect_filled(&d, ino, at);
	disks_unmount(&d);
	disks_free(&d);
}

static void disks_may_fail_at_any_write(void **state)
{
	static const struct level levels[] = {{3, 1}, {5, 2}};

	(void)state;
	for (uint32_t l = 0; l < 2; l++)
		for (uint64_t at = 1; at < 130; at += 29 * disks_every(3)) {
			const uint32_t count = levels[l].disks, all = (1u << count) - 1;
			const char *names[MOST_DISKS];
			static struct g4_set_status status;
			uint32_t lost = 0, disk;
			struct faulty f;
			struct disks d;
			disks_make(&d, count, NULL);
			disks_format_rows(&d, levels[l].parity, G4_CHECKSUM_NONE);
			disks_open_faulty(&d, &f);
			disks_mount_faulty(&d, &f);
			for (uint32_t k = 0; k < levels[l].parity; k++) {
				const struct g4_fault fault = {
					.cut_after_writes = at + 30 * k, .cut_inside = true, .seed = at};
				g4_dev_fault_set(f.fault[(at + 2 * k) % count], &fault);
			}
			for (uint32_t n = 0; n < 5 * FILES; n++)
				assert_int_equal(put(&d, n % FILES, n / FILES), 0); /* users notice nothing */
			expect(&d, 4);
			disks_unmount(&d);
			for (uint32_t n = 0; n < count; n++)
				names[n] = d.names[n];
			assert_int_equal(g4_set_examine(names, count, &status, d.message, sizeof(d.message)), 0);
			for (uint32_t n = 0; n < count; n++)
				lost |= status.disks[n].state == G4_DISK_ACTIVE ? 0 : 1u << n;
			if (lost)
				assert_int_equal(disks_try_mount(&d, all, true), -G4_E_SB_DISKS);
			disks_mount(&d, all & ~lost);
			expect(&d, 4);
			disks_unmount(&d);
			disks_expect_clean(&d, all & ~lost);
			/* they come back, one at a time, and stand for any others then */
			for (uint32_t k = 0; k < (uint32_t)__builtin_popcount(lost); k++)
				if (g4_rebuild_offline(names, count, true, NULL, &disk, d.message, sizeof(d.message)) <
				    0)
					fail_msg("%s", d.message);
			disks_mount(&d, all & ~(lost ? 1u << (__builtin_ctz(lost) + 1) % count : 1u));
			expect(&d, 4);
			disks_unmount(&d);
			disks_free(&d);
		}
}

/* ---- the power fails ---- */

#define PUTS 15u
static void explore(const struct level *level, uint32_t step, uint64_t *states)
{
	struct disks_order *order = (struct disks_order *)calloc(1, sizeof(*order));
	const uint32_t count = level->disks, all = (1u << count) - 1;
	uint64_t random = 1777 + count;
	uint32_t durable[PUTS];
	uint8_t *start[MOST_DISKS];
	struct faulty f;
	struct disks d, crashed;

	disks_make(&d, count, NULL);
	disks_format_rows(&d, level->parity, G4_CHECKSUM_NONE);
	keep_disks(&d, start);
	disks_open_faulty(&d, &f);
	disks_watch(&d, &f, order);
	disks_mount_faulty(&d, &f);
	for (uint32_t n = 0; n < PUTS; n++) {
		assert_int_equal(put(&d, n % FILES, n), 0);
		durable[n] = __atomic_load_n(&order->count, __ATOMIC_RELAXED);
	}
	const uint32_t total = order->count;
	disks_make(&crashed, count, NULL);
	for (uint32_t at = 0; at <= total; at += step)
		for (uint32_t which = 1; which <= all; which++) {
			if (count - (uint32_t)__builtin_popcount(which) > level->parity)
				continue;
			++*states;
			disks_crash(&crashed, start, &f, order, at, &random);
			disks_mount(&crashed, which);
			for (uint32_t n = 0; n < PUTS; n++)
				if (durable[n] <= at && (n + FILES >= PUTS || durable[n + FILES - 1] >= at) &&
				    has(&crashed, n % FILES, n) != 1)
					fail_msg("put %u is lost with disks %x at request %u of %u", n, which, at,
						 total);
			assert_int_equal(put(&crashed, FILES, 1), 0);
			disks_unmount(&crashed);
			disks_expect_clean(&crashed, which);
			if (which != all)
				continue;
			/* parity is right again, whatever the crash left: any disk may be lost afterwards */
			const uint32_t later = all & ~(1u << at % count);
			disks_mount(&crashed, later);
			for (uint32_t n = 0; n < PUTS; n++)
				if (durable[n] <= at && (n + FILES >= PUTS || durable[n + FILES - 1] >= at) &&
				    has(&crashed, n % FILES, n) != 1)
					fail_msg("put %u is lost afterwards with disks %x, request %u of %u", n, later,
						 at, total);
			disks_unmount(&crashed);
			disks_expect_clean(&crashed, later);
		}
	disks_unmount(&d);
	let_go(&d, start);
	disks_free(&crashed);
	disks_free(&d);
	free(order);
}

static void nothing_synced_is_lost_with_the_power_and_a_disk(void **state)
{
	const struct level level = {3, 1};
	uint64_t states = 0;

	(void)state;
	explore(&level, 5 * (uint32_t)disks_every(5), &states);
	print_message("%llu states\n", (unsigned long long)states);
}

static void nothing_synced_is_lost_with_the_power_and_two_disks(void **state)
{
	const struct level level = {4, 2};
	uint64_t states = 0;

	(void)state;
	explore(&level, 41 * (uint32_t)disks_every(3), &states);
	print_message("%llu states\n", (unsigned long long)states);
}

/* What disks have when the power fails after the first `at` requests: some all that was written to them, the others what was flushed. */
static void crash_with(struct disks *crashed, uint8_t *const *start, struct faulty *f, const struct disks_order *order,
		       uint32_t at, uint32_t all_of)
{
	const struct g4_fault_op *op;
	uint64_t counts[MOST_DISKS] = {0};

	for (uint32_t k = 0; k < at; k++)
		counts[order->disk[k]]++;
	for (uint32_t n = 0; n < crashed->count; n++) {
		uint64_t flushed = 0;
		rig_copy(crashed->memory[n], start[n], crashed->bytes[n]);
		for (uint64_t k = 0; k < counts[n] && (op = g4_dev_fault_recorded_op(f->fault[n], k)) != NULL; k++)
			flushed = op->op == G4_IO_FLUSH ? k : flushed;
		for (uint64_t k = 0; k < counts[n] && (op = g4_dev_fault_recorded_op(f->fault[n], k)) != NULL; k++)
			if (op->op == G4_IO_WRITE && (k < flushed || (op->flags & G4_IO_FUA) || (all_of >> n & 1)))
				rig_copy(crashed->memory[n] + op->offset_bytes, op->data, op->bytes);
	}
}

/* The power fails again while what one disk alone has of the log is brought to its place, and that disk is lost. How many cuts. */
static uint32_t cut_replay(struct disks *crashed, struct disks *again, uint32_t holder)
{
	struct disks_order *order = (struct disks_order *)calloc(1, sizeof(*order));
	uint8_t *start[MOST_DISKS];
	struct faulty f;

	keep_disks(crashed, start);
	disks_wrap_faulty(crashed, &f);
	disks_watch(crashed, &f, order);
	disks_assemble_faulty(crashed, &f);
	const uint32_t total = order->count;
	for (uint32_t at = 1; at < total; at += (uint32_t)disks_every(3)) {
		crash_with(again, start, &f, order, at, all_of(again));
		disks_mount(again, all_of(again) & ~(1u << holder));
		for (uint32_t n = 0; n < FILES; n++)
			if (n != 1 && has(again, n, 1) != 1)
				fail_msg("file %u is lost with disk %u at request %u of %u of the replay", n, holder,
					 at, total);
		disks_unmount(again);
		disks_expect_clean(again, all_of(again) & ~(1u << holder));
	}
	g4_dev_close(f.set);
	let_go(crashed, start);
	free(order);
	return total;
}

static void a_replay_of_what_one_disk_has_can_be_cut_short_without_it(void **state)
{
	struct disks_order *order = (struct disks_order *)calloc(1, sizeof(*order));
	struct disks d, crashed, again;
	uint8_t *start[MOST_DISKS];
	uint32_t cuts = 0;
	struct faulty f;

	(void)state;
	disks_make(&d, 3, NULL);
	disks_make(&crashed, 3, NULL);
	disks_make(&again, 3, NULL);
	disks_format_rows(&d, 1, G4_CHECKSUM_NONE);
	disks_mount(&d, 7);
	for (uint32_t n = 0; n < FILES; n++)
		assert_int_equal(put(&d, n, 1), 0);
	disks_unmount(&d);
	keep_disks(&d, start);
	disks_open_faulty(&d, &f);
	disks_watch(&d, &f, order);
	disks_mount_faulty(&d, &f);
	assert_int_equal(put(&d, 1, 2), 0);
	for (uint32_t at = 1; at <= order->count; at += (uint32_t)disks_every(5))
		for (uint32_t holder = 0; holder < 3; holder++) {
			crash_with(&crashed, start, &f, order, at, 1u << holder);
			cuts += cut_replay(&crashed, &again, holder);
		}
	print_message("%u cuts\n", cuts);
	assert_true(cuts > 0);
	disks_unmount(&d);
	let_go(&d, start);
	disks_free(&again);
	disks_free(&crashed);
	disks_free(&d);
	free(order);
}

/* ---- bit rot ---- */

static void a_rotten_disk_is_read_past(void **state)
{
	(void)state;
	for (uint32_t bad = 0; bad < 4; bad++) {
		const uint64_t sizes[4] = {32 * G4_MIB, 32 * G4_MIB, 32 * G4_MIB, 32 * G4_MIB};
		struct g4_disk_info info;
		struct g4_dev *dev;
		struct disks d;
		disks_make(&d, 4, sizes);
		disks_format_rows(&d, 1, G4_CHECKSUM_CRC32C);
		disks_mount_fs(&d, 15, &dev);
		disks_populate(&d);
		disks_unmount_fs(&d, dev, true);
		disks_rot(&d, bad);
		disks_mount_fs(&d, 15, &dev);
		disks_expect_all(&d); /* users notice nothing, and what they write beside it loses nothing */
		assert_true(g4_set_disk(dev, bad, &info));
		assert_true(info.mended > 100);
		disks_unmount_fs(&d, dev, true);
		disks_mount_fs(&d, 15, &dev);
		disks_expect_all(&d);
		disks_unmount_fs(&d, dev, true);
		disks_free(&d);
	}
}

static void too_few_disks_are_refused(void **state)
{
	const struct g4_set_plan plan = {.raid = G4_RAID_PARITY, .parity = 2};

	(void)state;
	disks_expect_refused(3, &plan, "at least 4 devices");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_disks_can_be_missing),
		cmocka_unit_test(it_is_used_to_its_end),
		cmocka_unit_test(disks_may_fail_at_any_write),
		cmocka_unit_test(nothing_synced_is_lost_with_the_power_and_a_disk),
		cmocka_unit_test(nothing_synced_is_lost_with_the_power_and_two_disks),
		cmocka_unit_test(a_replay_of_what_one_disk_has_can_be_cut_short_without_it),
		cmocka_unit_test(a_rotten_disk_is_read_past),
		cmocka_unit_test(too_few_disks_are_refused),
	};
	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
