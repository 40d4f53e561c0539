/* SPDX-License-Identifier: Apache-2.0 */
/* Rebuilding a disk of a file system that nobody uses. Host only. */
#ifndef G4_REBUILD_HOST_H
#define G4_REBUILD_HOST_H

#include "space/set_host.h"

/*
 * As g4_set_rebuild_open(), to the end. The file system is mounted for that here, and what is in use is made; all of the disk is where
 * the file system can not be mounted for writing, or had errors, which is logged as a warning. progress: a started bar, or NULL. *disk: its number. On failure a code and a sentence; if it had begun
 * it goes on with the next call or mount, unless the disk failed.
 */
int g4_rebuild_offline(const char *const *names, uint32_t count, bool rebuild, struct g4_progress *progress,
		       uint32_t *disk, char *message, size_t message_bytes);

#endif
