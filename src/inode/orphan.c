/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The orphan list: inodes without a name that must not outlive the mount, and files that are being cut. It is linked on disk
 * through the inodes and in memory both ways; crash at any line: the list and the inode's link count change in one transaction.
 */
#include "inode/orphan.h"
#include "inode/icache.h"
#include "inode/inode.h"

G4_FN static int get_root_block(struct g4_wg *wg, struct g4_fs *fs, uint32_t *line)
{
	return g4_meta_get(wg, &fs->meta, g4_layout_root(&fs->meta.layout), G4_BLOCK_ROOT, line);
}

/* Writes one inode's orphan_next, in memory and slab. orphan_lock held. */
G4_FN static int set_next(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			  uint64_t next)
{
	const struct g4_address address = g4_ptr_address(inode->ino), page = g4_address_page_start(address);
	uint32_t line;
	int rc = g4_meta_get(wg, &fs->meta, page, G4_BLOCK_SLAB, &line);

	if (rc < 0)
		return rc;
	g4_txn_dirty(txn, line);
	inode->disk.orphan_next = next;
	((struct g4_inode *)(void *)((uint8_t *)g4_line_data(&fs->cache, line) +
				     g4_slab_slot_of(address) * G4_SLAB_SLOT_BYTES))
		->orphan_next = next;
	g4_cache_put(&fs->cache, line);
	return 0;
}

G4_FN int g4_orphan_add(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, uint32_t index)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	uint32_t line;
	int rc;

	if (inode->disk.flags & G4_INODE_ORPHAN)
		return 0;
	rc = get_root_block(wg, fs, &line);
	if (rc < 0)
		return rc;
	g4_lock(&fs->orphan_lock);
	struct g4_root *root = (struct g4_root *)g4_line_data(&fs->cache, line);
	g4_txn_dirty(txn, line);
	inode->disk.flags |= G4_INODE_ORPHAN;
	inode->disk.orphan_next = root->orphan_head;
	root->orphan_head = inode->ino;
	inode->orphan_prev = G4_NO_INODE;
	inode->orphan_next = fs->orphan_head;
	if (fs->orphan_head != G4_NO_INODE)
		g4_icache_at(fs, fs->orphan_head)->orphan_prev = index;
	fs->orphan_head = index;
	g4_unlock(&fs->orphan_lock);
	g4_cache_put(&fs->cache, line);
	g4_icache_ref(fs, index); /* the list's reference */
	return g4_inode_log(wg, fs, txn, inode);
}

G4_FN int g4_orphan_remove(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, uint32_t index)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	uint32_t line;
	int rc;

	if (!(inode->disk.flags & G4_INODE_ORPHAN))
		return 0;
	rc = get_root_block(wg, fs, &line);
	if (rc < 0)
		return rc;
	g4_lock(&fs->orphan_lock);
	if (inode->orphan_prev == G4_NO_INODE) {
		g4_txn_dirty(txn, line);
		((struct g4_root *)g4_line_data(&fs->cache, line))->orphan_head = inode->disk.orphan_next;
		fs->orphan_head = inode->orphan_next;
	} else {
		rc = set_next(wg, fs, txn, g4_icache_at(fs, inode->orphan_prev), inode->disk.orphan_next);
		if (rc == 0)
			g4_icache_at(fs, inode->orphan_prev)->orphan_next = inode->orphan_next;
	}
	if (rc == 0 && inode->orphan_next != G4_NO_INODE)
		g4_icache_at(fs, inode->orphan_next)->orphan_prev = inode->orphan_prev;
	if (rc == 0) {
		inode->disk.flags &= ~G4_INODE_ORPHAN;
		inode->disk.orphan_next = 0;
	}
	g4_unlock(&fs->orphan_lock);
	g4_cache_put(&fs->cache, line);
	if (rc < 0)
		return rc;
	g4_icache_put(fs, index);
	return g4_inode_log(wg, fs, txn, inode);
}
