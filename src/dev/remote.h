/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Remote devices: an engine that can make no system calls (lanes of a GPU) has a thread of the host, the I/O agent, do
 * its requests. This is what the two share, and the engine's side; the agent is agent_host.c.
 *
 *      memory of the host that both address                  memory of the engine
 *      +---------------------------------+ 0                 struct g4_remote: free slots, what is known of
 *      | posted    8 B a slot   engine > |                   the requests under way, and a lock for the one
 *      | finished  8 B a slot   agent >  |                   that looks at `finished`
 *      | requests 64 B a slot   engine > |
 *      | words     4 B each     both    |
 *      +---------------------------------+ page
 *      | staging: a chunk for each slot  |
 *      +---------------------------------+
 *
 * A request goes: take a free slot; copy what is to be written into its chunk; fill its request; post it. The agent
 * executes requests in the order of their posting, many at a time, and finishes them in any. What was read is copied out
 * of the chunk, then the slot is free again. Slots are given in the order of asking.
 *
 * Data in an *area*, memory of the host that the engine was told of (data areas of clients), is not copied: the agent
 * does I/O on it in place.
 *
 * Both lists are arrays of words, each with the number of its entry (counted from 0) plus 1 in the high half, so that
 * looking at one place tells whether it was filled. Neither has a head or a tail that the other side reads, and neither
 * can overflow: an entry is overwritten `slots` entries later, but not more than `slots` requests have been posted whose
 * slots are not free again.
 *
 * Where the device is a controller whose queues lanes can use, there is no agent: requests go into such queues (nvme/lanes.h), with
 * the same slots and chunks. Then a struct g4_dev has as many struct g4_remote in a row as there are queues, and a mapper says which
 * one a workgroup uses. Its requests are all in one at a time: it changes only when nothing of its own is under way.
 *
 * Over PCIe there are no atomics on host memory, and polling it by more than a few is slow for all. So everything that
 * is added to or locked lies in the engine's memory, and one waiter at a time looks at `finished`, for all.
 */
#ifndef G4_DEV_REMOTE_H
#define G4_DEV_REMOTE_H

#include "dev/dev.h"
#include "dev/mapper.h"
#include "dev/slots.h"

#define G4_REMOTE_SLOTS G4_SLOTS_MOST /* at most */
#define G4_REMOTE_AREAS 65u
#define G4_REMOTE_STAGING 0u /* the area that the chunks are; others from 1 on */

struct g4_remote_request {
	uint32_t op;	/* enum g4_io_op, or one of those below */
	uint32_t flags; /* G4_IO_FUA, G4_IO_CLASS(), G4_IO_IN_USE */
	uint64_t offset_bytes;
	uint64_t bytes; /* of one buffer, or to be discarded */
	uint64_t at;	/* where in its area the buffer begins */
	uint32_t area;
	uint8_t reserved[28];
};
G4_STATIC_ASSERT(sizeof(struct g4_remote_request) == 64, "a request is a cache line");

/*
 * What else is asked of an agent with a set of disks: orders about them (dev.h), where they are, and on which of them a page lies. The slot's chunk has
 * the question, which ends with the order's name, and then the answer, which ends with its text.
 */
#define G4_REMOTE_ORDER 0x100u
#define G4_REMOTE_WHERE 0x101u
#define G4_REMOTE_LAYOUT 0x102u /* g4_dev_layout(): the whole chunk, or as much as is asked for */
#define G4_REMOTE_GRANT 0x103u	/* g4_dev_grant() */
G4_HD G4_INLINE bool g4_remote_asks(uint32_t op)
{
	return op == G4_REMOTE_ORDER || op == G4_REMOTE_WHERE || op == G4_REMOTE_LAYOUT || op == G4_REMOTE_GRANT;
}
struct g4_remote_order {
	uint32_t op;	/* enum g4_dev_order_op */
	uint32_t disk;	/* as in struct g4_dev_order, as are those below; GRANT: the number of its word */
	int32_t result; /* out */
	uint32_t padding;
	uint64_t bytes, done, all;
	uint64_t address; /* WHERE: of the page; GRANT */
	uint64_t disks;	  /* WHERE, out */
	uint8_t reserved[8];
};
G4_STATIC_ASSERT(sizeof(struct g4_remote_order) == 64, "an order is a cache line, and characters");
#define G4_REMOTE_ORDER_BYTES G4_PAGE_BYTES /* at most, with them */

