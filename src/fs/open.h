/* SPDX-License-Identifier: Apache-2.0 */
/* Open files. Leader. */
#ifndef G4_OPEN_H
#define G4_OPEN_H

#include "fs/command.h"
#include "inode/mounted.h"

/* Opens a referenced in-core inode as an OPEN or CREATE command says; the handle takes the reference, an error drops it. */
G4_FN int g4_open_inode(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, struct g4_cmd *cmd);
/* A handle to an inode that the caller made and has write-locked. */
G4_FN void g4_open_new(struct g4_fs *fs, uint32_t index, struct g4_cmd *cmd);

#endif
