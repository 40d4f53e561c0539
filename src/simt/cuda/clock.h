/* SPDX-License-Identifier: Apache-2.0 */
/* Host side of the cuda build's clock. */
#ifndef G4_SIMT_CUDA_CLOCK_H
#define G4_SIMT_CUDA_CLOCK_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Measures the difference between the current device's clock and CLOCK_REALTIME, to a few microseconds, and makes
 * g4_realtime_ns() on the device use it. Takes turns with a running engine on another stream. Returns what CUDA said.
 */
cudaError_t g4_clock_sync(cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
