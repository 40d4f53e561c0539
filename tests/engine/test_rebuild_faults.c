/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rebuild of a mounted file system must not do: wipe what another disk does not have, believe what its disk said in an earlier life,
 * give up what can be made, or leave a disk behind that nobody can command.
 */
#include "rebuilding.h"

#include "fs/rebuild_host.h"
#include "simt/simt_host.h"
#include "space/set_rows_host.h"

#define FILES 8u

/* Each of two disks was mounted without the other: what the one has that is not used is nowhere else. */
static void the_other_half_of_a_split_set_is_not_wiped(void **state)
{
	struct g4_dev *dev;
	struct disks d;

	(void)state;
	disks_make(&d, 2, NULL);
	disks_format_copies(&d, G4_RAID_1, 2, G4_CHECKSUM_NONE);
	for (uint32_t writes = 0; writes < 2; writes++) { /* whether the one that is used was written itself */
		disks_mount_fs(&d, 2, &dev);
		assert_int_equal(disks_put(&d, 1, 2), 0);
		disks_unmount_fs(&d, dev, true);
		disks_mount_fs(&d, 1, &dev);
		if (writes)
			assert_int_equal(disks_put(&d, 1, 1), 0);
		assert_int_equal(order(&d, G4_DISK_REBUILD, d.names[1]), -G4_E_SB_DISKS);
		assert_non_null(strstr(d.message, "were each written without the other"));
		assert_int_equal(job_of(&d).kind, G4_JOB_NONE);
		disks_unmount_fs(&d, dev, true);
		disks_mount_fs(&d, 2, &dev);
		assert_int_equal(disks_has(&d, 1, 2), 1);
		disks_unmount_fs(&d, dev, true);
	}
	disks_free(&d);
}

static bool is_empty(const uint8_t *page)
{
	for (uint32_t k = 0; k < G4_PAGE_BYTES; k++)
		if (page[k])
			return false;
	return true;
}

/* The map of rows that are right is of what the disk had before; the newest map of any disk is believed. */
static void the_map_of_an_earlier_life_is_gone(void **state)
{
	struct g4_dev *dev;
	struct disks d;

	(void)state;
	disks_make(&d, 3, NULL);
	disks_format_rows(&d, 1, G4_CHECKSUM_NONE);
	disks_mount_fs(&d, 7, &dev);
	assert_int_equal(disks_put(&d, 1, 1), 0);
	const uint64_t map = G4_CHUNK_UNIT + ((struct g4_set *)dev->host)->parity->pages * G4_PAGE_BYTES;
	disks_unmount_fs(&d, dev, true);
	assert_false(is_empty(d.memory[1] + map));
	disks_mount_fs(&d, 5, &dev);
	begin(&d, G4_DISK_REBUILD, 1);
	assert_true(is_empty(d.memory[1] + map));
	finish(&d);
	disks_unmount_fs(&d, dev, true);
	assert_false(is_empty(d.memory[1] + map));
	assert_memory_equal(d.memory[1] + map, d.memory[0] + map, G4_PAGE_BYTES);
	disks_free(&d);
}

/* Disk 0 is missing of a set with two parities; it is mounted with bad pages of the others, `at` their first stripe of rows. */
static void begin_with_bad_pages(struct disks *d, struct faulty *f, uint32_t count, const uint64_t *at)
{
	const struct g4_chunk *chunk = NULL;

	disks_make(d, 5, NULL);
	disks_format_rows(d, 2, G4_CHECKSUM_NONE);
	mount_faulty(d, f, NULL);
	for (uint32_t n = 0; n < FILES; n++)
		assert_int_equal(disks_put(d, n, 1), 0);
	begin(d, G4_DISK_OFFLINE, 0);
	const struct g4_set *set = (const struct g4_set *)f->set->host;
	for (uint32_t n = 0; n < set->map.count && !chunk; n++)
		chunk = set->chunks[n].parity ? &set->chunks[n] : NULL;
	assert_non_null(chunk);
	for (uint32_t k = 0; k < count; k++)
		for (uint32_t c = 0; c < chunk->columns; c++)
			if (g4_place_disk(chunk->places[c]) == 1 + k)
				g4_dev_fault_set(f->fault[1 + k],
						 &(struct g4_fault){.bad_at =
									    g4_place_address(chunk->places[c]) + at[k],
								    .bad_bytes = 512});
	begin(d, G4_DISK_REBUILD, 0);
}

