/* SPDX-License-Identifier: Apache-2.0 */
/* Running commands. */
#ifndef G4_EXECUTE_H
#define G4_EXECUTE_H

#include "fs/command.h"
#include "inode/mounted.h"

/* Leader. Runs one command; sets cmd->status and returns it. */
G4_FN int g4_execute(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);
/* Collective. What the other lanes do meanwhile, until their leader dismisses them; and one region of that. regions.c */
G4_FN void g4_fs_serve(struct g4_wg *wg);
G4_FN void g4_fs_region(struct g4_wg *wg, const struct g4_wg_region *region);

/*
 * optimistic.c. Per-lane, waits for nothing, locks nothing. What LOOKUP and RESOLVE would answer, if the caches have it and
 * nobody changes what is on the way; false: ask them.
 */
G4_FN bool g4_optimistic_alone(const struct g4_fs *fs, const struct g4_cmd *cmd);

#endif
