/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories: names to inode numbers. A tree of pages that starts at one pointer: a leaf while all entries fit one
 * page, then index pages (the H-tree of the directories document: sorted lower bounds of hash ranges) over leaves.
 * Index entries hold the addresses of their children, so a lookup needs no file mapping.
 *
 * Differences from the document, argued in DESIGN.md: a hash region is one leaf, not a list segment between dummies;
 * full index pages are split on the way down, to any depth.
 *
 * Locks. The caller holds the directory's inode lock. Exclusively it may do anything, and no leaf is locked. With it shared
 * (g4_dir.locks), no page goes, and one that comes is a leaf that takes the upper half of another one (g4_dir_divide_beside()). What a
 * leaf has in it and which hashes it is for are guarded by the leaf's lock: lookups and iteration take that by themselves, shared;
 * callers that put a name in, take one out or let one lead elsewhere hold it exclusively from g4_dir_lock_leaf() to
 * g4_dir_unlock_leaf(), inside of the transaction. Such changes count: a slot of a lookup is good while its leaf's lock counts none.
 *
 * Index pages are read without a lock. A split changes one, at the lowest level, under its index lock, whose version readers look at;
 * it has locked both leaves by then. A reader that has come to a leaf and locked it compares the splits that its lock counts with
 * those that it counted when the page above said where to go, and looks for the way again if there was one.
 */
#ifndef G4_DIR_H
#define G4_DIR_H

#include "alloc/alloc.h"
#include "hash/siphash.h"

/* metadata blocks that one insert changes at most: three levels, each split, with the space for the new pages */
#define G4_DIR_CREDITS 28u

/* On a GPU some hundred workgroups hold one at a time: with 1 024 of them every other one would meet another's (docs/performance.md). */
#define G4_LEAF_LOCK_BITS 13u
#define G4_LEAF_LOCKS (1u << G4_LEAF_LOCK_BITS)

struct g4_leaf_lock { /* of the leaves whose addresses lead here; those of any directories */
	struct g4_rwlock lock;
	uint64_t changes; /* under it, by holders of the directory's lock, shared */
	uint64_t splits;  /* those of them that took hashes from a leaf; read without it, too */
} G4_OWN_LINE;

#define G4_INDEX_LOCKS 64u

struct g4_index_lock { /* of the index pages whose addresses lead here; innermost */
	struct g4_rwlock lock;
} G4_OWN_LINE;

struct g4_dir_locks { /* of a file system */
	struct g4_leaf_lock leaves[G4_LEAF_LOCKS];
	struct g4_index_lock indexes[G4_INDEX_LOCKS];
};

struct g4_dir { /* what the directory's inode keeps about it */
	struct g4_alloc *alloc;
	struct g4_meta *meta; /* the allocator's, and its cache */
	struct g4_cache *cache;
	const uint64_t *hash_key;
	g4_ptr root;		    /* 0: no page yet */
	uint64_t pages;		    /* in use */
	struct g4_dir_locks *locks; /* for a caller with the inode lock shared; NULL: it has it alone */
};

struct g4_dir_slot { /* where a name is; valid while the inode lock is held, and `changes` is what the leaf's lock says */
	uint64_t inode;
	struct g4_leaf_lock *leaf_lock; /* NULL: none */
	const struct g4_txn_page
		*leaf; /* the caller has it already, by g4_dir_get_leaf(); NULL: it is got when it is wanted */
	uint64_t changes, splits;
	struct g4_address page; /* the leaf that has the name, or room for it */
	/* where that was in the cache, a hint; before a lookup: where the directory's first page may be */
	uint32_t line;
	uint32_t first_line; /* where that was */
	uint32_t unit;
	uint32_t hash;
	uint16_t collision;
	uint8_t file_type;
	bool full; /* an index page on the way to its leaf */
	/* of a name that is not there: */
	bool collides; /* another one has its hash */
	bool equal; /* putting it in divides names of its hash, for which the file system needs the feature EQUAL_HASHES */
	bool alone;	/* so does only who has the directory alone: that, or they are divided already */
	uint32_t first; /* the lowest collision number that a name of its hash may have in the leaf */
	uint32_t
		room; /* units that are free in its leaf; 0 where inserting the name, which is not there, splits a page */
};

