/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that are about one inode, and the switch that all commands go through. */
#include "data/bounce_stage.h"
#include "data/map_unite.h"
#include "fs/fs.h"
#include "inode/epoch.h"

/* ------------------------------------------------------------------ attributes */

G4_FN static int do_getattr(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	uint32_t i;
	int rc = g4_icache_get_target(wg, fs, cmd, &i);

	if (g4_trail_of(cmd))
		g4_trail_begin(g4_trail_of(cmd));
	if (rc < 0)
		return g4_check(fs, rc);
	struct g4_inode_core *inode = g4_icache_at(fs, i);
	g4_read_lock(&inode->lock);
	if (inode->dead) {
		rc = -G4_E_STALE;
	} else {
		g4_trail_note_attr(fs, g4_trail_of(cmd), inode);
		g4_fill_attr(inode, cmd->attr);
	}
	g4_read_unlock(&inode->lock);
	g4_icache_put(fs, i);
	return rc;
}

/*
 * Whether times are those that a kernel keeps for a file and tells at some time: nobody chose them, and a program's fsync()
 * fails if they are refused. It says them with the time of change alone: they are from before the inode could not be changed
 * any more, or equal, because somebody wrote or tried to.
 */
G4_FN static bool is_upkeep(const struct g4_inode_core *inode, const struct g4_cmd *cmd)
{
	if (!g4_is_trusted(cmd->cred) || !(cmd->mask & G4_SET_CTIME) || (cmd->mask & (G4_SET_ATIME | G4_SET_ATIME_NOW)))
		return false;
	if (cmd->mask & G4_SET_MTIME)
		return (int64_t)cmd->attr->ctime_ns <= (int64_t)inode->disk.ctime_ns;
	return (cmd->mask & G4_SET_MTIME_NOW) != 0;
}

G4_FN static int check_setattr(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode,
			       const struct g4_cmd *cmd)
{
	const struct g4_cred *cred = cmd->cred;
	const struct g4_attr *attr = cmd->attr;
	uint32_t mask = cmd->mask, times = G4_SET_ATIME | G4_SET_MTIME | G4_SET_CTIME;
	uint32_t now = G4_SET_ATIME_NOW | G4_SET_MTIME_NOW;
	bool writes = cmd->handle != 0 && (g4_handle_flags(cmd->handle) & G4_OPEN_WRITE);

	if (mask & ~G4_SET_ALL)
		return -G4_E_INVAL;
	if (inode->dead)
		return -G4_E_STALE;
	const uint32_t chosen = is_upkeep(inode, cmd) ? 0 : G4_SET_ATIME | G4_SET_MTIME;
	if ((inode->disk.flags & (G4_INODE_IMMUTABLE | G4_INODE_APPEND)) &&
	    (mask & (G4_SET_MODE | G4_SET_UID | G4_SET_GID | G4_SET_SIZE | chosen)))
		return -G4_E_PERM;
	if ((inode->disk.flags & G4_INODE_IMMUTABLE) && chosen && (mask & (now | G4_SET_CTIME)))
		return -G4_E_PERM;
	if ((mask & (G4_SET_MODE | times)) && !g4_is_owner(inode, cred))
		return -G4_E_PERM;
	if ((mask & G4_SET_KILL_SUIDGID) && !writes && !g4_is_owner(inode, cred))
		return -G4_E_PERM;
	if ((mask & G4_SET_FLAGS) &&
	    (!g4_is_owner(inode, cred) ||
	     (((attr->flags ^ inode->disk.flags) & (G4_INODE_IMMUTABLE | G4_INODE_APPEND)) && !g4_is_root(cred))))
		return -G4_E_PERM;
	if ((mask & G4_SET_UID) && !g4_is_root(cred) && (cred->uid != inode->disk.uid || attr->uid != inode->disk.uid))
		return -G4_E_PERM;
	if ((mask & G4_SET_GID) && !g4_is_root(cred) &&
	    (cred->uid != inode->disk.uid || (attr->gid != inode->disk.gid && !g4_in_group(cred, attr->gid))))
		return -G4_E_PERM;
	if (mask & G4_SET_SIZE) {
		if (g4_is_dir(inode->disk.mode))
			return -G4_E_ISDIR;
		if (!g4_is_reg(inode->disk.mode))
			return -G4_E_INVAL;
		if (cmd->handle == 0) {
			int rc = g4_permission(wg, fs, inode, cred, G4_ACCESS_WRITE);
			if (rc < 0)
				return rc;
		} else if (!writes) {
			return -G4_E_INVAL;
		}
	}
	if ((mask & now) && !(mask & times) && !g4_is_owner(inode, cred))
		return g4_permission(wg, fs, inode, cred, G4_ACCESS_WRITE);
	return 0;
}

/* An access ACL follows the mode. */
G4_FN static int change_mode(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			     const struct g4_cmd *cmd)
{
	uint32_t mode = (inode->disk.mode & G4_S_IFMT) | (cmd->attr->mode & 07777u);
	uint64_t bytes;

	if (!g4_is_root(cmd->cred) && !g4_in_group(cmd->cred, inode->disk.gid))
		mode &= ~G4_S_ISGID;
	inode->disk.mode = (g4_le16)mode;
	if (inode->disk.xattr == 0 || g4_is_link(mode))
		return 0;
	uint8_t acl[G4_ACL_MAX_BYTES];
	int rc = g4_xattr_get(wg, fs, inode, G4_XATTR_ACL_ACCESS, "", 0, acl, sizeof(acl), &bytes);
	if (rc == -G4_E_NODATA)
		return 0;
	if (rc < 0)
		return rc;
	g4_acl_chmod(acl, bytes, mode);
	return g4_xattr_set(wg, fs, txn, inode, G4_XATTR_ACL_ACCESS, "", 0, acl, bytes, G4_XATTR_REPLACE);
}

