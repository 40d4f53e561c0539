/* SPDX-License-Identifier: Apache-2.0 */
/* Names that come, go and move beside others in the same directory. */
#include "fs/makers.h"
#include "dir/shrink.h"
#include "inode/epoch.h"
#include "inode/icache.h"
#include "inode/inode.h"
#include "inode/txn.h"

/* Nothing was changed: a leaf was split since a name in it was looked up. */
#define LOOK_AGAIN 3
G4_STATIC_ASSERT(LOOK_AGAIN != G4_ALONE && LOOK_AGAIN != G4_NO_ROOM, "three answers");

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

/* What a name in a leaf that is locked leads to now: 0 with the slot, -G4_E_NOENT, LOOK_AGAIN, or another negative code. */
G4_FN static int look(struct g4_wg *wg, const struct pages *pages, const struct g4_named *name)
{
	const int rc = g4_dir_look_again(wg, &pages->dir, name->text, name->bytes, name->slot);

	return rc == G4_DIR_SPLIT ? LOOK_AGAIN : rc;
}

/* Whether a name is there and leads to the inode; without one, whether it is not there and there is room. 0: as it should. */
G4_FN static int check_name(struct g4_wg *wg, const struct pages *pages, const struct g4_named *name,
			    const struct g4_inode_core *inode)
{
	const int rc = look(wg, pages, name);

	if (rc == LOOK_AGAIN || (rc < 0 && rc != -G4_E_NOENT))
		return rc;
	if (inode)
		return rc == 0 && name->slot->inode == inode->ino ? 0 : G4_ALONE;
	if (rc == 0)
		return G4_ALONE;
	return g4_makers_lack(name->slot, name->bytes);
}

G4_FN static int look_up(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *dir, const struct g4_named *name)
{
	const int rc = g4_name_find(wg, fs, dir, G4_LOCKED_SHARED, name->text, name->bytes, name->slot);

	return rc == -G4_E_NOENT ? 0 : rc;
}

/* After LOOK_AGAIN: looks the names up, and says that the change is to be tried once more. b: NULL where there is one name. */
G4_FN static bool tries_again(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *dir, const struct g4_named *a,
			      const struct g4_named *b, int *rc)
{
	if (*rc != LOOK_AGAIN)
		return false;
	*rc = look_up(wg, fs, dir, a);
	if (*rc == 0 && b)
		*rc = look_up(wg, fs, dir, b);
	return *rc == 0;
}

/* What g4_dir_shrinks() wants to know of the leaf that a name goes from; before that is locked. */
G4_FN static uint32_t used_beside(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode,
				  const struct g4_named *name)
{
	const struct g4_dir dir = g4_dir_shared(fs, inode);
	const bool sparse = g4_dir_shrink_credits(&dir, name->slot, name->bytes) > 0;

	return sparse ? g4_dir_used_beside(wg, &dir, g4_dir_position(name->slot->hash, name->slot->collision)) : 0;
}

/*
 * What has changed in a leaf counts for the directory, and its epoch grows: behind what the lookup cache forgets, before what it learns, and
 * before the leaf is unlocked.
 */
G4_FN static void count(struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *dir, const struct pages *pages,
			int entries, int links, uint64_t now)
{
	const bool shown = g4_shared_change_begin(fs, dir);

	g4_inode_count(txn, dir, &pages->slab, entries, links, now);
	g4_fence_rel();
	g4_shared_change_end_fenced(fs, dir, shown);
}

/* Of a new name, which the lookup cache learns. The entry there is claimed before, and shown with the change's end: so two fences do for both. */
G4_FN static void count_new(struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *dir, const struct pages *pages,
			    const struct g4_named *name, uint32_t index, uint64_t now)
{
	const struct g4_inode_core *inode = g4_icache_at(fs, index);
	const struct g4_lookup_name key = g4_lookup_key_of(fs, dir, name->slot->hash, name->text, name->bytes);
	const struct g4_lookup_value value = {inode->ino, index};
	struct g4_lookup_entry *entry = g4_lookup_claim(&fs->lookup, &key);
	const bool shown = g4_shared_change_begin(fs, dir);

	g4_inode_count(txn, dir, &pages->slab, 1, g4_is_dir(inode->disk.mode), now);
	if (entry)
		g4_lookup_fill_fenced(entry, &key, &value);
	g4_fence_rel();
	g4_shared_change_end_fenced(fs, dir, shown);
	if (entry)
		g4_lookup_show_fenced(entry);
}

/* Of one name's leaf. What has failed half-way may have changed it, too. */
G4_FN static void unlock(struct g4_fs *fs, const struct g4_inode_core *dir, const struct g4_named *name, int rc)
{
	if (rc < 0)
		g4_epoch_advance(fs, dir);
	g4_dir_unlock_leaf(name->slot->leaf_lock, rc <= 0);
}

G4_FN static int try_insert(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *dir,
			    const struct g4_named *name, uint32_t index, uint64_t now)
{
	const struct g4_inode_core *inode = g4_icache_at(fs, index);
	struct pages pages;
	int rc = get_pages(wg, fs, txn, dir, name->slot, NULL, &pages);

	if (rc < 0)
		return rc;
	g4_dir_lock_leaf(name->slot->leaf_lock);
	rc = check_name(wg, &pages, name, NULL);
	if (rc == 0)
		rc = g4_dir_insert(wg, &pages.dir, txn, name->slot, name->text, name->bytes, inode->ino,
				   g4_dirent_type(inode->disk.mode));
	if (rc == 0) /* before the leaf is another one's: a remover of the name finds it counted */
		count_new(fs, txn, dir, &pages, name, index, now);
	unlock(fs, dir, name, rc);
	put_pages(txn, &pages);
	return rc;
}

