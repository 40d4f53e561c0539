/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows with parity: k pages of data, one of each column of a stripe, and m of parity (parity/parity.h). A crash at any request, with any
 * m disks lost in it, leaves every page that was not being written as it was (set_log_host.c says why):
 *
 *   - New parity is made of the new pages and of the others as they are on their disks, never from the old parity: so what an older
 *     crash left wrong in a row of which nothing was in use does not outlive the first write to it, and mkfs writes no parity.
 *   - A disk that is missing has what the others make of it. Its new contents are those of the parity that is written.
 *   - A disk that fails a write is dropped before the request is done. Any error counts: a page that is old beside its new parity would
 *     make others wrong.
 *
 * Writers exclude each other and readers that make lost pages; who reads from a disk itself asks nobody.
 */
#define _GNU_SOURCE 1

#include <stdlib.h>

#include "base/log_host.h"
#include "space/set_rows_host.h"

/* ---- writing ---- */

static void offset_columns(uint8_t *to[G4_ROW_COLUMNS], uint8_t *const *from, uint32_t count, uint64_t offset)
{
	for (uint32_t c = 0; c < count; c++)
		to[c] = from[c] + offset;
}

/* Rows of which some pages stay: through the log, as many at a time as it has room for. `now` has all columns. */
static int write_logged(struct g4_wg *wg, struct g4_set *set, const struct g4_row *rows, uint64_t changed,
			uint8_t *const *now, uint32_t flags)
{
	uint64_t places[G4_PARITY_LOG_SLOTS];
	const uint8_t *from[G4_PARITY_LOG_SLOTS];
	const uint32_t columns = (uint32_t)__builtin_popcountll(changed), most = g4_set_log_room(set) / columns;
	int rc = 0;

	for (uint64_t done = 0; done < rows->bytes && rc == 0;) {
		struct g4_row row = *rows;
		uint8_t *here[G4_ROW_COLUMNS];
		uint32_t count = 0;
		row.within += done;
		row.bytes = g4_min64(rows->bytes - done, most * G4_PAGE_BYTES);
		offset_columns(here, now, row.chunk->columns, done);
		for (uint32_t c = 0; c < row.chunk->columns; c++) {
			const uint64_t place = g4_row_place(&row, c);
			if (!(changed >> c & 1) || !g4_set_is_active(set, g4_place_disk(place)))
				continue;
			for (uint64_t at = 0; at < row.bytes; at += G4_PAGE_BYTES, count++) {
				places[count] = place + at;
				from[count] = here[c] + at;
			}
		}
		rc = g4_set_log_pages(wg, set, &row, places, from, count);
		if (rc == 0)
			rc = g4_row_write(wg, set, &row, flags, changed, here);
		done += row.bytes;
	}
	return rc;
}

