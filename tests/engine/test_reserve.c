/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Space reserved for what is dirty: nothing but the write itself tells that there is none, whatever happens to a file between that
 * and an fsync.
 */
#include "rig.h"

#include "fs/fs.h"

static struct rig rig;

static bool has_sums;

static int setup_with(uint32_t checksum)
{
	has_sums = checksum != G4_CHECKSUM_NONE;
	rig_open_as(&rig, checksum, RIG_AS_SET, 32 * G4_MIB, 0);
	rig_mount(&rig);
	return 0;
}

/* What is counted to the page is counted without sums. */
static int setup(void **state)
{
	(void)state;
	return setup_with(G4_CHECKSUM_NONE);
}

static int setup_sums(void **state)
{
	(void)state;
	return setup_with(G4_CHECKSUM_BLAKE3);
}

static int teardown(void **state)
{
	(void)state;
	rig_end_engine(&rig);
	return 0;
}

/* Mounts so that nothing is written back or committed until somebody asks, with a cache that holds many dirty pages. */
static void mount_quietly(void)
{
	const struct g4_fault no_fault = {0};

	if (rig.engine)
		assert_int_equal(rig_unmount(&rig), 0);
	rig.cache_bytes = 16 * G4_MIB;
	assert_int_equal(rig_try_mount(&rig, 0, &no_fault), 0);
}

/* What is offered of so many pages: with sums, what a file can be given of them from its beginning. */
static uint64_t offered(uint64_t pages)
{
	return has_sums ? pages - 1 - (pages - 1 + 128) / 129 : pages;
}

/* Space reserved for what is dirty. */
static uint64_t reserved_pages(void)
{
	struct g4_statfs space;
	uint64_t reserved = 0;

	assert_int_equal(op_statfs(&rig, &space), 0);
	assert_true(space.blocks_available > 0);
	const uint64_t most = space.blocks_free - (space.blocks / 256 + 32);
	while (offered(most - reserved) > space.blocks_available)
		reserved++;
	assert_int_equal(offered(most - reserved), space.blocks_available);
	return reserved;
}

/* Takes space until `left` pages are available, or, for 0, a write is refused. */
static void fill_up_to(uint64_t left)
{
	static uint8_t data[64 * 1024];
	struct g4_statfs space;
	uint64_t ino = rig_make(&rig, 999999), offset = 0;

	rig_pattern(data, 7, sizeof(data));
	for (;;) {
		assert_int_equal(op_sync(&rig), 0);
		assert_int_equal(op_statfs(&rig, &space), 0);
		if (space.blocks_available <= left)
			return;
		uint64_t bytes = g4_min64((space.blocks_available - left + 3) / 4 * G4_PAGE_BYTES, sizeof(data));
		int rc = op_write(&rig, ino, 0, offset, data, bytes, NULL);
		if (left == 0 && rc == -G4_E_NOSPC)
			return;
		assert_int_equal(rc, 0);
		offset += bytes;
	}
}

/* Takes what is kept back for metadata as well. Returns the number of symbolic links that did it. */
static uint32_t use_up_what_is_kept_back(void)
{
	char target[300], name[32];
	uint32_t count = 0;
	int rc = 0;

	memset(target, 't', sizeof(target));
	target[299] = 0;
	for (; rc == 0; count += rc == 0) {
		snprintf(name, sizeof(name), "l%u", count);
		rc = op_symlink(&rig, G4_NODE_ROOT, name, target, NULL);
	}
	assert_int_equal(rc, -G4_E_NOSPC);
	return count;
}

static void remove_all(char kind, uint32_t first, uint32_t count)
{
	char name[32];

	for (uint32_t k = first; k < first + count; k++) {
		snprintf(name, sizeof(name), "%c%u", kind, k);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, name), 0);
	}
}

