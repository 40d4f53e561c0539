/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small files that lie side by side are read together, and nothing that was brought with others is found once it is old: written
 * over, freed and somebody else's, discarded, mended, with writers beside readers. Without sums, which would find it, and read the
 * device again.
 */
#include "rig.h"

#include <pthread.h>
#include <unistd.h>

#include "dev/agent_host.h"
#include "fs/fs.h"
#include "simt/simt_host.h"

#define IMAGE_BYTES (64 * G4_MIB)
#define FILES 1000u
#define FILE_PAGES 3u
#define FILE_BYTES (2 * G4_PAGE_BYTES + 1024)
#define ROOM_BYTES (FILE_PAGES * G4_PAGE_BYTES)

static struct rig rig;
static uint64_t inodes[FILES];
static uint8_t *data, *found;

static void begin(uint32_t checksum, uint64_t tier_bytes)
{
	const struct g4_fault fault = {0}; /* a device that is not memory */

	rig_open_as(&rig, checksum, RIG_AS_SET, IMAGE_BYTES, 0);
	rig.tier_bytes = tier_bytes;
	rig.cache_bytes = 32 * G4_MIB;
	rig.wg = g4_wg_create(0);
	assert_non_null(rig.wg);
	rig.fs = rig_mount_fs(&rig, rig.wg, &fault);
	data = rig_memory(ROOM_BYTES, 1);
	found = rig_memory(ROOM_BYTES, 0);
}

static int setup(void **state)
{
	(void)state;
	begin(G4_CHECKSUM_NONE, 16 * G4_MIB);
	return 0;
}

static int setup_with_sums(void **state)
{
	(void)state;
	begin(G4_CHECKSUM_CRC32C, 16 * G4_MIB);
	return 0;
}

