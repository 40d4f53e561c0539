/* SPDX-License-Identifier: Apache-2.0 */
/* Joining and committing transactions on behalf of operations; fsync, sync, write-back of everything. */
#include "fs/fs.h"

G4_FN void g4_fs_error(struct g4_fs *fs, int code)
{
	g4_journal_abort(&fs->journal, code);
	g4_store32_rel(&fs->error_state, 1);
}

G4_FN int g4_check_failure(struct g4_fs *fs, int code)
{
	switch (-code) {
	case G4_E_CHECKSUM:
	case G4_E_MISDIRECTED:
	case G4_E_TYPE:
	case G4_E_CORRUPT_INODE:
	case G4_E_CORRUPT_DIR:
	case G4_E_CORRUPT_MAP:
	case G4_E_CORRUPT_ALLOC:
	case G4_E_CORRUPT_XATTR:
	case G4_E_CORRUPT_JOURNAL:
		g4_fs_error(fs, code);
		break;
	default:
		break;
	}
	return code;
}

/* When there are no credits, or a commit is under way. */
G4_FN G4_COLD static int begin_late(struct g4_wg *wg, struct g4_fs *fs, uint32_t credits, struct g4_txn *txn)
{
	for (;;) {
		/* this one is full, if any: hundreds may find that, and one commit serves them all */
		uint64_t running = g4_load64_acq(&fs->journal.running);
		int rc = g4_txn_begin(&fs->journal, credits, txn);
		if (rc != -G4_E_AGAIN)
			return rc;
		if (g4_txn_await(wg, &fs->journal, credits))
			continue;
		rc = g4_commit(wg, fs, running, false);
		if (rc < 0)
			return rc;
	}
}

G4_FN int g4_begin(struct g4_wg *wg, struct g4_fs *fs, uint32_t credits, struct g4_txn *txn)
{
	if (fs->flags & G4_FS_READ_ONLY)
		return -G4_E_ROFS;
	/* one warp alone takes a third of a second for a large commit: whoever comes by does a few pages of it */
	if (g4_wg_width(wg) > 1 && g4_commit_workers_call(&fs->journal))
		g4_commit_workers_help(wg, &fs->journal);
	int rc = g4_txn_begin(&fs->journal, credits, txn);
	return rc == -G4_E_AGAIN ? begin_late(wg, fs, credits, txn) : rc;
}

G4_FN int g4_end(struct g4_fs *fs, struct g4_txn *txn, int code)
{
	/* want of space is undone or leaves a valid state; what a device or an image did wrong may have come anywhere */
	if (txn->changed && (-code >= G4_E_IO || code == -G4_E_NOMEM))
		g4_fs_error(fs, code);
	g4_txn_end(txn);
	return code;
}

G4_FN int g4_commit(struct g4_wg *wg, struct g4_fs *fs, uint64_t sequence, bool checkpoint)
{
	const struct g4_extent *frees;
	uint32_t count;

	if (fs->flags & G4_FS_READ_ONLY)
		return 0;
	int rc = g4_journal_commit(wg, &fs->journal, sequence, checkpoint, &frees, &count);
	if (rc <= 0) {
		if (rc < 0)
			g4_fs_error(fs, rc);
		return rc;
	}
	for (uint32_t i = 0; i < count; i++) {
		g4_sub64(&fs->alloc.pending_pages, frees[i].pages);
		g4_alloc_release(&fs->alloc, frees[i].address, frees[i].pages);
	}
	rc = g4_journal_finish(wg, &fs->journal);
	if (rc < 0)
		g4_fs_error(fs, rc);
	return rc;
}

G4_FN bool g4_dirty_pressure(const struct g4_fs *fs, bool hard)
{
	uint64_t pages = g4_load64_rlx(&fs->dirty_pages);
	uint32_t icache = g4_load32_rlx(&fs->queued_inodes);

	return hard ? pages > fs->dirty_limit || icache > fs->icache.count / 2 :
		      pages > fs->dirty_limit / 2 || icache > fs->icache.count / 4;
}

G4_FN void g4_queue_dirty(struct g4_fs *fs, uint32_t index)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);

	if (g4_load32_rlx(&inode->queued))
		return;
	g4_lock(&fs->dirty_list_lock);
	if (!inode->queued && !inode->dead) {
		g4_store32_rel(&inode->queued, 1);
		g4_add32(&fs->queued_inodes, 1);
		g4_icache_ref(fs, index); /* the queue's reference */
		inode->dirty_prev = fs->dirty_last;
		inode->dirty_next = G4_NO_INODE;
		if (fs->dirty_last == G4_NO_INODE)
			fs->dirty_first = index;
		else
			g4_icache_at(fs, fs->dirty_last)->dirty_next = index;
		fs->dirty_last = index;
	}
	g4_unlock(&fs->dirty_list_lock);
}

/* Takes the first queued in-core inode; its reference passes to the caller. */
G4_FN static uint32_t take_dirty(struct g4_fs *fs)
{
	g4_lock(&fs->dirty_list_lock);
	uint32_t i = fs->dirty_first;
	if (i != G4_NO_INODE) {
		struct g4_inode_core *inode = g4_icache_at(fs, i);
		fs->dirty_first = inode->dirty_next;
		if (fs->dirty_first == G4_NO_INODE)
			fs->dirty_last = G4_NO_INODE;
		else
			g4_icache_at(fs, fs->dirty_first)->dirty_prev = G4_NO_INODE;
		inode->dirty_prev = inode->dirty_next = G4_NO_INODE;
		g4_store32_rel(&inode->queued, 0);
		g4_sub32(&fs->queued_inodes, 1);
	}
	g4_unlock(&fs->dirty_list_lock);
	return i;
}

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
		i = take_dirty(fs);
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
