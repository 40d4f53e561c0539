/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large transfers by many workgroups: with helpers or without, contents, sizes, errors and locks are those of one that
 * does it alone.
 */
#include "rig.h"

#include <pthread.h>

#include "data/split.h"
#include "fs/fs.h"
#include "simt/simt_host.h"

#define FILE_BYTES (6 * G4_MIB)
#define ROOM_BYTES (FILE_BYTES + G4_MIB)
#define PIECE (64 * G4_KIB)	       /* of memory that is copied */
#define QUEUED_BYTES (5 * G4_MIB + 99) /* shared also where a piece is a request to a device */
#define LARGE (256 * G4_KIB)	       /* what is shared at least, where memory is copied */
#define HELPERS_MOST 4u
#define OWNERS 4u

struct helper {
	pthread_t thread;
	struct g4_wg *wg;
	uint64_t pieces;
};

static struct rig rig;
static struct g4_wg *wg; /* of this thread's operations */
static struct g4_fs *fs;
static uint64_t ino;
static uint8_t *data, *buffer; /* what the file holds; a page more than ROOM_BYTES */
static struct helper helpers[HELPERS_MOST];
static uint32_t helper_count, stop;

/* ------------------------------------------------------------------ helpers */

static void *help(void *argument)
{
	struct helper *helper = (struct helper *)argument;

	while (!g4_load32_acq(&stop)) {
		if (g4_split_help(helper->wg, fs))
			g4_add64(&helper->pieces, 1);
		else
			g4_pause();
	}
	return NULL;
}

static void start_helpers(uint32_t count)
{
	g4_store32_rel(&stop, 0);
	fs->split.helpers = count;
	for (helper_count = 0; helper_count < count; helper_count++) {
		struct helper *helper = &helpers[helper_count];
		helper->pieces = 0;
		helper->wg = g4_wg_create(100 + helper_count);
		assert_non_null(helper->wg);
		assert_int_equal(pthread_create(&helper->thread, NULL, help, helper), 0);
	}
}

static uint64_t helped(void)
{
	uint64_t pieces = 0;

	for (uint32_t i = 0; i < helper_count; i++)
		pieces += g4_load64_rlx(&helpers[i].pieces);
	return pieces;
}

static void stop_helpers(void)
{
	g4_store32_rel(&stop, 1);
	for (; helper_count > 0; helper_count--) {
		pthread_join(helpers[helper_count - 1].thread, NULL);
		g4_wg_destroy(helpers[helper_count - 1].wg);
	}
	fs->split.helpers = 0;
	assert_int_equal(fs->split.open, 0);
	assert_int_equal(fs->split.used, 0);
	for (uint32_t i = 0; i < G4_SPLIT_JOBS; i++)
		assert_int_equal(fs->split.jobs[i].helpers, 0);
}

/* ------------------------------------------------------------------ the file system */

static void mount_with(uint64_t cache_bytes, const struct g4_fault *fault)
{
	rig.cache_bytes = cache_bytes;
	fs = rig_mount_fs(&rig, wg, fault);
	rig.fs = fs;
	rig.wg = wg;
}

static void unmount(void)
{
	struct g4_statfs statfs;

	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_statfs(&rig, &statfs), 0);
	rig_unmount_fs(&rig, wg, fs, true);
	rig.fs = NULL;
	rig_expect_clean(&rig, statfs.blocks_free, "at the end");
}

static int setup(void **state)
{
	(void)state;
	data = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, ROOM_BYTES + G4_PAGE_BYTES);
	buffer = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, ROOM_BYTES + G4_PAGE_BYTES);
	assert_non_null(data);
	assert_non_null(buffer);
	rig_pattern(data, 7, ROOM_BYTES);
	rig_open(&rig, 96 * G4_MIB, 0);
	wg = g4_wg_create(0);
	assert_non_null(wg);
	mount_with(4 * G4_MIB, NULL);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "f", G4_S_IFREG | 0600, &ino), 0);
	assert_int_equal(op_write(&rig, ino, 0, 0, data, FILE_BYTES, NULL), 0);
	return 0;
}

