/* SPDX-License-Identifier: Apache-2.0 */
/* The stat family, by path and by descriptor. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "preload/preload.h"

void g4p_to_stat(const struct g4p_mount *mount, const struct gpu4fs_stat *from, struct stat *to)
{
	memset(to, 0, sizeof(*to));
	to->st_dev = mount->device;
	to->st_ino = from->ino;
	to->st_mode = from->mode;
	to->st_nlink = from->nlink;
	to->st_uid = from->uid;
	to->st_gid = from->gid;
	to->st_rdev = from->rdev;
	to->st_size = (off_t)from->size;
	to->st_blksize = (blksize_t)from->block_bytes;
	to->st_blocks = (blkcnt_t)from->blocks;
	to->st_atim = from->atime;
	to->st_mtim = from->mtime;
	to->st_ctim = from->ctime;
}

static struct statx_timestamp statx_time(const struct timespec *time)
{
	return (struct statx_timestamp){.tv_sec = time->tv_sec, .tv_nsec = (uint32_t)time->tv_nsec};
}

static void to_statx(const struct g4p_mount *mount, const struct gpu4fs_stat *from, struct statx *to)
{
	*to = (struct statx){
		.stx_mask = STATX_BASIC_STATS | STATX_BTIME,
		.stx_blksize = from->block_bytes,
		.stx_attributes = (from->flags & GPU4FS_FLAG_IMMUTABLE ? STATX_ATTR_IMMUTABLE : 0) |
				  (from->flags & GPU4FS_FLAG_APPEND ? STATX_ATTR_APPEND : 0) |
				  (from->flags & GPU4FS_FLAG_NODUMP ? STATX_ATTR_NODUMP : 0),
		.stx_nlink = from->nlink,
		.stx_uid = from->uid,
		.stx_gid = from->gid,
		.stx_mode = (uint16_t)from->mode,
		.stx_ino = from->ino,
		.stx_size = from->size,
		.stx_blocks = from->blocks,
		.stx_attributes_mask = STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND | STATX_ATTR_NODUMP,
		.stx_atime = statx_time(&from->atime),
		.stx_btime = statx_time(&from->btime),
		.stx_ctime = statx_time(&from->ctime),
		.stx_mtime = statx_time(&from->mtime),
		.stx_rdev_major = major(from->rdev),
		.stx_rdev_minor = minor(from->rdev),
		.stx_dev_major = major(mount->device),
		.stx_dev_minor = minor(mount->device),
	};
}

/* A directory without a name still has attributes, under "." alone. */
static int stat_here(const struct g4p_call *c, bool follow, struct gpu4fs_stat *out)
{
	const int rc = follow ? gpu4fs_stat(c->fs, c->at, c->path, out) : gpu4fs_lstat(c->fs, c->at, c->path, out);

	return rc == -ENOENT && c->at && strcmp(c->path, ".") == 0 ? gpu4fs_fstat(c->at, out) : rc;
}

/* By path: 1 with attributes in out; 0: the kernel's; -1 with errno. */
static int by_path(enum g4p_number number, int at, const char *path, bool follow, struct gpu4fs_stat *out,
		   struct g4p_mount **mount)
{
	struct g4p_call c;

	int64_t rc = g4p_enter(&c, number, at, path);
	if (rc != 0)
		return rc == G4P_KERNEL ? 0 : -1;
	*mount = c.mount;
	rc = g4p_leave(&c, stat_here(&c, follow, out));
	return rc == G4P_KERNEL ? 0 : rc < 0 ? -1 : 1;
}

static int by_descriptor(enum g4p_number number, int fd, struct gpu4fs_stat *out, struct g4p_mount **mount)
{
	struct g4p_use use;

	if (!g4p_use(&use, number, fd))
		return 0;
	*mount = use.file->mount;
	return g4p_done(&use, gpu4fs_fstat(use.handle, out)) < 0 ? -1 : 1;
}

