/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owners that pages get beyond their first: in a region's page of counts, buffered in the group's, or for a region as a whole. Private to this folder.
 *
 * Leader, in a transaction, the group's lock held, what g4_shares_get_counts() finds referenced.
 */
#ifndef G4_SHARE_COUNT_H
#define G4_SHARE_COUNT_H

#include "alloc/share_lines.h"

/* A page of counts that was made: the group's, which is dirty, leads to it. */
G4_FN void g4_counts_lead_to(struct g4_alloc *alloc, struct g4_shares_lines *c, struct g4_address address);
/* Whether pages of c's region can have an owner more: 0, -G4_E_CORRUPT_MAP or -G4_E_MLINK. */
G4_FN int g4_counts_check(struct g4_alloc *alloc, const struct g4_shares_lines *c, uint32_t first, uint64_t pages);
/* They have one more, each in the page of counts, which is made if there is none. */
G4_FN int g4_counts_add(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_shares_lines *c,
			uint32_t first, uint64_t pages);
/* The same, or buffered ones where they are few. How many pages, from the first on. */
G4_FN int g4_counts_add_or_buffer(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn,
				  struct g4_shares_lines *c, uint32_t first, uint64_t pages);
/* The same of pages at `places` that have a bit in `listed`, in front of the page `end`, after they are checked. Where that ends. */
G4_FN int g4_counts_add_each(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_shares_lines *c,
			     const uint64_t *places, const uint64_t *listed, uint32_t end);
/* c's region has one more as a whole, in the group's page, which is made if there is none. */
G4_FN int g4_counts_add_whole(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_shares_lines *c);

#endif
