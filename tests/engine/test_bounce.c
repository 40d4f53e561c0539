/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large writes past the cache of files with sums, on devices that are not memory: they go through the engine's bounce buffers, and what
 * is hashed is what is stored, whatever the caller does with its memory meanwhile. So it is where pages are looked for before they are
 * stored (data/bounce_stage.c).
 */
#include "rig.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "data/bounce_stage.h"
#include "data/file.h"
#include "data/reserve.h"
#include "dev/agent_host.h"
#include "dev/dev_types.h"
#include "fs/fs.h"
#include "fs/mount_host.h"
#include "simt/simt_host.h"

#define DEVICE_BYTES (64 * G4_MIB)
#define FILE_BYTES (6 * G4_MIB)
#define DIRECT (256 * G4_KIB) /* what goes past the cache at least */
#define WRITERS 12u	      /* more than there are buffers for */

static struct rig rig;
static uint8_t *data, *buffer; /* what the file holds, and room for it */
static uint64_t ino;

/* ------------------------------------------------------------------ the file system */

static void mount(const struct g4_fault *fault)
{
	rig.fs = rig_mount_fs(&rig, rig.wg, fault);
	assert_false(g4_space_is_mapped(&rig.fs->space));
}

static void expect_no_buffer_used(void)
{
	for (uint32_t word = 0; word < G4_BOUNCE_BUFFERS_MOST / 32; word++)
		assert_int_equal(rig.fs->bounce.used[word], 0);
}

static void unmount(void)
{
	struct g4_statfs statfs;

	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_statfs(&rig, &statfs), 0);
	expect_no_buffer_used();
	assert_int_equal(rig.fs->alloc.reserved, 0);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig_expect_clean(&rig, statfs.blocks_free, "at the end");
}

static void begin(uint64_t bytes, uint32_t algorithm)
{
	rig_open_as(&rig, algorithm, RIG_AS_SET, bytes, 0);
	memmove(rig.name, rig.name + strlen("dax:"), strlen(rig.name) - strlen("dax:") + 1); /* a file, not memory */
	rig.wg = g4_wg_create(0);
	assert_non_null(rig.wg);
	mount(NULL);
	data = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, FILE_BYTES + G4_PAGE_BYTES);
	buffer = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, FILE_BYTES + G4_PAGE_BYTES);
	memset(data, 0, FILE_BYTES);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "f", G4_S_IFREG | 0600, &ino), 0);
}

static int setup(void **state)
{
	(void)state;
	begin(DEVICE_BYTES, G4_CHECKSUM_BLAKE3);
	return 0;
}

static int setup_dedup(void **state)
{
	setenv("G4_TEST_DEDUP", "1", 1);
	const int rc = setup(state);
	unsetenv("G4_TEST_DEDUP");
	return rc;
}

static int setup_xxh3(void **state)
{
	(void)state;
	begin(DEVICE_BYTES, G4_CHECKSUM_CRC32C);
	return 0;
}

static int setup_small(void **state)
{
	(void)state;
	begin(16 * G4_MIB, G4_CHECKSUM_BLAKE3);
	return 0;
}

static int setup_small_dedup(void **state)
{
	setenv("G4_TEST_DEDUP", "1", 1);
	const int rc = setup_small(state);
	unsetenv("G4_TEST_DEDUP");
	return rc;
}

/* Whose pages are compared before they are shared. */
static int setup_xxh3_dedup(void **state)
{
	setenv("G4_TEST_DEDUP", "1", 1);
	const int rc = setup_xxh3(state);
	unsetenv("G4_TEST_DEDUP");
	return rc;
}

static int teardown(void **state)
{
	(void)state;
	unmount();
	g4_wg_destroy(rig.wg);
	rig_close(&rig);
	free(data);
	free(buffer);
	return 0;
}

static void expect(uint64_t node, const uint8_t *wanted, uint64_t bytes)
{
	uint8_t *found = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, g4_align_up(bytes, G4_PAGE_BYTES));
	uint64_t done;

	for (uint64_t at = 0; at < bytes; at += done) {
		assert_int_equal(op_read(&rig, node, 0, at, found + at, bytes - at, &done), 0);
		assert_true(done > 0);
	}
	assert_memory_equal(found, wanted, bytes);
	free(found);
	assert_int_equal(rig.fs->damaged_pages, 0);
}

/* Read from the device, too. */
static void judge(uint64_t size)
{
	expect(ino, data, size);
	unmount();
	mount(NULL);
	expect(ino, data, size);
}

/* ------------------------------------------------------------------ contents and sums */

static void they_leave_nothing_in_the_cache(void **state)
{
	(void)state;
	rig_pattern(data, 1, FILE_BYTES);
	assert_int_equal(op_write(&rig, ino, 0, 0, data, FILE_BYTES, NULL), 0);
	assert_int_equal(rig.fs->dirty_pages, 0);
	assert_int_equal(op_write(&rig, ino, 0, 4096, data + 4096, DIRECT, NULL), 0);
	assert_int_equal(rig.fs->dirty_pages, 0);
	judge(FILE_BYTES);
}

static void every_page_has_its_sum(void **state)
{
	(void)state;
	rig_pattern(data, 2, FILE_BYTES);
	assert_int_equal(op_write(&rig, ino, 0, 0, data, FILE_BYTES, NULL), 0);
	judge(FILE_BYTES);
	for (uint64_t page = 0; page < FILE_BYTES / G4_PAGE_BYTES; page += rig_slow() ? 61 : 7) {
		uint8_t *byte = rig.image + rig_place(&rig, ino, page) + page % G4_PAGE_BYTES;
		*byte ^= 4;
		assert_int_equal(op_read(&rig, ino, 0, page * G4_PAGE_BYTES, buffer, 4096, NULL), -G4_E_DATA);
		*byte ^= 4;
	}
	rig.fs->damaged_pages = 0;
}

