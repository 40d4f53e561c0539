/* SPDX-License-Identifier: Apache-2.0 */
/* Making inodes and their names. The inode, its name and what it inherits come with one transaction. */
#include "fs/create.h"
#include "data/map.h"
#include "data/symlink.h"
#include "fs/acl.h"
#include "fs/attr.h"
#include "fs/commands.h"
#include "fs/makers.h"
#include "fs/names.h"
#include "fs/node.h"
#include "fs/open.h"
#include "fs/xattr.h"
#include "inode/icache.h"
#include "inode/inode.h"
#include "inode/orphan.h"
#include "inode/times.h"
#include "inode/txn.h"

/* What a new inode gets from its directory: access lists, the page of a long link's target. */
#define NEW_ATTRIBUTE_CREDITS 24u
G4_STATIC_ASSERT(G4_NAME_CREDITS + NEW_ATTRIBUTE_CREDITS + G4_DIR_CREDITS <= G4_TXN_LEAST_BLOCKS,
		 "any transaction has these");

struct new_inode { /* what decides a new inode */
	uint32_t mode;
	uint32_t uid, gid;
	uint32_t policy;
	uint64_t domain;
	struct g4_page_ahead target; /* of a long link */
	bool published;		     /* the target belongs to the inode */
	struct g4_acl_result acl;
};

G4_FN static int prepare(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *parent,
			 const struct g4_cmd *cmd, uint32_t type, struct new_inode *new_inode)
{
	const struct g4_cred *cred = cmd->cred;
	uint32_t mode = type == G4_S_IFLNK ? 0777 : cmd->mode & 07777u;
	/* all are asked for before one is looked at; the last of them keeps the others before it */
	const uint64_t xattr = parent ? parent->disk.xattr : 0;
	const uint32_t above = parent ? parent->disk.mode : 0, gid = parent ? parent->disk.gid : 0;

	new_inode->policy = parent ? g4_load32_rlx(&parent->disk.policy) : 0;
	new_inode->target.address = G4_NO_ADDRESS;
	new_inode->published = false;
	new_inode->domain = parent ? g4_inode_domain(&parent->disk) : 0;
	new_inode->uid = cred ? cred->uid : 0;
	new_inode->gid = cred ? cred->gid : 0;
	if (above & G4_S_ISGID) {
		new_inode->gid = gid;
		if (type == G4_S_IFDIR)
			mode |= G4_S_ISGID;
		else if ((mode & (G4_S_ISGID | G4_S_IXGRP)) == (G4_S_ISGID | G4_S_IXGRP) && !g4_is_root(cred) &&
			 !g4_in_group(cred, new_inode->gid))
			mode &= ~G4_S_ISGID;
	}
	if (xattr)
		return g4_acl_inherit(wg, fs, parent, type | mode, cred ? cred->umask : 0, &new_inode->acl);
	new_inode->acl.mode = type | (type == G4_S_IFLNK ? mode : mode & ~(cred ? cred->umask & 0777u : 0));
	new_inode->acl.access_bytes = new_inode->acl.default_bytes = 0;
	return 0;
}

/* What few new inodes have: a link's target, access lists. */
G4_FN G4_COLD static int set_new_attributes(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn,
					    const struct g4_cmd *cmd, struct new_inode *new_inode,
					    struct g4_inode_core *inode)
{
	int rc = 0;

	if (g4_is_link(new_inode->acl.mode)) {
		rc = g4_link_publish(wg, fs, txn, inode, cmd->name2, cmd->name2_bytes, &new_inode->target);
		new_inode->published = !g4_address_is_none(new_inode->target.address) && rc == 0;
	}
	if (rc == 0 && new_inode->acl.access_bytes)
		rc = g4_xattr_set(wg, fs, txn, inode, G4_XATTR_ACL_ACCESS, "", 0, new_inode->acl.access,
				  new_inode->acl.access_bytes, 0);
	if (rc == 0 && new_inode->acl.default_bytes)
		rc = g4_xattr_set(wg, fs, txn, inode, G4_XATTR_ACL_DEFAULT, "", 0, new_inode->acl.default_,
				  new_inode->acl.default_bytes, 0);
	return rc;
}

