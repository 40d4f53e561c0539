/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounce buffers: memory of the engine through which contents go whose sums are taken from memory that others may change, and whose
 * device is no memory in which they could be taken of what was stored. A caller that changes its memory meanwhile gets some mix of old
 * and new bytes, as on every file system, and the sum of that mix.
 *
 *     caller's memory --copy--> buffer --hash--> sums of the batch
 *                                  |
 *                                  +--write--> device        the next buffer is copied and hashed meanwhile
 *
 * The number of buffers is the mount's. A writer takes one or more at once, whatever is free of what it could use, and waits for others
 * only while it has none; workgroups are served in order of arrival. One that has buffers waits for the device and for nothing else, so
 * each one that waits gets one. A transfer of several workgroups takes one for each piece (split.c).
 */
#include "data/bounce.h"

G4_STATIC_ASSERT(G4_BATCH_SCRATCH_BYTES(1) - G4_PAGE_BYTES + G4_BOUNCE_FLIGHTS * sizeof(struct g4_bounce_flight) <=
			 G4_FS_SCRATCH_BYTES,
		 "what a writer takes of scratch memory");
G4_STATIC_ASSERT(G4_BOUNCE_BUFFERS % 32 == 0 && G4_BOUNCE_BUFFERS_MOST % 32 == 0, "bits of words");

/* ------------------------------------------------------------------ buffers */

/* The turn's holder takes free ones: a word at a time, from that of the last one on. Others only give back meanwhile. */
G4_FN static uint32_t take_free(struct g4_bounce *bounce, uint32_t most, uint32_t *numbers)
{
	const uint32_t words = bounce->count / 32;
	uint32_t count = 0;

	for (uint32_t n = 0; n < words && count < most; n++) {
		const uint32_t word = (bounce->next + n) % words, used = g4_load32_acq(&bounce->used[word]);
		uint32_t bits = 0;
		for (uint32_t i = 0; i < 32 && count < most && used != UINT32_MAX; i++) {
			if (used >> i & 1)
				continue;
			bits |= UINT32_C(1) << i;
			numbers[count++] = word * 32 + i;
		}
		g4_or32(&bounce->used[word], bits);
	}
	if (count > 0)
		bounce->next = numbers[count - 1] / 32;
	return count;
}

G4_FN uint32_t g4_bounce_take(struct g4_bounce *bounce, uint32_t most, uint32_t *numbers)
{
	uint32_t given, count;

	g4_lock(&bounce->turn);
	do {
		given = g4_load32_acq(&bounce->given);
		count = take_free(bounce, most, numbers);
		if (count == 0)
			g4_wait(&bounce->given, given);
	} while (count == 0);
	g4_unlock(&bounce->turn);
	return count;
}

G4_FN uint32_t g4_bounce_try(struct g4_bounce *bounce, uint32_t most, uint32_t *numbers)
{
	uint32_t used = 0, count = 0;

	if (!g4_trylock(&bounce->turn)) /* somebody waits for one, or is about to have one */
		return 0;
	for (uint32_t word = 0; word < bounce->count / 32; word++)
		used += g4_count_bits(g4_load32_acq(&bounce->used[word]));
	if (used + most <= bounce->count / 2)
		count = take_free(bounce, most, numbers);
	g4_unlock(&bounce->turn);
	return count;
}

G4_FN void g4_bounce_give_back(struct g4_bounce *bounce, const uint32_t *numbers, uint32_t count)
{
	for (uint32_t k = 0; k < count; k++)
		g4_and32(&bounce->used[numbers[k] / 32], ~(UINT32_C(1) << numbers[k] % 32));
	g4_add32(&bounce->given, 1);
	g4_wake(&bounce->given);
}

G4_FN uint8_t *g4_bounce_buffer(const struct g4_bounce *bounce, uint32_t number)
{
	return bounce->memory + (uint64_t)number * G4_BOUNCE_PAGES * G4_PAGE_BYTES;
}

/* ------------------------------------------------------------------ a buffer's way */

/* Requests for pages from `first` on that are to lie in `buffer`: as many as fit; the number of pages. */
G4_FN static uint32_t plan(const struct g4_batch *batch, uint32_t first, uint32_t end, uint8_t *buffer,
			   struct g4_bounce_flight *flight)
{
	uint32_t pages = 0, s = 0;

