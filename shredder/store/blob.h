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

#endif