/* One of the two, for calls with flags. */
static int by_either(enum g4p_number number, int at, const char *path, int flags, struct gpu4fs_stat *out,
		     struct g4p_mount **mount)
{
	if (flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_NO_AUTOMOUNT | AT_STATX_SYNC_TYPE))
		return g4p_settle_start(at, path, number) ? 0 : -1;
	if (g4p_begins_with(path, 0))
		return (flags & AT_EMPTY_PATH) && at != AT_FDCWD ? by_descriptor(number, at, out, mount) : 0;
	return by_path(number, at, path, !(flags & AT_SYMLINK_NOFOLLOW), out, mount);
}

#define ANSWER(asked, convert, to, kernel)                                                                             \
	do {                                                                                                           \
		struct gpu4fs_stat found;                                                                              \
		struct g4p_mount *mount;                                                                               \
		const int rc = (asked);                                                                                \
		if (rc == 0)                                                                                           \
			return (kernel);                                                                               \
		if (rc > 0) {                                                                                          \
			__typeof__(*(to)) converted;                                                                   \
			convert(mount, &found, &converted);                                                            \
			if (g4p_copy_out(to, &converted, sizeof(converted)))                                           \
				return 0;                                                                              \
			errno = EFAULT;                                                                                \
		}                                                                                                      \
		return -1;                                                                                             \
	} while (0)

int stat(const char *restrict path, struct stat *restrict out)
{
	ANSWER(by_path(G4P_stat, AT_FDCWD, path, true, &found, &mount), g4p_to_stat, out, G4P_NEXT(stat)(path, out));
}

int lstat(const char *restrict path, struct stat *restrict out)
{
	ANSWER(by_path(G4P_lstat, AT_FDCWD, path, false, &found, &mount), g4p_to_stat, out, G4P_NEXT(lstat)(path, out));
}

int fstat(int fd, struct stat *out)
{
	ANSWER(by_descriptor(G4P_fstat, fd, &found, &mount), g4p_to_stat, out, G4P_NEXT(fstat)(fd, out));
}

int fstatat(int at, const char *restrict path, struct stat *restrict out, int flags)
{
	ANSWER(by_either(G4P_fstatat, at, path, flags, &found, &mount), g4p_to_stat, out,
	       G4P_NEXT(fstatat)(at, path, out, flags));
}

int statx(int at, const char *restrict path, int flags, unsigned int mask, struct statx *restrict out)
{
	if ((mask & STATX__RESERVED) ||
	    (flags & AT_STATX_SYNC_TYPE) == AT_STATX_SYNC_TYPE) /* EINVAL, or what comes before */
		return g4p_settle_start(at, path, G4P_statx) ? G4P_NEXT(statx)(at, path, flags, mask, out) : -1;
	ANSWER(by_either(G4P_statx, at, path, flags, &found, &mount), to_statx, out,
	       G4P_NEXT(statx)(at, path, flags, mask, out));
}

/* What programs call that were linked with a C library from before 2.33. The only version of x86-64 is 1, and 0 is the kernel's. */
int __xstat(int version, const char *path, struct stat *out);
int __xstat(int version, const char *path, struct stat *out)
{
	return version > 1 ? G4P_NEXT(__xstat)(version, path, out) : stat(path, out);
}

int __lxstat(int version, const char *path, struct stat *out);
int __lxstat(int version, const char *path, struct stat *out)
{
	return version > 1 ? G4P_NEXT(__lxstat)(version, path, out) : lstat(path, out);
}

int __fxstat(int version, int fd, struct stat *out);
int __fxstat(int version, int fd, struct stat *out)
{
	return version > 1 ? G4P_NEXT(__fxstat)(version, fd, out) : fstat(fd, out);
}

int __fxstatat(int version, int at, const char *path, struct stat *out, int flags);
int __fxstatat(int version, int at, const char *path, struct stat *out, int flags)
{
	return version > 1 ? G4P_NEXT(__fxstatat)(version, at, path, out, flags) : fstatat(at, path, out, flags);
}

/* On x86-64 the two forms of struct stat are the same. */
#define SAME(name, other) ".globl " name "\n.set " name ", " other "\n"
__asm__(SAME("stat64", "stat") SAME("lstat64", "lstat") SAME("fstat64", "fstat") SAME("fstatat64", "fstatat")
		SAME("__xstat64", "__xstat") SAME("__lxstat64", "__lxstat") SAME("__fxstat64", "__fxstat")
			SAME("__fxstatat64", "__fxstatat"));
