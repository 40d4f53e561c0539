/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Below libfuse: how requests are read and replies written (fuse_session_custom_io), for three things that libfuse 3.14
 * does not do by itself.
 *
 * 1. A request is read into two places: the headers into libfuse's buffer, the payload into the worker's page-aligned
 *    buffer, so that a write can go to an O_DIRECT device from where the kernel put it.
 * 2. Each worker reads from and replies to its own clone of the device.
 * 3. Requests and flags of newer kernels: O_TMPFILE, birth times in statx(2), syncfs(2), HANDLE_KILLPRIV_V2, which
 *    spares a look for security.capability in front of every write, and SETXATTR_EXT, which tells when an access list takes
 *    the set-gid bit away.
 *
 * Rule: a request that answer_here() does not know goes to libfuse unchanged.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "format/format.h"
#include "fuse/ops.h"
#include "fuse/server.h"
#include "fuse/share.h"

#define HEAD_BYTES (sizeof(struct fuse_in_header) + sizeof(struct fuse_write_in))

/* Protocol 7.39; the kernel's header of Debian 12 ends at 7.38. */
#define OPCODE_STATX 52
#define INIT_DIRECT_IO_ALLOW_MMAP (UINT64_C(1) << 36)
struct statx_in {
	uint32_t getattr_flags;
	uint32_t reserved;
	uint64_t fh;
	uint32_t sx_flags;
	uint32_t sx_mask;
};
struct statx_out {
	uint64_t attr_valid;
	uint32_t attr_valid_nsec;
	uint32_t flags;
	uint64_t spare[2];
	struct statx stat;
};
G4_STATIC_ASSERT(sizeof(struct statx_in) == 24 && sizeof(struct statx_out) == 288, "FUSE_STATX layout");

_Thread_local struct g4_fuse_thread *g4_fuse_self;

/* Sends a reply of our own; returns -1 with errno when the kernel does not take it (ENOENT: interrupted). */
static ssize_t reply(uint64_t unique, int error, const void *body, size_t body_bytes)
{
	struct fuse_out_header out = {.error = -error, .unique = unique};
	struct iovec parts[2] = {{&out, sizeof(out)}, {(void *)(uintptr_t)body, error ? 0 : body_bytes}};

	out.len = (uint32_t)(parts[0].iov_len + parts[1].iov_len);
	return writev(g4_fuse_self->fd, parts, parts[1].iov_len ? 2 : 1);
}

static void fill_attr(const struct g4_attr *from, struct fuse_attr *to)
{
	struct timespec atime = g4_fuse_timespec(from->atime_ns);
	struct timespec mtime = g4_fuse_timespec(from->mtime_ns);
	struct timespec ctime = g4_fuse_timespec(from->ctime_ns);

	*to = (struct fuse_attr){
		.ino = from->ino,
		.size = from->size,
		.blocks = from->blocks_512,
		.atime = (uint64_t)atime.tv_sec,
		.mtime = (uint64_t)mtime.tv_sec,
		.ctime = (uint64_t)ctime.tv_sec,
		.atimensec = (uint32_t)atime.tv_nsec,
		.mtimensec = (uint32_t)mtime.tv_nsec,
		.ctimensec = (uint32_t)ctime.tv_nsec,
		.mode = from->mode,
		.nlink = from->nlink,
		.uid = from->uid,
		.gid = from->gid,
		.rdev = (uint32_t)from->rdev,
		.blksize = (uint32_t)G4_PAGE_BYTES,
	};
}

/* Whole seconds and nanoseconds of a time-out. */
static uint64_t timeout_parts(double timeout_s, uint32_t *nsec)
{
	uint64_t seconds = (uint64_t)timeout_s;

	*nsec = (uint32_t)((timeout_s - (double)seconds) * 1e9);
	return seconds;
}

static void answer_tmpfile(struct g4_fuse_host *host, const struct fuse_in_header *in, const struct fuse_create_in *arg)
{
	struct {
		struct fuse_entry_out entry;
		struct fuse_open_out open;
	} out = {0};
	struct g4_attr attr = {0};
	struct g4_cred cred = {.uid = in->uid, .gid = in->gid, .umask = arg->umask, .flags = G4_CRED_TRUSTED};
	struct g4_cmd cmd = {
		.op = G4_CMD_TMPFILE,
		.node = in->nodeid,
		.flags = g4_fuse_open_flags((int)arg->flags & ~(O_EXCL | O_TRUNC), host->writeback),
		.mode = arg->mode & 07777,
		.attr = &attr,
		.cred = &cred,
	};
	int result = g4_engine_execute(host->engine, &cmd);

	if (result < 0) {
		reply(in->unique, g4_errno(result), NULL, 0);
		return;
	}
	out.entry.nodeid = attr.ino;
	out.entry.generation = attr.generation;
	out.entry.entry_valid = timeout_parts(host->options.entry_timeout_s, &out.entry.entry_valid_nsec);
	out.entry.attr_valid = timeout_parts(host->options.attr_timeout_s, &out.entry.attr_valid_nsec);
	fill_attr(&attr, &out.entry.attr);
	out.open.fh = g4_fuse_file(cmd.handle, (int)arg->flags, host->writeback);
	g4_fuse_share_known(host, attr.ino, 1);
	out.open.open_flags =
		(host->share ? FOPEN_DIRECT_IO : FOPEN_KEEP_CACHE) | (host->writeback ? 0 : FOPEN_NOFLUSH);
	g4_fuse_writer_opened(host, attr.ino, (int)arg->flags, 1);
	if (reply(in->unique, 0, &out, sizeof(out)) < 0 && errno == ENOENT) {
		struct g4_cmd forget = {.op = G4_CMD_FORGET, .node = attr.ino};

		g4_fuse_writer_opened(host, attr.ino, (int)arg->flags, -1);
		g4_fuse_release_handle(host, cmd.handle);
		g4_engine_post(host->engine, &forget);
	}
}