/* Of each page no more is lost than the parities make again. */
static void bad_pages_of_one_stripe_are_made_each(void **state)
{
	const uint64_t at[2] = {0, 2 * G4_PAGE_BYTES};
	struct g4_dev *dev;
	struct faulty f;
	struct disks d;

	(void)state;
	begin_with_bad_pages(&d, &f, 2, at);
	finish(&d);
	disks_unmount_fs(&d, f.set, true);
	disks_mount_fs(&d, 31 & ~6u, &dev);
	disks_expect_files(&d, FILES, 1);
	disks_unmount_fs(&d, dev, true);
	disks_free(&d);
}

static void more_bad_pages_of_a_row_than_parities_end_it(void **state)
{
	const uint64_t at[2] = {0, 512};
	struct faulty f;
	struct disks d;

	(void)state;
	begin_with_bad_pages(&d, &f, 2, at);
	while (job_of(&d).state == G4_JOB_RUNNING)
		step(&d);
	assert_int_equal(job_of(&d).state, G4_JOB_FAILED);
	assert_int_equal(job_of(&d).code, G4_E_SOURCE);
	assert_int_equal(state_of(f.set, 0), G4_DISK_DROPPED);
	disks_expect_files(&d, FILES, 1);
	disks_unmount_fs(&d, f.set, true);
	disks_free(&d);
}

/* The others did not say durably that it is rebuilt: it is not, and can be told to be again. */
static void a_beginning_that_fails_leaves_no_disk_behind(void **state)
{
	(void)state;
	for (uint32_t is_new = 0; is_new < 2; is_new++) {
		struct g4_disk_info before, after;
		struct g4_dev *dev;
		struct faulty f;
		struct disks d;
		disks_make(&d, 2, NULL);
		disks_format_copies(&d, G4_RAID_1, 2, G4_CHECKSUM_NONE);
		mount_faulty(&d, &f, NULL);
		assert_int_equal(disks_put(&d, 1, 1), 0);
		begin(&d, G4_DISK_OFFLINE, 1);
		assert_true(g4_set_disk(f.set, 1, &before));
		g4_dev_fault_set(f.fault[0], &(struct g4_fault){.fail_write_at = 1});
		assert_int_equal(order(&d, is_new ? G4_DISK_REPLACE : G4_DISK_REBUILD, d.names[1]), -G4_E_IO);
		assert_int_equal(job_of(&d).kind, G4_JOB_NONE);
		assert_true(g4_set_disk(f.set, 1, &after));
		assert_int_equal(after.state, G4_DISK_DROPPED);
		assert_memory_equal(after.uuid, before.uuid, sizeof(after.uuid));
		/* what was on it is gone, so it is a new one now */
		begin(&d, G4_DISK_REPLACE, 1);
		finish(&d);
		disks_unmount_fs(&d, f.set, true);
		disks_mount_fs(&d, 2, &dev);
		assert_int_equal(disks_has(&d, 1, 1), 1);
		disks_unmount_fs(&d, dev, true);
		disks_free(&d);
	}
}

/* A set of two, of which disk 1 is being rebuilt. */
static void begin_two(struct disks *d, struct faulty *f)
{
	disks_make(d, 2, NULL);
	disks_format_copies(d, G4_RAID_1, 2, G4_CHECKSUM_NONE);
	mount_faulty(d, f, NULL);
	assert_int_equal(disks_put(d, 1, 1), 0);
	begin(d, G4_DISK_OFFLINE, 1);
	begin(d, G4_DISK_REBUILD, 1);
}

/* What one of the others had not flushed may be lost: nothing is copied from there. */
static void nothing_is_copied_of_a_set_that_is_stuck(void **state)
{
	struct faulty f;
	struct disks d;

	(void)state;
	begin_two(&d, &f);
	struct g4_set *set = (struct g4_set *)f.set->host;
	g4_store32_rel(&set->stuck, 1);
	step(&d);
	assert_int_equal(job_of(&d).state, G4_JOB_FAILED);
	assert_int_equal(job_of(&d).code, G4_E_IO);
	assert_int_equal(set->position, 0);
	g4_store32_rel(&set->stuck, 0);
	disks_unmount_fs(&d, f.set, true);
	disks_free(&d);
}

