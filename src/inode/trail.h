/* SPDX-License-Identifier: Apache-2.0 */
/* A trail: the epochs of all inodes that an answer was made of (docs/design/mirror.md). Engine and clients share it. */
#ifndef G4_TRAIL_H
#define G4_TRAIL_H

#include "base/base.h"

#define G4_EPOCHS 16384u
#define G4_EPOCHS_BYTES (G4_EPOCHS * sizeof(uint64_t))
#define G4_TRAIL_PLACES 11u
#define G4_TRAIL_LOST UINT16_MAX /* count: there are more, or the answer was made while something changed */

struct g4_trail {
	uint64_t
		sum; /* over the epochs' values in this order, each read before its inode was looked at: g4_trail_sum() */
	uint16_t count; /* 0 or G4_TRAIL_LOST: there is no trail */
	uint16_t epochs[G4_TRAIL_PLACES];
};
G4_STATIC_ASSERT(sizeof(struct g4_trail) == 32, "part of a ring's result");

/* The sum with one value more. */
G4_FN G4_INLINE uint64_t g4_trail_sum(uint64_t sum, uint64_t value)
{
	return (sum ^ sum >> 29) * UINT64_C(0x9e3779b97f4a7c15) + value + 1;
}

G4_FN G4_INLINE void g4_trail_begin(struct g4_trail *trail)
{
	memset(trail, 0, sizeof(*trail)); /* what was told to another client is not for this one */
}

G4_FN G4_INLINE bool g4_trail_is_good(const struct g4_trail *trail)
{
	return trail->count > 0 && trail->count <= G4_TRAIL_PLACES;
}

G4_FN G4_INLINE void g4_trail_add(struct g4_trail *trail, uint16_t epoch, uint64_t value)
{
	if (trail->count >= G4_TRAIL_PLACES) {
		trail->count = G4_TRAIL_LOST;
		return;
	}
	trail->sum = g4_trail_sum(trail->sum, value);
	trail->epochs[trail->count++] = epoch;
}

#endif
