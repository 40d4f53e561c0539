/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts streams into chunks and keeps those that the repository does not have: backup and copy. One a thread.
 *
 * Cutting piece by piece: no window reaches beyond SHREDDER_WINDOW_BYTES and no cut is nearer than the minimum, which is not smaller;
 * so a chunker that begins at a cut makes the same cuts as one that began at the stream's beginning.
 *
 * With GPUs (keeping.service) a piece is a load of them, and small streams share one: a stream that may wait stays in the buffer when it ends,
 * others come behind it, and all are cut together when the buffer is full or the owner has nothing else to do:
 *
 *	buffer	| small stream | small stream | small stream | a large one's beginning |
 *				   borders ^		  ^
 *
 * Where no GPU works, or a load is too small to be worth its way, the processor cuts it, stream by stream, to the same chunks.
 */
#ifndef SHREDDER_STORE_CUTTER_H
#define SHREDDER_STORE_CUTTER_H

#include <stdatomic.h>

#include "chunk/service.h"
#include "store/crypto.h"
#include "store/packer.h"
#include "store/pool.h"
#include "store/tree.h"

/* A piece of a stream: twice the longest chunk at least. */
#define STORE_CUTTER_BYTES (4 * G4_MIB)
/* With GPUs, once they are open: as many as 300 us of copying, beside which what a load costs the host, 100 us, is little. */
#define STORE_LOAD_BYTES (8 * G4_MIB)
/* Streams that wait in a buffer, and the longest one. */
#define STORE_WAITING_MAX 1024u
#define STORE_WAITING_BYTES G4_MIB

/* What several cutters share. */
struct store_keeping {
	struct store *s;
	struct store_packer *packer; /* NULL: nothing is written */
	int level;
	struct store_pool *pool; /* whose members have the cutters, and do blob jobs; NULL: nothing is given away */
	const char *engine;	 /* of the processor, as struct shredder_options has it */
	struct shredder_service *service; /* NULL: the processor alone */
	bool together; /* streams wait for each other to fill a load: only where a GPU was asked for, small ones are faster by the processor */
	/* By whose cutter it is: the stream that waited as number `index`, 0 upwards, has this content. */
	void (*complete)(void *user, uint32_t index, const struct store_content *content);
	/* By whose cutter it is, before each chunk that is kept: time to give somebody else something to do. NULL: nothing. */
	void (*between)(void *user);
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

/* Parts of a content, in their order. */
struct store_parts {
	struct store_buf bytes;
	uint64_t count;
};

struct store_cutter {
	struct store_keeping *keeping;
	void *user;
	struct store_codec codec;
	shredder *chunker;
	uint8_t *buffer;
	size_t size, have;
	bool locked;		   /* the buffer is the service's */
	struct shredder_end *ends; /* of a load */
	uint32_t *borders;	   /* where streams end that wait */
	uint32_t waiting;
	bool may_wait, waits;
	struct store_buf protected_data;
	struct store_group groups[3]; /* by type; not used in format 1 */
	struct store_buf content;     /* parts so far */
	uint64_t content_count;
};

/* `user` is passed to keeping->complete(). */
int store_cutter_open(struct store_cutter *c, struct store_keeping *keeping, void *user);
/* Also of zeros, or after open failed. */
void store_cutter_close(struct store_cutter *c);

/*
 * Begins a stream, and forgets the last one's content. bytes: how many it has, where it may wait, which only streams in one piece may; 0: it must not.
 * Streams that wait may be completed in here.
 */
int store_cutter_begin(struct store_cutter *c, uint64_t bytes);
/* Where the next bytes of the stream go; *room is at least 1. */
static inline uint8_t *store_cutter_room(struct store_cutter *c, size_t *room)
{
	*room = c->size - c->have;
	return c->buffer + c->have;
}
/* `bytes` of them are there; last: the stream ends, or is cut here. */
int store_cutter_took(struct store_cutter *c, size_t bytes, bool last);
/* Whether the stream that has ended waits; then keeping->complete() will tell its content, and its number is the count of those before it. */
static inline bool store_cutter_waits(const struct store_cutter *c)
{
	return c->waits;
}
/* Cuts what waits. Between two streams. */
int store_cutter_cut_waiting(struct store_cutter *c);
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
