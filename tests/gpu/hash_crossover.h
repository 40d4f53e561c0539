/* SPDX-License-Identifier: Apache-2.0 */
/* Between the halves of the hash benchmark: hash_crossover_host.c has the CPU's side and the figures, hash_crossover.cu the GPU's. */
#ifndef HASH_CROSSOVER_H
#define HASH_CROSSOVER_H

#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HASH_PAGE_BYTES 4096u

/* Where the pages are: in host memory, page-locked or not, or in the GPU's, where nothing is copied but digests. */
enum hash_place { HASH_PINNED, HASH_PAGEABLE, HASH_DEVICE, HASH_PLACES };

/* Room for batches of so many bytes. False: CUDA failed, and standard error says how. */
bool hash_gpu_open(uint64_t most_bytes);
void hash_gpu_close(void);
/* Page-locked memory, or NULL. */
void *hash_gpu_pinned(uint64_t bytes);
/* Copies the data to the GPU, for HASH_DEVICE. */
bool hash_gpu_place(const void *data, uint64_t bytes);
/*
 * BLAKE3 of each page of data[bytes], into page-locked digests[], and waits for them. HASH_DEVICE: of the placed data from
 * byte `at` on.
 */
bool hash_gpu_pages(enum hash_place place, const void *data, uint64_t at, uint64_t bytes, uint8_t (*digests)[32]);

#ifdef __cplusplus
}
#endif

#endif
