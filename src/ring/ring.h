/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rings: how a program gives commands to an engine that runs elsewhere, in a daemon or on a GPU.
 *
 * A client and the engine share two pieces of memory, the ring and the data area. The engine makes both (as memfds that
 * cannot shrink) and gives them to the client. Nothing in them is trusted: the engine copies a slot before it looks at
 * it, checks every number in the copy, and keeps what it counts in memory of its own.
 *
 *      ring memory                                               data area
 *      +----------------------+ 0                                +-----------------------------+
 *      | struct g4_ring_header|                                  | what READ and WRITE move,   |
 *      +----------------------+ 4096                             | listings, values, long names|
 *      | slot 0 .. entries-1  | 256 B each: a 128 B command      | and what the client likes   |
 *      |                      | and 128 B of text                +-----------------------------+
 *      +----------------------+ 4096 + entries * 256
 *      | result 0 .. entries-1| 192 B each
 *      +----------------------+
 *
 * Commands are numbered from 1; number n lies in slot n % entries. The client fills the slot, then stores `tail` = n
 * with release order. Commands run in any order and side by side. A command's result is there with its `word`, which the
 * engine stores, 8 B at a time, with release order where the command has done more than to look something up:
 *
 *       63                                 32 31 30                                  0
 *      +-------------------------------------+--+-------------------------------------+
 *      | status, or value where it is small  |R | number of the command, low 31 bits  |
 *      +-------------------------------------+--+-------------------------------------+
 *
 * R says that there is more: `tops`, value, handle, offset, attributes if bit 62 of `tops` says so, and a trail (inode/trail.h), also with
 * an error, if bit 61 does; without R, value is the
 * number in the word (or 0 with an error) and handle and offset are unchanged. These words are stored in any order, also
 * behind the word above, since across PCIe keeping two stores in order is a wait of 1.5 us. So bit 63 of each says that it is
 * there, and bit i of `tops` is what bit 63 of word i would be. A client that takes such a result clears its words
 * (g4_ring_result_take()). A slot is reused only when the client has taken the result of the command before.
 *
 * Sleeping: an engine that no longer looks at `tail` says in `engine_waits` how it wants to be woken. The client stores
 * tail, then reads engine_waits; the engine stores engine_waits, then reads tail; a full fence between the two on each
 * side. The same the other way round with a result's word and client_waits. An engine of several threads counts in
 * `engine_looks` those that look at tail. Each takes one command: while there are as many as commands behind `engine_claimed`, nobody needs
 * to be woken. One leaves the count before it reads tail for the last time, and stores engine_claimed behind that.
 * G4_RING_FUTEX_SOME: a thread that runs a command will look soon, so the thread that waits for a result looks for that a
 * moment, and wakes another thread when `engine_claimed` has not come to its command by then. Two that run on one processor see
 * that by `client_runs_on` and `engine_runs_on`: neither has anything to look for before the other one has run.
 *
 * Naming inodes: attributes that a result brings have a token, a keyed hash of inode number and generation. A command names
 * an inode by all three (node, generation, token; node2, generation2, token2), and the engine
 * takes a number without its token for one that does not exist. So a client can name what it was led to and nothing else.
 * G4_NODE_ROOT needs no token. Tokens end with the session. The inodes of a listing have none: the client looks them up.
 */
#ifndef G4_RING_H
#define G4_RING_H

#include "fs/command.h"
#include "inode/trail.h"
#include "simt/simt.h"

#define G4_RING_MAGIC UINT64_C(0x676e697273346667) /* "gf4sring" */
#define G4_RING_VERSION 4u
#define G4_RING_HEADER_BYTES 4096u
#define G4_RING_MAX_ENTRIES 65536u
#define G4_RING_TEXT_BYTES 128u
/* The longest text of a command: credentials, two paths, attributes. */
#define G4_RING_MAX_TEXT (12u * 1024)

enum g4_ring_state {
	G4_RING_RUNS = 1, /* the engine serves this ring */
	G4_RING_DEAD = 2  /* it does not any more: what has no result yet will not get one */
};
/* engine_waits: how the engine sleeps */
#define G4_RING_AWAKE 0u      /* it polls tail */
#define G4_RING_FUTEX 1u      /* on tail, a futex that the processes share */
#define G4_RING_DOORBELL 2u   /* on a file: write 8 bytes to the descriptor that the client was given */
#define G4_RING_FUTEX_SOME 3u /* as G4_RING_FUTEX, but not all of its threads sleep */

