/* SPDX-License-Identifier: Apache-2.0 */
/* libgpu4fs: open files and directories, locks, asynchronous operations. A part of gpu4fs.h, which says what holds for all. */
#ifndef GPU4FS_FILE_H
#define GPU4FS_FILE_H

#include <fcntl.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "gpu4fs/gpu4fs_path.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------ open and close */

/* Flags of gpu4fs_open() that open(2) does not have. */
#define GPU4FS_O_DEDUP                                                                                                 \
	0x10000000 /* what is written is deduplicated, whatever the file's policy says (gpu4fs attr set dedup=) */
#define GPU4FS_O_NODEDUP 0x20000000 /* is not */

/*
 * Opens a file or directory.
 *
 * flags: O_RDONLY, O_WRONLY or O_RDWR, and any of O_CREAT, O_EXCL, O_TRUNC, O_APPEND, O_DIRECTORY, O_NOFOLLOW, O_SYNC,
 *	O_DSYNC, O_NOATIME, O_DIRECT (large I/O bypasses the cache; no alignment is required), O_TMPFILE (path is a
 *	directory; the file has no name until gpu4fs_link_file(), and never gets one with O_EXCL). O_CLOEXEC, O_NOCTTY
 *	and O_NONBLOCK mean nothing here and are accepted. One of GPU4FS_O_DEDUP and GPU4FS_O_NODEDUP: of pages that
 *	several write before they are stored the last one's counts. Files without sums are never deduplicated.
 * mode: permissions of a new file, less the umask. Looked at only with O_CREAT or O_TMPFILE.
 * out: the handle; give it back with gpu4fs_close(). A directory's handle serves as `at`.
 * Errors: open(2)'s; -EINVAL an unknown flag; -ENXIO a FIFO, socket or device.
 */
GPU4FS_API int gpu4fs_open(gpu4fs *fs, gpu4fs_file *at, const char *path, int flags, uint32_t mode, gpu4fs_file **out);
/*
 * Gives a handle back, and the locks taken through it. Written data is visible to everyone already; it is durable only
 * after gpu4fs_fsync(), gpu4fs_syncfs() or gpu4fs_unmount(). Frees the handle also when it returns an error.
 */
GPU4FS_API int gpu4fs_close(gpu4fs_file *file);
/* Gives the open file another name, in particular its first to one opened with O_TMPFILE. -ENOENT if that was with
 * O_EXCL or the file was unlinked. */
GPU4FS_API int gpu4fs_link_file(gpu4fs_file *file, gpu4fs_file *to_at, const char *to);

/* ------------------------------------------------------------------------------------------------ read and write
 * Offsets and lengths are in bytes. All return -EBADF if the handle was not opened for it and -EISDIR for directories.
 * One call moves at most 2^31 - 4096 bytes, like the kernel's. Fewer bytes than asked for come back at the end of the
 * file, when the device fills up, and never otherwise.
 */

/*
 * Reads or writes at an offset; the file position stays. On a handle opened with O_APPEND, pwrite appends. Reading at
 * or behind the end gives 0. -EFBIG a write from 2^63 - 1 on.
 */
GPU4FS_API int64_t gpu4fs_pread(gpu4fs_file *file, void *buffer, size_t bytes, int64_t offset);
GPU4FS_API int64_t gpu4fs_pwrite(gpu4fs_file *file, const void *buffer, size_t bytes, int64_t offset);
/* The same at the file position, which moves on. Calls on one handle are serialised. */
GPU4FS_API int64_t gpu4fs_read(gpu4fs_file *file, void *buffer, size_t bytes);
GPU4FS_API int64_t gpu4fs_write(gpu4fs_file *file, const void *buffer, size_t bytes);
/* The same with up to 1024 buffers. A pwritev of up to 256 KiB is one write to other threads and to O_APPEND. */
GPU4FS_API int64_t gpu4fs_preadv(gpu4fs_file *file, const struct iovec *iov, int count, int64_t offset);
GPU4FS_API int64_t gpu4fs_pwritev(gpu4fs_file *file, const struct iovec *iov, int count, int64_t offset);
/*
 * Moves the file position and returns it. whence: SEEK_SET, SEEK_CUR, SEEK_END; SEEK_DATA and SEEK_HOLE find the next
 * byte at or after offset that is stored or is not (the end of the file counts as a hole).
 * Errors: -ENXIO nothing there for SEEK_DATA or SEEK_HOLE; -EINVAL the position would be negative.
 */