G4_FN static int apply(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
		       const struct g4_cmd *cmd)
{
	const struct g4_attr *attr = cmd->attr;
	uint64_t now = cmd->mask & G4_SET_CTIME ? attr->ctime_ns : g4_now(fs);
	uint32_t settable = G4_INODE_IMMUTABLE | G4_INODE_APPEND | G4_INODE_NODUMP | G4_INODE_NOATIME;
	uint32_t mask = cmd->mask;
	int rc = 0;

	/* of a change that was refused, which the kernel did not know when it took the time */
	if ((inode->disk.flags & G4_INODE_IMMUTABLE) && (mask & G4_SET_CTIME) &&
	    (int64_t)attr->ctime_ns > (int64_t)inode->disk.ctime_ns)
		return 0;
	if (mask & (G4_SET_UID | G4_SET_GID | G4_SET_KILL_SUIDGID))
		inode->disk.mode = (g4_le16)g4_mode_less_ids(inode, cmd->cred);
	if (mask & G4_SET_UID)
		inode->disk.uid = attr->uid;
	if (mask & G4_SET_GID)
		inode->disk.gid = attr->gid;
	if (mask & G4_SET_MODE)
		rc = change_mode(wg, fs, txn, inode, cmd);
	if (mask & G4_SET_FLAGS)
		inode->disk.flags = (inode->disk.flags & ~settable) | (attr->flags & settable);
	if (mask & (G4_SET_ATIME | G4_SET_ATIME_NOW))
		inode->disk.atime_ns = mask & G4_SET_ATIME ? attr->atime_ns : now;
	if (mask & (G4_SET_MTIME | G4_SET_MTIME_NOW))
		inode->disk.mtime_ns = mask & G4_SET_MTIME ? attr->mtime_ns : now;
	inode->disk.ctime_ns = now;
	if (mask & G4_SET_CTIME)
		g4_saw_stamp(fs, attr->ctime_ns);
	return rc;
}

G4_FN int g4_do_setattr(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	struct g4_txn txn;
	uint32_t i;
	int rc = g4_icache_get_target(wg, fs, cmd, &i);

	if (rc < 0)
		return g4_check(fs, rc);
	struct g4_inode_core *inode = g4_icache_at(fs, i);
	g4_icache_lock(fs, inode);
	rc = check_setattr(wg, fs, inode, cmd);
	if (rc == 0 && inode->disk.xattr && (cmd->mask & (G4_SET_UID | G4_SET_GID | G4_SET_KILL_SUIDGID)))
		rc = g4_drop_capability(wg, fs, inode);
	if (rc == 0 && (cmd->mask & G4_SET_SIZE)) {
		rc = cmd->attr->size > G4_FILE_MAX_BYTES ? -G4_E_FBIG : g4_drop_privileges(wg, fs, i, cmd->cred);
		if (rc == 0)
			rc = g4_file_truncate(wg, fs, i, cmd->attr->size);
	}
	/* a size alone needs no transaction of its own: truncate had one */
	if (rc == 0 && (cmd->mask & ~G4_SET_SIZE)) {
		rc = g4_begin(wg, fs, 16, &txn);
		if (rc == 0) {
			const struct g4_inode before = inode->disk;
			rc = apply(wg, fs, &txn, inode, cmd);
			rc = g4_end(fs, &txn, g4_inode_settle(wg, fs, &txn, inode, &before, rc));
		}
	}
	if (rc == 0)
		g4_fill_attr(inode, cmd->attr);
	g4_write_unlock(&inode->lock);
	g4_icache_put(fs, i);
	return g4_check(fs, rc);
}

G4_FN static int do_access(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	uint32_t i;
	int rc = g4_icache_get_node(wg, fs, cmd, &i);

	if (rc < 0)
		return g4_check(fs, rc);
	g4_read_lock(&g4_icache_at(fs, i)->lock);
	rc = g4_permission(wg, fs, g4_icache_at(fs, i), cmd->cred, cmd->flags & 7);
	g4_read_unlock(&g4_icache_at(fs, i)->lock);
	if (rc == 0 && (cmd->flags & G4_ACCESS_WRITE) && (fs->flags & G4_FS_READ_ONLY))
		rc = -G4_E_ROFS;
	g4_icache_put(fs, i);
	return g4_check(fs, rc);
}

/* ------------------------------------------------------------------ contents */

G4_FN static int check_regular(const struct g4_inode_core *inode)
{
	if (inode->dead)
		return -G4_E_STALE;
	return g4_is_reg(inode->disk.mode) ? 0 : g4_is_dir(inode->disk.mode) ? -G4_E_ISDIR : -G4_E_INVAL;
}

