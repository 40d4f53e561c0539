/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal alone: transactions over metadata pages that only this test knows. After a power cut each page holds what
 * the last durable transaction gave it.
 */
#include "rig.h"

#include <pthread.h>

#include "fs/fs.h"
#include "simt/simt_host.h"

#define DEVICE_BYTES (16 * G4_MIB)
#define JOURNAL_BYTES (2 * G4_MIB)
#define PAGES 90u

static struct rig rig;
static struct g4_wg *wg;
static struct g4_fs *fs;
static struct g4_address address[PAGES];
static const struct g4_fault no_fault; /* but a write cache that a cut empties */

static int setup(void **state)
{
	(void)state;
	wg = g4_wg_create(0);
	rig_open(&rig, DEVICE_BYTES, JOURNAL_BYTES);
	fs = rig_mount_fs(&rig, wg, &no_fault);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_unmount_fs(&rig, wg, fs, false);
	rig_close(&rig);
	g4_wg_destroy(wg);
	return 0;
}

/* The power goes; what was durable comes back. */
static void crash(void)
{
	rig_unmount_fs(&rig, wg, fs, false);
	fs = rig_mount_fs(&rig, wg, &no_fault);
}

static struct g4_xattr_page *page_in(uint32_t line)
{
	return (struct g4_xattr_page *)g4_line_data(&fs->cache, line);
}

static void put(struct g4_txn *txn, uint32_t page, uint64_t value)
{
	uint32_t line;

	assert_int_equal(g4_meta_get(wg, &fs->meta, address[page], G4_BLOCK_XATTR_VALUE, &line), 0);
	g4_txn_dirty(txn, line);
	memcpy(page_in(line)->payload, &value, sizeof(value));
	memcpy(page_in(line)->payload + 4000, &value, sizeof(value));
	g4_cache_put(&fs->cache, line);
}

/* Its value, 0 when it cannot be read. */
static uint64_t get(uint32_t page)
{
	uint64_t first, last;
	uint32_t line;

	if (g4_meta_get(wg, &fs->meta, address[page], G4_BLOCK_XATTR_VALUE, &line) < 0)
		return 0;
	memcpy(&first, page_in(line)->payload, sizeof(first));
	memcpy(&last, page_in(line)->payload + 4000, sizeof(last));
	g4_cache_put(&fs->cache, line);
	assert_int_equal(first, last);
	return first;
}

static void make_pages(uint32_t count, uint64_t value)
{
	for (uint32_t k = 0; k < count; k++) {
		struct g4_txn txn;
		uint32_t line;
		assert_int_equal(g4_begin(wg, fs, 8, &txn), 0);
		assert_int_equal(g4_alloc_metadata(wg, &fs->alloc, &txn, &address[k]), 0);
		assert_int_equal(g4_meta_new(wg, &fs->meta, address[k], G4_BLOCK_XATTR_VALUE, &line), 0);
		g4_txn_dirty(&txn, line);
		page_in(line)->bytes = G4_XATTR_PAYLOAD;
		g4_cache_put(&fs->cache, line);
		put(&txn, k, value);
		g4_txn_end(&txn);
	}
}

static void set(uint32_t page, uint64_t value)
{
	struct g4_txn txn;

	assert_int_equal(g4_begin(wg, fs, 4, &txn), 0);
	put(&txn, page, value);
	g4_txn_end(&txn);
}

static void commit(bool checkpoint)
{
	assert_int_equal(g4_commit(wg, fs, UINT64_MAX, checkpoint), 0);
}

static void what_was_committed_is_there_and_the_rest_is_not(void **state)
{
	(void)state;
	make_pages(3, 100);
	commit(false);
	set(1, 101);
	commit(false);
	set(2, 102);
	crash();
	assert_int_equal(get(0), 100);
	assert_int_equal(get(1), 101);
	assert_int_equal(get(2), 100);
	/* and again from the home locations */
	crash();
	assert_int_equal(get(0), 100);
	assert_int_equal(get(1), 101);
}