GPU4FS_API int64_t gpu4fs_lseek(gpu4fs_file *file, int64_t offset, int whence);
/* Sets the length as gpu4fs_truncate() does. -EINVAL if not opened for writing. */
GPU4FS_API int gpu4fs_ftruncate(gpu4fs_file *file, int64_t size);

#define GPU4FS_FALLOC_KEEP_SIZE 0x01u
#define GPU4FS_FALLOC_PUNCH_HOLE 0x02u
#define GPU4FS_FALLOC_COLLAPSE_RANGE 0x08u
#define GPU4FS_FALLOC_ZERO_RANGE 0x10u
#define GPU4FS_FALLOC_INSERT_RANGE 0x20u

/*
 * Manages the space of a range. mode 0 allocates it (and extends the file), so that writing there cannot fail for lack
 * of space the first time; GPU4FS_FALLOC_KEEP_SIZE: without extending; PUNCH_HOLE | KEEP_SIZE: frees the whole pages
 * inside and zeroes the rest; ZERO_RANGE (| KEEP_SIZE): makes the range read as zeros.
 * COLLAPSE_RANGE takes the range out of the file, which gets as much shorter; INSERT_RANGE puts a hole there, and what was
 * behind offset is behind it. Both alone, in whole pages (4096 bytes) inside the file. Contents are not moved, only what leads
 * to them: it takes time by the number of 2 MiB behind offset, pages that are shared with other files stay so, and after a crash
 * all of it has happened or nothing.
 * Errors: fallocate(2)'s, -EINVAL among them for what these two do not take; -EOPNOTSUPP any other mode.
 */
GPU4FS_API int gpu4fs_fallocate(gpu4fs_file *file, uint32_t mode, int64_t offset, int64_t bytes);
/*
 * Copies inside the file system, without passing the data through the caller. An offset pointer of NULL stands for the
 * handle's file position; whichever is used moves on by what is returned. 0 at the end of the source.
 * Errors: -EBADF to is O_APPEND; -EINVAL the ranges overlap in one file; -EXDEV different file systems.
 */
GPU4FS_API int64_t gpu4fs_copy_file_range(gpu4fs_file *from, int64_t *from_offset, gpu4fs_file *to, int64_t *to_offset,
					  size_t bytes);
/*
 * The same where nothing may be copied: a range of one file becomes that of another, or of another place of it, by reference, as
 * ioctl(2)'s FICLONERANGE does it. Both offsets are multiples of 4096 bytes, and so is bytes unless the range ends where the source
 * does, and not in front of the end of the target; what is behind the end of the source does not count, so UINT64_MAX is all of
 * it. Returns the bytes that are shared now, 0 at the end of the source; fewer than asked for: another call tells why. A file of up
 * to 128 bytes has no pages that could be shared: its bytes are copied.
 * Errors: -EINVAL the range is not one of whole pages, or overlaps itself; -ENOSPC no space for counts of owners or the target's map;
 * -EMLINK a page has 2^32 owners; -EBUSY the file system's size is just changing; -EBADF, -EXDEV as above; -EISDIR.
 */
GPU4FS_API int64_t gpu4fs_share_range(gpu4fs_file *from, int64_t from_offset, gpu4fs_file *to, int64_t to_offset,
				      uint64_t bytes);
#define GPU4FS_DEDUPE_COMPARE 1u /* read both, and compare all bytes, whatever their sums are */
#define GPU4FS_DEDUPE_ZEROS 2u	 /* of a range with itself: pages of zeros become holes */
/*
 * Shares pages of two files, or of two places of one, that have the same contents already, as ioctl(2)'s FIDEDUPERANGE does it:
 * neither file's contents, size or times change, also while others write. From the offsets on, multiples of 4096 bytes, so many of
 * the pages as are the same in both. bytes is a multiple of 4096, too, unless the range ends where one of the files does; what is
 * behind that does not count, so UINT64_MAX is all. Pages with the same BLAKE3 are the same, and are not read; all others are read and
 * compared. A page whose contents have become damaged unnoticed has its old sum: GPU4FS_DEDUPE_COMPARE finds that.
 * Returns the bytes from the offsets on that are the same and shared now (holes and what was shared before among them); fewer than
 * asked for: the next page is another, or can not be shared, and another call tells why; 0: the first one is another, or lies behind
 * an end, or a file of up to 128 bytes has no pages.
 * With GPU4FS_DEDUPE_ZEROS both files are one, and so are the offsets (else -EINVAL): its pages are compared with zeros, and those that are
 * zeros become holes; what fallocate() has given and nobody has written stays. Returns the bytes up to the first page that is not zeros.
 * Errors: as gpu4fs_share_range(); -EIO a page can not be read; -EPERM the target is immutable; -EINVAL unknown flags.
 */