static void any_part_can_be_written(void **state)
{
	static const uint64_t offsets[] = {0, 1, 4096, DIRECT - 4096, 2 * G4_MIB - 8192, 3 * G4_MIB + 77};
	static const uint64_t lengths[] = {DIRECT, DIRECT + 4095, 2 * DIRECT + 4096, 5 * DIRECT, 2 * G4_MIB + 4096};
	uint64_t seed = 10, size = 0;

	(void)state;
	for (uint32_t o = 0; o < sizeof(offsets) / sizeof(offsets[0]); o++) {
		for (uint32_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
			const uint64_t at = offsets[o], bytes = lengths[l];
			/* memory is aligned as the file is; now and then it is not */
			uint8_t *from = buffer + (l == 3 ? 8 : at % G4_PAGE_BYTES);
			rig_pattern(from, seed++, bytes);
			memcpy(data + at, from, bytes);
			assert_int_equal(op_write(&rig, ino, 0, at, from, bytes, NULL), 0);
			size = g4_max64(size, at + bytes);
			expect(ino, data, size);
		}
		if (o == 2) { /* into space that is there and was never written, and over holes */
			assert_int_equal(op_truncate(&rig, ino, 0), 0);
			assert_int_equal(op_fallocate(&rig, ino, 0, DIRECT, 2 * G4_MIB), 0);
			memset(data, 0, FILE_BYTES);
			size = DIRECT + 2 * G4_MIB;
		}
	}
	judge(size);
}

/* Each page of the file lies elsewhere: a buffer has parts, and more of them than it can have. */
static void space_in_pieces(void **state)
{
	const uint64_t pages = FILE_BYTES / G4_PAGE_BYTES;
	uint64_t other;
	struct g4_statfs space;

	(void)state;
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "other", G4_S_IFREG | 0600, &other), 0);
	assert_int_equal(op_setxattr(&rig, other, "gpu4fs.checksum", "none", 4, 0), 0);
	assert_int_equal(op_statfs(&rig, &space), 0);
	assert_int_equal(op_fallocate(&rig, other, 0, 0, (space.blocks_available - 64) * G4_PAGE_BYTES), 0);
	for (uint64_t page = 0; page < 2 * pages; page += 2)
		assert_int_equal(op_fallocate(&rig, other, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE,
					      page * G4_PAGE_BYTES, G4_PAGE_BYTES),
				 0);
	assert_int_equal(op_sync(&rig), 0);
	rig_pattern(data, 5, FILE_BYTES);
	uint64_t done = 0, n;
	for (; done < FILE_BYTES / 2; done += n)
		assert_int_equal(op_write(&rig, ino, 0, done, data + done, FILE_BYTES / 2 - done, &n), 0);
	uint64_t apart = 0;
	for (uint64_t page = 1; page < pages / 2; page++)
		apart += rig_place(&rig, ino, page) != rig_place(&rig, ino, page - 1) + G4_PAGE_BYTES;
	assert_true(apart > pages / 4);
	judge(FILE_BYTES / 2);
}

/* New pages of 2 MiB become one pointer, and so do those that another file has; one of them that has gone is another page of it. */
static void large_pages_are_found_as_a_whole(void **state)
{
	struct g4_run run;
	uint64_t other;

	(void)state;
	rig_pattern(data, 13, FILE_BYTES);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "other", G4_S_IFREG | 0600, &other), 0);
	assert_int_equal(op_write(&rig, other, 0, 0, data, FILE_BYTES, NULL), 0);
	rig_pattern(buffer, 14, G4_PAGE_BYTES);
	memcpy(data + G4_REGION_BYTES, buffer, G4_PAGE_BYTES); /* one of the second 2 MiB is new */
	assert_int_equal(op_write(&rig, ino, 0, 0, data, FILE_BYTES, NULL), 0);
	for (uint64_t page = 0; page < FILE_BYTES / G4_PAGE_BYTES; page += G4_REGION_PAGES) {
		rig_run_at(&rig, other, page, &run);
		assert_int_equal(run.level, 1);
		rig_run_at(&rig, ino, page, &run);
		assert_int_equal(run.level, page != G4_REGION_PAGES);
	}
	for (uint64_t page = 0; page < FILE_BYTES / G4_PAGE_BYTES; page++)
		assert_int_equal(rig_place(&rig, ino, page) == rig_place(&rig, other, page), page != G4_REGION_PAGES);
	judge(FILE_BYTES);
}

/* Pages that another file has, pages of zeros, and pages that are like one of this write, each beside new ones: more parts than a buffer has. */
static void pages_that_are_there_beside_new_ones(void **state)
{
	const uint64_t pages = FILE_BYTES / G4_PAGE_BYTES;
	uint64_t other;
	struct g4_run run;

	(void)state;
	rig_pattern(data, 11, FILE_BYTES);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "other", G4_S_IFREG | 0600, &other), 0);
	assert_int_equal(op_write(&rig, other, 0, 0, data, FILE_BYTES, NULL), 0);
	rig_pattern(buffer, 12, FILE_BYTES);
	for (uint64_t page = 0; page < pages; page++) {
		uint8_t *at = data + page * G4_PAGE_BYTES;
		if (page % 5 == 1)
			memset(at, 0, G4_PAGE_BYTES);
		else if (page % 5 == 3) /* of the buffer before, or of one that is published */
			memcpy(at, buffer + (page - (page < 70 ? page : 70)) / 5 * 5 * G4_PAGE_BYTES, G4_PAGE_BYTES);
		else if (page % 5 != 2)
			memcpy(at, buffer + page * G4_PAGE_BYTES, G4_PAGE_BYTES);
	}
	const uint64_t before = rig_free_pages(&rig);
	assert_int_equal(op_write(&rig, ino, 0, 0, data, FILE_BYTES, NULL), 0);
	assert_int_equal(rig.fs->dirty_pages, 0);
	assert_true(before - rig_free_pages(&rig) < pages * 2 / 5 + 60); /* a map, sums, listings and owners */
	for (uint64_t page = 0; page < pages; page++) {
		rig_run_at(&rig, ino, page, &run);
		assert_int_equal(run.kind, page % 5 == 1 ? G4_HOLE : G4_WRITTEN);
		if (page % 5 == 2)
			assert_int_equal(rig_place(&rig, ino, page), rig_place(&rig, other, page));
		if (page % 5 == 3)
			assert_int_equal(rig_place(&rig, ino, page),
					 rig_place(&rig, ino, (page - (page < 70 ? page : 70)) / 5 * 5));
	}
	judge(FILE_BYTES);
	/* what is new lies in a row, so that what was written together is read together */
	uint64_t apart = 0, last = rig_place(&rig, ino, 0);
	for (uint64_t page = 4; page < pages; page += page % 5 == 4 ? 1 : 4) {
		const uint64_t place = rig_place(&rig, ino, page);
		apart += place != last + G4_PAGE_BYTES;
		last = place;
	}
	assert_true(apart < 20);
	/* all of it once more, to a file of which a part was allocated before; a mount makes its table in the background */
	while (g4_jobs_serve(rig.wg, rig.fs, true) == 0)
		;
	assert_int_equal(op_truncate(&rig, other, 0), 0);
	assert_int_equal(op_fallocate(&rig, other, 0, DIRECT + 3 * G4_PAGE_BYTES, DIRECT), 0);
	assert_int_equal(op_write(&rig, other, 0, 0, data, FILE_BYTES, NULL), 0);
	expect(other, data, FILE_BYTES);
	assert_int_equal(rig_place(&rig, ino, 2), rig_place(&rig, other, 2));
	assert_int_not_equal(rig_place(&rig, ino, 70), rig_place(&rig, other, 70));
}