/* Nobody would serve the job. */
static void a_file_system_that_has_shut_down_takes_no_orders(void **state)
{
	struct faulty f;
	struct disks d;

	(void)state;
	begin_two(&d, &f);
	finish(&d);
	g4_store32_rel(&d.rig.fs->journal.aborted, G4_E_IO);
	assert_int_equal(order(&d, G4_DISK_OFFLINE, d.names[1]), -G4_E_ROFS);
	assert_int_equal(state_of(f.set, 1), G4_DISK_ACTIVE);
	assert_int_equal(order(&d, G4_DISK_REBUILD, d.names[1]), -G4_E_ROFS);
	assert_int_equal(order(&d, G4_DISK_REPLACE, d.names[1]), -G4_E_ROFS);
	assert_int_equal(order(&d, G4_DISK_NAME, ""), 0);
	g4_store32_rel(&d.rig.fs->journal.aborted, 0);
	disks_unmount_fs(&d, f.set, true);
	disks_free(&d);
}

/* The record is durable later than what the set says, and may be of an earlier rebuild. */
static void the_record_is_of_the_disk_that_the_set_rebuilds(void **state)
{
	struct g4_dev *dev;
	struct faulty f;
	struct disks d;

	(void)state;
	begin_two(&d, &f);
	for (uint32_t i = 0; i < G4_JOBS; i++)
		if (d.rig.fs->jobs.records[i].kind == G4_JOB_REBUILD) {
			d.rig.fs->jobs.records[i].arguments[0] = 0;
			d.rig.fs->jobs.records[i].units = 7;
		}
	disks_unmount_fs(&d, f.set, true);
	disks_mount_fs(&d, 3, &dev);
	assert_int_equal(job_of(&d).number, 1);
	assert_int_equal(job_of(&d).arguments[0], 1);
	assert_true(job_of(&d).units > 7);
	finish(&d);
	disks_unmount_fs(&d, dev, true);
	disks_free(&d);
}

static void a_pause_is_one_whatever_the_disks_say(void **state)
{
	(void)state;
	for (uint32_t bad = 0; bad < 2; bad++) { /* the disk that is rebuilt: it is dropped; and the other one */
		struct faulty f;
		struct disks d;
		begin_two(&d, &f);
		for (uint32_t k = 0; k < 2; k++)
			step(&d);
		disks_unmount_fs(&d, f.set, true);
		mount_faulty(&d, &f, NULL);
		struct g4_cmd pause = {.op = G4_CMD_JOB_SET, .number = job_of(&d).number, .mask = G4_JOB_PAUSE};
		const uint64_t at = bad ? 1 : 0;
		g4_dev_fault_set(f.fault[1 - bad], &(struct g4_fault){.fail_flush_at = 1 - at, .fail_write_at = at});
		assert_int_equal(g4_execute(d.rig.wg, d.rig.fs, &pause), bad ? -G4_E_IO : 0);
		assert_int_equal(job_of(&d).state, G4_JOB_PAUSED);
		g4_dev_fault_set(f.fault[1 - bad], &(struct g4_fault){.fail_write_at = 0});
		assert_int_equal(state_of(f.set, 1), bad ? G4_DISK_REBUILDING : G4_DISK_DROPPED);
		disks_unmount_fs(&d, f.set, !bad);
		if (bad) { /* and durably */
			struct g4_dev *dev;
			disks_mount_fs(&d, 3, &dev);
			assert_int_equal(job_of(&d).state, G4_JOB_PAUSED);
			tell(&d, G4_JOB_RESUME);
			finish(&d);
			disks_unmount_fs(&d, dev, true);
		}
		disks_free(&d);
	}
}

/* A disk's name that was told stays until the set is closed. */
static void the_name_of_a_replaced_disk_stays(void **state)
{
	struct g4_disk_info before, same, after;
	struct disks d, other;
	struct faulty f;

	(void)state;
	begin_two(&d, &f);
	finish(&d);
	disks_make(&other, 1, NULL);
	assert_true(g4_set_disk(f.set, 1, &before));
	for (uint32_t k = 0; k < 2; k++) { /* by its own name, then by another one */
		begin(&d, G4_DISK_OFFLINE, 1);
		assert_int_equal(order(&d, k ? G4_DISK_REPLACE : G4_DISK_REBUILD, k ? other.names[0] : d.names[1]), 0);
		finish(&d);
		assert_true(g4_set_disk(f.set, 1, k ? &after : &same));
		assert_string_equal(before.name, d.names[1]);
	}
	assert_ptr_equal(same.name, before.name);
	assert_string_equal(after.name, other.names[0]);
	disks_unmount_fs(&d, f.set, true);
	disks_free(&other);
	disks_free(&d);
}

