/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large writes past the cache whose pages may be there already. What is looked for has to be what is stored, so sums are taken of copies
 * that nobody changes, in bounce buffers (bounce.c), and the copies are stored:
 *
 *     buffer 0   copy hash look place | write ...............|
 *     buffer 1                        copy hash look place | write ...............|
 *     buffer 2                                             copy hash look place | write ...............|   publish all
 *
 * A buffer's writes begin before the next one is looked for. Where workgroups have nothing else to do (on a GPU) they fill all buffers
 * together instead, a piece each, and store together what was not found: one workgroup alone copies and hashes too slowly there.
 *
 *     pieces of all buffers   copy hash | copy hash | ...      look place      pieces of the batch   write | write | ...     publish
 *
 * All buffers of a writer are one batch, with places in a row as far as nothing
 * was found, and one transaction if that has room. A page that is like one of a buffer before gets the place which that has by then.
 *
 * While a writer has buffers it reads metadata, claims space and waits for the device and for helpers with pieces of its own, which take no
 * buffers. None of that waits for a writer that waits for a buffer, which holds its inode alone.
 *
 * Crash at any line: nothing is reachable before publish, as always.
 */
#include "data/bounce_stage.h"

#include "data/bounce.h"

G4_STATIC_ASSERT(G4_STAGE_BUFFERS *G4_BOUNCE_PAGES <= G4_BATCH_SUMS, "a writer's buffers are a batch");
#define STAGE_WRITERS 8u /* that have their buffers at a time, at least */

/* Pages of the batch from `first` on, pages of the file from `page` on, are to lie in a buffer. */
G4_FN static void lay(struct g4_batch *batch, uint32_t first, uint64_t page, uint32_t pages, uint32_t number)
{
	for (uint32_t k = 0; k < pages; k++) {
		batch->lines[first + k] = number * G4_BOUNCE_PAGES + k;
		batch->pages[first + k] = page + k;
	}
}

/* The same of all pages of a batch, which begins with page `page`, in the buffers with these numbers. */
G4_FN static void lay_all(struct g4_batch *batch, uint64_t page, uint32_t pages, const uint32_t *numbers)
{
	for (uint32_t first = 0; first < pages; first += G4_BOUNCE_PAGES)
		lay(batch, first, page + first, (uint32_t)g4_min64(pages - first, G4_BOUNCE_PAGES),
		    numbers[first / G4_BOUNCE_PAGES]);
}

/* The batch's next pages, through a buffer, get their sums. */
G4_FN static void fill(struct g4_wg *wg, struct g4_fs *fs, struct g4_batch *batch, const uint8_t *from, uint64_t page,
		       uint32_t pages, uint32_t number)
{
	lay(batch, batch->count, page, pages, number);
	g4_bounce_fill(wg, batch, batch->count, pages, from, g4_bounce_buffer(&fs->bounce, number));
	batch->count += pages;
}

/* Requests for what is stored of a buffer's pages from `first` on: as many as fit. Where the pages begin for which there was no room. */
G4_FN static uint32_t plan(const struct g4_fs *fs, const struct g4_batch *batch, uint32_t first,
			   struct g4_bounce_flight *flight)
{
	uint32_t s = 0;

	flight->count = 0;
	while (first < batch->count) {
		while (first >= batch->segments[s].first + batch->segments[s].pages)
			s++;
		const struct g4_segment *segment = &batch->segments[s];
		const uint32_t n = (uint32_t)g4_min64(batch->count, segment->first + segment->pages) - first;
		if (g4_segment_is_stored(segment) && flight->count == G4_BOUNCE_PARTS)
			break;
		if (g4_segment_is_stored(segment)) {
			struct g4_iov *part = &flight->parts[flight->count];
			part->base = (void *)(uintptr_t)g4_batch_page(fs, batch, first);
			part->bytes = (uint64_t)n * G4_PAGE_BYTES;
			g4_space_io_init(&flight->requests[flight->count++], G4_IO_WRITE,
					 g4_address_after_pages(segment->address, first - segment->first), part, 1);
			flight->requests[flight->count - 1].io.flags |= g4_segment_io_flags(segment);
		}
		first += n;
	}
	return first;
}

