/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage of the write pipeline in which data goes to the device, from lines of the cache or from memory. It waits for the
 * writes, not for their durability: that is publish's. What comes from memory that others may change gets its sums here: of what was
 * stored where the device is memory, and else of a copy that nobody changes, which is what is stored (bounce.c).
 */
#include "data/batch.h"
#include "data/bounce.h"

/* `pages` pages of a batch's segment in a row, as parts of a transfer. */
G4_FN static uint32_t make_parts(const struct g4_fs *fs, const struct g4_batch *batch, uint32_t first, uint32_t pages,
				 struct g4_iov *iov)
{
	uint32_t count = 0;

	if (batch->direct) {
		iov->base = (void *)(uintptr_t)(batch->direct + (uint64_t)first * G4_PAGE_BYTES);
		iov->bytes = (uint64_t)pages * G4_PAGE_BYTES;
		return 1;
	}
	for (uint32_t k = 0; k < pages; k++)
		g4_iov_add_page((uint8_t *)(uintptr_t)g4_batch_page(fs, batch, first + k), iov, &count);
	return count;
}

/* Whether sums are taken here. */
G4_FN static bool takes_sums(const struct g4_batch *batch)
{
	return batch->foreign && batch->algorithm != G4_CHECKSUM_NONE;
}

/* The sums of pages that are stored in a row. */
G4_FN static void hash_stored(struct g4_wg *wg, struct g4_fs *fs, struct g4_batch *batch, uint32_t first,
			      uint32_t count, struct g4_address address)
{
	const uint8_t *stored = (const uint8_t *)g4_space_memory(&fs->space, address);
	const void *pages[G4_SUMS_AT_ONCE];

	while (count > 0) {
		const uint32_t n = (uint32_t)g4_min64(count, G4_SUMS_AT_ONCE);
		for (uint32_t k = 0; k < n; k++, stored += G4_PAGE_BYTES)
			pages[k] = stored;
		g4_sums_make(wg, batch->algorithm, pages, n, &batch->sums[first]);
		first += n;
		count -= n;
	}
}

G4_FN int g4_store_piece(struct g4_wg *wg, struct g4_fs *fs, struct g4_batch *batch, const struct g4_split_piece *piece)
{
	struct g4_iov parts[G4_SPLIT_PIECE_PAGES];
	uint32_t first = (uint32_t)(piece->offset / G4_PAGE_BYTES);
	const uint32_t end = first + (uint32_t)(piece->bytes / G4_PAGE_BYTES);
	int rc = 0;

	if (takes_sums(batch) && !g4_space_is_mapped(&fs->space))
		return g4_bounce_store(wg, fs, batch, first, end);
	for (uint32_t s = 0; s < batch->segment_count && first < end && rc == 0; s++) {
		const struct g4_segment *segment = &batch->segments[s];
		struct g4_space_io request;

		if (first >= segment->first + segment->pages)
			continue;
		uint32_t pages = (uint32_t)g4_min64(end, segment->first + segment->pages) - first;
		if (!g4_segment_is_stored(segment)) {
			first += pages;
			continue;
		}
		const struct g4_address address = g4_address_after_pages(segment->address, first - segment->first);
		g4_space_io_init(&request, G4_IO_WRITE, address, parts, make_parts(fs, batch, first, pages, parts));
		request.io.flags |= g4_segment_io_flags(segment);
		rc = g4_space_transfer(wg, &fs->space, &request, 1);
		if (rc == 0 && takes_sums(batch))
			hash_stored(wg, fs, batch, first, pages, address);
		first += pages;
	}
	return rc;
}

G4_FN static int store_shared(struct g4_wg *wg, struct g4_fs *fs, struct g4_split_job *job)
{
	struct g4_split_piece piece;
	uint64_t done;

	while (g4_split_take(job, &piece))
		g4_split_done(job, &piece, g4_store_piece(wg, fs, job->work.batch, &piece), 0);
	return g4_split_close(fs, job, &done);
}

/* All of a batch by one workgroup, as much at a time as is hashed at a time. */
G4_FN static int store_pieces(struct g4_wg *wg, struct g4_fs *fs, struct g4_batch *batch)
{
	const uint64_t bytes = (uint64_t)batch->count * G4_PAGE_BYTES, most = G4_SUMS_AT_ONCE * G4_PAGE_BYTES;
	int rc = 0;

	for (uint64_t at = 0; at < bytes && rc == 0; at += most) {
		const struct g4_split_piece piece = {at, g4_min64(bytes - at, most)};
		rc = g4_store_piece(wg, fs, batch, &piece);
	}
	return rc;
}

