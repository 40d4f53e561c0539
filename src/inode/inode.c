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
	const uint64_t key = g4_icache_new_key(icache); /* on its way while the rest is cleared */
	g4_icache_reset(fs, inode, g4_ino_make(address));
	inode->near = near;
	inode->disk.mode = (uint16_t)mode;
	inode->data_key = key;
	inode->disk.generation = fs->first_generation + (uint32_t)key;
	inode->disk.atime_ns = inode->disk.mtime_ns = inode->disk.ctime_ns = inode->disk.btime_ns = now;
	g4_icache_enter(icache, i);
	*index = i;
	return 0;
}

G4_FN int g4_inode_get_slab(struct g4_wg *wg, const struct g4_txn *txn, struct g4_inode_core *inode,
			    struct g4_txn_page *slab)
{
	const struct g4_address page = g4_address_page_start(g4_ptr_address(inode->ino));
	const uint32_t near = g4_load32_rlx(&inode->near);
	int rc = g4_txn_get(wg, txn, page, G4_BLOCK_SLAB, near, slab);

	if (rc == 0 && slab->line != near)
		g4_store32_rlx(&inode->near, slab->line);
	return rc;
}

G4_FN static struct g4_inode *slot_of(const struct g4_txn *txn, const struct g4_inode_core *inode, uint32_t line)
{
	const uint32_t slot = g4_slab_slot_of(g4_ptr_address(inode->ino));

	return (struct g4_inode *)(void *)((uint8_t *)g4_txn_data_of(txn, line) + slot * G4_SLAB_SLOT_BYTES);
}

/* Before 1970, or a stamp of a clock that was set back. */
G4_FN G4_COLD static void set_time(g4_le64 *stamp, uint64_t now)
{
	uint64_t seen = g4_load64_rlx(stamp);

	while (((int64_t)seen < (int64_t)now || (int64_t)seen > (int64_t)now + CLOCK_BACK_NS) &&
	       !g4_cas64(stamp, seen, now))
		seen = g4_load64_rlx(stamp);
}

/* Not back, for others may have come later: but where the clock was set back. seen: the stamp, a moment ago. */
G4_FN static void raise_time(g4_le64 *stamp, int64_t seen, int64_t now)
{
	if (seen < 0 || now < 0 || seen > now + CLOCK_BACK_NS)
		set_time(stamp, (uint64_t)now);
	else if (seen < now)
		g4_atomic_max64_rlx(stamp, (uint64_t)now);
}

G4_FN static void set_logged(const struct g4_txn *txn, struct g4_inode_core *inode)
{
	if (g4_load64_rlx(&inode->logged) != txn->sequence)
		g4_store64_rlx(&inode->logged, txn->sequence);
}

/* All stamps are asked for before one is raised, and nobody waits for what was added to. */
G4_FN void g4_inode_count(struct g4_txn *txn, struct g4_inode_core *inode, const struct g4_txn_page *slab, int entries,
			  int links, uint64_t now)
{
	struct g4_inode *const both[2] = {slot_of(txn, inode, slab->line), &inode->disk};
	int64_t modified[2], changed[2];

	g4_txn_dirty_page(txn, slab);
	for (uint32_t k = 0; k < 2; k++) {
		modified[k] = (int64_t)g4_load64_rlx(&both[k]->mtime_ns);
		changed[k] = (int64_t)g4_load64_rlx(&both[k]->ctime_ns);
	}
	for (uint32_t k = 0; k < 2; k++) {
		if (entries)
			g4_add32_rlx(&both[k]->entries, (uint32_t)entries);
		if (links)
			g4_add32_rlx(&both[k]->nlink, (uint32_t)links);
		raise_time(&both[k]->mtime_ns, modified[k], (int64_t)now);
		raise_time(&both[k]->ctime_ns, changed[k], (int64_t)now);
		g4_add64_rlx(&both[k]->change_count, 1);
	}
	set_logged(txn, inode);
}

G4_FN void g4_inode_count_page(struct g4_txn *txn, struct g4_inode_core *inode, const struct g4_txn_page *slab)
{
	struct g4_inode *const both[2] = {slot_of(txn, inode, slab->line), &inode->disk};

	g4_txn_dirty_page(txn, slab);
	for (uint32_t k = 0; k < 2; k++) {
		g4_add64_rlx(&both[k]->pages, 1);
		g4_add64_rlx(&both[k]->change_count, 1);
	}
	set_logged(txn, inode);
}

G4_FN int g4_inode_log(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode)
{
	struct g4_txn_page slab;
	int rc = g4_inode_get_slab(wg, txn, inode, &slab);
	bool orphan = inode->disk.flags & G4_INODE_ORPHAN;

	if (rc < 0)
		return rc;
	g4_txn_dirty_page(txn, &slab);
	inode->disk.change_count++;
	if (orphan)
		g4_lock(&fs->orphan_lock); /* a neighbour on the list may be changing our orphan_next */
	g4_copy16(slot_of(txn, inode, slab.line), &inode->disk, sizeof(inode->disk));
	if (orphan)
		g4_unlock(&fs->orphan_lock);
	g4_txn_put(txn, &slab);
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
	 * A new inode in the slot stands before it in the bucket. A caller that knows its index finds it there until the clock takes
	 * it: in a damaged
	 * image names may still lead to it.
	 */
	rc = g4_slab_free(wg, &fs->alloc, txn, g4_ptr_address(inode->ino), g4_load32_rlx(&inode->near));
	if (g4_alloc_is_unreadable(rc)) { /* it is there as it was */
		inode->dead = false;
		return rc;
	}
	g4_icache_unhash(&fs->icache, index);
	inode->logged = txn->sequence;
	return rc;
}
