/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool of numbered slots that many workgroups share. What a device behind an agent (remote.h) and a queue of an NVMe controller
 * (nvme/requests.h) have for requests under way.
 *
 * Free slots stand in a line, the *free line*. Ticket t of it waits at place t % count. The high half of the place is t while the place
 * is to be filled, t + 1 when it holds a slot, and t + count when that was taken: the place counts the turns, so that nobody mistakes
 * a slot for one of the turn before. Tickets and turns wrap around, after 2^32 of them: places then stay the same only where `count` is
 * a power of two. Then they begin shortly before that. The counters of tickets order nothing; a slot is handed over through its place alone.
 *
 * A workgroup that finds no free slot waits in the line of its request's class. Classes take turns by weighted round robin with bursts:
 * G4_SLOTS_ROUND slots go to journal, metadata, foreground and background as 8 : 4 : 2 : 1, those of a class in a row; a class
 * without a waiter has no turn. So:
 *   - within a class, slots are given in the order of asking;
 *   - a class with a waiter gets its weight of any G4_SLOTS_ROUND slots that are dealt: the waiter at position p (from 1 on) of a class
 *     of weight w is overtaken by at most ceil(p / w) * (G4_SLOTS_ROUND - w) later ones. Nobody is overtaken for ever.
 * Background holds at most a quarter of the slots: what a controller has still to do when a journal's write arrives is bounded by that,
 * which turns alone do not bound.
 *
 *     free line --fast: nobody waits----------------------------> taken
 *               --dealt, by the holder of `dealing`, to a class--> line of the class --its ticket--> taken
 *
 * Dealing is done by whoever gives a slot back, asks for one, or waits: nobody waits for the lock, and a dealer waits for no waiter.
 */
#ifndef G4_DEV_SLOTS_H
#define G4_DEV_SLOTS_H

#include "dev/padding.h"
#include "simt/simt.h"

#define G4_SLOTS_MOST 256u

/* Classes of requests; dev.h: G4_IO_CLASS(). */
enum g4_io_class { G4_CLASS_FOREGROUND, G4_CLASS_JOURNAL, G4_CLASS_METADATA, G4_CLASS_BACKGROUND };
#define G4_CLASSES 4u
#define G4_SLOTS_ROUND 15u

/* Each counter that many lanes change has a cache line. */
struct g4_slots_line {
	uint32_t asked; /* tickets */
	G4_QUEUE_PADDING(padding0, 4)
	uint32_t dealt; /* slots; the dealer's, read by others */
	G4_QUEUE_PADDING(padding1, 4)
	uint64_t places[G4_SLOTS_MOST];
};

struct g4_slots {
	uint32_t count;
	uint32_t background_most; /* slots that background may hold */
	G4_QUEUE_PADDING(padding0, 8)
	uint32_t taken; /* tickets of the free line */
	G4_QUEUE_PADDING(padding1, 4)
	uint32_t given; /* slots put into it, those at the beginning included */
	G4_QUEUE_PADDING(padding2, 4)
	uint64_t places[G4_SLOTS_MOST];
	uint32_t looking; /* lock: 1 while somebody looks at what has ended, for all that wait */
	G4_QUEUE_PADDING(padding3, 4)
	uint32_t waiting; /* tickets of classes that no slot was dealt to */
	G4_QUEUE_PADDING(padding4, 4)
	uint32_t background; /* slots that background holds */
	G4_QUEUE_PADDING(padding5, 4)
	uint32_t dealing; /* lock, of the two words that follow and of `dealt` */
	uint32_t turn;	  /* class */
	uint32_t burst;	  /* slots that are left of its turn */
	G4_QUEUE_PADDING(padding6, 12)
	struct g4_slots_line lines[G4_CLASSES];
#if G4_QUEUE_PAD < 128
	uint8_t end[G4_QUEUE_PAD > 0 ? 32 : 56]; /* a multiple of 128 as well */
#endif
};

/* All `count` slots free, at most G4_SLOTS_MOST. Host only. */
#if !G4_CUDA
void g4_slots_init(struct g4_slots *slots, uint32_t count);
#endif

/*
 * All of it per-lane, thread-safe. Takes a slot only when there is one for all that wait and may have one; never blocks for long.
 * `io_class`: enum g4_io_class, the same one when the slot is given back.
 */
G4_FN bool g4_slots_take(struct g4_slots *slots, uint32_t io_class, uint32_t *slot);
/* A ticket. Its holder has to take its slot: those behind wait for that. */
G4_FN uint32_t g4_slots_ask(struct g4_slots *slots, uint32_t io_class);
/* Whether the ticket's turn has come; if so, its slot. Deals, if it is necessary. */
G4_FN bool g4_slots_got(struct g4_slots *slots, uint32_t io_class, uint32_t ticket, uint32_t *slot);
/* Waits for nobody who does anything but take a slot. */
G4_FN void g4_slots_give(struct g4_slots *slots, uint32_t io_class, uint32_t slot);
/* Slots in use, and those that wait for one; it may be old. */
G4_FN uint32_t g4_slots_load(const struct g4_slots *slots);
/* The lock that nobody waits for. */
G4_FN bool g4_slots_try_look(struct g4_slots *slots);
G4_FN void g4_slots_looked(struct g4_slots *slots);
/* Between two looks, longer and longer; *rests begins as 1. */
G4_FN void g4_slots_rest(uint32_t *rests);

#endif
