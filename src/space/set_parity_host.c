/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows with parity: k pages of data, one of each column of a stripe, and m of parity (parity/parity.h). A crash at any request, with any
 * m disks lost in it, leaves every page that was not being written as it was (set_log_host.c says why):
 *
 *   - Rows of which some pages stay get their new parity from the old one and the pages that change, old and new. So pages that stay are
 *     not looked at: one that has rotted meanwhile is still made right by parity, for the reader that finds it. A page that
 * changes may have
 *     rotted as well; then parity is as wrong as it was before, and a scrub's matter. This needs parity that is right, wherever
 *     something was not written yet: the map (set_check_host.c).
 *   - Rows that are written as a whole get parity of the new pages alone.
 *   - A disk that is missing has what the others make of it. Its new contents are those of the parity that is written.
 *   - A disk that fails a write is dropped before the request is done. Any error counts: a page that is old beside its new parity would
 *     make others wrong.
 *
 * Writers exclude each other and readers that make lost pages; readers of a disk itself take no lock. Small writes are held back, and
 * go to their places from set_drain_host.c.
 */
#define _GNU_SOURCE 1

#include <stdlib.h>

#include "space/set_drain_host.h"
#include "space/set_granted_host.h"
#include "space/set_taken_host.h"

/* ---- writing ---- */

/* What disks are asked for of a request's flags. */
static uint32_t disk_flags(uint32_t flags)
{
	return flags & (G4_IO_FUA | G4_IO_CLASS_MASK);
}

/* All data of rows, in p->columns. */
static int write_whole(struct g4_wg *wg, struct g4_set *set, const struct g4_row *rows, uint32_t flags)
{
	const uint64_t from = rows->stripe * rows->chunk->stripe_bytes + rows->within;
	uint8_t *now[G4_ROW_COLUMNS];
	int rc = g4_set_log_mark(wg, set, rows->chunk, from, from + rows->bytes, (flags & G4_IO_IN_USE) != 0);

	g4_row_offset_columns(now, set->parity->columns, rows->chunk->columns, rows->within);
	g4_row_encode(wg, rows->chunk, now, rows->bytes);
	if (rc == 0) /* no older page of these rows may still be on its way, nor what they replace be known already */
		rc = g4_rows_settle_for(wg, set, rows);
	if (rc == 0)
		rc = g4_row_write(wg, set, rows, disk_flags(flags), g4_row_mask(rows->chunk->columns), now);
	if (rc == 0) /* not before: a reader meanwhile may have what was held */
		g4_set_held_drop(set, rows);
	return rc;
}

/* Rows that are held, and may have become whole by what came last: those that are, are written. */
static int write_held(struct g4_wg *wg, struct g4_set *set, const struct g4_row *rows, uint32_t flags)
{
	uint8_t *now[G4_ROW_COLUMNS];
	int rc = 0;

	for (uint64_t at = 0, some; at < rows->bytes && rc == 0; at += some ? some : G4_PAGE_BYTES) {
		bool in_use;
		struct g4_row row = {rows->chunk, rows->stripe, rows->within + at, rows->bytes - at};
		g4_row_offset_columns(now, set->parity->columns, row.chunk->columns, row.within);
		some = row.bytes = g4_set_held_whole(set, &row, now, &in_use);
		if (some)
			rc = write_whole(wg, set, &row, flags | (in_use ? G4_IO_IN_USE : 0));
	}
	return rc;
}

/* Rows that get these columns, which are in p->columns. */
static int write_rows(struct g4_wg *wg, struct g4_set *set, const struct g4_row *rows, uint64_t given, uint32_t flags)
{
	const uint32_t k = g4_chunk_data_columns(rows->chunk), count = rows->chunk->columns;
	uint8_t *now[G4_ROW_COLUMNS];
	int rc = 0;

	g4_row_offset_columns(now, set->parity->columns, count, rows->within);
	if (!set->has_super) { /* it is being made: no crash leaves a file system of it */
		rc = g4_row_make_parity(wg, set, rows, given, now);
		return rc < 0 ? rc :
				g4_row_write(wg, set, rows, disk_flags(flags),
					     given | (g4_row_mask(count) & ~g4_row_mask(k)), now);
	}
	if (given == g4_row_mask(k))
		return write_whole(wg, set, rows, flags);
	for (uint64_t done = 0, some; done < rows->bytes && rc == 0; done += some) {
		const struct g4_row row = {rows->chunk, rows->stripe, rows->within + done, rows->bytes - done};
		g4_row_offset_columns(now, set->parity->columns, count, row.within);
		rc = g4_rows_settle_for(wg, set, &row);
		if (rc < 0)
			return rc;
		some = g4_set_held_add(set, &row, given, now, (flags & G4_IO_IN_USE) != 0);
		if (some < row.bytes)
			rc = g4_rows_drain(wg, set, false);
	}
	return rc == 0 ? write_held(wg, set, rows, flags) : rc;
}

