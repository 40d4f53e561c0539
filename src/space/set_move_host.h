/* SPDX-License-Identifier: Apache-2.0 */
/* What lies on disks is moved to others. Of the files of this folder alone. */
#ifndef G4_SET_MOVE_HOST_H
#define G4_SET_MOVE_HOST_H

#include "space/set_types_host.h"

struct g4_set_step { /* what is copied */
	const struct g4_chunk
		*chunk;		/* as the set has it, in whose place it begins; those of the next may go on there */
	uint32_t number;	/* of the place */
	uint64_t within, bytes; /* of it */
	uint64_t to;		/* a place */
};

struct g4_set_move {
	struct g4_chunk *chunks; /* that the set will have */
	uint32_t count;
	struct g4_set_step *steps;
	uint32_t step_count, step_room;
};

/*
 * Plans it, with the set's locks of orders held: chunks of which no place is on the disk, but all that is in use, by the numbers that disks have now. On failure a
 * sentence: -G4_E_NOSPC, there is no room; -G4_E_INVAL: a chunk needs all other disks already. `move` is to be ended.
 */
int g4_set_move_plan(struct g4_set *set, uint32_t disk, const struct g4_set_in_use *in_use, struct g4_set_move *move,
		     struct g4_dev_message message);
/*
 * Place `number` of a chunk of the plan is to be at `to`, a place: it is copied there. The chunk is a part of one that the set has, or of
 * neighbours that are one. False: no memory.
 */
bool g4_set_move_add(const struct g4_set *set, struct g4_set_move *move, struct g4_chunk *chunk, uint32_t number,
		     uint64_t to);
/* Copies all of it, durably. Nobody else uses the set. progress: a started bar, or NULL. On failure nothing was changed, and a sentence. */
int g4_set_move_copy(struct g4_wg *wg, struct g4_set *set, const struct g4_set_move *move, struct g4_progress *progress,
		     struct g4_dev_message message);
/*
 * What a place has, `within` it, or another copy or its row where its disk can not be read; of rows whole stripes. From where the disk is bad
 * page by page.
 */
int g4_set_move_read(struct g4_wg *wg, struct g4_set *set, const struct g4_set_step *step, uint64_t within,
		     uint64_t bytes, uint8_t *to);
void g4_set_move_end(struct g4_set_move *move);

#endif
