/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stages one after the other: whatever ends a batch early, the space and the reservations are those of before, and nothing is lost.
 * (Each stage by itself: the tests of their names; power cuts between them: engine/test_crash.c.)
 */
#include "files/data/stages.h"

static void a_batch_uses_up_what_was_reserved_for_it(void **state)
{
	const uint64_t pages[] = {0, 1, 2, 9};
	uint32_t published;

	(void)state;
	stages_write(pages, 4);
	g4_write_lock(&inode->lock);
	g4_gather_dirty(fs, inode, batch);
	assert_int_equal(g4_pipeline_run(wg, fs, inode, batch, inode->size, &published), 0);
	assert_int_equal(published, 4);
	for (uint32_t k = 0; k < 4; k++)
		g4_dirty_remove(fs, inode, batch->lines[k]);
	assert_int_equal(fs->alloc.reserved, reserved_before + inode->growth_reservation);
	g4_write_unlock(&inode->lock);
	for (uint32_t k = 0; k < 4; k++)
		assert_memory_equal(rig.image + rig_place(&rig, held.ino, pages[k]), data + k * G4_PAGE_BYTES,
				    G4_PAGE_BYTES);
}

/* The journal has stopped, so that nothing can be published. */
static void a_batch_that_is_not_published_gives_its_space_back(void **state)
{
	const uint64_t pages[] = {0, 1, 2, 9};
	uint32_t published;
	struct g4_run run;

	(void)state;
	stages_write(pages, 4);
	const uint64_t reserved = fs->alloc.reserved, free_pages = fs->alloc.free_pages;
	g4_write_lock(&inode->lock);
	g4_gather_dirty(fs, inode, batch);
	g4_store32_rel(&fs->journal.aborted, 1);
	assert_int_equal(g4_pipeline_run(wg, fs, inode, batch, inode->size, &published), -G4_E_ROFS);
	g4_store32_rel(&fs->journal.aborted, 0);
	assert_int_equal(published, 0);
	assert_int_equal(fs->alloc.free_pages, free_pages);
	assert_int_equal(fs->alloc.reserved, reserved);
	assert_int_equal(g4_map_lookup(wg, fs, inode, 0, 10, &run), 0);
	assert_int_equal(run.kind, G4_HOLE);
	g4_write_unlock(&inode->lock);
	for (uint32_t k = 0; k < 4; k++) { /* they are dirty still */
		assert_int_equal(op_read(&rig, held.ino, 0, pages[k] * G4_PAGE_BYTES, found, G4_PAGE_BYTES, NULL), 0);
		assert_memory_equal(found, data + k * G4_PAGE_BYTES, G4_PAGE_BYTES);
	}
}

/* The page of a link, or the last one of a file that is cut: before the transaction that leads to it, or that never comes. */
static void a_page_that_is_stored_ahead_is_published_or_dropped(void **state)
{
	struct g4_page_ahead ahead;
	struct g4_txn txn;
	struct g4_run run;

	(void)state;
	g4_write_lock(&inode->lock);
	assert_int_equal(g4_store_ahead(wg, fs, inode->disk.policy, G4_NO_ADDRESS, data, &ahead), 0);
	assert_true(g4_address_stored(ahead.address) >= fs->meta.layout.data_address);
	assert_int_equal(fs->alloc.free_pages, free_before - 1);
	assert_int_equal(fs->journal.data_written, 1); /* the next commit flushes */
	assert_memory_equal(rig.image + g4_address_stored(ahead.address), data, G4_PAGE_BYTES);
	g4_drop_ahead(fs, &ahead);
	assert_int_equal(fs->alloc.free_pages, free_before);
	assert_int_equal(g4_store_ahead(wg, fs, inode->disk.policy, ahead.address, data, &ahead), 0);
	assert_int_equal(g4_begin(wg, fs, 2 * G4_MAP_CREDITS, &txn), 0);
	assert_int_equal(g4_publish_ahead(wg, fs, &txn, inode, 0, &ahead), 0);
	inode->disk.size = G4_PAGE_BYTES;
	assert_int_equal(g4_inode_log(wg, fs, &txn, inode), 0);
	assert_int_equal(g4_end(fs, &txn, 0), 0);
	g4_set_size(inode, G4_PAGE_BYTES);
	assert_int_equal(g4_map_lookup(wg, fs, inode, 0, 1, &run), 0);
	assert_true(g4_address_is(run.address, ahead.address));
	g4_write_unlock(&inode->lock);
	stages_expect(G4_PAGE_BYTES);
}

RUN_TESTS(stage_test(a_batch_uses_up_what_was_reserved_for_it),
	  stage_test(a_batch_that_is_not_published_gives_its_space_back),
	  stage_test(a_page_that_is_stored_ahead_is_published_or_dropped))
