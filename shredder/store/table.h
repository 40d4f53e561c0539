/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entries of an index by number and by id, most of them in a file when they are too many for memory:
 *
 *	buckets (memory)          pages of 78 entries, in the order in which the blobs came
 *	10 times number + 1 and   | 0 .. 77 | 78 .. 155 | ...                    |
 *	16 bits of the id         +--- 512 pages: a segment, in memory or in the file
 *
 * A blob costs 7.5 bytes of memory (11 while a table that was not sized beforehand grows), and 52 more while its segment is in memory.
 * The tag tells that an id is new without reading: one look-up of 5000 reads a page for nothing. A bucket is a line of the processor's
 * cache, and an entry one or two more: of ids that are looked up together these are read side by side.
 *
 * Neighbours in a pack are neighbours here. A reader of one blob of an old tree asks for those around it next, and finds them in the
 * page that was read.
 *
 * The file has no name: nothing is left behind by a crash. When it cannot be made or written, entries stay in memory. When it cannot be
 * read, the call fails; nothing is taken for absent.
 *
 * Threads may call everything at a time. Look-ups hold a lock together, so they run side by side; what changes the table holds it alone, and
 * writes the file under it. Pages of the file that are held have a mutex, within the lock.
 */
#ifndef SHREDDER_STORE_TABLE_H
#define SHREDDER_STORE_TABLE_H

#include "store/store.h"

/* The pack of a blob that somebody is about to store. */
#define STORE_PACK_PENDING UINT32_MAX

struct store_entry {
	struct store_id id;
	uint32_t pack; /* number, or STORE_PACK_PENDING */
	uint32_t offset, stored, raw;
	/* grouped: offset and stored are a group's, which holds the blob at `inner` */
	uint32_t type : 2, grouped : 1, inner : 24;
};

/* Memory for entries unless somebody says otherwise: 5 million. */
#define STORE_INDEX_BYTES (256 * G4_MIB)

struct store_table;

/* Room for `expected` entries at once. memory_bytes: of entries; segments that are pending or not full come on top. */
struct store_table *store_table_open(uint64_t expected, uint64_t memory_bytes);
void store_table_close(struct store_table *t);
/* 1 with number and entry, 0: it has none, or an error with a sentence. */
int store_table_find(struct store_table *t, const struct store_id *id, uint32_t *number, struct store_entry *entry);
/* The same of several: faster, since their reads of memory overlap. 0, or an error with a sentence, after which none of them counts. */
struct store_found {
	struct store_id id;
	bool there;
	uint32_t number;
	struct store_entry entry;
};
int store_table_find_all(struct store_table *t, struct store_found *found, size_t count);
/* 1: it was added; 0: an entry of that id is there and stays; or an error with a sentence. *number: the entry's. */
int store_table_add(struct store_table *t, const struct store_entry *entry, uint32_t *number);
int store_table_at(struct store_table *t, uint32_t number, struct store_entry *entry);
/* A pending entry gets its place; it is in memory, so this cannot fail. One that has a place keeps it. */
void store_table_place(struct store_table *t, uint32_t number, const struct store_entry *place);
uint64_t store_table_count(struct store_table *t);

struct store_table_sizes {
	uint64_t slot_bytes, entry_bytes; /* memory */
	uint64_t file_bytes;
	uint64_t reads; /* of pages */
};
struct store_table_sizes store_table_sizes(struct store_table *t);

#endif