/* Rows that get these columns, which are in p->columns. */
static int write_rows(struct g4_wg *wg, struct g4_set *set, const struct g4_row *rows, uint64_t given, uint32_t flags)
{
	const struct g4_set_parity *p = set->parity;
	const uint32_t k = g4_chunk_data_columns(rows->chunk), count = rows->chunk->columns;
	const uint64_t parity = g4_row_mask(count) & ~g4_row_mask(k), kept = g4_row_mask(k) & ~given;
	uint8_t *now[G4_ROW_COLUMNS], *memory[G4_ROW_COLUMNS];
	int rc = 0;

	offset_columns(now, p->columns, count, rows->within);
	if (kept) {
		offset_columns(memory, p->columns + G4_ROW_COLUMNS, count, rows->within);
		for (uint32_t c = 0; c < k; c++)
			memory[c] = kept >> c & 1 ? now[c] : memory[c];
		rc = g4_row_read(wg, set, rows, kept, 0, memory);
	}
	if (rc < 0)
		return rc;
	g4_row_encode(wg, rows->chunk, now, rows->bytes);
	if (!set->has_super) /* it is being made: no crash leaves a file system of it */
		return g4_row_write(wg, set, rows, flags, given | parity, now);
	if (kept)
		return write_logged(wg, set, rows, given | parity, now, flags);
	rc = g4_set_log_mark(wg, set, rows);
	return rc == 0 ? g4_row_write(wg, set, rows, flags, given | parity, now) : rc;
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

int g4_set_parity_write(struct g4_wg *wg, struct g4_set *set, uint64_t address, uint64_t bytes,
			const struct g4_iov *iovs, uint32_t parts, uint32_t flags)
{
	const struct g4_chunk *chunk = g4_chunk_find(&set->map, address);
	const uint64_t stripe_bytes = (uint64_t)chunk->stripe_bytes * g4_chunk_data_columns(chunk);
	struct cursor at = {.iovs = iovs};
	int rc = 0;

	(void)parts;
	if ((address | bytes) % G4_PAGE_BYTES != 0)
		return -G4_E_DEV_ALIGN;
	pthread_rwlock_wrlock(&set->parity->lock);
	for (uint64_t pos = address - chunk->address, end = pos + bytes; pos < end && rc == 0;) {
		const uint64_t stripe = pos / stripe_bytes, begin = stripe * stripe_bytes,
			       to = g4_min64(end, begin + stripe_bytes);
		rc = write_stripe(wg, set, chunk, stripe, pos - begin, to - begin, &at, flags & G4_IO_FUA);
		pos = to;
	}
	pthread_rwlock_unlock(&set->parity->lock);
	return rc;
}

/* ---- reading ---- */

static struct g4_row row_at(const struct g4_set *set, uint64_t address, uint64_t bytes, uint32_t *column)
{
	const struct g4_chunk *chunk = g4_chunk_find(&set->map, address);
	const uint64_t index = (address - chunk->address) / chunk->stripe_bytes;
	const uint32_t k = g4_chunk_data_columns(chunk);

	*column = (uint32_t)(index % k);
	return (struct g4_row){chunk, index / k, (address - chunk->address) % chunk->stripe_bytes, bytes};
}

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

int g4_set_parity_read(struct g4_wg *wg, struct g4_set *set, uint64_t address, uint64_t bytes,
		       const struct g4_iov *iovs, uint32_t parts, uint32_t only)
{
	uint8_t *columns[G4_ROW_COLUMNS];
	struct cursor at = {.iovs = iovs};
	uint64_t lost = 0;
	uint32_t column;
	const struct g4_row row = row_at(set, address, bytes, &column);
	const uint32_t k = g4_chunk_data_columns(row.chunk);

	(void)parts;
	if (only != G4_ANY_PARITY) {
		if (only >= row.chunk->parity)
			return -G4_E_NOENT;
		lost = UINT64_C(1) << column | (g4_row_mask(row.chunk->parity) << k & ~(UINT64_C(1) << (k + only)));
	}
	uint8_t *memory = take_columns(row.chunk->columns, bytes, columns);
	if (!memory)
		return -G4_E_NOMEM;
	pthread_rwlock_rdlock(&set->parity->lock);
	const int rc = g4_row_read(wg, set, &row, UINT64_C(1) << column, lost, columns);
	pthread_rwlock_unlock(&set->parity->lock);
	if (rc == 0)
		move(&at, columns[column], bytes, true);
	free(memory);
	return rc;
}

/* ---- mending and making again ---- */

int g4_set_parity_mend(struct g4_wg *wg, struct g4_set *set, uint64_t address, uint64_t bytes,
		       const struct g4_iov *iovs, uint32_t parts)
{
	uint8_t *columns[G4_ROW_COLUMNS];
	struct cursor at = {.iovs = iovs};
	uint32_t column;
	const struct g4_row row = row_at(set, address, bytes, &column);
	const uint32_t disk = g4_place_disk(g4_row_place(&row, column));

	(void)parts;
	if (!g4_set_is_active(set, disk))
		return -G4_E_NOENT;
	uint8_t *memory = take_columns(row.chunk->columns, bytes, columns);
	if (!memory)
		return -G4_E_NOMEM;
	move(&at, columns[column], bytes, false);
	pthread_rwlock_wrlock(&set->parity->lock);
	const uint64_t failed = g4_row_transfer(wg, set, &row, G4_IO_WRITE, 0, UINT64_C(1) << column, columns);
	pthread_rwlock_unlock(&set->parity->lock);
	free(memory);
	if (failed)
		return -G4_E_IO;
	g4_set_count_mended(set, disk, bytes / G4_PAGE_BYTES);
	return 0;
}

int g4_set_parity_lost(struct g4_wg *wg, struct g4_set *set, const struct g4_chunk *chunk, uint64_t stripe,
		       uint32_t place, uint8_t *to)
{
	const uint32_t column = (uint32_t)((place + chunk->columns - stripe % chunk->columns) % chunk->columns);
	const struct g4_row row = {chunk, stripe, 0, chunk->stripe_bytes};
	uint8_t *columns[G4_ROW_COLUMNS];

	memcpy(columns, set->parity->columns, sizeof(columns));
	columns[column] = to;
	return g4_row_read(wg, set, &row, UINT64_C(1) << column, UINT64_C(1) << column, columns);
}

/* Parity of whole stripes is made anew from data; what is lost of that, from the first parities. */
static int remake_parity(struct g4_wg *wg, struct g4_set *set, const struct g4_chunk *chunk, uint64_t from,
			 uint64_t bytes)
{
	const struct g4_set_parity *p = set->parity;
	const uint32_t k = g4_chunk_data_columns(chunk);
	const uint64_t end = g4_min64(from + bytes, chunk->place_bytes),
		       parity = g4_row_mask(chunk->columns) & ~g4_row_mask(k);
	int rc = 0;

	for (uint64_t at = from; at < end && rc == 0; at += chunk->stripe_bytes) {
		const struct g4_row row = {chunk, at / chunk->stripe_bytes, 0, chunk->stripe_bytes};
		uint64_t differ = 0;
		if (g4_row_read(wg, set, &row, g4_row_mask(k), 0, p->columns) < 0) {
			g4_log(G4_LOG_WARN, "parity of %llu bytes can not be made again",
			       (unsigned long long)row.bytes);
			continue;
		}
		g4_row_encode(wg, chunk, p->columns, row.bytes);
		const uint64_t failed =
			g4_row_transfer(wg, set, &row, G4_IO_READ, 0, parity, p->columns + G4_ROW_COLUMNS);
		for (uint32_t c = k; c < chunk->columns; c++)
			if ((failed >> c & 1) || memcmp(p->columns[c], p->columns[G4_ROW_COLUMNS + c], row.bytes) != 0)
				differ |= UINT64_C(1) << c;
		if (differ)
			rc = g4_row_write(wg, set, &row, 0, differ, p->columns);
	}
	return rc;
}

int g4_set_parity_recover(struct g4_wg *wg, struct g4_set *set)
{
	const struct g4_chunk *chunk;
	uint64_t page = 1, from;

	set->parity->tag = g4_superblock_tag(set->super);
	int rc = g4_set_log_load(wg, set);

	if (rc == 0 && set->parity->old_end == 1)
		g4_set_log_forget(set);
	if (rc < 0 || set->parity->old_end == 1 || set->dev.props.read_only)
		return rc;
	if (g4_load32_acq(&set->unrecorded))
		rc = g4_set_record_missing(wg, set);
	if (rc == 0)
		rc = g4_set_log_replay(wg, set);
	while (rc == 0 && g4_set_log_next_mark(set, &page, &chunk, &from))
		rc = remake_parity(wg, set, chunk, from, G4_PARITY_REGION_BYTES);
	if (rc == 0)
		rc = g4_set_log_empty(wg, set);
	if (rc == 0)
		g4_set_log_forget(set);
	return rc;
}
