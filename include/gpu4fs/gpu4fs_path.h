/* SPDX-License-Identifier: Apache-2.0 */
/* libgpu4fs: files by path, extended attributes. A part of gpu4fs.h, which says what holds for all. */
#ifndef GPU4FS_PATH_H
#define GPU4FS_PATH_H

#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "gpu4fs/gpu4fs_mount.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------ by path */

#define GPU4FS_FLAG_IMMUTABLE (1u << 1) /* chattr +i */
#define GPU4FS_FLAG_APPEND (1u << 2)	/* chattr +a */
#define GPU4FS_FLAG_NODUMP (1u << 3)
#define GPU4FS_FLAG_NOATIME (1u << 4)

struct gpu4fs_stat {
	uint64_t ino;
	uint64_t generation;   /* with ino unique for ever */
	uint64_t size;	       /* bytes */
	uint64_t blocks;       /* allocated, in units of 512 bytes */
	uint64_t rdev;	       /* dev_t of device files */
	uint64_t change_count; /* grows with every change of the file or its attributes */
	uint32_t mode;	       /* S_IFMT and permission bits */
	uint32_t nlink;
	uint32_t uid, gid;
	uint32_t flags;	      /* GPU4FS_FLAG_* */
	uint32_t block_bytes; /* preferred I/O size */
	struct timespec atime, mtime, ctime,
		btime; /* access, content, attribute and birth time, exact to the nanosecond */
	uint64_t reserved[4];
};

/* Attributes of a file. stat follows a symbolic link at the end of the path, lstat does not. */
GPU4FS_API int gpu4fs_stat(gpu4fs *fs, gpu4fs_file *at, const char *path, struct gpu4fs_stat *out);
GPU4FS_API int gpu4fs_lstat(gpu4fs *fs, gpu4fs_file *at, const char *path, struct gpu4fs_stat *out);

/* Makes a directory. mode: permission and sticky bits, less the umask. A set-gid parent passes its group and bit on. */
GPU4FS_API int gpu4fs_mkdir(gpu4fs *fs, gpu4fs_file *at, const char *path, uint32_t mode);
/* Removes an empty directory. -EINVAL if the path ends in ".", -EBUSY for the root, -ENOTEMPTY. */
GPU4FS_API int gpu4fs_rmdir(gpu4fs *fs, gpu4fs_file *at, const char *path);
/* Removes a name. The file goes when its last name and its last handle are gone. -EISDIR for a directory. */
GPU4FS_API int gpu4fs_unlink(gpu4fs *fs, gpu4fs_file *at, const char *path);
/*
 * Removes names below a directory, at most `most` of them, as unlink and rmdir would one after the other; the directory stays.
 * Returns how many; 0: nothing is below it. An error, such as -EACCES of a name that may not go, comes when nothing went before
 * it, or when it stops all changes, such as -EUCLEAN. `from` says where in directories to begin: threads that clear one tree together give numbers that lie far apart.
 * -ENOTDIR also for a symbolic link.
 */
GPU4FS_API int64_t gpu4fs_clear(gpu4fs *fs, gpu4fs_file *at, const char *path, uint64_t most, uint32_t from);

struct gpu4fs_usage {
	uint64_t directories, files, links, others; /* links: symbolic ones */
	uint64_t bytes;				    /* sizes of files and symbolic links */
	uint64_t blocks;			    /* allocated, in units of 512 bytes */
	uint64_t unread; /* directories that may not be read, or are damaged: what is in them is not counted */
	uint64_t reserved[5];
};

/*
 * What a path's tree takes, the path itself included. Files with several names in it count once; symbolic links are not followed. The
 * engine sums up directories, so this is a call or a few for each, not one for each name. A name that is there all the time is
 * counted; of others it depends.
 * progress: called now and then with the sums so far, unless NULL; a value other than 0 ends the walk.
 * out: filled. Errors: -ECANCELED progress said so; -ENOMEM.
 */
GPU4FS_API int gpu4fs_usage(gpu4fs *fs, gpu4fs_file *at, const char *path, struct gpu4fs_usage *out,
			    int (*progress)(void *context, const struct gpu4fs_usage *so_far), void *context);
