/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading contents: what comes from where (inode, cache, device, nowhere), what is kept, and what an error costs. (Shared reads:
 * test_split.c; pages ahead: test_ahead.c.)
 */
#include "rig.h"

#include "fs/fs.h"

#define PAGES 512u
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
	(void)state;
	data = rig_memory(BYTES, 5);
	found = rig_memory(BYTES, 0);
	rig_begin(&rig, 64 * G4_MIB, 16 * G4_MIB, NULL);
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

static void forget_pages(void)
{
	assert_int_equal(op_fsync(&rig, ino), 0);
	g4_write_lock(&inode->lock);
	g4_cache_drop_range(&fs->cache, inode->data_key, 0, UINT32_MAX);
	g4_write_unlock(&inode->lock);
}

static uint64_t absent(uint64_t page, uint64_t most)
{
	g4_read_lock(&inode->lock);
	const uint64_t pages = g4_pages_absent(wg, fs, inode, page, most);
	g4_read_unlock(&inode->lock);
	return pages;
}

static int read_at(uint64_t offset, uint64_t bytes, bool bypass, uint64_t *done)
{
	g4_read_lock(&inode->lock);
	const int rc = g4_file_read(wg, fs, index_, offset, found, bytes, bypass, done);
	g4_read_unlock(&inode->lock);
	return rc;
}

static void expect(uint64_t offset, uint64_t bytes, bool bypass)
{
	uint64_t done;

	memset(found, 0xaa, BYTES);
	assert_int_equal(read_at(offset, bytes, bypass, &done), 0);
	assert_int_equal(done, bytes);
	assert_memory_equal(found, data + offset, bytes);
}

static void tiny_files_are_read_from_the_inode(void **state)
{
	uint64_t done;

	(void)state;
	write_at(0, 100);
	forget_pages();
	assert_true(inode->disk.flags & G4_INODE_INLINE);
	expect(0, 100, false);
	expect(30, 40, true);
	assert_int_equal(read_at(90, 100, false, &done), 0);
	assert_int_equal(done, 10);
	assert_int_equal(read_at(100, 1, false, &done), 0);
	assert_int_equal(done, 0);
}

/* One fetch brings what one request may: the page that was asked for, and those of its run that the window wants. */
static void a_run_is_fetched_once(void **state)
{
	uint32_t line, pages;
	struct g4_run run;

	(void)state;
	write_at(0, BYTES / 4);
	forget_pages();
	assert_int_equal(absent(0, 128), 128);
	g4_read_lock(&inode->lock);
	assert_int_equal(g4_map_lookup(wg, fs, inode, 0, 20, &run), 0);
	assert_int_equal(run.pages, 20);
	assert_int_equal(g4_fill_run(wg, fs, inode, 0, &run, &line, &pages), 0);
	assert_int_equal(pages, 20);
	assert_memory_equal(g4_line_data(&fs->cache, line), data, G4_PAGE_BYTES);
	g4_cache_put(&fs->cache, line);
	/* again: it is there */
	assert_int_equal(g4_fill_run(wg, fs, inode, 0, &run, &line, &pages), 0);
	assert_int_equal(pages, 0);
	g4_cache_put(&fs->cache, line);
	g4_read_unlock(&inode->lock);
	assert_int_equal(absent(0, 128), 0);
	assert_int_equal(absent(20, 108), 108);
	expect(0, BYTES / 4, false);
}

/* Who keeps what it reads leaves the cache alone; what is there already counts all the same. */
static void a_bypassing_reader_keeps_nothing(void **state)
{
	(void)state;
	write_at(0, BYTES / 2);
	forget_pages();
	expect(0, 64 * G4_PAGE_BYTES, true);
	expect(100 * G4_PAGE_BYTES, G4_PAGE_BYTES, true);
	assert_int_equal(absent(0, 256), 256);
	write_at(7 * G4_PAGE_BYTES + 10, 20); /* dirty, newer than the device */
	memset(data + 7 * G4_PAGE_BYTES + 10, 0x55, 20);
	assert_int_equal(op_write(&rig, ino, 0, 7 * G4_PAGE_BYTES + 10, data + 7 * G4_PAGE_BYTES + 10, 20, NULL), 0);
	expect(0, 64 * G4_PAGE_BYTES, true);
	rig_pattern(data, 5, BYTES);
}

static void holes_and_unwritten_space_read_as_zeros_without_the_device(void **state)
{
	(void)state;
	write_at(0, G4_PAGE_BYTES);
	assert_int_equal(op_fallocate(&rig, ino, 0, 20 * G4_PAGE_BYTES, 20 * G4_PAGE_BYTES), 0);
	assert_int_equal(op_truncate(&rig, ino, 100 * G4_PAGE_BYTES), 0);
	forget_pages();
	memset(data + G4_PAGE_BYTES, 0, 99 * G4_PAGE_BYTES);
	/* whatever lies there: nobody sees what unwritten space was before */
	struct g4_run run;
	g4_read_lock(&inode->lock);
	assert_int_equal(g4_map_lookup(wg, fs, inode, 20, 20, &run), 0);
	g4_read_unlock(&inode->lock);
	assert_int_equal(run.kind, G4_UNWRITTEN);
	memset(rig.image + g4_address_stored(run.address), 0x77, run.pages * G4_PAGE_BYTES);
	expect(0, 100 * G4_PAGE_BYTES, false);
	expect(0, 100 * G4_PAGE_BYTES, true);
	assert_int_equal(absent(1, 99), 99);
	rig_pattern(data, 5, BYTES);
}

/* The map says hole, the cache has more. */
static void a_dirty_page_in_a_hole_is_seen(void **state)
{
	(void)state;
	assert_int_equal(op_truncate(&rig, ino, 20 * G4_PAGE_BYTES), 0);
	write_at(5 * G4_PAGE_BYTES, G4_PAGE_BYTES);
	assert_int_equal(inode->dirty_count, 1);
	memset(data, 0, 5 * G4_PAGE_BYTES);
	memset(data + 6 * G4_PAGE_BYTES, 0, 14 * G4_PAGE_BYTES);
	expect(0, 20 * G4_PAGE_BYTES, false);
	expect(0, 20 * G4_PAGE_BYTES, true);
	expect(G4_PAGE_BYTES + 10, 10 * G4_PAGE_BYTES, false);
	rig_pattern(data, 5, BYTES);
}

#define read_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		read_test(tiny_files_are_read_from_the_inode),
		read_test(a_run_is_fetched_once),
		read_test(a_bypassing_reader_keeps_nothing),
		read_test(holes_and_unwritten_space_read_as_zeros_without_the_device),
		read_test(a_dirty_page_in_a_hole_is_seen),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
