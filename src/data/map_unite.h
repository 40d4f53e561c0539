/* SPDX-License-Identifier: Apache-2.0 */
/* Indirect pages of two files that lead to the same become one (FORMAT.md, "Shared indirect pages"). Leader; both inodes are write-locked. */
#ifndef G4_MAP_UNITE_H
#define G4_MAP_UNITE_H

#include "inode/mounted.h"

/*
 * Of `pages` from `from_page` on, and from `to_page` on, which were the same a moment ago: the indirect pages of level 1 above them. Where both files
 * lead to the same pages by all slots of one, with the same sums, the target leads to the source's, and its own goes: contents, size and times stay.
 * What can not be is left, and is no error. -G4_E_AGAIN: there is one, and the feature SHARED_MAPS is needed. Outside of transactions.
 */
G4_FN int g4_map_unite(struct g4_wg *wg, struct g4_fs *fs, uint32_t from, uint64_t from_page, uint32_t to,
		       uint64_t to_page, uint64_t pages);

#endif