G4_FN static int do_read(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	uint32_t i;
	int rc;

	cmd->value = 0;
	if (cmd->handle && !(g4_handle_flags(cmd->handle) & G4_OPEN_READ))
		return -G4_E_BADF;
	rc = g4_icache_get_target(wg, fs, cmd, &i);
	if (rc < 0)
		return g4_check(fs, rc);
	struct g4_inode_core *inode = g4_icache_at(fs, i);
	g4_read_lock(&inode->lock);
	rc = check_regular(inode);
	const bool bypass = (g4_handle_flags(cmd->handle) & G4_OPEN_DIRECT) != 0;
	if (rc == 0)
		rc = g4_file_read(wg, fs, i, cmd->offset, cmd->data, cmd->length, bypass, &cmd->value);
	if (rc == 0 && !(cmd->flags & G4_READ_AHEAD) && !(g4_handle_flags(cmd->handle) & G4_OPEN_NOATIME))
		g4_touch_read(fs, i);
	g4_read_unlock(&inode->lock);
	g4_icache_put(fs, i);
	return g4_check(fs, rc);
}

/* The command's own flag before the handle's. */
G4_FN static enum g4_dedup_wish wish_of(const struct g4_cmd *cmd)
{
	const uint32_t flags = g4_handle_flags(cmd->handle), own = cmd->flags & (G4_WRITE_DEDUP | G4_WRITE_NODEDUP);

	if (own)
		return own == G4_WRITE_DEDUP ? G4_DEDUP_WISHED : G4_DEDUP_REFUSED;
	return flags & G4_OPEN_NODEDUP ? G4_DEDUP_REFUSED :
	       flags & G4_OPEN_DEDUP   ? G4_DEDUP_WISHED :
					 G4_DEDUP_BY_POLICY;
}

/*
 * Of a locked regular file that gets bytes. What is shared and listed has its features in the superblocks before. Where they can not be
 * had, as during a resize, the wish is not met, which fails no write.
 */
G4_FN static enum g4_dedup_wish grant_wish(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode,
					   enum g4_dedup_wish wish)
{
	if (wish != G4_DEDUP_WISHED || !g4_ddt_is_there(&fs->ddt) || !g4_sums_wanted(fs, inode))
		return wish;
	return g4_super_add_feature(wg, fs, G4_FEATURES_DEDUP) < 0 ? G4_DEDUP_BY_POLICY : G4_DEDUP_WISHED;
}

G4_FN static int write_once(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, struct g4_cmd *cmd)
{
	enum g4_dedup_wish wish = wish_of(cmd);
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	uint32_t flags = g4_handle_flags(cmd->handle);
	struct g4_stage_ahead ahead = {.count = 0};

	if (!(flags & G4_OPEN_APPEND))
		g4_file_write_ahead(wg, fs, index, cmd->offset, cmd->data, cmd->length, wish, &ahead);
	g4_icache_lock(fs, inode);
	int rc = check_regular(inode);
	/* handles from before it was; of an append-only one they may write what they like, as in Linux */
	if (rc == 0 && (inode->disk.flags & G4_INODE_IMMUTABLE) && !(cmd->flags & G4_WRITE_TAKEN))
		rc = -G4_E_PERM;
	if (rc == 0 && cmd->length > 0)
		rc = g4_drop_privileges(wg, fs, index, cmd->cred);
	if (flags & G4_OPEN_APPEND)
		cmd->offset = inode->size; /* tells the caller where */
	if (rc == 0 && cmd->length > 0)
		wish = grant_wish(wg, fs, inode, wish);
	if (rc == 0)
		rc = g4_file_write(wg, fs, index, cmd->offset, cmd->data, cmd->length, wish, &ahead, &cmd->value);
	g4_write_unlock(&inode->lock);
	g4_stage_drop(fs, &ahead);
	return rc;
}

G4_FN static int do_write(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	uint32_t flags = g4_handle_flags(cmd->handle), i;
	int rc;

	cmd->value = 0;
	if (cmd->handle && !(flags & G4_OPEN_WRITE))
		return -G4_E_BADF;
	if (fs->flags & G4_FS_READ_ONLY)
		return -G4_E_ROFS;
	if (g4_load32_acq(&fs->journal.aborted))
		return -G4_E_ROFS;
	/* of the pages that can not be written those of this file are told by its own write-back, others' to who syncs them */
	if (g4_dirty_pressure(fs, true))
		(void)g4_writeback_all(wg, fs);
	rc = g4_icache_get_target(wg, fs, cmd, &i);
	if (rc < 0)
		return g4_check(fs, rc);
	rc = write_once(wg, fs, i, cmd);
	if (rc == -G4_E_NOSPC) {
		/* dirty pages hold more space than they will need: with none of them left the answer is exact */
		(void)g4_writeback_all(wg, fs);
		rc = g4_commit(wg, fs, UINT64_MAX, false);
		(void)g4_jobs_give_room(wg, fs); /* what a rebalancing has taken */
		if (rc == 0)
			rc = write_once(wg, fs, i, cmd);
	}
	if (rc == 0 && (flags & (G4_OPEN_SYNC | G4_OPEN_DSYNC)))
		rc = g4_fsync(wg, fs, i);
	g4_icache_put(fs, i);
	return g4_check(fs, rc);
}

G4_FN static int do_fsync(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	uint32_t i;
	int rc = g4_icache_get_target(wg, fs, cmd, &i);

	if (rc < 0)
		return g4_check(fs, rc);
	rc = g4_fsync(wg, fs, i);
	g4_icache_put(fs, i);
	return g4_check(fs, rc);
}

