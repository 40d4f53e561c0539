/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a fuzzed client may change its memory under the engine's eyes: ring_hooked.c is ring.c and execute.c of src/ring with these
 * in the place of g4_copy(), by which everything is fetched and given back, and of g4_execute().
 */
#ifndef RING_HOOKS_H
#define RING_HOOKS_H

#include "fs/fs.h"

void hooked_copy(struct g4_wg *wg, void *to, const void *from, uint64_t bytes);
int hooked_execute(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);

#endif
