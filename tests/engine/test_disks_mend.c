/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies that differ: what recovery, a mount that can not write and fsck make of them. Whatever one copy alone has is in all of them
 * before anything relies on it.
 */
#include "disks.h"

#include "data/fetch.h"
#include "data/map.h"
#include "fs/mount_host.h"
#include "fs/rebuild_host.h"
#include "fsck/fsck.h"
#include "simt/simt_host.h"

#define LARGE_BYTES (32 * G4_MIB)

static const uint64_t large[MOST_DISKS] = {LARGE_BYTES, LARGE_BYTES, LARGE_BYTES, LARGE_BYTES};

/* ---- fsck ---- */

static void name_all(struct disks *d)
{
	snprintf(d->rig.name, sizeof(d->rig.name), "%s", disks_name_of(d, (1u << d->count) - 1));
}

/* Every second page of a disk from the `first` on is damaged, but its superblocks and chunks. */
static void rot_half(struct disks *d, uint32_t bad, uint32_t first)
{
	for (uint64_t at = G4_CHUNK_UNIT + first * G4_PAGE_BYTES; at < d->bytes[bad] - G4_PAGE_BYTES;
	     at += 2 * G4_PAGE_BYTES)
		d->memory[bad][at + 40 + at / G4_PAGE_BYTES * 7 % 3000] ^= 0x10;
}

static void expect_told(struct disks *d)
{
	char *text;

	name_all(d);
	const struct rig_verdict verdict = rig_fsck(&d->rig, &text);
	assert_true(verdict.problems > 20);
	assert_non_null(strstr(text, "another one is whole"));
	free(text);
}

static void expect_repaired_without_loss(struct disks *d)
{
	struct rig_repair how = {.dry_run = true};

	for (uint32_t k = 0; k < 2; k++) {
		name_all(d);
		if (rig_repair(&d->rig, &how) < 0)
			fail_msg("%s", how.words);
		if (how.found == 0 || how.outcome[G4_FSCK_LOST] != 0 || how.outcome[G4_FSCK_DOUBTFUL] != 0)
			fail_msg("%s", how.text);
		free(how.text);
		how.dry_run = false;
	}
	disks_expect_clean(d, (1u << d->count) - 1);
}

static void fsck_repairs_metadata_from_another_copy(void **state)
{
	(void)state;
	for (uint32_t copies = 2; copies <= 3; copies++)
		for (uint32_t bad = 0; bad < copies; bad += (uint32_t)disks_every(1)) {
			struct g4_dev *dev;
			struct disks d;
			disks_make(&d, copies, large);
			disks_format_copies(&d, G4_RAID_1, copies, G4_CHECKSUM_CRC32C);
			disks_mount_fs(&d, (1u << copies) - 1, &dev);
			disks_populate(&d);
			disks_unmount_fs(&d, dev, true);
			/* all but one */
			for (uint32_t n = 0; n < copies; n++)
				if (copies == 2 ? n == bad : n != bad)
					disks_rot(&d, n);
			expect_told(&d);
			expect_repaired_without_loss(&d);
			/* of one that was rotten all metadata is whole by itself */
			disks_expect_clean(&d, 1u << (copies == 2 ? bad : (bad + 1) % copies));
			disks_mount_fs(&d, (1u << copies) - 1, &dev);
			disks_expect_all(&d);
			disks_unmount_fs(&d, dev, true);
			disks_free(&d);
		}
}

static void fsck_repairs_each_copy_from_the_other(void **state)
{
	struct g4_dev *dev;
	struct disks d;

	(void)state;
	disks_make(&d, 2, large);
	disks_format(&d, G4_RAID_1, G4_CHECKSUM_XXH3);
	disks_mount_fs(&d, 3, &dev);
	disks_populate(&d);
	disks_unmount_fs(&d, dev, true);
	rot_half(&d, 0, 0);
	rot_half(&d, 1, 1);
	expect_told(&d);
	expect_repaired_without_loss(&d);
	disks_mount_fs(&d, 3, &dev);
	disks_expect_all(&d);
	assert_int_equal(disks_scrub(&d), 0);
	disks_unmount_fs(&d, dev, true);
	for (uint32_t n = 0; n < 2; n++) {
		disks_expect_clean(&d, 1u << n);
		disks_mount_fs(&d, 1u << n, &dev);
		disks_expect_all(&d);
		disks_unmount_fs(&d, dev, true);
		if (n == 0) /* the other one is stale now: as it was */
			break;
	}
	disks_free(&d);
}