/* Pages from `first` on, which lie in one buffer, are on their way; what does not fit into a flight is there. `alone`: all of them are there. */
G4_FN static int launch(struct g4_wg *wg, struct g4_fs *fs, const struct g4_batch *batch, uint32_t first, bool alone,
			struct g4_bounce_flight *flight)
{
	int rc = 0;

	do {
		first = plan(fs, batch, first, flight);
		if (first < batch->count || alone) {
			rc = g4_space_transfer(wg, &fs->space, flight->requests, flight->count);
			flight->count = 0;
		}
	} while (first < batch->count && rc == 0);
	if (flight->count > 0)
		g4_space_submit(wg, &fs->space, flight->requests, flight->count);
	return rc;
}

G4_FN void g4_stage_piece(struct g4_wg *wg, const struct g4_fs *fs, const struct g4_split_work *work,
			  const struct g4_split_piece *piece)
{
	struct g4_batch *batch = work->batch;
	const uint32_t first = (uint32_t)(piece->offset / G4_PAGE_BYTES);

	g4_bounce_fill(wg, batch, first, (uint32_t)(piece->bytes / G4_PAGE_BYTES), work->from + piece->offset,
		       (uint8_t *)(uintptr_t)g4_batch_page(fs, batch, first));
}

/* Fills all buffers of a batch together with others. False: nobody would come. */
G4_FN static bool fill_shared(struct g4_wg *wg, struct g4_fs *fs, struct g4_batch *batch, const uint8_t *from,
			      uint64_t page, uint32_t pages, const uint32_t *numbers)
{
	const struct g4_split_work work = {
		.kind = G4_SPLIT_STAGE, .bytes = (uint64_t)pages * G4_PAGE_BYTES, .batch = batch, .from = from};
	struct g4_split_piece piece;
	uint64_t done;

	lay_all(batch, page, pages, numbers);
	struct g4_split_job *job = g4_split_open(wg, fs, &work);
	if (!job)
		return false;
	while (g4_split_take(job, &piece)) {
		g4_stage_piece(wg, fs, &job->work, &piece);
		g4_split_done(job, &piece, 0, 0);
	}
	(void)g4_split_close(fs, job, &done); /* pieces can not fail */
	batch->count = pages;
	return true;
}

G4_FN static bool stores_any(const struct g4_batch *batch)
{
	for (uint32_t s = 0; s < batch->segment_count; s++)
		if (g4_segment_is_stored(&batch->segments[s]))
			return true;
	return false;
}

/* The other stages of a batch whose buffers are all full, and of which is known what is. */
G4_FN static int store_filled(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, struct g4_batch *batch,
			      int *stored)
{
	const int rc = g4_place(wg, fs, inode, batch, 0);
	if (rc == 0 && stores_any(batch))
		*stored = g4_store(wg, fs, batch);
	return rc;
}

/* Fills a batch with `pages` pages, as many as its buffers have room for, and stores it. An error where nothing of it got a place; *stored otherwise. */
G4_FN static int fill_and_store(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, struct g4_batch *batch,
				const uint8_t *from, uint64_t page, uint32_t pages, const uint32_t *numbers,
				int *stored)
{
	struct g4_bounce_flight *const flights = batch->lists->of_lines.flights;
	const bool overlap = g4_space_may_overlap(&fs->space);
	uint32_t launched = 0;
	int rc = 0;

	*stored = 0;
	if (fill_shared(wg, fs, batch, from, page, pages, numbers)) {
		g4_dedup_batch(wg, fs, inode, batch, 0);
		return store_filled(wg, fs, inode, batch, stored);
	}
	/* a batch that has no room for more segments ends before all of its buffers are full */
	for (uint32_t b = 0; batch->count < pages && rc == 0 && *stored == 0 && batch->segment_count < batch->most;
	     b++) {
		const uint32_t first = batch->count, n = (uint32_t)g4_min64(pages - first, G4_BOUNCE_PAGES);

		batch->coming = pages - first - n;
		fill(wg, fs, batch, from + (uint64_t)first * G4_PAGE_BYTES, page + first, n, numbers[b]);
		g4_dedup_batch(wg, fs, inode, batch, first);
		rc = g4_place(wg, fs, inode, batch, first); /* the batch ends before a page that gets none */
		if (!overlap || (rc < 0 && first == 0))
			continue;
		*stored = launch(wg, fs, batch, first, b == 0 && batch->count == pages, &flights[launched]);
		launched++;
	}
	if (!overlap && batch->segment_count > 0)
		*stored = g4_store_together(wg, fs, batch, 1);
	for (uint32_t k = 0; k < launched; k++) { /* also behind an error: they are our buffers' */
		const int late = flights[k].count == 0 ?
					 0 :
					 g4_space_collect(wg, &fs->space, flights[k].requests, flights[k].count);
		*stored = *stored < 0 ? *stored : late;
	}
	return batch->segment_count > 0 ? 0 : rc;
}