/* Before a part of a chunk's data is written: what of its rows are written as a whole is marked at once. */
static int prepare(struct g4_wg *wg, struct g4_set *set, const struct g4_chunk *chunk, uint64_t from, uint64_t to,
		   uint32_t flags)
{
	const uint64_t stripe = g4_chunk_stripe_data(chunk), first = from / stripe, last = (to - 1) / stripe;
	uint64_t whole = (from + stripe - 1) / stripe, end = to / stripe;
	int rc;

	if (!set->has_super)
		return 0;
	rc = g4_rows_make(wg, set, chunk, first * chunk->stripe_bytes, (last + 1) * chunk->stripe_bytes);
	if (rc == 0 && whole < end)
		rc = g4_set_log_mark(wg, set, chunk, whole * chunk->stripe_bytes, end * chunk->stripe_bytes,
				     (flags & G4_IO_IN_USE) != 0);
	return rc;
}

/* Between memory in parts and memory in one piece. */
struct cursor {
	const struct g4_iov *iovs;
	uint64_t within;
};

static void move(struct cursor *at, uint8_t *memory, uint64_t bytes, bool out)
{
	while (bytes > 0) {
		const uint64_t some = g4_min64(bytes, at->iovs->bytes - at->within);
		uint8_t *part = (uint8_t *)at->iovs->base + at->within;
		memcpy(out ? part : memory, out ? memory : part, some);
		memory += some;
		bytes -= some;
		at->within += some;
		if (at->within == at->iovs->bytes) {
			at->iovs++;
			at->within = 0;
		}
	}
}

/* Bytes `from` to `to` of a stripe's data: rows that get the same columns together. */
static int write_stripe(struct g4_wg *wg, struct g4_set *set, const struct g4_chunk *chunk, uint64_t stripe,
			uint64_t from, uint64_t to, struct cursor *at, uint32_t flags)
{
	const uint64_t bytes = chunk->stripe_bytes, low = from % bytes, high = (to - 1) % bytes + 1;
	const uint32_t first = (uint32_t)(from / bytes), last = (uint32_t)((to - 1) / bytes);
	const uint64_t ends[4] = {first == last ? low : 0, first == last ? high : g4_min64(low, high),
				  first == last ? high : g4_max64(low, high), first == last ? high : bytes};
	int rc = 0;

	for (uint64_t pos = from; pos < to;) {
		const uint64_t some = g4_min64(bytes - pos % bytes, to - pos);
		move(at, set->parity->columns[pos / bytes] + pos % bytes, some, false);
		pos += some;
	}
	for (uint32_t part = 0; part < 3 && rc == 0; part++) {
		const struct g4_row rows = {chunk, stripe, ends[part], ends[part + 1] - ends[part]};
		uint64_t given = 0;
		for (uint32_t c = first; c <= last; c++)
			if ((c > first || rows.within >= low) && (c < last || rows.within < high))
				given |= UINT64_C(1) << c;
		if (given && rows.bytes > 0)
			rc = write_rows(wg, set, &rows, given, flags);
	}
	return rc;
}

/* Lock held. Of one chunk. */
static int write_chunk(struct g4_wg *wg, struct g4_set *set, const struct g4_chunk *chunk, uint64_t from, uint64_t to,
		       struct cursor *at, uint32_t flags)
{
	const uint64_t stripe_bytes = g4_chunk_stripe_data(chunk);
	int rc = prepare(wg, set, chunk, from, to, flags);

