/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands: the one way into the engine, for every kind of caller (in-process, FUSE, rings, GPU kernels). A command is
 * a 128 B descriptor (as in the GPU4FS documents); g4_execute() runs one.
 *
 * Nodes are inode numbers (struct g4_attr.ino); G4_NODE_ROOT names the root directory. Names are byte strings without
 * terminator and without '/'. Every field not named in a command's row must be 0.
 *
 * A number can be given to another inode between two commands. Beside node may therefore stand its generation, and beside node2
 * generation2; whatever has another one by now is STALE. 0: do not look.
 */
#ifndef G4_COMMAND_H
#define G4_COMMAND_H

#include "base/error.h"
#include "base/numbers.h"
#include "format/format.h"

/* Times are signed nanoseconds since 1970-01-01 UTC, carried as uint64_t. */

#define G4_TELLS_NO_XATTR 1u /* it has no extended attributes, access lists included; not set: it may have some */
struct g4_attr {
	uint64_t ino;
	uint64_t size;
	uint64_t blocks_512;
	uint64_t atime_ns, mtime_ns, ctime_ns, btime_ns;
	uint64_t rdev;	     /* Linux dev_t */
	uint64_t generation; /* with ino unique for ever */
	uint64_t change_count;
	uint32_t mode; /* S_IFMT and permissions */
	uint32_t nlink;
	uint32_t uid, gid;
	uint32_t flags; /* G4_INODE_IMMUTABLE, APPEND, NODUMP, NOATIME */
	uint32_t tells; /* G4_TELLS_* */
	uint64_t token; /* over a ring: what the client shows when it names this inode (ring/ring.h); else 0 */
};

/* The user who asks. The engine checks permissions against it unless G4_CRED_TRUSTED is set (the kernel checked already). */
#define G4_CRED_MAX_GROUPS 64
#define G4_CRED_TRUSTED 1u /* skip permission checks; ownership rules for new files still use uid and gid */
struct g4_cred {
	uint32_t uid, gid;
	uint32_t umask; /* applied to new files unless a default ACL says otherwise */
	uint32_t flags;
	uint32_t group_count;
	uint32_t groups[G4_CRED_MAX_GROUPS];
};

struct g4_statfs {
	uint64_t block_bytes;
	uint64_t blocks, blocks_free, blocks_available;
	uint64_t inodes;      /* 0: those in use are not counted */
	uint64_t inodes_free; /* inodes are allocated on demand: an estimate from free space */
	uint32_t name_max;
	uint32_t flags; /* 1: read-only, 2: shut down after an error */
	uint8_t uuid[16];
};

/* MAP: what a piece of a file lies in. Holes are left out. To see all of it, sync the file first. */
#define G4_MAP_UNWRITTEN 1u /* allocated and reads as zeros */
#define G4_MAP_INLINE 2u    /* in the inode, which is at `address` */
#define G4_MAP_HUGE 4u	    /* one 2 MiB page, or a larger one, or several in a row */
#define G4_MAP_SHARED                                                                                                  \
	8u /* another file has it as well, or another place of this one; what was never written nobody shares */
struct g4_map_extent {
	uint64_t offset; /* in the file */
	uint64_t length;
	uint64_t address; /* on the device */
	uint32_t flags;
	uint32_t reserved;
};

/* SUMS: a page of a file that is stored, and its sum. Holes are left out, and so is what was not written back yet. */
struct g4_page_sum {
	uint64_t offset;    /* in the file */
	uint64_t address;   /* on the device */
	uint32_t algorithm; /* enum g4_checksum_algorithm; NONE, LOST, UNKNOWN: there is none to compare with */
	uint32_t reserved;
	uint8_t sum[32];
};

