/* SPDX-License-Identifier: Apache-2.0 */
/* Inodes that were made in a transaction under way. */
#ifndef G4_CREATE_H
#define G4_CREATE_H

#include "inode/mounted.h"

/*
 * Takes an inode back that could not get its name, in the same transaction, and lets go of it. Where that fails the transaction
 * must not commit.
 */
G4_FN int g4_undo_new_inode(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, uint32_t index);

#endif
