/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of pages of 2 MiB and 1 GiB: they are made of pages of 4 KiB and taken apart again, before and behind crashes; each 4 KiB of one
 * is verified by itself, and what it is verified by is held to its hash.
 */
#include "damage.h"

#include "data/batch.h"
#include "data/file.h"
#include "data/map.h"
#include "data/reserve.h"
#include "format/sums.h"
#include "fs/super.h"
#include "fsck/fsck_types.h"
#include "hash/blake3.h"
#include "inode/icache.h"
#include "journal/block.h"
#include "simt/simt_host.h"

#define DEVICE_BYTES (64 * G4_MIB)
#define HUGE_BYTES (2 * G4_GIB + 64 * G4_MIB) /* not much of it is touched */
#define JOURNAL_BYTES (4 * G4_MIB)

static struct rig rig;
static uint8_t *pattern, *found;
#define PATTERN_BYTES (8 * G4_MIB)

static int begin(uint32_t algorithm, uint64_t bytes)
{
	rig_open_as(&rig, algorithm, RIG_AS_SET, bytes, JOURNAL_BYTES);
	rig.wg = g4_wg_create(0);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	pattern = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, PATTERN_BYTES);
	found = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, PATTERN_BYTES);
	rig_pattern(pattern, 7, PATTERN_BYTES);
	return 0;
}

static int setup_blake3(void **state)
{
	(void)state;
	return begin(G4_CHECKSUM_BLAKE3, DEVICE_BYTES);
}

static int setup_xxh3(void **state)
{
	(void)state;
	return begin(G4_CHECKSUM_XXH3, DEVICE_BYTES);
}

static int setup_huge(void **state)
{
	(void)state;
	return begin(G4_CHECKSUM_XXH3, HUGE_BYTES);
}

static int setup_huge_without(void **state)
{
	(void)state;
	return begin(0, HUGE_BYTES);
}

static int teardown(void **state)
{
	(void)state;
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	g4_wg_destroy(rig.wg);
	rig_close(&rig);
	free(pattern);
	free(found);
	return 0;
}

static uint64_t make(const char *name, uint64_t offset, uint64_t bytes)
{
	return rig_make_file(&rig, name, offset, pattern, bytes);
}

static void again(void)
{
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig_expect_clean(&rig, RIG_ANY_FREE, "between mounts");
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
}

/* Without the checker, who may not find anything. */
static void again_as_it_is(void)
{
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
}

static void expect(uint64_t ino, uint64_t offset, const uint8_t *contents, uint64_t bytes)
{
	rig_expect_contents(&rig, ino, offset, found, contents, bytes);
}

/* The level of the pointer that a page of the file is reached by, and where the page lies. */
static uint32_t level_of(uint64_t ino, uint64_t page)
{
	struct g4_run run;

	rig_run_at(&rig, ino, page, &run);
	return run.kind == G4_WRITTEN ? run.level : UINT32_MAX;
}

/* ------------------------------------------------------------------ pages of 2 MiB */

#define LARGE G4_INDIRECT_SLOTS /* pages */

static uint64_t make_large(void)
{
	const uint64_t ino = make("large", 0, PATTERN_BYTES);

	assert_int_equal(op_sync(&rig), 0);
	for (uint64_t page = 0; page < PATTERN_BYTES / G4_PAGE_BYTES; page += LARGE)
		assert_int_equal(level_of(ino, page), 1);
	again();
	return ino;
}

static uint64_t pages_of(uint64_t ino)
{
	struct g4_attr attr;

	assert_int_equal(op_fsync(&rig, ino), 0);
	assert_int_equal(op_getattr(&rig, ino, &attr), 0);
	return attr.blocks_512 / 8;
}

