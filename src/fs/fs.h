/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mounted file system: the structures that the files of this folder share. README.md has the lock order.
 */
#ifndef G4_FS_H
#define G4_FS_H

#include "dir/dir.h"
#include "dir/lookup.h"
#include "fs/command.h"
#include "task/task.h"

#define G4_S_IFMT 0170000u
#define G4_S_IFSOCK 0140000u
#define G4_S_IFLNK 0120000u
#define G4_S_IFREG 0100000u
#define G4_S_IFBLK 0060000u
#define G4_S_IFDIR 0040000u
#define G4_S_IFCHR 0020000u
#define G4_S_IFIFO 0010000u
#define G4_S_ISUID 04000u
#define G4_S_ISGID 02000u
#define G4_S_ISVTX 01000u
#define G4_S_IWGRP 00020u
#define G4_S_IXGRP 00010u
#define G4_S_IWOTH 00002u
G4_FN G4_INLINE bool g4_is_dir(uint32_t mode)
{
	return (mode & G4_S_IFMT) == G4_S_IFDIR;
}
G4_FN G4_INLINE bool g4_is_reg(uint32_t mode)
{
	return (mode & G4_S_IFMT) == G4_S_IFREG;
}
G4_FN G4_INLINE bool g4_is_link(uint32_t mode)
{
	return (mode & G4_S_IFMT) == G4_S_IFLNK;
}

/* ------------------------------------------------------------------ in-core inodes (inode.c) */
#define G4_NO_INODE UINT32_MAX

/* Whoever asks for attributes touches the first 192 bytes. */
struct g4_inode_core {
	uint64_t ino;
	uint64_t data_key; /* cache owner of its pages: no other inode or incarnation of the number has had it */
	uint32_t refs;	   /* and, at the top, whether it is being given to another inode (inode.c) */
	uint32_t next;	   /* hash chain */
	uint32_t state;	   /* enum below */
	uint32_t accessed; /* clock */

	struct g4_rwlock lock; /* everything below */
	uint64_t size;	       /* size as users see it */
	uint32_t dirty_count;  /* lines on the dirty list */
	bool dead;	       /* freed: the number may belong to another inode already */

	struct g4_inode disk;		   /* what the journal knows, kept exact; size: published size */
	uint64_t logged;		   /* sequence of the last transaction that changed it */
	uint32_t times_dirty;		   /* disk differs from the logged inode in time stamps (or size) only */
	uint32_t opens;			   /* open handles */
	bool held;			   /* removed, kept for FORGET */
	bool unnamed;			   /* TMPFILE that may still get its first name */
	uint32_t orphan_prev, orphan_next; /* list in memory, guarded by orphan_lock */

	struct g4_lock dirty_lock; /* the dirty list; taken inside lock */
	uint32_t dirty_head, dirty_tail;
	bool no_inline; /* the next write-back moves inline data to a page */
	uint32_t queued;
	uint32_t dirty_prev, dirty_next; /* list of in-core inodes to write back, guarded by dirty_list_lock */

	uint64_t next_read; /* offset that a sequential reader asks for next */
	uint32_t window;    /* read-ahead, pages */
	uint64_t ahead_end; /* pages before it were asked of the servers of fs->ahead */
	uint64_t next_goal; /* address behind the last page written */
	/* reserved space (writeback.c), guarded by lock */
	uint64_t map_reservation;    /* pages that the running publication may take for the map */
	uint32_t growth_reservation; /* pages for what makes the map high enough for the dirty pages */
	uint32_t dirty_height;	     /* how high that is: the most any of them needed; 0 without dirty pages */
	uint32_t near;		     /* the cache line of its slab when it was logged last, a hint */
	uint32_t leaf;		     /* of a directory of one page: the cache line of that, plus 1, a hint */
	uint8_t unused[8];	     /* whole cache lines */
};
/* What attributes are made of: from its beginning on, three cache lines. */
#define G4_INODE_CORE_ATTRIBUTE_BYTES 192u
G4_STATIC_ASSERT(offsetof(struct g4_inode_core, disk) + offsetof(struct g4_inode, map) == G4_INODE_CORE_ATTRIBUTE_BYTES,
		 "attributes");
