/* SPDX-License-Identifier: Apache-2.0 */
/* Space and in-core inodes that others hold and need not. */
#ifndef G4_FS_ROOM_H
#define G4_FS_ROOM_H

#include "fs/command.h"
#include "inode/mounted.h"

/*
 * Leader, in no operation. Whether what a command of this kind did not get, by its status, may be there now: what is dirty
 * was written back, what was freed committed. Nothing of the command was done.
 */
G4_FN bool g4_fs_make_room(struct g4_wg *wg, struct g4_fs *fs, uint32_t op, int status);

#endif