static void fsck_compares_contents_of_all_copies(void **state)
{
	(void)state;
	for (uint32_t bad = 0; bad < 2; bad++) {
		struct g4_dev *dev;
		struct disks d;
		char *text;
		disks_make(&d, 2, large);
		disks_format(&d, G4_RAID_1, G4_CHECKSUM_BLAKE3);
		disks_mount_fs(&d, 3, &dev);
		disks_populate(&d);
		disks_unmount_fs(&d, dev, true);
		name_all(&d);
		const struct rig_data before = rig_fsck_data(&d.rig, 2, &text);
		free(text);
		assert_int_equal(before.damaged, 0);
		disks_rot(&d, bad);
		expect_repaired_without_loss(&d);
		name_all(&d);
		const struct rig_data data = rig_fsck_data(&d.rig, 2, &text);
		assert_int_equal(data.compared, before.compared);
		assert_int_equal(data.damaged, data.compared);
		assert_non_null(strstr(text, "another copy is whole"));
		free(text);
		disks_mount_fs(&d, 3, &dev);
		assert_int_equal(disks_scrub(&d), 0);
		disks_unmount_fs(&d, dev, true);
		name_all(&d);
		assert_int_equal(rig_fsck_data(&d.rig, 2, &text).damaged, 0);
		free(text);
		disks_free(&d);
	}
}

#define SMALL_FILES 300u

/* The pages of the small files that a disk has are damaged; how many. */
static uint64_t rot_contents(struct disks *d, uint32_t bad)
{
	uint8_t *expected = (uint8_t *)malloc(FILE_PAGES * G4_PAGE_BYTES);
	uint64_t count = 0;

	for (uint32_t n = 0; n < SMALL_FILES; n++) {
		rig_pattern(expected, 1000 * n + 1, FILE_PAGES * G4_PAGE_BYTES);
		for (uint64_t at = G4_CHUNK_UNIT; at < d->bytes[bad]; at += G4_PAGE_BYTES)
			for (uint32_t k = 0; k < FILE_PAGES; k++)
				if (memcmp(d->memory[bad] + at, expected + k * G4_PAGE_BYTES, G4_PAGE_BYTES) == 0) {
					d->memory[bad][at + 7] ^= 1;
					count++;
				}
	}
	free(expected);
	return count;
}

/* There each copy of a run of pages may lie in part on the disk that is missing. */
static void fsck_compares_contents_where_chunks_meet(void **state)
{
	struct disks d;
	char *text;

	(void)state;
	disks_make(&d, 3, NULL);
	disks_format_copies(&d, G4_RAID_1, 2, G4_CHECKSUM_CRC32C);
	disks_mount(&d, 7);
	for (uint32_t n = 0; n < SMALL_FILES; n++)
		assert_int_equal(disks_put(&d, n, 1), 0);
	disks_unmount(&d);
	for (uint32_t bad = 0; bad < 3; bad++) {
		const uint64_t rotten = rot_contents(&d, bad);
		assert_true(rotten > SMALL_FILES);
		for (uint32_t missing = 0; missing < 3; missing++) {
			if (missing == bad)
				continue;
			snprintf(d.rig.name, sizeof(d.rig.name), "%s", disks_name_of(&d, 7u & ~(1u << missing)));
			const struct rig_data data = rig_fsck_data(&d.rig, 2, &text);
			free(text);
			assert_int_equal(data.compared, SMALL_FILES * FILE_PAGES);
			assert_int_equal(data.damaged, rotten);
		}
		struct g4_dev *dev;
		disks_mount_fs(&d, 7, &dev);
		assert_int_equal(disks_scrub(&d), 0);
		disks_unmount_fs(&d, dev, true);
	}
	disks_free(&d);
}