G4_FN static int allocate_locked(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, const struct g4_cmd *cmd)
{
	const struct g4_inode_core *inode = g4_icache_at(fs, index);
	bool immutable = inode->disk.flags & G4_INODE_IMMUTABLE, append = inode->disk.flags & G4_INODE_APPEND;
	int rc = g4_file_check_range(cmd->flags, cmd->offset, cmd->length);

	if (immutable || (append && (cmd->flags & ~G4_FALLOC_KEEP_SIZE)))
		return -G4_E_PERM;
	if (rc == 0)
		rc = g4_file_check_shift(inode, cmd->flags, cmd->offset, cmd->length);
	if (rc == 0)
		rc = g4_drop_privileges(wg, fs, index, cmd->cred);
	return rc < 0 ? rc : g4_file_allocate(wg, fs, index, cmd->flags, cmd->offset, cmd->length);
}

/* FALLOCATE and SEEK, which need the inode locked for writing. */
G4_FN static int do_extent(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	uint32_t i;
	int rc;

	if (cmd->op == G4_CMD_FALLOCATE && cmd->handle && !(g4_handle_flags(cmd->handle) & G4_OPEN_WRITE))
		return -G4_E_BADF;
	rc = g4_icache_get_target(wg, fs, cmd, &i);
	if (rc < 0)
		return g4_check(fs, rc);
	struct g4_inode_core *inode = g4_icache_at(fs, i);
	if (cmd->op == G4_CMD_SEEK)
		g4_write_lock(&inode->lock);
	else
		g4_icache_lock(fs, inode);
	rc = check_regular(inode);
	if (rc == 0 && cmd->op == G4_CMD_SEEK)
		rc = g4_file_seek(wg, fs, i, cmd->offset, cmd->flags, &cmd->value);
	else if (rc == 0)
		rc = allocate_locked(wg, fs, i, cmd);
	g4_write_unlock(&inode->lock);
	if (rc == 0 && cmd->op == G4_CMD_FALLOCATE && (g4_handle_flags(cmd->handle) & (G4_OPEN_SYNC | G4_OPEN_DSYNC)))
		rc = g4_fsync(wg, fs, i);
	g4_icache_put(fs, i);
	return g4_check(fs, rc);
}

#define COPY_MAX_BYTES G4_GIB
#define SAME_MAX_BYTES (16 * G4_MIB) /* it may all be read, under both locks */

/* The rest of the pages: with it indirect pages become the target's, for which there is a feature that is not added before it is needed. */
G4_FN static int share_maps(struct g4_wg *wg, struct g4_fs *fs, const struct g4_cmd *cmd, uint64_t length,
			    uint64_t pages, uint32_t from, uint32_t to, uint64_t *shared)
{
	const uint64_t before = *shared;
	int rc = g4_super_add_feature(wg, fs, G4_FEATURES_REFLINK_MAPS);

	if (rc < 0)
		return rc == -G4_E_BUSY && !(cmd->flags & G4_COPY_SHARE) ? 0 : rc;
	rc = g4_file_clone(wg, fs, from, (cmd->offset >> G4_PAGE_SHIFT) + before, to,
			   (cmd->offset2 >> G4_PAGE_SHIFT) + before, pages - before, cmd->offset2 + length, shared);
	*shared += before;
	return rc;
}

/*
 * Whole pages of what COPY_RANGE is to copy: *done bytes of them are shared from now on. What can not be shared is not, and that
 * is an error with G4_COPY_SHARE only. The last page of a file counts as whole where it becomes the last one again.
 */
G4_FN static int share_pages(struct g4_wg *wg, struct g4_fs *fs, const struct g4_cmd *cmd, uint64_t length,
			     uint32_t from, uint32_t to, uint64_t *done)
{
	struct g4_inode_core *source = g4_icache_at(fs, from), *target = g4_icache_at(fs, to);
	const bool only = cmd->flags & G4_COPY_SHARE;
	uint64_t pages, shared = 0;
	int rc;

	g4_icache_lock_two(fs, source, target);
	rc = check_regular(source);
	if (rc == 0)
		rc = check_regular(target);
	if (rc == 0 && (target->disk.flags & G4_INODE_IMMUTABLE))
		rc = -G4_E_PERM;
	length = cmd->offset < source->size ? g4_min64(length, source->size - cmd->offset) : 0;
	pages = length >> G4_PAGE_SHIFT;
	if (cmd->offset + length == source->size && cmd->offset2 + length >= target->size)
		pages = g4_pages_for(length);
	if (rc == 0 && only && pages << G4_PAGE_SHIFT < length)
		rc = -G4_E_INVAL;
	if (rc == 0 && pages > 0) {
		rc = g4_super_add_feature(wg, fs, G4_FEATURES_REFLINK);
		pages = rc == -G4_E_BUSY ? 0 : pages; /* the size is just changing */
		if (rc == 0 || (rc == -G4_E_BUSY && !only))
			rc = g4_drop_privileges(wg, fs, to, cmd->cred);
		if (rc == 0)
			rc = g4_file_clone(wg, fs, from, cmd->offset >> G4_PAGE_SHIFT, to,
					   cmd->offset2 >> G4_PAGE_SHIFT, pages, cmd->offset2 + length, &shared);
		if (rc == -G4_E_AGAIN)
			rc = share_maps(wg, fs, cmd, length, pages, from, to, &shared);
		if (!only && (rc == -G4_E_NOSPC || rc == -G4_E_MLINK))
			rc = 0;
	}
	*done = g4_min64(shared << G4_PAGE_SHIFT, length);
	g4_icache_unlock_two(source, target);
	return rc;
}