static void a_transaction_is_there_as_a_whole_or_not_at_all(void **state)
{
	struct g4_txn txn;

	(void)state;
	make_pages(20, 1);
	commit(true);
	assert_int_equal(g4_begin(wg, fs, 24, &txn), 0);
	for (uint32_t k = 0; k < 20; k++)
		put(&txn, k, 2);
	g4_txn_end(&txn);
	const struct g4_fault torn = {.cut_after_writes = 1, .cut_inside = true, .seed = 77};
	g4_dev_fault_set(rig.fault, &torn);
	assert_true(g4_commit(wg, fs, UINT64_MAX, false) < 0);
	crash();
	for (uint32_t k = 1; k < 20; k++)
		assert_int_equal(get(k), get(0));
}

static void a_freed_page_is_not_overwritten_by_replay(void **state)
{
	uint8_t *data = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, 2 * G4_PAGE_BYTES);
	struct g4_address claimed = G4_NO_ADDRESS;
	uint64_t got;
	struct g4_txn txn;

	(void)state;
	assert_non_null(data);
	make_pages(2, 7);
	commit(false);
	assert_int_equal(g4_begin(wg, fs, 8, &txn), 0);
	assert_int_equal(g4_alloc_free_metadata(wg, &fs->alloc, &txn, address[0]), 0);
	g4_txn_end(&txn);
	commit(false);
	/* now it may hold data, which does not go through the journal */
	assert_int_equal(g4_alloc_claim(wg, &fs->alloc, G4_ALLOC_DATA, address[0], 1, false, &claimed, &got), 0);
	assert_true(g4_address_is(claimed, address[0]));
	rig_pattern(data, 3, G4_PAGE_BYTES);
	assert_int_equal(g4_space_write(wg, &fs->space, claimed, data, G4_PAGE_BYTES, G4_IO_FUA), 0);
	crash();
	assert_int_equal(g4_space_read(wg, &fs->space, claimed, data + G4_PAGE_BYTES, G4_PAGE_BYTES), 0);
	assert_memory_equal(data, data + G4_PAGE_BYTES, G4_PAGE_BYTES);
	assert_int_equal(get(1), 7);
	free(data);
}

static void the_log_wraps_around(void **state)
{
	uint64_t random = rig_setting("G4_JOURNAL_SEED", 1), expected[PAGES], rounds = rig_slow() ? 60 : 200;

	(void)state;
	make_pages(PAGES, 1);
	commit(false);
	for (uint32_t k = 0; k < PAGES; k++)
		expected[k] = 1;
	for (uint64_t round = 2; round < rounds; round++) {
		for (uint32_t k = 0; k < PAGES; k++)
			if (rig_random(&random) % 3) {
				set(k, round);
				expected[k] = round;
			}
		commit(false);
		if (rig_random(&random) % 8)
			continue;
		crash();
		for (uint32_t k = 0; k < PAGES; k++)
			assert_int_equal(get(k), expected[k]);
	}
	assert_true(fs->journal.commits > 0);
}

static void replay_may_be_cut_and_done_again(void **state)
{
	uint8_t *image = (uint8_t *)malloc(DEVICE_BYTES);

	(void)state;
	assert_non_null(image);
	make_pages(30, 1);
	commit(true);
	for (uint64_t value = 2; value < 5; value++) {
		for (uint32_t k = 0; k < 30; k += (uint32_t)value)
			set(k, value);
		commit(false);
	}
	rig_unmount_fs(&rig, wg, fs, false);
	rig_copy(image, rig.image, DEVICE_BYTES);
	for (uint64_t n = 1; n < 45; n++) {
		const struct g4_fault cut = {.cut_after_writes = n, .seed = n};
		rig_copy(rig.image, image, DEVICE_BYTES);
		if (rig_try_mount(&rig, 0, &cut) == 0) {
			g4_dev_fault_cut(rig.fault);
			rig_abandon(&rig);
		}
		fs = rig_mount_fs(&rig, wg, NULL);
		for (uint32_t k = 0; k < 30; k++)
			assert_int_equal(get(k), k % 4 == 0 ? 4 : k % 3 == 0 ? 3 : k % 2 == 0 ? 2 : 1);
		rig_unmount_fs(&rig, wg, fs, false);
	}
	free(image);
	fs = rig_mount_fs(&rig, wg, NULL);
}

