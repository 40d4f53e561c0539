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
		g4_line_unreserve(fs, inode, line);
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
		g4_place_in_row(inode, batch, true);
		rc = g4_pipeline_run(wg, fs, inode, batch, inode->size, &published);
		for (uint32_t k = 0; k < published; k++)
			g4_dirty_remove(fs, inode, batch->lines[k]);
	}
	g4_scratch_release(wg, mark);
	inode->no_inline = false;
	return g4_check(fs, rc);
}

G4_STATIC_ASSERT(G4_BATCH_SCRATCH_BYTES(G4_TOGETHER_FILES) <= G4_FS_SCRATCH_BYTES, "they fit in scratch memory");
G4_STATIC_ASSERT(G4_TOGETHER_FILES *G4_TOGETHER_PAGES <= G4_BATCH_PAGES, "they fit");

G4_FN bool g4_writeback_is_small(const struct g4_inode_core *inode)
{
	return g4_is_reg(inode->disk.mode) && inode->dirty_count <= G4_TOGETHER_PAGES;
}

G4_FN void g4_writeback_together(struct g4_wg *wg, struct g4_fs *fs, const uint32_t *indices, uint32_t count,
				 int *results)
{
	struct g4_inode_core *inodes[G4_TOGETHER_FILES];
	uint32_t published[G4_TOGETHER_FILES], which[G4_TOGETHER_FILES], n = 0;
	int rcs[G4_TOGETHER_FILES];

	for (uint32_t k = 0; k < count; k++) {
		struct g4_inode_core *inode = g4_icache_at(fs, indices[k]);
		results[k] = 0;
		if (inode->dead || inode->dirty_count == 0)
			continue;
		if (!g4_writeback_is_small(inode) || fits_inline(fs, inode)) {
			results[k] = g4_writeback(wg, fs, indices[k]);
			continue;
		}
		which[n] = k;
		inodes[n++] = inode;
	}
	if (n == 0)
		return;
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_batch *batches = (struct g4_batch *)g4_scratch_take(wg, n * sizeof(struct g4_batch));
	struct g4_batch_lists *lists = g4_batch_lists_take(wg);
	for (uint32_t k = 0; k < n; k++) {
		g4_batch_init(&batches[k], lists, k * G4_TOGETHER_PAGES, G4_TOGETHER_PAGES);
		g4_gather_dirty(fs, inodes[k], &batches[k]);
		g4_place_in_row(inodes[k], &batches[k], k == 0);
	}
	g4_pipeline_run_together(wg, fs, inodes, batches, n, rcs, published);
	for (uint32_t k = 0; k < n; k++) {
		for (uint32_t p = 0; p < published[k]; p++)
			g4_dirty_remove(fs, inodes[k], batches[k].lines[p]);
		results[which[k]] = g4_check(fs, rcs[k]);
	}
	g4_scratch_release(wg, mark);
	for (uint32_t k = 0; k < n; k++) {
		if (results[which[k]] == 0 && inodes[k]->dirty_count > 0) /* a page that was found is gone */
			results[which[k]] = g4_writeback(wg, fs, indices[which[k]]);
		inodes[k]->no_inline = false;
	}
}

G4_FN int g4_writeback_mapped(struct g4_wg *wg, struct g4_fs *fs, uint32_t index)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);

	if (inode->dirty_count == 0)
		return 0;
	inode->no_inline = true;
	return g4_writeback(wg, fs, index);
}
