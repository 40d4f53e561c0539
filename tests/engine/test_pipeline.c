/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The write pipeline, stage by stage: what is gathered, where it is placed, that it is on the device when it is stored and reachable
 * when it is published, and that nothing of a batch that ends early is lost. (Shared stores: test_split.c; transactions that are
 * full: test_crowded.c; power cuts between the stages: test_crash.c.)
 */
#include "rig.h"

#include "fs/fs.h"

#define DEVICE_BYTES (64 * G4_MIB)

static struct rig rig;
static struct g4_wg *wg;
static struct g4_fs *fs;
static struct g4_inode_core *inode;
static uint32_t index_;
static uint64_t ino;
static uint8_t *data, *found; /* 2 MiB each */
static uint64_t free_before, reserved_before;

/* Memory that all workgroups reach. */
static struct g4_batch_room the_room;
static struct g4_batch the_batch;

static int setup(void **state)
{
	(void)state;
	g4_batch_init(&the_batch, &the_room, 0, G4_BATCH_PAGES);
	data = rig_memory(G4_REGION_BYTES, 7);
	found = rig_memory(G4_REGION_BYTES, 0);
	rig_begin(&rig, DEVICE_BYTES, 0, NULL);
	wg = rig.wg;
	fs = rig.fs;
	index_ = rig_hold(&rig, "f", &ino);
	inode = g4_icache_at(fs, index_);
	assert_int_equal(op_sync(&rig), 0);
	free_before = fs->alloc.free_pages;
	reserved_before = fs->alloc.reserved;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	g4_icache_put(fs, index_);
	rig_end(&rig);
	free(data);
	free(found);
	return 0;
}

static _Alignas(4096) uint8_t the_page[G4_PAGE_BYTES];

static void gather_direct(uint64_t page, uint32_t count, struct g4_batch *batch)
{
	uint64_t pages = count, reserved;

	assert_int_equal(g4_reserve_direct(wg, fs, index_, page, &pages, &reserved), 0);
	assert_int_equal(pages, count);
	g4_gather_memory(data, page, count, reserved, batch);
}

static void write_pages(const uint64_t *pages, uint32_t count)
{
	for (uint32_t k = 0; k < count; k++)
		assert_int_equal(op_write(&rig, ino, 0, pages[k] * G4_PAGE_BYTES, data + k * G4_PAGE_BYTES,
					  G4_PAGE_BYTES, NULL),
				 0);
}

static void dirty_pages_are_gathered_in_their_order(void **state)
{
	const uint64_t pages[] = {9, 3, 700, 4, 0, 5};
	const uint64_t sorted[] = {0, 3, 4, 5, 9, 700};
	const uint32_t count = sizeof(pages) / sizeof(pages[0]);
	struct g4_batch *batch = &the_batch;

	(void)state;
	write_pages(pages, count);
	g4_write_lock(&inode->lock);
	g4_gather_dirty(fs, inode, batch);
	g4_write_unlock(&inode->lock);
	assert_int_equal(batch->count, count);
	assert_null(batch->direct);
	for (uint32_t k = 0; k < count; k++) {
		assert_int_equal(batch->pages[k], sorted[k]);
		assert_int_equal(fs->cache.lines[batch->lines[k]].index, sorted[k]);
	}
	/* what they have reserved; what makes the map higher is the inode's */
	assert_int_equal(batch->reserved + inode->growth_reservation, fs->alloc.reserved - reserved_before);
	assert_int_equal(g4_gathered_reservation(fs, batch, count), 0);
}

