/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts streams into chunks and keeps those that the repository does not have: backup and copy. One a thread.
 *
 * Cutting piece by piece: no window reaches beyond SHREDDER_WINDOW_BYTES and no cut is nearer than the minimum, which is not smaller;
 * so a chunker that begins at a cut makes the same cuts as one that began at the stream's beginning.
 */
#ifndef SHREDDER_STORE_CUTTER_H
#define SHREDDER_STORE_CUTTER_H

#include <stdatomic.h>

#include "store/crypto.h"
#include "store/packer.h"
#include "store/pool.h"
#include "store/tree.h"

/* A piece of a stream: twice the longest chunk at least. */
#define STORE_CUTTER_BYTES (4 * G4_MIB)

/* What several cutters share. */
struct store_keeping {
	struct store *s;
	struct store_packer *packer; /* NULL: nothing is written */
	int level;
	struct store_pool *pool; /* whose members have the cutters, and do blob jobs; NULL: nothing is given away */
	atomic_ullong new_blobs, new_bytes, stored_bytes;
};

/* A blob or a group to be protected, by a worker that has nothing to do. */
struct store_blob_job {
	struct store_group *group; /* or NULL and: */
	enum store_blob_type type;
	uint32_t number;
	struct store_id id;
	uint8_t *data;
	size_t bytes;
};
/* What such a pool does: a blob, or something of its owner's. */
struct store_keeping_job {
	bool blob;
	union {
		struct store_blob_job of_blob;
		struct {
			void *what;
			uint64_t number;
		} own;
	};
};

struct store_cutter {
	struct store_keeping *keeping;
	struct store_codec codec;
	shredder *chunker;
	uint8_t *buffer;
	size_t have;
	struct store_buf protected_data;
	struct store_group groups[3]; /* by type; not used in format 1 */
	struct store_buf content;     /* parts so far */
	uint64_t content_count;
};

int store_cutter_open(struct store_cutter *c, struct store_keeping *keeping);
/* Also of zeros, or after open failed. */
void store_cutter_close(struct store_cutter *c);

/* Forgets the content. */
void store_cutter_begin(struct store_cutter *c);
/* Where the next bytes of the stream go; *room is at least 1. */
static inline uint8_t *store_cutter_room(struct store_cutter *c, size_t *room)
{
	*room = STORE_CUTTER_BYTES - c->have;
	return c->buffer + c->have;
}
/* `bytes` of them are there; last: the stream ends. */
int store_cutter_took(struct store_cutter *c, size_t bytes, bool last);
void store_cutter_hole(struct store_cutter *c, uint64_t bytes);

/* Entries of a directory on their way into its content. */
struct store_pieces {
	struct store_buf piece, content;
	uint64_t content_count;
};
/* Stores what was added to the piece, if anything, and begins the next one. */
int store_cutter_piece(struct store_cutter *c, struct store_pieces *p);
void store_pieces_free(struct store_pieces *p);

/* Stores a blob unless it is known, and gives its id. */
int store_cutter_keep(struct store_cutter *c, enum store_blob_type type, const void *data, size_t bytes,
		      struct store_id *id);
int store_cutter_do(struct store_cutter *c, struct store_blob_job *job);
/* Stores the small blobs that wait for others: before the packer finishes, when the pool is done. */
int store_cutter_flush(struct store_cutter *c);

#endif