static void large_pages_have_sums(void **state)
{
	const uint64_t ino = make_large(), larges = PATTERN_BYTES / (2 * G4_MIB);
	uint64_t done;

	(void)state;
	assert_int_equal(pages_of(ino), larges * (LARGE + 4));
	for (uint64_t page = 0; page < PATTERN_BYTES / G4_PAGE_BYTES; page += 97)
		expect(ino, page * G4_PAGE_BYTES + 11, pattern + page * G4_PAGE_BYTES + 11, 1000);
	expect(ino, 0, pattern, PATTERN_BYTES);
	/* each page for itself */
	for (uint64_t page = 0; page < PATTERN_BYTES / G4_PAGE_BYTES; page += 127) {
		const uint64_t address = rig_place(&rig, ino, page);
		again_as_it_is();
		rig.image[address + 4095] ^= 1;
		assert_int_equal(op_read(&rig, ino, 0, page * G4_PAGE_BYTES, found, G4_PAGE_BYTES, &done), -G4_E_DATA);
		if (page > 0)
			expect(ino, (page - 1) * G4_PAGE_BYTES, pattern + (page - 1) * G4_PAGE_BYTES, G4_PAGE_BYTES);
		rig.image[address + 4095] ^= 1;
		expect(ino, page * G4_PAGE_BYTES, pattern + page * G4_PAGE_BYTES, G4_PAGE_BYTES);
	}
}

