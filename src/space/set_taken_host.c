/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of a disk that is being rebuilt are made by somebody else, who reaches all disks by himself: the lanes of an engine (direct.h).
 *
 *     TAKE: nobody is writing there, and who does from now on is noticed
 *     the taker reads the other disks, and writes to this one
 *     MADE: nobody has written there since, and nobody can begin to: the position moves over it
 *
 * Nobody is kept waiting for the taker, and what he writes nobody reads before the position is behind it. Where somebody has written meanwhile all of it
 * is to be made again: of copies, for the taker may have put what was there before over what was written; of rows, for he may have read some
 * columns as they were before, and some as they were then. So it does not matter what he does, nor whether he ever says that he is done.
 *
 * He may take further parts before he is done with the first: each begins where the one before ends, is watched by itself, and counts if the position is there then. What is left out
 * between two passes with the first of them. Where one does not count nothing counts that is taken: the taker begins anew, from the position on, when he writes nothing any more.
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

/* Lock of rows held. */
static void forget(struct g4_set *set)
{
	set->taken_count = 0;
	for (uint32_t w = 0; w < G4_SET_WATCHES; w++)
		(void)g4_set_window_watch(&set->window, w, 0, 0);
}

static uint32_t watch_of(const struct g4_set_taken *taken)
{
	return (uint32_t)(taken->number % G4_SET_WATCHES);
}

uint64_t g4_set_taken_ahead(struct g4_set *set)
{
	const uint64_t position = g4_load64_acq(&set->position);

	if (set->taken_count > 0 &&
	    (g4_load32_acq(&set->target) != set->taken[0].disk || position != set->taken[0].position))
		forget(set);
	if (set->taken_count == 0)
		return position;
	const struct g4_set_taken *last = &set->taken[set->taken_count - 1];
	return last->disk_address + (last->end - last->from);
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

/* Lock of rows held. Of the place, from `within` it on. NULL: not now. */
static struct g4_set_taken *take(struct g4_set *set, const struct g4_set_place *place, uint64_t within, uint64_t used,
				 uint64_t most)
{
	const struct g4_chunk *chunk = place->chunk;
	const bool rows = chunk->parity > 0;

	if (within >= chunk->place_bytes || most == 0 || set->taken_count == G4_SET_WATCHES ||
	    (rows ? within % chunk->stripe_bytes != 0 || set->parity->old_end > 1 : chunk->columns != 1))
		return NULL;
	const uint64_t to = g4_min64(end_of(chunk, within, used, most), chunk->place_bytes);
	if (to <= within)
		return NULL;
	struct g4_set_taken *taken = &set->taken[set->taken_count];
	*taken = (struct g4_set_taken){.from = within,
				       .to = to,
				       .end = to,
				       .address = chunk->address + (rows ? 0 : within),
				       .disk_address = place->address + within,
				       .number = set->taken_number + 1,
				       .scale = rows ? g4_chunk_data_columns(chunk) : 1,
				       .rows = rows};
	if (!rows && !g4_set_window_watch(&set->window, watch_of(taken), taken->address, to - within)) {
		(void)g4_set_window_watch(&set->window, watch_of(taken), 0, 0);
		return NULL;
	}
	set->taken_number = taken->number;
	set->taken_count++;
	return taken;
}

void g4_set_taken_begin(struct g4_set *set, uint32_t disk, const struct g4_set_place *place, uint64_t ahead,
			struct g4_dev_order *order)
{
	const uint64_t used = order->bytes, most = order->all;
	struct g4_set_taken *taken = NULL;

	order->bytes = 0;
	if (!g4_load32_acq(&set->stuck) && g4_load32_acq(&set->target) == disk)
		taken = take(set, place, g4_max64(ahead, place->address) - place->address, used, most);
	if (!taken)
		return;
	taken->disk = disk;
	taken->position = ahead;
	order->disk = (uint32_t)(place->chunk - set->chunks);
	order->all = place->number | taken->number << G4_TAKEN_NUMBER_SHIFT;
	order->done = taken->from;
	order->bytes = taken->to - taken->from;
}

bool g4_set_taken_leave_out(struct g4_set *set, const struct g4_set_place *place, uint64_t to)
{
	struct g4_set_taken *last = &set->taken[set->taken_count - 1];

	if (last->disk_address - last->from != place->address || to <= last->end)
		return false;
	last->end = to;
	return true;
}

/*
 * A row that is written where it was left out gets parity first, for its region has left the map, and of what the others make of this disk. So the position must not pass it
 * any more, and that is so before anything of it goes to disks: it may be held for long (set_held_host.c). What is held of a part that is made may go there later: it changes
 * the row that was made.
 */
void g4_set_taken_write(struct g4_set *set, uint64_t address, uint64_t bytes)
{
	for (uint32_t n = 0; n < set->taken_count; n++) {
		struct g4_set_taken *taken = &set->taken[n];
		if (taken->rows && taken->end > taken->to && address < taken->address + taken->end * taken->scale &&
		    taken->address + taken->to * taken->scale < address + bytes)
			taken->touched = true;
	}
}

/* Lock of rows held. The position passes what was taken, if that is as it should be. */
static bool pass(struct g4_set *set, const struct g4_set_taken *taken)
{
	if (g4_load32_acq(&set->stuck) || g4_load32_acq(&set->target) != taken->disk ||
	    g4_load64_acq(&set->position) != taken->position)
		return false;
	if (taken->rows ? taken->touched :
			  !g4_set_window_shut(&set->window, watch_of(taken), taken->address, taken->to - taken->from))
		return false;
	g4_store64_rel(&set->position, taken->disk_address + (taken->end - taken->from));
	if (!taken->rows) {
		g4_set_window_close(&set->window);
		(void)g4_set_window_watch(&set->window, watch_of(taken), 0, 0);
	}
	return true;
}

void g4_set_taken_end(struct g4_wg *wg, struct g4_set *set, struct g4_dev_order *order)
{
	const struct g4_set_taken *taken = set->taken;
	uint64_t told = 0, counted = 0;
	uint32_t parts = 0, passed = 0;

	lock(wg, set);
	for (; parts < set->taken_count && taken[parts].number <= order->all; parts++)
		told += taken[parts].to - taken[parts].from;
	const bool right = parts > 0 && taken[parts - 1].number == order->all && told == order->bytes;
	while (right && passed < parts && pass(set, &taken[passed])) {
		counted += taken[passed].to - taken[passed].from;
		passed++;
	}
	if (right && passed == parts) {
		set->taken_count -= parts;
		memmove(&set->taken[0], &set->taken[parts], set->taken_count * sizeof(set->taken[0]));
	} else {
		forget(set);
	}
	order->bytes = counted;
	unlock(set);
}
