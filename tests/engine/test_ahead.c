/* SPDX-License-Identifier: Apache-2.0 */
/* Reading ahead: what a sequential reader will want comes into the cache, and nothing else does; and it stays correct. */
#include "rig.h"

#include <pthread.h>

#include "fs/fs.h"
#include "simt/simt_host.h"

#define FILE_BYTES (8 * G4_MIB)
#define FILE_PAGES (FILE_BYTES / G4_PAGE_BYTES)
#define PIECE (64 * G4_KIB)

static struct rig rig;
static struct g4_wg *wg;
static struct g4_fs *fs;
static uint64_t ino;
static uint8_t *data, *buffer;

/* A mounted file system without background threads, whose file is not cached; this thread is the server. */
static int setup(void **state)
{
	(void)state;
	data = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, FILE_BYTES);
	buffer = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, FILE_BYTES);
	assert_non_null(data);
	assert_non_null(buffer);
	rig_pattern(data, 7, FILE_BYTES);
	rig_open(&rig, 64 * G4_MIB, 0);
	rig.cache_bytes = 64 * G4_MIB;
	rig_mount(&rig);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "f", G4_S_IFREG | 0600, &ino), 0);
	assert_int_equal(op_write(&rig, ino, 0, 0, data, FILE_BYTES, NULL), 0);
	assert_int_equal(rig_unmount(&rig), 0);
	wg = g4_wg_create(0);
	assert_non_null(wg);
	fs = rig_mount_fs(&rig, wg, NULL);
	rig.fs = fs;
	rig.wg = wg;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	g4_ahead_drop(fs);
	rig_unmount_fs(&rig, wg, fs, true);
	g4_wg_destroy(wg);
	rig_expect_clean(&rig, RIG_ANY_FREE, "at the end");
	rig_close(&rig);
	free(data);
	free(buffer);
	return 0;
}

static void read_at(uint64_t offset, uint64_t bytes)
{
	uint64_t done;

	assert_int_equal(op_read(&rig, ino, 0, offset, buffer, bytes, &done), 0);
	assert_int_equal(done, bytes);
	assert_memory_equal(buffer, data + offset, bytes);
}

static uint32_t inode_index(void)
{
	uint32_t inode;

	assert_int_equal(g4_icache_get(wg, fs, ino, &inode), 0);
	g4_icache_put(fs, inode);
	return inode;
}

static bool cached(uint64_t page)
{
	uint32_t line = g4_cache_find(&fs->cache, g4_icache_at(fs, inode_index())->data_key, page);

	if (line != G4_NO_LINE)
		g4_cache_put(&fs->cache, line);
	return line != G4_NO_LINE;
}

static uint32_t serve_all(void)
{
	uint32_t served = 0;

	while (g4_ahead_serve(wg, fs))
		served++;
	return served;
}

static void pages_ahead_of_a_sequential_reader_are_read(void **state)
{
	uint64_t at = 0;

	(void)state;
	fs->ahead.servers = 1;
	for (; fs->ahead.count == 0 && at < FILE_BYTES; at += PIECE)
		read_at(at, PIECE);
	assert_true(at < FILE_BYTES / 4);
	assert_true(serve_all() > 0);
	for (uint64_t page = at / G4_PAGE_BYTES; page < at / G4_PAGE_BYTES + 512; page++)
		assert_true(cached(page));
	for (; at < FILE_BYTES; at += PIECE) {
		read_at(at, PIECE);
		serve_all();
	}
	assert_false(cached(FILE_PAGES));
}

static void a_reader_who_jumps_causes_nothing(void **state)
{
	(void)state;
	fs->ahead.servers = 1;
	for (uint64_t i = 0; i < 64; i++)
		read_at(i * 37 % 128 * PIECE, PIECE);
	assert_int_equal(serve_all(), 0);
}

static void without_servers_nothing_is_asked_for(void **state)
{
	(void)state;
	for (uint64_t at = 0; at < FILE_BYTES; at += PIECE)
		read_at(at, PIECE);
	assert_int_equal(fs->ahead.count, 0);
}

static void what_was_asked_for_and_is_gone_is_passed_over(void **state)
{
	(void)state;
	fs->ahead.servers = 1;
	for (uint64_t at = 0; at < G4_MIB; at += PIECE)
		read_at(at, PIECE);
	assert_true(fs->ahead.count > 0);
	assert_int_equal(op_truncate(&rig, ino, G4_MIB + 100), 0);
	serve_all();
	assert_false(cached(257));
	read_at(G4_MIB, 100);
	for (uint64_t at = 0; at < G4_MIB; at += PIECE)
		read_at(at, PIECE);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f"), 0);
	serve_all();
}

static void a_full_queue_drops_requests(void **state)
{
	uint64_t at = 0;

	(void)state;
	fs->ahead.servers = 1;
	for (uint32_t round = 0; round < 3 * G4_AHEAD_SLOTS; round++, at = (at + PIECE) % FILE_BYTES)
		read_at(at, PIECE);
	assert_true(fs->ahead.count <= G4_AHEAD_SLOTS);
	assert_true(serve_all() <= G4_AHEAD_SLOTS);
}

/* ------------------------------------------------------------------ with the engine's own threads */

static int mounted_setup(void **state)
{
	setup(state);
	rig_unmount_fs(&rig, wg, fs, true);
	rig.fs = NULL;
	rig.cache_bytes = 4 * G4_MIB; /* the file is twice that: pages come and go */
	rig_mount(&rig);
	return 0;
}

static int mounted_teardown(void **state)
{
	(void)state;
	assert_int_equal(rig_unmount(&rig), 0);
	g4_wg_destroy(wg);
	rig_expect_clean(&rig, RIG_ANY_FREE, "at the end");
	rig_close(&rig);
	free(data);
	free(buffer);
	return 0;
}

/* Rewrites pieces with what they hold, so that readers see one content whatever the order. */
static void *rewrite(void *argument)
{
	uint32_t *stop = (uint32_t *)argument;
	uint64_t random = 3;

	while (!g4_load32_acq(stop)) {
		uint64_t at = rig_random(&random) % (FILE_BYTES / PIECE) * PIECE;
		if (op_write(&rig, ino, 0, at, data + at, PIECE, NULL) != 0)
			return argument;
	}
	return NULL;
}

static void readers_and_a_writer_agree(void **state)
{
	uint64_t rounds = rig_slow() ? 4 : 24, bytes = 20 * G4_KIB;
	uint32_t stop = 0;
	pthread_t thread;
	void *failed;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, rewrite, &stop), 0);
	for (uint64_t round = 0; round < rounds; round++) {
		for (uint64_t at = 0; at < FILE_BYTES; at += bytes)
			read_at(at, g4_min64(bytes, FILE_BYTES - at));
		bytes = round % 3 == 0 ? 20 * G4_KIB : round % 3 == 1 ? PIECE : G4_MIB;
	}
	g4_store32_rel(&stop, 1);
	assert_int_equal(pthread_join(thread, &failed), 0);
	assert_null(failed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(pages_ahead_of_a_sequential_reader_are_read, setup, teardown),
		cmocka_unit_test_setup_teardown(a_reader_who_jumps_causes_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(without_servers_nothing_is_asked_for, setup, teardown),
		cmocka_unit_test_setup_teardown(what_was_asked_for_and_is_gone_is_passed_over, setup, teardown),
		cmocka_unit_test_setup_teardown(a_full_queue_drops_requests, setup, teardown),
		cmocka_unit_test_setup_teardown(readers_and_a_writer_agree, mounted_setup, mounted_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
