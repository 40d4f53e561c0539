/* SPDX-License-Identifier: Apache-2.0 */
/* Names that come, go and move beside others in the same directory. */
#include "fs/makers.h"
#include "dir/shrink.h"
#include "inode/epoch.h"
#include "inode/icache.h"
#include "inode/inode.h"

/* What a change needs, there before a leaf is locked: from there on nothing has to be read. */
struct pages {
	struct g4_dir dir;
	struct g4_txn_page slab;      /* of the directory's inode */
	struct g4_dir_slot *slots[2]; /* that know of the leaves meanwhile */
	struct g4_txn_page leaf[2];
	uint32_t leaves;
};

G4_FN static void put_pages(const struct g4_txn *txn, const struct pages *pages)
{
	for (uint32_t k = 0; k < pages->leaves; k++) {
		pages->slots[k]->leaf = NULL;
		g4_txn_put(txn, &pages->leaf[k]);
	}
	g4_txn_put(txn, &pages->slab);
}

/* b: NULL where there is one leaf. */
G4_FN static int get_pages(struct g4_wg *wg, struct g4_fs *fs, const struct g4_txn *txn, struct g4_inode_core *inode,
			   struct g4_dir_slot *a, struct g4_dir_slot *b, struct pages *pages)
{
	pages->dir = g4_dir_shared(fs, inode);
	pages->slots[0] = a;
	pages->slots[1] = b;
	pages->leaves = 0;
	int rc = g4_inode_get_slab(wg, txn, inode, &pages->slab);
	if (rc < 0)
		return rc;
	for (uint32_t k = 0; k < 2 && pages->slots[k] && rc == 0; k++) {
		rc = g4_dir_get_leaf(wg, txn, pages->slots[k], &pages->leaf[k]);
		if (rc < 0)
			break;
		pages->slots[k]->leaf = &pages->leaf[k];
		pages->leaves++;
	}
	if (rc < 0)
		put_pages(txn, pages);
	return rc;
}

/* What a name in a leaf that is locked leads to now: 0 with the slot, -G4_E_NOENT, or another negative code. */
G4_FN static int look(struct g4_wg *wg, const struct pages *pages, const struct g4_named *name)
{
	return g4_dir_look_again(wg, &pages->dir, name->text, name->bytes, name->slot);
}

/* Whether a name is there and leads to the inode; without one, whether it is not there and there is room. 0: as it should; G4_ALONE. */
G4_FN static int check_name(struct g4_wg *wg, const struct pages *pages, const struct g4_named *name,
			    const struct g4_inode_core *inode)
{
	const int rc = look(wg, pages, name);

	if (rc < 0 && rc != -G4_E_NOENT)
		return rc;
	if (inode)
		return rc == 0 && name->slot->inode == inode->ino ? 0 : G4_ALONE;
	return rc == -G4_E_NOENT && g4_dir_insert_credits(name->slot, name->bytes) == 1 ? 0 : G4_ALONE;
}

/*
 * What has changed in a leaf counts for the directory, and its epoch grows: behind what the lookup cache forgets, before what it learns, and
 * before the leaf is unlocked.
 */
G4_FN static void count(struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *dir, const struct pages *pages,
			int entries, int links, uint64_t now)
{
	g4_shared_change_begin(dir);
	g4_epoch_advance(fs, dir);
	g4_inode_count(fs, txn, dir, &pages->slab, entries, links, now);
	g4_shared_change_end(dir);
}

G4_FN static void remember(struct g4_fs *fs, const struct g4_inode_core *dir, const struct g4_named *name,
			   uint32_t index)
{
	const struct g4_lookup_name key = {dir->data_key, name->slot->hash, name->text, name->bytes};

	g4_name_remember(fs, &key, index);
}

/* Of one name's leaf. What has failed half-way may have changed it, too. */
G4_FN static void unlock(struct g4_fs *fs, const struct g4_inode_core *dir, const struct g4_named *name, int rc)
{
	if (rc < 0)
		g4_epoch_advance(fs, dir);
	g4_dir_unlock_leaf(name->slot, rc <= 0);
}

