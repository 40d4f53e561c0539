/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and attributes: lookup, creation, removal, rename, links, attributes, statfs; and the table of all operations.
 *
 * Node numbers are inode numbers, so nothing here remembers what the kernel knows. The engine is mounted with
 * G4_MOUNT_HOLD_UNLINKED: an inode without names stays until its FORGET or its last handle, whichever is later. The
 * kernel may in rare races (a revalidation that finds another inode under the name) send a FORGET for a reference that
 * is not the last one; an inode that lost its last name at that moment then answers ESTALE, and its generation keeps the
 * kernel from taking a reused number for it.
 *
 * The kernel checks permissions (default_permissions, POSIX ACLs). Commands therefore carry G4_CRED_TRUSTED, with the
 * caller's uid, gid and umask for the ownership and mode of new files.
 */
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "format/format.h"
#include "fuse/ops.h"
#include "fuse/share.h"

static void set_name(struct g4_cmd *cmd, const char *name)
{
	size_t bytes = strlen(name);

	cmd->name = name;
	cmd->name_bytes = (uint16_t)(bytes < UINT16_MAX ? bytes : UINT16_MAX);
}

static void set_name2(struct g4_cmd *cmd, const char *name)
{
	size_t bytes = strlen(name);

	cmd->name2 = name;
	cmd->name2_bytes = (uint16_t)(bytes < UINT16_MAX ? bytes : UINT16_MAX);
}

/* Runs a command whose answer is a directory entry. */
static void execute_entry(fuse_req_t req, struct g4_cmd *cmd)
{
	struct g4_fuse_host *host = g4_fuse_host_of(req);
	struct fuse_entry_param entry;
	struct g4_attr attr = {0};
	int result;

	cmd->attr = &attr;
	result = g4_engine_execute(host->engine, cmd);
	if (result < 0) {
		fuse_reply_err(req, g4_errno(result));
		return;
	}
	g4_fuse_entry(host, &attr, &entry);
	fuse_reply_entry(req, &entry);
}

/* Runs a command whose answer is success or an error. */
static void execute_plain(fuse_req_t req, struct g4_cmd *cmd)
{
	int result = g4_engine_execute(g4_fuse_host_of(req)->engine, cmd);

	fuse_reply_err(req, result < 0 ? g4_errno(result) : 0);
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct g4_fuse_host *host = g4_fuse_host_of(req);
	struct fuse_entry_param entry;
	struct g4_attr attr = {0};
	/* as the server: the kernel has looked at permissions, and a lookup for somebody else is not one of those that take no lock */
	struct g4_cmd cmd = {.op = G4_CMD_LOOKUP, .node = parent, .attr = &attr};
	int result;

	if (!strcmp(name, "."))
		cmd.op = G4_CMD_GETATTR; /* an exported file handle is being opened */
	else
		set_name(&cmd, name);
	result = g4_fuse_ask(host, &cmd);
	if (result == -G4_E_NOENT && host->options.negative_timeout_s > 0) {
		memset(&entry, 0, sizeof(entry));
		entry.entry_timeout = host->options.negative_timeout_s;
		fuse_reply_entry(req, &entry);
		return;
	}
	if (result < 0) {
		fuse_reply_err(req, g4_errno(result));
		return;
	}
	g4_fuse_entry(host, &attr, &entry);
	fuse_reply_entry(req, &entry);
}

static void forget_one(struct g4_fuse_host *host, uint64_t ino, uint64_t lookups)
{
	struct g4_cmd cmd = {.op = G4_CMD_FORGET, .node = ino};

	g4_fuse_share_known(host, ino, -(int64_t)lookups);
	g4_fuse_quiet_end(host, ino);
	/* An inode that is gone already needs no forgetting; real damage shows in the next operation that has a reply. */
	g4_engine_post(host->engine, &cmd);
}

static void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t lookups)
{
	forget_one(g4_fuse_host_of(req), ino, lookups);
	fuse_reply_none(req);
}

static void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	for (size_t i = 0; i < count; i++)
		forget_one(g4_fuse_host_of(req), forgets[i].ino, forgets[i].nlookup);
	fuse_reply_none(req);
}

