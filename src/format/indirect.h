/* SPDX-License-Identifier: Apache-2.0 */
/* Indirect pages that several files have (FORMAT.md, "Shared indirect pages"). Per-lane. */
#ifndef G4_INDIRECT_H
#define G4_INDIRECT_H

#include "format/format.h"

/* The highest level that may have several owners: what hangs at a page of it can be counted in `below`. */
#define G4_SHARED_MAP_LEVEL 2u

G4_FN G4_INLINE uint32_t g4_indirect_below(const struct g4_indirect_header *header)
{
	return header->below[0] | (uint32_t)header->below[1] << 8 | (uint32_t)header->below[2] << 16;
}

G4_FN G4_INLINE void g4_indirect_set_below(struct g4_indirect_header *header, uint32_t pages)
{
	for (uint32_t k = 0; k < 3; k++)
		header->below[k] = (uint8_t)(pages >> 8 * k);
}

#endif