/* Of an inode whose mode is set. */
G4_FN static void set_new_fields(struct g4_inode *inode, const struct new_inode *new_inode)
{
	inode->uid = new_inode->uid;
	inode->gid = new_inode->gid;
	inode->policy = new_inode->policy;
	inode->nlink = g4_is_dir(inode->mode) ? 2 : 1;
	g4_inode_set_domain(inode, new_inode->domain);
}

/* Makes the inode in the transaction; *index is referenced and write-locked. */
G4_FN static int make_inode(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, const struct g4_inode_core *parent,
			    const struct g4_cmd *cmd, struct new_inode *new_inode, uint32_t *index)
{
	int rc = g4_inode_new(wg, fs, txn, new_inode->acl.mode, index);

	if (rc < 0)
		return rc;
	struct g4_inode_core *inode = g4_icache_at(fs, *index);
	inode->disk.parent = g4_is_dir(new_inode->acl.mode) && parent ? parent->ino : 0;
	inode->disk.rdev = cmd->op == G4_CMD_MKNOD ? cmd->rdev : 0;
	set_new_fields(&inode->disk, new_inode);
	if (g4_is_link(new_inode->acl.mode) || new_inode->acl.access_bytes || new_inode->acl.default_bytes)
		return set_new_attributes(wg, fs, txn, cmd, new_inode, inode);
	return 0;
}

G4_FN bool g4_new_directory(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *parent,
			    const struct g4_cred *cred, uint32_t mode, struct g4_inode *inode)
{
	const struct g4_cmd cmd = {.op = G4_CMD_MKDIR, .mode = mode, .cred = cred};
	struct new_inode new_inode;

	if (parent->disk.xattr || prepare(wg, fs, parent, &cmd, G4_S_IFDIR, &new_inode) < 0)
		return false;
	memset(inode, 0, sizeof(*inode));
	inode->mode = (uint16_t)new_inode.acl.mode;
	set_new_fields(inode, &new_inode);
	inode->atime_ns = inode->mtime_ns = inode->ctime_ns = inode->btime_ns = g4_now(fs);
	return true;
}

G4_FN G4_COLD int g4_undo_new_inode(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, uint32_t index)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	uint64_t next = 0;
	int rc = 0;

	if (inode->disk.xattr)
		rc = g4_xattr_clear(wg, fs, txn, inode);
	if (rc == 0 && inode->disk.xattr)
		rc = -G4_E_JOURNAL_FULL; /* the transaction has no room to take it back, so it must not commit */
	if (rc == 0 && (inode->disk.pages > 0 || g4_sums_own(inode))) {
		rc = g4_map_clear(wg, fs, txn, inode, 0, UINT64_MAX, &next);
		if (rc == 0 && next != UINT64_MAX)
			rc = -G4_E_JOURNAL_FULL;
	}
	if (rc == 0)
		rc = g4_inode_free(wg, fs, txn, index);
	g4_write_unlock(&inode->lock);
	g4_icache_put(fs, index);
	return rc;
}

G4_FN static uint32_t new_inode_credits(const struct new_inode *new_inode)
{
	return G4_NAME_CREDITS + (!g4_address_is_none(new_inode->target.address) || new_inode->acl.access_bytes ||
						  new_inode->acl.default_bytes ?
					  NEW_ATTRIBUTE_CREDITS :
					  0);
}

/*
 * Tells and lets go of what make_inode() made, and leaves the transaction: one fence for these and what the caller lets go of next. After a
 * failure it takes the inode back.
 */
G4_FN static void finish_inode(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, const struct g4_cmd *cmd,
			       uint32_t index, int rc)
{
	if (rc == 0) {
		struct g4_inode_core *inode = g4_icache_at(fs, index);
		if (cmd->attr)
			g4_fill_attr(inode, cmd->attr);
		g4_fence_rel();
		g4_write_unlock_fenced(&inode->lock);
		g4_icache_put_fenced(fs, index);
		g4_txn_end_fenced(txn);
		return;
	}
	if (index != G4_NO_INODE) { /* also where it is to be made once more, with the directory alone */
		int undone = g4_undo_new_inode(wg, fs, txn, index);
		if (undone < 0)
			g4_fs_error(fs, undone);
	}
	g4_end(fs, txn, rc);
}

