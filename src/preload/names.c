/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that make, remove and change names, and change attributes by name. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "preload/settle.h"

/* The frame of a call on one path: `work` is the engine's answer, `kernel` what is called where it has none. */
#define BY_PATH(number, at, path, work, kernel)                                                                        \
	do {                                                                                                           \
		struct g4p_call c;                                                                                     \
		int64_t rc = g4p_enter(&c, G4P_##number, at, path);                                                    \
		if (rc == 0)                                                                                           \
			rc = g4p_leave(&c, work);                                                                      \
		return rc == G4P_KERNEL ? (kernel) : (__typeof__(kernel))rc;                                           \
	} while (0)
/* The same of two paths that must lie in one file system; c is the first's, d the second's. */
#define BY_TWO_PATHS(number, at, path, at2, path2, work, kernel)                                                       \
	do {                                                                                                           \
		struct g4p_call c, d;                                                                                  \
		int64_t rc = g4p_enter(&c, G4P_##number, at, path);                                                    \
		if (rc == 0) {                                                                                         \
			rc = g4p_enter_second(&d, &c, at2, path2) ? (work) : -EXDEV;                                   \
			g4p_leave_second(&d);                                                                          \
			rc = g4p_leave(&c, rc);                                                                        \
		}                                                                                                      \
		if (rc != G4P_KERNEL)                                                                                  \
			return (__typeof__(kernel))rc;                                                                 \
		/* whichever of the two it was not for */                                                              \
		if (!g4p_settle_start(at, path, G4P_##number) || !g4p_settle_start(at2, path2, G4P_##number))          \
			return -1;                                                                                     \
		return (kernel);                                                                                       \
	} while (0)

/* ------------------------------------------------------------------ making and removing */

int mkdir(const char *path, mode_t mode)
{
	BY_PATH(mkdir, AT_FDCWD, path, gpu4fs_mkdir(c.fs, c.at, c.path, mode), G4P_NEXT(mkdir)(path, mode));
}

int mkdirat(int at, const char *path, mode_t mode)
{
	BY_PATH(mkdirat, at, path, gpu4fs_mkdir(c.fs, c.at, c.path, mode), G4P_NEXT(mkdirat)(at, path, mode));
}

int rmdir(const char *path)
{
	BY_PATH(rmdir, AT_FDCWD, path, gpu4fs_rmdir(c.fs, c.at, c.path), G4P_NEXT(rmdir)(path));
}

int unlink(const char *path)
{
	BY_PATH(unlink, AT_FDCWD, path, gpu4fs_unlink(c.fs, c.at, c.path), G4P_NEXT(unlink)(path));
}

static int unlink_at(const struct g4p_call *c, int flags)
{
	if (flags & ~AT_REMOVEDIR)
		return -EINVAL;
	return flags & AT_REMOVEDIR ? gpu4fs_rmdir(c->fs, c->at, c->path) : gpu4fs_unlink(c->fs, c->at, c->path);
}

int unlinkat(int at, const char *path, int flags)
{
	BY_PATH(unlinkat, at, path, unlink_at(&c, flags), G4P_NEXT(unlinkat)(at, path, flags));
}

static int remove_either(const struct g4p_call *c)
{
	int rc = gpu4fs_unlink(c->fs, c->at, c->path);

	return rc == -EISDIR ? gpu4fs_rmdir(c->fs, c->at, c->path) : rc;
}

int remove(const char *path)
{
	BY_PATH(remove, AT_FDCWD, path, remove_either(&c), G4P_NEXT(remove)(path));
}

int rename(const char *from, const char *to)
{
	BY_TWO_PATHS(rename, AT_FDCWD, from, AT_FDCWD, to, gpu4fs_rename(c.fs, c.at, c.path, d.at, d.path, 0),
		     G4P_NEXT(rename)(from, to));
}

int renameat(int from_at, const char *from, int to_at, const char *to)
{
	BY_TWO_PATHS(renameat, from_at, from, to_at, to, gpu4fs_rename(c.fs, c.at, c.path, d.at, d.path, 0),
		     G4P_NEXT(renameat)(from_at, from, to_at, to));
}

int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned int flags)
{
	BY_TWO_PATHS(renameat2, from_at, from, to_at, to, gpu4fs_rename(c.fs, c.at, c.path, d.at, d.path, flags),
		     G4P_NEXT(renameat2)(from_at, from, to_at, to, flags));
}

int link(const char *from, const char *to)
{
	BY_TWO_PATHS(link, AT_FDCWD, from, AT_FDCWD, to, gpu4fs_link(c.fs, c.at, c.path, d.at, d.path, 0),
		     G4P_NEXT(link)(from, to));
}

/*
 * A file of the engine's that has lost its last name gets none again. The kernel would say so, too, but the file would be its own from then on,
 * and what it has on the device free some time after it is closed only.
 */
static bool is_nameless(int fd)
{
	struct g4p_file *file = fd >= 0 && g4p_any_files() ? g4p_get(fd) : NULL;
	struct stat stat;

	if (file == NULL)
		return false;
	pthread_rwlock_rdlock(&file->lock);
	const bool is_ours = !file->settled && !file->directory;
	pthread_rwlock_unlock(&file->lock);
	g4p_put(file);
	return is_ours && fstat(fd, &stat) == 0 && stat.st_nlink == 0;
}

int linkat(int from_at, const char *from, int to_at, const char *to, int flags)
{
	if (flags == AT_EMPTY_PATH && g4p_begins_with(from, 0) && is_nameless(from_at)) {
		errno = ENOENT;
		return -1;
	}
	if ((flags & AT_EMPTY_PATH) && !g4p_settle_start(from_at, from, G4P_linkat))
		return -1;
	BY_TWO_PATHS(linkat, from_at, from, to_at, to,
		     flags & ~AT_SYMLINK_FOLLOW ? G4P_KERNEL : gpu4fs_link(c.fs, c.at, c.path, d.at, d.path, flags),
		     G4P_NEXT(linkat)(from_at, from, to_at, to, flags));
}

static int64_t make_link(const struct g4p_call *c, const char *target)
{
	return g4p_is_string(target) ? gpu4fs_symlink(c->fs, target, c->at, c->path) : G4P_KERNEL;
}

int symlink(const char *target, const char *path)
{
	BY_PATH(symlink, AT_FDCWD, path, make_link(&c, target), G4P_NEXT(symlink)(target, path));
}

int symlinkat(const char *target, int at, const char *path)
{
	BY_PATH(symlinkat, at, path, make_link(&c, target), G4P_NEXT(symlinkat)(target, at, path));
}

static int64_t read_link(const struct g4p_call *c, char *buffer, size_t bytes)
{
	char target[G4P_PATH_BYTES];
	const int64_t found =
		gpu4fs_readlink(c->fs, c->at, c->path, target, bytes < sizeof(target) ? bytes : sizeof(target));

	return found > 0 && !g4p_copy_out(buffer, target, (size_t)found) ? -EFAULT : found;
}

ssize_t readlink(const char *restrict path, char *restrict buffer, size_t bytes)
{
	BY_PATH(readlink, AT_FDCWD, path, read_link(&c, buffer, bytes), G4P_NEXT(readlink)(path, buffer, bytes));
}

ssize_t readlinkat(int at, const char *restrict path, char *restrict buffer, size_t bytes)
{
	if (g4p_begins_with(path, 0) && !g4p_settle(at, G4P_readlinkat))
		return -1;
	BY_PATH(readlinkat, at, path, read_link(&c, buffer, bytes), G4P_NEXT(readlinkat)(at, path, buffer, bytes));
}

/* The C library's names for the same, from programs that were compiled with _FORTIFY_SOURCE. */
ssize_t __readlink_chk(const char *path, char *buffer, size_t bytes, size_t room);
ssize_t __readlink_chk(const char *path, char *buffer, size_t bytes, size_t room)
{
	return bytes > room ? G4P_NEXT(__readlink_chk)(path, buffer, bytes, room) : readlink(path, buffer, bytes);
}

ssize_t __readlinkat_chk(int at, const char *path, char *buffer, size_t bytes, size_t room);
ssize_t __readlinkat_chk(int at, const char *path, char *buffer, size_t bytes, size_t room)
{
	return bytes > room ? G4P_NEXT(__readlinkat_chk)(at, path, buffer, bytes, room) :
			      readlinkat(at, path, buffer, bytes);
}

/* What is no file is made through the mount. */
int mknodat(int at, const char *path, mode_t mode, dev_t device)
{
	return g4p_settle_start(at, path, G4P_mknodat) ? G4P_NEXT(mknodat)(at, path, mode, device) : -1;
}

/* mknodat() of programs that are older than it. */
int __xmknodat(int version, int at, const char *path, mode_t mode, dev_t *device);
int __xmknodat(int version, int at, const char *path, mode_t mode, dev_t *device)
{
	return g4p_settle_start(at, path, G4P_mknodat) ? G4P_NEXT(__xmknodat)(version, at, path, mode, device) : -1;
}

int mkfifoat(int at, const char *path, mode_t mode)
{
	return g4p_settle_start(at, path, G4P_mknodat) ? G4P_NEXT(mkfifoat)(at, path, mode) : -1;
}

int name_to_handle_at(int at, const char *path, struct file_handle *handle, int *mount, int flags)
{
	return g4p_settle_start(at, path, G4P_handle) ? G4P_NEXT(name_to_handle_at)(at, path, handle, mount, flags) :
							-1;
}

int open_by_handle_at(int mount, struct file_handle *handle, int flags)
{
	return g4p_settle(mount, G4P_handle) ? G4P_NEXT(open_by_handle_at)(mount, handle, flags) : -1;
}

/* ------------------------------------------------------------------ attributes */

int access(const char *path, int mode)
{
	BY_PATH(access, AT_FDCWD, path, geteuid() == getuid() ? gpu4fs_access(c.fs, c.at, c.path, mode) : G4P_KERNEL,
		G4P_NEXT(access)(path, mode));
}

int euidaccess(const char *path, int mode)
{
	BY_PATH(access, AT_FDCWD, path, gpu4fs_access(c.fs, c.at, c.path, mode), G4P_NEXT(euidaccess)(path, mode));
}

int eaccess(const char *path, int mode)
{
	return euidaccess(path, mode);
}

int faccessat(int at, const char *path, int mode, int flags)
{
	BY_PATH(faccessat, at, path,
		(flags & ~AT_EACCESS) || (flags == 0 && geteuid() != getuid()) ?
			G4P_KERNEL :
			gpu4fs_access(c.fs, c.at, c.path, mode),
		G4P_NEXT(faccessat)(at, path, mode, flags));
}

int chmod(const char *path, mode_t mode)
{
	BY_PATH(chmod, AT_FDCWD, path, gpu4fs_chmod(c.fs, c.at, c.path, mode), G4P_NEXT(chmod)(path, mode));
}

int fchmodat(int at, const char *path, mode_t mode, int flags)
{
	BY_PATH(fchmodat, at, path,
		flags & ~AT_SYMLINK_NOFOLLOW ? G4P_KERNEL :
		flags			     ? gpu4fs_lchmod(c.fs, c.at, c.path, mode) :
					       gpu4fs_chmod(c.fs, c.at, c.path, mode),
		G4P_NEXT(fchmodat)(at, path, mode, flags));
}

int chown(const char *path, uid_t uid, gid_t gid)
{
	BY_PATH(chown, AT_FDCWD, path, gpu4fs_chown(c.fs, c.at, c.path, uid, gid, 0), G4P_NEXT(chown)(path, uid, gid));
}

int lchown(const char *path, uid_t uid, gid_t gid)
{
	BY_PATH(lchown, AT_FDCWD, path, gpu4fs_chown(c.fs, c.at, c.path, uid, gid, AT_SYMLINK_NOFOLLOW),
		G4P_NEXT(lchown)(path, uid, gid));
}

int fchown(int fd, uid_t uid, gid_t gid);
int fchownat(int at, const char *path, uid_t uid, gid_t gid, int flags)
{
	if ((flags & AT_EMPTY_PATH) && at != AT_FDCWD && g4p_begins_with(path, 0))
		return fchown(at, uid, gid);
	BY_PATH(fchownat, at, path,
		flags & ~AT_SYMLINK_NOFOLLOW ? G4P_KERNEL : gpu4fs_chown(c.fs, c.at, c.path, uid, gid, flags),
		G4P_NEXT(fchownat)(at, path, uid, gid, flags));
}

int utimensat(int at, const char *path, const struct timespec times[2], int flags)
{
	const char *name = path;

	__asm__("" : "+r"(name)); /* utimensat(fd, NULL, ...) is what futimens() does in the C library */
	if (!name && at != AT_FDCWD && flags == 0)
		return futimens(at, times);
	BY_PATH(utimensat, at, name,
		flags & ~AT_SYMLINK_NOFOLLOW || (times && !g4p_can_read(times, 2 * sizeof(*times))) ?
			G4P_KERNEL :
			gpu4fs_utimens(c.fs, c.at, c.path, times, flags),
		G4P_NEXT(utimensat)(at, name, times, flags));
}

static const struct timespec *exact(const struct timeval from[2], struct timespec to[2])
{
	for (int i = 0; from && i < 2; i++) {
		to[i].tv_sec = from[i].tv_sec;
		/* what is no number of microseconds shall be no number of nanoseconds either, nor UTIME_NOW */
		to[i].tv_nsec = from[i].tv_usec < 0 || from[i].tv_usec > 999999 ? -1 : from[i].tv_usec * 1000;
	}
	return from ? to : NULL;
}

int utimes(const char *path, const struct timeval times[2])
{
	struct timespec own[2];

	BY_PATH(utimes, AT_FDCWD, path, gpu4fs_utimens(c.fs, c.at, c.path, exact(times, own), 0),
		G4P_NEXT(utimes)(path, times));
}

int lutimes(const char *path, const struct timeval times[2])
{
	struct timespec own[2];

	BY_PATH(utimes, AT_FDCWD, path, gpu4fs_utimens(c.fs, c.at, c.path, exact(times, own), AT_SYMLINK_NOFOLLOW),
		G4P_NEXT(lutimes)(path, times));
}

int futimesat(int at, const char *path, const struct timeval times[2])
{
	struct timespec own[2];

	if (!path)
		return futimens(at, exact(times, own));
	BY_PATH(utimes, at, path, gpu4fs_utimens(c.fs, c.at, c.path, exact(times, own), 0),
		G4P_NEXT(futimesat)(at, path, times));
}

int utime(const char *path, const struct utimbuf *times)
{
	const struct timespec own[2] = {{.tv_sec = times ? times->actime : 0}, {.tv_sec = times ? times->modtime : 0}};

	BY_PATH(utimes, AT_FDCWD, path, gpu4fs_utimens(c.fs, c.at, c.path, times ? own : NULL, 0),
		G4P_NEXT(utime)(path, times));
}

int truncate(const char *path, off_t size)
{
	BY_PATH(truncate, AT_FDCWD, path, g4p_is_limited() ? G4P_KERNEL : gpu4fs_truncate(c.fs, c.at, c.path, size),
		G4P_NEXT(truncate)(path, size));
}

/* ------------------------------------------------------------------ extended attributes */

/* What is longer than any value, the engine does not look at. */
static bool is_attribute(const char *name, const void *value, size_t bytes)
{
	return g4p_is_string(name) && (bytes > XATTR_SIZE_MAX || g4p_can_read(value, bytes));
}

ssize_t getxattr(const char *path, const char *name, void *value, size_t bytes)
{
	BY_PATH(getxattr, AT_FDCWD, path,
		!g4p_is_string(name) ? G4P_KERNEL : gpu4fs_getxattr(c.fs, c.at, c.path, name, value, bytes),
		G4P_NEXT(getxattr)(path, name, value, bytes));
}

ssize_t lgetxattr(const char *path, const char *name, void *value, size_t bytes)
{
	BY_PATH(getxattr, AT_FDCWD, path,
		!g4p_is_string(name) ? G4P_KERNEL : gpu4fs_lgetxattr(c.fs, c.at, c.path, name, value, bytes),
		G4P_NEXT(lgetxattr)(path, name, value, bytes));
}

int setxattr(const char *path, const char *name, const void *value, size_t bytes, int flags)
{
	BY_PATH(setxattr, AT_FDCWD, path,
		!is_attribute(name, value, bytes) ?
			G4P_KERNEL :
			gpu4fs_setxattr(c.fs, c.at, c.path, name, value, bytes, (uint32_t)flags),
		G4P_NEXT(setxattr)(path, name, value, bytes, flags));
}

int lsetxattr(const char *path, const char *name, const void *value, size_t bytes, int flags)
{
	BY_PATH(setxattr, AT_FDCWD, path,
		!is_attribute(name, value, bytes) ?
			G4P_KERNEL :
			gpu4fs_lsetxattr(c.fs, c.at, c.path, name, value, bytes, (uint32_t)flags),
		G4P_NEXT(lsetxattr)(path, name, value, bytes, flags));
}

ssize_t listxattr(const char *path, char *list, size_t bytes)
{
	BY_PATH(listxattr, AT_FDCWD, path, gpu4fs_listxattr(c.fs, c.at, c.path, list, bytes),
		G4P_NEXT(listxattr)(path, list, bytes));
}

ssize_t llistxattr(const char *path, char *list, size_t bytes)
{
	BY_PATH(listxattr, AT_FDCWD, path, gpu4fs_llistxattr(c.fs, c.at, c.path, list, bytes),
		G4P_NEXT(llistxattr)(path, list, bytes));
}

int removexattr(const char *path, const char *name)
{
	BY_PATH(removexattr, AT_FDCWD, path,
		!g4p_is_string(name) ? G4P_KERNEL : gpu4fs_removexattr(c.fs, c.at, c.path, name),
		G4P_NEXT(removexattr)(path, name));
}

int lremovexattr(const char *path, const char *name)
{
	BY_PATH(removexattr, AT_FDCWD, path,
		!g4p_is_string(name) ? G4P_KERNEL : gpu4fs_lremovexattr(c.fs, c.at, c.path, name),
		G4P_NEXT(lremovexattr)(path, name));
}

__asm__(".globl truncate64\n.set truncate64, truncate\n");
