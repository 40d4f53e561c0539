/* SPDX-License-Identifier: Apache-2.0 */
/* Deleting inodes. */
#ifndef G4_DELETE_H
#define G4_DELETE_H

#include "inode/mounted.h"

/*
 * Deletes an inode without links, openers and holders; cuts the work into transactions. Takes the in-core inode's lock. 0 also where the device does not
 * give some of what it has: what can be reached is free then, and the inode is not dead and on the orphan list still. Leader.
 */
G4_FN int g4_inode_delete(struct g4_wg *wg, struct g4_fs *fs, uint32_t index);

#endif