/* ------------------------------------------------------------------ a caller that changes its memory */

static uint32_t stop;

static void *change(void *argument)
{
	volatile uint8_t *memory = (volatile uint8_t *)argument;

	for (uint8_t with = 0x5a; !g4_load32_acq(&stop); with ^= 0xff)
		for (uint64_t at = 0; at < FILE_BYTES; at += 512)
			memory[at] = with;
	return NULL;
}

/* What is read is one of the bytes that there were, and no page is told to be damaged. */
static void a_caller_may_change_its_memory(void **state)
{
	pthread_t thread;
	uint64_t done;

	(void)state;
	if (rig_lanes_are_watched())
		skip();
	g4_store32_rel(&stop, 0);
	memset(data, 0x5a, FILE_BYTES);
	assert_int_equal(pthread_create(&thread, NULL, change, data), 0);
	for (uint32_t round = 0; round < (rig_slow() ? 3u : 10u); round++) { /* of 24 pieces each */
		uint64_t wrong = 0;

		for (uint64_t at = 0; at < FILE_BYTES; at += done)
			assert_int_equal(op_write(&rig, ino, 0, at, data + at, FILE_BYTES - at, &done), 0);
		for (uint64_t at = 0; at < FILE_BYTES; at += done)
			assert_int_equal(op_read(&rig, ino, 0, at, buffer + at, FILE_BYTES - at, &done), 0);
		for (uint64_t at = 0; at < FILE_BYTES; at++)
			wrong += buffer[at] != 0x5a && (at % 512 != 0 || buffer[at] != 0xa5);
		assert_int_equal(wrong, 0);
	}
	g4_store32_rel(&stop, 1);
	pthread_join(thread, NULL);
	assert_int_equal(rig.fs->damaged_pages, 0);
}

/* ------------------------------------------------------------------ errors */

/* A write fails while others are under way: nothing has changed, no space and no buffer is lost, and the next try succeeds. */
static void write_with_errors(uint64_t bytes)
{
	uint8_t *other = rig_memory(FILE_BYTES, 9);
	struct g4_statfs before, after;
	uint64_t told = 0;

	rig_pattern(data, 3, FILE_BYTES);
	assert_int_equal(op_write(&rig, ino, 0, 0, data, FILE_BYTES, NULL), 0);
	for (uint64_t nth = 1; nth <= 7; nth++) {
		struct g4_fault fault = {.delay_ns = nth % 2 ? 20000 : 0};

		unmount();
		mount(&fault);
		assert_int_equal(op_sync(&rig), 0);
		assert_int_equal(op_statfs(&rig, &before), 0);
		fault.fail_write_at = nth;
		g4_dev_fault_set(rig.fault, &fault);
		int rc = op_write(&rig, ino, 0, 0, other, bytes, NULL);
		if (rc < 0) {
			told++;
			assert_int_equal(rc, -G4_E_IO);
			assert_int_equal(op_statfs(&rig, &after), 0);
			assert_int_equal(after.blocks_available, before.blocks_available);
			expect(ino, data, FILE_BYTES);
		}
		expect_no_buffer_used();
		fault.fail_write_at = 0;
		g4_dev_fault_set(rig.fault, &fault);
		assert_int_equal(op_write(&rig, ino, 0, 0, other, bytes, NULL), 0);
		memcpy(buffer, data, bytes);
		memcpy(data, other, bytes);
		memcpy(other, buffer, bytes);
		expect(ino, data, FILE_BYTES);
	}
	assert_int_equal(told, bytes / DIRECT); /* of as many requests */
	free(other);
}

static void a_write_error_leaves_what_was_there(void **state)
{
	(void)state;
	write_with_errors(5 * DIRECT); /* one batch */
}

static void so_does_one_of_what_was_looked_for(void **state)
{
	(void)state;
	write_with_errors(4 * DIRECT);
}

/* What is there already is written where hardly anything is free. */
static void what_is_found_needs_little_space(void **state)
{
	struct g4_statfs space;
	uint64_t node, other, done, size = 0;

	(void)state;
	rig_pattern(data, 16, FILE_BYTES);
	assert_int_equal(op_write(&rig, ino, 0, 0, data, 2 * G4_MIB, NULL), 0);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "other", G4_S_IFREG | 0600, &other), 0);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "filler", G4_S_IFREG | 0600, &node), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_statfs(&rig, &space), 0);
	assert_int_equal(op_fallocate(&rig, node, 0, 0, (space.blocks_available - 60) * G4_PAGE_BYTES), 0);
	for (; size < 2 * G4_MIB; size += done)
		assert_int_equal(op_write(&rig, other, 0, size, data + size, 2 * G4_MIB - size, &done), 0);
	expect(other, data, 2 * G4_MIB);
	assert_int_equal(rig_place(&rig, ino, 300), rig_place(&rig, other, 300));
	judge(2 * G4_MIB);
}