/* READDIR from this cookie on gives neither "." nor "..". */
#define G4_COOKIE_NAMES UINT64_C(2)
/* The cookie of the name at position 0 (dir/dir.h); of any other one, more by its position. */
#define G4_COOKIE_FIRST UINT64_C(3)
/* One packed readdir record, 8 B aligned; the name follows; the next record is record_bytes further. */
struct g4_dirent {
	uint64_t ino;
	uint64_t cookie; /* pass as offset to continue after this entry */
	uint32_t record_bytes;
	uint16_t name_bytes;
	uint8_t file_type; /* DT_* */
	uint8_t has_attr;  /* a struct g4_attr follows this header, before the name */
};

/* JOB_LIST: background jobs, what the last scrub found, and how much damage was met since mkfs and since the mount. */
struct g4_cache_use { /* since the mount; the classes are those of cache/cache.h */
	uint64_t bytes;
	uint64_t data_hits,
		data_misses; /* pages that reads, and writes of parts of pages, found in it, or not and on the device */
	uint64_t metadata_hits, metadata_misses; /* pages of metadata */
	uint64_t locked_hits, waited_hits;	 /* of those: behind a lock; while somebody else brought them in */
	uint64_t cold_misses, clean_misses;	 /* pages that came into a line without one, or in place of another */
	uint64_t peeked_hits;			 /* and by lanes by themselves */
	uint64_t borrowed_lines, no_lines; /* that came where a set was in use as a whole; tries that found none */
	uint64_t waited_misses;		   /* pages of files that had to wait for a line */
	uint64_t data_without,
		metadata_without; /* pages that got none: were had past the cache; let their operation fail */
	/* of the second tier, by device address: pages looked for there; that came beside others, and the reads that brought them */
	uint64_t tier_bytes, tier_hits, tier_misses, tier_ahead, tier_ahead_reads;
	uint64_t tier_dropped; /* pages of those that went because something was written there */
	/* victims of the page cache: that came in, that were there still, that were not what the device has any more; hits of them */
	uint64_t tier_down, tier_down_again, tier_down_old, tier_up;
};

struct g4_health {
	uint64_t damaged_pages;
	uint64_t damaged_since_mount;
	uint64_t mended_since_mount; /* pages of a copy that were not what the other one has */
	struct g4_finding last;	     /* of those: what was met last; code 0: nothing */
	uint64_t last_disks;	     /* bit d: disk d has that page */
	uint32_t flags;		     /* those of g4_statfs */
	uint32_t disk_count;
	uint64_t disk_damaged[G4_MAX_DISKS]; /* by disk, since mkfs: damaged pages of which no copy was right */
	uint64_t findings_lost;		     /* that there was no room for */
	struct g4_job_record jobs[G4_JOBS];
	struct g4_finding findings[G4_FINDINGS];
	struct g4_cache_use cache;
	uint64_t level_free[G4_LEVELS]; /* pages, of a set: by enum g4_level, the file system's own by the first */
};

/*
 * DEDUP: deduplication of what is written, since the mount. PRUNE takes pages that nobody shares from the list, a group at a time; PRUNE_OLDER those of them that
 * were listed on a day or before, which is in the upper half of its cookie (days since 1970), and the group in the lower one. QUOTA sets how many bytes
 * the table on the device may take from now on, durably; 0: no limit, and no less than a page; BUSY: the size is just changing.
 */
enum g4_dedup_order { G4_DEDUP_STATS, G4_DEDUP_PRUNE, G4_DEDUP_QUOTA, G4_DEDUP_PRUNE_OLDER, G4_DEDUP_ORDERS };
struct g4_dedup_counts {
	uint64_t hits;	 /* pages that were written and shared: so many were not stored */
	uint64_t misses; /* that were stored, and listed as far as the quota allows */
	uint64_t zeros;	 /* that became holes */
	/* the table in memory: hints that there is room for, and that there are; what came, was pushed out, and led to what had gone */
	uint64_t places, hints, inserted, evicted, stale;
	uint64_t groups, loaded; /* of 62 MiB: all; those whose listed pages of earlier mounts the table has had */
	uint64_t next;		 /* PRUNE, PRUNE_OLDER: the group to begin at; `groups`: there is nothing left */
	uint64_t pruned;	 /* of this one */
	/* the table on the device: bytes that its pages of sums may take (0: no limit), and take: a bound while not all groups were counted */
	uint64_t quota_bytes, listing_bytes, counted;
	uint64_t
		plain; /* of the misses: not listed, since the quota had no room, or none that was known of before groups were counted */
};

