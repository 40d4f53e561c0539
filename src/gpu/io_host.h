/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the kernel's requests reach a device that the GPU has not mapped: through a queue of a controller that its lanes use themselves
 * (dev/nvme/lanes_host.h), or by an I/O agent (dev/agent_host.h). Host only; one thread at a time.
 */
#ifndef G4_GPU_IO_HOST_H
#define G4_GPU_IO_HOST_H

#include "dev/agent_host.h"
#include "dev/nvme/lanes_host.h"
#include "gpu/gpu.h"
#include "space/direct.h"

#define G4_GPU_IO_DISKS (2 * G4_MAX_DISKS) /* those that others took the place of stay */
struct g4_gpu_io {			   /* zeroed: there is none */
	struct g4_gpu *gpu;
	struct g4_agent *agent;
	bool agent_registered;
	struct g4_nvme_keeper *keeper;
	uint32_t keeper_registered; /* pieces of its memory */
	uint8_t *remote;     /* on the device: struct g4_remote; a keeper's, one a queue, with its lanes behind them */
	uint32_t area_count; /* as there */
	struct {	     /* of a set, where the lanes reach them: mappings of their own, until the end */
		uint8_t *at;
		uint64_t bytes;
		uint64_t opened; /* which device it is (dev_types.h) */
	} disks[G4_GPU_IO_DISKS];
	uint32_t disk_count;
	uint64_t refused; /* which one could not be had, and is not tried again; 0: none */
};

/*
 * *on_gpu: the device as the kernel sees it. `wanted`: queues of the device's were asked for, so what keeps the kernel from them, or may stand in the
 * way, is told, in a line of the log each. `direct`, of the host's mount, is before it is moved what the kernel's lanes can do by themselves. What was
 * made when it fails goes with g4_gpu_io_close().
 */
int g4_gpu_io_open(struct g4_gpu_io *io, struct g4_gpu *gpu, struct g4_dev *dev, bool wanted, struct g4_direct *direct,
		   struct g4_dev *on_gpu);
/* The kernel is not there, nor callers of the device API. Closing twice does nothing. */
void g4_gpu_io_close(struct g4_gpu_io *io);
/* Whether somebody may have requests; thread-safe. */
void g4_gpu_io_rest(struct g4_gpu_io *io, bool resting);
/*
 * An agent may move data to and from a client's data area `index`, from 1 on, without a copy: at `host`, and at `device` for the GPU.
 * 0 bytes: no longer.
 */
int g4_gpu_io_set_area(struct g4_gpu_io *io, uint32_t index, uint8_t *host, const void *device, uint64_t bytes);

#endif
