/* SPDX-License-Identifier: Apache-2.0 */
/* New pages and found ones by turns become the file's together, up to the first that can not be had; the new ones are found by others then. */
#include "files/data/stages.h"

#include "data/hints.h"
#include "data/scatter.h"
#include "inode/inode.h"

#define FIRST 256u /* page of the file */
#define PAGES 128u
#define TURN 10u /* the first of so many is new */
#define NEW ((PAGES + TURN - 1) / TURN)

static uint64_t other; /* a file with the contents of `data`, whose pages are listed */
static struct g4_address row;

static int begin(void **state)
{
	setenv("G4_TEST_DEDUP", "1", 1);
	const int rc = stages_begin(state);
	unsetenv("G4_TEST_DEDUP");
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "other", G4_S_IFREG | 0600, &other), 0);
	assert_int_equal(op_write(&rig, other, 0, 0, data, PAGES * G4_PAGE_BYTES, NULL), 0);
	return rc;
}

static bool is_new(uint32_t k)
{
	return k % TURN == 0;
}

static const uint8_t *contents(uint32_t k)
{
	return data + (is_new(k) ? PAGES + k : k) * G4_PAGE_BYTES;
}

/* What the stages before leave: segments, the new pages stored. */
static void prepare(void)
{
	uint64_t got;

	assert_int_equal(g4_alloc_claim(wg, &fs->alloc, G4_ALLOC_IN(g4_file_pool(fs, inode), G4_ALLOC_DATA),
					G4_NO_ADDRESS, NEW, false, &row, &got),
			 0);
	assert_int_equal(got, NEW);
	batch->staged = batch->dedup = true;
	batch->algorithm = G4_CHECKSUM_BLAKE3;
	batch->count = PAGES;
	batch->segment_count = 0;
	for (uint32_t k = 0; k < PAGES; k++) {
		const void *page = contents(k);
		g4_sums_make(wg, G4_CHECKSUM_BLAKE3, &page, 1, &batch->sums[k]);
		if (k % TURN > 1) {
			batch->segments[batch->segment_count - 1].pages++;
			continue;
		}
		const struct g4_address at = is_new(k) ? g4_address_after_pages(row, k / TURN) :
							 g4_page_address(rig_place(&rig, other, k) / G4_PAGE_BYTES);
		batch->segments[batch->segment_count++] =
			(struct g4_segment){at, FIRST + k, 1, k, is_new(k) ? G4_SEGMENT_NEW : G4_SEGMENT_FOUND};
		if (is_new(k))
			memcpy(rig.image + g4_address_stored(at), page, G4_PAGE_BYTES);
	}
}

/* As publish does it: so many pages, all in one go. */
static void publish(uint32_t expected)
{
	struct g4_txn txn;
	uint64_t done;

	g4_write_lock(&inode->lock);
	assert_int_equal(g4_begin(wg, fs, g4_map_credits(fs) + G4_LIST_CREDITS, &txn), 0);
	assert_int_equal(g4_scatter_publish(wg, fs, &txn, inode, batch, 0, 0, &done), 0);
	assert_int_equal(done, expected);
	inode->disk.size = done > 0 ? (FIRST + done) * G4_PAGE_BYTES : 0;
	assert_int_equal(g4_inode_log(wg, fs, &txn, inode), 0);
	assert_int_equal(g4_end(fs, &txn, 0), 0);
	g4_set_size(inode, inode->disk.size);
	g4_write_unlock(&inode->lock);
	const uint32_t fresh = (expected + TURN - 1) / TURN;
	if (fresh < NEW)
		g4_alloc_release(&fs->alloc, g4_address_after_pages(row, fresh), NEW - fresh);
	for (uint32_t k = 0; k < expected; k++) {
		assert_int_equal(op_read(&rig, held.ino, 0, (FIRST + k) * G4_PAGE_BYTES, found, G4_PAGE_BYTES, NULL),
				 0);
		assert_memory_equal(found, contents(k), G4_PAGE_BYTES);
		assert_int_equal(rig_place(&rig, held.ino, FIRST + k),
				 is_new(k) ? g4_address_stored(g4_address_after_pages(row, k / TURN)) :
					     rig_place(&rig, other, k));
	}
}

/* What is written again is found, the new pages where the file has them: so they are listed, and each one has an owner more. */
static void all_of_a_stretch(void **state)
{
	uint64_t third;

	(void)state;
	prepare();
	publish(PAGES);
	for (uint32_t k = 0; k < PAGES; k++)
		memcpy(found + k * G4_PAGE_BYTES, contents(k), G4_PAGE_BYTES);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "third", G4_S_IFREG | 0600, &third), 0);
	assert_int_equal(op_write(&rig, third, 0, 0, found, PAGES * G4_PAGE_BYTES, NULL), 0);
	for (uint32_t k = 0; k < PAGES; k++)
		assert_int_equal(rig_place(&rig, third, k), rig_place(&rig, held.ino, FIRST + k));
	/* owners that go one after the other leave the page to those that stay */
	assert_int_equal(op_truncate(&rig, other, 0), 0);
	assert_int_equal(op_truncate(&rig, held.ino, 0), 0);
	assert_int_equal(op_sync(&rig), 0);
	memset(data, 0, PAGES * G4_PAGE_BYTES);
	assert_int_equal(op_read(&rig, third, 0, 0, data, PAGES * G4_PAGE_BYTES, NULL), 0);
	assert_memory_equal(data, found, PAGES * G4_PAGE_BYTES);
}