#define G4_RESTRIPE_LOOK 1u /* nothing is moved; `moved` is what would be, as far as it can be read and finds space */
/* RESTRIPE: bytes of whole pages of a file, of those that were looked at. */
struct g4_restriped {
	uint64_t next;	/* in the file, where to go on; 0: behind the last page */
	uint64_t moved; /* to where the file's policy says */
	/* not there, and left: with several owners; that can not be read, or are not what they were */
	uint64_t shared, damaged;
};

/*
 * BATCH: entries, then an attribute structure for each if G4_BATCH_ATTR asks for them, then the paths, in any order; the data
 * begins at a multiple of 8. An entry is an operation on a path, relative to the command's node unless it begins with a slash,
 * of any length. Paths do not share text: together they are no longer than what is there for them. Where the host keeps inode
 * numbers (G4_FS_HOLD_UNLINKED) UNLINK, RMDIR and RENAME are NOTSUP: it has to hear of each inode that goes.
 *
 * 0         count * 32          [+ count * sizeof(struct g4_attr)]                length
 * +---------+------------------------------------------------------+-----------------+ | entries | attributes
 * | paths           | +---------+------------------------------------------------------+-----------------+
 */
#define G4_BATCH_STOP 1u /* in order, and none behind the first that fails: they get CANCELED */
#define G4_BATCH_ATTR 2u
#define G4_BATCH_FLAGS (G4_BATCH_STOP | G4_BATCH_ATTR)
#define G4_BATCH_MKDIR_ALL 0x100u   /* an operation beside LOOKUP, MKNOD, MKDIR, UNLINK, RMDIR and RENAME */
#define G4_BATCH_AT_NAME UINT32_MAX /* component: the last one, the name that the operation is about */
struct g4_batch_entry {
	uint32_t op;	  /* G4_CMD_LOOKUP, ... (by path), or G4_BATCH_MKDIR_ALL */
	uint32_t mode;	  /* MKNOD, MKDIR, MKDIR_ALL: of what is made; LOOKUP: G4_RESOLVE_*; RENAME: G4_RENAME_* */
	uint32_t path_at; /* where in the data it begins */
	uint32_t path_bytes;
	uint32_t path2_bytes; /* RENAME: the new path, which lies behind the other one */
	int32_t status;	      /* out: 0 or a negative code */
	uint32_t component;   /* out, with an error: which one, from 0, of the path (the new one's if it is that one) */
	uint32_t made; /* out: MKDIR_ALL: directories, also before an error; RENAME with an error: 1: the new path's */
};
G4_STATIC_ASSERT(sizeof(struct g4_batch_entry) == 32, "entries of a batch");

/* Where the paths of a batch may begin: behind what it has of results. */
G4_HD G4_INLINE uint64_t g4_batch_head_bytes(uint64_t count, uint32_t flags)
{
	return count * (sizeof(struct g4_batch_entry) + (flags & G4_BATCH_ATTR ? sizeof(struct g4_attr) : 0));
}

/* TALLY: sums over names of a directory, and behind it the items that are told one by one. */
struct g4_tally {
	uint64_t cookie;		    /* to go on at; UINT64_MAX: behind the last name */
	uint64_t names;			    /* that were looked at */
	uint64_t directories, files, links; /* of those; but files with several names are items and nothing else */
	uint64_t bytes;			    /* of files and symbolic links */
	uint64_t blocks_512;		    /* directories' own among them */
	uint32_t items;
	uint32_t reserved;
};
struct g4_tally_item { /* a directory to look into, or a file with several names */
	uint64_t ino, generation;
	uint64_t token; /* over a ring: attr.token */
	uint64_t size;
	uint64_t blocks_512;
	uint32_t mode;
	uint32_t reserved;
};

