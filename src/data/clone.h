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
 * that can be counted. -G4_E_AGAIN: the rest is shared with the feature SHARED_MAPS.
 * The file system has the features REFLINK.
 */
G4_FN int g4_file_clone(struct g4_wg *wg, struct g4_fs *fs, uint32_t from, uint64_t from_page, uint32_t to,
			uint64_t to_page, uint64_t pages, uint64_t end_bytes, uint64_t *done);

/*
 * The same pages in two files, or in two places of one that do not overlap, become one: the target's contents stay what they are, and
 * so do its size and its times. Both in-core inodes are write-locked. Leader.
 *
 * Pages are the same if both have the same BLAKE3. Where they have other sums, or none, or with `compare`, they are read, and all
 * bytes are the same. *done: pages from the first on that are shared now, or are no contents in both; it ends at the first that is not
 * the same. Errors: g4_file_clone()'s, and those of reading. The file system has the feature SHARED.
 */
G4_FN int g4_file_dedupe(struct g4_wg *wg, struct g4_fs *fs, uint32_t from, uint64_t from_page, uint32_t to,
			 uint64_t to_page, uint64_t pages, bool compare, uint64_t *done);

/*
 * Pages of zeros become holes: contents, size and times stay what they are. The in-core inode is write-locked. Leader.
 *
 * What has the BLAKE3 of zeros is zeros; pages with other sums, or none, or with `compare`, are read. *done: pages from the first on that
 * have no contents now; it ends at the first that is not zeros. What is allocated and was not written stays so. Errors: g4_file_clone()'s,
 * and those of reading.
 */
G4_FN int g4_file_dig(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t page, uint64_t pages, bool compare,
		      uint64_t *done);

#endif
