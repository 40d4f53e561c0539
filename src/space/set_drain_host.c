/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is held (set_held_host.c) goes to the log, and then to its places. Of a few rows a flush waits for the flush of disks alone:
 *
 *   - *Ahead*: a record that is written to the journal says that a flush follows. What the rows that are held replace is read meanwhile,
 *     and their entry written to the log. It counts for nothing before a flush: a row that changes until then gets another entry, and
 *     no other entry comes behind one that is not durable.
 *   - *Behind*: rows go to their places some time after the log has them durably, several together, and nobody waits for that. They stay
 *     held as long. A crash finds
 *     in place what it could find during the write, and replays the log; a disk that fails is dropped by whoever ends the write.
 *
 * Both are under way without a lock. On disks rows are as they were (ahead), or something between old and new (behind). So whoever looks at
 * rows on disks, changes one of them, changes which disks they lie on, or empties the log has to settle them first: what was read is
 * forgotten then, and what is written is in place. g4_rows_lock() does that, and writers of what is held do where it is of the same rows.
 */
#define _GNU_SOURCE 1

#include <assert.h>
#include <stdlib.h>

#include "space/sealed.h"
#include "space/set_drain_host.h"
#include "space/set_granted_host.h"

/* Rows that are held, and are not in the log. */
static uint32_t count_fresh(const struct g4_set *set)
{
	const struct g4_set_drain *d = set->parity->drain;

	return g4_set_held_count(set) - d->behind[0].count - d->behind[1].count;
}

static int settle_logged(struct g4_wg *wg, struct g4_set *set);

/* ---- ahead ---- */

static uint64_t parities_of(const struct g4_row *row)
{
	return g4_row_mask(row->chunk->columns) & ~g4_row_mask(g4_chunk_data_columns(row->chunk));
}

/* A row's pages get their places in the entry, and what they replace begins to be read. */
static void add_row(struct g4_set *set, struct g4_drain_batch *b, struct g4_row_lists *lists, const struct g4_row *row,
		    uint64_t given, uint8_t *const *held)
{
	const uint32_t n = b->count++;
	uint8_t **now = b->now[n], **old = b->old[n];
	uint64_t wanted = given;

	b->rows[n] = *row;
	b->given[n] = given;
	memcpy(now, set->parity->spare, sizeof(set->parity->spare));
	for (uint32_t c = 0; c < row->chunk->columns; c++) {
		const uint64_t place = g4_row_place(row, c), bit = UINT64_C(1) << c;
		if (!((given | parities_of(row)) & bit))
			continue;
		if (g4_row_has(set, row, c)) {
			b->places[b->pages] = place;
			now[c] = g4_set_log_page(set, b->pages++);
			wanted |= bit;
		} else if (given & bit) {
			now[c] = held[c];
		}
		old[c] = given & bit ? set->parity->replaced + b->replaced++ * G4_PAGE_BYTES : now[c];
		if ((given & bit) && now[c] != held[c])
			memcpy(now[c], held[c], G4_PAGE_BYTES);
	}
	g4_row_prepare(set, row, G4_IO_READ, 0, wanted, old, &b->transfers[n], lists);
}

/* As many rows as an entry has room for, from *at on. */
static void take_rows(struct g4_wg *wg, struct g4_set *set, struct g4_drain_batch *b, uint32_t *at)
{
	const uint32_t room = g4_set_log_room(set);
	uint32_t next = *at;
	uint8_t *held[G4_ROW_COLUMNS];
	struct g4_row_lists lists = {.first = {NULL}};
	struct g4_row row;
	uint64_t given;

	b->count = b->pages = b->replaced = 0;
	while (b->count < G4_DRAIN_ROWS && g4_set_held_next(set, &next, &row, &given, held)) {
		if (b->pages + (uint32_t)__builtin_popcountll(given) + row.chunk->parity > room)
			break;
		add_row(set, b, &lists, &row, given, held);
		*at = next;
	}
	g4_row_submit(wg, set, &lists);
	set->parity->settle = settle_logged;
	b->taken = b->reading = true;
	b->logged = false;
}

