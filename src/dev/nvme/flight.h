/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands under way in a pair of queues: engine code, the half that requests of the host (requests.h) and of an engine's lanes
 * (lanes.h) share. A command has a slot from its start to its completion. The slot's number and turn are the command's identifier, so
 * a completion that nobody waits for, or that comes twice, is known.
 *
 * A slot is *sent* when its command has a place in the queue, and *parked* when the command waits to be given to the controller
 * (again): the pair was paused, or the controller was reset. The poller, which looks at completions, takes parked slots and
 * sends or fails them.
 * Before, the slot is its holder's, and nobody else touches it.
 *
 *     free --send()--> sent --completion--> free, or ended (lanes.h)
 *                      |  ^
 *        paused, reset |  | send(), by the poller
 *                      v  |
 *                     parked --failed, by the poller--> the same
 */
#ifndef G4_DEV_NVME_FLIGHT_H
#define G4_DEV_NVME_FLIGHT_H

#include "base/error.h"
#include "dev/nvme/pair.h"
#include "dev/slots.h"

#define G4_NVME_TRIES 4u /* of a command whose status does not forbid it */

struct g4_io;
struct g4_nvme_slot {
	struct g4_nvme_command command; /* aligned to 16 B, as all of it should be to 128 */
	struct g4_io *io;		/* of requests.c */
	uint64_t state;			/* of its command, below */
	/*
	 * 1 + the identifier of the last command that was late once, and is to be aborted. It is given to no other one meanwhile: a controller that
	 * takes long to abort one would abort that.
	 */
	uint64_t late;
	uint32_t turn;
	uint32_t tries;
	uint32_t space; /* which of the caches is its namespace's */
	uint8_t padding[28];
};

/*
 * All that others decide on is one word, so that it changes at once. Each command goes through it with a word of its own, and
 * the workgroup that
 * looks learns from it what a completion without an error means without looking at the command.
 *
 *      63                            21   20     19     18     17     16    15                    0
 *     +--------------------------------+------+------+------+------+------+-----------------------+
 *     | when it was sent, or asked to  | ended|cached| flush| sent |parked| 1 + identifier;       |
 *     | be aborted: ns, to 2 ms        |      | write|      |      |      | ended: positive code  |
 *     +--------------------------------+------+------+------+------+------+-----------------------+
 */
#define G4_NVME_ID_MASK 0xffffu
#define G4_NVME_PARKED 0x10000u
#define G4_NVME_SENT 0x20000u
#define G4_NVME_FLUSHES 0x40000u
#define G4_NVME_CACHED 0x80000u
#define G4_NVME_ENDED 0x100000u
#define G4_NVME_SINCE_MASK (~UINT64_C(0x1fffff))

/* Whether this is the state of a slot whose command, with this identifier, the controller was given. */
G4_HD G4_INLINE bool g4_nvme_is_under_way(uint64_t state, uint32_t id)
{
	return ((uint32_t)state & (G4_NVME_ID_MASK | G4_NVME_PARKED | G4_NVME_SENT | G4_NVME_ENDED)) ==
	       ((id + 1) | G4_NVME_SENT);
}

struct g4_nvme_counts {
	uint64_t completed, retried, failed;
	uint64_t stray;	 /* completions that nobody waits for */
	uint64_t resent; /* commands that a reset found under way */
	/* the host's to count: requests whose data was copied, ABORTs, resets that succeeded */
	uint64_t copied, aborted, resets;
};

#if !G4_CUDA
/* Adds what a queue has counted, word by word. */
static inline void g4_nvme_counts_add(struct g4_nvme_counts *sum, const struct g4_nvme_counts *of)
{
	sum->completed += g4_load64_rlx(&of->completed);
	sum->retried += g4_load64_rlx(&of->retried);
	sum->failed += g4_load64_rlx(&of->failed);
	sum->stray += g4_load64_rlx(&of->stray);
	sum->resent += g4_load64_rlx(&of->resent);
}
#endif

