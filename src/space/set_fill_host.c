/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is gone comes back: addresses of which a removal gave the places up get chunks of the own level, of what room no chunk has, by one switch
 * of the table. Nothing is in use there, and nobody can claim any of it before its owner has seen that table (fs/rebalance.c).
 *
 * Rows keep the bits of the map behind them where they are: a gone chunk has as many regions as its rows had (g4_table_give_up()), and comes back
 * with as many, as wide as they were. Its bits mean nothing, so they are cleared first. What has no room stays gone, as a chunk of the same kind.
 *
 * Crashes: either table is right, for nothing is in use of what only one of them has; bits that were cleared are those of no rows, or of rows
 * whose parity the next write makes.
 */
#define _GNU_SOURCE 1

#include "space/set_fill_host.h"

#include "simt/simt_host.h"
#include "space/set_draft_host.h"
#include "space/set_epoch_host.h"
#include "space/set_lend_host.h"
#include "space/set_rows_host.h"

/* ---- the table ---- */

/* Whether rows with so many columns of data have as many bytes as a gone chunk, in as many regions of the map. */
static bool has_as_many(const struct g4_chunk *chunk, uint64_t columns)
{
	return chunk->bytes % (columns * G4_CHUNK_UNIT) == 0 &&
	       g4_align_up(chunk->bytes / columns, G4_PARITY_REGION_BYTES) == chunk->place_bytes;
}

/* Chunk n, which is gone, is rows from its beginning on, as far as there is room; the rest is a gone one behind it. False: it is gone still. */
static bool lay_rows(const struct g4_set_draft *draft, struct g4_set_move *move, uint32_t n,
		     const struct g4_chunk_wish *wish)
{
	struct g4_chunk *chunk = &move->chunks[n];
	const struct g4_chunk gone = *chunk;
	const uint32_t parity = wish->copies - 1, count = move->count;

	for (uint32_t columns = 2; columns + parity <= G4_CHUNK_PLACES; columns++) {
		if (!has_as_many(&gone, columns))
			continue;
		chunk->columns = (uint16_t)(columns + parity);
		chunk->parity = (uint16_t)parity;
		chunk->stripe_bytes = (uint32_t)wish->stripe_bytes;
		chunk->place_bytes = gone.bytes / columns;
		if (g4_set_lay_rows(draft->super, draft->spans, move, n) == 0) {
			if (move->count > count)
				g4_table_give_up(chunk + 1);
			return true;
		}
		*chunk = gone;
	}
	return false;
}

/* All that are rows; half of what the table has room for is left to others. */
static void lay_all_rows(struct g4_set_draft *draft, const struct g4_chunk_wish *wish)
{
	struct g4_set_move *move = &draft->move;
	const uint32_t most = move->count + (G4_CHUNKS_MAX - move->count) / 2;

	for (uint32_t n = 0; n < move->count && move->count < most; n++)
		if (g4_chunk_is_gone(&move->chunks[n]) && move->chunks[n].place_bytes > 0)
			(void)lay_rows(draft, move, n, wish);
}

static uint64_t gone_bytes(const struct g4_chunk *chunks, uint32_t count)
{
	uint64_t bytes = 0;

	for (uint32_t n = 0; n < count; n++)
		bytes += g4_chunk_is_gone(&chunks[n]) ? (uint64_t)chunks[n].bytes : 0;
	return bytes;
}

/* The table that follows; what is gone and no rows is in copies where the own level is rows, as the front. */
static int plan(const struct g4_set *set, struct g4_set_draft *draft)
{
	struct g4_set_move *move = &draft->move;
	uint64_t disk_bytes[G4_MAX_DISKS];
	struct g4_chunk_wish wish;

	g4_chunk_wish_like(&set->map, draft->super->parity_log_bytes, &wish);
	if (wish.raid == G4_RAID_PARITY) {
		lay_all_rows(draft, &wish);
		wish.raid = G4_RAID_1;
	}
	for (uint32_t d = 0; d < set->count; d++)
		disk_bytes[d] = draft->super->disk_bytes[d];
	wish.piece_bytes = gone_bytes(move->chunks, move->count) / set->count;
	move->count = g4_chunk_fill(&wish, disk_bytes, set->count, move->chunks, move->count);
	g4_table_join_all(move->chunks, &move->count);
	/* an order that can not be right is not carried out */
	return g4_chunk_validate(move->chunks, move->count, disk_bytes, set->count);
}

/* ---- the switch ---- */

/* Locked. Of gone rows, whose bits mean nothing, also of those that stay gone: durably, and written once. */
static int forget_gone(struct g4_wg *wg, struct g4_set *set)
{
	struct g4_set_parity *p = set->parity;

	for (uint32_t n = 0; n < set->map.count && p; n++) {
		const struct g4_chunk *chunk = &set->chunks[n];
		const uint64_t first = g4_set_log_region(set, chunk, 0);
		for (uint64_t bit = first; g4_chunk_is_gone(chunk) && bit < first + g4_set_log_regions(chunk); bit++) {
			p->made_changed = p->made_changed || (p->made[bit / 8] >> bit % 8 & 1);
			p->made[bit / 8] &= (uint8_t) ~(1u << bit % 8);
		}
	}
	/* also what an earlier call could not write */
	return p && p->made_changed ? g4_set_log_empty(wg, set) : 0;
}

/* Orders held, and nobody looks at the table of before. */
static int fill(struct g4_wg *wg, struct g4_set *set, struct g4_set_draft *draft, uint64_t *bytes)
{
	int rc = plan(set, draft);

	const uint64_t before = gone_bytes(set->chunks, set->map.count),
		       after = gone_bytes(draft->move.chunks, draft->move.count);
	if (rc < 0 || after == before)
		return rc;
	rc = g4_set_draft_lock(wg, set);
	if (rc < 0)
		return rc;
	rc = forget_gone(wg, set);
	if (rc == 0)
		rc = g4_set_draft_switch(wg, set, draft);
	g4_set_draft_unlock(set);
	set->next.generation = 0;
	*bytes = rc == 0 ? before - after : 0;
	return rc;
}

int g4_set_fill(struct g4_wg *wg, struct g4_set *set, uint64_t *bytes, bool *again)
{
	struct g4_set_draft draft;

	*bytes = 0;
	pthread_mutex_lock(&set->orders);
	int rc = g4_set_check_whole(set, (struct g4_dev_message){.text = NULL});
	/* what was moved away is room when nobody reads it there any more */
	*again = rc == 0 && gone_bytes(set->chunks, set->map.count) > 0 &&
		 (set->lent_count > 0 || !g4_set_view_wait(set, G4_VIEW_PATIENCE));
	if (rc == 0 && !*again) {
		rc = g4_set_draft_begin(&draft, set);
		if (rc == 0) {
			rc = fill(wg, set, &draft, bytes);
			g4_set_draft_end(&draft);
		}
	}
	pthread_mutex_unlock(&set->orders);
	return rc;
}
