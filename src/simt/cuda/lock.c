/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How workgroups wait, in the cuda build. Nothing can put a warp to sleep and wake it: waiting is reading again after a
 * pause. A ticket says how many are ahead, so the pause grows with the distance and the memory system sees about one
 * reader a lock.
 */
#include "simt/cuda/stop.h"
#include "simt/ticket.h"

/* Nanoseconds to wait for each ticket ahead: about what a short critical section takes. */
#define AHEAD_NS 200
#define TURN_NS 32
#define LONGEST_NS 2000
/* g4_wait() returns after this long, so that its caller can see whether the engine is being stopped. */
#define WAIT_NS 1000000

G4_FN uint32_t g4_abort_word;

/* Between two looks at what is waited for. */
G4_FN static void pause_for(uint32_t ns)
{
	if (g4_load32_rlx(&g4_abort_word))
		__trap();
	__nanosleep(ns);
}

G4_FN void g4_ticket_wait(uint64_t *word, uint32_t ticket, uint64_t mask)
{
	uint64_t now;

	while (((now = g4_load64_rlx(word)) & mask) != ticket) {
		uint32_t ahead = (ticket - g4_ticket_serving(now)) & 0xffff;

		pause_for(ahead ? (uint32_t)g4_min64(ahead * AHEAD_NS, LONGEST_NS) : TURN_NS);
	}
	/* Ours until we pass it on: this load, with acquire order, still finds the turn. */
	g4_load64_acq(word);
}

G4_FN void g4_lock(struct g4_lock *lock)
{
	g4_ticket_lock(&lock->word);
}

G4_FN bool g4_trylock(struct g4_lock *lock)
{
	return g4_ticket_trylock(&lock->word);
}

G4_FN void g4_unlock(struct g4_lock *lock)
{
	g4_ticket_unlock(&lock->word);
}

G4_FN void g4_read_lock(struct g4_rwlock *lock)
{
	g4_ticket_read_lock(&lock->word);
}

/* Nobody sleeps here: there is no gate. */
G4_FN void g4_read_lock_at_gate(struct g4_rwlock *lock)
{
	g4_ticket_read_lock(&lock->word);
}

G4_FN bool g4_read_trylock(struct g4_rwlock *lock)
{
	return g4_ticket_read_trylock(&lock->word);
}

G4_FN void g4_read_unlock(struct g4_rwlock *lock)
{
	g4_ticket_read_unlock(&lock->word);
}

G4_FN void g4_write_lock(struct g4_rwlock *lock)
{
	g4_ticket_lock(&lock->word);
}

G4_FN bool g4_write_trylock(struct g4_rwlock *lock)
{
	return g4_ticket_trylock(&lock->word);
}

G4_FN void g4_write_unlock(struct g4_rwlock *lock)
{
	g4_ticket_unlock(&lock->word);
}

/* As a writer that comes and goes. */
G4_FN void g4_next_version(struct g4_rwlock *lock)
{
	const uint32_t serving = g4_ticket_serving(g4_load64_rlx(&lock->word));

	g4_add64_rel(&lock->word, G4_TICKET_NEXT + g4_ticket_step(serving));
}

G4_FN void g4_wait(uint32_t *word, uint32_t seen)
{
	uint64_t until = g4_monotonic_ns() + WAIT_NS;
	uint32_t pause_ns = TURN_NS;

	while (g4_load32_rlx(word) == seen && g4_monotonic_ns() < until) {
		pause_for(pause_ns);
		if (pause_ns < LONGEST_NS)
			pause_ns *= 2;
	}
	g4_load32_acq(word);
}

/* Waiters look by themselves. */
G4_FN void g4_wake(uint32_t *word)
{
	(void)word;
}

G4_FN void g4_pause(void)
{
	pause_for(TURN_NS);
}
