/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages that are held back. What was written is durable when a flush says so, and no earlier: so pages of rows of which some stay are
 * kept in memory until then. Rows that come to be written as a whole meanwhile, as those of a writer that goes on and on do,
 * need no log.
 * The others go into it together, and one flush of all disks makes durable what the log has and all that was written before it; only
 * then do they go to their places (set_log_host.c, first rule), without another flush, for the log has them.
 *
 * On disks there is the row as it was before all that is held of it, data and parity: a reader that makes a lost page of
 * others reads that. A thread that
 * reads a page that is held gets it from here.
 *
 * Writers of rows have their lock (set_parity_host.c). A reader that asks whether a page is held has none: the lock here is
 * for that, and is
 * held for no longer than that takes.
 */
#define _GNU_SOURCE 1

#include <stdlib.h>

#include "base/memory_host.h"
#include "space/set_granted_host.h"
#include "space/set_rows_host.h"

#define ROWS 2048u
#define BUCKETS 4096u
#define NONE UINT32_MAX

struct held_row { /* one page of each column */
	struct g4_row row;
	uint64_t address; /* of the row: whoever asks without the lock of rows may know its chunk by another table */
	uint64_t stripe;  /* the address where its stripe begins */
	uint64_t given;	  /* columns of data; 0: the row is free */
	bool logged;	  /* and on its way to its places */
	bool in_use;	  /* some of them are somebody's (G4_IO_IN_USE) */
	uint32_t next;	  /* in its bucket, or of the free ones */
};

struct g4_set_held {
	pthread_mutex_t lock;
	uint32_t count; /* atomic */
	uint32_t first_free;
	uint32_t columns;
	uint8_t *pages;
	uint32_t buckets[BUCKETS];
	struct held_row rows[ROWS];
};

static uint64_t pages_bytes(const struct g4_set_held *h)
{
	return ROWS * (uint64_t)h->columns * G4_PAGE_BYTES;
}

int g4_set_held_begin(struct g4_set *set, uint64_t columns)
{
	struct g4_set_held *h = calloc(1, sizeof(*h));

	if (!h || pthread_mutex_init(&h->lock, NULL) != 0) {
		free(h);
		return -G4_E_NOMEM;
	}
	set->parity->held = h;
	h->columns = (uint32_t)columns;
	for (uint32_t n = 0; n < BUCKETS; n++)
		h->buckets[n] = NONE;
	for (uint32_t n = 0; n < ROWS; n++)
		h->rows[n].next = n + 1 < ROWS ? n + 1 : NONE;
	h->pages = (uint8_t *)g4_memory_map(pages_bytes(h));
	if (!h->pages)
		return -G4_E_NOMEM;
	g4_memory_small_pages(h->pages, pages_bytes(h)); /* most are never touched */
	return 0;
}

void g4_set_held_end(struct g4_set *set)
{
	struct g4_set_held *h = set->parity->held;

	if (!h)
		return;
	pthread_mutex_destroy(&h->lock);
	g4_memory_unmap(h->pages, pages_bytes(h));
	free(h);
}

bool g4_set_held_any(const struct g4_set *set)
{
	return g4_load32_acq(&set->parity->held->count) != 0;
}

uint32_t g4_set_held_count(const struct g4_set *set)
{
	return g4_load32_acq(&set->parity->held->count);
}

/* ---- finding ---- */

static uint32_t bucket_of(uint64_t address)
{
	return (uint32_t)(address / G4_PAGE_BYTES * UINT64_C(0x9e3779b97f4a7c15) >> 40) % BUCKETS;
}

/* Of the page `at` in each of its columns. */
static uint64_t address_at(const struct g4_row *rows, uint64_t at)
{
	const struct g4_row row = {rows->chunk, rows->stripe, at, G4_PAGE_BYTES};

	return g4_row_address(&row);
}

static struct held_row *find(const struct g4_set *set, const struct g4_row *rows, uint64_t within)
{
	const uint64_t address = address_at(rows, within);
	struct g4_set_held *h = set->parity->held;
	uint32_t n = h->buckets[bucket_of(address)];

	while (n != NONE && h->rows[n].address != address)
		n = h->rows[n].next;
	return n == NONE ? NULL : &h->rows[n];
}

static uint8_t *page_of(const struct g4_set_held *h, const struct held_row *row, uint32_t column)
{
	return h->pages + ((uint64_t)(row - h->rows) * h->columns + column) * G4_PAGE_BYTES;
}

bool g4_set_held_has(const struct g4_set *set, const struct g4_row *rows, uint32_t column)
{
	struct g4_set_held *h = set->parity->held;
	bool has = false;

	if (!g4_set_held_any(set))
		return false;
	pthread_mutex_lock(&h->lock);
	for (uint64_t at = g4_align_down(rows->within, G4_PAGE_BYTES); at < rows->within + rows->bytes && !has;
	     at += G4_PAGE_BYTES) {
		const struct held_row *row = find(set, rows, at);
		has = row && (row->given >> column & 1);
	}
	pthread_mutex_unlock(&h->lock);
	return has;
}