/* g4_cmd.mask of SETATTR: which fields of attr to set */
#define G4_SET_MODE (1u << 0)
#define G4_SET_UID (1u << 1)
#define G4_SET_GID (1u << 2)
#define G4_SET_SIZE (1u << 3)
#define G4_SET_ATIME (1u << 4)
#define G4_SET_MTIME (1u << 5)
#define G4_SET_ATIME_NOW (1u << 6)
#define G4_SET_MTIME_NOW (1u << 7)
#define G4_SET_CTIME (1u << 8) /* it is what "now" means for the others */
#define G4_SET_FLAGS (1u << 9)
#define G4_SET_KILL_SUIDGID (1u << 10) /* drop set-id bits as a write by another user does */
#define G4_SET_ALL ((1u << 11) - 1)

/* g4_cmd.flags of RESOLVE, OPEN, CREATE ... */
#define G4_RESOLVE_NOFOLLOW 1u /* do not follow a symbolic link in the last component */
/* LOOKUP, RESOLVE and GETATTR, with `attr`: fills in the struct g4_trail at `data` (inode/trail.h), also with -G4_E_NOENT and -G4_E_ACCES */
#define G4_LOOK_TRAIL (1u << 31)
struct g4_trail;
/* -G4_E_LEAVES where the path leaves the file system as one that is mounted: ".." of the root, or a link to a path from "/" */
#define G4_RESOLVE_BENEATH 2u
#define G4_OPEN_READ (1u << 0)
#define G4_OPEN_WRITE (1u << 1)
#define G4_OPEN_APPEND (1u << 2)
#define G4_OPEN_TRUNC (1u << 3)
#define G4_OPEN_EXCL (1u << 4) /* CREATE: fail when the name exists */
#define G4_OPEN_SYNC (1u << 5) /* every write is durable when it returns */
#define G4_OPEN_DSYNC (1u << 6)
#define G4_OPEN_DIRECT (1u << 7) /* the caller keeps what it reads: large or random reads bypass the cache */
#define G4_OPEN_NOATIME (1u << 8)
#define G4_OPEN_DIRECTORY (1u << 9)
#define G4_OPEN_DEDUP (1u << 10)   /* what is written is deduplicated, whatever the file's policy says; */
#define G4_OPEN_NODEDUP (1u << 11) /* is not */
#define G4_RENAME_NOREPLACE 1u	   /* same numbers as renameat2(2) */
#define G4_RENAME_EXCHANGE 2u
#define G4_RENAME_WHITEOUT 4u /* leaves a character device 0:0 at the old name */
/* -G4_E_LEAVES instead of moving a directory: a kernel that has it mounted, and remembers its place, is to do that itself */
#define G4_RENAME_FILES_ONLY 8u
/* Whether flags of a RENAME go together. */
G4_FN G4_INLINE bool g4_rename_flags_valid(uint32_t flags)
{
	flags &= ~G4_RENAME_FILES_ONLY;
	if (flags & ~(G4_RENAME_NOREPLACE | G4_RENAME_EXCHANGE | G4_RENAME_WHITEOUT))
		return false;
	return !(flags & G4_RENAME_EXCHANGE) || flags == G4_RENAME_EXCHANGE;
}
#define G4_XATTR_CREATE 1u /* same numbers as setxattr(2) */
#define G4_XATTR_REPLACE 2u
#define G4_XATTR_KILL_SGID                                                                                             \
	4u /* an access list: set-gid goes, because its setter, which is trusted, is not in the group */
#define G4_READDIR_PLUS 1u
#define G4_WRITE_DEDUP                                                                                                 \
	2u /* this is deduplicated, whatever handle and policy say; of two writes to a page the last one counts */