/* One that is listed no more ends it: pages in front of it are the file's. */
static void up_to_a_page_that_has_gone(void **state)
{
	struct g4_txn txn;

	(void)state;
	prepare();
	assert_int_equal(g4_begin(wg, fs, 1, &txn), 0);
	assert_int_equal(
		g4_share_unlist(wg, &fs->alloc, &txn, g4_page_address(rig_place(&rig, other, 57) / G4_PAGE_BYTES)), 0);
	assert_int_equal(g4_end(fs, &txn, 0), 0);
	publish(57);
}

/* And so does one that somebody has stored meanwhile, which is then found there. */
static void up_to_a_page_that_others_have_stored(void **state)
{
	uint64_t third;

	(void)state;
	prepare();
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "third", G4_S_IFREG | 0600, &third), 0);
	for (uint32_t k = 0; k < 64; k++)
		memcpy(found + k * G4_PAGE_BYTES, contents(k == 0 ? 30 : k), G4_PAGE_BYTES);
	assert_int_equal(op_write(&rig, third, 0, 0, found, G4_PAGE_BYTES * 64, NULL), 0);
	publish(10); /* that has 10, 20 and so on as well */
}

/* Without anything that was found, or where slots are no holes, the other way is as good. */
static void what_is_left_to_the_other_way(void **state)
{
	(void)state;
	assert_int_equal(op_write(&rig, held.ino, 0, FIRST * G4_PAGE_BYTES, data + PAGES * G4_PAGE_BYTES, G4_PAGE_BYTES,
				  NULL),
			 0);
	assert_int_equal(op_sync(&rig), 0);
	prepare();
	publish(0);
	prepare();
	batch->segment_count = 1;
	publish(0);
}

/*
 * The last pages of 2 MiB that lie in a row as a whole come by a stretch: they become one pointer, as on the other way. The first ones are
 * `other`'s, and so are all but LAST of those of the stretch, and behind these there is room.
 */
#define LAST 50u
static void what_lies_as_a_large_page_is_one(void **state)
{
	const uint32_t theirs = G4_REGION_PAGES - LAST, before = G4_REGION_PAGES - PAGES;
	const uint64_t at = G4_REGION_PAGES; /* of the file */
	struct g4_run run;
	uint64_t got;

	(void)state;
	assert_int_equal(op_truncate(&rig, other, 0), 0);
	assert_int_equal(op_write(&rig, other, 0, 0, data, theirs * G4_PAGE_BYTES, NULL), 0);
	assert_int_equal(op_sync(&rig), 0);
	const uint64_t first = rig_place(&rig, other, 0) / G4_PAGE_BYTES;
	assert_int_equal(first % G4_REGION_PAGES, 0);
	assert_int_equal(rig_place(&rig, other, theirs - 1) / G4_PAGE_BYTES, first + theirs - 1);
	assert_int_equal(op_write(&rig, held.ino, 0, at * G4_PAGE_BYTES, data, before * G4_PAGE_BYTES, NULL), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(rig_place(&rig, held.ino, at), first * G4_PAGE_BYTES);
	assert_int_equal(g4_alloc_claim(wg, &fs->alloc, G4_ALLOC_IN(g4_file_pool(fs, inode), G4_ALLOC_DATA),
					g4_page_address(first + theirs), LAST, false, &row, &got),
			 0);
	assert_int_equal(g4_address_page(row), first + theirs);
	assert_int_equal(got, LAST);
	batch->staged = batch->dedup = true;
	batch->algorithm = G4_CHECKSUM_BLAKE3;
	batch->count = PAGES;
	for (uint32_t k = 0; k < PAGES; k++) {
		const void *page = data + (before + k) * G4_PAGE_BYTES;
		g4_sums_make(wg, G4_CHECKSUM_BLAKE3, &page, 1, &batch->sums[k]);
	}
	memcpy(rig.image + g4_address_stored(row), data + theirs * G4_PAGE_BYTES, LAST * G4_PAGE_BYTES);
	batch->segments[0] =
		(struct g4_segment){g4_page_address(first + before), at + before, PAGES - LAST, 0, G4_SEGMENT_FOUND};
	batch->segments[1] = (struct g4_segment){row, at + theirs, LAST, PAGES - LAST, G4_SEGMENT_NEW};
	batch->segment_count = 2;
	uint32_t published;
	g4_write_lock(&inode->lock);
	assert_int_equal(g4_publish(wg, fs, inode, batch, (at + G4_REGION_PAGES) * G4_PAGE_BYTES, &published), 0);
	g4_set_size(inode, inode->disk.size);
	assert_int_equal(g4_map_lookup(wg, fs, inode, at, G4_REGION_PAGES, &run), 0);
	g4_write_unlock(&inode->lock);
	assert_int_equal(published, PAGES);
	assert_int_equal(run.level, 1);
	assert_int_equal(run.pages, G4_REGION_PAGES);
	assert_int_equal(g4_address_page(run.address), first);
	assert_int_equal(op_read(&rig, held.ino, 0, at * G4_PAGE_BYTES, found, G4_REGION_BYTES, NULL), 0);
	assert_memory_equal(found, data, G4_REGION_BYTES);
}

RUN_TESTS(cmocka_unit_test_setup_teardown(all_of_a_stretch, begin, stages_end),
	  cmocka_unit_test_setup_teardown(what_lies_as_a_large_page_is_one, begin, stages_end),
	  cmocka_unit_test_setup_teardown(up_to_a_page_that_has_gone, begin, stages_end),
	  cmocka_unit_test_setup_teardown(up_to_a_page_that_others_have_stored, begin, stages_end),
	  cmocka_unit_test_setup_teardown(what_is_left_to_the_other_way, begin, stages_end))
