/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of free pages, and that new files are put into them: in a row while there are rows, and in single pages to the last one of them. */
#include "files/files.h"

#include "alloc/row.h"
#include "data/map.h"

#define FILES 64u
#define FILE_PAGES 3u
#define FILE_BYTES ((FILE_PAGES - 1) * G4_PAGE_BYTES + 1024)
#define MOST_PAGES 16384u /* of the device */

static uint64_t claimed[MOST_PAGES]; /* by number */
static uint32_t claimed_count;

static void claim_everything(void)
{
	struct g4_address address;
	uint64_t got;

	for (claimed_count = 0;
	     g4_alloc_claim(wg, &fs->alloc, G4_ALLOC_DATA, G4_NO_ADDRESS, 1, false, &address, &got) == 0;
	     claimed_count++) {
		assert_true(claimed_count < MOST_PAGES);
		claimed[claimed_count] = g4_address_page(address);
	}
}

static void free_pages(uint64_t page, uint64_t pages)
{
	g4_alloc_release(&fs->alloc, g4_page_address(page), pages);
}

static void expect_row(uint64_t want, uint64_t page, uint64_t pages)
{
	const struct g4_alloc_row row = g4_alloc_find_row(wg, &fs->alloc, G4_LEVEL_OWN, want);

	assert_int_equal(row.pages, pages);
	if (pages > 0)
		assert_int_equal(g4_address_page(row.address), page);
}

static void take(uint64_t page, uint64_t pages)
{
	struct g4_address address;
	uint64_t got;

	assert_int_equal(
		g4_alloc_claim(wg, &fs->alloc, G4_ALLOC_DATA, g4_page_address(page), pages, false, &address, &got), 0);
	assert_int_equal(got, pages);
	assert_int_equal(g4_address_page(address), page);
}

/* Long enough first, wherever it lies; then an empty region; then the longest. */
static void rows_come_before_empty_regions_and_short_ones(void **state)
{
	uint64_t region = 0;

	(void)state;
	while (fs->alloc.region_free[region] < G4_REGION_PAGES)
		region++;
	claim_everything();
	const uint64_t one = region * G4_REGION_PAGES, two = (region + 3) * G4_REGION_PAGES,
		       three = two + G4_REGION_PAGES;
	expect_row(32, 0, 0);
	for (uint64_t page = 1; page < 400; page += 2) /* single ones */
		free_pages(one + page, 1);
	expect_row(32, 0, 0);
	expect_row(2, 0, 0);
	free_pages(three, G4_REGION_PAGES);
	free_pages(one + 410, 24);
	free_pages(two + 60, 40); /* over the border of a word */
	expect_row(32, two + 60, 40);
	expect_row(32, two + 60, 40); /* nothing was claimed */
	take(two + 60, 20);
	expect_row(32, three, G4_REGION_PAGES);
	take(three, 500);
	expect_row(32, one + 410, 24);
	take(one + 410, 24);
	expect_row(32, two + 80, 20);
	take(two + 80, 20);
	expect_row(32, three + 500, 12);
	take(three + 500, 12);
	expect_row(32, 0, 0);
	for (uint64_t page = 1; page < 400; page += 2)
		take(one + page, 1);
	for (uint32_t k = 0; k < claimed_count; k++)
		free_pages(claimed[k], 1);
}

/* ------------------------------------------------------------------ files */

static uint8_t *data, *found;
static uint64_t big; /* a file of which every second page was overwritten, or punched out */

static int begin(void **state)
{
	files_begin(state);
	data = rig_memory(8 * G4_MIB, 7);
	found = rig_memory(FILE_PAGES * G4_PAGE_BYTES, 0);
	return 0;
}

static int end(void **state)
{
	free(data);
	free(found);
	return files_end(state);
}

static void make_big(uint64_t bytes)
{
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "big", G4_S_IFREG | 0644, &big), 0);
	for (uint64_t at = 0; at < bytes; at += G4_MIB)
		assert_int_equal(op_write(&rig, big, 0, at, data, G4_MIB, NULL), 0);
	assert_int_equal(op_sync(&rig), 0);
}

/* What one file has is not what another one has. */
static const uint8_t *contents(uint32_t number)
{
	return data + (uint64_t)number % 1024 * G4_PAGE_BYTES;
}

static int write_file(uint32_t number, uint64_t *ino)
{
	uint64_t done = 0;

	*ino = rig_make(&rig, number);
	int rc = op_write(&rig, *ino, 0, 0, contents(number), FILE_BYTES, &done);
	return rc == 0 && done < FILE_BYTES ? -G4_E_NOSPC : rc; /* what fits comes first */
}

static void expect_file(uint32_t number, uint64_t ino)
{
	memset(found, 0, FILE_BYTES);
	assert_int_equal(op_read(&rig, ino, 0, 0, found, FILE_BYTES, NULL), 0);
	assert_memory_equal(found, contents(number), FILE_BYTES);
}

