/* SPDX-License-Identifier: Apache-2.0 */
/* What two publishers have listed at the same time. */
#ifndef G4_TWICE_H
#define G4_TWICE_H

#include "inode/txn.h"

/*
 * In the transaction that has listed them, all of them: new pages of a file in a row, of which g4_hints_insert() says where others have listed the same since the table was
 * asked; 0: nowhere. The file leads there then, and its own page goes. What the credits, or the room, do not suffice for stays.
 */
G4_FN int g4_twice_yield(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			 uint64_t page, uint32_t pages, const struct g4_sum_entry *sums, const uint64_t *others);

#endif
