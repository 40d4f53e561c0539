/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for the GPU half of the CUDA engine (gpu/gpu.h), in threads: so the host's half, cuda_host.c, is tested
 * on machines without a GPU. "Device" memory is memory. What the host's half depends on is as it is with CUDA: the kernel
 * leaves when idle or told to, memory that is registered is taken back only while no kernel runs, and a kernel that
 * faulted leaves commands without results.
 */
#ifndef STAND_IN_GPU_H
#define STAND_IN_GPU_H

#include "gpu/gpu.h"

/* What tests ask for and look at; the words are read and written with atomics. */
struct stand_in {
	uint32_t refuse;	 /* launches fail */
	uint32_t refuse_bytes;	 /* allocations of so many bytes fail */
	uint32_t refuse_to_lock; /* host memory of so many bytes is not registered */
	uint32_t refuse_io;	 /* registers are not registered */
	uint32_t move_io;	 /* ... are, at another address */
	uint32_t lose_doorbells; /* those of lanes that are tried reach nothing */
	uint32_t misread;	 /* what they read does not arrive in their chunks */
	uint32_t fault;		 /* the kernel ends at once, without finishing anything, and waiting for it fails */
	uint32_t launches;	 /* that succeeded */
	uint32_t running;	 /* kernels */
	uint32_t registered;	 /* pieces of host memory, and of registers */
	uint32_t registered_io;	 /* of registers alone, ever */
	uint64_t registers;	 /* those that are registered now, at most one piece; 0: none */
	uint32_t blocked;	 /* how often taking one back had to wait for a kernel */
	uint32_t allocated;	 /* pieces of device memory */
};
extern struct stand_in stand_in;

#endif