/* And indirect pages that lead to the same then. That is none of what the command was asked for: what can not be is left. */
G4_FN static int share_same_maps(struct g4_wg *wg, struct g4_fs *fs, const struct g4_cmd *cmd, uint64_t pages,
				 uint32_t from, uint32_t to)
{
	const uint64_t from_page = cmd->offset >> G4_PAGE_SHIFT, to_page = cmd->offset2 >> G4_PAGE_SHIFT;
	int rc = g4_map_unite(wg, fs, from, from_page, to, to_page, pages);

	if (rc == -G4_E_AGAIN) {
		rc = g4_super_add_feature(wg, fs, G4_FEATURES_REFLINK_MAPS);
		if (rc == 0)
			rc = g4_map_unite(wg, fs, from, from_page, to, to_page, pages);
	}
	return rc == -G4_E_BUSY || rc == -G4_E_NOSPC ? 0 : rc;
}

/*
 * Pages that are the same in both become one: *done bytes. What is behind the end of one of the files does not count; a page in which
 * one ends may be shared, for it is the same behind that, too.
 */
G4_FN static int share_same_pages(struct g4_wg *wg, struct g4_fs *fs, const struct g4_cmd *cmd, uint64_t length,
				  uint32_t from, uint32_t to, uint64_t *done)
{
	struct g4_inode_core *source = g4_icache_at(fs, from), *target = g4_icache_at(fs, to);
	uint64_t shared = 0;

	g4_icache_lock_two(fs, source, target);
	int rc = check_regular(source);
	if (rc == 0)
		rc = check_regular(target);
	if (rc == 0 && (target->disk.flags & G4_INODE_IMMUTABLE))
		rc = -G4_E_PERM;
	const uint64_t wanted = length;
	length = cmd->offset < source->size ? g4_min64(length, source->size - cmd->offset) : 0;
	length = cmd->offset2 < target->size ? g4_min64(length, target->size - cmd->offset2) : 0;
	if (rc == 0 && length == wanted && length % G4_PAGE_BYTES != 0 && cmd->offset + length < source->size &&
	    cmd->offset2 + length < target->size)
		rc = -G4_E_INVAL;
	const bool zeros = (cmd->flags & G4_COPY_ZEROS) != 0, compare = (cmd->flags & G4_COPY_COMPARE) != 0;
	if (rc == 0 && length > 0 && !zeros)
		rc = g4_super_add_feature(wg, fs, G4_FEATURE_INCOMPAT_SHARED);
	if (rc == 0 && length > 0 && zeros)
		rc = g4_file_dig(wg, fs, to, cmd->offset2 >> G4_PAGE_SHIFT, g4_pages_for(length), compare, &shared);
	else if (rc == 0 && length > 0)
		rc = g4_file_dedupe(wg, fs, from, cmd->offset >> G4_PAGE_SHIFT, to, cmd->offset2 >> G4_PAGE_SHIFT,
				    g4_pages_for(length), compare, &shared);
	if (rc == 0 && shared > 0 && !zeros)
		rc = share_same_maps(wg, fs, cmd, shared, from, to);
	*done = g4_min64(shared << G4_PAGE_SHIFT, length);
	g4_icache_unlock_two(source, target);
	return rc;
}

/* The part of COPY_RANGE that needs no copying. */
G4_FN static int share_range(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd, uint64_t length, uint64_t *done)
{
	struct g4_cmd target = {0};
	uint32_t from, to;
	int rc;

	*done = 0;
	if (length == 0)
		return 0;
	if (cmd->offset % G4_PAGE_BYTES != 0 || cmd->offset2 % G4_PAGE_BYTES != 0)
		return cmd->flags & (G4_COPY_SHARE | G4_COPY_SAME) ? -G4_E_INVAL : 0;
	if (!(g4_handle_flags(cmd->handle) & G4_OPEN_READ) || !(g4_handle_flags(cmd->handle2) & G4_OPEN_WRITE))
		return -G4_E_BADF;
	if ((fs->flags & G4_FS_READ_ONLY) || g4_load32_acq(&fs->journal.aborted))
		return -G4_E_ROFS;
	rc = g4_icache_get_target(wg, fs, cmd, &from);
	if (rc < 0)
		return g4_check(fs, rc);
	target.handle = cmd->handle2;
	rc = g4_icache_get_target(wg, fs, &target, &to);
	if (rc == 0) {
		if (cmd->flags & G4_COPY_SAME)
			rc = share_same_pages(wg, fs, cmd, length, from, to, done);
		else
			rc = share_pages(wg, fs, cmd, length, from, to, done);
		if (rc == 0 && *done > 0 && (g4_handle_flags(cmd->handle2) & (G4_OPEN_SYNC | G4_OPEN_DSYNC)))
			rc = g4_fsync(wg, fs, to);
		g4_icache_put(fs, to);
	}
	g4_icache_put(fs, from);
	return g4_check(fs, rc);
}