G4_STATIC_ASSERT(sizeof(struct g4_inode_core) % 64 == 0, "in each core of the table");
#define G4_ICACHE_TAKEN (1u << 31) /* in refs, see inode.c */
enum { G4_ICACHE_FREE = 0, G4_ICACHE_LOADING = 1, G4_ICACHE_READY = 2, G4_ICACHE_FAILED = 3 };

/* S_IFMT of an inode that others may have locked: the type never changes, the permissions beside it may be changing. */
G4_FN G4_INLINE uint32_t g4_inode_core_type(const struct g4_inode_core *inode)
{
	uint64_t word;

	G4_STATIC_ASSERT(offsetof(struct g4_inode, mode) == 0, "the lowest bits of the first word");
	g4_peek(&word, &inode->disk, 1);
	return (uint32_t)word & G4_S_IFMT;
}

/* What pages of an inode are called in the cache: remembered, for they may outlive its in-core inode. */
struct g4_icache_key {
	uint64_t ino;
	uint64_t key; /* 0: none */
	uint32_t generation;
	uint32_t unused;
};
#define G4_ICACHE_KEYS 4u /* of a bucket, newest first */
#define G4_ICACHE_LOCKS 256u
struct g4_icache {
	struct g4_inode_core *inodes;
	uint32_t count;
	uint32_t *buckets;
	uint32_t bucket_mask;
	struct g4_lock locks[G4_ICACHE_LOCKS]; /* by bucket */
	uint32_t hand;
	struct g4_icache_key *keys; /* G4_ICACHE_KEYS a bucket, guarded by its lock */
	uint64_t last_key;	    /* that was given away */
};

/* ------------------------------------------------------------------ reading ahead (ahead.c) */
#define G4_AHEAD_SLOTS 64u
struct g4_ahead_request {
	uint32_t index; /* referenced */
	uint32_t pages;
	uint64_t page;
};
struct g4_ahead {
	struct g4_lock lock; /* of first, count and requests */
	uint32_t first, count;
	uint32_t posted;  /* grows with every request; idle servers wait on it */
	uint32_t servers; /* workgroups that call g4_ahead_serve(); without any, nothing is asked for */
	struct g4_ahead_request requests[G4_AHEAD_SLOTS];
};

/* ------------------------------------------------------------------ transfers by many workgroups (split.c) */
#define G4_SPLIT_JOBS 32u	 /* at a time; further transfers are done by one workgroup each */
#define G4_SPLIT_PIECE_PAGES 64u /* of a piece, at most */
enum g4_split_kind { G4_SPLIT_READ, G4_SPLIT_WRITE };
struct g4_batch;
/* What there is to move. */
struct g4_split_work {
	uint32_t kind;	 /* enum g4_split_kind */
	uint32_t index;	 /* READ: locked by the owner */
	uint64_t offset; /* READ: in the file; WRITE: 0 */
	uint64_t bytes;
	uint8_t *to; /* READ */
	bool direct; /* READ: past the cache, where that can be */
	bool stream;
	const struct g4_batch *batch; /* WRITE: in memory that all workgroups reach */
};
struct g4_split_job { /* what many change at a time lies apart from what is constant while the job is open */
	struct g4_task task;
	uint32_t helpers; /* workgroups besides the owner, or about to see that there are too many */
	uint8_t padding1[100];
	uint32_t piece_bytes;
	uint32_t padding0;
	struct g4_split_work work;
	uint8_t padding2[72];
};
G4_STATIC_ASSERT(sizeof(struct g4_split_job) == 256, "two cache lines of a GPU");
struct g4_split {
	uint32_t helpers; /* workgroups that call g4_split_help() when idle; without any, nothing is split */
	uint32_t used;	  /* bit i: jobs[i] has an owner */
	uint8_t padding0[120];
	uint32_t open; /* bit i: jobs[i] may have pieces to take; what idle workgroups look at */
	uint8_t padding1[124];
	struct g4_split_job jobs[G4_SPLIT_JOBS];
};

/* ------------------------------------------------------------------ the file system */
#define G4_FS_READ_ONLY 1u
#define G4_FS_NOATIME 2u
#define G4_FS_STRICTATIME 4u
#define G4_FS_HOLD_UNLINKED 8u
#define G4_FS_SYNC 16u
#define G4_FS_DISCARD 32u	/* what was freed is discarded behind its commit */
#define G4_FS_CALLER_CACHES 64u /* the caller has a cache of pages: it keeps what it reads, and stamps what it writes */

