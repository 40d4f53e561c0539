/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lies on a set is spread over all of its disks, while nobody uses it: after disks were added or removed, for files stay where they
 * are then. No address changes, as in set_move_host.c:
 *
 *   1. Chunks of the own level are cut into parts that are in use and parts that are not; the latter have no places for now.
 *   2. Places of the former are moved from disks that are fuller than all are together to those that are less so.
 *   3. The addresses that have no places get chunks again of what room there is then, striped over as many disks or in as many
 *      copies as mkfs would make; also those that a removal took.
 *
 *   before   | a: disk 0 1      | b: 0 1 | c: 0 1                |      disk 2 was added
 *   in use    ##################  ########
 *   after    | a: disk 0 1      | b: 0 2 | c: 1 2 | 0 2 | 1 2    |
 *
 * Chunks of other levels and rows with parity stay where they are; a set whose own level is rows is refused: those move by the steps of a mount
 * (fs/resize_host.c).
 *
 * Crashes: what is copied goes where neither the old table nor the new one has anything else that is in use, so the set is what it was until
 * the table is switched (g4_set_switch_table()). New chunks may lie where the old table has what was moved: nothing is copied to them.
 */
#define _GNU_SOURCE 1

#include <stdlib.h>

#include "base/units_host.h"
#include "simt/simt_host.h"
#include "space/set_rows_host.h"
#include "space/set_table_host.h"

struct balancing {
	struct g4_set *set;
	const struct g4_set_in_use *in_use;
	struct g4_set_move *move;
	struct g4_set_span *spans;  /* memory for those of a disk */
	uint64_t unit;		    /* of places: they are cut at multiples */
	int64_t over[G4_MAX_DISKS]; /* bytes that each disk has more than its share */
	bool is_full[G4_MAX_DISKS]; /* nothing can be copied there any more */
};

static bool may_change(const struct g4_chunk *chunk)
{
	return chunk->level == G4_LEVEL_OWN && !chunk->parity && !g4_chunk_is_gone(chunk);
}

/* Step 1. False: there are too many chunks. */
static bool give_up_idle(const struct balancing *b)
{
	struct g4_set_move *move = b->move;

	for (uint32_t n = 0; n < move->count; n++) {
		struct g4_chunk *chunk = &move->chunks[n];
		if (!may_change(chunk))
			continue;
		const uint64_t first = g4_min64(b->unit, chunk->place_bytes);
		const bool idle = g4_table_is_idle(b->in_use, NULL, chunk, 0, first);
		uint64_t to = b->unit;
		while (to < chunk->place_bytes &&
		       g4_table_is_idle(b->in_use, NULL, chunk, to, g4_min64(b->unit, chunk->place_bytes - to)) == idle)
			to += b->unit;
		if (!g4_table_cut(move->chunks, &move->count, n, to))
			return false;
		if (idle)
			g4_table_give_up(chunk);
	}
	g4_table_join(move->chunks, &move->count);
	return true;
}

/* How full all disks are together, each has as much as that of what chunks may have of it. */
static void find_shares(struct balancing *b)
{
	const struct g4_superblock *super = b->set->super;
	uint64_t used[G4_MAX_DISKS] = {0};
	double all = 0, room = 0;

	for (uint32_t n = 0; n < b->move->count; n++)
		for (uint32_t k = 0; k < g4_table_places(&b->move->chunks[n]); k++) {
			used[g4_place_disk(b->move->chunks[n].places[k])] += b->move->chunks[n].place_bytes;
			all += (double)b->move->chunks[n].place_bytes;
		}
	for (uint32_t d = 0; d < b->set->count; d++)
		room += (double)(g4_chunk_usable(super->disk_bytes[d]) - super->parity_log_bytes);
	for (uint32_t d = 0; d < b->set->count; d++) {
		const double own = (double)(g4_chunk_usable(super->disk_bytes[d]) - super->parity_log_bytes);
		b->over[d] = (int64_t)used[d] - (int64_t)(all / room * own);
		b->is_full[d] = false;
	}
}

/* How much of a place on `from` could be on `to` instead. */
static uint64_t would_move(const struct balancing *b, uint32_t from, uint32_t to, uint64_t bytes)
{
	if (b->over[from] <= 0)
		return 0;
	const uint64_t most = g4_min64((uint64_t)b->over[from], (uint64_t)-b->over[to]);
	return g4_align_down(g4_min64(bytes, most), b->unit);
}

