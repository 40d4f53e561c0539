/* SPDX-License-Identifier: Apache-2.0 */
/* fsync, sync, and write-back of everything. */
#include "fs/sync.h"
#include "data/writeback.h"
#include "inode/epoch.h"
#include "inode/icache.h"
#include "inode/inode.h"
#include "inode/queue.h"
#include "inode/txn.h"

/* The size and the time stamps of a write-locked inode whose dirty pages are written. */
G4_FN static int flush_size_and_times(struct g4_wg *wg, struct g4_fs *fs, uint32_t index)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	struct g4_txn txn;
	/* the size is published with the pages that made it, unless these were punched out before they were written */
	const bool grown = g4_is_reg(inode->disk.mode) && inode->disk.size != inode->size;

	if (!grown && !g4_load32_rlx(&inode->times_dirty))
		return 0;
	int rc = g4_begin(wg, fs, 4, &txn);
	if (rc < 0)
		return rc;
	if (grown)
		inode->disk.size = inode->size;
	return g4_end(fs, &txn, g4_inode_log(wg, fs, &txn, inode));
}

/*
 * Dirty pages and changed time stamps of write-locked inodes into running transactions. `count`: at most G4_TOGETHER_FILES.
 * results: of each.
 */
G4_FN static void flush_inodes(struct g4_wg *wg, struct g4_fs *fs, const uint32_t *indices, uint32_t count,
			       int *results)
{
	for (uint32_t k = 0; k < count; k++)
		g4_epoch_advance(fs, g4_icache_at(fs, indices[k]));
	g4_writeback_together(wg, fs, indices, count, results);
	for (uint32_t k = 0; k < count; k++)
		if (results[k] == 0 && !g4_icache_at(fs, indices[k])->dead)
			results[k] = flush_size_and_times(wg, fs, indices[k]);
}

/* Whether an inode joins those that are locked already: a file of few dirty pages that nobody has. It is locked then. */
G4_FN static bool joins(struct g4_fs *fs, uint32_t index)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);

	/* the first one was waited for, others are only tried: inodes have no order among them here */
	if (!g4_write_trylock(&inode->lock))
		return false;
	if (g4_writeback_is_small(inode))
		return true;
	g4_write_unlock(&inode->lock);
	return false;
}

G4_FN int g4_writeback_all(struct g4_wg *wg, struct g4_fs *fs)
{
	uint32_t last, next, again = G4_NO_INODE;
	bool end = false;
	int first = 0;

	g4_lock(&fs->dirty_list_lock);
	last = fs->dirty_last;
	g4_unlock(&fs->dirty_list_lock);
	if (last == G4_NO_INODE)
		return 0;
	g4_read_lock(&fs->flush_lock);
	for (next = g4_dequeue_dirty(fs); next != G4_NO_INODE;) {
		uint32_t indices[G4_TOGETHER_FILES], count = 0;
		int results[G4_TOGETHER_FILES];

		g4_write_lock(&g4_icache_at(fs, next)->lock);
		const bool small = g4_writeback_is_small(g4_icache_at(fs, next));
		do {
			indices[count++] = next;
			end = end || next == last;
			next = end ? G4_NO_INODE : g4_dequeue_dirty(fs);
		} while (small && next != G4_NO_INODE && count < G4_TOGETHER_FILES && joins(fs, next));
		flush_inodes(wg, fs, indices, count, results);
		for (uint32_t k = 0; k < count; k++) {
			struct g4_inode_core *inode = g4_icache_at(fs, indices[k]);
			const bool left = inode->dirty_count > 0 || g4_load32_rlx(&inode->times_dirty);
			g4_write_unlock(&inode->lock);
			if (results[k] < 0) {
				if (first == 0)
					first = results[k];
				if (left && !inode->dead)
					g4_queue_dirty(fs, indices[k]); /* tried again next time */
				/* somebody else may have taken `last`: what comes round again ends the pass, too */
				if (again == indices[k])
					end = true;
				else if (again == G4_NO_INODE)
					again = indices[k];
			}
			g4_icache_put(fs, indices[k]);
		}
	}
	g4_read_unlock(&fs->flush_lock);
	return first;
}

G4_FN int g4_fsync(struct g4_wg *wg, struct g4_fs *fs, uint32_t index)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	uint64_t sequence;
	int rc;

	if (fs->flags & G4_FS_READ_ONLY)
		return 0;
	g4_write_lock(&inode->lock);
	flush_inodes(wg, fs, &index, 1, &rc);
	sequence = inode->logged;
	g4_write_unlock(&inode->lock);
	return rc < 0 ? rc : g4_commit(wg, fs, sequence, false);
}

G4_FN int g4_sync_all(struct g4_wg *wg, struct g4_fs *fs, bool checkpoint)
{
	int rc = g4_writeback_all(wg, fs);

	/* others may have taken inodes off the queue before us and still be writing them */
	g4_write_lock(&fs->flush_lock);
	g4_write_unlock(&fs->flush_lock);
	int committed = g4_commit(wg, fs, UINT64_MAX, checkpoint);

	return rc < 0 ? rc : committed;
}