#define LEAF_PAGES 512u /* that a page of the map leads to */

/* A batch to a file whose first page of the map has been read, and whose second one can not be. */
static int stage_beside_a_bad_map(uint64_t page, uint32_t pages, uint32_t *published)
{
	struct g4_fault fault = {0};
	uint64_t now = pages, reserved, pooled;
	uint32_t index;
	struct g4_run run;

	unmount();
	mount(&fault);
	rig_run_at(&rig, ino, 0, &run);
	assert_int_equal(g4_icache_get(rig.wg, rig.fs, ino, &index), 0);
	assert_int_equal(g4_reserve_direct(rig.wg, rig.fs, index, page, &now, &reserved, &pooled), 0);
	assert_int_equal(now, pages);
	const uint32_t mark = g4_scratch_mark(rig.wg);
	struct g4_batch *batch = g4_batch_take(rig.wg);
	batch->reserved = reserved;
	batch->pooled = pooled;
	fault.fail_read_at = 1;
	g4_dev_fault_set(rig.fault, &fault);
	struct g4_stage_ahead nothing = {.count = 0};
	const int rc = g4_stage_run(rig.wg, rig.fs, g4_icache_at(rig.fs, index), batch, data + page * G4_PAGE_BYTES,
				    page, pages, FILE_BYTES, &nothing, published);
	fault.fail_read_at = 0;
	g4_dev_fault_set(rig.fault, &fault);
	g4_scratch_release(rig.wg, mark);
	g4_icache_put(rig.fs, index);
	expect_no_buffer_used();
	assert_int_equal(rig.fs->alloc.reserved, 0);
	return rc;
}

/* The first pages of a buffer get a place, and the next ones none: nothing comes of it. Those of a buffer before are stored. */
static void an_error_between_places(void **state)
{
	const uint64_t first = LEAF_PAGES - 10, buffer_pages = DIRECT / G4_PAGE_BYTES;
	uint8_t *const at = data + first * G4_PAGE_BYTES;
	uint32_t published;

	(void)state;
	rig_pattern(data, 13, FILE_BYTES);
	assert_int_equal(op_write(&rig, ino, 0, 0, data, FILE_BYTES, NULL), 0);
	for (uint64_t page = 100; page < FILE_BYTES / G4_PAGE_BYTES;
	     page += LEAF_PAGES) { /* so that there are leaves */
		rig_pattern(data + page * G4_PAGE_BYTES, 12 + page, G4_PAGE_BYTES);
		assert_int_equal(op_write(&rig, ino, 0, page * G4_PAGE_BYTES, data + page * G4_PAGE_BYTES,
					  G4_PAGE_BYTES, NULL),
				 0);
	}
	memcpy(buffer, data, FILE_BYTES);
	rig_pattern(at, 14, DIRECT);
	memset(at + 3 * G4_PAGE_BYTES, 0, G4_PAGE_BYTES);
	assert_int_equal(stage_beside_a_bad_map(first, (uint32_t)buffer_pages, &published), -G4_E_IO);
	assert_int_equal(published, 0);
	memcpy(data, buffer, FILE_BYTES);
	judge(FILE_BYTES);

	rig_pattern(data + (LEAF_PAGES - buffer_pages) * G4_PAGE_BYTES, 15, DIRECT);
	assert_int_equal(stage_beside_a_bad_map(LEAF_PAGES - buffer_pages, (uint32_t)(2 * buffer_pages), &published),
			 0);
	assert_int_equal(published, buffer_pages);
	judge(FILE_BYTES);
}

/* Behind the first batches: what was written is told. */
static void an_error_later_on_tells_what_is_written(void **state)
{
	struct g4_fault fault = {0};
	uint64_t done;

	(void)state;
	unmount();
	mount(&fault);
	rig_pattern(data, 4, FILE_BYTES);
	assert_int_equal(op_sync(&rig), 0);
	fault.fail_write_at = 8 + 3; /* of the second batch of 2 MiB */
	g4_dev_fault_set(rig.fault, &fault);
	assert_int_equal(op_write(&rig, ino, 0, 0, data, FILE_BYTES, &done), 0);
	assert_int_equal(done, 2 * G4_MIB);
	judge(done);
}

static void the_device_becomes_full(void **state)
{
	uint64_t done = 0, size = 0, node;
	struct g4_statfs space;
	int rc = 0;

	(void)state;
	/* a filler, so that the end is met inside of a write */
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "filler", G4_S_IFREG | 0600, &node), 0);
	assert_int_equal(op_statfs(&rig, &space), 0);
	assert_int_equal(op_fallocate(&rig, node, 0, 0, (space.blocks_available - 1000) * G4_PAGE_BYTES), 0);
	rig_pattern(data, 6, FILE_BYTES);
	for (; size < FILE_BYTES && rc == 0; size += done) {
		done = 0;
		rc = op_write(&rig, ino, 0, size, data + size, FILE_BYTES - size, &done);
	}
	assert_int_equal(rc, -G4_E_NOSPC);
	assert_true(size > 2 * G4_MIB && size < FILE_BYTES);
	expect_no_buffer_used();
	judge(size);
	assert_int_equal(op_truncate(&rig, ino, 0), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_write(&rig, ino, 0, 0, data, 2 * G4_MIB, NULL), 0);
	judge(2 * G4_MIB);
}

/* ------------------------------------------------------------------ side by side */

struct writer {
	pthread_t thread;
	struct rig rig; /* with a workgroup of its own */
	uint64_t ino, seed, rounds;
	uint8_t *memory;
	const char *failed;
};

#define WRITER_BYTES (5 * DIRECT)