/* Where things lie in the shared memory. */
struct g4_remote_layout {
	uint64_t finished_at, requests_at, words_at, staging_at; /* `posted` is at 0 */
	uint64_t bytes;
};

G4_HD G4_INLINE struct g4_remote_layout g4_remote_layout(uint32_t slots, uint64_t chunk_bytes)
{
	struct g4_remote_layout layout;

	layout.finished_at = g4_align_up(slots * sizeof(uint64_t), 128);
	layout.requests_at = 2 * layout.finished_at;
	layout.words_at = g4_align_up(layout.requests_at + slots * sizeof(struct g4_remote_request), 128);
	layout.staging_at = g4_align_up(layout.words_at + G4_DEV_WORDS * sizeof(uint32_t), G4_PAGE_BYTES);
	layout.bytes = layout.staging_at + slots * chunk_bytes;
	return layout;
}

G4_HD G4_INLINE uint64_t g4_remote_word(uint32_t number, uint32_t low)
{
	return (uint64_t)(number + 1) << 32 | low;
}
G4_HD G4_INLINE bool g4_remote_is(uint64_t word, uint32_t number)
{
	return (uint32_t)(word >> 32) == number + 1;
}
/* The low half of a word in `finished`: the slot, and the positive code of an error. */
#define G4_REMOTE_CODE_BITS 16u
#define G4_REMOTE_CODE_MASK ((1u << G4_REMOTE_CODE_BITS) - 1)

/* What the engine knows of a slot's request. */
struct g4_remote_slot {
	uint64_t outcome; /* behind an agent. 0: under way; else bit 32 and the positive code of an error */
	uint64_t at;	  /* which bytes of the data of its struct g4_io it moves */
	uint64_t bytes;	  /* that are to be copied out of the chunk */
	uint32_t next;	  /* of the same g4_io: 1 + its slot; 0: none */
	uint32_t reserved;
};

/* Memory of the host, as the engine addresses it. */
struct g4_remote_area {
	uint64_t start;
	uint64_t bytes;
};

/* In the engine's memory; each counter that many lanes change has a cache line. */
struct g4_nvme_lanes;
struct g4_remote {
	struct g4_nvme_lanes *lanes; /* NULL: an agent is behind it */
	uint64_t *posted;	     /* as the engine addresses them */
	const uint64_t *finished;
	struct g4_remote_request *requests;
	uint32_t *words; /* g4_dev_words() */
	uint8_t *staging;
	uint64_t chunk_bytes;
	uint32_t slots;
	uint32_t area_count; /* areas from this on are unused */
	uint8_t padding0[64];
	uint32_t post_count;
	uint8_t padding3[124];
	uint32_t seen_count; /* entries of `finished` that were seen; the reaper's */
	uint8_t padding1[124];
	struct g4_slots pool;
	struct g4_remote_slot slot[G4_REMOTE_SLOTS];
	struct g4_remote_area areas[G4_REMOTE_AREAS];
	struct g4_mapper mapper; /* of the first one, for all */
};

/* The engine's side with all slots free. `memory` is the shared memory as the engine addresses it. Host only. */
#if !G4_CUDA
void g4_remote_init(struct g4_remote *remote, void *memory, uint32_t slots, uint64_t chunk_bytes);
#endif

/*
 * For dev.c; leader, thread-safe. The requests, a list, are checked. Submitting starts them in their order for as long as there are
 * free slots; what is left starts when it is waited for. So a workgroup waits for its requests in their order, and does
 * not submit more before it has waited for all: a workgroup that waits for a slot must not hold others.
 */
G4_FN void g4_remote_submit(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *first);
G4_FN void g4_remote_poll(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io);
G4_FN void g4_remote_wait(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io);
/* g4_dev_order(), g4_dev_layout(), g4_dev_grant() and g4_dev_disks_at() of a set behind an agent; the workgroup has no requests under way. */
G4_FN int g4_remote_order(struct g4_wg *wg, struct g4_dev *dev, struct g4_dev_order *order);
G4_FN int g4_remote_layout_of(struct g4_wg *wg, struct g4_dev *dev, void *table, uint64_t bytes);
G4_FN int g4_remote_grant(struct g4_wg *wg, struct g4_dev *dev, uint64_t address, uint64_t bytes, uint32_t number);
G4_FN uint64_t g4_remote_disks_at(struct g4_wg *wg, struct g4_dev *dev, uint64_t offset);

#endif
