/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA engine, where it is linked in. */
#ifndef SHREDDER_CUDA_ENGINE_H
#define SHREDDER_CUDA_ENGINE_H

#include "chunk/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The GPUs that CUDA shows. It needs CUDA's run-time library and a driver. Leaves a thread's current device as it was. */
extern const struct shredder_device_ops shredder_device_cuda;

#ifdef __cplusplus
}
#endif

#endif
