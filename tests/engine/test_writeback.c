/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing and write-back: tiny files into the inode and out of it, dirty pages to space of their own, large writes past the cache and
 * past dirty pages, and what is left of each after an error. (The stages by themselves: tests/files/data; space for them:
 * test_reserve.c.)
 */
#include "rig.h"

#include "fs/fs.h"

#define PAGES 128u
#define BYTES (PAGES * G4_PAGE_BYTES)

static struct rig rig;
static struct g4_wg *wg;
static struct g4_fs *fs;
static struct g4_inode_core *inode;
static uint32_t index_;
static uint64_t ino;
static uint8_t *data, *found;

static int setup(void **state)
{
	const struct g4_fault no_fault = {0};

	(void)state;
	data = rig_memory(BYTES, 11);
	found = rig_memory(BYTES, 0);
	rig_begin(&rig, 64 * G4_MIB, 0, &no_fault);
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
	free(data);
	free(found);
	return 0;
}

static void write_at(uint64_t offset, uint64_t bytes)
{
	assert_int_equal(op_write(&rig, ino, 0, offset, data + offset, bytes, NULL), 0);
}

static void expect(uint64_t bytes)
{
	uint64_t done;

	assert_int_equal(op_read(&rig, ino, 0, 0, found, BYTES, &done), 0);
	assert_int_equal(done, bytes);
	assert_memory_equal(found, data, bytes);
}

static struct g4_run run_at(uint64_t page)
{
	struct g4_run run;

	g4_read_lock(&inode->lock);
	assert_int_equal(g4_map_lookup(wg, fs, inode, page, PAGES, &run), 0);
	g4_read_unlock(&inode->lock);
	return run;
}

static uint64_t address_at(uint64_t page)
{
	return g4_address_stored(run_at(page).address);
}

static void tiny_contents_move_into_the_inode_and_out_of_it(void **state)
{
	(void)state;
	write_at(0, G4_INLINE_BYTES);
	assert_false(inode->disk.flags & G4_INODE_INLINE);
	assert_int_equal(op_fsync(&rig, ino), 0);
	assert_true(inode->disk.flags & G4_INODE_INLINE);
	assert_int_equal(inode->disk.pages, 0);
	assert_memory_equal(inode->disk.inline_data, data, G4_INLINE_BYTES);
	write_at(G4_INLINE_BYTES, 1); /* one too many */
	assert_int_equal(op_fsync(&rig, ino), 0);
	assert_false(inode->disk.flags & G4_INODE_INLINE);
	assert_int_equal(inode->disk.pages, 1);
	expect(G4_INLINE_BYTES + 1);
	/* one that has a page keeps it, however small it gets */
	assert_int_equal(op_truncate(&rig, ino, 10), 0);
	write_at(0, 10);
	assert_int_equal(op_fsync(&rig, ino), 0);
	assert_false(inode->disk.flags & G4_INODE_INLINE);
	assert_int_equal(inode->disk.pages, 1);
	expect(10);
}

static void a_large_write_takes_what_is_inline_along(void **state)
{
	(void)state;
	write_at(0, 50);
	assert_int_equal(op_fsync(&rig, ino), 0);
	assert_true(inode->disk.flags & G4_INODE_INLINE);
	write_at(G4_PAGE_BYTES, BYTES - G4_PAGE_BYTES); /* past the cache */
	memset(data + 50, 0, G4_PAGE_BYTES - 50);
	expect(BYTES);
	assert_int_equal(op_fsync(&rig, ino), 0);
	assert_false(inode->disk.flags & G4_INODE_INLINE);
	expect(BYTES);
}

static void pages_are_written_to_space_of_their_own(void **state)
{
	(void)state;
	for (uint64_t page = 0; page < 20; page++)
		write_at(page * G4_PAGE_BYTES, G4_PAGE_BYTES);
	assert_int_equal(op_fsync(&rig, ino), 0);
	const uint64_t before = address_at(0);
	assert_int_equal(run_at(0).pages, 20); /* in one row */
	data[7 * G4_PAGE_BYTES] ^= 1;
	write_at(7 * G4_PAGE_BYTES, 1);
	assert_memory_not_equal(rig.image + before + 7 * G4_PAGE_BYTES, data + 7 * G4_PAGE_BYTES, 1);
	assert_int_equal(op_fsync(&rig, ino), 0);
	const uint64_t after = address_at(7);
	assert_int_not_equal(after, before + 7 * G4_PAGE_BYTES);
	assert_memory_equal(rig.image + after, data + 7 * G4_PAGE_BYTES, G4_PAGE_BYTES);
	assert_int_equal(address_at(6), before + 6 * G4_PAGE_BYTES);
	expect(20 * G4_PAGE_BYTES);
}

