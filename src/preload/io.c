/* SPDX-License-Identifier: Apache-2.0 */
/* Calls on open files: reading and writing, positions, space, attributes. */
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/limits.h>
#include <linux/loop.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <termios.h>
#include <unistd.h>

#include "preload/copies.h"
#include "preload/settle.h"

#define MAPPED_MAX_BYTES (64u << 20) /* of a private mapping that is read instead */

/* The frame of a call on one descriptor; u.handle is the engine's. */
#define BY_FD(number, fd, work, kernel)                                                                                \
	do {                                                                                                           \
		struct g4p_use u;                                                                                      \
		if (!g4p_use(&u, G4P_##number, fd))                                                                    \
			return (kernel);                                                                               \
		return (__typeof__(kernel))g4p_done(&u, work);                                                         \
	} while (0)

/* The same of a call that may make the file longer. */
#define BY_FD_GROWING(number, fd, work, kernel)                                                                        \
	do {                                                                                                           \
		if (g4p_is_limited() && !g4p_settle(fd, G4P_##number))                                                 \
			return -1;                                                                                     \
		BY_FD(number, fd, work, kernel);                                                                       \
	} while (0)

/* ------------------------------------------------------------------ reading and writing */

ssize_t read(int fd, void *buffer, size_t bytes)
{
	BY_FD(read, fd, gpu4fs_read(u.handle, buffer, bytes), G4P_NEXT(read)(fd, buffer, bytes));
}

/* What is before a bad pointer is written, as the kernel does. */
static int64_t do_write(gpu4fs_file *file, const void *buffer, size_t bytes)
{
	const size_t good = g4p_readable(buffer, bytes < SSIZE_MAX ? bytes : SSIZE_MAX);
	const int64_t done = gpu4fs_write(file, buffer, good);

	return done == 0 && bytes > 0 ? -EFAULT : done;
}

static int64_t do_pwrite(gpu4fs_file *file, const void *buffer, size_t bytes, off_t offset)
{
	const size_t good = g4p_readable(buffer, bytes < SSIZE_MAX ? bytes : SSIZE_MAX);
	const int64_t done = gpu4fs_pwrite(file, buffer, good, offset);

	return done == 0 && bytes > 0 ? -EFAULT : done;
}

ssize_t write(int fd, const void *buffer, size_t bytes)
{
	BY_FD_GROWING(write, fd, do_write(u.handle, buffer, bytes), G4P_NEXT(write)(fd, buffer, bytes));
}

ssize_t pread(int fd, void *buffer, size_t bytes, off_t offset)
{
	BY_FD(pread, fd, gpu4fs_pread(u.handle, buffer, bytes, offset), G4P_NEXT(pread)(fd, buffer, bytes, offset));
}

ssize_t pwrite(int fd, const void *buffer, size_t bytes, off_t offset)
{
	BY_FD_GROWING(pwrite, fd, do_pwrite(u.handle, buffer, bytes, offset),
		      G4P_NEXT(pwrite)(fd, buffer, bytes, offset));
}

/* ------------------------------------------------------------------ several parts */

#define PARTS_BYTES (256u << 10) /* that go through a buffer of ours */
#define STACK_BYTES 2048u	 /* of it on the stack, which may be a signal handler's */

enum direction { FROM_PROGRAM, TO_PROGRAM };

/* The sum of the parts; -1: the kernel is to say what is wrong with them, or they are more than goes through a buffer. */
static ssize_t parts_bytes(const struct iovec *parts, int count, enum direction direction)
{
	size_t bytes = 0;

	if (count < 0 || count > IOV_MAX || !g4p_can_read(parts, (size_t)count * sizeof(*parts)))
		return -1;
	for (int i = 0; i < count; i++) {
		if (parts[i].iov_len > PARTS_BYTES - bytes ||
		    (direction == FROM_PROGRAM && !g4p_can_read(parts[i].iov_base, parts[i].iov_len)))
			return -1;
		bytes += parts[i].iov_len;
	}
	return (ssize_t)bytes;
}

static int64_t write_parts(gpu4fs_file *file, const struct iovec *parts, int count, char *buffer, const off_t *offset)
{
	size_t bytes = 0;

	for (int i = 0; i < count; i++) {
		if (parts[i].iov_len)
			memcpy(buffer + bytes, parts[i].iov_base, parts[i].iov_len);
		bytes += parts[i].iov_len;
	}
	return offset ? gpu4fs_pwrite(file, buffer, bytes, *offset) : gpu4fs_write(file, buffer, bytes);
}

static int64_t read_parts(gpu4fs_file *file, const struct iovec *parts, int count, char *buffer, size_t bytes,
			  const off_t *offset)
{
	const int64_t got = offset ? gpu4fs_pread(file, buffer, bytes, *offset) : gpu4fs_read(file, buffer, bytes);
	int64_t done = 0;

	for (int i = 0; i < count && done < got; i++) {
		const size_t part = parts[i].iov_len < (size_t)(got - done) ? parts[i].iov_len : (size_t)(got - done);
		if (!g4p_copy_out(parts[i].iov_base, buffer + done, part))
			break;
		done += (int64_t)part;
	}
	if (done < got && !offset)
		(void)gpu4fs_lseek(file, done - got, SEEK_CUR);
	return got > 0 && done == 0 ? -EFAULT : got > 0 ? done : got;
}

/*
 * Several parts as one command, at the position where offset is NULL. False: the kernel is to do it. No malloc(): signal handlers may call
 * readv and writev.
 */
static bool do_parts(enum g4p_number number, int fd, const struct iovec *parts, int count, const off_t *offset,
		     enum direction direction, ssize_t *result)
{
	struct g4p_use use;
	char small[STACK_BYTES], *buffer = small;

	if (!g4p_is_ours(fd) || (direction == FROM_PROGRAM && g4p_is_limited()))
		return false;
	const ssize_t bytes = parts_bytes(parts, count, direction);
	if (bytes < 0 || !g4p_use(&use, number, fd))
		return false;
	if (bytes > (ssize_t)sizeof(small))
		buffer = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const int64_t done = buffer == MAP_FAILED ? -ENOMEM :
			     direction == FROM_PROGRAM ?
						    write_parts(use.handle, parts, count, buffer, offset) :
						    read_parts(use.handle, parts, count, buffer, (size_t)bytes, offset);
	if (buffer != small && buffer != MAP_FAILED)
		munmap(buffer, (size_t)bytes);
	*result = g4p_done(&use, done);
	return true;
}

ssize_t preadv(int fd, const struct iovec *parts, int count, off_t offset)
{
	ssize_t done;

	if (do_parts(G4P_preadv, fd, parts, count, &offset, TO_PROGRAM, &done))
		return done;
	return g4p_settle(fd, G4P_preadv) ? G4P_NEXT(preadv)(fd, parts, count, offset) : -1;
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
	ssize_t done;

	if (do_parts(G4P_pwritev, fd, parts, count, &offset, FROM_PROGRAM, &done))
		return done;
	return g4p_settle(fd, G4P_pwritev) ? G4P_NEXT(pwritev)(fd, parts, count, offset) : -1;
}

ssize_t readv(int fd, const struct iovec *parts, int count)
{
	ssize_t done;

	if (do_parts(G4P_readv, fd, parts, count, NULL, TO_PROGRAM, &done))
		return done;
	return g4p_settle(fd, G4P_readv) ? G4P_NEXT(readv)(fd, parts, count) : -1;
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
	ssize_t done;

	if (do_parts(G4P_writev, fd, parts, count, NULL, FROM_PROGRAM, &done))
		return done;
	return g4p_settle(fd, G4P_writev) ? G4P_NEXT(writev)(fd, parts, count) : -1;
}

ssize_t preadv2(int fd, const struct iovec *parts, int count, off_t offset, int flags)
{
	if (flags == 0)
		return offset == -1 ? readv(fd, parts, count) : preadv(fd, parts, count, offset);
	return g4p_settle(fd, G4P_preadv) ? G4P_NEXT(preadv2)(fd, parts, count, offset, flags) : -1;
}

ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t offset, int flags)
{
	if (flags == 0)
		return offset == -1 ? writev(fd, parts, count) : pwritev(fd, parts, count, offset);
	return g4p_settle(fd, G4P_pwritev) ? G4P_NEXT(pwritev2)(fd, parts, count, offset, flags) : -1;
}

ssize_t __read_chk(int fd, void *buffer, size_t bytes, size_t room);
ssize_t __read_chk(int fd, void *buffer, size_t bytes, size_t room)
{
	return bytes > room ? G4P_NEXT(__read_chk)(fd, buffer, bytes, room) : read(fd, buffer, bytes);
}

ssize_t __pread_chk(int fd, void *buffer, size_t bytes, off_t offset, size_t room);
ssize_t __pread_chk(int fd, void *buffer, size_t bytes, off_t offset, size_t room)
{
	return bytes > room ? G4P_NEXT(__pread_chk)(fd, buffer, bytes, offset, room) : pread(fd, buffer, bytes, offset);
}

off_t lseek(int fd, off_t offset, int whence)
{
	if (g4p_any_files()) {
		struct g4p_file *file = g4p_get(fd);
		const bool directory = file && file->directory;

		if (file)
			g4p_put(file);
		if (directory && !g4p_settle(fd, G4P_lseek)) /* its position is a cookie of the kernel's listing */
			return -1;
	}
	BY_FD(lseek, fd, gpu4fs_lseek(u.handle, offset, whence), G4P_NEXT(lseek)(fd, offset, whence));
}

/* ------------------------------------------------------------------ space, durability, attributes */

int ftruncate(int fd, off_t size)
{
	BY_FD_GROWING(ftruncate, fd, gpu4fs_ftruncate(u.handle, size), G4P_NEXT(ftruncate)(fd, size));
}

int fallocate(int fd, int mode, off_t offset, off_t bytes)
{
	BY_FD_GROWING(fallocate, fd, gpu4fs_fallocate(u.handle, (uint32_t)mode, offset, bytes),
		      G4P_NEXT(fallocate)(fd, mode, offset, bytes));
}

int posix_fallocate(int fd, off_t offset, off_t bytes)
{
	struct g4p_use use;
	const int errors = errno;

	if (g4p_is_limited())
		g4p_settle(fd, G4P_fallocate);
	if (!g4p_use(&use, G4P_fallocate, fd))
		return G4P_NEXT(posix_fallocate)(fd, offset, bytes);
	const int rc = g4p_done(&use, gpu4fs_fallocate(use.handle, 0, offset, bytes)) < 0 ? errno : 0;
	errno = errors;
	return rc;
}

int fsync(int fd)
{
	BY_FD(fsync, fd, gpu4fs_fsync(u.handle), G4P_NEXT(fsync)(fd));
}

int fdatasync(int fd)
{
	BY_FD(fdatasync, fd, gpu4fs_fdatasync(u.handle), G4P_NEXT(fdatasync)(fd));
}

int syncfs(int fd)
{
	BY_FD(syncfs, fd, gpu4fs_syncfs(u.file->fs), G4P_NEXT(syncfs)(fd));
}

int sync_file_range(int fd, off_t offset, off_t bytes, unsigned int flags)
{
	BY_FD(fdatasync, fd, gpu4fs_fdatasync(u.handle), G4P_NEXT(sync_file_range)(fd, offset, bytes, flags));
}

int posix_fadvise(int fd, off_t offset, off_t bytes, int advice)
{
	const bool known = advice >= POSIX_FADV_NORMAL && advice <= POSIX_FADV_NOREUSE && bytes >= 0;

	BY_FD(fadvise, fd, known ? 0 : EINVAL, G4P_NEXT(posix_fadvise)(fd, offset, bytes, advice));
}

ssize_t readahead(int fd, off_t offset, size_t bytes)
{
	BY_FD(fadvise, fd,
	      (u.file->flags & O_ACCMODE) == O_WRONLY ? -EBADF :
	      u.file->directory			      ? -EINVAL :
							0,
	      G4P_NEXT(readahead)(fd, offset, bytes));
}

int fchmod(int fd, mode_t mode)
{
	BY_FD(fchmod, fd, gpu4fs_fchmod(u.handle, mode), G4P_NEXT(fchmod)(fd, mode));
}

int fchown(int fd, uid_t uid, gid_t gid)
{
	BY_FD(fchown, fd, gpu4fs_fchown(u.handle, uid, gid), G4P_NEXT(fchown)(fd, uid, gid));
}

int futimens(int fd, const struct timespec times[2])
{
	BY_FD(futimens, fd,
	      times && !g4p_can_read(times, 2 * sizeof(*times)) ? -EFAULT : gpu4fs_futimens(u.handle, times),
	      G4P_NEXT(futimens)(fd, times));
}

int futimes(int fd, const struct timeval times[2])
{
	return futimesat(fd, NULL, times);
}

ssize_t fgetxattr(int fd, const char *name, void *value, size_t bytes)
{
	BY_FD(getxattr, fd, !g4p_is_string(name) ? -EFAULT : gpu4fs_fgetxattr(u.handle, name, value, bytes),
	      G4P_NEXT(fgetxattr)(fd, name, value, bytes));
}

int fsetxattr(int fd, const char *name, const void *value, size_t bytes, int flags)
{
	BY_FD(setxattr, fd,
	      !g4p_is_string(name) || (bytes <= XATTR_SIZE_MAX && !g4p_can_read(value, bytes)) ?
		      -EFAULT :
		      gpu4fs_fsetxattr(u.handle, name, value, bytes, (uint32_t)flags),
	      G4P_NEXT(fsetxattr)(fd, name, value, bytes, flags));
}

ssize_t flistxattr(int fd, char *list, size_t bytes)
{
	BY_FD(listxattr, fd, gpu4fs_flistxattr(u.handle, list, bytes), G4P_NEXT(flistxattr)(fd, list, bytes));
}

int fremovexattr(int fd, const char *name)
{
	BY_FD(removexattr, fd, !g4p_is_string(name) ? -EFAULT : gpu4fs_fremovexattr(u.handle, name),
	      G4P_NEXT(fremovexattr)(fd, name));
}

/* ------------------------------------------------------------------ two descriptors */

/* Whether a descriptor of the kernel's is of another file system than this file. */
static bool is_elsewhere(int fd, const struct g4p_file *file)
{
	struct stat st;

	return G4P_NEXT(fstat)(fd, &st) != 0 || st.st_dev != file->mount->device;
}

/*
 * Whether one of two descriptors is the engine's and the other is of another file system. The kernel would say EXDEV, and so
 * do we: a program that
 * copies then reads and writes, and the file need not become the kernel's for that.
 */
static bool are_apart(int from, int to)
{
	struct g4p_file *source = g4p_get(from), *target = g4p_get(to);
	const bool apart = (source == NULL) != (target == NULL) &&
			   (source ? is_elsewhere(to, source) : is_elsewhere(from, target));

	if (source)
		g4p_put(source);
	if (target)
		g4p_put(target);
	if (apart)
		errno = EXDEV;
	return apart;
}

/* Whether both are the engine's, and of one mount; then both are in use. Else neither is the engine's any more. */
static bool use_both(enum g4p_number number, int from, int to, struct g4p_use *use, struct g4p_file **other)
{
	*other = g4p_get(to);
	if (*other && g4p_use(use, number, from)) {
		if (use->file == *other ||
		    ((*other)->mount == use->file->mount && pthread_rwlock_tryrdlock(&(*other)->lock) == 0)) {
			if (!(*other)->settled)
				return true;
			if (use->file != *other)
				pthread_rwlock_unlock(&(*other)->lock);
		}
		(void)g4p_done(use, 0);
	}
	if (*other)
		g4p_put(*other);
	g4p_settle(from, number);
	g4p_settle(to, number);
	return false;
}

static int64_t done_both(struct g4p_use *use, struct g4p_file *other, int64_t result)
{
	if (use->file != other)
		pthread_rwlock_unlock(&other->lock);
	g4p_put(other);
	return g4p_done(use, result);
}

/* An offset that is changed in place: it can be read, and written. */
static bool is_offset(off_t *offset)
{
	off_t value;

	if (!offset)
		return true;
	if (!g4p_can_read(offset, sizeof(value)))
		return false;
	value = *offset;
	return g4p_copy_out(offset, &value, sizeof(value));
}

ssize_t copy_file_range(int from, off_t *from_offset, int to, off_t *to_offset, size_t bytes, unsigned int flags)
{
	struct g4p_use use;
	struct g4p_file *other;

	if (!g4p_any_files())
		return G4P_NEXT(copy_file_range)(from, from_offset, to, to_offset, bytes, flags);
	if (are_apart(from, to) || (g4p_is_limited() && !g4p_settle(to, G4P_copy_file_range)))
		return -1;
	if (flags || !is_offset(from_offset) || !is_offset(to_offset)) {
		if (!g4p_settle(from, G4P_copy_file_range) || !g4p_settle(to, G4P_copy_file_range))
			return -1;
		return G4P_NEXT(copy_file_range)(from, from_offset, to, to_offset, bytes, flags);
	}
	if (!use_both(G4P_copy_file_range, from, to, &use, &other))
		return G4P_NEXT(copy_file_range)(from, from_offset, to, to_offset, bytes, flags);
	return done_both(&use, other, gpu4fs_copy_file_range(use.handle, from_offset, other->handle, to_offset, bytes));
}

/*
 * FICLONERANGE, and FICLONE, which is all of it (`bytes` 0: up to the end), of two files of the engine's: what it shares, which through
 * the mount nobody can ask for. A range behind the source's end is refused, as Linux does it.
 */
static int clone_range(int to, const struct file_clone_range *range, unsigned long request, const void *argument)
{
	struct g4p_use use;
	struct g4p_file *other;
	struct gpu4fs_stat st;
	uint64_t done = 0;

	if (are_apart((int)range->src_fd, to))
		return -1;
	if (!use_both(G4P_ioctl, (int)range->src_fd, to, &use, &other))
		return G4P_NEXT(ioctl)(to, request, argument);
	int64_t shared = gpu4fs_fstat(use.handle, &st);
	const uint64_t from = range->src_offset, room = shared == 0 && from <= st.size ? st.size - from : 0;
	const uint64_t bytes = range->src_length ? range->src_length : room;
	if (shared == 0 && (from > st.size || bytes > room || range->dest_offset > INT64_MAX))
		shared = -EINVAL;
	while (shared >= 0 && done < bytes) {
		shared = gpu4fs_share_range(use.handle, (int64_t)(from + done), other->handle,
					    (int64_t)(range->dest_offset + done), bytes - done);
		if (shared == 0) /* it has become shorter */
			break;
		done += shared > 0 ? (uint64_t)shared : 0;
	}
	return done_both(&use, other, shared) < 0 ? -1 : 0;
}

static int clone_by(int to, const void *argument)
{
	struct file_clone_range range;

	if (!g4p_can_read(argument, sizeof(range))) {
		errno = EFAULT;
		return -1;
	}
	memcpy(&range, argument, sizeof(range));
	return clone_range(to, &range, FICLONERANGE, argument);
}

/* One of FIDEDUPERANGE's, which has a result of its own. */
static void dedupe_one(int from, const struct file_dedupe_range *range, struct file_dedupe_range_info *info)
{
	struct g4p_use use;
	struct g4p_file *other;
	int64_t same;

	info->bytes_deduped = 0;
	if (are_apart(from, (int)info->dest_fd)) {
		info->status = -errno;
		return;
	}
	if (!use_both(G4P_ioctl, from, (int)info->dest_fd, &use, &other)) {
		struct {
			struct file_dedupe_range range;
			struct file_dedupe_range_info info;
		} one = {*range, *info};
		one.range.dest_count = 1;
		if (G4P_NEXT(ioctl)(from, FIDEDUPERANGE, &one) < 0)
			one.info.status = -errno;
		*info = one.info;
		return;
	}
	if (range->src_offset > INT64_MAX || info->dest_offset > INT64_MAX)
		same = -EINVAL;
	else
		same = gpu4fs_dedupe_range(use.handle, (int64_t)range->src_offset, other->handle,
					   (int64_t)info->dest_offset, range->src_length, 0);
	same = done_both(&use, other, same);
	info->status = same < 0				  ? -errno :
		       same > 0 || range->src_length == 0 ? FILE_DEDUPE_RANGE_SAME :
							    FILE_DEDUPE_RANGE_DIFFERS;
	info->bytes_deduped = same > 0 ? (uint64_t)same : 0;
}

static int dedupe_ranges(int from, void *argument)
{
	struct file_dedupe_range range;
	struct file_dedupe_range_info info;
	uint8_t *at = (uint8_t *)argument + sizeof(range);
	int error = 0;

	if (!g4p_can_read(argument, sizeof(range)))
		error = EFAULT;
	else
		memcpy(&range, argument, sizeof(range));
	if (!error && (range.reserved1 || range.reserved2))
		error = EINVAL;
	for (uint32_t k = 0; !error && k < range.dest_count; k++, at += sizeof(info)) {
		if (!g4p_can_read(at, sizeof(info))) {
			error = EFAULT;
			break;
		}
		memcpy(&info, at, sizeof(info));
		if (info.reserved)
			info.status = -EINVAL;
		else
			dedupe_one(from, &range, &info);
		if (!g4p_copy_out(at, &info, sizeof(info)))
			error = EFAULT;
	}
	errno = error ? error : errno;
	return error ? -1 : 0;
}

/* Descriptors that are, or begin, the argument of a request. */
static void settle_argument(unsigned long request, const void *argument)
{
	const bool readable = g4p_can_read(argument, sizeof(int));

	if (request == LOOP_SET_FD || request == LOOP_CHANGE_FD)
		g4p_settle((int)(intptr_t)argument, G4P_ioctl);
	else if (request == LOOP_CONFIGURE && readable)
		g4p_settle(*(const int *)argument, G4P_ioctl);
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list list;

	va_start(list, request);
	void *argument = va_arg(list, void *);
	va_end(list);
	if (request == FICLONE && g4p_any_files())
		return clone_range(fd, &(struct file_clone_range){.src_fd = (int)(intptr_t)argument}, request,
				   argument);
	if (request == FICLONERANGE && g4p_any_files())
		return clone_by(fd, argument);
	if (request == FIDEDUPERANGE && g4p_any_files())
		return dedupe_ranges(fd, argument);
	if (g4p_any_files())
		settle_argument(request, argument);
	return g4p_settle(fd, G4P_ioctl) ? G4P_NEXT(ioctl)(fd, request, argument) : -1;
}

/* Of a directory that is gone the kernel would say what it says of any. */
static bool settle_ends(int from, int to, enum g4p_number number)
{
	if (g4p_settle(to, number) && g4p_settle(from, number))
		return true;
	if (errno == ESTALE)
		errno = EINVAL;
	return false;
}

ssize_t sendfile(int to, int from, off_t *offset, size_t bytes)
{
	return settle_ends(from, to, G4P_sendfile) ? G4P_NEXT(sendfile)(to, from, offset, bytes) : -1;
}

ssize_t splice(int from, off_t *from_offset, int to, off_t *to_offset, size_t bytes, unsigned int flags)
{
	return settle_ends(from, to, G4P_splice) ? G4P_NEXT(splice)(from, from_offset, to, to_offset, bytes, flags) :
						   -1;
}

ssize_t tee(int from, int to, size_t bytes, unsigned int flags)
{
	return settle_ends(from, to, G4P_splice) ? G4P_NEXT(tee)(from, to, bytes, flags) : -1;
}

ssize_t vmsplice(int fd, const struct iovec *parts, size_t count, unsigned int flags)
{
	return settle_ends(fd, fd, G4P_splice) ? G4P_NEXT(vmsplice)(fd, parts, count, flags) : -1;
}

int signalfd(int fd, const sigset_t *mask, int flags)
{
	return settle_ends(fd, fd, G4P_signalfd) ? G4P_NEXT(signalfd)(fd, mask, flags) : -1;
}

/* ------------------------------------------------------------------ what only the kernel can do */

int flock(int fd, int operation)
{
	return g4p_settle(fd, G4P_flock) ? G4P_NEXT(flock)(fd, operation) : -1;
}

int lockf(int fd, int command, off_t bytes)
{
	if (!g4p_settle(fd, G4P_fcntl))
		return -1;
	g4p_record_lock(fd);
	return G4P_NEXT(lockf)(fd, command, bytes);
}

int isatty(int fd)
{
	struct g4p_use use;

	if (!g4p_use(&use, G4P_isatty, fd))
		return G4P_NEXT(isatty)(fd);
	(void)g4p_done(&use, -ENOTTY);
	return 0;
}

/* Other questions to a terminal: the C library asks by a function inside itself, and no file is one. */
int tcgetattr(int fd, struct termios *terminal)
{
	return g4p_settle(fd, G4P_isatty) ? G4P_NEXT(tcgetattr)(fd, terminal) : -1;
}

int tcsetattr(int fd, int when, const struct termios *terminal)
{
	return g4p_settle(fd, G4P_isatty) ? G4P_NEXT(tcsetattr)(fd, when, terminal) : -1;
}

char *ttyname(int fd)
{
	return g4p_settle(fd, G4P_isatty) ? G4P_NEXT(ttyname)(fd) : NULL;
}

int ttyname_r(int fd, char *name, size_t bytes)
{
	return g4p_settle(fd, G4P_isatty) ? G4P_NEXT(ttyname_r)(fd, name, bytes) : errno;
}

char *ptsname(int fd)
{
	return g4p_settle(fd, G4P_isatty) ? G4P_NEXT(ptsname)(fd) : NULL;
}

int ptsname_r(int fd, char *name, size_t bytes)
{
	return g4p_settle(fd, G4P_isatty) ? G4P_NEXT(ptsname_r)(fd, name, bytes) : errno;
}

pid_t tcgetpgrp(int fd)
{
	return g4p_settle(fd, G4P_isatty) ? G4P_NEXT(tcgetpgrp)(fd) : -1;
}

int tcsetpgrp(int fd, pid_t group)
{
	return g4p_settle(fd, G4P_isatty) ? G4P_NEXT(tcsetpgrp)(fd, group) : -1;
}

pid_t tcgetsid(int fd)
{
	return g4p_settle(fd, G4P_isatty) ? G4P_NEXT(tcgetsid)(fd) : -1;
}

int tcdrain(int fd)
{
	return g4p_settle(fd, G4P_isatty) ? G4P_NEXT(tcdrain)(fd) : -1;
}

int tcflow(int fd, int action)
{
	return g4p_settle(fd, G4P_isatty) ? G4P_NEXT(tcflow)(fd, action) : -1;
}

int tcflush(int fd, int queue)
{
	return g4p_settle(fd, G4P_isatty) ? G4P_NEXT(tcflush)(fd, queue) : -1;
}

int tcsendbreak(int fd, int duration)
{
	return g4p_settle(fd, G4P_isatty) ? G4P_NEXT(tcsendbreak)(fd, duration) : -1;
}

int isfdtype(int fd, int type)
{
	return g4p_settle(fd, G4P_fstat) ? G4P_NEXT(isfdtype)(fd, type) : -1;
}

void backtrace_symbols_fd(void *const *frames, int count, int fd)
{
	if (g4p_settle(fd, G4P_write))
		G4P_NEXT(backtrace_symbols_fd)(frames, count, fd);
}

void g4p_settle_polled(const struct pollfd *fds, nfds_t count)
{
	const bool readable = g4p_any_files() && g4p_can_read(fds, count * sizeof(*fds));

	for (nfds_t i = 0; readable && i < count; i++)
		g4p_settle(fds[i].fd, G4P_poll);
}

int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	g4p_settle_polled(fds, count);
	return G4P_NEXT(poll)(fds, count, timeout);
}

int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
	g4p_settle_polled(fds, count);
	return G4P_NEXT(ppoll)(fds, count, timeout, mask);
}

int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room);
int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room)
{
	g4p_settle_polled(fds, count);
	return G4P_NEXT(__poll_chk)(fds, count, timeout, room);
}

