/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renaming. Locks: two directories under the rename lock, the ancestor first; then the inodes in them by number. A transaction is
 * joined last. Within one directory it is tried beside others first (makers.h).
 */
#include "data/writeback.h"
#include "dir/shrink.h"
#include "fs/commands.h"
#include "fs/create.h"
#include "fs/delete.h"
#include "fs/makers.h"
#include "fs/names.h"
#include "fs/node.h"
#include "fs/remove.h"
#include "fs/scrub.h"
#include "inode/icache.h"
#include "inode/inode.h"
#include "inode/times.h"
#include "inode/txn.h"

/* Whether directory `above` lies on the way from `node` to the root, `node` included. Rename lock held. */
G4_FN static int is_ancestor(struct g4_wg *wg, struct g4_fs *fs, uint64_t above, uint64_t node)
{
	uint64_t root = g4_icache_at(fs, fs->root_index)->ino;

	for (uint32_t depth = 0; node != above; depth++) {
		uint32_t i;
		if (node == root || node == 0 || depth > 1000000)
			return 0;
		int rc = g4_icache_get(wg, fs, node, &i);
		if (rc < 0)
			return rc;
		node = g4_load64_acq(&g4_icache_at(fs, i)->disk.parent);
		g4_icache_put(fs, i);
	}
	return 1;
}

G4_STATIC_ASSERT(2 * G4_NAME_CREDITS + G4_DIR_CREDITS <= G4_TXN_LEAST_BLOCKS &&
			 G4_NAME_CREDITS + G4_DIR_CREDITS + G4_DIR_SHRINK_CREDITS <= G4_TXN_LEAST_BLOCKS,
		 "any transaction has these");

struct rename {
	struct g4_cmd *cmd;
	enum g4_locked how;  /* the directories are locked; shared: `from` and `to` are one */
	uint32_t from, to;   /* directories */
	uint32_t moved, met; /* what is renamed, what it meets; G4_NO_INODE: nothing */
	struct g4_dir_slot from_slot, to_slot;
	bool unused;	   /* what it meets is to be deleted */
	uint32_t whiteout; /* what the old name leads to afterwards; G4_NO_INODE: it goes */
	uint32_t
		shrinking; /* blocks that shrinking the directory which it goes from changes at most; 0: it is not tried */
};

G4_FN static int lock_directories(struct g4_wg *wg, struct g4_fs *fs, struct rename *r)
{
	struct g4_inode_core *from = g4_icache_at(fs, r->from), *to = g4_icache_at(fs, r->to);

	if (r->from == r->to) {
		g4_dir_lock(fs, from, r->how);
		return 0;
	}
	g4_lock(&fs->rename_lock);
	int rc = is_ancestor(wg, fs, from->ino, to->ino);
	bool first = rc == 1;
	if (rc == 0) {
		rc = is_ancestor(wg, fs, to->ino, from->ino);
		first = rc == 0 && from->ino < to->ino;
	}
	if (rc < 0) {
		g4_unlock(&fs->rename_lock);
		return rc;
	}
	g4_icache_lock(fs, first ? from : to);
	g4_icache_lock(fs, first ? to : from);
	return 0;
}

G4_FN static void unlock_directories(struct g4_fs *fs, struct rename *r)
{
	g4_dir_unlock(g4_icache_at(fs, r->from), r->how);
	if (r->from != r->to) {
		g4_write_unlock(&g4_icache_at(fs, r->to)->lock);
		g4_unlock(&fs->rename_lock);
	}
}

G4_FN static int check_files_only(struct g4_fs *fs, const struct rename *r)
{
	const uint32_t flags = r->cmd->flags;
	bool directory = g4_is_dir(g4_inode_core_type(g4_icache_at(fs, r->moved)));

	if (flags & G4_RENAME_EXCHANGE)
		directory |= g4_is_dir(g4_inode_core_type(g4_icache_at(fs, r->met)));
	return (flags & G4_RENAME_FILES_ONLY) && directory ? -G4_E_LEAVES : 0;
}