G4_FN int g4_store_together(struct g4_wg *wg, struct g4_fs *fs, struct g4_batch *batches, uint32_t count)
{
	struct g4_batch_lists *lists = batches[0].lists;
	uint32_t n = 0, parts = 0; /* of the lists' requests and parts that are taken */
	struct g4_address end = {0};
	int rc = 0;

	for (uint32_t b = 0; b < count; b++) {
		const struct g4_batch *batch = &batches[b];

		for (uint32_t s = 0; s < batch->segment_count && rc == 0; s++) {
			const struct g4_segment *segment = &batch->segments[s];

			if (!g4_segment_is_stored(segment))
				continue;
			if (n == G4_BATCH_PAGES / 2) {
				rc = g4_space_transfer(wg, &fs->space, lists->requests, n);
				n = parts = 0;
			}
			const uint32_t made =
				make_parts(fs, batch, segment->first, segment->pages, &lists->iovs[parts]);
			if (n > 0 && g4_address_is(segment->address, end)) /* behind what was placed before */
				lists->requests[n - 1].io.iov_count += made;
			else
				g4_space_io_init(&lists->requests[n++], G4_IO_WRITE, segment->address,
						 &lists->iovs[parts], made);
			lists->requests[n - 1].io.flags |= g4_segment_io_flags(segment);
			parts += made;
			end = g4_address_after_pages(segment->address, segment->pages);
		}
	}
	return n > 0 && rc == 0 ? g4_space_transfer(wg, &fs->space, lists->requests, n) : rc;
}

/* ---- whole stripes with parity: what is granted is granted once, and written by many ---- */

/* Pages of stored segments from the first one on, which lie in a row. *next: the segment behind them; *flags: of requests that store them. */
G4_FN static uint32_t row_from(const struct g4_batch *batch, uint32_t s, uint32_t *next, uint32_t *flags)
{
	uint32_t pages = 0;

	*flags = 0;
	do {
		*flags |= g4_segment_io_flags(&batch->segments[s]);
		pages += batch->segments[s].pages;
		s++;
	} while (s < batch->segment_count && g4_segment_is_stored(&batch->segments[s]) &&
		 g4_address_is(batch->segments[s].address,
			       g4_address_after_pages(batch->segments[s - 1].address, batch->segments[s - 1].pages)));
	*next = s;
	return pages;
}

G4_FN void g4_store_stripes(struct g4_wg *wg, struct g4_fs *fs, const struct g4_batch_stripes *stripes,
			    const struct g4_split_piece *piece)
{
	struct g4_iov parts[G4_SPLIT_PIECE_PAGES];
	const uint32_t count =
		make_parts(fs, stripes->batch, stripes->first + (uint32_t)(piece->offset / G4_PAGE_BYTES),
			   (uint32_t)(piece->bytes / G4_PAGE_BYTES), parts);

	g4_space_write_stripes(wg, &fs->space, g4_address_from(stripes->grant.address + piece->offset), parts, count);
}

/* Parts of stripes in front of whole ones and behind them, as the grant has them. stripes->done: pages of each; none where they are the set's to write. */
G4_FN static void store_ends(struct g4_wg *wg, struct g4_fs *fs, struct g4_batch_stripes *stripes)
{
	struct g4_batch_lists *lists = stripes->batch->lists;
	struct g4_direct_grant *grant = &stripes->grant;

	for (uint32_t p = 0; p < 2; p++) {
		const uint32_t pages = (uint32_t)(grant->parts[p].bytes / G4_PAGE_BYTES),
			       first = p == 0 ? stripes->first - pages :
						stripes->first + (uint32_t)(grant->bytes / G4_PAGE_BYTES);
		stripes->done[p] = 0;
		if (pages == 0)
			continue;
		const uint32_t count = make_parts(fs, stripes->batch, first, pages, lists->iovs);
		if (g4_space_write_part(wg, &fs->space, grant, p, lists->iovs, count))
			stripes->done[p] = pages;
	}
}

G4_FN static void store_granted(struct g4_wg *wg, struct g4_fs *fs, struct g4_batch_stripes *stripes)
{
	const struct g4_split_work work = {.kind = G4_SPLIT_STRIPES, .bytes = stripes->grant.bytes, .stripes = stripes};
	struct g4_split_job *job = g4_split_open(wg, fs, &work);
	struct g4_split_piece piece = {0, 0};
	uint64_t done;

	store_ends(wg, fs, stripes); /* while others have pieces */
	if (!job) {
		for (; piece.offset < work.bytes; piece.offset += piece.bytes) {
			piece.bytes = g4_min64(work.bytes - piece.offset, stripes->grant.part_bytes);
			g4_store_stripes(wg, fs, stripes, &piece);
		}
		return;
	}
	while (g4_split_take(job, &piece)) {
		g4_store_stripes(wg, fs, stripes, &piece);
		g4_split_done(job, &piece, 0, 0);
	}
	(void)g4_split_close(fs, job, &done); /* pieces can not fail */
}