struct g4_fs {
	struct g4_space space;
	struct g4_cache cache;
	struct g4_meta meta;
	struct g4_journal journal;
	struct g4_alloc alloc;
	struct g4_icache icache;
	struct g4_lookup lookup;
	struct g4_superblock super;
	bool super_is_second; /* it was read from the second copy */
	uint64_t hash_key[2];
	uint32_t flags;
	uint32_t root_index; /* referenced while mounted */
	uint32_t next_generation;
	uint64_t seen_stamp; /* the latest of the kernel's that we know, 0: none */

	struct g4_lock rename_lock; /* one cross-directory rename at a time */
	struct g4_lock orphan_lock;
	uint32_t orphan_head; /* in-core inode */
	struct g4_lock dirty_list_lock;
	struct g4_rwlock flush_lock;	  /* shared by passes over the dirty inodes; taken before inode locks */
	uint32_t dirty_first, dirty_last; /* in-core inodes with something to write back */
	uint64_t dirty_pages;
	uint64_t dirty_limit;
	uint32_t queued_inodes; /* on that list */
	struct g4_ahead ahead;
	struct g4_split split;
	uint32_t resizing;     /* somebody is */
	uint32_t error_state;  /* 1 after metadata was found damaged or could not be written */
	uint64_t memory_bytes; /* of the mapping that begins here */
};

G4_FN G4_INLINE struct g4_inode_core *g4_icache_at(struct g4_fs *fs, uint32_t i)
{
	return &fs->icache.inodes[i];
}
/* Under the write lock. Who maps pages looks at the size without a lock, and finds what it says in them. */
G4_FN G4_INLINE void g4_set_size(struct g4_inode_core *inode, uint64_t size)
{
	if (inode->size != size)
		g4_store64_rel(&inode->size, size);
}
/* Scratch memory: first what commits use, then what one operation uses, last the buffer of whoever runs several in a row. */
#define G4_COPY_SCRATCH_BYTES (16u * 1024)
#define G4_FS_SCRATCH_BYTES (G4_WG_SCRATCH_BYTES - G4_COMMIT_SCRATCH_BYTES - G4_COPY_SCRATCH_BYTES)
G4_FN G4_INLINE void *g4_fs_scratch(const struct g4_wg *wg)
{
	return (uint8_t *)g4_wg_scratch(wg) + G4_COMMIT_SCRATCH_BYTES;
}
G4_FN G4_INLINE uint8_t *g4_copy_scratch(const struct g4_wg *wg)
{
	return (uint8_t *)g4_fs_scratch(wg) + G4_FS_SCRATCH_BYTES;
}
/* One aligned page of it, for transfers past the cache. */
G4_FN G4_INLINE uint8_t *g4_scratch_page(const struct g4_wg *wg)
{
	return (uint8_t *)g4_align_up((uintptr_t)g4_fs_scratch(wg), G4_PAGE_BYTES);
}

/* ---- inode.c: leader, thread-safe ---- */
/* References the in-core inode of a number. -G4_E_STALE: no such inode. */
G4_FN int g4_icache_get(struct g4_wg *wg, struct g4_fs *fs, uint64_t ino, uint32_t *index);
/* The same for a caller who saw the inode at this place of the table before (G4_NO_INODE: nowhere). */
G4_FN int g4_icache_get_near(struct g4_wg *wg, struct g4_fs *fs, uint64_t ino, uint32_t near, uint32_t *index);
/* Per-lane; neither waits nor locks. References the in-core inode at that place, if it is the inode's and loaded. */
G4_FN bool g4_icache_ref_near(struct g4_fs *fs, uint64_t ino, uint32_t near);
/*
 * Per-lane. The place where the inode seems to stand in the table, or G4_NO_INODE. Nothing is referenced: the caller looks
 * at the in-core inode with g4_icache_read_optimistic().
 */
G4_FN uint32_t g4_icache_place(const struct g4_fs *fs, uint64_t ino);
/*
 * The key of an inode's pages in the cache. fresh: a new one; else the one that the same number and generation had, if that
 * is remembered. No two inodes or incarnations have had the same.
 */