/* Every page needs indirect pages of its own at four levels. */
static void sparse_writes_that_succeed_can_be_published(void **state)
{
	const uint64_t step = ((UINT64_C(1) << 36) + 1) * G4_PAGE_BYTES;
	uint64_t written = 0, value, ino;
	int rc = 0;

	(void)state;
	mount_quietly();
	ino = rig_make(&rig, 0);
	fill_up_to(3000);
	while ((rc = op_write(&rig, ino, 0, written * step, &written, sizeof(written), NULL)) == 0)
		written++;
	assert_int_equal(rc, -G4_E_NOSPC);
	assert_in_range(written, 3000 / 5 - 100, 3000 / 5);
	use_up_what_is_kept_back();
	assert_int_equal(op_fsync(&rig, ino), 0);
	assert_int_equal(rig_unmount(&rig), 0);
	rig_mount(&rig);
	for (uint64_t k = 0; k < written; k++) {
		assert_int_equal(op_read(&rig, ino, 0, k * step, &value, sizeof(value), NULL), 0);
		assert_int_equal(value, k);
	}
}

static void reservations_hold_whatever_else_changes_the_map(void **state)
{
	enum { FILES = 3, KNOWN = 200 };
	static uint8_t large[256 * 1024] __attribute__((aligned(4096)));
	/* one page at each height of the map, near others and far from them */
	const uint64_t bases[] = {
		0, 10, 1000, 8191, 8193, 500000, UINT64_C(1) << 22, UINT64_C(1) << 35, UINT64_C(1) << 49};
	const uint32_t base_count = sizeof(bases) / sizeof(bases[0]);
	uint64_t random = rig_setting("G4_SEED", 1), ino[FILES], refused = 0, accepted = 0;

	(void)state;
	mount_quietly();
	fill_up_to(400);
	for (uint32_t round = 0; round < (rig_slow() ? 30u : 150u); round++) {
		struct {
			uint64_t page, value;
		} known[FILES][KNOWN] = {0};
		uint32_t count[FILES] = {0};

		for (uint32_t f = 0; f < FILES; f++)
			ino[f] = rig_make(&rig, round * FILES + f);
		for (uint32_t step = 0; step < KNOWN; step++) {
			uint32_t f = (uint32_t)(rig_random(&random) % FILES);
			uint64_t page = bases[rig_random(&random) % base_count] + rig_random(&random) % 40, value;
			uint32_t what = (uint32_t)(rig_random(&random) % 20);
			int rc = 0;
			if (what == 0) {
				rc = op_fallocate(&rig, ino[f], G4_FALLOC_KEEP_SIZE, page * G4_PAGE_BYTES, 5000);
			} else if (what == 1) {
				rc = op_truncate(&rig, ino[f], (page + 1) * G4_PAGE_BYTES);
				for (uint32_t k = 0; k < count[f]; k++)
					known[f][k].value = known[f][k].page > page ? 0 : known[f][k].value;
			} else if (what == 2) {
				rc = op_write(&rig, ino[f], 0, (page + 50) * G4_PAGE_BYTES, large, sizeof(large), NULL);
			} else if (what == 3) {
				rc = op_fallocate(&rig, ino[f], G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE,
						  page * G4_PAGE_BYTES, G4_PAGE_BYTES);
				for (uint32_t k = 0; k < count[f] && rc == 0; k++)
					known[f][k].value = known[f][k].page == page ? 0 : known[f][k].value;
			} else if (what == 4) {
				assert_int_equal(op_fsync(&rig, ino[f]), 0);
			} else {
				value = rig_random(&random);
				rc = op_write(&rig, ino[f], 0, page * G4_PAGE_BYTES, &value, sizeof(value), NULL);
				if (rc == 0) {
					for (uint32_t k = 0; k < count[f]; k++)
						if (known[f][k].page == page)
							known[f][k] = known[f][--count[f]];
					known[f][count[f]].page = page;
					known[f][count[f]++].value = value;
				}
			}
			assert_true(rc == 0 || rc == -G4_E_NOSPC);
			refused += rc != 0;
			accepted += rc == 0;
		}
		uint32_t links = use_up_what_is_kept_back();
		for (uint32_t f = 0; f < FILES; f++) {
			assert_int_equal(op_fsync(&rig, ino[f]), 0);
			for (uint32_t k = 0; k < count[f]; k++) {
				uint64_t value = 0, at = known[f][k].page * G4_PAGE_BYTES;
				assert_int_equal(op_read(&rig, ino[f], 0, at, &value, sizeof(value), NULL), 0);
				assert_int_equal(value, known[f][k].value);
			}
		}
		remove_all('f', round * FILES, FILES);
		remove_all('l', 0, links);
		assert_int_equal(op_sync(&rig), 0);
		assert_int_equal(reserved_pages(), 0);
	}
	assert_true(accepted > 1000);
	assert_true(refused > 100);
}

