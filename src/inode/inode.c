/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inodes on disk: a slot of a slab each, written by g4_inode_log() in the transaction that changes the inode. Crash at any line:
 * that transaction commits or not.
 */
#include "inode/inode.h"
#include "inode/icache.h"
#include "inode/times.h"

G4_FN int g4_inode_new(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, uint32_t mode, uint32_t *index)
{
	struct g4_icache *icache = &fs->icache;
	struct g4_address address;
	uint64_t now = g4_now(fs);
	uint32_t i = g4_icache_take(icache), near;
	int rc;

	if (i == G4_NO_INODE)
		return -G4_E_NFILE;
	rc = g4_slab_alloc(wg, &fs->alloc, txn, G4_SLAB_INODES, NULL, &address, &near);
	if (rc < 0) {
		g4_icache_untake(icache, i);
		return rc;
	}
	struct g4_inode_core *inode = &icache->inodes[i];
	g4_icache_reset(inode, g4_ino_make(address));
	inode->near = near;
	inode->disk.mode = (uint16_t)mode;
	inode->disk.generation = g4_add32_rlx(&fs->next_generation, 1);
	inode->disk.atime_ns = inode->disk.mtime_ns = inode->disk.ctime_ns = inode->disk.btime_ns = now;
	inode->data_key = g4_icache_new_key(icache);
	g4_write_lock(&inode->lock);
	g4_icache_enter(icache, i);
	*index = i;
	return 0;
}

G4_FN int g4_inode_log(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode)
{
	const struct g4_address address = g4_ptr_address(inode->ino), page = g4_address_page_start(address);
	uint32_t line;
	int rc = g4_meta_get_near(wg, &fs->meta, page, G4_BLOCK_SLAB, inode->near, &line);
	bool orphan = inode->disk.flags & G4_INODE_ORPHAN;

	if (rc < 0)
		return rc;
	inode->near = line;
	g4_txn_dirty(txn, line);
	inode->disk.change_count++;
	if (orphan)
		g4_lock(&fs->orphan_lock); /* a neighbour on the list may be changing our orphan_next */
	g4_copy16((uint8_t *)g4_line_data(&fs->cache, line) + g4_slab_slot_of(address) * G4_SLAB_SLOT_BYTES,
		  &inode->disk, sizeof(inode->disk));
	if (orphan)
		g4_unlock(&fs->orphan_lock);
	g4_cache_put(&fs->cache, line);
	if (g4_load32_rlx(&inode->times_dirty))
		g4_store32_rel(&inode->times_dirty, 0);
	inode->logged = txn->sequence;
	return 0;
}

G4_FN static void put_back(struct g4_inode_core *inode, const struct g4_inode *before)
{
	const uint32_t users = G4_INODE_IMMUTABLE | G4_INODE_APPEND | G4_INODE_NODUMP | G4_INODE_NOATIME;

	inode->disk.mode = before->mode;
	inode->disk.uid = before->uid;
	inode->disk.gid = before->gid;
	inode->disk.flags = (inode->disk.flags & ~users) | (before->flags & users);
	inode->disk.atime_ns = before->atime_ns;
	inode->disk.mtime_ns = before->mtime_ns;
	inode->disk.ctime_ns = before->ctime_ns;
}

G4_FN int g4_inode_settle(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			  const struct g4_inode *before, int rc)
{
	if (rc < 0)
		put_back(inode, before);
	if (rc < 0 && !txn->changed)
		return rc;
	int logged = g4_inode_log(wg, fs, txn, inode);
	if (logged < 0)
		put_back(inode, before);
	return rc < 0 ? rc : logged;
}

G4_FN int g4_inode_free(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, uint32_t index)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	int rc;

	inode->dead = true;
	/*
	 * The dead in-core inode stays in the table until its slot is free, so that nobody loads the inode once more meanwhile.
	 * A new inode in the slot stands before it in the bucket.
	 */
	rc = g4_slab_free(wg, &fs->alloc, txn, g4_ptr_address(inode->ino));
	g4_icache_unhash(&fs->icache, index);
	inode->logged = txn->sequence;
	return rc;
}
