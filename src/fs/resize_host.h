/* SPDX-License-Identifier: Apache-2.0 */
/* Another size of a file system that nobody uses. Host only. */
#ifndef G4_RESIZE_HOST_H
#define G4_RESIZE_HOST_H

#include "base/progress_host.h"
#include "fs/mount_host.h"

/*
 * Mounts what is on a device, which the caller has for itself, gives it another size and unmounts it; what the device lies
 * on follows, if it is a regular file. bytes 0: what the device has. *result: the size that it has now. On failure a
 * sentence in message.
 */
int g4_resize_device(struct g4_dev *dev, uint64_t bytes, uint64_t *result, char *message, size_t message_bytes);
/*
 * What lies on a set is spread over all of its disks; the caller has it for itself. *moved: bytes that were copied. On failure a sentence in message, and
 * the set is as it was; g4_set_balance().
 */
int g4_balance_disks(struct g4_dev *set, struct g4_progress *progress, uint64_t *moved, char *message,
		     size_t message_bytes);
/*
 * A disk of a set is none of it any more; the caller has the set for itself. What is in use of it is moved to the others, by places of chunks.
 * progress: a started bar, or NULL. *result: the size that the file system has now, without what lies nowhere. -G4_E_NOSPC: the others
 * have no room; -G4_E_INVAL: it can not be done without. On failure a sentence in message, and the set is as it was.
 */
int g4_remove_disk(struct g4_dev *set, const char *name, struct g4_progress *progress, uint64_t *result, char *message,
		   size_t message_bytes);
/* Why a size was refused. */
void g4_resize_explain(int code, uint64_t bytes, uint64_t limit, char *message, size_t message_bytes);

#endif