struct g4_ring_header {
	uint64_t magic; /* up to data_bytes: written once, by the engine */
	uint32_t version;
	uint32_t entries; /* a power of two */
	uint64_t data_bytes;
	uint32_t handles;   /* files that the client may have open */
	uint32_t may_act;   /* 1: commands may carry credentials (struct g4_cred) */
	uint32_t completes; /* 1: the engine wakes clients that sleep on a result; 0: it cannot, look again */
	uint8_t padding0[28];
	uint32_t tail;		 /* at 64; client: number of the newest command */
	uint32_t client_runs_on; /* client: the processor of the thread that stored it, + 1; 0: not said */
	uint8_t padding1[56];
	uint32_t engine_waits;	 /* at 128; engine: G4_RING_AWAKE, ... */
	uint32_t state;		 /* engine: enum g4_ring_state */
	uint32_t engine_looks;	 /* engine: threads that look at tail; 0 where engine_waits says all */
	uint32_t engine_claimed; /* engine: a command that it has begun, the newest or nearly so */
	uint32_t engine_runs_on; /* engine: the processor of the thread that looks or has looked, + 1; 0: not said */
	uint32_t
		mount_changes; /* the server: how often the table of mounts around its own has changed since the ring was made */
	uint8_t padding2[40];
	uint32_t client_waits; /* at 192; client: threads that sleep on results */
	uint8_t padding3[60];
};
G4_STATIC_ASSERT(sizeof(struct g4_ring_header) == 256, "ring header");
G4_STATIC_ASSERT(offsetof(struct g4_ring_header, tail) == 64, "tail has a cache line");
G4_STATIC_ASSERT(offsetof(struct g4_ring_header, engine_waits) == 128, "and what the engine writes another");

/* g4_ring_command.text_at: the text is in the slot itself */
#define G4_RING_TEXT_INLINE UINT64_MAX

/*
 * struct g4_cmd (fs/command.h), with the same unions, but without pointers: `data` is an offset into the data area, names and
 * the like are text:
 *     [struct g4_cred, cred_bytes of it][path to walk][name][name2][struct g4_attr, attr_bytes of it]
 *
 * A command with a path to walk is two of the engine's: RESOLVE, and what it asks for, of the inode that was found. An error of the first
 * one is its result. MKNOD, MKDIR, SYMLINK, UNLINK, RMDIR, RENAME, CREATE and OPEN may bring one.
 */
#define G4_WALK_DIRECTORY 0x100u /* it must lead to a directory: else NOTDIR */
#define G4_WALK_BOTH 0x200u	 /* what it leads to is node2 as well */
#define G4_WALK_KNOWN (G4_RESOLVE_NOFOLLOW | G4_RESOLVE_BENEATH | G4_WALK_DIRECTORY | G4_WALK_BOTH)
struct g4_ring_command {
	uint32_t op;
	uint32_t flags;
	uint32_t mode;
	uint32_t mask;
	uint64_t node;
	union {
		uint64_t node2;
		uint64_t handle2;
	};
	uint64_t handle;
	union {
		uint64_t offset;
		uint64_t token2;
		uint64_t cookie;
		uint64_t rdev;
		uint64_t bytes;
	};
	uint64_t length;
	union {
		struct {
			uint32_t generation;
			uint32_t generation2;
		};
		uint64_t offset2;
		uint64_t least;
	};
	uint64_t data;
	uint64_t text_at; /* G4_RING_TEXT_INLINE, or an offset into the data area */
	uint16_t name_bytes;
	uint16_t name2_bytes;
	uint16_t cred_bytes;  /* 0: as the engine knows the client */
	uint16_t attr_bytes;  /* SETATTR: sizeof(struct g4_attr) */
	uint32_t umask;	      /* without credentials of its own: applied to new files */
	uint32_t wants_attr;  /* 1: the result shall have attributes */
	uint64_t token;	      /* of node */
	uint16_t walk_bytes;  /* not 0: a path leads from node to the inode that the command is about */
	uint16_t walk_flags;  /* of that walk: G4_RESOLVE_*, G4_WALK_* */
	uint32_t reserved[5]; /* 0 */
};
G4_STATIC_ASSERT(sizeof(struct g4_ring_command) == 128, "ring command");

