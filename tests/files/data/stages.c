/* SPDX-License-Identifier: Apache-2.0 */
#include "files/data/stages.h"

static struct g4_batch_lists the_lists;
static struct g4_batch the_batch;
struct g4_batch *batch = &the_batch;
struct held held;
struct g4_inode_core *inode;
uint8_t *data, *found;
uint64_t free_before, reserved_before;

int stages_begin(void **state)
{
	files_begin(state);
	g4_batch_init(batch, &the_lists, 0, G4_BATCH_PAGES);
	data = rig_memory(G4_REGION_BYTES, 7);
	found = rig_memory(G4_REGION_BYTES, 0);
	held = files_hold("f");
	inode = held.inode;
	assert_int_equal(op_sync(&rig), 0);
	free_before = fs->alloc.free_pages;
	reserved_before = fs->alloc.reserved;
	return 0;
}

int stages_end(void **state)
{
	files_let_go(held);
	free(data);
	free(found);
	return files_end(state);
}

void stages_write(const uint64_t *pages, uint32_t count)
{
	for (uint32_t k = 0; k < count; k++)
		assert_int_equal(op_write(&rig, held.ino, 0, pages[k] * G4_PAGE_BYTES, data + k * G4_PAGE_BYTES,
					  G4_PAGE_BYTES, NULL),
				 0);
}

void stages_gather_memory(uint64_t page, uint32_t count)
{
	uint64_t pages = count, reserved, pooled;

	assert_int_equal(g4_reserve_direct(wg, fs, held.index, page, &pages, &reserved, &pooled), 0);
	assert_int_equal(pages, count);
	g4_gather_memory(data, page, count, reserved, batch);
}

void stages_expect(uint64_t bytes)
{
	assert_int_equal(op_read(&rig, held.ino, 0, 0, found, bytes, NULL), 0);
	assert_memory_equal(found, data, bytes);
}
