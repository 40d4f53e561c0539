/* SPDX-License-Identifier: Apache-2.0 */
/* The first stage of the write pipeline: what is to be stored. */
#include "data/batch.h"
#include "data/dirty.h"

G4_FN uint64_t g4_gathered_reservation(const struct g4_fs *fs, const struct g4_batch *batch, uint32_t from)
{
	uint64_t pages = 0;

	for (uint32_t k = from; k < batch->count; k++)
		pages += g4_data_line(&fs->cache, batch->lines[k])->reservation;
	return pages;
}

G4_FN uint64_t g4_gathered_pooled(const struct g4_fs *fs, const struct g4_batch *batch, uint32_t from)
{
	uint64_t pages = 0;

	for (uint32_t k = from; k < batch->count; k++)
		pages += g4_data_line(&fs->cache, batch->lines[k])->pooled;
	return pages;
}

G4_FN void g4_gather_dirty(struct g4_fs *fs, const struct g4_inode_core *inode, struct g4_batch *batch)
{
	uint32_t line = inode->dirty_head, n = 0;

	batch->direct = NULL;
	batch->foreign = false;
	for (; line != G4_NO_LINE && n < batch->most; line = g4_data_line(&fs->cache, line)->next) {
		uint64_t page = fs->cache.lines[line].index;
		uint32_t k = n++;
		for (; k > 0 && batch->pages[k - 1] > page; k--) {
			batch->pages[k] = batch->pages[k - 1];
			batch->lines[k] = batch->lines[k - 1];
		}
		batch->pages[k] = page;
		batch->lines[k] = line;
	}
	/* in order, so that the size never leads to what is not there yet: the others are for the next batch */
	batch->wish = n ? g4_data_line(&fs->cache, batch->lines[0])->wish : (uint8_t)G4_DEDUP_BY_POLICY;
	for (uint32_t k = 1; k < n; k++)
		if (g4_data_line(&fs->cache, batch->lines[k])->wish != batch->wish)
			n = k;
	batch->count = n;
	batch->reserved = g4_gathered_reservation(fs, batch, 0);
	batch->pooled = g4_gathered_pooled(fs, batch, 0);
}

G4_FN void g4_gather_memory(const uint8_t *from, uint64_t page, uint32_t count, uint64_t reserved,
			    struct g4_batch *batch)
{
	batch->direct = from;
	batch->foreign = false;
	batch->direct_page = page;
	batch->count = count;
	batch->reserved = reserved;
	batch->pooled = 0;
}
