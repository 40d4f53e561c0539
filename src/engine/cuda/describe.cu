/* SPDX-License-Identifier: Apache-2.0 */
/* What the host asks about the GPU before it makes anything there. */
#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>

#include "engine/cuda/gpu.h"

extern "C" bool g4_gpu_describe(struct g4_gpu_description *out)
{
	int multiprocessors = 0, mps = 0;
	cudaDeviceProp props;

	memset(out, 0, sizeof(*out));
	if (cudaGetDeviceProperties(&props, 0) != cudaSuccess ||
	    cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0) != cudaSuccess ||
	    cudaDeviceGetPCIBusId(out->bus_id, (int)sizeof(out->bus_id), 0) != cudaSuccess) {
		(void)cudaGetLastError(); /* what is wrong shows again, and is told, when the engine starts */
		return false;
	}
	/* old drivers do not know the question */
	if (cudaDeviceGetAttribute(&mps, cudaDevAttrMpsEnabled, 0) != cudaSuccess)
		(void)cudaGetLastError();
	snprintf(out->name, sizeof(out->name), "%s", props.name);
	out->multiprocessors = (uint32_t)multiprocessors;
	out->mps = mps != 0;
	return true;
}