int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask, size_t room);
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask, size_t room)
{
	g4p_settle_polled(fds, count);
	return G4P_NEXT(__ppoll_chk)(fds, count, timeout, mask, room);
}

static void settle_set(int count, const fd_set *set)
{
	const bool readable = set && g4p_any_files() && count > 0 && g4p_can_read(set, ((size_t)count + 7) / 8);

	for (int fd = 0; readable && fd < count && fd < FD_SETSIZE; fd++)
		if (FD_ISSET(fd, set))
			g4p_settle(fd, G4P_select);
}

void g4p_settle_sets(int count, const fd_set *in, const fd_set *out, const fd_set *other)
{
	settle_set(count, in);
	settle_set(count, out);
	settle_set(count, other);
}

int select(int count, fd_set *restrict in, fd_set *restrict out, fd_set *restrict other,
	   struct timeval *restrict timeout)
{
	g4p_settle_sets(count, in, out, other);
	return G4P_NEXT(select)(count, in, out, other, timeout);
}

int pselect(int count, fd_set *restrict in, fd_set *restrict out, fd_set *restrict other,
	    const struct timespec *restrict timeout, const sigset_t *restrict mask)
{
	g4p_settle_sets(count, in, out, other);
	return G4P_NEXT(pselect)(count, in, out, other, timeout, mask);
}

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
	return g4p_settle(fd, G4P_poll) ? G4P_NEXT(epoll_ctl)(epoll, operation, fd, event) : -1;
}

