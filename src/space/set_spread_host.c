/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lies on a set is spread over all of its disks while others use it: places of chunks are moved from disks that are fuller than all are
 * together to disks that are less so, into room that no chunk has, a piece at a time. Nothing is planned ahead: each piece is chosen by the
 * table as it is then, so an order that was interrupted goes on where it was, and nothing on the disks says that there is one.
 *
 *   1. choose    a piece of a place, and a gap of the disk that it goes to; who writes there from now on is noticed
 *   2. look      the owner says how much of that is in use (fs/rebalance.c)
 *   3. shut      nobody begins to write there, and nobody is left who does (set_window_host.c); of a set with parity nobody writes to any rows,
 *                and none of them is in memory or in the log (set_draft_host.h)
 *   4. copy      what is in use, and flush; what is not gets its place without
 *   5. switch    the table, on all disks (g4_set_switch_table()), then for requests (set_epoch_host.c)
 *   6. open      writers go on, to the new place
 *
 * Crashes: until 5 the copy lies where no chunk is. In 5 both tables lead to the same bytes, for nobody writes. After it the old place is
 * nobody's; it is used again when all requests are done that may have been meant for it. A switch of which nobody knows on which disks it is
 * makes the set read-only: a write to the new place could be lost with it.
 *
 * Which piece: the address space is looked at from its beginning on, in parts of which the owner has told how much is in use, and each disk is to
 * have its share of all that is up to there. All goes from disks that have too much of all to those that have too little: it ends. Parts of
 * which nothing is in use stay, but for what is lent.
 *
 * Free space that is lent (set_lend_host.c) is room while it is: the table of 5 has its addresses laid anew.
 *
 * Rows with parity are cut at whole regions of their map, whose numbers stay, and moved as all else. Of those of which nothing is in use the new
 * place has other bytes, so the map says nothing of them any more, durably, before the switch; of what is lent before a copy goes to where that lies.
 *
 * Chunks of other levels stay; so does, where the own level has parity, the front in copies.
 */
#define _GNU_SOURCE 1

#include <stdlib.h>

#include "simt/simt_host.h"
#include "space/set_draft_host.h"
#include "space/set_epoch_host.h"
#include "space/set_lend_host.h"
#include "space/set_rows_host.h"
#include "space/set_spread_host.h"

#define PARTS G4_USE_PARTS		/* of the address space: each may cut the table twice */
#define COPY_BYTES (UINT64_C(16) << 20) /* of a place: writers wait for so much, where nobody is in the way */
#define WAIT_NS UINT64_C(20000000)	/* for writers that are */
#define BUFFER_BYTES G4_CHUNK_UNIT

struct spreading {
	struct g4_set *set;
	struct g4_set_draft
		draft; /* its chunks are those that there are; while a piece is chosen without places of what is lent */
	struct g4_chunk *trial;	       /* memory for a table */
	int64_t over[G4_MAX_DISKS];    /* bytes in use that each disk has more than its share */
	double share[G4_MAX_DISKS];    /* of all that are */
	double sum[G4_MAX_DISKS], all; /* up to where it is looked at */
	bool is_full[G4_MAX_DISKS];
};

/* ---- memory ---- */

static void end(struct spreading *s)
{
	free(s->trial);
	g4_set_draft_end(&s->draft);
}

/* Orders held. To be ended. */
static int begin(struct spreading *s, struct g4_set *set)
{
	memset(s, 0, sizeof(*s));
	s->set = set;
	return g4_set_draft_begin(&s->draft, set);
}

/* ---- the table that follows ---- */

/* In which `bytes` of the piece, of the chunks that the set has, have their new place. -G4_E_NOSPC: it would have too many chunks, or no room for what is lent. */
static int replan(const struct spreading *s, const struct g4_set_piece *piece, uint64_t bytes, struct g4_chunk *chunks,
		  uint32_t *count)
{
	uint32_t n = piece->chunk;
	const uint64_t place = chunks[n].places[piece->number] + piece->within;

	if (!g4_table_cut(chunks, count, n, piece->within + bytes) || !g4_table_cut(chunks, count, n, piece->within))
		return -G4_E_NOSPC;
	n += piece->within > 0;
	chunks[n].places[g4_table_number_of(&chunks[n], 0, place)] = piece->to;
	if (s->set->lent_count > 0)
		return g4_set_lay_lent(s->set, s->draft.super, s->draft.spans, chunks, count);
	g4_table_join_all(chunks, count);
	return 0;
}

