/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second tier of the cache: pages in memory by the address where the device has them, below the page cache, whose tags are
 * files. Small files and slabs that are not cached are read a block at a time, for what lies beside them is likely to be wanted next.
 *
 *      page cache   (inode, page)   hit: no device, and no tier
 *           | miss: file map -> address
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
#define G4_TIER_MOST_PAGES 16u		       /* of a request that is looked for here */
#define G4_TIER_VERSIONS 4096u
#define G4_TIER_REGION_PAGES 256u /* small reads so near to each other are neighbours */
#define G4_TIER_REGIONS 256u	  /* that are remembered, at most */
#define G4_TIER_FAILED 8u

/* A block's pages are in one set, and those of neighbouring blocks in neighbouring sets. Guarded by its lock. */
struct g4_tier_set {
	struct g4_lock lock;
	uint64_t valid; /* bit w: way w has page pages[w] */
	uint64_t used;	/* of those: somebody had it, and it is the first to go */
	uint64_t busy;	/* way w is being filled with it, by a workgroup that holds no lock */
	uint64_t hand;
	uint64_t pages[G4_TIER_WAYS];
};

struct g4_tier_counts {
	uint64_t hits, misses;	     /* pages that were looked for here */
	uint64_t ahead, ahead_reads; /* pages that came beside others, and how many reads of the device brought them */
	uint64_t dropped;	     /* pages of those that went because something was written there */
};

struct g4_tier {
	struct g4_tier_set *sets;
	uint8_t *frames;    /* G4_TIER_WAYS pages a set */
	uint32_t set_count; /* 0: there is no tier, and all calls do nothing */
	uint32_t region_count;
	/* by block, modulo their number: writers that are there now in the low bits, and a number that each of them has raised */
	uint64_t *versions;
	/* by region, modulo their number: the region, and in the low byte small reads there that missed. Hints; atomic */
	uint64_t regions[G4_TIER_REGIONS];
	uint64_t failed[G4_TIER_FAILED]; /* blocks, and 1, that could not be read as a whole lately. Hints; atomic */
	uint64_t failed_count;
	struct g4_tier_counts counts; /* atomic */
};

/* ---- host (tier_host.c) ---- */
/* Bytes of memory that a tier of so many bytes of pages takes; 0 for less than one set. */
uint64_t g4_tier_memory(uint64_t bytes);
/* Over zeroed memory of that size, which stays the caller's. */
void g4_tier_init(struct g4_tier *tier, void *memory, uint64_t bytes);
/* Its memory is used `by` bytes further on from now on. */
void g4_tier_moved(struct g4_tier *tier, intptr_t by);

G4_FN G4_INLINE bool g4_tier_is_used(const struct g4_tier *tier)
{
	return tier->set_count > 0;
}

/*
 * Leader, thread-safe. Pages in a row into the parts, if all of them are here. The caller's locks keep others from writing to the
 * address. False: some are not, and the parts have anything.
 */
G4_FN bool g4_tier_read(struct g4_wg *wg, struct g4_tier *tier, uint64_t page, uint64_t pages,
			const struct g4_iov *parts, uint32_t part_count);

/* A read of the device that brings more than is wanted. */
struct g4_tier_fill {
	uint64_t page; /* from here on `parts` are to be read */
	uint32_t part_count, way_count;
	uint64_t version, block;
	struct g4_iov parts[G4_TIER_BLOCK_PAGES + G4_TIER_MOST_PAGES];
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
