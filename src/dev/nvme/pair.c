/* SPDX-License-Identifier: Apache-2.0 */
/* Queues that a controller and many lanes share (pair.h). */
#include "dev/nvme/pair.h"

#define RING_ROUNDS 4u
#define PAUSED 1u /* of the count of tickets */
#define HELD 1u	  /* the tail, which is even, while a lane moves it, and while the pair is paused */
#define STEP 2u	  /* from a ticket to the next one */
#define MARKS_AT_ONCE 8u

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

G4_FN static uint32_t place_of(const struct g4_nvme_pair *pair, uint32_t ticket)
{
	return ticket / STEP % pair->entries;
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
G4_FN static void ring_tail(struct g4_nvme_pair *pair, uint32_t tail)
{
#if defined(__CUDA_ARCH__)
	g4_fence_acq_sys(); /* both halves; elsewhere the store releases */
#endif
	ring(pair->tail_doorbell, place_of(pair, tail));
}

G4_FN static bool is_marked(const struct g4_nvme_pair *pair, uint32_t ticket)
{
	return g4_load32_rlx(&pair->marks[place_of(pair, ticket)]) == ticket + STEP;
}

/* The end of the marks that are there in a row. Several are looked at together, as on a GPU each look is a way to its memory. */
G4_FN static uint32_t marked_until(const struct g4_nvme_pair *pair, uint32_t from)
{
	uint32_t mark[MARKS_AT_ONCE], tail = from, count;

	do {
		for (uint32_t i = 0; i < MARKS_AT_ONCE; i++)
			mark[i] = g4_load32_fenced(&pair->marks[place_of(pair, tail + STEP * i)]);
		for (count = 0; count < MARKS_AT_ONCE && mark[count] == tail + STEP * (count + 1); count++)
			;
		tail += STEP * count;
	} while (count == MARKS_AT_ONCE);
	return tail;
}

/* By the tail's holder, which has it no more then: what is marked behind `from` is the controller's. Returns the tail. */
G4_FN static uint32_t pass_tail(struct g4_nvme_pair *pair, uint32_t before, uint32_t from)
{
	const uint32_t tail = marked_until(pair, from);

	if (tail != before) {
		g4_store32_rlx(&pair->rings, g4_load32_rlx(&pair->rings) + 1);
		ring_tail(pair, tail);
	}
	g4_xchg32(&pair->tail, tail);
	return tail;
}

/*
 * For a lane that has set its mark. If it finds the tail held, the holder looks again behind its own exchange, which comes later; should
 * it not see the mark even then, a lane that waits does (g4_nvme_pair_help()).
 */
G4_FN static void move_tail(struct g4_nvme_pair *pair)
{
	for (uint32_t rounds = 0; rounds < RING_ROUNDS; rounds++) {
		const uint32_t tail = g4_xchg32_acq(&pair->tail, HELD);
		if (tail == HELD || !is_marked(pair, pass_tail(pair, tail, tail)))
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
	const uint32_t ticket = take_ticket(pair), tail = g4_xchg32_acq(&pair->tail, HELD);
	const uint32_t place = place_of(pair, ticket);

	if (ticket & PAUSED) {
		if (tail != HELD)
			g4_xchg32(&pair->tail, tail);
		return false;
	}
	if (sent)
		g4_store64_rlx(sent, value);
	if (dirty)
		g4_xchg32(dirty, 0);
	g4_copy16(&pair->commands[place], command, sizeof(*command));
	if (tail != ticket)
		g4_store32_rel(&pair->marks[place], ticket + STEP);
	if (tail == HELD || is_marked(pair, pass_tail(pair, tail, tail == ticket ? ticket + STEP : tail)))
		move_tail(pair);
	return true;
}

G4_FN void g4_nvme_pair_help(struct g4_nvme_pair *pair)
{
	const uint32_t tail = g4_load32_rlx(&pair->tail);

	if (tail != HELD && is_marked(pair, tail))
		move_tail(pair);
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

/*
 * Over PCIe a load is a round trip, so all are asked for at the same time. The next one comes last and acquires, which is all that a
 * single completion needs.
 */
G4_FN uint32_t g4_nvme_pair_take(struct g4_nvme_pair *pair, uint64_t end[G4_NVME_TAKE_MOST])
{
	const uint32_t head = pair->head;
	uint32_t count = 1;

	for (uint32_t i = G4_NVME_TAKE_MOST - 1; i > 0; i--)
		end[i] = g4_load64_fenced_sys(&pair->completions[(head + i) % pair->entries].end);
	end[0] = g4_load64_acq_sys(&next_entry(pair)->end);
	if (!is_new(pair, end[0]))
		return 0;
	while (count < G4_NVME_TAKE_MOST && g4_nvme_completion_phase(end[count]) == phase_at(pair, head + count))
		count++;
	if (count > 1)
		g4_fence_acq_sys();
	pair->head = head + count;
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
	const uint32_t end = g4_or32(&pair->tickets, PAUSED);
	uint32_t tail;

	while ((tail = g4_xchg32(&pair->tail, HELD)) == HELD)
		g4_pause();
	while (marked_until(pair, tail) != end)
		g4_pause();
	g4_fence_acq();
}

G4_FN void g4_nvme_pair_restart(struct g4_nvme_pair *pair)
{
	const uint32_t ticket = begin(pair);

	g4_xchg32(&pair->tail, ticket);
	g4_xchg32(&pair->tickets, ticket);
}