/* A write past the cache is newer than what is dirty below it, and than what was cached. */
static void a_large_write_replaces_dirty_and_cached_pages(void **state)
{
	(void)state;
	for (uint64_t page = 0; page < 10; page++)
		write_at(page * G4_PAGE_BYTES, G4_PAGE_BYTES);
	assert_int_equal(op_fsync(&rig, ino), 0);
	write_at(3 * G4_PAGE_BYTES, 100);
	write_at((PAGES - 1) * G4_PAGE_BYTES, 100);
	assert_int_equal(inode->dirty_count, 2);
	rig_pattern(data, 12, BYTES);
	write_at(0, BYTES);
	assert_int_equal(inode->dirty_count, 0);
	assert_int_equal(g4_cache_find(&fs->cache, inode->data_key, 3), G4_NO_LINE);
	expect(BYTES);
	assert_int_equal(op_fsync(&rig, ino), 0); /* until then the device keeps it in its cache */
	assert_memory_equal(rig.image + address_at(3), data + 3 * G4_PAGE_BYTES, G4_PAGE_BYTES);
}

static void after_a_write_error_pages_are_dirty_still(void **state)
{
	struct g4_fault fault;

	(void)state;
	for (uint64_t page = 0; page < 10; page++)
		write_at(page * G4_PAGE_BYTES, G4_PAGE_BYTES);
	assert_int_equal(op_fsync(&rig, ino), 0);
	const uint64_t address = address_at(4);
	data[4 * G4_PAGE_BYTES] ^= 1;
	write_at(4 * G4_PAGE_BYTES, G4_PAGE_BYTES);
	const uint64_t free_pages = fs->alloc.free_pages, reserved = fs->alloc.reserved;
	memset(&fault, 0, sizeof(fault));
	fault.fail_write_at = 1;
	g4_dev_fault_set(rig.dev, &fault);
	assert_int_equal(op_fsync(&rig, ino), -G4_E_IO);
	assert_int_equal(inode->dirty_count, 1);
	assert_int_equal(fs->alloc.free_pages, free_pages);
	assert_int_equal(fs->alloc.reserved, reserved);
	assert_int_equal(address_at(4), address);
	expect(10 * G4_PAGE_BYTES);
	assert_int_equal(op_fsync(&rig, ino), 0);
	assert_int_equal(inode->dirty_count, 0);
	assert_int_not_equal(address_at(4), address);
	expect(10 * G4_PAGE_BYTES);
	/* and past the cache the file stays as it was */
	const uint64_t before = address_at(0);
	g4_dev_fault_set(rig.dev, &fault);
	assert_int_equal(op_write(&rig, ino, 0, 0, data, BYTES, NULL), -G4_E_IO);
	assert_int_equal(address_at(0), before);
	assert_int_equal(fs->alloc.reserved, 0);
	expect(10 * G4_PAGE_BYTES);
}

static void a_page_that_is_whole_is_not_read_first(void **state)
{
	uint64_t before, after;

	(void)state;
	for (uint64_t page = 0; page < 4; page++)
		write_at(page * G4_PAGE_BYTES, G4_PAGE_BYTES);
	assert_int_equal(op_fsync(&rig, ino), 0);
	g4_write_lock(&inode->lock);
	g4_cache_drop_range(&fs->cache, inode->data_key, 0, 4);
	g4_write_unlock(&inode->lock);
	g4_dev_fault_counts(rig.dev, &before, &after, &after);
	write_at(0, G4_PAGE_BYTES);
	g4_dev_fault_counts(rig.dev, &after, &(uint64_t){0}, &(uint64_t){0});
	assert_int_equal(after, before);
	write_at(G4_PAGE_BYTES + 5, 10); /* a part of one is */
	g4_dev_fault_counts(rig.dev, &after, &(uint64_t){0}, &(uint64_t){0});
	assert_int_equal(after, before + 1);
	expect(4 * G4_PAGE_BYTES);
}

