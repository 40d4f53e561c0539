/* SPDX-License-Identifier: Apache-2.0 */
/* Slots in the order of asking, classes by weighted turns (slots.h). */
#include "dev/slots.h"

#define RESTS_MOST 32u
#define DEAL_ROUNDS 4u

G4_STATIC_ASSERT(sizeof(struct g4_slots) % 128 == 0, "no two pools share a cache line");

#if !G4_CUDA
void g4_slots_init(struct g4_slots *slots, uint32_t count)
{
	/* two turns before tickets wrap around, so that it happens all the time and not once a month */
	const uint32_t first = (count & (count - 1)) == 0 ? 0u - 2 * count : 0;

	memset(slots, 0, sizeof(*slots));
	slots->count = count;
	slots->background_most = count < 8 ? 1 : count / 4;
	slots->taken = first;
	slots->given = first + count;
	for (uint32_t i = 0; i < count; i++)
		slots->places[i] = (uint64_t)(first + i + 1) << 32 | i;
	for (uint32_t c = 0; c < G4_CLASSES; c++) {
		slots->lines[c].asked = slots->lines[c].dealt = first;
		for (uint32_t i = 0; i < count; i++)
			slots->lines[c].places[i] = (uint64_t)(first + i) << 32;
	}
}
#endif

G4_FN void g4_slots_rest(uint32_t *rests)
{
	for (uint32_t i = 0; i < *rests; i++)
		g4_pause();
	*rests = *rests < RESTS_MOST ? *rests * 2 : RESTS_MOST;
}

/* ---- a place of a line ---- */

/* Whether it holds the ticket's slot; if so, it is taken. */
G4_FN static bool pick(uint64_t *place, uint32_t ticket, uint32_t count, uint32_t *slot)
{
	const uint64_t word = g4_load64_acq(place);

	if ((uint32_t)(word >> 32) != ticket + 1)
		return false;
	*slot = (uint32_t)word;
	g4_store64_rlx(place, (uint64_t)(ticket + count) << 32);
	return true;
}

/*
 * Whether the ticket's slot can be put there: the ticket that had the place before has taken its own. That it has is all that is said
 * here, so it needs no order.
 */
G4_FN static bool is_open(const uint64_t *place, uint32_t ticket)
{
	return (uint32_t)(g4_load64_rlx(place) >> 32) == ticket;
}

G4_FN static void put(uint64_t *place, uint32_t ticket, uint32_t slot)
{
	g4_store64_rel(place, (uint64_t)(ticket + 1) << 32 | slot);
}

/* ---- the free line ---- */

G4_FN static bool has_free(const struct g4_slots *slots)
{
	return (int32_t)(g4_load32_rlx(&slots->given) - g4_load32_rlx(&slots->taken)) > 0;
}

/* `ticket` and `given`: what the counters were. */
G4_FN static bool take_free_from(struct g4_slots *slots, uint32_t ticket, uint32_t given, uint32_t *slot)
{
	uint32_t rests = 1;

	for (;;) {
		if ((int32_t)(given - ticket) <= 0)
			return false;
		if (g4_cas32_acq(&slots->taken, ticket, ticket + 1))
			break;
		ticket = g4_load32_rlx(&slots->taken);
		given = g4_load32_rlx(&slots->given);
	}
	while (!pick(&slots->places[ticket % slots->count], ticket, slots->count, slot))
		g4_slots_rest(&rests);
	return true;
}

G4_FN static bool take_free(struct g4_slots *slots, uint32_t *slot)
{
	const uint32_t ticket = g4_load32_rlx(&slots->taken);

	return take_free_from(slots, ticket, g4_load32_rlx(&slots->given), slot);
}

/* Room for one more slot of the class, which is reserved. */
G4_FN static bool reserve(struct g4_slots *slots, uint32_t io_class)
{
	if (io_class != G4_CLASS_BACKGROUND || g4_add32(&slots->background, 1) < slots->background_most)
		return true;
	g4_sub32(&slots->background, 1);
	return false;
}

G4_FN static void unreserve(struct g4_slots *slots, uint32_t io_class)
{
	if (io_class == G4_CLASS_BACKGROUND)
		g4_sub32(&slots->background, 1);
}

/* ---- dealing ---- */

G4_FN static uint32_t weight_of(uint32_t io_class)
{
	return io_class == G4_CLASS_JOURNAL    ? 8 :
	       io_class == G4_CLASS_METADATA   ? 4 :
	       io_class == G4_CLASS_FOREGROUND ? 2 :
						 1;
}

