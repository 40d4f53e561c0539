/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transaction whose list of freed runs is nearly full, because many operations free much at a time: an operation that is inside with
 * a file in thousands of pieces does what there is room for, and the rest in the next one.
 */
#include "fs/fs.h"
#include "rig.h"

#define PAGES 1024u
#define FILE_BYTES (PAGES * G4_PAGE_BYTES)
#define HALF (G4_TXN_MAX_FREES / 2)
#define LEFT 64u /* room that others left */

static struct rig rig;
static struct g4_wg *wg;
static struct g4_fs *fs;
static uint64_t ino;
static uint8_t *data, *buffer;

static struct g4_txn_log *log_now(void)
{
	return &fs->journal.logs[fs->journal.running & 1];
}

/* Freed runs of others: of no pages, so that nothing comes of them. */
static void free_runs_of_others(uint32_t count)
{
	struct g4_txn_log *log = log_now();

	memset(&log->frees[log->free_count], 0, (count - log->free_count) * sizeof(log->frees[0]));
	log->free_count = count;
}

static int setup(void **state)
{
	(void)state;
	data = rig_memory(FILE_BYTES, 3);
	buffer = rig_memory(FILE_BYTES, 0);
	rig_begin(&rig, 64 * G4_MIB, 0, NULL);
	wg = rig.wg;
	fs = rig.fs;
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "f", G4_S_IFREG | 0600, &ino), 0);
	/* no two neighbours lie side by side */
	for (uint32_t odd = 0; odd < 2; odd++) {
		for (uint64_t page = odd; page < PAGES; page += 2)
			assert_int_equal(op_write(&rig, ino, 0, page * G4_PAGE_BYTES, data, G4_PAGE_BYTES, NULL), 0);
		assert_int_equal(op_sync(&rig), 0);
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_end(&rig);
	free(data);
	free(buffer);
	return 0;
}

/* Inside, when others take nearly all that is left. */
static void begin_in_a_crowd(struct g4_inode_core *inode, struct g4_txn *txn)
{
	g4_write_lock(&inode->lock);
	assert_int_equal(g4_begin(wg, fs, 3 * G4_MAP_CREDITS, txn), 0);
	free_runs_of_others(G4_TXN_MAX_FREES - LEFT);
}

static void leave(struct g4_inode_core *inode, struct g4_txn *txn)
{
	int logged = g4_inode_log(wg, fs, txn, inode), rc = g4_end(fs, txn, 0);

	g4_write_unlock(&inode->lock);
	assert_int_equal(logged, 0);
	assert_int_equal(rc, 0);
	assert_int_equal(fs->journal.aborted, 0);
}

static void pages_that_replace_others_stop_in_a_crowd(void **state)
{
	struct g4_address address;
	uint64_t got, done;
	struct g4_txn txn;
	uint32_t i;

	(void)state;
	assert_int_equal(g4_icache_get(wg, fs, ino, &i), 0);
	assert_int_equal(g4_alloc_claim(wg, &fs->alloc, G4_ALLOC_ALIGNED, G4_NO_ADDRESS, 500, false, &address, &got),
			 0);
	assert_true(got > LEFT);
	begin_in_a_crowd(g4_icache_at(fs, i), &txn);
	assert_int_equal(g4_map_set(wg, fs, &txn, g4_icache_at(fs, i), 0, address, got, true, NULL, &done), 0);
	leave(g4_icache_at(fs, i), &txn);
	assert_in_range(done, 1, LEFT);
	g4_alloc_release(&fs->alloc, g4_address_after_pages(address, done), got - done);
	g4_icache_put(fs, i);
}

static void pages_that_go_stop_in_a_crowd(void **state)
{
	uint64_t next;
	struct g4_txn txn;
	uint32_t i;

	(void)state;
	assert_int_equal(g4_icache_get(wg, fs, ino, &i), 0);
	begin_in_a_crowd(g4_icache_at(fs, i), &txn);
	assert_int_equal(g4_map_clear(wg, fs, &txn, g4_icache_at(fs, i), 0, PAGES, &next), 0);
	leave(g4_icache_at(fs, i), &txn);
	assert_in_range(next, 1, LEFT);
	g4_icache_put(fs, i);
}

