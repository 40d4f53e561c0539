/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is copied to a disk that is being rebuilt, of chunks with copies, and nobody may write to meanwhile: a request that went to the
 * source before it was read, and to the target before that was written, would be undone there. (Rows with parity have a lock of their
 * own.)
 *
 * A writer counts itself in the parts that it writes to, from before it chooses the disks until they are done, and waits while one of
 * them is copied. The copier never waits for a writer: with one under way it does not begin. For a caller may have requests that nobody
 * has collected, and be kept here by another one; a copy that waited for the first would wait for itself. A copy ends by itself.
 *
 * A writer that chose its disks before the rebuild began has been counted since before that, so what it writes is copied after it.
 */
#define _GNU_SOURCE 1

#include "space/set_types_host.h"

#define PART_SHIFT 16 /* 64 KiB; parts that are far from each other share a count */

int g4_set_window_begin(struct g4_set_window *window)
{
	if (pthread_mutex_init(&window->lock, NULL) != 0)
		return -G4_E_NOMEM;
	if (pthread_cond_init(&window->moved, NULL) == 0)
		return 0;
	pthread_mutex_destroy(&window->lock);
	return -G4_E_NOMEM;
}

void g4_set_window_end(struct g4_set_window *window)
{
	pthread_cond_destroy(&window->moved);
	pthread_mutex_destroy(&window->lock);
}

/* The parts of a range, each once. */
static uint64_t parts_of(uint64_t address, uint64_t bytes)
{
	const uint64_t last = (address + g4_max64(bytes, 1) - 1) >> PART_SHIFT;

	return g4_min64(last - (address >> PART_SHIFT) + 1, G4_SET_WINDOW_PARTS);
}

static uint32_t *writers_of(struct g4_set_window *window, uint64_t address, uint64_t part)
{
	return &window->writers[((address >> PART_SHIFT) + part) % G4_SET_WINDOW_PARTS];
}

void g4_set_window_enter(struct g4_set_window *window, uint64_t address, uint64_t bytes)
{
	pthread_mutex_lock(&window->lock);
	while (address < window->to && window->from < address + bytes)
		pthread_cond_wait(&window->moved, &window->lock);
	for (uint64_t part = 0; part < parts_of(address, bytes); part++)
		++*writers_of(window, address, part);
	pthread_mutex_unlock(&window->lock);
}

void g4_set_window_leave(struct g4_set_window *window, uint64_t address, uint64_t bytes)
{
	pthread_mutex_lock(&window->lock);
	for (uint64_t part = 0; part < parts_of(address, bytes); part++)
		--*writers_of(window, address, part);
	pthread_mutex_unlock(&window->lock);
}

bool g4_set_window_open(struct g4_set_window *window, uint64_t address, uint64_t bytes)
{
	bool free = true;

	pthread_mutex_lock(&window->lock);
	for (uint64_t part = 0; part < parts_of(address, bytes) && free; part++)
		free = *writers_of(window, address, part) == 0;
	if (free) {
		window->from = address;
		window->to = address + bytes;
	}
	pthread_mutex_unlock(&window->lock);
	return free;
}

void g4_set_window_close(struct g4_set_window *window)
{
	pthread_mutex_lock(&window->lock);
	window->from = window->to = 0;
	pthread_cond_broadcast(&window->moved);
	pthread_mutex_unlock(&window->lock);
}
