/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of data with several owners. How many a page has beyond the first is counted by its address: an allocation map leads
 * to a page of its group, that to a page of counts for each region in which anything is shared (FORMAT.md, "Owners"). Pages
 * that nobody shares cost one load.
 *
 * Leader, in a transaction, thread-safe: counts are changed under a lock of their group, which is taken while inode locks are
 * held and is left before anything else is waited for but a read of metadata.
 */
#ifndef G4_SHARE_H
#define G4_SHARE_H

#include "alloc/alloc.h"
#include "format/owners.h"

/* Metadata blocks that one call of the first two changes beside those that g4_alloc_free() does: both pages, made or freed. */
#define G4_SHARE_CREDITS 6u

/*
 * Pages of one region that are in use get an owner more. -G4_E_NOSPC: there is no page for the counts; -G4_E_MLINK: one has as
 * many owners as can be counted; -G4_E_CORRUPT_MAP: one is not in use, or can be no file's. Nothing has changed then.
 */
G4_FN int g4_share_acquire(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address address,
			   uint64_t pages);
/* Pages of one region lose an owner; those that had one only are freed. Needs no space. */
G4_FN int g4_share_release(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address address,
			   uint64_t pages);
/* Whether anything is shared in the groups that pages lie in: 0, 1, or an error. No transaction. */
G4_FN int g4_share_any(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_address address, uint64_t pages);
/* 1: a page of data is somebody's in the disk view, 0: nobody's, or an error. Right while the caller's transaction lasts, if 0. */
G4_FN int g4_share_is_used(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_address address);
/*
 * Where the counts of a group stand now: its page of shares, then its pages of owners, as far as they can be read. No transaction.
 * *count of them; a negative code if the map can not be read.
 */
#define G4_SHARE_PLACES (1u + G4_GROUP_REGIONS)
G4_FN int g4_share_places(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t group,
			  struct g4_address places[G4_SHARE_PLACES], uint32_t *count);
/* Writes all counts of a group anew, to all copies. Metadata blocks that it changes: G4_SHARE_PLACES. */
G4_FN int g4_share_rewrite(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, uint64_t group);

#endif
