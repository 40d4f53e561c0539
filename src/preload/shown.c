/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of the C library that are the kernel's with any path, for they call functions inside it. A path may name a descriptor
 * (/proc/self/fd/N) or begin at one, which must be the kernel's then.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "preload/settle.h"

FILE *fopen(const char *restrict path, const char *restrict mode)
{
	g4p_settle_shown(path);
	return G4P_NEXT(fopen)(path, mode);
}

FILE *freopen(const char *restrict path, const char *restrict mode, FILE *restrict stream)
{
	if (path)
		g4p_settle_shown(path);
	return G4P_NEXT(freopen)(path, mode, stream);
}

char *realpath(const char *restrict path, char *restrict resolved)
{
	g4p_settle_shown(path);
	return G4P_NEXT(realpath)(path, resolved);
}

char *__realpath_chk(const char *path, char *resolved, size_t room);
char *__realpath_chk(const char *path, char *resolved, size_t room)
{
	g4p_settle_shown(path);
	return G4P_NEXT(__realpath_chk)(path, resolved, room);
}

char *canonicalize_file_name(const char *path)
{
	g4p_settle_shown(path);
	return G4P_NEXT(canonicalize_file_name)(path);
}

int statfs(const char *path, struct statfs *found)
{
	g4p_settle_shown(path);
	return G4P_NEXT(statfs)(path, found);
}

int statvfs(const char *restrict path, struct statvfs *restrict found)
{
	g4p_settle_shown(path);
	return G4P_NEXT(statvfs)(path, found);
}

int mknod(const char *path, mode_t mode, dev_t device)
{
	g4p_settle_shown(path);
	return G4P_NEXT(mknod)(path, mode, device);
}

int mkfifo(const char *path, mode_t mode)
{
	g4p_settle_shown(path);
	return G4P_NEXT(mkfifo)(path, mode);
}

int lchmod(const char *path, mode_t mode)
{
	g4p_settle_shown(path);
	return G4P_NEXT(lchmod)(path, mode);
}

long pathconf(const char *path, int name)
{
	g4p_settle_shown(path);
	return G4P_NEXT(pathconf)(path, name);
}

key_t ftok(const char *path, int project)
{
	g4p_settle_shown(path);
	return G4P_NEXT(ftok)(path, project);
}

int ftw(const char *path, __ftw_func_t function, int descriptors)
{
	g4p_settle_shown(path);
	return G4P_NEXT(ftw)(path, function, descriptors);
}

int scandir(const char *restrict path, struct dirent ***restrict list, int (*filter)(const struct dirent *),
	    int (*compare)(const struct dirent **, const struct dirent **))
{
	g4p_settle_shown(path);
	return G4P_NEXT(scandir)(path, list, filter, compare);
}

/*
 * The loader searches for a name without a slash by what its caller was linked with. So the way out of these two is a jump, with the caller's
 * return address on the stack (cmake/G4Tools.cmake).
 */
void *dlopen(const char *path, int mode)
{
	if (path)
		g4p_settle_shown(path);
	return G4P_NEXT(dlopen)(path, mode);
}

void *dlmopen(Lmid_t names, const char *path, int mode)
{
	if (path)
		g4p_settle_shown(path);
	return G4P_NEXT(dlmopen)(names, path, mode);
}

/* ------------------------------------------------------------------ what is watched, and mounts */

int inotify_add_watch(int fd, const char *path, uint32_t mask)
{
	g4p_settle_shown(path);
	g4p_watches(AT_FDCWD, path);
	return G4P_NEXT(inotify_add_watch)(fd, path, mask);
}

int fanotify_mark(int fd, unsigned int flags, uint64_t mask, int at, const char *path)
{
	if (!(path ? g4p_settle_start(at, path, G4P_watch) : g4p_settle(at, G4P_watch)))
		return -1;
	g4p_watches(at, path ? path : "");
	return G4P_NEXT(fanotify_mark)(fd, flags, mask, at, path);
}

int umount(const char *path)
{
	g4p_settle_shown(path);
	return G4P_NEXT(umount)(path);
}

int umount2(const char *path, int flags)
{
	g4p_settle_shown(path);
	return G4P_NEXT(umount2)(path, flags);
}

int fspick(int at, const char *path, unsigned int flags)
{
	return g4p_settle_start(at, path, G4P_mount) ? G4P_NEXT(fspick)(at, path, flags) : -1;
}

int open_tree(int at, const char *path, unsigned int flags)
{
	return g4p_settle_start(at, path, G4P_mount) ? G4P_NEXT(open_tree)(at, path, flags) : -1;
}

int mount_setattr(int at, const char *path, unsigned int flags, struct mount_attr *attributes, size_t bytes)
{
	return g4p_settle_start(at, path, G4P_mount) ? G4P_NEXT(mount_setattr)(at, path, flags, attributes, bytes) : -1;
}

/* A descriptor may be the value, or what the path that is the value begins at. */
int fsconfig(int fd, unsigned int command, const char *key, const void *value, int at)
{
	return g4p_settle(at, G4P_mount) ? G4P_NEXT(fsconfig)(fd, command, key, value, at) : -1;
}

/* On x86-64 the structures are the same. */
#define SAME(name, other) ".globl " name "\n.set " name ", " other "\n"
__asm__(SAME("fopen64", "fopen") SAME("freopen64", "freopen") SAME("statfs64", "statfs") SAME("statvfs64", "statvfs")
		SAME("__statfs", "statfs") SAME("ftw64", "ftw") SAME("scandir64", "scandir"));
