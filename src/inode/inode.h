/* SPDX-License-Identifier: Apache-2.0 */
/* Inodes on disk: making, logging and freeing them. */
#ifndef G4_INODE_H
#define G4_INODE_H

#include "inode/mounted.h"

/* Allocates an inode in a transaction; *index is referenced and write-locked; disk is set up but not yet logged. */
G4_FN int g4_inode_new(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, uint32_t mode, uint32_t *index);
/* Puts inode->disk into its slab. The in-core inode is write-locked. */
G4_FN int g4_inode_log(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode);
/*
 * Makers side by side: what a change of names in a directory does to its inode, in memory and in its slab, by additions that need no
 * order. The directory is locked, shared is enough: only holders of the exclusive lock change anything else that is logged. `slab` is
 * there from g4_inode_get_slab() to g4_txn_put(), so that this cannot fail.
 */
G4_FN int g4_inode_get_slab(struct g4_wg *wg, const struct g4_txn *txn, struct g4_inode_core *inode,
			    struct g4_txn_page *slab);
G4_FN void g4_inode_count(struct g4_txn *txn, struct g4_inode_core *inode, const struct g4_txn_page *slab, int entries,
			  int links, uint64_t now);
/* The same for a page more. */
G4_FN void g4_inode_count_page(struct g4_txn *txn, struct g4_inode_core *inode, const struct g4_txn_page *slab);
/*
 * Ends what an operation did to the attributes of a write-locked inode, which were those of `before`: logs them, or, where it
 * failed with rc or this fails, puts them back. Returns what became of it. What the operation did to the inode's pages stays,
 * and is logged all the same.
 */
G4_FN int g4_inode_settle(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			  const struct g4_inode *before, int rc);
/* Frees the slot and makes the in-core inode dead. */
G4_FN int g4_inode_free(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, uint32_t index);

#endif