/* Descriptors that go to another process. False, with errno: one of them must not. */
bool g4p_settle_rights(const struct msghdr *message)
{
	const bool readable = message && g4p_any_files() && g4p_can_read(message, sizeof(*message)) &&
			      g4p_can_read(message->msg_control, message->msg_controllen);
	struct cmsghdr *part = readable ? CMSG_FIRSTHDR(message) : NULL;

	for (; part; part = CMSG_NXTHDR((struct msghdr *)(uintptr_t)message, part)) {
		if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; CMSG_LEN((i + 1) * sizeof(int)) <= part->cmsg_len; i++) {
			int sent;
			memcpy(&sent, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
			if (!g4p_settle(sent, G4P_sendmsg))
				return false;
		}
	}
	return true;
}

bool g4p_settle_messages(const struct mmsghdr *messages, unsigned int *count)
{
	const bool readable = g4p_any_files() && g4p_can_read(messages, *count * sizeof(*messages));

	for (unsigned int i = 0; readable && i < *count; i++) {
		if (g4p_settle_rights(&messages[i].msg_hdr))
			continue;
		if (i == 0)
			return false;
		*count = i;
	}
	return true;
}

/*
 * A private mapping is a copy of what the file holds now, which POSIX allows: it does not say whether later changes show. Behind the
 * end of the file it has zeros, where the kernel would send SIGBUS.
 */
