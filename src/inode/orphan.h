/* SPDX-License-Identifier: Apache-2.0 */
/* The orphan list: inodes that were removed but are in use, or are being truncated. */
#ifndef G4_ORPHAN_H
#define G4_ORPHAN_H

#include "inode/mounted.h"

/* In a transaction, of a write-locked inode; both log it. Neither does anything where it is on the list, or not on it, already. */
G4_FN int g4_orphan_add(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, uint32_t index);
G4_FN int g4_orphan_remove(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, uint32_t index);

#endif
