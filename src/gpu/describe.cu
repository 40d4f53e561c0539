/* SPDX-License-Identifier: Apache-2.0 */
/* What the host asks about the GPU before it makes anything there, and how it leaves no trace. */
#include <cuda.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>

#include "gpu/gpu.h"

/* The driver is asked, through the runtime: programs are not linked with it, since it comes with the GPU. */
static bool has_context(void)
{
	CUresult (*get_state)(CUdevice, unsigned int *, int *) = NULL;
	cudaDriverEntryPointQueryResult found;
	unsigned int flags;
	int active = 0;

	if (cudaGetDriverEntryPointByVersion("cuDevicePrimaryCtxGetState", (void **)&get_state, 7000, cudaEnableDefault,
					     &found) != cudaSuccess ||
	    found != cudaDriverEntryPointSuccess || get_state(0, &flags, &active) != CUDA_SUCCESS) {
		(void)cudaGetLastError();
		return true;
	}
	return active != 0;
}

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
	out->context = has_context();
	return true;
}

extern "C" void g4_gpu_leave(void)
{
	int device = -1;

	/* choosing a device would make a context there; g4_gpu_open() has chosen it, if it was called */
	if (cudaGetDevice(&device) == cudaSuccess && device == 0)
		(void)cudaDeviceReset();
	(void)cudaGetLastError(); /* nobody asked for anything that could have failed */
}
