/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side of a ring: commands of many threads go into one ring and come back. Host only. */
#ifndef G4_RING_CLIENT_HOST_H
#define G4_RING_CLIENT_HOST_H

#include "ring/ring.h"

struct g4_ring_client;

/* Sizes of a ring that its maker did not choose. */
#define G4_RING_DEFAULT_ENTRIES 1024u
#define G4_RING_DEFAULT_DATA_BYTES (32 * G4_MIB)
#define G4_RING_MIN_DATA_BYTES (4 * G4_MIB)

/*
 * Uses a ring and its data area, both mapped; they stay the caller's. `doorbell` is the descriptor for G4_RING_DOORBELL or -1;
 * `watched` one that hangs up when the engine's process ends, or -1. `own` is the user that commands act for when they carry no
 * credentials. NULL: no memory, or the header makes no sense.
 */
struct g4_ring_client *g4_ring_client_new(void *ring, void *data, int doorbell, int watched, const struct g4_cred *own);
/* From now on the doorbell is rung by a call, in this process, which may begin the work itself. Before the first command. */
void g4_ring_client_ring_by(struct g4_ring_client *client, void (*ring_doorbell)(void *context), void *context);
/*
 * From now on results are put into the callers' memory by a function that says false where it cannot be written: -G4_E_FAULT. Before the
 * first command.
 */
void g4_ring_client_deliver_by(struct g4_ring_client *client,
			       bool (*deliver)(void *to, const void *from, size_t bytes));
/* The same two descriptors under other numbers; the old ones stay open. */
void g4_ring_client_watch(struct g4_ring_client *client, int doorbell, int watched);
/* No call is running. */
void g4_ring_client_free(struct g4_ring_client *client);
/*
 * Runs one command and waits for its result; returns cmd->status. Data outside the data area is copied through it, in
 * pieces where it is long. -G4_E_IO when the engine is gone. Thread-safe.
 */
int g4_ring_client_execute(struct g4_ring_client *client, struct g4_cmd *cmd);
/* A path that leads from cmd->node to the inode that the command is about. */
struct g4_walk {
	const char *path;
	uint32_t bytes; /* 0: cmd->node is that inode */
	uint32_t flags; /* G4_RESOLVE_*, G4_WALK_* (ring.h, which says what commands) */
};
/* The same with a walk before it, as one command of the ring; it has no data. Thread-safe. */
int g4_ring_client_execute_at(struct g4_ring_client *client, struct g4_cmd *cmd, const struct g4_walk *walk);
/*
 * Has a command run whose result nobody wants: one without data and with little text, such as RELEASE and FORGET. Other commands may
 * pass it. Thread-safe.
 */
void g4_ring_client_post(struct g4_ring_client *client, struct g4_cmd *cmd);
/*
 * Commands ahead (ahead_host.c): a caller gives them before anybody waits for what they tell. There are a few, of all callers together: what nobody has asked
 * for while 64 more of its kind were wanted may be forgotten for those. All of these are thread-safe, each command ahead is one caller's.
 *
 * Begins a READ of up to G4_RING_AHEAD_BYTES, into a buffer of the client's; *read stands for it from then on. False: there is no room now.
 */
#define G4_RING_AHEAD_BYTES (256u * 1024)
bool g4_ring_client_begin_read(struct g4_ring_client *client, const struct g4_cmd *cmd, uint64_t *read);
/*
 * Waits until it has read: what, with the command's status and how much that is, the caller's until the end. NULL: it was forgotten, and has ended.
 */
const uint8_t *g4_ring_client_await_read(struct g4_ring_client *client, uint64_t read, int *status, uint32_t *bytes);
/* Ends one, whether it was waited for or not; keep: one that was, which shall be asked for again, is only given back for now. */
void g4_ring_client_end_read(struct g4_ring_client *client, uint64_t read, bool keep);
/*
 * Begins a LOOKUP or RESOLVE, with attributes and a trail; its name is the caller's again at once. False: there is no room now, or name and user
 * (where that is another one than the ring's) do not fit into a slot.
 */
#define G4_LOOKUPS_AHEAD 32u
bool g4_ring_client_begin_lookup(struct g4_ring_client *client, const struct g4_cmd *cmd, uint64_t *lookup);
/* Waits for it, which ends it: cmd->status, *cmd->attr and *trail (count 0: none) are its result. False: it was forgotten. */
bool g4_ring_client_await_lookup(struct g4_ring_client *client, uint64_t lookup, struct g4_cmd *cmd,
				 struct g4_trail *trail);
/* Ends one that nobody will wait for. */
void g4_ring_client_end_lookup(struct g4_ring_client *client, uint64_t lookup);
/* Fails every call from now on, also those that wait (the engine stopped, or the connection is closed). Thread-safe. */
void g4_ring_client_stop(struct g4_ring_client *client);
/*
 * Whether the engine is there, as far as is known: its process is looked after in times of 10 ms. For who answers without it. Thread-safe; 10
 * ns, mostly.
 */
bool g4_ring_client_lives(struct g4_ring_client *client);
/* Whether that was done, by the caller or by a call that found the engine gone, or the engine has said that it goes. Thread-safe. */
bool g4_ring_client_is_stopped(const struct g4_ring_client *client);
/* How often the server has seen its table of mounts change, of late; another number than before: it has again. Thread-safe. */
uint32_t g4_ring_client_mount_changes(const struct g4_ring_client *client);
/*
 * Memory of the data area for buffers that commands then use without a copy: `bytes` bytes, 4 KiB aligned, the caller's
 * until the client is freed. NULL: none is left. Thread-safe.
 */
void *g4_ring_client_alloc(struct g4_ring_client *client, uint64_t bytes);

/* After `tail` was stored: wakes the engine in the way it asks for. For callers that fill slots themselves. */
void g4_ring_wake(struct g4_ring_header *header, int doorbell);

/*
 * Takes a result that is full, in place of which nothing is left, once all of its words are there. *to is the same without
 * their marks. False: they are not, ask again.
 */
G4_INLINE bool g4_ring_result_take(struct g4_ring_result *from, struct g4_ring_result *to)
{
	uint64_t *in = &from->value, *out = &to->value;
	const uint64_t tops = g4_load64_acq(&from->tops);
	const uint32_t words = tops & G4_RING_HAS_TRAIL ? G4_RING_TRAIL_WORDS :
			       tops & G4_RING_HAS_ATTR	? G4_RING_ALL_WORDS :
							  G4_RING_FEW_WORDS;
	uint64_t all = tops;

	for (uint32_t i = 0; i < words; i++) {
		const uint64_t word = g4_load64_rlx(&in[i]);

		all &= word;
		out[i] = (word & ~G4_RING_IS_THERE) | (tops >> i & 1) << 63;
	}
	if (!(all & G4_RING_IS_THERE))
		return false;
	memset(&from->tops, 0, (1 + words) * sizeof(uint64_t));
	to->word = from->word;
	to->tops = tops;
	return true;
}

#endif
