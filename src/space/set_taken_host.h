/* SPDX-License-Identifier: Apache-2.0 */
/* A part of a disk that is being rebuilt is made by somebody else (set_taken_host.c). Of the files of this folder alone. */
#ifndef G4_SET_TAKEN_HOST_H
#define G4_SET_TAKEN_HOST_H

#include "space/set_types_host.h"

struct g4_set_place { /* of a chunk, on that disk */
	const struct g4_chunk *chunk;
	uint32_t number;
	uint64_t address; /* on the disk */
};
/* The place is what comes next of that disk, from the position on: G4_ORDER_TAKE. */
void g4_set_taken_begin(struct g4_wg *wg, struct g4_set *set, uint32_t disk, const struct g4_set_place *place,
			struct g4_dev_order *order);
/* G4_ORDER_MADE. */
void g4_set_taken_end(struct g4_wg *wg, struct g4_set *set, struct g4_dev_order *order);

#endif