/* The disk that has least of its share, and no place of the chunk, which columns need for their speed; G4_MAX_DISKS: there is none. */
static uint32_t find_target(const struct balancing *b, const struct g4_chunk *chunk)
{
	uint32_t found = G4_MAX_DISKS;
	uint64_t taken = 0;

	for (uint32_t k = 0; k < g4_table_places(chunk); k++)
		taken |= UINT64_C(1) << g4_place_disk(chunk->places[k]);
	for (uint32_t d = 0; d < b->set->count; d++)
		if (b->over[d] < 0 && !b->is_full[d] && !(taken >> d & 1) &&
		    (found == G4_MAX_DISKS || b->over[d] < b->over[found]))
			found = d;
	return found;
}

/* The place of which most would be moved, and where to. */
static uint64_t choose(const struct balancing *b, uint32_t *n, uint32_t *number, uint32_t *to)
{
	uint64_t best = 0;

	for (uint32_t m = 0; m < b->move->count; m++) {
		const struct g4_chunk *chunk = &b->move->chunks[m];
		const uint32_t target = may_change(chunk) ? find_target(b, chunk) : G4_MAX_DISKS;
		for (uint32_t k = 0; target != G4_MAX_DISKS && k < g4_table_places(chunk); k++) {
			const uint64_t bytes =
				would_move(b, g4_place_disk(chunk->places[k]), target, chunk->place_bytes);
			if (bytes > best) {
				best = bytes;
				*n = m;
				*number = k;
				*to = target;
			}
		}
	}
	return best;
}

/* What is moved away from a disk is there until the switch. */
static size_t add_sources(const struct balancing *b, uint32_t disk)
{
	size_t count = 0;

	for (uint32_t s = 0; s < b->move->step_count; s++) {
		const struct g4_set_step *step = &b->move->steps[s];
		const uint64_t place = step->chunk->places[step->number], from = g4_place_address(place) + step->within;
		if (g4_place_disk(place) == disk)
			b->spans[count++] = (struct g4_set_span){from, from + step->bytes};
	}
	return count;
}

/* Step 2. */
static int spread(struct balancing *b)
{
	struct g4_set_move *move = b->move;
	uint32_t n = 0, number = 0, to = 0;
	uint64_t bytes;

	while ((bytes = choose(b, &n, &number, &to)) != 0) {
		struct g4_set_gap gap = {.bytes = 0};
		g4_table_find_gap(move, b->set->super, to, b->spans, add_sources(b, to), bytes, &gap);
		bytes = g4_min64(bytes, g4_align_down(gap.bytes, b->unit));
		if (bytes == 0) {
			b->is_full[to] = true;
			continue;
		}
		if (!g4_table_cut(move->chunks, &move->count, n, bytes))
			return -G4_E_NOSPC;
		b->over[g4_place_disk(move->chunks[n].places[number])] -= (int64_t)bytes;
		b->over[to] += (int64_t)bytes;
		if (!g4_set_move_add(b->set, move, &move->chunks[n], number, gap.from | gap.disk))
			return -G4_E_NOMEM;
	}
	return 0;
}

/* With places cut at multiples of the unit. -G4_E_NOSPC: there are too many chunks, or no room for all that there was. */
static int try_plan(struct balancing *b)
{
	struct g4_set *set = b->set;
	struct g4_chunk_wish wish;

	memcpy(b->move->chunks, set->chunks, set->map.count * sizeof(*b->move->chunks));
	b->move->count = set->map.count;
	b->move->step_count = 0;
	g4_table_join(b->move->chunks, &b->move->count);
	if (!give_up_idle(b))
		return -G4_E_NOSPC;
	find_shares(b);
	const int rc = spread(b);
	if (rc < 0)
		return rc;
	g4_chunk_wish_like(&set->map, set->super->parity_log_bytes, &wish);
	b->move->count = g4_chunk_fill(&wish, set->super->disk_bytes, set->count, b->move->chunks, b->move->count);
	g4_table_join(b->move->chunks, &b->move->count);
	return g4_table_lost(b->move->chunks, b->move->count) > g4_table_lost(set->chunks, set->map.count) ?
		       -G4_E_NOSPC :
		       0;
}

