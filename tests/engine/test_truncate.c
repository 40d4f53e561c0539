/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes and ranges of files: what is behind the end is zero on the device, too; what is cut leaves nothing; fallocate(2) and lseek(2)
 * (allocate.c). (2 MiB pages and huge files: test_map.c; through the library: test_api_files.c; power cuts: test_crash.c.)
 */
#include "rig.h"

#include "fs/fs.h"

#define PAGES 40u
#define BYTES (PAGES * G4_PAGE_BYTES)

static struct rig rig;
static struct g4_wg *wg;
static struct g4_fs *fs;
static struct g4_inode_core *inode;
static uint32_t index_;
static uint64_t ino;
static uint8_t data[BYTES], found[BYTES];

static int setup(void **state)
{
	(void)state;
	rig_pattern(data, 9, BYTES);
	rig_begin(&rig, 64 * G4_MIB, 0, NULL);
	wg = rig.wg;
	fs = rig.fs;
	index_ = rig_hold(&rig, "f", &ino);
	inode = g4_icache_at(fs, index_);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	g4_icache_put(fs, index_);
	rig_end(&rig);
	return 0;
}

static void write_all(void)
{
	assert_int_equal(op_write(&rig, ino, 0, 0, data, BYTES, NULL), 0);
	assert_int_equal(op_fsync(&rig, ino), 0);
}

static struct g4_run run_at(uint64_t page)
{
	struct g4_run run;

	g4_read_lock(&inode->lock);
	assert_int_equal(g4_map_lookup(wg, fs, inode, page, 1, &run), 0);
	g4_read_unlock(&inode->lock);
	return run;
}

static void expect(uint64_t bytes)
{
	uint64_t done;

	assert_int_equal(op_read(&rig, ino, 0, 0, found, BYTES, &done), 0);
	assert_int_equal(done, bytes);
	assert_memory_equal(found, data, bytes);
}

/* At each size: the last page moves to new space with zeros behind the end, or none is left. */
static void behind_the_end_there_are_zeros_on_the_device(void **state)
{
	const uint64_t sizes[] = {BYTES - 1,
				  BYTES - 100,
				  BYTES - G4_PAGE_BYTES,
				  20 * G4_PAGE_BYTES + 1,
				  20 * G4_PAGE_BYTES,
				  5000,
				  G4_PAGE_BYTES,
				  200,
				  100,
				  1,
				  0};

	(void)state;
	write_all();
	for (uint32_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		const uint64_t size = sizes[k], keep = size % G4_PAGE_BYTES, page = size / G4_PAGE_BYTES;
		const struct g4_run before = run_at(page);
		assert_int_equal(op_truncate(&rig, ino, size), 0);
		assert_int_equal(inode->size, size);
		assert_int_equal(inode->disk.size, size);
		const struct g4_run after = run_at(page);
		if (keep) {
			assert_int_equal(after.kind, G4_WRITTEN);
			assert_false(g4_address_is(after.address, before.address)); /* copy-on-write */
			assert_memory_equal(rig.image + g4_address_stored(after.address), data + page * G4_PAGE_BYTES,
					    keep);
			for (uint64_t at = keep; at < G4_PAGE_BYTES; at++)
				assert_int_equal(rig.image[g4_address_stored(after.address) + at], 0);
		} else {
			assert_int_equal(after.kind, G4_HOLE);
		}
		assert_int_equal(run_at(page + 1).kind, G4_HOLE);
		expect(size);
	}
	assert_int_equal(inode->disk.pages, 0);
}

static void what_was_cut_reads_as_zeros_when_the_file_grows(void **state)
{
	(void)state;
	write_all();
	assert_int_equal(op_truncate(&rig, ino, 5000), 0);
	assert_int_equal(op_truncate(&rig, ino, BYTES), 0);
	memset(data + 5000, 0, BYTES - 5000);
	expect(BYTES);
	g4_write_lock(&inode->lock);
	g4_cache_drop_range(&fs->cache, inode->data_key, 0, PAGES);
	g4_write_unlock(&inode->lock);
	expect(BYTES); /* from the device */
}

