/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows that find no room in one piece become copies, a part at a time, while others use the set (fs/leave.c). Copies have no bits in the map of regions, so they are cut
 * at any MiB, and lie in gaps that are too short for a unit of rows. As many are made as all chunks of the set bear losses for.
 *
 *   a unit of rows      | rows, with the unit's bit | part: in use |
 *   afterwards          | rows, with the unit's bit | copies       |
 *
 * The part is the end of a unit, so the rest of it keeps the bit, and all bits behind stay what they were.
 *
 * Nobody writes there meanwhile: writers of the part wait in the window, and those of any rows for their lock, with an empty log. Who reads by the table of before reads
 * where it lay, until nobody looks at that table any more; where a disk is lost that he needs, he finds no rows there and reads the copies (set_io_host.c).
 *
 * What has rotted is made right by parity for whoever has its sum, and nobody here has that: what does not fit its parity stays rows.
 *
 * Crashes: copies lie where no chunk is until the switch, and both tables lead to the same bytes then.
 */
#define _GNU_SOURCE 1

#include "space/set_scatter_host.h"

#include "simt/simt_host.h"
#include "space/set_draft_host.h"
#include "space/set_epoch_host.h"
#include "space/set_rows_host.h"

#define WAIT_NS UINT64_C(20000000) /* for writers who are in the way */
#define TRIES 20u		   /* of a millisecond each, for requests that look at a table of before */

struct scattering {
	struct g4_set *set;
	struct g4_set_draft draft;
	uint32_t chunk;	   /* its number in the set */
	uint64_t from, to; /* of its places: what is asked for, then what is done */
	uint32_t leaving;  /* no room is looked for there */
};

/* Whether that is the end of a unit of rows of the own level, a part of which stays. */
static bool is_possible(const struct g4_chunk *chunk, uint64_t from, uint64_t to)
{
	const uint64_t unit = g4_table_unit(chunk);

	return chunk->parity > 0 && chunk->level == G4_LEVEL_OWN && from < to && to <= chunk->place_bytes &&
	       from % G4_CHUNK_UNIT == 0 && from % unit != 0 && (to % unit == 0 || to == chunk->place_bytes) &&
	       from / unit == (to - 1) / unit;
}

/* The others that lie nowhere look like something that does while the part is laid. */
static void hide_gone(struct g4_chunk *chunks, uint32_t count, bool hidden)
{
	for (uint32_t n = 0; n < count; n++)
		if (chunks[n].copies == 0)
			chunks[n].columns = hidden;
}

/* The part of the places becomes copies in the table that is planned. -G4_E_NOSPC: it finds no room, or the table has too many chunks. */
static int plan_part(struct scattering *s, uint64_t from)
{
	const struct g4_superblock *super = s->draft.super;
	struct g4_set_move *move = &s->draft.move;
	uint64_t disk_bytes[G4_MAX_DISKS];
	struct g4_chunk_wish wish;
	int rc = 0;

	memcpy(move->chunks, s->set->chunks, s->set->map.count * sizeof(*move->chunks));
	move->count = s->set->map.count;
	if (!g4_table_cut(move->chunks, &move->count, s->chunk, s->to) ||
	    !g4_table_cut(move->chunks, &move->count, s->chunk, from))
		return -G4_E_NOSPC;
	if (move->count == G4_CHUNKS_MAX)
		return -G4_E_NOSPC;
	hide_gone(move->chunks, move->count, true);
	/* behind all others: what is copied lies there until the switch, so no copy may */
	move->chunks[move->count] = move->chunks[s->chunk + 1];
	move->chunks[move->count++].address = UINT64_MAX / 2;
	g4_table_give_up(&move->chunks[s->chunk + 1]);
	move->chunks[s->chunk + 1].place_bytes = 0; /* what stays of the unit has its bit */
	for (uint32_t d = 0; d < s->set->count; d++)
		disk_bytes[d] = d == s->leaving ? 0 : super->disk_bytes[d];
	g4_chunk_wish_like(&s->set->map, super->parity_log_bytes, &wish);
	wish.raid = G4_RAID_1;
	wish.piece_bytes = move->chunks[s->chunk + 1].bytes;
	move->count = g4_chunk_fill(&wish, disk_bytes, s->set->count, move->chunks, move->count) - 1;
	for (uint32_t n = 0; n < move->count && rc == 0; n++)
		rc = g4_chunk_is_gone(&move->chunks[n]) ? -G4_E_NOSPC : 0;
	hide_gone(move->chunks, move->count, false);
	g4_table_join_all(move->chunks, &move->count);
	if (rc == 0 && move->count > G4_TABLE_PIECES_MOST)
		rc = -G4_E_NOSPC;
	return rc < 0 ? rc : g4_chunk_validate(move->chunks, move->count, super->disk_bytes, s->set->count);
}

/* As much of the part as finds room, at its end. */
static int plan(struct scattering *s)
{
	int rc = -G4_E_NOSPC;

	for (uint64_t from = s->from; from < s->to && rc == -G4_E_NOSPC; from += G4_CHUNK_UNIT) {
		rc = plan_part(s, from);
		s->from = from;
	}
	return rc;
}