static void large_pages_are_taken_apart_and_made_again(void **state)
{
	const uint32_t punch = G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE;
	const uint64_t ino = make_large();
	uint8_t *wanted = (uint8_t *)malloc(PATTERN_BYTES);
	uint64_t done;

	(void)state;
	memcpy(wanted, pattern, PATTERN_BYTES);
	/* a few bytes of the second */
	memset(wanted + 2 * G4_MIB + 70000, 5, 9000);
	assert_int_equal(op_write(&rig, ino, 0, 2 * G4_MIB + 70000, wanted + 2 * G4_MIB + 70000, 9000, &done), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(level_of(ino, 0), 1);
	assert_int_equal(level_of(ino, LARGE), 0);
	assert_int_equal(pages_of(ino), 4 * (LARGE + 4) + 1);
	again();
	expect(ino, 0, wanted, PATTERN_BYTES);
	/* a hole in the third, and all of the first */
	memset(wanted + 4 * G4_MIB + 100, 0, 50 * 4096);
	memset(wanted, 0, 2 * G4_MIB);
	assert_int_equal(op_fallocate(&rig, ino, punch, 4 * G4_MIB + 100, 50 * 4096), 0);
	assert_int_equal(op_fallocate(&rig, ino, punch, 0, 2 * G4_MIB), 0);
	assert_int_equal(level_of(ino, 0), UINT32_MAX);
	assert_int_equal(level_of(ino, 2 * LARGE), 0);
	again();
	expect(ino, 0, wanted, PATTERN_BYTES);
	/* cut inside the last */
	assert_int_equal(op_truncate(&rig, ino, 7 * G4_MIB + 12345), 0);
	again();
	expect(ino, 0, wanted, 7 * G4_MIB + 12345);
	/* written as a whole again */
	assert_int_equal(op_write(&rig, ino, 0, 2 * G4_MIB, pattern, 2 * G4_MIB, &done), 0);
	for (uint64_t at = done; at < 2 * G4_MIB; at += done)
		assert_int_equal(op_write(&rig, ino, 0, 2 * G4_MIB + at, pattern + at, 2 * G4_MIB - at, &done), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(level_of(ino, LARGE), 1);
	memcpy(wanted + 2 * G4_MIB, pattern, 2 * G4_MIB);
	again();
	expect(ino, 0, wanted, 7 * G4_MIB + 12345);
	/* a map that grows above the inode's slots, which have large pages */
	memset(found, 3, 100);
	assert_int_equal(op_write(&rig, ino, 0, 40 * G4_MIB, found, 100, &done), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(level_of(ino, LARGE), 1);
	again();
	expect(ino, 0, wanted, 7 * G4_MIB + 12345);
	assert_int_equal(op_truncate(&rig, ino, 3 * G4_MIB), 0);
	again();
	expect(ino, 0, wanted, 3 * G4_MIB);
	assert_int_equal(op_truncate(&rig, ino, 0), 0);
	assert_int_equal(pages_of(ino), 0);
	again();
	free(wanted);
}

static struct g4_sums_page *page_on_device(uint64_t address, struct g4_sums_header *header)
{
	struct g4_sums_page *page = (struct g4_sums_page *)(void *)(rig.image + address);

	g4_sums_extract(page, header);
	assert_int_equal(header->header.type, G4_BLOCK_CHECKSUMS);
	return page;
}

/* The address of the page of sums of a quarter of the first large page. */
static uint64_t page_of_sums(uint64_t ino, uint32_t quarter)
{
	for (uint64_t address = rig.fs->meta.layout.data_address; address < DEVICE_BYTES; address += G4_PAGE_BYTES) {
		struct g4_sums_header header;
		struct g4_sums_page copy;
		memcpy(&copy, rig.image + address, sizeof(copy));
		if (g4_sums_verify(&copy, g4_address_from(address), rig.fs->meta.fs_tag, &header) == 0 &&
		    header.inode == ino && header.quarter == quarter)
			return address;
	}
	fail_msg("there is none");
	return 0;
}

/* A page of sums that is whole by itself, but is not the one that the large page's entry has the hash of. */
static void a_page_of_sums_of_a_large_page_is_held_to_its_hash(void **state)
{
	const uint64_t ino = make_large(), address = page_of_sums(ino, 1);
	struct g4_sums_header header;
	struct rig_repair repair = {0};
	char *text = NULL;
	uint64_t done;

	(void)state;
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	struct g4_sums_page *page = page_on_device(address, &header);
	g4_sums_strip(page);
	page->entries[77].bytes[3] ^= 4;
	g4_sums_seal(page, header.inode, header.level, header.quarter, g4_address_from(address),
		     header.header.generation, header.header.fs_tag);
	struct rig_verdict verdict = rig_fsck(&rig, &text);
	assert_true(verdict.problems > 0);
	assert_non_null(strstr(text, "page of sums"));
	free(text);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	uint64_t errors = 0, total = PATTERN_BYTES / G4_PAGE_BYTES;
	for (uint64_t at = 0; at < total; at++) {
		const int rc = op_read(&rig, ino, 0, at * G4_PAGE_BYTES, found, G4_PAGE_BYTES, &done);
		if (rc == 0)
			assert_memory_equal(found, pattern + at * G4_PAGE_BYTES, G4_PAGE_BYTES);
		else
			assert_int_equal(rc, -G4_E_CORRUPT_SUMS);
		errors += rc < 0;
	}
	assert_int_equal(errors, G4_SUMS_SLOTS);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	assert_int_equal(rig_repair(&rig, &repair), 0);
	assert_int_equal(repair.outcome[G4_FSCK_LOST], 0);
	free(repair.text);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	again();
	expect(ino, 0, pattern, PATTERN_BYTES); /* what is there, unverified */
}

/* ------------------------------------------------------------------ crashes */

#define CRASH_BYTES (24 * G4_MIB)
#define CRASH_FILE (2 * G4_MIB)
#define VARIANTS 8u /* of what a cut leaves */

static uint8_t *before, *after; /* a file's contents */

/* One page in the middle is written, a part of another, and the whole again: taken apart, and made again. */
static int change(uint64_t ino, bool synced)
{
	uint64_t done;
	int rc = op_write(&rig, ino, 0, 100 * G4_PAGE_BYTES, after + 100 * G4_PAGE_BYTES, 5000, &done);

	if (rc == 0 && synced)
		rc = op_sync(&rig);
	for (uint64_t at = 0; at < CRASH_FILE && rc == 0; at += done)
		rc = op_write(&rig, ino, 0, at, after + at, CRASH_FILE - at, &done);
	if (rc == 0)
		rc = op_sync(&rig);
	if (rc == 0)
		rc = op_truncate(&rig, ino, CRASH_FILE - 3 * G4_PAGE_BYTES);
	return rc == 0 ? op_sync(&rig) : rc;
}

static void look(uint64_t ino, const char *when)
{
	struct g4_attr attr;
	uint64_t done;

	assert_int_equal(op_getattr(&rig, ino, &attr), 0);
	for (uint64_t at = 0; at < attr.size; at += G4_PAGE_BYTES) {
		const int rc = op_read(&rig, ino, 0, at, found, G4_PAGE_BYTES, &done);
		if (rc < 0 || (memcmp(found, before + at, done) != 0 && memcmp(found, after + at, done) != 0))
			if (rc < 0 || at / G4_PAGE_BYTES < 100 || at / G4_PAGE_BYTES > 101) /* the pages of both */
				fail_msg("%s: page %lu: %s", when, (unsigned long)(at / G4_PAGE_BYTES),
					 g4_strerror(rc));
	}
}

static void every_cut_leaves_whole_pages(void **state)
{
	uint64_t ino, done, cuts = 0;
	char when[80];

	(void)state;
	setenv("G4_TEST_CHECKSUM", "3", 1);
	rig_open(&rig, CRASH_BYTES, 2 * G4_MIB);
	unsetenv("G4_TEST_CHECKSUM");
	pattern = before = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, CRASH_FILE);
	after = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, CRASH_FILE);
	found = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, CRASH_FILE);
	uint8_t *base = (uint8_t *)malloc(CRASH_BYTES);
	rig_pattern(before, 1, CRASH_FILE);
	rig_pattern(after, 2, CRASH_FILE);
	rig_mount(&rig);
	ino = make("f", 0, CRASH_FILE);
	assert_int_equal(pages_of(ino), LARGE + 4); /* and no indirect page */
	assert_int_equal(rig_unmount(&rig), 0);
	rig_copy(base, rig.image, CRASH_BYTES);
	bool more = true;
	for (uint64_t n = 0; more || n % VARIANTS != 0; n += rig_every(5)) {
		const uint64_t variant = n % VARIANTS;
		const struct g4_fault fault = {.cut_after_writes = 1 + n / VARIANTS,
					       .seed = variant > 1 ? n : 0,
					       .keep_unflushed = variant == 1,
					       .cut_inside = variant % 2};
		snprintf(when, sizeof(when), "cut at write %lu, variant %lu", (unsigned long)fault.cut_after_writes,
			 (unsigned long)variant);
		rig_copy(rig.image, base, CRASH_BYTES);
		if (rig_try_mount(&rig, 0, &fault) == 0) {
			more = change(ino, variant % 4 == 0) < 0;
			g4_dev_fault_cut(rig.fault);
			rig_abandon(&rig);
		}
		rig_mount(&rig);
		look(ino, when);
		assert_int_equal(op_write(&rig, ino, 0, 0, after, 70 * G4_PAGE_BYTES, &done), 0);
		assert_int_equal(rig_unmount(&rig), 0);
		rig_expect_clean(&rig, RIG_ANY_FREE, when);
		cuts++;
	}
	print_message("%lu cuts\n", (unsigned long)cuts);
	rig_close(&rig);
	free(before);
	free(after);
	free(found);
	free(base);
}

