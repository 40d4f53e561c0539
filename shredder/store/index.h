/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where blobs lie: a table of all index files (table.h), and the packs. FORMAT.md, sections 4 and 5.
 *
 * Locking: the table, the packs and the packer have a mutex each, and none is taken while another is held. No I/O happens under the
 * packs' and the packer's.
 */
#ifndef SHREDDER_STORE_INDEX_H
#define SHREDDER_STORE_INDEX_H

#include "store/crypto.h"
#include "store/store.h"
#include "store/table.h"

/* A pack is closed from this size on. */
#define STORE_PACK_BYTES (16 * G4_MIB)

struct store_pack {
	struct store_id name;
	uint64_t bytes;
};

/* Reads all index files. damaged == NULL: the first one that cannot be read is an error; else they are counted and told. */
int store_index_load(struct store *s, uint64_t *damaged, void (*tell)(void *user, const char *sentence), void *user);
/* An empty one. */
void store_index_new(struct store *s);
void store_index_free(struct store *s);

/* Blobs have numbers from 0 on in the order in which they came. NO_BLOB: the index does not have it; IO. */
int store_index_find(struct store *s, const struct store_id *id, uint32_t *number, struct store_entry *entry);
uint64_t store_index_count(struct store *s);
int store_index_at(struct store *s, uint32_t number, struct store_entry *entry);
/* 1: nobody had it, and now the caller is who stores it. 0: somebody has. */
int store_index_claim(struct store *s, const struct store_id *id, enum store_blob_type type, uint32_t *number);

uint32_t store_pack_count(struct store *s);
struct store_pack store_pack_at(struct store *s, uint32_t number);

/* Reads a blob; `out` is the caller's. NO_BLOB, DAMAGED, ABSENT. */
int store_blob_get(struct store *s, struct store_codec *codec, enum store_blob_type type, const struct store_id *id,
		   struct store_buf *out);
/* Reads a blob's stored form. */
int store_blob_raw(struct store *s, const struct store_entry *entry, struct store_buf *out);

/* ---- headers of packs */
/* Bytes of a whole pack: gives its header body, which holds for exactly these bytes. */
int store_pack_header(const struct store *s, const uint8_t *pack, size_t bytes, const char *what,
		      struct store_buf *body);
/* The header of a pack of `bytes` bytes, read from its end; the blobs are not looked at. */
int store_pack_header_get(struct store *s, const struct store_id *name, uint64_t bytes, struct store_buf *body);
struct store_header_entry {
	uint8_t type;
	struct store_id id;
	uint32_t offset, stored, raw;
};
/* Parses header bodies: begin gives the number of blobs, each next the next one. */
uint64_t store_header_begin(struct store_in *in);
bool store_header_next(struct store_in *in, uint32_t *offset, struct store_header_entry *entry);
/* Adds a pack with its header to the table, blobs that are known elsewhere left out. */
int store_index_add(struct store *s, const struct store_id *name, uint64_t bytes, const struct store_buf *header);

/* ---- writing packs */
struct store_packer;
/* Threads may add at a time; one thread of its own writes. */
struct store_packer *store_packer_open(struct store *s);
/*
 * A blob's stored form, whose number store_index_claim() gave; it is copied. Waits while packs before are not written yet. Fails when
 * writing failed, which nobody can mend: the caller ends.
 */
int store_packer_add(struct store_packer *p, enum store_blob_type type, uint32_t number, const struct store_id *id,
		     const struct store_buf *stored, uint64_t raw_bytes);
/* Writes what is left, then the index. After 0 everything that was added is durable and in the index. */
int store_packer_finish(struct store_packer *p);
/* Frees it; without finish, packs that are not written are forgotten. */
void store_packer_close(struct store_packer *p);
/* Bytes of packs and index files written so far. */
uint64_t store_packer_written(struct store_packer *p);

/* Writes index files of all packs for which keep() is true, and gives their names. */
int store_index_rewrite(struct store *s, const bool *keep, struct store_id **names, size_t *count);

#endif
