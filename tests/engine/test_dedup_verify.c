/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deduplication by sums that prove nothing: what is written is compared with what has the same sum, so that contents which are made to
 * have one are not taken for each other, nor what came to lie where others were found.
 */
#include "rig.h"

#include <stdlib.h>

#include "alloc/share.h"
#include "data/batch.h"
#include "data/dirty.h"
#include "data/fetch.h"
#include "data/sums.h"
#include "dedup/table.h"
#include "fs/fs.h"
#include "hash/crc32c.h"
#include "inode/icache.h"
#include "inode/txn.h"
#include "simt/simt_host.h"

#define PAGES 300u /* more than a quarter of a region, and than a batch */
#define BYTES (PAGES * (uint64_t)G4_PAGE_BYTES)

static struct rig rig;
static uint8_t data[BYTES], found[BYTES];

static int setup_crc32c(void **state)
{
	(void)state;
	rig_begin_as(&rig, G4_CHECKSUM_CRC32C, 1, 64 * G4_MIB, 0, NULL);
	return 0;
}

static int setup_xxh3(void **state)
{
	(void)state;
	rig_begin_as(&rig, G4_CHECKSUM_XXH3, 1, 64 * G4_MIB, 0, NULL);
	return 0;
}

static int setup_blake3(void **state)
{
	(void)state;
	rig_begin_as(&rig, G4_CHECKSUM_BLAKE3, 1, 64 * G4_MIB, 0, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_end(&rig);
	return 0;
}

static uint64_t make_with(uint32_t number, const uint8_t *from, uint64_t bytes)
{
	const uint64_t ino = rig_make(&rig, number);

	assert_int_equal(op_write(&rig, ino, 0, 0, from, bytes, NULL), 0);
	assert_int_equal(op_fsync(&rig, ino), 0);
	return ino;
}

static void expect(uint64_t ino, const uint8_t *contents, uint64_t bytes)
{
	uint64_t done;

	assert_int_equal(op_read(&rig, ino, 0, 0, found, BYTES, &done), 0);
	assert_int_equal(done, bytes);
	assert_memory_equal(found, contents, bytes);
}

static void unmount(void)
{
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = NULL;
}

static void mount_again(void)
{
	if (rig.fs)
		unmount();
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	while (g4_jobs_serve(rig.wg, rig.fs, true) == 0) /* what is listed is in the table */
		;
}

/* Another page with the same CRC-32C: it differs by the polynomial, whose bits go from the highest power down in the order of the page's. */
static void collide(uint8_t *page, uint32_t bit)
{
	const uint64_t polynomial = UINT64_C(0x11edc6f41);
	const uint32_t before = g4_crc32c(0, page, G4_PAGE_BYTES);

	for (uint32_t k = 0; k <= 32; k++)
		if (polynomial >> (32 - k) & 1)
			page[(bit + k) / 8] ^= (uint8_t)(1 << (bit + k) % 8);
	assert_int_equal(g4_crc32c(0, page, G4_PAGE_BYTES), before);
}

static void what_is_the_same_is_shared(void **state)
{
	(void)state;
	rig_pattern(data, 1, BYTES);
	memcpy(data + 7 * G4_PAGE_BYTES, data, 3 * G4_PAGE_BYTES);
	const uint64_t before = rig_free_pages(&rig), a = make_with(0, data, BYTES), b = make_with(1, data, BYTES);
	for (uint64_t page = 0; page < PAGES; page++)
		assert_int_equal(rig_place(&rig, a, page), rig_place(&rig, b, page));
	for (uint64_t page = 0; page < 3; page++) /* of one write */
		assert_int_equal(rig_place(&rig, a, page), rig_place(&rig, a, page + 7));
	mount_again(); /* by what is listed */
	const uint64_t c = make_with(2, data, BYTES);
	for (uint64_t page = 0; page < PAGES; page++)
		assert_int_equal(rig_place(&rig, a, page), rig_place(&rig, c, page));
	mount_again();
	expect(c, data, BYTES);
	for (uint32_t k = 0; k < 3; k++) {
		char name[] = {'f', (char)('0' + k), 0};
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, name), 0);
	}
	assert_true(rig_free_pages(&rig) + 3 >= before);
}