/* Whether what is lent has room when the piece was moved. */
static bool leaves_room(const struct spreading *s, const struct g4_set_piece *piece)
{
	uint32_t count = s->set->map.count;

	if (s->set->lent_count == 0)
		return true;
	memcpy(s->trial, s->set->chunks, count * sizeof(*s->trial));
	return replan(s, piece, piece->bytes, s->trial, &count) == 0;
}

/* ---- which piece ---- */

static uint64_t room_of(const struct spreading *s, uint32_t disk)
{
	return g4_chunk_usable(s->draft.super->disk_bytes[disk]) - s->draft.super->parity_log_bytes;
}

/* Parts end at multiples of that in the address space, as near as places can be cut. */
static uint64_t part_bytes(const struct spreading *s)
{
	return s->set->use_bytes ?
		       s->set->use_bytes :
		       g4_align_up(g4_chunk_end(s->draft.move.chunks, s->draft.move.count) / PARTS + 1, G4_CHUNK_UNIT);
}

/* How much of a part of a chunk's places ends with a part of the address space. */
static uint64_t slice_bytes(const struct spreading *s, const struct g4_chunk *chunk, uint64_t within)
{
	const uint64_t columns = g4_max64(g4_chunk_data_columns(chunk), 1), part = part_bytes(s),
		       address = chunk->address + within * columns;
	const uint64_t rest = (part - address % part + columns - 1) / columns;

	return g4_min64(g4_align_up(rest, g4_table_unit(chunk)), chunk->place_bytes - within);
}

/* How much of that is in use, of each place; all of it where nobody has told. */
static double used_bytes(const struct spreading *s, const struct g4_chunk *chunk, uint64_t within, uint64_t bytes)
{
	const struct g4_set *set = s->set;
	const uint64_t columns = g4_chunk_data_columns(chunk), from = chunk->address + within * columns,
		       to = from + bytes * columns;
	double used = 0;

	if (set->use_bytes == 0)
		return (double)bytes;
	for (uint64_t part = from / set->use_bytes; part < PARTS && part * set->use_bytes < to; part++) {
		const uint64_t begin = g4_max64(from, part * set->use_bytes);
		used += set->use[part] * (double)(g4_min64(to, (part + 1) * set->use_bytes) - begin);
	}
	return used / (double)columns;
}

/* How full all disks are together, each has as much as that of what chunks may have of it. */
static void find_shares(struct spreading *s)
{
	double used[G4_MAX_DISKS] = {0}, all = 0, room = 0;

	for (uint32_t n = 0; n < s->draft.move.count; n++) {
		const struct g4_chunk *chunk = &s->draft.move.chunks[n];
		for (uint32_t k = 0; k < g4_table_places(chunk); k++) {
			const double bytes = used_bytes(s, chunk, 0, chunk->place_bytes);
			used[g4_place_disk(chunk->places[k])] += bytes;
			all += bytes;
		}
	}
	for (uint32_t d = 0; d < s->set->count; d++)
		room += (double)room_of(s, d);
	for (uint32_t d = 0; d < s->set->count; d++) {
		s->share[d] = (double)room_of(s, d) / room;
		s->over[d] = (int64_t)(used[d] - all * s->share[d]);
	}
}

/* A disk that has too much, or too little of all. */
static uint64_t too_much(const struct spreading *s, uint32_t disk)
{
	return s->over[disk] > 0 ? g4_align_down((uint64_t)s->over[disk], G4_CHUNK_UNIT) : 0;
}

static uint64_t too_little(const struct spreading *s, uint32_t disk)
{
	return s->over[disk] < 0 && !s->is_full[disk] ? g4_align_down((uint64_t)-s->over[disk], G4_CHUNK_UNIT) : 0;
}

static uint64_t left_to_move(const struct spreading *s)
{
	uint64_t much = 0, little = 0;

	for (uint32_t d = 0; d < s->set->count; d++) {
		much += too_much(s, d);
		little += too_little(s, d);
	}
	return g4_min64(much, little);
}

/* What a disk has more than its share, of what was looked at. */
static double ahead(const struct spreading *s, uint32_t disk)
{
	return s->sum[disk] - s->all * s->share[disk];
}

