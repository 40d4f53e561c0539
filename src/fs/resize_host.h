/* SPDX-License-Identifier: Apache-2.0 */
/* Another size of a file system that nobody uses. Host only. */
#ifndef G4_RESIZE_HOST_H
#define G4_RESIZE_HOST_H

#include "fs/mount_host.h"

/*
 * Mounts what is on a device, which the caller has for itself, gives it another size and unmounts it; what the device lies
 * on follows, if it is a regular file. bytes 0: what the device has. *result: the size that it has now. On failure a
 * sentence in message.
 */
int g4_resize_device(struct g4_dev *dev, uint64_t bytes, uint64_t *result, char *message, size_t message_bytes);
/*
 * The disk of a set that was added last is none of it any more; the caller has the set for itself. *result: the size that the
 * file system has now. -G4_E_NOSPC: something lies on it, which is not moved. On failure a sentence in message.
 */
int g4_remove_disk(struct g4_dev *set, const char *name, uint64_t *result, char *message, size_t message_bytes);
/* Why a size was refused. */
void g4_resize_explain(int code, uint64_t bytes, uint64_t limit, char *message, size_t message_bytes);

#endif