static int setup_without_tier(void **state)
{
	(void)state;
	begin(G4_CHECKSUM_NONE, 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_end(&rig);
	free(data);
	free(found);
	return 0;
}

static struct g4_tier_counts *counts(void)
{
	return &rig.fs->space.tier.counts;
}

/* What file `i` has in a version. */
static const uint8_t *contents(uint32_t i, uint32_t version)
{
	rig_pattern(data, (uint64_t)version << 32 | (i + 1), FILE_BYTES);
	return data;
}

static void write_file(uint32_t i, uint32_t version)
{
	assert_int_equal(op_write(&rig, inodes[i], 0, 0, contents(i, version), FILE_BYTES, NULL), 0);
}

static void make_files(uint32_t from, uint32_t count, uint32_t version)
{
	for (uint32_t i = from; i < from + count; i++) {
		inodes[i] = rig_make(&rig, i);
		write_file(i, version);
	}
	assert_int_equal(op_sync(&rig), 0);
}

/* The page cache has nothing of a file any more. */
static void forget(uint32_t i)
{
	uint32_t index;

	assert_int_equal(g4_icache_get(rig.wg, rig.fs, inodes[i], &index), 0);
	struct g4_inode_core *inode = g4_icache_at(rig.fs, index);
	g4_write_lock(&inode->lock);
	g4_cache_drop_range(&rig.fs->cache, inode->data_key, 0, FILE_PAGES);
	g4_write_unlock(&inode->lock);
	g4_icache_put(rig.fs, index);
}

static void expect(uint32_t i, uint32_t version)
{
	forget(i);
	rig_expect_contents(&rig, inodes[i], 0, found, contents(i, version), FILE_BYTES);
}

static uint64_t device_reads(void)
{
	uint64_t reads, writes, flushes;

	g4_dev_fault_counts(rig.fault, &reads, &writes, &flushes);
	return reads;
}

/* Mounts again: nothing is cached. How many reads of the device it takes then to read all files, in steps of `step` files. */
static uint64_t reads_for_all(uint32_t step)
{
	const struct g4_fault fault = {0};

	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = rig_mount_fs(&rig, rig.wg, &fault);
	const uint64_t before = device_reads();
	for (uint32_t k = 0; k < FILES; k++) {
		const uint32_t i = (uint32_t)((uint64_t)k * step % FILES);
		rig_expect_contents(&rig, inodes[i], 0, found, contents(i, 1), FILE_BYTES);
	}
	return device_reads() - before;
}

/* A file is a read of its own without the tier: so is what the number of reads with it is compared with. */
static void a_thousand_small_files_side_by_side_are_far_fewer_reads(void **state)
{
	(void)state;
	make_files(0, FILES, 1);
	assert_in_range(reads_for_all(1), 1, FILES / 8);
	assert_in_range(reads_for_all(7), 1, FILES / 8);   /* not in the order in which they lie */
	assert_in_range(reads_for_all(397), 1, FILES / 8); /* nor near to it */
	assert_true(counts()->hits > 2 * FILES);
}

static void without_a_tier_each_is_a_read(void **state)
{
	(void)state;
	make_files(0, FILES, 1);
	assert_true(reads_for_all(1) > FILES);
	assert_int_equal(counts()->misses, 0);
}

/* Every other file of a hundred has been read: the pages of the rest came with them. */
static void bring_neighbours(uint32_t count, uint32_t version)
{
	const uint64_t hits = counts()->hits;

	for (uint32_t i = 0; i < count; i += 2)
		expect(i, version);
	assert_true(counts()->ahead >= count);
	assert_true(counts()->hits > hits);
}

static void what_was_written_over_is_not_found(void **state)
{
	(void)state;
	make_files(0, 100, 1);
	bring_neighbours(100, 1);
	for (uint32_t i = 1; i < 100; i += 2)
		write_file(i, 2);
	assert_int_equal(op_sync(&rig), 0);
	for (uint32_t i = 0; i < 100; i++)
		expect(i, 1 + i % 2);
}

/* Pages go from one file to another, again and again, between reads that bring those beside them. */
static void a_page_that_is_freed_and_used_again_is_the_new_one(void **state)
{
	uint64_t places[100], again = 0;

	(void)state;
	make_files(0, 100, 1);
	for (uint32_t version = 2; version < 8; version++) {
		bring_neighbours(100, version - 1);
		for (uint32_t i = 0; i < 100; i++) {
			char name[32];
			places[i] = rig_place(&rig, inodes[i], 0);
			snprintf(name, sizeof(name), "f%u", i);
			assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, name), 0);
		}
		assert_int_equal(op_sync(&rig), 0);
		make_files(0, 100, version);
		for (uint32_t i = 0; i < 100; i++) {
			const uint64_t place = rig_place(&rig, inodes[i], 0);
			for (uint32_t k = 0; k < 100; k++)
				again += place == places[k];
			expect(i, version);
		}
	}
	assert_true(again > 0);
	assert_true(counts()->dropped > 0);
}

/* Space that was allocated before it is written has been read beside others, as what it was before. */
static void space_that_is_written_in_place_is_the_new_one(void **state)
{
	uint64_t ino;

	(void)state;
	make_files(0, 40, 1);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "space", G4_S_IFREG | 0600, &ino), 0);
	assert_int_equal(op_fallocate(&rig, ino, 0, 0, 16 * ROOM_BYTES), 0);
	inodes[40] = ino;
	make_files(41, 40, 1);
	for (uint32_t i = 0; i < 81; i += 2)
		if (i != 40)
			expect(i, 1);
	assert_true(counts()->ahead > 0);
	const uint64_t place = rig_place(&rig, inodes[41], 0);
	write_file(40, 3);
	assert_int_equal(op_sync(&rig), 0);
	assert_true(place != rig_place(&rig, ino, 0));
	expect(40, 3);
}

static void what_was_discarded_is_not_found(void **state)
{
	uint64_t trimmed;
	char name[32];

	(void)state;
	make_files(0, 100, 1);
	bring_neighbours(100, 1);
	for (uint32_t i = 1; i < 100; i += 2) {
		snprintf(name, sizeof(name), "f%u", i);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, name), 0);
	}
	assert_int_equal(op_sync(&rig), 0);
	const uint64_t dropped = counts()->dropped;
	assert_int_equal(op_trim(&rig, 0, UINT64_MAX, 0, &trimmed), 0);
	assert_true(trimmed > 0);
	assert_true(counts()->dropped > dropped);
	for (uint32_t i = 0; i < 100; i += 2)
		expect(i, 1);
}