G4_FN uint64_t g4_icache_key(struct g4_icache *icache, uint64_t ino, uint32_t generation, bool fresh);
/* Whether a copy of an in-core inode is the inode's (0: whose it is does not matter), and that was in use. */
G4_FN G4_INLINE bool g4_icache_copy_is(const struct g4_inode_core *copy, uint64_t ino)
{
	return (ino == 0 || copy->ino == ino) && copy->state == G4_ICACHE_READY && !(copy->refs & G4_ICACHE_TAKEN) &&
	       !copy->dead;
}
/*
 * Per-lane. Copies the first G4_INODE_CORE_ATTRIBUTE_BYTES of an in-core inode without lock and reference. False where it is not
 * there any more (ino 0: whatever is there will do) or changing. The copy counts if the lock has that version afterwards
 * (g4_read_unchanged()): an in-core inode changes under its lock, or while it is given to another inode. reset_inode() makes two
 * versions of that, and what comes into it from the slab is one more.
 */
G4_FN G4_INLINE bool g4_icache_read_optimistic(const struct g4_inode_core *inode, uint64_t ino,
					       struct g4_inode_core *copy, uint32_t *version)
{
	if (!g4_read_begin(&inode->lock, version))
		return false;
	g4_peek(copy, inode, G4_INODE_CORE_ATTRIBUTE_BYTES / 8);
	return g4_icache_copy_is(copy, ino);
}
/* The in-core inode of a command's node or node2, in its right generation. */
G4_FN int g4_icache_get_node(struct g4_wg *wg, struct g4_fs *fs, const struct g4_cmd *cmd, uint32_t *index);
G4_FN int g4_icache_get_node2(struct g4_wg *wg, struct g4_fs *fs, const struct g4_cmd *cmd, uint32_t *index);
G4_FN G4_INLINE void g4_icache_put(struct g4_fs *fs, uint32_t i)
{
	g4_sub32_rel(&g4_icache_at(fs, i)->refs, 1);
}
G4_FN void g4_icache_ref(struct g4_fs *fs, uint32_t index);
/* Allocates an inode in a transaction; *index is referenced and write-locked; disk is set up but not yet logged. */
G4_FN int g4_inode_new(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, uint32_t mode, uint32_t *index);
/* Puts inode->disk into its slab. The in-core inode is write-locked. */
G4_FN int g4_inode_log(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode);
/*
 * Ends what an operation did to the attributes of a write-locked inode, which were those of `before`: logs them, or, where it
 * failed with rc or this fails, puts them back. Returns what became of it. What the operation did to the inode's pages stays,
 * and is logged all the same.
 */
G4_FN int g4_inode_settle(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			  const struct g4_inode *before, int rc);
/* Frees the slot and makes the in-core inode dead. */
G4_FN int g4_inode_free(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, uint32_t index);
/* Removes an in-core inode from the table when its inode never came to be. */
G4_FN void g4_icache_discard(struct g4_fs *fs, uint32_t index);
/* Orphan list: removed but in use, or being truncated away. */
G4_FN int g4_orphan_add(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, uint32_t index);
G4_FN int g4_orphan_remove(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, uint32_t index);
/* Deletes an inode without links, openers and holders; cuts the work into transactions. Takes the in-core inode's lock. */
G4_FN int g4_inode_delete(struct g4_wg *wg, struct g4_fs *fs, uint32_t index);
G4_FN G4_INLINE void g4_fill_attr(const struct g4_inode_core *inode, struct g4_attr *attr)
{
	const struct g4_inode *disk = &inode->disk;

	attr->ino = inode->ino;
	attr->size = g4_is_dir(disk->mode) ? disk->pages * G4_PAGE_BYTES : inode->size;
	/* what is dirty may have its space already: no more of it is counted than makes the file as large as it is */
	uint64_t pages = g4_pages_for(inode->size), missing = pages > disk->pages ? pages - disk->pages : 0;
	attr->blocks_512 = (disk->pages + g4_min64(inode->dirty_count, missing)) * (G4_PAGE_BYTES / 512);
	attr->atime_ns = g4_load64_rlx(&disk->atime_ns); /* readers move it */
	attr->mtime_ns = disk->mtime_ns;
	attr->ctime_ns = disk->ctime_ns;
	attr->btime_ns = disk->btime_ns;
	attr->rdev = disk->rdev;
	attr->generation = disk->generation;
	attr->change_count = disk->change_count;
	attr->mode = disk->mode;
	attr->nlink = disk->nlink;
	attr->uid = disk->uid;
	attr->gid = disk->gid;
	attr->flags = disk->flags & (G4_INODE_IMMUTABLE | G4_INODE_APPEND | G4_INODE_NODUMP | G4_INODE_NOATIME);
	attr->reserved = 0;
	attr->token = 0;
}
/*
 * What files are stamped with. Behind FUSE the kernel stamps, too, with the time of its last tick; so that what happens
 * later is not older, we stamp with that clock then, and never with less than a stamp of the kernel's that we have seen:
 * it may be some ticks ahead (Linux 6.13: of CLOCK_REALTIME_COARSE, for other file systems' sake).
 */
