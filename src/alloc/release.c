/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a durable transaction freed goes back into the memory view: thousands of runs, most of them of one page, in the order in which
 * operations freed them. The order of steps is g4_alloc_release()'s, of all runs together: a page is past (README.md, rule 6) before its bit is clear, its bit is
 * clear before its region's counter says so, and both are before the count that claims lower first.
 *
 * One lane puts runs of a region together, of G4_RELEASE_ROWS regions at a time: a change for each word of bits, an addition for each counter.
 * Several lanes take a run each, and all of them a long one. Their changes need not be put together: nobody looks at what the words were,
 * so none of them is waited for, and order comes from one fence a step, not from each change.
 *
 * The counts of all pages change once. Pages are pending until they are free: who finds no room asks for one, then for the other, and may
 * find them in both; who has asked for these before they came asks once more (fs/room.c).
 *
 * Which pool pages are of is asked while they are not counted: a region cannot be retired then. A group is counted before its regions: who
 * claims takes pages out of a group's counter when it has them from a region's, and a group that seems to have more than it has costs a look.
 */
#include "alloc/release.h"

/* Last: a claim that takes pages out of a count shall find them. */
G4_FN static void count_pools(struct g4_alloc *alloc, const uint64_t pools[G4_POOLS], uint64_t pages)
{
	for (uint32_t pool = 0; pool < G4_POOLS; pool++)
		if (pools[pool] > 0)
			g4_add64(g4_alloc_free_of(alloc, pool), pools[pool]);
	g4_sub64(&alloc->pending_pages, pages);
}

/* ------------------------------------------------------------------ one lane */

struct together {
	struct g4_alloc *alloc;
	struct g4_release_row *rows;
	uint64_t in_use; /* bit r: row r has something */
	uint64_t pools[G4_POOLS], pages;
};
G4_STATIC_ASSERT(G4_RELEASE_ROWS == 64 && G4_REGION_PAGES / 64 <= 32, "bits of a word");

G4_FN static void give_back(struct together *all, const struct g4_release_row *row)
{
	struct g4_alloc *alloc = all->alloc;
	const uint64_t region = row->region;
	const uint32_t pool = g4_alloc_region_pool(alloc, region);

	for (uint64_t has = row->has; has != 0; has &= has - 1) {
		const uint32_t w = g4_lowest_bit(has);
		const uint64_t mask = row->words[w], at = region * (G4_REGION_PAGES / 64) + w;
		/* first: it is no slab for whoever finds it in use again */
		if ((g4_load64_rlx(&alloc->past_slabs[at]) & mask) != mask)
			g4_or64(&alloc->past_slabs[at], mask);
		g4_and64(&alloc->used[at], ~mask);
	}
	g4_add32(&alloc->group_free[region / G4_GROUP_REGIONS], row->pages);
	g4_add32(&alloc->region_free[region], row->pages);
	/* behind the counters: a workgroup that takes the mark finds the pages */
	if (!(g4_load64_rlx(&alloc->freed[region / 64]) >> (region % 64) & 1))
		g4_or64(&alloc->freed[region / 64], UINT64_C(1) << (region % 64));
	all->pools[pool] += row->pages;
}

/* The row of a region; what was in it of another one is given back. */
G4_FN static struct g4_release_row *row_of(struct together *all, uint64_t region)
{
	const uint32_t r = (uint32_t)(region % G4_RELEASE_ROWS);
	struct g4_release_row *row = &all->rows[r];

	if (all->in_use >> r & 1) {
		if (row->region == region)
			return row;
		give_back(all, row);
	}
	all->in_use |= UINT64_C(1) << r;
	row->region = region;
	row->has = row->pages = 0;
	return row;
}

G4_FN static void put_run(struct together *all, uint64_t page, uint64_t end)
{
	while (page < end) {
		struct g4_release_row *row = row_of(all, page / G4_REGION_PAGES);
		const uint64_t border = g4_min64(g4_align_down(page, G4_REGION_PAGES) + G4_REGION_PAGES, end);

		row->pages += (uint32_t)(border - page);
		while (page < border) {
			const uint32_t w = (uint32_t)(page % G4_REGION_PAGES / 64);
			const uint64_t next = g4_min64(g4_align_down(page, 64) + 64, border);
			const uint64_t mask = g4_bit_run((uint32_t)(page % 64), (uint32_t)(next - page));
			row->words[w] = (row->has >> w & 1) ? row->words[w] | mask : mask;
			row->has |= UINT32_C(1) << w;
			page = next;
		}
	}
}

G4_FN static void release_alone(struct g4_wg *wg, struct g4_alloc *alloc, const struct g4_extent *runs, uint32_t count)
{
	const uint32_t mark = g4_scratch_mark(wg);
	struct together all = {.alloc = alloc};

	all.rows = (struct g4_release_row *)g4_scratch_take(wg, G4_RELEASE_SCRATCH_BYTES);
	for (uint32_t k = 0; k < count; k++) {
		const uint64_t page = g4_address_page(runs[k].address);
		put_run(&all, page, page + runs[k].pages);
		all.pages += runs[k].pages;
	}
	for (uint64_t left = all.in_use; left != 0; left &= left - 1)
		give_back(&all, &all.rows[g4_lowest_bit(left)]);
	g4_scratch_release(wg, mark);
	count_pools(alloc, all.pools, all.pages);
}

/* ------------------------------------------------------------------ several lanes */

enum step { STEP_PAST, STEP_CLEAR, STEP_REGIONS, STEP_MARKS, STEPS };