static void a_large_write_goes_on_in_the_next_transaction(void **state)
{
	(void)state;
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "other", G4_S_IFREG | 0600, &(uint64_t){0}), 0);
	const uint64_t before = fs->journal.running;
	free_runs_of_others(HALF - LEFT);
	struct g4_txn_log *log = log_now();
	assert_int_equal(op_write(&rig, ino, 0, 0, data, FILE_BYTES, NULL), 0);
	assert_true(fs->journal.running > before);
	assert_in_range(log->free_count, 0, HALF + LEFT);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_read(&rig, ino, 0, 0, buffer, FILE_BYTES, NULL), 0);
	assert_memory_equal(buffer, data, FILE_BYTES);
}

static void a_removed_file_goes_in_several_transactions(void **state)
{
	(void)state;
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "other", G4_S_IFREG | 0600, &(uint64_t){0}), 0);
	const uint64_t before = fs->journal.running;
	free_runs_of_others(HALF - LEFT);
	struct g4_txn_log *log = log_now();
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f"), 0);
	assert_true(fs->journal.running > before);
	assert_in_range(log->free_count, 0, HALF + LEFT);
}

/* One that is not in the way of those who would have to commit does it before them, and else leaves the transaction open. */
static void a_nearly_full_transaction_is_committed_before_it_is_full(void **state)
{
	struct g4_journal *j = &fs->journal;
	struct g4_txn txn;

	(void)state;
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "other", G4_S_IFREG | 0600, &(uint64_t){0}), 0);
	const uint64_t before = j->running;
	free_runs_of_others(G4_TXN_MAX_FREES / 16 * 7);
	assert_int_equal(g4_commit_early(wg, fs), 0);
	assert_int_equal(j->running, before);
	free_runs_of_others(G4_TXN_MAX_FREES / 16 * 7 + 1);
	assert_int_equal(g4_begin(wg, fs, 1, &txn), 0); /* there still is room */
	assert_int_equal(g4_end(fs, &txn, 0), 0);
	assert_int_equal(j->running, before);
	assert_int_equal(g4_commit_early(wg, fs), 1);
	assert_int_equal(j->running, before + 1);
	assert_int_equal(j->durable, before);
	assert_int_equal(g4_commit_early(wg, fs), 0);
	/* revoked pages: their list has an end as well */
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "other"), 0);
	const uint32_t revoked = log_now()->revoke_count;
	log_now()->revoke_count = G4_TXN_MAX_REVOKES / 16 * 7 + 1;
	assert_true(g4_journal_is_nearly_full(j));
	log_now()->revoke_count = revoked;
	assert_false(g4_journal_is_nearly_full(j));
	/* a journal that was stopped is no more committed */
	free_runs_of_others(G4_TXN_MAX_FREES / 16 * 7 + 1);
	j->aborted = G4_E_IO;
	assert_int_equal(g4_commit_early(wg, fs), 0);
	j->aborted = 0;
	assert_int_equal(g4_commit_early(wg, fs), 1);
}

/* What is announced is not yet used: blocks have to be more than half of it. */
static void a_transaction_is_not_nearly_full_for_what_is_announced(void **state)
{
	struct g4_journal *j = &fs->journal;
	struct g4_txn txn;

	(void)state;
	const uint32_t lines = log_now()->line_count;
	assert_int_equal(g4_begin(wg, fs, j->max_blocks - lines - 8, &txn), 0);
	assert_false(g4_journal_is_nearly_full(j));
	log_now()->line_count = j->max_blocks / 2 + 1;
	assert_true(g4_journal_is_nearly_full(j));
	log_now()->line_count = lines;
	assert_int_equal(g4_end(fs, &txn, 0), 0);
	log_now()->line_count = j->max_blocks / 2 + 1;
	assert_false(g4_journal_is_nearly_full(j));
	log_now()->line_count = lines;
}

#define crowded(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		crowded(pages_that_replace_others_stop_in_a_crowd),
		crowded(pages_that_go_stop_in_a_crowd),
		crowded(a_large_write_goes_on_in_the_next_transaction),
		crowded(a_removed_file_goes_in_several_transactions),
		crowded(a_nearly_full_transaction_is_committed_before_it_is_full),
		crowded(a_transaction_is_not_nearly_full_for_what_is_announced),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