static void reply_attr(fuse_req_t req, const struct g4_attr *attr)
{
	struct stat st;

	g4_fuse_stat(attr, &st);
	fuse_reply_attr(req, &st, g4_fuse_attr_timeout(g4_fuse_host_of(req), attr));
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct g4_attr attr = {0};
	struct g4_cmd cmd = {.op = G4_CMD_GETATTR, .node = ino, .attr = &attr};
	int result;

	if (fi && atomic_load_explicit(&g4_fuse_host_of(req)->full, memory_order_relaxed) &&
	    g4_fuse_is_full_for(g4_fuse_host_of(req), g4_fuse_handle(fi))) {
		fuse_reply_err(req, ENOSPC);
		return;
	}
	result = g4_fuse_ask(g4_fuse_host_of(req), &cmd);
	/* with a handle it asks to read near the end of the file, to seek from there, or to write: the first needs a reader */
	if (result >= 0 && fi && (attr.flags & G4_INODE_IMMUTABLE) && (fi->fh & G4_FUSE_WRITE_ONLY))
		result = -G4_E_PERM;
	if (result < 0)
		fuse_reply_err(req, g4_errno(result));
	else
		reply_attr(req, &attr);
}

/* Fills mask and attr of a SETATTR command from what the kernel wants to change. */
static void set_changes(const struct g4_fuse_host *host, const struct stat *st, int to_set, struct g4_cmd *cmd)
{
	struct g4_attr *attr = cmd->attr;

	memset(attr, 0, sizeof(*attr));
	if (to_set & FUSE_SET_ATTR_MODE) {
		cmd->mask |= G4_SET_MODE;
		attr->mode = st->st_mode & 07777;
	}
	if (to_set & FUSE_SET_ATTR_UID) {
		cmd->mask |= G4_SET_UID;
		attr->uid = st->st_uid;
	}
	if (to_set & FUSE_SET_ATTR_GID) {
		cmd->mask |= G4_SET_GID;
		attr->gid = st->st_gid;
	}
	if (to_set & FUSE_SET_ATTR_SIZE) {
		cmd->mask |= G4_SET_SIZE;
		attr->size = (uint64_t)st->st_size;
	}
	if (to_set & FUSE_SET_ATTR_ATIME_NOW) {
		cmd->mask |= G4_SET_ATIME_NOW;
	} else if (to_set & FUSE_SET_ATTR_ATIME) {
		cmd->mask |= G4_SET_ATIME;
		attr->atime_ns = g4_fuse_time_ns(&st->st_atim);
	}
	if (to_set & FUSE_SET_ATTR_MTIME_NOW) {
		cmd->mask |= G4_SET_MTIME_NOW;
	} else if (to_set & FUSE_SET_ATTR_MTIME) {
		cmd->mask |= G4_SET_MTIME;
		attr->mtime_ns = g4_fuse_time_ns(&st->st_mtim);
	}
	if (to_set & FUSE_SET_ATTR_CTIME) {
		cmd->mask |= G4_SET_CTIME;
		attr->ctime_ns = g4_fuse_time_ns(&st->st_ctim);
		/* the write-back cache gives times instead of saying "now", which one may set where no others may be set */
		if ((cmd->mask & G4_SET_MTIME) && attr->mtime_ns == attr->ctime_ns)
			cmd->mask ^= G4_SET_MTIME | G4_SET_MTIME_NOW;
	}
	/* FATTR_KILL_SUIDGID of the protocol has the number of FUSE_SET_ATTR_KILL_SUID. A change of owner says nothing:
	 * dropping the bits is then always the file system's duty. */
	if (host->killpriv && (to_set & (FUSE_SET_ATTR_KILL_SUID | FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) &&
	    !(to_set & FUSE_SET_ATTR_MODE))
		cmd->mask |= G4_SET_KILL_SUIDGID;
}

static void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *st, int to_set, struct fuse_file_info *fi)
{
	struct g4_attr attr = {0};
	struct g4_cred cred;
	struct g4_cmd cmd = {.op = G4_CMD_SETATTR, .node = ino, .attr = &attr, .cred = &cred};
	int result;

	(void)fi;
	g4_fuse_credentials(req, &cred);
	set_changes(g4_fuse_host_of(req), st, to_set, &cmd);
	if ((cmd.mask & G4_SET_MODE) && (attr.mode & S_ISGID) && cred.uid != 0)
		g4_fuse_add_groups(req, &cred);
	else if (cmd.mask & G4_SET_KILL_SUIDGID)
		g4_fuse_add_groups_for(req, ino, &cred);
	result = g4_engine_execute(g4_fuse_host_of(req)->engine, &cmd);
	if (result < 0) {
		fuse_reply_err(req, g4_errno(result));
		return;
	}
	reply_attr(req, &attr);
}

