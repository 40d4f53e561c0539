/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of several queues of a device a workgroup uses: document 002, chapter 4.1.2, with the differences that docs/design/nvme.md
 * gives. Workgroup w has place w % (4 * queues) of a map, which names a queue. A workgroup that has to wait for a slot counts that in its
 * place. After G4_MAPPER_PATIENCE such waits it looks at one other queue, chosen at random, and moves its place there if that one has
 * less than half of the load.
 *
 *     workgroup --mod--> place | waits : 24 | queue : 8 | --> queue
 *
 * After the move the opposite condition does not hold, and workgroups that see the same loads look at different queues: they do not
 * herd onto the one that all believe to be idle. Moving a place moves no request: each stays in the queue that it began in.
 */
#ifndef G4_DEV_MAPPER_H
#define G4_DEV_MAPPER_H

#include "dev/padding.h"
#include "simt/simt.h"

#define G4_MAPPER_QUEUES_MOST 24u
#define G4_MAPPER_PLACES_EACH 4u
#define G4_MAPPER_PATIENCE 64u

struct g4_mapper_place { /* looked at by many, changed rarely */
	uint32_t word;
#if G4_QUEUE_PAD > 0
	uint8_t padding[28];
#endif
};
struct g4_mapper {
	uint32_t queues;
	G4_QUEUE_PADDING(padding, 4)
	struct g4_mapper_place places[G4_MAPPER_QUEUES_MOST * G4_MAPPER_PLACES_EACH];
#if G4_QUEUE_PAD == 0
	uint8_t end[12]; /* a multiple of 16 as well */
#endif
};

/* Spreads places evenly over `queues`, 1 to G4_MAPPER_QUEUES_MOST. Host only. */
#if !G4_CUDA
void g4_mapper_init(struct g4_mapper *mapper, uint32_t queues);
#endif

/* All per-lane, thread-safe; `workgroup`: g4_wg_index(). The queue for what it begins next. */
G4_FN uint32_t g4_mapper_queue(const struct g4_mapper *mapper, uint32_t workgroup);
/* It has waited for a slot of `queue`. True: it is to compare that with *other, and call g4_mapper_move(). */
G4_FN bool g4_mapper_waited(struct g4_mapper *mapper, uint32_t workgroup, uint32_t queue, uint32_t *other);
/* Loads: requests under way in both, and waiters. True: the place was moved. */
G4_FN bool g4_mapper_move(struct g4_mapper *mapper, uint32_t workgroup, uint32_t queue, uint32_t load, uint32_t other,
			  uint32_t other_load);

#endif
