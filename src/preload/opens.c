/* SPDX-License-Identifier: Apache-2.0 */
/* Opening, closing and copying descriptors. */
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/aio_abi.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/settle.h"

/* O_LARGEFILE is 0 in this library's headers and set in what the kernel shows. */
#define SHOWN_LARGEFILE 0100000
#define OPENED_HERE                                                                                                    \
	(O_ACCMODE | O_CREAT | O_EXCL | O_TRUNC | O_APPEND | O_DIRECTORY | O_NOFOLLOW | O_SYNC | O_DSYNC | O_NOATIME | \
	 O_DIRECT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | SHOWN_LARGEFILE)

/*
 * A directory without a name can be opened anew all the same, under "." alone. It is empty and stays so: the new descriptor is of the same
 * description.
 */
static int64_t open_gone(struct g4p_call *c, int flags)
{
	struct g4p_file *file = c->held;

	if (!file || !file->directory || strcmp(c->path, ".") != 0 || (flags & (O_ACCMODE | O_CREAT | O_TRUNC)))
		return -ENOENT;
	const int number = g4p_reserve(c->mount, flags);
	if (number < 0)
		return number;
	pthread_rwlock_rdlock(&file->lock);
	const bool settled = file->settled;
	if (!settled)
		g4p_set(number, file);
	pthread_rwlock_unlock(&file->lock);
	if (settled)
		g4p_unreserve(number);
	return settled ? G4P_KERNEL : number;
}

/*
 * What is no file or directory (-ENXIO) only the kernel can open. A place in the tree (O_PATH) that is a directory one may read is as good as
 * an open one.
 */
static int64_t open_here(struct g4p_call *c, int flags, mode_t mode)
{
	const bool place = (flags & O_PATH) && (flags & O_DIRECTORY);
	gpu4fs_file *handle;

	if (place)
		flags &= O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	/* a file without a name can get one by linkat(2) only where the kernel has made it, in this process and in others */
	if ((flags & ~OPENED_HERE) || (flags & O_ACCMODE) == O_ACCMODE || (flags & O_TMPFILE) == O_TMPFILE ||
	    !c->mount->opens)
		return G4P_KERNEL;
	const bool changes = flags & (O_CREAT | O_TRUNC);
	const int number = changes ? g4p_reserve(c->mount, flags) : -1;
	if (changes && number < 0)
		return number;
	int rc = gpu4fs_open(c->fs, c->at, c->path, flags & ~SHOWN_LARGEFILE, mode, &handle);
	if (rc == 0)
		return g4p_install(c->mount, c->fs, handle, flags, number);
	if (number >= 0)
		g4p_unreserve(number);
	if (rc == -ENOENT)
		return open_gone(c, flags);
	return rc == -ENXIO || (place && rc == -EACCES) ? G4P_KERNEL : rc;
}

/* The C library may have a stream on it by now. */
static int not_standard(int fd)
{
	if (fd >= 0 && fd <= STDERR_FILENO)
		g4p_settle(fd, G4P_open);
	return fd;
}

static int open_at(enum g4p_number number, int at, const char *path, int flags, mode_t mode)
{
	struct g4p_call c;
	int64_t rc = g4p_enter(&c, number, at, path);

	if (rc == 0)
		rc = g4p_leave(&c, open_here(&c, flags, mode));
	return rc == G4P_KERNEL ? G4P_NEXT(openat)(at, path, flags, mode) : not_standard((int)rc);
}

static bool has_mode(int flags)
{
	return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
}

#define MODE_OF(flags)                                                                                                 \
	({                                                                                                             \
		mode_t mode_ = 0;                                                                                      \
		if (has_mode(flags)) {                                                                                 \
			va_list list_;                                                                                 \
			va_start(list_, flags);                                                                        \
			mode_ = va_arg(list_, mode_t);                                                                 \
			va_end(list_);                                                                                 \
		}                                                                                                      \
		mode_;                                                                                                 \
	})

int open(const char *path, int flags, ...)
{
	return open_at(G4P_open, AT_FDCWD, path, flags, MODE_OF(flags));
}

int openat(int at, const char *path, int flags, ...)
{
	return open_at(G4P_openat, at, path, flags, MODE_OF(flags));
}

int creat(const char *path, mode_t mode)
{
	return open_at(G4P_creat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode);
}