/* Whatever byte of the last record is wrong, the one before it is what counts. */
static void a_torn_tail_is_dropped(void **state)
{
	uint8_t *before = (uint8_t *)malloc(DEVICE_BYTES), *after = (uint8_t *)malloc(DEVICE_BYTES);
	const struct g4_fault keeping = {.keep_unflushed = true};
	uint64_t log, end, tried = 0;

	(void)state;
	assert_non_null(before);
	assert_non_null(after);
	g4_dev_fault_set(rig.fault, &keeping);
	make_pages(4, 1);
	commit(true);
	for (uint32_t k = 0; k < 4; k++)
		set(k, 2);
	commit(false);
	assert_int_equal(g4_space_flush(wg, &fs->space), 0); /* out of the fault device's write cache */
	rig_copy(before, rig.image, DEVICE_BYTES);
	for (uint32_t k = 0; k < 4; k++)
		set(k, 3);
	commit(false);
	log = fs->meta.layout.journal_address + G4_PAGE_BYTES;
	end = fs->meta.layout.journal_address + JOURNAL_BYTES;
	rig_unmount_fs(&rig, wg, fs, false);
	rig_copy(after, rig.image, DEVICE_BYTES);
	for (uint64_t page = log; page < end; page += G4_PAGE_BYTES) {
		if (memcmp(before + page, after + page, G4_PAGE_BYTES) == 0)
			continue;
		for (uint64_t at = page + 5; at < page + G4_PAGE_BYTES; at += 1300) {
			rig_copy(rig.image, after, DEVICE_BYTES);
			rig.image[at] ^= 0x10;
			fs = rig_mount_fs(&rig, wg, NULL);
			for (uint32_t k = 0; k < 4; k++)
				assert_int_equal(get(k), 2);
			rig_unmount_fs(&rig, wg, fs, false);
			tried++;
		}
	}
	assert_true(tried >= 4 * 4);
	rig_copy(rig.image, after, DEVICE_BYTES);
	fs = rig_mount_fs(&rig, wg, &no_fault);
	assert_int_equal(get(0), 3);
	free(before);
	free(after);
}

static void a_journal_that_cannot_write_stops(void **state)
{
	const struct g4_fault failing = {.fail_write_at = 1};
	struct g4_txn txn;

	(void)state;
	make_pages(2, 1);
	commit(false);
	set(0, 2);
	g4_dev_fault_set(rig.fault, &failing);
	assert_true(g4_commit(wg, fs, UINT64_MAX, false) < 0);
	assert_int_equal(g4_begin(wg, fs, 4, &txn), -G4_E_ROFS);
	assert_true(g4_commit(wg, fs, UINT64_MAX, false) < 0);
	crash();
	assert_int_equal(get(0), 1);
	assert_int_equal(get(1), 1);
}

static void a_transaction_that_is_left_half_done_never_commits(void **state)
{
	struct g4_txn txn;

	(void)state;
	make_pages(2, 1);
	commit(false);
	assert_int_equal(g4_begin(wg, fs, 4, &txn), 0);
	put(&txn, 0, 2);
	assert_int_equal(g4_end(fs, &txn, -G4_E_IO), -G4_E_IO);
	assert_true(g4_commit(wg, fs, UINT64_MAX, false) < 0);
	crash();
	assert_int_equal(get(0), 1);
	/* one that had changed nothing, or was refused for want of space, harms nobody */
	assert_int_equal(g4_begin(wg, fs, 4, &txn), 0);
	g4_end(fs, &txn, -G4_E_IO);
	assert_int_equal(g4_begin(wg, fs, 4, &txn), 0);
	put(&txn, 1, 5);
	g4_end(fs, &txn, -G4_E_NOSPC);
	commit(false);
	crash();
	assert_int_equal(get(1), 5);
}

/* ------------------------------------------------------------------ group commit */