G4_FN uint64_t g4_now(const struct g4_fs *fs);
G4_FN void g4_saw_stamp(struct g4_fs *fs, uint64_t time_ns);
/* Marks time stamps as changed without a transaction; they are logged with the next one or by write-back. */
G4_FN void g4_touch(struct g4_fs *fs, uint32_t index, bool modified, bool changed);
G4_FN void g4_touch_read(struct g4_fs *fs, uint32_t index);

/* ---- sync.c ---- */
/* Joins a transaction, committing as often as needed first. The caller may hold inode locks, nothing else. */
G4_FN int g4_begin(struct g4_wg *wg, struct g4_fs *fs, uint32_t credits, struct g4_txn *txn);
/*
 * Leaves it and passes on what became of the operation. One that failed for another reason than its arguments or want of
 * space, after it had changed something, is half done: the journal stops, so that the transaction never commits.
 */
G4_FN int g4_end(struct g4_fs *fs, struct g4_txn *txn, int code);
/* Makes transactions up to `sequence` durable; UINT64_MAX: all. */
G4_FN int g4_commit(struct g4_wg *wg, struct g4_fs *fs, uint64_t sequence, bool checkpoint);
/* Data and metadata of one inode. */
G4_FN int g4_fsync(struct g4_wg *wg, struct g4_fs *fs, uint32_t index);
/* Everything. */
G4_FN int g4_sync_all(struct g4_wg *wg, struct g4_fs *fs, bool checkpoint);
/* Writes back the dirty inodes that were queued when it was called. */
G4_FN int g4_writeback_all(struct g4_wg *wg, struct g4_fs *fs);
/* Metadata is damaged or cannot be written: no more changes. */
G4_FN void g4_fs_error(struct g4_fs *fs, int code);
/* Passes a code on; a corruption or write error of metadata also turns the file system read-only. */
G4_FN int g4_check_failure(struct g4_fs *fs, int code);
G4_FN G4_INLINE int g4_check(struct g4_fs *fs, int code)
{
	return code < 0 ? g4_check_failure(fs, code) : code;
}
/* Whether so much is dirty that it should be written back soon (hard: before more is made dirty). */
G4_FN bool g4_dirty_pressure(const struct g4_fs *fs, bool hard);
/* The queue of inodes with dirty pages or times. */
G4_FN void g4_queue_dirty(struct g4_fs *fs, uint32_t index);

/* ---- map.c: file mapping; the in-core inode is locked ---- */
enum g4_extent_kind { G4_HOLE = 0, G4_UNWRITTEN = 1, G4_WRITTEN = 2 };
struct g4_run {
	uint32_t kind;
	uint32_t level;	  /* of the pointer: 0 to a 4 KiB page, 1 to a 2 MiB page, 2 to a 1 GiB page */
	uint64_t address; /* of the first page, unless a hole */
	uint64_t pages;
};
/* metadata blocks that changing one piece of a mapping dirties at most */
#define G4_MAP_CREDITS 32u
/* What lies at `page`: a run of 1..most pages of one kind, contiguous on disk. */
G4_FN int g4_map_lookup(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
			uint64_t most, struct g4_run *run);
/*
 * In a transaction: maps pages to claimed, not yet published space, publishes it and frees what was there. Does as much
 * as the transaction's credits allow; *done pages. Updates inode->disk, which the caller logs.
 */
G4_FN int g4_map_set(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode, uint64_t page,
		     uint64_t address, uint64_t pages, bool written, uint64_t *done);
/* In a transaction: unmaps and frees from `page` to `end`; *next is where to go on, >= end when finished. */
G4_FN int g4_map_clear(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
		       uint64_t page, uint64_t end, uint64_t *next);