#define G4_WRITE_NODEDUP 4u /* is not */
#define G4_WRITE_TAKEN 1u /* a kernel took the data earlier: from its cache, also of a file that is immutable by now */
#define G4_FSYNC_DATA 1u
#define G4_READ_AHEAD 1u /* nobody has read this yet: the time of access stays */
/* DISK: what about the disks of a set. */
enum g4_disk_order {
	G4_DISK_REBUILD = 1,   /* brings one up to date that missed writes, by a job */
	G4_DISK_REPLACE = 2,   /* the same of a new one, which takes the place of one that is not there */
	G4_DISK_OFFLINE = 3,   /* uses one no more */
	G4_DISK_NAME = 4,      /* how one was named; from G4_MAX_DISKS on spares */
	G4_DISK_ADD = 5,       /* a new one is one more; the file system grows over it */
	G4_DISK_ASSIGN = 6,    /* chunks of level `number`, of as many bytes as name says in decimal, 0 all; the same */
	G4_DISK_ADD_SPARE = 7, /* a new one waits to take the place of one that fails */
	G4_DISK_REMOVE_SPARE = 8, /* and does so no more */
	G4_DISK_REBALANCE = 9,	  /* what lies on all is spread over them, by a job */
	G4_DISK_REMOVE = 10	  /* what lies on one is moved to the others, by a job, and it is one of them no more */
};
#define G4_ACCESS_READ 4u /* access(2) */
#define G4_ACCESS_WRITE 2u
#define G4_ACCESS_EXEC 1u

/* What is true of a command as a whole: X(NAME, bit, "what it means"). */
#define G4_COMMAND_PROPERTIES(X)                                                                                       \
	X(CHANGES, 0, "changes the file system, or fails")                                                             \
	X(MAY_CHANGE, 1, "may change it, and finds out itself whether that is allowed")                                \
	X(TAKES_HANDLE, 2, "`handle` may be there in place of `node`")                                                 \
	X(NEEDS_HANDLE, 3, "so, and an untrusted client must bring one: by number, nobody would check its permission") \
	X(MAKES_HANDLE, 4, "returns a handle, which is given back with RELEASE")                                       \
	X(TWO_HANDLES, 5, "`handle2` is a handle")                                                                     \
	X(TWO_NODES, 6, "`node2` is an inode")                                                                         \
	X(DATA_IN, 7, "reads `length` bytes at `data`")                                                                \
	X(DATA_OUT, 8, "writes `value` bytes there, `length` at most")                                                 \
	X(DATA_IN_PLACE, 9, "moves them straight from or to the caller's memory, which may change meanwhile")          \
	X(ATTR_IN, 10, "`attr` is an argument")                                                                        \
	X(GIVES_ATTR, 11, "`attr` is what it is for; with other commands it may be NULL")                              \
	X(LOOKS_UP, 12, "the caches may have the answer without a lock: `src/fs/optimistic.h`")                        \
	X(FOR_OWNER, 13, "of the file system's administrator: nothing that an untrusted client may ask for")           \
	X(SAYS_WHY, 14, "`data` has a sentence, ended by 0, also where it fails")
enum g4_command_property {
#define G4_COMMAND_PROPERTY(name, bit, text) G4_##name = 1 << (bit),
	G4_COMMAND_PROPERTIES(G4_COMMAND_PROPERTY)
#undef G4_COMMAND_PROPERTY
};