/* Puts the new inode and its name into a write-locked directory. */
G4_FN static int enter_alone(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *parent,
			     const struct g4_named *name, uint32_t index)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	struct g4_dir dir = g4_dir_of(fs, parent);
	int rc = g4_dir_insert(wg, &dir, txn, name->slot, name->text, name->bytes, inode->ino,
			       g4_dirent_type(inode->disk.mode));

	if (rc == 0) {
		g4_dir_changed(parent, &dir, 1, inode->disk.btime_ns);
		parent->disk.nlink += g4_is_dir(inode->disk.mode);
		rc = g4_inode_log(wg, fs, txn, inode);
	} else {
		g4_dir_grown(parent, &dir);
	}
	int logged = g4_inode_log(wg, fs, txn, parent);
	rc = rc < 0 ? rc : logged;
	if (rc == 0) {
		const struct g4_lookup_name key =
			g4_lookup_key_of(fs, parent, name->slot->hash, name->text, name->bytes);
		g4_name_remember(fs, &key, index);
	}
	return rc;
}

/* The same in a read-locked one; or G4_ALONE or G4_NO_ROOM. The name comes last, for others may find it at once. */
G4_FN static int enter_shared(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *parent,
			      const struct g4_named *name, uint32_t index)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	const int rc = g4_inode_log(wg, fs, txn, inode);

	return rc < 0 ? rc : g4_makers_insert(wg, fs, txn, parent, name, index, inode->disk.btime_ns);
}

/* What as many makers as can be may add to a count that each of them has looked at. */
#define MOST_MAKERS 65536u

/* Whether a new inode and its name need the directory alone: to take the inode back would need more than its slot. */
G4_FN static bool needs_alone(const struct g4_inode_core *parent, const struct new_inode *new_inode, uint32_t type)
{
	return type == G4_S_IFLNK || new_inode->acl.access_bytes || new_inode->acl.default_bytes ||
	       g4_load32_rlx(&parent->disk.nlink) >= G4_LINK_MAX - MOST_MAKERS;
}

/* A name for a new inode in the locked directory, where `slot` says that it is not there. May say G4_ALONE or G4_NO_ROOM if that is shared. */
G4_FN static int make_in(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *parent, struct g4_cmd *cmd,
			 uint32_t type, enum g4_locked how, struct g4_dir_slot *slot)
{
	const struct g4_named name = {cmd->name, cmd->name_bytes, slot, false};
	struct new_inode new_inode;
	struct g4_txn txn;
	uint32_t index = G4_NO_INODE;
	int rc = prepare(wg, fs, parent, cmd, type, &new_inode);

	if (rc == 0 && how == G4_LOCKED_SHARED && needs_alone(parent, &new_inode, type))
		return G4_ALONE;
	const int lack = how == G4_LOCKED_SHARED ? g4_makers_lack(slot, name.bytes) : 0;
	if (rc == 0 && lack)
		return lack;
	if (rc == 0 && type == G4_S_IFDIR && g4_load32_rlx(&parent->disk.nlink) >= G4_LINK_MAX)
		rc = -G4_E_MLINK;
	if (rc == 0)
		rc = g4_name_allow(wg, fs, slot);
	if (rc == 0 && type == G4_S_IFLNK)
		rc = g4_link_store(wg, fs, new_inode.policy, cmd->name2, cmd->name2_bytes, &new_inode.target);
	if (rc == 0)
		rc = g4_begin(wg, fs, new_inode_credits(&new_inode) + g4_dir_insert_credits(slot, cmd->name_bytes),
			      &txn);
	if (rc < 0) {
		if (!g4_address_is_none(new_inode.target.address))
			g4_link_drop(fs, &new_inode.target);
		return rc;
	}
	rc = make_inode(wg, fs, &txn, parent, cmd, &new_inode, &index);
	if (rc == 0)
		rc = how == G4_LOCKED_ALONE ? enter_alone(wg, fs, &txn, parent, &name, index) :
					      enter_shared(wg, fs, &txn, parent, &name, index);
	if (rc == 0) {
		if (cmd->op == G4_CMD_CREATE)
			g4_open_new(fs, index, cmd);
		cmd->value = 1;
	}
	finish_inode(wg, fs, &txn, cmd, index, rc);
	if (rc < 0 && !g4_address_is_none(new_inode.target.address) && !new_inode.published)
		g4_link_drop(fs, &new_inode.target);
	return rc;
}