/* Per-lane: every `step`-th word of a run, from the lane's on. */
G4_FN static void change_words(struct g4_alloc *alloc, uint64_t page, uint64_t end, uint32_t first, uint32_t step,
			       bool clears)
{
	for (uint64_t w = page / 64 + first; w * 64 < end; w += step) {
		const uint64_t from = g4_max64(page, w * 64), to = g4_min64(end, w * 64 + 64);
		const uint64_t mask = g4_bit_run((uint32_t)(from % 64), (uint32_t)(to - from));
		if (clears)
			g4_and64_rlx(&alloc->used[w], ~mask);
		else
			g4_or64_rlx(&alloc->past_slabs[w], mask);
	}
}

/* Pages of a run that are in a region. */
G4_FN static uint32_t pages_in(uint64_t region, uint64_t page, uint64_t end)
{
	return (uint32_t)(g4_min64(end, (region + 1) * G4_REGION_PAGES) - g4_max64(page, region * G4_REGION_PAGES));
}

/* The same of regions, before they are counted: their groups, and what of them is of other pools. The pages of pool OWN. */
G4_FN static uint64_t count_groups(struct g4_release_job *job, uint64_t page, uint64_t end, uint32_t first,
				   uint32_t step)
{
	struct g4_alloc *alloc = job->alloc;
	uint64_t own = 0;

	for (uint64_t r = page / G4_REGION_PAGES + first; r * G4_REGION_PAGES < end; r += step) {
		const uint32_t pages = pages_in(r, page, end), pool = g4_alloc_region_pool(alloc, r);
		g4_add32_fenced(&alloc->group_free[r / G4_GROUP_REGIONS], pages);
		if (pool == G4_LEVEL_OWN)
			own += pages;
		else
			g4_add64_fenced(&job->pools[pool], pages);
	}
	return own;
}

/* The same: what regions have to claim; or that they have something to discard. */
G4_FN static void change_regions(struct g4_alloc *alloc, uint64_t page, uint64_t end, uint32_t first, uint32_t step,
				 bool counts)
{
	for (uint64_t r = page / G4_REGION_PAGES + first; r * G4_REGION_PAGES < end; r += step)
		if (counts)
			g4_add32_fenced(&alloc->region_free[r], pages_in(r, page, end));
		else
			g4_or64_rlx(&alloc->freed[r / 64], UINT64_C(1) << (r % 64));
}

G4_FN static uint64_t do_run(struct g4_release_job *job, const struct g4_extent *run, uint32_t first, uint32_t step,
			     enum step what)
{
	const uint64_t page = g4_address_page(run->address), end = page + run->pages;

	if (run->pages == 0)
		return 0;
	if (what >= STEP_REGIONS)
		change_regions(job->alloc, page, end, first, step, what == STEP_REGIONS);
	else
		change_words(job->alloc, page, end, first, step, what == STEP_CLEAR);
	return what == STEP_CLEAR ? count_groups(job, page, end, first, step) : 0;
}

/* Collective: one step of all runs. This lane's pages of pool OWN. */
G4_FN static uint64_t do_runs(struct g4_wg *wg, struct g4_release_job *job, enum step what)
{
	const uint32_t lane = g4_wg_lane(wg), width = g4_wg_width(wg);
	uint64_t own = 0;

	for (uint32_t base = 0; base < job->count; base += width) {
		const uint32_t k = base + lane;
		const bool mine = k < job->count, is_long = mine && job->runs[k].pages > G4_REGION_PAGES;

		if (mine && !is_long)
			own += do_run(job, &job->runs[k], 0, 1, what);
		for (uint64_t longs = g4_ballot(wg, is_long); longs != 0; longs &= longs - 1)
			own += do_run(job, &job->runs[base + g4_lowest_bit(longs)], lane, width, what);
	}
	return own;
}

G4_REGION_BODY void g4_release_region(struct g4_wg *wg, void *args)
{
	struct g4_release_job *job = (struct g4_release_job *)args;
	uint64_t own = 0, pages = 0;

	g4_converge(wg);
	for (uint32_t what = 0; what < STEPS; what++) {
		own += do_runs(wg, job, (enum step)what);
		g4_sync(wg);	/* others' changes come before this lane's next ones, */
		g4_fence_rel(); /* also for who sees these */
	}
	for (uint32_t k = g4_wg_lane(wg); k < job->count; k += g4_wg_width(wg))
		pages += job->runs[k].pages;
	own = g4_reduce_sum(wg, own);
	pages = g4_reduce_sum(wg, pages);
	if (g4_wg_lane(wg) == 0) {
		job->own = own;
		job->pages = pages;
	}
}

G4_FN void g4_alloc_release_runs(struct g4_wg *wg, struct g4_alloc *alloc, const struct g4_extent *runs, uint32_t count)
{
	if (count == 0)
		return;
	if (g4_wg_width(wg) == 1) {
		release_alone(wg, alloc, runs, count);
		return;
	}
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_release_job *job = (struct g4_release_job *)g4_scratch_take(wg, sizeof(*job));
	job->alloc = alloc;
	job->runs = runs;
	job->count = count;
	memset(job->pools, 0, sizeof(job->pools));
	g4_region(wg, G4_REGION_RELEASE, g4_release_region, job);
	job->pools[G4_LEVEL_OWN] = job->own;
	count_pools(alloc, job->pools, job->pages);
	g4_scratch_release(wg, mark);
}
