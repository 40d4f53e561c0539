/* SPDX-License-Identifier: Apache-2.0 */
/* Parity in the GPU's memory: what parity.cu does for parity_host.c. */
#ifndef G4_TEST_GPU_PARITY_H
#define G4_TEST_GPU_PARITY_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum parity_work {
	PARITY_ENCODE,
	PARITY_VERIFY,
	PARITY_UPDATE,	    /* of one data chunk: old and new contents */
	PARITY_RECONSTRUCT, /* of as many data chunks as there are parities */
	PARITY_READ,	    /* the data, alone */
};

/* Allocates `bytes` of the GPU's memory and fills it with numbers that look random. */
bool parity_gpu_open(uint64_t bytes);
void parity_gpu_close(void);
/* Bytes a second of the GPU's memory, by its clock and width; 0: the driver does not say. */
double parity_gpu_nominal(void);
/*
 * One call by one workgroup, of chunks that are copied to the GPU and back: chunk i lies shift[i] bytes behind a multiple of 64 there. `lost`
 * and NULL chunks are those of g4_parity_reconstruct(). For PARITY_UPDATE the n terms are the chunks behind the k + m. *result: what
 * it returns.
 */
struct parity_call {
	enum parity_work work;
	uint32_t k, m, n;
	uint64_t lost, bytes;
	void *chunk[128];
	uint32_t shift[128], term[64];
	uint64_t result;
};
bool parity_gpu_call(struct parity_call *call);
/*
 * Seconds: the median of `repeat` times the work on all stripes of k and m disks that fill the memory, by as many workgroups as the
 * GPU holds, in calls of `bytes` bytes a chunk. Below 0: it failed. *moved: the bytes that are read and written.
 */
double parity_gpu_time(enum parity_work work, uint32_t k, uint32_t m, uint64_t bytes, uint32_t repeat, double *moved);
/* Seconds for a copy of half the memory into the other half by the driver, the median; *moved: bytes read and written. */
double parity_gpu_copy_time(uint32_t repeat, double *moved);

#ifdef __cplusplus
}
#endif
#endif
