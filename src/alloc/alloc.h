/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Space. Two views of the same pages:
 *
 *   memory  a bit a page, set from the moment a page is claimed until its freeing transaction is durable. Claiming and
 *           releasing work on this view with atomics alone: no lock, nobody waits for anybody.
 *   disk    the allocation map in journaled pages: set by g4_alloc_publish() in the transaction that makes the page
 *           reachable, cleared by g4_alloc_free() in the one that makes it unreachable.
 *
 * So a crash between claim and publish leaks nothing, and a page freed in an uncommitted transaction is not reused.
 * Runs of any length coalesce by themselves: a free 2 MiB page is a region whose counter says 512, a free 1 GiB page 512
 * such regions. A region's counter is lowered before its bits are set and raised after they are cleared, so a
 * workgroup that lowered it by n will find n clear bits.
 */
#ifndef G4_ALLOC_H
#define G4_ALLOC_H

#include "journal/journal.h"

#define G4_ALLOC_SHARDS 1024u
#define G4_ALLOC_DATA 0u
#define G4_ALLOC_METADATA 1u
#define G4_ALLOC_ALIGNED 2u /* data, at the start of an empty region if there is one, */
#define G4_ALLOC_ALIGNED_AT(page) (G4_ALLOC_ALIGNED | (uint32_t)(page) << 16) /* or from its page so many on */
/*
 * Pools: pages in chunks that were assigned to a level (enum g4_level) are for data that is to go there, and for nothing
 * else; they are claimed and reserved apart. Pool OWN has all others, and all metadata.
 */
#define G4_ALLOC_IN(pool, class_) ((class_) | (uint32_t)(pool) << 8)
/* metadata blocks (transaction credits) that publishing or freeing one run changes at most */
#define G4_ALLOC_CREDITS 4u

struct g4_alloc_shard {
	uint32_t region[3];  /* where the last claim succeeded, by class; of ALIGNED ones those without a goal */
	uint64_t slab[2];    /* address of the slab in use, as stored, by kind - 1; 0: none */
	uint64_t row;	     /* page where the last row was found (row.h), or the next search begins */
	struct g4_lock lock; /* of slab[] */
	uint32_t near;	     /* the cache line of the slab that was taken from last, a hint */
} G4_OWN_LINE;

#define G4_SLAB_LOCKS 1024u
#define G4_SLAB_HINTS 64u
#define G4_SHARE_LOCKS 64u
#define G4_SHARE_MARKS 1024u