/* Whether the table is what the set has, but for neighbours that are one: that is no reason to write it. *same. */
static int compare(const struct g4_set *set, const struct g4_set_move *move, bool *same)
{
	uint32_t count = set->map.count;
	struct g4_chunk *joined = calloc(G4_CHUNKS_MAX, sizeof(*joined));

	if (!joined)
		return -G4_E_NOMEM;
	memcpy(joined, set->chunks, count * sizeof(*joined));
	g4_table_join(joined, &count);
	*same = move->step_count == 0 && move->count == count &&
		memcmp(move->chunks, joined, count * sizeof(*joined)) == 0;
	free(joined);
	return 0;
}

static int plan(struct g4_set *set, const struct g4_set_in_use *in_use, struct g4_set_move *move,
		struct g4_dev_message message)
{
	struct balancing b = {.set = set, .in_use = in_use, .move = move, .unit = G4_TABLE_REGION};
	int rc = -G4_E_NOMEM;

	memset(move, 0, sizeof(*move));
	move->chunks = calloc(G4_CHUNKS_MAX, sizeof(*move->chunks));
	/* what is moved away from a disk is a part of places that it has in the set's table */
	b.spans = calloc(2 * G4_CHUNKS_MAX * (size_t)G4_CHUNK_PLACES + 1, sizeof(*b.spans));
	if (move->chunks && b.spans)
		do {
			rc = try_plan(&b);
			b.unit *= 2;
		} while (rc == -G4_E_NOSPC && b.unit <= G4_TABLE_UNIT_MOST);
	free(b.spans);
	if (rc == 0) /* an order that can not be right is not carried out */
		rc = g4_chunk_validate(move->chunks, move->count, set->super->disk_bytes, set->count);
	if (rc == -G4_E_NOSPC)
		return g4_dev_fail(
			message, rc,
			"what lies on the disks can not be spread over them with %u chunks and without less room for the rest",
			G4_CHUNKS_MAX);
	return rc < 0 ? g4_dev_fail(message, rc, "what lies on the disks can not be spread over them: %s",
				    g4_strerror(rc)) :
			0;
}

/* Orders held. */
static int balance(struct g4_wg *wg, struct g4_set *set, const struct g4_set_in_use *in_use,
		   struct g4_progress *progress, uint64_t *moved, struct g4_dev_message message)
{
	struct g4_set_move move;
	bool same = false;
	int rc = set->parity ? g4_set_parity_flush(wg, set) : 0;

	if (rc < 0)
		return g4_dev_fail(message, rc, "what lies in rows can not be written: %s", g4_strerror(rc));
	rc = plan(set, in_use, &move, message);
	if (rc == 0) {
		rc = compare(set, &move, &same);
		if (rc < 0)
			g4_dev_fail(message, rc, "out of memory");
	}
	if (rc == 0 && !same)
		rc = g4_set_move_copy(wg, set, &move, progress, message);
	if (rc == 0 && !same) {
		const struct g4_set_growth growth = {
			.chunks = move.chunks, .chunk_count = move.count, .disk_count = set->count, .moves = true};
		rc = g4_set_change_over(wg, set, &growth);
		if (rc < 0)
			g4_dev_fail(message, rc, "the new table of chunks can not be written: %s", g4_strerror(rc));
	}
	for (uint32_t s = 0; rc == 0 && s < move.step_count; s++)
		*moved += move.steps[s].bytes;
	g4_set_move_end(&move);
	return rc;
}

int g4_set_balance(struct g4_dev *dev, const struct g4_set_in_use *in_use, struct g4_progress *progress,
		   uint64_t *moved, char *message, size_t message_bytes)
{
	const struct g4_dev_message sentence = {.text = message, .bytes = message_bytes};
	struct g4_set *set = (struct g4_set *)dev->host;

	*moved = 0;
	if (!g4_set_is(dev))
		return g4_dev_fail(sentence, -G4_E_SB_DISKS, "the file system was made for one disk");
	struct g4_wg *wg = g4_wg_create(0);
	if (!wg)
		return g4_dev_fail(sentence, -G4_E_NOMEM, "out of memory");
	pthread_mutex_lock(&set->orders);
	int rc = g4_set_check_whole(set, sentence);
	if (rc == 0 && g4_set_own_level(&set->map) >= G4_LEVEL_PARITY)
		rc = g4_dev_fail(sentence, -G4_E_NOTSUP,
				 "%s: rows with parity stay on the disks that they were made for", set->disks[0].name);
	if (rc == 0)
		rc = balance(wg, set, in_use, progress, moved, sentence);
	pthread_mutex_unlock(&set->orders);
	g4_wg_destroy(wg);
	return rc;
}