static void fsck_finds_a_journal_of_which_one_copy_is_rotten(void **state)
{
	(void)state;
	for (uint32_t bad = 0; bad < 2; bad++) {
		struct g4_dev *dev;
		struct disks d;
		disks_make(&d, 2, large);
		disks_format(&d, G4_RAID_1, G4_CHECKSUM_NONE);
		disks_mount_fs(&d, 3, &dev);
		disks_populate(&d);
		assert_int_equal(op_sync(&d.rig), 0);
		disks_unmount_fs(&d, dev, false);
		rot_half(&d, bad, 0);
		rot_half(&d, bad, 1);
		/* the copy is told, and nothing else */
		char *text;
		name_all(&d);
		rig_fsck(&d.rig, &text);
		for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
			if (!strstr(line, "another one is whole") ||
			    (strchr(line, '\n') && strchr(line, '\n') < strstr(line, "another one is whole")))
				fail_msg("%s", line);
		free(text);
		struct rig_repair how = {.dry_run = false};
		name_all(&d);
		if (rig_repair(&d.rig, &how) < 0)
			fail_msg("%s", how.words);
		assert_int_equal(how.outcome[G4_FSCK_LOST] + how.outcome[G4_FSCK_DOUBTFUL], 0);
		free(how.text);
		disks_expect_clean(&d, 1u << bad);
		disks_free(&d);
	}
}

/* ---- a record that one copy alone has ---- */

struct crash { /* of two disks, after a crash: what each has, and had before the last transaction */
	struct disks d;
	uint8_t *before[2], *after[2];
	uint64_t log, log_end; /* on the disks */
};

/* File 1 has version 1 before the last transaction, 2 in it. */
static void make_crash(struct crash *c)
{
	struct g4_image image;
	char message[256];
	struct faulty f;

	disks_make(&c->d, 2, NULL);
	disks_format(&c->d, G4_RAID_1, G4_CHECKSUM_NONE);
	/* fault devices have a volatile cache: so records name the data that they rely on */
	disks_open_faulty(&c->d, &f);
	disks_begin_fs(&c->d, f.set, 0);
	for (uint32_t n = 0; n < 4; n++)
		assert_int_equal(disks_put(&c->d, n, 1), 0);
	/* all of that goes home: no older record repairs what the last one would have left in part */
	disks_unmount_fs(&c->d, f.set, true);
	disks_open_faulty(&c->d, &f);
	disks_begin_fs(&c->d, f.set, 0);
	for (uint32_t n = 0; n < 2; n++) {
		c->before[n] = (uint8_t *)malloc(DISK_BYTES);
		rig_copy(c->before[n], c->d.memory[n], DISK_BYTES);
	}
	assert_int_equal(disks_put(&c->d, 1, 2), 0);
	for (uint32_t n = 0; n < 2; n++) {
		c->after[n] = (uint8_t *)malloc(DISK_BYTES);
		rig_copy(c->after[n], c->d.memory[n], DISK_BYTES);
	}
	disks_unmount_fs(&c->d, f.set, false);
	/* the first chunk begins where chunks begin */
	if (g4_image_open(&image, disks_name_of(&c->d, 3), message, sizeof(message)) < 0)
		fail_msg("%s", message);
	c->log = G4_CHUNK_UNIT + image.layout.journal_address +
		 G4_PAGE_BYTES; /* behind the header, which is durable before */
	c->log_end = G4_CHUNK_UNIT + image.layout.journal_address + image.layout.journal_bytes;
	g4_image_close(&image);
}

static void free_crash(struct crash *c)
{
	for (uint32_t n = 0; n < 2; n++) {
		free(c->before[n]);
		free(c->after[n]);
	}
	disks_free(&c->d);
}

/* Only disk `has` has the last record; the other one has the data, too. */
static void lose_record(struct crash *c, uint32_t has)
{
	for (uint32_t n = 0; n < 2; n++)
		rig_copy(c->d.memory[n], c->after[n], DISK_BYTES);
	rig_copy(c->d.memory[1 - has] + c->log, c->before[1 - has] + c->log, c->log_end - c->log);
}

/* Only disk `has` has the data; both have the record that names it. */
static void lose_data(struct crash *c, uint32_t has)
{
	for (uint32_t n = 0; n < 2; n++)
		rig_copy(c->d.memory[n], c->after[n], DISK_BYTES);
	rig_copy(c->d.memory[1 - has] + c->log_end, c->before[1 - has] + c->log_end, DISK_BYTES - c->log_end);
}

static void expect_one_of_two(struct disks *d, uint32_t which, const char *when)
{
	disks_mount(d, which);
	const int older = disks_has(d, 1, 1), newer = disks_has(d, 1, 2);
	if (older != 1 && newer != 1)
		fail_msg("%s: file 1 is a mixture with disks %u: %d, %d", when, which, older, newer);
	for (uint32_t n = 0; n < 4; n++)
		if (n != 1)
			assert_int_equal(disks_has(d, n, 1), 1);
	disks_unmount(d);
	disks_expect_clean(d, which);
}