/*
 * What the controller may lose of a namespace by a reset; one for all queues whose users see each other's flushes. A flush is of one
 * namespace.
 */
#define G4_NVME_SPACES_MOST 16u
struct g4_nvme_cache {
	uint32_t is_volatile;
	uint32_t dirty; /* a write was acknowledged, and no flush was sent since */
	uint32_t lost;	/* not 0: what was acknowledged may be gone, so no flush succeeds */
	uint32_t shut;	/* not 0: the namespace is not what it was, so nothing but reads succeeds; for good */
};
#define G4_NVME_LOST 1u	  /* for good */
#define G4_NVME_UNSURE 2u /* the users of another queue have not said yet */

struct g4_nvme_flight {
	struct g4_nvme_pair pair;
	struct g4_nvme_slot slots[G4_SLOTS_MOST];
	struct g4_nvme_cache *cache;  /* of `spaces` namespaces, at least one */
	struct g4_nvme_counts counts; /* the looker's; read by others word by word */
	uint32_t count;		      /* slots in use */
	uint32_t parked;	      /* slots */
	uint32_t paused;	      /* the looker's: there are no completions to be looked at */
	uint32_t dead;		      /* the looker's: parked commands fail */
	uint32_t spaces;	      /* 0: 1 */
	uint8_t padding[36];
};

/* Per-lane; the slot's holder. The slot's command is a copy of this one, aligned to 16 B, whose identifier is set; sends it. */
G4_FN void g4_nvme_flight_begin(struct g4_nvme_flight *flight, uint32_t number, struct g4_nvme_command *command);
/* The poller. Whether the controller was given the command with this identifier; if so, its slot is the caller's. */
G4_FN bool g4_nvme_flight_claim(struct g4_nvme_flight *flight, uint32_t id);
/*
 * The poller; the slot's command has ended with this status. False: it was sent again. Otherwise *code is what it has come to, 0 or
 * negative. A FLUSH is not sent again, unless it was aborted because it was late: what a failed one lost stays lost, and one that succeeds
 * after it says nothing about that. So it fails, too, where the controller did it and something was lost before: it may have been sent after a reset that nobody knew of
 * when it was begun.
 */
G4_FN bool g4_nvme_flight_ended(struct g4_nvme_flight *flight, uint32_t number, uint32_t status, int32_t *code);
/*
 * The poller. Goes on from slot *number, 0 at first, to the next parked one. True: that is to fail, and is nobody's but the caller's.
 * Those that are to be sent are sent on the way. False: there are no more.
 */
G4_FN bool g4_nvme_flight_fails(struct g4_nvme_flight *flight, uint32_t *number);
/* Thread-safe. A command that is under way since `ns` or longer: 1 + its identifier; 0: there is none. */
G4_FN uint32_t g4_nvme_flight_late(const struct g4_nvme_flight *flight, uint64_t now_ns, uint64_t ns);
/* Thread-safe. Notes that such a command is to be aborted, and gives it as much time again. */
enum g4_nvme_lateness {
	G4_NVME_LATE,
	G4_NVME_LATE_AGAIN, /* it was noted before */
	G4_NVME_NOT_LATE    /* it has ended: there is nothing to be aborted */
};
G4_FN enum g4_nvme_lateness g4_nvme_flight_give_time(struct g4_nvme_flight *flight, uint32_t late, uint64_t now_ns);
/*
 * The workgroup that keeps others from looking. From the return on nothing is sent, and what was under way is parked. Returns
 * of which namespaces, space s by bit s, the controller's reset would lose what was acknowledged.
 */
G4_FN uint32_t g4_nvme_flight_pause(struct g4_nvme_flight *flight);
/* The same. The controller has empty queues. */
G4_FN void g4_nvme_flight_restart(struct g4_nvme_flight *flight);

#endif
