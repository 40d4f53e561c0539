/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lies on a disk is moved to the others, while nobody uses the set: places of chunks, not pages, so no address changes, whatever
 * lies there. Room on the others is what no chunk has, and what chunks have of which nothing is in use: of that the address space keeps
 * the addresses, in chunks without places ("gone"), which no allocator gives to anybody. What is not in use of the disk that goes gets
 * what room is left then, and nothing is copied there.
 *
 *   before    | a: disk 0    | b: disk 1                 |
 *   in use     ########        ##      ####
 *   disk 0 goes
 *   after     | a: 1 | gone  | b: 1 | gone    | b: 1 |gone|     a's part in use lies where b had nothing in use
 *
 * Crashes: what is written before the table changes lies where nothing is in use, or in no chunk at all. So the set is what it was until
 * then; the order is given again, and begins anew. The change of the table is g4_set_switch_table().
 */
#define _GNU_SOURCE 1

#include <stdlib.h>

#include "base/units_host.h"
#include "space/set_rows_host.h"
#include "space/set_table_host.h"

#define COPY_BYTES G4_CHUNK_UNIT

struct planning {
	struct g4_set *set;
	const struct g4_set_in_use *in_use;
	struct g4_set_move *move;
	struct g4_set_span *spans; /* memory for those of a disk */
	uint64_t *lost; /* a bit for each region that is gone, or a part of it: the file system loses all of it */
	uint32_t disk;	/* that goes */
	uint64_t unit;	/* of a place: chunks are cut at multiples */
	bool full;	/* there were too many chunks */
};

/* ---- chunks ---- */

/* Whether nothing of a part of a chunk is in use; never of rows: they are not cut. lost: and the file system has lost it already. */
static bool part_is_idle(const struct planning *p, const struct g4_chunk *chunk, uint64_t within, uint64_t bytes,
			 bool lost)
{
	return !chunk->parity && g4_table_is_idle(p->in_use, lost ? p->lost : NULL, chunk, within, bytes);
}

/* As g4_table_cut(). */
static bool cut(struct planning *p, uint32_t n, uint64_t within)
{
	const bool done = g4_table_cut(p->move->chunks, &p->move->count, n, within);

	p->full = p->full || !done;
	return done;
}

static void give_up_places(struct planning *p, struct g4_chunk *chunk)
{
	const uint64_t address = chunk->address, bytes = chunk->bytes;

	for (uint64_t r = address / G4_TABLE_REGION; r * G4_TABLE_REGION < address + bytes && r < p->in_use->regions;
	     r++)
		p->lost[r / 64] |= UINT64_C(1) << r % 64;
	g4_table_give_up(chunk);
}

/* A part of chunk n of which nothing is in use is given up. */
static bool give_up_part(struct planning *p, uint32_t n, uint64_t within, uint64_t bytes)
{
	if (!cut(p, n, within + bytes) || !cut(p, n, within))
		return false;
	give_up_places(p, &p->move->chunks[within ? n + 1 : n]);
	return true;
}

/* Of the disk that goes: chunks that are in use altogether, as far as that is told, or not at all. */
static bool part_idle(struct planning *p)
{
	for (uint32_t n = 0; n < p->move->count; n++) {
		const struct g4_chunk *chunk = &p->move->chunks[n];
		if (g4_table_place_on(chunk, p->disk) == G4_CHUNK_PLACES)
			continue;
		const bool idle = part_is_idle(p, chunk, 0, g4_min64(p->unit, chunk->place_bytes), false);
		uint64_t to = p->unit;
		while (to < chunk->place_bytes &&
		       part_is_idle(p, chunk, to, g4_min64(p->unit, chunk->place_bytes - to), false) == idle)
			to += p->unit;
		if (!chunk->parity && !cut(p, n, to))
			return false;
	}
	return true;
}

/* ---- room ---- */

/* Whether a place of a chunk may be on a disk: a disk that is lost takes one of them with it, where that matters. */
static bool may_have(const struct planning *p, const struct g4_chunk *chunk, uint32_t disk)
{
	const bool matters = chunk->copies > 1 || chunk->parity;

	return disk != p->disk && !(matters && g4_table_place_on(chunk, disk) != G4_CHUNK_PLACES);
}

static struct g4_set_gap find_gap(const struct planning *p, const struct g4_chunk *chunk)
{
	struct g4_set_gap best = {.bytes = 0};

	for (uint32_t d = 0; d < p->set->count; d++)
		if (may_have(p, chunk, d))
			g4_table_find_gap(p->move, p->set->super, d, p->spans, 0, chunk->place_bytes, &best);
	return best;
}