void g4_set_drain_expect(struct g4_wg *wg, struct g4_set *set)
{
	struct g4_drain_batch *b = &set->parity->drain->batch;
	uint32_t at = 0;

	if (pthread_rwlock_trywrlock(&set->parity->lock) != 0) /* somebody is at it, whom nobody should wait for */
		return;
	if (!b->taken && count_fresh(set) > 0)
		take_rows(wg, set, b, &at);
	pthread_rwlock_unlock(&set->parity->lock);
}

/* ---- settling ---- */

static void end_reads(struct g4_wg *wg, struct g4_set *set, struct g4_drain_batch *b)
{
	for (uint32_t n = 0; n < b->count && b->reading; n++)
		(void)g4_row_end(wg, set, &b->rows[n], &b->transfers[n]);
	b->reading = false;
}

/* What is known of the rows is not right any more, or will not be. */
static void forget_ahead(struct g4_wg *wg, struct g4_set *set)
{
	struct g4_drain_batch *b = &set->parity->drain->batch;

	end_reads(wg, set, b);
	b->taken = b->logged = false;
}

/* Nothing of them is held then, unless a disk failed that can not be done without. */
static int end_writes(struct g4_wg *wg, struct g4_set *set, const struct g4_row *rows, struct g4_row_io *transfers,
		      uint32_t count)
{
	int rc = 0;

	for (uint32_t n = 0; n < count; n++) {
		const uint64_t failed = g4_row_end(wg, set, &rows[n], &transfers[n]);
		const int one = g4_row_drop(wg, set, &rows[n], failed);
		rc = rc == 0 ? one : rc;
	}
	for (uint32_t n = 0; n < count && rc == 0; n++)
		g4_set_held_drop(set, &rows[n]);
	return rc;
}

/* Waits for one half. */
static int end_behind(struct g4_wg *wg, struct g4_set *set, struct g4_drain_behind *b)
{
	const int rc = end_writes(wg, set, b->rows, b->transfers, b->count);

	for (uint32_t n = 0; n < b->count && rc < 0; n++)
		g4_set_held_note_logged(set, &b->rows[n], false);
	b->count = 0;
	return rc;
}

static uint8_t *behind_page(const struct g4_set *set, uint32_t half, uint32_t row, uint32_t column)
{
	return set->parity->behind +
	       (uint64_t)((half * G4_PARITY_BEHIND_ROWS + row) * G4_ROW_COLUMNS + column) * G4_PAGE_BYTES;
}

/* What was gathered begins to be written, when the other half is in place, which gathers then. */
static int begin_behind(struct g4_wg *wg, struct g4_set *set)
{
	struct g4_set_drain *d = set->parity->drain;
	struct g4_drain_behind *b = &d->behind[d->turn];
	struct g4_row_lists lists = {.first = {NULL}};
	const int rc = end_behind(wg, set, &d->behind[1 - d->turn]);

	for (uint32_t n = 0; n < b->count; n++) {
		uint8_t *memory[G4_ROW_COLUMNS];
		for (uint32_t c = 0; c < G4_ROW_COLUMNS; c++)
			memory[c] = behind_page(set, d->turn, n, c);
		g4_row_prepare(set, &b->rows[n], G4_IO_WRITE, 0, b->columns[n], memory, &b->transfers[n], &lists);
		b->transfers[n].logged = true;
	}
	g4_row_submit(wg, set, &lists);
	d->turn = 1 - d->turn;
	return rc;
}

int g4_rows_settle_behind(struct g4_wg *wg, struct g4_set *set)
{
	struct g4_set_drain *d = set->parity->drain;
	const int first = d->behind[0].count + d->behind[1].count ? begin_behind(wg, set) : 0;
	const int second = end_behind(wg, set, &d->behind[1 - d->turn]);

	return first < 0 ? first : second;
}

/* Before the log is emptied: and nothing relies on what it has. */
static int settle_logged(struct g4_wg *wg, struct g4_set *set)
{
	if (set->parity->drain->batch.logged)
		forget_ahead(wg, set);
	return g4_rows_settle_behind(wg, set);
}

int g4_rows_settle(struct g4_wg *wg, struct g4_set *set)
{
	forget_ahead(wg, set);
	return g4_rows_settle_behind(wg, set);
}

