/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Free space is lent while what lies on a set is spread (set_spread_host.c): a set whose chunks have all of its disks has no other room. The
 * owner takes some of it out of what can be claimed and tells which; until it takes that back the places of it are room, and its addresses are
 * laid anew with each switch of the table. They have places in each table that was ever written, so there is nothing to go on with after a crash,
 * and no order that comes between finds room that is not meant for it.
 *
 *   lent      requests that began before may be meant for it still: they look at a view that is left behind, without a change of the table
 *   ready     nobody looks at the view before: its places may be written to
 *   switched  others lie there now, and it lies elsewhere
 *   back      nobody looks at the view before: who read what was moved from where it lay is done, so that may be written to
 *
 * Crashes: what is lent was in use in no state that a crash can bring back, so it does not matter where a table says that it lies.
 */
#define _GNU_SOURCE 1

#include "space/set_lend_host.h"

#include "simt/simt_host.h"
#include "space/set_draft_host.h"
#include "space/set_epoch_host.h"
#include "space/set_rows_host.h"

/* ---- lending ---- */

/* Orders held. Whether no request is left that began before this. */
static int leave_behind(struct g4_wg *wg, struct g4_set *set, bool *done)
{
	*done = false;
	if (!g4_set_view_wait(set, G4_VIEW_PATIENCE))
		return 0;
	int rc = g4_set_draft_lock(wg, set);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&set->lock);
	rc = g4_set_view_reserve(set);
	if (rc == 0)
		g4_set_view_switch(set, set->chunks, set->map.count);
	pthread_mutex_unlock(&set->lock);
	g4_set_draft_unlock(set);
	if (rc == 0)
		*done = g4_set_view_wait(set, G4_VIEW_PATIENCE);
	return rc;
}

int g4_set_lend(struct g4_wg *wg, struct g4_set *set, uint64_t address, uint64_t bytes, bool *ready)
{
	const uint64_t end = g4_load64_acq(&set->dev.props.size_bytes);
	int rc = 0;

	*ready = false;
	pthread_mutex_lock(&set->orders);
	if (bytes == 0) {
		rc = leave_behind(wg, set, &set->lent_ready);
		*ready = set->lent_ready;
	} else if (address > end || bytes > end - address) {
		rc = -G4_E_INVAL;
	} else if (set->lent_count == G4_LEND_MOST) {
		rc = -G4_E_NOSPC;
	} else {
		set->lent[set->lent_count++] = (struct g4_set_range){address, address + bytes};
		set->lent_ready = false;
	}
	pthread_mutex_unlock(&set->orders);
	return rc;
}

bool g4_set_take_back(struct g4_set *set)
{
	pthread_mutex_lock(&set->orders);
	const bool alone = g4_set_view_wait(set, G4_VIEW_PATIENCE);
	if (alone) {
		set->lent_count = 0;
		set->lent_ready = false;
		set->next.generation = 0; /* its target may be what was lent */
	}
	pthread_mutex_unlock(&set->orders);
	return alone;
}

/* ---- tables ---- */

bool g4_set_may_move(const struct g4_set *set, const struct g4_chunk *chunk)
{
	const bool rows = g4_set_own_level(&set->map) >= G4_LEVEL_PARITY;

	return chunk->level == G4_LEVEL_OWN && chunk->copies > 0 && (chunk->parity > 0) == rows;
}

/* Rows without places for now: they stay as many and as wide, so no bit of the map is another one's. */
static bool is_lent_rows(const struct g4_chunk *chunk)
{
	return chunk->copies == 0 && chunk->parity > 0;
}

static void give_up(struct g4_chunk *chunk)
{
	if (!chunk->parity) {
		g4_table_give_up(chunk);
		return;
	}
	chunk->copies = 0;
	memset(chunk->places, 0, sizeof(chunk->places));
}

/* What of a chunk's places a range has that begins before its end and ends behind its beginning, in whole units, or to its end. */
static void lent_part(const struct g4_chunk *chunk, const struct g4_set_range *range, uint64_t *first, uint64_t *end)
{
	const uint64_t address = chunk->address, unit = g4_table_unit(chunk),
		       each = unit * g4_chunk_data_columns(chunk);

	*first = range->from > address ? (range->from - address + each - 1) / each * unit : 0;
	*end = range->to >= address + chunk->bytes ? (uint64_t)chunk->place_bytes : (range->to - address) / each * unit;
}

/* False: there are too many chunks. */
static bool lend_places(struct g4_chunk *chunks, uint32_t *count, uint32_t n, const struct g4_set_range *range)
{
	uint64_t first, end;

	lent_part(&chunks[n], range, &first, &end);
	if (first >= end)
		return true;
	if (!g4_table_cut(chunks, count, n, end) || !g4_table_cut(chunks, count, n, first))
		return false;
	give_up(&chunks[n + (first > 0)]);
	return true;
}