/* Without that its pages would be at home, in part, on a disk that can not complete them. */
static void a_record_of_one_copy_is_in_all_before_a_page_goes_home(void **state)
{
	struct disks_order *order = (struct disks_order *)calloc(1, sizeof(*order));
	struct disks crashed;
	uint64_t random = 5;
	struct crash c;

	(void)state;
	make_crash(&c);
	disks_make(&crashed, 2, NULL);
	for (uint32_t has = 0; has < 2; has++) {
		uint8_t *start[2];
		struct faulty f;
		lose_record(&c, has);
		for (uint32_t n = 0; n < 2; n++) {
			start[n] = (uint8_t *)malloc(DISK_BYTES);
			rig_copy(start[n], c.d.memory[n], DISK_BYTES);
		}
		memset(order, 0, sizeof(*order));
		disks_open_faulty(&c.d, &f);
		disks_watch(&c.d, &f, order);
		disks_begin_fs(&c.d, f.set, 0);
		const uint32_t recovery = order->count;
		assert_true(recovery > 10); /* the record, and pages written home */
		for (uint32_t at = 0; at <= recovery; at += (uint32_t)disks_every(3)) {
			disks_crash(&crashed, start, &f, order, at, &random);
			expect_one_of_two(&crashed, 2u >> has, "the disk with the record is lost");
		}
		/* the next ones rely on it */
		disks_mount(&crashed, 2u >> has);
		assert_int_equal(disks_has(&crashed, 1, 2), 1);
		disks_unmount(&crashed);
		disks_unmount_fs(&c.d, f.set, false);
		for (uint32_t n = 0; n < 2; n++)
			free(start[n]);
	}
	disks_free(&crashed);
	free_crash(&c);
	free(order);
}

static void data_of_one_copy_is_in_all_when_its_record_counts(void **state)
{
	struct crash c;

	(void)state;
	make_crash(&c);
	for (uint32_t has = 0; has < 2; has++) {
		lose_data(&c, has);
		disks_mount(&c.d, 3);
		assert_int_equal(disks_has(&c.d, 1, 2), 1);
		disks_unmount(&c.d);
		/* with what the other disk has by itself */
		disks_mount(&c.d, 2u >> has);
		assert_int_equal(disks_has(&c.d, 1, 2), 1);
		disks_unmount(&c.d);
		disks_expect_clean(&c.d, 2u >> has);
	}
	free_crash(&c);
}

/* Of the pages that the last record has, disk `to` has older images where it can be: the log may have been that far before. */
static uint32_t put_older_images(struct crash *c, uint32_t to)
{
	uint32_t count = 0;

	for (uint64_t at = c->log; at < c->log_end; at += G4_PAGE_BYTES) {
		const struct g4_block_header *now = (const struct g4_block_header *)(c->after[to] + at);
		if (memcmp(c->before[to] + at, c->after[to] + at, G4_PAGE_BYTES) == 0 || now->magic != G4_BLOCK_MAGIC ||
		    now->address == at - G4_CHUNK_UNIT)
			continue;
		for (uint64_t old = c->log; old < c->log_end; old += G4_PAGE_BYTES) {
			const struct g4_block_header *then = (const struct g4_block_header *)(c->before[to] + old);
			if (then->magic != G4_BLOCK_MAGIC || then->address != now->address)
				continue;
			memcpy(c->d.memory[to] + at, c->before[to] + old, G4_PAGE_BYTES);
			count++;
			break;
		}
	}
	return count;
}

static void mount_read_only(struct disks *d, struct g4_dev **dev)
{
	if (disks_try_open(d, 3, false, G4_DEV_READ_ONLY, dev) < 0)
		fail_msg("%s", d->message);
	disks_begin_fs(d, *dev, G4_FS_READ_ONLY);
}

static void a_mount_that_can_not_write_reads_the_copy_that_is_whole(void **state)
{
	struct crash c;

	(void)state;
	make_crash(&c);
	for (uint32_t has = 0; has < 2; has++) {
		struct disks *d = &c.d;
		struct g4_dev *dev;
		lose_record(&c, has);
		assert_true(put_older_images(&c, 1 - has) > 0);
		mount_read_only(d, &dev);
		assert_int_equal(disks_has(d, 1, 2), 1);
		disks_unmount_fs(d, dev, false);
		/* fsck sees the same */
		disks_expect_clean(d, 3);
	}
	free_crash(&c);
}

