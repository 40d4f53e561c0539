/* SPDX-License-Identifier: Apache-2.0 */
/* Directories that lose names lose pages, too. */
#ifndef G4_SHRINK_H
#define G4_SHRINK_H

#include "dir/dir.h"

/*
 * Blocks that g4_dir_shrink() changes at most: of each of three levels two pages, of index pages their parent's being the next
 * level's; the root; and where the pages that it frees are counted: one a level, and one more, of a map page and a descriptor each.
 */
#define G4_DIR_SHRINK_CREDITS (3 * 2 + 1 + 4 * 2)

/* Blocks that g4_dir_shrink() changes at most once the name that a lookup has found is gone; 0: there is nothing to do for it. */
G4_FN uint32_t g4_dir_shrink_credits(const struct g4_dir *dir, const struct g4_dir_slot *slot, uint32_t name_bytes);
/* The same as a question, beside others: whether the leaf would be united then. beside: what g4_dir_used_beside() has said. */
G4_FN bool g4_dir_shrinks(const struct g4_dir *dir, const struct g4_dir_slot *slot, uint32_t name_bytes,
			  uint32_t beside);
/*
 * Names have gone from the leaf for a position: it is united with a neighbour where both fit half a page, and what that does to the
 * index pages above is put right. Slots of lookups do not hold behind it. dir->root and dir->pages may change: store them in
 * the transaction. What cannot be read or makes no sense stays as it is, and is no error: nobody asked for it.
 */
G4_FN int g4_dir_shrink(struct g4_wg *wg, struct g4_dir *dir, struct g4_txn *txn, uint64_t position);
/*
 * The same for one place where names may have gone, from *from on and before `until`: a run of leaves without names, at most `most`, or a
 * leaf that is united with a neighbour. How many leaves went; 0: there was nothing to do, and *from is where to go on, UINT64_MAX
 * at the end. *looks: of leaves to which nothing happens, how many there may be yet. Blocks: G4_DIR_SHRINK_CREDITS, and three for each leaf.
 */
G4_FN int g4_dir_shrink_some(struct g4_wg *wg, struct g4_dir *dir, struct g4_txn *txn, uint64_t *from, uint64_t until,
			     uint32_t most, uint32_t *looks);
/* Frees one page of an empty directory; 1 while there may be more, 0 when none is left. */
G4_FN int g4_dir_free_page(struct g4_wg *wg, struct g4_dir *dir, struct g4_txn *txn);

#endif
