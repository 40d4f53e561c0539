/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of contents (docs/design/deduplication.md): a hint where a page with this sum lies. It is in memory. What counts is
 * which pages are listed (alloc/share.h): a workgroup that gets a hint asks there, and shares by g4_share_acquire_listed()
 * alone. So the table may
 * lack what there is, and have what is gone; nobody removes from it what is freed, and nothing of it is ever saved: it is filled from the
 * listed pages, behind a mount (data/dedup.c).
 *
 * A slot has 8 bytes: the page's number and 21 bits of its hash. Sixteen of them, two lines of a processor's cache, are a bucket, which 32
 * other bits of the hash choose. One hint in sixteen, by its hash, is an anchor: where a bucket is full, another one goes first, and one
 * that nobody has asked for before one that somebody has. So a table that is too small keeps a few hints of all contents, and
 * a workgroup that finds
 * one gets its neighbours on the device besides (g4_ddt_brings()): what was written together is found together. Everything is done by atomic operations on
 * slots, and there are no locks: what two do at a time costs a hint at worst.
 *
 * Per-lane, thread-safe.
 */
#ifndef G4_DDT_TABLE_H
#define G4_DDT_TABLE_H

#include "format/owners.h"
#include "simt/simt.h"

#define G4_DDT_SLOTS 16u /* of a bucket */
#define G4_DDT_TALLIES 64u
#define G4_DDT_SUSPECT_WORDS 1024u
#define G4_DDT_BROUGHT 64u
#define G4_DDT_DAMAGED 16u

struct g4_ddt_tally { /* of a part of the buckets */
	uint64_t found, inserted, evicted, removed, stale;
	uint64_t hits, misses, zeros; /* pages that were written */
};
G4_STATIC_ASSERT(sizeof(struct g4_ddt_tally) == 64, "a line of a processor's cache");

struct g4_ddt {
	uint64_t *
		slots; /* 0: empty; else page number, a bit whether somebody has asked for it, and a part of the hash */
	uint64_t bucket_count; /* fewer than 2^32; 0: there is no table */
	uint32_t crowded;      /* there was no slot for a hint: what is listed may not be here */
	uint64_t load_group;   /* listed pages of the groups before it are in the table as far as they fit */
	struct g4_ddt_tally tallies[G4_DDT_TALLIES];
	/* Bits for pages, by a hash: what lies there is not what was written, or can not be read. Some are bits of others, too. */
	uint64_t suspects[G4_DDT_SUSPECT_WORDS];
	uint32_t has_suspects;		  /* any bit is set: mostly none is, and nobody looks at pages one by one */
	uint64_t damaged[G4_DDT_DAMAGED]; /* of those pages, that are to go from the list; 0: none */
	uint32_t overflow;		  /* there was no slot for one of them: all that has a bit is to go */
	uint64_t sweep_left;		  /* the groups below are still to be looked at for that */
	uint64_t plain[G4_DDT_TALLIES];	  /* of the misses: for the quota of the table on the device not listed */
	uint64_t brought[G4_DDT_BROUGHT]; /* quarters of regions that lately brought their hints */
};

struct g4_ddt_stats {
	uint64_t places, entries; /* that there is memory for; in use */
	uint64_t bytes;		  /* of memory */
	uint64_t found;		  /* lookups that found something */
	uint64_t inserted, evicted;
	uint64_t stale; /* found, and gone when it was to be shared */
	/* pages that were written: shared, stored, and holes that zeros became */
	uint64_t hits, misses, zeros;
	uint64_t plain; /* of those that were stored: left plain, since the quota has no room */
};

/* ---- host (table_host.c) ---- */
/* Bytes of zeroed memory for a table that takes about `bytes`; 0: there will be none. */
uint64_t g4_ddt_memory(uint64_t bytes);
/* Sets up over that memory, with the same number. */
void g4_ddt_init(struct g4_ddt *ddt, void *memory, uint64_t bytes);
void g4_ddt_moved(struct g4_ddt *ddt, intptr_t by);

/* ---- what is where. `hash`: of 16 bytes at least, alike in every byte ---- */
G4_FN G4_INLINE bool g4_ddt_is_there(const struct g4_ddt *ddt)
{
	return ddt->bucket_count > 0;
}
/* It will be asked for soon. */
G4_FN void g4_ddt_prefetch(const struct g4_ddt *ddt, const void *hash);
/* Where a page with this hash may lie, or none. */
G4_FN struct g4_address g4_ddt_find(struct g4_ddt *ddt, const void *hash);
/* A page with this hash is listed there now. It takes the place of what the table has under it, which is returned; or none. */
G4_FN struct g4_address g4_ddt_insert(struct g4_ddt *ddt, const void *hash, struct g4_address address);
/* The same where there is nothing under this hash, and an empty slot, or for an anchor that of a hint that is none. */
G4_FN void g4_ddt_fill(struct g4_ddt *ddt, const void *hash, struct g4_address address);
/*
 * The same of what is listed beside a page that was found, and will be asked for. Whether it is to be brought: it may have been pushed
 * out, and was not brought lately.
 */
G4_FN void g4_ddt_bring(struct g4_ddt *ddt, const void *hash, struct g4_address address);
G4_FN bool g4_ddt_brings(struct g4_ddt *ddt, struct g4_address page);
/* What was found there is not listed any more. `stale`: it was when somebody looked, and not when it was to be shared. */
G4_FN void g4_ddt_remove(struct g4_ddt *ddt, const void *hash, struct g4_address address, bool stale);
/* Counted while others go on. */
G4_FN void g4_ddt_stats(const struct g4_ddt *ddt, struct g4_ddt_stats *stats);
/* Pages that were written. `page`: any of the file's, so that not all count in one place. */
G4_FN void g4_ddt_count(struct g4_ddt *ddt, uint64_t page, uint64_t hits, uint64_t misses, uint64_t zeros);
/* The same of pages from an address on that were stored and not listed, for the quota. */
G4_FN void g4_ddt_count_plain(struct g4_ddt *ddt, struct g4_address address, uint64_t pages);
/* What lies there is not what was written, or can not be read: nobody shall find it, and it is to go from the list. */
G4_FN void g4_ddt_suspect(struct g4_ddt *ddt, struct g4_address page);
/* Those that are to go from the list: the k'th of G4_DDT_DAMAGED, or none. */
G4_FN struct g4_address g4_ddt_damaged(const struct g4_ddt *ddt, uint32_t k);
/* It has gone. */
G4_FN void g4_ddt_unlisted(struct g4_ddt *ddt, uint32_t k, struct g4_address page);
/* Whether more are to go than these, which happened since the last call: all that are suspect. */
G4_FN bool g4_ddt_overflowed(struct g4_ddt *ddt);
G4_FN bool g4_ddt_is_suspect(const struct g4_ddt *ddt, struct g4_address page);

#endif