/* A dirty page at the start of an empty map that then becomes as high as it gets, in three ways; all space is gone. */
static void a_dirty_page_has_its_space_when_the_map_grows_above_it(void **state)
{
	enum { WAYS = 3 };
	static uint8_t large[256 * 1024] __attribute__((aligned(4096)));
	const uint64_t far = UINT64_C(1) << 61;
	uint64_t ino[WAYS], value = 0;

	(void)state;
	mount_quietly();
	for (uint64_t k = 0; k < WAYS; k++) {
		ino[k] = rig_make(&rig, (uint32_t)k);
		value = k + 1;
		assert_int_equal(op_write(&rig, ino[k], 0, 0, &value, sizeof(value), NULL), 0);
	}
	assert_int_equal(op_write(&rig, ino[0], 0, far, &value, sizeof(value), NULL), 0);
	assert_int_equal(op_write(&rig, ino[1], 0, far, large, sizeof(large), NULL), 0);
	assert_int_equal(op_fallocate(&rig, ino[2], G4_FALLOC_KEEP_SIZE, far, 1), 0);
	use_up_what_is_kept_back();
	for (uint64_t k = 0; k < WAYS; k++)
		assert_int_equal(op_fsync(&rig, ino[k]), 0);
	assert_int_equal(rig_unmount(&rig), 0);
	rig_mount(&rig);
	for (uint64_t k = 0; k < WAYS; k++) {
		assert_int_equal(op_read(&rig, ino[k], 0, 0, &value, sizeof(value), NULL), 0);
		assert_int_equal(value, k + 1);
	}
}

static void a_dropped_page_gives_its_reservation_back(void **state)
{
	const uint64_t far = UINT64_C(1) << 61;
	uint64_t ino, one = 1;

	(void)state;
	mount_quietly();
	ino = rig_make(&rig, 0);
	assert_int_equal(op_write(&rig, ino, 0, 5 * G4_PAGE_BYTES, &one, sizeof(one), NULL), 0);
	assert_int_equal(reserved_pages(), 1);
	assert_int_equal(op_write(&rig, ino, 0, far, &one, sizeof(one), NULL), 0);
	assert_int_equal(reserved_pages(), 1 + 6 + 1 + 6); /* the page, its path, and the chain above the first one */
	assert_int_equal(op_truncate(&rig, ino, far), 0);
	assert_int_equal(reserved_pages(), 1 + 6); /* the chain, as long as anything is dirty */
	assert_int_equal(op_fsync(&rig, ino), 0);
	assert_int_equal(reserved_pages(), 0);
	assert_int_equal(op_write(&rig, ino, 0, far, &one, sizeof(one), NULL), 0);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f0"), 0);
	assert_int_equal(reserved_pages(), 0);
}