	for (uint64_t pos = from; pos < to && rc == 0;) {
		const uint64_t stripe = pos / stripe_bytes, begin = stripe * stripe_bytes,
			       end = g4_min64(to, begin + stripe_bytes);
		rc = write_stripe(wg, set, chunk, stripe, pos - begin, end - begin, at, flags);
		pos = end;
	}
	return rc;
}

int g4_set_parity_touch(struct g4_set *set, uint64_t address, uint64_t bytes)
{
	if (address < set->idle_to && set->idle_from < address + bytes)
		set->idle_from = set->idle_to = 0;
	g4_set_taken_write(set, address, bytes);
	g4_rows_untell(set, address, bytes);
	return g4_set_grants_await_some(set, address, bytes);
}

/* Lock held for writing. */
static int write_locked(struct g4_wg *wg, struct g4_set *set, uint64_t address, uint64_t bytes,
			const struct g4_iov *iovs, uint32_t flags)
{
	const uint64_t end = address + bytes;
	struct cursor at = {.iovs = iovs};
	int rc = g4_rows_uncut(wg, set);

	if (rc == 0)
		rc = g4_set_parity_touch(set, address, bytes);
	while (address < end && rc == 0) {
		const struct g4_chunk *chunk = g4_chunk_find(&set->map, address);
		const uint64_t to = g4_min64(end, chunk->address + chunk->bytes);
		rc = write_chunk(wg, set, chunk, address - chunk->address, to - chunk->address, &at,
				 disk_flags(flags) | (flags & G4_IO_IN_USE));
		address = to;
	}
	if (rc == 0 && (flags & G4_IO_FUA) && g4_set_held_any(set))
		rc = g4_rows_drain(wg, set, false);
	return rc;
}

int g4_set_parity_write(struct g4_wg *wg, struct g4_set *set, uint64_t address, uint64_t bytes,
			const struct g4_iov *iovs, uint32_t parts, uint32_t flags)
{
	(void)parts;
	if ((address | bytes) % G4_PAGE_BYTES != 0)
		return -G4_E_DEV_ALIGN;
	pthread_rwlock_wrlock(&set->parity->lock);
	const int rc = write_locked(wg, set, address, bytes, iovs, flags);
	pthread_rwlock_unlock(&set->parity->lock);
	return rc;
}

int g4_set_parity_fits(const struct g4_set *set, uint32_t parity, struct g4_dev_message message)
{
	if (set->count >= parity + 2)
		return 0;
	return g4_dev_fail(message, -G4_E_INVAL, "parity for the loss of %u needs at least %u devices; there are %u",
			   parity, parity + 2, set->count);
}

/* ---- reading ---- */

static uint8_t *take_columns(uint32_t count, uint64_t bytes, uint8_t *to[G4_ROW_COLUMNS])
{
	const uint64_t each = g4_align_up(bytes, G4_PAGE_BYTES);
	uint8_t *memory = NULL;

	if (posix_memalign((void **)&memory, G4_PAGE_BYTES, count * each) != 0)
		return NULL;
	for (uint32_t c = 0; c < count; c++)
		to[c] = memory + c * each;
	return memory;
}

/*
 * Lock held. Where a disk has failed that can not be done without, rows that the log has and that are held still may be half in place,
 * until the next open.
 */
static bool may_be_half(const struct g4_set *set, const struct g4_row *row)
{
	bool held = false;

	if (!g4_load32_acq(&set->stuck) || !g4_set_log_has(set, row))
		return false;
	for (uint32_t c = 0; c < g4_chunk_data_columns(row->chunk) && !held; c++)
		held = g4_set_held_has(set, row, c);
	return held;
}

/* Lock held. Of a row that is half in place what its disk has is all, for nothing can be made of the others. */
static int read_column(struct g4_wg *wg, struct g4_set *set, const struct g4_row *row, uint32_t column, uint64_t lost,
		       uint8_t *const *columns)
{
	const uint64_t wanted = UINT64_C(1) << column;

	if (!may_be_half(set, row))
		return g4_row_read(wg, set, row, wanted, lost, columns);
	return lost || g4_row_transfer(wg, set, row, G4_IO_READ, 0, wanted, columns) ? -G4_E_IO : 0;
}