/* Whether the tier has what is stored at a place. */
static bool in_tier(uint64_t place)
{
	const struct g4_iov part = {found, G4_PAGE_BYTES};
	uint64_t from, to;

	return g4_tier_read(rig.wg, &rig.fs->space.tier, place / G4_PAGE_BYTES, 1, &part, 1, &from, &to);
}

/* ---- metadata ---- */

static struct g4_address slab_of(uint32_t i)
{
	return g4_address_page_start(g4_ptr_address(inodes[i]));
}

/* The mode that an inode's slab has on the device, or in the tier: the page cache does not have it. */
static uint32_t mode_in_slab(uint32_t i)
{
	uint32_t line;

	g4_cache_drop(&rig.fs->cache, 0, g4_address_page(slab_of(i)));
	assert_int_equal(g4_meta_get(rig.wg, &rig.fs->meta, slab_of(i), G4_BLOCK_SLAB, &line), 0);
	const uint8_t *slab = (const uint8_t *)g4_line_data(&rig.fs->cache, line);
	const uint64_t at = g4_address_stored(g4_ptr_address(inodes[i])) % G4_PAGE_BYTES;
	const uint32_t mode = ((const struct g4_inode *)(const void *)(slab + at))->mode;
	g4_cache_put(&rig.fs->cache, line);
	return mode & 07777;
}

static void slabs_come_with_one_another_and_are_those_that_went_home_last(void **state)
{
	(void)state;
	make_files(0, FILES / 2, 1);
	for (uint32_t version = 0; version < 4; version++) {
		struct g4_attr attr = {.mode = 0600 + version};
		assert_int_equal(g4_sync_all(rig.wg, rig.fs, true), 0);
		const uint64_t before = device_reads();
		for (uint32_t i = 0; i < FILES / 2; i += 15)
			mode_in_slab(i);
		assert_in_range(device_reads() - before, 1, FILES / 2 / 15 / 2);
		for (uint32_t i = 0; i < FILES / 2; i++)
			assert_int_equal(op_setattr(&rig, inodes[i], G4_SET_MODE, &attr), 0);
		assert_int_equal(g4_sync_all(rig.wg, rig.fs, true), 0);
		for (uint32_t i = 0; i < FILES / 2; i++)
			assert_int_equal(mode_in_slab(i), 0600 + version);
	}
	assert_true(counts()->dropped > 0);
}

/* A slab that is damaged only in what the tier has is read from the device. */
static void a_slab_that_is_not_whole_in_the_tier_is_the_devices(void **state)
{
	(void)state;
	make_files(0, FILES / 2, 1);
	assert_int_equal(g4_sync_all(rig.wg, rig.fs, true), 0);
	const uint64_t place = g4_address_stored(slab_of(200));
	assert_int_equal(g4_dev_fault_flip(rig.fault, place + 300, 1), 0);
	for (uint32_t i = 0; i < FILES / 2; i += 15)
		if (!g4_address_is(slab_of(i), slab_of(200)))
			mode_in_slab(i);
	assert_true(in_tier(place));
	assert_int_equal(g4_dev_fault_flip(rig.fault, place + 300, 1), 0);
	assert_int_equal(mode_in_slab(200), 0600);
	assert_false(in_tier(place)); /* not to be read in vain again */
}

/* ---- damage ---- */

/* Damaged on the device when it came with others, and good again since: sums are verified of what the tier has. */
static void a_page_that_does_not_match_is_read_from_the_device(void **state)
{
	(void)state;
	make_files(0, 100, 1);
	const uint64_t place = rig_place(&rig, inodes[51], 1);
	rig.image[place + 9] ^= 1;
	bring_neighbours(51, 1);
	for (uint32_t i = 52; i < 60; i++)
		expect(i, 1);
	rig.image[place + 9] ^= 1;
	assert_true(in_tier(place));
	expect(51, 1);
	assert_false(in_tier(place)); /* not to be read in vain again */
	assert_int_equal(rig.fs->damaged_pages, 0);
}