static struct statx_timestamp statx_time(uint64_t time_ns)
{
	struct timespec time = g4_fuse_timespec(time_ns);

	return (struct statx_timestamp){.tv_sec = time.tv_sec, .tv_nsec = (uint32_t)time.tv_nsec};
}

static uint64_t statx_attributes(uint32_t inode_flags)
{
	return (inode_flags & G4_INODE_IMMUTABLE ? STATX_ATTR_IMMUTABLE : 0) |
	       (inode_flags & G4_INODE_APPEND ? STATX_ATTR_APPEND : 0) |
	       (inode_flags & G4_INODE_NODUMP ? STATX_ATTR_NODUMP : 0);
}

static void answer_statx(struct g4_fuse_host *host, const struct fuse_in_header *in)
{
	struct statx_out out = {0};
	struct g4_attr attr = {0};
	struct g4_cmd cmd = {.op = G4_CMD_GETATTR, .node = in->nodeid, .attr = &attr};
	int result = g4_engine_execute(host->engine, &cmd);

	if (result < 0) {
		reply(in->unique, g4_errno(result), NULL, 0);
		return;
	}
	out.attr_valid = timeout_parts(g4_fuse_attr_timeout(host, &attr), &out.attr_valid_nsec);
	out.stat = (struct statx){
		.stx_mask = STATX_BASIC_STATS | STATX_BTIME,
		.stx_blksize = (uint32_t)G4_PAGE_BYTES,
		.stx_attributes = statx_attributes(attr.flags),
		.stx_nlink = attr.nlink,
		.stx_uid = attr.uid,
		.stx_gid = attr.gid,
		.stx_mode = (uint16_t)attr.mode,
		.stx_ino = attr.ino,
		.stx_size = attr.size,
		.stx_blocks = attr.blocks_512,
		.stx_attributes_mask = STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND | STATX_ATTR_NODUMP,
		.stx_atime = statx_time(attr.atime_ns),
		.stx_btime = statx_time(attr.btime_ns),
		.stx_ctime = statx_time(attr.ctime_ns),
		.stx_mtime = statx_time(attr.mtime_ns),
		.stx_rdev_major = major(attr.rdev),
		.stx_rdev_minor = minor(attr.rdev),
	};
	reply(in->unique, 0, &out, sizeof(out));
}

static void answer_syncfs(struct g4_fuse_host *host, const struct fuse_in_header *in)
{
	struct g4_cmd cmd = {.op = G4_CMD_SYNCFS};
	int result = g4_engine_execute(host->engine, &cmd);

	reply(in->unique, result < 0 ? g4_errno(result) : 0, NULL, 0);
}

/* libfuse 3.14 takes the longer form of the request for the shorter one. */
static void answer_setxattr(struct g4_fuse_host *host, const struct fuse_in_header *in,
			    const struct fuse_setxattr_in *arg, size_t bytes)
{
	struct g4_cred cred = {.uid = in->uid, .gid = in->gid, .flags = G4_CRED_TRUSTED};
	const char *name = (const char *)(arg + 1);
	size_t name_bytes = strnlen(name, bytes - sizeof(*arg));
	struct g4_cmd cmd = {
		.op = G4_CMD_SETXATTR,
		.node = in->nodeid,
		.name = name,
		.name_bytes = (uint16_t)g4_min64(name_bytes, UINT16_MAX),
		.data = (void *)(uintptr_t)(name + name_bytes + 1), /* the engine only reads it */
		.length = arg->size,
		.flags = arg->flags & (G4_XATTR_CREATE | G4_XATTR_REPLACE),
		.cred = &cred,
	};

	if (sizeof(*arg) + name_bytes + 1 > bytes || arg->size > bytes - sizeof(*arg) - name_bytes - 1) {
		reply(in->unique, EIO, NULL, 0);
		return;
	}
	if (arg->setxattr_flags & FUSE_SETXATTR_ACL_KILL_SGID)
		cmd.flags |= G4_XATTR_KILL_SGID;
	g4_fuse_note_label(host, name);
	int result = g4_engine_execute(host->engine, &cmd);
	reply(in->unique, result < 0 ? g4_errno(result) : 0, NULL, 0);
}