bool g4_set_lend_places(const struct g4_set *set, struct g4_chunk *chunks, uint32_t *count)
{
	for (uint32_t k = 0; k < set->lent_count; k++)
		for (uint32_t n = 0; n < *count; n++)
			if (g4_set_may_move(set, &chunks[n]) && chunks[n].address < set->lent[k].to &&
			    set->lent[k].from < chunks[n].address + chunks[n].bytes &&
			    !lend_places(chunks, count, n, &set->lent[k]))
				return false;
	return true;
}

/* A chunk of no places that is not to be laid: what was gone before. */
static void keep_gone(struct g4_chunk *chunks, uint32_t count, bool kept)
{
	for (uint32_t n = 0; n < count; n++)
		if (chunks[n].copies == 0)
			chunks[n].columns = kept;
}

/* A table that is planned, with what is needed to find gaps. */
struct laying {
	const struct g4_superblock *super;
	struct g4_set_span *spans;
	struct g4_set_move move;
	uint64_t room[G4_MAX_DISKS]; /* that no place has */
};

static void find_room(struct laying *l)
{
	for (uint32_t d = 0; d < l->super->disk_count; d++)
		l->room[d] = g4_chunk_usable(l->super->disk_bytes[d]) - l->super->parity_log_bytes;
	for (uint32_t n = 0; n < l->move.count; n++)
		for (uint32_t k = 0; k < g4_table_places(&l->move.chunks[n]); k++)
			l->room[g4_place_disk(l->move.chunks[n].places[k])] -= l->move.chunks[n].place_bytes;
}

/* As many gaps as a chunk has columns, of the disks that have most room, each for a unit of it at least. False: there are too few. */
static bool choose_gaps(struct laying *l, const struct g4_chunk *chunk, struct g4_set_gap *gaps)
{
	const uint64_t wanted = chunk->place_bytes, least = g4_min64(wanted, g4_table_unit(chunk));
	uint32_t count = 0;

	for (uint32_t d = 0; d < l->super->disk_count; d++) {
		struct g4_set_gap gap = {.bytes = 0};
		uint32_t at = count;
		g4_table_find_gap(&l->move, l->super, d, l->spans, 0, wanted, &gap);
		if (gap.bytes < least)
			continue;
		while (at > 0 && l->room[gaps[at - 1].disk] < l->room[d])
			at--;
		if (at == chunk->columns)
			continue;
		count = (uint32_t)g4_min64(count + 1, chunk->columns);
		memmove(&gaps[at + 1], &gaps[at], (count - 1 - at) * sizeof(*gaps));
		gaps[at] = gap;
	}
	return count == chunk->columns;
}

/* Of chunk n, of rows, what fits into gaps of the disks that have most room; the rest is a chunk behind it. */
static int lay_rows(struct laying *l, uint32_t n)
{
	struct g4_chunk *chunk = &l->move.chunks[n];
	struct g4_set_gap gaps[G4_CHUNK_PLACES];
	uint64_t bytes = chunk->place_bytes;

	if (!choose_gaps(l, chunk, gaps))
		return -G4_E_NOSPC;
	for (uint32_t k = 0; k < chunk->columns; k++)
		if (gaps[k].bytes < bytes)
			bytes = g4_align_down(gaps[k].bytes, g4_table_unit(chunk));
	if (!g4_table_cut(l->move.chunks, &l->move.count, n, bytes))
		return -G4_E_NOSPC;
	chunk->copies = 1;
	for (uint32_t k = 0; k < chunk->columns; k++) {
		chunk->places[k] = gaps[k].from | gaps[k].disk;
		l->room[gaps[k].disk] -= bytes;
	}
	return 0;
}

int g4_set_lay_rows(const struct g4_superblock *super, struct g4_set_span *spans, struct g4_set_move *move, uint32_t n)
{
	struct laying l = {.super = super, .spans = spans, .move = *move};

	find_room(&l);
	const int rc = lay_rows(&l, n);
	move->count = l.move.count;
	return rc;
}

static int lay_all_rows(struct laying *l)
{
	int rc = 0;

	find_room(l);
	for (uint32_t n = 0; n < l->move.count && rc == 0; n++)
		if (is_lent_rows(&l->move.chunks[n]))
			rc = lay_rows(l, n);
	return rc;
}

int g4_set_lay_lent(const struct g4_set *set, const struct g4_superblock *super, struct g4_set_span *spans,
		    struct g4_chunk *chunks, uint32_t *count)
{
	struct laying l = {.super = super, .spans = spans, .move.chunks = chunks};
	uint64_t disk_bytes[G4_MAX_DISKS];
	struct g4_chunk_wish wish;
	uint64_t bytes = 0;

