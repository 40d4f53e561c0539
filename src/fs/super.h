/* SPDX-License-Identifier: Apache-2.0 */
/* The superblocks of a mounted file system. Leader, which has set `resizing` of struct g4_fs, which guards them. */
#ifndef G4_SUPER_H
#define G4_SUPER_H

#include "inode/mounted.h"

/* The superblock as it is in memory, durably, to one place: also its generation, that of what was home at the mount. */
G4_FN int g4_super_write(struct g4_wg *wg, struct g4_fs *fs, struct g4_address address);
/*
 * Adds an incompatible feature, durably, before anything on disk needs it. -G4_E_BUSY: the size is just changing. Crash in between:
 * the first copy has it or not, and nothing needs it yet.
 */
G4_FN int g4_super_add_feature(struct g4_wg *wg, struct g4_fs *fs, uint64_t feature);

#endif