/* The disk that has least of its share, and no place of the chunk; G4_MAX_DISKS: there is none with room. */
static uint32_t find_target(const struct spreading *s, const struct g4_chunk *chunk)
{
	uint32_t found = G4_MAX_DISKS;

	for (uint32_t d = 0; d < s->set->count; d++)
		if (too_little(s, d) > 0 && g4_table_place_on(chunk, d) == G4_CHUNK_PLACES &&
		    (found == G4_MAX_DISKS || ahead(s, d) < ahead(s, found)))
			found = d;
	return found;
}

/* As much of a slice as has `least` bytes in use, and as a gap has room for, in whole units. */
static uint64_t part_of(const struct g4_chunk *chunk, uint64_t bytes, double used, uint64_t least, uint64_t gap)
{
	const uint64_t some = used <= (double)least ? bytes : (uint64_t)((double)bytes / used * (double)least);

	return some >= bytes && gap >= bytes ? bytes : g4_align_down(g4_min64(some, gap), g4_table_unit(chunk));
}

/* The part of chunk n `within` it, to be moved: true, and it is in set->next, or its target has no room. */
static bool take(struct spreading *s, uint32_t n, uint32_t number, uint64_t within, uint64_t bytes, double used,
		 uint32_t to)
{
	const struct g4_chunk *part = &s->draft.move.chunks[n];
	const uint64_t place = part->places[number];
	struct g4_set_gap gap = {.bytes = 0};

	g4_table_find_gap(&s->draft.move, s->draft.super, to, s->draft.spans, 0, bytes, &gap);
	const uint64_t least = g4_min64(too_much(s, g4_place_disk(place)), too_little(s, to));
	const uint64_t some = part_of(part, bytes, used, least, gap.bytes);
	/* the chunk may be a part of one that the set has, for what is lent is cut out of it here */
	const uint64_t columns = g4_chunk_data_columns(part), address = part->address + within * columns;
	const struct g4_chunk *chunk = g4_chunk_find(&s->set->map, address);
	const uint64_t in_place = (address - chunk->address) / columns;
	const struct g4_set_piece piece = {.generation = s->draft.super->set_generation,
					   .chunk = (uint32_t)(chunk - s->set->chunks),
					   .number = g4_table_number_of(chunk, in_place, place + within),
					   .within = in_place,
					   .bytes = some,
					   .to = gap.from | to};
	s->is_full[to] = gap.bytes < g4_min64(bytes, g4_table_unit(part)) || (some > 0 && !leaves_room(s, &piece));
	if (some == 0 || s->is_full[to])
		return false;
	s->set->next = piece;
	return true;
}

/* A part of chunk n, all of whose places were counted. The first place that is to leave its disk, so that a part that was begun goes on. */
static bool look_at(struct spreading *s, uint32_t n, uint64_t within, uint64_t bytes)
{
	const struct g4_chunk *chunk = &s->draft.move.chunks[n];
	const double used = used_bytes(s, chunk, within, bytes);

	for (uint32_t k = 0; k < g4_table_places(chunk) && used > 0; k++) {
		const uint32_t from = g4_place_disk(chunk->places[k]);
		if (too_much(s, from) == 0)
			continue;
		const uint32_t to = find_target(s, chunk);
		if (to == G4_MAX_DISKS)
			return false;
		if (ahead(s, from) > ahead(s, to) + used && take(s, n, k, within, bytes, used, to))
			return true;
	}
	return false;
}

/* Orders held. False: nothing is to be moved, or can be. */
static bool choose(struct spreading *s)
{
	s->set->next.generation = 0;
	if (!g4_set_lend_places(s->set, s->draft.move.chunks, &s->draft.move.count))
		return false;
	find_shares(s);
	memset(s->sum, 0, sizeof(s->sum));
	s->all = 0;
	for (uint32_t n = 0; n < s->draft.move.count && left_to_move(s) > 0; n++) {
		const struct g4_chunk *chunk = &s->draft.move.chunks[n];
		for (uint64_t at = 0; !g4_chunk_is_gone(chunk) && at < chunk->place_bytes;) {
			const uint64_t bytes = slice_bytes(s, chunk, at);
			const double used = used_bytes(s, chunk, at, bytes);
			for (uint32_t k = 0; k < g4_table_places(chunk); k++) {
				s->sum[g4_place_disk(chunk->places[k])] += used;
				s->all += used;
			}
			if (g4_set_may_move(s->set, chunk) && look_at(s, n, at, bytes))
				return true;
			at += bytes;
		}
	}
	return false;
}

