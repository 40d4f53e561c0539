/* SPDX-License-Identifier: Apache-2.0 */
/* libgpu4fs: making, mounting and the state of file systems. A part of gpu4fs.h, which says what holds for all. */
#ifndef GPU4FS_MOUNT_H
#define GPU4FS_MOUNT_H

#include <stdint.h>
#include <sys/types.h>

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
#define GPU4FS_MKFS_DEDUP 2u /* pages that are there already are not stored again; not with GPU4FS_CHECKSUM_NONE */

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
	uint64_t dedup_quota;	     /* bytes that lists of pages may take, as with gpu4fs_dedup_quota() */
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
/*
 * Deduplication of what is written: what has the same BLAKE3 is read, and shared if all bytes are the same. What goes by other sums always
 * is.
 */
#define GPU4FS_DEDUP_VERIFY (1u << 5)

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
	/*
	 * "cuda" on one drive, "nvme:ADDRESS": so many of the drive's queues, at most 24, are filled and polled by the GPU itself, where
	 * drive, IOMMU and CUDA let it; else, as a line on standard error says, its requests go through threads of the host. No real drive
	 * has been tried. 0: none.
	 */
	uint32_t gpu_queues;
	/*
	 * Upper bound of the memory for pages by device address, below the page cache: small files that lie side by side are
	 * read together. Memory is taken as it is used. 0: a sixteenth of cache_bytes; less than 256 KiB: none. None on
	 * "mem:" and "dax:" devices. One that is not smaller than the page cache has what that gives up, too; a larger page
	 * cache in its place is faster. With the engine "cuda" it is for what the page cache on the GPU gives up, in
	 * page-locked memory of the host, which is taken at once; 0: none.
	 */
	uint64_t tier_bytes;
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
	uint64_t misses; /* that were stored, and can be found by others as far as there is room */
	uint64_t zeros;	 /* that were zeros, and became holes */
	uint64_t saved_bytes;
	uint64_t places, hints; /* the table in memory: what it has room for, and what is in it */
	uint64_t inserted;	/* hints that came */
	uint64_t evicted;	/* that went since there was no room */
	uint64_t stale;		/* that led to what had just gone */
	uint64_t groups;	/* of 62 MiB that the file system has */
	uint64_t groups_loaded; /* of which the table has had what earlier mounts have written */
	uint64_t quota_bytes; /* that lists of pages may take on the device (gpu4fs tune --dedup-quota); 0: no limit */
	uint64_t listing_bytes; /* that they take; a bound while not all groups were counted */
	uint64_t groups_counted;
	uint64_t plain;	      /* of the misses: can not be found by others, since the quota has no room */
	uint64_t reserved[1]; /* 0 */
};
/* Reads nothing from the device. out: filled. Thread-safe. Errors: -EPERM the file system is another process's. */
GPU4FS_API int gpu4fs_dedup_stats(gpu4fs *fs, struct gpu4fs_dedup_stats *out);
/*
 * Pages of which there is one copy and one owner are no more found by others, until they are written again: what is listed of them takes
 * space (33 bytes a page), memory, and time after a mount. Returns how many pages that were. May take long, beside others; thread-safe.
 * Errors: as above; -EROFS.
 */
GPU4FS_API int64_t gpu4fs_dedup_prune(gpu4fs *fs);
/*
 * The same of pages that have been found so for `days` of the calendar (UTC) or longer: what was listed yesterday is one day old. Of two pages beside each
 * other the younger one decides; what versions before this have listed is old. Errors: as above; -EINVAL days that begin before 1970, or the server does not know
 * it.
 */
GPU4FS_API int64_t gpu4fs_dedup_prune_older(gpu4fs *fs, uint32_t days);
/*
 * Lists of pages take no more than so many bytes on the device from now on, 4096 for up to 512 KiB of contents; 0: no limit. What is beyond that
 * already stays until it goes; what is written anew then is stored, and not found by others. Durable when it returns; after a crash before that it is
 * the old quota or the new one. Thread-safe. Errors: as above; -EINVAL below 4096; -EBUSY the size is just changing.
 */
GPU4FS_API int gpu4fs_dedup_quota(gpu4fs *fs, uint64_t bytes);
/* Returns when every change made before the call is durable. */
GPU4FS_API int gpu4fs_syncfs(gpu4fs *fs);

#ifdef __cplusplus
}
#endif

#endif
