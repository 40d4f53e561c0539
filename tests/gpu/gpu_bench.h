/* SPDX-License-Identifier: Apache-2.0 */
/* Between the halves of the GPU benchmark: gpu_bench_host.c has clients and files, gpu_bench.cu kernels that call the engine. */
#ifndef GPU_BENCH_H
#define GPU_BENCH_H

#include "base/base.h"

enum gpu_bench_work {
	GPU_BENCH_DIRECTORIES, /* for MAKE; count: those of a warp */
	GPU_BENCH_MAKE,	       /* every warp makes `count` files in directories of its own */
	GPU_BENCH_LOOKUP,      /* looks names up at random, that MAKE has made */
	GPU_BENCH_READ,	       /* 4 KiB at random offsets of one file, from the cache */
	GPU_BENCH_NOTHING      /* NOP through g4_execute() */
};

struct gpu_bench_job {
	uint32_t work;
	uint32_t warps;
	uint32_t count;	    /* operations a warp */
	uint32_t directory; /* files in a directory */
	uint64_t file;	    /* READ: inode */
	uint64_t bytes;	    /* READ: its size */
};

struct gpu_bench_result {
	double seconds;
	uint64_t done;
	int64_t first_error;
};

#ifdef __cplusplus
extern "C" {
#endif

/* Runs a job beside the engine's kernel. False: CUDA failed, as it says. */
bool gpu_bench_run(void *fs, const struct gpu_bench_job *job, struct gpu_bench_result *result);
/* Blocks of warps that fit beside the engine. */
uint32_t gpu_bench_multiprocessors(void);

#ifdef __cplusplus
}
#endif

#endif
