/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second tier of the cache: pages in memory by the address where the device has them, below the page cache, whose tags are
 * files. Small files and slabs that are not cached are read a block at a time, for what lies beside them is likely to be wanted next.
 * A tier with victims also has what the page cache gave up; its pages may lie in the host's memory, behind PCIe.
 *
 *      page cache   (inode, page)   hit: no device, and no tier
 *           | miss: file map -> address   | what is replaced, if it is what the device has
 *      tier         address         hit: a copy
 *           | miss
 *      device                       the pages alone, or their whole block: its other pages stay here
 *
 * A page is here only if it is what the device has at its address, which is nobody's business but this file's and its callers'
 * in space.c: every change of what the device has stands between g4_tier_write_begin() and g4_tier_write_end() (docs/design/cache.md).
 * Who looks here holds what keeps others from writing at the address, as for a read of the device: a lock of the inode, or that of the
 * structure that leads to a page of metadata, which is not cached.
 */
#ifndef G4_TIER_H
#define G4_TIER_H

#include "dev/dev.h"
#include "format/format.h"

#define G4_TIER_BLOCK_PAGES 32u		       /* read at a time */
#define G4_TIER_WAYS (2 * G4_TIER_BLOCK_PAGES) /* of a set: bits of a word */
#define G4_TIER_MOST_PAGES 128u		       /* of a request that is looked for here */
#define G4_TIER_SMALL_PAGES 16u		       /* and of one that brings its block */
#define G4_TIER_VERSIONS 4096u		       /* at least; a power of two */
#define G4_TIER_REGION_PAGES 256u	       /* small reads so near to each other are neighbours */
#define G4_TIER_REGIONS 256u		       /* that are remembered, at most */
#define G4_TIER_FAILED 8u

/* A block's pages are in one set, and those of neighbouring blocks in neighbouring sets. Guarded by its lock. */
struct g4_tier_set {
	struct g4_lock lock;
	uint64_t valid; /* bit w: way w has page pages[w] */
	uint64_t used;	/* of those: somebody had it, and it is the first to go */
	uint64_t busy;	/* way w is being filled with it, by a workgroup that holds no lock */
	uint64_t read; /* way w is being copied from, by readers[w] such workgroups; its page may have gone meanwhile */
	uint64_t victims; /* of the valid: it came from the page cache */
	uint64_t hand;
	uint64_t pages[G4_TIER_WAYS]; /* no page has two ways that are valid or busy */
	uint8_t readers[G4_TIER_WAYS];
};

struct g4_tier_counts {
	uint64_t hits, misses;	     /* pages that were looked for here */
	uint64_t ahead, ahead_reads; /* pages that came beside others, and how many reads of the device brought them */
	uint64_t dropped;	     /* pages of those that went because something was written there */
	uint64_t down;		     /* victims that came in */
	uint64_t down_again;	     /* that were still here */
	uint64_t down_old;	     /* that did not, for something was written there since they were read */
	uint64_t up;		     /* hits of victims */
};

struct g4_tier {
	struct g4_tier_set *sets;
	uint8_t *frames;    /* G4_TIER_WAYS pages a set */
	uint32_t set_count; /* 0: there is no tier, and all calls do nothing */
	uint32_t region_count;
	/* by block, modulo their number: writers that are there now in the low bits, and a number that each of them has raised */
	uint64_t *versions;
	uint64_t everywhere; /* the same, of writers of everything */
	uint32_t version_mask;
	bool victims;	   /* what the page cache gives up is welcome */
	bool frames_apart; /* they are not part of the tier's memory */
	/* by region, modulo their number: the region, and in the low byte small reads there that missed. Hints; atomic */
	uint64_t regions[G4_TIER_REGIONS];
	uint64_t failed[G4_TIER_FAILED]; /* blocks, and 1, that could not be read as a whole lately. Hints; atomic */
	uint64_t failed_count;
	struct g4_tier_counts counts; /* atomic */
};

/* ---- host (tier_host.c) ---- */
/* Bytes of memory that a tier of so many bytes of pages takes, without the pages; 0 for less than one set. */
uint64_t g4_tier_memory(uint64_t bytes);
/* Bytes of its pages. */
uint64_t g4_tier_frames(uint64_t bytes);
/* Over zeroed memory of that size, and memory of pages, aligned as they are; both stay the caller's. */
void g4_tier_init(struct g4_tier *tier, void *memory, void *frames, uint64_t bytes);
/* Its memory is used `by` bytes further on from now on, its pages too, unless frames_apart. */
void g4_tier_moved(struct g4_tier *tier, intptr_t by);

G4_FN G4_INLINE bool g4_tier_is_used(const struct g4_tier *tier)
{
	return tier->set_count > 0;
}

/* Pages of victims that it has room for. */
G4_FN G4_INLINE uint64_t g4_tier_victim_pages(const struct g4_tier *tier)
{
	return tier->victims ? (uint64_t)tier->set_count * G4_TIER_WAYS : 0;
}

/*
 * Leader, thread-safe. Pages in a row into the parts, those of them that are here. The caller's locks keep others from writing to the
 * address. False: all from `*from` up to `*to`, counted from `page`, have to be read, and their parts have anything.
 */
G4_FN bool g4_tier_read(struct g4_wg *wg, struct g4_tier *tier, uint64_t page, uint64_t pages,
			const struct g4_iov *parts, uint32_t part_count, uint64_t *from, uint64_t *to);

/* ---- victims ---- */
#define G4_TIER_NO_VERSION UINT64_C(1) /* of no page */
/*
 * Per-lane, thread-safe. Before a page is read: what tells later whether the device still has it. G4_TIER_NO_VERSION: it is being
 * written, or nobody will ask.
 */
G4_FN uint64_t g4_tier_version(const struct g4_tier *tier, uint64_t page);
/*
 * Leader, thread-safe. `data` is what was read of a page since it had the version, from the device or from here: it is kept, unless
 * something may have been written there since.
 */
G4_FN void g4_tier_put(struct g4_wg *wg, struct g4_tier *tier, uint64_t page, uint64_t version, const void *data);

/* A read of the device that brings more than is wanted. */
struct g4_tier_fill {
	uint64_t page; /* from here on `parts` are to be read */
	uint32_t part_count, way_count;
	uint64_t version, block;
	struct g4_iov parts[G4_TIER_BLOCK_PAGES + G4_TIER_SMALL_PAGES];
	uint8_t ways[G4_TIER_BLOCK_PAGES];
};
/*
 * Leader, thread-safe. A small file's pages were not here: whether what lies beside them is to be read with them, from a device of
 * `end` pages. If so, the caller reads fill->parts and calls g4_tier_filled() with what came of it.
 */
G4_FN bool g4_tier_begin(struct g4_tier *tier, uint64_t page, uint64_t pages, const struct g4_iov *parts,
			 uint32_t part_count, uint64_t end, struct g4_tier_fill *fill);
G4_FN void g4_tier_filled(struct g4_tier *tier, const struct g4_tier_fill *fill, bool read);

/*
 * Leader, thread-safe. Around everything that changes, or may change, what the device gives in a range of whole pages: from before it
 * is submitted until it is known to be complete, however it ends.
 */
G4_FN void g4_tier_write_begin(struct g4_tier *tier, uint64_t page, uint64_t pages);
G4_FN void g4_tier_write_end(struct g4_tier *tier, uint64_t page, uint64_t pages);
/* Everything goes, and what is being read does not come. */
G4_FN void g4_tier_forget(struct g4_tier *tier);

#endif