/* Of a file system that is not mounted: the new disk would be left out, and that told as done. */
static void a_new_disk_waits_for_one_that_is_being_rebuilt(void **state)
{
	struct faulty f;
	struct disks d, other;
	uint32_t disk;

	(void)state;
	begin_two(&d, &f);
	disks_unmount_fs(&d, f.set, true);
	disks_make(&other, 1, NULL);
	const char *names[3] = {d.names[0], d.names[1], other.names[0]};
	assert_int_equal(g4_rebuild_offline(names, 3, false, NULL, &disk, d.message, sizeof(d.message)), -G4_E_BUSY);
	assert_non_null(strstr(d.message, "disk 1 is being rebuilt; finish that first"));
	if (g4_rebuild_offline(names, 2, true, NULL, &disk, d.message, sizeof(d.message)) < 0)
		fail_msg("%s", d.message);
	disks_free(&other);
	disks_free(&d);
}

/*
 * Two power cuts, the first while a disk that was rebuilt becomes one as the others, the second while a mount tells those that do not know
 * it yet; and then one is lost that knew it. What is left is that disk, and one that says it is being rebuilt: both have everything.
 */
static void one_that_was_just_admitted_and_one_that_does_not_know_it_are_one_set(void **state)
{
	(void)state;
	for (uint32_t rows = 0; rows < 2; rows++) {
		const uint32_t count = rows ? 4 : 3;
		uint8_t labels[MOST_DISKS][2][G4_PAGE_BYTES];
		struct g4_dev *dev;
		struct disks d;
		disks_make(&d, count, NULL);
		if (rows)
			disks_format_rows(&d, 2, G4_CHECKSUM_NONE);
		else
			disks_format_copies(&d, G4_RAID_1, 3, G4_CHECKSUM_NONE);
		disks_mount_fs(&d, (1u << count) - 1, &dev);
		begin(&d, G4_DISK_OFFLINE, 0);
		assert_int_equal(disks_put(&d, 1, 1), 0);
		begin(&d, G4_DISK_REBUILD, 0);
		for (uint32_t n = 2; n < count; n++)
			for (uint32_t copy = 0; copy < 2; copy++)
				rig_copy(labels[n][copy], d.memory[n] + g4_set_label_address(d.bytes[n], copy),
					 G4_PAGE_BYTES);
		finish(&d);
		disks_unmount_fs(&d, dev, true);
		for (uint32_t n = 2; n < count; n++)
			for (uint32_t copy = 0; copy < 2; copy++)
				rig_copy(d.memory[n] + g4_set_label_address(d.bytes[n], copy), labels[n][copy],
					 G4_PAGE_BYTES);
		if (disks_try_open(&d, ((1u << count) - 1) & ~2u, true, 0, &dev) < 0)
			fail_msg("%u disks: %s", count, d.message);
		disks_begin_fs(&d, dev, 0);
		assert_int_equal(state_of(dev, 0), G4_DISK_ACTIVE);
		assert_int_equal(disks_has(&d, 1, 1), 1);
		assert_int_equal(disks_put(&d, 1, 2), 0);
		disks_unmount_fs(&d, dev, true);
		disks_expect_clean(&d, ((1u << count) - 1) & ~2u);
		disks_mount_fs(&d, rows ? 5u : 4u, &dev); /* nor is the disk needed */
		assert_int_equal(disks_has(&d, 1, 2), 1);
		disks_unmount_fs(&d, dev, true);
		disks_free(&d);
	}
}

/* Labels of the set's disks; those of a mask of them take the place of what is there. */
static void keep_labels(struct disks *d, uint8_t labels[][2][G4_PAGE_BYTES])
{
	for (uint32_t n = 0; n < d->count; n++)
		for (uint32_t copy = 0; copy < 2; copy++)
			rig_copy(labels[n][copy], d->memory[n] + g4_set_label_address(d->bytes[n], copy),
				 G4_PAGE_BYTES);
}

static void put_labels(struct disks *d, uint8_t labels[][2][G4_PAGE_BYTES], uint32_t which)
{
	for (uint32_t n = 0; n < d->count; n++)
		for (uint32_t copy = 0; copy < 2 && (which >> n & 1); copy++)
			rig_copy(d->memory[n] + g4_set_label_address(d->bytes[n], copy), labels[n][copy],
				 G4_PAGE_BYTES);
}

