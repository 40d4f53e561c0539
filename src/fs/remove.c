/* SPDX-License-Identifier: Apache-2.0 */
/* Removing names. */
#include "fs/remove.h"
#include "dir/shrink.h"
#include "fs/commands.h"
#include "fs/delete.h"
#include "fs/makers.h"
#include "fs/names.h"
#include "fs/node.h"
#include "inode/icache.h"
#include "inode/inode.h"
#include "inode/orphan.h"
#include "inode/times.h"
#include "inode/txn.h"

/*
 * Of leaves that are united behind many removals, in one transaction: places, leaves that go, and others that are looked at. Whoever else
 * uses the directory waits meanwhile. Small journals have room for few.
 */
#define PLACES 8u
#define LEAVES 64u
#define LOOKS 64u
#define LEAST_PLACES 2u
#define LEAST_LEAVES 8u
#define UNITE_CREDITS(places, leaves) (G4_NAME_CREDITS + 3 * (leaves) + (places)*G4_DIR_SHRINK_CREDITS)
G4_STATIC_ASSERT(UNITE_CREDITS(LEAST_PLACES, LEAST_LEAVES) <= G4_TXN_LEAST_BLOCKS, "a transaction has room");

G4_FN int g4_check_delete(const struct g4_inode_core *parent, const struct g4_inode_core *inode,
			  const struct g4_cred *cred)
{
	if (inode->disk.flags & (G4_INODE_IMMUTABLE | G4_INODE_APPEND))
		return -G4_E_PERM;
	if (parent->disk.flags & G4_INODE_APPEND)
		return -G4_E_PERM;
	if ((parent->disk.mode & G4_S_ISVTX) && !g4_is_owner(inode, cred) && !g4_is_owner(parent, cred))
		return -G4_E_PERM;
	return 0;
}

G4_FN int g4_lose_name(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, uint32_t index, uint64_t now,
		       bool *unused)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	bool tiny = inode->opens == 0 && !(fs->flags & G4_FS_HOLD_UNLINKED) && inode->disk.xattr == 0 &&
		    inode->dirty_count == 0 && inode->disk.pages == 0 && inode->disk.checksums == 0;

	*unused = false;
	inode->disk.ctime_ns = now;
	inode->disk.nlink = g4_is_dir(inode->disk.mode) ? 0 : inode->disk.nlink - 1;
	if (inode->disk.nlink > 0)
		return g4_inode_log(wg, fs, txn, inode);
	if (tiny) { /* nothing to free but the inode: no detour over the orphan list, unless that can not go now */
		const int rc = g4_inode_free(wg, fs, txn, index);
		if (!g4_alloc_is_unreadable(rc))
			return rc;
	}
	inode->held = fs->flags & G4_FS_HOLD_UNLINKED;
	*unused = inode->opens == 0 && !inode->held;
	return g4_orphan_add(wg, fs, txn, index);
}

/* Whether the name of a write-locked inode may go. */
G4_FN static int check_remove(struct g4_fs *fs, const struct g4_inode_core *parent, const struct g4_inode_core *inode,
			      const struct g4_cmd *cmd)
{
	const bool directory = g4_is_dir(inode->disk.mode);
	int rc = g4_check_delete(parent, inode, cmd->cred);

	if (rc == 0 && cmd->op == G4_CMD_UNLINK && directory)
		rc = -G4_E_ISDIR;
	if (rc == 0 && cmd->op == G4_CMD_RMDIR)
		rc = !directory ? -G4_E_NOTDIR : inode->disk.entries > 0 ? -G4_E_NOTEMPTY : 0;
	if (rc == 0 && inode->ino == g4_icache_at(fs, fs->root_index)->ino)
		rc = -G4_E_BUSY;
	return rc;
}

/* The name goes from a write-locked directory. */
G4_FN static int take_alone(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *parent,
			    const struct g4_named *name, const struct g4_inode_core *inode, bool shrinks, uint64_t now)
{
	struct g4_dir dir = g4_dir_of(fs, parent);

	g4_name_forget(fs, parent, name->slot, name->text, name->bytes);
	int rc = g4_dir_remove(wg, &dir, txn, name->slot);
	if (rc == 0 && shrinks)
		rc = g4_dir_shrink(wg, &dir, txn, g4_dir_position(name->slot->hash, name->slot->collision));
	if (rc < 0)
		return rc;
	g4_dir_changed(parent, &dir, -1, now);
	parent->disk.nlink -= g4_is_dir(inode->disk.mode);
	return g4_inode_log(wg, fs, txn, parent);
}