/*
 * The same by up to `threads` threads, 1 to 64: the caller's and others, which the library starts and which have ended when it returns.
 * progress is called by any of them, one at a time. Error besides: -EINVAL that many threads are not for it.
 */
GPU4FS_API int gpu4fs_usage_by(gpu4fs *fs, gpu4fs_file *at, const char *path, uint32_t threads,
			       struct gpu4fs_usage *out,
			       int (*progress)(void *context, const struct gpu4fs_usage *so_far), void *context);

#define GPU4FS_RENAME_NOREPLACE 1u /* -EEXIST if the target exists */
#define GPU4FS_RENAME_EXCHANGE 2u  /* swaps two existing names, of any types */
#define GPU4FS_RENAME_WHITEOUT 4u  /* leaves a character device 0:0 at the old name, as overlayfs wants it */

/*
 * Renames, atomically also over a crash: an existing target (a file, or an empty directory for a directory) is replaced
 * and at no time missing. Symbolic links at the end of either path are renamed themselves.
 * flags: 0 or GPU4FS_RENAME_*; EXCHANGE goes with none of the others.
 * Errors: -EINVAL a directory would move into itself, or both flags; -ENOTEMPTY; -EISDIR, -ENOTDIR the types differ;
 * -EBUSY a path ends in "." or ".." or is the root.
 */
GPU4FS_API int gpu4fs_rename(gpu4fs *fs, gpu4fs_file *from_at, const char *from, gpu4fs_file *to_at, const char *to,
			     uint32_t flags);
/*
 * Gives a file another name. flags: 0, or AT_SYMLINK_FOLLOW to link what a symbolic link points at instead of itself.
 * Errors: -EPERM for directories, and for files of others that one may not read and write, that are not regular or have
 * set-id bits; -EEXIST; -EMLINK beyond four thousand million links.
 */
GPU4FS_API int gpu4fs_link(gpu4fs *fs, gpu4fs_file *from_at, const char *from, gpu4fs_file *to_at, const char *to,
			   int flags);
/* Makes a symbolic link that contains target, 1 to 4095 bytes, unchecked. */
GPU4FS_API int gpu4fs_symlink(gpu4fs *fs, const char *target, gpu4fs_file *at, const char *path);
/* Copies a symbolic link's content to buffer, at most bytes bytes, without a terminator, and returns their number. */
GPU4FS_API int64_t gpu4fs_readlink(gpu4fs *fs, gpu4fs_file *at, const char *path, char *buffer, size_t bytes);
/* Makes a node. mode: S_IFREG (or 0), S_IFIFO, S_IFSOCK, S_IFCHR or S_IFBLK (these two need uid 0), and permissions.
 * Nodes that are neither files nor directories can be stored and listed, but not opened: -ENXIO. */
GPU4FS_API int gpu4fs_mknod(gpu4fs *fs, gpu4fs_file *at, const char *path, uint32_t mode, uint64_t rdev);

/*
 * Makes a directory and whatever its path lacks, as `mkdir -p` does; one that is there already is no error. The path may have any
 * length, for gpu4fs_mkdir_all_names() in names: none is empty, "." or "..", or has a slash. Symbolic links are followed.
 * mode: of the last one, as for gpu4fs_mkdir(); those above it get write and search permission for their owner besides.
 * made: how many were made, also before an error; may be NULL.
 * From the top down, each is there as gpu4fs_mkdir() would have made it; a crash may leave a beginning of them. Several callers may
 * make the same path at a time.
 * Errors: those of mkdir(2); -EEXIST the path leads to something else than a directory.
 */
GPU4FS_API int gpu4fs_mkdir_all(gpu4fs *fs, gpu4fs_file *at, const char *path, uint32_t mode, uint64_t *made);
GPU4FS_API int gpu4fs_mkdir_all_names(gpu4fs *fs, gpu4fs_file *at, const char *const *names, uint64_t count,
				      uint32_t mode, uint64_t *made);