static void what_was_made_to_collide_is_not(void **state)
{
	uint64_t places[5];

	(void)state;
	rig_pattern(data, 2, G4_PAGE_BYTES);
	for (uint32_t page = 1; page < 5; page++)
		memcpy(data + page * G4_PAGE_BYTES, data, G4_PAGE_BYTES);
	collide(data + G4_PAGE_BYTES, 5);
	collide(data + 3 * G4_PAGE_BYTES, 5);
	collide(data + 4 * G4_PAGE_BYTES, 8000);
	/* in one batch: a b a b c */
	const uint64_t a = make_with(0, data, 5 * G4_PAGE_BYTES);
	for (uint32_t page = 0; page < 5; page++)
		places[page] = rig_place(&rig, a, page);
	assert_int_equal(places[0], places[2]);
	assert_int_equal(places[1], places[3]);
	assert_int_not_equal(places[0], places[1]);
	assert_int_not_equal(places[0], places[4]);
	assert_int_not_equal(places[1], places[4]);
	/* after it: the table has one of them */
	collide(data, 12000);
	const uint64_t b = make_with(1, data, 2 * G4_PAGE_BYTES);
	assert_int_not_equal(rig_place(&rig, b, 0), places[0]);
	expect(b, data, 2 * G4_PAGE_BYTES);
	collide(data, 12000);
	expect(a, data, 5 * G4_PAGE_BYTES);
	mount_again();
	const uint64_t c = make_with(2, data, 5 * G4_PAGE_BYTES);
	expect(c, data, 5 * G4_PAGE_BYTES);
	expect(a, data, 5 * G4_PAGE_BYTES);
}

static struct g4_sum_entry sum_of(const uint8_t *page)
{
	const void *const pages[1] = {page};
	struct g4_sum_entry entry;

	g4_sums_make(rig.wg, G4_CHECKSUM_CRC32C, pages, 1, &entry);
	return entry;
}

static struct g4_listing_key key_of(const uint8_t *page)
{
	const struct g4_sum_entry entry = sum_of(page);

	return g4_listing_key(&entry, 0);
}

/* The k'th of pages with the sum of data[0]. */
static void make_colliding(uint8_t *page, uint32_t k)
{
	memcpy(page, data, G4_PAGE_BYTES);
	collide(page, k % 30000);
	if (k >= 30000)
		collide(page, 31000 + k / 30000);
}

/* Whether a page could be shared now, for which a mark was taken: the owner that it gets is taken away again. */
static int try_to_share(struct g4_address at, const struct g4_sum_entry *sum, uint32_t mark)
{
	struct g4_txn txn;

	assert_int_equal(g4_begin(rig.wg, rig.fs, 64, &txn), 0);
	const int rc = g4_share_acquire_listed(rig.wg, &rig.fs->alloc, &txn, at, 1, sum, 0, mark);
	const int released = rc == 1 ? g4_share_release(rig.wg, &rig.fs->alloc, &txn, at, 1) : 0;
	const int ended = g4_end(rig.fs, &txn, 0);
	assert_int_equal(released, 0);
	assert_int_equal(ended, 0);
	return rc;
}

/* Files from a number on of pages with the sum of data[0], until one of them lies at an address that is free. */
static void fill_with_colliding(uint32_t first, struct g4_address at)
{
	bool there = false;

	for (uint32_t file = first, made = 0; !there; file++) {
		assert_true(file < 60);
		for (uint32_t page = 1; page < PAGES; page++)
			make_colliding(data + page * G4_PAGE_BYTES, made++);
		const uint64_t b = make_with(file, data + G4_PAGE_BYTES, BYTES - G4_PAGE_BYTES);
		for (uint64_t page = 0; page < PAGES - 1; page++)
			there |= rig_place(&rig, b, page) == g4_address_stored(at);
	}
}

