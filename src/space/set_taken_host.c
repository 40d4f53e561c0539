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

/*
 * Lock of rows held. Where what is taken of a place ends: rows are made to the end of a bit of the map, of which none can be left out any more, as far as that
 * is wanted.
 */
static uint64_t end_of(const struct g4_chunk *chunk, uint64_t within, uint64_t used, uint64_t most)
{
	if (!chunk->parity)
		return within + g4_align_down(used > 0 ? g4_min64(used, most) : most, G4_PAGE_BYTES);
	const uint64_t data = g4_chunk_data_columns(chunk),
		       some = g4_max64(g4_align_down(most / data, chunk->stripe_bytes), chunk->stripe_bytes);

	return g4_min64(g4_align_up(within + g4_max64(used / data, 1), G4_PARITY_REGION_BYTES), within + some);
}

/* Lock of rows held. Of the place, from `within` it on. False: not now. */
static bool take(struct g4_set *set, const struct g4_set_place *place, uint64_t within, uint64_t used, uint64_t most)
{
	const struct g4_chunk *chunk = place->chunk;
	const bool rows = chunk->parity > 0;

	if (within >= chunk->place_bytes || most == 0 ||
	    (rows ? within % chunk->stripe_bytes != 0 || set->parity->old_end > 1 : chunk->columns != 1))
		return false;
	const struct g4_set_taken taken = {.from = within,
					   .to = g4_min64(end_of(chunk, within, used, most), chunk->place_bytes),
					   .address = chunk->address + (rows ? 0 : within),
					   .disk_address = place->address + within,
					   .rows = rows};
	if (taken.to <= taken.from)
		return false;
	if (!rows && !g4_set_window_watch(&set->window, taken.address, taken.to - taken.from)) {
		forget(set);
		return false;
	}
	set->taken = taken;
	return true;
}

void g4_set_taken_begin(struct g4_wg *wg, struct g4_set *set, uint32_t disk, const struct g4_set_place *place,
			struct g4_dev_order *order)
{
	const uint64_t used = order->bytes, most = order->all;

	order->bytes = 0;
	lock(wg, set);
	const uint64_t position = g4_load64_acq(&set->position);
	if (!g4_load32_acq(&set->stuck) && g4_load32_acq(&set->target) == disk &&
	    take(set, place, g4_max64(position, place->address) - place->address, used, most)) {
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