/* Both are locked, the inode for writing, and it has the name. May say G4_ALONE if the directory is shared. */
G4_FN static int remove_locked(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *parent, enum g4_locked how,
			       uint32_t index, struct g4_dir_slot *slot, struct g4_cmd *cmd, bool keeps_pages,
			       bool *unused)
{
	const struct g4_named name = {cmd->name, cmd->name_bytes, slot, keeps_pages};
	const struct g4_dir dir = g4_dir_of(fs, parent);
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	/* beside others it is looked whether there is something to unite (makers.c) */
	const uint32_t shrinking =
		how == G4_LOCKED_ALONE && !keeps_pages ? g4_dir_shrink_credits(&dir, slot, cmd->name_bytes) : 0;
	struct g4_txn txn;
	int rc = check_remove(fs, parent, inode, cmd);

	if (rc == 0)
		rc = g4_begin(wg, fs, G4_NAME_CREDITS + shrinking, &txn);
	if (rc < 0)
		return rc;
	const uint64_t now = g4_now(fs);
	rc = how == G4_LOCKED_ALONE ? take_alone(wg, fs, &txn, parent, &name, inode, shrinking > 0, now) :
				      g4_makers_remove(wg, fs, &txn, parent, &name, inode, now);
	if (rc == 0)
		rc = g4_lose_name(wg, fs, &txn, index, now, unused);
	cmd->value = rc == 0 && inode->held ? inode->ino : 0;
	return g4_end(fs, &txn, rc);
}

/* The inode that had the name is *index, referenced, unless that is G4_NO_INODE. May say G4_ALONE if the directory is shared. */
G4_FN static int remove_in(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *parent, enum g4_locked how,
			   struct g4_cmd *cmd, bool keeps_pages, uint32_t *index, bool *unused)
{
	struct g4_dir_slot slot;

	*index = G4_NO_INODE;
	g4_dir_lock(fs, parent, how);
	int rc = g4_check_dir(wg, fs, parent, cmd->cred, G4_ACCESS_EXEC);
	if (rc == 0)
		rc = g4_name_get(wg, fs, parent, how, cmd->name, cmd->name_bytes, false, &slot, index);
	if (rc < 0)
		*index = G4_NO_INODE;
	if (rc == 0)
		rc = g4_check_dir(wg, fs, parent, cmd->cred, G4_ACCESS_WRITE | G4_ACCESS_EXEC);
	if (rc == 0)
		rc = g4_check_child(fs, parent, *index);
	if (rc == 0) {
		struct g4_inode_core *inode = g4_icache_at(fs, *index);
		g4_icache_lock(fs, inode);
		const int leads = how == G4_LOCKED_ALONE ?
					  1 :
					  g4_name_leads_to(wg, fs, parent, how, cmd->name, cmd->name_bytes, inode);
		rc = leads < 0	? leads :
		     leads == 0 ? G4_ALONE :
				  remove_locked(wg, fs, parent, how, *index, &slot, cmd, keeps_pages, unused);
		g4_fence_rel();
		g4_write_unlock_fenced(&inode->lock);
	} else {
		g4_fence_rel();
	}
	g4_dir_unlock_fenced(parent, how);
	return rc;
}

G4_FN static int remove_name(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd, bool keeps_pages)
{
	uint32_t dir, index = G4_NO_INODE;
	bool unused = false;
	int rc = g4_check_name(cmd->name, cmd->name_bytes);

	if (rc == 0 && g4_is_dot(cmd->name, cmd->name_bytes))
		rc = cmd->op == G4_CMD_RMDIR ? -G4_E_INVAL : -G4_E_ISDIR;
	if (rc == 0 && g4_is_dotdot(cmd->name, cmd->name_bytes))
		rc = cmd->op == G4_CMD_RMDIR ? -G4_E_NOTEMPTY : -G4_E_ISDIR;
	if (rc == 0)
		rc = g4_icache_get_node(wg, fs, cmd, &dir);
	if (rc < 0)
		return rc;
	struct g4_inode_core *parent = g4_icache_at(fs, dir);
	rc = remove_in(wg, fs, parent, G4_LOCKED_SHARED, cmd, keeps_pages, &index, &unused);
	if (rc == G4_ALONE) {
		g4_icache_put(fs, index);
		rc = remove_in(wg, fs, parent, G4_LOCKED_ALONE, cmd, keeps_pages, &index, &unused);
	}
	g4_icache_put_fenced(fs, dir); /* behind what let go of the directory */
	if (rc == 0 && unused)
		rc = g4_inode_delete(wg, fs, index);
	if (index != G4_NO_INODE)
		g4_icache_put(fs, index);
	return g4_check(fs, rc);
}

