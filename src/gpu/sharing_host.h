/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which other processes compute on a GPU, as NVIDIA's management library (NVML) sees it. CUDA itself does not tell. Without that
 * library, or where it sees only this container, nobody is there. Host only.
 */
#ifndef G4_GPU_SHARING_HOST_H
#define G4_GPU_SHARING_HOST_H

#include "base/base.h"

#define G4_NVML_LIBRARY "libnvidia-ml.so.1"

struct g4_gpu_sharing;

/* `library` is looked up as dlopen(3) does, `bus_id` is the GPU's as CUDA writes it. NULL: nothing can be seen. */
struct g4_gpu_sharing *g4_gpu_sharing_open(const char *library, const char *bus_id);
/* NULL is ignored. */
void g4_gpu_sharing_close(struct g4_gpu_sharing *sharing);
/*
 * True when another process computes on the GPU: one sentence says which, what that means without MPS, and what to do.
 * present: this process has a context there and is one of those that NVML tells of. In a container it may be told with
 * its number outside, which nobody in there knows. Up to a millisecond; not thread-safe.
 */
bool g4_gpu_sharing_disturb(struct g4_gpu_sharing *sharing, bool present, char *sentence, size_t bytes);

#endif