/* ---- orders ---- */

int g4_set_spread_use(struct g4_set *set, uint64_t part, uint64_t parts, uint64_t bytes, uint64_t used)
{
	if (part >= parts || parts > PARTS || bytes == 0 || bytes % G4_CHUNK_UNIT != 0 || used > bytes)
		return -G4_E_INVAL;
	pthread_mutex_lock(&set->orders);
	if (set->use_bytes != bytes)
		memset(set->use, 0, sizeof(set->use));
	set->use_bytes = bytes;
	set->use[part] = (double)used / (double)bytes;
	pthread_mutex_unlock(&set->orders);
	return 0;
}

int g4_set_spread_check(struct g4_set *set, uint64_t *left, struct g4_dev_message message)
{
	struct spreading s;

	pthread_mutex_lock(&set->orders);
	int rc = g4_set_check_whole(set, message);
	if (rc == 0) {
		rc = begin(&s, set);
		if (rc < 0)
			g4_dev_fail(message, rc, "out of memory");
	}
	if (rc == 0) {
		find_shares(&s);
		*left = left_to_move(&s);
		end(&s);
	}
	pthread_mutex_unlock(&set->orders);
	return rc;
}

/* Of the address space what a piece of a place is of. */
static uint64_t address_of(const struct g4_set *set)
{
	const struct g4_chunk *chunk = &set->chunks[set->next.chunk];

	return chunk->address + set->next.within * g4_chunk_data_columns(chunk);
}

int g4_set_spread_next(struct g4_set *set, uint64_t *address, uint64_t *bytes, uint64_t *left)
{
	struct spreading s;

	*address = *bytes = *left = 0;
	pthread_mutex_lock(&set->orders);
	int rc = begin(&s, set);
	if (rc == 0 && set->lent_count > 0) {
		s.trial = calloc(G4_CHUNKS_MAX, sizeof(*s.trial));
		rc = s.trial ? 0 : -G4_E_NOMEM;
	}
	if (rc == 0 && choose(&s)) {
		*address = address_of(set);
		*bytes = set->next.bytes * g4_chunk_data_columns(&set->chunks[set->next.chunk]);
		*left = left_to_move(&s);
		if (g4_load32_acq(&set->target) == G4_MAX_DISKS)
			g4_set_window_watch(&set->window, 0, *address, *bytes);
		else /* whose copies are watched; MOVE says that nothing is moved now */
			set->next.generation = 0;
	}
	end(&s);
	pthread_mutex_unlock(&set->orders);
	return rc;
}

/* ---- moving ---- */

/* Nobody writes to the piece from now on. *bytes: of its place, less where somebody is in the way; false: he stays. */
static bool shut(struct g4_set *set, uint64_t columns, bool idle, uint64_t *bytes)
{
	const uint64_t address = address_of(set);

	if (idle)
		return g4_set_window_shut(&set->window, 0, address, *bytes * columns);
	for (; *bytes > G4_CHUNK_UNIT; *bytes = g4_align_up(*bytes / 4, G4_CHUNK_UNIT))
		if (g4_set_window_open(&set->window, address, *bytes * columns))
			return true;
	return g4_set_window_wait(&set->window, address, *bytes * columns, WAIT_NS);
}

/* To the new place, durably. */
static int copy(struct g4_wg *wg, struct g4_set *set, const struct g4_set_piece *piece, uint64_t bytes)
{
	const struct g4_set_step step = {.chunk = &set->chunks[piece->chunk], .number = piece->number};
	const uint32_t disk = g4_place_disk(piece->to);
	struct g4_dev *target = set->disks[disk].dev;
	uint8_t *buffer = NULL;
	int rc = posix_memalign((void **)&buffer, G4_PAGE_BYTES, BUFFER_BYTES) == 0 ? 0 : -G4_E_NOMEM;

	for (uint64_t at = 0; at < bytes && rc == 0; at += BUFFER_BYTES) {
		rc = g4_set_move_read(wg, set, &step, piece->within + at, BUFFER_BYTES, buffer);
		if (rc < 0) {
			free(buffer);
			return rc;
		}
		rc = g4_dev_write(wg, target, g4_place_address(piece->to) + at, buffer, BUFFER_BYTES,
				  G4_IO_CLASS(G4_CLASS_BACKGROUND));
	}
	free(buffer);
	if (rc == 0)
		rc = g4_dev_flush(wg, target);
	if (rc == -G4_E_IO || rc == -G4_E_DEV_READONLY) { /* as after any write that fails */
		const int dropped = g4_set_drop(wg, set, disk);
		rc = dropped < 0 ? dropped : rc;
	}
	return rc;
}