/*
 * Whether CREATE may open what is there already, in the locked directory. *child is referenced, unless it fails: it is the file that
 * the name means.
 */
G4_FN static int find_made(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *parent, const struct g4_cmd *cmd,
			   enum g4_locked how, struct g4_dir_slot *slot, uint32_t *child)
{
	int rc = g4_name_get(wg, fs, parent, how, cmd->name, cmd->name_bytes, false, slot, child);

	if (rc == -G4_E_NOENT && how == G4_LOCKED_SHARED)
		return G4_ALONE;
	if (rc < 0)
		return rc;
	struct g4_inode_core *inode = g4_icache_at(fs, *child);
	if (slot->file_type == 4)
		rc = -G4_E_ISDIR;
	if (rc == 0 && !g4_is_trusted(cmd->cred) && (parent->disk.mode & G4_S_ISVTX)) {
		rc = g4_check_child(fs, parent, *child);
		if (rc == 0) {
			g4_read_lock(&inode->lock);
			rc = g4_may_reuse(parent, inode, cmd->cred);
			g4_read_unlock(&inode->lock);
		}
	}
	if (rc < 0)
		g4_icache_put(fs, *child);
	return rc;
}

/* What mknod(2) makes, with its errors. */
G4_FN static int check_node_type(uint32_t type)
{
	switch (type) {
	case G4_S_IFREG:
	case G4_S_IFIFO:
	case G4_S_IFSOCK:
	case G4_S_IFCHR:
	case G4_S_IFBLK:
		return 0;
	case G4_S_IFDIR:
		return -G4_E_PERM;
	default:
		return -G4_E_INVAL;
	}
}

/*
 * Makes a name in the referenced directory, or finds what has it: *child, referenced, which CREATE opens, else G4_NO_INODE. With
 * the directory shared it may say G4_ALONE or G4_NO_ROOM, with nothing done.
 */
G4_FN static int make_or_find(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *parent, struct g4_cmd *cmd,
			      uint32_t type, enum g4_locked how, uint32_t *child)
{
	struct g4_dir_slot slot;

	*child = G4_NO_INODE;
	g4_dir_lock(fs, parent, how);
	int rc = g4_check_dir(wg, fs, parent, cmd->cred, G4_ACCESS_EXEC);
	if (rc == 0)
		rc = g4_name_find(wg, fs, parent, how, cmd->name, cmd->name_bytes, &slot);
	bool exists = rc == 0;
	if (rc == -G4_E_NOENT && g4_load32_rlx(&parent->disk.nlink) > 0)
		rc = g4_check_dir(wg, fs, parent, cmd->cred, G4_ACCESS_WRITE | G4_ACCESS_EXEC);
	if (rc == 0 && !exists)
		rc = make_in(wg, fs, parent, cmd, type, how, &slot);
	else if (exists && (cmd->op != G4_CMD_CREATE || (cmd->flags & G4_OPEN_EXCL)))
		rc = -G4_E_EXIST;
	else if (exists)
		rc = find_made(wg, fs, parent, cmd, how, &slot, child);
	if (rc != 0 || exists) /* else make_in() has had its fence, and nothing was written since */
		g4_fence_rel();
	g4_dir_unlock_fenced(parent, how);
	return rc;
}

