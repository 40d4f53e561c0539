/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libgpu4fs: use a gpu4fs file system from inside a program, without mounting it in the operating system.
 *
 *	gpu4fs *fs;
 *	gpu4fs_file *file;
 *	const char *image = "disk.img";
 *	int rc = gpu4fs_mount(&image, 1, NULL, &fs);
 *	if (rc)
 *		errx(1, "%s", gpu4fs_last_message());
 *	rc = gpu4fs_open(fs, NULL, "/notes/today", O_RDWR | O_CREAT, 0644, &file);
 *
 * The thread that calls a function executes the operation itself: there is no server, no copy between address spaces
 * and no system call for cached data. gpu4fs(3) is the overview, docs/example.c a whole program.
 *
 * Results
 *	Functions that return int give 0, functions that return int64_t give a count or an offset; both give a negative
 *	errno value on failure (never -1 with errno). An out parameter is written only on success. Where a function's
 *	comment lists no errors, those of the POSIX call of the same name apply. Beside them, any function may return
 *	-EIO (device error), -EUCLEAN (the image is damaged: run fsck.gpu4fs), -ENOMEM, and any that changes something
 *	-EROFS or -ENOSPC. After an error that endangers metadata the file system turns read-only: changes
 *	give -EIO or -EROFS, reads go on.
 *
 * Threads
 *	Everything may be called from any thread at any time, on the same objects too, with these exceptions: a
 *	gpu4fs_dir is used by one thread at a time, and an object is closed (gpu4fs_close(), gpu4fs_closedir(),
 *	gpu4fs_session_close(), gpu4fs_unmount()) only when no other call is using it. A read sees a write to the same
 *	pages before or after it, never half of one.
 *
 * Paths
 *	Bytes without encoding, at most 4095, components at most 255. A path that starts with '/' starts at the root of
 *	the file system, never of the host. Any other starts at the directory handle `at`, or with at == NULL at the
 *	session's working directory, which is the root unless its credentials say otherwise. Symbolic links stay inside
 *	the file system; 40 are followed at most.
 *
 * Memory
 *	The library never keeps a pointer that it was given after the call returns, except in asynchronous operations
 *	(gpu4fs_submit()), and never hands out memory that the caller must free.
 *
 * Versions
 *	Structures that go into the library start with `size`: set it to sizeof(struct ...) and the rest to zero or to
 *	what you want. Later versions append fields; zero always means the default. -EINVAL says that size is too small
 *	to be right, -E2BIG that a field is set which this library does not know. Structures that come out have
 *	reserved fields instead.
 */
#ifndef GPU4FS_H
#define GPU4FS_H

#include <fcntl.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GPU4FS_VERSION_MAJOR 0
#define GPU4FS_VERSION_MINOR 1
#define GPU4FS_VERSION_PATCH 0

#if defined(__GNUC__)
#define GPU4FS_API __attribute__((visibility("default")))
#else
#define GPU4FS_API
#endif

/* A mounted file system as one user sees it: gpu4fs_mount() makes the first, gpu4fs_session() further ones. */
typedef struct gpu4fs gpu4fs;
/*
 * An open file or directory: what a file descriptor is to the kernel. It is a pointer and not a number because a number
 * needs a table, and a table needs a lock or a reference count in the way of every read. A handle costs about 150
 * bytes and no kernel file descriptor, so the only limit on open files is memory. It has a type that the compiler
 * checks. As with FILE, using a handle after gpu4fs_close() is undefined.
 */
typedef struct gpu4fs_file gpu4fs_file;
/* A directory stream: what DIR is to the C library. */
typedef struct gpu4fs_dir gpu4fs_dir;

/* ------------------------------------------------------------------------------------------------ messages */

/*
 * A short text for a return value of this library (negative errno, or 0). Static storage or the calling thread's own;
 * never NULL.
 */
GPU4FS_API const char *gpu4fs_strerror(int result);
/*
 * The sentence that explains the last failure of gpu4fs_mount() or gpu4fs_mkfs() in the calling thread: it names the
 * device and says what is wrong with it. "" if the last one succeeded. Valid until the thread calls one of them again.
 */
GPU4FS_API const char *gpu4fs_last_message(void);
/* The version of the library at run time, "0.1.0". */
GPU4FS_API const char *gpu4fs_version(void);

/* ------------------------------------------------------------------------------------------------ make and mount */

/* Sums of all pages of files, which each read from the device is compared with; a file or directory may say otherwise. */
enum gpu4fs_checksum {
	GPU4FS_CHECKSUM_DEFAULT = 0, /* what this version does: BLAKE3 */
	GPU4FS_CHECKSUM_NONE = 1,
	GPU4FS_CHECKSUM_BLAKE3 = 2,
	GPU4FS_CHECKSUM_CRC32C = 3,
	GPU4FS_CHECKSUM_XXH3 = 4,
};

