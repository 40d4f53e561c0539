/* SPDX-License-Identifier: Apache-2.0 */
/* More than two copies of everything: of n copies any n - 1 disks may be lost, before, during and after writes, and with the power. */
#include "disks.h"

#include "fs/rebuild_host.h"

static bool is_subset_of(uint32_t a, uint32_t b)
{
	return (a & ~b) == 0;
}

static void any_disks_but_one_can_be_missing(void **state)
{
	static const struct {
		uint32_t disks, copies;
	} cases[] = {{3, 3}, {4, 3}, {5, 3}, {4, 4}, {5, 4}, {11, 11}};
	uint32_t combinations = 0;

	(void)state;
	for (uint32_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		const uint32_t count = cases[c].disks, copies = cases[c].copies, all = (1u << count) - 1;
		const uint32_t step =
			(copies > 4 ? 97 : 1) * (2 * (uint32_t)rig_every(1) - 1); /* odd: each disk is lost, and left */
		uint8_t *before[MOST_DISKS];
		struct disks d;
		disks_make(&d, count, NULL);
		disks_format_copies(&d, G4_RAID_1, copies, G4_CHECKSUM_NONE);
		disks_mount(&d, all);
		for (uint32_t n = 0; n < 6; n++)
			assert_int_equal(disks_put(&d, n, 1), 0);
		disks_unmount(&d);
		disks_expect_clean(&d, all);
		for (uint32_t n = 0; n < count; n++) {
			before[n] = (uint8_t *)malloc(DISK_BYTES);
			rig_copy(before[n], d.memory[n], DISK_BYTES);
		}
		for (uint32_t left = 1; left < all; left += step) {
			const uint32_t lost = count - (uint32_t)__builtin_popcount(left);
			if (lost >= copies)
				continue;
			assert_int_equal(disks_try_mount(&d, left, false), -G4_E_SB_DISKS); /* not unasked */
			disks_mount(&d, left);
			disks_expect_files(&d, 6, 1);
			assert_int_equal(disks_put(&d, 3, 2), 0);
			disks_unmount(&d);
			disks_expect_clean(&d, left);
			assert_int_equal(disks_try_mount(&d, all, true), -G4_E_SB_DISKS);
			assert_non_null(strstr(d.message, "stale"));
			combinations++;
			for (uint32_t n = 0; n < count; n++)
				rig_copy(d.memory[n], before[n], DISK_BYTES);
		}
		for (uint32_t n = 0; n < count; n++)
			free(before[n]);
		disks_free(&d);
	}
	print_message("%u combinations\n", combinations);
}

static void more_copies_than_disks_are_refused(void **state)
{
	const struct g4_set_plan plan = {.raid = G4_RAID_1, .copies = 3};

	(void)state;
	disks_expect_refused(2, &plan, "as many devices");
}

