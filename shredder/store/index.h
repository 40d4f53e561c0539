/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where blobs lie: a table of all index files (table.h), and the packs. FORMAT.md, section 5.
 *
 * Locking: the packs, the packer (packer.h) and the groups that are read (blob.h) have a mutex each, the table has locks of its own (table.h),
 * and none is taken while another is held. No I/O happens under any but the table's.
 */
#ifndef SHREDDER_STORE_INDEX_H
#define SHREDDER_STORE_INDEX_H

#include "store/pack.h"
#include "store/store.h"
#include "store/table.h"

struct store_pack {
	struct store_id name;
	uint64_t bytes;
	bool written; /* since the index was loaded, even where the index had a pack of the same bytes already */
};

/* Reads all index files. damaged == NULL: the first one that cannot be read is an error; else they are counted and told. */
int store_index_load(struct store *s, uint64_t *damaged, void (*tell)(void *user, const char *sentence), void *user);
/* An empty one. */
void store_index_new(struct store *s);
void store_index_free(struct store *s);

/* Blobs have numbers from 0 on in the order in which they came. NO_BLOB: the index does not have it; IO. */
int store_index_find(struct store *s, const struct store_id *id, uint32_t *number, struct store_entry *entry);
/* Several at a time; what is not there is no error. */
int store_index_find_all(struct store *s, struct store_found *found, size_t count);
uint64_t store_index_count(struct store *s);
int store_index_at(struct store *s, uint32_t number, struct store_entry *entry);
/* 1: it was not there, and the caller has to store it. 0: it is, or will be, stored. */
int store_index_claim(struct store *s, const struct store_id *id, enum store_blob_type type, uint32_t *number);

uint32_t store_pack_count(struct store *s);
struct store_pack store_pack_at(struct store *s, uint32_t number);

/* ---- packs and index files */
/* Adds a pack with its header to the table, blobs that are known elsewhere left out. */
int store_index_add(struct store *s, const struct store_id *name, uint64_t bytes, const struct store_buf *header);

/* The number of a pack, which it gets if it has none. */
uint32_t store_index_pack(struct store *s, const struct store_id *name, uint64_t bytes);
/* This pack was written just now. */
void store_index_written(struct store *s, uint32_t number);
/* A blob that was claimed is stored now. */
void store_index_place(struct store *s, uint32_t number, const struct store_header_entry *from, uint32_t pack);
/* Records of an index file are collected up to this size, about. */
#define STORE_INDEX_BODY_BYTES (4 * G4_MIB)
void store_index_record(struct store_buf *records, const struct store_id *name, uint64_t bytes,
			const struct store_buf *header);
int store_index_put(struct store *s, uint64_t packs, const struct store_buf *records, struct store_id *name);
/*
 * What index files say of packs, by the number of a name in `names`, which are sorted: for one whose header is lost. Each pack once at most; files
 * that cannot be read are passed over. Anything but 0 ends it.
 */
typedef int store_known_fn(void *user, size_t number, uint64_t bytes, const struct store_buf *header);
int store_index_known(struct store *s, const struct store_id *names, size_t count, store_known_fn *each, void *user);
/* Writes index files of all packs for which keep() is true, and gives their names. */
int store_index_rewrite(struct store *s, const bool *keep, struct store_id **names, size_t *count);

/* Every blob of an index that was loaded, and what it takes: of a group in proportion, rounded down, so 0 of a small one. */
typedef void store_share_fn(void *user, uint32_t number, const struct store_entry *entry, uint64_t stored);
int store_index_shares(struct store *s, store_share_fn *each, void *user);

#endif