static bool has_some(const struct g4_row *list, uint32_t count, const struct g4_row *rows)
{
	for (uint32_t n = 0; n < count; n++)
		if (list[n].chunk == rows->chunk && list[n].stripe == rows->stripe &&
		    list[n].within < rows->within + rows->bytes && rows->within < list[n].within + list[n].bytes)
			return true;
	return false;
}

/* Whether something of these rows is on its way to its place. */
static bool is_behind(const struct g4_set *set, const struct g4_row *rows)
{
	const struct g4_set_drain *d = set->parity->drain;

	return has_some(d->behind[0].rows, d->behind[0].count, rows) ||
	       has_some(d->behind[1].rows, d->behind[1].count, rows);
}

int g4_rows_settle_for(struct g4_wg *wg, struct g4_set *set, const struct g4_row *rows)
{
	const struct g4_drain_batch *batch = &set->parity->drain->batch;

	return has_some(batch->rows, batch->taken ? batch->count : 0, rows) || is_behind(set, rows) ?
		       g4_rows_settle(wg, set) :
		       0;
}

void g4_rows_lock(struct g4_wg *wg, struct g4_set *set)
{
	pthread_rwlock_wrlock(&set->parity->lock);
	(void)g4_rows_settle(wg, set); /* where a disk is lost that can not be done without, the set is stuck */
}

struct g4_row g4_rows_lock_shared(struct g4_wg *wg, struct g4_set *set, uint64_t address, uint64_t bytes,
				  uint32_t *column)
{
	for (;;) { /* chunks may be others each time */
		pthread_rwlock_rdlock(&set->parity->lock);
		const struct g4_chunk *chunk = g4_chunk_find(&set->map, address);
		if (!chunk->parity)
			return (struct g4_row){.chunk = chunk};
		const struct g4_row row = g4_row_at(&set->map, address, bytes, column);
		if (!is_behind(set, &row)) /* what is read ahead only reads */
			return row;
		pthread_rwlock_unlock(&set->parity->lock);
		g4_rows_lock(wg, set);
		pthread_rwlock_unlock(&set->parity->lock);
	}
}

/* ---- draining ---- */

static bool is_metadata(const struct g4_set *set, const struct g4_row *row, uint32_t column, const uint8_t *page)
{
	const uint64_t at = row->stripe * g4_chunk_data_columns(row->chunk) + column;
	uint64_t generation;

	memcpy(set->parity->kept, page, G4_PAGE_BYTES);
	return g4_block_is_whole(set->parity->kept,
				 g4_address_from(row->chunk->address + at * row->chunk->stripe_bytes + row->within),
				 set->parity->tag, &generation);
}

/* A column as one version makes it, of a row of one page that was read but for `lost`, into `to`. False: it makes none. */
static bool make_version(struct g4_wg *wg, const struct g4_row *row, uint32_t column, uint64_t lost,
			 uint8_t *const *have, uint8_t *to)
{
	uint8_t *columns[G4_ROW_COLUMNS];

	for (uint32_t c = 0; c < row->chunk->columns; c++)
		columns[c] = c == column ? to : (lost >> c & 1) ? NULL : have[c];
	return g4_row_reconstruct(wg, row->chunk, lost, columns, G4_PAGE_BYTES);
}

/*
 * What parity has of a column that is written over, into `to`: a version that is metadata in its place; or what each of several parities makes of it, which is
 * another than what is there, and then nothing else of the row is wrong. False: what is there, as far as anybody can tell.
 */
static bool find_old(struct g4_wg *wg, struct g4_set *set, const struct g4_row *row, uint32_t column, uint64_t lost,
		     uint8_t *const *have, uint8_t *to)
{
	uint8_t *made = to + G4_PAGE_BYTES; /* by the first parity */
	uint32_t same = 0;
	uint64_t without;

	for (uint32_t v = 0; g4_row_lost_to(row, column, v, &without); v++) {
		if (!make_version(wg, row, column, without | lost, have, to))
			continue;
		if (is_metadata(set, row, column, to))
			return true;
		if (v == 0 && memcmp(to, have[column], G4_PAGE_BYTES) == 0) /* as where there was no metadata before */
			return false;
		if (v == 0)
			memcpy(made, to, G4_PAGE_BYTES);
		same += v < row->chunk->parity && same == v && memcmp(made, to, G4_PAGE_BYTES) == 0;
	}
	if (row->chunk->parity == 1 || same < row->chunk->parity)
		return false;
	memcpy(to, made, G4_PAGE_BYTES);
	return true;
}