/* References what a name leads to: *index, G4_NO_INODE if it fails. */
G4_FN static int get_name(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *dir, const struct rename *r,
			  const char *name, uint32_t bytes, struct g4_dir_slot *slot, uint32_t *index)
{
	const int rc = g4_name_get(wg, fs, dir, r->how, name, bytes, false, slot, index);

	if (rc < 0)
		*index = G4_NO_INODE;
	return rc;
}

/* Looks both names up and references what they lead to. May say G4_ALONE in a directory that is shared. */
G4_FN static int find_both(struct g4_wg *wg, struct g4_fs *fs, struct rename *r)
{
	struct g4_inode_core *from = g4_icache_at(fs, r->from), *to = g4_icache_at(fs, r->to);
	const struct g4_cmd *cmd = r->cmd;
	int rc = g4_check_dir(wg, fs, from, cmd->cred, G4_ACCESS_EXEC);

	if (rc == 0)
		rc = g4_check_dir(wg, fs, to, cmd->cred, G4_ACCESS_EXEC);
	if (rc == 0)
		rc = get_name(wg, fs, from, r, cmd->name, cmd->name_bytes, &r->from_slot, &r->moved);
	if (rc == 0)
		rc = g4_check_child(fs, from, r->moved);
	if (rc < 0)
		return rc;
	rc = get_name(wg, fs, to, r, cmd->name2, cmd->name2_bytes, &r->to_slot, &r->met);
	if (rc == 0)
		rc = g4_check_child(fs, to, r->met);
	if (rc == -G4_E_NOENT)
		rc = (cmd->flags & G4_RENAME_EXCHANGE) ? rc : 0;
	else if (rc == 0 && (cmd->flags &
			     G4_RENAME_NOREPLACE)) /* the old name may be gone since, and be what the new one is now */
		rc = r->how == G4_LOCKED_SHARED ? G4_ALONE : -G4_E_EXIST;
	if (rc == 0)
		rc = g4_check_dir(wg, fs, from, cmd->cred, G4_ACCESS_WRITE | G4_ACCESS_EXEC);
	if (rc == 0)
		rc = g4_check_dir(wg, fs, to, cmd->cred, G4_ACCESS_WRITE | G4_ACCESS_EXEC);
	return rc ? rc : check_files_only(fs, r);
}

G4_FN static int check_tree(struct g4_wg *wg, struct g4_fs *fs, const struct rename *r)
{
	const struct g4_inode_core *from = g4_icache_at(fs, r->from), *to = g4_icache_at(fs, r->to),
				   *moved = g4_icache_at(fs, r->moved);
	bool exchange = r->cmd->flags & G4_RENAME_EXCHANGE;
	int rc = 0;

	if (r->from == r->to)
		return 0;
	if (g4_is_dir(g4_inode_core_type(moved))) {
		rc = is_ancestor(wg, fs, moved->ino, to->ino);
		if (rc == 1)
			return -G4_E_INVAL;
	}
	if (rc == 0 && r->met != G4_NO_INODE && g4_is_dir(g4_inode_core_type(g4_icache_at(fs, r->met)))) {
		rc = is_ancestor(wg, fs, g4_icache_at(fs, r->met)->ino, from->ino);
		if (rc == 1)
			return exchange ? -G4_E_INVAL : -G4_E_NOTEMPTY;
	}
	return rc;
}

