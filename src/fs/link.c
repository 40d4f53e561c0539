/* SPDX-License-Identifier: Apache-2.0 */
/* Another name for an inode. */
#include "fs/attr.h"
#include "fs/commands.h"
#include "fs/makers.h"
#include "fs/names.h"
#include "fs/node.h"
#include "fs/scrub.h"
#include "inode/icache.h"
#include "inode/inode.h"
#include "inode/orphan.h"
#include "inode/times.h"
#include "inode/txn.h"

/*
 * Whether an inode may get another name. Some that is for nobody but the owner (sysctl fs.protected_hardlinks): others would keep
 * a program with privileges after it was replaced, or bring a file where it is changed by mistake. Write-locked.
 */
G4_FN static int check_link_source(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode,
				   const struct g4_cred *cred)
{
	const uint32_t mode = inode->disk.mode, set_gid = G4_S_ISGID | G4_S_IXGRP;

	if (inode->dead || (inode->disk.nlink == 0 && !inode->unnamed))
		return -G4_E_NOENT;
	if (inode->disk.flags & (G4_INODE_IMMUTABLE | G4_INODE_APPEND))
		return -G4_E_PERM;
	if (inode->disk.nlink >= G4_LINK_MAX)
		return -G4_E_MLINK;
	if (g4_is_owner(inode, cred))
		return 0;
	if (!g4_is_reg(mode) || (mode & G4_S_ISUID) || (mode & set_gid) == set_gid)
		return -G4_E_PERM;
	int rc = g4_permission(wg, fs, inode, cred, G4_ACCESS_READ | G4_ACCESS_WRITE);
	return rc == -G4_E_ACCES ? -G4_E_PERM : rc;
}

/* The name, into a write-locked directory. */
G4_FN static int enter_alone(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *parent,
			     const struct g4_inode_core *inode, const struct g4_named *name, uint64_t now)
{
	struct g4_dir dir = g4_dir_of(fs, parent);
	int rc = g4_dir_insert(wg, &dir, txn, name->slot, name->text, name->bytes, inode->ino,
			       g4_dirent_type(inode->disk.mode));

	if (rc == 0)
		g4_dir_changed(parent, &dir, 1, now);
	else
		g4_dir_grown(parent, &dir);
	int logged = rc == 0 || txn->changed ? g4_inode_log(wg, fs, txn, parent) : 0;
	return rc < 0 ? rc : logged;
}

/* Both locked, the inode for writing; the name is not there. May say G4_ALONE or G4_NO_ROOM if the directory is shared. */
G4_FN static int link_locked(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *parent, enum g4_locked how,
			     uint32_t index, struct g4_dir_slot *slot, const struct g4_cmd *cmd)
{
	const struct g4_named name = {cmd->name2, cmd->name2_bytes, slot, false};
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	struct g4_txn txn;
	int rc = check_link_source(wg, fs, inode, cmd->cred);

	const int lack = how == G4_LOCKED_SHARED ? g4_makers_lack(slot, name.bytes) : 0;
	if (rc == 0 && lack)
		return lack;
	if (rc == 0)
		rc = g4_name_allow(wg, fs, slot);
	if (rc == 0)
		rc = g4_begin(wg, fs, G4_NAME_CREDITS + g4_dir_insert_credits(slot, name.bytes), &txn);
	if (rc < 0)
		return rc;
	g4_scrub_moved(fs, index); /* before a scrub may find it there */
	const uint64_t now = g4_now(fs);
	rc = how == G4_LOCKED_ALONE ? enter_alone(wg, fs, &txn, parent, inode, &name, now) :
				      g4_makers_insert(wg, fs, &txn, parent, &name, index, now);
	if (rc == 0 && inode->disk.nlink == 0)
		rc = g4_orphan_remove(wg, fs, &txn, index);
	if (rc == 0) {
		inode->disk.nlink++;
		inode->unnamed = false;
		inode->disk.ctime_ns = now;
		rc = g4_inode_log(wg, fs, &txn, inode);
	}
	rc = g4_end(fs, &txn, rc);
	if (rc == 0 && cmd->attr)
		g4_fill_attr(inode, cmd->attr);
	return rc;
}

/* With both referenced. */
G4_FN static int link_in(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *parent, enum g4_locked how,
			 uint32_t index, const struct g4_cmd *cmd)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	struct g4_dir_slot slot;

	g4_dir_lock(fs, parent, how);
	int rc = g4_check_dir(wg, fs, parent, cmd->cred, G4_ACCESS_EXEC);
	if (rc == 0) {
		rc = g4_name_find(wg, fs, parent, how, cmd->name2, cmd->name2_bytes, &slot);
		rc = rc == 0 ? -G4_E_EXIST : rc == -G4_E_NOENT ? 0 : rc;
	}
	if (rc == 0)
		rc = g4_check_dir(wg, fs, parent, cmd->cred, G4_ACCESS_WRITE | G4_ACCESS_EXEC);
	if (rc == 0 && g4_is_dir(g4_inode_core_type(inode)))
		rc = -G4_E_PERM;
	if (rc == 0) {
		g4_icache_lock(fs, inode);
		rc = link_locked(wg, fs, parent, how, index, &slot, cmd);
		g4_write_unlock(&inode->lock);
	}
	g4_dir_unlock(parent, how);
	return rc;
}

/* Beside other makers, if that is possible; or G4_ALONE. */
G4_FN static int link_beside(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *parent, uint32_t index,
			     const struct g4_cmd *cmd)
{
	int rc = G4_NO_ROOM;

	for (uint32_t tries = 0; rc == G4_NO_ROOM && tries < G4_MAKERS_TRIES; tries++) {
		rc = tries > 0 ? g4_makers_make_room(wg, fs, parent, cmd->cred, cmd->name2, cmd->name2_bytes) : 0;
		if (rc == 0)
			rc = link_in(wg, fs, parent, G4_LOCKED_SHARED, index, cmd);
	}
	return rc == G4_NO_ROOM ? G4_ALONE : rc;
}

G4_FN int g4_do_link(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	uint32_t dir, index;
	int rc = g4_check_name(cmd->name2, cmd->name2_bytes);

	if (rc == 0)
		rc = g4_icache_get_node2(wg, fs, cmd, &dir);
	if (rc < 0)
		return rc;
	rc = g4_icache_get_node(wg, fs, cmd, &index);
	if (rc < 0) {
		g4_icache_put(fs, dir);
		return rc;
	}
	if (dir == index) {
		g4_icache_put(fs, dir);
		g4_icache_put(fs, index);
		return -G4_E_PERM;
	}
	rc = link_beside(wg, fs, g4_icache_at(fs, dir), index, cmd);
	if (rc == G4_ALONE)
		rc = link_in(wg, fs, g4_icache_at(fs, dir), G4_LOCKED_ALONE, index, cmd);
	g4_icache_put(fs, dir);
	g4_icache_put(fs, index);
	return g4_check(fs, rc);
}
