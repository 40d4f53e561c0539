/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A commit copies, seals and writes thousands of pages, each by itself. On a GPU one warp needs microseconds for each
 * while a thousand others wait for the gate: so these take pages, too. Whoever commits (the holder of the commit lock)
 * opens one task after the other (task/task.h), and pages are taken in chunks.
 *
 * A helper holds no lock of the journal. Everything a task reads is constant while it is open.
 */
#include "journal/workers.h"

#define CHUNK 4u
#define ALONE 8u /* pages that are not worth calling others for */
/* In the part of the scratch memory that is for commits, behind the checkpoint's batch. */
#define CRC_JOB_AT (G4_COMMIT_SCRATCH_BYTES - G4_PROBE_SCRATCH_BYTES)
G4_STATIC_ASSERT(sizeof(struct g4_crc32c_job) <= G4_PROBE_SCRATCH_BYTES, "the job fits");

/* ------------------------------------------------------------------ what belongs where */

G4_FN uint64_t g4_log_address(const struct g4_journal *j, uint64_t page)
{
	return j->area_address + (1 + page % j->log_pages) * G4_PAGE_BYTES;
}

G4_FN uint64_t *g4_record_addresses(const struct g4_journal *j)
{
	return j->home_addresses + (j->max_blocks + G4_TXN_SLACK);
}

G4_FN uint64_t g4_home_address(const struct g4_journal *j, uint32_t n)
{
	return n < j->home_copied ? j->home_addresses[n] : g4_record_addresses(j)[n - j->home_copied];
}

G4_FN uint8_t *g4_home_image(const struct g4_journal *j, uint32_t n)
{
	if (n < j->home_copied)
		return j->home_copies + (uint64_t)n * G4_PAGE_BYTES;
	return j->record + (uint64_t)(j->record_descriptors + n - j->home_copied) * G4_PAGE_BYTES;
}

G4_FN bool g4_journal_is_mapped(const struct g4_journal *j)
{
	return g4_dev_props(j->meta->space->disks[0])->mapped;
}

/* ------------------------------------------------------------------ one page */

G4_FN struct g4_crc32c_job *g4_crc_job(const struct g4_wg *wg)
{
	return (struct g4_crc32c_job *)((uint8_t *)g4_wg_scratch(wg) + CRC_JOB_AT);
}

/* Seals a copy of a line's page; the checksum of the sealed page. */
G4_FN static uint32_t seal(struct g4_wg *wg, const struct g4_journal *j, const struct g4_line *line, void *page,
			   uint64_t address, uint64_t sequence)
{
	if (line->type != G4_BLOCK_INDIRECT)
		return g4_block_seal_wide(wg, page, line->type, address, sequence, j->meta->fs_tag, g4_crc_job(wg));
	g4_indirect_seal(page, line->inode, line->level, address, sequence, j->meta->fs_tag);
	return g4_crc32c_wide(wg, page, g4_crc_job(wg));
}

G4_FN static uint8_t *record_image(const struct g4_journal *j, uint32_t k)
{
	return j->record + (uint64_t)(j->record_descriptors + k) * G4_PAGE_BYTES;
}

G4_FN static void freeze(struct g4_wg *wg, struct g4_journal *j, uint64_t sequence, uint32_t k)
{
	struct g4_cache *cache = j->meta->cache;
	const struct g4_txn_log *log = &j->logs[sequence & 1];
	uint32_t i = log->lines[k];
	struct g4_line *line = &cache->lines[i];

	g4_copy(wg, record_image(j, k), g4_line_data(cache, i), G4_PAGE_BYTES);
	g4_record_addresses(j)[k] = line->index << G4_PAGE_SHIFT;
	g4_store64_rel(&line->txn, 0);
	if (line->home == 0)
		j->home_lines[g4_add32(&j->home_count, 1)] =
			i; /* the transaction's reference becomes the home list's */
	else
		g4_cache_put(cache, i);
	line->home = sequence;
}

