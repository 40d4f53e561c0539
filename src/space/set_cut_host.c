/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows that a crash may have cut short: those that the log has marked, of which all pages were to be written. One that does not fit was being written when the crash came, and
 * nothing in it was anybody's; or a page of it has rotted, and parity has what that was. Whoever mounts the set knows, as soon as he has read his journal: a row
 * was being written if nobody has any of its pages but those of which the newest record says what they hold, and those that the journal is about to write. So he is asked, some rows at a time,
 * before anything is written (G4_ORDER_ROWS_CUT); the log keeps the marks until all is done, and a crash meanwhile begins that again. Space that was reserved for a file and
 * is written the first time is somebody's before: where that may be the mark says so, and a row there follows its data, as all do for whoever opens the set for something
 * else, or writes before he was asked.
 */
#define _GNU_SOURCE 1

#include "space/set_drain_host.h"
#include "space/set_rows_host.h"

/* Room for what may be noted of a unit. */
#define MOST_OF_A_UNIT (G4_PARITY_UNIT_BYTES / G4_PAGE_BYTES * G4_CHUNK_PLACES)
G4_STATIC_ASSERT(MOST_OF_A_UNIT < G4_PARITY_ASKED_MOST, "each turn takes something");

/* The next unit that is marked, from *at on: its chunk, its places, and where it is among the marks; false: there is none. */
static bool next_unit(const struct g4_set *set, struct g4_parity_unit *at, const struct g4_chunk **chunk,
		      uint64_t *from, uint64_t *to)
{
	const struct g4_set_parity *p = set->parity;

	for (; at->mark < p->mark_count; *at = (struct g4_parity_unit){at->mark + 1, 0})
		for (; at->unit < 64; at->unit++) {
			const struct g4_parity_mark *mark = &p->marks[at->mark];
			*chunk = &set->chunks[mark->region >> 40];
			*from = (mark->region & ((UINT64_C(1) << 40) - 1)) * G4_PARITY_REGION_BYTES +
				at->unit * G4_PARITY_UNIT_BYTES;
			*to = g4_min64(*from + G4_PARITY_UNIT_BYTES, (*chunk)->place_bytes);
			if ((mark->units >> at->unit & 1) && *from < *to)
				return true;
		}
	return false;
}

static int end(struct g4_wg *wg, struct g4_set *set)
{
	set->parity->cut = false; /* which emptying looks at */
	(void)g4_rows_begin_asking(set->parity, false);
	return g4_set_log_empty(wg, set);
}

int g4_rows_uncut(struct g4_wg *wg, struct g4_set *set)
{
	struct g4_set_parity *p = set->parity;
	struct g4_parity_unit at = p->cut_from;
	const struct g4_chunk *chunk;
	uint64_t from, to;

	if (!p->cut)
		return 0;
	(void)g4_rows_begin_asking(p, false);
	for (; next_unit(set, &at, &chunk, &from, &to); at.unit++) {
		const int rc = g4_rows_complete(wg, set, chunk, from, to);
		if (rc < 0)
			return rc;
	}
	return end(wg, set);
}

/* Notes what has to be known of the next rows, as far as there is room. */
static int take_some(struct g4_wg *wg, struct g4_set *set, uint64_t *asked)
{
	struct g4_set_parity *p = set->parity;
	const struct g4_chunk *chunk;
	uint64_t from, to;
	int rc = g4_rows_begin_asking(p, true);

	p->cut_from = p->cut_to;
	while (rc == 0 && p->asked_count + MOST_OF_A_UNIT <= G4_PARITY_ASKED_MOST &&
	       next_unit(set, &p->cut_to, &chunk, &from, &to)) {
		rc = g4_rows_note_cut(wg, set, chunk, from, to);
		p->cut_to.unit++;
	}
	*asked = p->asked_count;
	return rc == 0 && p->asked_count == 0 ? end(wg, set) : rc;
}

static int settle_some(struct g4_wg *wg, struct g4_set *set)
{
	struct g4_set_parity *p = set->parity;
	struct g4_parity_unit at = p->cut_from;
	const struct g4_chunk *chunk;
	uint64_t from, to;
	int rc = 0;

	while (rc == 0 && next_unit(set, &at, &chunk, &from, &to) &&
	       (at.mark < p->cut_to.mark || (at.mark == p->cut_to.mark && at.unit < p->cut_to.unit))) {
		rc = g4_rows_settle_cut(wg, set, chunk, from, to, p->marks[at.mark].in_use >> at.unit & 1);
		at.unit++;
	}
	p->cut_from = p->cut_to;
	return rc;
}

int g4_rows_order_cut(struct g4_wg *wg, struct g4_set *set, struct g4_dev_order *order)
{
	struct g4_set_parity *p = set->parity;
	int rc = 0;

	if (!p)
		return -G4_E_NOTSUP;
	if (order->disk > G4_ROWS_CUT_UNKNOWN)
		return -G4_E_INVAL;
	g4_rows_lock(wg, set);
	order->all = 0;
	if (p->cut && order->disk == G4_ROWS_CUT_NEXT)
		rc = take_some(wg, set, &order->all);
	else if (p->cut && order->disk == G4_ROWS_CUT_TOLD)
		rc = settle_some(wg, set);
	else
		rc = g4_rows_uncut(wg, set);
	pthread_rwlock_unlock(&p->lock);
	return rc;
}