/* ------------------------------------------------------------------ before the inode is locked */

#define KNOWN_AT (G4_BATCH_SUMS * sizeof(struct g4_sum_entry)) /* of a note: behind the sums */
G4_STATIC_ASSERT(KNOWN_AT + G4_BATCH_SUMS * sizeof(uint64_t) <= G4_BOUNCE_NOTE_BYTES, "a batch has room in a note");

G4_FN static uint8_t *note_of(const struct g4_fs *fs, const struct g4_stage_ahead *ahead)
{
	return fs->bounce.notes + (uint64_t)ahead->numbers[0] * G4_BOUNCE_NOTE_BYTES;
}

/* Whether what is written to a file with a wish can be looked for before the file is locked: a page that has to be compared is compared under the lock. */
G4_FN static bool may_be_ahead(const struct g4_fs *fs, const struct g4_inode_core *inode, uint32_t wish)
{
	return fs->bounce.notes && g4_dedup_wanted(fs, inode, wish) && !(inode->disk.flags & G4_INODE_INLINE) &&
	       !(fs->flags & G4_FS_DEDUP_VERIFY) && !inode->dedup_failed &&
	       g4_sums_algorithm(fs, inode->disk.policy) == G4_CHECKSUM_BLAKE3;
}

/* Buffers for `pages` pages, as many as one writer gets. */
G4_FN static uint32_t buffers_for(const struct g4_fs *fs, uint64_t pages)
{
	const uint64_t useful = (pages + G4_BOUNCE_PAGES - 1) / G4_BOUNCE_PAGES;
	const uint64_t most = g4_min64(fs->bounce.count / STAGE_WRITERS, G4_STAGE_BUFFERS);

	return (uint32_t)g4_min64(useful, most);
}

G4_FN void g4_stage_ahead(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, const uint8_t *from,
			  uint64_t page, uint64_t pages, uint32_t wish, struct g4_stage_ahead *ahead)
{
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_inode_core *copy = (struct g4_inode_core *)g4_scratch_take(wg, sizeof(*copy));

	ahead->count = 0;
	g4_zero16(copy, sizeof(*copy));
	g4_peek(copy, inode, G4_INODE_CORE_ATTRIBUTE_BYTES / 8); /* who has the lock proves what was seen, or not */
	pages = g4_min64(pages, G4_BATCH_SUMS - page % G4_BATCH_SUMS);
	if (may_be_ahead(fs, copy, wish))
		ahead->count = g4_bounce_try(&fs->bounce, buffers_for(fs, pages), ahead->numbers);
	if (ahead->count > 0) {
		struct g4_batch *batch = g4_batch_take(wg);
		ahead->page = page;
		ahead->pages = (uint32_t)g4_min64(pages, (uint64_t)ahead->count * G4_BOUNCE_PAGES);
		ahead->wish = wish;
		ahead->algorithm = batch->algorithm = g4_sums_algorithm(fs, copy->disk.policy);
		batch->wish = (uint8_t)wish;
		batch->staged = true;
		g4_zero(wg, batch->lists->seen, sizeof(batch->lists->seen));
		if (!fill_shared(wg, fs, batch, from, page, ahead->pages, ahead->numbers)) {
			for (uint32_t first = 0; first < ahead->pages; first += G4_BOUNCE_PAGES)
				fill(wg, fs, batch, from + (uint64_t)first * G4_PAGE_BYTES, page + first,
				     (uint32_t)g4_min64(ahead->pages - first, G4_BOUNCE_PAGES),
				     ahead->numbers[first / G4_BOUNCE_PAGES]);
		}
		g4_dedup_batch(wg, fs, copy, batch, 0);
		ahead->domain = batch->domain;
		g4_copy(wg, note_of(fs, ahead), batch->sums, ahead->pages * sizeof(*batch->sums));
		g4_copy(wg, note_of(fs, ahead) + KNOWN_AT, batch->known, ahead->pages * sizeof(*batch->known));
	}
	g4_scratch_release(wg, mark);
}

