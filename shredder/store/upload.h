/* SPDX-License-Identifier: Apache-2.0 */
/* A file of a repository that comes in pieces, and has its name at the end. A backend that cannot do that gets it as a whole. */
#ifndef SHREDDER_STORE_UPLOAD_H
#define SHREDDER_STORE_UPLOAD_H

#include "store/backend.h"

/* Pieces of this size at addresses that STORE_ALIGN_BYTES divides go past the page cache where the file system lets them. */
#define STORE_PIECE_BYTES (2 * G4_MIB)
#define STORE_ALIGN_BYTES 4096

struct store_upload {
	struct store_backend *backend;
	enum store_kind kind;
	struct store_incoming *incoming; /* the backend's, or NULL: collected here */
	struct store_buf bytes;
};

int store_upload_begin(struct store_upload *u, struct store_backend *backend, enum store_kind kind);
int store_upload_add(struct store_upload *u, const void *data, size_t bytes);
/* The file is there, whole and durable, or not at all. */
int store_upload_end(struct store_upload *u, const struct store_id *name);
/* Instead, or after an error. */
void store_upload_abandon(struct store_upload *u);

#endif