int __open_2(const char *path, int flags);
int __open_2(const char *path, int flags)
{
	return has_mode(flags) ? G4P_NEXT(__open_2)(path, flags) : open(path, flags);
}

int __openat_2(int at, const char *path, int flags);
int __openat_2(int at, const char *path, int flags)
{
	return has_mode(flags) ? G4P_NEXT(__openat_2)(at, path, flags) : openat(at, path, flags);
}

/* ------------------------------------------------------------------ closing */

int close(int fd)
{
	if (g4p_is_calm()) /* one of our own */
		return G4P_NEXT(close)(fd);
	if (g4p_owns(fd)) { /* nobody gave it to the program */
		errno = EBADF;
		return -1;
	}
	g4p_forget(fd);
	return G4P_NEXT(close)(fd);
}

/* Like close(2) of each number, around the library's own. */
int close_range(unsigned int first, unsigned int last, int flags)
{
	unsigned int from = first, most = last < G4P_FILES ? last : G4P_FILES - 1;

	if (flags & ~(int)(CLOSE_RANGE_CLOEXEC | CLOSE_RANGE_UNSHARE) || first > last)
		return G4P_NEXT(close_range)(first, last, flags);
	if (flags & (int)CLOSE_RANGE_UNSHARE) { /* what other threads keep open is the kernel's first */
		if (unshare(CLONE_FILES) != 0)
			return -1;
		flags &= ~(int)CLOSE_RANGE_UNSHARE;
	}
	for (unsigned int fd = first; fd <= most; fd++) {
		if (!g4p_owns((int)fd)) {
			if (!(flags & (int)CLOSE_RANGE_CLOEXEC))
				g4p_forget((int)fd);
			continue;
		}
		if (fd > from && G4P_NEXT(close_range)(from, fd - 1, flags) != 0)
			return -1;
		from = fd + 1;
	}
	return from <= last ? G4P_NEXT(close_range)(from, last, flags) : 0;
}

void closefrom(int first)
{
	(void)close_range(first < 0 ? 0 : (unsigned int)first, UINT_MAX, 0);
}

/* ------------------------------------------------------------------ copies of descriptors */

/* `made` is a new descriptor of what fd is. */
static int copied(int fd, int made)
{
	struct g4p_file *file;

	if (made < 0 || made == fd)
		return made;
	file = g4p_get(fd);
	if (file && made >= (int)G4P_FILES) { /* where there is no place for it */
		if (g4p_settle(fd, G4P_dup)) {
			G4P_NEXT(dup2)(fd, made);
		} else {
			const int error = errno;
			G4P_NEXT(close)(made);
			errno = error;
			made = -1;
		}
	} else {
		g4p_set(made, file);
	}
	if (file)
		g4p_put(file);
	return made;
}

int dup(int fd)
{
	return copied(fd, G4P_NEXT(dup)(fd));
}

static void make_way(int fd)
{
	struct g4p_calm calm;

	if (!g4p_owns(fd) || !g4p_calm(&calm))
		return;
	g4p_make_way(fd);
	g4p_restless(&calm);
}

/*
 * A caller that asks for a number wants it for a user that knows no other: a stream of the C library, as when a shell
 * redirects one of its own
 * commands, or the next program. Both are beyond us, so the file becomes the kernel's.
 */
static void replaced(int fd, int to)
{
	make_way(to);
	g4p_settle(fd, G4P_dup);
	g4p_number_goes(to);
}

int dup2(int fd, int to)
{
	if (fd != to)
		replaced(fd, to);
	return copied(fd, G4P_NEXT(dup2)(fd, to));
}

int dup3(int fd, int to, int flags)
{
	if (fd != to)
		replaced(fd, to);
	return copied(fd, G4P_NEXT(dup3)(fd, to, flags));
}

/* Flags of a file that the engine serves, as F_GETFL has them. */
static int flags_of(int fd)
{
	struct g4p_use use;

	if (!g4p_use(&use, G4P_fcntl, fd))
		return -1;
	return (int)g4p_done(&use, use.file->flags | SHOWN_LARGEFILE);
}

static int control(int fd, int command, void *argument)
{
	const int errors = errno;

	switch (command) {
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
		return copied(fd, G4P_NEXT(fcntl)(fd, command, argument));
	case F_GETFD:
	case F_SETFD:
		break;
	case F_GETFL: {
		int flags = flags_of(fd);
		if (flags >= 0)
			return flags;
		errno = errors;
		break;
	}
	default: /* locks above all: they are the kernel's, which sees all processes */
		if (!g4p_settle(fd, G4P_fcntl))
			return -1;
		if (command == F_SETLK || command == F_SETLKW)
			g4p_record_lock(fd);
		if (command == F_NOTIFY || command == F_SETLEASE)
			g4p_watches(fd, "");
	}
	return G4P_NEXT(fcntl)(fd, command, argument);
}