/* Permissions on the locked inodes themselves. */
G4_FN static int check_inodes(struct g4_wg *wg, struct g4_fs *fs, const struct rename *r)
{
	struct g4_inode_core *from = g4_icache_at(fs, r->from), *to = g4_icache_at(fs, r->to),
			     *moved = g4_icache_at(fs, r->moved);
	const struct g4_cmd *cmd = r->cmd;
	bool directory = g4_is_dir(moved->disk.mode);
	int rc = g4_check_delete(from, moved, cmd->cred);

	/* a directory that changes its parent changes itself (its ..) */
	if (rc == 0 && directory && r->from != r->to)
		rc = g4_permission(wg, fs, moved, cmd->cred, G4_ACCESS_WRITE);
	/* a directory more, in another one than before; a directory that it replaces would not be counted, and is rare there */
	if (rc == 0 && directory && r->from != r->to && to->disk.nlink >= G4_LINK_MAX)
		rc = -G4_E_MLINK;
	if (rc < 0 || r->met == G4_NO_INODE)
		return rc;
	struct g4_inode_core *met = g4_icache_at(fs, r->met);
	rc = g4_check_delete(to, met, cmd->cred);
	if (rc < 0)
		return rc;
	if (cmd->flags & G4_RENAME_EXCHANGE) {
		if (g4_is_dir(met->disk.mode) && r->from != r->to)
			rc = g4_permission(wg, fs, met, cmd->cred, G4_ACCESS_WRITE);
		return rc;
	}
	if (directory && !g4_is_dir(met->disk.mode))
		return -G4_E_NOTDIR;
	if (!directory && g4_is_dir(met->disk.mode))
		return -G4_E_ISDIR;
	return g4_is_dir(met->disk.mode) && met->disk.entries > 0 ? -G4_E_NOTEMPTY : 0;
}

G4_FN static void set_parent(struct g4_inode_core *inode, const struct g4_inode_core *parent)
{
	if (g4_is_dir(inode->disk.mode))
		g4_store64_rel(&inode->disk.parent, parent->ino);
}

G4_FN static int exchange(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct rename *r, uint64_t now)
{
	struct g4_inode_core *from = g4_icache_at(fs, r->from), *to = g4_icache_at(fs, r->to);
	struct g4_inode_core *moved = g4_icache_at(fs, r->moved), *met = g4_icache_at(fs, r->met);
	struct g4_dir from_pages = g4_dir_of(fs, from), to_pages = g4_dir_of(fs, to);
	struct g4_txn_page held;
	/* with this one here, only the first step can fail */
	int rc = g4_dir_get_leaf(wg, txn, &r->to_slot, &held);

	if (rc < 0)
		return rc;
	rc = g4_dir_replace(wg, &from_pages, txn, &r->from_slot, met->ino, g4_dirent_type(met->disk.mode));
	if (rc == 0)
		rc = g4_dir_replace(wg, &to_pages, txn, &r->to_slot, moved->ino, g4_dirent_type(moved->disk.mode));
	g4_txn_put(txn, &held);
	if (rc < 0)
		return rc;
	set_parent(moved, to);
	set_parent(met, from);
	if (r->from != r->to) {
		int more = (int)g4_is_dir(moved->disk.mode) - (int)g4_is_dir(met->disk.mode);
		from->disk.nlink = (g4_le32)((int64_t)from->disk.nlink - more);
		to->disk.nlink = (g4_le32)((int64_t)to->disk.nlink + more);
	}
	moved->disk.ctime_ns = met->disk.ctime_ns = now;
	from->disk.mtime_ns = from->disk.ctime_ns = to->disk.mtime_ns = to->disk.ctime_ns = now;
	rc = g4_inode_log(wg, fs, txn, moved);
	return rc < 0 ? rc : g4_inode_log(wg, fs, txn, met);
}

/* The old name of what was moved: it goes, or leads to the whiteout. */
G4_FN static int leave_name(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_dir *dir,
			    const struct rename *r)
{
	if (r->whiteout == G4_NO_INODE)
		return g4_dir_remove(wg, dir, txn, &r->from_slot);
	return g4_dir_replace(wg, dir, txn, &r->from_slot, g4_icache_at(fs, r->whiteout)->ino,
			      g4_dirent_type(G4_S_IFCHR));
}

