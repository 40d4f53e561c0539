/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scrub reads and hashes, which one workgroup does at a few GB/s at most. So pages of a file in a row, the span, are a task
 * (task/task.h): the workgroup of the step opens it, with the inode locked, takes pieces like all, and waits for those that others
 * took. A piece is a range of the file and nothing else: a workgroup that takes it looks up what is there, so planning is
 * shared as well.
 *
 *      file   |  .  .  .  .  .  .  .  .  |      a span: a piece for each workgroup that may come, where the device is memory two
 *                p  p  p  p  p  p  p  p         pieces: 256 KiB, as much as a buffer holds; 2 MiB where none is needed
 *
 * A helper works under the owner's lock of the inode (fs/README.md, rule 10 holds here, too). It takes cache locks, those of findings and
 * events, and the commit lock for a page that it looks at once more (journal/look.c); it is in no operation, so no workgroup
 * that has that lock waits for it. It counts for itself and adds that up when its piece is done.
 *
 * Where the device is memory pages are hashed where they lie. Elsewhere a piece needs a buffer: the owner has the first one, and those
 * that find none free do not help.
 */
#include "fs/scrub_span.h"

#include "data/fetch.h"
#include "data/file.h"
#include "fs/scrub_rows.h"

#define PIECES_EACH 2u /* where the device is memory: workgroups with fast ones do more of them */
#define IN_PLACE_PAGES ((uint32_t)G4_INDIRECT_SLOTS) /* a piece there: what leads to it is looked at once */
#define LEAST_PIECES 4u				     /* fewer are not worth it */
#define RATE_PART 8u				     /* with a rate a span is no more than this part of a second */

/* ------------------------------------------------------------------ pages of a file */

G4_FN int64_t g4_scrub_some(struct g4_scrub_step *step, const struct g4_inode_core *inode, uint64_t page, uint64_t end,
			    uint64_t most)
{
	struct g4_run run;

	g4_scrub_look_at_nodes(step, inode, page);
	if (g4_map_lookup(step->wg, step->fs, inode, page, end - page, &run) < 0)
		return -1;
	if (run.kind != G4_WRITTEN) {
		if (run.kind == G4_UNWRITTEN && step->scrub->again)
			g4_scrub_tell_reserved(step, run.address, run.pages);
		step->pages++;
		return (int64_t)run.pages;
	}
	if (step->scrub->again)
		return (int64_t)g4_scrub_read_asked(step, inode, page, run.address, g4_min64(run.pages, most));
	/* what leads to the rest of the run was looked at as far as the same indirect page, or large page, has it */
	most = g4_min64(g4_min64(run.pages, most), G4_INDIRECT_SLOTS - page % G4_INDIRECT_SLOTS);
	uint64_t good = 0;
	for (uint32_t n = 1; n > 0 && good < most; good += n)
		n = g4_fetch_matching(step->wg, step->fs, inode, page + good, g4_address_after_pages(run.address, good),
				      most - good);
	if (good == 0) {
		good = g4_min64(run.pages, G4_SCRUB_PAGES);
		g4_scrub_read(step, inode, page, run.address, (uint32_t)good);
	} else {
		g4_scrub_count(step, (uint32_t)good);
	}
	return (int64_t)good;
}

/* ------------------------------------------------------------------ pieces */

/* Pages of a piece. */
G4_FN static uint32_t piece_pages(const struct g4_fs *fs)
{
	return g4_scrub_is_in_place(fs) ? IN_PLACE_PAGES : G4_SCRUB_PAGES;
}

