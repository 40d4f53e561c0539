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

/* ---- lending ---- */

/* Orders held. Whether no request is left that began before this. */
static int leave_behind(struct g4_set *set, bool *done)
{
	*done = false;
	if (!g4_set_view_wait(set))
		return 0;
	pthread_mutex_lock(&set->lock);
	const int rc = g4_set_view_reserve(set);
	if (rc == 0)
		g4_set_view_switch(set, set->chunks, set->map.count);
	pthread_mutex_unlock(&set->lock);
	if (rc == 0)
		*done = g4_set_view_wait(set);
	return rc;
}

int g4_set_lend(struct g4_set *set, uint64_t address, uint64_t bytes, bool *ready)
{
	const uint64_t end = g4_load64_acq(&set->dev.props.size_bytes);
	int rc = 0;

	*ready = false;
	pthread_mutex_lock(&set->orders);
	if (set->parity) {
		rc = -G4_E_NOTSUP;
	} else if (bytes == 0) {
		rc = leave_behind(set, &set->lent_ready);
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
	const bool alone = g4_set_view_wait(set);
	if (alone) {
		set->lent_count = 0;
		set->lent_ready = false;
		set->next.generation = 0; /* its target may be what was lent */
	}
	pthread_mutex_unlock(&set->orders);
	return alone;
}

/* ---- tables ---- */

static bool may_lend(const struct g4_chunk *chunk)
{
	return chunk->level == G4_LEVEL_OWN && !chunk->parity && !g4_chunk_is_gone(chunk);
}

/* What of chunk n a range has, in whole units of its places. False: there are too many chunks. */
static bool lend_places(struct g4_chunk *chunks, uint32_t *count, uint32_t n, const struct g4_set_range *range)
{
	const uint64_t address = chunks[n].address, unit = G4_CHUNK_UNIT * (uint64_t)chunks[n].columns;
	const uint64_t first = range->from > address ? (range->from - address + unit - 1) / unit : 0;
	const uint64_t end = g4_min64(range->to - address, chunks[n].bytes) / unit;

	if (first >= end)
		return true;
	if (!g4_table_cut(chunks, count, n, end * G4_CHUNK_UNIT) ||
	    !g4_table_cut(chunks, count, n, first * G4_CHUNK_UNIT))
		return false;
	g4_table_give_up(&chunks[n + (first > 0)]);
	return true;
}

bool g4_set_lend_places(const struct g4_set *set, struct g4_chunk *chunks, uint32_t *count)
{
	for (uint32_t k = 0; k < set->lent_count; k++)
		for (uint32_t n = 0; n < *count; n++)
			if (may_lend(&chunks[n]) && chunks[n].address < set->lent[k].to &&
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

int g4_set_lay_lent(const struct g4_set *set, const uint64_t *disk_bytes, struct g4_chunk *chunks, uint32_t *count)
{
	struct g4_chunk_wish wish;
	uint64_t bytes = 0;
	int rc = 0;

	keep_gone(chunks, *count, true);
	if (!g4_set_lend_places(set, chunks, count))
		return -G4_E_NOSPC;
	for (uint32_t n = 0; n < *count; n++)
		bytes += g4_chunk_is_gone(&chunks[n]) ? (uint64_t)chunks[n].bytes : 0;
	g4_chunk_wish_like(&set->map, 0, &wish);
	wish.piece_bytes = bytes / set->count;
	*count = g4_chunk_fill(&wish, disk_bytes, set->count, chunks, *count);
	for (uint32_t n = 0; n < *count && rc == 0; n++)
		rc = g4_chunk_is_gone(&chunks[n]) ? -G4_E_NOSPC : 0;
	keep_gone(chunks, *count, false);
	g4_table_join(chunks, count);
	return rc;
}

/* Orders held. */
static int lay(struct g4_wg *wg, struct g4_set *set, struct g4_set_draft *draft)
{
	const struct g4_superblock *super = draft->super;
	struct g4_set_move *move = &draft->move;
	int rc = g4_set_lay_lent(set, super->disk_bytes, move->chunks, &move->count);

	if (rc == 0) /* an order that can not be right is not carried out */
		rc = g4_chunk_validate(move->chunks, move->count, super->disk_bytes, set->count);
	if (rc < 0 || (move->count == set->map.count &&
		       memcmp(move->chunks, set->chunks, move->count * sizeof(*move->chunks)) == 0))
		return rc;
	return g4_set_draft_switch(wg, set, draft);
}

int g4_set_lay(struct g4_wg *wg, struct g4_set *set)
{
	struct g4_set_draft draft;

	pthread_mutex_lock(&set->orders);
	int rc = g4_set_check_whole(set, (struct g4_dev_message){.text = NULL});
	if (rc == 0 && set->lent_count > 0 && set->lent_ready && g4_set_view_is_alone(set)) {
		rc = g4_set_draft_begin(&draft, set);
		if (rc == 0) {
			rc = lay(wg, set, &draft);
			g4_set_draft_end(&draft);
		}
	}
	pthread_mutex_unlock(&set->orders);
	return rc;
}