/* What the copy that was verified has no more comes from another one, unless that has something older there. */
static void images_of_the_log_come_from_any_copy_that_has_the_same(void **state)
{
	struct crash c;

	(void)state;
	make_crash(&c);
	for (uint32_t older = 0; older < 2; older++) {
		struct g4_dev *dev;
		for (uint32_t n = 0; n < 2; n++)
			rig_copy(c.d.memory[n], c.after[n], DISK_BYTES);
		mount_read_only(&c.d, &dev);
		/* the first copy is the one that was verified */
		for (uint64_t at = c.log; at < c.log_end; at += G4_PAGE_BYTES)
			c.d.memory[0][at + 40] ^= 0x10;
		if (older)
			assert_true(put_older_images(&c, 1) > 0);
		const int has = disks_has(&c.d, 1, 2);
		if (older)
			assert_true(has < 0);
		else
			assert_int_equal(has, 1);
		disks_unmount_fs(&c.d, dev, false);
	}
	free_crash(&c);
}

static void recovery_does_without_any_one_read(void **state)
{
	uint64_t reads = UINT64_MAX, writes, flushes;
	struct crash c;

	(void)state;
	make_crash(&c);
	for (uint64_t at = 1; at <= reads; at += disks_every(4)) {
		for (uint32_t bad = 0; bad < 2; bad++) {
			const struct g4_fault fault = {.fail_read_at = at};
			uint64_t before;
			struct faulty f;
			for (uint32_t n = 0; n < 2; n++)
				rig_copy(c.d.memory[n], c.after[n], DISK_BYTES);
			disks_open_faulty(&c.d, &f);
			g4_dev_fault_counts(f.fault[bad], &before, &writes, &flushes);
			g4_dev_fault_set(f.fault[bad], &fault);
			disks_begin_fs(&c.d, f.set, 0);
			if (bad == 0) {
				g4_dev_fault_counts(f.fault[bad], &reads, &writes, &flushes);
				reads -= before;
			}
			assert_int_equal(disks_has(&c.d, 1, 2), 1);
			disks_unmount_fs(&c.d, f.set, false);
		}
	}
	disks_expect_clean(&c.d, 3);
	print_message("%llu reads\n", (unsigned long long)reads);
	assert_true(reads > 10 && reads < 10000);
	free_crash(&c);
}

/* ---- rebuilding while another one is away ---- */

static int open_in_order(struct disks *d, const uint32_t *order, struct g4_dev **dev)
{
	const struct g4_set_options options = {.degraded = false};
	const char *names[MOST_DISKS];

	for (uint32_t n = 0; n < d->count; n++)
		names[n] = d->names[order[n]];
	return g4_set_open(names, d->count, &options, dev, d->message, sizeof(d->message));
}

static int rebuild(struct disks *d, uint32_t which, uint32_t *disk)
{
	const char *names[MOST_DISKS];
	uint32_t count = 0;

	for (uint32_t n = 0; n < d->count; n++)
		if (which >> n & 1)
			names[count++] = d->names[n];
	return g4_rebuild_offline(names, count, true, NULL, disk, d->message, sizeof(d->message));
}

/* Those that were rebuilt can not know what it was written with meanwhile. */
static void a_disk_that_was_away_during_a_rebuild_is_stale_and_comes_back(void **state)
{
	static const uint32_t orders[3][3] = {{0, 1, 2}, {1, 0, 2}, {2, 1, 0}};
	uint32_t disk;

	(void)state;
	for (uint32_t o = 0; o < 3; o++) {
		struct g4_dev *dev;
		struct disks d;
		disks_make(&d, 3, NULL);
		disks_format_copies(&d, G4_RAID_1, 3, G4_CHECKSUM_NONE);
		disks_mount(&d, 5);
		assert_int_equal(disks_put(&d, 1, 1), 0);
		disks_unmount(&d);
		if (rebuild(&d, 3, &disk) < 0)
			fail_msg("%s", d.message);
		assert_int_equal(disk, 1);
		for (uint32_t k = 0; k < 2; k++) {
			assert_int_equal(open_in_order(&d, orders[o], &dev), -G4_E_SB_DISKS);
			assert_non_null(strstr(d.message, "disk 2,"));
			assert_non_null(strstr(d.message, "stale"));
			/* what it misses since is no other case */
			disks_mount(&d, 3);
			assert_int_equal(disks_put(&d, 1, 2), 0);
			disks_unmount(&d);
		}
		if (rebuild(&d, 7, &disk) < 0)
			fail_msg("%s", d.message);
		assert_int_equal(disk, 2);
		if (open_in_order(&d, orders[o], &dev) < 0)
			fail_msg("%s", d.message);
		g4_dev_close(dev);
		disks_mount(&d, 4);
		assert_int_equal(disks_has(&d, 1, 2), 1);
		disks_unmount(&d);
		disks_free(&d);
	}
}