/* ------------------------------------------------------------------ pages of 1 GiB */

/* The hash of a page of entries, as FORMAT.md says it. */
static uint64_t hash_of(const struct g4_sums_page *page)
{
	struct g4_sums_page copy = *page;
	uint8_t digest[G4_BLAKE3_BYTES];
	uint64_t hash = 0;

	for (uint32_t i = 0; i < G4_SUMS_SLOTS; i++)
		if (g4_sum_entry_algorithm(&copy.entries[i]) == G4_CHECKSUM_LARGE)
			g4_sum_entry_drop_place(&copy.entries[i]);
	g4_blake3(&copy, sizeof(copy), digest);
	memcpy(&hash, digest, 6);
	return hash;
}

/* Four pages of sums in a row with these entries; the large page's entry. */
static void put_row(uint64_t address, uint64_t ino, uint32_t level, uint32_t tag, const struct g4_sum_entry *entries,
		    struct g4_sum_entry *entry)
{
	uint64_t hashes[G4_SUMS_QUARTERS];

	for (uint32_t quarter = 0; quarter < G4_SUMS_QUARTERS; quarter++) {
		const uint64_t at = address + quarter * G4_PAGE_BYTES;
		struct g4_sums_page *page = (struct g4_sums_page *)(void *)(rig.image + at);
		memcpy(page, &entries[quarter * G4_SUMS_SLOTS], sizeof(*page));
		hashes[quarter] = hash_of(page);
		g4_sums_seal(page, ino, level, quarter, g4_address_from(at), 1, tag);
	}
	g4_sum_entry_make_large(entry, g4_address_from(address), hashes);
}

