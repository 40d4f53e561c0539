/* SPDX-License-Identifier: Apache-2.0 */
/* Write-back: the dirty pages of an inode through the write pipeline. Tiny files go into the inode. */
#include "data/writeback.h"
#include "data/batch.h"
#include "data/dirty.h"
#include "inode/txn.h"

G4_FN static int write_inline(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint32_t line)
{
	int rc = g4_publish_inline(wg, fs, inode, g4_line_data(&fs->cache, line));

	if (rc == 0) {
		g4_alloc_unreserve(&fs->alloc, g4_data_line(&fs->cache, line)->reservation);
		g4_dirty_remove(fs, inode, line);
	}
	return rc;
}

G4_FN static bool fits_inline(const struct g4_fs *fs, const struct g4_inode_core *inode)
{
	if (inode->size > G4_INLINE_BYTES || inode->no_inline || inode->dirty_count != 1 ||
	    fs->cache.lines[inode->dirty_head].index != 0)
		return false;
	if (inode->disk.flags & G4_INODE_INLINE)
		return true;
	for (uint32_t i = 0; i < G4_MAP_SLOTS; i++)
		if (inode->disk.map[i])
			return false;
	return !g4_sums_own(inode);
}

G4_FN int g4_writeback(struct g4_wg *wg, struct g4_fs *fs, uint32_t index)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	int rc = 0;

	if (inode->dirty_count == 0)
		return 0;
	if (fits_inline(fs, inode))
		return write_inline(wg, fs, inode, inode->dirty_head);
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_batch *batch = g4_batch_take(wg);
	while (rc == 0 && inode->dirty_count > 0) {
		uint32_t published;
		g4_gather_dirty(fs, inode, batch);
		rc = g4_pipeline_run(wg, fs, inode, batch, inode->size, &published);
		for (uint32_t k = 0; k < published; k++)
			g4_dirty_remove(fs, inode, batch->lines[k]);
	}
	g4_scratch_release(wg, mark);
	inode->no_inline = false;
	return g4_check(fs, rc);
}

G4_FN int g4_writeback_mapped(struct g4_wg *wg, struct g4_fs *fs, uint32_t index)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);

	if (inode->dirty_count == 0)
		return 0;
	inode->no_inline = true;
	return g4_writeback(wg, fs, index);
}
