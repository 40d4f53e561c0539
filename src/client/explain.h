/* SPDX-License-Identifier: Apache-2.0 */
/* What all that mounts and formats shares: refusing what the machine cannot hold, and saying what is wrong with a device. */
#ifndef G4_CLIENT_EXPLAIN_H
#define G4_CLIENT_EXPLAIN_H

#include "engine/engine.h"

/*
 * Refuses a cache, a second tier, or both together, that are larger than this machine's memory, and queues for a GPU that is not asked for: 0,
 * or -G4_E_NOMEM or -G4_E_INVAL and a sentence in message. To be asked before a device is opened or formatted. With G4_ENGINE_CUDA the card decides of the cache, at the mount;
 * G4_ENGINE_AUTO may end on the CPU and is checked. Thread-safe.
 */
int g4c_check_options(const struct g4_mount_options *options, char *message, size_t message_bytes);
/*
 * After opening, mounting or formatting the device `name` failed with `code` and the device is closed: makes the
 * sentence in message name the device and say what a user can know about it: where it is mounted, what it holds
 * instead, how large it has to be. Thread-safe.
 */
void g4c_explain(int code, const char *name, char *message, size_t message_bytes);
/* What can be done about damage that keeps a file system from being opened or mounted, to go behind the sentence about it; else "". */
const char *g4c_advice(int code);

#endif