static void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	char *target = (char *)g4_fuse_self->data;
	struct g4_cmd cmd = {.op = G4_CMD_READLINK, .node = ino, .length = G4_PAGE_BYTES - 1, .data = target};
	int result = g4_engine_execute(g4_fuse_host_of(req)->engine, &cmd);

	if (result < 0) {
		fuse_reply_err(req, g4_errno(result));
		return;
	}
	target[g4_min64(cmd.value, G4_PAGE_BYTES - 1)] = '\0';
	fuse_reply_readlink(req, target);
}

static void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	struct g4_cred cred;
	struct g4_cmd cmd = {.op = G4_CMD_MKNOD, .node = parent, .mode = mode, .rdev = rdev, .cred = &cred};

	g4_fuse_credentials(req, &cred);
	set_name(&cmd, name);
	execute_entry(req, &cmd);
}

static void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	struct g4_cred cred;
	struct g4_cmd cmd = {.op = G4_CMD_MKDIR, .node = parent, .mode = mode & 07777, .cred = &cred};

	g4_fuse_credentials(req, &cred);
	set_name(&cmd, name);
	execute_entry(req, &cmd);
}

static void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	struct g4_cred cred;
	struct g4_cmd cmd = {.op = G4_CMD_SYMLINK, .node = parent, .cred = &cred};

	g4_fuse_credentials(req, &cred);
	set_name(&cmd, name);
	set_name2(&cmd, target);
	execute_entry(req, &cmd);
}

static void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
	struct g4_cred cred;
	struct g4_cmd cmd = {.op = G4_CMD_LINK, .node = ino, .node2 = parent, .cred = &cred};

	g4_fuse_credentials(req, &cred);
	set_name2(&cmd, name);
	execute_entry(req, &cmd);
}

static void remove_name(fuse_req_t req, uint32_t op, fuse_ino_t parent, const char *name)
{
	struct g4_cred cred;
	struct g4_cmd cmd = {.op = op, .node = parent, .cred = &cred};

	g4_fuse_credentials(req, &cred);
	set_name(&cmd, name);
	execute_plain(req, &cmd);
}

static void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	remove_name(req, G4_CMD_UNLINK, parent, name);
}

static void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	remove_name(req, G4_CMD_RMDIR, parent, name);
}

static void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent, const char *new_name,
		      unsigned int flags)
{
	struct g4_cred cred;
	struct g4_cmd cmd = {.op = G4_CMD_RENAME, .node = parent, .node2 = new_parent, .flags = flags, .cred = &cred};

	if ((flags & G4_RENAME_FILES_ONLY) || !g4_rename_flags_valid(flags)) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	g4_fuse_credentials(req, &cred);
	set_name(&cmd, name);
	set_name2(&cmd, new_name);
	execute_plain(req, &cmd);
}

static void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct g4_statfs from;
	struct g4_cmd cmd = {.op = G4_CMD_STATFS, .length = sizeof(from), .data = &from};
	struct statvfs to;
	int result;

	(void)ino;
	result = g4_engine_execute(g4_fuse_host_of(req)->engine, &cmd);
	if (result < 0) {
		fuse_reply_err(req, g4_errno(result));
		return;
	}
	memset(&to, 0, sizeof(to));
	to.f_bsize = from.block_bytes;
	to.f_frsize = from.block_bytes;
	to.f_blocks = from.blocks;
	to.f_bfree = from.blocks_free;
	to.f_bavail = from.blocks_available;
	/* inodes are not counted, nor are there so many and no more: 0, as other such file systems have it */
	to.f_namemax = from.name_max;
	fuse_reply_statfs(req, &to);
}

