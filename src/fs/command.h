/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands: the one way into the engine, for every kind of caller (in-process, FUSE, rings, GPU kernels). A command is
 * a 128 B descriptor (as in the GPU4FS documents); g4_execute() runs one.
 *
 * Nodes are inode numbers (struct g4_attr.ino); G4_NODE_ROOT names the root directory. Names are byte strings without
 * terminator and without '/'. Every field not named in an operation's line must be 0.
 *
 * A number can be given to another inode between two commands. In commands that name inodes by number, other than READ to
 * SEEK, arg may therefore hold the generation of node in its lower half and that of node2 in its upper half, and whatever
 * has another one by now is STALE; 0: do not look.
 */
#ifndef G4_COMMAND_H
#define G4_COMMAND_H

#include "base/error.h"

#define G4_NODE_ROOT UINT64_C(1)
/* Times are signed nanoseconds since 1970-01-01 UTC, carried as uint64_t. */

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
	uint32_t reserved;
	uint64_t token; /* over a ring: what the client shows when it names this inode (engine/ring.h); else 0 */
};

/* Who asks. The engine checks permissions against it unless G4_CRED_TRUSTED is set (the kernel checked already). */
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

/* MAP: what a piece of a file lies in. Holes are left out. Whoever wants to know the end of it syncs the file first. */
#define G4_MAP_UNWRITTEN 1u /* allocated and reads as zeros */
#define G4_MAP_INLINE 2u    /* in the inode, which is at `address` */
#define G4_MAP_HUGE 4u	    /* one 2 MiB page, or a larger one, or several in a row */
struct g4_map_extent {
	uint64_t offset; /* in the file */
	uint64_t length;
	uint64_t address; /* on the device */
	uint32_t flags;
	uint32_t reserved;
};

