/* SPDX-License-Identifier: Apache-2.0 */
/* Publishing makes stored pages a file's, and its size what is there; whether the commit may rely on them is said with it. */
#include "files/data/stages.h"

/* From gather to store. What is reserved and not claimed is for the map. */
static void store(void)
{
	const uint64_t reserved = batch->reserved;

	assert_int_equal(g4_hash(wg, fs, inode->disk.policy, batch), 0);
	assert_int_equal(g4_place(wg, fs, inode, batch, 0), 0);
	assert_int_equal(g4_store(wg, fs, batch), 0);
	inode->map_reservation = reserved - batch->claimed + inode->growth_reservation;
}

static void publish(uint64_t size, uint32_t pages)
{
	uint32_t published;

	assert_int_equal(g4_publish(wg, fs, inode, batch, size, &published), 0);
	assert_int_equal(published, pages);
	inode->growth_reservation = 0;
	g4_alloc_unreserve(&fs->alloc, inode->map_reservation);
	inode->map_reservation = 0;
}

static void what_is_published_is_the_files(void **state)
{
	struct g4_run run;

	(void)state;
	g4_write_lock(&inode->lock);
	stages_gather_memory(0, 100);
	store();
	const struct g4_address first = batch->segments[0].address;
	publish(99 * G4_PAGE_BYTES + 5, 100);
	assert_int_equal(inode->disk.size, 99 * G4_PAGE_BYTES + 5);
	g4_set_size(inode, inode->disk.size);
	assert_int_equal(g4_map_lookup(wg, fs, inode, 0, 100, &run), 0);
	assert_int_equal(run.kind, G4_WRITTEN);
	assert_true(g4_address_is(run.address, first));
	g4_write_unlock(&inode->lock);
	stages_expect(99 * G4_PAGE_BYTES + 5);
}

/* The transaction that is running has what its commit is to find on the device. */
static const struct g4_txn_log *running(void)
{
	struct g4_txn txn;

	assert_int_equal(g4_begin(wg, fs, 1, &txn), 0);
	const struct g4_txn_log *log = &fs->journal.logs[txn.sequence & 1];
	assert_int_equal(g4_end(fs, &txn, 0), 0);
	return log;
}

static void lines_are_tagged_and_memory_is_flushed(void **state)
{
	const uint64_t pages[] = {0, 1, 2};

	(void)state;
	fs->space.volatile_cache = true; /* else there is nothing that a commit could miss */
	stages_write(pages, 3);
	g4_write_lock(&inode->lock);
	g4_gather_dirty(fs, inode, batch);
	store();
	publish(3 * G4_PAGE_BYTES, 3);
	assert_int_equal(running()->data_count, 3);
	assert_int_equal(running()->data_untagged, 0);
	for (uint32_t k = 0; k < 3; k++)
		g4_dirty_remove(fs, inode, batch->lines[k]);
	stages_gather_memory(3, 2);
	store();
	publish(5 * G4_PAGE_BYTES, 2);
	assert_int_equal(running()->data_count, 3);
	assert_int_equal(running()->data_untagged, 1);
	g4_set_size(inode, inode->disk.size);
	g4_write_unlock(&inode->lock);
	fs->space.volatile_cache = false;
}

/* What was written stays written: no checksums are made that nobody looks at. */
static void without_a_volatile_cache_nothing_is_tagged(void **state)
{
	const uint64_t pages[] = {0, 1};

	(void)state;
	assert_false(fs->space.volatile_cache);
	stages_write(pages, 2);
	g4_write_lock(&inode->lock);
	g4_gather_dirty(fs, inode, batch);
	store();
	publish(2 * G4_PAGE_BYTES, 2);
	assert_int_equal(running()->data_count, 0);
	for (uint32_t k = 0; k < 2; k++)
		g4_dirty_remove(fs, inode, batch->lines[k]);
	g4_set_size(inode, inode->disk.size);
	g4_write_unlock(&inode->lock);
}

/* Contents that lie in the inode give way to the first page, and a tiny file's go there. */
static void contents_go_into_the_inode_and_out(void **state)
{
	(void)state;
	g4_write_lock(&inode->lock);
	g4_set_size(inode, 100);
	assert_int_equal(g4_publish_inline(wg, fs, inode, data), 0);
	assert_true(inode->disk.flags & G4_INODE_INLINE);
	assert_int_equal(inode->disk.size, 100);
	assert_memory_equal(inode->disk.inline_data, data, 100);
	stages_gather_memory(0, 1);
	store();
	publish(G4_PAGE_BYTES, 1);
	assert_false(inode->disk.flags & G4_INODE_INLINE);
	g4_set_size(inode, inode->disk.size);
	g4_write_unlock(&inode->lock);
	stages_expect(G4_PAGE_BYTES);
}

RUN_TESTS(stage_test(what_is_published_is_the_files), stage_test(lines_are_tagged_and_memory_is_flushed),
	  stage_test(without_a_volatile_cache_nothing_is_tagged), stage_test(contents_go_into_the_inode_and_out))