/* Takes one piece, if there is any, and does it. */
G4_FN static bool do_piece(struct g4_wg *wg, struct g4_fs *fs, uint8_t *to)
{
	struct g4_scrub_span *span = &fs->jobs.scrub.span;
	uint32_t k;

	if (g4_task_take(&span->task, 1, &k) == 0)
		return false;
	const uint32_t mark = g4_scratch_mark(wg), pages = piece_pages(fs);
	struct g4_job_record counts;
	struct g4_scrub_step step = {wg, fs, &fs->jobs.scrub, &counts, 0, span->dir, g4_scratch_take_page(wg), to, 0};
	/* pieces end where the page is a multiple of their size, so that none is beside two pages of sums */
	const uint64_t border = (span->page / pages + k) * pages, end = g4_min64(span->end, border + pages);
	const struct g4_inode_core *inode = g4_icache_at(fs, span->index);

	memset(&counts, 0, sizeof(counts));
	for (uint64_t page = g4_max64(span->page, border); page < end;) {
		const int64_t done = g4_scrub_some(&step, inode, page, end, pages);
		page = done < 0 ? end : page + (uint64_t)done; /* what could not be had was said */
	}
	g4_scratch_release(wg, mark);
	g4_add64_rlx(&span->looked, counts.done);
	g4_add64_rlx(&span->found, counts.errors);
	g4_task_done(&span->task, 1);
	return true;
}

/* ------------------------------------------------------------------ helpers */

/* A buffer of its own where one is needed; its number, 0: there is none. */
G4_FN static uint32_t take_buffer(struct g4_scrub_span *span)
{
	for (uint32_t n = 1; n < G4_SCRUB_BUFFERS; n++)
		if (!(g4_load32_rlx(&span->used) >> n & 1) && !(g4_or32(&span->used, 1u << n) >> n & 1))
			return n;
	return 0;
}

G4_FN bool g4_scrub_help(struct g4_wg *wg, struct g4_fs *fs)
{
	struct g4_scrub *scrub = &fs->jobs.scrub;
	struct g4_scrub_span *span = &scrub->span;
	uint32_t n = 0;

	if (!g4_task_is_open(&span->task))
		return false;
	if (g4_scrub_is_in_place(fs))
		return do_piece(wg, fs, NULL);
	n = take_buffer(span);
	if (n == 0)
		return false;
	const bool helped = do_piece(wg, fs, scrub->pages + n * G4_SCRUB_PAGES * G4_PAGE_BYTES);
	g4_and32(&span->used, ~(1u << n));
	return helped;
}

/* ------------------------------------------------------------------ the owner */

/* Pages that are worth a span: as many for each as one alone reads in a step, and with a rate not more than that allows. */
G4_FN static uint64_t most_pages(const struct g4_scrub_step *step)
{
	const uint32_t helpers = g4_load32_rlx(&step->scrub->helpers);
	const uint64_t pieces = g4_scrub_is_in_place(step->fs) ? (UINT64_C(1) + helpers) * PIECES_EACH :
								 1 + g4_min64(helpers, G4_SCRUB_BUFFERS - 1);
	const uint64_t most = pieces * piece_pages(step->fs), rate = step->record->rate;

	return rate == 0 ? most : g4_min64(most, rate / RATE_PART / G4_PAGE_BYTES);
}

G4_FN uint64_t g4_scrub_share(struct g4_scrub_step *step, uint32_t index, uint64_t page)
{
	struct g4_scrub_span *span = &step->scrub->span;
	const uint32_t pages = piece_pages(step->fs);
	const uint64_t size = g4_pages_for(g4_icache_at(step->fs, index)->size);
	const uint64_t end = g4_min64(page + most_pages(step), size);
	uint64_t position;

	if (g4_load32_rlx(&step->scrub->helpers) == 0 || end < page + (uint64_t)LEAST_PIECES * pages)
		return 0;
	span->index = index;
	span->page = page;
	span->end = end;
	span->dir = step->dir;
	span->looked = span->found = 0;
	g4_task_open(&span->task, (uint32_t)((end - 1) / pages - page / pages + 1));
	g4_add32(&step->fs->ahead.posted, 1); /* those that read ahead are those that help, on a CPU */
	g4_wake(&step->fs->ahead.posted);
	while (do_piece(step->wg, step->fs, step->to))
		;
	(void)g4_task_wait(&span->task, &position); /* pieces do not fail: what is damaged is a finding */
	g4_scrub_count(step, (uint32_t)g4_min64(span->looked, UINT32_MAX));
	step->record->errors += span->found;
	step->pages = (uint32_t)g4_max64(step->pages, G4_SCRUB_PAGES); /* holes or not, that was a step */
	return end - page;
}