/* What can not be shared is copied in pieces, through memory that reads and writes do not use: one inode locked at a time. */
G4_FN static int do_copy_range(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	struct g4_cmd read = {0}, write = {0};
	uint64_t done = 0;
	int rc = 0;

	if (g4_handle_flags(cmd->handle2) & G4_OPEN_APPEND)
		return -G4_E_BADF;
	if ((cmd->flags & ~G4_COPY_FLAGS) ||
	    ((cmd->flags & (G4_COPY_COMPARE | G4_COPY_ZEROS)) && !(cmd->flags & G4_COPY_SAME)))
		return -G4_E_INVAL;
	/* one command is not to run for ever: less than was asked for is what callers must expect */
	uint64_t length = g4_min64(cmd->length, cmd->flags & G4_COPY_SAME ? SAME_MAX_BYTES : COPY_MAX_BYTES);
	const uint64_t last = g4_max64(cmd->offset, cmd->offset2);
	if (last > UINT64_MAX - cmd->length)
		return -G4_E_OVERFLOW;
	const bool one_file = g4_handle_index(cmd->handle) == g4_handle_index(cmd->handle2);
	if ((cmd->flags & G4_COPY_ZEROS) && !(one_file && cmd->offset == cmd->offset2))
		return -G4_E_INVAL;
	if (one_file && !(cmd->flags & G4_COPY_ZEROS) && last - g4_min64(cmd->offset, cmd->offset2) < cmd->length)
		return -G4_E_INVAL;
	rc = share_range(wg, fs, cmd, length, &done);
	if (cmd->flags & G4_COPY_SAME)
		length = done;
	else if (cmd->flags & G4_COPY_SHARE) /* a file that is its inode's has no pages: what is left is a few bytes */
		length = rc == 0 && done == 0 ? g4_min64(length, G4_INLINE_BYTES) : done;
	read.op = G4_CMD_READ;
	read.handle = cmd->handle;
	write.op = G4_CMD_WRITE;
	write.handle = cmd->handle2;
	write.cred = cmd->cred;
	const uint32_t mark = g4_scratch_mark(wg);
	uint8_t *buffer = (uint8_t *)g4_scratch_take(wg, G4_COPY_SCRATCH_BYTES);
	while (done < length && rc == 0) {
		read.offset = cmd->offset + done;
		read.length = g4_min64(length - done, G4_COPY_SCRATCH_BYTES);
		read.data = buffer;
		rc = do_read(wg, fs, &read);
		if (rc < 0 || read.value == 0)
			break;
		write.offset = cmd->offset2 + done;
		write.length = read.value;
		write.data = buffer;
		rc = do_write(wg, fs, &write);
		done += rc == 0 ? write.value : 0;
	}
	g4_scratch_release(wg, mark);
	cmd->value = done;
	return done > 0 ? 0 : rc;
}

G4_FN static int do_statfs(struct g4_fs *fs, struct g4_cmd *cmd)
{
	struct g4_statfs *out = (struct g4_statfs *)cmd->data;
	const uint64_t lent = g4_load64_acq(&fs->jobs.lent.pages);
	uint64_t free_pages = g4_alloc_free_in(&fs->alloc, G4_LEVEL_OWN),
		 pending = g4_load64_acq(&fs->alloc.pending_pages);
	uint64_t reserved = g4_load64_acq(&fs->alloc.reserved), keep = g4_alloc_keep(&fs->alloc);

	if (cmd->length < sizeof(*out))
		return -G4_E_INVAL;
	memset(out, 0, sizeof(*out));
	out->block_bytes = G4_PAGE_BYTES;
	out->blocks = g4_load64_rlx(&fs->alloc.total_pages) - g4_alloc_free_in(&fs->alloc, G4_POOL_GONE) + lent;
	out->blocks_free = g4_min64(free_pages + lent + pending, out->blocks); /* what comes back just now is in both */
	reserved += keep;
	out->blocks_available = out->blocks_free > reserved ? out->blocks_free - reserved : 0;
	if (g4_sums_algorithm(fs, 0) != G4_CHECKSUM_NONE && out->blocks_available > 0) {
		/* what fallocate(2) takes beside the pages of a file from its beginning (count_needs()) */
		const uint64_t pages = out->blocks_available - 1;
		out->blocks_available = pages - (pages + G4_SUMS_SLOTS) / (G4_SUMS_SLOTS + 1);
	}
	out->inodes_free = out->blocks_available * (G4_SLAB_SLOTS - 1);
	/* what files of other levels may have, and no others: it is free, and not available to all */
	out->blocks_free += g4_alloc_free_all(&fs->alloc) - free_pages;
	out->blocks_free = g4_min64(out->blocks_free, out->blocks);
	out->inodes = 0; /* a count of those in use would be one more block in every create's transaction */
	out->name_max = G4_NAME_MAX;
	out->flags = g4_fs_state(fs);
	memcpy(out->uuid, fs->super.uuid, sizeof(out->uuid));
	cmd->value = sizeof(*out);
	return 0;
}

/* Appends a run, or makes the last one longer where it continues it. */
G4_FN static uint32_t add_extent(struct g4_map_extent *extents, uint32_t count, uint64_t page, const struct g4_run *run,
				 bool shared)
{
	const uint64_t offset = page * G4_PAGE_BYTES, length = run->pages * G4_PAGE_BYTES;
	const uint32_t flags = (run->kind == G4_UNWRITTEN ? G4_MAP_UNWRITTEN : 0) | (run->level ? G4_MAP_HUGE : 0) |
			       (shared ? G4_MAP_SHARED : 0);
	struct g4_map_extent *last = &extents[count];

	if (count > 0 && last[-1].flags == flags && last[-1].offset + last[-1].length == offset &&
	    last[-1].address + last[-1].length == g4_address_stored(run->address)) {
		last[-1].length += length;
		return count;
	}
	memset(last, 0, sizeof(*last));
	last->offset = offset;
	last->length = length;
	last->address = g4_address_stored(run->address);
	last->flags = flags;
	return count + 1;
}