G4_FN int g4_do_remove(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	return remove_name(wg, fs, cmd, false);
}

G4_FN int g4_remove_keeping_pages(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	return remove_name(wg, fs, cmd, true);
}

/* Makes a slot of a listing good where other names of the leaf have come or gone since. -G4_E_NOENT: this one has; G4_ALONE: it is not known here. */
G4_FN static int look_at_listed(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *dir,
				const struct g4_dir_entry *entry, struct g4_dir_slot *slot)
{
	const struct g4_dir pages = g4_dir_shared(fs, dir);
	uint32_t line;

	if (g4_dir_slot_holds(slot))
		return 0;
	if (g4_dir_hold_page(wg, &pages, slot, &line) < 0)
		return G4_ALONE;
	const int rc = g4_dir_look_again(wg, &pages, (const char *)(entry + 1), entry->name_bytes, slot);
	g4_dir_let_go_page(&pages, slot, line);
	return rc == 0 || rc == -G4_E_NOENT ? rc : G4_ALONE;
}

G4_FN static bool is_plain(const char *name, uint32_t bytes)
{
	return g4_check_name(name, bytes) == 0 && !g4_is_dot(name, bytes) && !g4_is_dotdot(name, bytes);
}

/*
 * That the name leads to its inode is known as a lookup knows it, once the inode is locked: no other name of the leaf has changed since the listing but by
 * this function, which goes on counting, or the leaf says so.
 */
G4_FN int g4_remove_listed(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *dir, struct g4_dir_listed *listed,
			   uint32_t k, struct g4_cmd *cmd, uint32_t *unused)
{
	const struct g4_dir_entry *entry = listed->items[k].entry;
	struct g4_dir_slot slot;
	bool is_unused = false;
	uint32_t index;
	int rc;

	*unused = G4_NO_INODE;
	cmd->op = G4_CMD_UNLINK;
	cmd->name = (const char *)(entry + 1);
	cmd->name_bytes = entry->name_bytes;
	if (!is_plain(cmd->name, cmd->name_bytes))
		return G4_ALONE;
	g4_dir_listed_slot(listed, k, &slot);
	rc = look_at_listed(wg, fs, dir, entry, &slot); /* before the inode is gone for, which may be another one */
	if (rc != 0)
		return rc;
	if (g4_icache_get(wg, fs, slot.inode, &index) < 0)
		return G4_ALONE;
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	rc = G4_ALONE;
	if (!g4_is_dir(g4_inode_core_type(inode))) { /* a directory has another place in the order of locks */
		g4_icache_lock(fs, inode);
		rc = look_at_listed(wg, fs, dir, entry, &slot);
		if (rc == 0 && (inode->dead || slot.inode != inode->ino))
			rc = G4_ALONE;
		if (rc == 0)
			rc = remove_locked(wg, fs, dir, G4_LOCKED_SHARED, index, &slot, cmd, true, &is_unused);
		g4_write_unlock(&inode->lock);
	}
	if (rc == 0 && slot.leaf_lock == listed->leaf_lock && slot.changes == listed->changes)
		listed->changes++;
	if (rc == 0 && is_unused)
		*unused = index;
	else
		g4_icache_put(fs, index);
	return g4_check(fs, rc);
}

G4_FN G4_COLD int g4_unite_pages(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t *from,
				 uint64_t until)
{
	const bool many = UNITE_CREDITS(PLACES, LEAVES) <= fs->journal.max_blocks / 4;
	const uint32_t most = many ? LEAVES : LEAST_LEAVES;
	uint32_t looks = LOOKS, places = many ? PLACES : LEAST_PLACES, united = 0;
	struct g4_txn txn;
	int rc = g4_dir_permits(inode, NULL, true, 0);

	if (rc == 0)
		rc = g4_begin(wg, fs, UNITE_CREDITS(places, most), &txn);
	if (rc < 0)
		return rc;
	struct g4_dir dir = g4_dir_of(fs, inode);
	while (rc >= 0 && looks > 0 && places > 0 && united < most && *from < until &&
	       (united == 0 || !g4_txn_is_crowded(&txn))) {
		rc = g4_dir_shrink_some(wg, &dir, &txn, from, until, most - united, &looks);
		united += rc > 0 ? (uint32_t)rc : 0;
		places -= rc > 0;
	}
	g4_dir_grown(inode, &dir);
	const int logged = txn.changed ? g4_inode_log(wg, fs, &txn, inode) : 0;
	return g4_end(fs, &txn, rc < 0 ? rc : logged);
}