G4_FN static int move(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct rename *r, uint64_t now)
{
	struct g4_inode_core *from = g4_icache_at(fs, r->from), *to = g4_icache_at(fs, r->to),
			     *moved = g4_icache_at(fs, r->moved);
	bool directory = g4_is_dir(moved->disk.mode), replaces = r->met != G4_NO_INODE;
	struct g4_dir from_pages = g4_dir_of(fs, from), to_pages = g4_dir_of(fs, to);
	/* an insert without room splits leaves, perhaps that of the old name; it may fail, so that it comes first */
	const bool splits = !replaces && g4_dir_insert_credits(&r->to_slot, r->cmd->name2_bytes) > 1;
	struct g4_txn_page held;
	int rc = splits ? 0 : g4_dir_get_leaf(wg, txn, &r->to_slot, &held);

	if (rc < 0)
		return rc;
	if (!splits)
		rc = leave_name(wg, fs, txn, &from_pages, r);
	if (rc == 0 && replaces)
		rc = g4_dir_replace(wg, &to_pages, txn, &r->to_slot, moved->ino, g4_dirent_type(moved->disk.mode));
	else if (rc == 0)
		rc = g4_dir_insert(wg, &to_pages, txn, &r->to_slot, r->cmd->name2, r->cmd->name2_bytes, moved->ino,
				   g4_dirent_type(moved->disk.mode));
	if (!splits)
		g4_txn_put(txn, &held);
	if (rc == 0)
		g4_dir_changed(to, &to_pages, !replaces, now);
	else
		g4_dir_grown(to, &to_pages);
	if (rc == 0 && splits) {
		from_pages = g4_dir_of(fs, from);
		rc = g4_dir_lookup(wg, &from_pages, r->cmd->name, r->cmd->name_bytes, &r->from_slot);
		rc = rc == 0 ? leave_name(wg, fs, txn, &from_pages, r) : rc == -G4_E_NOENT ? -G4_E_CORRUPT_DIR : rc;
	}
	if (rc == 0 && r->shrinking) { /* last, for slots do not hold behind it */
		from_pages = g4_dir_of(fs, from);
		rc = g4_dir_shrink(wg, &from_pages, txn, g4_dir_position(r->from_slot.hash, r->from_slot.collision));
	}
	if (rc < 0)
		return rc;
	g4_dir_changed(from, &from_pages, r->whiteout == G4_NO_INODE ? -1 : 0, now);
	if (directory) {
		from->disk.nlink--;
		to->disk.nlink += replaces ? 0 : 1; /* the directory it replaces goes */
	}
	set_parent(moved, to);
	moved->disk.ctime_ns = now;
	rc = g4_inode_log(wg, fs, txn, moved);
	if (rc == 0 && replaces)
		rc = g4_lose_name(wg, fs, txn, r->met, now, &r->unused);
	if (rc == 0 && replaces && g4_icache_at(fs, r->met)->held)
		r->cmd->value = g4_icache_at(fs, r->met)->ino;
	return rc;
}

/* Makes the whiteout, write-locked and referenced: Linux's, a character device 0:0 that nobody may open. */
G4_FN static int make_whiteout(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct rename *r)
{
	const struct g4_inode_core *parent = g4_icache_at(fs, r->from);
	const struct g4_cred *cred = r->cmd->cred;
	int rc = g4_inode_new(wg, fs, txn, G4_S_IFCHR, &r->whiteout);

	if (rc < 0) {
		r->whiteout = G4_NO_INODE;
		return rc;
	}
	struct g4_inode_core *inode = g4_icache_at(fs, r->whiteout);
	inode->disk.uid = cred ? cred->uid : 0;
	inode->disk.gid = parent->disk.mode & G4_S_ISGID ? parent->disk.gid : cred ? cred->gid : 0;
	inode->disk.nlink = 1;
	return g4_inode_log(wg, fs, txn, inode);
}