#define GPU4FS_MKFS_FORCE 1u /* format even if the device holds something known (a file system, a partition table) */

struct gpu4fs_mkfs_options {
	uint32_t size;		/* sizeof(struct gpu4fs_mkfs_options) */
	uint32_t flags;		/* GPU4FS_MKFS_* */
	uint64_t create_bytes;	/* a regular file is created with this size if it does not exist; 0: it must exist */
	uint64_t journal_bytes; /* 0: chosen from the size of the device */
	const char *label;	/* at most 63 bytes; NULL: none */
	const uint8_t *uuid;	/* 16 bytes; NULL: random */
	uint32_t root_uid, root_gid; /* owner of the root directory */
	uint32_t root_mode;	     /* its permission bits; 0: 0755 */
	uint32_t checksum;	     /* enum gpu4fs_checksum */
};

/*
 * Writes an empty file system. What was on the device is lost.
 *
 * names, count: the devices, as for gpu4fs_mount(). This version makes file systems of one device.
 * options: NULL for the defaults.
 * Errors: -EEXIST the device holds something (see GPU4FS_MKFS_FORCE); -EBUSY it is in use; -ENOSPC it is smaller than
 * 8 MiB; -ENOENT there is no such file; -ENODEV it cannot be opened; -EINVAL a name is not understood.
 * gpu4fs_last_message() says more.
 */
GPU4FS_API int gpu4fs_mkfs(const char *const *names, uint32_t count, const struct gpu4fs_mkfs_options *options);

#define GPU4FS_GROUPS_MAX 64u

/* The user that acts. The engine enforces owner, group, mode bits, ACLs and sticky directories against it. */
struct gpu4fs_credentials {
	uint32_t size;		/* sizeof(struct gpu4fs_credentials) */
	uint32_t uid, gid;	/* uid 0 may do everything */
	uint32_t umask;		/* bits removed from the mode of new files, unless a default ACL decides */
	const uint32_t *groups; /* supplementary groups; may be NULL if group_count is 0 */
	uint32_t group_count;	/* at most GPU4FS_GROUPS_MAX */
	uint32_t reserved;
	const char *cwd; /* where relative paths start; NULL: "/". Stays open, so renaming or removing it is harmless */
};

#define GPU4FS_READ_ONLY (1u << 0)   /* change nothing; the journal is still replayed */
#define GPU4FS_NOATIME (1u << 1)     /* never update access times */
#define GPU4FS_STRICTATIME (1u << 2) /* always update them; the default is relatime */
#define GPU4FS_NO_REPLAY (1u << 3)   /* with GPU4FS_READ_ONLY: do not even replay the journal */
#define GPU4FS_DEGRADED (1u << 4)    /* write although a disk is missing, where the others have everything */

struct gpu4fs_options {
	uint32_t size;		/* sizeof(struct gpu4fs_options) */
	uint32_t flags;		/* GPU4FS_READ_ONLY, ... */
	uint64_t cache_bytes;	/* upper bound of the page cache; 0: 256 MiB */
	uint32_t commit_ms;	/* the longest time a change stays uncommitted, in milliseconds; 0: 5000 */
	uint32_t async_threads; /* workers of gpu4fs_submit(), made at its first call; 0: one a core, at most 8 */
	const struct gpu4fs_credentials *credentials; /* NULL: the process's, see below */
	/*
	 * Formats the device first, in the same open. The only way to have a "mem:" file system, which lives as long as
	 * it is mounted. NULL: mount what is there.
	 */
	const struct gpu4fs_mkfs_options *format;
	/*
	 * What runs the file system: "cpu", the calling threads; "cuda", a GPU; "auto", a GPU where this build and this
	 * machine have one with room for the cache, else the calling threads. Which of them it took, and why, is a line on
	 * standard error. NULL: "cpu".
	 */
	const char *engine;
	/*
	 * "cuda": as much of the GPU as so many of its multiprocessors hold is the most that the engine takes while it serves
	 * calls; the program's own kernels have room beside it. 0: all of it, or half under MPS (gpu4fs(8)).
	 */
	uint32_t multiprocessors;
	uint32_t reserved;
};

