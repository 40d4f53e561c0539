/* SPDX-License-Identifier: Apache-2.0 */
/* The device engines that are linked in. SHREDDER_CUDA is defined where shredder/chunk/cuda/ was built. */
#ifndef SHREDDER_DEVICES_H
#define SHREDDER_DEVICES_H

#include "chunk/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifdef SHREDDER_CUDA
extern const struct shredder_device_ops shredder_device_cuda;
#endif

/* True when a device engine of that name exists, here or in another build. */
bool shredder_device_known(const char *name);
/* The device engine of that name, or the best for NULL; NULL when it was not built. */
const struct shredder_device_ops *shredder_device_find(const char *name);

#ifdef __cplusplus
}
#endif

#endif