/* One disk after the other, at different writes, until one copy is left. */
static void disks_may_fail_one_after_the_other(void **state)
{
	(void)state;
	for (uint64_t at = 3; at < 90; at += rig_every(9)) {
		const uint32_t kept = (uint32_t)(at % 3);
		struct g4_disk_info info;
		struct faulty f;
		struct disks d;
		disks_make(&d, 3, NULL);
		disks_format_copies(&d, G4_RAID_1, 3, G4_CHECKSUM_NONE);
		disks_open_faulty(&d, &f);
		disks_mount_faulty(&d, &f);
		for (uint32_t n = 0, place = 0; n < 3; n++)
			if (n != kept) {
				const struct g4_fault fault = {
					.cut_after_writes = at + 25 * place++, .cut_inside = true, .seed = at};
				g4_dev_fault_set(f.fault[n], &fault);
			}
		for (uint32_t n = 0; n < 80; n++)
			assert_int_equal(disks_put(&d, n % 5, n), 0); /* users notice nothing */
		for (uint32_t n = 0; n < 3; n++) {
			assert_true(g4_set_disk(f.set, n, &info));
			assert_int_equal(info.state, n == kept ? G4_DISK_ACTIVE : G4_DISK_DROPPED);
		}
		disks_unmount(&d);
		assert_int_equal(disks_try_mount(&d, 7, true), -G4_E_SB_DISKS);
		assert_non_null(strstr(d.message, "stale"));
		disks_mount(&d, 1u << kept);
		for (uint32_t n = 75; n < 80; n++)
			assert_int_equal(disks_has(&d, n % 5, n), 1);
		disks_unmount(&d);
		disks_expect_clean(&d, 1u << kept);
		/* both come back, one at a time */
		const char *names[3] = {d.names[0], d.names[1], d.names[2]};
		uint32_t disk, rebuilt = 0;
		for (uint32_t k = 0; k < 2; k++) {
			if (g4_rebuild_offline(names, 3, true, NULL, &disk, d.message, sizeof(d.message)) < 0)
				fail_msg("%s", d.message);
			rebuilt |= 1u << disk;
		}
		assert_int_equal(rebuilt, 7u & ~(1u << kept));
		for (uint32_t n = 0; n < 3; n++) {
			disks_expect_clean(&d, 1u << n);
			disks_expect_clean(&d, 7u & ~(1u << n));
		}
		disks_mount(&d, 7u & ~(1u << kept));
		for (uint32_t n = 75; n < 80; n++)
			assert_int_equal(disks_has(&d, n % 5, n), 1);
		disks_unmount(&d);
		disks_free(&d);
	}
}

#define PUTS 12u
/* The power fails at any request, and any two of the three disks are lost in it. */
static void nothing_synced_is_lost_with_the_power_and_two_disks(void **state)
{
	struct disks_order *order = (struct disks_order *)calloc(1, sizeof(*order));
	uint64_t random = 177, states = 0;
	uint32_t durable[PUTS];
	uint8_t *start[3];
	struct faulty f;
	struct disks d, crashed;

	(void)state;
	disks_make(&d, 3, NULL);
	disks_format_copies(&d, G4_RAID_1, 3, G4_CHECKSUM_NONE);
	for (uint32_t n = 0; n < 3; n++) {
		start[n] = (uint8_t *)malloc(DISK_BYTES);
		rig_copy(start[n], d.memory[n], DISK_BYTES);
	}
	disks_open_faulty(&d, &f);
	disks_watch(&d, &f, order);
	disks_mount_faulty(&d, &f);
	for (uint32_t n = 0; n < PUTS; n++) {
		assert_int_equal(disks_put(&d, n % 4, n), 0);
		durable[n] = __atomic_load_n(&order->count, __ATOMIC_RELAXED);
	}
	const uint32_t total = order->count;
	disks_make(&crashed, 3, NULL);
	for (uint32_t at = 0; at <= total; at += (uint32_t)rig_every(7))
		for (uint32_t which = 1; which <= 7; which++, states++) {
			disks_crash(&crashed, start, &f, order, at, &random);
			disks_mount(&crashed, which);
			for (uint32_t n = 0; n < PUTS; n++)
				if (durable[n] <= at && (n + 4 >= PUTS || durable[n + 3] >= at) &&
				    disks_has(&crashed, n % 4, n) != 1)
					fail_msg("put %u is lost with disks %u at request %u of %u", n, which, at,
						 total);
			assert_int_equal(disks_put(&crashed, 8, 1), 0);
			disks_unmount(&crashed);
			/* each that was there has all of it by itself */
			for (uint32_t n = 0; n < 3; n++)
				if (is_subset_of(1u << n, which))
					disks_expect_clean(&crashed, 1u << n);
		}
	print_message("%llu states\n", (unsigned long long)states);
	disks_unmount(&d);
	for (uint32_t n = 0; n < 3; n++)
		free(start[n]);
	disks_free(&crashed);
	disks_free(&d);
	free(order);
}

/*
 * Disk 1 is written with disk 0, then disk 2 by itself, and another disk takes the place of disk 0 from it. That one has the number of
 * one that disk 1 was used with, but has nothing of what was written then: disk 1 has it alone, and nothing may overwrite it.
 */