#define THREADS 4u

struct worker {
	pthread_t thread;
	struct g4_wg *wg;
	uint32_t index;
	uint64_t durable; /* the last value that was told to be */
	int error;
};

static void *set_and_sync(void *argument)
{
	struct worker *w = (struct worker *)argument;

	for (uint64_t value = 2; value < (rig_slow() ? 100u : 400u) && w->error == 0; value++) {
		struct g4_txn txn;
		uint32_t line;
		w->error = g4_begin(w->wg, fs, 4, &txn);
		if (w->error < 0)
			break;
		uint64_t sequence = txn.sequence;
		w->error = g4_meta_get(w->wg, &fs->meta, address[w->index], G4_BLOCK_XATTR_VALUE, &line);
		if (w->error == 0) {
			g4_txn_dirty(&txn, line);
			memcpy(page_in(line)->payload, &value, sizeof(value));
			memcpy(page_in(line)->payload + 4000, &value, sizeof(value));
			g4_cache_put(&fs->cache, line);
		}
		g4_txn_end(&txn);
		if (w->error == 0)
			w->error = g4_commit(w->wg, fs, sequence, false);
		if (w->error == 0)
			w->durable = value;
	}
	return NULL;
}

static void concurrent_commits_are_durable_when_they_return(void **state)
{
	struct worker workers[THREADS];

	(void)state;
	make_pages(THREADS, 1);
	commit(false);
	for (uint32_t k = 0; k < THREADS; k++) {
		workers[k] = (struct worker){.index = k, .wg = g4_wg_create(k + 1), .durable = 1};
		assert_int_equal(pthread_create(&workers[k].thread, NULL, set_and_sync, &workers[k]), 0);
	}
	for (uint32_t k = 0; k < THREADS; k++) {
		pthread_join(workers[k].thread, NULL);
		assert_int_equal(workers[k].error, 0);
		g4_wg_destroy(workers[k].wg);
	}
	crash();
	for (uint32_t k = 0; k < THREADS; k++)
		assert_int_equal(get(k), workers[k].durable);
}

/* Whatever line a caller believes it to be in. */
static void a_block_is_found_from_any_hint(void **state)
{
	uint32_t line, near;

	(void)state;
	make_pages(1, 1);
	commit(false);
	assert_int_equal(g4_meta_get(wg, &fs->meta, address[0], G4_BLOCK_XATTR_VALUE, &line), 0);
	const uint32_t referenced = fs->cache.lines[line].state;
	for (uint32_t hint = 0; hint <= fs->cache.line_count; hint++) {
		const uint32_t before = hint < fs->cache.line_count ? fs->cache.lines[hint].state : 0;
		assert_int_equal(g4_meta_get_near(wg, &fs->meta, address[0], G4_BLOCK_XATTR_VALUE, hint, &near), 0);
		assert_int_equal(near, line);
		g4_cache_put(&fs->cache, near);
		if (hint < fs->cache.line_count)
			assert_int_equal(fs->cache.lines[hint].state, before);
		assert_int_equal(fs->cache.lines[line].state, referenced);
	}
	assert_int_equal(g4_meta_get_near(wg, &fs->meta, address[0], G4_BLOCK_SLAB, line, &near), -G4_E_TYPE);
	assert_int_equal(fs->cache.lines[line].state, referenced);
	g4_cache_put(&fs->cache, line);
}

