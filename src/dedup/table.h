/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of contents (docs/design/deduplication.md): at which address a page with this BLAKE3 lies. It is in memory and for one
 * mount. It may lack what there is, which costs space and nothing else; what it has is right:
 *
 * 1. An entry is made in the transaction that makes its page reachable, by whoever has the only inode locked that leads to it.
 * 2. Who frees a page removes its entry in the transaction that frees it (g4_ddt_forget()).
 * 3. An address that was found is a hint. g4_ddt_share() looks again, and adds the owner before anybody can remove the entry. The
 *    caller's transaction keeps the page from being used again meanwhile: what a transaction frees is nobody's until it is durable.
 * 4. Whoever frees pages asks g4_ddt_any() before it asks whether they are shared: an entry is what others find them by.
 *
 * Entries of a shard, which is a part of the range of hashes, are in chains by hash, of one entry on average, so that a lookup reads
 * two lines of memory; all are in chains by address besides. Where a shard is full, an entry that nobody has asked for goes.
 *
 * Leader, thread-safe. Locks: src/dedup/README.md.
 */
#ifndef G4_DDT_TABLE_H
#define G4_DDT_TABLE_H

#include "alloc/share.h"

#define G4_DDT_SHARDS 256u
#define G4_DDT_PLACES 256u /* locks of the chains by address */
#define G4_DDT_HASH_BYTES 32u

struct g4_ddt_entry {
	uint64_t hash[4];
	uint64_t address;      /* as stored; 0: the entry is not in use */
	uint32_t next : 31;    /* by hash, or of those that are not in use: its number and 1; 0: none */
	uint32_t asked : 1;    /* somebody has found it since the hand came by */
	uint32_t next_address; /* by address */
};
G4_STATIC_ASSERT(sizeof(struct g4_ddt_entry) == 48, "with its heads 56 bytes");

struct g4_ddt_shard {
	struct g4_lock entries_lock;
	uint32_t unused; /* the first entry of those that were given back, and 1 */
	uint32_t fresh;	 /* so many of the shard's entries have ever been in use */
	uint32_t hand;	 /* where the next look for one that may go begins */
	uint32_t count;	 /* in use */
	uint64_t found, inserted, evicted, stale;
	uint8_t padding[72];
};
G4_STATIC_ASSERT(sizeof(struct g4_ddt_shard) == 128, "two lines of a processor's cache");

struct g4_ddt {
	struct g4_ddt_entry *entries;
	uint32_t *heads;	/* of chains by hash; as many as entries */
	uint32_t *by_address;	/* of chains by address; as many */
	uint32_t *regions;	/* of each region of the device: entries whose pages lie there */
	uint64_t region_count;	/* that there is memory for */
	uint32_t shard_entries; /* of a shard; 0: there is no table */
	uint32_t places;	/* G4_DDT_SHARDS * shard_entries */
	struct g4_ddt_shard shards[G4_DDT_SHARDS];
	struct g4_lock places_locks[G4_DDT_PLACES];
};

struct g4_ddt_stats {
	uint64_t places, entries; /* that there is memory for; in use */
	uint64_t bytes;		  /* of memory */
	uint64_t found;		  /* lookups that found something */
	uint64_t inserted, evicted;
	uint64_t stale; /* found, and gone when it was to be shared */
};

/* ---- host (table_host.c) ---- */
/* Bytes of zeroed memory for a table that takes about `bytes`, on a device of so many regions. 0 bytes: there will be none. */
uint64_t g4_ddt_memory(uint64_t bytes, uint64_t regions);
/* Sets up over that memory, with the same two numbers. */
void g4_ddt_init(struct g4_ddt *ddt, void *memory, uint64_t bytes, uint64_t regions);
void g4_ddt_moved(struct g4_ddt *ddt, intptr_t by);
/* Counted while others go on. */
void g4_ddt_stats(struct g4_ddt *ddt, struct g4_ddt_stats *stats);

/* ---- what is where ---- */
G4_FN G4_INLINE bool g4_ddt_is_there(const struct g4_ddt *ddt)
{
	return ddt->shard_entries > 0;
}
/* Where a page with this hash may lie, or none. `hash`: G4_DDT_HASH_BYTES, of what is alike in every byte. */
G4_FN struct g4_address g4_ddt_find(struct g4_ddt *ddt, const void *hash);
/* In a transaction: a page with this hash lies there now. What the table has already stays as it is. */
G4_FN void g4_ddt_insert(struct g4_ddt *ddt, const void *hash, struct g4_address address);
/*
 * In a transaction: the page that was found at this address gets an owner more. -G4_E_AGAIN: it can not be, and who asks next will not
 * find it; nothing else has changed. Takes G4_SHARE_CREDITS and what g4_share_acquire() takes.
 */
G4_FN int g4_ddt_share(struct g4_wg *wg, struct g4_ddt *ddt, struct g4_alloc *alloc, struct g4_txn *txn,
		       const void *hash, struct g4_address address);
/* Whether there may be entries of pages in the regions that these lie in. Wild addresses: no. */
G4_FN bool g4_ddt_any(const struct g4_ddt *ddt, struct g4_address address, uint64_t pages);
/* What lies there is not what was written, or can not be read: nobody shall find it. */
G4_FN void g4_ddt_drop(struct g4_ddt *ddt, struct g4_address page);
/* In the transaction that released pages: the entries of those that are nobody's now go. */
G4_FN void g4_ddt_forget(struct g4_wg *wg, struct g4_ddt *ddt, struct g4_alloc *alloc, struct g4_address address,
			 uint64_t pages);

#endif
