/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the client's side of a ring share: client_host.c (slots, commands that are waited for) and ahead_host.c (commands ahead).
 *
 * A command ahead is given before anybody waits for it, and nobody does as long as nobody asks for what it is to tell. Its result is taken from its slot
 * into `struct g4_ahead` by whoever wants the slot, or the place for another one. All that is known of them is guarded by the submit lock, but what
 * one in state G4_AHEAD_HELD has: that is its holder's.
 */
#ifndef G4_RING_CLIENT_PARTS_HOST_H
#define G4_RING_CLIENT_PARTS_HOST_H

#include <pthread.h>

#include "ring/client_host.h"
#include "ring/polling_host.h"

#define G4_RING_SMALL_MAX 256u
#define G4_RING_TEXT_COUNT 16u
#define G4_READS_AHEAD 16u /* of all callers */

/* What is alike in how long it takes: operations, and reads and writes of up to 2^n bytes. */
#define G4_RING_POLLINGS (G4_COMMAND_COUNT + 2 * 32u)

enum g4_slot_taken {
	G4_SLOT_FREE,
	G4_SLOT_AWAITED, /* a thread waits for the result, or has not read it */
	G4_SLOT_POSTED,	 /* nobody waits: free as soon as the result is there */
	G4_SLOT_AHEAD	 /* the same, but the result is kept in struct g4_ahead */
};

struct g4_ahead { /* a command ahead, or room for one */
	enum { G4_AHEAD_NONE, G4_AHEAD_UNDER_WAY, G4_AHEAD_DONE, G4_AHEAD_HELD } state;
	uint64_t id;	 /* as its caller knows it */
	bool forgotten;	 /* nobody will ask for it */
	uint32_t op;	 /* READ, or what looks something up */
	uint32_t number; /* of its command */
	uint32_t length;
	uint64_t at; /* READ: of its buffer in the data area */
	/* once it is done */
	int status;
	uint64_t value;
	struct g4_attr attr; /* these two: not of a READ */
	struct g4_trail trail;
};

struct g4_aheads { /* of one kind */
	struct g4_ahead *places;
	uint32_t count;
	uint64_t ids;
	struct g4_polling polling;
};

struct g4_ring_buffers { /* of one size, `first` to `first + count * bytes` of the data area */
	uint64_t first, bytes;
	uint32_t count;
	uint32_t free_count;
	uint32_t free_list[G4_RING_SMALL_MAX];
};

struct g4_ring_client {
	uint8_t *ring, *data;
	struct g4_ring_header *header;
	uint32_t entries;
	uint64_t data_bytes;
	bool may_act;
	int doorbell, watched;
	void (*ring_doorbell)(void *context); /* or NULL: by the descriptor */
	void *context;
	bool (*deliver)(void *to, const void *from, size_t bytes); /* or NULL: memcpy() */
	struct g4_cred own;
	uint32_t stopped;
	uint64_t
		looked_ms; /* CLOCK_MONOTONIC: when it was asked last whether the engine is gone, by who does without it */

	pthread_mutex_t submit_lock; /* tail, taken[], the slots, commands ahead */
	pthread_cond_t slot_free;
	uint32_t tail;
	uint8_t *taken; /* enum g4_slot_taken, of each slot */

	struct g4_polling pollings[G4_RING_POLLINGS];

	pthread_mutex_t buffer_lock;
	pthread_cond_t buffer_free;
	struct g4_ring_buffers small, large;
	struct g4_ring_buffers text; /* held while nothing else is waited for, so that callers that hold data get one */
	uint64_t alloc_next;	     /* behind the buffers: not yet given away */

	struct g4_aheads reads, lookups;
	struct g4_ahead read_places[G4_READS_AHEAD];
	struct g4_ahead lookup_places[G4_LOOKUPS_AHEAD];
};

/* ------------------------------------------------------------------ client_host.c */

/*
 * Everything but data, into the slot or, where the text is long, a borrowed buffer: 0 or a negative code. *inline_bytes: of text in the slot.
 */
int g4_ring_client_marshal(struct g4_ring_client *client, const struct g4_cmd *cmd, const struct g4_walk *walk,
			   struct g4_ring_slot *slot, uint32_t *inline_bytes);
/* Gives the buffer back that the text was too long to do without, if it was. */
void g4_ring_client_end_text(struct g4_ring_client *client, const struct g4_ring_slot *slot);
/*
 * Fills the next slot, and says how it is taken. *left: no worker was woken for it: that is for the thread that waits for the result, if it
 * takes long. NULL: nobody will wait. ahead: what is done ahead by it, or NULL. False: the engine is gone.
 */
bool g4_ring_client_submit(struct g4_ring_client *client, const struct g4_ring_slot *slot, uint32_t text_bytes,
			   uint32_t *number, bool *left, struct g4_ahead *ahead);
/* Waits for a result and frees its slot; cmd->status tells how it went. polling: of what is alike in how long it takes; NULL: that of c. */
void g4_ring_client_await(struct g4_ring_client *client, struct g4_polling *polling, const struct g4_ring_command *c,
			  uint32_t number, bool left, struct g4_cmd *cmd);
void g4_ring_client_free_slot(struct g4_ring_client *client, uint32_t number);
/* Whether it has its result, which is not in a slot any more then. The submit lock is held. */
bool g4_ahead_is_done(struct g4_ring_client *client, struct g4_ahead *ahead);

/* What its result is put into, and taken from. */
struct g4_cmd g4_ahead_command(struct g4_ahead *ahead);
void g4_ahead_set(struct g4_ahead *ahead, const struct g4_cmd *cmd);

#endif