/* READDIR from this cookie on gives neither "." nor "..". */
#define G4_COOKIE_NAMES UINT64_C(2)
/* One packed readdir record, 8 B aligned; the name follows; the next record is record_bytes further. */
struct g4_dirent {
	uint64_t ino;
	uint64_t cookie; /* pass as offset to continue after this entry */
	uint32_t record_bytes;
	uint16_t name_bytes;
	uint8_t file_type; /* DT_* */
	uint8_t has_attr;  /* a struct g4_attr follows this header, before the name */
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
#define G4_OPEN_READ (1u << 0)
#define G4_OPEN_WRITE (1u << 1)
#define G4_OPEN_APPEND (1u << 2)
#define G4_OPEN_TRUNC (1u << 3)
#define G4_OPEN_EXCL (1u << 4) /* CREATE: fail when the name exists */
#define G4_OPEN_SYNC (1u << 5) /* every write is durable when it returns */
#define G4_OPEN_DSYNC (1u << 6)
#define G4_OPEN_DIRECT (1u << 7) /* large or random I/O bypasses the cache */
#define G4_OPEN_NOATIME (1u << 8)
#define G4_OPEN_DIRECTORY (1u << 9)
#define G4_RENAME_NOREPLACE 1u /* same numbers as renameat2(2) */
#define G4_RENAME_EXCHANGE 2u
#define G4_RENAME_WHITEOUT 4u /* leaves a character device 0:0 at the old name */
/* Whether flags of a RENAME go together. */
G4_FN G4_INLINE bool g4_rename_flags_valid(uint32_t flags)
{
	if (flags & ~(G4_RENAME_NOREPLACE | G4_RENAME_EXCHANGE | G4_RENAME_WHITEOUT))
		return false;
	return !(flags & G4_RENAME_EXCHANGE) || flags == G4_RENAME_EXCHANGE;
}
#define G4_FALLOC_KEEP_SIZE 0x01u /* same numbers as fallocate(2) */
#define G4_FALLOC_PUNCH_HOLE 0x02u
#define G4_FALLOC_ZERO_RANGE 0x10u
#define G4_SEEK_DATA 3u /* same numbers as lseek(2) */
#define G4_SEEK_HOLE 4u
#define G4_XATTR_CREATE 1u /* same numbers as setxattr(2) */
#define G4_XATTR_REPLACE 2u
#define G4_XATTR_KILL_SGID                                                                                             \
	4u /* an access list: set-gid goes, because its setter, who is trusted, is not in the group */
#define G4_READDIR_PLUS 1u
#define G4_WRITE_TAKEN 1u /* a kernel took the data earlier: from its cache, also of a file that is immutable by now */
#define G4_FSYNC_DATA 1u
#define G4_ACCESS_READ 4u /* access(2) */
#define G4_ACCESS_WRITE 2u
#define G4_ACCESS_EXEC 1u

/*
 * X(NAME, number, arguments -> results)
 *   "attr": cmd.attr, may be NULL where it is a result. "data": cmd.data, cmd.length bytes.
 *   CREATE, TMPFILE and OPEN return a handle; give it back with RELEASE. READ, WRITE, FSYNC, FALLOCATE, SEEK take
 *   handle (preferred) or node. READDIR takes node; offset is a cookie (0: start).
 */
#define G4_COMMANDS(X)                                                                                                 \
	X(NOP, 0, "")                                                                                                  \
	X(LOOKUP, 1, "node name cred -> attr")                                                                         \
	X(RESOLVE, 2, "node name=path flags cred -> attr; follows links, checks search permission on the way")         \
	X(GETATTR, 3, "node | handle -> attr")                                                                         \
	X(SETATTR, 4, "node | handle, mask attr cred -> attr")                                                         \
	X(READLINK, 5, "node data length -> value=bytes")                                                              \
	X(MKNOD, 6, "node name mode offset=rdev cred -> attr; also regular files")                                     \
	X(MKDIR, 7, "node name mode cred -> attr")                                                                     \
	X(SYMLINK, 8, "node name name2=target cred -> attr")                                                           \
	X(LINK, 9, "node=inode node2=directory name2 cred -> attr")                                                    \
	X(UNLINK, 10, "node name cred")                                                                                \
	X(RMDIR, 11, "node name cred")                                                                                 \
	X(RENAME, 12, "node name node2 name2 flags cred")                                                              \
	X(CREATE, 13, "node name mode flags cred -> attr handle value=1 if created")                                   \
	X(TMPFILE, 14, "node mode flags cred -> attr handle")                                                          \
	X(OPEN, 15, "node flags cred -> handle attr")                                                                  \
	X(RELEASE, 16, "handle")                                                                                       \
	X(READ, 17, "handle | node, offset length data -> value=bytes")                                                \
	X(WRITE, 18,                                                                                                   \
	  "handle | node, offset length data flags=G4_WRITE_TAKEN cred -> value=bytes; appending handles set offset")  \
	X(FSYNC, 19, "handle | node, flags=G4_FSYNC_DATA")                                                             \
	X(SYNCFS, 20, "")                                                                                              \
	X(FALLOCATE, 21, "handle | node, flags offset length cred")                                                    \
	X(SEEK, 22, "handle | node, offset flags=G4_SEEK_* -> value=offset")                                           \
	X(COPY_RANGE, 23, "handle offset, node2=target handle, arg=target offset, length cred -> value=bytes")         \
	X(READDIR, 24, "node offset=cookie data length flags=G4_READDIR_PLUS -> value=bytes, 0 at the end")            \
	X(SETXATTR, 25, "node name=full name, data length flags cred")                                                 \
	X(GETXATTR, 26, "node name data length cred -> value=bytes; length 0 asks for the size")                       \
	X(LISTXATTR, 27, "node data length cred -> value=bytes; length 0 asks for the size")                           \
	X(REMOVEXATTR, 28, "node name cred")                                                                           \
	X(STATFS, 29, "data=struct g4_statfs")                                                                         \
	X(ACCESS, 30, "node flags=G4_ACCESS_* cred")                                                                   \
	X(FORGET, 31, "node; a holder (the kernel) that kept an unlinked inode alive lets it go")                      \
	X(TRIM, 32, "offset length=range of the space, arg=smallest run, in bytes -> value=bytes discarded")           \
	X(MAP, 33, "handle | node, offset data=struct g4_map_extent[] length -> value=bytes, 0 behind the last")       \
	X(RESIZE, 34, "offset=bytes -> value=the largest possible size, where that is why it is refused")

enum g4_command_op {
#define G4_COMMAND_ENUM(name, number, text) G4_CMD_##name = (number),
	G4_COMMANDS(G4_COMMAND_ENUM)
#undef G4_COMMAND_ENUM
};
/* The numbers have no gaps: so many commands are there. */
enum {
#define G4_COMMAND_COUNT_ONE(name, number, text) +1
	G4_COMMAND_COUNT = 0 G4_COMMANDS(G4_COMMAND_COUNT_ONE)
#undef G4_COMMAND_COUNT_ONE
};
G4_STATIC_ASSERT(G4_COMMAND_COUNT <= 64, "a set of commands is one word");
/* A set of commands, and whether one is in it. Any number may be asked for. */
#define G4_COMMAND_SET(name) (UINT64_C(1) << G4_CMD_##name)
G4_FN G4_INLINE bool g4_command_is_in(uint64_t set, uint32_t op)
{
	return op < G4_COMMAND_COUNT && (set >> op & 1) != 0;
}

struct g4_cmd {
	uint32_t op;
	int32_t status; /* out: 0 or a negative code (error.h) */
	uint64_t token; /* over a ring: attr.token of node; that of node2 is in offset */
	uint64_t node;
	uint64_t node2;
	uint64_t handle;
	uint64_t offset;
	uint64_t length;
	void *data;
	const char *name;
	const char *name2;
	uint16_t name_bytes;
	uint16_t name2_bytes;
	uint32_t flags;
	uint32_t mode;
	uint32_t mask;
	uint64_t arg;
	struct g4_attr *attr;
	uint64_t value; /* out */
	const struct g4_cred *cred;
};
G4_STATIC_ASSERT(sizeof(struct g4_cmd) == 128, "command descriptor");

#endif