int g4_set_parity_read(struct g4_wg *wg, struct g4_set *set, uint64_t address, uint64_t bytes,
		       const struct g4_iov *iovs, uint32_t parts, uint32_t only)
{
	uint8_t *columns[G4_ROW_COLUMNS], *memory = NULL;
	struct cursor at = {.iovs = iovs};
	int rc = -G4_E_NOENT;
	uint64_t lost = 0;
	uint32_t column;

	(void)parts;
	const struct g4_row row = g4_rows_lock_shared(wg, set, address, bytes, &column);
	if (!row.chunk->parity) {
		pthread_rwlock_unlock(&set->parity->lock);
		return -G4_E_AGAIN;
	}
	if (only == G4_ANY_PARITY || g4_row_lost_to(&row, column, only, &lost)) {
		memory = take_columns(row.chunk->columns, bytes, columns);
		rc = memory ? read_column(wg, set, &row, column, lost, columns) : -G4_E_NOMEM;
	}
	if (rc == 0 && only == G4_ANY_PARITY)
		g4_set_held_patch(set, &row, column, columns[column]);
	pthread_rwlock_unlock(&set->parity->lock);
	if (rc == 0)
		move(&at, columns[column], bytes, true);
	free(memory);
	return rc;
}

bool g4_set_parity_holds(const struct g4_set *set, const struct g4_chunk_map *map, uint64_t address, uint64_t bytes)
{
	uint32_t column;
	const struct g4_row row = g4_row_at(map, address, bytes, &column);

	return g4_set_held_has(set, &row, column);
}

/* ---- mending and making again ---- */

/* Lock held. Whether a version of the page that is in columns[column] is it, now. */
static bool is_remade(struct g4_wg *wg, struct g4_set *set, const struct g4_row *row, uint32_t column,
		      uint8_t *const *columns, uint8_t *buffer)
{
	uint8_t *memory[G4_ROW_COLUMNS];
	uint64_t lost;

	memcpy(memory, columns, row->chunk->columns * sizeof(memory[0]));
	memory[column] = buffer;
	for (uint32_t version = 0; g4_row_lost_to(row, column, version, &lost); version++)
		if (g4_row_read(wg, set, row, UINT64_C(1) << column, lost, memory) == 0 &&
		    memcmp(buffer, columns[column], row->bytes) == 0)
			return true;
	return false;
}

/* Whether the others make up for a column of data of this row. */
static bool lacks_data(const struct g4_set *set, const struct g4_row *row)
{
	for (uint32_t c = 0; c < g4_chunk_data_columns(row->chunk); c++)
		if (!g4_row_has(set, row, c))
			return true;
	return false;
}

/*
 * Lock held. The page in memory goes to its place. *disk: which it lies on.
 * What lies where the page is mended may be part of what parity has of a column that is missing: of one that was written since the page had rotted. So
 * with such a column parity changes with the page, as for any write, and all that is made of the row stays as it was; else the page alone is wrong.
 */
static int mend(struct g4_wg *wg, struct g4_set *set, uint64_t address, uint64_t bytes, const struct g4_iov *iovs,
		uint32_t *disk)
{
	uint8_t *columns[G4_ROW_COLUMNS + 1];
	struct cursor at = {.iovs = iovs};
	uint32_t column;
	int rc = -G4_E_NOENT;

	if (!g4_chunk_find(&set->map, address)->parity)
		return -G4_E_NOENT;
	const struct g4_row row = g4_row_at(&set->map, address, bytes, &column);
	if (!g4_row_has(set, &row, column))
		return -G4_E_NOENT;
	*disk = g4_place_disk(g4_row_place(&row, column));
	uint8_t *memory = take_columns(row.chunk->columns + 1, bytes, columns);
	if (!memory)
		return -G4_E_NOMEM;
	move(&at, columns[column], bytes, false);
	if (is_remade(wg, set, &row, column, columns, columns[row.chunk->columns]))
		rc = lacks_data(set, &row) ? write_locked(wg, set, address, bytes, iovs, G4_IO_IN_USE) :
		     g4_row_transfer(wg, set, &row, G4_IO_WRITE, 0, UINT64_C(1) << column, columns) ? -G4_E_IO :
												      0;
	free(memory);
	return rc;
}

