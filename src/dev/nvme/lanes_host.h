/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A controller's queues for lanes of an engine (lanes.h): their memory, and a thread that looks after the controller meanwhile, which
 * lanes cannot do. It has no part in requests, and sleeps nearly always. Host only.
 */
#ifndef G4_DEV_NVME_LANES_HOST_H
#define G4_DEV_NVME_LANES_HOST_H

#include "dev/dev_ops_host.h"
#include "dev/nvme/lanes.h"

#ifdef __cplusplus
extern "C" {
#endif

struct g4_nvme_keeper;

struct g4_nvme_lanes_options {
	uint32_t slots; /* requests at a time in each queue; 0: 256 in all, of one queue as many as it has */
	uint64_t
		chunk_bytes; /* staging memory of each, a multiple of 4 KiB; 0: 256 KiB; less where the controller takes less */
	uint64_t timeout_ns; /* 0: the device's */
};

/*
 * For `inner`, which stays the caller's; its own functions still work, through other queues. NULL: defaults. -G4_E_NOTSUP, and why in a
 * sentence, which goes on behind the device's name: it is no controller, has no queue to spare, or does not reach the queues' memory.
 */
int g4_nvme_keeper_open(struct g4_dev *inner, const struct g4_nvme_lanes_options *options, struct g4_nvme_keeper **out,
			struct g4_dev_message why);
/*
 * Lanes use it no more, though a command of theirs may be under way: its memory stays until it is closed, and the queues are the host's, which makes them
 * anew when it resets the controller.
 */
void g4_nvme_keeper_abandon(struct g4_nvme_keeper *keeper);
/* Lanes use it no more, whether commands of theirs are under way or not: its memory stays until the controller is stopped. NULL is ignored. */
void g4_nvme_keeper_close(struct g4_nvme_keeper *keeper);

/*
 * What lanes have to address as the host does: piece `index` of G4_NVME_KEEPER_PIECES. *io: it is a device's registers, and no memory; this
 * process has used each page of it.
 */
#define G4_NVME_KEEPER_PIECES 3u
void *g4_nvme_keeper_memory(const struct g4_nvme_keeper *keeper, uint32_t index, uint64_t *bytes, bool *io);
/* Queues of the keeper: the engine has so many struct g4_nvme_lanes, and so many struct g4_remote. */
uint32_t g4_nvme_keeper_queues(const struct g4_nvme_keeper *keeper);
/* Fills in the engine's side, for an engine that will have lanes[] and remote[] at `lanes_at` and `remote_at`. Once. */
void g4_nvme_keeper_describe(const struct g4_nvme_keeper *keeper, struct g4_nvme_lanes *lanes,
			     struct g4_nvme_lanes *lanes_at, struct g4_remote *remote, struct g4_remote *remote_at,
			     struct g4_dev *dev);
/* Resting: no lanes are at work, or few. It begins so. Thread-safe. */
void g4_nvme_keeper_rest(struct g4_nvme_keeper *keeper, bool resting);

/*
 * A device of this process whose requests go through lanes' code, for tests of drives and of the code. They need a workgroup. It owns `inner`; on
 * failure, which is as of the keeper's, that stays the caller's.
 */
int g4_dev_lanes_open(struct g4_dev *inner, const struct g4_nvme_lanes_options *options, struct g4_dev **out,
		      struct g4_dev_message why);
/* What its lanes have counted, in all queues; and the first queue's lanes themselves. */
struct g4_nvme_counts g4_dev_lanes_counts(const struct g4_dev *dev);
struct g4_nvme_lanes *g4_dev_lanes_of(const struct g4_dev *dev);

#ifdef __cplusplus
}
#endif

#endif
