/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How threads wait, in the cpu and lanes builds: briefly with pauses, then asleep on a futex. A lock or a word that
 * nobody sleeps on costs no system call. Also the clocks.
 *
 * A ticket's turn is one particular thread's, so a release wakes that one alone: sleepers wait with a bit of the
 * futex's bitset that their ticket chooses. Waking all would start every thread in the queue only to send all but one
 * back to sleep.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock_host.h"

#define G4_ORDER_IS_BELOW /* the locks themselves are defined here */
#include "simt/ticket.h"

/* Pauses before a thread sleeps: a few microseconds, about what sleeping and waking cost. ThreadSanitizer makes a look as slow. */
#if defined(G4_TSAN)
#define SPIN_PAUSES 5
#else
#define SPIN_PAUSES 100
#endif
/* g4_pause() calls after which a thread offers its core to another: the one it waits for may need it. */
#define PAUSES_PER_YIELD 64

static void cpu_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ __volatile__("yield" ::: "memory");
#endif
}

/* Sleeping is the base of every lock: where the kernel refuses it there is no way to go on. */
static void futex_failed(const char *what)
{
	perror(what);
	abort();
}

/* Sleeps while *word == seen and nobody wakes a bit of `bits`. Returns spuriously; true: somebody woke us. */
static bool futex_wait(const void *word, uint32_t seen, uint32_t bits)
{
	if (syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, seen, NULL, NULL, bits) == 0)
		return true;
	if (errno != EAGAIN && errno != EINTR)
		futex_failed("gpu4fs: futex wait");
	return false;
}

static void futex_wake(const void *word, uint32_t bits, int most)
{
	if (syscall(SYS_futex, word, FUTEX_WAKE_BITSET_PRIVATE, most, NULL, NULL, bits) < 0)
		futex_failed("gpu4fs: futex wake");
}

static uint32_t ticket_bit(uint32_t ticket)
{
	return UINT32_C(1) << (ticket & 31);
}

void g4_ticket_wait(uint64_t *word, uint32_t ticket, uint64_t mask)
{
	uint64_t now;

	for (uint32_t i = 0; i < SPIN_PAUSES; i++) {
		cpu_pause();
		/* a look is relaxed; acquiring is for the one that has seen its turn, which stays */
		if ((g4_load64_rlx(word) & mask) == ticket && (g4_load64_acq(word) & mask) == ticket)
			return;
	}
	now = g4_add64(word, G4_TICKET_SLEEPER);
	/* The futex is the low half of the word: the turn and the readers, all that a waiter waits for. */
	while ((now & mask) != ticket) {
		futex_wait(word, (uint32_t)now, ticket_bit(ticket));
		now = g4_load64_acq(word);
	}
	g4_sub64(word, G4_TICKET_SLEEPER);
}

void g4_ticket_wake(uint64_t *word, uint32_t ticket)
{
	futex_wake(word, ticket_bit(ticket), INT_MAX);
}

void g4_lock(struct g4_lock *lock)
{
	g4_ticket_lock(&lock->word);
}

bool g4_trylock(struct g4_lock *lock)
{
	return g4_ticket_trylock(&lock->word);
}

void g4_unlock(struct g4_lock *lock)
{
	g4_ticket_unlock(&lock->word);
}

void g4_read_lock(struct g4_rwlock *lock)
{
	g4_ticket_read_lock(&lock->word);
}

bool g4_read_trylock(struct g4_rwlock *lock)
{
	return g4_ticket_read_trylock(&lock->word);
}

void g4_read_unlock(struct g4_rwlock *lock)
{
	g4_ticket_read_unlock(&lock->word);
}

/*
 * The gate in front of a readers/writer lock, which one writer at a time passes. Tickets alone would make a queue of writers: once
 * more of them wait than there are processors, every turn is a sleeper's, and each write takes as long as waking a thread does
 * (4 KiB writes to one file by 8 threads of a FUSE server on 2 processors: 19 us instead of 9). At the gate a thread that is awake
 * passes those that sleep, and of these one at a time is on its way. A thread that has lost in this way for a millisecond goes round
 * the gate to the tickets, so that nobody waits for long: without that a writer that comes again and again kept others out for
 * seconds.
 *
 *      31            3        2         1       0
 *     +---------------+-------------+-------+-------+
 *     |    waiters    | went round  | woken | taken |
 *     +---------------+-------------+-------+-------+
 *
 * woken: a thread that slept is awake and has not looked yet; then no other is woken. went round: the holder of the lock did;
 * written and read by the owner of the lock.
 */
#define GATE_TAKEN 1u
#define GATE_WOKEN 2u
#define GATE_ROUND 4u
#define GATE_WAITER 8u
#define GATE_PATIENCE_NS 1000000u

static bool gate_try(uint32_t *gate)
{
	uint32_t old = g4_load32_rlx(gate);

	return !(old & GATE_TAKEN) && g4_cas32_acq(gate, old, old | GATE_TAKEN);
}

/* True: passed. False: it took too long. */
static bool gate_wait(uint32_t *gate)
{
	for (uint32_t i = 0; i < SPIN_PAUSES; i++) {
		cpu_pause();
		if (gate_try(gate))
			return true;
	}
	const uint64_t until = g4_clock_ns(CLOCK_MONOTONIC) + GATE_PATIENCE_NS;
	bool woken = false; /* a thread that was not woken has not lost to another */
	g4_add32(gate, GATE_WAITER);
	for (;;) {
		uint32_t old = g4_load32_rlx(gate), looked = old & ~GATE_WOKEN;

		if (!(old & GATE_TAKEN)) {
			if (g4_cas32_acq(gate, old, (looked - GATE_WAITER) | GATE_TAKEN))
				return true;
		} else if (woken && g4_clock_ns(CLOCK_MONOTONIC) > until) {
			if (g4_cas32(gate, old, looked - GATE_WAITER)) /* its holder wakes a sleeper */
				return false;
		} else if (old == looked || g4_cas32(gate, old, looked)) {
			woken |= futex_wait(gate, looked, FUTEX_BITSET_MATCH_ANY);
		}
	}
}