/* ---- many small files ---- */

#define FILES 40u
#define FILE_PAGES 3u

static struct {
	uint32_t index;
	uint64_t ino;
} files[FILES];

static void write_files(const char *prefix)
{
	for (uint32_t k = 0; k < FILES; k++) {
		char name[16];
		snprintf(name, sizeof(name), "%s-%u", prefix, k);
		files[k].index = rig_hold(&rig, name, &files[k].ino);
		assert_int_equal(op_write(&rig, files[k].ino, 0, 0, data + k * G4_PAGE_BYTES,
					  FILE_PAGES * G4_PAGE_BYTES - 100, NULL),
				 0);
	}
}

/* Their contents, from memory and from the device; how many of them have dirty pages. */
static uint32_t check_files(bool stored)
{
	uint32_t dirty = 0;

	for (uint32_t k = 0; k < FILES; k++) {
		struct g4_inode_core *file = g4_icache_at(fs, files[k].index);
		uint64_t done;

		if (stored) {
			g4_write_lock(&file->lock);
			g4_cache_drop_range(&fs->cache, file->data_key, 0, FILE_PAGES);
			g4_write_unlock(&file->lock);
		}
		dirty += file->dirty_count > 0;
		assert_int_equal(op_read(&rig, files[k].ino, 0, 0, found, BYTES, &done), 0);
		assert_int_equal(done, FILE_PAGES * G4_PAGE_BYTES - 100);
		assert_memory_equal(found, data + k * G4_PAGE_BYTES, done);
	}
	return dirty;
}

static void put_files(void)
{
	for (uint32_t k = 0; k < FILES; k++)
		g4_icache_put(fs, files[k].index);
}

static void small_files_go_to_the_device_together(void **state)
{
	uint64_t reads, before, after, flushes;

	(void)state;
	write_files("small");
	assert_int_equal(check_files(false), FILES);
	g4_dev_fault_counts(rig.dev, &reads, &before, &flushes);
	assert_int_equal(g4_writeback_all(wg, fs), 0);
	g4_dev_fault_counts(rig.dev, &reads, &after, &flushes);
	assert_in_range(after - before, 1, FILES / 4);
	assert_int_equal(fs->alloc.reserved, 0);
	assert_int_equal(check_files(true), 0);
	put_files();
}

/* What fails for several files stays dirty in each of them, and takes no more space in the end. */
static void after_an_error_of_a_shared_transfer_all_of_it_is_dirty_still(void **state)
{
	const struct g4_fault fault = {.fail_write_at = 1};
	uint64_t taken[2];

	(void)state;
	for (uint32_t failing = 0; failing < 2; failing++) {
		write_files(failing ? "bad" : "good");
		const uint64_t free_pages = fs->alloc.free_pages;
		if (failing) {
			g4_dev_fault_set(rig.dev, &fault);
			assert_int_equal(g4_writeback_all(wg, fs), -G4_E_IO);
			assert_in_range(check_files(false), 2, G4_TOGETHER_FILES);
		}
		assert_int_equal(g4_writeback_all(wg, fs), 0);
		assert_int_equal(fs->alloc.reserved, 0);
		assert_int_equal(check_files(true), 0);
		taken[failing] = free_pages - fs->alloc.free_pages;
		put_files();
	}
	assert_int_equal(taken[1], taken[0]);
}

#define writeback_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		writeback_test(tiny_contents_move_into_the_inode_and_out_of_it),
		writeback_test(a_large_write_takes_what_is_inline_along),
		writeback_test(pages_are_written_to_space_of_their_own),
		writeback_test(a_large_write_replaces_dirty_and_cached_pages),
		writeback_test(after_a_write_error_pages_are_dirty_still),
		writeback_test(a_page_that_is_whole_is_not_read_first),
		writeback_test(small_files_go_to_the_device_together),
		writeback_test(after_an_error_of_a_shared_transfer_all_of_it_is_dirty_still),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
