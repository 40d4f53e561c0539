/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inodes on disk: a slot of a slab each, written by g4_inode_log() in the transaction that changes the inode. Crash at any line:
 * that transaction commits or not. What many change side by side (g4_inode_count()) is changed in memory and in the slot alike,
 * inside of their transactions: a commit copies the slot when all of them have left.
 */
#include "inode/inode.h"
#include "inode/icache.h"
#include "inode/times.h"

#define CLOCK_BACK_NS INT64_C(1000000000) /* a stamp that is so much later than now is of a clock that was set back */

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
	inode->data_key = g4_icache_new_key(icache);
	inode->disk.generation = fs->first_generation + (uint32_t)inode->data_key;
	inode->disk.atime_ns = inode->disk.mtime_ns = inode->disk.ctime_ns = inode->disk.btime_ns = now;
	g4_write_lock(&inode->lock);
	g4_icache_enter(icache, i);
	*index = i;
	return 0;
}

G4_FN int g4_inode_get_slab(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint32_t *line)
{
	const struct g4_address page = g4_address_page_start(g4_ptr_address(inode->ino));
	const uint32_t near = g4_load32_rlx(&inode->near);
	int rc = g4_meta_get_near(wg, &fs->meta, page, G4_BLOCK_SLAB, near, line);

	if (rc == 0 && *line != near)
		g4_store32_rlx(&inode->near, *line);
	return rc;
}

G4_FN static struct g4_inode *slot_of(struct g4_fs *fs, const struct g4_inode_core *inode, uint32_t line)
{
	const uint32_t slot = g4_slab_slot_of(g4_ptr_address(inode->ino));

	return (struct g4_inode *)(void *)((uint8_t *)g4_line_data(&fs->cache, line) + slot * G4_SLAB_SLOT_BYTES);
}

/* Not back, for others may have come later: but where the clock was set back. */
G4_FN static void raise_time(g4_le64 *stamp, uint64_t now)
{
	uint64_t seen = g4_load64_rlx(stamp);

	while (((int64_t)seen < (int64_t)now || (int64_t)seen > (int64_t)now + CLOCK_BACK_NS) &&
	       !g4_cas64(stamp, seen, now))
		seen = g4_load64_rlx(stamp);
}

G4_FN static void count_in(struct g4_inode *disk, int entries, int links, uint64_t now)
{
	if (entries)
		g4_add32_rlx(&disk->entries, (uint32_t)entries);
	if (links)
		g4_add32_rlx(&disk->nlink, (uint32_t)links);
	raise_time(&disk->mtime_ns, now);
	raise_time(&disk->ctime_ns, now);
	g4_add64_rlx(&disk->change_count, 1);
}

G4_FN void g4_inode_count(struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode, uint32_t line, int entries,
			  int links, uint64_t now)
{
	g4_txn_dirty(txn, line);
	count_in(slot_of(fs, inode, line), entries, links, now);
	count_in(&inode->disk, entries, links, now);
	if (g4_load64_rlx(&inode->logged) != txn->sequence)
		g4_store64_rlx(&inode->logged, txn->sequence);
}

G4_FN int g4_inode_log(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode)
{
	uint32_t line;
	int rc = g4_inode_get_slab(wg, fs, inode, &line);
	bool orphan = inode->disk.flags & G4_INODE_ORPHAN;

	if (rc < 0)
		return rc;
	g4_txn_dirty(txn, line);
	inode->disk.change_count++;
	if (orphan)
		g4_lock(&fs->orphan_lock); /* a neighbour on the list may be changing our orphan_next */
	g4_copy16(slot_of(fs, inode, line), &inode->disk, sizeof(inode->disk));
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
	 * A new inode in the slot stands before it in the bucket. Who knows its place finds it there until the clock takes it: in a damaged
	 * image names may still lead to it.
	 */
	rc = g4_slab_free(wg, &fs->alloc, txn, g4_ptr_address(inode->ino));
	g4_icache_unhash(&fs->icache, index);
	inode->logged = txn->sequence;
	return rc;
}