static const uint32_t orders_of_four[4][4] = {{0, 1, 2, 3}, {1, 0, 3, 2}, {2, 3, 0, 1}, {3, 1, 2, 0}};

static void a_rebuild_does_not_join_two_halves(void **state)
{
	struct g4_dev *dev;
	struct disks d;
	uint32_t disk;

	(void)state;
	disks_make(&d, 4, NULL);
	disks_format_copies(&d, G4_RAID_1, 4, G4_CHECKSUM_NONE);
	disks_mount(&d, 1 | 2 | 8);
	assert_int_equal(disks_put(&d, 1, 1), 0);
	disks_unmount(&d);
	disks_mount(&d, 2 | 8);
	assert_int_equal(disks_put(&d, 1, 2), 0);
	disks_unmount(&d);
	/* disk 0 knows nothing of that */
	if (rebuild(&d, 1 | 4, &disk) < 0)
		fail_msg("%s", d.message);
	assert_int_equal(disk, 2);
	for (uint32_t o = 0; o < 4; o++) {
		assert_int_equal(open_in_order(&d, orders_of_four[o], &dev), -G4_E_SB_DISKS);
		assert_non_null(strstr(d.message, "were each written without the other"));
	}
	assert_int_equal(rebuild(&d, 15, &disk), -G4_E_SB_DISKS);
	/* each half is as it was */
	for (uint32_t version = 1; version <= 2; version++) {
		disks_mount(&d, version == 1 ? 1 | 4 : 2 | 8);
		assert_int_equal(disks_has(&d, 1, version), 1);
		disks_unmount(&d);
	}
	disks_free(&d);
}

/* What a set writes first when disks are missing: that they are, and a page. */
static void write_a_page(struct disks *d, uint32_t which)
{
	uint8_t *page = rig_memory(G4_PAGE_BYTES, 3);
	struct g4_wg *wg = g4_wg_create(0);
	struct g4_dev *dev;

	if (disks_try_open(d, which, true, 0, &dev) < 0)
		fail_msg("%s", d->message);
	assert_int_equal(g4_dev_write(wg, dev, 8 * G4_MIB, page, G4_PAGE_BYTES, 0), 0);
	g4_dev_close(dev);
	g4_wg_destroy(wg);
	free(page);
}

/* The power fails when one disk alone says that another one is missing; then it is missing itself. */
static void who_alone_says_what_is_missing_does_not_join_two_halves(void **state)
{
	uint8_t *before[4];
	struct g4_dev *dev;
	struct disks d;

	(void)state;
	disks_make(&d, 4, NULL);
	disks_format_copies(&d, G4_RAID_1, 4, G4_CHECKSUM_NONE);
	for (uint32_t n = 0; n < 4; n++) {
		before[n] = (uint8_t *)malloc(DISK_BYTES);
		rig_copy(before[n], d.memory[n], DISK_BYTES);
	}
	write_a_page(&d, 1 | 2 | 8);
	for (uint32_t n = 1; n < 4; n++)
		rig_copy(d.memory[n], before[n], DISK_BYTES);
	write_a_page(&d, 2 | 8);
	/* without disk 2, which all call stale; the one that is named first speaks */
	for (uint32_t first = 0; first < 4; first++) {
		const struct g4_set_options options = {.degraded = true};
		const char *names[3] = {d.names[first], d.names[first == 0 ? 1 : 0], d.names[first == 3 ? 1 : 3]};
		if (first != 2)
			assert_int_equal(g4_set_open(names, 3, &options, &dev, d.message, sizeof(d.message)),
					 -G4_E_SB_DISKS);
		free(before[first]);
	}
	disks_free(&d);
}

/* ---- scrub ---- */

/*
 * A copy that can not be read is written again from what the disks have, not from a page in memory that nobody can verify: a bit of
 * that would be in all copies.
 */