/* Pages are looked for before they are stored: large writes go through bounce buffers, which helpers fill. */
static int setup_dedup(void **state)
{
	setenv("G4_TEST_DEDUP", "1", 1);
	const int rc = setup(state);
	unsetenv("G4_TEST_DEDUP");
	return rc;
}

static int teardown(void **state)
{
	(void)state;
	stop_helpers();
	unmount();
	g4_wg_destroy(wg);
	rig_close(&rig);
	free(data);
	free(buffer);
	return 0;
}

static void expect_read(uint64_t offset, uint64_t bytes, uint64_t size, uint64_t shift)
{
	uint64_t wanted = offset < size ? g4_min64(bytes, size - offset) : 0, done;

	memset(buffer, 0xee, bytes + shift);
	assert_int_equal(op_read(&rig, ino, 0, offset, buffer + shift, bytes, &done), 0);
	assert_int_equal(done, wanted);
	assert_memory_equal(buffer + shift, data + offset, wanted);
	for (uint64_t i = wanted; i < bytes; i += 509)
		assert_int_equal(buffer[shift + i], 0xee);
}

/* ------------------------------------------------------------------ reading */

static void read_everywhere(void)
{
	static const uint64_t offsets[] = {
		0,	   1,	  511,	     512,	   4095,	   4096, 4097, PIECE - 4096,
		PIECE - 1, PIECE, PIECE + 1, PIECE + 4096, 3 * PIECE + 777};
	static const uint64_t lengths[] = {LARGE - 1,	      LARGE,	     LARGE + 1,	   LARGE + 4095, LARGE + 4096,
					   LARGE + PIECE - 1, LARGE + PIECE, 2 * LARGE + 1};
	static const uint64_t shifts[] = {0, 1, 512, 3583};
	uint32_t n = 0;

	for (uint32_t o = 0; o < sizeof(offsets) / sizeof(offsets[0]); o++)
		for (uint32_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++, n++)
			expect_read(offsets[o], lengths[l], FILE_BYTES, shifts[n % 4]);
	/* the end of the file */
	expect_read(FILE_BYTES - LARGE, LARGE, FILE_BYTES, 0);
	expect_read(FILE_BYTES - LARGE - 1, 2 * LARGE, FILE_BYTES, 0);
	expect_read(FILE_BYTES - 1, LARGE, FILE_BYTES, 0);
	expect_read(FILE_BYTES, LARGE, FILE_BYTES, 0);
}

static void any_part_can_be_read(void **state)
{
	(void)state;
	read_everywhere();
	for (uint32_t count = 1; count <= HELPERS_MOST; count += 3) {
		start_helpers(count);
		read_everywhere();
		stop_helpers();
	}
}

static void nobody_has_to_come(void **state)
{
	(void)state;
	fs->split.helpers = 1; /* who never looks */
	read_everywhere();
	assert_int_equal(op_write(&rig, ino, 0, 0, data, FILE_BYTES, NULL), 0);
}

/* Until a helper had a piece: that one comes is not for this thread to decide. */
static void helpers_do_pieces(void **state)
{
	(void)state;
	start_helpers(2);
	while (helped() == 0)
		expect_read(0, FILE_BYTES, FILE_BYTES, 0);
	for (uint64_t before = helped(); helped() == before;)
		assert_int_equal(op_write(&rig, ino, 0, 0, data, FILE_BYTES, NULL), 0);
	/* write-back of what lies in the cache: memory that is not aligned does not go past it */
	assert_int_equal(op_truncate(&rig, ino, ROOM_BYTES), 0);
	for (uint64_t before = helped(); helped() == before;) {
		memmove(buffer + 1, data, 8 * LARGE);
		assert_int_equal(op_write(&rig, ino, 0, 0, buffer + 1, 8 * LARGE, NULL), 0);
		assert_int_equal(op_fsync(&rig, ino), 0);
	}
	expect_read(0, FILE_BYTES, FILE_BYTES, 0);
}

