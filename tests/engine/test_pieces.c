/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that are written in pieces, in any order and by several workgroups, as the kernel does it: 2 MiB of them end as one pointer, whoever
 * wrote which part of them first, with sums and without.
 */
#include "rig.h"

#include <pthread.h>

#include "data/map.h"
#include "data/map_path.h"
#include "fs/fs.h"
#include "simt/simt_host.h"

#define DEVICE_BYTES (128 * G4_MIB)
#define FILE_BYTES (16 * G4_MIB)
#define UNITS (FILE_BYTES / G4_REGION_BYTES)
#define MOST_PIECES (FILE_BYTES / (64 * G4_KIB))
#define WRITERS 3u

static struct rig rig;
static uint8_t *data, *found;
static uint32_t order[MOST_PIECES], pieces;
static uint64_t piece_bytes;

static int begin(void **state, const char *checksum, const char *dedup)
{
	(void)state;
	setenv("G4_TEST_CHECKSUM", checksum, 1);
	setenv("G4_TEST_DEDUP", dedup, 1);
	rig_open(&rig, DEVICE_BYTES, 0);
	rig.cache_bytes = 8 * G4_MIB;
	rig.wg = g4_wg_create(0);
	assert_non_null(rig.wg);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	unsetenv("G4_TEST_DEDUP");
	unsetenv("G4_TEST_CHECKSUM");
	data = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, FILE_BYTES);
	found = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, FILE_BYTES);
	assert_non_null(data);
	assert_non_null(found);
	return 0;
}

static int begin_plain(void **state)
{
	return begin(state, "0", "0");
}

static int begin_sums(void **state)
{
	return begin(state, "1", "0");
}

static int begin_dedup(void **state)
{
	return begin(state, "1", "1");
}

static int end(void **state)
{
	struct g4_statfs statfs;

	(void)state;
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_statfs(&rig, &statfs), 0);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig_expect_clean(&rig, statfs.blocks_free, "at the end");
	g4_wg_destroy(rig.wg);
	rig_close(&rig);
	free(data);
	free(found);
	return 0;
}

/* So many 2 MiB of a file are one pointer. */
static uint32_t large_units(uint64_t ino)
{
	uint32_t index, count = 0;

	assert_int_equal(g4_icache_get(rig.wg, rig.fs, ino, &index), 0);
	struct g4_inode_core *inode = g4_icache_at(rig.fs, index);
	g4_read_lock(&inode->lock);
	for (uint64_t unit = 0; unit < UNITS; unit++) {
		struct g4_path path;
		int rc = 0;
		g4_path_start(&path, inode, unit * G4_REGION_PAGES);
		while (rc == 0 && path.level > 1 && (*path.slot & G4_PTR_INDIRECT))
			rc = g4_path_down(rig.wg, rig.fs, inode, &path, unit * G4_REGION_PAGES);
		assert_int_equal(rc, 0);
		count += path.level == 1 && *path.slot != 0 && !(*path.slot & G4_PTR_INDIRECT);
		g4_path_put(rig.fs, &path);
	}
	g4_read_unlock(&inode->lock);
	g4_icache_put(rig.fs, index);
	return count;
}

static void in_order(uint64_t bytes)
{
	piece_bytes = bytes;
	pieces = (uint32_t)(FILE_BYTES / bytes);
	for (uint32_t k = 0; k < pieces; k++)
		order[k] = k;
}

static void reversed(uint64_t bytes)
{
	in_order(bytes);
	for (uint32_t k = 0; k < pieces; k++)
		order[k] = pieces - 1 - k;
}

static void shuffled(uint64_t bytes, uint64_t seed)
{
	in_order(bytes);
	for (uint32_t k = pieces - 1; k > 0; k--) {
		const uint32_t other = (uint32_t)(rig_random(&seed) % (k + 1)), mine = order[k];
		order[k] = order[other];
		order[other] = mine;
	}
}

static int write_piece(struct rig *by, uint64_t ino, uint32_t k)
{
	const uint64_t at = order[k] * piece_bytes;

	return op_write(by, ino, 0, at, data + at, piece_bytes, NULL);
}

/* A new file; one of before goes. */
static uint64_t new_file(uint64_t seed)
{
	uint64_t ino;

	(void)op_unlink(&rig, G4_NODE_ROOT, "f");
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "f", G4_S_IFREG | 0600, &ino), 0);
	rig_pattern(data, seed, FILE_BYTES);
	return ino;
}

