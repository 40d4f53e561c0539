/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chunker: a ring of buffers that the stages Reader, Transfer, Kernel and Store pass along.
 *
 *      acquired   filled              marks known     resolved          handed out
 *   ---[ s+5 ]----[ s+4 ][ s+3 ]------[ s+2 ]---------[ s+1 ]-----------[ s ]---->
 *      input.c    kernels or device   pipeline.c: cuts, then digests    api.c: shredder_next()
 *
 * A buffer is named by its sequence number in the stream; number k uses slot k % buffers. Numbers are acquired, filled,
 * resolved and delivered in order, deliver <= resolve <= fill <= acquire <= deliver + buffers. In between, regions of a
 * buffer are searched and groups of chunks are hashed by whichever thread is free, the caller's among them: shredder_next()
 * works as long as there is work.
 *
 * Rules of locking: everything below is guarded by `lock`, except what a task owns while it runs: the reader owns the
 * data of acquired slots, a region task its words of `marks`, the one resolving task the resolver, the ends of its slot
 * and the carry area of the next slot, a group task the digests of its chunks. Threads wait on `changed`, which is
 * broadcast whenever a slot may have become free, an answer is there, or there are more tasks than the thread that made them
 * possible will do by itself right away: for a small file nobody is woken. Where a device gives chunks, two workers have all there
 * is to do; the others wait on `needed` until the CPU engine works, or they would be woken ten times a buffer for nothing.
 *
 * Carry area: the bytes of a chunk that is still open at the end of a buffer are copied in front of the next buffer's data,
 * so that every chunk lies in one piece. Where a chunk can be too long for that, its digest is computed piece by piece.
 */
#ifndef SHREDDER_CHUNKER_H
#define SHREDDER_CHUNKER_H

#include <pthread.h>

#include "chunk/engine.h"
#include "chunk/resolve.h"
#include "hash/blake3.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SHREDDER_MESSAGE_BYTES 512
#define SHREDDER_DIRECT_ALIGN 4096

struct shredder_slot {
	uint8_t *memory;     /* of its own: carry area, then buffer_bytes of data; NULL while inputs lie in memory */
	bool locked;	     /* the device allocated `memory` */
	const uint8_t *data; /* in `memory`, or the caller's */
	uint64_t bytes;
	uint64_t position; /* of data[0] in the stream */
	bool last;
	uint8_t before[SHREDDER_WINDOW_BYTES]; /* bytes of the stream in front of data[0] */

	uint64_t *marks;
	uint64_t regions, regions_taken, regions_done;
	bool submitted; /* to the device */
	bool marked;	/* `marks` are complete, or the device gave ends */

	bool resolved; /* ends[] are known; `more` follow when they are delivered */
	bool more;
	uint64_t start; /* where the chunk that ends with ends[0] begins */
	bool carried;	/* its bytes in front of data[0] are in the carry area */
	struct shredder_end *ends;
	uint64_t count;
	uint64_t groups, groups_taken, groups_done;
	struct shredder_batch batch;
};

enum shredder_source { SOURCE_NONE, SOURCE_FLAT, SOURCE_READER, SOURCE_PUSH };

struct shredder {
	/* constant after shredder_open() */
	struct shredder_rule rule;
	uint32_t flags;
	uint32_t threads;
	uint32_t slots_count;
	uint64_t buffer_bytes;
	uint64_t region_bytes;
	uint64_t carry_bytes; /* of the carry area; a multiple of SHREDDER_DIRECT_ALIGN */
	uint64_t ends_room;
	const struct shredder_kernel *kernel;
	const struct shredder_device_ops *device_ops; /* NULL: the CPU engine */
	struct shredder_device *device;
	bool finds_chunks;			/* the device can give chunks, not marks */
	bool device_lost;			/* it failed, the CPU engine does its work from here on; not constant */
	char fell_back[SHREDDER_MESSAGE_BYTES]; /* empty: nothing failed */
	pthread_t *workers;
	uint32_t workers_count;
	struct shredder_slot *slots;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_cond_t needed; /* of workers that a device leaves nothing to do */
	uint32_t begun;	       /* workers that have a number */
	uint32_t spare;	       /* of them wait on `needed` */
	bool stopping;	       /* the workers go home */
	uint32_t active;       /* tasks that are running */
	uint32_t waiting;      /* threads that wait and are no workers: the caller's, the reader */

