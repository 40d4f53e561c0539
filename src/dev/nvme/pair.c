/* SPDX-License-Identifier: Apache-2.0 */
/* Queues that a controller and many lanes share (pair.h). */
#include "dev/nvme/pair.h"

#define RING_ROUNDS 4u
#define PAUSED 1u /* of the count of tickets */
#define HELD 1u	  /* the tail, which is even, while a lane moves it, and while the pair is paused */
#define STEP 2u	  /* from a ticket to the next one */
#define MARKS_AT_ONCE 8u
#define FIRST_LOOK                                                                                                     \
	4u /* completions that are asked for at once; if they are all there, the others that are taken together */

/* The first ticket. Relaxed: users of the pair learn of it through the tail and the count of tickets. */
G4_FN static uint32_t begin(struct g4_nvme_pair *pair)
{
	/* two turns before the counts wrap around: place 0, and the phase of the first turn is 1 */
	const uint32_t head = 0u - 2 * pair->entries, ticket = STEP * head;

	pair->head = pair->told = head;
	for (uint32_t i = 0; i < pair->entries; i++)
		g4_store32_rlx(&pair->marks[i], ticket + STEP * (i + 1 - pair->entries));
	return ticket;
}

#if !G4_CUDA
void g4_nvme_pair_init(struct g4_nvme_pair *pair, void *commands, const void *completions, uint32_t *tail_doorbell,
		       uint32_t *head_doorbell, uint32_t entries)
{
	memset(pair, 0, sizeof(*pair));
	pair->commands = (struct g4_nvme_command *)commands;
	pair->completions = (const struct g4_nvme_completion *)completions;
	pair->tail_doorbell = tail_doorbell;
	pair->head_doorbell = head_doorbell;
	pair->entries = entries;
	pair->tickets = pair->tail = begin(pair);
}
#endif

/*
 * What never changes, as a lane has it in registers: an acquire on a GPU empties its cache, and each look behind one would be a way to
 * the GPU's memory.
 */
struct fixed {
	uint32_t entries;
	uint32_t *tail_doorbell;
};

G4_FN static struct fixed fixed_of(const struct g4_nvme_pair *pair)
{
	const struct fixed fixed = {pair->entries, pair->tail_doorbell};

	return fixed;
}

G4_FN static uint32_t place_of(const struct fixed *fixed, uint32_t ticket)
{
	return ticket / STEP % fixed->entries;
}

/* I/O memory wants a store of its own kind from a GPU. */
G4_FN static void ring(uint32_t *doorbell, uint32_t value)
{
#if defined(__CUDA_ARCH__)
	asm volatile("st.mmio.relaxed.sys.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(doorbell)), "r"(value)
		     : "memory");
#else
	g4_store32_rel_sys(doorbell, value);
#endif
}

/*
 * Do not reorder stores to queue memory with the doorbell: the controller reads the one when it sees the other. The fence orders what
 * this lane has seen of others' stores, too.
 */
G4_FN static void ring_tail(const struct fixed *fixed, uint32_t tail)
{
#if defined(__CUDA_ARCH__)
	g4_fence_acq_sys(); /* both halves; elsewhere the store releases */
#endif
	ring(fixed->tail_doorbell, place_of(fixed, tail));
}

G4_FN static bool is_marked(const struct g4_nvme_pair *pair, const struct fixed *fixed, uint32_t ticket)
{
	return g4_load32_rlx(&pair->marks[place_of(fixed, ticket)]) == ticket + STEP;
}

/* The end of the marks that are there in a row. Several are looked at together, as on a GPU each look is a way to its memory. */
G4_FN static uint32_t marked_until(const struct g4_nvme_pair *pair, const struct fixed *fixed, uint32_t from)
{
	uint32_t mark[MARKS_AT_ONCE], tail = from, count;

	do {
		for (uint32_t i = 0; i < MARKS_AT_ONCE; i++)
			mark[i] = g4_load32_fenced(&pair->marks[place_of(fixed, tail + STEP * i)]);
		for (count = 0; count < MARKS_AT_ONCE && mark[count] == tail + STEP * (count + 1); count++)
			;
		tail += STEP * count;
	} while (count == MARKS_AT_ONCE);
	return tail;
}