struct g4_alloc {
	struct g4_journal *journal;
	struct g4_meta *meta;
	uint64_t region_count; /* this and the next two grow with the file system */
	uint64_t group_count;
	uint64_t most_groups;	 /* that there is memory for */
	uint64_t *used;		 /* 8 words a region */
	uint64_t *past_slabs;	 /* the same of pages that were free since the mount, and are no slabs since */
	uint64_t *freed;	 /* a bit a region: pages were given back since it was last discarded */
	uint32_t *region_free;	 /* pages that may be claimed */
	uint32_t *group_state;	 /* enum below */
	uint32_t *group_free;	 /* sum of region_free; of an unloaded group: from its descriptor */
	uint32_t *group_slabs;	 /* slabs with free slots */
	uint8_t *group_listings; /* pages of sums of listed pages, or a bound (quota.h) */
	uint64_t listing_quota;	 /* so many at most, of all groups; UINT64_MAX: no limit */
	uint64_t counted_groups; /* of the groups before it the bytes are exact */
	/* what all workgroups add to, apart from what they only read */
	uint64_t free_pages G4_OWN_LINE;	  /* that may be claimed, of pool OWN */
	uint64_t pending_pages;			  /* freed, not yet durable */
	uint64_t reserved;			  /* reserved for delayed writes, of pool OWN */
	uint64_t listing_pages;			  /* of all groups, and those that are being made */
	uint64_t pool_free[G4_POOLS] G4_OWN_LINE; /* the same of the others */
	uint64_t pool_reserved[G4_POOLS];
	uint32_t pool_region[G4_POOLS]; /* where the last claim succeeded */
	uint64_t pool_row[G4_POOLS];	/* as a shard's row */
	uint8_t *region_pool;
	uint64_t total_pages;
	struct g4_alloc_shard shards[G4_ALLOC_SHARDS];
	struct g4_lock slab_locks[G4_SLAB_LOCKS]; /* by page: a slab's header */
	uint64_t slab_hints[G4_SLAB_HINTS]; /* addresses of slabs that lately got a free slot, as stored; 0: none */
	uint64_t slab_hinted;		    /* bit h: there may be a hint at h */
	struct g4_lock load_locks[16];
	struct g4_lock share_locks[G4_SHARE_LOCKS]; /* by group: counts of owners (share.h) */
	uint32_t buffers_owners;		    /* the image has the feature BUFFERED */
	uint32_t counts_regions;		    /* the same of WHOLE */
	uint32_t unlisted[G4_SHARE_MARKS]; /* by a hash of pages: how often one was taken from the list (share.h) */
	uint32_t slab_cursor;		   /* the group where the next look for a slab begins */
	uint32_t slab_users;	/* shards and kinds that ever filled a slab: so many known slabs may be theirs */
	uint32_t slab_shard[2]; /* by kind - 1: the shard that a slot was taken in last by one who has a slab, a hint */
};
/* FORGOTTEN and more: unloaded, and so many pages more are free of it, which nobody gets, whether it is loaded later or not. */
enum { G4_GROUP_UNLOADED = 0, G4_GROUP_LOADED = 1, G4_GROUP_FORGOTTEN = 2 };
/* An error that says that what lies there can not be read, not that the reader could not. */
G4_FN G4_INLINE bool g4_alloc_is_unreadable(int rc)
{
	return rc == -G4_E_IO || rc == -G4_E_CHECKSUM || rc == -G4_E_MISDIRECTED || rc == -G4_E_TYPE ||
	       rc == -G4_E_CORRUPT_ALLOC;
}

/* ---- host (alloc_host.c) ---- */
/* Bytes of zeroed memory for so many groups: those of a layout, or more of them, so that it can grow. */
uint64_t g4_alloc_memory(uint64_t most_groups);
/* Sets up over that memory and reads the group descriptors. */
int g4_alloc_init(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_journal *journal, void *memory,
		  uint64_t most_groups);
/* It and its memory are used `by` bytes further on from now on. */
void g4_alloc_moved(struct g4_alloc *alloc, intptr_t by);

/* ---- memory view: leader, thread-safe ---- */
/* Pages that are never reserved for data: they hold the metadata of what is, and let deletes work on a full device. */
G4_FN G4_INLINE uint64_t g4_alloc_keep(const struct g4_alloc *alloc)
{
	return g4_load64_rlx(&alloc->total_pages) / 256 + 32;
}
/* g4_alloc_reserve() reserves pages for a later claim; false: the file system is full. This one with `kept` more for what maps them, which may be of those that are never reserved for data. */
G4_FN bool g4_alloc_reserve_mapped(struct g4_alloc *alloc, uint64_t pages, uint64_t kept);
G4_FN G4_INLINE bool g4_alloc_reserve(struct g4_alloc *alloc, uint64_t pages)
{
	return g4_alloc_reserve_mapped(alloc, pages, 0);
}
/* Pages for metadata by which others become free: of those that are never reserved for data, half of which are left for deletes. */
G4_FN bool g4_alloc_reserve_kept(struct g4_alloc *alloc, uint64_t pages);
G4_FN G4_INLINE void g4_alloc_unreserve(struct g4_alloc *alloc, uint64_t pages)
{
	g4_sub64(&alloc->reserved, pages);
}
/*
 * The same of a pool; with `again` what was claimed of a reservation and is given back counts as reserved, whatever there
 * is.
 */