/* The same without sums: who mends a page takes what the tier has of it out. */
static void a_page_that_was_mended_is_the_new_one(void **state)
{
	(void)state;
	make_files(0, 100, 1);
	const uint64_t place = rig_place(&rig, inodes[51], 0);
	uint8_t *good = rig_memory(G4_PAGE_BYTES, 0);
	memcpy(good, rig.image + place, G4_PAGE_BYTES);
	assert_int_equal(g4_dev_fault_flip(rig.fault, place + 9, 1), 0);
	bring_neighbours(51, 1);
	assert_true(in_tier(place));
	assert_memory_not_equal(found, good, G4_PAGE_BYTES);
	assert_int_equal(g4_space_write(rig.wg, &rig.fs->space, g4_address_from(place), good, G4_PAGE_BYTES, 0), 0);
	expect(51, 1);
	assert_int_equal(g4_dev_fault_flip(rig.fault, place + 9, 1), 0);
	g4_tier_forget(&rig.fs->space.tier);
	bring_neighbours(51, 1);
	assert_true(in_tier(place));
	assert_int_equal(g4_space_mend(rig.wg, &rig.fs->space, g4_address_from(place), good, G4_PAGE_BYTES), 1);
	expect(51, 1);
	free(good);
}

/* Whatever comes of it; questions about disks leave everything as it is. */
static void an_order_about_disks_leaves_nothing(void **state)
{
	static const uint32_t questions[] = {G4_ORDER_ASK, G4_ORDER_NAME, G4_ORDER_CHUNK, G4_ORDER_NEXT};
	static const uint32_t orders[] = {G4_ORDER_OFFLINE, G4_ORDER_REBUILD, G4_ORDER_REPLACE, G4_ORDER_STEP,
					  G4_ORDER_STOP,    G4_ORDER_ADD,     G4_ORDER_ASSIGN,	G4_ORDER_RELIEVE};
	char text[128];

	(void)state;
	make_files(0, 100, 1);
	const uint64_t place = rig_place(&rig, inodes[51], 0);
	for (uint32_t k = 0; k < sizeof(orders) / sizeof(orders[0]); k++) {
		bring_neighbours(50, 1);
		expect(52, 1);
		assert_true(in_tier(place));
		for (uint32_t q = 0; q < sizeof(questions) / sizeof(questions[0]); q++) {
			struct g4_dev_order question = {.op = questions[q], .text = text, .text_bytes = sizeof(text)};
			(void)g4_space_order(rig.wg, &rig.fs->space, &question);
		}
		assert_true(in_tier(place));
		struct g4_dev_order order = {.op = orders[k], .name = "none", .text = text, .text_bytes = sizeof(text)};
		assert_true(g4_space_order(rig.wg, &rig.fs->space, &order) < 0);
		assert_false(in_tier(place));
	}
	expect(51, 1);
}

/* A file beside a sector that can not be read is read nevertheless, and that sector's error is told to who asks for it. */
static void a_bad_sector_is_its_own_files(void **state)
{
	uint64_t done;

	(void)state;
	make_files(0, 100, 1);
	const struct g4_fault bad = {.bad_at = rig_place(&rig, inodes[51], 1), .bad_bytes = 512};
	g4_dev_fault_set(rig.fault, &bad);
	for (uint32_t i = 0; i < 100; i++)
		if (i != 51)
			expect(i, 1);
	forget(51);
	assert_int_equal(op_read(&rig, inodes[51], 0, 0, found, FILE_BYTES, &done), -G4_E_IO);
	g4_dev_fault_set(rig.fault, &(struct g4_fault){0});
	expect(51, 1);
}

/* ---- writers beside readers ---- */

#define SHARED 420u /* files: more pages than the cache has lines */
#define WRITERS 2u
#define READERS 2u

