/* SPDX-License-Identifier: Apache-2.0 */
/* fsync, sync, and write-back of everything. */
#include "fs/sync.h"
#include "data/writeback.h"
#include "inode/icache.h"
#include "inode/inode.h"
#include "inode/queue.h"
#include "inode/txn.h"

/* Dirty pages and changed time stamps of a write-locked inode into the running transaction. */
G4_FN static int flush_inode(struct g4_wg *wg, struct g4_fs *fs, uint32_t index)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	struct g4_txn txn;
	int rc = 0;

	if (inode->dead)
		return 0;
	if (g4_is_reg(inode->disk.mode))
		rc = g4_writeback(wg, fs, index);
	/* the size is published with the pages that made it, unless these were punched out before they were written */
	bool grown = g4_is_reg(inode->disk.mode) && inode->disk.size != inode->size;
	if (rc == 0 && (grown || g4_load32_rlx(&inode->times_dirty))) {
		rc = g4_begin(wg, fs, 4, &txn);
		if (rc == 0) {
			if (grown)
				inode->disk.size = inode->size;
			rc = g4_end(fs, &txn, g4_inode_log(wg, fs, &txn, inode));
		}
	}
	return rc;
}

G4_FN int g4_writeback_all(struct g4_wg *wg, struct g4_fs *fs)
{
	uint32_t last, i, again = G4_NO_INODE;
	int first = 0;

	g4_lock(&fs->dirty_list_lock);
	last = fs->dirty_last;
	g4_unlock(&fs->dirty_list_lock);
	if (last == G4_NO_INODE)
		return 0;
	g4_read_lock(&fs->flush_lock);
	do {
		i = g4_dequeue_dirty(fs);
		if (i == G4_NO_INODE)
			break;
		struct g4_inode_core *inode = g4_icache_at(fs, i);
		g4_write_lock(&inode->lock);
		int rc = flush_inode(wg, fs, i);
		bool left = inode->dirty_count > 0 || g4_load32_rlx(&inode->times_dirty);
		g4_write_unlock(&inode->lock);
		if (rc < 0) {
			if (first == 0)
				first = rc;
			if (left && !inode->dead)
				g4_queue_dirty(fs, i); /* tried again next time */
			/* somebody else may have taken `last`: what comes round again ends the pass, too */
			if (again == i)
				last = i;
			else if (again == G4_NO_INODE)
				again = i;
		}
		g4_icache_put(fs, i);
	} while (i != last);
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
	rc = flush_inode(wg, fs, index);
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