GPU4FS_API int64_t gpu4fs_dedupe_range(gpu4fs_file *from, int64_t from_offset, gpu4fs_file *to, int64_t to_offset,
				       uint64_t bytes, uint32_t flags);

/* Bytes of whole pages of a file that were looked at. */
struct gpu4fs_restriped {
	uint64_t moved; /* to where the file's policy says */
	/* elsewhere, and left: with several owners; that can not be read, or are not what was written */
	uint64_t shared, damaged;
};
#define GPU4FS_RESTRIPE_LOOK 1u /* move nothing, and count as if */
/*
 * Moves pages of a file, up to 16 MiB from an offset on, to chunks of the level that its policy ("gpu4fs.raid") asks for, where they lie in
 * chunks of another. Contents, size and times stay, also while others write; sums are copied, and pages are compared with them before.
 * Returns where to go on, 0 behind the last page. out is of this call. What was moved stays so with an error, and after a crash; calling it
 * again from 0 on passes over it.
 * Errors: -ENOSPC no space in chunks of that level; -EBADF the file is not open for writing, and LOOK was not asked for; -EISDIR; -EINVAL the offset, or unknown flags; -EROFS.
 */
GPU4FS_API int64_t gpu4fs_restripe(gpu4fs_file *file, int64_t offset, uint32_t flags, struct gpu4fs_restriped *out);

struct gpu4fs_page_sum {
	uint64_t offset;    /* of a page in the file */
	uint64_t address;   /* on the device: the same for pages that are shared */
	uint32_t algorithm; /* 1 BLAKE3, 2 CRC-32C, 3 XXH3-128; 0 and others: there is no sum to compare with */
	uint32_t reserved;
	uint8_t sum[32]; /* FORMAT.md, "Sums" */
};
/*
 * The pages of a file that are stored on the device, and their sums, from offset on in their order: no data is read. Holes are left out,
 * and what nobody has synced may be missing or be older.
 * Returns how many they are, 0 behind the last one; fewer than count does not mean that it was the last.
 */
GPU4FS_API int64_t gpu4fs_page_sums(gpu4fs_file *file, int64_t offset, struct gpu4fs_page_sum *out, uint32_t count);
#define GPU4FS_EXTENT_UNWRITTEN 1u /* fallocate() has given it, and it reads as zeros */
#define GPU4FS_EXTENT_INLINE 2u	   /* in the inode, which is at the address */
#define GPU4FS_EXTENT_HUGE 4u	   /* pages of 2 MiB or more */
#define GPU4FS_EXTENT_SHARED 8u	   /* another file has it as well, or another place of this one */
struct gpu4fs_extent {
	uint64_t offset;  /* in the file */
	uint64_t length;  /* bytes; an inline one's are the file's size */
	uint64_t address; /* on the device */
	uint32_t flags;	  /* GPU4FS_EXTENT_* */
	uint32_t reserved;
};
/*
 * Where a file lies, from the page that offset is in on: what FIEMAP tells of other file systems. Holes are left out, and what nobody has
 * synced may be missing or be older. A file whose pages are shared in part has an extent for each part.
 * Returns how many extents they are, 0 behind the last one. The next call begins behind the last one that was told.
 * Errors: -EBADF the file is not open for reading; -EISDIR; -EINVAL.
 */
GPU4FS_API int64_t gpu4fs_extents(gpu4fs_file *file, int64_t offset, struct gpu4fs_extent *out, uint32_t count);
/* Returns when the file's data and attributes are durable; fdatasync: its data and what is needed to read it. */
GPU4FS_API int gpu4fs_fsync(gpu4fs_file *file);
GPU4FS_API int gpu4fs_fdatasync(gpu4fs_file *file);

