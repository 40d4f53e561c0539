/* SPDX-License-Identifier: Apache-2.0 */
/* Open files: handles, and what goes when the last one does. */
#include "fs/open.h"
#include "data/file.h"
#include "fs/attr.h"
#include "fs/commands.h"
#include "fs/delete.h"
#include "fs/node.h"
#include "fs/perm.h"
#include "inode/icache.h"
#include "inode/txn.h"

G4_FN int g4_open_inode(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, struct g4_cmd *cmd)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	const uint32_t type = g4_inode_core_type(inode);
	uint32_t want = 0;
	int rc = 0;

	if (cmd->flags & G4_OPEN_TRUNC)
		g4_icache_lock(fs, inode);
	else
		g4_write_lock(&inode->lock);
	want |= cmd->flags & G4_OPEN_READ ? G4_ACCESS_READ : 0;
	want |= cmd->flags & (G4_OPEN_WRITE | G4_OPEN_TRUNC) ? G4_ACCESS_WRITE : 0;
	if (inode->dead)
		rc = -G4_E_STALE;
	else if (type == G4_S_IFLNK)
		rc = -G4_E_LOOP;
	else if (type == G4_S_IFDIR && (want & G4_ACCESS_WRITE))
		rc = -G4_E_ISDIR;
	else if (type != G4_S_IFDIR && (cmd->flags & G4_OPEN_DIRECTORY))
		rc = -G4_E_NOTDIR;
	else if (type != G4_S_IFDIR && type != G4_S_IFREG)
		rc = -G4_E_NXIO; /* devices, pipes and sockets belong to the kernel */
	if (rc == 0)
		rc = g4_permission(wg, fs, inode, cmd->cred, want);
	if (rc == 0 && (cmd->flags & G4_OPEN_NOATIME) && type == G4_S_IFREG && !g4_is_owner(inode, cmd->cred))
		rc = -G4_E_PERM;
	if (rc == 0 && (want & G4_ACCESS_WRITE) && (fs->flags & G4_FS_READ_ONLY))
		rc = -G4_E_ROFS;
	if (rc == 0 && (want & G4_ACCESS_WRITE) && (inode->disk.flags & G4_INODE_IMMUTABLE))
		rc = -G4_E_PERM;
	if (rc == 0 && (inode->disk.flags & G4_INODE_APPEND) && (want & G4_ACCESS_WRITE) &&
	    (!(cmd->flags & G4_OPEN_APPEND) || (cmd->flags & G4_OPEN_TRUNC)))
		rc = -G4_E_PERM;
	if (rc == 0 && (cmd->flags & G4_OPEN_TRUNC))
		rc = g4_drop_privileges(wg, fs, index, cmd->cred);
	if (rc == 0 && (cmd->flags & G4_OPEN_TRUNC))
		rc = g4_file_truncate(wg, fs, index, 0);
	if (rc == 0) {
		g4_add32(&inode->opens, 1);
		cmd->handle = g4_handle_make(index, cmd->flags);
		if (cmd->attr)
			g4_fill_attr(inode, cmd->attr);
	}
	g4_write_unlock(&inode->lock);
	if (rc < 0)
		g4_icache_put(fs, index); /* else the handle keeps the reference */
	return g4_check(fs, rc);
}

G4_FN void g4_open_new(struct g4_fs *fs, uint32_t index, struct g4_cmd *cmd)
{
	g4_icache_at(fs, index)->opens++;
	g4_icache_ref(fs, index); /* the handle's */
	cmd->handle = g4_handle_make(index, cmd->flags);
}

G4_FN int g4_do_open(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	uint32_t index;
	int rc = g4_icache_get_node(wg, fs, cmd, &index);

	return rc < 0 ? g4_check(fs, rc) : g4_open_inode(wg, fs, index, cmd);
}

G4_FN int g4_do_release(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	uint32_t index;
	int rc = cmd->handle ? g4_icache_get_target(wg, fs, cmd, &index) : -G4_E_BADF;

	if (rc < 0)
		return rc;
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	g4_write_lock(&inode->lock);
	bool last = inode->opens == 1;
	g4_sub32(&inode->opens, 1);
	bool unused = last && inode->disk.nlink == 0 && !inode->held && !inode->dead;
	g4_write_unlock(&inode->lock);
	if (unused)
		rc = g4_inode_delete(wg, fs, index);
	g4_icache_put(fs, index); /* ours */
	g4_icache_put(fs, index); /* the handle's */
	return g4_check(fs, rc);
}

G4_FN int g4_do_forget(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	uint32_t index;

	/* only orphans are held, and those are in memory: any other number needs no look at the disk */
	if (g4_load32_acq(&fs->orphan_head) == G4_NO_INODE)
		return 0;
	if (g4_icache_get_node(wg, fs, cmd, &index) < 0)
		return 0;
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	g4_write_lock(&inode->lock);
	bool unused = inode->held && inode->opens == 0;
	inode->held = false;
	g4_write_unlock(&inode->lock);
	int rc = unused ? g4_inode_delete(wg, fs, index) : 0;
	g4_icache_put(fs, index);
	return g4_check(fs, rc);
}
