/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a disk that is rebuilt lacks, made by lanes that reach all disks (docs/design/redundancy.md, Mapped disks): copied from another one that has it, or made
 * of the other columns of its rows. Who makes it is counted in the gate, as who has a request is (direct.c), so that no disk goes meanwhile.
 */
#include "space/direct.h"

#include "parity/parity.h"

#define BLOCKS_BYTES (16 * G4_KIB)    /* of all columns on their way */
#define COPY_PART_BYTES (64 * G4_KIB) /* that many want at a time */

/* Where this part of a place is, where it can be read; NULL: its disk is missing, is the one that is made, or ends before. */
G4_FN static uint8_t *source_of(const struct g4_direct_table *table, uint64_t place, uint64_t within, uint64_t bytes)
{
	const uint32_t disk = g4_place_disk(place);
	const uint64_t at = g4_place_address(place) + within;

	if (disk >= table->disk_count || disk == table->target || table->disks[disk] == 0 ||
	    at > table->disk_bytes[disk] || bytes > table->disk_bytes[disk] - at)
		return NULL;
	return (uint8_t *)(uintptr_t)table->disks[disk] + at;
}

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
G4_FN static bool can_make(const struct g4_direct_table *table, struct g4_direct_lost *lost)
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
		missing += source_of(table, chunk->places[p], lost->within, lost->bytes) == NULL;
	if (!chunk->parity) {
		lost->part_bytes = COPY_PART_BYTES;
		return chunk->columns == 1 && missing < places;
	}
	lost->part_bytes = g4_max64(COPY_PART_BYTES, chunk->stripe_bytes);
	return missing <= chunk->parity && (lost->within | lost->bytes) % chunk->stripe_bytes == 0;
}

G4_FN bool g4_direct_begin_lost(struct g4_wg *wg, struct g4_direct *direct, struct g4_direct_lost *lost)
{
	lost->counter = g4_wg_index(wg) % G4_DIRECT_COUNTERS;
	if (!g4_direct_makes(direct) || !g4_direct_enter(direct, lost->counter, &direct->makes))
		return false;
	if (can_make(&direct->table, lost))
		return true;
	g4_direct_leave(direct, lost->counter);
	return false;
}

G4_FN void g4_direct_end_lost(struct g4_direct *direct, const struct g4_direct_lost *lost)
{
	g4_add64(&direct->made_bytes, lost->bytes);
	g4_direct_leave(direct, lost->counter);
}

/* ---- copies ---- */

/* Of neighbouring MiB from different ones. */
G4_FN static void copy(struct g4_wg *wg, const struct g4_direct_table *table, const struct g4_chunk *chunk,
		       uint64_t within, uint8_t *to, uint64_t bytes)
{
	const uint8_t *from = NULL;
	uint32_t place = g4_chunk_turn(chunk->address + within, chunk->copies);

	while (!(from = source_of(table, chunk->places[place], within, bytes)))
		place = (place + 1) % chunk->copies;
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_direct_remake *r = (struct g4_direct_remake *)g4_scratch_take(wg, sizeof(*r));
	r->from[0] = from;
	r->to = to;
	r->bytes = bytes;
	r->data = 0;
	g4_region(wg, G4_REGION_REMAKE, g4_direct_remake_region, r);
	g4_scratch_release(wg, mark);
}

/* ---- rows ---- */

/* Columns go by way of memory that is near, many bytes of each under way at a time; what is made of them goes to its place at once. */
G4_REGION_BODY void g4_direct_remake_region(struct g4_wg *wg, void *args)
{
	struct g4_direct_remake *r = (struct g4_direct_remake *)args;

	g4_converge(wg);
	if (r->data == 0) {
		g4_copy_in_region(wg, r->to, r->from[0], r->bytes);
		g4_sync(wg);
		return;
	}
	for (uint64_t at = 0; at < r->bytes; at += r->block_bytes) {
		const uint64_t bytes = g4_min64(r->bytes - at, r->block_bytes);

		for (uint32_t c = 0; c < r->data + r->parity; c++)
			if (r->from[c])
				g4_copy_in_region(wg, r->block[c], (const uint8_t *)r->from[c] + at, bytes);
		if (g4_wg_lane(wg) == 0)
			r->block[r->column] = r->to + at;
		g4_sync(wg);
		g4_parity_reconstruct(wg, r->data, r->parity, r->lost, r->block, bytes, &r->scratch);
	}
}

/* The columns of a stripe: which are lost, and which are looked at. */
G4_FN static void choose(const struct g4_direct_table *table, const struct g4_chunk *chunk, uint64_t stripe,
			 uint32_t place, struct g4_direct_remake *r, uint8_t *blocks)
{
	const uint64_t within = stripe * chunk->stripe_bytes;
	uint32_t wanted = 0; /* parities, in the place of data */

	r->column = (uint32_t)((place + chunk->columns - stripe % chunk->columns) % chunk->columns);
	r->lost = 0;
	for (uint32_t c = 0; c < chunk->columns; c++) {
		const uint64_t from = g4_chunk_place(chunk, stripe, c);
		r->from[c] = source_of(table, from, within, chunk->stripe_bytes);
		if (!r->from[c])
			r->lost |= UINT64_C(1) << c;
		wanted += c < r->data && !r->from[c];
		if (c >= r->data && r->from[c] && wanted == 0)
			r->from[c] = NULL;
		else if (c >= r->data && r->from[c])
			wanted--;
		r->block[c] = r->from[c] ? blocks : NULL;
		blocks += r->from[c] ? r->block_bytes : 0;
	}
}

G4_FN static void remake(struct g4_wg *wg, const struct g4_direct_table *table, const struct g4_chunk *chunk,
			 uint32_t place, uint64_t within, uint8_t *to, uint64_t bytes)
{
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_direct_remake *r = (struct g4_direct_remake *)g4_scratch_take(wg, sizeof(*r));
	uint8_t *blocks = (uint8_t *)g4_scratch_take(wg, BLOCKS_BYTES);

	r->data = g4_chunk_data_columns(chunk);
	r->parity = chunk->parity;
	r->block_bytes = g4_align_down(BLOCKS_BYTES / r->data, 512);
	r->bytes = chunk->stripe_bytes;
	for (uint64_t done = 0; done < bytes; done += chunk->stripe_bytes) {
		choose(table, chunk, (within + done) / chunk->stripe_bytes, place, r, blocks);
		r->to = to + done;
		g4_region(wg, G4_REGION_REMAKE, g4_direct_remake_region, r);
	}
	g4_scratch_release(wg, mark);
}

G4_FN void g4_direct_make(struct g4_wg *wg, struct g4_direct *direct, const struct g4_direct_lost *lost, uint64_t at,
			  uint64_t bytes)
{
	const struct g4_direct_table *table = &direct->table;
	const struct g4_chunk *chunk = &table->chunks[lost->chunk];
	uint8_t *to = target_of(table, chunk, lost) + at;

	if (chunk->parity)
		remake(wg, table, chunk, lost->place, lost->within + at, to, bytes);
	else
		copy(wg, table, chunk, lost->within + at, to, bytes);
}
