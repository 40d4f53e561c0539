/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses a kernel of the CPU engine. */
#include "chunk/kernels.h"

static const struct {
	struct shredder_kernel kernel;
	bool (*usable)(void);
} kernels[] = {
#define KERNEL(name) {{#name, shredder_find_rabin_##name, shredder_find_gear_##name}, shredder_##name##_usable},
	SHREDDER_KERNELS(KERNEL)
#undef KERNEL
};

const struct shredder_kernel *shredder_kernel_find(const char *name)
{
	for (size_t i = sizeof(kernels) / sizeof(*kernels); i-- > 0;)
		if ((name == NULL || strcmp(name, kernels[i].kernel.name) == 0) && kernels[i].usable())
			return &kernels[i].kernel;
	return NULL;
}
