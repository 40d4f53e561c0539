/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A commit copies, seals and writes thousands of pages, each by itself. On a GPU one warp needs microseconds for each
 * while a thousand others wait for the gate: so these take pages, too. The committer (the holder of the commit lock)
 * opens one task after the other (task/task.h), and pages are taken in chunks.
 *
 * A helper holds no lock of the journal. Everything a task reads is constant while it is open, but for what its own pages change.
 */
#include "journal/workers.h"
#include "format/spare_bits.h"
#include "journal/sealed_wide.h"

#define CHUNK 4u
#define ALONE 8u /* pages that are not worth calling others for */

/* ------------------------------------------------------------------ what belongs where */

G4_FN struct g4_address g4_log_address(const struct g4_journal *j, uint64_t page)
{
	return g4_address_after_pages(j->area, 1 + page % j->log_pages);
}

G4_FN struct g4_address *g4_record_addresses(const struct g4_journal *j)
{
	return j->home_addresses + (j->max_blocks + G4_TXN_SLACK);
}

G4_FN struct g4_address g4_home_address(const struct g4_journal *j, uint32_t n)
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
	return g4_space_is_mapped(j->meta->space);
}

/* ------------------------------------------------------------------ one page */

/* What the image of an indirect page says of the pages below: what it is of goes on when the image has been made. */
G4_FN static uint32_t below_in(const void *page)
{
	uint32_t below = 0;

	for (uint32_t k = 0; k < sizeof(((struct g4_indirect_header *)0)->below); k++)
		below |= (uint32_t)g4_indirect_header_byte((const g4_le64 *)page,
							   (uint32_t)offsetof(struct g4_indirect_header, below) + k)
			 << 8 * k;
	return below;
}

/* Seals a copy of a line's page; the checksum of the sealed page. */
G4_FN static uint32_t seal(struct g4_wg *wg, const struct g4_journal *j, const struct g4_meta_line *line, void *page,
			   struct g4_address address, uint64_t sequence)
{
	const struct g4_sealed_about about = {line->type, line->level, line->quarter, line->inode,
					      line->type == G4_BLOCK_INDIRECT ? below_in(page) : 0};

	return g4_seal_wide(wg, page, &about, address, sequence, j->meta->fs_tag);
}

/* Of a line's page. What stands beside it changes with it: an indirect page's pages of sums, and how many pages there are below. */
G4_FN static void copy_page(struct g4_wg *wg, const struct g4_cache *cache, uint32_t i, uint8_t *to)
{
	g4_copy(wg, to, g4_line_data(cache, i), G4_PAGE_BYTES);
	if (g4_meta_line(cache, i)->type != G4_BLOCK_INDIRECT)
		return;
	g4_indirect_embed_places((g4_le64 *)(void *)to, g4_meta_places(cache, i));
	g4_indirect_embed_below((g4_le64 *)(void *)to, g4_meta_line(cache, i)->below);
}

G4_FN static uint8_t *record_image(const struct g4_journal *j, uint32_t k)
{
	return j->record + (uint64_t)(j->record_descriptors + k) * G4_PAGE_BYTES;
}

G4_FN static void leave_home(struct g4_journal *j, uint32_t k)
{
	const uint32_t i = j->home_lines[k];

	if (!g4_meta_line(j->meta->cache, i)->freed)
		return;
	j->home_lines[k] = G4_NO_LINE;
	g4_line_is_home(j, i);
}

G4_FN static void drop_freed(struct g4_journal *j, uint64_t sequence, uint32_t k)
{
	struct g4_cache *cache = j->meta->cache;
	uint32_t *const lines = j->logs[sequence & 1].lines, i = lines[k];
	struct g4_meta_line *line = g4_meta_line(cache, i);

	if (!line->freed)
		return;
	lines[k] = G4_NO_LINE;
	line->freed = 0;
	g4_store64_rel(&line->txn, 0);
	if (line->home != 0) {				     /* one of few */
		for (uint32_t h = 0; h < j->home_count; h++) /* others take out theirs meanwhile */
			if (g4_load32_rlx(&j->home_lines[h]) == i)
				g4_store32_rlx(&j->home_lines[h], G4_NO_LINE);
		g4_line_is_home(j, i);
	}
	const uint64_t index = cache->lines[i].index;
	g4_cache_put(cache, i);
	g4_cache_drop(cache, 0, index);
}