static void expect(uint64_t ino, uint32_t least)
{
	assert_int_equal(op_sync(&rig), 0);
	const uint32_t large = large_units(ino);
	if (large < least)
		fail_msg("%u of %u units are large, %u were expected: pieces of %u KiB", large, (uint32_t)UNITS, least,
			 (uint32_t)(piece_bytes / G4_KIB));
	assert_int_equal(op_read(&rig, ino, 0, 0, found, FILE_BYTES, NULL), 0);
	assert_memory_equal(found, data, FILE_BYTES);
}

static void write_all(uint64_t seed, uint32_t least)
{
	const uint64_t ino = new_file(seed);

	for (uint32_t k = 0; k < pieces; k++)
		assert_int_equal(write_piece(&rig, ino, k), 0);
	expect(ino, least);
}

/* Halves in any order; smaller ones, too, but for the first 2 MiB, of which nobody knows how much more comes. */
static void pieces_in_any_order_become_large(void **state)
{
	(void)state;
	in_order(G4_MIB);
	write_all(1, UNITS);
	reversed(G4_MIB);
	write_all(2, UNITS);
	for (uint64_t seed = 3; seed < (rig_slow() ? 5 : 13); seed++) {
		shuffled(G4_MIB, seed);
		write_all(seed, UNITS);
	}
	for (uint64_t bytes = 512 * G4_KIB; bytes >= 256 * G4_KIB; bytes /= 2) {
		in_order(bytes);
		write_all(20, UNITS - 1);
		reversed(bytes);
		write_all(21, UNITS - 1);
		shuffled(bytes, 22);
		write_all(22, UNITS - 1);
	}
}

/* Through the cache, whose pages are written back in rows. */
static void small_pieces_in_order_become_large(void **state)
{
	(void)state;
	for (uint64_t bytes = 128 * G4_KIB; bytes >= 64 * G4_KIB; bytes /= 2) {
		in_order(bytes);
		write_all(30, UNITS - 1);
	}
}

/* All of it again, in place of the old one. */
static void files_that_are_written_over_stay_large(void **state)
{
	uint64_t ino;

	(void)state;
	in_order(G4_MIB);
	ino = new_file(40);
	for (uint64_t seed = 41; seed < 45; seed++) {
		shuffled(G4_MIB, seed);
		rig_pattern(data, seed, FILE_BYTES);
		for (uint32_t k = 0; k < pieces; k++)
			assert_int_equal(write_piece(&rig, ino, k), 0);
		expect(ino, UNITS);
	}
}

static struct writer {
	pthread_t thread;
	struct rig rig;
	uint64_t ino;
	int failed;
} writers[WRITERS];
static uint32_t next_piece;

static void *write_some(void *argument)
{
	struct writer *writer = (struct writer *)argument;
	uint32_t k;

	while (writer->failed == 0 && (k = g4_add32(&next_piece, 1)) < pieces)
		writer->failed = write_piece(&writer->rig, writer->ino, k);
	return NULL;
}

static void several_writers_make_large_units(void **state)
{
	(void)state;
	for (uint64_t round = 0; round < (rig_slow() ? 3 : 10); round++) {
		if (round % 2)
			shuffled(G4_MIB, round);
		else
			in_order(G4_MIB);
		const uint64_t ino = new_file(50 + round);
		next_piece = 0;
		for (uint32_t w = 0; w < WRITERS; w++) {
			writers[w] = (struct writer){.rig = rig, .ino = ino};
			writers[w].rig.wg = g4_wg_create(1 + w);
			assert_non_null(writers[w].rig.wg);
			assert_int_equal(pthread_create(&writers[w].thread, NULL, write_some, &writers[w]), 0);
		}
		for (uint32_t w = 0; w < WRITERS; w++) {
			pthread_join(writers[w].thread, NULL);
			g4_wg_destroy(writers[w].rig.wg);
			assert_int_equal(writers[w].failed, 0);
		}
		expect(ino, UNITS - WRITERS); /* the first metadata of each writer may go where a half is missing */
	}
}

static void copy(uint64_t from, uint64_t to, uint64_t offset, uint64_t bytes)
{
	uint64_t in, out, done = 0, copied;
	int rc;

	assert_int_equal(op_open(&rig, from, G4_OPEN_READ, &in), 0);
	assert_int_equal(op_open(&rig, to, G4_OPEN_WRITE, &out), 0);
	do {
		rc = op_copy(&rig, in, offset + done, out, offset + done, bytes - done, &copied);
		done += rc == 0 ? copied : 0;
	} while (rc == 0 && copied > 0 && done < bytes);
	assert_int_equal(rc, 0);
	assert_int_equal(done, bytes);
	assert_int_equal(op_release(&rig, in), 0);
	assert_int_equal(op_release(&rig, out), 0);
}

