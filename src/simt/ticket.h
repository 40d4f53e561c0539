/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fair lock that g4_lock and g4_rwlock are: a readers/writer ticket lock in one 64-bit word. All builds share it;
 * each build's lock.c says how a workgroup waits for its turn (futex on the CPU, backoff on the GPU).
 *
 *      63        48 47        32 31        16 15         0
 *     +------------+------------+------------+------------+
 *     |    next    |  sleepers  |  readers   |  serving   |
 *     +------------+------------+------------+------------+
 *
 * next      the ticket that is given next
 * sleepers  waiters that need a wake-up to notice a change
 * readers   readers inside
 * serving   the ticket whose turn it is
 *
 * A workgroup takes a ticket (next + 1) and waits until serving equals it; a writer waits for readers to become 0 as
 * well. A reader whose turn has come enters and passes the turn on at once, so that a reader behind it shares; a writer
 * keeps the turn until it unlocks. Arrival order is service order: nobody starves, and a writer waits for no reader
 * that came after it.
 *
 * Because everything is in one word, each step is one atomic operation that returns a consistent snapshot. A wake-up
 * cannot be lost: a sleeper counts itself in the same word the turn changes in, so either it sees the turn or the
 * workgroup that passes the turn sees it. And nobody touches a lock after the operation that released it, so the next
 * holder may free the memory it lies in. (Of a readers/writer lock on a CPU, the next writer: cpu/lock.c.)
 *
 * `next` may be added to by anyone at any time: it lies at the top, where it wraps without a carry. `serving` is changed
 * only by the workgroup whose turn it is, which therefore can wrap it by hand. The other two count at most G4_WG_MAX each.
 *
 * Theory: Mellor-Crummey and Scott, "Scalable Reader-Writer Synchronization for Shared-Memory Multiprocessors" (1991),
 * section 3.1, the fair ticket lock; here readers are counted in place of their completed tickets.
 */
#ifndef G4_SIMT_TICKET_H
#define G4_SIMT_TICKET_H

#include "simt/simt.h"

#define G4_TICKET_READER (UINT64_C(1) << 16)
#define G4_TICKET_SLEEPER (UINT64_C(1) << 32)
#define G4_TICKET_NEXT (UINT64_C(1) << 48)

/* What of the word must equal the ticket for its owner to enter: a reader ignores other readers. */
#define G4_TICKET_SHARED UINT64_C(0x0000ffff)
#define G4_TICKET_EXCLUSIVE UINT64_C(0xffffffff)

/* Implemented in each build's lock.c. Returns when (*word & mask) == ticket, having read it with acquire order. */
G4_FN void g4_ticket_wait(uint64_t *word, uint32_t ticket, uint64_t mask);
#if !G4_CUDA
/* Implemented in each build's lock.c. Wakes the sleeper with this ticket, if there is one. May not read *word. */
G4_FN void g4_ticket_wake(uint64_t *word, uint32_t ticket);
#else
/* Nobody sleeps. Inline, so that a release asks for no value: it need not wait for the word's old one to come back. */
G4_FN G4_INLINE void g4_ticket_wake(uint64_t *word, uint32_t ticket)
{
	(void)word;
	(void)ticket;
}
#endif

G4_FN G4_INLINE uint32_t g4_ticket_serving(uint64_t word)
{
	return (uint32_t)(word & 0xffff);
}

G4_FN G4_INLINE uint32_t g4_ticket_readers(uint64_t word)
{
	return (uint32_t)(word >> 16 & 0xffff);
}

G4_FN G4_INLINE uint32_t g4_ticket_sleepers(uint64_t word)
{
	return (uint32_t)(word >> 32 & 0xffff);
}

G4_FN G4_INLINE uint32_t g4_ticket_next(uint64_t word)
{
	return (uint32_t)(word >> 48);
}

G4_FN G4_INLINE uint32_t g4_ticket_after(uint32_t ticket)
{
	return (ticket + 1) & 0xffff;
}

/* What to add to the word to pass the turn on from `serving`; wraps without touching the field above. */
G4_FN G4_INLINE uint64_t g4_ticket_step(uint32_t serving)
{
	return serving == 0xffff ? -UINT64_C(0xffff) : 1;
}

/* Passes the turn of `ticket` on and adds `change`. */
G4_FN G4_INLINE void g4_ticket_pass(uint64_t *word, uint32_t ticket, uint64_t change)
{
	uint64_t old = g4_add64_rel(word, g4_ticket_step(ticket) + change);

	if (g4_ticket_sleepers(old))
		g4_ticket_wake(word, g4_ticket_after(ticket));
}

G4_FN G4_INLINE void g4_ticket_lock(uint64_t *word)
{
	uint64_t old = g4_add64_acq(word, G4_TICKET_NEXT);
	uint32_t ticket = g4_ticket_next(old);

	if ((old & G4_TICKET_EXCLUSIVE) != ticket)
		g4_ticket_wait(word, ticket, G4_TICKET_EXCLUSIVE);
}