/* A page was found and compared, has gone before it was shared, and what lies there now has the same sum, and is listed. */
static void what_came_in_its_place_is_not(void **state)
{
	(void)state;
	rig_pattern(data, 3, G4_PAGE_BYTES);
	const uint64_t a = make_with(0, data, G4_PAGE_BYTES);
	const struct g4_address at = g4_address_from(rig_place(&rig, a, 0));
	const struct g4_sum_entry sum = sum_of(data);
	const uint32_t mark = g4_share_mark(&rig.fs->alloc, at);
	assert_int_equal(try_to_share(at, &sum, mark), 1);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f0"), 0);
	assert_int_equal(op_sync(&rig), 0);
	fill_with_colliding(1, at);
	assert_int_equal(try_to_share(at, &sum, mark), -G4_E_AGAIN);
	assert_int_equal(try_to_share(at, &sum, g4_share_mark(&rig.fs->alloc, at)), 1);
}

/* The same in the write pipeline: between the look and publishing, the writer of what was found takes it away. */
static void what_came_there_before_publishing_is_not(void **state)
{
	struct g4_wg *wg = g4_wg_create(1);
	uint32_t index, published;

	(void)state;
	rig_pattern(data, 8, G4_PAGE_BYTES);
	const uint64_t a = make_with(0, data, G4_PAGE_BYTES), b = rig_make(&rig, 1);
	const struct g4_address at = g4_address_from(rig_place(&rig, a, 0));
	assert_int_equal(op_write(&rig, b, 0, 0, data, G4_PAGE_BYTES, NULL), 0);
	assert_int_equal(g4_icache_get(wg, rig.fs, b, &index), 0);
	struct g4_inode_core *inode = g4_icache_at(rig.fs, index);
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_batch *batch = g4_batch_take(wg);
	g4_gather_dirty(rig.fs, inode, batch);
	assert_int_equal(batch->count, 1);
	assert_int_equal(g4_pipeline_prepare(wg, rig.fs, inode, batch, true), 0);
	assert_int_equal(batch->segments[0].kind, G4_SEGMENT_FOUND);
	assert_int_equal(g4_address_stored(batch->segments[0].address), g4_address_stored(at));
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f0"), 0);
	assert_int_equal(op_fsync(&rig, G4_NODE_ROOT), 0); /* it is free */
	fill_with_colliding(2, at);
	assert_int_equal(g4_pipeline_finish(wg, rig.fs, inode, batch, inode->size, 0, &published), 0);
	assert_int_equal(published, 0);
	g4_scratch_release(wg, mark);
	g4_icache_put(rig.fs, index);
	g4_wg_destroy(wg);
	assert_int_equal(op_fsync(&rig, b), 0);
	assert_int_not_equal(rig_place(&rig, b, 0), g4_address_stored(at));
	expect(b, data, G4_PAGE_BYTES);
}

/*
 * The same of the second page of a row, of which the first is like a page of the batch itself: that one needs no mark, and is not a reason to take
 * the next one without looking at its own.
 */