G4_FN bool g4_alloc_reserve_in(struct g4_alloc *alloc, uint32_t pool, uint64_t pages);
G4_FN void g4_alloc_reserve_again(struct g4_alloc *alloc, uint32_t pool, uint64_t pages);
G4_FN void g4_alloc_unreserve_in(struct g4_alloc *alloc, uint32_t pool, uint64_t pages);
/* Free pages of a pool, and of all that are somebody's. */
G4_FN G4_INLINE uint64_t *g4_alloc_free_of(struct g4_alloc *alloc, uint32_t pool)
{
	return pool == G4_LEVEL_OWN ? &alloc->free_pages : &alloc->pool_free[pool];
}
G4_FN uint64_t g4_alloc_free_in(const struct g4_alloc *alloc, uint32_t pool);
G4_FN uint64_t g4_alloc_free_all(const struct g4_alloc *alloc);
/*
 * Claims 1..want contiguous pages, near `goal` (which may be none). *got pages at *address. From the reservation when
 * `reserved` (the reservation shrinks by *got), else -G4_E_NOSPC when only reserved pages are left. class_: one of the above,
 * of pool OWN if not by G4_ALLOC_IN().
 */
G4_FN int g4_alloc_claim(struct g4_wg *wg, struct g4_alloc *alloc, uint32_t class_, struct g4_address goal,
			 uint64_t want, bool reserved, struct g4_address *address, uint64_t *got);
/* Claims exactly one aligned 2 MiB page. */
G4_FN int g4_alloc_claim_region(struct g4_wg *wg, struct g4_alloc *alloc, bool reserved, struct g4_address *address);
/* Gives claimed, unpublished pages back; what a durable transaction freed: release.h. */
G4_FN void g4_alloc_release(struct g4_alloc *alloc, struct g4_address address, uint64_t pages);

/*
 * Takes free pages that lie in a row out of the view for a moment, so that nobody claims them while they are discarded: the
 * first ones from *page (a page's number) to `end`, at most `most`. *pages 0: there are none. They count as free all the
 * time: nobody is refused space for them, and a claim that finds no others waits until they are back.
 */
G4_FN int g4_alloc_hide(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t *page, uint64_t end, uint64_t most,
			uint64_t *pages);
G4_FN void g4_alloc_unhide(struct g4_alloc *alloc, uint64_t page, uint64_t pages);
/* The first regions in a row from *region on where pages were given back since this was last asked: so many, 0: none. */
G4_FN uint64_t g4_alloc_take_freed(struct g4_alloc *alloc, uint64_t *region);

/* 1 when the page is claimed or in use, 0 when it is free. */
G4_FN int g4_alloc_in_use(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_address address);
/*
 * Whether a page was free since the mount, or a slab, and is no slab now. What lies there may look like one, for that of an earlier mount was
 * never written over, or a user has written contents that look so: it would be asked for by the number of an inode that is gone.
 */
G4_FN bool g4_slab_is_past(const struct g4_alloc *alloc, struct g4_address address);

/* ---- disk view: inside a transaction ---- */
G4_FN int g4_alloc_publish(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address address,
			   uint64_t pages);
G4_FN int g4_alloc_free(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address address,
			uint64_t pages);
/* References the allocation map page of a group in the cache; one that was never written is all free. */
G4_FN int g4_alloc_get_map(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t group, uint32_t *line);
/* Claims and publishes one page for metadata. */
G4_FN int g4_alloc_metadata(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address *address);
/* The same from the reservation, which shrinks by one page. */
G4_FN int g4_alloc_reserved_metadata(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn,
				     struct g4_address *address);
/* Either of them for so many pages in a row; -G4_E_NOSPC: there are none. */
G4_FN int g4_alloc_metadata_row(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, bool reserved,
				uint32_t count, struct g4_address *address);
