/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A helper does one piece of a transfer as its owner would, and nothing where there is none. (Many of both at once:
 * engine/test_split.c.)
 */
#include "files/data/stages.h"

#include "data/bounce.h"

#define BYTES G4_REGION_BYTES

static struct g4_wg *helper;

static int begin(void **state)
{
	stages_begin(state);
	helper = g4_wg_create(1);
	fs->split.helpers = 1;
	return helper == NULL;
}

static int end(void **state)
{
	fs->split.helpers = 0;
	g4_wg_destroy(helper);
	return stages_end(state);
}

static void nothing_to_do_is_told(void **state)
{
	(void)state;
	assert_false(g4_split_help(helper, fs));
}

/* All pieces but the owner's first are the helper's. */
static void pieces_of_a_read_are_read(void **state)
{
	const struct g4_split_work work = {
		.kind = G4_SPLIT_READ, .index = held.index, .offset = 0, .bytes = BYTES, .to = found};
	struct g4_split_job *job;
	uint32_t pieces = 0;
	uint64_t done;

	(void)state;
	assert_int_equal(op_write(&rig, held.ino, 0, 0, data, BYTES, NULL), 0);
	assert_int_equal(op_sync(&rig), 0);
	g4_read_lock(&inode->lock);
	job = g4_split_open(wg, fs, &work);
	assert_non_null(job);
	while (g4_split_help(helper, fs))
		pieces++;
	assert_true(pieces > 1);
	assert_int_equal(g4_split_close(fs, job, &done), 0);
	assert_int_equal(done, BYTES);
	g4_read_unlock(&inode->lock);
	assert_memory_equal(found, data, BYTES);
	assert_false(g4_split_help(helper, fs));
}

static void pieces_of_a_batch_are_stored(void **state)
{
	const uint32_t count = BYTES / G4_PAGE_BYTES;
	struct g4_split_job *job;
	uint64_t done;

	(void)state;
	g4_write_lock(&inode->lock);
	stages_gather_memory(0, count);
	const uint64_t reserved = batch->reserved;
	assert_int_equal(g4_place(wg, fs, inode, batch, 0), 0);
	const struct g4_split_work work = {.kind = G4_SPLIT_WRITE, .bytes = BYTES, .batch = batch};
	job = g4_split_open(wg, fs, &work);
	assert_non_null(job);
	while (g4_split_help(helper, fs))
		;
	assert_int_equal(g4_split_close(fs, job, &done), 0);
	for (uint32_t s = 0; s < batch->segment_count; s++)
		assert_memory_equal(rig.image + g4_address_stored(batch->segments[s].address),
				    data + (uint64_t)batch->segments[s].first * G4_PAGE_BYTES,
				    (uint64_t)batch->segments[s].pages * G4_PAGE_BYTES);
	g4_place_undo(fs, batch, 0);
	g4_alloc_unreserve(&fs->alloc, reserved - batch->claimed);
	g4_write_unlock(&inode->lock);
}

/* What a writer who has all buffers that it needs leaves to others: the contents, and their sums. */
static void pieces_of_a_stage_fill_buffers(void **state)
{
	const uint32_t pages = G4_BATCH_PAGES, buffers = pages / G4_BOUNCE_PAGES;
	struct g4_split_work work = {
		.kind = G4_SPLIT_STAGE, .bytes = (uint64_t)pages * G4_PAGE_BYTES, .batch = batch, .from = data + 7};
	uint32_t numbers[G4_BOUNCE_FLIGHTS], pieces = 0;
	struct g4_split_job *job;
	uint64_t done;

	(void)state;
	assert_int_equal(g4_bounce_take(&fs->bounce, buffers, numbers), buffers);
	batch->staged = true;
	batch->algorithm = G4_CHECKSUM_XXH3;
	for (uint32_t k = 0; k < pages; k++)
		batch->lines[k] = numbers[buffers - 1 - k / G4_BOUNCE_PAGES] * G4_BOUNCE_PAGES + k % G4_BOUNCE_PAGES;
	job = g4_split_open(wg, fs, &work);
	assert_non_null(job);
	while (g4_split_help(helper, fs))
		pieces++;
	assert_int_equal(pieces, 8);
	assert_int_equal(g4_split_close(fs, job, &done), 0);
	for (uint32_t k = 0; k < pages; k++) {
		const void *page = g4_batch_page(fs, batch, k);
		struct g4_sum_entry sum;
		assert_memory_equal(page, data + 7 + (uint64_t)k * G4_PAGE_BYTES, G4_PAGE_BYTES);
		g4_sums_make(wg, G4_CHECKSUM_XXH3, &page, 1, &sum);
		assert_memory_equal(&batch->sums[k], &sum, sizeof(sum));
	}
	g4_bounce_give_back(&fs->bounce, numbers, buffers);
}

#define help_test(f) cmocka_unit_test_setup_teardown(f, begin, end)

RUN_TESTS(help_test(nothing_to_do_is_told), help_test(pieces_of_a_read_are_read),
	  help_test(pieces_of_a_batch_are_stored), help_test(pieces_of_a_stage_fill_buffers))