G4_FN uint64_t g4_map_capacity_pages(uint32_t height);
/* The height that a map must have for a page. */
G4_FN uint32_t g4_map_height_for(uint64_t page);

/* ---- trim.c ---- */
/* Discards free space in a range of addresses: runs of at least `least` bytes. *done bytes. */
G4_FN int g4_trim(struct g4_wg *wg, struct g4_fs *fs, uint64_t start, uint64_t bytes, uint64_t least, uint64_t *done);
/* With G4_FS_DISCARD: what was freed since the last call, and is durably so. */
G4_FN int g4_discard_freed(struct g4_wg *wg, struct g4_fs *fs);

/* ---- resize.c ---- */
/*
 * Gives the file system another size, a multiple of 4 KiB that the device has. alone: nobody else uses it; without that it
 * only grows. -G4_E_NOSPC: *limit is the largest size that its tables have room for, or the smallest that what is in use
 * allows. After another error the image has one of the two sizes, and the next mount says which.
 */
G4_FN int g4_resize(struct g4_wg *wg, struct g4_fs *fs, uint64_t bytes, bool alone, uint64_t *limit);

/* ---- file.c, writeback.c ---- */
/*
 * bypass: the caller keeps what it reads. Aligned pages that are not cached are read straight into its memory: large pieces, and
 * any in a place that does not continue the read before. Sequential small ones come from the cache, with what follows.
 */
G4_FN int g4_file_read(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t offset, void *to, uint64_t bytes,
		       bool bypass, uint64_t *done);
G4_FN int g4_file_write(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t offset, const void *from,
			uint64_t bytes, uint64_t *done);
/* Writes a locked inode's dirty pages and publishes them. */
G4_FN int g4_writeback(struct g4_wg *wg, struct g4_fs *fs, uint32_t index);
/* The same in the middle of a change that maps more: nothing of it becomes inline data. */
G4_FN int g4_writeback_mapped(struct g4_wg *wg, struct g4_fs *fs, uint32_t index);
/* Written pages need less than was reserved, and space freed in the running transaction helps once that is durable. */
G4_FN int g4_make_room(struct g4_wg *wg, struct g4_fs *fs, uint32_t index);
/* Sets the size of a write-locked regular file. */
G4_FN int g4_file_truncate(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t size);
/* Recovery: frees what lies behind the size of an inode on the orphan list. Write-locked. */
G4_FN int g4_file_cut(struct g4_wg *wg, struct g4_fs *fs, uint32_t index);
/* Whether g4_file_allocate() knows what is asked. */
G4_FN int g4_file_check_range(uint32_t mode, uint64_t offset, uint64_t bytes);
G4_FN int g4_file_allocate(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint32_t mode, uint64_t offset,
			   uint64_t bytes);
G4_FN int g4_file_seek(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t offset, uint32_t whence,
		       uint64_t *found);
/* Takes a page's line off the dirty list (it will not be written). Write-locked. */
G4_FN void g4_drop_dirty(struct g4_fs *fs, uint32_t index, uint64_t first_page, uint64_t end_page);
/*
 * Writes pages straight from memory and publishes them: whole pages, 512 B aligned memory. *done: pages that are written,
 * also when it fails. Write-locked.
 */
G4_FN int g4_write_direct(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t page, const uint8_t *from,
			  uint64_t pages, uint64_t new_size, uint64_t *done);
/*
 * Reads mapped pages into the cache from `page` on, as many of the run as are not there yet and fit one request; *pages
 * of them. *first is the line of `page`, referenced: a line of the overflow pool would be gone with the last reference.
 * G4_NO_LINE: all lines that it could have are in use. Read-locked.
 */
G4_FN int g4_fill_run(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page,
		      const struct g4_run *run, uint32_t *first, uint32_t *pages);
/* References page `page` of a file as a cached line with its contents; zeros beyond what is stored. */
G4_FN int g4_page_get(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page, uint32_t *line);
/*
 * Puts a referenced line on the dirty list and reserves the space that writing it back may take, so that only this can
 * fail with -G4_E_NOSPC. Write-locked.
 */
G4_FN int g4_page_dirty(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint32_t line);