/* Locked. The data of a stripe, into the columns of the set's memory; page by page where some can not be read. */
static int read_stripe(struct g4_wg *wg, struct g4_set *set, const struct g4_chunk *chunk, uint64_t stripe)
{
	const uint32_t data = g4_chunk_data_columns(chunk);
	struct g4_row row = {chunk, stripe, 0, chunk->stripe_bytes};
	uint8_t *columns[G4_ROW_COLUMNS];
	int rc = g4_row_read(wg, set, &row, g4_row_mask(data), 0, set->parity->columns);

	if (rc == 0)
		return 0;
	rc = 0;
	for (row.bytes = G4_PAGE_BYTES; row.within < chunk->stripe_bytes && rc == 0; row.within += G4_PAGE_BYTES) {
		g4_row_offset_columns(columns, set->parity->columns, chunk->columns, row.within);
		rc = g4_row_read(wg, set, &row, g4_row_mask(data), 0, columns);
	}
	return rc;
}

/* A disk that does not take what is written or flushed is dropped, as after any write. */
static int settle(struct g4_wg *wg, struct g4_set *set, uint32_t disk, int rc)
{
	if (rc == -G4_E_IO || rc == -G4_E_DEV_READONLY) {
		const int dropped = g4_set_drop(wg, set, disk);
		return dropped < 0 ? dropped : rc;
	}
	return rc;
}

/* To all of its copies in the table that is planned. */
static int write_column(struct g4_wg *wg, const struct scattering *s, uint64_t address, const uint8_t *data,
			uint64_t bytes, uint64_t *disks)
{
	const struct g4_chunk_map planned = {.chunks = s->draft.move.chunks, .count = s->draft.move.count};
	const struct g4_chunk *to = g4_chunk_find(&planned, address);
	int rc = 0;

	for (uint32_t c = 0; c < to->copies && rc == 0; c++) {
		const uint32_t disk = g4_place_disk(to->places[c]);
		rc = g4_dev_write(wg, s->set->disks[disk].dev,
				  g4_place_address(to->places[c]) + (address - to->address), data, bytes,
				  G4_IO_CLASS(G4_CLASS_BACKGROUND));
		rc = settle(wg, s->set, disk, rc);
		*disks |= UINT64_C(1) << disk;
	}
	return rc;
}

/* Locked. Durably. -G4_E_PARITY: some of it does not fit its parity, which may make what has rotted, and copies would not. */
static int copy(struct g4_wg *wg, const struct scattering *s)
{
	struct g4_set *set = s->set;
	const struct g4_chunk *chunk = &set->chunks[s->chunk];
	const uint64_t each = chunk->stripe_bytes;
	uint64_t disks = 0;
	int rc = 0;

	for (uint64_t stripe = s->from / each; stripe * each < s->to && rc == 0; stripe++) {
		rc = g4_rows_fit(wg, set, chunk, stripe) ? read_stripe(wg, set, chunk, stripe) : -G4_E_PARITY;
		for (uint32_t c = 0; c < g4_chunk_data_columns(chunk) && rc == 0; c++)
			rc = write_column(wg, s, chunk->address + stripe * g4_chunk_stripe_data(chunk) + c * each,
					  set->parity->columns[c], each, &disks);
	}
	for (uint32_t d = 0; d < set->count && rc == 0; d++)
		if (disks >> d & 1)
			rc = settle(wg, set, d, g4_dev_flush(wg, set->disks[d].dev));
	return rc;
}

/* Of the address space what is done. */
static uint64_t address_of(const struct scattering *s, uint64_t *bytes)
{
	const struct g4_chunk *chunk = &s->set->chunks[s->chunk];
	const uint64_t columns = g4_chunk_data_columns(chunk);

	*bytes = (s->to - s->from) * columns;
	return chunk->address + s->from * columns;
}

/* It is planned. *done: bytes of the address space; 0: somebody writes there. */
static int carry_out(struct g4_wg *wg, struct scattering *s, uint64_t *done)
{
	struct g4_set *set = s->set;
	uint64_t bytes;
	const uint64_t address = address_of(s, &bytes);

	if (!g4_set_window_open(&set->window, address, bytes) &&
	    !g4_set_window_wait(&set->window, address, bytes, WAIT_NS))
		return 0;
	int rc = g4_set_draft_lock(wg, set);
	if (rc == 0) {
		rc = copy(wg, s);
		if (rc == 0)
			rc = g4_set_draft_switch(wg, set, &s->draft);
		g4_set_draft_unlock(set);
	}
	g4_set_window_close(&set->window);
	set->next.generation = 0;
	*done = rc == 0 ? bytes : 0;
	return rc;
}

int g4_set_scatter(struct g4_wg *wg, struct g4_set *set, uint64_t address, uint32_t leaving, uint64_t *bytes)
{
	struct scattering s = {.set = set, .leaving = leaving};
	const uint64_t most = *bytes;

	*bytes = 0;
	int rc = g4_set_check_whole(set, (struct g4_dev_message){.text = NULL});
	if (rc < 0 || !g4_set_view_wait(set, TRIES)) /* a request that takes longer is waited for by asking again */
		return rc;
	const struct g4_chunk *chunk = g4_chunk_find(&set->map, address);
	const uint64_t columns = g4_chunk_data_columns(chunk), within = address - chunk->address;
	if (g4_chunk_is_gone(chunk) || within >= chunk->bytes || most > chunk->bytes - within ||
	    within % columns != 0 || most % columns != 0)
		return -G4_E_INVAL;
	s.chunk = (uint32_t)(chunk - set->chunks);
	s.from = within / columns;
	s.to = (within + most) / columns;
	if (!is_possible(chunk, s.from, s.to))
		return -G4_E_INVAL;
	rc = g4_set_draft_begin(&s.draft, set);
	if (rc < 0)
		return rc;
	rc = plan(&s);
	if (rc == 0)
		rc = carry_out(wg, &s, bytes);
	g4_set_draft_end(&s.draft);
	return rc;
}