/* Of an entry: all of a directory are ordered so, over its leaves. Below G4_DIR_POSITIONS. */
#define G4_DIR_POSITIONS (UINT64_C(1) << 48)
G4_FN G4_INLINE uint64_t g4_dir_position(uint32_t hash, uint16_t collision)
{
	return (uint64_t)hash << 16 | collision;
}
G4_FN G4_INLINE uint32_t g4_dir_hash(const uint64_t hash_key[2], const char *name, uint32_t bytes)
{
	return (uint32_t)g4_siphash13(hash_key, name, bytes);
}
/* -G4_E_NOENT when the name is not there; the slot then tells g4_dir_insert() what was seen on the way. */
G4_FN int g4_dir_lookup(struct g4_wg *wg, const struct g4_dir *dir, const char *name, uint32_t bytes,
			struct g4_dir_slot *slot);
/* The same; the leaf stays locked, shared, until g4_dir_let_go(), also after an error. */
G4_FN int g4_dir_lookup_held(struct g4_wg *wg, const struct g4_dir *dir, const char *name, uint32_t bytes,
			     struct g4_dir_slot *slot);
G4_FN void g4_dir_let_go(struct g4_dir_slot *slot);
/* Where nothing was written since the lookup, which ends with a release: as one of several (simt.h). */
G4_FN void g4_dir_let_go_fenced(struct g4_dir_slot *slot);
/* Locks the leaf of a lookup again that was let go, as it was. */
G4_FN void g4_dir_hold(struct g4_dir_slot *slot);
/*
 * The same for g4_dir_look_again() by who has not referenced the leaf: it is, before it is locked, since nobody waits for the device with a leaf
 * locked. To be let go of so. After an error it is not locked.
 */
G4_FN int g4_dir_hold_page(struct g4_wg *wg, const struct g4_dir *dir, struct g4_dir_slot *slot, uint32_t *line);
G4_FN void g4_dir_let_go_page(const struct g4_dir *dir, struct g4_dir_slot *slot, uint32_t line);
/* In a leaf that is locked: whether nothing in it has changed since the lookup. */
G4_FN G4_INLINE bool g4_dir_slot_holds(const struct g4_dir_slot *slot)
{
	return !slot->leaf_lock || g4_load64_rlx(&slot->leaf_lock->changes) == slot->changes;
}
/* Inode lock shared: locks the leaf that a lookup has seen, for a change; two of them, the lower lock first, and one lock once. */
G4_FN void g4_dir_lock_leaf(struct g4_leaf_lock *leaf_lock);
G4_FN void g4_dir_lock_two(struct g4_leaf_lock *a, struct g4_leaf_lock *b);
/* changed: whether something in it was changed. */
G4_FN void g4_dir_unlock_leaf(struct g4_leaf_lock *leaf_lock, bool changed);
G4_FN void g4_dir_unlock_two(struct g4_leaf_lock *a, struct g4_leaf_lock *b, bool changed);
/*
 * In a leaf that is locked so: what the lookup of this name would say now. Its slot is made good. G4_DIR_SPLIT: the name's place may be
 * in another leaf since: it has to be looked up.
 */
#define G4_DIR_SPLIT 1
G4_FN int g4_dir_look_again(struct g4_wg *wg, const struct g4_dir *dir, const char *name, uint32_t bytes,
			    struct g4_dir_slot *slot);
/* Blocks that putting such a name in changes at most: one where its leaf has room, mostly; else G4_DIR_CREDITS. */
G4_FN uint32_t g4_dir_insert_credits(const struct g4_dir_slot *slot, uint32_t name_bytes);
/*
 * The name is not there: `slot` is what the lookup said, and the inode has been locked since; with slot->equal the feature is there.
 * dir->root and dir->pages may change: store them in the transaction. -G4_E_NOSPC also where a hash has no collision number left.
 */
G4_FN int g4_dir_insert(struct g4_wg *wg, struct g4_dir *dir, struct g4_txn *txn, const struct g4_dir_slot *slot,
			const char *name, uint32_t bytes, uint64_t inode, uint8_t file_type);
/*
 * Divides the leaf of a hash if a name of so many bytes has no room there, with what has to be divided above it; the inode is locked
 * alone. Blocks, root and pages: as of an insert. 1: names of that hash would have to be divided, which an insert does.
 */
