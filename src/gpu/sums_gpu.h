/* SPDX-License-Identifier: Apache-2.0 */
/* Between sums_host.c and sums.cu. Functions return 0 or a negative code; what CUDA said is in g4_gpu_sums_error(). */
#ifndef G4_GPU_SUMS_GPU_H
#define G4_GPU_SUMS_GPU_H

#include "base/error.h"
#include "hash/sums.h"

#ifdef __cplusplus
extern "C" {
#endif

struct g4_gpu_sums;

/* False: there is no GPU, or no driver. */
bool g4_gpu_sums_there(void);
/* memory: of the host, for all slots; it is used by the GPU until the close. */
int g4_gpu_sums_make(void *memory, uint32_t slots, uint32_t slot_pages, struct g4_gpu_sums **out);
/* NULL is ignored. */
void g4_gpu_sums_end(struct g4_gpu_sums *gpu);
int g4_gpu_sums_start(struct g4_gpu_sums *gpu, uint32_t slot, uint32_t pages);
int g4_gpu_sums_wait(struct g4_gpu_sums *gpu, uint32_t slot, const struct g4_sum **sums);
/* The sentence for the calling thread's last failure. */
const char *g4_gpu_sums_error(void);

#ifdef __cplusplus
}
#endif
#endif
