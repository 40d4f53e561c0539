/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues of an NVMe controller behind a remote device (dev/remote.h), in the place of the I/O agent: the engine's own lanes write
 * commands, ring doorbells and look for completions. No thread of the host has a part in a request.
 *
 *      memory of the host that lanes and the controller address          memory of the engine
 *      +-------------------------------------------+                     struct g4_nvme_lanes: tickets and marks,
 *      | commands     64 B an entry       lanes >  |                     what each slot has asked for
 *      | completions  16 B an entry  controller >  |
 *      | lists        a page a slot: the PRPs of   |
 *      |              its chunk, written once      |
 *      | staging      a chunk a slot               |
 *      | doorbells    (registers)         lanes >  |
 *      +-------------------------------------------+
 *
 * All of the host's memory has one address for lanes and host. The controller's is `shift` higher. Data goes through the slot's chunk:
 * a controller cannot be told of the engine's memory where that is a GPU's.
 *
 * Lanes cannot stop, reset or ask a controller; the host does (lanes_host.h), and both talk about it. When the host tells that it
 * resets the controller, or that it is dead, lanes write no more commands and say so; then they get new queues, or all requests fail.
 * Each queue has such a talk of its own. The host makes queues again when all of them are quiet.
 */
#ifndef G4_DEV_NVME_LANES_H
#define G4_DEV_NVME_LANES_H

#include "dev/nvme/requests.h"
#include "dev/remote.h"

#define G4_NVME_LANE_SLOTS (G4_NVME_ENTRIES_MOST / 2)

/*
 * What lanes and the host tell each other, in memory of the host, each word written by one of them. `told` and `said` carry the number
 * of a reset above their flags; 0 is before the first one.
 */
struct g4_nvme_talk {
	uint32_t told;	/* by the host: how the controller is */
	uint32_t heard; /* by the host: what it has begun with of `late`; lanes say no other one before */
	uint8_t padding0[120];
	uint32_t said; /* by lanes: they are quiet since that reset */
	uint32_t
		late; /* by lanes: 1 + the identifier of a command that is to be aborted, and G4_NVME_AGAIN for another one */
	uint32_t wish; /* by lanes: 1 + the number of the reset after which the controller is silent again */
	uint8_t padding1[116];
};
#define G4_NVME_TOLD_READY 1u /* the queue is there */
#define G4_NVME_TOLD_LOST 2u  /* what was acknowledged before may be gone */
#define G4_NVME_TOLD_DEAD 4u  /* for good; the controller touches no memory */
#define G4_NVME_TOLD_SHUT 8u  /* their namespace is not what it was: nothing is written to it any more */
#define G4_NVME_SAID_LOST 1u  /* of what lanes wrote something may be gone */
#define G4_NVME_RESET_SHIFT 8u
#define G4_NVME_AGAIN 0x80000000u

struct g4_nvme_lanes {
	struct g4_nvme_flight flight;
	uint8_t *lists, *staging;
	struct g4_nvme_talk *talk;
	uint64_t shift; /* what is added to an address for the controller's */
	uint64_t chunk_bytes;
	uint64_t timeout_ns;
	uint64_t first_block; /* of what the device is, in its namespace */
	struct g4_nvme_sizes sizes;
	uint32_t nsid;
	uint32_t block_shift;
	uint32_t idle;	  /* looks without a completion since the last check; of the poller, and so are those below */
	uint32_t reset;	  /* the last one that lanes know of */
	uint32_t late;	  /* what was said last */
	uint32_t stopped; /* 1: they are quiet, as the host wants it; read by others */
	struct g4_nvme_cache cache; /* of the first queue, for all */
	uint8_t padding[104];
};
G4_STATIC_ASSERT(sizeof(struct g4_nvme_lanes) % 128 == 0 && sizeof(struct g4_remote) % 16 == 0,
		 "commands are aligned, also where one lies behind the other");

/* For remote.c, all per-lane. How many of `left` bytes at an offset one command moves, at most a chunk. */
G4_FN uint64_t g4_nvme_lanes_cut(const struct g4_nvme_lanes *lanes, uint64_t offset, uint64_t left, bool writes);
/* Whether a discard of these bytes has a granule that the drive discards: if not, there is nothing to post. */
G4_FN bool g4_nvme_lanes_discards(const struct g4_nvme_lanes *lanes, uint64_t offset, uint64_t bytes);
/* Starts what a slot is to do; its holder alone. */
G4_FN void g4_nvme_lanes_post(struct g4_nvme_lanes *lanes, uint32_t slot, const struct g4_remote_request *request);
/* Its holder: whether that has ended, and *code, 0 or negative, with what. */
G4_FN bool g4_nvme_lanes_ended(const struct g4_nvme_lanes *lanes, uint32_t slot, int32_t *code);
/*
 * One at a time. Looks so many times, or until something has ended, whose holders can see it then; how much that was. `own` is a slot of
 * the caller's, whose end is cheaper to tell, or G4_NVME_NO_SLOT.
 */
G4_FN uint32_t g4_nvme_lanes_take(struct g4_nvme_lanes *lanes, uint32_t looks, uint32_t own);
#define G4_NVME_NO_SLOT UINT32_MAX
/*
 * Before anybody uses it. Reads the device's beginning, g4_nvme_lanes_try_bytes(), into slot 0's chunk. -G4_E_AGAIN: no answer within `ns`;
 * the slot's command may be under way still, and nobody uses the queue any more.
 */
G4_FN int g4_nvme_lanes_try(struct g4_nvme_lanes *lanes, uint64_t ns);
G4_FN uint64_t g4_nvme_lanes_try_bytes(const struct g4_nvme_lanes *lanes);
/* Thread-safe. Whether its queue is quiet because the host resets the controller: then others of the controller have to be, too. */
G4_FN bool g4_nvme_lanes_alarm(const struct g4_nvme_lanes *lanes);
/* One at a time. Looks at what the host says, at once. */
G4_FN void g4_nvme_lanes_attend(struct g4_nvme_lanes *lanes);

#endif