/* The commands: X(context, NAME, number, what is true of it, "arguments", "results"). docs/commands.md is made of this table. */
#define G4_COMMANDS(X, context)                                                                                                        \
	X(context, NOP, 0, 0, "", "")                                                                                                  \
	X(context, LOOKUP, 1, G4_LOOKS_UP, "node name cred", "attr")                                                                   \
	X(context, RESOLVE, 2, G4_LOOKS_UP, "node name=path flags=G4_RESOLVE_* cred",                                                  \
	  "attr; follows links, checks search permission on the way")                                                                  \
	X(context, GETATTR, 3, G4_TAKES_HANDLE | G4_GIVES_ATTR, "node | handle", "attr")                                               \
	X(context, SETATTR, 4, G4_CHANGES | G4_TAKES_HANDLE | G4_ATTR_IN, "node | handle, mask=G4_SET_* attr cred",                    \
	  "attr")                                                                                                                      \
	X(context, READLINK, 5, G4_DATA_OUT, "node data length", "value=bytes")                                                        \
	X(context, MKNOD, 6, G4_CHANGES, "node name mode rdev cred", "attr; also regular files")                                       \
	X(context, MKDIR, 7, G4_CHANGES, "node name mode cred", "attr")                                                                \
	X(context, SYMLINK, 8, G4_CHANGES, "node name name2=target cred", "attr")                                                      \
	X(context, LINK, 9, G4_CHANGES | G4_TWO_NODES, "node=inode node2=directory name2 cred", "attr")                                \
	X(context, UNLINK, 10, G4_CHANGES, "node name cred", "value=its number, if it is held for FORGET")                             \
	X(context, RMDIR, 11, G4_CHANGES, "node name cred", "value=its number, if it is held for FORGET")                              \
	X(context, RENAME, 12, G4_CHANGES | G4_TWO_NODES, "node name node2 name2 flags=G4_RENAME_* cred",                              \
	  "value=the number of what it replaced, if that is held for FORGET")                                                          \
	X(context, CREATE, 13, G4_MAY_CHANGE | G4_MAKES_HANDLE, "node name mode flags=G4_OPEN_* cred",                                 \
	  "attr handle value=1 if created")                                                                                            \
	X(context, TMPFILE, 14, G4_CHANGES | G4_MAKES_HANDLE, "node mode flags=G4_OPEN_* cred", "attr handle")                         \
	X(context, OPEN, 15, G4_MAY_CHANGE | G4_MAKES_HANDLE, "node flags=G4_OPEN_* cred", "handle attr")                              \
	X(context, RELEASE, 16, G4_NEEDS_HANDLE, "handle", "")                                                                         \
	X(context, READ, 17, G4_NEEDS_HANDLE | G4_DATA_OUT | G4_DATA_IN_PLACE, "handle | node, offset length data",                    \
	  "value=bytes")                                                                                                               \
	X(context, WRITE, 18, G4_MAY_CHANGE | G4_NEEDS_HANDLE | G4_DATA_IN | G4_DATA_IN_PLACE,                                         \
	  "handle | node, offset length data flags=G4_WRITE_* cred", "value=bytes; appending handles set offset")                      \
	X(context, FSYNC, 19, G4_NEEDS_HANDLE, "handle | node, flags=G4_FSYNC_DATA", "")                                               \
	X(context, SYNCFS, 20, 0, "", "")                                                                                              \
	X(context, FALLOCATE, 21, G4_CHANGES | G4_NEEDS_HANDLE, "handle | node, flags=G4_FALLOC_* offset length cred",                 \
	  "")                                                                                                                          \
	X(context, SEEK, 22, G4_NEEDS_HANDLE, "handle | node, offset flags=G4_SEEK_*", "value=offset")                                 \
	X(context, COPY_RANGE, 23, G4_MAY_CHANGE | G4_NEEDS_HANDLE | G4_TWO_HANDLES,                                                   \
	  "handle offset, handle2 offset2=target, length flags=G4_COPY_* cred", "value=bytes")                                         \
	X(context, READDIR, 24, G4_DATA_OUT, "node cookie data length flags=G4_READDIR_PLUS",                                          \
	  "value=bytes, 0 at the end")                                                                                                 \
	X(context, SETXATTR, 25, G4_CHANGES | G4_DATA_IN, "node name=full name, data length flags=G4_XATTR_* cred",                    \
	  "")                                                                                                                          \
	X(context, GETXATTR, 26, G4_DATA_OUT, "node name data length cred", "value=bytes; length 0 asks for the size")                 \
	X(context, LISTXATTR, 27, G4_DATA_OUT, "node data length cred", "value=bytes; length 0 asks for the size")                     \
	X(context, REMOVEXATTR, 28, G4_CHANGES, "node name cred", "")                                                                  \
	X(context, STATFS, 29, G4_DATA_OUT, "data=struct g4_statfs length", "value=bytes")                                             \
	X(context, ACCESS, 30, 0, "node flags=G4_ACCESS_* cred", "")                                                                   \
	X(context, FORGET, 31, G4_FOR_OWNER, "node",                                                                                   \
	  "a holder (the kernel) that kept an unlinked inode alive lets it go")                                                        \
	X(context, TRIM, 32, G4_CHANGES | G4_FOR_OWNER,                                                                                \
	  "offset length=range of the space, least=smallest run, in bytes", "value=bytes discarded")                                   \
	X(context, MAP, 33, G4_NEEDS_HANDLE | G4_DATA_OUT, "handle | node, offset data=struct g4_map_extent[] length",                 \
	  "value=bytes, 0 behind the last")                                                                                            \
	X(context, RESIZE, 34, G4_CHANGES | G4_FOR_OWNER, "bytes",                                                                     \
	  "value=the largest possible size, where that is why it is refused")                                                          \
	X(context, JOB_START, 35, G4_CHANGES | G4_FOR_OWNER, "node kind flags=G4_JOB_* rate", "value=number")                          \
	X(context, JOB_SET, 36, G4_CHANGES | G4_FOR_OWNER, "number mask=one of enum g4_job_order, rate with LIMIT",                    \
	  "when it returns the job's step has ended, and that is durable")                                                             \
	X(context, JOB_LIST, 37, G4_DATA_OUT, "data=struct g4_health length", "value=bytes")                                           \
	X(context, PATH, 38, G4_DATA_OUT | G4_FOR_OWNER, "node node2=a directory that names it, data length",                          \
	  "value=bytes; the path from the root")                                                                                       \
	X(context, SUMS, 39, G4_NEEDS_HANDLE | G4_DATA_OUT, "handle | node, offset data=struct g4_page_sum[] length",                  \
	  "value=bytes, 0 behind the last")                                                                                            \
	X(context, CLEAR, 40, G4_CHANGES, "node length=most names cookie=hash to begin at cred",                                       \
	  "value=names removed below the directory, 0: there is none")                                                                 \
	X(context, BATCH, 41, G4_MAY_CHANGE | G4_DATA_IN | G4_DATA_OUT,                                                                \
	  "node data=struct g4_batch_entry[] ... length mask=entries flags=G4_BATCH_* cred",                                           \
	  "value=bytes of entries and attributes, with their results in them")                                                         \
	X(context, TALLY, 42, G4_DATA_OUT, "node data=struct g4_tally ... length cookie=position to begin at, 0 cred",                 \
	  "value=bytes: sums over names of a directory, and which to look into")                                                       \
	X(context, DEDUP, 43, G4_MAY_CHANGE | G4_DATA_OUT | G4_FOR_OWNER,                                                              \
	  "mask=one of enum g4_dedup_order, cookie=group to begin at, or bytes, data=struct g4_dedup_counts length",                   \
	  "value=bytes")                                                                                                               \
	X(context, DISK, 44, G4_MAY_CHANGE | G4_DATA_OUT | G4_FOR_OWNER | G4_SAYS_WHY,                                                 \
	  "mask=one of enum g4_disk_order, name=device, number=disk with NAME, flags=G4_JOB_EAGER rate, data length",                  \
	  "value=bytes of text: a name, or why it could not be done; with REBUILD, REPLACE, REBALANCE and REMOVE a job is there then") \
	X(context, RESTRIPE, 45, G4_CHANGES | G4_NEEDS_HANDLE | G4_DATA_OUT,                                                           \
	  "handle | node, offset data=struct g4_restriped length flags=G4_RESTRIPE_LOOK",                                              \
	  "value=bytes; pages from there on lie where the file's policy says, some of them")

