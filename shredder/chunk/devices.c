/* SPDX-License-Identifier: Apache-2.0 */
/* Which device engines there are. */
#include "chunk/devices.h"

bool shredder_device_known(const char *name)
{
	return strcmp(name, "cuda") == 0;
}

const struct shredder_device_ops *shredder_device_find(const char *name)
{
#ifdef SHREDDER_CUDA
	if (name == NULL || strcmp(name, "cuda") == 0)
		return &shredder_device_cuda;
#else
	(void)name;
#endif
	return NULL;
}