/* A transaction references what is dirty in it, so its members need no references of their own; others, and the next one, do. */
static void what_is_dirty_in_the_transaction_needs_no_reference(void **state)
{
	struct g4_txn_page page;
	struct g4_txn txn;
	uint32_t line;

	(void)state;
	make_pages(2, 1);
	commit(true);
	assert_int_equal(g4_meta_get(wg, &fs->meta, address[0], G4_BLOCK_XATTR_VALUE, &line), 0);
	g4_cache_put(&fs->cache, line);
	const uint32_t clean = fs->cache.lines[line].state & G4_LINE_REFS;
	assert_int_equal(clean, 0);

	assert_int_equal(g4_begin(wg, fs, 4, &txn), 0);
	assert_int_equal(g4_txn_get(wg, &txn, address[0], G4_BLOCK_XATTR_VALUE, G4_NO_LINE, &page), 0);
	assert_false(page.is_dirty);
	assert_int_equal(page.line, line);
	assert_int_equal(fs->cache.lines[line].state & G4_LINE_REFS, clean + 1);
	g4_txn_put(&txn, &page);
	put(&txn, 0, 2);
	const uint32_t dirty = fs->cache.lines[line].state & G4_LINE_REFS;
	assert_int_equal(g4_txn_get(wg, &txn, address[0], G4_BLOCK_XATTR_VALUE, line, &page), 0);
	assert_true(page.is_dirty);
	assert_int_equal(page.line, line);
	assert_int_equal(fs->cache.lines[line].state & G4_LINE_REFS, dirty);
	g4_txn_put(&txn, &page);
	assert_int_equal(fs->cache.lines[line].state & G4_LINE_REFS, dirty);

	/* from any hint, and of no other page */
	for (uint32_t hint = 0; hint <= fs->cache.line_count; hint++)
		assert_int_equal(g4_txn_has(&txn, address[0], G4_BLOCK_XATTR_VALUE, hint), hint == line);
	assert_false(g4_txn_has(&txn, address[0], G4_BLOCK_XATTR_VALUE, G4_NO_LINE));
	assert_false(g4_txn_has(&txn, address[1], G4_BLOCK_XATTR_VALUE, line));
	assert_false(g4_txn_has(&txn, address[0], G4_BLOCK_SLAB, line));
	assert_int_equal(g4_txn_get(wg, &txn, address[0], G4_BLOCK_SLAB, line, &page), -G4_E_TYPE);
	assert_int_equal(fs->cache.lines[line].state & G4_LINE_REFS, dirty);
	g4_txn_end(&txn);

	commit(false);
	assert_int_equal(g4_begin(wg, fs, 4, &txn), 0);
	assert_false(g4_txn_has(&txn, address[0], G4_BLOCK_XATTR_VALUE, line));
	g4_txn_end(&txn);
}

/* A line of a file's page says nothing that could be taken for a transaction. */
static void a_dirty_page_of_a_file_is_in_no_transaction(void **state)
{
	uint64_t ino;
	uint32_t index;

	(void)state;
	rig.fs = fs;
	rig.wg = wg;
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "file", G4_S_IFREG | 0600, &ino), 0);
	assert_int_equal(op_write(&rig, ino, 0, 0, "a", 1, NULL), 0);
	assert_int_equal(op_write(&rig, ino, 0, 3 * G4_PAGE_BYTES, "b", 1, NULL), 0);
	assert_int_equal(g4_icache_get(wg, fs, ino, &index), 0);
	const struct g4_inode_core *inode = g4_icache_at(fs, index);
	assert_true(inode->dirty_count > 0);
	for (uint32_t line = inode->dirty_head; line != G4_NO_LINE; line = g4_data_line(&fs->cache, line)->next)
		assert_int_equal(g4_meta_line(&fs->cache, line)->txn, 0);
	g4_icache_put(fs, index);
	assert_int_equal(op_sync(&rig), 0);
	rig.fs = NULL;
	rig.wg = NULL;
}

#define journal_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		journal_test(what_was_committed_is_there_and_the_rest_is_not),
		journal_test(a_transaction_is_there_as_a_whole_or_not_at_all),
		journal_test(a_freed_page_is_not_overwritten_by_replay),
		journal_test(the_log_wraps_around),
		journal_test(replay_may_be_cut_and_done_again),
		journal_test(a_torn_tail_is_dropped),
		journal_test(a_journal_that_cannot_write_stops),
		journal_test(a_transaction_that_is_left_half_done_never_commits),
		journal_test(concurrent_commits_are_durable_when_they_return),
		journal_test(a_block_is_found_from_any_hint),
		journal_test(what_is_dirty_in_the_transaction_needs_no_reference),
		journal_test(a_dirty_page_of_a_file_is_in_no_transaction),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
