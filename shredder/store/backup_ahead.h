/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a large file ahead: while its worker cuts, workers that have nothing to do read what comes next, 1 MiB each, several at a time. Where all
 * are busy the worker reads by itself, and this costs nothing.
 *
 *	file  ... | 1 MiB | 1 MiB | 1 MiB | 1 MiB | ...
 *	            read    under   given   not given yet
 *	            ^ first way             ^ next
 *
 * Locking: `mutex` guards the pieces' states, and is not held while anything is read or copied: a piece that is READING is its reader's, one that is
 * READ the owner's.
 */
#ifndef SHREDDER_STORE_BACKUP_AHEAD_H
#define SHREDDER_STORE_BACKUP_AHEAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/bytes.h"

#define BACKUP_AHEAD_PIECES 4u
#define BACKUP_AHEAD_BYTES G4_MIB

struct store_pool;

enum backup_ahead_state { AHEAD_GIVEN, AHEAD_READING, AHEAD_READ };

struct backup_ahead_piece {
	enum backup_ahead_state state;
	uint64_t offset;
	size_t wanted, got, taken;
	uint8_t *memory;
};

/* One file's, of one worker; zeros at first, then backup_ahead_init(). */
struct backup_ahead {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	struct backup_ahead_piece pieces[BACKUP_AHEAD_PIECES]; /* a ring */
	uint32_t first, count;
	int fd; /* -1: nothing is read ahead */
	uint64_t next, end;
	atomic_ullong helped; /* bytes that others have read */
};

void backup_ahead_init(struct backup_ahead *a);
void backup_ahead_free(struct backup_ahead *a);
/* Of an open file, from `at` to `end`. */
void backup_ahead_begin(struct backup_ahead *a, int fd, uint64_t at, uint64_t end);
/* Gives pieces to idle members of the pool as `job`, for which they call backup_ahead_help(). By the owner, as often as it likes. */
void backup_ahead_offer(struct backup_ahead *a, struct store_pool *pool, const void *job);
/* By any thread: reads a piece that is given; there may be none any more. */
void backup_ahead_help(struct backup_ahead *a);
/* As read(2), of what comes next. */
int64_t backup_ahead_read(struct backup_ahead *a, uint8_t *to, size_t room);
/* Waits for those who read; then the file may be closed. */
void backup_ahead_end(struct backup_ahead *a);

#endif
