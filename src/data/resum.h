/* SPDX-License-Identifier: Apache-2.0 */
/*
 * New sums for pages that stay where they are: of what was written without, or with sums of another algorithm than the file's policy
 * names by now. Pages in a row are read and verified by the caller, hashed here piece by piece, and their entries are put beside the
 * pointers that are there. Crash at any line: a page has its old entry or the new one, both of what it holds.
 *
 * Leader, in-core inode write-locked from the reading until g4_resum_end(), so that no page is another one's or another page meanwhile.
 */
#ifndef G4_RESUM_H
#define G4_RESUM_H

#include "data/map.h"
#include "data/sums.h"

#define G4_RESUM_PAGES G4_INDIRECT_SLOTS /* at most: a large page */

struct g4_resum {
	uint64_t page; /* of the file, the first */
	struct g4_address address;
	uint32_t count;	    /* pages added */
	uint32_t changed;   /* of them, those that get another entry */
	uint32_t algorithm; /* that of the policy */
	struct g4_sum_entry sums[G4_RESUM_PAGES] __attribute__((aligned(16)));
};

/*
 * How many pages of a run, from `page` of the file on, are to be read for it: `most` at most, or all of a large page. 0: none of them
 * gets another sum, what they have can not be read, or `page` is inside a large page, which can be done as a whole only.
 */
G4_FN uint32_t g4_resum_begin(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
			      const struct g4_run *run, uint32_t most, struct g4_resum *resum);
/* The next pages, in memory, at most 64. Bit k of `keep`: page k is not what was written, or could not be read, and keeps its entry. */
G4_FN void g4_resum_add(struct g4_wg *wg, struct g4_resum *resum, const uint8_t *pages, uint32_t count, uint64_t keep);
/* Their entries become those of the file. -G4_E_NOSPC: there is no space for them; some may have theirs. */
G4_FN int g4_resum_end(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, const struct g4_resum *resum);

#endif
