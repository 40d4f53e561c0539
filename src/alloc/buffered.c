/* SPDX-License-Identifier: Apache-2.0 */
/* Searches in a page of buffered owners. Nothing changes. */
#include "alloc/buffered.h"

/* Collective: lanes read neighbours, so that a page is few transfers. */
G4_FN static void find(struct g4_wg *wg, struct g4_buffered_job *job)
{
	const struct g4_buffered_page *page = job->page;
	const uint32_t lane = g4_wg_lane(wg), width = g4_wg_width(wg), count = page->count;
	uint32_t found = count;

	for (uint32_t k = lane; k < count && found == count; k += width)
		if (page->pages[k] == job->number)
			found = k;
	found = (uint32_t)g4_reduce_min(wg, found);
	if (lane == 0)
		job->found = found;
}

/* Collective: each lane for its entries, then all of them for the words. */
G4_FN static void look(struct g4_wg *wg, struct g4_buffered_job *job)
{
	const struct g4_buffered_page *page = job->page;
	const uint32_t lane = g4_wg_lane(wg), width = g4_wg_width(wg), count = page->count;
	uint64_t bits[G4_REGION_WORDS] = {0};

	for (uint32_t k = lane; k < count; k += width) {
		const uint32_t at = page->pages[k] - job->number * G4_REGION_PAGES;
		if (at < G4_REGION_PAGES)
			bits[at / 64] |= UINT64_C(1) << at % 64;
	}
	for (uint32_t w = 0; w < G4_REGION_WORDS; w++)
		job->bits[lane][w] = bits[w];
	g4_sync(wg);
	for (uint32_t w = lane; w < G4_REGION_WORDS; w += width)
		for (uint32_t other = 1; other < width; other++)
			job->bits[0][w] |= job->bits[other][w];
	g4_sync(wg);
}

G4_REGION_BODY void g4_buffered_region(struct g4_wg *wg, void *args)
{
	struct g4_buffered_job *job = (struct g4_buffered_job *)args;

	g4_converge(wg);
	if (job->finds)
		find(wg, job);
	else
		look(wg, job);
}

G4_FN static struct g4_buffered_job *run(struct g4_wg *wg, const struct g4_buffered_page *page, bool finds,
					 uint32_t number)
{
	struct g4_buffered_job *job = (struct g4_buffered_job *)g4_scratch_take(wg, sizeof(*job));

	job->page = page;
	job->finds = finds;
	job->number = number;
	g4_region(wg, G4_REGION_BUFFERED, g4_buffered_region, job);
	return job;
}

G4_FN bool g4_buffered_look(struct g4_wg *wg, const struct g4_buffered_page *page, uint32_t region,
			    uint64_t bits[G4_REGION_WORDS])
{
	bool any = false;

	if (g4_wg_width(wg) == 1)
		return g4_buffered_bits(page, region, bits);
	const uint32_t mark = g4_scratch_mark(wg);
	const struct g4_buffered_job *job = run(wg, page, false, region);
	for (uint32_t w = 0; w < G4_REGION_WORDS; w++) {
		bits[w] = job->bits[0][w];
		any = any || bits[w] != 0;
	}
	g4_scratch_release(wg, mark);
	return any;
}

G4_FN uint32_t g4_buffered_find(struct g4_wg *wg, const struct g4_buffered_page *page, uint32_t number)
{
	uint32_t found = 0;

	if (g4_wg_width(wg) == 1) {
		while (found < page->count && page->pages[found] != number)
			found++;
		return found;
	}
	const uint32_t mark = g4_scratch_mark(wg);
	found = run(wg, page, true, number)->found;
	g4_scratch_release(wg, mark);
	return found;
}