	while (first >= batch->segments[s].first + batch->segments[s].pages)
		s++;
	for (flight->count = 0; flight->count < G4_BOUNCE_PARTS && pages < G4_BOUNCE_PAGES && first + pages < end;
	     flight->count++, s++) {
		const struct g4_segment *segment = &batch->segments[s];
		const uint32_t at = first + pages;
		const uint32_t n = (uint32_t)g4_min64(g4_min64(end, segment->first + segment->pages) - at,
						      G4_BOUNCE_PAGES - pages);
		struct g4_iov *part = &flight->parts[flight->count];

		part->base = buffer + (uint64_t)pages * G4_PAGE_BYTES;
		part->bytes = (uint64_t)n * G4_PAGE_BYTES;
		g4_space_io_init(&flight->requests[flight->count], G4_IO_WRITE,
				 g4_address_after_pages(segment->address, at - segment->first), part, 1);
		flight->requests[flight->count].io.flags |= g4_segment_io_flags(segment);
		pages += n;
	}
	return pages;
}

G4_FN void g4_bounce_fill(struct g4_wg *wg, struct g4_batch *batch, uint32_t first, uint32_t pages, const uint8_t *from,
			  uint8_t *buffer)
{
	const void *list[G4_SUMS_AT_ONCE];

	for (uint32_t at = 0; at < pages; at += G4_SUMS_AT_ONCE) {
		const uint32_t n = (uint32_t)g4_min64(pages - at, G4_SUMS_AT_ONCE);
		uint8_t *to = buffer + (uint64_t)at * G4_PAGE_BYTES;

		g4_copy(wg, to, from + (uint64_t)at * G4_PAGE_BYTES, (uint64_t)n * G4_PAGE_BYTES);
		for (uint32_t k = 0; k < n; k++)
			list[k] = to + (uint64_t)k * G4_PAGE_BYTES;
		g4_sums_make(wg, batch->algorithm, list, n, &batch->sums[first + at]);
	}
}

G4_FN int g4_bounce_store(struct g4_wg *wg, struct g4_fs *fs, struct g4_batch *batch, uint32_t first, uint32_t end)
{
	const uint32_t mark = g4_scratch_mark(wg), most = g4_space_may_overlap(&fs->space) ? G4_BOUNCE_FLIGHTS : 1;
	struct g4_bounce_flight *flights =
		(struct g4_bounce_flight *)g4_scratch_take(wg, G4_BOUNCE_FLIGHTS * sizeof(*flights));
	uint32_t numbers[G4_BOUNCE_FLIGHTS], landed = 0, started = 0;
	const uint32_t useful = (end - first + G4_BOUNCE_PAGES - 1) / G4_BOUNCE_PAGES;
	const uint32_t count = g4_bounce_take(&fs->bounce, (uint32_t)g4_min64(useful, G4_BOUNCE_FLIGHTS), numbers);
	int rc = 0;

	while (first < end && rc == 0) {
		struct g4_bounce_flight *next = &flights[started % count];

		if (started - landed == count) { /* the buffer is still on its way */
			rc = g4_space_collect(wg, &fs->space, next->requests, next->count);
			landed++;
		}
		if (rc < 0)
			break;
		uint8_t *buffer = g4_bounce_buffer(&fs->bounce, numbers[started % count]);
		const uint32_t pages = plan(batch, first, end, buffer, next);
		g4_bounce_fill(wg, batch, first, pages, batch->direct + (uint64_t)first * G4_PAGE_BYTES, buffer);
		for (; started - landed >= most && rc == 0; landed++) {
			struct g4_bounce_flight *last = &flights[landed % count];
			rc = g4_space_collect(wg, &fs->space, last->requests, last->count);
		}
		if (rc < 0)
			break;
		first += pages;
		if (first == end && landed == started) { /* nothing that it could overlap with */
			rc = g4_space_transfer(wg, &fs->space, next->requests, next->count);
			break;
		}
		g4_space_submit(wg, &fs->space, next->requests, next->count);
		started++;
	}
	for (; landed < started; landed++) { /* also behind an error: they are our buffers' */
		struct g4_bounce_flight *last = &flights[landed % count];
		const int late = g4_space_collect(wg, &fs->space, last->requests, last->count);
		rc = rc < 0 ? rc : late;
	}
	g4_bounce_give_back(&fs->bounce, numbers, count);
	g4_scratch_release(wg, mark);
	return rc;
}