static void *write_and_read(void *argument)
{
	struct writer *writer = (struct writer *)argument;
	uint8_t *found = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, WRITER_BYTES);
	uint64_t done;

	for (uint64_t round = 0; round < writer->rounds && !writer->failed; round++) {
		rig_pattern(writer->memory, writer->seed + round * WRITERS, WRITER_BYTES);
		/* what all of them have, so that it is read to be compared where a buffer before it could be under way */
		rig_pattern(writer->memory + DIRECT, UINT64_MAX, DIRECT);
		if (op_write(&writer->rig, writer->ino, 0, 0, writer->memory, WRITER_BYTES, &done) != 0 ||
		    done != WRITER_BYTES)
			writer->failed = "a write";
		else if (op_read(&writer->rig, writer->ino, 0, 0, found, WRITER_BYTES, &done) != 0 ||
			 memcmp(found, writer->memory, done) != 0)
			writer->failed = "a read";
	}
	free(found);
	return NULL;
}

static void run_writers(uint64_t rounds)
{
	struct writer writers[WRITERS] = {0};
	char name[16];

	for (uint32_t i = 0; i < WRITERS; i++) {
		struct writer *writer = &writers[i];
		writer->rig = rig;
		writer->rig.wg = g4_wg_create(1 + i);
		writer->seed = i;
		writer->rounds = rounds;
		writer->memory = rig_memory(WRITER_BYTES, 0);
		assert_non_null(writer->rig.wg);
		snprintf(name, sizeof(name), "w%u", i);
		struct g4_attr attr;
		if (op_lookup(&rig, G4_NODE_ROOT, name, &attr) == 0)
			writer->ino = attr.ino;
		else
			assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, name, G4_S_IFREG | 0600, &writer->ino), 0);
	}
	for (uint32_t i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&writers[i].thread, NULL, write_and_read, &writers[i]), 0);
	for (uint32_t i = 0; i < WRITERS; i++) {
		pthread_join(writers[i].thread, NULL);
		g4_wg_destroy(writers[i].rig.wg);
		if (writers[i].failed)
			fail_msg("%s went wrong", writers[i].failed);
	}
	unmount();
	mount(NULL);
	for (uint32_t i = 0; i < WRITERS; i++) {
		expect(writers[i].ino, writers[i].memory, WRITER_BYTES);
		free(writers[i].memory);
	}
}

static void more_writers_than_buffers(void **state)
{
	(void)state;
	run_writers(rig_slow() ? 3 : 20);
	/* there is one buffer for all of them */
	g4_store32_rel(&rig.fs->bounce.used[0], ~(UINT32_C(1) << 9));
	const uint32_t taken = rig.fs->bounce.used[0];
	rig_pattern(data, 7, FILE_BYTES);
	assert_int_equal(op_write(&rig, ino, 0, 0, data, FILE_BYTES, NULL), 0);
	assert_int_equal(rig.fs->bounce.used[0], taken);
	g4_store32_rel(&rig.fs->bounce.used[0], 0);
	judge(FILE_BYTES);
}

#define PIECES 4u /* of a buffer behind an agent */

/* Instead of the mount that there is. */
static void mount_behind_agent(uint32_t slots)
{
	const struct g4_agent_options queue = {.slots = slots, .chunk_bytes = DIRECT / PIECES};
	const struct g4_fs_options options = {.cache_bytes = rig.cache_bytes};
	const struct g4_dev_open_options one = {.queues = 1};
	char message[256] = "";
	struct g4_dev *file;

	unmount();
	assert_int_equal(g4_dev_open(rig.name, &one, &file, message, sizeof(message)), 0);
	assert_int_equal(g4_dev_fault_open(file, &rig.fault), 0);
	assert_int_equal(g4_dev_remote_open(rig.fault, &queue, &rig.dev), 0);
	assert_int_equal(g4_fs_mount(rig.wg, rig.dev, &options, &rig.fs, message, sizeof(message)), 0);
}

/* Who has a request under way there holds a slot, and nobody may wait for another one then. */
static void run_behind_an_agent(uint64_t rounds)
{
	for (uint32_t slots = 1; slots <= 9; slots += 4) { /* fewer than the four pieces of a buffer, and more */
		mount_behind_agent(slots);
		run_writers(rounds);
	}
}

/* Of what waits for its own slots nothing can be taken back. */
static void fail_at_once(const char *what)
{
	print_error("%s\n", what);
	fflush(NULL);
	_exit(1);
}

/* The most slots that were in use when a request came to the device. */
static void see_slots(void *context, const struct g4_io *io)
{
	uint32_t *most = (uint32_t *)context;

	(void)io;
	const uint32_t load = g4_slots_load(&rig.dev->remote->pool);

	if (load > PIECES)
		fail_at_once("a writer has slots for two buffers");
	if (load > g4_load32_rlx(most))
		g4_store32_rlx(most, load);
}

/* A writer collects the requests of one buffer before it submits those of the next one: its slots are those of one. */
static void buffers_do_not_overlap_behind_an_agent(void **state)
{
	uint32_t most = 0;

	(void)state;
	mount_behind_agent(PIECES * 2 + 1);
	rig_pattern(data, 17, FILE_BYTES);
	g4_dev_fault_watch(rig.fault, see_slots, &most);
	assert_int_equal(op_write(&rig, ino, 0, 0, data, FILE_BYTES, NULL), 0);
	g4_dev_fault_watch(rig.fault, NULL, NULL);
	assert_int_not_equal(most, 0);
	judge(FILE_BYTES);
}

static void *write_once(void *argument)
{
	struct writer *writer = (struct writer *)argument;
	uint64_t done;

	if (op_write(&writer->rig, writer->ino, 0, 0, writer->memory, WRITER_BYTES, &done) != 0 || done != WRITER_BYTES)
		writer->failed = "a write";
	g4_store32_rel(&stop, 1);
	return NULL;
}

/*
 * One writer, one slot, and behind a buffer of new pages one of pages that are there, which are read to be compared: who had that buffer on
 * its way would wait for its own slot for ever.
 */