/* By the tail's holder, which has it no more then: what is marked behind `from` is the controller's. Returns the tail. */
G4_FN static uint32_t pass_tail(struct g4_nvme_pair *pair, const struct fixed *fixed, uint32_t before, uint32_t from)
{
	const uint32_t tail = marked_until(pair, fixed, from);

	if (tail != before) {
		g4_add32_rlx(&pair->rings, 1); /* nobody else changes it: so that nobody waits for it */
		ring_tail(fixed, tail);
	}
	g4_xchg32(&pair->tail, tail);
	return tail;
}

/*
 * For a lane that has set its mark. If it finds the tail held, the holder looks again behind its own exchange, which comes later; should
 * it not see the mark even then, a lane that waits does (g4_nvme_pair_help()).
 */
G4_FN static void move_tail(struct g4_nvme_pair *pair, const struct fixed *fixed)
{
	for (uint32_t rounds = 0; rounds < RING_ROUNDS; rounds++) {
		const uint32_t tail = g4_xchg32_acq(&pair->tail, HELD);
		if (tail == HELD || !is_marked(pair, fixed, pass_tail(pair, fixed, tail, tail)))
			return;
	}
}

/*
 * The command of a turn ago at this place has been taken, for of the tickets since then one was given to a lane that saw it completed
 * or a later one. The count of tickets carries that to this lane. On a GPU the address of the stores, which needs the ticket, does.
 */
G4_FN static uint32_t take_ticket(struct g4_nvme_pair *pair)
{
#if defined(__CUDA_ARCH__)
	return g4_add32_rlx(&pair->tickets, STEP);
#else
	return g4_add32(&pair->tickets, STEP);
#endif
}

/*
 * The tail is asked for together with the ticket. A lane that has it, with no one before it, needs no mark: what it has written is
 * ordered by the fence before the doorbell.
 */
G4_FN bool g4_nvme_pair_submit(struct g4_nvme_pair *pair, const struct g4_nvme_command *command, uint64_t *sent,
			       uint64_t value, uint32_t *dirty)
{
	const struct fixed fixed = fixed_of(pair);
	struct g4_nvme_command *const commands = pair->commands;
	const uint32_t ticket = take_ticket(pair), tail = g4_xchg32_acq(&pair->tail, HELD);
	const uint32_t place = place_of(&fixed, ticket);

	if (ticket & PAUSED) {
		if (tail != HELD)
			g4_xchg32(&pair->tail, tail);
		return false;
	}
	if (sent)
		g4_store64_rlx(sent, value);
	if (dirty)
		g4_xchg32(dirty, 0);
	g4_copy16(&commands[place], command, sizeof(*command));
	if (tail != ticket)
		g4_store32_rel(&pair->marks[place], ticket + STEP);
	if (tail == HELD ||
	    is_marked(pair, &fixed, pass_tail(pair, &fixed, tail, tail == ticket ? ticket + STEP : tail)))
		move_tail(pair, &fixed);
	return true;
}

G4_FN void g4_nvme_pair_help(struct g4_nvme_pair *pair)
{
	const struct fixed fixed = fixed_of(pair);
	const uint32_t tail = g4_load32_rlx(&pair->tail);

	if (tail != HELD && is_marked(pair, &fixed, tail))
		move_tail(pair, &fixed);
}

/* The tail is never ahead of the tickets, so that the older of both loads has to come first. */
G4_FN bool g4_nvme_pair_is_rung(const struct g4_nvme_pair *pair)
{
	const uint32_t tail = g4_load32_acq(&pair->tail);

	return tail != HELD && tail == g4_load32_rlx(&pair->tickets);
}

/* Of completions at a place of the endless queue: the controller turns it at each of its turns, from 0 to 1 first. */
G4_FN static uint32_t phase_at(const struct g4_nvme_pair *pair, uint32_t at)
{
	return ~(at / pair->entries) & 1;
}

G4_FN static bool is_new(const struct g4_nvme_pair *pair, uint64_t end)
{
	return g4_nvme_completion_phase(end) == phase_at(pair, pair->head);
}

