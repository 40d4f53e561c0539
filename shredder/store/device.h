/* SPDX-License-Identifier: Apache-2.0 */
/* Block devices that contents are written to. */
#ifndef SHREDDER_STORE_DEVICE_H
#define SHREDDER_STORE_DEVICE_H

#include "store/bytes.h"

/* A descriptor of a device that nothing else uses and that holds so many bytes; an error with a sentence. */
int store_device_open(const char *path, uint64_t bytes, bool read_only);
/* Blocks of zeros are the holes of devices. */
bool store_device_zeros(const uint8_t *data, size_t bytes);

#endif