/* The same file again: found as a whole, by whoever looks. Then until a helper had a piece of a buffer, or of what was stored. */
static void buffers_are_filled_by_helpers(void **state)
{
	const uint64_t pages = FILE_BYTES / G4_PAGE_BYTES, first = ino;
	struct g4_ddt_stats stats;
	uint64_t other;

	(void)state;
	start_helpers(2);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "same", G4_S_IFREG | 0600, &other), 0);
	assert_int_equal(op_write(&rig, other, 0, 0, data, FILE_BYTES, NULL), 0);
	g4_ddt_stats(&fs->ddt, &stats);
	assert_int_equal(stats.hits, pages);
	assert_int_equal(stats.misses, pages);
	for (uint64_t page = 0; page < pages; page += 67)
		assert_int_equal(rig_place(&rig, other, page), rig_place(&rig, first, page));
	for (uint64_t before = helped(), round = 1; helped() == before; round++) {
		rig_pattern(data, 7 + round, FILE_BYTES);
		assert_int_equal(op_write(&rig, first, 0, 0, data, FILE_BYTES, NULL), 0);
		expect_read(0, FILE_BYTES, FILE_BYTES, 0);
	}
	ino = other;
	rig_pattern(data, 7, FILE_BYTES);
	expect_read(0, FILE_BYTES, FILE_BYTES, 0);
	ino = first;
}

static void small_transfers_are_not_shared(void **state)
{
	(void)state;
	start_helpers(1);
	for (uint64_t at = 0; at < FILE_BYTES; at += PIECE)
		expect_read(at, PIECE, FILE_BYTES, 0);
	assert_int_equal(op_write(&rig, ino, 0, 0, data, PIECE, NULL), 0);
	assert_int_equal(helped(), 0);
}

/* Holes, allocated space that was never written, pages in the cache, dirty ones among them. */
static void holes_and_cached_pages_are_read(void **state)
{
	(void)state;
	assert_int_equal(op_fallocate(&rig, ino, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE, 100, PIECE), 0);
	memset(data + 100, 0, PIECE);
	assert_int_equal(op_fallocate(&rig, ino, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE, LARGE + 5, LARGE), 0);
	memset(data + LARGE + 5, 0, LARGE);
	assert_int_equal(op_fallocate(&rig, ino, G4_FALLOC_ZERO_RANGE, 2 * LARGE + PIECE - 4096, 8192), 0);
	memset(data + 2 * LARGE + PIECE - 4096, 0, 8192);
	expect_read(3 * LARGE, 5000, FILE_BYTES, 0);
	rig_pattern(data + 3 * LARGE - 50, 9, 6000);
	assert_int_equal(op_write(&rig, ino, 0, 3 * LARGE - 50, data + 3 * LARGE - 50, 6000, NULL), 0);
	rig_pattern(data + LARGE + LARGE / 2, 10, 100); /* in the hole */
	assert_int_equal(op_write(&rig, ino, 0, LARGE + LARGE / 2, data + LARGE + LARGE / 2, 100, NULL), 0);
	start_helpers(3);
	for (uint32_t round = 0; round < 8; round++) {
		expect_read(0, FILE_BYTES, FILE_BYTES, 0);
		expect_read(round * 1111, FILE_BYTES, FILE_BYTES, round);
	}
}

/* ------------------------------------------------------------------ writing */

static void any_part_can_be_written(void **state)
{
	static const uint64_t offsets[] = {0, 1, 4096, PIECE - 4096, PIECE - 1, PIECE, 3 * PIECE + 8192, 2 * LARGE};
	static const uint64_t lengths[] = {LARGE - 4096, LARGE, LARGE + 4096, LARGE + 4097, 3 * LARGE - PIECE};
	uint64_t seed = 100, size = FILE_BYTES;

	(void)state;
	start_helpers(3);
	for (uint32_t o = 0; o < sizeof(offsets) / sizeof(offsets[0]); o++) {
		for (uint32_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
			uint64_t at = offsets[o], done;
			/* memory is aligned as the file is; now and then it is not */
			uint8_t *from = buffer + (l == 3 ? 8 : at % G4_PAGE_BYTES);
			rig_pattern(from, seed++, lengths[l]);
			memcpy(data + at, from, lengths[l]);
			size = g4_max64(size, at + lengths[l]);
			assert_int_equal(op_write(&rig, ino, 0, at, from, lengths[l], &done), 0);
			assert_int_equal(done, lengths[l]);
			expect_read(0, FILE_BYTES, size, 0);
		}
		if (o == 3) { /* into space that is there */
			assert_int_equal(op_truncate(&rig, ino, 0), 0);
			assert_int_equal(op_fallocate(&rig, ino, 0, 0, FILE_BYTES / 2), 0);
			memset(data, 0, FILE_BYTES);
			size = FILE_BYTES / 2;
		}
	}
	/* beyond the end */
	rig_pattern(data + FILE_BYTES - LARGE, 5, 2 * LARGE);
	assert_int_equal(op_truncate(&rig, ino, 0), 0);
	memset(data, 0, FILE_BYTES - LARGE);
	assert_int_equal(op_write(&rig, ino, 0, FILE_BYTES - LARGE, data + FILE_BYTES - LARGE, 2 * LARGE, NULL), 0);
	expect_read(0, ROOM_BYTES, FILE_BYTES + LARGE, 0);
	stop_helpers();
	unmount();
	mount_with(4 * G4_MIB, NULL);
	expect_read(0, ROOM_BYTES, FILE_BYTES + LARGE, 0);
}