static struct {
	uint32_t begun[SHARED], done[SHARED]; /* versions */
	uint32_t writers;		      /* still at work */
	uint32_t turns;
	uint64_t passes;
	bool failed;
} shared;

static void write_shared(uint32_t i, uint8_t *memory, bool frees)
{
	const uint32_t version = g4_load32_rlx(&shared.begun[i]) + 1;

	g4_store32_rel(&shared.begun[i], version);
	if (frees)
		assert_int_equal(op_truncate(&rig, inodes[i], 0), 0);
	rig_pattern(memory, (uint64_t)version << 32 | (i + 1), FILE_BYTES);
	assert_int_equal(op_write(&rig, inodes[i], 0, 0, memory, FILE_BYTES, NULL), 0);
	if (version % 4 == 0)
		assert_int_equal(op_fsync(&rig, inodes[i]), 0);
	g4_store32_rel(&shared.done[i], version);
}

static void *writer(void *argument)
{
	const uint32_t first = (uint32_t)(uintptr_t)argument;
	uint8_t *memory = rig_memory(ROOM_BYTES, 0);
	uint64_t random = first + 1;

	for (uint32_t turn = 0; turn < shared.turns; turn++) {
		const uint32_t i = (uint32_t)(rig_random(&random) % (SHARED / WRITERS)) * WRITERS + first;
		write_shared(i, memory, turn % 3 == 0);
		if (turn % 64 == 0)
			assert_int_equal(op_sync(&rig), 0);
	}
	g4_sub32(&shared.writers, 1);
	free(memory);
	return NULL;
}

/* Whole, and of a version that was being written since the reader asked, or the last one before; or empty for a moment. */
static bool is_right(uint32_t i, uint32_t least, const uint8_t *memory, uint64_t bytes, uint8_t *expected)
{
	const uint32_t most = g4_load32_acq(&shared.begun[i]);

	if (bytes == 0)
		return most > least;
	for (uint32_t version = least; version <= most && bytes == FILE_BYTES; version++) {
		rig_pattern(expected, (uint64_t)version << 32 | (i + 1), FILE_BYTES);
		if (memcmp(expected, memory, FILE_BYTES) == 0)
			return true;
	}
	return false;
}

static void *reader(void *argument)
{
	uint8_t *memory = rig_memory(ROOM_BYTES, 0), *expected = rig_memory(ROOM_BYTES, 0);
	uint32_t i = (uint32_t)(uintptr_t)argument * 100;

	while (g4_load32_acq(&shared.writers) > 0 || g4_load64_rlx(&shared.passes) < READERS) {
		const uint32_t least = g4_load32_acq(&shared.done[i]);
		uint64_t bytes = 0;
		if (op_read(&rig, inodes[i], 0, 0, memory, FILE_BYTES, &bytes) < 0 ||
		    !is_right(i, least, memory, bytes, expected))
			shared.failed = true;
		i = (i + 1) % SHARED;
		if (i == 0)
			g4_add64_rlx(&shared.passes, 1);
	}
	free(memory);
	free(expected);
	return NULL;
}

/* As the CUDA engine has its device; a block's read is several requests then. */
static void mount_behind_agent(uint64_t tier_bytes)
{
	const struct g4_agent_options queue = {.slots = 4, .chunk_bytes = 4 * G4_PAGE_BYTES};
	const struct g4_mount_options options = {.commit_ms = 20, .cache_bytes = 4 * G4_MIB, .tier_bytes = tier_bytes};
	const struct g4_dev_open_options one = {.queues = 1};
	struct g4_dev *dev, *remote;
	char message[256];

	assert_int_equal(g4_dev_open(rig.name, &one, &dev, message, sizeof(message)), 0);
	assert_int_equal(g4_dev_remote_open(dev, &queue, &remote), 0);
	assert_int_equal(g4_engine_mount_device(remote, &options, &rig.engine, message, sizeof(message)), 0);
}