/* What is given up first for room: that is lost already, that would have to be moved, any. */
enum choice { LOST, LEAVING, ANY };

/* Gives up what is not in use, so that there is a gap for a part of the chunk. False: there is nothing, or no room for chunks. */
static bool give_up_for(struct planning *p, const struct g4_chunk *needy, enum choice choice)
{
	uint64_t most = 0, within = 0, at = 0;
	uint32_t found = 0;

	for (uint32_t n = p->move->count; n-- > 0 && most < needy->place_bytes;) {
		const struct g4_chunk *chunk = &p->move->chunks[n];
		bool helps = false;
		for (uint32_t k = 0; k < g4_table_places(chunk); k++)
			helps = helps || may_have(p, needy, g4_place_disk(chunk->places[k]));
		if (!helps || (choice == LEAVING && g4_table_place_on(chunk, p->disk) == G4_CHUNK_PLACES))
			continue;
		const uint64_t bytes = chunk->parity ? 0 :
						       g4_table_longest_idle(p->in_use, choice == LOST ? p->lost : NULL,
									     chunk, p->unit, needy->place_bytes, &at);
		if (bytes > most) {
			most = bytes;
			within = at;
			found = n;
		}
	}
	return most > 0 && give_up_part(p, found, within, most);
}

static bool make_gap(struct planning *p, const struct g4_chunk *needy)
{
	bool made = false;

	for (enum choice choice = LOST; choice <= ANY && !made && !p->full; choice++)
		made = give_up_for(p, needy, choice);
	return made;
}

/* ---- planning ---- */

bool g4_set_move_add(const struct g4_set *set, struct g4_set_move *move, struct g4_chunk *chunk, uint32_t number,
		     uint64_t to)
{
	const struct g4_chunk *old = g4_chunk_find(&set->map, chunk->address);

	if (move->step_count == move->step_room) {
		const uint32_t room = move->step_room ? 2 * move->step_room : 64;
		struct g4_set_step *steps = realloc(move->steps, room * sizeof(*steps));
		if (!steps)
			return false;
		move->steps = steps;
		move->step_room = room;
	}
	move->steps[move->step_count++] = (struct g4_set_step){.chunk = old,
							       .number = number,
							       .within = g4_place_address(chunk->places[number]) -
									 g4_place_address(old->places[number]),
							       .bytes = chunk->place_bytes,
							       .to = to};
	chunk->places[number] = to;
	return true;
}

/* The place of chunk n on the disk goes elsewhere, or of its beginning, and the rest is a chunk of its own then. */
static int move_place(struct planning *p, uint32_t n)
{
	struct g4_chunk *chunk = &p->move->chunks[n];
	const uint32_t number = g4_table_place_on(chunk, p->disk);
	struct g4_set_gap gap = find_gap(p, chunk);
	uint32_t possible = 0;

	for (uint32_t d = 0; d < p->set->count; d++)
		possible += may_have(p, chunk, d);
	if (possible == 0)
		return -G4_E_INVAL;
	if (gap.bytes < chunk->place_bytes && (gap.bytes == 0 || chunk->parity)) {
		const struct g4_chunk needy = *chunk; /* which may be another entry afterwards */
		return make_gap(p, &needy) ? 0 : -G4_E_NOSPC;
	}
	if (!cut(p, n, g4_min64(gap.bytes, chunk->place_bytes)))
		return -G4_E_NOSPC;
	const uint64_t to = gap.from | gap.disk;
	return g4_set_move_add(p->set, p->move, chunk, number, to) ? 0 : -G4_E_NOMEM;
}

/* A chunk with a place on the disk, of which something is in use or nothing. */
static uint32_t find_leaving(const struct planning *p, bool idle)
{
	for (uint32_t n = 0; n < p->move->count; n++)
		if (g4_table_place_on(&p->move->chunks[n], p->disk) != G4_CHUNK_PLACES &&
		    part_is_idle(p, &p->move->chunks[n], 0, p->move->chunks[n].place_bytes, false) == idle)
			return n;
	return G4_CHUNKS_MAX;
}

/* Of chunk n nothing is in use: it gets a place in what is left, to which nothing is copied, or is given up. */
static void keep_idle(struct planning *p, uint32_t n)
{
	struct g4_chunk *chunk = &p->move->chunks[n];
	const struct g4_chunk needy = *chunk;
	const struct g4_set_gap gap = find_gap(p, chunk);
	const uint32_t number = g4_table_place_on(chunk, p->disk);

	if (part_is_idle(p, chunk, 0, chunk->place_bytes, true))
		give_up_places(p, chunk);
	else if (gap.bytes >= g4_min64(p->unit, chunk->place_bytes) && cut(p, n, gap.bytes))
		chunk->places[number] = gap.from | gap.disk;
	else if (gap.bytes >= needy.place_bytes || p->full || !give_up_for(p, &needy, LOST))
		give_up_places(p, chunk);
}