enum gpu4fs_batch_op {
	GPU4FS_BATCH_STAT = 0,
	GPU4FS_BATCH_LSTAT = 1,
	GPU4FS_BATCH_CREATE = 2, /* as gpu4fs_mknod(), -EEXIST if the name is there: files, FIFOs and sockets */
	GPU4FS_BATCH_MKDIR = 3,
	GPU4FS_BATCH_MKDIR_ALL = 4,
	GPU4FS_BATCH_UNLINK = 5,
	GPU4FS_BATCH_RMDIR = 6,
	GPU4FS_BATCH_RENAME = 7,
};

#define GPU4FS_BATCH_AT_NAME UINT32_MAX

struct gpu4fs_batch_entry {
	uint32_t op;		  /* enum gpu4fs_batch_op */
	uint32_t mode;		  /* of what is made; RENAME: GPU4FS_RENAME_* */
	const char *path;	  /* of up to 65 000 bytes, from `at` on unless it begins with a slash */
	const char *path2;	  /* RENAME: the new one */
	struct gpu4fs_stat *stat; /* out, or NULL: of what the path leads to; not of what is removed or renamed */
	int32_t result;		  /* out: 0 or a negative errno */
	/*
	 * out, of an error: GPU4FS_BATCH_AT_NAME: it is about the last component (with -ENOENT: that file is missing); else which
	 * component of the path, counted from 0, is missing, is no directory, or may not be looked up. RENAME: of path2 if made is 1.
	 */
	uint32_t component;
	uint32_t made; /* out: MKDIR_ALL: directories that were made, also before an error */
	uint32_t reserved;
};

#define GPU4FS_BATCH_STOP 1u /* in order, up to the first that fails; those behind it get -ECANCELED */

/*
 * Does operations on many names, with few commands to the engine: what each costs beside the work itself is paid once for hundreds.
 * Entries are independent: each has its own result, and a bad one keeps no other from being done. Without GPU4FS_BATCH_STOP they are
 * done in any order. Of entries about one name some order decides: of two that create it, one gets -EEXIST. After a crash each
 * entry is done or not, as if each had been a call.
 * Returns how many entries have succeeded; a negative errno if none was tried: -EINVAL unknown flags, -ENOTDIR `at` is no
 * directory, -EIO the server is gone (also the result of each entry). Connected to a mount (`mount -o socket=`) UNLINK, RMDIR and
 * RENAME are commands of their own: the kernel has to hear of each.
 */
GPU4FS_API int64_t gpu4fs_batch(gpu4fs *fs, gpu4fs_file *at, struct gpu4fs_batch_entry *entries, uint32_t count,
				uint32_t flags);

/*
 * Sets permission, set-id and sticky bits. -EPERM unless the owner or uid 0. chmod follows a symbolic link at the end of the path;
 * lchmod does not, and of a link says -EOPNOTSUPP: it has no permissions of its own.
 */
GPU4FS_API int gpu4fs_chmod(gpu4fs *fs, gpu4fs_file *at, const char *path, uint32_t mode);
GPU4FS_API int gpu4fs_lchmod(gpu4fs *fs, gpu4fs_file *at, const char *path, uint32_t mode);
/* Sets owner and group; (uint32_t)-1 leaves one as it is. flags: 0 or AT_SYMLINK_NOFOLLOW. Clears set-id bits. */
GPU4FS_API int gpu4fs_chown(gpu4fs *fs, gpu4fs_file *at, const char *path, uint32_t uid, uint32_t gid, int flags);
/*
 * Sets access time times[0] and modification time times[1]; NULL: both to now. tv_nsec may be UTIME_NOW or UTIME_OMIT.
 * Times between 1677-09-21 and 2262-04-11 are kept exactly, others are moved to the nearer end. flags: 0 or
 * AT_SYMLINK_NOFOLLOW. To set both to now, write permission is enough; for all else one must be the owner.
 */
