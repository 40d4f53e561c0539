/* SPDX-License-Identifier: Apache-2.0 */
/* Between the halves of the GPU benchmark: gpu_bench_host.c has clients and files, gpu_bench.cu kernels that call the engine. */
#ifndef GPU_BENCH_H
#define GPU_BENCH_H

#include "dedup/table.h"

enum gpu_bench_work {
	GPU_BENCH_DIRECTORIES, /* for MAKE; count: those of a warp */
	GPU_BENCH_MAKE,	       /* every warp makes `count` files in directories of its own */
	GPU_BENCH_MAKE_SHARED, /* the same, all in the directory `file` */
	GPU_BENCH_LOOKUP,      /* looks names up at random, that MAKE has made */
	GPU_BENCH_READ,	       /* 4 KiB at random offsets of one file, from the cache */
	GPU_BENCH_READ_ALL,    /* every page of it once, `directory` of them at a time, by all warps in turn */
	GPU_BENCH_NOTHING,     /* NOP through g4_execute() */
	/* callers of the device API, 32 operations at a time */
	GPU_BENCH_FOREST,      /* every warp makes `count` directories of `directory` files each and leaves them open */
	GPU_BENCH_FIND_ALL,    /* looks up every name of FOREST once */
	GPU_BENCH_LOOKUP_EACH, /* names of FOREST at random, with attributes */
	GPU_BENCH_INO_EACH,    /* their numbers alone */
	GPU_BENCH_OPEN,	       /* one warp opens the file /small for the next two */
	GPU_BENCH_READ_EACH,   /* 4 KiB at random offsets, from the cache to memory */
	GPU_BENCH_MAP_EACH,    /* such pages in place: every byte is looked at */
	/* the same pages, and how long each lane took until it had its page: `took` of the result */
	GPU_BENCH_ACQUIRE, /* one at a time (g4d_page_peek()), given back at once */
	GPU_BENCH_PIN_EACH /* 32 a call (g4d_map_each()), and unmapped */
};

/* Of GPU_BENCH_ACQUIRE and _PIN_EACH: minimum, quartiles with the median, 99.9 %, maximum. */
#define GPU_BENCH_PLACES 6u

/* Directories of FOREST. */
#define GPU_BENCH_DIRS 16384u

struct gpu_bench_job {
	uint32_t work;
	uint32_t warps;
	uint32_t count;	    /* operations a warp; calls, where one is 32 operations */
	uint32_t directory; /* files in a directory */
	uint64_t file;	    /* READ, MAKE_SHARED: inode; LOOKUP_EACH: so many lanes of a warp want a name, 0: all */
	uint64_t
		bytes; /* READ: its size; MAKE: number of a warp's first file; names of FOREST: their length, 0: the shortest */
};

struct gpu_bench_result {
	double seconds;
	uint64_t done;
	int64_t first_error;
	double took_ns[GPU_BENCH_PLACES];
};

/* Keys of the table of contents (src/dedup), hashes of numbers: that of number n leads to page n + 1. */
struct gpu_bench_keys {
	uint64_t first[2]; /* every other key is of a number from here on, the others from there on */
	uint64_t count;
	bool insert; /* what is not found */
	bool same;   /* all are of the first number */
};

struct gpu_bench_found {
	double seconds;
	uint64_t right, others, none; /* keys that led to their page, to another one, to nothing */
	/* afterwards */
	uint64_t slots;	  /* of the table that are in use */
	uint64_t doubles; /* of these, with a part of the hash that one before them in the bucket has, too */
};

#ifdef __cplusplus
extern "C" {
#endif

/* Runs a job beside the engine's kernel. False: CUDA failed, as it says. */
bool gpu_bench_run(void *fs, const struct gpu_bench_job *job, struct gpu_bench_result *result);
/* Zeroed memory of the GPU for a table; NULL: CUDA failed. */
void *gpu_bench_memory(uint64_t bytes);
bool gpu_bench_free(void *memory);
/* Looks all keys up, each lane of as many warps as the GPU runs at a time one after the other. *ddt: over such memory, and so afterwards. */
bool gpu_bench_table(struct g4_ddt *ddt, const struct gpu_bench_keys *keys, struct gpu_bench_found *found);
/* Blocks of warps that fit beside the engine. */
uint32_t gpu_bench_multiprocessors(void);
/* As many warps of callers of the device API as the GPU runs at a time. */
uint32_t gpu_bench_resident_warps(void);

#ifdef __cplusplus
}
#endif

#endif