/* The walk of a command has led to an inode with these attributes: 0, or why the command cannot be about that one. */
G4_FN G4_INLINE int g4_walk_arrived(struct g4_cmd *cmd, const struct g4_attr *attr, uint32_t walk_flags)
{
	if ((walk_flags & G4_WALK_DIRECTORY) && (attr->mode & G4_S_IFMT) != G4_S_IFDIR)
		return -G4_E_NOTDIR;
	cmd->node = attr->ino;
	cmd->generation = (uint32_t)attr->generation;
	if (walk_flags & G4_WALK_BOTH) {
		cmd->node2 = attr->ino;
		cmd->generation2 = (uint32_t)attr->generation;
	}
	return 0;
}

struct g4_ring_slot {
	struct g4_ring_command command;
	uint8_t text[G4_RING_TEXT_BYTES];
};
G4_STATIC_ASSERT(sizeof(struct g4_ring_slot) == 256, "ring slot");

struct g4_ring_result {
	uint64_t word; /* see above */
	uint64_t tops;
	uint64_t value;
	uint64_t handle;
	uint64_t offset;
	uint64_t padding;
	struct g4_attr attr;
	struct g4_trail trail;
};
G4_STATIC_ASSERT(sizeof(struct g4_ring_result) == 192, "ring result");

#define G4_RING_WORD_FULL (UINT64_C(1) << 31)
#define G4_RING_NUMBER_MASK UINT64_C(0x7fffffff)
#define G4_RING_IS_THERE (UINT64_C(1) << 63)
#define G4_RING_HAS_ATTR (UINT64_C(1) << 62)
#define G4_RING_HAS_TRAIL (UINT64_C(1) << 61) /* and then all words are there, those of attributes, too */
/* Words behind `tops`. */
#define G4_RING_FEW_WORDS 3u
#define G4_RING_ALL_WORDS                                                                                              \
	((uint32_t)((offsetof(struct g4_ring_result, trail) - offsetof(struct g4_ring_result, value)) / 8))
#define G4_RING_TRAIL_WORDS (G4_RING_ALL_WORDS + (uint32_t)(sizeof(struct g4_trail) / 8))

G4_HD G4_INLINE uint64_t g4_ring_bytes(uint32_t entries)
{
	return g4_align_up(G4_RING_HEADER_BYTES +
				   (uint64_t)entries * (sizeof(struct g4_ring_slot) + sizeof(struct g4_ring_result)),
			   G4_PAGE_BYTES);
}
G4_HD G4_INLINE struct g4_ring_slot *g4_ring_slot_of(void *ring, uint32_t entries, uint32_t number)
{
	return (struct g4_ring_slot *)((uint8_t *)ring + G4_RING_HEADER_BYTES) + (number & (entries - 1));
}
G4_HD G4_INLINE struct g4_ring_result *g4_ring_result_of(void *ring, uint32_t entries, uint32_t number)
{
	return (struct g4_ring_result *)((uint8_t *)ring + G4_RING_HEADER_BYTES +
					 (uint64_t)entries * sizeof(struct g4_ring_slot)) +
	       (number & (entries - 1));
}

/* ------------------------------------------------------------------ the engine's side: ring.c */

/*
 * A handle that a client holds. Clients get numbers of this table, never the engine's handles, which are easily made up.
 * state: 63..32 generation, 31 open, 30 closing, 29 something was read by it, 0..28 commands that use it.
 */
struct g4_session_handle {
	uint64_t engine;
	uint64_t state;
};

#define G4_SESSION_MAY_ACT                                                                                             \
	1u /* its commands may carry credentials: in-process callers, and root, which may be anyone */
#define G4_SESSION_IN_PROCESS                                                                                          \
	2u /* the engine's own process: may use inodes by number, without tokens, and G4_CRED_TRUSTED */

/* The engine's view of a client, in the engine's memory. */
struct g4_session {
	uint8_t *ring; /* as the engine addresses it */
	uint8_t *data;
	uint64_t data_bytes;
	uint32_t entries;
	uint32_t flags;
	struct g4_session_handle *handles;
	uint32_t handle_count;
	uint32_t handle_hint;
	uint32_t tail;	    /* GPU: the dispatcher's copy */
	uint32_t claimed;   /* number of the newest command that a workgroup took */
	uint32_t done;	    /* commands that have a result */
	uint32_t published; /* CPU: results written, see note_published() */
	uint32_t broken;    /* the client broke the protocol; it is not served any more */
	uint64_t moving;    /* bytes that its running commands read and write */
	uint64_t bytes_limit;
	uint64_t token_key[2]; /* secret and random */
	struct g4_cred cred;
};

