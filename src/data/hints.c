/* SPDX-License-Identifier: Apache-2.0 */
/* Hints of many pages by all lanes. The table has no locks, and hints prove nothing: two lanes at one bucket cost one at worst. */
#include "data/hints.h"

G4_FN static bool is_zeros(const void *data)
{
	const uint64_t *words = (const uint64_t *)data;
	uint32_t k = 0;

	while (k < G4_PAGE_BYTES / sizeof(*words) && words[k] == 0)
		k++;
	return k == G4_PAGE_BYTES / sizeof(*words);
}

/* Page k of a job: zeros, the address of a page like it, or nothing. */
G4_FN static uint64_t find(const struct g4_hints_job *job, uint32_t k)
{
	const struct g4_listing_key key = g4_listing_key(&job->sums[k], job->domain);

	if (job->batch && is_zeros(g4_batch_page(job->fs, job->batch, job->first + k)))
		return G4_KNOWN_ZEROS;
	return g4_address_stored(g4_ddt_find(&job->fs->ddt, key.bytes));
}

G4_REGION_BODY void g4_hints_region(struct g4_wg *wg, void *args)
{
	const struct g4_hints_job *job = (const struct g4_hints_job *)args;

	g4_converge(wg);
	const uint32_t lane = g4_wg_lane(wg), width = g4_wg_width(wg);
	/* the table has no locality */
	for (uint32_t k = lane; k < job->count; k += width) {
		const struct g4_listing_key key = g4_listing_key(&job->sums[k], job->domain);
		g4_ddt_prefetch(&job->fs->ddt, key.bytes);
	}
	for (uint32_t k = lane; k < job->count; k += width) {
		if (job->found) {
			job->found[k] = find(job, k);
			continue;
		}
		const struct g4_listing_key key = g4_listing_key(&job->sums[k], job->domain);
		g4_ddt_insert(&job->fs->ddt, key.bytes, g4_address_after_pages(job->address, k));
	}
	g4_sync(wg);
}

G4_FN static void run(struct g4_wg *wg, const struct g4_hints_job *what)
{
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_hints_job *job = (struct g4_hints_job *)g4_scratch_take(wg, sizeof(*job));

	*job = *what;
	g4_region(wg, G4_REGION_HINTS, g4_hints_region, job);
	g4_scratch_release(wg, mark);
}

G4_FN void g4_hints_look(struct g4_wg *wg, struct g4_fs *fs, struct g4_batch *batch, uint32_t first)
{
	const struct g4_hints_job job = {.fs = fs,
					 .sums = &batch->sums[first],
					 .domain = batch->domain,
					 .count = batch->count - first,
					 .found = &batch->known[first],
					 .batch = batch,
					 .first = first};

	run(wg, &job);
}

G4_FN void g4_hints_find(struct g4_wg *wg, struct g4_fs *fs, const struct g4_sum_entry *sums, uint64_t domain,
			 uint32_t count, uint64_t *found)
{
	const struct g4_hints_job job = {.fs = fs, .sums = sums, .domain = domain, .count = count, .found = found};

	run(wg, &job);
}

G4_FN void g4_hints_insert(struct g4_wg *wg, struct g4_fs *fs, const struct g4_sum_entry *sums, uint64_t domain,
			   uint32_t count, struct g4_address address)
{
	const struct g4_hints_job job = {.fs = fs, .sums = sums, .domain = domain, .count = count, .address = address};

	run(wg, &job);
}
