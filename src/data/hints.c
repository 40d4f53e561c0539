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
G4_FN static uint64_t find(struct g4_hints_job *job, uint32_t k)
{
	const struct g4_listing_key key = g4_listing_key(&job->sums[k], job->domain);

	if (!job->batch)
		return g4_address_stored(g4_ddt_find(&job->fs->ddt, key.bytes));
	const uint32_t at = job->first + k;
	if (!job->late && is_zeros(g4_batch_page(job->fs, job->batch, at)))
		return G4_KNOWN_ZEROS;
	const uint64_t known = g4_address_stored(g4_ddt_find(&job->fs->ddt, key.bytes));
	g4_or64(known == G4_KNOWN_NOT ? &job->seen.unknown[at / 64] : &job->seen.hints[at / 64], UINT64_C(1)
													 << at % 64);
	return known;
}

/*
 * The place in the table of what is seen where the page at an index of the lists is, or one like it. *made: it was put there. What stands at a place is
 * the first one of what is like it: a place changes from none to that, and to one before.
 */
G4_FN static uint32_t see(struct g4_batch_lists *lists, uint32_t index, uint32_t domain, bool *made)
{
	const struct g4_sum_entry *sum = &lists->sums[index];
	const struct g4_listing_key key = g4_listing_key(sum, 0);
	uint32_t at = (key.bytes[8] | (uint32_t)key.bytes[9] << 8) % G4_BATCH_SEEN;

	for (*made = false;; at = (at + 1) % G4_BATCH_SEEN) {
		uint32_t there = g4_load32_rlx(&lists->seen[at]); /* sums and domains are from before */

		*made = there == 0 && g4_cas32(&lists->seen[at], 0, index + 1);
		if (*made)
			return at;
		if (there == 0) /* another lane was faster */
			there = g4_load32_rlx(&lists->seen[at]);
		if (lists->placing.domains[there - 1] != domain ||
		    !g4_bytes_equal(lists->sums[there - 1].bytes, sum->bytes, sizeof(sum->bytes)))
			continue;
		while (there > index + 1 && !g4_cas32(&lists->seen[at], there, index + 1))
			there = g4_load32_rlx(&lists->seen[at]);
		return at;
	}
}

/* Collective. Lanes may see a page before one in front of it that is the same: so all look again when all have seen theirs. */
G4_FN static void see_all(struct g4_wg *wg, const struct g4_hints_job *job)
{
	const struct g4_batch *batch = job->batch;
	struct g4_batch_lists *lists = batch->lists;
	const uint32_t lane = g4_wg_lane(wg), width = g4_wg_width(wg);
	const uint32_t before = (uint32_t)(batch->known - lists->known); /* of others in the lists */
	const uint32_t end = job->first + job->count;
	uint64_t others = 0; /* pages of this lane's that were there */
	bool made;

	for (uint32_t k = job->first + lane; k < end; k += width)
		if (batch->known[k] == G4_KNOWN_NOT)
			lists->placing.domains[before + k] = batch->domain;
	g4_sync(wg);
	for (uint32_t k = job->first + lane; k < end; k += width) {
		if (batch->known[k] != G4_KNOWN_NOT)
			continue;
		const uint32_t at = see(lists, before + k, batch->domain, &made);
		others += !made;
		if (width == 1 && !made)
			batch->known[k] = G4_KNOWN_SAME(lists->seen[at] - 1u);
	}
	if (width == 1 || g4_reduce_sum(wg, others) == 0) /* of two that are the same one finds the other */
		return;
	for (uint32_t k = job->first + lane; k < end; k += width) {
		if (batch->known[k] != G4_KNOWN_NOT)
			continue;
		const uint32_t first = g4_load32_rlx(&lists->seen[see(lists, before + k, batch->domain, &made)]) - 1;
		if (first != before + k)
			batch->known[k] = G4_KNOWN_SAME(first);
	}
	g4_sync(wg);
}

