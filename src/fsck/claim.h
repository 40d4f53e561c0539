/* SPDX-License-Identifier: Apache-2.0 */
/* Whose a page is: what was met, against what the allocation maps say. */
#ifndef G4_FSCK_CLAIM_H
#define G4_FSCK_CLAIM_H

#include "fsck/fsck_types.h"

/* A page that is led to as metadata can not be used: a file that has it as contents may be wrong about that. */
void g4_fsck_note_broken(struct g4_fsck *fsck, struct g4_address address);
/* Takes pages for one purpose; false, with a problem, when one of them is taken already. */
bool g4_fsck_claim(struct g4_fsck *fsck, struct g4_address address, uint64_t pages, const struct g4_fsck_where *where,
		   const char *what);
/* The same for contents of a file, which may share them. */
bool g4_fsck_claim_data(struct g4_fsck *fsck, struct g4_address address, uint64_t pages,
			const struct g4_fsck_where *where);
/* The same for metadata, which must be read and found good before. */
bool g4_fsck_claim_metadata(struct g4_fsck *fsck, struct g4_address address, const struct g4_fsck_where *where,
			    const char *what);
/* Pages of a word of the bitmaps that are marked as used, and that nothing has led to in any round. */
uint64_t g4_fsck_leaked(const struct g4_fsck *fsck, uint64_t word);

#endif