/* Where the first page of a file lies, by number, and how many lie in a row from there. */
static uint64_t place_of(uint64_t ino, uint64_t *pages)
{
	struct g4_run run;
	uint32_t index;

	assert_int_equal(g4_icache_get(wg, fs, ino, &index), 0);
	assert_int_equal(g4_map_lookup(wg, fs, g4_icache_at(fs, index), 0, FILE_PAGES, &run), 0);
	g4_icache_put(fs, index);
	assert_int_equal(run.kind, G4_WRITTEN);
	*pages = run.pages;
	return g4_address_page(run.address);
}

static void overwritten_pages_do_not_scatter_new_files(void **state)
{
	uint64_t inos[FILES], pages, behind = 0;
	uint32_t follow = 0;

	(void)state;
	make_big(16 * G4_MIB);
	for (uint64_t at = 0; at < 16 * G4_MIB; at += 2 * G4_PAGE_BYTES)
		assert_int_equal(op_write(&rig, big, 0, at, data + at % (8 * G4_MIB), G4_PAGE_BYTES, NULL), 0);
	assert_int_equal(op_sync(&rig), 0);
	for (uint32_t k = 0; k < FILES; k++)
		assert_int_equal(write_file(k, &inos[k]), 0);
	assert_int_equal(op_sync(&rig), 0);
	for (uint32_t k = 0; k < FILES; k++) {
		const uint64_t page = place_of(inos[k], &pages);
		assert_int_equal(pages, FILE_PAGES);
		follow += page == behind;
		behind = page + pages;
		expect_file(k, inos[k]);
	}
	assert_true(follow >= FILES * 7 / 8);
	/* one that is written alone, too, but a page that is written alone is put into any */
	uint64_t alone;
	assert_int_equal(write_file(FILES, &alone), 0);
	assert_int_equal(op_fsync(&rig, alone), 0);
	place_of(alone, &pages);
	assert_int_equal(pages, FILE_PAGES);
	expect_file(FILES, alone);
}

/* All that is left are single pages: each of them is used, and nothing that was reserved or free is lost. */
static void files_fill_single_pages_to_the_last(void **state)
{
	static uint64_t inos[4096];
	static bool whole[4096];
	const uint64_t before = g4_alloc_free_all(&fs->alloc);
	uint32_t count = 0, files = 0;
	int rc = 0;

	(void)state;
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "big", G4_S_IFREG | 0644, &big), 0);
	uint64_t bytes = 0, done = 0;
	for (; rc == 0; bytes += rc == 0 ? done : 0)
		rc = op_write(&rig, big, 0, bytes, data, 16 * G4_PAGE_BYTES, &done);
	assert_int_equal(rc, -G4_E_NOSPC);
	assert_int_equal(op_sync(&rig), 0);
	const uint64_t full = g4_alloc_free_all(&fs->alloc);
	for (uint64_t at = 0; at < 8 * G4_MIB; at += 2 * G4_PAGE_BYTES)
		assert_int_equal(op_fallocate(&rig, big, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE, at, G4_PAGE_BYTES),
				 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_true(g4_alloc_free_all(&fs->alloc) >= full + 1000); /* but for what maps single pages */
	/* what is dirty has more reserved than it takes, so there is room again behind a sync */
	for (uint32_t refused = 0; refused < 2; count++) {
		assert_true(count < 4096);
		rc = write_file(count, &inos[count]);
		assert_true(rc == 0 || rc == -G4_E_NOSPC);
		whole[count] = rc == 0;
		files += rc == 0;
		refused = rc == 0 ? 0 : refused + 1;
		if (rc < 0)
			assert_int_equal(op_sync(&rig), 0);
	}
	assert_true(g4_alloc_free_all(&fs->alloc) <= g4_alloc_keep(&fs->alloc) + 2 * FILE_PAGES);
	assert_true(files >= 1000 / (FILE_PAGES + 1)); /* inodes take pages, too */
	for (uint32_t k = 0; k < count; k++)
		if (whole[k])
			expect_file(k, inos[k]);
	char name[32];
	for (uint32_t k = 0; k < count; k++) {
		snprintf(name, sizeof(name), "f%u", k);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, name), 0);
	}
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "big"), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(fs->alloc.reserved, 0);
	assert_true(g4_alloc_free_all(&fs->alloc) + RIG_MOST_SLABS >= before);
}

#define row_test(f) cmocka_unit_test_setup_teardown(f, begin, end)
RUN_TESTS(fs_test(rows_come_before_empty_regions_and_short_ones), row_test(overwritten_pages_do_not_scatter_new_files),
	  row_test(files_fill_single_pages_to_the_last))
