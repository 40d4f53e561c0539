/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a disk that is being rebuilt are made by somebody else (set_taken_host.c). Of the files of this folder alone. */
#ifndef G4_SET_TAKEN_HOST_H
#define G4_SET_TAKEN_HOST_H

#include "space/set_types_host.h"

struct g4_set_place { /* of a chunk, on that disk */
	const struct g4_chunk *chunk;
	uint32_t number;
	uint64_t address; /* on the disk */
};
/* Lock of rows held. An address on that disk: the position, or where all ends that is taken. */
uint64_t g4_set_taken_ahead(struct g4_set *set);
/* The same lock held. The place is what comes next from there on: G4_ORDER_TAKE. */
void g4_set_taken_begin(struct g4_set *set, uint32_t disk, const struct g4_set_place *place, uint64_t ahead,
			struct g4_dev_order *order);
/* The same lock held, and something is taken: what lies between that and `to` of the place passes with it. False: it is of another place. */
bool g4_set_taken_leave_out(struct g4_set *set, const struct g4_set_place *place, uint64_t to);
/* The same lock held. Somebody writes there, if only to what is held in memory: what is left out can not be passed any more. */
void g4_set_taken_write(struct g4_set *set, uint64_t address, uint64_t bytes);
/* G4_ORDER_MADE. */
void g4_set_taken_end(struct g4_wg *wg, struct g4_set *set, struct g4_dev_order *order);

#endif
