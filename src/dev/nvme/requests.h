/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of a device as commands of one queue: engine code. A struct g4_io becomes one or more commands, each of which has a
 * slot (flight.h) from its start to its completion.
 *
 * Device addresses are the engine's own: a provider maps memory for the controller where the process has it. Where it can not, all that
 * commands name is at one distance from there (`shift`), and data that is not has been copied before it gets here.
 *
 * The reaper of completions, one at a time, ends the requests of all that they complete: the last touch of a struct g4_io is its `done`.
 * Its fields meanwhile: `queue` counts commands under way, and 1 while its owner may start more; `cookie` is the owner's.
 */
#ifndef G4_DEV_NVME_REQUESTS_H
#define G4_DEV_NVME_REQUESTS_H

#include "dev/dev.h"
#include "dev/nvme/flight.h"
#include "dev/nvme/sizes.h"

#define G4_NVME_LIST_BYTES G4_PAGE_BYTES /* for each slot: the PRPs or the SGL of a command, or the range of a DSM */

/* What a request is of: a namespace, or a part of one, which begins at a block. */
struct g4_nvme_target {
	uint32_t nsid;
	uint32_t block_shift;
	uint64_t first_block;
	uint32_t space;		    /* flight.h */
	struct g4_nvme_sizes sizes; /* of the namespace */
};

struct g4_nvme_queue {
	struct g4_nvme_flight flight;
	struct g4_slots pool; /* of flight.slots */
	uint8_t *lists;
	uint64_t piece_bytes; /* most data of a command: whole pages, at most what a list of PRPs describes */
	uint32_t has_sgl;     /* the controller takes SGLs, which describe what PRPs would cut */
	uint32_t reserved;
	struct g4_nvme_target first; /* what the controller was opened for; the queue has requests of others, too */
	uint64_t shift;		     /* from an address to the controller's */
	uint32_t sleepers;	     /* threads that sleep, or are about to, until somebody looks (waiting_host.h) */
	uint32_t wake; /* 1: somebody has looked for them, and they are to be woken, by whoever sees this first */
	uint8_t padding[8];
};
#define G4_NVME_PIECE_MOST_BYTES (G4_NVME_LIST_BYTES / sizeof(uint64_t) * G4_PAGE_BYTES)

/* A place in the queue for slots. */
struct g4_nvme_turn {
	bool asked;
	uint32_t ticket;
};

/* Leader, thread-safe. Starts a request, whose cookie is 0 but for its 7 highest bits, as far as there are slots for everybody. */
G4_FN void g4_nvme_start(struct g4_nvme_queue *queue, const struct g4_nvme_target *target, struct g4_io *io);
/*
 * The request's owner. Looks at completions and starts what is left. With a turn, zeroed at first, it gets its slots in the order of
 * asking, as far as their classes have it (slots.h), and has to be called until this returns true: the request is done.
 */
G4_FN bool g4_nvme_step(struct g4_nvme_queue *queue, const struct g4_nvme_target *target, struct g4_io *io,
			struct g4_nvme_turn *turn);
/*
 * Thread-safe, for a thread that is counted among the sleepers: whether there is nothing to look at, and nothing of its own left to ring for. What
 * comes later interrupts, and who takes it sees the sleeper. False, too, while somebody else looks: that look may be over before.
 */
G4_FN bool g4_nvme_is_quiet(struct g4_nvme_queue *queue);
/*
 * Thread-safe. A command that is under way since `ns` or longer while no completion is there: 1 + its identifier. One that nobody has
 * looked at is no fault of the controller: requests may be submitted and waited for much later. 0, too, while somebody looks.
 */
G4_FN uint32_t g4_nvme_overdue(struct g4_nvme_queue *queue, uint64_t now_ns, uint64_t ns);

#endif