static void gate_leave(uint32_t *gate)
{
	for (;;) {
		const uint32_t old = g4_load32_rlx(gate), left = old & ~GATE_TAKEN;
		const bool wakes = old >= GATE_WAITER && !(old & GATE_WOKEN);

		if (!g4_cas32(gate, old, wakes ? left | GATE_WOKEN : left))
			continue;
		if (wakes)
			futex_wake(gate, FUTEX_BITSET_MATCH_ANY, 1);
		return;
	}
}

/*
 * The fence: a reader without the lock that sees a store of ours sees our ticket. Acquire order alone lets an arm64 show the
 * store first; an x86 does not, and there the fence costs nothing.
 */
void g4_write_lock(struct g4_rwlock *lock)
{
	const bool passed = gate_try(&lock->gate) || gate_wait(&lock->gate);

	g4_ticket_lock(&lock->word);
	if (!passed)
		g4_or32(&lock->gate, GATE_ROUND);
	g4_fence_rel();
}

/*
 * Readers with tickets make the same queue behind a writer: one of them sleeps, a reader that comes meanwhile finds its
 * ticket and sleeps,
 * too, and nobody is in time any more (creates in one directory by 4 threads on 2 processors: 9 us each instead of 3). At the gate
 * they have no tickets yet.
 */
void g4_read_lock_at_gate(struct g4_rwlock *lock)
{
	if (g4_ticket_read_trylock(&lock->word))
		return;
	const bool passed = gate_try(&lock->gate) || gate_wait(&lock->gate);
	g4_ticket_read_lock(&lock->word);
	if (passed)
		gate_leave(&lock->gate);
}

bool g4_write_trylock(struct g4_rwlock *lock)
{
	if (!gate_try(&lock->gate))
		return false;
	if (!g4_ticket_trylock(&lock->word)) {
		gate_leave(&lock->gate);
		return false;
	}
	g4_fence_rel();
	return true;
}

void g4_write_unlock(struct g4_rwlock *lock)
{
	g4_store32_rlx(&lock->version, g4_load32_rlx(&lock->version) + 1);
	const bool passed = !(g4_load32_rlx(&lock->gate) & GATE_ROUND);
	if (!passed)
		g4_and32(&lock->gate, ~GATE_ROUND);
	g4_ticket_unlock(&lock->word);
	if (passed)
		gate_leave(&lock->gate); /* last: the lock's memory is the next writer's */
}

bool g4_read_begin(const struct g4_rwlock *lock, uint32_t *version)
{
	return g4_ticket_read_begin(lock, version);
}

bool g4_read_unchanged(const struct g4_rwlock *lock, uint32_t version)
{
	return g4_ticket_read_unchanged(lock, version);
}

void g4_next_version(struct g4_rwlock *lock)
{
	g4_store32_rel(&lock->version, g4_load32_rlx(&lock->version) + 1);
}

/* Out of ThreadSanitizer's sight: that the words change meanwhile is what its caller finds out afterwards. */
__attribute__((noinline, no_sanitize("thread"))) void g4_peek(void *to, const void *from, uint32_t words)
{
	uint64_t *out = to;
	const volatile uint64_t *in = from;

	for (uint32_t i = 0; i < words; i++)
		out[i] = in[i];
}

/*
 * How many threads sleep on the words that hash to a bed, so that g4_wake() knows without a system call that there is
 * nobody. The waiter counts itself, then looks at the word; the waker changes the word, then looks at the count with a
 * read-modify-write. These two are ordered on the count: if the waker came first, the waiter sees the changed word; if
 * the waiter came first, the waker sees it. Neither can miss the other.
 */
#define BEDS 64
static struct bed {
	uint32_t sleepers;
	uint8_t own_cache_line[60];
} beds[BEDS];

static struct bed *bed_of(const uint32_t *word)
{
	return &beds[((uintptr_t)word >> 2) * UINT64_C(0x9e3779b97f4a7c15) >> 58];
}

void g4_wait(uint32_t *word, uint32_t seen)
{
	struct bed *bed = bed_of(word);

	for (uint32_t i = 0; i < SPIN_PAUSES; i++) {
		if (g4_load32_rlx(word) != seen && g4_load32_acq(word) != seen)
			return;
		cpu_pause();
	}
	g4_add32(&bed->sleepers, 1);
	if (g4_load32_acq(word) == seen)
		futex_wait(word, seen, FUTEX_BITSET_MATCH_ANY);
	g4_sub32(&bed->sleepers, 1);
}

void g4_wake(uint32_t *word)
{
	if (g4_add32(&bed_of(word)->sleepers, 0))
		futex_wake(word, FUTEX_BITSET_MATCH_ANY, INT_MAX);
}

void g4_pause(void)
{
	static __thread uint32_t pauses;

	if (++pauses % PAUSES_PER_YIELD)
		cpu_pause();
	else
		sched_yield(); /* on Linux it always succeeds */
}

int64_t g4_realtime_ns(void)
{
	return (int64_t)g4_clock_ns(CLOCK_REALTIME);
}

int64_t g4_realtime_of_tick_ns(void)
{
	return (int64_t)g4_clock_ns(CLOCK_REALTIME_COARSE);
}

uint64_t g4_monotonic_ns(void)
{
	return g4_clock_ns(CLOCK_MONOTONIC);
}