static void who_compares_holds_no_slot(void **state)
{
	struct writer writer = {.memory = rig_memory(WRITER_BYTES, 0)};
	uint64_t other;

	(void)state;
	rig_pattern(writer.memory, 18, WRITER_BYTES);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "other", G4_S_IFREG | 0600, &other), 0);
	assert_int_equal(op_write(&rig, other, 0, 0, writer.memory + DIRECT, DIRECT, NULL), 0);
	mount_behind_agent(1);
	while (g4_jobs_serve(rig.wg, rig.fs, true) == 0) /* a mount makes its table in the background */
		;
	writer.rig = rig;
	writer.rig.wg = g4_wg_create(1);
	writer.ino = ino;
	assert_non_null(writer.rig.wg);
	g4_store32_rel(&stop, 0);
	assert_int_equal(pthread_create(&writer.thread, NULL, write_once, &writer), 0);
	while (!g4_load32_acq(&stop))
		if (g4_slots_load(&rig.dev->remote->pool) > 1)
			fail_at_once("it waits for a slot, and has one");
	pthread_join(writer.thread, NULL);
	g4_wg_destroy(writer.rig.wg);
	assert_null(writer.failed);
	assert_int_equal(rig_place(&rig, ino, DIRECT / G4_PAGE_BYTES),
			 rig_place(&rig, other, 0)); /* so they were compared */
	expect(ino, writer.memory, WRITER_BYTES);
	unmount();
	mount(NULL);
	expect(ino, writer.memory, WRITER_BYTES);
	free(writer.memory);
}

static void writers_behind_an_agent(void **state)
{
	(void)state;
	run_behind_an_agent(2);
}

static void so_do_those_who_look(void **state)
{
	(void)state;
	run_behind_an_agent(1);
}

/* ------------------------------------------------------------------ before the inode is locked */

static uint32_t used_buffers(void)
{
	uint32_t used = 0;

	for (uint32_t word = 0; word < rig.fs->bounce.count / 32; word++)
		used += g4_count_bits(g4_load32_acq(&rig.fs->bounce.used[word]));
	return used;
}

/* Somebody has the file while it is written: its writer fills buffers and looks for what they have, and waits for the file with them. */
static void change_beside_a_writer(uint64_t seed, void (*happens)(struct g4_inode_core *), bool shares)
{
	struct writer writer = {.memory = rig_memory(WRITER_BYTES, seed), .rig = rig};
	uint64_t node, other;
	uint32_t index;

	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "other", G4_S_IFREG | 0600, &other), 0);
	assert_int_equal(op_write(&rig, other, 0, 0, writer.memory, WRITER_BYTES, NULL), 0);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "written", G4_S_IFREG | 0600, &node), 0);
	writer.ino = node;
	writer.rig.wg = g4_wg_create(1);
	assert_non_null(writer.rig.wg);
	assert_int_equal(g4_icache_get(rig.wg, rig.fs, node, &index), 0);
	struct g4_inode_core *inode = g4_icache_at(rig.fs, index);
	g4_icache_lock(rig.fs, inode);
	assert_int_equal(pthread_create(&writer.thread, NULL, write_once, &writer), 0);
	while (used_buffers() == 0)
		sched_yield();
	happens(inode);
	g4_write_unlock(&inode->lock);
	pthread_join(writer.thread, NULL);
	g4_wg_destroy(writer.rig.wg);
	g4_icache_put(rig.fs, index);
	assert_null(writer.failed);
	expect_no_buffer_used();
	expect(node, writer.memory, WRITER_BYTES);
	for (uint64_t page = 0; page < WRITER_BYTES / G4_PAGE_BYTES; page++)
		assert_int_equal(rig_place(&rig, node, page) == rig_place(&rig, other, page), shares);
	unmount();
	mount(NULL);
	expect(node, writer.memory, WRITER_BYTES);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "other"), 0);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "written"), 0);
	free(writer.memory);
}

static void change_nothing(struct g4_inode_core *inode)
{
	(void)inode;
}

static void set_policy(struct g4_inode_core *inode, uint32_t part, uint32_t value)
{
	inode->disk.policy = (inode->disk.policy & ~part) | value;
}

static void change_to_no_dedup(struct g4_inode_core *inode)
{
	set_policy(inode, G4_POLICY_DEDUP, G4_POLICY_DEDUP_OFF);
}

static void change_to_a_domain(struct g4_inode_core *inode)
{
	set_policy(inode, G4_POLICY_DEDUP, G4_POLICY_DEDUP_DOMAIN);
	g4_inode_set_domain(&inode->disk, 1); /* the first one */
}

static void change_of_sums(struct g4_inode_core *inode)
{
	set_policy(inode, G4_POLICY_CHECKSUM, 1 + G4_CHECKSUM_CRC32C);
}

/* A page that was found before was gone when it was to be shared. */
static void change_of_luck(struct g4_inode_core *inode)
{
	inode->dedup_failed = true;
}

static void what_was_looked_for_is_used(void **state)
{
	(void)state;
	change_beside_a_writer(40, change_nothing, true);
}

static void what_has_changed_meanwhile_counts(void **state)
{
	uint64_t domain;

	(void)state;
	change_beside_a_writer(41, change_of_luck, true); /* which publishing asks for once more */
	change_beside_a_writer(42, change_to_no_dedup, false);
	change_beside_a_writer(43, change_of_sums, false);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "domain", 0700, &domain), 0);
	assert_int_equal(op_setxattr(&rig, domain, "gpu4fs.dedup", "domain", 6, 0), 0);
	change_beside_a_writer(44, change_to_a_domain, false);
}

static void count_written(void *context, const struct g4_io *io)
{
	for (uint32_t k = 0; io->op == G4_IO_WRITE && k < io->iov_count; k++)
		*(uint64_t *)context += io->iov[k].bytes;
}