/* Ends what make_whiteout() began, in the same transaction: it is there, or it is taken back. */
G4_FN static void end_whiteout(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, uint32_t index, int rc)
{
	if (rc < 0) {
		rc = g4_undo_new_inode(wg, fs, txn, index);
		if (rc < 0)
			g4_fs_error(fs, rc);
		return;
	}
	g4_write_unlock(&g4_icache_at(fs, index)->lock);
	g4_icache_put(fs, index);
}

/* See struct rename. */
G4_FN static uint32_t shrinking_credits(struct g4_fs *fs, const struct rename *r)
{
	const struct g4_dir dir = g4_dir_of(fs, g4_icache_at(fs, r->from));

	if (r->cmd->flags & (G4_RENAME_EXCHANGE | G4_RENAME_WHITEOUT))
		return 0;
	/* the new name may split the old one's leaf, which is sparse then */
	if (r->from == r->to && r->met == G4_NO_INODE && g4_dir_insert_credits(&r->to_slot, r->cmd->name2_bytes) > 1)
		return G4_DIR_SHRINK_CREDITS;
	return g4_dir_shrink_credits(&dir, &r->from_slot, r->cmd->name_bytes);
}

/* In a directory that is shared: whether the locked inodes have their names still, and there is room. 0, G4_ALONE or G4_NO_ROOM. */
G4_FN static int check_shared(struct g4_wg *wg, struct g4_fs *fs, const struct rename *r)
{
	struct g4_inode_core *dir = g4_icache_at(fs, r->from);
	const struct g4_cmd *cmd = r->cmd;
	int leads = g4_name_leads_to(wg, fs, dir, r->how, cmd->name, cmd->name_bytes, g4_icache_at(fs, r->moved));

	if (leads > 0 && r->met != G4_NO_INODE)
		leads = g4_name_leads_to(wg, fs, dir, r->how, cmd->name2, cmd->name2_bytes, g4_icache_at(fs, r->met));
	else if (leads > 0 && g4_makers_lack(&r->to_slot, cmd->name2_bytes))
		return g4_makers_lack(&r->to_slot, cmd->name2_bytes);
	if (leads < 0)
		return leads;
	return leads == 0 ? G4_ALONE : 0;
}

/* rename_locked() in a directory that is shared. Both inodes are locked. */
G4_FN static int rename_shared(struct g4_wg *wg, struct g4_fs *fs, struct rename *r)
{
	struct g4_inode_core *dir = g4_icache_at(fs, r->from), *moved = g4_icache_at(fs, r->moved);
	const struct g4_named from = {r->cmd->name, r->cmd->name_bytes, &r->from_slot, false};
	const struct g4_named to = {r->cmd->name2, r->cmd->name2_bytes, &r->to_slot, false};
	const bool replaces = r->met != G4_NO_INODE;
	struct g4_txn txn;
	int rc = g4_begin(wg, fs, G4_NAME_CREDITS + 2, &txn);

	if (rc < 0)
		return rc;
	const uint64_t now = g4_now(fs);
	rc = g4_makers_rename(wg, fs, &txn, dir, &from, &to, moved, replaces ? g4_icache_at(fs, r->met) : NULL, now);
	if (rc == 0) {
		moved->disk.ctime_ns = now;
		rc = g4_inode_log(wg, fs, &txn, moved);
	}
	if (rc == 0 && replaces)
		rc = g4_lose_name(wg, fs, &txn, r->met, now, &r->unused);
	if (rc == 0 && replaces && g4_icache_at(fs, r->met)->held)
		r->cmd->value = g4_icache_at(fs, r->met)->ino;
	return g4_end(fs, &txn, rc);
}

/* A scrub on its way may have been where the inodes go. Before they do. */
G4_FN static void tell_scrub(struct g4_fs *fs, const struct rename *r)
{
	g4_scrub_moved(fs, r->moved);
	if (r->cmd->flags & G4_RENAME_EXCHANGE)
		g4_scrub_moved(fs, r->met);
}

