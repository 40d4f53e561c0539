/* SPDX-License-Identifier: Apache-2.0 */
/* Slots in the order of asking (slots.h). */
#include "dev/slots.h"

#define RESTS_MOST 32u

#if !G4_CUDA
void g4_slots_init(struct g4_slots *slots, uint32_t count)
{
	memset(slots, 0, sizeof(*slots));
	slots->count = count;
	slots->given = count;
	for (uint32_t i = 0; i < count; i++)
		slots->places[i] = (uint64_t)(i + 1) << 32 | i;
}
#endif

G4_FN void g4_slots_rest(uint32_t *rests)
{
	for (uint32_t i = 0; i < *rests; i++)
		g4_pause();
	*rests = *rests < RESTS_MOST ? *rests * 2 : RESTS_MOST;
}

G4_FN uint32_t g4_slots_ask(struct g4_slots *slots)
{
	return g4_add32_rlx(&slots->taken, 1);
}

G4_FN bool g4_slots_has(const struct g4_slots *slots, uint32_t ticket)
{
	return (uint32_t)(g4_load64_acq(&slots->places[ticket % slots->count]) >> 32) == ticket + 1;
}

G4_FN bool g4_slots_got(struct g4_slots *slots, uint32_t ticket, uint32_t *slot)
{
	uint64_t *place = &slots->places[ticket % slots->count];
	uint64_t word = g4_load64_acq(place);

	if ((uint32_t)(word >> 32) != ticket + 1)
		return false;
	*slot = (uint32_t)word;
	g4_store64_rlx(place, (uint64_t)(ticket + slots->count) << 32);
	return true;
}

G4_FN bool g4_slots_take(struct g4_slots *slots, uint32_t *slot)
{
	uint32_t ticket, rests = 1;

	do {
		ticket = g4_load32_rlx(&slots->taken);
		if ((int32_t)(g4_load32_rlx(&slots->given) - ticket) <= 0)
			return false;
	} while (!g4_cas32_acq(&slots->taken, ticket, ticket + 1));
	while (!g4_slots_got(slots, ticket, slot))
		g4_slots_rest(&rests);
	return true;
}

G4_FN void g4_slots_give(struct g4_slots *slots, uint32_t slot)
{
	uint32_t ticket = g4_add32_rlx(&slots->given, 1), rests = 1;
	uint64_t *place = &slots->places[ticket % slots->count];

	/* the waiter that had this place before may not have read it yet; that it has is all that it says here, so it needs no order */
	while ((uint32_t)(g4_load64_rlx(place) >> 32) != ticket)
		g4_slots_rest(&rests);
	g4_store64_rel(place, (uint64_t)(ticket + 1) << 32 | slot);
}

G4_FN bool g4_slots_try_look(struct g4_slots *slots)
{
	return !g4_load32_rlx(&slots->looking) && g4_cas32_acq(&slots->looking, 0, 1);
}

G4_FN void g4_slots_looked(struct g4_slots *slots)
{
	g4_store32_rel(&slots->looking, 0);
}