/*
 * What was there before of metadata that is written over may have rotted, as after a crash, when the journal brings home what it has. Parity that is changed by it would not make the
 * new page. It is known as that: it is no metadata, and a version is, or several parities agree about it. *old[] is what parity has then.
 */
static void mend_old(struct g4_wg *wg, struct g4_set *set, const struct g4_row *row, uint64_t given,
		     uint8_t *const *now, uint8_t *const *old)
{
	const uint32_t count = row->chunk->columns;
	uint8_t *memory = NULL, *have[G4_ROW_COLUMNS];
	uint64_t suspected = 0;

	for (uint32_t c = 0; c < g4_chunk_data_columns(row->chunk) && row->bytes == G4_PAGE_BYTES; c++)
		if ((given >> c & 1) && is_metadata(set, row, c, now[c]) && !is_metadata(set, row, c, old[c]))
			suspected |= UINT64_C(1) << c;
	if (!suspected || posix_memalign((void **)&memory, G4_PAGE_BYTES, (count + 2) * G4_PAGE_BYTES) != 0)
		return;
	for (uint32_t c = 0; c < count; c++)
		have[c] = memory + c * G4_PAGE_BYTES;
	uint8_t *made = memory + count * G4_PAGE_BYTES;
	const uint64_t lost = g4_row_transfer(wg, set, row, G4_IO_READ, 0, g4_row_mask(count), have);
	for (uint32_t c = 0; suspected >> c != 0; c++)
		if ((suspected >> c & 1) && find_old(wg, set, row, c, lost, have, made))
			memcpy(old[c], made, G4_PAGE_BYTES);
	free(memory);
}

/* Whether a row that was read but for `lost`, which is made then, fits together. `made`: room for its parities. */
static bool fits(struct g4_wg *wg, const struct g4_row *row, uint64_t lost, uint8_t *const *have, uint8_t *made)
{
	const uint32_t k = g4_chunk_data_columns(row->chunk);
	uint8_t *columns[G4_ROW_COLUMNS];
	bool same = g4_row_reconstruct(wg, row->chunk, lost, have, G4_PAGE_BYTES);

	for (uint32_t c = 0; c < row->chunk->columns; c++)
		columns[c] = c < k ? have[c] : made + (c - k) * G4_PAGE_BYTES;
	g4_row_encode(wg, row->chunk, columns, G4_PAGE_BYTES);
	for (uint32_t c = k; c < row->chunk->columns && same; c++)
		same = memcmp(columns[c], have[c], G4_PAGE_BYTES) == 0;
	return same;
}

/* Columns of data beside those that were lost, that are no metadata in their places, and by a version are: they are that in have[] then. */
static bool mend_metadata(struct g4_wg *wg, struct g4_set *set, const struct g4_row *row, uint64_t lost,
			  uint8_t *const *have, uint8_t *made)
{
	bool mended = false;
	uint64_t without;

	for (uint32_t c = 0; c < g4_chunk_data_columns(row->chunk); c++) {
		bool whole = (lost >> c & 1) || is_metadata(set, row, c, have[c]);
		for (uint32_t v = 0; !whole && g4_row_lost_to(row, c, v, &without); v++) {
			whole = make_version(wg, row, c, without | lost, have, made) && is_metadata(set, row, c, made);
			if (whole)
				memcpy(have[c], made, G4_PAGE_BYTES);
			mended |= whole;
		}
	}
	return mended;
}

/*
 * What was there before of columns that could not be read, as on a disk that is missing, is made of the others of the row, of which a page may have rotted. With parity that is
 * changed by that the new page is made by what has rotted, and is lost when that is mended. Such a page is known where it is metadata, and more parities are left than make up
 * for what is missing. *old[] is what they make then.
 */
