/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosting the engine. A mounted file system is an engine instance; clients (libgpu4fs, FUSE) give it commands. With the
 * CPU engine the calling thread is the workgroup and runs the command itself; background threads commit and write back.
 * Host only. All functions are thread-safe except mount and unmount of one instance.
 */
#ifndef G4_ENGINE_H
#define G4_ENGINE_H

#include "fs/command.h"

struct g4_engine;
struct g4_dev;
struct g4_session_engine;
struct g4_cuda_engine;

#define G4_MOUNT_READ_ONLY (1u << 0)
#define G4_MOUNT_NOATIME (1u << 1)
#define G4_MOUNT_STRICTATIME (1u << 2)	 /* default is relatime */
#define G4_MOUNT_HOLD_UNLINKED (1u << 3) /* a removed inode stays until FORGET: the caller keeps inode numbers */
#define G4_MOUNT_NO_REPLAY (1u << 4)	 /* with READ_ONLY: do not replay the journal (fsck, dump) */
#define G4_MOUNT_SYNC (1u << 5)		 /* every change is durable when its command returns */
#define G4_MOUNT_DEGRADED (1u << 8)	 /* write although a disk of a set is missing, where the others have all */
#define G4_MOUNT_DISCARD (1u << 6)	 /* what is freed is discarded on the device once that is durable */
/* Stamps are of the clock's last tick, and not before the latest that a caller brought: a kernel stamps what it writes itself. */
#define G4_MOUNT_TICK_TIMES (1u << 7)
#define G4_MOUNT_DEDUP_VERIFY                                                                                          \
	(1u << 9) /* what has the BLAKE3 of what is written is read and compared before it is shared */

/*
 * Where the engine runs: on the calling threads; on a GPU; or on a GPU where there is one that has room, and else on the
 * calling threads. Which of the two AUTO took, and why, is a line of the log.
 */
enum g4_engine_kind { G4_ENGINE_CPU, G4_ENGINE_CUDA, G4_ENGINE_AUTO };

#define G4_NO_TIER UINT64_C(1) /* tier_bytes: for one who has to say so with a size */

struct g4_mount_options {
	uint32_t flags;
	uint32_t commit_ms;   /* longest time a change stays uncommitted; 0: 5000 */
	uint64_t cache_bytes; /* 0: 256 MiB */
	/*
	 * Of pages by device address, below it; less than 256 KiB: none. 0: a sixteenth of the cache, on a GPU, where they are page-locked
	 * memory of the host, none. On a GPU, or not smaller than the cache, it has what that gives up as well
	 */
	uint64_t tier_bytes;
	uint64_t dedup_bytes; /* of hints where contents are that are there already; 0: a sixteenth of the cache */
	uint32_t kind;	      /* enum g4_engine_kind */
	uint32_t sms;	      /* CUDA: multiprocessors to use at most; 0: all, or half of them under MPS */
	uint32_t gpu_queues;  /* CUDA: of an NVMe drive's queues, at most, that the GPU uses by itself; 0: none */
};
#define G4_GPU_QUEUES_MOST 24u

/* The kind with this word ("cpu", "cuda", "auto"), or -G4_E_INVAL. */
int g4_engine_parse_kind(const char *word, uint32_t *kind);

/* Mounts the file system on `names` (dev_host.h). On failure: a negative code and one sentence in message. */
int g4_engine_mount(const char *const *names, uint32_t count, const struct g4_mount_options *options,
		    struct g4_engine **out, char *message, size_t message_bytes);
/* The same on an open device, which the engine then owns (closed by unmount, also on failure). */
int g4_engine_mount_device(struct g4_dev *dev, const struct g4_mount_options *options, struct g4_engine **out,
			   char *message, size_t message_bytes);
/*
 * Connects to an engine that a server runs (ring/serve_host.h). The handle stands for the connection: g4_engine_unmount() ends
 * it. `umask` is for files that commands without credentials make; data_bytes 0: the server's choice.
 */
int g4_engine_connect(const char *path, uint32_t umask, uint64_t data_bytes, struct g4_engine **out, char *message,
		      size_t message_bytes);
/* The connection behind that handle (ring/serve_host.h); NULL for any other engine. */
struct g4_connection *g4_engine_connection(const struct g4_engine *engine);
/* How it serves sessions and servers (ring/session_host.h), for as long as it is mounted. */
const struct g4_session_engine *g4_engine_sessions(const struct g4_engine *engine);
/*
 * Where its epochs are (inode/trail.h), for a caller whose commands go through a ring; NULL: it has none to tell. And whether the engine is
 * there, as far as is known, for who answers without it: ring/client_host.h.
 */
const uint64_t *g4_engine_epochs(const struct g4_engine *engine);
bool g4_engine_lives(const struct g4_engine *engine);
/* What runs on a GPU (gpu/cuda_host.h); NULL for any other engine. */
struct g4_cuda_engine *g4_engine_cuda(const struct g4_engine *engine);
/* Where it runs: "cpu", "cuda", or "server" for a connection. Static storage. */
const char *g4_engine_name(const struct g4_engine *engine);
/* Commits everything, marks the image clean and frees the instance. Returns the first error met; frees regardless. */
int g4_engine_unmount(struct g4_engine *engine);
/* Stops without writing anything, as a crash would (tests). */
void g4_engine_abandon(struct g4_engine *engine);
/* The numbers of inodes that somebody has open, at most `room` of them; returns how many. */
uint32_t g4_engine_open_inodes(struct g4_engine *engine, uint64_t *inodes, uint32_t room);
/*
 * Lets the file system grow to so many bytes while it is in use, and what it lies on, too, if that is a regular file. -G4_E_NOSPC:
 * *limit is the largest possible size; -G4_E_NOTSUP: this engine, or device, can not.
 */
int g4_engine_resize(struct g4_engine *engine, uint64_t bytes, uint64_t *limit);
/* 1: no command is under way but background jobs; 0: some are; -G4_E_NOTSUP: it runs elsewhere, and this is not known here. Thread-safe. */
int g4_engine_is_idle(const struct g4_engine *engine);
/* Runs one command on the calling thread; returns cmd->status. */
int g4_engine_execute(struct g4_engine *engine, struct g4_cmd *cmd);
/* The same with a walk before it (ring/client_host.h); where the engine runs elsewhere, they wait for it once. */
struct g4_walk;
int g4_engine_execute_at(struct g4_engine *engine, struct g4_cmd *cmd, const struct g4_walk *walk);
/*
 * Commands that are begun before anybody waits for what they tell: ring/client_host.h. Only where the engine runs elsewhere: else none can
 * be begun.
 */
bool g4_engine_begin_read(struct g4_engine *engine, const struct g4_cmd *cmd, uint64_t *read);
const uint8_t *g4_engine_await_read(struct g4_engine *engine, uint64_t read, int *status, uint32_t *bytes);
void g4_engine_end_read(struct g4_engine *engine, uint64_t read, bool keep);
struct g4_trail;
bool g4_engine_begin_lookup(struct g4_engine *engine, const struct g4_cmd *cmd, uint64_t *lookup);
bool g4_engine_await_lookup(struct g4_engine *engine, uint64_t lookup, struct g4_cmd *cmd, struct g4_trail *trail);
void g4_engine_end_lookup(struct g4_engine *engine, uint64_t lookup);
/*
 * Has a command run whose result nobody wants, one without data: here and now, or, where the engine runs elsewhere, without
 * waiting for it, so that later commands may pass it. What has not begun when a GPU's engine unmounts may be left out: the unmount does the same.
 */
void g4_engine_post(struct g4_engine *engine, struct g4_cmd *cmd);

#endif