static int64_t fill(gpu4fs_file *handle, char *memory, size_t bytes, off_t offset)
{
	size_t done = 0;
	int64_t part = 1;

	while (done < bytes && (part = gpu4fs_pread(handle, memory + done, bytes - done, offset + (off_t)done)) > 0)
		done += (size_t)part;
	return part < 0 ? part : 0;
}

void *mmap(void *where, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	struct g4p_use use;
	void *memory;

	if (flags & MAP_FIXED) {
		if (fd >= 0 && !(flags & MAP_ANONYMOUS))
			g4p_settle(fd, G4P_mmap);
		return g4p_map_over(where, bytes, protection, flags, fd, offset);
	}
	if (fd < 0 || (flags & MAP_ANONYMOUS) || !g4p_any_files())
		return G4P_NEXT(mmap)(where, bytes, protection, flags, fd, offset);
	if ((flags & MAP_TYPE) != MAP_PRIVATE || (flags & (MAP_FIXED_NOREPLACE | MAP_32BIT)) ||
	    (protection & PROT_EXEC) || bytes == 0 || bytes > MAPPED_MAX_BYTES || offset < 0 || offset % 4096 != 0 ||
	    !g4p_use(&use, G4P_mmap, fd)) {
		g4p_settle(fd, G4P_mmap);
		return G4P_NEXT(mmap)(where, bytes, protection, flags, fd, offset);
	}
	memory = G4P_NEXT(mmap)(where, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int64_t rc = memory == MAP_FAILED ? -ENOMEM : fill(use.handle, memory, bytes, offset);
	if (rc == 0 && protection != (PROT_READ | PROT_WRITE))
		rc = mprotect(memory, bytes, protection) == 0 ? 0 : -errno;
	if (rc == 0 && !g4p_copy_made(memory, bytes))
		rc = -ENOMEM; /* the kernel maps it */
	if (g4p_done(&use, rc) == 0)
		return memory;
	if (memory != MAP_FAILED)
		munmap(memory, bytes);
	g4p_settle(fd, G4P_mmap);
	return G4P_NEXT(mmap)(where, bytes, protection, flags, fd, offset);
}

#define SAME(name, other) ".globl " name "\n.set " name ", " other "\n"
__asm__(SAME("pread64", "pread") SAME("pwrite64", "pwrite") SAME("preadv64", "preadv") SAME("pwritev64", "pwritev")
		SAME("preadv64v2", "preadv2") SAME("pwritev64v2", "pwritev2") SAME("__pread64_chk", "__pread_chk")
			SAME("lseek64", "lseek") SAME("ftruncate64", "ftruncate") SAME("fallocate64", "fallocate")
				SAME("posix_fallocate64", "posix_fallocate") SAME("posix_fadvise64", "posix_fadvise")
					SAME("sendfile64", "sendfile") SAME("mmap64", "mmap") SAME("lockf64", "lockf")
	/* names that the C library has besides */ SAME("__read", "read") SAME("__write", "write")
		SAME("__pread64", "pread") SAME("__pwrite64", "pwrite") SAME("__lseek", "lseek") SAME("llseek", "lseek")
			SAME("__poll", "poll") SAME("__select", "select"));