/* The engine makes none of 1 GiB itself: it is written by hand, and fsck puts the maps right. All of it is zeros. */
static uint64_t make_huge(void)
{
	static struct g4_sum_entry parts[G4_INDIRECT_SLOTS], larges[G4_INDIRECT_SLOTS];
	const uint64_t rows = 2 * G4_GIB, top = rows + G4_INDIRECT_SLOTS * 4 * G4_PAGE_BYTES;
	const uint64_t ino = make("huge", 0, 5 * G4_PAGE_BYTES);
	struct rig_repair repair = {0};
	struct g4_sum_entry zeros;

	/* the sum of a page of zeros is what the engine makes of one */
	memset(pattern, 0, G4_PAGE_BYTES);
	const uint64_t other = make("zeros", 0, 5 * G4_PAGE_BYTES);
	const uint32_t tag = rig.fs->meta.fs_tag;
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	const uint64_t block = damage_inode(&rig, other)->checksums;
	assert_int_not_equal(block, 0);
	memcpy(&zeros, rig.image + block, sizeof(zeros));
	for (uint32_t i = 0; i < G4_INDIRECT_SLOTS; i++)
		parts[i] = zeros;
	for (uint32_t i = 0; i < G4_INDIRECT_SLOTS; i++)
		put_row(rows + i * 4 * G4_PAGE_BYTES, ino, 1, tag, parts, &larges[i]);
	struct g4_inode *inode = damage_inode(&rig, ino);
	put_row(top, ino, 2, tag, larges, (struct g4_sum_entry *)(void *)(rig.image + inode->checksums));
	damage_seal(&rig, inode->checksums);
	memset(inode->map, 0, sizeof(inode->map));
	inode->map[0] = g4_ptr_make(g4_address_from(G4_GIB), G4_TAG_1G, G4_PTR_VALID);
	inode->map_height = 2;
	inode->size = G4_GIB;
	inode->pages = (1u << 18) + 4 + 4 * G4_INDIRECT_SLOTS;
	damage_seal(&rig, g4_ptr_offset(ino));
	assert_int_equal(rig_repair(&rig, &repair), 0);
	assert_int_equal(repair.outcome[G4_FSCK_LOST], 0);
	free(repair.text);
	rig_expect_clean(&rig, RIG_ANY_FREE, "made by hand");
	assert_int_equal(damage_inode(&rig, ino)->map_height, 2);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	return ino;
}

static void pages_of_1_gib_are_verified_and_taken_apart(void **state)
{
	const uint64_t ino = make_huge(), middle = 511 * G4_MIB + 12 * G4_PAGE_BYTES;
	uint8_t *zeros = (uint8_t *)calloc(1, G4_MIB);
	uint64_t done;

	(void)state;
	assert_int_equal(level_of(ino, 0), 2);
	for (uint64_t at = 0; at < G4_GIB; at += 77 * G4_MIB)
		expect(ino, at, zeros, 100000);
	again_as_it_is();
	rig.image[G4_GIB + middle + 17] = 1;
	assert_int_equal(op_read(&rig, ino, 0, middle, found, G4_PAGE_BYTES, &done), -G4_E_DATA);
	rig.image[G4_GIB + middle + 17] = 0;
	expect(ino, middle, zeros, 2 * G4_PAGE_BYTES);
	/* one page is written: what is around it stays large */
	rig_pattern(pattern, 5, G4_PAGE_BYTES);
	assert_int_equal(op_write(&rig, ino, 0, middle, pattern, G4_PAGE_BYTES, &done), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(level_of(ino, middle / G4_PAGE_BYTES), 0);
	assert_int_equal(level_of(ino, 0), 1);
	again();
	expect(ino, middle, pattern, G4_PAGE_BYTES);
	expect(ino, middle + G4_PAGE_BYTES, zeros, G4_MIB);
	expect(ino, 5 * G4_MIB, zeros, G4_MIB);
	assert_int_equal(op_truncate(&rig, ino, 900 * G4_MIB), 0);
	again();
	expect(ino, 899 * G4_MIB, zeros, G4_MIB);
	assert_int_equal(op_truncate(&rig, ino, 0), 0);
	assert_int_equal(pages_of(ino), 0);
	again();
	free(zeros);
}

/* The checker compares each page once, in however many pieces several threads take it. */
static void fsck_compares_a_page_of_1_gib(void **state)
{
	const uint64_t ino = make_huge();
	char *text;

	(void)state;
	rig.image[G4_GIB + 700 * G4_MIB + 5 * G4_PAGE_BYTES + 9] = 0x10;
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	for (uint32_t threads = rig_slow() ? 4 : 1; threads <= 4; threads += 3) { /* each reads 1 GiB */
		const struct rig_data data = rig_fsck_data(&rig, threads, &text);
		assert_int_equal(data.problems, 0);
		assert_int_equal(data.compared, (1u << 18) + 5);
		assert_int_equal(data.without + data.unverified, 0);
		assert_int_equal(data.damaged, 1);
		assert_non_null(strstr(text, "/huge: bytes 734023680 to 734027775, at 0x6bc05000: "));
		free(text);
	}
	rig.image[G4_GIB + 700 * G4_MIB + 5 * G4_PAGE_BYTES + 9] = 0;
	/* a page of sums in the middle: 128 times 2 MiB can not be verified, and nothing is said of them */
	const uint64_t top = 2 * G4_GIB + G4_INDIRECT_SLOTS * 4 * G4_PAGE_BYTES;
	rig.image[top + 2 * G4_PAGE_BYTES + 77] ^= 1;
	const struct rig_data data = rig_fsck_data(&rig, 4, &text);
	assert_true(data.problems > 0);
	assert_int_equal(data.damaged, 0);
	assert_int_equal(data.unverified, 1u << 16);
	assert_int_equal(data.compared, (3u << 16) + 5);
	free(text);
	rig.image[top + 2 * G4_PAGE_BYTES + 77] ^= 1;
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	assert_int_equal(level_of(ino, 0), 2);
}

/* All at once, without having been taken apart by hand before. */
static void a_page_of_1_gib_is_removed(void **state)
{
	(void)state;
	make_huge();
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "huge"), 0);
	again();
}