/* The functions of the same names by path, on an open file. */
GPU4FS_API int gpu4fs_fstat(gpu4fs_file *file, struct gpu4fs_stat *out);
GPU4FS_API int gpu4fs_fchmod(gpu4fs_file *file, uint32_t mode);
GPU4FS_API int gpu4fs_fchflags(gpu4fs_file *file, uint32_t flags);
GPU4FS_API int gpu4fs_fchown(gpu4fs_file *file, uint32_t uid, uint32_t gid);
GPU4FS_API int gpu4fs_futimens(gpu4fs_file *file, const struct timespec times[2]);

/* ------------------------------------------------------------------------------------------------ directories */

#define GPU4FS_DIR_STAT 1u /* gpu4fs_readdir() also delivers attributes: one pass instead of a stat a name */
#define GPU4FS_DIR_DOTS 2u /* and "." and ".." */

struct gpu4fs_dirent {
	uint64_t ino;
	uint64_t cookie;		/* gpu4fs_seekdir() to it continues behind this entry */
	const char *name;		/* with terminating 0; in the stream's memory, valid until its next call */
	uint32_t name_bytes;		/* without the 0 */
	uint32_t type;			/* DT_REG, DT_DIR, ... */
	const struct gpu4fs_stat *stat; /* with GPU4FS_DIR_STAT, else NULL; valid as long as name */
};

/* Opens a directory stream. flags: GPU4FS_DIR_*. Give it back with gpu4fs_closedir(). */
GPU4FS_API int gpu4fs_opendir(gpu4fs *fs, gpu4fs_file *at, const char *path, uint32_t flags, gpu4fs_dir **out);
/* The same on an open directory, which stays the caller's and must stay open as long as the stream. */
GPU4FS_API int gpu4fs_opendir_file(gpu4fs_file *file, uint32_t flags, gpu4fs_dir **out);
/*
 * The next name: 1 and *out filled in, or 0 at the end. "." and ".." are delivered with GPU4FS_DIR_DOTS only. A name that exists all the time
 * from opendir (or seekdir) to the end is delivered exactly once, whatever else is created and removed meanwhile.
 */
GPU4FS_API int gpu4fs_readdir(gpu4fs_dir *dir, struct gpu4fs_dirent *out);
/* The cookie of the last entry delivered (0: none yet), and back to any such cookie, also of another stream of the same
 * directory, also when the entry is gone. 0 is the start. */
GPU4FS_API uint64_t gpu4fs_telldir(gpu4fs_dir *dir);
GPU4FS_API void gpu4fs_seekdir(gpu4fs_dir *dir, uint64_t cookie);
GPU4FS_API int gpu4fs_closedir(gpu4fs_dir *dir);

/* ------------------------------------------------------------------------------------------------ locks
 * Advisory locks between the handles of one mounted file system, within this process.
 */
struct gpu4fs_lock {
	uint32_t size; /* sizeof(struct gpu4fs_lock) */
	int16_t type;  /* F_RDLCK, F_WRLCK, F_UNLCK */
	int16_t reserved;
	int64_t start;	/* first byte */
	int64_t length; /* bytes; 0: to the end, however far the file grows */
	/*
	 * 0: the handle owns the lock (as with F_OFD_SETLK). Else the number of an owner (as processes do with
	 * F_SETLK): its locks never conflict with each other, through whatever handles they were taken.
	 */
	uint64_t owner;
};

/*
 * Sets or clears a byte-range lock. Locks of one owner merge, split and change type as fcntl(2) says.
 * wait: 0 gives -EAGAIN when another owner is in the way; otherwise sleeps until it is not, -EDEADLK if numbered
 *	owners would then wait for each other in a circle. gpu4fs_close() drops the locks taken through the handle.
 * Errors: -EBADF the handle is not open for reading (F_RDLCK) or writing (F_WRLCK); -EINVAL a bad range or type.
 */
GPU4FS_API int gpu4fs_lock_set(gpu4fs_file *file, const struct gpu4fs_lock *lock, int wait);
/* Asks: fills *lock with one lock that is in the way of it, or sets its type to F_UNLCK. */
GPU4FS_API int gpu4fs_lock_get(gpu4fs_file *file, struct gpu4fs_lock *lock);
/* Drops all locks that owner (not 0) has on this file: what close(2) does to a process's. */
GPU4FS_API int gpu4fs_lock_release(gpu4fs_file *file, uint64_t owner);
/* Locks the whole file for this handle. operation: LOCK_SH, LOCK_EX or LOCK_UN, or'ed with LOCK_NB for -EAGAIN instead
 * of waiting (<sys/file.h>). Independent of byte-range locks. Changing a lock's type is not atomic. */
