/* SPDX-License-Identifier: Apache-2.0 */
/* Making changes durable. Leader. */
#ifndef G4_SYNC_H
#define G4_SYNC_H

#include "inode/mounted.h"

/* Data and metadata of one inode. */
G4_FN int g4_fsync(struct g4_wg *wg, struct g4_fs *fs, uint32_t index);
/* Everything. */
G4_FN int g4_sync_all(struct g4_wg *wg, struct g4_fs *fs, bool checkpoint);
/* Writes back the dirty inodes that were queued when it was called. */
G4_FN int g4_writeback_all(struct g4_wg *wg, struct g4_fs *fs);

#endif
