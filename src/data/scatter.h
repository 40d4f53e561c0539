/* SPDX-License-Identifier: Apache-2.0 */
/* New pages and found ones by turns: what of a batch is published in one go (scatter.c). */
#ifndef G4_SCATTER_H
#define G4_SCATTER_H

#include "data/batch.h"
#include "inode/txn.h"

/*
 * In a transaction that has begun as g4_publish() begins one, the inode logged behind it: the staged batch's pages from page `inside` of segment `s` on
 * become the file's, as many as go together; *done. 0 without an error: they are to be published one segment after the other.
 */
G4_FN int g4_scatter_publish(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			     struct g4_batch *batch, uint32_t s, uint64_t inside, uint64_t *done);

#endif
