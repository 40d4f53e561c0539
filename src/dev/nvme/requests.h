/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of a device as commands of one queue: engine code. A struct g4_io becomes one or more commands, each of which has a
 * slot from its start to its completion; the slot's number and turn are the command's identifier, so a completion that nobody
 * waits for, or that comes twice, is known.
 *
 * Device addresses are the engine's own: a provider maps memory for the controller where the process has it.
 *
 * The reaper of completions, one at a time, ends the requests of all that they complete: the last touch of a struct g4_io is its `done`.
 * Its fields meanwhile: `queue` counts commands under way, and 1 while its owner may start more; `cookie` is the owner's.
 */
#ifndef G4_DEV_NVME_REQUESTS_H
#define G4_DEV_NVME_REQUESTS_H

#include "dev/dev.h"
#include "dev/nvme/pair.h"
#include "dev/slots.h"

#define G4_NVME_LIST_BYTES G4_PAGE_BYTES /* for each slot: the PRPs of a command, or the range of a DSM */
#define G4_NVME_TRIES 4u		 /* of a command whose status does not forbid it */

struct g4_nvme_slot {
	struct g4_nvme_command command;
	struct g4_io *io;
	uint64_t since_ns; /* submitted; under_way says whether */
	uint32_t turn;
	uint32_t tries;
	uint32_t under_way; /* 1 + the identifier of its command, and whether that is being written still; 0: nothing */
	uint8_t padding[36];
};

struct g4_nvme_counts {
	uint64_t completed, retried, failed;
	uint64_t stray;	 /* completions that nobody waits for */
	uint64_t copied; /* requests whose data was copied; the host's to count */
};

struct g4_nvme_queue {
	struct g4_nvme_pair pair;
	struct g4_slots pool;
	struct g4_nvme_slot slots[G4_SLOTS_MOST];
	uint8_t *lists;
	uint32_t nsid;
	uint32_t block_shift;
	uint64_t piece_bytes;	      /* most data of a command: whole pages, at most what a list of PRPs describes */
	struct g4_nvme_counts counts; /* the reaper's; read by others word by word */
	uint32_t dead;		      /* the controller does nothing any more, nor touches memory */
	uint8_t padding[60];
};
#define G4_NVME_PIECE_MOST_BYTES (G4_NVME_LIST_BYTES / sizeof(uint64_t) * G4_PAGE_BYTES)

/* A place in the queue for slots. */
struct g4_nvme_turn {
	bool asked;
	uint32_t ticket;
};

/* Leader, thread-safe. Starts a request, whose cookie is 0 but for its 7 highest bits, as far as there are slots for everybody. */
G4_FN void g4_nvme_start(struct g4_nvme_queue *queue, struct g4_io *io);
/*
 * The request's owner. Looks at completions and starts what is left. With a turn, zeroed at first, it gets its slots in the order of
 * asking and has to be called until this returns true: the request is done.
 */
G4_FN bool g4_nvme_step(struct g4_nvme_queue *queue, struct g4_io *io, struct g4_nvme_turn *turn);
/* What a completion's status is to a request: 0 or a negative code. */
G4_FN int g4_nvme_code(uint32_t status);
/*
 * Whether a command that ended with it is to be tried again, after so many tries. Never a FLUSH: what a failed one lost stays lost,
 * and one that succeeds after it says nothing about that.
 */
G4_FN bool g4_nvme_may_retry(uint32_t op, uint32_t status, uint32_t tries); /* enum g4_io_op */
/*
 * Thread-safe. Whether a command is under way since `ns` or longer and no completion is there. One that nobody has looked at is no
 * fault of the controller: requests may be submitted and waited for much later. False, too, while somebody looks.
 */
G4_FN bool g4_nvme_overdue(struct g4_nvme_queue *queue, uint64_t now_ns, uint64_t ns);

#endif