/* Mounted by itself and written: false where that is refused. */
static bool write_apart(struct disks *d, uint32_t which, uint32_t number)
{
	struct g4_dev *dev;

	if (disks_open_to_mount(d, which, true, &dev) < 0)
		return false;
	disks_begin_fs(d, dev, 0);
	assert_int_equal(disks_put(d, number, 2), 0);
	disks_unmount_fs(d, dev, true);
	return true;
}

/* What was written to some disks by themselves is there or refused, whichever of the others are named with some of them. */
static void expect_written(struct disks *d, uint32_t know, uint32_t written, uint32_t number)
{
	struct g4_dev *dev;

	for (uint32_t which = 1; which < 8; which++) {
		if (!(which & written) || disks_try_open(d, which, true, G4_DEV_READ_ONLY, &dev) < 0)
			continue;
		disks_begin_fs(d, dev, G4_FS_READ_ONLY);
		if (disks_has(d, number, 2) != 1)
			fail_msg("%u know it, %u were written, and %u do not have that", know, written, which);
		disks_unmount_fs(d, dev, true);
	}
}

/*
 * A crash left some of three disks with a rebuilt one admitted, and others that do not know it. Whoever writes to some of them, and then to others, has two
 * file systems, whichever had heard of it: none of the one is mounted with any of the other. Nor is what some have lost behind others that were not there.
 */
static void those_that_were_written_apart_behind_an_admission_are_refused(void **state)
{
	static uint8_t before[MOST_DISKS][2][G4_PAGE_BYTES], after[MOST_DISKS][2][G4_PAGE_BYTES];
	uint8_t *whole[3];
	struct g4_dev *dev;
	struct disks d;
	uint32_t apart = 0;

	(void)state;
	disks_make(&d, 3, NULL);
	disks_format_copies(&d, G4_RAID_1, 3, G4_CHECKSUM_NONE);
	disks_mount_fs(&d, 7, &dev);
	begin(&d, G4_DISK_OFFLINE, 0);
	assert_int_equal(disks_put(&d, 1, 1), 0);
	begin(&d, G4_DISK_REBUILD, 0);
	keep_labels(&d, before);
	finish(&d);
	keep_labels(&d, after);
	disks_unmount_fs(&d, dev, true);
	for (uint32_t n = 0; n < 3; n++) {
		whole[n] = rig_memory(d.bytes[n], 0);
		rig_copy(whole[n], d.memory[n], d.bytes[n]);
	}
	for (uint32_t know = 0; know < 7; know++)
		for (uint32_t one = 1; one < 7; one++)
			for (uint32_t other = 1; other < 7; other++) {
				if ((one & other) || know == 1)
					continue;
				for (uint32_t n = 0; n < 3; n++)
					rig_copy(d.memory[n], whole[n], d.bytes[n]);
				put_labels(&d, after, know);
				put_labels(&d, before, 7 & ~know);
				if (!write_apart(&d, one, 2))
					continue;
				expect_written(&d, know, one, 2);
				if (!write_apart(&d, other, 3))
					continue;
				apart++;
				for (uint32_t both = 3; both < 8; both++)
					if ((both & one) && (both & other) &&
					    disks_try_open(&d, both, true, G4_DEV_READ_ONLY, &dev) >= 0)
						fail_msg("%u know it, %u and %u were written apart, %u is mounted",
							 know, one, other, both);
			}
	assert_true(apart >= 20);
	for (uint32_t n = 0; n < 3; n++)
		free(whole[n]);
	disks_free(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_other_half_of_a_split_set_is_not_wiped),
		cmocka_unit_test(the_map_of_an_earlier_life_is_gone),
		cmocka_unit_test(bad_pages_of_one_stripe_are_made_each),
		cmocka_unit_test(more_bad_pages_of_a_row_than_parities_end_it),
		cmocka_unit_test(a_beginning_that_fails_leaves_no_disk_behind),
		cmocka_unit_test(nothing_is_copied_of_a_set_that_is_stuck),
		cmocka_unit_test(a_file_system_that_has_shut_down_takes_no_orders),
		cmocka_unit_test(the_record_is_of_the_disk_that_the_set_rebuilds),
		cmocka_unit_test(a_pause_is_one_whatever_the_disks_say),
		cmocka_unit_test(the_name_of_a_replaced_disk_stays),
		cmocka_unit_test(a_new_disk_waits_for_one_that_is_being_rebuilt),
		cmocka_unit_test(one_that_was_just_admitted_and_one_that_does_not_know_it_are_one_set),
		cmocka_unit_test(those_that_were_written_apart_behind_an_admission_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
