/* SPDX-License-Identifier: Apache-2.0 */
/* Queues for workgroups (mapper.h). */
#include "dev/mapper.h"

#define QUEUE_MASK 0xffu
#define WAIT 0x100u /* one more; the count wraps around, which puts a move off */

#if !G4_CUDA
void g4_mapper_init(struct g4_mapper *mapper, uint32_t queues)
{
	memset(mapper, 0, sizeof(*mapper));
	mapper->queues = queues;
	for (uint32_t i = 0; i < queues * G4_MAPPER_PLACES_EACH; i++)
		mapper->places[i].word = i % queues;
}
#endif

G4_FN static uint32_t place_of(const struct g4_mapper *mapper, uint32_t workgroup)
{
	return workgroup % (mapper->queues * G4_MAPPER_PLACES_EACH);
}

G4_FN uint32_t g4_mapper_queue(const struct g4_mapper *mapper, uint32_t workgroup)
{
	if (mapper->queues <= 1)
		return 0;
	return g4_load32_rlx(&mapper->places[place_of(mapper, workgroup)].word) & QUEUE_MASK;
}

/* Another one than `queue`; a different sequence for each workgroup. */
G4_FN static uint32_t any_other(const struct g4_mapper *mapper, uint32_t workgroup, uint32_t waits, uint32_t queue)
{
	uint64_t x = ((uint64_t)workgroup << 32 | waits) + UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (queue + 1 + (uint32_t)(x >> 33) % (mapper->queues - 1)) % mapper->queues;
}

G4_FN bool g4_mapper_waited(struct g4_mapper *mapper, uint32_t workgroup, uint32_t queue, uint32_t *other)
{
	uint32_t *word = &mapper->places[place_of(mapper, workgroup)].word;

	if (mapper->queues <= 1 || (g4_load32_rlx(word) & QUEUE_MASK) != queue)
		return false;
	const uint32_t waits = (g4_add32_rlx(word, WAIT) + WAIT) / WAIT;
	*other = any_other(mapper, workgroup, waits, queue);
	return waits >= G4_MAPPER_PATIENCE;
}

/* The word that is compared has the queue, so a place that was moved meanwhile stays. */
G4_FN bool g4_mapper_move(struct g4_mapper *mapper, uint32_t workgroup, uint32_t queue, uint32_t load, uint32_t other,
			  uint32_t other_load)
{
	uint32_t *word = &mapper->places[place_of(mapper, workgroup)].word;
	const uint32_t seen = g4_load32_rlx(word);

	return other_load < load / 2 && (seen & QUEUE_MASK) == queue && g4_cas32(word, seen, other);
}