/* Over holes, space that was never written, 2 MiB pages and single ones: what was there is free afterwards. */
static void two_mib_pages_are_replaced(void **state)
{
	static const uint64_t offsets[] = {0, G4_REGION_BYTES, G4_REGION_BYTES - 4096, 4096, G4_REGION_BYTES + PIECE};
	static const uint64_t lengths[] = {G4_REGION_BYTES, 2 * G4_REGION_BYTES, G4_REGION_BYTES + 8192};
	uint64_t seed = 1;

	(void)state;
	start_helpers(2);
	for (uint32_t before = 0; before < 4; before++) {
		for (uint32_t k = 0; k < 15; k++) {
			uint64_t at = offsets[k / 3], bytes = g4_min64(lengths[k % 3], FILE_BYTES - at);
			assert_int_equal(op_truncate(&rig, ino, 0), 0);
			assert_int_equal(op_truncate(&rig, ino, FILE_BYTES), 0);
			memset(data, 0, FILE_BYTES);
			if (before == 1)
				assert_int_equal(op_fallocate(&rig, ino, 0, PIECE, FILE_BYTES - PIECE), 0);
			if (before >= 2) {
				rig_pattern(data, seed++, FILE_BYTES);
				assert_int_equal(op_write(&rig, ino, 0, 0, data, FILE_BYTES, NULL), 0);
			}
			for (uint64_t page = 5; before == 3 && page < FILE_BYTES / G4_PAGE_BYTES; page += 400)
				assert_int_equal(op_write(&rig, ino, 0, page * G4_PAGE_BYTES,
							  data + page * G4_PAGE_BYTES, G4_PAGE_BYTES, NULL),
						 0);
			rig_pattern(data + at, seed++, bytes);
			assert_int_equal(op_write(&rig, ino, 0, at, data + at, bytes, NULL), 0);
			expect_read(0, FILE_BYTES, FILE_BYTES, 0);
		}
		stop_helpers();
		unmount();
		mount_with(4 * G4_MIB, NULL);
		expect_read(0, FILE_BYTES, FILE_BYTES, 0);
		start_helpers(2);
	}
}

/* ------------------------------------------------------------------ errors */

/* The device fails once, somewhere: what comes before is right, nobody waits for ever, and the next try succeeds. */
static void a_read_error_is_told_once(void **state)
{
	uint64_t told = 0;

	(void)state;
	for (uint64_t nth = 1; nth <= 40; nth += 3) {
		const uint64_t at = nth % 2 * 13; /* past the cache or not */
		struct g4_fault fault = {0};
		uint64_t done;

		unmount();
		mount_with(2 * G4_MIB, &fault);
		expect_read(0, 1, FILE_BYTES, 0); /* the map is cached */
		start_helpers(nth % 4);
		fault.fail_read_at = nth;
		g4_dev_fault_set(rig.fault, &fault);
		int rc = op_read(&rig, ino, 0, at, buffer, QUEUED_BYTES, &done);
		assert_true(rc == 0 || (rc == -G4_E_IO && done == 0));
		assert_memory_equal(buffer, data + at, done);
		told += done < QUEUED_BYTES;
		fault.fail_read_at = 0;
		g4_dev_fault_set(rig.fault, &fault);
		expect_read(at, QUEUED_BYTES, FILE_BYTES, 0);
		stop_helpers();
	}
	assert_true(told > 0);
}