static void what_came_behind_a_page_of_the_batch_is_not(void **state)
{
	struct g4_wg *wg = g4_wg_create(1);
	static uint8_t three[3 * G4_PAGE_BYTES];
	uint32_t index, published;

	(void)state;
	rig_pattern(data, 12, G4_PAGE_BYTES);
	memcpy(three + 2 * G4_PAGE_BYTES, data, G4_PAGE_BYTES);
	rig_pattern(three, 13, G4_PAGE_BYTES);
	rig_pattern(data + G4_PAGE_BYTES, 14, G4_PAGE_BYTES);
	memcpy(data + 2 * G4_PAGE_BYTES, data, G4_PAGE_BYTES);
	const uint64_t a = make_with(0, data + G4_PAGE_BYTES, 2 * G4_PAGE_BYTES);
	const uint64_t at = rig_place(&rig, a, 0);
	assert_int_equal(rig_place(&rig, a, 1), at + G4_PAGE_BYTES);
	assert_int_equal(op_fallocate(&rig, a, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE, 0, G4_PAGE_BYTES), 0);
	assert_int_equal(op_sync(&rig), 0); /* its place is free */
	/* a new page for that place, another one like it, and what lies behind it */
	memcpy(three + G4_PAGE_BYTES, three, G4_PAGE_BYTES);
	const uint64_t b = rig_make(&rig, 1);
	assert_int_equal(op_write(&rig, b, 0, 0, three, sizeof(three), NULL), 0);
	assert_int_equal(g4_icache_get(wg, rig.fs, b, &index), 0);
	struct g4_inode_core *inode = g4_icache_at(rig.fs, index);
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_batch *batch = g4_batch_take(wg);
	inode->next_goal = g4_address_from(at);
	g4_gather_dirty(rig.fs, inode, batch);
	assert_int_equal(g4_pipeline_prepare(wg, rig.fs, inode, batch, true), 0);
	assert_int_equal(batch->segment_count, 2);
	assert_int_equal(g4_address_stored(batch->segments[0].address), at);
	assert_int_equal(batch->segments[1].kind, G4_SEGMENT_FOUND);
	assert_int_equal(g4_address_stored(batch->segments[1].address), at);
	assert_int_equal(batch->segments[1].pages, 2);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f0"), 0);
	assert_int_equal(op_fsync(&rig, G4_NODE_ROOT), 0);
	fill_with_colliding(2, g4_address_from(at + G4_PAGE_BYTES));
	const int stored = g4_store(wg, rig.fs, batch);
	assert_int_equal(g4_pipeline_finish(wg, rig.fs, inode, batch, inode->size, stored, &published), 0);
	for (uint32_t k = 0; k < published; k++)
		g4_dirty_remove(rig.fs, inode, batch->lines[k]);
	g4_scratch_release(wg, mark);
	g4_icache_put(rig.fs, index);
	g4_wg_destroy(wg);
	assert_int_equal(op_fsync(&rig, b), 0);
	assert_int_equal(rig_place(&rig, b, 1), at);
	mount_again();
	expect(b, three, sizeof(three));
	assert_int_not_equal(rig_place(&rig, b, 2), at + G4_PAGE_BYTES);
}

/* With BLAKE3 it is an option, which finds what has rotted unseen. */
static void what_has_rotted_is_not(void **state)
{
	(void)state;
	rig_pattern(data, 4, 4 * G4_PAGE_BYTES);
	const uint64_t a = make_with(0, data, 4 * G4_PAGE_BYTES), at = rig_place(&rig, a, 2);
	unmount();
	rig.image[at + 1000] ^= 4;
	mount_again();
	const uint64_t b = make_with(1, data, 4 * G4_PAGE_BYTES);
	assert_int_equal(rig_place(&rig, b, 2), at); /* nobody has read it */
	mount_again();
	rig.fs->flags |= G4_FS_DEDUP_VERIFY;
	const uint64_t c = make_with(2, data, 4 * G4_PAGE_BYTES);
	assert_int_not_equal(rig_place(&rig, c, 2), at);
	assert_int_equal(rig_place(&rig, c, 1), rig_place(&rig, a, 1));
	mount_again(); /* and nobody finds it any more */
	const uint64_t d = make_with(3, data, 4 * G4_PAGE_BYTES);
	assert_int_equal(rig_place(&rig, d, 2), rig_place(&rig, c, 2));
	expect(d, data, 4 * G4_PAGE_BYTES);
	rig.image[at + 1000] ^= 4;
}