/* Beside other makers, if that is possible; or G4_ALONE. */
G4_FN static int make_beside(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *parent, struct g4_cmd *cmd,
			     uint32_t type, uint32_t *child)
{
	int rc = G4_NO_ROOM;

	for (uint32_t tries = 0; rc == G4_NO_ROOM && tries < G4_MAKERS_TRIES; tries++) {
		rc = tries > 0 ? g4_makers_make_room(wg, fs, parent, cmd->cred, cmd->name, cmd->name_bytes) : 0;
		if (rc == 0)
			rc = make_or_find(wg, fs, parent, cmd, type, G4_LOCKED_SHARED, child);
	}
	return rc == G4_NO_ROOM ? G4_ALONE : rc;
}

/* A hint, of an inode that is not locked: a directory's first page is made by the workgroup that has it alone. */
G4_FN static bool has_pages(const struct g4_inode_core *dir)
{
	uint64_t pages;

	g4_peek(&pages, &dir->disk.pages, 1);
	return pages > 0;
}

G4_FN int g4_do_make(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	uint32_t type = cmd->op == G4_CMD_MKDIR	  ? G4_S_IFDIR :
			cmd->op == G4_CMD_SYMLINK ? G4_S_IFLNK :
			cmd->op == G4_CMD_CREATE  ? G4_S_IFREG :
						    cmd->mode & G4_S_IFMT;
	uint32_t index, child;
	int rc = g4_check_name(cmd->name, cmd->name_bytes);

	if (rc == 0 && type == 0)
		type = G4_S_IFREG;
	if (rc == 0 && cmd->op == G4_CMD_MKNOD)
		rc = check_node_type(type);
	if (rc == 0 && type == G4_S_IFLNK && (cmd->name2_bytes == 0 || cmd->name2_bytes >= G4_PATH_MAX))
		rc = cmd->name2_bytes ? -G4_E_NAMETOOLONG : -G4_E_NOENT;
	if (rc == 0)
		rc = g4_icache_get_node(wg, fs, cmd, &index);
	if (rc < 0)
		return rc;
	struct g4_inode_core *parent = g4_icache_at(fs, index);
	rc = has_pages(parent) ? make_beside(wg, fs, parent, cmd, type, &child) : G4_ALONE;
	if (rc == G4_ALONE)
		rc = make_or_find(wg, fs, parent, cmd, type, G4_LOCKED_ALONE, &child);
	g4_icache_put_fenced(fs, index); /* behind what let go of the directory */
	if (rc == 0 && child != G4_NO_INODE) {
		cmd->value = 0;
		rc = g4_open_inode(wg, fs, child, cmd);
	}
	return g4_check(fs, rc);
}

G4_FN int g4_do_tmpfile(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	struct new_inode new_inode;
	struct g4_txn txn;
	uint32_t parent, index = G4_NO_INODE;
	int rc = g4_icache_get_node(wg, fs, cmd, &parent);

	if (rc < 0)
		return rc;
	struct g4_inode_core *dir = g4_icache_at(fs, parent);
	g4_read_lock(&dir->lock);
	rc = g4_check_dir(wg, fs, dir, cmd->cred, G4_ACCESS_WRITE | G4_ACCESS_EXEC);
	if (rc == 0)
		rc = prepare(wg, fs, dir, cmd, G4_S_IFREG, &new_inode);
	g4_read_unlock(&dir->lock);
	g4_icache_put(fs, parent);
	if (rc == 0)
		rc = g4_begin(wg, fs, new_inode_credits(&new_inode), &txn);
	if (rc < 0)
		return g4_check(fs, rc);
	rc = make_inode(wg, fs, &txn, NULL, cmd, &new_inode, &index);
	if (rc == 0) {
		struct g4_inode_core *inode = g4_icache_at(fs, index);
		inode->disk.nlink = 0;
		inode->unnamed = !(cmd->flags & G4_OPEN_EXCL);
		rc = g4_orphan_add(wg, fs, &txn, index); /* logs it */
	}
	if (rc == 0)
		g4_open_new(fs, index, cmd);
	finish_inode(wg, fs, &txn, cmd, index, rc);
	return g4_check(fs, rc);
}
