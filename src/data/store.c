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
			parts += made;
			end = g4_address_after_pages(segment->address, segment->pages);
		}
	}
	return n > 0 && rc == 0 ? g4_space_transfer(wg, &fs->space, lists->requests, n) : rc;
}

G4_FN int g4_store(struct g4_wg *wg, struct g4_fs *fs, struct g4_batch *batch)
{
	const struct g4_split_work work = {
		.kind = G4_SPLIT_WRITE, .bytes = (uint64_t)batch->count * G4_PAGE_BYTES, .batch = batch};
	struct g4_split_job *job = g4_split_open(wg, fs, &work);

	if (job)
		return store_shared(wg, fs, job);
	if (takes_sums(batch)) /* what was just copied is still near */
		return g4_space_is_mapped(&fs->space) ? store_pieces(wg, fs, batch) :
							g4_bounce_store(wg, fs, batch, 0, batch->count);
	return g4_store_together(wg, fs, batch, 1);
}
