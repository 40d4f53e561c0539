/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is copied to a disk that is being rebuilt, of chunks with copies, and nobody may write to meanwhile: a request that went to the
 * source before it was read, and to the target before that was written, would be undone there. (Rows with parity have a lock of their
 * own.)
 *
 * A writer counts itself in the parts that it writes to, from before it chooses the disks until they are done, and waits while one of
 * them is copied. The copier does not wait for a writer for ever: with one under way it does not begin. For a caller may have requests that
 * nobody has collected, and be kept here by another one; a copy that waited for the first would wait for itself. A copy ends by itself.
 * Where one writer follows another without a gap the copier lets nobody begin for a while and waits for those that are under way
 * (g4_set_window_wait()); then they get on, and it comes again.
 *
 * A writer that chose its disks before the rebuild began has been counted since before that, so what it writes is copied after it.
 *
 * Where a place is moved while others use it (set_spread_host.c) the copier needs a whole MiB of the place, and does so at once.
 *
 * A range that is watched is one of which the copier asks whether anything is in use. Who writes there later is noticed; who began before had
 * claimed the page before, so it was told to be in use, or it was given back since, and nobody needs what is written.
 */
#define _GNU_SOURCE 1

#include <time.h>

#include "base/clock_host.h"
#include "space/set_types_host.h"

#define PART_SHIFT 16 /* 64 KiB; parts that are far from each other share a count */

int g4_set_window_begin(struct g4_set_window *window)
{
	pthread_condattr_t attributes;

	if (pthread_mutex_init(&window->lock, NULL) != 0)
		return -G4_E_NOMEM;
	if (pthread_condattr_init(&attributes) == 0) {
		int rc = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
		rc = rc == 0 ? pthread_cond_init(&window->moved, &attributes) : rc;
		pthread_condattr_destroy(&attributes);
		if (rc == 0)
			return 0;
	}
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
	for (uint32_t w = 0; w < G4_SET_WATCHES; w++)
		if (address < window->watches[w].to && window->watches[w].from < address + bytes)
			window->watches[w].touched = true;
	for (uint64_t part = 0; part < parts_of(address, bytes); part++)
		++*writers_of(window, address, part);
	pthread_mutex_unlock(&window->lock);
}

void g4_set_window_leave(struct g4_set_window *window, uint64_t address, uint64_t bytes)
{
	pthread_mutex_lock(&window->lock);
	for (uint64_t part = 0; part < parts_of(address, bytes); part++)
		--*writers_of(window, address, part);
	if (window->from != window->to) /* somebody may wait for that (g4_set_window_wait()) */
		pthread_cond_broadcast(&window->moved);
	pthread_mutex_unlock(&window->lock);
}

/* Lock held. */
static bool is_free(struct g4_set_window *window, uint64_t address, uint64_t bytes)
{
	for (uint64_t part = 0; part < parts_of(address, bytes); part++)
		if (*writers_of(window, address, part) != 0)
			return false;
	return true;
}

/* Lock held. */
static void put(struct g4_set_window *window, uint64_t address, uint64_t bytes)
{
	window->from = address;
	window->to = address + bytes;
}

bool g4_set_window_open(struct g4_set_window *window, uint64_t address, uint64_t bytes)
{
	pthread_mutex_lock(&window->lock);
	const bool free = is_free(window, address, bytes);
	if (free)
		put(window, address, bytes);
	pthread_mutex_unlock(&window->lock);
	return free;
}

bool g4_set_window_wait(struct g4_set_window *window, uint64_t address, uint64_t bytes, uint64_t most_ns)
{
	const uint64_t until = g4_clock_ns(CLOCK_MONOTONIC) + most_ns;
	const struct timespec end = {.tv_sec = (time_t)(until / UINT64_C(1000000000)),
				     .tv_nsec = (long)(until % UINT64_C(1000000000))};
	bool free, late = false;

	pthread_mutex_lock(&window->lock);
	put(window, address, bytes);
	while (!(free = is_free(window, address, bytes)) && !late)
		late = pthread_cond_timedwait(&window->moved, &window->lock, &end) != 0;
	pthread_mutex_unlock(&window->lock);
	if (!free)
		g4_set_window_close(window);
	return free;
}

bool g4_set_window_watch(struct g4_set_window *window, uint32_t watch, uint64_t address, uint64_t bytes)
{
	pthread_mutex_lock(&window->lock);
	window->watches[watch].from = address;
	window->watches[watch].to = address + bytes;
	window->watches[watch].touched = false;
	const bool free = is_free(window, address, bytes);
	pthread_mutex_unlock(&window->lock);
	return free;
}

bool g4_set_window_shut(struct g4_set_window *window, uint32_t watch, uint64_t address, uint64_t bytes)
{
	pthread_mutex_lock(&window->lock);
	const bool untouched = !window->watches[watch].touched && address >= window->watches[watch].from &&
			       address + bytes <= window->watches[watch].to;
	if (untouched)
		put(window, address, bytes);
	pthread_mutex_unlock(&window->lock);
	return untouched;
}

void g4_set_window_close(struct g4_set_window *window)
{
	pthread_mutex_lock(&window->lock);
	window->from = window->to = 0;
	pthread_cond_broadcast(&window->moved);
	pthread_mutex_unlock(&window->lock);
}