static int move_all(struct planning *p)
{
	int rc = 0;
	uint32_t n;

	while (rc == 0 && (n = find_leaving(p, false)) != G4_CHUNKS_MAX)
		rc = move_place(p, n);
	while (rc == 0 && (n = find_leaving(p, true)) != G4_CHUNKS_MAX)
		keep_idle(p, n);
	return rc;
}

/* With chunks cut at multiples of the unit. */
static int try_plan(struct planning *p)
{
	memcpy(p->move->chunks, p->set->chunks, p->set->map.count * sizeof(*p->move->chunks));
	p->move->count = p->set->map.count;
	p->move->step_count = 0;
	g4_table_join(p->move->chunks, &p->move->count);
	memset(p->lost, 0, (p->in_use->regions / 64 + 1) * sizeof(*p->lost));
	p->full = false;
	return part_idle(p) ? move_all(p) : -G4_E_NOSPC;
}

/* Pages that the file system had for all, and loses. */
static uint64_t lost_pages(const struct planning *p)
{
	uint64_t pages = 0;

	for (uint64_t r = 0; r < p->in_use->regions; r++)
		if ((p->lost[r / 64] >> r % 64 & 1) &&
		    g4_chunk_find(&p->set->map, r * G4_TABLE_REGION)->level == G4_LEVEL_OWN)
			pages += G4_REGION_PAGES;
	return pages;
}

/* Whether there is something of each level that there was: files that ask for one would have no place. */
static bool has_levels(const struct g4_set *set, const struct g4_set_move *move)
{
	bool all = true;

	for (uint32_t n = 0; n < set->map.count && all; n++) {
		const struct g4_chunk *chunk = &set->chunks[n];
		bool found = g4_chunk_is_gone(chunk);
		for (uint32_t k = 0; k < move->count && !found; k++)
			found = !g4_chunk_is_gone(&move->chunks[k]) && move->chunks[k].level == chunk->level;
		all = found;
	}
	return all;
}

static int explain(const struct planning *p, int rc, struct g4_dev_message message)
{
	const char *name = p->set->disks[p->disk].name;

	if (rc == -G4_E_INVAL)
		return g4_dev_fail(
			message, rc,
			"%s: a part of the file system lies on all of its disks, and would bear fewer losses without "
			"this one: add another disk, or replace it",
			name);
	if (rc == -G4_E_NOSPC && p->full)
		return g4_dev_fail(message, rc, "%s: it would take more than %u chunks to move what lies on it", name,
				   G4_CHUNKS_MAX);
	if (rc == -G4_E_NOSPC)
		return g4_dev_fail(
			message, rc,
			"%s: the other disks have no room for what lies on it: delete something, or add a disk", name);
	return g4_dev_fail(message, rc, "%s: %s", name, g4_strerror(rc));
}

int g4_set_move_plan(struct g4_set *set, uint32_t disk, const struct g4_set_in_use *in_use, struct g4_set_move *move,
		     struct g4_dev_message message)
{
	struct planning p = {.set = set, .in_use = in_use, .move = move, .disk = disk, .unit = G4_TABLE_REGION};
	int rc = -G4_E_NOMEM;

	memset(move, 0, sizeof(*move));
	move->chunks = calloc(G4_CHUNKS_MAX, sizeof(*move->chunks));
	p.spans = calloc(G4_CHUNKS_MAX * (size_t)G4_CHUNK_PLACES + 1, sizeof(*p.spans));
	p.lost = calloc(in_use->regions / 64 + 1, sizeof(*p.lost));
	if (move->chunks && p.spans && p.lost)
		do {
			rc = try_plan(&p);
			p.unit *= 2;
		} while (rc == -G4_E_NOSPC && p.full && p.unit <= G4_TABLE_UNIT_MOST);
	if (rc == 0 && (lost_pages(&p) > in_use->spare_pages || !has_levels(set, move)))
		rc = -G4_E_NOSPC;
	free(p.spans);
	free(p.lost);
	if (rc == 0)
		g4_table_join(move->chunks, &move->count);
	if (rc == 0) /* an order that can not be right is not carried out */
		rc = g4_chunk_validate(move->chunks, move->count, set->super->disk_bytes, set->count);
	return rc < 0 ? explain(&p, rc, message) : 0;
}