static void mend_made(struct g4_wg *wg, struct g4_set *set, const struct g4_row *row, uint64_t given, uint64_t failed,
		      uint8_t *const *old)
{
	const uint32_t count = row->chunk->columns, k = g4_chunk_data_columns(row->chunk);
	uint8_t *memory = NULL, *have[G4_ROW_COLUMNS];

	if (!(given & failed) || row->bytes != G4_PAGE_BYTES ||
	    (uint32_t)__builtin_popcountll(failed) >= row->chunk->parity ||
	    posix_memalign((void **)&memory, G4_PAGE_BYTES, (count + row->chunk->parity) * G4_PAGE_BYTES) != 0)
		return;
	for (uint32_t c = 0; c < count; c++)
		have[c] = memory + c * G4_PAGE_BYTES;
	uint8_t *made = memory + count * G4_PAGE_BYTES;
	const uint64_t lost = g4_row_transfer(wg, set, row, G4_IO_READ, 0, g4_row_mask(count), have);
	if ((uint32_t)__builtin_popcountll(lost) < row->chunk->parity && !fits(wg, row, lost, have, made) &&
	    mend_metadata(wg, set, row, lost, have, made) &&
	    g4_row_reconstruct(wg, row->chunk, lost, have, G4_PAGE_BYTES))
		for (uint32_t c = 0; c < k; c++)
			if (given >> c & 1)
				memcpy(old[c], have[c], G4_PAGE_BYTES);
	free(memory);
}

/* The parities of rows that get these columns, from what was there before, of which some can not be read: into `now`. */
static int change_parity(struct g4_wg *wg, struct g4_set *set, const struct g4_row *rows, uint64_t given,
			 uint64_t failed, uint8_t *const *now)
{
	const uint32_t k = g4_chunk_data_columns(rows->chunk), count = rows->chunk->columns;
	uint8_t *old[G4_ROW_COLUMNS];
	uint64_t parity = 0;

	g4_row_offset_columns(old, set->parity->columns + G4_ROW_COLUMNS, count, rows->within);
	for (uint32_t c = k; c < count; c++) {
		old[c] = now[c]; /* changed where it is */
		parity |= (uint64_t)g4_row_has(set, rows, c) << c;
	}
	const int rc = parity ? g4_row_read(wg, set, rows, given | parity, 0, old) : 0;
	if (rc == 0 && parity) {
		mend_made(wg, set, rows, given, failed, old);
		mend_old(wg, set, rows, given, now, old);
		g4_row_change(wg, rows->chunk, given, old, now, rows->bytes);
	}
	return rc;
}

/* Their parities. What could not be read, or is on a disk that is not there, is made of others, row by row. */
static int make_parities(struct g4_wg *wg, struct g4_set *set, struct g4_drain_batch *b)
{
	int rc = 0;

	end_reads(wg, set, b);
	for (uint32_t n = 0; n < b->count; n++)
		if (!b->transfers[n].failed) {
			mend_old(wg, set, &b->rows[n], b->given[n], b->now[n], b->old[n]);
			g4_row_change(wg, b->rows[n].chunk, b->given[n], b->old[n], b->now[n], b->rows[n].bytes);
		}
	for (uint32_t n = 0; n < b->count && rc == 0; n++) {
		if (!b->transfers[n].failed)
			continue;
		rc = change_parity(wg, set, &b->rows[n], b->given[n], b->transfers[n].failed, b->now[n]);
		if (rc < 0) /* where the old pages can not be had, but those that stay can */
			rc = g4_row_make_parity(wg, set, &b->rows[n], b->given[n], b->now[n]);
	}
	return rc;
}

/* They are in the log, durably. No flush is asked for what goes to their places before the log is emptied, which flushes all disks. */
static int write_now(struct g4_wg *wg, struct g4_set *set, struct g4_drain_batch *b)
{
	struct g4_row_lists lists = {.first = {NULL}};

	for (uint32_t n = 0; n < b->count; n++) {
		g4_row_prepare(set, &b->rows[n], G4_IO_WRITE, 0, b->given[n] | parities_of(&b->rows[n]), b->now[n],
			       &b->transfers[n], &lists);
		b->transfers[n].logged = true;
	}
	g4_row_submit(wg, set, &lists);
	return end_writes(wg, set, b->rows, b->transfers, b->count);
}