G4_FN static void freeze(struct g4_wg *wg, struct g4_journal *j, uint64_t sequence, uint32_t k)
{
	struct g4_cache *cache = j->meta->cache;
	const struct g4_txn_log *log = &j->logs[sequence & 1];
	uint32_t i = log->lines[k];
	struct g4_meta_line *line = g4_meta_line(cache, i);

	copy_page(wg, cache, i, record_image(j, k));
	g4_record_addresses(j)[k] = g4_page_address(cache->lines[i].index);
	const bool listed = line->home != 0;
	g4_store64_rlx(&line->home, sequence); /* before txn: g4_journal_look() asks for either without a lock */
	g4_store64_rel(&line->txn, 0);
	if (listed)
		g4_cache_put(cache, i);
	else /* the transaction's reference becomes the home list's */
		j->home_lines[g4_add32(&j->home_count, 1)] = i;
}

G4_FN static void freeze_home(struct g4_wg *wg, struct g4_journal *j, uint64_t sequence, uint32_t k)
{
	struct g4_cache *cache = j->meta->cache;
	const struct g4_meta_line *line = g4_meta_line(cache, j->home_lines[k]);
	const struct g4_address address = g4_page_address(cache->lines[j->home_lines[k]].index);

	if (line->home == sequence)
		return; /* its image is in the record */
	uint32_t n = g4_add32(&j->home_copied, 1);
	uint8_t *copy = j->home_copies + (uint64_t)n * G4_PAGE_BYTES;
	copy_page(wg, cache, j->home_lines[k], copy);
	seal(wg, j, line, copy, address, line->home);
	j->home_addresses[n] = address;
}

G4_FN void g4_line_is_home(struct g4_journal *j, uint32_t line)
{
	g4_store64_rlx(&g4_meta_line(j->meta->cache, line)->home, 0);
	g4_cache_put(j->meta->cache, line);
}

G4_FN static int do_page(struct g4_wg *wg, struct g4_journal *j, uint32_t kind, uint64_t sequence, uint32_t k)
{
	switch (kind) {
	case G4_COMMIT_TASK_LEAVE_HOME:
		leave_home(j, k);
		return 0;
	case G4_COMMIT_TASK_DROP_FREED:
		drop_freed(j, sequence, k);
		return 0;
	case G4_COMMIT_TASK_FREEZE:
		freeze(wg, j, sequence, k);
		return 0;
	case G4_COMMIT_TASK_FREEZE_HOME:
		freeze_home(wg, j, sequence, k);
		return 0;
	case G4_COMMIT_TASK_SEAL:
		j->record_crcs[k] = seal(wg, j, g4_meta_line(j->meta->cache, j->logs[sequence & 1].lines[k]),
					 record_image(j, k), g4_record_addresses(j)[k], sequence);
		return 0;
	case G4_COMMIT_TASK_WRITE:
		return g4_space_write(wg, j->meta->space, g4_log_address(j, j->head_page + k),
				      j->record + (uint64_t)k * G4_PAGE_BYTES, G4_PAGE_BYTES,
				      G4_IO_CLASS(G4_CLASS_JOURNAL));
	case G4_COMMIT_TASK_LET_GO:
		g4_line_is_home(j, j->home_lines[k]);
		return 0;
	default:
		return g4_space_write(wg, j->meta->space, g4_home_address(j, k), g4_home_image(j, k), G4_PAGE_BYTES,
				      G4_IO_CLASS(G4_CLASS_METADATA));
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
