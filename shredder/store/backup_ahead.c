/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/backup_ahead.h"
#include "store/bytes.h"
#include "store/pool.h"

void backup_ahead_init(struct backup_ahead *a)
{
	pthread_mutex_init(&a->mutex, NULL);
	pthread_cond_init(&a->changed, NULL);
	a->fd = -1;
}

void backup_ahead_free(struct backup_ahead *a)
{
	for (size_t i = 0; i < BACKUP_AHEAD_PIECES; i++)
		free(a->pieces[i].memory);
	pthread_cond_destroy(&a->changed);
	pthread_mutex_destroy(&a->mutex);
}

void backup_ahead_begin(struct backup_ahead *a, int fd, uint64_t at, uint64_t end)
{
	pthread_mutex_lock(&a->mutex);
	a->fd = fd;
	a->next = at;
	a->end = end;
	pthread_mutex_unlock(&a->mutex);
}

static struct backup_ahead_piece *piece_at(struct backup_ahead *a, uint32_t place)
{
	return &a->pieces[(a->first + place) % BACKUP_AHEAD_PIECES];
}

/* With the mutex held: a piece that nobody has begun is the owner's again. */
static void take_back_last(struct backup_ahead *a)
{
	struct backup_ahead_piece *last = piece_at(a, a->count - 1);

	if (last->state != AHEAD_GIVEN)
		return; /* somebody who came late has it */
	a->next = last->offset;
	a->count--;
}

void backup_ahead_offer(struct backup_ahead *a, struct store_pool *pool, const void *job)
{
	bool more = a->fd >= 0;

	while (more && store_pool_has_idle(pool)) {
		pthread_mutex_lock(&a->mutex);
		more = a->count < BACKUP_AHEAD_PIECES && a->next < a->end;
		if (more) {
			struct backup_ahead_piece *piece = piece_at(a, a->count++);

			if (piece->memory == NULL)
				piece->memory = (uint8_t *)store_alloc(BACKUP_AHEAD_BYTES);
			piece->state = AHEAD_GIVEN;
			piece->offset = a->next;
			piece->wanted = (size_t)g4_min64(BACKUP_AHEAD_BYTES, a->end - a->next);
			piece->got = 0;
			piece->taken = 0;
			a->next += piece->wanted;
		}
		pthread_mutex_unlock(&a->mutex);
		if (more && !store_pool_give(pool, job)) {
			more = false;
			pthread_mutex_lock(&a->mutex);
			take_back_last(a);
			pthread_mutex_unlock(&a->mutex);
		}
	}
}

/* With the mutex held, which it gives up meanwhile. What it cannot read its owner tries again, and sees why. */
static void read_piece(struct backup_ahead *a, struct backup_ahead_piece *piece)
{
	const int fd = a->fd;
	ssize_t got = 1;

	piece->state = AHEAD_READING;
	pthread_mutex_unlock(&a->mutex);
	while (piece->got < piece->wanted && (got > 0 || (got < 0 && errno == EINTR))) {
		got = pread(fd, piece->memory + piece->got, piece->wanted - piece->got,
			    (off_t)(piece->offset + piece->got));
		piece->got += got > 0 ? (size_t)got : 0;
	}
	pthread_mutex_lock(&a->mutex);
	piece->state = AHEAD_READ;
	pthread_cond_broadcast(&a->changed);
}

void backup_ahead_help(struct backup_ahead *a)
{
	pthread_mutex_lock(&a->mutex);
	for (uint32_t i = 0; i < a->count; i++) {
		struct backup_ahead_piece *piece = piece_at(a, i);

		if (piece->state == AHEAD_GIVEN) {
			read_piece(a, piece);
			atomic_fetch_add(&a->helped, piece->got);
			break;
		}
	}
	pthread_mutex_unlock(&a->mutex);
}

/* With the mutex held: pieces that nobody has begun go, and others once they are read. Reading goes on at `next`. */
static void drop_all(struct backup_ahead *a, uint64_t next)
{
	for (uint32_t i = 0; i < a->count; i++)
		while (piece_at(a, i)->state == AHEAD_READING)
			pthread_cond_wait(&a->changed, &a->mutex);
	a->count = 0;
	a->next = next;
}

/* The owner's own read, where nothing was read ahead. */
static int64_t read_here(struct backup_ahead *a, uint8_t *to, size_t room)
{
	const uint64_t at = a->next;
	const size_t wanted = (size_t)g4_min64(g4_min64(room, BACKUP_AHEAD_BYTES), a->end - at);
	const ssize_t got = pread(a->fd, to, wanted, (off_t)at);

	a->next += got > 0 ? (uint64_t)got : 0;
	return got;
}

int64_t backup_ahead_read(struct backup_ahead *a, uint8_t *to, size_t room)
{
	pthread_mutex_lock(&a->mutex);
	if (a->count == 0) {
		pthread_mutex_unlock(&a->mutex); /* nobody else has anything to do with it */
		return read_here(a, to, room);
	}
	struct backup_ahead_piece *piece = piece_at(a, 0);
	if (piece->state == AHEAD_GIVEN) /* sooner than waiting for somebody to begin */
		read_piece(a, piece);
	while (piece->state != AHEAD_READ)
		pthread_cond_wait(&a->changed, &a->mutex);
	pthread_mutex_unlock(&a->mutex);
	const size_t now = (size_t)g4_min64(room, piece->got - piece->taken);
	memcpy(to, piece->memory + piece->taken, now);
	piece->taken += now;
	if (piece->taken < piece->got)
		return (int64_t)now;
	pthread_mutex_lock(&a->mutex);
	const bool whole = piece->got == piece->wanted;
	if (whole) {
		a->first = (a->first + 1) % BACKUP_AHEAD_PIECES;
		a->count--;
	} else { /* the file became shorter, or cannot be read */
		drop_all(a, piece->offset + piece->got);
	}
	pthread_mutex_unlock(&a->mutex);
	return whole || now > 0 ? (int64_t)now : read_here(a, to, room);
}

void backup_ahead_end(struct backup_ahead *a)
{
	pthread_mutex_lock(&a->mutex);
	drop_all(a, 0);
	a->fd = -1;
	pthread_mutex_unlock(&a->mutex);
}
