/* SPDX-License-Identifier: Apache-2.0 */
/* New inodes: what they are like; those that were made in a transaction under way. */
#ifndef G4_CREATE_H
#define G4_CREATE_H

#include "fs/cred.h"
#include "inode/mounted.h"

/*
 * Takes an inode back that could not get its name, in the same transaction, and lets go of it. Where that fails the transaction
 * must not commit.
 */
G4_FN int g4_undo_new_inode(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, uint32_t index);
/*
 * What a directory would be like that MKDIR makes in a locked one, but for its number, its generation and its parent; it is empty. false:
 * it takes more than an inode, for it inherits access lists.
 */
G4_FN bool g4_new_directory(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *parent,
			    const struct g4_cred *cred, uint32_t mode, struct g4_inode *inode);

#endif
