/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of pages in host memory by a GPU, for what hashes much and keeps nobody waiting (docs/design/hashing.md). Host only. */
#ifndef G4_GPU_SUMS_HOST_H
#define G4_GPU_SUMS_HOST_H

#include "hash/page_hasher_host.h"

#define G4_GPU_SUMS_SLOTS 3u /* that a thread should have: one is filled, one hashed, one looked at */

/* Bytes a second. */
struct g4_gpu_sums_rates {
	double copy, hash; /* of one thread: copying pages, and their sums */
	double gpu;	   /* sums by the GPU, the way there and back included */
};
/*
 * Whether so many bytes are read and hashed faster by so many threads and the GPU, which takes `start` seconds before it begins, than
 * by the threads alone. Each of them reads what it hashes, which takes at least as long as a copy.
 */
bool g4_gpu_sums_pay(const struct g4_gpu_sums_rates *rates, uint32_t threads, uint64_t bytes, double start);

/*
 * For `threads` threads that will compare so many bytes. always: whatever is faster. NULL: there is no GPU, or it is not worth it, and
 * why[] says so in a sentence. It ends with g4_gpu_sums_close(), when nothing is under way.
 */
struct g4_page_hasher *g4_gpu_sums_open(uint32_t threads, uint64_t bytes, bool always, char *why, size_t why_bytes);
/* NULL is ignored. */
void g4_gpu_sums_close(struct g4_page_hasher *hasher);

#endif
