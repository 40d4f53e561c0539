/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is stored is on the device when the stage returns, wherever its segments lie, and in no file. (Shared with helpers:
 * engine/test_split.c.)
 */
#include "files/data/stages.h"

/* Of a batch that is placed: the segments' contents, which begin at `from`. */
static void expect_stored(const uint8_t *from)
{
	for (uint32_t s = 0; s < batch->segment_count; s++)
		assert_memory_equal(rig.image + g4_address_stored(batch->segments[s].address),
				    from + (uint64_t)batch->segments[s].first * G4_PAGE_BYTES,
				    (uint64_t)batch->segments[s].pages * G4_PAGE_BYTES);
}

static void give_up(uint64_t reserved)
{
	g4_place_undo(fs, batch, 0);
	g4_alloc_unreserve(&fs->alloc, reserved - batch->claimed);
}

static void memory_is_stored_and_no_file_has_it(void **state)
{
	struct g4_run run;

	(void)state;
	g4_write_lock(&inode->lock);
	stages_gather_memory(0, 100);
	const uint64_t reserved = batch->reserved;
	assert_int_equal(g4_place(wg, fs, inode, batch, 0), 0);
	assert_int_equal(g4_store(wg, fs, batch), 0);
	expect_stored(data);
	assert_int_equal(g4_map_lookup(wg, fs, inode, 0, 100, &run), 0);
	assert_int_equal(run.kind, G4_HOLE);
	give_up(reserved);
	g4_write_unlock(&inode->lock);
}

static void a_piece_ends_inside_a_segment(void **state)
{
	const struct g4_split_piece piece = {2 * G4_PAGE_BYTES, 3 * G4_PAGE_BYTES};

	(void)state;
	g4_write_lock(&inode->lock);
	stages_gather_memory(0, 8);
	const uint64_t reserved = batch->reserved;
	assert_int_equal(g4_place(wg, fs, inode, batch, 0), 0);
	assert_int_equal(batch->segment_count, 1);
	uint8_t *there = rig.image + g4_address_stored(batch->segments[0].address);
	memset(there, 0x5a, 8 * G4_PAGE_BYTES);
	assert_int_equal(g4_store_piece(wg, fs, batch, &piece), 0);
	assert_memory_equal(there + piece.offset, data + piece.offset, piece.bytes);
	assert_int_equal(there[piece.offset - 1], 0x5a);
	assert_int_equal(there[piece.offset + piece.bytes], 0x5a);
	give_up(reserved);
	g4_write_unlock(&inode->lock);
}

/* Lines that lie apart in memory, for places that lie apart, of two batches that share lists. */
static void batches_that_share_lists_are_stored_together(void **state)
{
	const uint64_t pages[] = {0, 1, 2, 5, 600};
	struct g4_batch both[2];
	uint64_t reserved[2];

	(void)state;
	stages_write(pages, 5);
	g4_write_lock(&inode->lock);
	g4_gather_dirty(fs, inode, batch);
	assert_int_equal(batch->count, 5);
	for (uint32_t b = 0; b < 2; b++) { /* as if each were a file's: pages 0 to 2, and the others */
		const uint32_t first = b ? 3 : 0, count = b ? 2 : 3;
		g4_batch_init(&both[b], batch->lists, first, count);
		both[b].count = count;
		reserved[b] = both[b].reserved = g4_gathered_reservation(fs, &both[b], 0);
		assert_int_equal(g4_place(wg, fs, inode, &both[b], 0), 0);
	}
	assert_int_equal(g4_store_together(wg, fs, both, 2), 0);
	for (uint32_t b = 0; b < 2; b++) {
		*batch = both[b];
		expect_stored(data + (b ? 3 : 0) * G4_PAGE_BYTES);
		g4_place_undo(fs, batch, 0);
		g4_add64(&fs->alloc.reserved, batch->claimed); /* they are dirty still */
		assert_int_equal(g4_gathered_reservation(fs, batch, 0), reserved[b]);
	}
	g4_write_unlock(&inode->lock);
}

/*
 * More segments than one transfer has requests: unwritten pages that lie apart. The lists that are cut stay within their bounds.
 */
static void more_segments_than_requests_are_stored_in_several_transfers(void **state)
{
	enum { PAGES = G4_BATCH_PAGES, GUARD = 0x5a };
	static struct {
		struct g4_batch_lists lists;
		uint8_t behind[sizeof(struct g4_batch_lists)];
	} memory;
	static uint64_t pages[PAGES], known[PAGES];
	static uint8_t behind[sizeof(memory.behind)];
	struct g4_batch apart;

	(void)state;
	for (uint32_t k = 0; k < PAGES; k++)
		pages[k] = 2 * (uint64_t)k;
	memset(known, GUARD, sizeof(known));
	memset(behind, GUARD, sizeof(behind));
	memset(&memory, GUARD, sizeof(memory));
	assert_int_equal(op_fallocate(&rig, held.ino, 0, 0, 2 * PAGES * G4_PAGE_BYTES), 0);
	stages_write(pages, PAGES);
	g4_write_lock(&inode->lock);
	g4_batch_init(&apart, &memory.lists, 0, PAGES);
	g4_gather_dirty(fs, inode, &apart);
	assert_int_equal(g4_place(wg, fs, inode, &apart, 0), 0);
	assert_int_equal(apart.segment_count, PAGES);
	assert_true(apart.segment_count > sizeof(memory.lists.requests) / sizeof(memory.lists.requests[0]));
	const int rc = g4_store_together(wg, fs, &apart, 1);
	g4_write_unlock(&inode->lock);
	assert_int_equal(rc, 0);
	*batch = apart;
	expect_stored(data);
	assert_memory_equal(memory.lists.known, known, sizeof(known));
	assert_memory_equal(memory.behind, behind, sizeof(behind));
}

RUN_TESTS(stage_test(memory_is_stored_and_no_file_has_it), stage_test(a_piece_ends_inside_a_segment),
	  stage_test(batches_that_share_lists_are_stored_together),
	  stage_test(more_segments_than_requests_are_stored_in_several_transfers))