/*
 * Mounts a file system in this process.
 *
 * names: its devices in any order, all disks of a file system of several: a regular file, a block device, "dax:PATH" (memory-mapped), "mem:SIZE" (anonymous
 *	memory; SIZE with K, M, G or T; use with options->format).
 * options: NULL for the defaults. Without credentials the session acts with the effective user and group, the
 *	supplementary groups (the first 64) and the umask that the process has now.
 * out: the file system; give it back with gpu4fs_unmount().
 * Errors: -ENOENT, -ENODEV a device is not there or cannot be opened; -EBUSY it is mounted or open elsewhere; -EINVAL
 *	no gpu4fs file system, or one of a newer version; -EUCLEAN it is damaged; -EROFS the device is read-only and
 *	options do not say so; -EOPNOTSUPP the engine asked for is not there or cannot use the device;
 *	-ENOMEM cache_bytes is more than the machine's memory (unless the engine is "cuda"), or there is none left.
 *	gpu4fs_last_message() gives the sentence to show to a user.
 */
GPU4FS_API int gpu4fs_mount(const char *const *names, uint32_t count, const struct gpu4fs_options *options,
			    gpu4fs **out);

struct gpu4fs_connect_options {
	uint32_t size;		/* sizeof(struct gpu4fs_connect_options) */
	uint32_t async_threads; /* as in struct gpu4fs_options */
	uint64_t
		data_bytes; /* memory shared with the server, for what is read and written; 0, or too much: its choice */
	const struct gpu4fs_credentials *credentials; /* NULL: the process's. Others may be given by uid 0 only. */
};

/*
 * Uses a file system that another process serves (gpu4fs serve). All functions of this library work as on a mounted one;
 * advisory locks hold between the sessions of this process only.
 *
 * socket: path of the server's socket.
 * options: NULL for the defaults. The server knows the process's user and groups from the socket and checks permissions
 *	against them; a session with other credentials gets -EPERM from every call unless the process is uid 0's.
 * out: the file system; gpu4fs_unmount() ends the connection. Open files of a process that dies are closed.
 * Errors: -ENOENT, -ENODEV there is no socket or no server; -EACCES it may not be used; -EBUSY the server has no place for
 *	another client, or for another one of this user; -EIO it did not answer. gpu4fs_last_message() gives the sentence.
 *	Every call on a connection whose server is gone gives -EIO.
 */
GPU4FS_API int gpu4fs_connect(const char *socket, const struct gpu4fs_connect_options *options, gpu4fs **out);

/*
 * Writes everything, marks the image clean and frees the file system. Takes what gpu4fs_mount() returned.
 * Errors: -EBUSY while handles, directory streams, sessions or asynchronous operations are open, or for a session:
 * nothing was done. Any other error (-EIO: the last changes may be missing) is returned after everything was freed.
 */
GPU4FS_API int gpu4fs_unmount(gpu4fs *fs);

/*
 * Another view of the same mounted file system with its own credentials, umask and working directory. Cheap: a server
 * makes one a client. Every function takes it in place of fs. Handles act with the credentials of the session that
 * opened them.
 * credentials: NULL: the process's as of now.
 * Errors: -EINVAL too many groups; and those of opening credentials->cwd with these credentials.
 */
GPU4FS_API int gpu4fs_session(gpu4fs *fs, const struct gpu4fs_credentials *credentials, gpu4fs **out);
/* Closes what gpu4fs_session() made. -EBUSY (and nothing done) while handles, streams or asynchronous operations of it
 * are open, or if fs is not a session. */
GPU4FS_API int gpu4fs_session_close(gpu4fs *session);

#define GPU4FS_STATE_READ_ONLY 1u
#define GPU4FS_STATE_SHUT_DOWN 2u /* after an error: unmount and run fsck.gpu4fs */

struct gpu4fs_statfs {
	uint64_t block_bytes;
	uint64_t blocks, blocks_free, blocks_available; /* available: to others than uid 0 */
	uint64_t inodes;				/* 0: those in use are not counted */
	uint64_t inodes_free;				/* inodes are made on demand: an estimate from the free space */
	uint32_t name_max;				/* bytes */
	uint32_t state;					/* GPU4FS_STATE_* */
	uint8_t uuid[16];
	uint64_t reserved[4];
};

/* Space and state of the file system. */
GPU4FS_API int gpu4fs_statfs(gpu4fs *fs, struct gpu4fs_statfs *out);
#define GPU4FS_DAMAGE_NONE 0u
#define GPU4FS_DAMAGE_DATA 1u	  /* of a file: last_ino and last_offset say where */
#define GPU4FS_DAMAGE_METADATA 2u /* of the inode last_ino, or with 0 of the file system itself */