G4_FN static int rename_locked(struct g4_wg *wg, struct g4_fs *fs, struct rename *r)
{
	struct g4_inode_core *moved = g4_icache_at(fs, r->moved);
	struct g4_txn txn;
	int rc = check_inodes(wg, fs, r);

	if (r->how == G4_LOCKED_SHARED) { /* first, for what is not theirs any more says nothing */
		int shared = check_shared(wg, fs, r);
		if (shared < 0 || shared == G4_ALONE || (shared == G4_NO_ROOM && rc == 0))
			return shared;
	} else {
		r->shrinking = shrinking_credits(fs, r);
	}
	if (rc == 0)
		tell_scrub(fs, r);

	/* a program that writes a file and renames it over another expects the one or the other after a crash, never an empty one */
	if (rc == 0 && r->met != G4_NO_INODE && g4_is_reg(moved->disk.mode))
		rc = g4_writeback(wg, fs, r->moved);
	if (rc == 0 && r->how == G4_LOCKED_SHARED)
		return rename_shared(wg, fs, r);
	if (rc == 0 && r->met == G4_NO_INODE)
		rc = g4_name_allow(wg, fs, &r->to_slot);
	if (rc == 0)
		rc = g4_begin(wg, fs,
			      (r->cmd->flags & G4_RENAME_WHITEOUT ? 2 : 1) * G4_NAME_CREDITS +
				      g4_dir_insert_credits(&r->to_slot, r->cmd->name2_bytes) + r->shrinking,
			      &txn);
	if (rc < 0)
		return rc;
	if (r->cmd->flags & G4_RENAME_WHITEOUT)
		rc = make_whiteout(wg, fs, &txn, r);
	uint64_t now = g4_now(fs);
	g4_name_forget(fs, g4_icache_at(fs, r->from), &r->from_slot, r->cmd->name, r->cmd->name_bytes);
	g4_name_forget(fs, g4_icache_at(fs, r->to), &r->to_slot, r->cmd->name2, r->cmd->name2_bytes);
	if (rc == 0)
		rc = r->cmd->flags & G4_RENAME_EXCHANGE ? exchange(wg, fs, &txn, r, now) : move(wg, fs, &txn, r, now);
	if (r->whiteout != G4_NO_INODE)
		end_whiteout(wg, fs, &txn, r->whiteout, rc);
	if (rc < 0 && !txn.changed)
		return g4_end(fs, &txn, rc);
	/* the directories' pages may have changed even where the rename did not come about */
	int logged = g4_inode_log(wg, fs, &txn, g4_icache_at(fs, r->from));
	if (logged == 0 && r->from != r->to)
		logged = g4_inode_log(wg, fs, &txn, g4_icache_at(fs, r->to));
	return g4_end(fs, &txn, rc < 0 ? rc : logged);
}

/* Two names of one inode: nothing happens, if both are its names at one moment. */
G4_FN static int rename_to_itself(struct g4_wg *wg, struct g4_fs *fs, struct rename *r)
{
	struct g4_inode_core *inode = g4_icache_at(fs, r->moved);

	if (r->how == G4_LOCKED_ALONE)
		return 0;
	g4_write_lock(&inode->lock);
	int rc = check_shared(wg, fs, r);
	g4_write_unlock(&inode->lock);
	return rc;
}

G4_FN static int rename_found(struct g4_wg *wg, struct g4_fs *fs, struct rename *r)
{
	struct g4_inode_core *moved = g4_icache_at(fs, r->moved);
	struct g4_inode_core *met = r->met == G4_NO_INODE ? NULL : g4_icache_at(fs, r->met);
	int rc = check_tree(wg, fs, r);

	if (rc < 0)
		return rc;
	if (moved == met) /* two names of one inode: nothing happens (rename(2)) */
		return rename_to_itself(wg, fs, r);
	if (met && (r->met == r->from || r->met == r->to || r->moved == r->to))
		return -G4_E_INVAL;
	g4_icache_lock_two(fs, moved, met);
	rc = rename_locked(wg, fs, r);
	g4_icache_unlock_two(moved, met);
	return rc;
}

