/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deleting inodes: what they have, then their slots. Crash at any line: the orphan list leads to what is left. So it does to what the device does not
 * give: all else goes, and the inode stays on the list for the unmount, for mounts after it, which try again, and for fsck.
 */
#include "fs/delete.h"
#include "data/file.h"
#include "data/map.h"
#include "dir/shrink.h"
#include "fs/xattr.h"
#include "inode/icache.h"
#include "inode/inode.h"
#include "inode/orphan.h"
#include "inode/txn.h"

G4_FN static int free_directory_pages(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode)
{
	int more = 1;

	while (more > 0) {
		struct g4_dir dir = {&fs->alloc,	 &fs->meta,	    &fs->cache, fs->hash_key,
				     inode->disk.map[0], inode->disk.pages, NULL};
		struct g4_txn txn;
		int rc = g4_begin(wg, fs, G4_MAP_CREDITS, &txn);
		if (rc < 0)
			return rc;
		more = g4_dir_free_page(wg, &dir, &txn);
		if (more < 0 && !txn.changed)
			return g4_end(fs, &txn, more);
		inode->disk.map[0] = dir.root;
		inode->disk.pages = dir.pages;
		rc = g4_inode_log(wg, fs, &txn, inode);
		rc = g4_end(fs, &txn, rc < 0 ? rc : more < 0 ? more : 0);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/*
 * It stays in memory, as all of the orphan list does. When those are half of what there is room for the journal stops: with the table full of them nobody
 * could reach any other file, and a mount not even read.
 */
G4_FN static int leave(struct g4_fs *fs, struct g4_inode_core *inode)
{
	if (inode->left)
		return 0;
	g4_store8_rlx(&inode->left, 1);
	if (g4_add32(&fs->left_inodes, 1) < fs->icache.count / 2)
		return 0;
	g4_fs_error(fs, -G4_E_IO);
	return -G4_E_IO;
}

G4_FN int g4_inode_delete(struct g4_wg *wg, struct g4_fs *fs, uint32_t index)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	struct g4_txn txn;
	int rc = 0;

	g4_icache_lock(fs, inode);
	if (inode->dead || inode->disk.nlink != 0 || inode->opens != 0 || inode->held) {
		g4_write_unlock(&inode->lock);
		return 0;
	}
	/* several transactions only where there is much to free; the inode is on the orphan list meanwhile */
	rc = g4_is_dir(inode->disk.mode) ? free_directory_pages(wg, fs, inode) : g4_file_free(wg, fs, index);
	const int unread = rc;
	if (rc == -G4_E_IO && !g4_load32_acq(&fs->journal.aborted)) /* attributes go all the same */
		rc = 0;
	while (rc == 0 && inode->disk.xattr) {
		rc = g4_begin(wg, fs, G4_XATTR_CREDITS, &txn);
		if (rc == 0) {
			rc = g4_xattr_clear(wg, fs, &txn, inode);
			int logged = rc == 0 || txn.changed ? g4_inode_log(wg, fs, &txn, inode) : 0;
			rc = g4_end(fs, &txn, rc < 0 ? rc : logged);
		}
	}
	rc = rc == 0 ? unread : rc;
	if (rc == 0)
		rc = g4_slab_look(wg, &fs->alloc, g4_ptr_address(inode->ino));
	const bool left = rc == -G4_E_IO && !g4_load32_acq(&fs->journal.aborted);
	const int told = left ? leave(fs, inode) : 0;
	if (rc == 0)
		rc = g4_begin(wg, fs, 24, &txn);
	if (rc == 0) {
		rc = g4_orphan_remove(wg, fs, &txn, index);
		if (rc == 0)
			rc = g4_inode_free(wg, fs, &txn, index);
		g4_end(fs, &txn, rc);
	}
	if (rc == 0 && inode->left) {
		g4_store8_rlx(&inode->left, 0);
		g4_sub32(&fs->left_inodes, 1);
	}
	g4_write_unlock(&inode->lock);
	return left ? told : g4_check(fs, rc);
}