struct cutter {
	pthread_t thread;
	uint64_t reads; /* after which the power goes */
};

static void *cut_power(void *argument)
{
	const struct cutter *cutter = (const struct cutter *)argument;
	uint64_t reads, writes, flushes;

	do {
		g4_pause();
		g4_dev_fault_counts(rig.fault, &reads, &writes, &flushes);
	} while (reads < cutter->reads && !g4_load32_acq(&stop));
	g4_dev_fault_cut(rig.fault);
	return NULL;
}

/* Many pieces fail at a time: what is told ends in front of the first. */
static void the_first_of_many_errors_is_told(void **state)
{
	const uint64_t rounds = rig_slow() ? 10 : 30;

	(void)state;
	assert_int_equal(op_sync(&rig), 0);
	for (uint64_t round = 0; round < rounds; round++) {
		const struct g4_fault fault = {.delay_ns = 20000, .write_through = true};
		uint64_t reads, writes, flushes, done;
		struct cutter cutter;

		unmount();
		mount_with(2 * G4_MIB, &fault);
		expect_read(0, 1, FILE_BYTES, 0);
		start_helpers(3);
		g4_dev_fault_counts(rig.fault, &reads, &writes, &flushes);
		cutter.reads = reads + 2 + round % 10;
		assert_int_equal(pthread_create(&cutter.thread, NULL, cut_power, &cutter), 0);
		memset(buffer, 0xee, QUEUED_BYTES);
		int rc = op_read(&rig, ino, 0, 0, buffer, QUEUED_BYTES, &done);
		assert_true(rc == 0 || (rc == -G4_E_IO && done == 0));
		assert_memory_equal(buffer, data, done);
		g4_store32_rel(&stop, 1);
		pthread_join(cutter.thread, NULL);
		g4_dev_fault_power_on(rig.fault);
		stop_helpers();
		expect_read(0, QUEUED_BYTES, FILE_BYTES, 0);
	}
}

static void a_write_error_leaves_what_was_there(void **state)
{
	uint8_t *other = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, FILE_BYTES);
	uint64_t told = 0, bytes = g4_align_up(QUEUED_BYTES, G4_PAGE_BYTES);
	struct g4_statfs before, after;

	(void)state;
	assert_non_null(other);
	rig_pattern(other, 3, FILE_BYTES);
	for (uint64_t nth = 1; nth <= 19; nth += 3) {
		struct g4_fault fault = {0};
		uint64_t done = 0;

		unmount();
		mount_with(4 * G4_MIB, &fault);
		assert_int_equal(op_sync(&rig), 0);
		assert_int_equal(op_statfs(&rig, &before), 0);
		start_helpers(nth % 4);
		fault.fail_write_at = nth;
		g4_dev_fault_set(rig.fault, &fault);
		int rc = op_write(&rig, ino, 0, 0, other, bytes, &done);
		if (rc < 0) {
			told++;
			assert_int_equal(rc, -G4_E_IO);
			assert_int_equal(op_statfs(&rig, &after), 0);
			assert_int_equal(after.blocks_available, before.blocks_available);
			expect_read(0, FILE_BYTES, FILE_BYTES, 0);
		}
		fault.fail_write_at = 0;
		g4_dev_fault_set(rig.fault, &fault);
		assert_int_equal(op_write(&rig, ino, 0, 0, other, bytes, &done), 0);
		assert_int_equal(done, bytes);
		memcpy(buffer, data, bytes);
		memcpy(data, other, bytes);
		memcpy(other, buffer, bytes);
		expect_read(0, FILE_BYTES, FILE_BYTES, 0);
		stop_helpers();
	}
	assert_true(told > 0);
	free(other);
}

/* ------------------------------------------------------------------ side by side */

struct owner {
	pthread_t thread;
	struct rig rig; /* with a workgroup of its own */
	uint64_t ino;
	uint8_t *memory, *wanted;
	uint64_t rounds;
	const char *failed;
};