G4_FN int g4_makers_insert(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *dir,
			   const struct g4_named *name, uint32_t index, uint64_t now)
{
	const struct g4_inode_core *inode = g4_icache_at(fs, index);
	struct pages pages;
	int rc = get_pages(wg, fs, txn, dir, name->slot, NULL, &pages);

	if (rc < 0)
		return rc;
	g4_dir_lock_leaf(name->slot);
	rc = check_name(wg, &pages, name, NULL);
	if (rc == 0)
		rc = g4_dir_insert(wg, &pages.dir, txn, name->slot, name->text, name->bytes, inode->ino,
				   g4_dirent_type(inode->disk.mode));
	if (rc == 0) { /* before the leaf is another one's: a remover of the name finds it counted */
		count(fs, txn, dir, &pages, 1, g4_is_dir(inode->disk.mode), now);
		remember(fs, dir, name, index);
	}
	unlock(fs, dir, name, rc);
	put_pages(txn, &pages);
	return rc;
}

G4_FN int g4_makers_remove(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *dir,
			   const struct g4_named *name, const struct g4_inode_core *inode, uint64_t now)
{
	struct pages pages;
	int rc = get_pages(wg, fs, txn, dir, name->slot, NULL, &pages);

	if (rc < 0)
		return rc;
	g4_dir_lock_leaf(name->slot);
	rc = check_name(wg, &pages, name, inode);
	if (rc == 0 && g4_dir_shrink_credits(&pages.dir, name->slot, name->bytes))
		rc = G4_ALONE;
	if (rc == 0) {
		g4_name_forget(fs, dir, name->slot, name->text, name->bytes);
		rc = g4_dir_remove(wg, &pages.dir, txn, name->slot);
	}
	if (rc == 0)
		count(fs, txn, dir, &pages, -1, -(int)g4_is_dir(inode->disk.mode), now);
	unlock(fs, dir, name, rc);
	put_pages(txn, &pages);
	return rc;
}

/* Both leaves, in the order of their locks; two names may have one lock. */
G4_FN static void lock_both(const struct g4_named *a, const struct g4_named *b)
{
	const bool first = a->slot->leaf_lock < b->slot->leaf_lock;

	if (a->slot->leaf_lock == b->slot->leaf_lock) {
		g4_dir_lock_leaf(a->slot);
		return;
	}
	g4_dir_lock_leaf(first ? a->slot : b->slot);
	g4_dir_lock_leaf(first ? b->slot : a->slot);
}

G4_FN static void unlock_both(const struct g4_named *a, const struct g4_named *b, bool changed)
{
	const bool one = a->slot->leaf_lock == b->slot->leaf_lock;

	g4_dir_unlock_leaf(a->slot, changed);
	if (!one)
		g4_dir_unlock_leaf(b->slot, changed);
}

/* Both leaves are locked, and both names are what they should be. */
G4_FN static int move(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *dir,
		      struct pages *pages, const struct g4_named *from, const struct g4_named *to,
		      const struct g4_inode_core *moved, bool replaces)
{
	const uint8_t type = g4_dirent_type(moved->disk.mode);

	g4_name_forget(fs, dir, from->slot, from->text, from->bytes);
	g4_name_forget(fs, dir, to->slot, to->text, to->bytes);
	int rc = g4_dir_remove(wg, &pages->dir, txn, from->slot);
	if (rc < 0)
		return rc;
	if (replaces)
		return g4_dir_replace(wg, &pages->dir, txn, to->slot, moved->ino, type);
	return g4_dir_insert(wg, &pages->dir, txn, to->slot, to->text, to->bytes, moved->ino, type);
}

G4_FN int g4_makers_rename(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *dir,
			   const struct g4_named *from, const struct g4_named *to, const struct g4_inode_core *moved,
			   const struct g4_inode_core *met, uint64_t now)
{
	struct pages pages;
	int rc = get_pages(wg, fs, txn, dir, from->slot, to->slot, &pages);

	if (rc < 0)
		return rc;
	lock_both(from, to);
	rc = check_name(wg, &pages, from, moved);
	if (rc == 0)
		rc = check_name(wg, &pages, to, met);
	if (rc == 0 && g4_dir_shrink_credits(&pages.dir, from->slot, from->bytes))
		rc = G4_ALONE;
	if (rc == 0)
		rc = move(wg, fs, txn, dir, &pages, from, to, moved, met != NULL);
	if (rc == 0)
		count(fs, txn, dir, &pages, met ? -1 : 0, met ? -(int)g4_is_dir(met->disk.mode) : 0, now);
	if (rc < 0)
		g4_epoch_advance(fs, dir);
	unlock_both(from, to, rc <= 0);
	put_pages(txn, &pages);
	return rc;
}