/* Takes a capability when the kernel offers it. */
static bool want(struct fuse_conn_info *conn, unsigned capability)
{
	conn->want |= conn->capable & capability;
	return (conn->capable & capability) != 0;
}

/*
 * We are the only writer of the image, so the kernel may cache everything and invalidate nothing on its own
 * (EXPLICIT_INVAL_DATA). Splicing is left out: a request must reach the engine's memory anyway, which read() does in one
 * copy, and a reply of memory is one writev(). ASYNC_DIO is left out: with it the kernel does not look at its page cache
 * again when an asynchronous O_DIRECT write is complete, and keeps what somebody read into it meanwhile.
 */
static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	struct g4_fuse_host *host = userdata;

	conn->want &= ~(unsigned)(FUSE_CAP_AUTO_INVAL_DATA | FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE |
				  FUSE_CAP_SPLICE_MOVE | FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO |
				  FUSE_CAP_ASYNC_DIO);
	want(conn, FUSE_CAP_ASYNC_READ | FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_EXPORT_SUPPORT | FUSE_CAP_DONT_MASK |
			   FUSE_CAP_IOCTL_DIR | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_POSIX_ACL |
			   FUSE_CAP_CACHE_SYMLINKS | FUSE_CAP_EXPLICIT_INVAL_DATA);
	if (host->options.readdirplus != G4_READDIRPLUS_NEVER)
		want(conn, FUSE_CAP_READDIRPLUS);
	if (host->options.readdirplus == G4_READDIRPLUS_AUTO)
		want(conn, FUSE_CAP_READDIRPLUS_AUTO);
	host->writeback = host->options.writeback && want(conn, FUSE_CAP_WRITEBACK_CACHE);
	conn->max_write = G4_FUSE_MAX_WRITE;
	conn->max_background = 64;
	conn->congestion_threshold = 48;
	conn->time_gran = 1;
	host->initialised = true;
}

/*
 * What is missing on purpose: access (the kernel checks), getlk, setlk and flock (the kernel's own locks are right for a
 * local file system), flush (the kernel writes dirty pages back before it asks, so the first ENOSYS spares every later
 * close() a round trip), bmap and poll. opendir and releasedir: READDIR needs no handle, and libfuse's answer lets the kernel
 * cache nothing. With a cache (or ENOSYS, which allows one) the kernel looks at a listing's version at its beginning only: a
 * reader that has
 * begun to read a directory, and goes on when somebody else's older listing is complete, gets the end of that, without what has
 * changed between the two. One request for each listing is the price of right ones.
 */
const struct fuse_lowlevel_ops g4_fuse_ops = {
	.init = op_init,
	.lookup = op_lookup,
	.forget = op_forget,
	.getattr = op_getattr,
	.setattr = op_setattr,
	.readlink = op_readlink,
	.mknod = op_mknod,
	.mkdir = op_mkdir,
	.unlink = op_unlink,
	.rmdir = op_rmdir,
	.symlink = op_symlink,
	.rename = op_rename,
	.link = op_link,
	.open = g4_fuse_open,
	.read = g4_fuse_read,
	.release = g4_fuse_release,
	.fsync = g4_fuse_fsync,
	.readdir = g4_fuse_readdir,
	.fsyncdir = g4_fuse_fsyncdir,
	.statfs = op_statfs,
	.setxattr = g4_fuse_setxattr,
	.getxattr = g4_fuse_getxattr,
	.listxattr = g4_fuse_listxattr,
	.removexattr = g4_fuse_removexattr,
	.create = g4_fuse_create,
	.ioctl = g4_fuse_ioctl,
	.write_buf = g4_fuse_write_buf,
	.forget_multi = op_forget_multi,
	.fallocate = g4_fuse_fallocate,
	.readdirplus = g4_fuse_readdirplus,
	.copy_file_range = g4_fuse_copy_file_range,
	.lseek = g4_fuse_lseek,
};
