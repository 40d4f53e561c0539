/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of the CPU engine, as shredder_find_fn says. kernels.c chooses one. */
#ifndef SHREDDER_KERNELS_H
#define SHREDDER_KERNELS_H

#include "chunk/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SHREDDER_DECLARE_KERNEL(name)                                                                                  \
	bool shredder_##name##_usable(void);                                                                           \
	void shredder_find_rabin_##name(const struct shredder_rule *rule, const uint8_t *before, const uint8_t *data,  \
					uint64_t bytes, uint64_t *marks);                                              \
	void shredder_find_gear_##name(const struct shredder_rule *rule, const uint8_t *before, const uint8_t *data,   \
				       uint64_t bytes, uint64_t *marks);
SHREDDER_KERNELS(SHREDDER_DECLARE_KERNEL)
#undef SHREDDER_DECLARE_KERNEL

#ifdef __cplusplus
}
#endif

#endif