/* True when the request was one that libfuse does not know and has been answered. */
static bool answer_here(struct g4_fuse_host *host, const struct fuse_in_header *in, size_t bytes)
{
	const void *arguments = in + 1;
	size_t argument_bytes = bytes - sizeof(*in);

	if (host->options.debug && ((in->opcode >= FUSE_SYNCFS && in->opcode <= OPCODE_STATX) ||
				    (in->opcode == FUSE_SETXATTR && host->setxattr_flags)))
		fuse_log(FUSE_LOG_DEBUG, "unique: %llu, opcode: %u (gpu4fs), nodeid: %llu\n",
			 (unsigned long long)in->unique, in->opcode, (unsigned long long)in->nodeid);
	if (in->opcode == FUSE_TMPFILE && argument_bytes >= sizeof(struct fuse_create_in)) {
		answer_tmpfile(host, in, arguments);
		return true;
	}
	if (in->opcode == OPCODE_STATX && argument_bytes >= sizeof(struct statx_in)) {
		answer_statx(host, in);
		return true;
	}
	if (in->opcode == FUSE_SETXATTR && host->setxattr_flags && argument_bytes >= sizeof(struct fuse_setxattr_in)) {
		answer_setxattr(host, in, arguments, argument_bytes);
		return true;
	}
	if (in->opcode == FUSE_SYNCFS) {
		answer_syncfs(host, in);
		return true;
	}
	return false;
}

/* Remembers what INIT offers, for patch_init(). */
static void note_init(struct g4_fuse_host *host, const struct fuse_in_header *in, size_t bytes)
{
	const struct fuse_init_in *arg = (const struct fuse_init_in *)(in + 1);
	size_t argument_bytes = bytes - sizeof(*in);

	if (argument_bytes < offsetof(struct fuse_init_in, flags2))
		return;
	host->init_unique = in->unique;
	host->init_offered = arg->flags;
	if ((arg->flags & FUSE_INIT_EXT) && argument_bytes >= offsetof(struct fuse_init_in, unused))
		host->init_offered |= (uint64_t)arg->flags2 << 32;
}

/* Adds to libfuse's answer to INIT the flags it has no names for. */
static void patch_init(struct g4_fuse_host *host, struct fuse_init_out *out)
{
	uint64_t taken = host->init_offered & (FUSE_HANDLE_KILLPRIV_V2 | FUSE_SETXATTR_EXT | INIT_DIRECT_IO_ALLOW_MMAP);

	host->killpriv = (taken & FUSE_HANDLE_KILLPRIV_V2) != 0;
	host->setxattr_flags = (taken & FUSE_SETXATTR_EXT) != 0;
	out->flags |= (uint32_t)taken;
	if (out->flags & FUSE_INIT_EXT)
		out->flags2 |= (uint32_t)(taken >> 32);
}

static ssize_t wire_read(int fd, void *buf, size_t buf_bytes, void *userdata)
{
	struct g4_fuse_thread *self = g4_fuse_self;
	struct g4_fuse_host *host = userdata;
	struct fuse_in_header *in = buf;

	(void)fd;
	for (;;) {
		struct iovec parts[2] = {{buf, HEAD_BYTES},
					 {self->data, g4_min64(G4_FUSE_DATA_BYTES, buf_bytes - HEAD_BYTES)}};
		ssize_t bytes = readv(self->fd, parts, 2);

		if (bytes < (ssize_t)sizeof(*in))
			return bytes;
		self->head = buf;
		if (in->opcode == FUSE_DESTROY) {
			g4_fuse_destroy_asked(host, self->fd, in->unique);
			return bytes;
		}
		g4_fuse_affinity(self, in);
		g4_fuse_quiet_request(host, in);
		if (in->opcode == FUSE_WRITE)
			return bytes;
		if ((size_t)bytes > HEAD_BYTES)
			memcpy((uint8_t *)buf + HEAD_BYTES, self->data, (size_t)bytes - HEAD_BYTES);
		if (in->opcode == FUSE_INIT)
			note_init(host, in, (size_t)bytes);
		else if (answer_here(host, in, (size_t)bytes))
			continue;
		return bytes;
	}
}

static ssize_t wire_writev(int fd, struct iovec *iov, int count, void *userdata)
{
	struct g4_fuse_host *host = userdata;
	const struct fuse_out_header *out = iov[0].iov_base;

	(void)fd;
	if (host->init_unique != 0 && out->unique == host->init_unique) {
		host->init_unique = 0;
		if (out->error == 0 && count == 2 && iov[1].iov_len >= offsetof(struct fuse_init_out, unused))
			patch_init(host, iov[1].iov_base);
	}
	return writev(g4_fuse_self->fd, iov, count);
}

const struct fuse_custom_io g4_fuse_wire = {.writev = wire_writev, .read = wire_read};