static void a_row_becomes_a_segment_and_a_gap_another(void **state)
{
	const uint64_t pages[] = {3, 4, 5, 9, 700};
	struct g4_batch *batch = &the_batch;
	uint32_t published;

	(void)state;
	write_pages(pages, 5);
	g4_write_lock(&inode->lock);
	g4_gather_dirty(fs, inode, batch);
	assert_int_equal(g4_place(wg, fs, inode, batch), 0);
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
	struct g4_batch *batch = &the_batch;
	struct g4_run run;
	uint32_t published;

	(void)state;
	assert_int_equal(op_fallocate(&rig, ino, 0, 10 * G4_PAGE_BYTES, 20 * G4_PAGE_BYTES), 0);
	const uint64_t free_pages = fs->alloc.free_pages;
	g4_write_lock(&inode->lock);
	assert_int_equal(g4_map_lookup(wg, fs, inode, 10, 20, &run), 0);
	assert_int_equal(run.kind, G4_UNWRITTEN);
	const struct g4_address address = run.address;
	gather_direct(0, 40, batch);
	assert_int_equal(g4_place(wg, fs, inode, batch), 0);
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
	assert_int_equal(op_read(&rig, ino, 0, 0, found, 40 * G4_PAGE_BYTES, NULL), 0);
	assert_memory_equal(found, data, 40 * G4_PAGE_BYTES);
}