int fcntl(int fd, int command, ...)
{
	va_list list;

	va_start(list, command);
	void *argument = va_arg(list, void *);
	va_end(list);
	return control(fd, command, argument);
}

/* ------------------------------------------------------------------ standard input and output */

/*
 * The C library's streams read and write through its own functions, which nothing can stand in front of: so their descriptors are
 * the kernel's from the start, and fopen() needs no wrapper.
 */
FILE *fdopen(int fd, const char *mode)
{
	return g4p_settle(fd, G4P_fdopen) ? G4P_NEXT(fdopen)(fd, mode) : NULL;
}

int vdprintf(int fd, const char *restrict format, va_list list)
{
	return g4p_settle(fd, G4P_dprintf) ? G4P_NEXT(vdprintf)(fd, format, list) : -1;
}

int dprintf(int fd, const char *restrict format, ...)
{
	va_list list;

	va_start(list, format);
	int rc = vdprintf(fd, format, list);
	va_end(list);
	return rc;
}

int __vdprintf_chk(int fd, int flag, const char *format, va_list list);
int __vdprintf_chk(int fd, int flag, const char *format, va_list list)
{
	return g4p_settle(fd, G4P_dprintf) ? G4P_NEXT(__vdprintf_chk)(fd, flag, format, list) : -1;
}

int __dprintf_chk(int fd, int flag, const char *format, ...);
int __dprintf_chk(int fd, int flag, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	int rc = __vdprintf_chk(fd, flag, format, list);
	va_end(list);
	return rc;
}

/* Its threads read and write by the C library's own functions, too. */
int aio_read(struct aiocb *operation)
{
	return g4p_settle(operation->aio_fildes, G4P_aio) ? G4P_NEXT(aio_read)(operation) : -1;
}

int aio_write(struct aiocb *operation)
{
	return g4p_settle(operation->aio_fildes, G4P_aio) ? G4P_NEXT(aio_write)(operation) : -1;
}

int aio_fsync(int how, struct aiocb *operation)
{
	return g4p_settle(operation->aio_fildes, G4P_aio) ? G4P_NEXT(aio_fsync)(how, operation) : -1;
}

int lio_listio(int mode, struct aiocb *const list[], int count, struct sigevent *event)
{
	for (int i = 0; i < count; i++)
		if (list[i])
			g4p_settle(list[i]->aio_fildes, G4P_aio);
	return G4P_NEXT(lio_listio)(mode, list, count, event);
}

/* The kernel's own, through libaio. */
void g4p_settle_blocks(long count, struct iocb **blocks)
{
	const bool readable = g4p_any_files() && count > 0 && g4p_can_read(blocks, (size_t)count * sizeof(*blocks));

	for (long i = 0; readable && i < count; i++)
		if (g4p_can_read(blocks[i], sizeof(*blocks[i])))
			g4p_settle((int)blocks[i]->aio_fildes, G4P_aio);
}

int io_submit(aio_context_t context, long count, struct iocb **blocks);
int io_submit(aio_context_t context, long count, struct iocb **blocks)
{
	const int error = errno;

	g4p_settle_blocks(count, blocks);
	const long rc = G4P_NEXT(syscall)(SYS_io_submit, context, count, blocks); /* there may be no libaio */
	const int code = rc < 0 ? -errno : (int)rc;
	errno = error;
	return code;
}

#define SAME(name, other) ".globl " name "\n.set " name ", " other "\n"
__asm__(SAME("open64", "open") SAME("openat64", "openat") SAME("creat64", "creat") SAME("__open64_2", "__open_2")
		SAME("__openat64_2", "__openat_2") SAME("fcntl64", "fcntl") SAME("aio_read64", "aio_read")
			SAME("aio_write64", "aio_write") SAME("aio_fsync64", "aio_fsync")
				SAME("lio_listio64", "lio_listio")
	/* names that the C library has besides */ SAME("__open", "open") SAME("__open64", "open")
		SAME("__close", "close") SAME("__fcntl", "fcntl") SAME("__dup2", "dup2"));
