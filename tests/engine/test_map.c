/* SPDX-License-Identifier: Apache-2.0 */
/* File mappings: sparse up to the largest offset, 2 MiB pages made and taken apart, truncation in pieces. */
#include "rig.h"

#include "fs/fs.h"

#define REGION (2 * G4_MIB)

static struct rig rig;
static uint64_t ino;
static uint8_t *data, *other; /* 4 MiB each, page-aligned */

static int setup_with(uint32_t checksum)
{
	rig_open_as(&rig, checksum, RIG_AS_SET, 64 * G4_MIB, 0);
	rig_mount(&rig);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "f", G4_S_IFREG | 0600, &ino), 0);
	data = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, 2 * REGION);
	other = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, 2 * REGION);
	assert_non_null(data);
	assert_non_null(other);
	return 0;
}

static int setup(void **state)
{
	(void)state;
	return setup_with(G4_CHECKSUM_BLAKE3);
}

/* What files of large pages take is counted without pages of sums; tests/engine/test_sums_large.c counts those. */
static int setup_without(void **state)
{
	(void)state;
	return setup_with(G4_CHECKSUM_NONE);
}

static int teardown(void **state)
{
	struct g4_statfs statfs;

	(void)state;
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_statfs(&rig, &statfs), 0);
	assert_int_equal(rig_unmount(&rig), 0);
	rig_expect_clean(&rig, statfs.blocks_free, "at the end");
	rig_close(&rig);
	free(data);
	free(other);
	return 0;
}

static void remount(void)
{
	assert_int_equal(rig_unmount(&rig), 0);
	rig_expect_clean(&rig, RIG_ANY_FREE, "between mounts");
	rig_mount(&rig);
}

static uint64_t pages_of_file(void)
{
	struct g4_attr attr;

	assert_int_equal(op_fsync(&rig, ino), 0);
	assert_int_equal(op_getattr(&rig, ino, &attr), 0);
	return attr.blocks_512 / 8;
}

static void write_at(uint64_t offset, uint64_t bytes, uint64_t seed)
{
	uint64_t done;

	rig_pattern(data, seed, bytes);
	assert_int_equal(op_write(&rig, ino, 0, offset, data, bytes, &done), 0);
	assert_int_equal(done, bytes);
}

/* seed 0: zeros */
static void expect_at(uint64_t offset, uint64_t bytes, uint64_t seed)
{
	uint64_t done;

	memset(data, 0, bytes);
	if (seed)
		rig_pattern(data, seed, bytes);
	assert_int_equal(op_read(&rig, ino, 0, offset, other, bytes, &done), 0);
	assert_int_equal(done, bytes);
	assert_memory_equal(data, other, bytes);
}

static void sparse_files_reach_the_largest_offset(void **state)
{
	const uint64_t end = G4_FILE_MAX_BYTES;
	uint64_t done, found;

	(void)state;
	for (uint32_t bit = 13; bit < 62; bit++) {
		write_at((UINT64_C(1) << bit) - 50, 100, bit);
		if (bit % 9 == 0)
			remount();
	}
	write_at(end - 100, 100, 100);
	rig_pattern(data, 1, 100);
	assert_int_equal(op_write(&rig, ino, 0, end - 10, data, 100, &done), 0); /* as much as there may be */
	assert_int_equal(done, 10);
	assert_int_equal(op_write(&rig, ino, 0, end, data, 1, &done), -G4_E_FBIG);
	assert_int_equal(op_truncate(&rig, ino, end + 1), -G4_E_FBIG);
	write_at(end - 100, 100, 100);
	remount();
	for (uint32_t bit = 13; bit < 62; bit++) {
		expect_at((UINT64_C(1) << bit) - 50, 100, bit);
		expect_at((UINT64_C(1) << bit) + 10000, 100, 0);
		assert_int_equal(op_seek(&rig, ino, (UINT64_C(1) << bit) + 100, G4_SEEK_HOLE, &found), 0);
		assert_true(found <= (UINT64_C(1) << bit) + 16384);
	}
	expect_at(end - 100, 100, 100);
	/* from the top down, a piece at a time */
	for (uint32_t bit = 61; bit >= 13; bit--) {
		assert_int_equal(op_truncate(&rig, ino, (UINT64_C(1) << bit) + 20), 0);
		expect_at((UINT64_C(1) << bit) - 50, 70, bit);
		if (bit % 11 == 0)
			remount();
	}
	assert_int_equal(op_truncate(&rig, ino, 0), 0);
	assert_int_equal(pages_of_file(), 0);
}