static void allocated_space_can_be_written_on_a_full_device(void **state)
{
	enum { PAGES = 200 };
	static uint8_t data[PAGES * G4_PAGE_BYTES] __attribute__((aligned(4096))), back[sizeof(data)];
	uint64_t ino, half, done;
	struct g4_attr attr;

	(void)state;
	mount_quietly();
	ino = rig_make(&rig, 0);
	half = rig_make(&rig, 1);
	assert_int_equal(op_fallocate(&rig, ino, 0, 0, sizeof(data)), 0);
	assert_int_equal(op_fallocate(&rig, half, G4_FALLOC_KEEP_SIZE, 0, sizeof(data) / 2), 0);
	fill_up_to(0);
	use_up_what_is_kept_back();
	rig_pattern(data, 3, sizeof(data));
	for (uint32_t k = 0; k < PAGES / 2; k++) /* by the page, then past the cache */
		assert_int_equal(
			op_write(&rig, ino, 0, k * G4_PAGE_BYTES, data + k * G4_PAGE_BYTES, G4_PAGE_BYTES, NULL), 0);
	assert_int_equal(op_write(&rig, ino, 0, sizeof(data) / 2, data + sizeof(data) / 2, sizeof(data) / 2, &done), 0);
	assert_int_equal(done, sizeof(data) / 2);
	assert_int_equal(op_fsync(&rig, ino), 0);
	assert_int_equal(op_read(&rig, ino, 0, 0, back, sizeof(back), &done), 0);
	assert_int_equal(done, sizeof(back));
	assert_memory_equal(back, data, sizeof(data));
	/* where the space ends, the write tells how far it came */
	assert_int_equal(op_write(&rig, half, 0, 0, data, sizeof(data), &done), 0);
	assert_int_equal(done, sizeof(data) / 2);
	assert_int_equal(op_getattr(&rig, half, &attr), 0);
	assert_int_equal(attr.size, sizeof(data) / 2);
	assert_int_equal(op_write(&rig, half, 0, done, data, sizeof(data), &done), -G4_E_NOSPC);
}

/* A file that was allocated before it was to have sums: there may be no space for them, and the write itself tells it. */
static void sums_that_come_later_need_space(void **state)
{
	enum { PAGES = 200 };
	static uint8_t data[PAGES * G4_PAGE_BYTES] __attribute__((aligned(4096)));
	uint64_t late, again, few, done;

	(void)state;
	mount_quietly();
	late = rig_make(&rig, 0);
	again = rig_make(&rig, 1);
	few = rig_make(&rig, 2);
	const uint64_t files[] = {late, again, few};
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(op_setxattr(&rig, files[i], "gpu4fs.checksum", "none", 4, 0), 0);
		assert_int_equal(op_fallocate(&rig, files[i], 0, 0, i == 2 ? 5 * G4_PAGE_BYTES : sizeof(data)), 0);
		assert_int_equal(op_setxattr(&rig, files[i], "gpu4fs.checksum", "blake3", 6, 0), 0);
	}
	/* asked once more, it gets what its sums need */
	assert_int_equal(op_fallocate(&rig, again, 0, 0, sizeof(data)), 0);
	fill_up_to(0);
	use_up_what_is_kept_back();
	rig_pattern(data, 4, sizeof(data));
	assert_int_equal(op_write(&rig, late, 0, 0, data, G4_PAGE_BYTES, NULL), -G4_E_NOSPC);
	assert_int_equal(op_write(&rig, late, 0, 0, data, sizeof(data), NULL), -G4_E_NOSPC);
	assert_int_equal(op_write(&rig, few, 0, 0, data, G4_PAGE_BYTES, NULL), -G4_E_NOSPC);
	assert_int_equal(op_write(&rig, again, 0, 0, data, sizeof(data), &done), 0);
	assert_int_equal(done, sizeof(data));
	assert_int_equal(op_sync(&rig), 0);
}

/* Few pages, whose sums lie in the inode or in a block, and those that come when the map becomes higher. */
static void small_allocations_can_be_written_on_a_full_device(void **state)
{
	static const uint32_t pages[] = {1, 3, 4, 16, 17};
	static uint8_t data[17 * G4_PAGE_BYTES] __attribute__((aligned(4096))), back[sizeof(data)];
	uint64_t files[2 * 5], done;

	(void)state;
	mount_quietly();
	rig_pattern(data, 5, sizeof(data));
	for (uint32_t i = 0; i < 10; i++) {
		files[i] = rig_make(&rig, i);
		if (i >= 5) /* something is there */
			assert_int_equal(op_write(&rig, files[i], 0, 0, data, G4_PAGE_BYTES, NULL), 0);
		assert_int_equal(op_fsync(&rig, files[i]), 0);
		assert_int_equal(op_fallocate(&rig, files[i], 0, 0, pages[i % 5] * G4_PAGE_BYTES), 0);
	}
	fill_up_to(0);
	use_up_what_is_kept_back();
	for (uint32_t i = 0; i < 10; i++) {
		for (uint32_t k = i >= 5; k < pages[i % 5]; k++)
			assert_int_equal(op_write(&rig, files[i], 0, k * G4_PAGE_BYTES, data + k * G4_PAGE_BYTES,
						  G4_PAGE_BYTES, NULL),
					 0);
		assert_int_equal(op_fsync(&rig, files[i]), 0);
	}
	assert_int_equal(rig_unmount(&rig), 0);
	rig_mount(&rig);
	for (uint32_t i = 0; i < 10; i++) {
		assert_int_equal(op_read(&rig, files[i], 0, 0, back, sizeof(back), &done), 0);
		assert_int_equal(done, pages[i % 5] * G4_PAGE_BYTES);
		assert_memory_equal(back, data, done);
	}
}