int g4_set_parity_mend(struct g4_wg *wg, struct g4_set *set, uint64_t address, uint64_t bytes,
		       const struct g4_iov *iovs, uint32_t parts)
{
	uint32_t disk = 0;

	(void)parts;
	g4_rows_lock(wg, set);
	/* before rows that a crash has cut short are completed a version may be all that there is of a page */
	const int rc = set->parity->cut ? -G4_E_NOENT : mend(wg, set, address, bytes, iovs, &disk);
	pthread_rwlock_unlock(&set->parity->lock);
	if (rc == 0)
		g4_set_count_mended(set, disk, bytes / G4_PAGE_BYTES);
	return rc;
}

/* Lock held. */
static int make_lost(struct g4_wg *wg, struct g4_set *set, const struct g4_row *row, uint32_t column, uint8_t *to)
{
	uint8_t *columns[G4_ROW_COLUMNS];

	memcpy(columns, set->parity->columns, sizeof(columns));
	columns[column] = to;
	return g4_row_read(wg, set, row, UINT64_C(1) << column, UINT64_C(1) << column, columns);
}

/* Page by page where the stripe can not be made as a whole: of each page others may be the ones that can not be read. */
int g4_set_parity_lost(struct g4_wg *wg, struct g4_set *set, const struct g4_chunk *chunk, uint64_t stripe,
		       uint32_t place, uint8_t *to)
{
	const uint32_t column = (uint32_t)((place + chunk->columns - stripe % chunk->columns) % chunk->columns);
	struct g4_row row = {chunk, stripe, 0, chunk->stripe_bytes};
	int rc = make_lost(wg, set, &row, column, to);

	if (rc == 0)
		return 0;
	rc = 0;
	for (row.bytes = G4_PAGE_BYTES; row.within < chunk->stripe_bytes && rc == 0; row.within += G4_PAGE_BYTES)
		rc = make_lost(wg, set, &row, column, to + row.within);
	return rc;
}

/* What a crash has left in the log of a set that can not be written is no rot; nor is it looked for where the log is kept. */
static bool can_compare(const struct g4_set *set)
{
	return set->parity && set->parity->old_end <= 1 && !g4_load32_acq(&set->stuck);
}

int g4_set_parity_check(struct g4_wg *wg, struct g4_set *set, uint64_t address, uint64_t bytes)
{
	int rc = 0;

	if (bytes == 0 || !can_compare(set))
		return 0;
	g4_rows_lock(wg, set);
	rc = g4_rows_uncut(wg, set);
	if (rc == 0)
		rc = g4_set_grants_await(set);
	for (uint64_t at = address, end = address + bytes; at < end && rc >= 0;) {
		const struct g4_chunk *chunk = g4_chunk_find(&set->map, at);
		const uint64_t stripe = g4_chunk_stripe_data(chunk),
			       number = chunk->parity ? (at - chunk->address + stripe - 1) / stripe : 0;
		at = chunk->address + (chunk->parity ? number * stripe : chunk->bytes);
		if (at >= end || !chunk->parity || at == chunk->address + chunk->bytes)
			continue;
		const int one = g4_rows_compare(wg, set, chunk, number);
		rc = one < 0 || one > rc ? one : rc;
		at += stripe;
	}
	pthread_rwlock_unlock(&set->parity->lock);
	return rc > 0 ? -G4_E_PARITY : rc;
}

int g4_set_parity_recover(struct g4_wg *wg, struct g4_set *set, bool mounts)
{
	struct g4_set_parity *p = set->parity;

	p->tag = g4_superblock_tag(set->super);
	int rc = g4_set_log_load(wg, set);

	if (rc == 0 && p->old_end == 1)
		g4_set_log_forget(set);
	if (rc < 0 || p->old_end == 1 || set->dev.props.read_only)
		return rc;
	if (g4_load32_acq(&set->unrecorded))
		rc = g4_set_record_missing(wg, set);
	if (rc == 0)
		rc = g4_set_log_replay(wg, set);
	if (rc < 0)
		return rc;
	g4_set_log_load_marks(set);
	g4_set_log_forget(set);
	p->cut = true;
	return mounts && p->mark_count > 0 ? 0 : g4_rows_uncut(wg, set);
}