GPU4FS_API int gpu4fs_flock(gpu4fs_file *file, int operation);

/* ------------------------------------------------------------------------------------------------ asynchronous
 * gpu4fs_submit() hands over operations, worker threads of the file system execute them in any order and in parallel,
 * gpu4fs_poll() collects what is done. To order two operations, submit the second when the first is done.
 */
enum gpu4fs_async_op {
	GPU4FS_ASYNC_NOP = 0,
	GPU4FS_ASYNC_READ = 1,	/* file, buffer, bytes, offset: gpu4fs_pread() */
	GPU4FS_ASYNC_WRITE = 2, /* file, buffer, bytes, offset: gpu4fs_pwrite() */
	GPU4FS_ASYNC_READV = 3, /* file, buffer = iovec[], bytes = their number, offset */
	GPU4FS_ASYNC_WRITEV = 4,
	GPU4FS_ASYNC_FSYNC = 5,	    /* file */
	GPU4FS_ASYNC_FDATASYNC = 6, /* file */
	GPU4FS_ASYNC_FALLOCATE = 7, /* file, flags = mode, offset, bytes */
	GPU4FS_ASYNC_FTRUNCATE = 8, /* file, offset = size */
	GPU4FS_ASYNC_COPY = 9,	    /* file, offset, file2 = target, offset2, bytes */
	GPU4FS_ASYNC_OPEN = 10,	    /* file = at, path, flags, mode; the handle comes in `opened` */
	GPU4FS_ASYNC_CLOSE = 11,    /* file */
	GPU4FS_ASYNC_STAT = 12,	    /* file = at, path, buffer = struct gpu4fs_stat * */
	GPU4FS_ASYNC_LSTAT = 13,
	GPU4FS_ASYNC_FSTAT = 14,   /* file, buffer = struct gpu4fs_stat * */
	GPU4FS_ASYNC_MKDIR = 15,   /* file = at, path, mode */
	GPU4FS_ASYNC_RMDIR = 16,   /* file = at, path */
	GPU4FS_ASYNC_UNLINK = 17,  /* file = at, path */
	GPU4FS_ASYNC_RENAME = 18,  /* file = at, path, file2 = at, path2, flags */
	GPU4FS_ASYNC_LINK = 19,	   /* file = at, path, file2 = at, path2, flags */
	GPU4FS_ASYNC_SYMLINK = 20, /* path2 = target, file = at, path */
	GPU4FS_ASYNC_SYNCFS = 21,
	GPU4FS_ASYNC_BATCH = 22, /* file = at, buffer = struct gpu4fs_batch_entry[], bytes = their number, flags */
};

struct gpu4fs_async {
	uint32_t size; /* sizeof(struct gpu4fs_async) */
	uint32_t op;   /* enum gpu4fs_async_op */
	uint64_t user; /* the caller's own */
	gpu4fs_file *file, *file2;
	const char *path, *path2;
	void *buffer;
	uint64_t bytes;
	int64_t offset, offset2;
	uint32_t flags;
	uint32_t mode;
	int64_t result;	     /* out: what the function returns */
	gpu4fs_file *opened; /* out */
	void *reserved[4];   /* the library's while in flight */
};

/*
 * Starts count operations from an array. The array and everything it points to (paths, buffers) belong to the library
 * until the operation comes out of gpu4fs_poll(); handles stay open until then. Errors of operations come in their
 * result. Never blocks for longer than handing over takes; there is no limit on the number in flight.
 * Returns 0, or, with nothing started, -EINVAL (size, op) or -EAGAIN (no worker thread could be made).
 */
GPU4FS_API int gpu4fs_submit(gpu4fs *fs, struct gpu4fs_async *ops, uint32_t count);
/*
 * Collects operations of this session that are done, in the order they finished.
 * completions: gets up to max pointers to submitted structures, result filled in.
 * timeout_ns: how long to wait for the first one: 0: not at all; negative: as long as any is in flight.
 * Returns their number; 0 when none came in time or none is in flight.
 */
GPU4FS_API int gpu4fs_poll(gpu4fs *fs, struct gpu4fs_async **completions, uint32_t max, int64_t timeout_ns);

#ifdef __cplusplus
}
#endif

#endif