/* Undo from the middle of a segment: as after a transaction that took a part. */
static void what_was_not_published_is_given_back(void **state)
{
	struct g4_batch *batch = &the_batch;

	(void)state;
	g4_write_lock(&inode->lock);
	gather_direct(0, 100, batch);
	const uint64_t reserved = batch->reserved;
	assert_int_equal(g4_place(wg, fs, inode, batch), 0);
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

/* Between store and publish the device has the data and nobody else knows. */
static void what_is_stored_is_on_the_device_and_not_in_the_file(void **state)
{
	struct g4_batch *batch = &the_batch;
	struct g4_run run;
	uint32_t published;

	(void)state;
	g4_write_lock(&inode->lock);
	gather_direct(0, 100, batch);
	const uint64_t reserved = batch->reserved;
	assert_int_equal(g4_place(wg, fs, inode, batch), 0);
	assert_int_equal(g4_store(wg, fs, batch), 0);
	for (uint32_t s = 0; s < batch->segment_count; s++)
		assert_memory_equal(rig.image + g4_address_stored(batch->segments[s].address),
				    data + (uint64_t)batch->segments[s].first * G4_PAGE_BYTES,
				    (uint64_t)batch->segments[s].pages * G4_PAGE_BYTES);
	assert_int_equal(g4_map_lookup(wg, fs, inode, 0, 100, &run), 0);
	assert_int_equal(run.kind, G4_HOLE);
	inode->map_reservation = reserved - batch->claimed;
	assert_int_equal(g4_publish(wg, fs, inode, batch, 100 * G4_PAGE_BYTES, &published), 0);
	g4_alloc_unreserve(&fs->alloc, inode->map_reservation);
	inode->map_reservation = 0;
	assert_int_equal(published, 100);
	assert_int_equal(inode->disk.size, 100 * G4_PAGE_BYTES);
	g4_set_size(inode, inode->disk.size);
	g4_write_unlock(&inode->lock);
	assert_int_equal(op_read(&rig, ino, 0, 0, found, 100 * G4_PAGE_BYTES, NULL), 0);
	assert_memory_equal(found, data, 100 * G4_PAGE_BYTES);
}

/* The page of a link, or the last one of a file that is cut: before the transaction that leads to it, or that never comes. */
static void a_page_that_is_stored_ahead_is_published_or_dropped(void **state)
{
	struct g4_page_ahead ahead;
	struct g4_txn txn;
	struct g4_run run;

	(void)state;
	g4_write_lock(&inode->lock);
	uint8_t *page = the_page;
	memcpy(page, data, G4_PAGE_BYTES);
	assert_int_equal(g4_store_ahead(wg, fs, inode->disk.policy, G4_NO_ADDRESS, page, &ahead), 0);
	assert_true(g4_address_stored(ahead.address) >= fs->meta.layout.data_address);
	assert_int_equal(fs->alloc.free_pages, free_before - 1);
	assert_int_equal(fs->journal.data_written, 1); /* the next commit flushes */
	assert_memory_equal(rig.image + g4_address_stored(ahead.address), data, G4_PAGE_BYTES);
	g4_drop_ahead(fs, &ahead);
	assert_int_equal(fs->alloc.free_pages, free_before);
	assert_int_equal(g4_store_ahead(wg, fs, inode->disk.policy, ahead.address, page, &ahead), 0);
	assert_int_equal(g4_begin(wg, fs, 2 * G4_MAP_CREDITS, &txn), 0);
	assert_int_equal(g4_publish_ahead(wg, fs, &txn, inode, 0, &ahead), 0);
	inode->disk.size = G4_PAGE_BYTES;
	assert_int_equal(g4_inode_log(wg, fs, &txn, inode), 0);
	assert_int_equal(g4_end(fs, &txn, 0), 0);
	g4_set_size(inode, G4_PAGE_BYTES);
	assert_int_equal(g4_map_lookup(wg, fs, inode, 0, 1, &run), 0);
	assert_true(g4_address_is(run.address, ahead.address));
	g4_write_unlock(&inode->lock);
	assert_int_equal(op_read(&rig, ino, 0, 0, found, G4_PAGE_BYTES, NULL), 0);
	assert_memory_equal(found, data, G4_PAGE_BYTES);
}

/* Acquiring takes space in the map that is on disk, releasing gives it back when that is durable; both need what they say. */
static void ownership_begins_and_ends_with_a_transaction(void **state)
{
	const uint64_t pages = 50;
	struct g4_address address;
	uint64_t got;
	struct g4_txn txn;

	(void)state;
	assert_int_equal(g4_alloc_claim(wg, &fs->alloc, G4_ALLOC_DATA, G4_NO_ADDRESS, pages, false, &address, &got), 0);
	assert_int_equal(got, pages);
	g4_write_lock(&inode->lock);
	assert_int_equal(g4_begin(wg, fs, 1, &txn), 0);
	assert_true(g4_extent_credits(fs, &txn, 2, pages));
	const uint32_t credits = txn.credits;
	assert_true(credits >= 2 * G4_ALLOC_CREDITS);
	assert_int_equal(g4_extent_acquire(wg, fs, &txn, address, pages), 0);
	assert_true(txn.changed);
	/* twice is once too often */
	assert_int_equal(g4_extent_release(wg, fs, &txn, address, pages), 0);
	assert_true(credits - txn.credits <= 2 * G4_ALLOC_CREDITS);
	assert_int_equal(fs->alloc.pending_pages, pages);
	/* no file has what lies in front of the data */
	assert_int_equal(g4_extent_release(wg, fs, &txn, g4_address_from(fs->meta.layout.data_address - G4_PAGE_BYTES),
					   1),
			 -G4_E_CORRUPT_MAP);
	assert_int_equal(g4_end(fs, &txn, 0), 0);
	g4_write_unlock(&inode->lock);
	assert_int_equal(g4_alloc_in_use(wg, &fs->alloc, address), 1); /* not before that is durable */
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(g4_alloc_in_use(wg, &fs->alloc, address), 0);
	assert_int_equal(fs->alloc.free_pages, free_before);
}

/* A run of 1 GiB lies in eighteen groups at most, and their descriptors in two pages. */
static void a_large_extent_asks_for_more_credits(void **state)
{
	struct g4_txn txn;

	(void)state;
	assert_int_equal(g4_begin(wg, fs, 1, &txn), 0);
	assert_true(g4_extent_credits(fs, &txn, 1, G4_GIB / G4_PAGE_BYTES));
	assert_true(txn.credits >= 18 + 2);
	assert_int_equal(g4_end(fs, &txn, 0), 0);
}

#define pipeline_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		pipeline_test(dirty_pages_are_gathered_in_their_order),
		pipeline_test(a_row_becomes_a_segment_and_a_gap_another),
		pipeline_test(unwritten_space_is_a_segment_of_its_own),
		pipeline_test(what_was_not_published_is_given_back),
		pipeline_test(what_is_stored_is_on_the_device_and_not_in_the_file),
		pipeline_test(a_page_that_is_stored_ahead_is_published_or_dropped),
		pipeline_test(ownership_begins_and_ends_with_a_transaction),
		pipeline_test(a_large_extent_asks_for_more_credits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
