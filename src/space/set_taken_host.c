/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of a disk that is being rebuilt is made by somebody else, who reaches all disks by himself: the lanes of an engine (direct.h).
 *
 *     TAKE: nobody is writing there, and who does from now on is noticed
 *     the taker reads the other disks, and writes to this one
 *     MADE: nobody has written there since, and nobody can begin to: the position moves over it
 *
 * Nobody is kept waiting for the taker, and what he writes nobody reads before the position is behind it. Where somebody has written meanwhile all of it
 * is to be made again: of copies, for the taker may have put what was there before over what was written; of rows, for he may have read some
 * columns as they were before, and some as they were then. So it does not matter what he does, nor whether he ever says that he is done.
 *
 * Rows pass under their lock, with nothing of them under way, as by a step (set_rebuild_host.c); copies while their window is shut.
 */
#define _GNU_SOURCE 1

#include "space/set_taken_host.h"

#include "space/set_drain_host.h"

static void lock(struct g4_wg *wg, struct g4_set *set)
{
	if (set->parity)
		g4_rows_lock(wg, set);
}

static void unlock(struct g4_set *set)
{
	if (set->parity)
		pthread_rwlock_unlock(&set->parity->lock);
}

static void forget(struct g4_set *set)
{
	const struct g4_set_taken none = {.from = 0};

	set->taken = none;
	(void)g4_set_window_watch(&set->window, 0, 0);
}

/* Lock of rows held. Of the place, from `within` it on, up to `most` of the address space. False: not now. */
static bool take(struct g4_set *set, const struct g4_set_place *place, uint64_t within, uint64_t most)
{
	const struct g4_chunk *chunk = place->chunk;
	if (within >= chunk->place_bytes)
		return false;
	struct g4_set_taken taken = {
		.from = within, .rows = chunk->parity > 0, .disk_address = place->address + within};

	if (taken.rows) { /* whole stripes, of which the last one may have free pages */
		most = g4_align_up(most / g4_chunk_data_columns(chunk), chunk->stripe_bytes);
		taken.address = chunk->address;
		if (within % chunk->stripe_bytes != 0 || set->parity->old_end > 1)
			return false;
	} else {
		most = g4_align_down(most, G4_PAGE_BYTES);
		taken.address = chunk->address + within;
		if (chunk->columns != 1)
			return false;
	}
	taken.to = within + g4_min64(most, chunk->place_bytes - within);
	if (taken.to <= taken.from)
		return false;
	if (!taken.rows && !g4_set_window_watch(&set->window, taken.address, taken.to - taken.from)) {
		forget(set);
		return false;
	}
	set->taken = taken;
	return true;
}

void g4_set_taken_begin(struct g4_wg *wg, struct g4_set *set, uint32_t disk, const struct g4_set_place *place,
			struct g4_dev_order *order)
{
	const uint64_t most = order->bytes;

	order->bytes = 0;
	lock(wg, set);
	const uint64_t position = g4_load64_acq(&set->position);
	if (!g4_load32_acq(&set->stuck) && g4_load32_acq(&set->target) == disk &&
	    take(set, place, g4_max64(position, place->address) - place->address, most)) {
		set->taken.disk = disk;
		set->taken.position = position;
		order->disk = (uint32_t)(place->chunk - set->chunks);
		order->all = place->number;
		order->done = set->taken.from;
		order->bytes = set->taken.to - set->taken.from;
	}
	unlock(set);
}

/* Lock of rows held. The position passes what was taken, if that is as it should be. */
static bool pass(struct g4_set *set, const struct g4_set_taken *taken)
{
	const uint64_t bytes = taken->to - taken->from;

	if (g4_load32_acq(&set->stuck) || g4_load32_acq(&set->target) != taken->disk ||
	    g4_load64_acq(&set->position) != taken->position)
		return false;
	if (taken->rows ? taken->touched : !g4_set_window_shut(&set->window, taken->address, bytes))
		return false;
	g4_store64_rel(&set->position, taken->disk_address + bytes);
	if (!taken->rows)
		g4_set_window_close(&set->window);
	return true;
}

void g4_set_taken_end(struct g4_wg *wg, struct g4_set *set, struct g4_dev_order *order)
{
	const uint64_t bytes = order->bytes;

	lock(wg, set);
	order->bytes = bytes > 0 && bytes == set->taken.to - set->taken.from && pass(set, &set->taken) ? bytes : 0;
	forget(set);
	unlock(set);
}
