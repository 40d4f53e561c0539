/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In-core inodes and their table. mounted.h has struct g4_fs, which holds the table; the rules for locks are in fs/README.md.
 */
#ifndef G4_INODE_TYPES_H
#define G4_INODE_TYPES_H

#include "base/numbers.h"
#include "format/format.h"
#include "simt/simt.h"

#define G4_NO_INODE UINT32_MAX

/* Asking for attributes touches the first 192 bytes. */
struct g4_inode_core {
	uint64_t ino;
	uint64_t data_key; /* cache owner of its pages: no other inode or incarnation of the number has had it */
	uint32_t refs;	   /* and, at the top, whether it is being given to another inode (icache.c) */
	uint32_t next;	   /* hash chain */
	uint32_t state;	   /* enum below */
	uint32_t accessed; /* clock */

	struct g4_rwlock lock; /* everything below */
	uint64_t size;	       /* size as users see it */
	uint32_t dirty_count;  /* lines on the dirty list */
	bool dead;	       /* freed: the number may belong to another inode already */
	uint16_t epoch;	       /* which of the epochs is its own; constant (inode/epoch.h) */

	struct g4_inode disk;		   /* what the journal knows, kept exact; size: published size */
	uint64_t logged;		   /* sequence of the last transaction that changed it */
	uint32_t times_dirty;		   /* disk differs from the logged inode in time stamps (or size) only */
	uint32_t opens;			   /* open handles */
	bool held;			   /* removed, kept for FORGET */
	bool unnamed;			   /* TMPFILE that may still get its first name */
	uint8_t left;			   /* removed, stays: not all of it can be read; in fs->left_inodes; atomic */
	bool overtaken;			   /* its number was given to a new inode while it was loaded; bucket lock */
	uint32_t orphan_prev, orphan_next; /* list in memory, guarded by orphan_lock */

	struct g4_lock dirty_lock; /* the dirty list; taken inside lock */
	uint32_t dirty_head, dirty_tail;
	bool no_inline;	   /* the next write-back moves inline data to a page */
	bool dedup_failed; /* a page that was found was gone: the next batch is stored without looking */
	bool joins_late;   /* 2 MiB may become one pointer, for which a transaction had no room (data/publish.c) */
	uint32_t queued;
	uint32_t dirty_prev, dirty_next; /* list of in-core inodes to write back, guarded by dirty_list_lock */

	uint64_t next_read;	     /* offset that a sequential reader asks for next */
	uint32_t window;	     /* read-ahead, pages */
	uint64_t ahead_end;	     /* pages before it were asked of the servers of fs->ahead */
	struct g4_address next_goal; /* behind the last page written */
	/* reserved space (data/reserve.c), guarded by lock */
	uint64_t map_reservation;    /* pages that the running publication may take for the map */
	uint32_t growth_reservation; /* pages for what makes the map high enough for the dirty pages */
	uint32_t dirty_height;	     /* how high that is: the most any of them needed; 0 without dirty pages */
	uint32_t near;		     /* the cache line of its slab when it was logged last, a hint */
	uint32_t first_page;	     /* of a directory: the cache line of that, plus 1, a hint */
	uint64_t shared_changes;     /* of attributes, with the lock shared: begun << 16 | under way (inode/epoch.h) */
};

/* What attributes are made of: from its beginning on, three cache lines. */
#define G4_INODE_CORE_ATTRIBUTE_BYTES 192u
G4_STATIC_ASSERT(offsetof(struct g4_inode_core, disk) + offsetof(struct g4_inode, map) == G4_INODE_CORE_ATTRIBUTE_BYTES,
		 "attributes");
G4_STATIC_ASSERT(sizeof(struct g4_inode_core) % 64 == 0, "in each core of the table");

#define G4_ICACHE_TAKEN (1u << 31) /* in refs, see icache.c */
enum { G4_ICACHE_FREE = 0, G4_ICACHE_LOADING = 1, G4_ICACHE_READY = 2, G4_ICACHE_FAILED = 3 };

/* S_IFMT of an inode that others may have locked: the type never changes, the permissions beside it may be changing. */
G4_FN G4_INLINE uint32_t g4_inode_core_type(const struct g4_inode_core *inode)
{
	uint64_t word;

	G4_STATIC_ASSERT(offsetof(struct g4_inode, mode) == 0, "the lowest bits of the first word");
	g4_peek(&word, &inode->disk, 1);
	return (uint32_t)word & G4_S_IFMT;
}

/* Under the write lock. Readers of mapped pages load the size locklessly: pages below it are already filled. */
G4_FN G4_INLINE void g4_set_size(struct g4_inode_core *inode, uint64_t size)
{
	if (inode->size != size)
		g4_store64_rel(&inode->size, size);
}

/* What pages of an inode are called in the cache: remembered, for they may outlive its in-core inode. */
struct g4_icache_key {
	uint64_t ino;
	uint64_t key; /* 0: none */
	uint32_t generation;
	uint32_t unused;
};

#define G4_ICACHE_KEYS 4u /* of a bucket */
#define G4_ICACHE_LOCKS 1024u

struct g4_icache {
	struct g4_inode_core *inodes;
	uint32_t count;
	uint32_t *buckets;
	uint32_t bucket_mask;
	struct g4_icache_key *keys;	       /* G4_ICACHE_KEYS a bucket, guarded by its lock */
	struct g4_lock locks[G4_ICACHE_LOCKS]; /* by bucket */
	uint32_t hand G4_OWN_LINE;	       /* of the clock */
	uint64_t last_key G4_OWN_LINE;	       /* that was given away */
};

/* Whether a copy of an in-core inode is the inode's (0: whose it is does not matter), and that was in use. */
G4_FN G4_INLINE bool g4_icache_copy_is(const struct g4_inode_core *copy, uint64_t ino)
{
	return (ino == 0 || copy->ino == ino) && copy->state == G4_ICACHE_READY && !(copy->refs & G4_ICACHE_TAKEN) &&
	       !copy->dead;
}

/*
 * Per-lane. Copies the first G4_INODE_CORE_ATTRIBUTE_BYTES of an in-core inode without lock and reference. False where it is not
 * there any more (ino 0: whatever is there will do) or changing. The copy counts if the lock has that version afterwards
 * (g4_read_unchanged()): an in-core inode changes under its lock, which is held from before its number is found no more until it is
 * another inode's, too; what comes into it from the slab is one version more.
 */
G4_FN G4_INLINE bool g4_icache_read_optimistic(const struct g4_inode_core *inode, uint64_t ino,
					       struct g4_inode_core *copy, uint32_t *version)
{
	if (!g4_read_begin(&inode->lock, version))
		return false;
	g4_peek(copy, inode, G4_INODE_CORE_ATTRIBUTE_BYTES / 8);
	return g4_icache_copy_is(copy, ino);
}

#endif