	keep_gone(chunks, *count, true);
	if (!g4_set_lend_places(set, chunks, count))
		return -G4_E_NOSPC;
	l.move.count = *count;
	int rc = lay_all_rows(&l);
	*count = l.move.count;
	if (rc < 0)
		return rc;
	for (uint32_t d = 0; d < set->count; d++)
		disk_bytes[d] = super->disk_bytes[d];
	for (uint32_t n = 0; n < *count; n++)
		bytes += g4_chunk_is_gone(&chunks[n]) ? (uint64_t)chunks[n].bytes : 0;
	g4_chunk_wish_like(&set->map, super->parity_log_bytes, &wish);
	wish.piece_bytes = bytes / set->count;
	*count = g4_chunk_fill(&wish, disk_bytes, set->count, chunks, *count);
	for (uint32_t n = 0; n < *count && rc == 0; n++)
		rc = g4_chunk_is_gone(&chunks[n]) ? -G4_E_NOSPC : 0;
	keep_gone(chunks, *count, false);
	g4_table_join_all(chunks, count);
	return rc;
}

/* Whether a region of rows has other places in the table that is planned. */
static bool lies_elsewhere(const struct g4_chunk *chunk, uint64_t within, const struct g4_chunk_map *planned)
{
	const uint64_t columns = g4_chunk_data_columns(chunk), address = chunk->address + within * columns;
	const struct g4_chunk *next = g4_chunk_find(planned, address);
	const uint64_t there = (address - next->address) / columns;
	bool same = true;

	for (uint32_t c = 0; c < chunk->columns && same; c++)
		same = g4_chunk_place(chunk, within / chunk->stripe_bytes, c) + within ==
		       g4_chunk_place(next, there / next->stripe_bytes, c) + there;
	return !same;
}

/* Of one chunk, what a range has of it. */
static int forget_range(struct g4_wg *wg, struct g4_set *set, const struct g4_chunk *chunk,
			const struct g4_set_range *range, const struct g4_chunk_map *planned)
{
	uint64_t first, end;
	int rc = 0;

	lent_part(chunk, range, &first, &end);
	for (uint64_t at = first, to; at < end && rc == 0; at = to) {
		const bool elsewhere = lies_elsewhere(chunk, at, planned);
		for (to = at; to < end && lies_elsewhere(chunk, to, planned) == elsewhere;)
			to = g4_min64(to + G4_PARITY_REGION_BYTES, end);
		if (elsewhere)
			rc = g4_rows_forget(wg, set, chunk, at, to);
	}
	return rc;
}

int g4_set_forget_lent(struct g4_wg *wg, struct g4_set *set, const struct g4_set_move *move)
{
	const struct g4_chunk_map planned = {.chunks = move->chunks, .count = move->count};
	int rc = 0;

	for (uint32_t k = 0; k < set->lent_count && set->parity; k++)
		for (uint32_t n = 0; n < set->map.count && rc == 0; n++) {
			const struct g4_chunk *chunk = &set->chunks[n];
			if (chunk->parity && g4_set_may_move(set, chunk) && chunk->address < set->lent[k].to &&
			    set->lent[k].from < chunk->address + chunk->bytes)
				rc = forget_range(wg, set, chunk, &set->lent[k], &planned);
		}
	return rc;
}

/* Orders held, and locked. */
static int lay(struct g4_wg *wg, struct g4_set *set, struct g4_set_draft *draft)
{
	const struct g4_superblock *super = draft->super;
	struct g4_set_move *move = &draft->move;
	int rc = g4_set_lay_lent(set, super, draft->spans, move->chunks, &move->count);

	if (rc == 0) /* an order that can not be right is not carried out */
		rc = g4_chunk_validate(move->chunks, move->count, super->disk_bytes, set->count);
	if (rc < 0 || (move->count == set->map.count &&
		       memcmp(move->chunks, set->chunks, move->count * sizeof(*move->chunks)) == 0))
		return rc;
	rc = g4_set_forget_lent(wg, set, move);
	return rc < 0 ? rc : g4_set_draft_switch(wg, set, draft);
}

int g4_set_lay(struct g4_wg *wg, struct g4_set *set)
{
	struct g4_set_draft draft;

	pthread_mutex_lock(&set->orders);
	int rc = g4_set_check_whole(set, (struct g4_dev_message){.text = NULL});
	if (rc == 0 && set->lent_count > 0 && set->lent_ready && g4_set_view_is_alone(set)) {
		rc = g4_set_draft_begin(&draft, set);
		if (rc == 0)
			rc = g4_set_draft_lock(wg, set);
		if (rc == 0) {
			rc = lay(wg, set, &draft);
			g4_set_draft_unlock(set);
		}
		g4_set_draft_end(&draft);
	}
	pthread_mutex_unlock(&set->orders);
	return rc;
}
