/* SPDX-License-Identifier: Apache-2.0 */
/* Which chunks of a set are of which level, for the allocator's pools: levels.c. */
#ifndef G4_LEVELS_H
#define G4_LEVELS_H

#include "inode/mounted.h"

/*
 * What lies behind an address of the space gets the pools of its chunks, and the file system its own level. Before anybody
 * uses the memory view, or what is behind its end. Leader, without requests under way.
 */
G4_FN int g4_levels_apply(struct g4_wg *wg, struct g4_fs *fs, uint64_t from);

#endif