static void aligned_writes_become_2_mib_pages_and_part_again(void **state)
{
	(void)state;
	write_at(0, 2 * REGION, 1);
	assert_int_equal(pages_of_file(), 1024); /* no page of the map */
	expect_at(0, 2 * REGION, 1);
	remount();
	expect_at(0, 2 * REGION, 1);
	write_at(100 * G4_PAGE_BYTES, G4_PAGE_BYTES, 2);
	assert_int_equal(pages_of_file(), 1025);
	expect_at(100 * G4_PAGE_BYTES, G4_PAGE_BYTES, 2);
	remount();
	rig_pattern(data, 1, 2 * REGION);
	rig_pattern(data + 100 * G4_PAGE_BYTES, 2, G4_PAGE_BYTES);
	uint64_t done;
	assert_int_equal(op_read(&rig, ino, 0, 0, other, 2 * REGION, &done), 0);
	assert_memory_equal(data, other, 2 * REGION);
	/* written as a whole it is one page again */
	write_at(0, REGION, 3);
	assert_int_equal(pages_of_file(), 1024);
	expect_at(0, REGION, 3);
}

static void a_hole_in_a_2_mib_page_frees_just_the_hole(void **state)
{
	const uint32_t mode = G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE;
	uint64_t done;

	(void)state;
	write_at(0, 2 * REGION, 1);
	assert_int_equal(op_fallocate(&rig, ino, mode, 50 * G4_PAGE_BYTES + 100, 20 * G4_PAGE_BYTES), 0);
	assert_int_equal(pages_of_file(), 1024 - 19 + 1);
	rig_pattern(data, 1, 2 * REGION);
	memset(data + 50 * G4_PAGE_BYTES + 100, 0, 20 * G4_PAGE_BYTES);
	remount();
	assert_int_equal(op_read(&rig, ino, 0, 0, other, 2 * REGION, &done), 0);
	assert_memory_equal(data, other, 2 * REGION);
	assert_int_equal(op_fallocate(&rig, ino, mode, 0, REGION), 0);
	assert_int_equal(pages_of_file(), 512);
	expect_at(0, REGION, 0);
	assert_int_equal(op_truncate(&rig, ino, REGION + 5 * G4_PAGE_BYTES + 7), 0);
	assert_int_equal(pages_of_file(), 6 + 1);
	rig_pattern(data, 1, 2 * REGION);
	assert_int_equal(op_read(&rig, ino, 0, REGION, other, REGION, &done), 0);
	assert_int_equal(done, 5 * G4_PAGE_BYTES + 7);
	assert_memory_equal(data + REGION, other, done);
}

static void unwritten_space_reads_as_zeros_and_is_written_in_place(void **state)
{
	(void)state;
	assert_int_equal(op_fallocate(&rig, ino, 0, 0, REGION + 100), 0);
	uint64_t pages = pages_of_file();
	assert_true(pages >= 513);
	expect_at(0, REGION + 100, 0);
	for (uint64_t page = 0; page < 512; page += 7)
		write_at(page * G4_PAGE_BYTES, G4_PAGE_BYTES, page + 1);
	assert_int_equal(pages_of_file(), pages);
	remount();
	for (uint64_t page = 0; page < 512; page++)
		expect_at(page * G4_PAGE_BYTES, G4_PAGE_BYTES, page % 7 == 0 ? page + 1 : 0);
}

/* Every second page, so that each is a run of its own; more than fits one transaction of a small journal. */
static void a_fragmented_file_is_cut_in_pieces(void **state)
{
	const uint64_t pages = rig_slow() ? 2400 : 6000;
	struct g4_statfs before, after;

	(void)state;
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_statfs(&rig, &before), 0);
	for (uint64_t page = 0; page < pages; page += 2)
		write_at(page * G4_PAGE_BYTES, G4_PAGE_BYTES, page + 1);
	for (uint64_t left = pages; left > pages / 4; left = left * 3 / 4) {
		assert_int_equal(op_truncate(&rig, ino, left * G4_PAGE_BYTES - 100), 0);
		expect_at((left / 2 & ~UINT64_C(1)) * G4_PAGE_BYTES, G4_PAGE_BYTES, (left / 2 & ~UINT64_C(1)) + 1);
	}
	remount();
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f"), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_statfs(&rig, &after), 0);
	assert_true(after.blocks_free >= before.blocks_free);
}

/* 60 values of 64 KiB: their pages do not fit one transaction. */
static void a_file_with_many_large_attributes_is_removed(void **state)
{
	struct g4_statfs before, after;

	(void)state;
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_statfs(&rig, &before), 0);
	for (uint32_t k = 0; k < 60; k++) {
		char name[32];
		snprintf(name, sizeof(name), "user.%u", k);
		rig_pattern(data, k + 1, 65536);
		assert_int_equal(op_setxattr(&rig, ino, name, data, 65536, 0), 0);
	}
	remount();
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f"), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_statfs(&rig, &after), 0);
	assert_true(after.blocks_free >= before.blocks_free);
}

#define map_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
#define map_test_without(f) cmocka_unit_test_setup_teardown(f, setup_without, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		map_test(sparse_files_reach_the_largest_offset),
		map_test_without(aligned_writes_become_2_mib_pages_and_part_again),
		map_test_without(a_hole_in_a_2_mib_page_frees_just_the_hole),
		map_test(unwritten_space_reads_as_zeros_and_is_written_in_place),
		map_test(a_fragmented_file_is_cut_in_pieces),
		map_test(a_file_with_many_large_attributes_is_removed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