GPU4FS_API int gpu4fs_utimens(gpu4fs *fs, gpu4fs_file *at, const char *path, const struct timespec times[2], int flags);
/* Sets a file's length in bytes: cuts it, or extends it with zeros that take no space. */
GPU4FS_API int gpu4fs_truncate(gpu4fs *fs, gpu4fs_file *at, const char *path, int64_t size);
/* Replaces the GPU4FS_FLAG_* bits. Immutable and append-only need uid 0. */
GPU4FS_API int gpu4fs_chflags(gpu4fs *fs, gpu4fs_file *at, const char *path, uint32_t flags);
/* 0 if the session may do all of mode (R_OK | W_OK | X_OK, or F_OK: is it there), -EACCES if not. */
GPU4FS_API int gpu4fs_access(gpu4fs *fs, gpu4fs_file *at, const char *path, int mode);

/* ------------------------------------------------------------------------------------------------ extended attributes
 * Names carry their prefix: user., trusted. (uid 0 only), security., system.posix_acl_access and _default (in the
 * kernel's binary format). At most 255 bytes; values 0 to 65536 bytes. The l forms do not follow a symbolic link at the
 * end of the path. Errors: -ENODATA no such attribute; -ERANGE the buffer is too small, or the name has no or too many
 * bytes; -E2BIG the value is too large; -EOPNOTSUPP an unknown prefix; -EPERM user. on anything but files and
 * directories.
 *
 * One attribute is always there and not listed: gpu4fs.checksum says what sums pages of a file get that are written from
 * now on, or of a directory what is made in it: "blake3", "xxh3", "crc32c", "none", or "default", which is what mkfs was
 * told. uid 0 and the owner set it; removing it sets the default. The first setting on a file system that was made without
 * sums writes its superblocks, after which older versions refuse it: -EBUSY while its size is changed.
 */
#define GPU4FS_XATTR_CREATE 1u	/* -EEXIST if it exists */
#define GPU4FS_XATTR_REPLACE 2u /* -ENODATA if it does not */

/* Copies a value to buffer and returns its length; with bytes == 0 only the length. */
GPU4FS_API int64_t gpu4fs_getxattr(gpu4fs *fs, gpu4fs_file *at, const char *path, const char *name, void *buffer,
				   size_t bytes);
GPU4FS_API int64_t gpu4fs_lgetxattr(gpu4fs *fs, gpu4fs_file *at, const char *path, const char *name, void *buffer,
				    size_t bytes);
GPU4FS_API int64_t gpu4fs_fgetxattr(gpu4fs_file *file, const char *name, void *buffer, size_t bytes);
/* Sets a value, whole and atomically. flags: 0 or one of GPU4FS_XATTR_*. */
GPU4FS_API int gpu4fs_setxattr(gpu4fs *fs, gpu4fs_file *at, const char *path, const char *name, const void *value,
			       size_t bytes, uint32_t flags);
GPU4FS_API int gpu4fs_lsetxattr(gpu4fs *fs, gpu4fs_file *at, const char *path, const char *name, const void *value,
				size_t bytes, uint32_t flags);
GPU4FS_API int gpu4fs_fsetxattr(gpu4fs_file *file, const char *name, const void *value, size_t bytes, uint32_t flags);
/* Copies the names, each with its terminating 0, and returns the sum of their lengths; with bytes == 0 only the sum. */
GPU4FS_API int64_t gpu4fs_listxattr(gpu4fs *fs, gpu4fs_file *at, const char *path, char *buffer, size_t bytes);
GPU4FS_API int64_t gpu4fs_llistxattr(gpu4fs *fs, gpu4fs_file *at, const char *path, char *buffer, size_t bytes);
GPU4FS_API int64_t gpu4fs_flistxattr(gpu4fs_file *file, char *buffer, size_t bytes);
GPU4FS_API int gpu4fs_removexattr(gpu4fs *fs, gpu4fs_file *at, const char *path, const char *name);
GPU4FS_API int gpu4fs_lremovexattr(gpu4fs *fs, gpu4fs_file *at, const char *path, const char *name);
GPU4FS_API int gpu4fs_fremovexattr(gpu4fs_file *file, const char *name);

#ifdef __cplusplus
}
#endif

#endif