/* ---- ahead.c ---- */
/* A sequential reader of the read-locked in-core inode will want the pages from `page` on; the file has `end`. Never blocks. */
G4_FN void g4_ahead_ask(struct g4_fs *fs, uint32_t index, uint64_t page, uint64_t end);
/* Does one thing that was asked for; false: there was none. The caller has counted itself in fs->ahead.servers. */
G4_FN bool g4_ahead_serve(struct g4_wg *wg, struct g4_fs *fs);
/* Forgets what was asked for, when the last server is gone. */
G4_FN void g4_ahead_drop(struct g4_fs *fs);

/* ---- split.c ---- */
/*
 * Leader. Moves what `work` says together with idle workgroups, unless it is too little or nobody would help: false, and
 * nothing was done. *rc: 0, or the error of the first byte that failed; *done: the bytes before that.
 */
G4_FN bool g4_split_run(struct g4_wg *wg, struct g4_fs *fs, const struct g4_split_work *work, int *rc, uint64_t *done);
/* Leader, outside of any operation: does one piece of somebody's transfer, if there is one; whether there was. */
G4_FN bool g4_split_help(struct g4_wg *wg, struct g4_fs *fs);
/* file.c, writeback.c: the pieces. *done: bytes that were read, also when it fails. */
G4_FN int g4_read_piece(struct g4_wg *wg, struct g4_fs *fs, const struct g4_split_work *work, uint64_t offset,
			uint64_t bytes, uint64_t *done);
/* Writes `count` pages of a batch, from `first` on, to the space that was claimed for them. */
G4_FN int g4_write_piece(struct g4_wg *wg, struct g4_fs *fs, const struct g4_batch *batch, uint32_t first,
			 uint32_t count);

/* ---- namei.c, execute.c, readdir.c, xattr.c: one function a command, called by g4_execute ---- */
G4_FN int g4_do_lookup(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);
G4_FN int g4_do_resolve(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);
/* Commands that may be answered without a lock: optimistic.h. */
G4_FN G4_INLINE bool g4_may_look_up_optimistically(uint32_t op)
{
	return op == G4_CMD_RESOLVE || op == G4_CMD_LOOKUP;
}
/*
 * optimistic.c. Per-lane, waits for nothing, locks nothing. What LOOKUP and RESOLVE would answer, if the caches have it and
 * nobody changes what is on the way; false: ask them.
 */
G4_FN bool g4_optimistic_alone(const struct g4_fs *fs, const struct g4_cmd *cmd);
G4_FN int g4_do_make(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);
/* Opens a referenced in-core inode as an OPEN or CREATE command says; the handle takes the reference, an error drops it. */
G4_FN int g4_open_inode(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, struct g4_cmd *cmd);
G4_FN int g4_do_tmpfile(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);
G4_FN int g4_do_link(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);
G4_FN int g4_do_remove(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);
G4_FN int g4_do_rename(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);
G4_FN int g4_do_readdir(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);
G4_FN int g4_do_readlink(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);
G4_FN int g4_do_setattr(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);
G4_FN int g4_do_setxattr(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);
G4_FN int g4_do_getxattr(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);
G4_FN int g4_do_listxattr(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);
G4_FN int g4_do_removexattr(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);

/*
 * Before the inode that a name in a locked directory leads to is locked: -G4_E_CORRUPT_DIR where the name cannot be
 * right, because a directory has another parent. The order of locks relies on it, whatever an image says.
 */
G4_FN int g4_check_child(struct g4_fs *fs, const struct g4_inode_core *parent, uint32_t index);
/* Whether names may be looked up in a locked inode: a directory, with the permission. */
G4_FN int g4_may_search(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, const struct g4_cred *cred);
/*
 * Per-lane; neither waits nor locks. Where a name of a locked directory leads by the lookup cache, which has no name that the
 * directory has not. False: it does not know. bytes > 0.
 */
G4_FN bool g4_name_cached(struct g4_fs *fs, const struct g4_inode_core *dir, const char *name, uint64_t bytes,
			  struct g4_lookup_value *value);
/* What the lookup cache knows a name in a directory by. Per-lane. */
G4_FN struct g4_lookup_name g4_lookup_key(const struct g4_fs *fs, const struct g4_inode_core *dir, const char *name,
					  uint32_t bytes);
/* A symbolic link's target, at most G4_PATH_MAX - 1 bytes. Read-locked. */
G4_FN int g4_link_read(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, char *to, uint32_t room, uint32_t *bytes);

/* perm.c. The in-core inode is locked. want: G4_ACCESS_* bits. */
G4_FN int g4_permission(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, const struct g4_cred *cred,
			uint32_t want);