G4_FN G4_INLINE bool g4_ticket_trylock(uint64_t *word)
{
	uint64_t old = g4_load64_rlx(word);

	return (old & G4_TICKET_EXCLUSIVE) == g4_ticket_next(old) && g4_cas64_acq(word, old, old + G4_TICKET_NEXT);
}

/* The holder has the turn: nobody else changes `serving`, so that a relaxed load knows it. */
G4_FN G4_INLINE void g4_ticket_unlock(uint64_t *word)
{
	g4_ticket_pass(word, g4_ticket_serving(g4_load64_rlx(word)), 0);
}

G4_FN G4_INLINE void g4_ticket_read_unlock(uint64_t *word)
{
	uint64_t old = g4_sub64_rel(word, G4_TICKET_READER);

	/* The last reader out lets in the writer whose turn it is. */
	if (g4_ticket_readers(old) == 1 && g4_ticket_sleepers(old))
		g4_ticket_wake(word, g4_ticket_serving(old));
}

/*
 * Whether nobody has or waits for a turn: no writer is inside. Its ticket came before all it writes: on a GPU the addition
 * is done, seen by all, before a store behind it is issued; on a CPU there is a fence (cpu/lock.c).
 */
G4_FN G4_INLINE bool g4_ticket_is_quiet(uint64_t word)
{
	return g4_ticket_next(word) == g4_ticket_serving(word);
}

/*
 * A reader counts itself in first. If at that moment nobody had a ticket, it is inside: a writer that comes later finds
 * it counted. Otherwise it counts itself out again, as a reader that leaves, and queues. So readers alone, however many,
 * need one addition each, and no comparison that all but one of them would fail.
 */
G4_FN G4_INLINE bool g4_ticket_read_trylock(uint64_t *word)
{
	uint64_t old = g4_add64_acq(word, G4_TICKET_READER);

	if (g4_ticket_is_quiet(old))
		return true;
	g4_ticket_read_unlock(word);
	return false;
}

G4_FN G4_INLINE void g4_ticket_read_lock(uint64_t *word)
{
	uint64_t old;
	uint32_t ticket;

	if (g4_ticket_read_trylock(word))
		return;
	old = g4_add64_acq(word, G4_TICKET_NEXT);
	ticket = g4_ticket_next(old);
	if ((old & G4_TICKET_SHARED) != ticket)
		g4_ticket_wait(word, ticket, G4_TICKET_SHARED);
	g4_ticket_pass(word, ticket, G4_TICKET_READER);
}

#if G4_CUDA
/* As g4_unlock() and the others, behind a release fence. Inline, as what they add is not waited for. */
G4_FN G4_INLINE void g4_unlock_fenced(struct g4_lock *lock)
{
	g4_add64_rlx(&lock->word, g4_ticket_step(g4_ticket_serving(g4_load64_rlx(&lock->word))));
}

G4_FN G4_INLINE void g4_write_unlock_fenced(struct g4_rwlock *lock)
{
	g4_add64_rlx(&lock->word, g4_ticket_step(g4_ticket_serving(g4_load64_rlx(&lock->word))));
}

G4_FN G4_INLINE void g4_read_unlock_fenced(struct g4_rwlock *lock)
{
	g4_add64_rlx(&lock->word, -G4_TICKET_READER);
}

/*
 * Here the turn is the version: each writer takes one, readers only where a writer is about. The word is all that has to be
 * read, before and after. 65 536 writers take 50 ms at least, and a warp that runs is not stopped in the middle of its copy
 * while others go on. Inline: a call would keep its caller's registers in memory meanwhile.
 */
G4_FN G4_INLINE bool g4_read_begin(const struct g4_rwlock *lock, uint32_t *version)
{
	const uint64_t word = g4_load64_acq(&lock->word);

	*version = g4_ticket_serving(word);
	return g4_ticket_is_quiet(word);
}

G4_FN G4_INLINE uint64_t g4_read_begin_or(const struct g4_rwlock *lock, const uint64_t *word)
{
	const uint64_t value = g4_load64_acq(lock ? &lock->word : word);

	if (!lock)
		return value;
	return g4_ticket_is_quiet(value) ? (uint64_t)g4_ticket_serving(value) << 1 | 1 : 0;
}

G4_FN G4_INLINE bool g4_read_unchanged(const struct g4_rwlock *lock, uint32_t version)
{
	const uint64_t word = g4_load64_rlx(&lock->word);

	return g4_ticket_is_quiet(word) && g4_ticket_serving(word) == version;
}
#else
/* A thread may be stopped for longer than the turns take to come round, so that it looks at a version of 32 bits. */
G4_FN G4_INLINE bool g4_ticket_read_begin(const struct g4_rwlock *lock, uint32_t *version)
{
	*version = g4_load32_acq(&lock->version);
	return g4_ticket_is_quiet(g4_load64_acq(&lock->word));
}

/*
 * A writer whose stores we saw is still inside, or it has left, and then its version came before the turn that we see. So
 * the word is read first.
 */
G4_FN G4_INLINE bool g4_ticket_read_unchanged(const struct g4_rwlock *lock, uint32_t version)
{
	return g4_ticket_is_quiet(g4_load64_acq(&lock->word)) && g4_load32_rlx(&lock->version) == version;
}
#endif

#endif