/* The same, and nobody waits: of a few rows, for they are requests that others may have to wait for. */
static int write_behind(struct g4_wg *wg, struct g4_set *set, const struct g4_drain_batch *from)
{
	struct g4_set_drain *d = set->parity->drain;
	const int rc = d->behind[d->turn].count + from->count > G4_PARITY_BEHIND_ROWS ? begin_behind(wg, set) : 0;
	struct g4_drain_behind *b = &d->behind[d->turn];

	if (rc < 0)
		return rc;
	for (uint32_t n = 0; n < from->count; n++) {
		const uint32_t at = b->count++;
		b->rows[at] = from->rows[n];
		b->columns[at] = from->given[n] | parities_of(&from->rows[n]);
		for (uint32_t c = 0; c < from->rows[n].chunk->columns; c++)
			if (b->columns[at] >> c & 1)
				memcpy(behind_page(set, d->turn, at, c), from->now[n][c], G4_PAGE_BYTES);
		g4_set_held_note_logged(set, &from->rows[n], true);
	}
	return 0;
}

void g4_set_drain_log(struct g4_wg *wg, struct g4_set *set)
{
	struct g4_drain_batch *b = &set->parity->drain->batch;

	if (pthread_rwlock_trywrlock(&set->parity->lock) != 0)
		return;
	if (b->taken && !b->logged && b->count <= G4_PARITY_BEHIND_ROWS && count_fresh(set) == b->count) {
		b->logged = make_parities(wg, set, b) == 0 &&
			    g4_set_log_pages(wg, set, b->rows, b->count, b->places, b->pages, G4_LOG_LOOSE) == 0;
		b->taken = b->logged; /* what failed is tried again by the flush, which tells it */
	}
	pthread_rwlock_unlock(&set->parity->lock);
}

int g4_rows_drain(struct g4_wg *wg, struct g4_set *set, bool flush)
{
	struct g4_drain_batch *b = &set->parity->drain->batch;
	uint32_t at = 0;
	int rc = 0;

	while (rc == 0 && count_fresh(set) > 0) {
		if (!b->taken)
			take_rows(wg, set, b, &at);
		const bool last = count_fresh(set) == b->count;
		if (b->logged) {
			rc = g4_set_log_settle(wg, set);
			if (rc == 0 && !b->logged) { /* a disk has failed at that, and the log was emptied */
				at = 0;
				continue;
			}
		} else {
			rc = make_parities(wg, set, b);
			if (rc == 0)
				rc = g4_set_log_pages(wg, set, b->rows, b->count, b->places, b->pages,
						      flush && last ? G4_LOG_FLUSH : G4_LOG_FUA);
		}
		b->taken = b->logged = false;
		if (rc == 0)
			rc = b->count <= G4_PARITY_BEHIND_ROWS ? write_behind(wg, set, b) : write_now(wg, set, b);
	}
	return rc;
}

int g4_rows_empty(struct g4_wg *wg, struct g4_set *set)
{
	int rc = g4_rows_drain(wg, set, false);

	if (rc == 0)
		rc = g4_set_log_empty(wg, set); /* which has all of them go to their places, and flushes */
	if (rc < 0)
		return rc;
	assert(!g4_set_held_any(set) && !set->parity->drain->batch.taken && set->parity->row_count == 0 &&
	       set->parity->mark_count == 0);
	set->parity->next_chunk = NULL;
	return 0;
}

int g4_set_parity_flush(struct g4_wg *wg, struct g4_set *set)
{
	int rc = set->dev.props.read_only ? -G4_E_DEV_READONLY : 0;

	pthread_rwlock_wrlock(&set->parity->lock);
	const bool alone = !g4_set_grants_any(set); /* else somebody may write what the flush leaves out */
	if (rc == 0)
		rc = count_fresh(set) > 0 ? g4_rows_drain(wg, set, true) : g4_set_log_flush(wg, set);
	if (rc == 0 && alone)
		g4_set_log_flushed(wg, set);
	pthread_rwlock_unlock(&set->parity->lock);
	return rc;
}