G4_FN int g4_dir_divide(struct g4_wg *wg, struct g4_dir *dir, struct g4_txn *txn, uint32_t hash, uint32_t name_bytes);
/*
 * The same with the inode lock shared: the leaf gives its upper half to a new one, and both are locked meanwhile. dir->pages may
 * change. 1: nothing was changed, for an index page would have to be divided or made, all hashes of the leaf are one, or there is no
 * free page, which another split may have taken. A block is the leaf, one the new leaf, one the page above; the others are where the
 * new leaf is counted.
 */
#define G4_DIR_SPLIT_CREDITS 5u
G4_FN int g4_dir_divide_beside(struct g4_wg *wg, struct g4_dir *dir, struct g4_txn *txn, uint32_t hash,
			       uint32_t name_bytes);
/*
 * Inode lock shared, no leaf locked: the units in use in the neighbour of a position's leaf that has the fewest, of those with which it
 * could be united. 0 where it cannot be told, UINT32_MAX where the leaf is the only page.
 */
G4_FN uint32_t g4_dir_used_beside(struct g4_wg *wg, const struct g4_dir *dir, uint64_t position);
/*
 * A page of the caller's becomes the only page of a directory that nobody can have found yet, with one name. Of dir, alloc and hash_key
 * count.
 */
G4_FN int g4_dir_new_leaf(struct g4_wg *wg, const struct g4_dir *dir, struct g4_txn *txn, struct g4_address page,
			  const char *name, uint32_t bytes, uint64_t inode, uint8_t file_type);
G4_FN int g4_dir_remove(struct g4_wg *wg, struct g4_dir *dir, struct g4_txn *txn, const struct g4_dir_slot *slot);
/* The leaf that a lookup has seen: until g4_txn_put(), replace, remove and an insert with room do not fail for its sake. */
G4_FN int g4_dir_get_leaf(struct g4_wg *wg, const struct g4_txn *txn, const struct g4_dir_slot *slot,
			  struct g4_txn_page *leaf);
/* Lets the name lead to another inode. */
G4_FN int g4_dir_replace(struct g4_wg *wg, struct g4_dir *dir, struct g4_txn *txn, const struct g4_dir_slot *slot,
			 uint64_t inode, uint8_t file_type);

/*
 * Iteration by position: the entries of one leaf from position `from` on, sorted, as they were at one moment.
 * Positions survive splits, inserts and removals of other names.
 */
#define G4_DIR_LEAF_ENTRIES 126u
struct g4_dir_item {
	uint64_t position;
	const struct g4_dir_entry *entry;
};
struct g4_dir_listed {
	uint64_t page[G4_PAGE_BYTES / 8];   /* a copy, into which the entries point */
	uint64_t starts[G4_DIR_UNITS / 64]; /* units of it at which one begins */
	uint64_t next;			    /* the position to continue at, UINT64_MAX at the end */
	struct g4_leaf_lock *leaf_lock;	    /* NULL: none */
	uint64_t changes, splits;	    /* that it counted */
	struct g4_address leaf;
	uint32_t line; /* where that was in the cache, a hint */
	uint32_t count;
	struct g4_dir_item items[G4_DIR_LEAF_ENTRIES];
};
/* listed: in scratch memory. */
G4_FN int g4_dir_read_leaf(struct g4_wg *wg, const struct g4_dir *dir, uint64_t from, struct g4_dir_listed *listed);
/*
 * Whether a name that was listed still led to its inode when the caller referenced or locked that inode, with the directory's lock held
 * since it was listed. A locked inode's name stays: a caller that takes it away has locked the inode, too. False: perhaps not.
 */
G4_FN G4_INLINE bool g4_dir_listed_holds(const struct g4_dir_listed *listed)
{
	return !listed->leaf_lock || g4_load64_rlx(&listed->leaf_lock->changes) == listed->changes;
}
/*
 * What a lookup at the time of the listing would have said of name k; the directory's lock is held, shared, since then. For a removal: nothing in
 * it is about room.
 */
G4_FN void g4_dir_listed_slot(const struct g4_dir_listed *listed, uint32_t k, struct g4_dir_slot *slot);
/* The pages on the way to the leaf of a position, the root first. After an error the last is the one that can not be had. */
#define G4_DIR_PATH (G4_DIR_MAX_LEVEL + 1)
G4_FN int g4_dir_path(struct g4_wg *wg, const struct g4_dir *dir, uint64_t from, struct g4_address path[G4_DIR_PATH],
		      uint32_t *count);

#endif
