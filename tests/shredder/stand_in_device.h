/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device whose GPUs fail when they are told to. It keeps the contract of engine.h and computes with the portable kernels. A test that uses it
 * defines the functions of chunk/devices.h.
 */
#ifndef SHREDDER_TESTS_STAND_IN_DEVICE_H
#define SHREDDER_TESTS_STAND_IN_DEVICE_H

#include <pthread.h>

#include "chunk/engine.h"
#include "chunk/resolve.h"

#define STAND_IN_GPUS_MAX 3
#define STAND_IN_CALLERS_MAX 64
#define STAND_IN_NEVER UINT32_MAX

/* What the next device does: GPUs that it has, and the calls at which the GPU of the batch fails. */
struct stand_in_plan {
	uint32_t gpus;
	uint32_t submit_fails[2], collect_fails[2];
	uint32_t restart_fails; /* all GPUs fail at this restart */
	uint32_t declines;	/* every batch that is alone from this one on */
	uint32_t healthy;	/* a device for this GPU alone does not fail */
};
extern struct stand_in_plan plan;
/* One GPU, and nothing fails. */
extern const struct stand_in_plan all_is_well;
extern const struct shredder_device_ops stand_in_device;

struct shredder_device {
	struct shredder_device_setup setup;
	uint32_t gpus, number;
	pthread_mutex_t lock;
	bool failed[STAND_IN_GPUS_MAX];
	uint32_t turn, submits, collects, restarts;
	pthread_t callers[STAND_IN_CALLERS_MAX]; /* of submit() and collect() */
	uint32_t callers_count;
	struct shredder_resolver resolver;
	uint64_t position; /* of what is collected next */
	uint8_t *held;	   /* bytes in front of it: the open chunk's and the window's */
	uint64_t held_bytes;
	struct shredder_end *ends; /* of the batch that is collected */
	uint64_t ends_count, given;
	/* batches that are alone: those under way, the oldest first, and the one whose chunks are being handed out */
	const struct shredder_batch *alone[64], *handed;
	uint32_t alone_first, alone_end;
};
/* Batches that are alone and were answered, of all devices, and their borders. */
extern uint64_t alone_batches, alone_borders;

#endif
