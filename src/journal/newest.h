/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which version of a page of metadata is the right one where several are whole: copies, and what parities make of the others of its row. One
 * that has missed a write gives an older page.
 */
#ifndef G4_JOURNAL_NEWEST_H
#define G4_JOURNAL_NEWEST_H

#include "simt/simt.h"
#include "space/chunk.h"

#define G4_NO_VERSION UINT32_MAX

struct g4_newest {
	uint64_t generation;
	uint32_t version; /* G4_NO_VERSION: none was whole */
	uint32_t made;	  /* how many of its generation are made by parities */
};

G4_FN G4_INLINE struct g4_newest g4_newest_none(void)
{
	struct g4_newest none = {0, G4_NO_VERSION, 0};

	return none;
}

/*
 * A version that is whole, in their order. False: it is settled, and no other one has to be looked at, of which rows of four parities have
 * 120. That is so when as many as there can be parities are of one age: those by one parity alone come first, so one of them that
 * is newer was seen, and where it takes two or more to make one that is newer, no four others can make an older one.
 */
G4_FN G4_INLINE bool g4_newest_take(struct g4_newest *newest, uint32_t version, bool is_made, uint64_t generation)
{
	if (newest->version == G4_NO_VERSION || generation > newest->generation) {
		newest->version = version;
		newest->generation = generation;
		newest->made = 0;
	}
	newest->made += is_made && generation == newest->generation;
	return newest->made < G4_CHUNK_PARITY_MOST;
}

#endif
