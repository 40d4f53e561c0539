/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks that are cut, joined and given up while a table is planned, and gaps between places. Disks of many TB have millions of
 * regions: what is in use is looked at in words of 64 of them.
 */
#define _GNU_SOURCE 1

#include "space/set_table_host.h"

#include <stdlib.h>

/* Regions that a part of a chunk lies in: up to which one, where it ends at `to` in the address space. */
static uint64_t region_end(uint64_t to)
{
	return (to + G4_TABLE_REGION - 1) / G4_TABLE_REGION;
}

/* ---- chunks ---- */

uint32_t g4_table_place_on(const struct g4_chunk *chunk, uint32_t disk)
{
	for (uint32_t p = 0; p < g4_table_places(chunk); p++)
		if (g4_place_disk(chunk->places[p]) == disk)
			return p;
	return G4_CHUNK_PLACES;
}

uint32_t g4_table_number_of(const struct g4_chunk *chunk, uint64_t within, uint64_t place)
{
	uint32_t number = 0;

	while (number < g4_table_places(chunk) && chunk->places[number] + within != place)
		number++;
	return number < g4_table_places(chunk) ? number : G4_CHUNK_PLACES;
}

/*
 * Column c of stripe s of rows lies in place (c + s) mod n (g4_chunk_place()): of a chunk that begins with stripe `within / stripe_bytes` of
 * another one that is the same disk if its places are turned by as many.
 */
static uint32_t turn_of(const struct g4_chunk *chunk, uint64_t within)
{
	return chunk->parity ? (uint32_t)(within / chunk->stripe_bytes % chunk->columns) : 0;
}

bool g4_table_cut(struct g4_chunk *chunks, uint32_t *count, uint32_t n, uint64_t within)
{
	struct g4_chunk *chunk = &chunks[n];

	if (within == 0 || within >= chunk->place_bytes)
		return true;
	if (*count == G4_CHUNKS_MAX)
		return false;
	memmove(chunk + 1, chunk, (*count - n) * sizeof(*chunk));
	++*count;
	chunk[0].place_bytes = within;
	chunk[0].bytes = within * g4_chunk_data_columns(chunk);
	chunk[1].address = chunk->address + chunk->bytes;
	chunk[1].place_bytes -= within;
	chunk[1].bytes -= chunk->bytes;
	for (uint32_t k = 0; k < g4_table_places(chunk); k++)
		chunk[1].places[k] = chunk->places[(k + turn_of(chunk, within)) % g4_table_places(chunk)] + within;
	return true;
}

/* Gone rows come back as wide as they were (set_fill_host.c): whole regions of one width can be joined. What else is gone has no shape. */
static bool are_as_wide(const struct g4_chunk *chunk, const struct g4_chunk *next)
{
	if (chunk->place_bytes == 0 || next->place_bytes == 0)
		return chunk->place_bytes == next->place_bytes;
	return chunk->bytes % chunk->place_bytes == 0 && next->bytes % next->place_bytes == 0 &&
	       chunk->bytes / chunk->place_bytes == next->bytes / next->place_bytes;
}

/*
 * Stripes as well: a MiB of each place is whole stripes, so the first column of `next` begins where it would. Of rows that one may be turned, and
 * none may begin in the middle of a region.
 */
static bool goes_on(const struct g4_chunk *chunk, const struct g4_chunk *next)
{
	bool same = chunk->columns == next->columns && chunk->copies == next->copies && chunk->level == next->level &&
		    chunk->stripe_bytes == next->stripe_bytes && chunk->parity == next->parity &&
		    chunk->place_bytes % g4_table_unit(chunk) == 0 &&
		    (!g4_chunk_is_gone(chunk) || are_as_wide(chunk, next));

	for (uint32_t k = 0; same && k < g4_table_places(chunk); k++)
		same = next->places[k] ==
		       chunk->places[(k + turn_of(chunk, chunk->place_bytes)) % g4_table_places(chunk)] +
			       chunk->place_bytes;
	return same;
}

static void join(struct g4_chunk *chunks, uint32_t *count, bool rows)
{
	uint32_t last = 0;

	for (uint32_t n = 1; n < *count; n++)
		if ((rows || !chunks[n].parity) && goes_on(&chunks[last], &chunks[n])) {
			chunks[last].bytes += chunks[n].bytes;
			chunks[last].place_bytes += chunks[n].place_bytes;
		} else if (++last != n) {
			chunks[last] = chunks[n];
		}
	*count = last + 1;
}

void g4_table_join(struct g4_chunk *chunks, uint32_t *count)
{
	join(chunks, count, false);
}

void g4_table_join_all(struct g4_chunk *chunks, uint32_t *count)
{
	join(chunks, count, true);
}

void g4_table_give_up(struct g4_chunk *chunk)
{
	const uint64_t address = chunk->address, bytes = chunk->bytes;
	const uint64_t kept = chunk->parity ? g4_align_up(chunk->place_bytes, G4_PARITY_REGION_BYTES) : 0;

	memset(chunk, 0, sizeof(*chunk));
	chunk->address = address;
	chunk->bytes = bytes;
	chunk->place_bytes = kept;
}

