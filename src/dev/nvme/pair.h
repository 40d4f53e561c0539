/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A submission queue and its completion queue, shared with a controller: engine code, so that lanes fill and poll them.
 *
 * Any number of lanes submits at once. A ticket is a place in an endless queue, and place t % entries of the real one. A lane
 * writes its command there and sets the place's mark. Then the holder of the tail moves it over all marked places and rings the
 * doorbell once for them. Nobody waits: a lane that finds the tail held leaves, for its holder looks at the marks again after
 * releasing it. A mark is the ticket behind its own, so it need not be taken away and one of the turn before is no mark.
 *
 * The caller sees to it that at most half as many commands as `entries` are under way (slots.h). So there is always a place: a
 * controller takes commands in their order, so if the command of `entries` tickets ago were not taken yet, all since then would be
 * under way. And the controller always has room for completions though it is told of places that are free again only when they are a
 * quarter of the queue: ringing is a store to I/O memory.
 * Tickets wrap around; they begin shortly before that, so that it happens all the time and not once a month.
 *
 * Tickets are even numbers, as everybody adds 2. An odd count says that the pair is paused: what is added to it then is no ticket.
 * So the workgroup that pauses the pair knows exactly which tickets were given before, and submitting costs nothing more (recovery,
 * docs/design/nvme.md).
 *
 * Document 002, chapter 4.1.1, with the differences that docs/design/nvme.md gives.
 */
#ifndef G4_DEV_NVME_PAIR_H
#define G4_DEV_NVME_PAIR_H

#include "dev/nvme/spec.h"
#include "dev/padding.h"
#include "simt/simt.h"

#define G4_NVME_ENTRIES_MOST 256u
#define G4_NVME_TAKE_MOST 16u

/* Each word that many lanes change has a cache line. */
struct g4_nvme_pair {
	struct g4_nvme_command *commands; /* as the engine addresses them */
	const struct g4_nvme_completion *completions;
	uint32_t *tail_doorbell;
	uint32_t *head_doorbell;
	uint32_t entries; /* of both: a power of two */
	uint32_t head;	  /* the reaper's; one at a time */
	uint32_t told;	  /* the head that the controller knows */
	G4_QUEUE_PADDING(padding0, 44)
	uint32_t tickets;
	G4_QUEUE_PADDING(padding1, 4)
	uint32_t tail;	/* and its lock: odd while a lane has it */
	uint32_t rings; /* of the tail's doorbell */
	G4_QUEUE_PADDING(padding2, 8)
	uint32_t marks[G4_NVME_ENTRIES_MOST];
#if G4_QUEUE_PAD == 0
	uint8_t end[72]; /* a multiple of 128 as well */
#endif
};

/* Nothing under way; the queues' memory is zeroed, and `entries` at least 2. Host only. */
#if !G4_CUDA
void g4_nvme_pair_init(struct g4_nvme_pair *pair, void *commands, const void *completions, uint32_t *tail_doorbell,
		       uint32_t *head_doorbell, uint32_t entries);
#endif

/*
 * Per-lane, thread-safe. Submits a copy of the command, which is aligned to 16 B. False: the pair is paused, and nothing was done.
 * Otherwise *sent is set to `value` first, and then *dirty to 0, unless they are NULL: the workgroup that pauses the pair
 * sees both, although the
 * caller may not have returned yet.
 */
G4_FN bool g4_nvme_pair_submit(struct g4_nvme_pair *pair, const struct g4_nvme_command *command, uint64_t *sent,
			       uint64_t value, uint32_t *dirty);
/* Per-lane, thread-safe: for a lane that waits. Rings for commands that the holder of the tail left after a few rounds. */
G4_FN void g4_nvme_pair_help(struct g4_nvme_pair *pair);
/*
 * Per-lane, thread-safe; the pair is not paused. Whether the doorbell has been rung for all tickets, at one moment at least: for all commands that
 * this lane has submitted, then.
 */
G4_FN bool g4_nvme_pair_is_rung(const struct g4_nvme_pair *pair);
/* Per-lane, one at a time. The next completion, if there is one: its last 8 bytes, and the first 4 where `result` is not NULL. */
G4_FN bool g4_nvme_pair_next(struct g4_nvme_pair *pair, uint64_t *end, uint32_t *result);
/*
 * Per-lane, one at a time. The same of as many as there are, at most G4_NVME_TAKE_MOST; how many. If there are several, what the
 * caller stores next is a release of what they tell of.
 */
G4_FN uint32_t g4_nvme_pair_take(struct g4_nvme_pair *pair, uint64_t end[G4_NVME_TAKE_MOST]);
/* Per-lane, one at a time. Whether there is one. */
G4_FN bool g4_nvme_pair_is_answered(const struct g4_nvme_pair *pair);
/* Per-lane, one at a time. Gives what was taken back to the controller, when it is worth a doorbell. */
G4_FN void g4_nvme_pair_consumed(struct g4_nvme_pair *pair);

/*
 * Per-lane, one at a time, by the workgroup that keeps others from looking at completions. From the return on, no command is
 * written and no doorbell
 * rung until g4_nvme_pair_restart(). Waits for the workgroups that are submitting, which wait for none.
 */
G4_FN void g4_nvme_pair_pause(struct g4_nvme_pair *pair);
/* Of a paused pair, after the controller has got empty queues there, with completions zeroed. */
G4_FN void g4_nvme_pair_restart(struct g4_nvme_pair *pair);

#endif