/* Who has the file meanwhile writes the same to it: what was looked for before is there now, and does not go to the device once more. */
static void what_has_come_meanwhile_is_found(void **state)
{
	uint8_t *memory = rig_memory(WRITER_BYTES, 46);
	const struct g4_fault none = {0};
	struct g4_stage_ahead ahead;
	uint64_t written = 0, done;
	uint32_t index;

	(void)state;
	unmount();
	mount(&none);
	memcpy(memory + DIRECT, memory, G4_PAGE_BYTES); /* one that is like another one */
	assert_int_equal(g4_icache_get(rig.wg, rig.fs, ino, &index), 0);
	struct g4_inode_core *inode = g4_icache_at(rig.fs, index);
	g4_stage_ahead(rig.wg, rig.fs, inode, memory, G4_REGION_PAGES, WRITER_BYTES / G4_PAGE_BYTES, G4_DEDUP_BY_POLICY,
		       &ahead);
	assert_int_not_equal(ahead.count, 0);
	assert_int_equal(op_write(&rig, ino, 0, 0, memory, WRITER_BYTES, NULL), 0);
	assert_int_equal(op_sync(&rig), 0);
	g4_dev_fault_watch(rig.fault, count_written, &written);
	g4_icache_lock(rig.fs, inode);
	assert_int_equal(g4_file_write(rig.wg, rig.fs, index, G4_REGION_BYTES, memory, WRITER_BYTES, G4_DEDUP_BY_POLICY,
				       &ahead, &done),
			 0);
	g4_write_unlock(&inode->lock);
	assert_int_equal(ahead.count, 0);
	g4_dev_fault_watch(rig.fault, NULL, NULL);
	g4_icache_put(rig.fs, index);
	assert_int_equal(done, WRITER_BYTES);
	assert_true(written < DIRECT);
	for (uint64_t page = 0; page < WRITER_BYTES / G4_PAGE_BYTES; page++)
		assert_int_equal(rig_place(&rig, ino, page), rig_place(&rig, ino, G4_REGION_PAGES + page));
	memset(data, 0, FILE_BYTES);
	memcpy(data, memory, WRITER_BYTES);
	memcpy(data + G4_REGION_BYTES, memory, WRITER_BYTES);
	judge(G4_REGION_BYTES + WRITER_BYTES);
	free(memory);
}

static void see_buffers(void *context, const struct g4_io *io)
{
	uint32_t *most = (uint32_t *)context;

	(void)io;
	*most = (uint32_t)g4_max64(*most, used_buffers());
}

/* A file that wants no look any more: its writer has no more buffers than others that do not look. */
static void what_is_of_no_use_goes_back_first(void **state)
{
	uint8_t *memory = rig_memory(WRITER_BYTES, 47);
	const struct g4_fault none = {0};
	struct g4_stage_ahead ahead;
	uint32_t index, most = 0;
	uint64_t done;

	(void)state;
	unmount();
	mount(&none);
	assert_int_equal(g4_icache_get(rig.wg, rig.fs, ino, &index), 0);
	struct g4_inode_core *inode = g4_icache_at(rig.fs, index);
	g4_stage_ahead(rig.wg, rig.fs, inode, memory, 0, WRITER_BYTES / G4_PAGE_BYTES, G4_DEDUP_BY_POLICY, &ahead);
	assert_int_equal(ahead.count, WRITER_BYTES / DIRECT);
	g4_icache_lock(rig.fs, inode);
	change_to_no_dedup(inode);
	g4_dev_fault_watch(rig.fault, see_buffers, &most);
	assert_int_equal(
		g4_file_write(rig.wg, rig.fs, index, 0, memory, WRITER_BYTES, G4_DEDUP_BY_POLICY, &ahead, &done), 0);
	g4_dev_fault_watch(rig.fault, NULL, NULL);
	g4_write_unlock(&inode->lock);
	g4_stage_drop(rig.fs, &ahead);
	g4_icache_put(rig.fs, index);
	assert_in_range(most, 1, G4_BOUNCE_FLIGHTS);
	memcpy(data, memory, WRITER_BYTES);
	judge(WRITER_BYTES);
	free(memory);
}

static void *write_a_part(void *argument)
{
	struct writer *writer = (struct writer *)argument;
	uint64_t done;

	if (op_write(&writer->rig, writer->ino, 0, writer->seed * DIRECT, writer->memory, DIRECT, &done) != 0 ||
	    done != DIRECT)
		writer->failed = "a write";
	return NULL;
}

/* Who waits for the file has half of the buffers at most, and who gets it finds one, though it has none yet. */
static void half_of_the_buffers_are_for_who_has_the_file(void **state)
{
	struct writer writers[WRITERS] = {0};
	const uint32_t half = rig.fs->bounce.count / 2, taken = half - 2;
	uint32_t index;

	(void)state;
	assert_int_equal(half, 32);
	rig_pattern(data, 45, FILE_BYTES);
	assert_int_equal(g4_icache_get(rig.wg, rig.fs, ino, &index), 0);
	struct g4_inode_core *inode = g4_icache_at(rig.fs, index);
	g4_icache_lock(rig.fs, inode);
	g4_store32_rel(&rig.fs->bounce.used[0], (UINT32_C(1) << taken) - 1);
	for (uint32_t i = 0; i < WRITERS; i++) {
		writers[i] = (struct writer){.rig = rig, .ino = ino, .seed = i, .memory = data + i * DIRECT};
		writers[i].rig.wg = g4_wg_create(1 + i);
		assert_non_null(writers[i].rig.wg);
		assert_int_equal(pthread_create(&writers[i].thread, NULL, write_a_part, &writers[i]), 0);
	}
	while (used_buffers() < half)
		sched_yield();
	assert_int_equal(used_buffers(), half);
	g4_or32(&rig.fs->bounce.used[1], ~(UINT32_C(1) << 9)); /* one for all that have none */
	g4_write_unlock(&inode->lock);
	for (uint32_t i = 0; i < WRITERS; i++) {
		pthread_join(writers[i].thread, NULL);
		g4_wg_destroy(writers[i].rig.wg);
		assert_null(writers[i].failed);
	}
	g4_icache_put(rig.fs, index);
	assert_int_equal(used_buffers(), taken + 31);
	g4_store32_rel(&rig.fs->bounce.used[0], 0);
	g4_store32_rel(&rig.fs->bounce.used[1], 0);
	judge(WRITERS * DIRECT);
}