G4_FN void g4_stage_drop(struct g4_fs *fs, struct g4_stage_ahead *ahead)
{
	if (ahead->count > 0)
		g4_bounce_give_back(&fs->bounce, ahead->numbers, ahead->count);
	ahead->count = 0;
}

/* Whether the batch may begin with what is ahead, now that the inode is locked. */
G4_FN static bool is_of_use(const struct g4_fs *fs, const struct g4_inode_core *inode, const struct g4_batch *batch,
			    uint64_t page, uint32_t pages, const struct g4_stage_ahead *ahead)
{
	return ahead->count > 0 && ahead->page == page && ahead->pages <= pages && ahead->wish == batch->wish &&
	       may_be_ahead(fs, inode, ahead->wish) && ahead->algorithm == batch->algorithm &&
	       ahead->domain == (uint32_t)g4_inode_domain(&inode->disk);
}

/* The batch is what is ahead. Who had the inode meanwhile may have published the same. */
G4_FN static void recall(struct g4_wg *wg, struct g4_fs *fs, struct g4_batch *batch, const struct g4_stage_ahead *ahead)
{
	lay_all(batch, ahead->page, ahead->pages, ahead->numbers);
	g4_copy(wg, batch->sums, note_of(fs, ahead), ahead->pages * sizeof(*batch->sums));
	g4_copy(wg, batch->known, note_of(fs, ahead) + KNOWN_AT, ahead->pages * sizeof(*batch->known));
	batch->count = ahead->pages;
	batch->domain = ahead->domain;
	batch->dedup = batch->looks = true;
	batch->verifies = false;
	g4_dedup_late(wg, fs, batch);
}

/* ------------------------------------------------------------------ a batch */

G4_FN int g4_stage_run(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, struct g4_batch *batch,
		       const uint8_t *from, uint64_t page, uint32_t pages, uint64_t size, struct g4_stage_ahead *ahead,
		       uint32_t *published)
{
	struct g4_stage_ahead own;
	int rc, stored = 0;

	*published = 0;
	batch->staged = true;
	batch->algorithm = g4_sums_algorithm(fs, inode->disk.policy);
	if (is_of_use(fs, inode, batch, page, pages, ahead)) {
		recall(wg, fs, batch, ahead);
		rc = store_filled(wg, fs, inode, batch, &stored);
	} else {
		g4_stage_drop(fs, ahead);
		ahead = &own;
		g4_zero(wg, batch->lists->seen, sizeof(batch->lists->seen));
		own.count = g4_bounce_take(&fs->bounce, buffers_for(fs, pages), own.numbers);
		pages = (uint32_t)g4_min64(pages, (uint64_t)own.count * G4_BOUNCE_PAGES);
		rc = fill_and_store(wg, fs, inode, batch, from, page, pages, own.numbers, &stored);
	}
	g4_stage_drop(fs, ahead);
	if (rc < 0) {
		g4_pipeline_cancel(fs, inode, batch);
		return rc;
	}
	return g4_pipeline_finish(wg, fs, inode, batch, size, stored, published);
}