/* Frees a metadata page: forgets its images, too. */
G4_FN int g4_alloc_free_metadata(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn,
				 struct g4_address address);

/* ---- another size (resize.c of fs is the caller; one at a time) ---- */
/* In a transaction: the map says of pages that lie in one group that they are used, or free. The memory view stays. */
G4_FN int g4_alloc_set_end(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, uint64_t page, uint64_t pages,
			   bool used);
/* Whether the map page of a group was ever written: 1 or 0, or a code. It is dirty, or home, where it is 1. Leader, thread-safe. */
G4_FN int g4_alloc_has_map(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t group);
/* In a transaction: the descriptors of groups that lie in one page of them. */
G4_FN int g4_alloc_describe(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, uint64_t group,
			    uint64_t groups, uint64_t word);
/*
 * Regions that begin between two pages are of a pool from now on, with what is free of them. Before anybody
 * uses the memory view (`alone`), or of what is behind its end. Alone, what is free of a group that is cut, and whose page can not be
 * read, is nobody's from then on. Else all are after an error, too, and what is free of such groups counts as of the pool that they were of.
 */
G4_FN int g4_alloc_set_pool(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t page, uint64_t end, uint32_t pool,
			    bool alone);
/* The pool of all pages of a region. */
G4_FN G4_INLINE uint32_t g4_alloc_region_pool(const struct g4_alloc *alloc, uint64_t region)
{
	return g4_load8_rlx(&alloc->region_pool[region]);
}
/* Groups that are described on the device become part of the memory view; what the last one had no use for is free. */
G4_FN void g4_alloc_grow(struct g4_alloc *alloc, uint64_t groups, uint64_t last_free_pages,
			 struct g4_address freed_address, uint64_t freed_pages);

/* ---- slots (slab.c) ---- */
/*
 * A free 256 B slot of a slab of `kind`, or two in a row of one of small blocks, marked used; the contents are zero. A new slab
 * takes a page of *reserved, if that is not NULL and has any. *near: where its page is in the cache.
 */
G4_FN int g4_slab_alloc(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, uint32_t kind, uint64_t *reserved,
			struct g4_address *address, uint32_t *near);
/*
 * near: the cache line that may be its slab's, or G4_NO_LINE. Behind an error by which something is unreadable nothing has changed: the slab was full, and
 * the map that is to know that it is not can not be read.
 */
G4_FN int g4_slab_free(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address address,
		       uint32_t near);
/* What freeing a slot will read is read: 0, or an error. No transaction. */
G4_FN int g4_slab_look(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_address address);
/*
 * Copies what begins at a slot of a slab whose page is in this line of the cache; false: nothing of this kind does. Whose
 * number a caller has may be removed meanwhile, and the slot given to another: what comes is one or the other.
 */
G4_FN bool g4_slab_copy(struct g4_alloc *alloc, uint32_t line, uint32_t kind, struct g4_address address, void *to,
			uint32_t bytes);
/* Whether a block of sums that is in use begins at an address, the page of which is in this line of the cache. */
G4_FN bool g4_slab_has_sums(struct g4_alloc *alloc, uint32_t line, struct g4_address address);
/* The slab of a kind that shard s fills, which has one, is nobody's any more, and a free page if it is empty. */
G4_FN int g4_slab_end(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, uint32_t s, uint32_t kind);
/*
 * A page of the caller's becomes a slab in which nothing can be found yet; the transaction keeps it in *line. g4_slab_fill(), in the
 * same transaction: the first `count` slots behind the header, of one-slot contents, have been written and are in use.
 */
G4_FN int g4_slab_new(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, uint32_t kind,
		      struct g4_address page, uint32_t *line);
G4_FN int g4_slab_fill(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address page,
		       uint32_t line, uint32_t count);
/* Sets or clears a page's bit in the slab map. */
G4_FN int g4_alloc_mark_slab(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address address,
			     bool set);

#endif
