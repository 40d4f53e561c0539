/* SPDX-License-Identifier: Apache-2.0 */
/* Loops over a transaction's blocks, one lane in so many each. */
#include "journal/wide.h"

#include "hash/crc32c.h"
#include "journal/workers.h"

#define COMPACT_ROWS 4u /* that a lane has under way: on a GPU each row by itself would be waited for */
enum job_kind { JOB_TAGS, JOB_CRC, JOB_COMPACT };

/* In scratch memory, which the caller releases. */
G4_FN static struct g4_commit_job *job_of(struct g4_wg *wg, struct g4_journal *j, const struct g4_txn_log *log,
					  enum job_kind kind)
{
	struct g4_commit_job *job = (struct g4_commit_job *)g4_scratch_take(wg, sizeof(*job));

	job->journal = j;
	job->log = log;
	job->kind = (uint32_t)kind;
	return job;
}

/* ------------------------------------------------------------------ tags */

G4_FN uint32_t g4_tag_count(const struct g4_journal *j, const struct g4_txn_log *log)
{
	return log->line_count + log->revoke_count + 2 * j->record_data;
}

G4_FN static uint64_t tag(const struct g4_journal *j, const struct g4_txn_log *log, uint32_t n)
{
	const uint32_t images = log->line_count, addresses_end = images + log->revoke_count;

	if (n < images)
		return g4_address_stored(g4_record_addresses(j)[n]);
	if (n < addresses_end)
		return log->revokes[n - images];
	const struct g4_data_tag *data = &log->data[(n - addresses_end) / 2];
	return (n - addresses_end) % 2 == 0 ? g4_address_stored(data->address) : data->crc32c;
}

G4_FN static void fill_tags(const struct g4_commit_job *job, uint32_t lane, uint32_t width)
{
	const struct g4_journal *j = job->journal;
	struct g4_journal_descriptor *page =
		(struct g4_journal_descriptor *)(j->record + (uint64_t)job->page * G4_PAGE_BYTES);
	const uint32_t first = job->page * G4_JOURNAL_TAGS, total = g4_tag_count(j, job->log);

	for (uint32_t t = lane; t < G4_JOURNAL_TAGS && first + t < total; t += width)
		page->tags[t] = tag(j, job->log, first + t);
}

G4_FN void g4_wide_tags(struct g4_wg *wg, struct g4_journal *j, const struct g4_txn_log *log, uint32_t page)
{
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_commit_job *job = job_of(wg, j, log, JOB_TAGS);

	job->page = page;
	g4_region(wg, G4_REGION_COMMIT, g4_commit_region, job);
	g4_scratch_release(wg, mark);
}

/* ------------------------------------------------------------------ checksum of the record */

G4_FN static uint32_t share(uint32_t count, uint32_t width)
{
	return (count + width - 1) / width;
}

/* Each lane joins the checksums of a row of pages. */
G4_FN static void join_crcs(struct g4_commit_job *job, uint32_t lane, uint32_t width)
{
	const uint32_t count = job->log->line_count, each = share(count, width), first = lane * each;
	uint32_t crc = 0;

	for (uint32_t k = first; k < first + each && k < count; k++)
		crc = g4_crc32c_append_page(crc, job->journal->record_crcs[k]);
	job->part[lane] = crc;
}

G4_FN uint32_t g4_wide_crc(struct g4_wg *wg, struct g4_journal *j, const struct g4_txn_log *log, uint32_t crc)
{
	const uint32_t width = g4_wg_width(wg), count = log->line_count, each = share(count, width);

	if (width == 1 || width > 64 || count < 2 * width) {
		for (uint32_t k = 0; k < count; k++)
			crc = g4_crc32c_append_page(crc, j->record_crcs[k]);
		return crc;
	}
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_commit_job *job = job_of(wg, j, log, JOB_CRC);
	g4_region(wg, G4_REGION_COMMIT, g4_commit_region, job);
	for (uint32_t lane = 0; lane * each < count; lane++)
		crc = g4_crc32c_append_pages(crc, job->part[lane],
					     (uint32_t)g4_min64(each, count - (uint64_t)lane * each));
	g4_scratch_release(wg, mark);
	return crc;
}

/* ------------------------------------------------------------------ lists of lines */

/* Collective. What is kept goes where all lanes have read, so the list is its own room. */
G4_FN static void compact(struct g4_wg *wg, struct g4_commit_job *job)
{
	const uint32_t lane = g4_wg_lane(wg), width = g4_wg_width(wg), count = job->count;
	const uint64_t before = (UINT64_C(1) << lane) - 1;
	uint32_t kept = 0;

	for (uint32_t base = 0; base < count; base += COMPACT_ROWS * width) {
		uint32_t some[COMPACT_ROWS];

		for (uint32_t r = 0; r < COMPACT_ROWS; r++) {
			const uint32_t at = base + r * width + lane;
			some[r] = at < count ? job->lines[at] : G4_NO_LINE;
		}
		for (uint32_t r = 0; r < COMPACT_ROWS; r++) {
			const uint64_t stay = g4_ballot(wg, some[r] != G4_NO_LINE);
			if (some[r] != G4_NO_LINE)
				job->lines[kept + g4_count_bits(stay & before)] = some[r];
			kept += g4_count_bits(stay);
		}
	}
	g4_sync(wg); /* all have looked at the count */
	if (lane == 0)
		job->count = kept;
}

G4_FN uint32_t g4_wide_compact(struct g4_wg *wg, uint32_t *lines, uint32_t count)
{
	uint32_t kept = 0;

	if (g4_wg_width(wg) == 1) {
		for (uint32_t k = 0; k < count; k++)
			if (lines[k] != G4_NO_LINE)
				lines[kept++] = lines[k];
		return kept;
	}
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_commit_job *job = job_of(wg, NULL, NULL, JOB_COMPACT);
	job->lines = lines;
	job->count = count;
	g4_region(wg, G4_REGION_COMMIT, g4_commit_region, job);
	kept = job->count;
	g4_scratch_release(wg, mark);
	return kept;
}

/* ------------------------------------------------------------------ */

G4_REGION_BODY void g4_commit_region(struct g4_wg *wg, void *args)
{
	struct g4_commit_job *job = (struct g4_commit_job *)args;
	const uint32_t lane = g4_wg_lane(wg), width = g4_wg_width(wg);

	g4_converge(wg);
	if (job->kind == JOB_TAGS)
		fill_tags(job, lane, width);
	else if (job->kind == JOB_CRC)
		join_crcs(job, lane, width);
	else
		compact(wg, job);
}