/* With the directories referenced. May say G4_ALONE if they are shared. */
G4_FN static int rename_in(struct g4_wg *wg, struct g4_fs *fs, struct rename *r)
{
	int rc = lock_directories(wg, fs, r);

	if (rc < 0)
		return rc;
	rc = find_both(wg, fs, r);
	if (rc == 0)
		rc = rename_found(wg, fs, r);
	unlock_directories(fs, r);
	return rc;
}

G4_FN static void put_found(struct g4_fs *fs, struct rename *r)
{
	if (r->moved != G4_NO_INODE)
		g4_icache_put(fs, r->moved);
	if (r->met != G4_NO_INODE)
		g4_icache_put(fs, r->met);
	r->moved = r->met = G4_NO_INODE;
}

/* In one directory, beside others if that is possible; or G4_ALONE. */
G4_FN static int rename_beside(struct g4_wg *wg, struct g4_fs *fs, struct rename *r)
{
	struct g4_inode_core *to = g4_icache_at(fs, r->to);
	const struct g4_cmd *cmd = r->cmd;
	int rc = G4_NO_ROOM;

	r->how = G4_LOCKED_SHARED;
	for (uint32_t tries = 0; rc == G4_NO_ROOM && tries < G4_MAKERS_TRIES; tries++) {
		put_found(fs, r);
		rc = tries > 0 ? g4_makers_make_room(wg, fs, to, cmd->cred, cmd->name2, cmd->name2_bytes) : 0;
		if (rc == 0)
			rc = rename_in(wg, fs, r);
	}
	return rc == G4_NO_ROOM ? G4_ALONE : rc;
}

G4_FN int g4_do_rename(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	struct rename r = {.cmd = cmd,
			   .how = G4_LOCKED_ALONE,
			   .from = G4_NO_INODE,
			   .to = G4_NO_INODE,
			   .moved = G4_NO_INODE,
			   .met = G4_NO_INODE,
			   .whiteout = G4_NO_INODE};
	int rc = g4_check_name(cmd->name, cmd->name_bytes);

	if (rc == 0)
		rc = g4_check_name(cmd->name2, cmd->name2_bytes);
	if (rc == 0 && (g4_is_dot(cmd->name, cmd->name_bytes) || g4_is_dotdot(cmd->name, cmd->name_bytes) ||
			g4_is_dot(cmd->name2, cmd->name2_bytes) || g4_is_dotdot(cmd->name2, cmd->name2_bytes)))
		rc = -G4_E_BUSY;
	if (rc == 0 && !g4_rename_flags_valid(cmd->flags))
		rc = -G4_E_INVAL;
	if (rc == 0)
		rc = g4_icache_get_node(wg, fs, cmd, &r.from);
	if (rc < 0)
		return rc;
	rc = g4_icache_get_node2(wg, fs, cmd, &r.to);
	if (rc == 0 && (!g4_is_dir(g4_inode_core_type(g4_icache_at(fs, r.from))) ||
			!g4_is_dir(g4_inode_core_type(g4_icache_at(fs, r.to)))))
		rc = -G4_E_NOTDIR;
	if (rc == 0) {
		rc = r.from == r.to && !(cmd->flags & (G4_RENAME_EXCHANGE | G4_RENAME_WHITEOUT)) ?
			     rename_beside(wg, fs, &r) :
			     G4_ALONE;
		if (rc == G4_ALONE) {
			put_found(fs, &r);
			r.how = G4_LOCKED_ALONE;
			rc = rename_in(wg, fs, &r);
		}
	}
	if (rc == 0 && r.unused)
		rc = g4_inode_delete(wg, fs, r.met);
	put_found(fs, &r);
	if (r.to != G4_NO_INODE)
		g4_icache_put(fs, r.to);
	g4_icache_put(fs, r.from);
	return g4_check(fs, rc);
}
