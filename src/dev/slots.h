/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool of numbered slots that many workgroups share, given in the order of asking. What a device behind an agent
 * (remote.h) and a queue of an NVMe controller (nvme/requests.h) have for requests under way.
 *
 * Ticket t waits at place t % count. The high half of the place is t while the place is to be filled, t + 1 when it holds a slot,
 * and t + count when that was taken: the place counts the turns, so that nobody mistakes a slot for one of the turn before. Tickets
 * and turns wrap around, after 2^32 of them: places then stay the same only where `count` is a power of two. The two counters of
 * tickets order nothing; a slot is handed over through its place alone.
 */
#ifndef G4_DEV_SLOTS_H
#define G4_DEV_SLOTS_H

#include "simt/simt.h"

#define G4_SLOTS_MOST 256u

/* Each counter that many lanes change has a cache line. */
struct g4_slots {
	uint32_t count;
	uint8_t padding0[124];
	uint32_t taken; /* tickets for slots */
	uint8_t padding1[124];
	uint32_t given; /* slots given back, those at the beginning included */
	uint8_t padding2[124];
	uint64_t places[G4_SLOTS_MOST];
	uint32_t looking; /* lock: 1 while somebody looks at what has ended, for all that wait */
	uint8_t padding3[124];
};

/* All `count` slots free, at most G4_SLOTS_MOST. Host only. */
#if !G4_CUDA
void g4_slots_init(struct g4_slots *slots, uint32_t count);
#endif

/* All of it per-lane, thread-safe. Takes a slot only when there is one for all that wait; never blocks for long. */
G4_FN bool g4_slots_take(struct g4_slots *slots, uint32_t *slot);
/* A ticket. Its holder has to take its slot: those behind wait for that. */
G4_FN uint32_t g4_slots_ask(struct g4_slots *slots);
/* Whether the ticket's turn has come. */
G4_FN bool g4_slots_has(const struct g4_slots *slots, uint32_t ticket);
/* The same; if so, its slot. */
G4_FN bool g4_slots_got(struct g4_slots *slots, uint32_t ticket, uint32_t *slot);
/*
 * Waits for the ticket that had its place before and has not taken that slot yet. So a caller that gives `count` slots in a row has no
 * ticket whose slot is there, and gives no more of them.
 */
G4_FN void g4_slots_give(struct g4_slots *slots, uint32_t slot);
/* The lock that nobody waits for. */
G4_FN bool g4_slots_try_look(struct g4_slots *slots);
G4_FN void g4_slots_looked(struct g4_slots *slots);
/* Between two looks, longer and longer; *rests begins as 1. */
G4_FN void g4_slots_rest(uint32_t *rests);

#endif