static void *read_and_write(void *argument)
{
	struct owner *owner = (struct owner *)argument;
	uint64_t done;

	for (uint64_t round = 0; round < owner->rounds && !owner->failed; round++) {
		rig_pattern(owner->wanted, round * OWNERS + g4_wg_index(owner->rig.wg), 2 * LARGE);
		if (op_write(&owner->rig, owner->ino, 0, round % 3 * 4096, owner->wanted, 2 * LARGE, &done) != 0 ||
		    done != 2 * LARGE)
			owner->failed = "a write";
		else if (op_read(&owner->rig, owner->ino, 0, round % 3 * 4096, owner->memory, 2 * LARGE, &done) != 0 ||
			 done != 2 * LARGE)
			owner->failed = "a read";
		else if (memcmp(owner->memory, owner->wanted, 2 * LARGE) != 0)
			owner->failed = "what was read";
	}
	return NULL;
}

/* Each in a file of its own. */
static void run_owners(uint32_t count, uint64_t rounds)
{
	static uint32_t files;
	struct owner owners[OWNERS] = {0};
	char name[16];

	for (uint32_t i = 0; i < count; i++) {
		struct owner *owner = &owners[i];
		owner->rig = rig;
		owner->rig.wg = g4_wg_create(1 + i);
		owner->rounds = rounds;
		owner->memory = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, 2 * LARGE);
		owner->wanted = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, 2 * LARGE);
		assert_true(owner->rig.wg && owner->memory && owner->wanted);
		snprintf(name, sizeof(name), "o%u", files++);
		assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, name, G4_S_IFREG | 0600, &owner->ino), 0);
	}
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(pthread_create(&owners[i].thread, NULL, read_and_write, &owners[i]), 0);
	for (uint32_t i = 0; i < count; i++) {
		pthread_join(owners[i].thread, NULL);
		g4_wg_destroy(owners[i].rig.wg);
		free(owners[i].memory);
		free(owners[i].wanted);
		if (owners[i].failed)
			fail_msg("%s went wrong", owners[i].failed);
	}
}

static void many_transfers_at_a_time(void **state)
{
	(void)state;
	start_helpers(2);
	run_owners(2, rig_slow() ? 4 : 20);
}

/* What finds no place is done by one workgroup. */
static void more_transfers_than_places(void **state)
{
	static const uint64_t taken[] = {UINT64_MAX, ~(UINT64_C(1) << 5)};

	(void)state;
	start_helpers(2);
	for (uint32_t i = 0; i < 2; i++) {
		g4_store64_rel(&fs->split.used, taken[i]);
		run_owners(OWNERS, rig_slow() ? 2 : 10);
		assert_int_equal(fs->split.used, taken[i]);
		if (i == 0)
			assert_int_equal(helped(), 0);
	}
	fs->split.used = 0;
}

static void *read_whole(void *argument)
{
	struct owner *owner = (struct owner *)argument;
	uint64_t done;

	for (uint64_t round = 0; round < owner->rounds && !owner->failed; round++) {
		int rc = op_read(&owner->rig, owner->ino, 0, 0, owner->memory, FILE_BYTES, &done);
		if (rc != 0 || done < LARGE)
			owner->failed = "a read";
		else if (memcmp(owner->memory, data, done) != 0)
			owner->failed = "what was read";
	}
	return NULL;
}

/* A reader sees the file before or after, never zeros of a page that was cut away under it. */
static void a_truncation_waits_for_all_pieces(void **state)
{
	const uint64_t rounds = rig_slow() ? 10 : 60;

	(void)state;
	start_helpers(3);
	struct owner reader = {.rig = rig, .ino = ino, .rounds = 4 * rounds};
	reader.rig.wg = g4_wg_create(1);
	reader.memory = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, FILE_BYTES);
	assert_true(reader.rig.wg && reader.memory);
	assert_int_equal(pthread_create(&reader.thread, NULL, read_whole, &reader), 0);
	for (uint64_t round = 0; round < rounds; round++) {
		uint64_t keep = LARGE + round * 4096 + round % 5;
		assert_int_equal(op_truncate(&rig, ino, keep), 0);
		keep &= ~(uint64_t)(G4_PAGE_BYTES - 1);
		assert_int_equal(op_write(&rig, ino, 0, keep, data + keep, FILE_BYTES - keep, NULL), 0);
	}
	pthread_join(reader.thread, NULL);
	g4_wg_destroy(reader.rig.wg);
	free(reader.memory);
	if (reader.failed)
		fail_msg("%s went wrong", reader.failed);
	expect_read(0, FILE_BYTES, FILE_BYTES, 0);
}