/* Others have filled what a transaction has beyond the least: it goes all the same, in the next one. */
static void a_page_of_1_gib_is_removed_in_a_crowd(void **state)
{
	struct rig_repair repair = {0};
	uint32_t index;

	(void)state;
	const uint64_t ino = make("huge", 0, 5 * G4_PAGE_BYTES);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	struct g4_inode *disk = damage_inode(&rig, ino);
	memset(disk->map, 0, sizeof(disk->map));
	disk->map[0] = g4_ptr_make(g4_address_from(G4_GIB), G4_TAG_1G, G4_PTR_VALID);
	disk->map_height = 2;
	disk->size = G4_GIB;
	disk->pages = 1u << 18;
	damage_seal(&rig, g4_ptr_offset(ino));
	assert_int_equal(rig_repair(&rig, &repair), 0);
	assert_int_equal(repair.outcome[G4_FSCK_LOST], 0);
	free(repair.text);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	assert_int_equal(level_of(ino, 0), 2);
	assert_int_equal(g4_super_add_feature(rig.wg, rig.fs, G4_FEATURE_INCOMPAT_SHARED), 0);
	make("other", 0, G4_PAGE_BYTES); /* there is something to commit */
	assert_int_equal(g4_icache_get(rig.wg, rig.fs, ino, &index), 0);
	struct g4_journal *journal = &rig.fs->journal;
	const uint64_t used = g4_load64_rlx(&journal->gate) & UINT32_MAX, room = G4_MAP_CREDITS + 5;
	assert_true(used + room < journal->max_blocks);
	g4_add64(&journal->gate, journal->max_blocks - used - room);
	g4_write_lock(&g4_icache_at(rig.fs, index)->lock);
	assert_int_equal(g4_file_free(rig.wg, rig.fs, index), 0);
	g4_write_unlock(&g4_icache_at(rig.fs, index)->lock);
	g4_icache_put(rig.fs, index);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "huge"), 0);
	again();
}

/* ------------------------------------------------------------------ writes past the cache */

static void large_writes_go_past_the_cache(void **state)
{
	uint64_t ino, done;
	uint32_t index;

	(void)state;
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "f", G4_S_IFREG | 0644, &ino), 0);
	assert_int_equal(op_write(&rig, ino, 0, 0, pattern, PATTERN_BYTES, &done), 0);
	assert_int_equal(done, PATTERN_BYTES);
	assert_int_equal(g4_icache_get(rig.wg, rig.fs, ino, &index), 0);
	assert_int_equal(g4_icache_at(rig.fs, index)->dirty_count, 0);
	g4_icache_put(rig.fs, index);
	for (uint64_t page = 0; page < PATTERN_BYTES / G4_PAGE_BYTES; page += LARGE)
		assert_int_equal(level_of(ino, page), 1);
	again();
	expect(ino, 0, pattern, PATTERN_BYTES);
	/* not aligned in the file, and over parts of large pages */
	assert_int_equal(op_write(&rig, ino, 0, 100 * G4_PAGE_BYTES, pattern, 5 * G4_MIB, &done), 0);
	assert_int_equal(done, 5 * G4_MIB);
	again();
	expect(ino, 100 * G4_PAGE_BYTES, pattern, 5 * G4_MIB);
	expect(ino, 0, pattern, 100 * G4_PAGE_BYTES);
	assert_int_equal(rig.fs->damaged_pages, 0);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f"), 0);
	again();
}