static void dirty_pages_that_are_cut_are_not_written(void **state)
{
	(void)state;
	for (uint64_t page = 0; page < PAGES; page++)
		assert_int_equal(op_write(&rig, ino, 0, page * G4_PAGE_BYTES, data + page * G4_PAGE_BYTES,
					  G4_PAGE_BYTES, NULL),
				 0);
	assert_int_equal(inode->dirty_count, PAGES);
	assert_int_equal(op_truncate(&rig, ino, 3 * G4_PAGE_BYTES), 0);
	assert_int_equal(inode->dirty_count, 3);
	assert_int_equal(fs->dirty_pages, 3);
	assert_int_equal(op_truncate(&rig, ino, 0), 0);
	assert_int_equal(inode->dirty_count, 0);
	assert_int_equal(fs->alloc.reserved, 0);
	assert_int_equal(op_fsync(&rig, ino), 0);
	assert_int_equal(inode->disk.pages, 0);
}

static void allocated_space_is_unwritten_and_a_hole_gives_it_back(void **state)
{
	const uint64_t from = 10 * G4_PAGE_BYTES, bytes = 20 * G4_PAGE_BYTES;
	uint64_t at;

	(void)state;
	assert_int_equal(op_fallocate(&rig, ino, G4_FALLOC_KEEP_SIZE, from, bytes), 0);
	assert_int_equal(inode->size, 0);
	for (uint64_t page = 0; page < PAGES; page++)
		assert_int_equal(run_at(page).kind, page >= 10 && page < 30 ? G4_UNWRITTEN : G4_HOLE);
	assert_int_equal(op_fallocate(&rig, ino, 0, from, bytes), 0);
	assert_int_equal(inode->size, from + bytes);
	assert_int_equal(op_seek(&rig, ino, 0, G4_SEEK_DATA, &at), -G4_E_NXIO); /* unwritten space is no data */
	assert_int_equal(op_seek(&rig, ino, 0, G4_SEEK_HOLE, &at), 0);
	assert_int_equal(at, 0);
	assert_int_equal(op_write(&rig, ino, 0, 15 * G4_PAGE_BYTES, data, 1, NULL), 0);
	assert_int_equal(op_seek(&rig, ino, 0, G4_SEEK_DATA, &at), 0);
	assert_int_equal(at, 15 * G4_PAGE_BYTES);
	assert_int_equal(run_at(15).kind, G4_WRITTEN);
	/* the parts of pages at both ends are zeroed, the whole ones in between go */
	write_all();
	const uint64_t hole = 5 * G4_PAGE_BYTES + 10, end = 9 * G4_PAGE_BYTES + 20;
	assert_int_equal(op_fallocate(&rig, ino, G4_FALLOC_KEEP_SIZE | G4_FALLOC_PUNCH_HOLE, hole, end - hole), 0);
	memset(data + hole, 0, end - hole);
	for (uint64_t page = 4; page < 11; page++)
		assert_int_equal(run_at(page).kind, page > 5 && page < 9 ? G4_HOLE : G4_WRITTEN);
	expect(BYTES);
	/* what makes no sense */
	assert_int_equal(g4_file_check_range(G4_FALLOC_PUNCH_HOLE, 0, 1), -G4_E_NOTSUP);
	assert_int_equal(g4_file_check_range(0x40, 0, 1), -G4_E_NOTSUP);
	assert_int_equal(g4_file_check_range(0, 0, 0), -G4_E_INVAL);
	assert_int_equal(g4_file_check_range(0, G4_FILE_MAX_BYTES, 1), -G4_E_FBIG);
	assert_int_equal(g4_file_check_range(0, G4_FILE_MAX_BYTES - 1, 1), 0);
}

#define truncate_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		truncate_test(behind_the_end_there_are_zeros_on_the_device),
		truncate_test(what_was_cut_reads_as_zeros_when_the_file_grows),
		truncate_test(dirty_pages_that_are_cut_are_not_written),
		truncate_test(allocated_space_is_unwritten_and_a_hole_gives_it_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