/* Orders held, and the piece is shut, and locked. */
static int move_shut(struct g4_wg *wg, struct spreading *s, bool idle, uint64_t bytes)
{
	struct g4_set_move *move = &s->draft.move;
	struct g4_set *set = s->set;
	const struct g4_set_piece *piece = &set->next;
	const struct g4_chunk *chunk = &set->chunks[piece->chunk];
	int rc = replan(s, piece, bytes, move->chunks, &move->count);

	if (rc == 0) /* an order that can not be right is not carried out */
		rc = g4_chunk_validate(move->chunks, move->count, s->draft.super->disk_bytes, set->count);
	/* in front of the copy, which goes to where rows lie that are lent */
	if (rc == 0)
		rc = g4_set_forget_lent(wg, set, move);
	if (rc == 0 && !idle)
		rc = copy(wg, set, piece, bytes);
	else if (rc == 0 && chunk->parity) /* what lies at the new place is not what parity was made of */
		rc = g4_rows_forget(wg, set, chunk, piece->within, piece->within + bytes);
	return rc < 0 ? rc : g4_set_draft_switch(wg, set, &s->draft);
}

/* Orders held. Whether the piece is what it was when it was chosen. */
static bool still_is(const struct spreading *s)
{
	return s->set->next.generation != 0 && s->set->next.generation == s->draft.super->set_generation;
}

/* How much of the piece is moved at once, of its place, where so much of the address space is of one kind. Writers of any rows wait for those. */
static uint64_t step_of(const struct g4_chunk *chunk, uint64_t piece, bool idle, uint64_t most)
{
	const uint64_t unit = g4_table_unit(chunk), columns = g4_chunk_data_columns(chunk);

	if (idle)
		return most / columns >= piece ? piece : g4_align_down(most / columns, unit);
	const uint64_t bytes = g4_max64(g4_align_up((most + columns - 1) / columns, unit), unit);
	return g4_min64(piece, chunk->parity ? unit : g4_min64(bytes, COPY_BYTES));
}

/* Orders held. `most` of the address space. */
static int move_some(struct g4_wg *wg, struct spreading *s, bool idle, uint64_t most, uint64_t *copied, uint64_t *moved)
{
	struct g4_set *set = s->set;
	int rc = g4_set_check_whole(set, (struct g4_dev_message){.text = NULL});

	if (rc < 0)
		return rc;
	if (!still_is(s) || !g4_set_view_is_alone(set) || (set->lent_count > 0 && !set->lent_ready))
		return 0;
	const struct g4_chunk *chunk = &set->chunks[set->next.chunk];
	uint64_t bytes = step_of(chunk, set->next.bytes, idle, most);
	/* of rows the lock keeps writers away */
	if (bytes == 0 || ((idle || !chunk->parity) && !shut(set, g4_chunk_data_columns(chunk), idle, &bytes)))
		return 0;
	rc = g4_set_draft_lock(wg, set);
	if (rc == 0) {
		rc = move_shut(wg, s, idle, bytes);
		g4_set_draft_unlock(set);
	}
	g4_set_window_close(&set->window);
	set->next.generation = 0;
	*moved = rc == 0 ? bytes : 0;
	*copied = rc == 0 && !idle ? bytes : 0;
	return rc;
}

int g4_set_spread_move(struct g4_wg *wg, struct g4_set *set, bool idle, uint64_t *bytes, uint64_t *moved)
{
	const uint64_t most = *bytes;
	struct spreading s;

	*bytes = *moved = 0;
	pthread_mutex_lock(&set->orders);
	int rc = begin(&s, set);
	if (rc == 0) {
		rc = move_some(wg, &s, idle, most, bytes, moved);
		end(&s);
	}
	pthread_mutex_unlock(&set->orders);
	return rc;
}
