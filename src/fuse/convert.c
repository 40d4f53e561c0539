/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/convert.h"

#include <fcntl.h>
#include <linux/fs.h>

#include "format/format.h"

#define NS_PER_S INT64_C(1000000000)

struct timespec g4_fuse_timespec(uint64_t time_ns)
{
	int64_t signed_ns = (int64_t)time_ns;
	struct timespec time = {.tv_sec = signed_ns / NS_PER_S, .tv_nsec = signed_ns % NS_PER_S};

	if (time.tv_nsec < 0) {
		time.tv_nsec += NS_PER_S;
		time.tv_sec--;
	}
	return time;
}

uint64_t g4_fuse_time_ns(const struct timespec *time)
{
	int64_t seconds_ns, sum_ns;

	if (__builtin_mul_overflow((int64_t)time->tv_sec, NS_PER_S, &seconds_ns) ||
	    __builtin_add_overflow(seconds_ns, (int64_t)time->tv_nsec, &sum_ns))
		return (uint64_t)(time->tv_sec < 0 ? INT64_MIN : INT64_MAX);
	return (uint64_t)sum_ns;
}

void g4_fuse_stat(const struct g4_attr *attr, struct stat *st)
{
	memset(st, 0, sizeof(*st));
	st->st_ino = attr->ino;
	st->st_mode = attr->mode;
	st->st_nlink = attr->nlink;
	st->st_uid = attr->uid;
	st->st_gid = attr->gid;
	st->st_rdev = attr->rdev;
	st->st_size = (off_t)attr->size;
	st->st_blocks = (blkcnt_t)attr->blocks_512;
	st->st_blksize = (blksize_t)G4_PAGE_BYTES;
	st->st_atim = g4_fuse_timespec(attr->atime_ns);
	st->st_mtim = g4_fuse_timespec(attr->mtime_ns);
	st->st_ctim = g4_fuse_timespec(attr->ctime_ns);
}

uint32_t g4_fuse_open_flags(int flags, bool writeback)
{
	uint32_t out = G4_OPEN_DIRECT; /* the kernel keeps what it reads */
	int access_mode = flags & O_ACCMODE;

	if (access_mode == O_RDONLY || access_mode == O_RDWR)
		out |= G4_OPEN_READ;
	if (access_mode == O_WRONLY || access_mode == O_RDWR)
		out |= G4_OPEN_WRITE;
	if (flags & O_TRUNC)
		out |= G4_OPEN_TRUNC;
	if (flags & O_EXCL)
		out |= G4_OPEN_EXCL;
	if (flags & O_NOATIME)
		out |= G4_OPEN_NOATIME;
	if (writeback) {
		/* The kernel reads pages that it changes in part, places appended bytes itself, rewrites whole pages
		 * up to the end of the file, and sends FSYNC after each O_SYNC write. */
		if (access_mode == O_WRONLY)
			out |= G4_OPEN_READ;
		return out;
	}
	if (flags & O_APPEND)
		out |= G4_OPEN_APPEND;
	if ((flags & O_SYNC) == O_SYNC)
		out |= G4_OPEN_SYNC;
	else if (flags & O_DSYNC)
		out |= G4_OPEN_DSYNC;
	return out;
}

static const struct {
	uint32_t inode, fs, x;
} inode_flags_of[] = {
	{G4_INODE_IMMUTABLE, FS_IMMUTABLE_FL, FS_XFLAG_IMMUTABLE},
	{G4_INODE_APPEND, FS_APPEND_FL, FS_XFLAG_APPEND},
	{G4_INODE_NODUMP, FS_NODUMP_FL, FS_XFLAG_NODUMP},
	{G4_INODE_NOATIME, FS_NOATIME_FL, FS_XFLAG_NOATIME},
};
#define FLAG_COUNT (sizeof(inode_flags_of) / sizeof(inode_flags_of[0]))

uint32_t g4_fuse_fs_flags(uint32_t inode_flags)
{
	uint32_t out = 0;

	for (size_t i = 0; i < FLAG_COUNT; i++)
		if (inode_flags & inode_flags_of[i].inode)
			out |= inode_flags_of[i].fs;
	return out;
}

uint32_t g4_fuse_xflags(uint32_t inode_flags)
{
	uint32_t out = 0;

	for (size_t i = 0; i < FLAG_COUNT; i++)
		if (inode_flags & inode_flags_of[i].inode)
			out |= inode_flags_of[i].x;
	return out;
}

bool g4_fuse_from_fs_flags(uint32_t fs_flags, uint32_t *inode_flags)
{
	*inode_flags = 0;
	for (size_t i = 0; i < FLAG_COUNT; i++) {
		if (fs_flags & inode_flags_of[i].fs)
			*inode_flags |= inode_flags_of[i].inode;
		fs_flags &= ~inode_flags_of[i].fs;
	}
	return fs_flags == 0;
}

bool g4_fuse_from_xflags(uint32_t xflags, uint32_t *inode_flags)
{
	*inode_flags = 0;
	for (size_t i = 0; i < FLAG_COUNT; i++) {
		if (xflags & inode_flags_of[i].x)
			*inode_flags |= inode_flags_of[i].inode;
		xflags &= ~inode_flags_of[i].x;
	}
	return xflags == 0;
}

size_t g4_fuse_hide_trusted(char *list, size_t bytes)
{
	static const char prefix[] = "trusted.";
	size_t kept = 0, at = 0;

	while (at < bytes) {
		size_t name_bytes = strnlen(list + at, bytes - at) + 1;

		if (name_bytes > bytes - at)
			break;
		if (strncmp(list + at, prefix, sizeof(prefix) - 1) != 0) {
			memmove(list + kept, list + at, name_bytes);
			kept += name_bytes;
		}
		at += name_bytes;
	}
	return kept;
}
