/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making the pages of metadata that counts of owners and listed pages are in, for share.c. Leader, in a transaction. What takes long is made
 * ahead, without the group's lock, so that nobody waits for it: nothing leads to such a page, and others may have made one for the same meanwhile.
 */
#ifndef G4_SHARE_MAKE_H
#define G4_SHARE_MAKE_H

#include "alloc/share_lines.h"

/* A page out of the *reserved ones, or of what is free, dirty and referenced. */
G4_FN int g4_shares_make_page(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, uint32_t type,
			      uint64_t *reserved, struct g4_address *address, uint32_t *line);

/* ---- the group's lock is held ---- */
/* Makes the page of the group, if there is none, of the *reserved ones. */
G4_FN int g4_shares_make(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, uint64_t *reserved,
			 struct g4_shares_lines *c);
/*
 * Makes a page below the group's, and that, if there is none, which is dirty then: the caller has it lead to *address.
 * -G4_E_NOSPC: there is no room, and nothing has changed.
 */
G4_FN int g4_shares_make_below(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_shares_lines *c,
			       uint32_t type, struct g4_address *address, uint32_t *line);
/* The same of the group's page alone. */
G4_FN int g4_shares_make_leader(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn,
				struct g4_shares_lines *c);

/* ---- it is not held ---- */
struct g4_shares_ahead {
	struct g4_address address;
	uint32_t line; /* referenced; G4_NO_LINE: none */
};
/* -G4_E_NOSPC: there is no room, and nothing has changed. */
G4_FN int g4_shares_make_ahead(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, uint32_t type,
			       struct g4_shares_ahead *ahead);
/* What nothing has come to lead to is free again. */
G4_FN int g4_shares_drop_ahead(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn,
			       struct g4_shares_ahead *ahead);

#endif