G4_FN static void freeze_home(struct g4_wg *wg, struct g4_journal *j, uint64_t sequence, uint32_t k)
{
	struct g4_cache *cache = j->meta->cache;
	struct g4_line *line = &cache->lines[j->home_lines[k]];
	const uint64_t address = line->index << G4_PAGE_SHIFT;

	if (line->home == sequence)
		return; /* its image is in the record */
	uint32_t n = g4_add32(&j->home_copied, 1);
	uint8_t *copy = j->home_copies + (uint64_t)n * G4_PAGE_BYTES;
	g4_copy(wg, copy, g4_line_data(cache, j->home_lines[k]), G4_PAGE_BYTES);
	seal(wg, j, line, copy, address, line->home);
	j->home_addresses[n] = address;
}

G4_FN void g4_line_is_home(struct g4_journal *j, uint32_t i)
{
	j->meta->cache->lines[i].home = 0;
	g4_cache_put(j->meta->cache, i);
}

G4_FN static int do_page(struct g4_wg *wg, struct g4_journal *j, uint32_t kind, uint64_t sequence, uint32_t k)
{
	switch (kind) {
	case G4_COMMIT_TASK_FREEZE:
		freeze(wg, j, sequence, k);
		return 0;
	case G4_COMMIT_TASK_FREEZE_HOME:
		freeze_home(wg, j, sequence, k);
		return 0;
	case G4_COMMIT_TASK_SEAL:
		j->record_crcs[k] = seal(wg, j, &j->meta->cache->lines[j->logs[sequence & 1].lines[k]],
					 record_image(j, k), g4_record_addresses(j)[k], sequence);
		return 0;
	case G4_COMMIT_TASK_WRITE:
		return g4_space_write(wg, j->meta->space, g4_log_address(j, j->head_page + k),
				      j->record + (uint64_t)k * G4_PAGE_BYTES, G4_PAGE_BYTES, 0);
	case G4_COMMIT_TASK_LET_GO:
		g4_line_is_home(j, j->home_lines[k]);
		return 0;
	default:
		return g4_space_write(wg, j->meta->space, g4_home_address(j, k), g4_home_image(j, k), G4_PAGE_BYTES, 0);
	}
}

/* ------------------------------------------------------------------ handing out */

G4_FN bool g4_commit_workers_help(struct g4_wg *wg, struct g4_journal *j)
{
	struct g4_commit_workers *workers = &j->workers;
	uint32_t first;
	const uint32_t count = g4_task_take(&workers->task, CHUNK, &first);

	if (count == 0)
		return false;
	const uint32_t kind = g4_load32_rlx(&workers->kind);
	const uint64_t sequence = g4_load64_rlx(&workers->sequence);
	for (uint32_t k = first; k < first + count; k++) {
		int rc = do_page(wg, j, kind, sequence, k);
		if (rc < 0)
			g4_task_fail(&workers->task, k, rc);
	}
	g4_task_done(&workers->task, count);
	return true;
}

G4_FN static int run_alone(struct g4_wg *wg, struct g4_journal *j, enum g4_commit_task task, uint64_t sequence,
			   uint32_t pages)
{
	int rc = 0;

	for (uint32_t k = 0; k < pages && rc == 0; k++)
		rc = do_page(wg, j, (uint32_t)task, sequence, k);
	return rc;
}

G4_FN int g4_commit_workers_run(struct g4_wg *wg, struct g4_journal *j, enum g4_commit_task task, uint64_t sequence,
				uint32_t pages)
{
	struct g4_commit_workers *workers = &j->workers;
	uint64_t position;

	if (pages < ALONE)
		return run_alone(wg, j, task, sequence, pages);
	g4_store32_rlx(&workers->kind, (uint32_t)task);
	g4_store64_rlx(&workers->sequence, sequence);
	g4_task_open(&workers->task, pages);
	while (g4_commit_workers_help(wg, j))
		;
	return g4_task_wait(&workers->task, &position);
}