G4_FN int g4_makers_insert(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *dir,
			   const struct g4_named *name, uint32_t index, uint64_t now)
{
	int rc;

	do
		rc = try_insert(wg, fs, txn, dir, name, index, now);
	while (tries_again(wg, fs, dir, name, NULL, &rc));
	return rc;
}

G4_FN static int try_remove(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *dir,
			    const struct g4_named *name, const struct g4_inode_core *inode, uint64_t now)
{
	const uint32_t beside = name->keeps_pages ? 0 : used_beside(wg, fs, dir, name);
	struct pages pages;
	int rc = get_pages(wg, fs, txn, dir, name->slot, NULL, &pages);

	if (rc < 0)
		return rc;
	g4_dir_lock_leaf(name->slot->leaf_lock);
	rc = check_name(wg, &pages, name, inode);
	if (rc == 0 && !name->keeps_pages && g4_dir_shrinks(&pages.dir, name->slot, name->bytes, beside))
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

G4_FN int g4_makers_remove(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *dir,
			   const struct g4_named *name, const struct g4_inode_core *inode, uint64_t now)
{
	int rc;

	do
		rc = try_remove(wg, fs, txn, dir, name, inode, now);
	while (tries_again(wg, fs, dir, name, NULL, &rc));
	return rc;
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

G4_FN static int try_rename(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *dir,
			    const struct g4_named *from, const struct g4_named *to, const struct g4_inode_core *moved,
			    const struct g4_inode_core *met, uint64_t now)
{
	const uint32_t beside = used_beside(wg, fs, dir, from);
	struct pages pages;
	int rc = get_pages(wg, fs, txn, dir, from->slot, to->slot, &pages);

	if (rc < 0)
		return rc;
	g4_dir_lock_two(from->slot->leaf_lock, to->slot->leaf_lock);
	rc = check_name(wg, &pages, from, moved);
	if (rc == 0)
		rc = check_name(wg, &pages, to, met);
	if (rc == 0 && g4_dir_shrinks(&pages.dir, from->slot, from->bytes, beside))
		rc = G4_ALONE;
	if (rc == 0)
		rc = move(wg, fs, txn, dir, &pages, from, to, moved, met != NULL);
	if (rc == 0)
		count(fs, txn, dir, &pages, met ? -1 : 0, met ? -(int)g4_is_dir(met->disk.mode) : 0, now);
	if (rc < 0)
		g4_epoch_advance(fs, dir);
	g4_dir_unlock_two(from->slot->leaf_lock, to->slot->leaf_lock, rc <= 0);
	put_pages(txn, &pages);
	return rc;
}

G4_FN int g4_makers_rename(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *dir,
			   const struct g4_named *from, const struct g4_named *to, const struct g4_inode_core *moved,
			   const struct g4_inode_core *met, uint64_t now)
{
	int rc;

	do
		rc = try_rename(wg, fs, txn, dir, from, to, moved, met, now);
	while (tries_again(wg, fs, dir, from, to, &rc));
	return rc;
}

G4_FN int g4_makers_divide(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			   uint32_t hash, uint32_t name_bytes)
{
	struct g4_dir dir = g4_dir_shared(fs, inode);
	const uint64_t pages = dir.pages;
	struct g4_txn_page slab;
	int rc = g4_inode_get_slab(wg, txn, inode, &slab);

	if (rc < 0)
		return rc;
	rc = g4_dir_divide_beside(wg, &dir, txn, hash, name_bytes);
	if (dir.pages > pages) {
		const bool shown = g4_shared_change_begin(fs, inode);
		g4_inode_count_page(txn, inode, &slab);
		g4_fence_rel();
		g4_shared_change_end_fenced(fs, inode, shown);
	}
	g4_txn_put(txn, &slab);
	return rc;
}

/* With the directory alone. */
G4_FN static int divide_alone(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			      uint32_t hash, uint32_t name_bytes)
{
	struct g4_dir dir = g4_dir_of(fs, inode);
	const int rc = g4_dir_divide(wg, &dir, txn, hash, name_bytes);

	g4_dir_grown(inode, &dir);
	const int logged = txn->changed ? g4_inode_log(wg, fs, txn, inode) : 0;
	return logged < 0 && rc >= 0 ? logged : rc;
}

G4_FN static int make_room(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, enum g4_locked how,
			   const struct g4_cred *cred, uint32_t hash, uint32_t name_bytes)
{
	const uint32_t credits = how == G4_LOCKED_ALONE ? G4_DIR_CREDITS : G4_DIR_SPLIT_CREDITS;
	struct g4_txn txn;

	g4_dir_lock(fs, inode, how);
	int rc = g4_check_dir(wg, fs, inode, cred, G4_ACCESS_WRITE | G4_ACCESS_EXEC);
	if (rc == 0)
		rc = g4_begin(wg, fs, G4_NAME_CREDITS + credits, &txn);
	if (rc == 0) {
		rc = how == G4_LOCKED_ALONE ? divide_alone(wg, fs, &txn, inode, hash, name_bytes) :
					      g4_makers_divide(wg, fs, &txn, inode, hash, name_bytes);
		rc = g4_end(fs, &txn, rc);
	}
	g4_fence_rel(); /* the caller gives its reference back behind it */
	g4_dir_unlock_fenced(inode, how);
	return rc;
}

G4_FN G4_COLD int g4_makers_make_room(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode,
				      const struct g4_cred *cred, const char *name, uint32_t bytes)
{
	const uint32_t hash = g4_dir_hash(fs->hash_key, name, bytes);
	const int rc = make_room(wg, fs, inode, G4_LOCKED_SHARED, cred, hash, bytes);

	return rc == G4_ALONE ? make_room(wg, fs, inode, G4_LOCKED_ALONE, cred, hash, bytes) : rc;
}