enum g4_command_op {
#define G4_COMMAND_ENUM(context, name, number, properties, arguments, results) G4_CMD_##name = (number),
	G4_COMMANDS(G4_COMMAND_ENUM, )
#undef G4_COMMAND_ENUM
};
/* The numbers have no gaps: so many commands are there. */
enum {
#define G4_COMMAND_COUNT_ONE(context, name, number, properties, arguments, results) +1
	G4_COMMAND_COUNT = 0 G4_COMMANDS(G4_COMMAND_COUNT_ONE, )
#undef G4_COMMAND_COUNT_ONE
};
G4_STATIC_ASSERT(G4_COMMAND_COUNT <= 64, "a set of commands is one word");
/* The set of commands of which one of these is true, a constant. */
#define G4_COMMAND_BIT(wanted, name, number, properties, arguments, results)                                           \
	| (((properties) & (wanted)) != 0 ? UINT64_C(1) << (number) : 0)
#define G4_COMMANDS_THAT(wanted) (UINT64_C(0) G4_COMMANDS(G4_COMMAND_BIT, wanted))
/* Whether one of these is true of a command. Of a number that is no command's nothing is. */
#define g4_command_is(op, wanted) g4_command_is_in(G4_COMMANDS_THAT(wanted), op)
G4_FN G4_INLINE bool g4_command_is_in(uint64_t set, uint32_t op)
{
	return op < G4_COMMAND_COUNT && (set >> op & 1) != 0;
}