/* Without BLAKE3 as well: a writer that compares with it takes it from the list, and after the next mount the good page is found. */
static void what_has_rotted_is_found_no_more(void **state)
{
	(void)state;
	rig_pattern(data, 9, 4 * G4_PAGE_BYTES);
	const uint64_t a = make_with(0, data, 4 * G4_PAGE_BYTES), at = rig_place(&rig, a, 2);
	unmount();
	rig.image[at + 1000] ^= 4;
	mount_again();
	const uint64_t b = make_with(1, data, 4 * G4_PAGE_BYTES), stored = rig_place(&rig, b, 2);
	assert_int_not_equal(stored, at);
	assert_true(g4_ddt_is_suspect(&rig.fs->ddt, g4_address_from(at)));
	assert_false(g4_ddt_is_suspect(&rig.fs->ddt, g4_address_from(rig_place(&rig, a, 1))));
	mount_again();
	const uint64_t c = make_with(2, data, 4 * G4_PAGE_BYTES);
	assert_int_equal(rig_place(&rig, c, 2), stored);
	assert_int_equal(rig_place(&rig, c, 1), rig_place(&rig, a, 1));
	expect(c, data, 4 * G4_PAGE_BYTES);
	rig.image[at + 1000] ^= 4;
}

/* Other contents with the sum by which a page is listed are no damage. */
static void what_collides_is_whole(void **state)
{
	(void)state;
	rig_pattern(data, 10, G4_PAGE_BYTES);
	const uint64_t a = make_with(0, data, G4_PAGE_BYTES), at = rig_place(&rig, a, 0);
	collide(data, 700);
	const uint64_t b = make_with(1, data, G4_PAGE_BYTES);
	assert_int_not_equal(rig_place(&rig, b, 0), at);
	assert_false(g4_ddt_is_suspect(&rig.fs->ddt, g4_address_from(at)));
	const struct g4_listing_key key = key_of(data);
	uint64_t bits[G4_LISTING_WORDS];
	struct g4_listing_page sums;
	const uint64_t page = at / G4_PAGE_BYTES, in = page % G4_LISTING_PAGES;
	assert_int_equal(g4_share_listed_sums(rig.wg, &rig.fs->alloc, page / G4_GROUP_PAGES,
					      (uint32_t)(page % G4_GROUP_PAGES / G4_LISTING_PAGES), bits, &sums),
			 0);
	assert_true(bits[in / 64] >> in % 64 & 1);
	assert_memory_equal(sums.sums[in], key.bytes, G4_LISTING_SUM_BYTES);
}

/* What was found listed has gone before it is read: what is read there instead is no damage. With the mark of what is there it is. */
static void what_came_before_it_was_read_is_whole(void **state)
{
	(void)state;
	rig_pattern(data, 11, G4_PAGE_BYTES);
	const uint64_t a = make_with(0, data, G4_PAGE_BYTES);
	const struct g4_address at = g4_address_from(rig_place(&rig, a, 0));
	const struct g4_listing_key key = key_of(data);
	const uint32_t mark = g4_share_mark(&rig.fs->alloc, at);
	const uint32_t scratch = g4_scratch_mark(rig.wg);
	uint8_t *page = g4_scratch_take_page(rig.wg);
	memcpy(page, data, G4_PAGE_BYTES);
	assert_int_equal(g4_fetch_is(rig.wg, rig.fs, at, &key, 0, mark, page), 1);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f0"), 0);
	assert_int_equal(op_sync(&rig), 0);
	rig.image[g4_address_stored(at)] ^= 1; /* others' contents */
	assert_int_equal(g4_fetch_is(rig.wg, rig.fs, at, &key, 0, mark, page), 0);
	assert_false(g4_ddt_is_suspect(&rig.fs->ddt, at));
	assert_int_equal(g4_fetch_is(rig.wg, rig.fs, at, &key, 0, g4_share_mark(&rig.fs->alloc, at), page), 0);
	assert_true(g4_ddt_is_suspect(&rig.fs->ddt, at));
	g4_scratch_release(rig.wg, scratch);
}

