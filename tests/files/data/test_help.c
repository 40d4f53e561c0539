/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A helper does one piece of a transfer as its owner would, and nothing where there is none. (Many of both at once:
 * engine/test_split.c.)
 */
#include "files/data/stages.h"

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

#define help_test(f) cmocka_unit_test_setup_teardown(f, begin, end)

RUN_TESTS(help_test(nothing_to_do_is_told), help_test(pieces_of_a_read_are_read),
	  help_test(pieces_of_a_batch_are_stored))