	/* the current input */
	enum shredder_source source;
	bool finished; /* `result` is final */
	int result;
	int error; /* of the input, 0 while all is well */
	uint64_t acquire_seq, fill_seq, submit_seq, resolve_seq, deliver_seq;
	uint64_t deliver_index;
	uint64_t filled_bytes;		     /* of the stream, in filled buffers */
	uint8_t tail[SHREDDER_WINDOW_BYTES]; /* the last of them */
	bool complete;			     /* the last buffer was filled */
	bool resolving, submitting, collecting;
	bool device_chunks; /* the device gives chunks for this input */
	int device_error;   /* of a submit() or collect(): the device restarts before it gets more */
	struct shredder_resolver resolver;
	uint64_t open_start; /* of the chunk that is open where resolution stands */
	bool hashing;	     /* its first bytes went into `hash`, since they do not fit the carry area */
	struct g4_blake3 hash;

	const uint8_t *flat; /* SOURCE_FLAT: all of the input */
	uint64_t flat_bytes;
	bool flat_device;    /* in the device's memory */
	uint64_t push_bytes; /* SOURCE_PUSH: in the acquired slot */

	/* SOURCE_READER: input.c */
	pthread_t reader;
	bool reader_runs;
	int fd;
	bool fd_owned;
	bool direct;
	int wake_fd; /* eventfd: readable when the reader must stop */
	shredder_read_fn *read;
	void *read_user;

	struct shredder_stats stats;
	struct shredder_gpu_stats gpu_stats[SHREDDER_GPUS_MAX]; /* by the device's index */
	uint64_t begun_ns;
	char message[SHREDDER_MESSAGE_BYTES];
};

uint64_t shredder_now_ns(void);

/* True while a device, not the CPU engine, looks for candidates. */
static inline bool shredder_on_device(const struct shredder *s)
{
	return s->device != NULL && !s->device_lost;
}
/* Notes which GPUs do not work, and what does instead. */
void shredder_note_failure(struct shredder *s);

/* All with the lock held. */

/* Notes what went wrong, unless something did already: the input ends with it. */
void shredder_fail(struct shredder *s, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* `tasks` tasks have become possible. */
void shredder_wake(struct shredder *s, uint64_t tasks);
/* Waits for a change; not for workers. */
void shredder_wait(struct shredder *s);
/* The slot of a sequence number. */
static inline struct shredder_slot *shredder_slot_of(struct shredder *s, uint64_t seq)
{
	return &s->slots[seq % s->slots_count];
}
/* Acquires the next slot to fill; NULL when all are in use. */
struct shredder_slot *shredder_acquire(struct shredder *s);
/* The oldest acquired slot is filled with `bytes` bytes at its data. */
void shredder_fill(struct shredder *s, uint64_t bytes, bool last);
/* Does one task if there is one, without the lock; false: there is none now. */
bool shredder_work(struct shredder *s);
/* The bytes of the chunk that begins at `start` and ends in the slot, or NULL when they are not in one piece. */
const uint8_t *shredder_chunk_data(const struct shredder *s, const struct shredder_slot *slot, uint64_t start);
/* Forgets the input; nothing is running. */
void shredder_reset(struct shredder *s);

/* Without the lock. */
void *shredder_worker_main(void *chunker);

/* input.c: the reader of s->fd or s->read. Codes as shredder_begin_fd() gives them. Not under the lock. */
int shredder_input_open(struct shredder *s, const char *path, int fd);
int shredder_input_start(struct shredder *s);
/* Waits for the reader's end and closes its file. */
void shredder_input_stop(struct shredder *s);

#ifdef __cplusplus
}
#endif

#endif