/*
 * Memory of a workgroup that executes ring commands, beside its scratch. 64 B aligned; shared by its lanes. On a GPU it
 * lies in shared memory, and what it points to in device memory.
 */
#define G4_SESSION_STAGE_BYTES (64u * 1024)
struct g4_session_stage {
	struct g4_ring_slot slot;
	struct g4_cmd cmd;
	struct g4_ring_result result;
	struct g4_cred cred;
	uint8_t *text; /* G4_RING_MAX_TEXT bytes */
	uint8_t *data; /* G4_SESSION_STAGE_BYTES bytes */
	uint8_t padding[24];
};
G4_STATIC_ASSERT(sizeof(struct g4_session_stage) % 64 == 0, "each of an array is aligned");
G4_STATIC_ASSERT(offsetof(struct g4_session_stage, cmd) % 16 == 0 && sizeof(struct g4_cmd) % 16 == 0 &&
			 offsetof(struct g4_session_stage, result.attr) % 16 == 0 && sizeof(struct g4_attr) % 16 == 0,
		 "cleared 16 B at a time");

struct g4_fs;
/*
 * Leader, thread-safe: parts of executing a command (execute.h). g4_session_run() executes the one that was copied to stage->slot.
 * 0: its result is published. Else so many bytes of stage->result, behind the word, are to be marked and written to the result of
 * that number, and then g4_session_publish() is to be called.
 */
G4_FN uint32_t g4_session_run(struct g4_wg *wg, struct g4_fs *fs, struct g4_session *session, uint32_t number,
			      struct g4_session_stage *stage);
G4_FN void g4_session_publish(struct g4_session *session, uint32_t number, const struct g4_session_stage *stage);
/* What a client shows to name an inode of this generation. */
G4_FN uint64_t g4_session_token(const struct g4_session *session, uint64_t ino, uint64_t generation);
/*
 * Whether the client was given the inode that it names. Asked before the number is looked at: what lies at a made-up
 * number may be a page that the client wrote, and not even to be loaded.
 */
G4_FN G4_INLINE bool g4_session_names(const struct g4_session *session, uint64_t node, uint32_t generation,
				      uint64_t token)
{
	return node <= G4_NODE_ROOT || g4_session_token(session, node, generation) == token;
}
/*
 * Makes a result that is more than its word; how many bytes behind the word that is. The attributes are there already. Marks are
 * not: execute.h.
 */
G4_FN G4_INLINE uint32_t g4_session_full_result(const struct g4_session *session, bool in_core, uint32_t number,
						const uint64_t words[G4_RING_FEW_WORDS], bool attr, bool trail,
						struct g4_ring_result *result)
{
	result->word = (number & G4_RING_NUMBER_MASK) | G4_RING_WORD_FULL;
	result->tops = (attr ? G4_RING_HAS_ATTR : 0) | (trail ? G4_RING_HAS_TRAIL : 0);
	result->value = words[0];
	result->handle = words[1];
	result->offset = words[2];
	result->padding = 0;
	if (!attr && !trail)
		return (1 + G4_RING_FEW_WORDS) * sizeof(uint64_t);
	if (attr && !in_core && result->attr.ino != 0)
		result->attr.token = g4_session_token(session, result->attr.ino, result->attr.generation);
	return (1 + (trail ? G4_RING_TRAIL_WORDS : G4_RING_ALL_WORDS)) * sizeof(uint64_t);
}
/*
 * The engine's handle behind one of the client's, until g4_session_unuse_handle(), which closes it if the client has meanwhile. 0 or
 * a negative code.
 */
G4_FN int g4_session_use_handle(struct g4_session *session, uint64_t number, uint64_t *engine);
G4_FN int g4_session_unuse_handle(struct g4_wg *wg, struct g4_fs *fs, struct g4_session *session, uint64_t number);
/* Leader. Gives back every handle of a session that no command runs on any more. */
G4_FN void g4_session_close(struct g4_wg *wg, struct g4_fs *fs, struct g4_session *session);

#endif
