/* SPDX-License-Identifier: Apache-2.0 */
/* Where data gets its address: rows become segments, unwritten space is used in place, and what is not published is given back. */
#include "files/data/stages.h"

static void a_row_becomes_a_segment_and_a_gap_another(void **state)
{
	const uint64_t pages[] = {3, 4, 5, 9, 700};
	uint32_t published;

	(void)state;
	stages_write(pages, 5);
	g4_write_lock(&inode->lock);
	g4_gather_dirty(fs, inode, batch);
	assert_int_equal(g4_place(wg, fs, inode, batch, 0), 0);
	assert_int_equal(batch->segment_count, 3);
	assert_int_equal(batch->claimed, 5);
	const uint32_t first[] = {0, 3, 4}, length[] = {3, 1, 1};
	for (uint32_t s = 0; s < 3; s++) {
		assert_int_equal(batch->segments[s].first, first[s]);
		assert_int_equal(batch->segments[s].pages, length[s]);
		assert_int_equal(batch->segments[s].page, pages[first[s]]);
		assert_int_equal(batch->segments[s].kind, G4_SEGMENT_NEW);
		assert_int_equal(g4_alloc_in_use(wg, &fs->alloc, batch->segments[s].address), 1);
	}
	/* given back, it is as if it had not been; the pipeline begins anew */
	g4_place_undo(fs, batch, 0);
	g4_add64(&fs->alloc.reserved, batch->claimed);
	assert_int_equal(fs->alloc.free_pages, free_before);
	assert_int_equal(g4_pipeline_run(wg, fs, inode, batch, inode->size, &published), 0);
	assert_int_equal(published, 5);
	for (uint32_t k = 0; k < 5; k++)
		g4_dirty_remove(fs, inode, batch->lines[k]);
	g4_write_unlock(&inode->lock);
}

/* Space that was allocated and never written is filled in place, and stays so when the batch is given up. */
static void unwritten_space_is_a_segment_of_its_own(void **state)
{
	struct g4_run run;
	uint32_t published;

	(void)state;
	assert_int_equal(op_fallocate(&rig, held.ino, 0, 10 * G4_PAGE_BYTES, 20 * G4_PAGE_BYTES), 0);
	const uint64_t free_pages = fs->alloc.free_pages;
	g4_write_lock(&inode->lock);
	assert_int_equal(g4_map_lookup(wg, fs, inode, 10, 20, &run), 0);
	assert_int_equal(run.kind, G4_UNWRITTEN);
	const struct g4_address address = run.address;
	stages_gather_memory(0, 40);
	assert_int_equal(g4_place(wg, fs, inode, batch, 0), 0);
	assert_int_equal(batch->claimed, 20);
	for (uint32_t s = 0; s < batch->segment_count; s++) {
		const struct g4_segment *segment = &batch->segments[s];
		assert_int_equal(segment->kind == G4_SEGMENT_IN_PLACE, segment->page >= 10 && segment->page < 30);
		if (segment->page == 10)
			assert_true(g4_address_is(segment->address, address));
	}
	g4_place_undo(fs, batch, 0);
	assert_int_equal(fs->alloc.free_pages, free_pages);
	g4_add64(&fs->alloc.reserved, batch->claimed);
	assert_int_equal(g4_pipeline_run(wg, fs, inode, batch, 40 * G4_PAGE_BYTES, &published), 0);
	assert_int_equal(published, 40);
	g4_set_size(inode, 40 * G4_PAGE_BYTES);
	assert_int_equal(g4_map_lookup(wg, fs, inode, 10, 20, &run), 0);
	assert_int_equal(run.kind, G4_WRITTEN);
	assert_true(g4_address_is(run.address, address));
	g4_write_unlock(&inode->lock);
	stages_expect(40 * G4_PAGE_BYTES);
}

/* Undo from the middle of a segment: as after a transaction that took a part. */
static void what_was_not_published_is_given_back(void **state)
{
	(void)state;
	g4_write_lock(&inode->lock);
	stages_gather_memory(0, 100);
	const uint64_t reserved = batch->reserved;
	assert_int_equal(g4_place(wg, fs, inode, batch, 0), 0);
	const uint64_t all = fs->alloc.free_pages;
	g4_place_undo(fs, batch, 30);
	assert_int_equal(fs->alloc.free_pages, all + 70);
	/* and the rest of it */
	batch->count = 30;
	for (uint32_t s = 0; s < batch->segment_count; s++) {
		struct g4_segment *segment = &batch->segments[s];
		segment->pages = segment->first >= 30 ? 0 : (uint32_t)g4_min64(segment->pages, 30 - segment->first);
	}
	g4_place_undo(fs, batch, 0);
	assert_int_equal(fs->alloc.free_pages, free_before);
	g4_alloc_unreserve(&fs->alloc, reserved - batch->claimed);
	g4_write_unlock(&inode->lock);
}

RUN_TESTS(stage_test(a_row_becomes_a_segment_and_a_gap_another), stage_test(unwritten_space_is_a_segment_of_its_own),
	  stage_test(what_was_not_published_is_given_back))