static void a_scrub_writes_no_page_of_the_second_tier(void **state)
{
	const struct g4_fs_options options = {.cache_bytes = 4 * G4_MIB, .tier_bytes = 4 * G4_MIB};
	uint8_t *data = rig_memory(FILE_PAGES * G4_PAGE_BYTES, 3), *found = rig_memory(FILE_PAGES * G4_PAGE_BYTES, 0);
	uint64_t bad, unverified, at[2] = {0, 0};
	struct faulty f;
	struct g4_run run;
	struct disks d;
	uint32_t index;

	(void)state;
	disks_make(&d, 2, large);
	disks_format(&d, G4_RAID_1, G4_CHECKSUM_NONE);
	disks_open_faulty(&d, &f);
	memset(&d.rig, 0, sizeof(d.rig));
	d.rig.wg = g4_wg_create(0);
	d.outer = f.set;
	if (g4_fs_mount(d.rig.wg, f.set, &options, &d.rig.fs, d.message, sizeof(d.message)) < 0)
		fail_msg("%s", d.message);
	const uint64_t ino = rig_make_file(&d.rig, "file", 0, data, FILE_PAGES * G4_PAGE_BYTES);
	assert_int_equal(op_sync(&d.rig), 0);

	struct g4_tier *tier = &d.rig.fs->space.tier;
	const uint64_t page = rig_place(&d.rig, ino, 2) / G4_PAGE_BYTES;
	memcpy(found, data + 2 * G4_PAGE_BYTES, G4_PAGE_BYTES);
	found[77] ^= 8;
	const uint64_t down = tier->counts.down;
	g4_tier_put(d.rig.wg, tier, page, g4_tier_version(tier, page), found);
	assert_int_equal(tier->counts.down, down + 1);
	for (uint32_t disk = 0; disk < 2; disk++)
		for (uint64_t k = 0; k < d.bytes[disk]; k += G4_PAGE_BYTES)
			if (memcmp(d.memory[disk] + k, data + 2 * G4_PAGE_BYTES, G4_PAGE_BYTES) == 0)
				at[disk] = k;
	assert_true(at[0] > 0 && at[1] > 0);
	const struct g4_fault fault = {.bad_at = at[0], .bad_bytes = 1}, none = {0};
	g4_dev_fault_set(f.fault[0], &fault);

	assert_int_equal(g4_icache_get(d.rig.wg, d.rig.fs, ino, &index), 0);
	struct g4_inode_core *inode = g4_icache_at(d.rig.fs, index);
	g4_read_lock(&inode->lock);
	assert_int_equal(g4_map_lookup(d.rig.wg, d.rig.fs, inode, 0, FILE_PAGES, &run), 0);
	g4_fetch_survey(d.rig.wg, d.rig.fs, inode, 0, run.address, found, FILE_PAGES, &bad, &unverified);
	g4_read_unlock(&inode->lock);
	g4_icache_put(d.rig.fs, index);
	g4_dev_fault_set(f.fault[0], &none);
	disks_unmount_fs(&d, f.set, true); /* the disks have caches */
	for (uint32_t disk = 0; disk < 2; disk++)
		assert_memory_equal(d.memory[disk] + at[disk], data + 2 * G4_PAGE_BYTES, G4_PAGE_BYTES);
	disks_free(&d);
	free(data);
	free(found);
}

/* Where a disk has the home of a page of sums of a file's first 2 MiB: behind the log, which may have it, too. */
static uint64_t home_of_sums(struct disks *d, uint32_t disk, uint64_t ino)
{
	const struct g4_sum_entry *entry;
	uint32_t index, line;
	uint64_t at = 0;

	assert_int_equal(g4_icache_get(d->rig.wg, d->rig.fs, ino, &index), 0);
	assert_int_equal(g4_map_sums_page(d->rig.wg, d->rig.fs, g4_icache_at(d->rig.fs, index), 200, &line, &entry), 0);
	assert_int_not_equal(line, G4_NO_LINE);
	/* the last bits of an entry are the page's */
	const uint8_t *page = (const uint8_t *)g4_line_data(&d->rig.fs->cache, line);
	for (uint64_t k = 0; k < d->bytes[disk]; k += G4_PAGE_BYTES)
		if (memcmp(d->memory[disk] + k + 1024, page + 1024, 31) == 0 &&
		    memcmp(d->memory[disk] + k + 2048, page + 2048, 31) == 0)
			at = k;
	g4_cache_put(&d->rig.fs->cache, line);
	g4_icache_put(d->rig.fs, index);
	assert_true(at > 0);
	return at;
}