G4_FN bool g4_is_owner(const struct g4_inode_core *inode, const struct g4_cred *cred);
G4_FN bool g4_in_group(const struct g4_cred *cred, uint32_t gid);
G4_FN bool g4_is_root(const struct g4_cred *cred);
/*
 * What Linux forbids by its sysctl fs.protected_symlinks (1), _fifos (1) and _regular (2), of things that others left in sticky
 * directories; for all but trusted callers, whose kernel has its own settings. The directory is that of the name.
 * _hardlinks (1) is in the command that links.
 */
G4_FN int g4_may_follow(const struct g4_inode_core *dir, const struct g4_inode_core *link, const struct g4_cred *cred);
G4_FN int g4_may_reuse(const struct g4_inode_core *dir, const struct g4_inode_core *inode, const struct g4_cred *cred);
G4_FN G4_INLINE bool g4_is_trusted(const struct g4_cred *cred)
{
	return cred == NULL || (cred->flags & G4_CRED_TRUSTED);
}
/* The mode less the set-id bits that a file loses when somebody changes its contents or its owner. */
G4_FN uint32_t g4_mode_less_ids(const struct g4_inode_core *inode, const struct g4_cred *cred);
/*
 * Before the contents of a write-locked regular file change: takes its capabilities away, whoever changes it, and its set-id
 * bits, unless root does. They are gone also where the change then fails, as in Linux. Outside of transactions.
 */
G4_FN int g4_drop_privileges(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, const struct g4_cred *cred);

/* xattr.c: by space and name, on a write-locked (set, remove, clear) or read-locked in-core inode. */
G4_FN int g4_xattr_get(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint32_t space,
		       const char *name, uint32_t name_bytes, void *to, uint64_t room, uint64_t *bytes);
G4_FN int g4_xattr_set(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
		       uint32_t space, const char *name, uint32_t name_bytes, const void *value, uint64_t bytes,
		       uint32_t flags);
G4_FN int g4_xattr_remove(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			  uint32_t space, const char *name, uint32_t name_bytes);
/* Removes security.capability from a write-locked inode, if it has that. Outside of transactions. */
G4_FN int g4_drop_capability(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode);
/* Frees attributes as far as the transaction's credits go; done when inode->disk.xattr is 0. */
G4_FN int g4_xattr_clear(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode);
/* metadata blocks that one attribute change dirties at most: record page, value chains old and new, their space */
#define G4_XATTR_CREDITS 56u

/* acl.c */
#define G4_ACL_MAX_BYTES 1024u
struct g4_acl_result { /* what a new inode gets from its directory's default ACL */
	uint32_t mode;
	uint32_t access_bytes, default_bytes;
	uint8_t access[G4_ACL_MAX_BYTES];
	uint8_t default_[G4_ACL_MAX_BYTES];
};
G4_FN int g4_acl_inherit(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *parent, uint32_t mode,
			 uint32_t umask, struct g4_acl_result *out);
/* Checks an ACL in xattr form; *mode_bits gets the rwxrwxrwx it stands for, *equivalent whether mode bits say it all. */
G4_FN int g4_acl_check(const void *value, uint64_t bytes, uint32_t *mode_bits, bool *equivalent);
/* The access ACL after chmod, in place. */
G4_FN void g4_acl_chmod(void *value, uint64_t bytes, uint32_t mode);
/* G4_ACCESS_* bits that the ACL grants, or -1 when it does not decide. */
G4_FN int g4_acl_allows(const void *value, uint64_t bytes, const struct g4_inode_core *inode,
			const struct g4_cred *cred, uint32_t want);

/* ---- execute.c ---- */
/* Leader. Runs one command; sets cmd->status and returns it. */
G4_FN int g4_execute(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);
/* Handles name an open in-core inode: index and open flags. */
G4_FN G4_INLINE uint64_t g4_handle_make(uint32_t index, uint32_t flags)
{
	return (uint64_t)(index + 1) << 32 | (flags & 0xffffu);
}
G4_FN G4_INLINE uint32_t g4_handle_index(uint64_t handle)
{
	return (uint32_t)(handle >> 32) - 1;
}
G4_FN G4_INLINE uint32_t g4_handle_flags(uint64_t handle)
{
	return (uint32_t)(handle & 0xffffu);
}

#endif
