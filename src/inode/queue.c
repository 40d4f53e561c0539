/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of in-core inodes with something to write back. It holds a reference to each. */
#include "inode/queue.h"
#include "inode/icache.h"

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

G4_FN uint32_t g4_dequeue_dirty(struct g4_fs *fs)
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