static uint64_t make_empty(const char *name)
{
	uint64_t ino;

	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, name, G4_S_IFREG | 0600, &ino), 0);
	return ino;
}

/* A pointer to 2 MiB of which others have one half as well; and copies of it, of which parts change. */
static void a_copy_goes_on_beside_what_it_shares(void **state)
{
	static const char *const names[] = {"f", "g", "h"};

	(void)state;
	for (uint32_t kept = 0; kept < 3; kept++) {
		in_order(G4_MIB);
		const uint64_t f = new_file(80 + kept), g = make_empty("g"), h = make_empty("h"), inos[] = {f, g, h};
		assert_int_equal(write_piece(&rig, f, 0), 0);
		assert_int_equal(op_sync(&rig), 0);
		copy(f, g, 0, G4_MIB);
		assert_int_equal(write_piece(&rig, g, 1), 0);
		assert_int_equal(op_sync(&rig), 0);
		assert_int_equal(large_units(g), 1);
		assert_int_equal(write_piece(&rig, f, 1), 0);
		copy(g, h, 0, G4_REGION_BYTES);
		assert_int_equal(op_write(&rig, inos[(kept + 1) % 3], 0, 0, data, 4096, NULL), 0);
		assert_int_equal(op_write(&rig, inos[(kept + 2) % 3], 0, G4_REGION_BYTES - 4096,
					  data + G4_REGION_BYTES - 4096, 4096, NULL),
				 0);
		assert_int_equal(op_sync(&rig), 0);
		for (uint32_t k = 1; k < 3; k++)
			assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, names[(kept + k) % 3]), 0);
		assert_int_equal(op_sync(&rig), 0);
		assert_int_equal(op_read(&rig, inos[kept], 0, 0, found, G4_REGION_BYTES, NULL), 0);
		assert_memory_equal(found, data, G4_REGION_BYTES);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, names[kept]), 0);
	}
}

/* A page of sums of another part can not be read: nothing becomes one pointer, and the last part is written as well as any. */
static void sums_that_can_not_be_read_stay(void **state)
{
	const struct g4_fault none = {0};
	struct g4_map_nodes nodes;
	uint32_t index;

	(void)state;
	reversed(G4_MIB);
	const uint64_t ino = new_file(70);
	assert_int_equal(write_piece(&rig, ino, 0), 0);
	assert_int_equal(op_sync(&rig), 0);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = rig_mount_fs(&rig, rig.wg, &none);
	assert_int_equal(g4_icache_get(rig.wg, rig.fs, ino, &index), 0);
	assert_int_equal(
		g4_map_nodes(rig.wg, rig.fs, g4_icache_at(rig.fs, index), FILE_BYTES / G4_PAGE_BYTES - 1, &nodes), 0);
	g4_icache_put(rig.fs, index);
	assert_true(nodes.sums_count >= 2);
	g4_dev_fault_set(rig.fault, &(struct g4_fault){.bad_at = g4_address_stored(nodes.sums[nodes.sums_count - 1]),
						       .bad_bytes = G4_PAGE_BYTES});
	for (uint32_t k = 1; k < pieces; k++)
		assert_int_equal(write_piece(&rig, ino, k), 0);
	assert_int_equal(op_sync(&rig), 0);
	g4_dev_fault_set(rig.fault, &none);
	expect(ino, UNITS - 1);
	assert_int_equal(large_units(ino), UNITS - 1);
}

#define of_each_kind(test)                                                                                             \
	cmocka_unit_test_setup_teardown(test, begin_plain, end),                                                       \
		cmocka_unit_test_setup_teardown(test, begin_sums, end),                                                \
		cmocka_unit_test_setup_teardown(test, begin_dedup, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		of_each_kind(pieces_in_any_order_become_large),
		of_each_kind(small_pieces_in_order_become_large),
		of_each_kind(files_that_are_written_over_stay_large),
		of_each_kind(several_writers_make_large_units),
		of_each_kind(a_copy_goes_on_beside_what_it_shares),
		cmocka_unit_test_setup_teardown(sums_that_can_not_be_read_stay, begin_sums, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