/* ------------------------------------------------------------------ one transfer by several workgroups */

struct helper {
	pthread_t thread;
	struct g4_wg *wg;
	uint64_t pieces;
};

static void *help(void *argument)
{
	struct helper *helper = (struct helper *)argument;

	while (!g4_load32_acq(&stop)) {
		if (g4_split_help(helper->wg, rig.fs))
			g4_add64(&helper->pieces, 1);
		else
			g4_pause();
	}
	return NULL;
}

static void helpers_take_pieces(void **state)
{
	struct helper helpers[2] = {0};
	uint64_t seed = 20;

	(void)state;
	g4_store32_rel(&stop, 0);
	rig.fs->split.helpers = 2;
	for (uint32_t i = 0; i < 2; i++) {
		helpers[i].wg = g4_wg_create(100 + i);
		assert_int_equal(pthread_create(&helpers[i].thread, NULL, help, &helpers[i]), 0);
	}
	/* that one comes is not for this thread to decide */
	while (g4_load64_rlx(&helpers[0].pieces) + g4_load64_rlx(&helpers[1].pieces) == 0) {
		rig_pattern(data, seed++, FILE_BYTES);
		assert_int_equal(op_write(&rig, ino, 0, 0, data, FILE_BYTES, NULL), 0);
		expect(ino, data, FILE_BYTES);
	}
	for (uint64_t at = 4096; at < 4 * G4_MIB; at += 5 * DIRECT + 4096) {
		rig_pattern(data + at, seed++, 5 * DIRECT);
		assert_int_equal(op_write(&rig, ino, 0, at, data + at, 5 * DIRECT, NULL), 0);
		expect(ino, data, FILE_BYTES);
	}
	g4_store32_rel(&stop, 1);
	for (uint32_t i = 0; i < 2; i++) {
		pthread_join(helpers[i].thread, NULL);
		g4_wg_destroy(helpers[i].wg);
	}
	rig.fs->split.helpers = 0;
	judge(FILE_BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(they_leave_nothing_in_the_cache, setup, teardown),
		cmocka_unit_test_setup_teardown(every_page_has_its_sum, setup, teardown),
		cmocka_unit_test_setup_teardown(every_page_has_its_sum, setup_xxh3, teardown),
		cmocka_unit_test_setup_teardown(any_part_can_be_written, setup, teardown),
		cmocka_unit_test_setup_teardown(space_in_pieces, setup, teardown),
		cmocka_unit_test_setup_teardown(a_caller_may_change_its_memory, setup, teardown),
		cmocka_unit_test_setup_teardown(a_write_error_leaves_what_was_there, setup, teardown),
		cmocka_unit_test_setup_teardown(an_error_later_on_tells_what_is_written, setup, teardown),
		cmocka_unit_test_setup_teardown(the_device_becomes_full, setup_small, teardown),
		cmocka_unit_test_setup_teardown(more_writers_than_buffers, setup, teardown),
		cmocka_unit_test_setup_teardown(buffers_do_not_overlap_behind_an_agent, setup, teardown),
		cmocka_unit_test_setup_teardown(writers_behind_an_agent, setup, teardown),
		cmocka_unit_test_setup_teardown(helpers_take_pieces, setup, teardown),
		/* the same where pages are looked for */
		cmocka_unit_test_setup_teardown(they_leave_nothing_in_the_cache, setup_dedup, teardown),
		cmocka_unit_test_setup_teardown(every_page_has_its_sum, setup_dedup, teardown),
		cmocka_unit_test_setup_teardown(any_part_can_be_written, setup_dedup, teardown),
		cmocka_unit_test_setup_teardown(any_part_can_be_written, setup_xxh3_dedup, teardown),
		cmocka_unit_test_setup_teardown(space_in_pieces, setup_dedup, teardown),
		cmocka_unit_test_setup_teardown(large_pages_are_found_as_a_whole, setup_dedup, teardown),
		cmocka_unit_test_setup_teardown(pages_that_are_there_beside_new_ones, setup_dedup, teardown),
		cmocka_unit_test_setup_teardown(pages_that_are_there_beside_new_ones, setup_xxh3_dedup, teardown),
		cmocka_unit_test_setup_teardown(a_caller_may_change_its_memory, setup_dedup, teardown),
		cmocka_unit_test_setup_teardown(so_does_one_of_what_was_looked_for, setup_dedup, teardown),
		cmocka_unit_test_setup_teardown(an_error_later_on_tells_what_is_written, setup_dedup, teardown),
		cmocka_unit_test_setup_teardown(the_device_becomes_full, setup_small_dedup, teardown),
		cmocka_unit_test_setup_teardown(what_is_found_needs_little_space, setup_small_dedup, teardown),
		cmocka_unit_test_setup_teardown(an_error_between_places, setup_dedup, teardown),
		cmocka_unit_test_setup_teardown(more_writers_than_buffers, setup_dedup, teardown),
		cmocka_unit_test_setup_teardown(what_was_looked_for_is_used, setup_dedup, teardown),
		cmocka_unit_test_setup_teardown(what_has_changed_meanwhile_counts, setup_dedup, teardown),
		cmocka_unit_test_setup_teardown(what_has_come_meanwhile_is_found, setup_dedup, teardown),
		cmocka_unit_test_setup_teardown(what_is_of_no_use_goes_back_first, setup_dedup, teardown),
		cmocka_unit_test_setup_teardown(half_of_the_buffers_are_for_who_has_the_file, setup_dedup, teardown),
		cmocka_unit_test_setup_teardown(who_compares_holds_no_slot, setup_xxh3_dedup, teardown),
		cmocka_unit_test_setup_teardown(so_do_those_who_look, setup_xxh3_dedup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
