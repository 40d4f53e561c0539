/* SPDX-License-Identifier: Apache-2.0 */
/* The engine on a GPU, as the host sees it. Host only. */
#ifndef G4_CUDA_HOST_H
#define G4_CUDA_HOST_H

#include "fs/mount_host.h"
#include "ring/session_host.h"

struct g4_ring_client;
struct g4_gpu_control;

/* A file system that is mounted on a GPU. */
struct g4_cuda_engine {
	struct g4_session_engine sessions; /* how it serves them */
	struct g4_ring_client *ring;	   /* this process's way in */
	void *fs;			   /* in device memory: where kernels of this process find the file system */
	uint32_t scratch_bytes;		   /* that a workgroup of such a kernel needs */
	struct g4_gpu_control *control;	   /* what host and kernel share, for benchmarks */
	const uint64_t *epochs;		   /* for clients in this process (inode/trail.h); NULL: none */
	bool tier;			   /* the cache has a second tier, in the host's memory */
};

struct g4_cuda_options {
	struct g4_fs_options fs;
	uint32_t commit_ms; /* longest time that a change stays uncommitted */
	uint32_t sms;	    /* multiprocessors to use at most; 0: all, or half of them under MPS */
	bool wants_queues;  /* the device was opened with queues for it (dev_host.h): that it has none is told */
};

/*
 * Mounts on the GPU. On failure the device stays the caller's and holds what it held, so that the CPU engine can mount it.
 * -G4_E_NOTSUP: there is no GPU, or this build has no CUDA engine.
 */
int g4_cuda_mount(struct g4_dev *dev, const struct g4_cuda_options *options, struct g4_cuda_engine **out, char *message,
		  size_t message_bytes);
/* Ends it and closes the device. clean: after writing everything, and marking the image clean; the first error met. */
int g4_cuda_unmount(struct g4_cuda_engine *engine, bool clean);
/* It has callers of the device API from now on (device/caller.h), or no more of this caller's: calls come in pairs. */
void g4_cuda_visit(struct g4_cuda_engine *engine, bool begin);

#endif