/* The space that is left would be enough for the pages, and not for their sums: nothing changes, not even how high the map is. */
static void an_allocation_is_all_or_nothing(void **state)
{
	static const uint64_t offsets[] = {0, 1000, UINT64_C(1) << 31}; /* pages */
	struct g4_statfs before, after;
	struct g4_attr had, has;

	(void)state;
	mount_quietly();
	for (uint32_t i = 0; i < 6; i++) { /* without contents, and with some */
		const uint64_t at = offsets[i % 3] * G4_PAGE_BYTES, ino = rig_make(&rig, i);
		if (i >= 3)
			assert_int_equal(op_write(&rig, ino, 0, 0, "contents", 8, NULL), 0);
		if (i >= 3)
			assert_int_equal(op_truncate(&rig, ino, G4_PAGE_BYTES), 0);
		assert_int_equal(op_sync(&rig), 0);
		assert_int_equal(op_statfs(&rig, &before), 0);
		assert_int_equal(op_getattr(&rig, ino, &had), 0);
		const uint64_t most = before.blocks_available; /* without their sums */
		assert_int_equal(op_fallocate(&rig, ino, 0, at, (most + 8) * G4_PAGE_BYTES), -G4_E_NOSPC);
		assert_int_equal(op_sync(&rig), 0);
		assert_int_equal(op_statfs(&rig, &after), 0);
		assert_int_equal(op_getattr(&rig, ino, &has), 0);
		assert_int_equal(after.blocks_free, before.blocks_free);
		assert_int_equal(after.blocks_available, before.blocks_available);
		assert_int_equal(has.blocks_512, had.blocks_512);
		assert_int_equal(has.size, had.size);
		/* not even what maps it later */
		assert_int_equal(op_write(&rig, ino, 0, 3 * G4_PAGE_BYTES, "more", 4, NULL), 0);
		assert_int_equal(op_sync(&rig), 0);
		assert_int_equal(op_getattr(&rig, ino, &has), 0);
		assert_int_equal(has.blocks_512 - had.blocks_512, 8);
		/* a little less is possible */
		assert_int_equal(op_fallocate(&rig, ino, 0, at, (most - 24) * G4_PAGE_BYTES), 0);
		assert_int_equal(op_truncate(&rig, ino, 0), 0);
	}
}

#define reserve_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
#define reserve_test_sums(f) cmocka_unit_test_setup_teardown(f, setup_sums, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		reserve_test(sparse_writes_that_succeed_can_be_published),
		reserve_test(reservations_hold_whatever_else_changes_the_map),
		reserve_test(a_dirty_page_has_its_space_when_the_map_grows_above_it),
		reserve_test(a_dropped_page_gives_its_reservation_back),
		reserve_test(allocated_space_can_be_written_on_a_full_device),
		reserve_test_sums(allocated_space_can_be_written_on_a_full_device),
		reserve_test_sums(sums_that_come_later_need_space),
		reserve_test(small_allocations_can_be_written_on_a_full_device),
		reserve_test_sums(small_allocations_can_be_written_on_a_full_device),
		reserve_test_sums(an_allocation_is_all_or_nothing),
		reserve_test_sums(reservations_hold_whatever_else_changes_the_map),
		reserve_test_sums(a_dirty_page_has_its_space_when_the_map_grows_above_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
