/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device whose sectors have 4 KiB wants requests and memory aligned to that, where most are content with 512 B. Large transfers
 * past the cache look at their memory: what is not aligned for this device goes through the cache.
 */
#include "rig.h"

#include "dev/dev_types.h"
#include "fs/fs.h"

#define PAGES 256u
#define BYTES (PAGES * G4_PAGE_BYTES)

static struct rig rig;
static struct g4_wg *wg;
static struct g4_fs *fs;
static struct g4_inode_core *inode;
static uint32_t index_;
static uint64_t ino;
static uint8_t *data, *found; /* with a page more, to begin anywhere in the first */

static int setup(void **state)
{
	(void)state;
	data = rig_memory(BYTES + G4_PAGE_BYTES, 8);
	found = rig_memory(BYTES + G4_PAGE_BYTES, 0);
	rig_begin(&rig, 64 * G4_MIB, 16 * G4_MIB, NULL);
	rig.dev->props.sector_bytes = 4096;
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

static void forget_pages(void)
{
	assert_int_equal(op_fsync(&rig, ino), 0);
	g4_write_lock(&inode->lock);
	g4_cache_drop_range(&fs->cache, inode->data_key, 0, UINT32_MAX);
	g4_write_unlock(&inode->lock);
}

/* A whole file written from memory that begins `from` bytes into a page and read to memory that begins `to` bytes into one. */
static void move(uint64_t from, uint64_t to, bool bypass)
{
	uint64_t done;

	assert_int_equal(op_write(&rig, ino, 0, 0, data + from, BYTES, NULL), 0);
	forget_pages();
	memset(found, 0xaa, BYTES + G4_PAGE_BYTES);
	g4_read_lock(&inode->lock);
	const int rc = g4_file_read(wg, fs, index_, 0, found + to, BYTES, bypass, &done);
	g4_read_unlock(&inode->lock);
	assert_int_equal(rc, 0);
	assert_int_equal(done, BYTES);
	assert_memory_equal(found + to, data + from, BYTES);
	forget_pages();
}

static void memory_that_is_aligned_to_pages_is_used_in_place(void **state)
{
	(void)state;
	move(0, 0, false);
	move(0, 0, true);
}

static void memory_that_is_aligned_to_less_than_a_sector_is_written(void **state)
{
	(void)state;
	move(512, 0, false);
	move(2048, 0, false);
}

static void memory_that_is_aligned_to_less_than_a_sector_is_read_into(void **state)
{
	(void)state;
	move(0, 512, false);
	move(0, 2048, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(memory_that_is_aligned_to_pages_is_used_in_place, setup, teardown),
		cmocka_unit_test_setup_teardown(memory_that_is_aligned_to_less_than_a_sector_is_written, setup,
						teardown),
		cmocka_unit_test_setup_teardown(memory_that_is_aligned_to_less_than_a_sector_is_read_into, setup,
						teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
