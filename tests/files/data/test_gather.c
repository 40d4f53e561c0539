/* SPDX-License-Identifier: Apache-2.0 */
/* The first stage: dirty pages come in their order, a batch at a time, with what is reserved for them. */
#include "files/data/stages.h"

static void dirty_pages_are_gathered_in_their_order(void **state)
{
	const uint64_t pages[] = {9, 3, 700, 4, 0, 5};
	const uint64_t sorted[] = {0, 3, 4, 5, 9, 700};
	const uint32_t count = sizeof(pages) / sizeof(pages[0]);

	(void)state;
	stages_write(pages, count);
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

RUN_TESTS(stage_test(dirty_pages_are_gathered_in_their_order))
