/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of listed pages, a page each lane. */
#include "alloc/listing.h"

/* Collective: each lane for its pages, up to the first that differs. */
G4_FN static uint32_t match(struct g4_wg *wg, const struct g4_listing_job *job)
{
	uint32_t differs = job->count;

	for (uint32_t k = g4_wg_lane(wg); k < job->count && differs == job->count; k += g4_wg_width(wg)) {
		const struct g4_listing_key key = g4_listing_key(&job->sums[k], job->domain);
		if (!g4_bytes_equal(job->page->sums[job->at + k], key.bytes, G4_LISTING_SUM_BYTES))
			differs = k;
	}
	return (uint32_t)g4_reduce_min(wg, differs);
}

/* Collective. */
G4_FN static void look_at_each(struct g4_wg *wg, struct g4_listing_job *job)
{
	struct g4_listing_each *each = &job->each;

	for (uint32_t k = g4_wg_lane(wg); k < job->count; k += g4_wg_width(wg)) {
		const uint64_t bit = UINT64_C(1) << k % 64, page = job->places[k] / G4_PAGE_BYTES;
		const uint32_t at = (uint32_t)(page % G4_LISTING_PAGES);
		if (!(each->which[k / 64] & bit) || page / G4_LISTING_PAGES != job->quarter)
			continue;
		g4_or64(&each->are[k / 64], bit);
		const struct g4_listing_key key = g4_listing_key(&job->sums[k], job->domain);
		if (job->page && (job->bits[at / 64] >> at % 64 & 1) &&
		    g4_bytes_equal(job->page->sums[at], key.bytes, G4_LISTING_SUM_BYTES))
			g4_or64(&each->listed[k / 64], bit);
	}
	g4_sync(wg);
}

G4_REGION_BODY void g4_listing_region(struct g4_wg *wg, void *args)
{
	struct g4_listing_job *job = (struct g4_listing_job *)args;

	g4_converge(wg);
	if (job->places) {
		look_at_each(wg, job);
		return;
	}
	if (!job->writes) {
		const uint32_t all = match(wg, job);
		if (g4_wg_lane(wg) == 0)
			job->match = all;
		return;
	}
	for (uint32_t k = g4_wg_lane(wg); k < job->count; k += g4_wg_width(wg)) {
		const struct g4_listing_key key = g4_listing_key(&job->sums[k], job->domain);
		memcpy(job->page->sums[job->at + k], key.bytes, G4_LISTING_SUM_BYTES);
	}
	const uint32_t first = job->at / 2, end = job->count == 0 ? first : (job->at + job->count + 1) / 2;
	for (uint32_t pair = first + g4_wg_lane(wg); pair < end; pair += g4_wg_width(wg))
		job->page->since[pair] = job->page->since[pair] > job->since ? job->page->since[pair] : job->since;
	g4_sync(wg);
}

G4_FN static uint32_t run(struct g4_wg *wg, const struct g4_listing_job *what)
{
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_listing_job *job = (struct g4_listing_job *)g4_scratch_take(wg, sizeof(*job));

	*job = *what;
	g4_region(wg, G4_REGION_LISTING, g4_listing_region, job);
	const uint32_t matched = job->match;
	g4_scratch_release(wg, mark);
	return matched;
}

G4_FN void g4_listing_write(struct g4_wg *wg, struct g4_listing_page *page, uint32_t at, uint32_t count,
			    const struct g4_sum_entry *sums, uint64_t domain, uint32_t today)
{
	const struct g4_listing_job job = {.page = page,
					   .sums = sums,
					   .domain = domain,
					   .at = at,
					   .count = count,
					   .writes = true,
					   .since = g4_listing_since(page, today)};

	run(wg, &job);
}

G4_FN uint32_t g4_listing_match(struct g4_wg *wg, const struct g4_listing_page *page, uint32_t at, uint32_t count,
				const struct g4_sum_entry *sums, uint64_t domain)
{
	const struct g4_listing_job job = {.page = (struct g4_listing_page *)(uintptr_t)page,
					   .sums = sums,
					   .domain = domain,
					   .at = at,
					   .count = count};

	return run(wg, &job);
}

G4_FN void g4_listing_each(struct g4_wg *wg, const struct g4_listing_page *page, uint64_t quarter,
			   const uint64_t bits[G4_LISTING_PAGES / 64], uint32_t count, const uint64_t *places,
			   const struct g4_sum_entry *sums, uint64_t domain, struct g4_listing_each *each)
{
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_listing_job *job = (struct g4_listing_job *)g4_scratch_take(wg, sizeof(*job));

	memset(job, 0, sizeof(*job));
	job->page = (struct g4_listing_page *)(uintptr_t)page;
	job->sums = sums;
	job->domain = domain;
	job->count = count;
	job->places = places;
	job->quarter = quarter;
	memcpy(job->bits, bits, sizeof(job->bits));
	memcpy(job->each.which, each->which, sizeof(each->which));
	g4_region(wg, G4_REGION_LISTING, g4_listing_region, job);
	*each = job->each;
	g4_scratch_release(wg, mark);
}
