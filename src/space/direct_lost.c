/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a disk that is rebuilt lacks, made by lanes that reach all disks (docs/design/redundancy.md, Mapped disks): copied from another one that has it, or made
 * of the other columns of its rows. Who makes a piece of it is counted in the gate, as who has a request is (direct.c), so that no disk goes meanwhile. Between
 * two pieces the table may become another one: what nobody has written to is the same by each.
 */
#include "space/direct.h"

#define COPY_PART_BYTES (64 * G4_KIB) /* that many want at a time */

G4_FN static uint8_t *target_of(const struct g4_direct_table *table, const struct g4_chunk *chunk,
				const struct g4_direct_lost *lost)
{
	const uint64_t place = chunk->places[lost->place], at = g4_place_address(place) + lost->within;

	if (g4_place_disk(place) != table->target || table->disks[table->target] == 0 ||
	    at > table->disk_bytes[table->target] || lost->bytes > table->disk_bytes[table->target] - at)
		return NULL;
	return (uint8_t *)(uintptr_t)table->disks[table->target] + at;
}

/* Counted. */
G4_FN static bool can_make(const struct g4_direct_table *table, const struct g4_direct_lost *lost)
{
	uint32_t places, missing = 0;

	if (lost->chunk >= table->chunk_count || table->target >= table->disk_count || table->read_only)
		return false;
	const struct g4_chunk *chunk = &table->chunks[lost->chunk];
	places = (uint32_t)chunk->columns * chunk->copies;
	if (lost->place >= places || lost->within > chunk->place_bytes ||
	    lost->bytes > chunk->place_bytes - lost->within || !target_of(table, chunk, lost))
		return false;
	for (uint32_t p = 0; p < places; p++)
		missing += g4_direct_source(table, chunk->places[p], lost->within, lost->bytes) == NULL;
	if (!chunk->parity)
		return chunk->columns == 1 && missing < places;
	return missing <= chunk->parity && (lost->within | lost->bytes) % chunk->stripe_bytes == 0;
}

G4_FN static bool enter(struct g4_wg *wg, struct g4_direct *direct, const struct g4_direct_lost *lost,
			uint32_t *counter)
{
	*counter = g4_wg_index(wg) % G4_DIRECT_COUNTERS;
	if (!g4_direct_makes(direct) || !g4_direct_enter(direct, *counter, &direct->makes))
		return false;
	if (can_make(&direct->table, lost))
		return true;
	g4_direct_leave(direct, *counter);
	return false;
}

G4_FN bool g4_direct_begin_lost(struct g4_wg *wg, struct g4_direct *direct, struct g4_direct_lost *lost)
{
	uint32_t counter;

	if (!enter(wg, direct, lost, &counter))
		return false;
	const struct g4_chunk *chunk = &direct->table.chunks[lost->chunk];
	lost->part_bytes = chunk->parity ? g4_max64(COPY_PART_BYTES, chunk->stripe_bytes) : COPY_PART_BYTES;
	g4_direct_leave(direct, counter);
	return true;
}

/* ---- copies ---- */

/* Of neighbouring MiB from different ones. */
G4_FN static void copy(struct g4_wg *wg, const struct g4_direct_table *table, const struct g4_chunk *chunk,
		       uint64_t within, uint8_t *to, uint64_t bytes)
{
	const uint8_t *from = NULL;
	uint32_t place = g4_chunk_turn(chunk->address + within, chunk->copies);

	while (!(from = g4_direct_source(table, chunk->places[place], within, bytes)))
		place = (place + 1) % chunk->copies;
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_direct_remake *r = (struct g4_direct_remake *)g4_scratch_take(wg, sizeof(*r));
	r->from[0] = from;
	r->to[0] = to;
	r->bytes = bytes;
	r->data = 0;
	g4_region(wg, G4_REGION_REMAKE, g4_direct_remake_region, r);
	g4_scratch_release(wg, mark);
}

/* ---- rows ---- */

G4_FN static void remake(struct g4_wg *wg, const struct g4_direct_table *table, const struct g4_chunk *chunk,
			 uint32_t place, uint64_t within, uint8_t *to, uint64_t bytes)
{
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_direct_remake *r = g4_direct_take_remake(wg, chunk, UINT64_MAX);

	for (uint64_t done = 0; done < bytes; done += chunk->stripe_bytes) {
		const uint64_t stripe = (within + done) / chunk->stripe_bytes;
		/* few enough are lost: can_make() */
		(void)g4_direct_choose(table, chunk, stripe, 0, chunk->stripe_bytes, r);
		r->to[(place + chunk->columns - stripe % chunk->columns) % chunk->columns] = to + done;
		g4_region(wg, G4_REGION_REMAKE, g4_direct_remake_region, r);
	}
	g4_scratch_release(wg, mark);
}

G4_FN bool g4_direct_make(struct g4_wg *wg, struct g4_direct *direct, const struct g4_direct_lost *lost, uint64_t at,
			  uint64_t bytes)
{
	uint32_t counter;

	if (!enter(wg, direct, lost, &counter))
		return false;
	const struct g4_direct_table *table = &direct->table;
	const struct g4_chunk *chunk = &table->chunks[lost->chunk];
	uint8_t *to = target_of(table, chunk, lost) + at;
	if (chunk->parity)
		remake(wg, table, chunk, lost->place, lost->within + at, to, bytes);
	else
		copy(wg, table, chunk, lost->within + at, to, bytes);
	g4_add64(&direct->made_bytes, bytes);
	g4_direct_leave(direct, counter);
	return true;
}