void g4_set_move_end(struct g4_set_move *move)
{
	free(move->chunks);
	free(move->steps);
	memset(move, 0, sizeof(*move));
}

/* ---- copying ---- */

/* What a place has, where its own disk can not be read: another copy, or what the rows make of it. */
static int read_otherwise(struct g4_wg *wg, struct g4_set *set, const struct g4_set_step *step, uint64_t within,
			  uint64_t bytes, uint8_t *to)
{
	const struct g4_chunk *chunk = step->chunk;
	int rc = -G4_E_IO;

	if (chunk->parity) {
		const uint64_t stripe = chunk->stripe_bytes;
		rc = 0;
		for (uint64_t at = 0; at < bytes && rc == 0; at += stripe)
			rc = g4_set_parity_lost(wg, set, chunk, (within + at) / stripe, step->number, to + at);
		return rc;
	}
	for (uint32_t c = 0; c < chunk->copies && chunk->columns == 1 && rc < 0; c++)
		if (c != step->number)
			rc = g4_dev_read(wg, set->disks[g4_place_disk(chunk->places[c])].dev,
					 g4_place_address(chunk->places[c]) + within, to, bytes);
	return rc;
}

int g4_set_move_read(struct g4_wg *wg, struct g4_set *set, const struct g4_set_step *step, uint64_t within,
		     uint64_t bytes, uint8_t *to)
{
	const uint64_t place = step->chunk->places[step->number];
	struct g4_dev *dev = set->disks[g4_place_disk(place)].dev;
	int rc = g4_dev_read(wg, dev, g4_place_address(place) + within, to, bytes);

	if (rc < 0)
		rc = read_otherwise(wg, set, step, within, bytes, to);
	for (uint64_t at = 0; rc < 0 && !step->chunk->parity && at < bytes; at += G4_PAGE_BYTES) {
		int one = g4_dev_read(wg, dev, g4_place_address(place) + within + at, to + at, G4_PAGE_BYTES);
		if (one < 0)
			one = read_otherwise(wg, set, step, within + at, G4_PAGE_BYTES, to + at);
		if (one < 0)
			return one;
		if (at + G4_PAGE_BYTES == bytes)
			rc = 0;
	}
	return rc;
}

static int copy_step(struct g4_wg *wg, struct g4_set *set, const struct g4_set_step *step, uint8_t *buffer,
		     struct g4_progress *progress, uint64_t *done, uint64_t all, struct g4_dev_message message)
{
	struct g4_set_member *target = &set->disks[g4_place_disk(step->to)];
	int rc = 0;

	for (uint64_t at = 0; at < step->bytes && rc == 0; at += COPY_BYTES) {
		rc = g4_set_move_read(wg, set, step, step->within + at, COPY_BYTES, buffer);
		if (rc < 0)
			return g4_dev_fail(message, rc, "%s: can not be read, and nothing else has what lies there: %s",
					   set->disks[g4_place_disk(step->chunk->places[step->number])].name,
					   g4_strerror(rc));
		rc = g4_dev_write(wg, target->dev, g4_place_address(step->to) + at, buffer, COPY_BYTES, 0);
		if (rc < 0)
			return g4_dev_fail(message, rc, "%s: can not be written: %s", target->name, g4_strerror(rc));
		*done += COPY_BYTES;
		if (progress)
			g4_progress_step(progress, *done, all);
	}
	return rc;
}

int g4_set_move_copy(struct g4_wg *wg, struct g4_set *set, const struct g4_set_move *move, struct g4_progress *progress,
		     struct g4_dev_message message)
{
	uint64_t done = 0, all = 0;
	uint8_t *buffer = NULL;
	int rc = posix_memalign((void **)&buffer, G4_PAGE_BYTES, COPY_BYTES) == 0 ? 0 : -G4_E_NOMEM;

	if (rc < 0)
		return g4_dev_fail(message, rc, "out of memory");
	for (uint32_t s = 0; s < move->step_count; s++)
		all += move->steps[s].bytes;
	for (uint32_t s = 0; s < move->step_count && rc == 0; s++)
		rc = copy_step(wg, set, &move->steps[s], buffer, progress, &done, all, message);
	free(buffer);
	for (uint32_t d = 0; d < set->count && rc == 0; d++) {
		rc = g4_dev_flush(wg, set->disks[d].dev);
		if (rc < 0)
			g4_dev_fail(message, rc, "%s: can not be flushed: %s", set->disks[d].name, g4_strerror(rc));
	}
	return rc;
}