static void read_beside_writers(bool agent, uint64_t tier_bytes)
{
	pthread_t threads[WRITERS + READERS];
	struct g4_health health;

	rig_open_as(&rig, G4_CHECKSUM_NONE, RIG_AS_SET, IMAGE_BYTES, 0);
	snprintf(rig.name, sizeof(rig.name), "/proc/self/fd/%d",
		 rig.fd); /* a file: requests are under way side by side */
	rig.tier_bytes = tier_bytes;
	if (agent)
		mount_behind_agent(tier_bytes);
	else
		rig_mount(&rig);
	memset(&shared, 0, sizeof(shared));
	shared.writers = WRITERS;
	shared.turns = rig_slow() ? 800 : 4000;
	uint8_t *memory = rig_memory(ROOM_BYTES, 0);
	for (uint32_t i = 0; i < SHARED; i++) {
		inodes[i] = rig_make(&rig, i);
		write_shared(i, memory, false);
	}
	free(memory);
	assert_int_equal(op_sync(&rig), 0);
	for (uint32_t t = 0; t < WRITERS + READERS; t++)
		assert_int_equal(pthread_create(&threads[t], NULL, t < WRITERS ? writer : reader,
						(void *)(uintptr_t)(t < WRITERS ? t : t - WRITERS)),
				 0);
	for (uint32_t t = 0; t < WRITERS + READERS; t++)
		pthread_join(threads[t], NULL);
	assert_false(shared.failed);
	rig_last_job(&rig, &health);
	print_message("%llu pages found, %llu not, %llu brought by %llu reads, %llu dropped\n",
		      (unsigned long long)health.cache.tier_hits, (unsigned long long)health.cache.tier_misses,
		      (unsigned long long)health.cache.tier_ahead, (unsigned long long)health.cache.tier_ahead_reads,
		      (unsigned long long)health.cache.tier_dropped);
	print_message("%llu victims down, %llu again, %llu old, %llu up\n", (unsigned long long)health.cache.tier_down,
		      (unsigned long long)health.cache.tier_down_again, (unsigned long long)health.cache.tier_down_old,
		      (unsigned long long)health.cache.tier_up);
	assert_true(health.cache.tier_bytes == tier_bytes && health.cache.tier_hits > 0 &&
		    health.cache.tier_dropped > 0);
	assert_true((health.cache.tier_down > 0) == (tier_bytes >= 4 * G4_MIB));
	assert_true((health.cache.tier_up > 0) == (tier_bytes >= 4 * G4_MIB));
	rig_end_engine(&rig);
}

static void readers_beside_writers_find_nothing_old(void **state)
{
	(void)state;
	read_beside_writers(false, G4_MIB);
}

static void nor_do_those_behind_an_agent(void **state)
{
	(void)state;
	read_beside_writers(true, G4_MIB);
}

static void nor_what_the_page_cache_gave_up_before(void **state)
{
	(void)state;
	read_beside_writers(false, 4 * G4_MIB);
	read_beside_writers(true, 4 * G4_MIB);
}

#define tier_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		tier_test(a_thousand_small_files_side_by_side_are_far_fewer_reads),
		cmocka_unit_test_setup_teardown(without_a_tier_each_is_a_read, setup_without_tier, teardown),
		tier_test(what_was_written_over_is_not_found),
		tier_test(a_page_that_is_freed_and_used_again_is_the_new_one),
		tier_test(space_that_is_written_in_place_is_the_new_one),
		tier_test(what_was_discarded_is_not_found),
		tier_test(slabs_come_with_one_another_and_are_those_that_went_home_last),
		tier_test(a_slab_that_is_not_whole_in_the_tier_is_the_devices),
		cmocka_unit_test_setup_teardown(a_page_that_does_not_match_is_read_from_the_device, setup_with_sums,
						teardown),
		tier_test(a_page_that_was_mended_is_the_new_one),
		tier_test(an_order_about_disks_leaves_nothing),
		tier_test(a_bad_sector_is_its_own_files),
		cmocka_unit_test(readers_beside_writers_find_nothing_old),
		cmocka_unit_test(nor_do_those_behind_an_agent),
		cmocka_unit_test(nor_what_the_page_cache_gave_up_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