G4_FN static const struct g4_nvme_completion *next_entry(const struct g4_nvme_pair *pair)
{
	return &pair->completions[pair->head % pair->entries];
}

G4_FN bool g4_nvme_pair_is_answered(const struct g4_nvme_pair *pair)
{
	return is_new(pair, g4_load64_acq_sys(&next_entry(pair)->end));
}

G4_FN bool g4_nvme_pair_next(struct g4_nvme_pair *pair, uint64_t *end, uint32_t *result)
{
	const struct g4_nvme_completion *entry = next_entry(pair);
	const uint64_t word = g4_load64_acq_sys(&entry->end);

	if (!is_new(pair, word))
		return false;
	*end = word;
	if (result) /* over PCIe a load is a round trip */
		*result = g4_load32_rlx_sys(&entry->result);
	pair->head++;
	return true;
}

/* From place `from` on, how many of seen[] are completions of this turn, up to the first that is none. */
G4_FN static uint32_t new_among(const struct fixed *fixed, uint32_t head, const uint64_t *seen, uint32_t from,
				uint32_t until)
{
	uint32_t count = from;

	G4_UNROLLED
	for (uint32_t i = from; i < until; i++)
		if (count == i && g4_nvme_completion_phase(seen[i]) == (~((head + i) / fixed->entries) & 1))
			count++;
	return count;
}

/*
 * Over PCIe a load is a round trip, so several are asked for at the same time, and looked at when all are on their way. The next one
 * acquires, which is all that a single completion needs. Only where as many are there as were asked for, it is worth asking for more.
 */
G4_FN uint32_t g4_nvme_pair_take(struct g4_nvme_pair *pair, uint64_t end[G4_NVME_TAKE_MOST])
{
	const struct g4_nvme_completion *const completions = pair->completions;
	const struct fixed fixed = fixed_of(pair);
	const uint32_t head = pair->head;
	uint64_t seen[G4_NVME_TAKE_MOST];

	G4_UNROLLED
	for (uint32_t i = FIRST_LOOK - 1; i > 0; i--)
		seen[i] = g4_load64_fenced_sys(&completions[(head + i) % fixed.entries].end);
	seen[0] = g4_load64_acq_sys(&completions[head % fixed.entries].end);
	uint32_t count = new_among(&fixed, head, seen, 0, FIRST_LOOK);
	if (count == 0)
		return 0;
	if (count == FIRST_LOOK) {
		G4_UNROLLED
		for (uint32_t i = FIRST_LOOK; i < G4_NVME_TAKE_MOST; i++)
			seen[i] = g4_load64_fenced_sys(&completions[(head + i) % fixed.entries].end);
		count = new_among(&fixed, head, seen, FIRST_LOOK, G4_NVME_TAKE_MOST);
	}
	if (count > 1)
		g4_fence_acq_sys();
	pair->head = head + count;
	G4_UNROLLED
	for (uint32_t i = 0; i < G4_NVME_TAKE_MOST; i++)
		if (i < count)
			end[i] = seen[i];
	return count;
}

G4_FN void g4_nvme_pair_consumed(struct g4_nvme_pair *pair)
{
	if (pair->head - pair->told < (pair->entries + 3) / 4)
		return;
	/* the loads that saw the completions acquire: no store of this lane comes before them */
	pair->told = pair->head;
	ring(pair->head_doorbell, pair->head % pair->entries);
}

/* ---- recovery ---- */

/*
 * A ticket that was given before becomes a mark without anybody's help, or its lane had the tail; seeing either, this lane sees the
 * command.
 */
G4_FN void g4_nvme_pair_pause(struct g4_nvme_pair *pair)
{
	const struct fixed fixed = fixed_of(pair);
	const uint32_t end = g4_or32(&pair->tickets, PAUSED);
	uint32_t tail;

	while ((tail = g4_xchg32(&pair->tail, HELD)) == HELD)
		g4_pause();
	while (marked_until(pair, &fixed, tail) != end)
		g4_pause();
	g4_fence_acq();
}

G4_FN void g4_nvme_pair_restart(struct g4_nvme_pair *pair)
{
	const uint32_t ticket = begin(pair);

	g4_xchg32(&pair->tail, ticket);
	g4_xchg32(&pair->tickets, ticket);
}