/* What can not be read is nobody's: it is stored, the write does not fail, and it is found no more. */
static void what_can_not_be_read_is_not(void **state)
{
	const struct g4_fault none = {0};
	const uint64_t bytes = 4 * G4_PAGE_BYTES;

	(void)state;
	unmount();
	rig.fs = rig_mount_fs(&rig, rig.wg, &none);
	rig_pattern(data, 6, bytes);
	const uint64_t a = make_with(0, data, bytes), at = rig_place(&rig, a, 2);
	g4_dev_fault_set(rig.fault, &(struct g4_fault){.bad_at = at, .bad_bytes = G4_PAGE_BYTES});
	const uint64_t b = make_with(1, data, bytes);
	g4_dev_fault_set(rig.fault, &none);
	assert_int_not_equal(rig_place(&rig, b, 2), at);
	assert_int_equal(rig_place(&rig, b, 1), rig_place(&rig, a, 1));
	expect(b, data, bytes);
	mount_again();
	const uint64_t c = make_with(2, data, bytes);
	assert_int_equal(rig_place(&rig, c, 2), rig_place(&rig, b, 2));
}

/* Files of several kinds of sums find what has the same kind, and each other's contents stay as they are. */
static void each_kind_finds_its_own(void **state)
{
	static const char *const kinds[] = {"blake3", "crc32c", "xxh3"};
	uint64_t first[3];

	(void)state;
	rig_pattern(data, 5, 20 * G4_PAGE_BYTES);
	for (uint32_t turn = 0; turn < 2; turn++)
		for (uint32_t k = 0; k < 3; k++) {
			const uint64_t ino = rig_make(&rig, 3 * turn + k);
			assert_int_equal(op_setxattr(&rig, ino, "gpu4fs.checksum", kinds[k], strlen(kinds[k]), 0), 0);
			assert_int_equal(op_write(&rig, ino, 0, 0, data, 20 * G4_PAGE_BYTES, NULL), 0);
			assert_int_equal(op_fsync(&rig, ino), 0);
			const uint64_t at = rig_place(&rig, ino, 0);
			if (turn == 0)
				first[k] = at;
			assert_int_equal(at, first[k]);
		}
	assert_int_not_equal(first[0], first[1]);
	assert_int_not_equal(first[0], first[2]);
	assert_int_not_equal(first[1], first[2]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_the_same_is_shared, setup_crc32c, teardown),
		cmocka_unit_test_setup_teardown(what_is_the_same_is_shared, setup_xxh3, teardown),
		cmocka_unit_test_setup_teardown(what_was_made_to_collide_is_not, setup_crc32c, teardown),
		cmocka_unit_test_setup_teardown(what_came_in_its_place_is_not, setup_crc32c, teardown),
		cmocka_unit_test_setup_teardown(what_came_there_before_publishing_is_not, setup_crc32c, teardown),
		cmocka_unit_test_setup_teardown(what_came_behind_a_page_of_the_batch_is_not, setup_crc32c, teardown),
		cmocka_unit_test_setup_teardown(what_has_rotted_is_not, setup_blake3, teardown),
		cmocka_unit_test_setup_teardown(what_has_rotted_is_found_no_more, setup_crc32c, teardown),
		cmocka_unit_test_setup_teardown(what_has_rotted_is_found_no_more, setup_xxh3, teardown),
		cmocka_unit_test_setup_teardown(what_collides_is_whole, setup_crc32c, teardown),
		cmocka_unit_test_setup_teardown(what_came_before_it_was_read_is_whole, setup_crc32c, teardown),
		cmocka_unit_test_setup_teardown(what_can_not_be_read_is_not, setup_crc32c, teardown),
		cmocka_unit_test_setup_teardown(each_kind_finds_its_own, setup_blake3, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