void g4_set_held_patch(const struct g4_set *set, const struct g4_row *rows, uint32_t column, uint8_t *memory)
{
	const uint64_t end = rows->within + rows->bytes;

	for (uint64_t at = g4_align_down(rows->within, G4_PAGE_BYTES); at < end; at += G4_PAGE_BYTES) {
		const struct held_row *row = find(set, rows, at);
		const uint64_t from = g4_max64(at, rows->within), to = g4_min64(at + G4_PAGE_BYTES, end);
		if (row && (row->given >> column & 1))
			memcpy(memory + (from - rows->within), page_of(set->parity->held, row, column) + (from - at),
			       to - from);
	}
}

/* ---- holding ---- */

static struct held_row *find_or_make(struct g4_set *set, const struct g4_row *rows, uint64_t within)
{
	struct g4_set_held *h = set->parity->held;
	struct held_row *row = find(set, rows, within);
	const uint32_t n = h->first_free;

	if (row || n == NONE)
		return row;
	row = &h->rows[n];
	h->first_free = row->next;
	*row = (struct held_row){.row = {rows->chunk, rows->stripe, within, G4_PAGE_BYTES},
				 .address = address_at(rows, within)};
	uint32_t *bucket = &h->buckets[bucket_of(row->address)];
	row->next = *bucket;
	*bucket = n;
	const struct g4_row stripe = {rows->chunk, rows->stripe, 0, G4_PAGE_BYTES};
	row->stripe = g4_row_address(&stripe);
	g4_set_grants_hold(set, row->stripe, true);
	g4_add32(&h->count, 1);
	return row;
}

static void let_go(struct g4_set *set, struct held_row *row)
{
	struct g4_set_held *h = set->parity->held;
	const uint32_t n = (uint32_t)(row - h->rows);

	pthread_mutex_lock(&h->lock);
	uint32_t *at = &h->buckets[bucket_of(row->address)];
	while (*at != n)
		at = &h->rows[*at].next;
	*at = row->next;
	row->given = 0;
	row->next = h->first_free;
	h->first_free = n;
	pthread_mutex_unlock(&h->lock);
	g4_set_grants_hold(set, row->stripe, false); /* what was held is in place */
	g4_sub32(&h->count, 1);
}

uint64_t g4_set_held_add(struct g4_set *set, const struct g4_row *rows, uint64_t given, uint8_t *const *columns,
			 bool in_use)
{
	struct g4_set_held *h = set->parity->held;
	uint64_t at = 0;

	for (; at < rows->bytes; at += G4_PAGE_BYTES) {
		pthread_mutex_lock(&h->lock);
		struct held_row *row = find_or_make(set, rows, rows->within + at);
		for (uint32_t c = 0; row && c < h->columns; c++)
			if (given >> c & 1)
				memcpy(page_of(h, row, c), columns[c] + at, G4_PAGE_BYTES);
		if (row) {
			row->given |= given;
			row->in_use = row->in_use || in_use;
		}
		pthread_mutex_unlock(&h->lock);
		if (!row)
			break;
	}
	return at;
}

uint64_t g4_set_held_whole(struct g4_set *set, const struct g4_row *rows, uint8_t *const *columns, bool *in_use)
{
	const uint64_t all = g4_row_mask(g4_chunk_data_columns(rows->chunk));
	uint64_t at = 0;

	*in_use = false;
	for (; at < rows->bytes; at += G4_PAGE_BYTES) {
		struct held_row *row = find(set, rows, rows->within + at);
		if (!row || row->given != all)
			break;
		*in_use = *in_use || row->in_use;
		for (uint32_t c = 0; all >> c & 1; c++)
			memcpy(columns[c] + at, page_of(set->parity->held, row, c), G4_PAGE_BYTES);
	}
	return at;
}

void g4_set_held_drop(struct g4_set *set, const struct g4_row *rows)
{
	for (uint64_t at = 0; at < rows->bytes && g4_set_held_any(set); at += G4_PAGE_BYTES) {
		struct held_row *row = find(set, rows, rows->within + at);
		if (row)
			let_go(set, row);
	}
}

void g4_set_held_note_logged(struct g4_set *set, const struct g4_row *row, bool logged)
{
	struct held_row *held = find(set, row, row->within);

	if (held)
		held->logged = logged;
}

bool g4_set_held_next(const struct g4_set *set, uint32_t *at, struct g4_row *row, uint64_t *given, uint8_t **columns)
{
	struct g4_set_held *h = set->parity->held;

	for (; *at < ROWS; ++*at) {
		const struct held_row *one = &h->rows[*at];
		if (!one->given || one->logged)
			continue;
		*row = one->row;
		*given = one->given;
		for (uint32_t c = 0; c < h->columns; c++)
			if (one->given >> c & 1)
				columns[c] = page_of(h, one, c);
		++*at;
		return true;
	}
	return false;
}