uint64_t g4_table_lost(const struct g4_chunk *chunks, uint32_t count)
{
	uint64_t lost = 0, next = 0; /* the first region that was not counted */

	for (uint32_t n = 0; n < count; n++) {
		const uint64_t first = chunks[n].address / G4_TABLE_REGION;
		const uint64_t end = region_end(chunks[n].address + chunks[n].bytes);
		if (!g4_chunk_is_gone(&chunks[n]))
			continue;
		lost += end - g4_min64(end, g4_max64(first, next));
		next = g4_max64(next, end);
	}
	return lost;
}

/* ---- what is in use ---- */

/* The last region of [from, to) that is in use or no part of `all`, or the last one that is not (busy false); `to`: there is none. */
static uint64_t last_region(const struct g4_set_in_use *in_use, const uint64_t *all, bool busy, uint64_t from,
			    uint64_t to)
{
	uint64_t end = g4_min64(to, in_use->regions);

	if (!busy && end < to)
		return to - 1;
	while (end > from) {
		const uint64_t word = (end - 1) / 64, first = g4_max64(from, word * 64), bits = end - first;
		const uint64_t used = in_use->used[word] | (all ? ~all[word] : 0), looked_for = busy ? used : ~used;
		const uint64_t found = looked_for >> first % 64 & (bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1);
		if (found)
			return first + 63 - (uint64_t)__builtin_clzll(found);
		end = first;
	}
	return to;
}

bool g4_table_is_idle(const struct g4_set_in_use *in_use, const uint64_t *all, const struct g4_chunk *chunk,
		      uint64_t within, uint64_t bytes)
{
	const uint64_t from = chunk->address + within * chunk->columns, to = from + bytes * chunk->columns;
	const uint64_t end = region_end(to);

	return !g4_chunk_is_gone(chunk) && last_region(in_use, all, true, from / G4_TABLE_REGION, end) == end;
}

uint64_t g4_table_longest_idle(const struct g4_set_in_use *in_use, const uint64_t *all, const struct g4_chunk *chunk,
			       uint64_t unit, uint64_t wanted, uint64_t *within)
{
	const uint64_t columns = chunk->columns, address = chunk->address;
	uint64_t best = 0, at = g4_chunk_is_gone(chunk) ? 0 : chunk->place_bytes;

	while (at > 0 && best < wanted) { /* what lies before is looked at next */
		/* units that end in what is busy */
		uint64_t end = region_end(address + at * columns);
		const uint64_t idle = last_region(in_use, all, false, address / G4_TABLE_REGION, end);
		if (idle == end)
			break;
		const uint64_t idle_to = (idle + 1) * G4_TABLE_REGION - address;
		at = g4_min64(at, g4_align_up((idle_to + columns - 1) / columns, unit));
		/* and what is idle before, no more than is wanted */
		const uint64_t least = at > wanted ? g4_align_down(at - wanted, unit) : 0, to = address + at * columns;
		end = region_end(to);
		const uint64_t busy =
			last_region(in_use, all, true, (address + least * columns) / G4_TABLE_REGION, end);
		const uint64_t busy_to = g4_min64((busy + 1) * G4_TABLE_REGION, to) - address;
		const uint64_t from =
			busy == end ? least : g4_max64(least, g4_align_up((busy_to + columns - 1) / columns, unit));
		if (from < at && at - from > best) {
			best = at - from;
			*within = from;
		}
		if (busy == end)
			at = least;
		else
			at = g4_align_down((g4_max64(busy * G4_TABLE_REGION, address) - address) / columns, unit);
	}
	return best;
}

/* ---- gaps ---- */

static int by_address(const void *a, const void *b)
{
	const struct g4_set_span *x = (const struct g4_set_span *)a, *y = (const struct g4_set_span *)b;

	return x->from < y->from ? -1 : x->from > y->from;
}

void g4_table_find_gap(const struct g4_set_move *move, const struct g4_superblock *super, uint32_t disk,
		       struct g4_set_span *spans, size_t taken, uint64_t wanted, struct g4_set_gap *best)
{
	const uint64_t end = G4_CHUNK_UNIT + g4_chunk_usable(super->disk_bytes[disk]);
	uint64_t at = G4_CHUNK_UNIT + super->parity_log_bytes;
	size_t count = taken;

	for (uint32_t n = 0; n < move->count; n++)
		for (uint32_t k = 0; k < g4_table_places(&move->chunks[n]); k++) {
			const uint64_t place = move->chunks[n].places[k], from = g4_place_address(place);
			if (g4_place_disk(place) == disk)
				spans[count++] = (struct g4_set_span){from, from + move->chunks[n].place_bytes};
		}
	spans[count++] = (struct g4_set_span){end, end};
	qsort(spans, count, sizeof(*spans), by_address);
	for (size_t s = 0; s < count; s++) {
		const uint64_t bytes = spans[s].from > at ? spans[s].from - at : 0;
		const bool better =
			best->bytes >= wanted ? bytes >= wanted && bytes < best->bytes : bytes > best->bytes;
		if (better)
			*best = (struct g4_set_gap){disk, at, bytes};
		at = g4_max64(at, spans[s].to);
	}
}
