/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of pages in the GPU's memory: what sums.cu does for sums_host.c. */
#ifndef G4_TEST_GPU_SUMS_H
#define G4_TEST_GPU_SUMS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a program of this size is called with is done once, as often as `repeat` says; the result is the median in seconds. */
enum sums_work {
	SUMS_OF_PAGES,	     /* 4 KiB each */
	SUMS_OF_2M_PAGES,    /* those, and hashes over 512 of them each */
	SUMS_OF_1G_PAGES,    /* those, and hashes over 512 of these each */
	SUMS_BY_ANY_BUFFERS, /* of 4 KiB pages by g4_blake3_group() */
	SUMS_ONLY_COMPRESS,  /* as many compressions of BLAKE3 as leaves have, without memory */
	SUMS_ONLY_READ,	     /* the data, read */
};

/* Allocates `bytes` of the GPU's memory, a multiple of 1 GiB, and fills it with numbers that look random. */
bool sums_gpu_open(uint64_t bytes);
void sums_gpu_close(void);
/* Copies the first `bytes` bytes of the data. */
bool sums_gpu_fetch(void *to, uint64_t bytes);
/*
 * Sums of `count` buffers of `pages` times 4 KiB each, of which number i begins at page at[i]: into sums, 32 bytes each. A workgroup makes
 * `batch` of them in one call.
 */
bool sums_gpu_some(uint32_t algorithm, uint32_t count, const uint64_t *at, uint32_t pages, uint32_t batch,
		   uint8_t (*sums)[32]);
/* Seconds: the median of `repeat` times the work on all data. Below 0: it failed. */
double sums_gpu_time(enum sums_work work, uint32_t algorithm, uint32_t repeat);
/* The last hash of SUMS_OF_2M_PAGES or SUMS_OF_1G_PAGES over the data, of number i: 24 bytes. */
bool sums_gpu_hash(enum sums_work work, uint64_t i, uint8_t hash[24]);
/* Seconds that one workgroup alone takes for the sum of one page, the mean of `repeat` pages one after the other. */
double sums_gpu_latency(uint32_t algorithm, uint32_t repeat);

#ifdef __cplusplus
}
#endif
#endif