/* Fields that lie in the same place belong to different commands. */
struct g4_cmd {
	uint32_t op;
	int32_t status; /* out: 0 or a negative code (error.h) */
	uint64_t node;
	uint64_t token; /* over a ring: attr.token of node */
	uint64_t handle;
	union {
		uint64_t number; /* JOB_SET */
		uint64_t kind;	 /* JOB_START */
		uint64_t node2;
		uint64_t handle2; /* COPY_RANGE: the file that is written */
	};
	union {
		uint64_t offset; /* in the file; TRIM: in the space */
		uint64_t token2; /* G4_TWO_NODES, over a ring: of node2 */
		uint64_t
			cookie; /* READDIR: 0 at the start, else of the last entry; CLEAR: a hash of 32 bits; TALLY: of the last; DEDUP: a group, or bytes */
		uint64_t rdev;	/* MKNOD: Linux dev_t */
		uint64_t bytes; /* RESIZE: the new size */
		uint64_t rate;	/* JOB_START, JOB_SET: bytes a second, 0: no limit */
	};
	uint64_t length;
	void *data;
	const char *name;
	const char *name2;
	uint16_t name_bytes;
	uint16_t name2_bytes;
	uint32_t flags;
	uint32_t mode;
	uint32_t mask;
	union {
		struct {
			uint32_t generation;  /* of node */
			uint32_t generation2; /* of node2 */
		};
		uint64_t offset2; /* COPY_RANGE: in handle2 */
		uint64_t least;	  /* TRIM: the smallest run, in bytes */
	};
	struct g4_attr *attr;
	uint64_t value; /* out */
	const struct g4_cred *cred;
};
G4_STATIC_ASSERT(sizeof(struct g4_cmd) == 128, "command descriptor");

/* Where a LOOKUP, RESOLVE or GETATTR is to say what its answer depends on; NULL: it is not asked to. */
G4_FN G4_INLINE struct g4_trail *g4_trail_of(const struct g4_cmd *cmd)
{
	return (cmd->flags & G4_LOOK_TRAIL) && cmd->attr ? (struct g4_trail *)cmd->data : NULL;
}

#endif