/* Whether somebody of the class waits and may have a slot now. */
G4_FN static bool is_owed(const struct g4_slots *slots, uint32_t io_class)
{
	const struct g4_slots_line *line = &slots->lines[io_class];
	const uint32_t dealt = g4_load32_rlx(&line->dealt);

	return (int32_t)(g4_load32_rlx(&line->asked) - dealt) > 0 &&
	       is_open(&line->places[dealt % slots->count], dealt) &&
	       (io_class != G4_CLASS_BACKGROUND || g4_load32_rlx(&slots->background) < slots->background_most);
}

G4_FN static bool owes(const struct g4_slots *slots)
{
	bool any = false;

	if (g4_load32_rlx(&slots->waiting) == 0)
		return false;
	for (uint32_t c = 0; c < G4_CLASSES; c++)
		any = any || is_owed(slots, c);
	return any;
}

/* The dealer. One slot to the class whose turn it is, or to the next one that has somebody. False: there is no slot, or nobody. */
G4_FN static bool deal_one(struct g4_slots *slots)
{
	uint32_t slot, tries = 0;

	while (slots->burst == 0 || !is_owed(slots, slots->turn)) {
		if (tries++ > G4_CLASSES)
			return false;
		slots->turn = (slots->turn + 1) % G4_CLASSES;
		slots->burst = weight_of(slots->turn);
	}
	if (!reserve(slots, slots->turn))
		return false;
	if (!take_free(slots, &slot)) {
		unreserve(slots, slots->turn);
		return false;
	}
	struct g4_slots_line *line = &slots->lines[slots->turn];
	const uint32_t ticket = line->dealt;
	slots->burst--;
	g4_store32_rlx(&line->dealt, ticket + 1);
	g4_sub32(&slots->waiting, 1);
	put(&line->places[ticket % slots->count], ticket, slot);
	return true;
}

/*
 * Deals what can be dealt, unless another workgroup does: that one looks again behind its release. It does so a few times; what is
 * left then, or was missed, is dealt by a waiter that looks for its own slot.
 */
G4_FN static void deal(struct g4_slots *slots)
{
	for (uint32_t round = 0; round < DEAL_ROUNDS && has_free(slots) && owes(slots); round++) {
		if (g4_load32_rlx(&slots->dealing) || !g4_cas32_acq(&slots->dealing, 0, 1))
			return;
		for (uint32_t n = 0; n < slots->count && deal_one(slots); n++)
			;
		g4_xchg32(&slots->dealing, 0);
	}
}

/* ---- users ---- */

G4_FN bool g4_slots_take(struct g4_slots *slots, uint32_t io_class, uint32_t *slot)
{
	/* all three are on their way together: on a GPU each is a way to its memory */
	const uint32_t ticket = g4_load32_rlx(&slots->taken), given = g4_load32_rlx(&slots->given);
	const uint32_t waiting = g4_load32_rlx(&slots->waiting);

	if ((int32_t)(given - ticket) <= 0 || (waiting > 0 && owes(slots)) || !reserve(slots, io_class))
		return false;
	if (take_free_from(slots, ticket, given, slot))
		return true;
	unreserve(slots, io_class);
	return false;
}

G4_FN uint32_t g4_slots_ask(struct g4_slots *slots, uint32_t io_class)
{
	g4_add32(&slots->waiting, 1);
	const uint32_t ticket = g4_add32(&slots->lines[io_class].asked, 1);
	deal(slots);
	return ticket;
}

G4_FN bool g4_slots_got(struct g4_slots *slots, uint32_t io_class, uint32_t ticket, uint32_t *slot)
{
	uint64_t *place = &slots->lines[io_class].places[ticket % slots->count];

	if (pick(place, ticket, slots->count, slot))
		return true;
	deal(slots);
	return false;
}

G4_FN void g4_slots_give(struct g4_slots *slots, uint32_t io_class, uint32_t slot)
{
	const uint32_t ticket = g4_add32_rlx(&slots->given, 1);
	uint64_t *place = &slots->places[ticket % slots->count];
	uint32_t rests = 1;

	while (!is_open(place, ticket)) /* until who took the slot before has read it */
		g4_slots_rest(&rests);
	put(place, ticket, slot);
	unreserve(slots, io_class);
	if (g4_load32_rlx(&slots->waiting) > 0)
		deal(slots);
}

G4_FN uint32_t g4_slots_load(const struct g4_slots *slots)
{
	const int32_t left = (int32_t)(g4_load32_rlx(&slots->given) - g4_load32_rlx(&slots->taken));

	return slots->count - (left > 0 ? (uint32_t)left : 0) + g4_load32_rlx(&slots->waiting);
}

G4_FN bool g4_slots_try_look(struct g4_slots *slots)
{
	return !g4_load32_rlx(&slots->looking) && g4_cas32_acq(&slots->looking, 0, 1);
}

G4_FN void g4_slots_looked(struct g4_slots *slots)
{
	g4_store32_rel(&slots->looking, 0);
}
