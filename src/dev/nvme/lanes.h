/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue of an NVMe controller behind a remote device (dev/remote.h), in the place of the I/O agent: the engine's own lanes write
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
 * All of the host's memory has one address for lanes, host and controller. Data goes through the slot's chunk: a controller cannot
 * be told of the engine's memory where that is a GPU's.
 *
 * Lanes give a controller up that is silent or has failed: from then on all requests fail. They cannot stop it. So chunks stay the
 * controller's until the host has done that.
 */
#ifndef G4_DEV_NVME_LANES_H
#define G4_DEV_NVME_LANES_H

#include "dev/nvme/requests.h"
#include "dev/remote.h"

#define G4_NVME_LANE_SLOTS (G4_NVME_ENTRIES_MOST / 2)

struct g4_nvme_lane_slot {
	struct g4_remote_request request;
	uint64_t since_ns;
	uint32_t under_way; /* 1 + the identifier of its command; 0: nothing */
	uint32_t turn;
	uint32_t tries;
	uint8_t padding[44];
};
G4_STATIC_ASSERT(sizeof(struct g4_nvme_lane_slot) == 128, "no two slots share a cache line");

struct g4_nvme_lane_end {
	uint32_t slot;
	int32_t code; /* 0 or negative */
};

struct g4_nvme_lanes {
	struct g4_nvme_pair pair;
	struct g4_nvme_lane_slot slot[G4_NVME_LANE_SLOTS];
	uint8_t *lists, *staging;
	uint64_t chunk_bytes;
	uint64_t timeout_ns;
	uint32_t slots;
	uint32_t nsid;
	uint32_t block_shift;
	uint32_t idle;	      /* looks without a completion; of who looks */
	const uint32_t *gone; /* in memory of the host: not 0 once it has stopped the controller; */
	uint32_t *given_up;   /* lanes have not waited for that, and it still has to */
	uint32_t dead;	      /* of who looks: nothing comes any more */
	struct g4_nvme_counts counts;
	uint8_t padding[12];
};

/* For remote.c, all per-lane. Starts what a slot is to do; its holder alone. */
G4_FN void g4_nvme_lanes_post(struct g4_nvme_lanes *lanes, uint32_t slot, const struct g4_remote_request *request);
/* One at a time: slots whose requests have ended, at most so many; how many. */
G4_FN uint32_t g4_nvme_lanes_take(struct g4_nvme_lanes *lanes, struct g4_nvme_lane_end ended[G4_NVME_TAKE_MOST]);

#endif