/* Whatever a caller does with its memory between the stages: the sum is of what is there. */
static void a_caller_that_changes_its_memory_damages_nothing(void **state)
{
	static struct g4_batch_lists room;
	static struct g4_batch batch;
	uint64_t ino, pages = LARGE, reserved, pooled;
	uint32_t index, published;

	(void)state;
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "f", G4_S_IFREG | 0644, &ino), 0);
	assert_int_equal(g4_icache_get(rig.wg, rig.fs, ino, &index), 0);
	struct g4_inode_core *inode = g4_icache_at(rig.fs, index);
	g4_write_lock(&inode->lock);
	assert_int_equal(g4_reserve_direct(rig.wg, rig.fs, index, 0, &pages, &reserved, &pooled), 0);
	assert_int_equal(pages, LARGE);
	g4_batch_init(&batch, &room, 0, G4_BATCH_PAGES);
	g4_gather_memory(pattern, 0, LARGE, reserved, &batch);
	batch.foreign = true;
	assert_int_equal(g4_hash(rig.wg, rig.fs, inode->disk.policy, &batch), 0);
	pattern[5000]++;
	assert_int_equal(g4_place(rig.wg, rig.fs, inode, &batch, 0), 0);
	assert_int_equal(g4_store(rig.wg, rig.fs, &batch), 0);
	memcpy(found, pattern, LARGE * G4_PAGE_BYTES);
	pattern[3 * G4_PAGE_BYTES]++;
	inode->map_reservation = reserved - batch.claimed;
	assert_int_equal(g4_publish(rig.wg, rig.fs, inode, &batch, LARGE * G4_PAGE_BYTES, &published), 0);
	assert_int_equal(published, LARGE);
	g4_alloc_unreserve(&rig.fs->alloc, inode->map_reservation);
	inode->map_reservation = 0;
	g4_set_size(inode, LARGE * G4_PAGE_BYTES);
	g4_write_unlock(&inode->lock);
	g4_icache_put(rig.fs, index);
	memcpy(pattern, found, LARGE * G4_PAGE_BYTES);
	again();
	expect(ino, 0, pattern, LARGE * G4_PAGE_BYTES);
}

/* What is in the cache was verified when it came there. */
static void cached_pages_are_not_verified_again(void **state)
{
	const uint64_t ino = make_large(), page = 700;
	const uint64_t address = rig_place(&rig, ino, page);
	uint64_t done;

	(void)state;
	expect(ino, page * G4_PAGE_BYTES, pattern + page * G4_PAGE_BYTES, G4_PAGE_BYTES);
	rig.image[address] ^= 1;
	expect(ino, page * G4_PAGE_BYTES, pattern + page * G4_PAGE_BYTES, G4_PAGE_BYTES);
	again_as_it_is();
	assert_int_equal(op_read(&rig, ino, 0, page * G4_PAGE_BYTES, found, G4_PAGE_BYTES, &done), -G4_E_DATA);
	rig.image[address] ^= 1;
}

#define ALL(setup)                                                                                                     \
	cmocka_unit_test_setup_teardown(large_pages_have_sums, setup, teardown),                                       \
		cmocka_unit_test_setup_teardown(large_pages_are_taken_apart_and_made_again, setup, teardown),          \
		cmocka_unit_test_setup_teardown(a_page_of_sums_of_a_large_page_is_held_to_its_hash, setup, teardown),  \
		cmocka_unit_test_setup_teardown(large_writes_go_past_the_cache, setup, teardown),                      \
		cmocka_unit_test_setup_teardown(a_caller_that_changes_its_memory_damages_nothing, setup, teardown),    \
		cmocka_unit_test_setup_teardown(cached_pages_are_not_verified_again, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ALL(setup_blake3),
		ALL(setup_xxh3),
		cmocka_unit_test(every_cut_leaves_whole_pages),
		cmocka_unit_test_setup_teardown(pages_of_1_gib_are_verified_and_taken_apart, setup_huge, teardown),
		cmocka_unit_test_setup_teardown(a_page_of_1_gib_is_removed, setup_huge, teardown),
		cmocka_unit_test_setup_teardown(a_page_of_1_gib_is_removed_in_a_crowd, setup_huge_without, teardown),
		cmocka_unit_test_setup_teardown(fsck_compares_a_page_of_1_gib, setup_huge, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