/* The runs of a file from cmd->offset on: as many as there is room for. The in-core inode is locked. */
G4_FN static int list_runs(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, struct g4_cmd *cmd)
{
	struct g4_map_extent *extents = (struct g4_map_extent *)cmd->data;
	const uint32_t room = (uint32_t)g4_min64(cmd->length / sizeof(*extents), UINT32_MAX);
	const uint64_t end = g4_map_capacity_pages(inode->disk.map_height);
	uint64_t page = cmd->offset / G4_PAGE_BYTES;
	uint32_t count = 0;
	struct g4_run run;

	cmd->value = 0;
	if (inode->disk.flags & G4_INODE_INLINE) {
		if (cmd->offset > 0 || inode->size == 0)
			return 0;
		memset(extents, 0, sizeof(*extents));
		extents->length = inode->size;
		extents->address = g4_address_stored(g4_ptr_address(inode->ino));
		extents->flags = G4_MAP_INLINE;
		cmd->value = sizeof(*extents);
		return 0;
	}
	for (; page < end; page += run.pages) {
		int rc = g4_map_lookup(wg, fs, inode, page, end - page, &run);
		if (rc < 0)
			return rc;
		if (run.kind == G4_HOLE)
			continue;
		/* one that is longer than what there is room for is seen by its beginning */
		if (count == room)
			break;
		const int shared = g4_map_is_shared(wg, fs, inode, page, &run);
		if (shared < 0)
			return shared;
		count = add_extent(extents, count, page, &run, shared > 0);
	}
	cmd->value = count * sizeof(*extents);
	return 0;
}

G4_FN static int do_map(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	uint32_t i;
	int rc;

	if (cmd->handle && !(g4_handle_flags(cmd->handle) & G4_OPEN_READ))
		return -G4_E_BADF;
	if (cmd->length < sizeof(struct g4_map_extent))
		return -G4_E_INVAL;
	rc = g4_icache_get_target(wg, fs, cmd, &i);
	if (rc < 0)
		return g4_check(fs, rc);
	struct g4_inode_core *inode = g4_icache_at(fs, i);
	g4_read_lock(&inode->lock);
	rc = check_regular(inode);
	if (rc == 0)
		rc = list_runs(wg, fs, inode, cmd);
	g4_read_unlock(&inode->lock);
	g4_icache_put(fs, i);
	return g4_check(fs, rc);
}

#define SUMS_AT_ONCE 64u

/* Stored pages of a file from cmd->offset on, as many as there is room for. The in-core inode is locked. */
G4_FN static int list_sums(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, struct g4_cmd *cmd,
			   struct g4_sum_entry *sums)
{
	struct g4_page_sum *out = (struct g4_page_sum *)cmd->data;
	const uint64_t room = cmd->length / sizeof(*out), end = g4_map_capacity_pages(inode->disk.map_height);
	uint64_t count = 0;
	struct g4_run run;

	cmd->value = 0;
	if (inode->disk.flags & G4_INODE_INLINE)
		return 0;
	for (uint64_t page = cmd->offset / G4_PAGE_BYTES; page < end && count < room; page += run.pages) {
		int rc = g4_map_lookup(wg, fs, inode, page, end - page, &run);
		if (rc < 0)
			return rc;
		if (run.kind != G4_WRITTEN)
			continue;
		run.pages = g4_min64(g4_min64(run.pages, SUMS_AT_ONCE), room - count);
		memset(sums, 0, SUMS_AT_ONCE * sizeof(*sums));
		if (g4_load64_acq(&fs->super.features_incompat) & G4_FEATURE_INCOMPAT_SUMS)
			rc = g4_map_sums(wg, fs, inode, page, (uint32_t)run.pages, sums);
		if (rc < 0)
			return rc;
		for (uint32_t k = 0; k < run.pages; k++, count++) {
			memset(&out[count], 0, sizeof(out[count]));
			out[count].offset = (page + k) * G4_PAGE_BYTES;
			out[count].address = g4_address_stored(g4_address_after_pages(run.address, k));
			out[count].algorithm = g4_sum_entry_algorithm(&sums[k]);
			memcpy(out[count].sum, &sums[k], sizeof(sums[k]));
		}
	}
	cmd->value = count * sizeof(*out);
	return 0;
}

G4_FN static int do_sums(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	uint32_t i;

	if (cmd->handle && !(g4_handle_flags(cmd->handle) & G4_OPEN_READ))
		return -G4_E_BADF;
	if (cmd->length < sizeof(struct g4_page_sum))
		return -G4_E_INVAL;
	int rc = g4_icache_get_target(wg, fs, cmd, &i);
	if (rc < 0)
		return g4_check(fs, rc);
	struct g4_inode_core *inode = g4_icache_at(fs, i);
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_sum_entry *sums = (struct g4_sum_entry *)g4_scratch_take(wg, SUMS_AT_ONCE * sizeof(*sums));
	g4_read_lock(&inode->lock);
	rc = check_regular(inode);
	if (rc == 0)
		rc = list_sums(wg, fs, inode, cmd, sums);
	g4_read_unlock(&inode->lock);
	g4_scratch_release(wg, mark);
	g4_icache_put(fs, i);
	return g4_check(fs, rc);
}