struct gpu4fs_health {
	uint64_t damaged_pages; /* of 4 KiB, met since the file system was made; one that is met again counts again */
	uint64_t damaged_since_mount; /* of those */
	uint64_t repaired_pages;      /* of one copy, written again from the other since the mount; with one copy 0 */
	uint32_t state;		      /* GPU4FS_STATE_*: after an error that stopped changes GPU4FS_STATE_SHUT_DOWN */
	uint32_t last_kind; /* GPU4FS_DAMAGE_*: what was met last since the mount, of which the next three are */
	uint64_t last_ino;
	uint64_t last_offset;  /* bytes, in the file */
	uint64_t last_address; /* bytes, on the device; of several devices in the space that they make together */
	uint64_t last_devices; /* bit d: device d has that page, or a copy of it */
	uint32_t devices;      /* how many there are, numbered from 0 on */
	uint32_t reserved1;    /* 0 */
	uint64_t reserved[6];  /* 0 */
};

struct gpu4fs_device_health {
	uint64_t
		damaged_pages; /* of 4 KiB, since the file system was made: those of which no other copy was right either */
	uint64_t reserved[7]; /* 0 */
};

/*
 * How well the file system is: counters for a program to poll. Reads nothing from the device and waits for nobody. A page is counted
 * when somebody meets it: a reader, whose read then fails with -EIO, or a scrub (gpu4fs scrub), so what nobody reads shows only
 * behind one. The count since the file system was made is durable with the next commit; a crash may cost what was met just before.
 * out: filled. Thread-safe; for mounted and connected file systems alike, and every session.
 * Errors: -EIO the server is gone.
 */
GPU4FS_API int gpu4fs_health(gpu4fs *fs, struct gpu4fs_health *out);
/*
 * The same of one device. A page that lies on several devices and is damaged on all of them counts for each; one that came from a good
 * copy counts for none. Of several devices a crash costs what was counted since the mount. device: 0 to devices - 1. Thread-safe.
 * Errors: -ENODEV there is no such device; -EIO the server is gone.
 */
GPU4FS_API int gpu4fs_device_health(gpu4fs *fs, uint32_t device, struct gpu4fs_device_health *out);
/* Deduplication of what is written, since the mount. Pages are of 4 KiB. */
struct gpu4fs_dedup_stats {
	uint64_t hits;	 /* pages that were there already, and are shared */
	uint64_t misses; /* that were stored, and can be found by others */
	uint64_t zeros;	 /* that were zeros, and became holes */
	uint64_t saved_bytes;
	uint64_t places, hints; /* the table in memory: what it has room for, and what is in it */
	uint64_t inserted;	/* hints that came */
	uint64_t evicted;	/* that went since there was no room */
	uint64_t stale;		/* that led to what had just gone */
	uint64_t groups;	/* of 62 MiB that the file system has */
	uint64_t groups_loaded; /* of which the table has had what earlier mounts have written */
	uint64_t reserved[5];	/* 0 */
};
/* Reads nothing from the device. out: filled. Thread-safe. Errors: -EPERM the file system is another process's. */
GPU4FS_API int gpu4fs_dedup_stats(gpu4fs *fs, struct gpu4fs_dedup_stats *out);
/*
 * Pages of which there is one copy and one owner are no more found by others, until they are written again: what is listed of them takes
 * space (33 bytes a page), memory, and time after a mount. Returns how many pages that were. May take long, beside others; thread-safe.
 * Errors: as above; -EROFS.
 */
GPU4FS_API int64_t gpu4fs_dedup_prune(gpu4fs *fs);
/* Returns when every change made before the call is durable. */
GPU4FS_API int gpu4fs_syncfs(gpu4fs *fs);

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
 * it. `from` says where in directories to begin: threads that clear one tree together give numbers that lie far apart.
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
 * RENAME are -EOPNOTSUPP: the kernel has to hear of each.
 */
GPU4FS_API int64_t gpu4fs_batch(gpu4fs *fs, gpu4fs_file *at, struct gpu4fs_batch_entry *entries, uint32_t count,
				uint32_t flags);

/* Sets permission, set-id and sticky bits. Follows symbolic links. -EPERM unless the owner or uid 0. */
GPU4FS_API int gpu4fs_chmod(gpu4fs *fs, gpu4fs_file *at, const char *path, uint32_t mode);
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
 *	several write before they are stored the last one's counts. Files without BLAKE3 sums are never deduplicated.
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
/* Returns when the file's data and attributes are durable; fdatasync: its data and what is needed to read it. */
GPU4FS_API int gpu4fs_fsync(gpu4fs_file *file);
GPU4FS_API int gpu4fs_fdatasync(gpu4fs_file *file);

/* The functions of the same names by path, on an open file. */
GPU4FS_API int gpu4fs_fstat(gpu4fs_file *file, struct gpu4fs_stat *out);
GPU4FS_API int gpu4fs_fchmod(gpu4fs_file *file, uint32_t mode);
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
