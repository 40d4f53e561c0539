/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading blobs. Of groups the last few that were read are held for all threads: a reader of one blob of a group reads those
 * beside it next.
 *
 * Locking: one mutex for what is held; groups are read and decompressed without it, each by one thread while others that want it wait.
 */
#ifndef SHREDDER_STORE_BLOB_H
#define SHREDDER_STORE_BLOB_H

#include "store/crypto.h"
#include "store/index.h"

struct store_groups *store_groups_new(void);
/* NULL is allowed. */
void store_groups_free(struct store_groups *groups);

/* Reads a blob; `out` is the caller's. What is damaged is mended where there is parity. NO_BLOB, DAMAGED, ABSENT. */
int store_blob_get(struct store *s, struct store_codec *codec, enum store_blob_type type, const struct store_id *id,
		   struct store_buf *out);
/* The same of a blob that stands alone, by its entry, with its stored form. */
int store_blob_open(struct store *s, struct store_codec *codec, const struct store_entry *entry,
		    struct store_buf *stored, struct store_buf *out);
/*
 * One of a pack whose bytes are in memory; of a header's entries each in its turn, for a group is opened at its first one. `whole`, true before the first entry, tells
 * afterwards whether that could be done: else none of its blobs is there, all give DAMAGED. The blob: entry->raw bytes of `out` from entry->inner on.
 */
int store_blob_open_in(const struct store *s, struct store_codec *codec, const struct store_header_entry *entry,
		       const struct store_buf *pack, struct store_buf *out, bool *whole);

#endif
