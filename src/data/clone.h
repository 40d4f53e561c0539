/* SPDX-License-Identifier: Apache-2.0 */
/* Files that share pages. */
#ifndef G4_CLONE_H
#define G4_CLONE_H

#include "inode/mounted.h"

/*
 * `pages` of one regular file from `from_page` on become those of another, or of another place of it that does not overlap,
 * from `to_page` on: shared, not copied. The file that changes is as large afterwards as their end or `end_bytes`, whichever is
 * less, if it was not larger. Both in-core inodes are write-locked. Leader.
 *
 * *done: pages that are shared now, also with an error. Less without one: the file is so small that it has no pages.
 * -G4_E_NOSPC, -G4_E_MLINK: the rest has to be copied, since there is no space for a count or the map, or a page has all the owners
 * that can be counted.
 * The file system has the feature SHARED.
 */
G4_FN int g4_file_clone(struct g4_wg *wg, struct g4_fs *fs, uint32_t from, uint64_t from_page, uint32_t to,
			uint64_t to_page, uint64_t pages, uint64_t end_bytes, uint64_t *done);

#endif
