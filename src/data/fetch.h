/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading contents from the device. All reads of file contents come through g4_fetch(): here a sum of a page is verified, once
 * there are any, before its line is valid or its caller sees it.
 */
#ifndef G4_FETCH_H
#define G4_FETCH_H

#include "format/owners.h"
#include "inode/mounted.h"

/*
 * Leader, in-core inode locked. Fills the requests with what is stored of pages in a row, `page` of the file and those behind
 * it, in the order of the requests. First error.
 */
G4_FN int g4_fetch(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
		   struct g4_space_io *requests, uint32_t count);
/*
 * Whether what is listed at an address with this key (format/owners.h), of a file that nobody has locked, is these bytes, a page of engine
 * memory: 1; 0: it is not, or can not be read. `mark`: g4_share_mark()'s, taken before it was found listed; `domain`: the key's. What is there
 * is suspect where it can not be read or does not have the sum that it is listed with, unless the mark says that it may have gone since: then
 * what was read may be another page, which is whole.
 */
G4_FN int g4_fetch_is(struct g4_wg *wg, struct g4_fs *fs, struct g4_address address, const struct g4_listing_key *key,
		      uint64_t domain, uint32_t mark, const void *bytes);
/* Whether an error is of single pages or of their sums: others of the same request may be whole. */
G4_FN G4_INLINE bool g4_fetch_is_damage(int rc)
{
	return rc == -G4_E_DATA || rc == -G4_E_CORRUPT_SUMS;
}
/* One page, which is stored at `address`. */
G4_FN int g4_fetch_page(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
			struct g4_address address, void *to);
/*
 * Of pages in a row, where the device is memory: so many from the first on that were compared where they lie and are what they are to
 * be, those without a sum among them. 0: they are to be asked for, some at a time, as below.
 */
G4_FN uint32_t g4_fetch_matching(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
				 struct g4_address address, uint64_t count);
/*
 * At most 64 pages in a row, into memory that nobody else changes; `to` NULL: they are looked at where they lie, in the memory that a
 * device of one copy is. The first error; bit k of *bad: page k is damaged or can not be
 * verified, and then also of *unverified: its sum can not be had.
 */
G4_FN int g4_fetch_survey(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
			  struct g4_address address, uint8_t *to, uint32_t count, uint64_t *bad, uint64_t *unverified);

#endif