/* ------------------------------------------------------------------ the switch */

/* What a command calls: a row of G4_COMMANDS without it does not compile. */
#define DO_NOP 0
#define DO_LOOKUP g4_do_lookup(wg, fs, cmd)
#define DO_RESOLVE g4_do_resolve(wg, fs, cmd)
#define DO_GETATTR do_getattr(wg, fs, cmd)
#define DO_SETATTR g4_do_setattr(wg, fs, cmd)
#define DO_READLINK g4_do_readlink(wg, fs, cmd)
#define DO_MKNOD g4_do_make(wg, fs, cmd)
#define DO_MKDIR g4_do_make(wg, fs, cmd)
#define DO_SYMLINK g4_do_make(wg, fs, cmd)
#define DO_CREATE g4_do_make(wg, fs, cmd)
#define DO_LINK g4_do_link(wg, fs, cmd)
#define DO_UNLINK g4_do_remove(wg, fs, cmd)
#define DO_RMDIR g4_do_remove(wg, fs, cmd)
#define DO_RENAME g4_do_rename(wg, fs, cmd)
#define DO_CLEAR g4_do_clear(wg, fs, cmd)
#define DO_TALLY g4_do_tally(wg, fs, cmd)
#define DO_BATCH g4_do_batch(wg, fs, cmd)
#define DO_TMPFILE g4_do_tmpfile(wg, fs, cmd)
#define DO_OPEN g4_do_open(wg, fs, cmd)
#define DO_RELEASE g4_do_release(wg, fs, cmd)
#define DO_READ do_read(wg, fs, cmd)
#define DO_WRITE do_write(wg, fs, cmd)
#define DO_FSYNC do_fsync(wg, fs, cmd)
#define DO_SYNCFS g4_sync_all(wg, fs, false)
#define DO_FALLOCATE do_extent(wg, fs, cmd)
#define DO_SEEK do_extent(wg, fs, cmd)
#define DO_COPY_RANGE do_copy_range(wg, fs, cmd)
#define DO_READDIR g4_do_readdir(wg, fs, cmd)
#define DO_SETXATTR g4_do_setxattr(wg, fs, cmd)
#define DO_GETXATTR g4_do_getxattr(wg, fs, cmd)
#define DO_LISTXATTR g4_do_listxattr(wg, fs, cmd)
#define DO_REMOVEXATTR g4_do_removexattr(wg, fs, cmd)
#define DO_STATFS do_statfs(fs, cmd)
#define DO_ACCESS do_access(wg, fs, cmd)
#define DO_FORGET g4_do_forget(wg, fs, cmd)
#define DO_TRIM g4_trim(wg, fs, cmd->offset, cmd->length, cmd->least, &cmd->value)
#define DO_MAP do_map(wg, fs, cmd)
#define DO_SUMS do_sums(wg, fs, cmd)
#define DO_RESTRIPE g4_do_restripe(wg, fs, cmd)
#define DO_RESIZE g4_resize(wg, fs, cmd->bytes, false, &cmd->value)
#define DO_JOB_START g4_job_start(wg, fs, cmd)
#define DO_JOB_SET g4_job_set(wg, fs, cmd)
#define DO_JOB_LIST g4_job_list(fs, cmd)
#define DO_DISK g4_disk_order(wg, fs, cmd)
#define DO_PATH g4_do_path(wg, fs, cmd)
#define DO_DEDUP g4_do_dedup(wg, fs, cmd)

G4_FN static int dispatch(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	switch (cmd->op) {
#define ROW(context, name, number, properties, arguments, results)                                                     \
	case G4_CMD_##name:                                                                                            \
		return DO_##name;
		G4_COMMANDS(ROW, )
#undef ROW
	default:
		return -G4_E_NOSYS;
	}
}

G4_FN static bool changes(const struct g4_cmd *cmd)
{
	return g4_command_is(cmd->op, G4_CHANGES) &&
	       !(cmd->op == G4_CMD_RESTRIPE && (cmd->flags & G4_RESTRIPE_LOOK)); /* which is to be had of any mount */
}

/* Whether a command that has succeeded may have changed something. */
G4_FN static bool has_changed(const struct g4_cmd *cmd)
{
	if (cmd->op == G4_CMD_OPEN)
		return (cmd->flags & G4_OPEN_TRUNC) != 0;
	return g4_command_is(cmd->op, G4_CHANGES | G4_MAY_CHANGE);
}

G4_FN G4_COLD static int execute(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	uint32_t tries = 0;

	if (changes(cmd) && ((fs->flags & G4_FS_READ_ONLY) || g4_load32_rlx(&fs->journal.aborted)))
		return cmd->status = -G4_E_ROFS;
	do
		cmd->status = dispatch(wg, fs, cmd);
	while (cmd->status < 0 && tries++ == 0 && g4_fs_make_room(wg, fs, cmd->op, cmd->status));
	if (cmd->status == 0 && (fs->flags & G4_FS_SYNC) && has_changed(cmd))
		cmd->status = g4_sync_all(wg, fs, false);
	return cmd->status;
}

/* Lookups that meet nobody do without all of that, and without the registers that it needs. */
G4_FN int g4_execute(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	if (g4_command_is(cmd->op, G4_LOOKS_UP) && g4_optimistic_alone(fs, cmd))
		return cmd->status = 0;
	return execute(wg, fs, cmd);
}