/*
 * One disk does not give a page of the sums that two files share: whoever divides the 2 MiB takes them from the other disk, nobody is told anything, and
 * a scrub writes the page anew.
 */
static void sums_that_one_disk_does_not_give_come_from_the_other(void **state)
{
	uint8_t *data = rig_memory(G4_REGION_BYTES, 6), *found = rig_memory(G4_REGION_BYTES, 0);

	(void)state;
	for (uint32_t disk = 0; disk < 2; disk++) {
		uint64_t a, b, from, to, done, at[2];
		struct g4_dev *dev;
		struct faulty f;
		struct disks d;

		disks_make(&d, 2, large);
		disks_format(&d, G4_RAID_1, G4_CHECKSUM_BLAKE3);
		disks_mount_fs(&d, 3, &dev);
		a = rig_make_file(&d.rig, "a", 0, data, G4_REGION_BYTES);
		assert_int_equal(op_mknod(&d.rig, G4_NODE_ROOT, "b", G4_S_IFREG | 0600, &b), 0);
		assert_int_equal(op_open(&d.rig, a, G4_OPEN_READ, &from), 0);
		assert_int_equal(op_open(&d.rig, b, G4_OPEN_WRITE, &to), 0);
		assert_int_equal(op_copy(&d.rig, from, 0, to, 0, G4_REGION_BYTES, &done), 0);
		assert_int_equal(done, G4_REGION_BYTES);
		assert_int_equal(op_release(&d.rig, from), 0);
		assert_int_equal(op_release(&d.rig, to), 0);
		disks_unmount_fs(&d, dev, true);
		disks_mount_fs(&d, 3, &dev);
		for (uint32_t n = 0; n < 2; n++)
			at[n] = home_of_sums(&d, n, a);
		disks_unmount_fs(&d, dev, true);

		memset(d.memory[disk] + at[disk], 0xff, G4_PAGE_BYTES);
		disks_open_faulty(&d, &f);
		g4_dev_fault_set(f.fault[disk], &(struct g4_fault){.bad_at = at[disk], .bad_bytes = G4_PAGE_BYTES});
		disks_begin_fs(&d, f.set, 0);
		assert_int_equal(op_write(&d.rig, b, 0, 200 * G4_PAGE_BYTES, data, G4_PAGE_BYTES, NULL), 0);
		assert_int_equal(op_fsync(&d.rig, b), 0);
		assert_int_equal(d.rig.fs->journal.aborted, 0);
		rig_expect_contents(&d.rig, a, 0, found, data, G4_REGION_BYTES);
		assert_int_equal(op_read(&d.rig, b, 0, 201 * G4_PAGE_BYTES, found, G4_PAGE_BYTES, NULL), 0);
		assert_memory_equal(found, data + 201 * G4_PAGE_BYTES, G4_PAGE_BYTES);
		(void)disks_scrub(&d);
		disks_unmount_fs(&d, f.set, true);
		assert_memory_equal(d.memory[disk] + at[disk], d.memory[1 - disk] + at[1 - disk], G4_PAGE_BYTES);
		disks_expect_clean(&d, 3);
		disks_free(&d);
	}
	free(data);
	free(found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums_that_one_disk_does_not_give_come_from_the_other),
		cmocka_unit_test(fsck_repairs_metadata_from_another_copy),
		cmocka_unit_test(fsck_repairs_each_copy_from_the_other),
		cmocka_unit_test(fsck_compares_contents_of_all_copies),
		cmocka_unit_test(fsck_compares_contents_where_chunks_meet),
		cmocka_unit_test(fsck_finds_a_journal_of_which_one_copy_is_rotten),
		cmocka_unit_test(a_record_of_one_copy_is_in_all_before_a_page_goes_home),
		cmocka_unit_test(data_of_one_copy_is_in_all_when_its_record_counts),
		cmocka_unit_test(a_mount_that_can_not_write_reads_the_copy_that_is_whole),
		cmocka_unit_test(images_of_the_log_come_from_any_copy_that_has_the_same),
		cmocka_unit_test(recovery_does_without_any_one_read),
		cmocka_unit_test(a_disk_that_was_away_during_a_rebuild_is_stale_and_comes_back),
		cmocka_unit_test(a_rebuild_does_not_join_two_halves),
		cmocka_unit_test(who_alone_says_what_is_missing_does_not_join_two_halves),
		cmocka_unit_test(a_scrub_writes_no_page_of_the_second_tier),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