/* Pages of the batch that lie in a row, by the set: at most two parts of it. flags: of the requests. */
G4_FN static int store_parts(struct g4_wg *wg, struct g4_fs *fs, const struct g4_batch *batch,
			     const struct g4_segment *parts, uint32_t count, uint32_t flags)
{
	struct g4_batch_lists *lists = batch->lists;
	uint32_t taken = 0, requests = 0;

	for (uint32_t p = 0; p < count; p++) {
		if (parts[p].pages == 0)
			continue;
		const uint32_t made = make_parts(fs, batch, parts[p].first, parts[p].pages, &lists->iovs[taken]);
		g4_space_io_init(&lists->requests[requests++], G4_IO_WRITE, parts[p].address, &lists->iovs[taken],
				 made);
		lists->requests[requests - 1].io.flags |= flags;
		taken += made;
	}
	return requests > 0 ? g4_space_transfer(wg, &fs->space, lists->requests, requests) : 0;
}

/*
 * The whole stripes of a row of pages, and what is kept at both of its ends. False: none are granted. Else the row's rest, in front and behind, is for the set; that
 * comes when the grant has ended, for the set may be waiting for that.
 */
G4_FN static bool store_whole(struct g4_wg *wg, struct g4_fs *fs, struct g4_batch_stripes *stripes, bool in_use,
			      struct g4_segment rest[2])
{
	const struct g4_segment row = rest[0];
	struct g4_direct_grant *grant = &stripes->grant;

	if (!g4_space_take_stripes(wg, &fs->space, row.address, (uint64_t)row.pages * G4_PAGE_BYTES,
				   G4_SPLIT_PIECE_PAGES * G4_PAGE_BYTES, in_use, grant))
		return false;
	const uint32_t head = (uint32_t)((grant->address - g4_address_stored(row.address)) / G4_PAGE_BYTES);
	stripes->first = row.first + head;
	store_granted(wg, fs, stripes);
	g4_space_end_stripes(&fs->space, grant);
	const uint32_t end = head + (uint32_t)(grant->bytes / G4_PAGE_BYTES) + stripes->done[1];
	rest[0].pages = head - stripes->done[0];
	rest[1].first = row.first + end;
	rest[1].address = g4_address_after_pages(row.address, end);
	rest[1].pages = row.pages - end; /* the row may go on where a grant does not */
	return true;
}

/*
 * Stores a batch from the first row on that has whole stripes, those of each row in one grant, together with idle workgroups. *from: its segment; behind the last one
 * where there is none, and nothing was stored.
 */
G4_FN static int store_rows_of(struct g4_wg *wg, struct g4_fs *fs, struct g4_batch *batch,
			       struct g4_batch_stripes *stripes, uint32_t *from)
{
	bool any = false;
	int rc = 0;

	*from = batch->segment_count;
	for (uint32_t s = 0, next, flags; s < batch->segment_count && rc == 0; s = next) {
		const struct g4_segment *segment = &batch->segments[s];
		struct g4_segment rest[2] = {*segment, *segment};
		next = s + 1;
		if (!g4_segment_is_stored(segment))
			continue;
		rest[0].pages = row_from(batch, s, &next, &flags);
		rest[1].pages = 0;
		if (store_whole(wg, fs, stripes, flags != 0, rest) && !any) {
			any = true;
			*from = s;
		}
		if (any)
			rc = store_parts(wg, fs, batch, rest, 2, flags);
	}
	return rc;
}

/* Stores a batch by grants of whole stripes. False: it has none, and nothing was stored. */
G4_FN static bool store_rows(struct g4_wg *wg, struct g4_fs *fs, struct g4_batch *batch, int *rc)
{
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_batch_stripes *stripes = (struct g4_batch_stripes *)g4_scratch_take(wg, sizeof(*stripes));
	uint32_t from;

	stripes->batch = batch;
	*rc = store_rows_of(wg, fs, batch, stripes, &from);
	for (uint32_t s = 0, next, flags; s < from && from < batch->segment_count && *rc == 0; s = next) {
		struct g4_segment row = batch->segments[s];
		next = s + 1;
		if (!g4_segment_is_stored(&row))
			continue;
		row.pages = row_from(batch, s, &next, &flags);
		*rc = store_parts(wg, fs, batch, &row, 1, flags);
	}
	g4_scratch_release(wg, mark);
	return from < batch->segment_count;
}

G4_FN int g4_store(struct g4_wg *wg, struct g4_fs *fs, struct g4_batch *batch)
{
	const struct g4_split_work work = {
		.kind = G4_SPLIT_WRITE, .bytes = (uint64_t)batch->count * G4_PAGE_BYTES, .batch = batch};
	int rc;

	if (g4_space_stripe_bytes(&fs->space) > 0 && !takes_sums(batch) && store_rows(wg, fs, batch, &rc))
		return rc;
	struct g4_split_job *job = g4_split_open(wg, fs, &work);
	if (job)
		return store_shared(wg, fs, job);
	if (takes_sums(batch)) /* what was just copied is still near */
		return g4_space_is_mapped(&fs->space) ? store_pieces(wg, fs, batch) :
							g4_bounce_store(wg, fs, batch, 0, batch->count);
	return g4_store_together(wg, fs, batch, 1);
}