/* Whoever looks: of parts of a disk that is made again nobody begins with the second before the first has no piece left. The places of jobs are used in turns. */
static void of_parts_of_a_disk_the_oldest_is_first(void **state)
{
	const struct g4_direct_lost lost = {.bytes = 8 * PIECE, .part_bytes = PIECE};
	const struct g4_split_work work = {.kind = G4_SPLIT_LOST, .bytes = lost.bytes, .lost = &lost};
	struct g4_split_job *jobs[3], *found;
	struct g4_split_piece piece;
	uint64_t done;

	(void)state;
	fs->split.helpers = 1;
	for (uint32_t round = 0; round < G4_SPLIT_JOBS; round++) {
		struct g4_wg *other = g4_wg_create(round);
		for (uint32_t k = 0; k < 3; k++)
			assert_non_null(jobs[k] = g4_split_open(wg, fs, &work));
		for (uint32_t k = 0; k < 3; k++) {
			for (uint32_t n = 0; n < 8; n++) {
				assert_false(g4_split_is_done(jobs[k]));
				assert_true(g4_split_find(other, fs, &found, &piece));
				assert_ptr_equal(found, jobs[k]);
				assert_int_equal(piece.offset, n * PIECE);
				g4_split_done(found, &piece, 0, 0);
				g4_split_leave(fs, found, G4_SPLIT_LOST);
			}
			assert_true(g4_split_is_done(jobs[k]));
			if (round % 2) /* sooner or later */
				assert_int_equal(g4_split_close(fs, jobs[k], &done), 0);
		}
		assert_false(g4_split_find(other, fs, &found, &piece));
		for (uint32_t k = 0; k < 3 && round % 2 == 0; k++)
			assert_int_equal(g4_split_close(fs, jobs[k], &done), 0);
		g4_wg_destroy(other);
	}
	assert_int_equal(fs->split.lost_first, 0);
	assert_int_equal(fs->split.stripe_helpers, 0);
	assert_true(fs->split.used == 0 && fs->split.stripes == 0 && fs->split.lost == 0);
	fs->split.helpers = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(any_part_can_be_read, setup, teardown),
		cmocka_unit_test_setup_teardown(nobody_has_to_come, setup, teardown),
		cmocka_unit_test_setup_teardown(helpers_do_pieces, setup, teardown),
		cmocka_unit_test_setup_teardown(buffers_are_filled_by_helpers, setup_dedup, teardown),
		cmocka_unit_test_setup_teardown(nobody_has_to_come, setup_dedup, teardown),
		cmocka_unit_test_setup_teardown(many_transfers_at_a_time, setup_dedup, teardown),
		cmocka_unit_test_setup_teardown(small_transfers_are_not_shared, setup, teardown),
		cmocka_unit_test_setup_teardown(holes_and_cached_pages_are_read, setup, teardown),
		cmocka_unit_test_setup_teardown(any_part_can_be_written, setup, teardown),
		cmocka_unit_test_setup_teardown(two_mib_pages_are_replaced, setup, teardown),
		cmocka_unit_test_setup_teardown(a_read_error_is_told_once, setup, teardown),
		cmocka_unit_test_setup_teardown(the_first_of_many_errors_is_told, setup, teardown),
		cmocka_unit_test_setup_teardown(a_write_error_leaves_what_was_there, setup, teardown),
		cmocka_unit_test_setup_teardown(many_transfers_at_a_time, setup, teardown),
		cmocka_unit_test_setup_teardown(more_transfers_than_places, setup, teardown),
		cmocka_unit_test_setup_teardown(a_truncation_waits_for_all_pieces, setup, teardown),
		cmocka_unit_test_setup_teardown(of_parts_of_a_disk_the_oldest_is_first, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