/* Collective. */
G4_FN static void bring_all(struct g4_wg *wg, const struct g4_hints_job *job)
{
	for (uint32_t k = g4_wg_lane(wg); k < G4_LISTING_PAGES; k += g4_wg_width(wg))
		if (job->bits[k / 64] >> k % 64 & 1)
			g4_ddt_bring(&job->fs->ddt, job->listing->sums[k], g4_address_after_pages(job->address, k));
	g4_sync(wg);
}

/* Whether page k of a job is not asked for. */
G4_FN static bool is_passed(const struct g4_hints_job *job, uint32_t k)
{
	return job->late && job->found[k] != G4_KNOWN_NOT;
}

G4_REGION_BODY void g4_hints_region(struct g4_wg *wg, void *args)
{
	struct g4_hints_job *job = (struct g4_hints_job *)args;

	g4_converge(wg);
	if (job->same) {
		see_all(wg, job);
		return;
	}
	if (job->listing) {
		bring_all(wg, job);
		return;
	}
	const uint32_t lane = g4_wg_lane(wg), width = g4_wg_width(wg);
	/* the table has no locality */
	for (uint32_t k = lane; k < job->count; k += width) {
		if (is_passed(job, k))
			continue;
		const struct g4_listing_key key = g4_listing_key(&job->sums[k], job->domain);
		g4_ddt_prefetch(&job->fs->ddt, key.bytes);
	}
	for (uint32_t k = lane; k < job->count; k += width) {
		if (job->found) {
			if (!is_passed(job, k))
				job->found[k] = find(job, k);
			continue;
		}
		const struct g4_listing_key key = g4_listing_key(&job->sums[k], job->domain);
		const uint64_t other = g4_address_stored(
			g4_ddt_insert(&job->fs->ddt, key.bytes, g4_address_after_pages(job->address, k)));
		if (job->others)
			job->others[k] = other == job->others[k] ? 0 : other;
	}
	g4_sync(wg);
}

G4_FN static struct g4_hints_seen run(struct g4_wg *wg, const struct g4_hints_job *what)
{
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_hints_job *job = (struct g4_hints_job *)g4_scratch_take(wg, sizeof(*job));

	*job = *what;
	g4_region(wg, G4_REGION_HINTS, g4_hints_region, job);
	const struct g4_hints_seen seen = job->seen;
	g4_scratch_release(wg, mark);
	return seen;
}

G4_FN void g4_hints_look(struct g4_wg *wg, struct g4_fs *fs, struct g4_batch *batch, uint32_t first, bool late,
			 struct g4_hints_seen *seen)
{
	const struct g4_hints_job job = {.fs = fs,
					 .sums = &batch->sums[first],
					 .domain = batch->domain,
					 .count = batch->count - first,
					 .found = &batch->known[first],
					 .batch = batch,
					 .first = first,
					 .late = late};

	*seen = run(wg, &job);
}

G4_FN void g4_hints_same(struct g4_wg *wg, struct g4_fs *fs, struct g4_batch *batch, uint32_t first)
{
	const struct g4_hints_job job = {
		.fs = fs, .count = batch->count - first, .batch = batch, .first = first, .same = true};

	run(wg, &job);
}

G4_FN void g4_hints_find(struct g4_wg *wg, struct g4_fs *fs, const struct g4_sum_entry *sums, uint64_t domain,
			 uint32_t count, uint64_t *found)
{
	const struct g4_hints_job job = {.fs = fs, .sums = sums, .domain = domain, .count = count, .found = found};

	run(wg, &job);
}

G4_FN void g4_hints_insert(struct g4_wg *wg, struct g4_fs *fs, const struct g4_sum_entry *sums, uint64_t domain,
			   uint32_t count, struct g4_address address, uint64_t *others)
{
	const struct g4_hints_job job = {
		.fs = fs, .sums = sums, .domain = domain, .count = count, .address = address, .others = others};

	run(wg, &job);
}

G4_FN void g4_hints_bring(struct g4_wg *wg, struct g4_fs *fs, const uint64_t bits[G4_LISTING_PAGES / 64],
			  const struct g4_listing_page *listing, struct g4_address address)
{
	struct g4_hints_job job = {.fs = fs, .address = address, .listing = listing};

	memcpy(job.bits, bits, sizeof(job.bits));
	run(wg, &job);
}