/* With fewer copies than disks the journal lies in pieces: a record may have no copy that is on the disks that are there as a whole. */
static void a_journal_in_pieces_is_replayed_without_any_one_disk(void **state)
{
	uint32_t mounts = 0;

	(void)state;
	for (uint32_t count = 3; count <= 4; count++) {
		const uint32_t all = (1u << count) - 1;
		uint8_t *crashed[4], *whole[4];
		struct disks d;
		disks_make(&d, count, NULL);
		disks_format_copies(&d, G4_RAID_1, 2, G4_CHECKSUM_NONE);
		disks_mount(&d, all);
		for (uint32_t n = 0; n < count; n++) {
			crashed[n] = (uint8_t *)malloc(d.bytes[n]);
			whole[n] = (uint8_t *)malloc(d.bytes[n]);
		}
		/* past the first pieces of the log, and around its end */
		for (uint32_t n = 0; n < 160; n++) {
			assert_int_equal(disks_put(&d, n % 20, n / 20), 0);
			if (n % (uint32_t)(7 * rig_every(2)) != 6)
				continue;
			for (uint32_t k = 0; k < count; k++)
				rig_copy(crashed[k], d.memory[k], d.bytes[k]);
			struct disks running = d;
			for (uint32_t missing = 0; missing < count; missing++, mounts++) {
				for (uint32_t k = 0; k < count; k++) {
					rig_copy(whole[k], d.memory[k], d.bytes[k]);
					rig_copy(d.memory[k], crashed[k], d.bytes[k]);
				}
				disks_mount(&d, all & ~(1u << missing));
				for (uint32_t f = 0; f <= n && f < 20; f++)
					assert_int_equal(disks_has(&d, f, (n - f) / 20), 1);
				disks_unmount(&d);
				disks_expect_clean(&d, all & ~(1u << missing));
				for (uint32_t k = 0; k < count; k++)
					rig_copy(d.memory[k], whole[k], d.bytes[k]);
			}
			d.rig = running.rig;
		}
		disks_unmount(&d);
		disks_expect_clean(&d, all);
		for (uint32_t n = 0; n < count; n++) {
			free(crashed[n]);
			free(whole[n]);
		}
		disks_free(&d);
	}
	print_message("%u mounts\n", mounts);
}

static void a_new_disk_does_not_speak_for_the_one_that_it_replaced(void **state)
{
	struct disks d;
	uint32_t disk;

	(void)state;
	disks_make(&d, 3, NULL);
	disks_format_copies(&d, G4_RAID_1, 3, G4_CHECKSUM_NONE);
	disks_mount(&d, 3);
	assert_int_equal(disks_put(&d, 0, 1), 0);
	disks_unmount(&d);
	disks_mount(&d, 4);
	assert_int_equal(disks_put(&d, 1, 1), 0);
	disks_unmount(&d);
	memset(d.memory[0], 0, DISK_BYTES);
	const char *others[2] = {d.names[2], d.names[0]}, *all[3] = {d.names[0], d.names[1], d.names[2]};
	if (g4_rebuild_offline(others, 2, false, NULL, &disk, d.message, sizeof(d.message)) < 0)
		fail_msg("%s", d.message);
	assert_int_equal(disk, 0);
	assert_int_equal(g4_rebuild_offline(all, 3, true, NULL, &disk, d.message, sizeof(d.message)), -G4_E_SB_DISKS);
	assert_non_null(strstr(d.message, "each written without the other"));
	assert_int_equal(disks_try_mount(&d, 7, true), -G4_E_SB_DISKS);
	disks_mount(&d, 2);
	assert_int_equal(disks_has(&d, 0, 1), 1);
	disks_unmount(&d);
	disks_mount(&d, 5);
	assert_int_equal(disks_has(&d, 1, 1), 1);
	disks_unmount(&d);
	disks_free(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_disks_but_one_can_be_missing),
		cmocka_unit_test(more_copies_than_disks_are_refused),
		cmocka_unit_test(disks_may_fail_one_after_the_other),
		cmocka_unit_test(a_journal_in_pieces_is_replayed_without_any_one_disk),
		cmocka_unit_test(a_new_disk_does_not_speak_for_the_one_that_it_replaced),
		cmocka_unit_test(nothing_synced_is_lost_with_the_power_and_two_disks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
