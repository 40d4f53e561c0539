/* SPDX-License-Identifier: Apache-2.0 */
/* Joining, committing, writing home. The crash argument is in journal.h. */
#include "journal/journal.h"

#include "hash/crc32c.h"

#define GATE_CLOSED (UINT64_C(1) << 63)
#define GATE_ONE (UINT64_C(1) << 32)
#define GATE_CREDITS UINT64_C(0xffffffff)
#define GATE_INSIDE(gate) (((gate) & ~GATE_CLOSED) >> 32)

/* ------------------------------------------------------------------ operations */

G4_FN static bool log_is_full(const struct g4_journal *j)
{
	const struct g4_txn_log *log = &j->logs[g4_load64_rlx(&j->running) & 1];

	return g4_load32_rlx(&log->revoke_count) > G4_TXN_MAX_REVOKES / 2 ||
	       g4_load32_rlx(&log->free_count) > G4_TXN_MAX_FREES / 2;
}

G4_FN int g4_txn_begin(struct g4_journal *j, uint32_t credits, struct g4_txn *txn)
{
	for (;;) {
		uint32_t word = g4_load32_acq(&j->gate_word);
		uint64_t gate = g4_load64_acq(&j->gate);

		if (g4_load32_acq(&j->aborted))
			return -G4_E_ROFS;
		if (gate & GATE_CLOSED) {
			g4_wait(&j->gate_word, word);
			continue;
		}
		if ((gate & GATE_CREDITS) + credits > j->max_blocks || log_is_full(j))
			return -G4_E_AGAIN;
		if (!g4_cas64(&j->gate, gate, gate + GATE_ONE + credits))
			continue;
		txn->journal = j;
		txn->sequence = g4_load64_rlx(&j->running);
		txn->credits = credits;
		txn->changed = false;
		return 0;
	}
}

G4_FN bool g4_txn_extend(struct g4_txn *txn, uint32_t credits)
{
	struct g4_journal *j = txn->journal;

	for (;;) {
		uint64_t gate = g4_load64_acq(&j->gate);

		if ((gate & GATE_CLOSED) || (gate & GATE_CREDITS) + credits > j->max_blocks || log_is_full(j))
			return false;
		if (g4_cas64(&j->gate, gate, gate + credits)) {
			txn->credits += credits;
			return true;
		}
	}
}

G4_FN void g4_txn_end(struct g4_txn *txn)
{
	struct g4_journal *j = txn->journal;
	uint64_t old = g4_sub64(&j->gate, GATE_ONE + txn->credits);

	txn->credits = 0;
	if ((old & GATE_CLOSED) && GATE_INSIDE(old) == 1) {
		g4_add32(&j->drain_word, 1);
		g4_wake(&j->drain_word);
	}
}

G4_FN void g4_txn_dirty(struct g4_txn *txn, uint32_t i)
{
	struct g4_journal *j = txn->journal;
	struct g4_line *line = &j->meta->cache->lines[i];
	struct g4_txn_log *log = &j->logs[txn->sequence & 1];

	txn->changed = true;
	if (g4_load64_acq(&line->txn) == txn->sequence || !g4_cas64(&line->txn, 0, txn->sequence))
		return;
	g4_cache_ref(j->meta->cache, i);
	log->lines[g4_add32(&log->line_count, 1)] = i;
	if (txn->credits > 0)
		txn->credits--; /* the credit stays given out: the block counts against the transaction */
	else
		g4_add64(&j->gate, 1); /* beyond the announcement: slack, but counted */
}

G4_FN void g4_txn_forget(struct g4_txn *txn, uint64_t address)
{
	struct g4_journal *j = txn->journal;
	struct g4_txn_log *log = &j->logs[txn->sequence & 1];
	uint32_t i = g4_cache_find(j->meta->cache, 0, address >> G4_PAGE_SHIFT);

	if (i != G4_NO_LINE) {
		g4_txn_dirty(txn, i); /* so that the commit meets it and lets it go */
		j->meta->cache->lines[i].freed = 1;
		g4_cache_put(j->meta->cache, i);
	}
	g4_lock(&log->lock);
	if (log->revoke_count < G4_TXN_MAX_REVOKES) { /* begin and extend keep half of the room free */
		log->revokes[log->revoke_count] = address;
		g4_store32_rel(&log->revoke_count, log->revoke_count + 1); /* log_is_full() looks without the lock */
	} else {
		g4_journal_abort(j, -G4_E_JOURNAL_FULL);
	}
	g4_unlock(&log->lock);
}

G4_FN void g4_txn_free(struct g4_txn *txn, uint64_t address, uint64_t pages)
{
	struct g4_journal *j = txn->journal;
	struct g4_txn_log *log = &j->logs[txn->sequence & 1];

	g4_lock(&log->lock);
	struct g4_extent *last = log->free_count ? &log->frees[log->free_count - 1] : NULL;
	if (last && last->address + last->pages * G4_PAGE_BYTES == address) {
		last->pages += pages;
	} else if (log->free_count < G4_TXN_MAX_FREES) {
		log->frees[log->free_count].address = address;
		log->frees[log->free_count].pages = pages;
		g4_store32_rel(&log->free_count, log->free_count + 1);
	} else {
		g4_journal_abort(j, -G4_E_JOURNAL_FULL);
	}
	g4_unlock(&log->lock);
}

G4_FN void g4_txn_data(struct g4_txn *txn, uint64_t address, uint32_t crc32c)
{
	struct g4_txn_log *log = &txn->journal->logs[txn->sequence & 1];

	g4_lock(&log->lock);
	if (log->data_count < G4_TXN_MAX_DATA) {
		log->data[log->data_count].address = address;
		log->data[log->data_count++].crc32c = crc32c;
	} else {
		log->data_untagged = 1;
	}
	g4_unlock(&log->lock);
}

G4_FN void g4_txn_data_untagged(struct g4_txn *txn)
{
	struct g4_txn_log *log = &txn->journal->logs[txn->sequence & 1];

	g4_lock(&log->lock);
	log->data_untagged = 1;
	g4_unlock(&log->lock);
}

G4_FN void g4_journal_abort(struct g4_journal *j, int code)
{
	g4_cas32(&j->aborted, 0, (uint32_t)-code);
}

/* ------------------------------------------------------------------ commit */

G4_FN static void close_gate(struct g4_journal *j)
{
	uint64_t gate = g4_or64(&j->gate, GATE_CLOSED);

	while (GATE_INSIDE(gate) != 0) {
		uint32_t word = g4_load32_acq(&j->drain_word);
		gate = g4_load64_acq(&j->gate);
		if (GATE_INSIDE(gate) != 0)
			g4_wait(&j->drain_word, word);
	}
}

G4_FN static void open_gate(struct g4_journal *j)
{
	g4_store64_rel(&j->gate, 0);
	g4_add32(&j->gate_word, 1);
	g4_wake(&j->gate_word);
}

G4_FN static void seal(struct g4_journal *j, const struct g4_line *line, void *page, uint64_t address,
		       uint64_t sequence)
{
	if (line->type == G4_BLOCK_INDIRECT)
		g4_indirect_seal(page, line->inode, line->level, address, sequence, j->meta->fs_tag);
	else
		g4_block_seal(page, line->type, address, sequence, j->meta->fs_tag);
}

/* Takes a line off the home list's responsibility; the list entry itself is removed by compact_home(). */
G4_FN static void line_is_home(struct g4_journal *j, uint32_t i)
{
	j->meta->cache->lines[i].home = 0;
	g4_cache_put(j->meta->cache, i);
}

G4_FN static void compact_home(struct g4_journal *j)
{
	uint32_t kept = 0;

	for (uint32_t k = 0; k < j->home_count; k++)
		if (j->home_lines[k] != G4_NO_LINE)
			j->home_lines[kept++] = j->home_lines[k];
	j->home_count = kept;
}

/* Gate closed: copies this transaction's blocks into the record, moves their lines to the home list. */
G4_FN static void freeze_blocks(struct g4_wg *wg, struct g4_journal *j, struct g4_txn_log *log, uint64_t *addresses,
				uint8_t *images)
{
	struct g4_cache *cache = j->meta->cache;
	uint32_t count = 0;

	for (uint32_t k = 0; k < log->line_count; k++) {
		uint32_t i = log->lines[k];
		struct g4_line *line = &cache->lines[i];

		if (line->freed) { /* a freed page: revoked, never written again */
			line->freed = 0;
			g4_store64_rel(&line->txn, 0);
			if (line->home != 0) {
				for (uint32_t h = 0; h < j->home_count; h++)
					if (j->home_lines[h] == i)
						j->home_lines[h] = G4_NO_LINE;
				line_is_home(j, i);
			}
			uint64_t index = line->index;
			g4_cache_put(cache, i);
			g4_cache_drop(cache, 0, index);
			continue;
		}
		g4_copy(wg, images + (uint64_t)count * G4_PAGE_BYTES, g4_line_data(cache, i), G4_PAGE_BYTES);
		addresses[count] = line->index << G4_PAGE_SHIFT;
		g4_store64_rel(&line->txn, 0);
		if (line->home == 0)
			j->home_lines[j->home_count++] = i; /* the transaction's reference becomes the home list's */
		else
			g4_cache_put(cache, i);
		line->home = j->running;
		log->lines[count++] = i;
	}
	log->line_count = count;
	compact_home(j);
}

/* Gate closed: copies committed lines of older transactions, sealed, for the checkpoint that follows this commit. */
G4_FN static void freeze_home(struct g4_wg *wg, struct g4_journal *j)
{
	struct g4_cache *cache = j->meta->cache;

	j->home_copied = 0;
	for (uint32_t k = 0; k < j->home_count; k++) {
		struct g4_line *line = &cache->lines[j->home_lines[k]];
		uint8_t *copy = j->home_copies + (uint64_t)j->home_copied * G4_PAGE_BYTES;

		if (line->home == j->running)
			continue; /* its image is in the record */
		g4_copy(wg, copy, g4_line_data(cache, j->home_lines[k]), G4_PAGE_BYTES);
		seal(j, line, copy, line->index << G4_PAGE_SHIFT, line->home);
		j->home_addresses[j->home_copied++] = line->index << G4_PAGE_SHIFT;
	}
}

G4_FN static uint64_t log_address(const struct g4_journal *j, uint64_t page)
{
	return j->area_address + (1 + page % j->log_pages) * G4_PAGE_BYTES;
}

G4_FN static uint32_t tag_count(const struct g4_journal *j, const struct g4_txn_log *log)
{
	return log->line_count + log->revoke_count + 2 * j->record_data;
}

/*
 * Gate closed: how many data tags the record gets. None when there is untagged data, which needs a flush before the
 * record anyway; and none when a tagged page was freed again in the same transaction: it may be overwritten as soon as
 * the record is durable, and would then tell against it.
 */
G4_FN static uint32_t usable_data_tags(const struct g4_journal *j, const struct g4_txn_log *log)
{
	if (log->data_untagged || !j->meta->space->volatile_cache ||
	    (uint64_t)log->data_count * log->free_count > 16384)
		return 0;
	for (uint32_t d = 0; d < log->data_count; d++)
		for (uint32_t f = 0; f < log->free_count; f++)
			if (log->data[d].address - log->frees[f].address < log->frees[f].pages * G4_PAGE_BYTES)
				return 0;
	return log->data_count;
}

G4_FN static void write_tags(struct g4_journal *j, const struct g4_txn_log *log, uint64_t sequence,
			     const uint64_t *addresses)
{
	uint32_t total = tag_count(j, log), images = log->line_count, addresses_end = images + log->revoke_count;

	for (uint32_t d = 0; d < j->record_descriptors; d++) {
		struct g4_journal_descriptor *page =
			(struct g4_journal_descriptor *)(j->record + (uint64_t)d * G4_PAGE_BYTES);
		memset(page, 0, sizeof(*page));
		page->sequence = sequence;
		page->block_count = log->line_count;
		page->revoke_count = log->revoke_count;
		page->data_count = j->record_data;
		page->page_index = d;
		page->page_count = j->record_descriptors;
		for (uint32_t t = 0; t < G4_JOURNAL_TAGS && d * G4_JOURNAL_TAGS + t < total; t++) {
			uint32_t n = d * G4_JOURNAL_TAGS + t;
			uint32_t pair = n < addresses_end ? 0 : (n - addresses_end) / 2;
			page->tags[t] = n < images		     ? addresses[n] :
					n < addresses_end	     ? log->revokes[n - images] :
					(n - addresses_end) % 2 == 0 ? log->data[pair].address :
								       log->data[pair].crc32c;
		}
		g4_block_seal(page, G4_BLOCK_JOURNAL_DESCRIPTOR, log_address(j, j->head_page + d), sequence,
			      j->meta->fs_tag);
	}
}

/* Seals images, descriptors and commit page. Returns the record's length in pages. */
G4_FN static uint64_t build_record(struct g4_journal *j, const struct g4_txn_log *log, uint64_t sequence,
				   const uint64_t *addresses)
{
	uint8_t *images = j->record + (uint64_t)j->record_descriptors * G4_PAGE_BYTES;
	uint64_t body = j->record_descriptors + log->line_count;
	struct g4_journal_commit *commit = (struct g4_journal_commit *)(j->record + body * G4_PAGE_BYTES);

	for (uint32_t k = 0; k < log->line_count; k++)
		seal(j, &j->meta->cache->lines[log->lines[k]], images + (uint64_t)k * G4_PAGE_BYTES, addresses[k],
		     sequence);
	write_tags(j, log, sequence, addresses);
	memset(commit, 0, sizeof(*commit));
	commit->sequence = sequence;
	commit->record_pages = body + 1;
	commit->record_crc32c = g4_crc32c(0, j->record, body * G4_PAGE_BYTES);
	commit->time_ns = (uint64_t)g4_realtime_ns();
	g4_block_seal(commit, G4_BLOCK_JOURNAL_COMMIT, log_address(j, j->head_page + body), sequence, j->meta->fs_tag);
	return body + 1;
}

/* A flush, not FUA, where unflushed data has to become durable with the record. */
G4_FN static int write_record(struct g4_wg *wg, struct g4_journal *j, uint64_t pages, bool flush_first)
{
	uint64_t start = j->head_page % j->log_pages;
	uint64_t first = g4_min64(pages, j->log_pages - start);
	int rc;

	if (flush_first) {
		rc = g4_space_flush(wg, j->meta->space);
		if (rc < 0)
			return rc;
	}
	if (first < pages || j->record_data > 0) {
		rc = g4_space_write(wg, j->meta->space, log_address(j, start), j->record, first * G4_PAGE_BYTES, 0);
		if (rc < 0)
			return rc;
		if (first < pages)
			rc = g4_space_write(wg, j->meta->space, log_address(j, 0), j->record + first * G4_PAGE_BYTES,
					    (pages - first) * G4_PAGE_BYTES, 0);
		return rc < 0 ? rc : g4_space_flush(wg, j->meta->space);
	}
	return g4_space_write(wg, j->meta->space, log_address(j, start), j->record, pages * G4_PAGE_BYTES, G4_IO_FUA);
}

G4_FN int g4_journal_commit(struct g4_wg *wg, struct g4_journal *j, uint64_t want, bool checkpoint,
			    const struct g4_extent **frees, uint32_t *free_count)
{
	g4_lock(&j->commit_lock);
	uint64_t sequence = j->running;
	struct g4_txn_log *log = &j->logs[sequence & 1];

	if (g4_load32_acq(&j->aborted)) {
		g4_unlock(&j->commit_lock);
		return -G4_E_SHUTDOWN;
	}
	if (want <= g4_load64_acq(&j->durable)) {
		g4_unlock(&j->commit_lock);
		return 0;
	}
	close_gate(j);
	if (g4_load32_acq(&j->aborted)) { /* by one of those inside, who left its work half done */
		open_gate(j);
		g4_unlock(&j->commit_lock);
		return -G4_E_SHUTDOWN;
	}
	if (log->line_count == 0 && log->free_count == 0 && log->revoke_count == 0 &&
	    !(checkpoint && j->home_count > 0)) {
		open_gate(j);
		g4_unlock(&j->commit_lock);
		return 0;
	}
	/* room for the descriptors is left in front of the images once the number of tags is known to be final */
	j->record_data = usable_data_tags(j, log);
	bool flush_first = g4_xchg32(&j->data_written, 0) || log->data_untagged || log->data_count > j->record_data;
	j->record_descriptors = (tag_count(j, log) + G4_JOURNAL_TAGS - 1) / G4_JOURNAL_TAGS;
	if (j->record_descriptors == 0)
		j->record_descriptors = 1;
	uint64_t *addresses = j->home_addresses + (j->max_blocks + G4_TXN_SLACK);
	freeze_blocks(wg, j, log, addresses, j->record + (uint64_t)j->record_descriptors * G4_PAGE_BYTES);
	uint64_t pages = j->record_descriptors + log->line_count + 1;
	j->record_blocks = log->line_count;
	j->checkpoint_due = checkpoint || j->used_pages + pages > j->log_pages / 2 || j->home_count > j->max_blocks / 2;
	if (j->checkpoint_due)
		freeze_home(wg, j);
	struct g4_txn_log *next = &j->logs[(sequence + 1) & 1];
	next->line_count = next->data_count = next->data_untagged = 0;
	g4_store32_rlx(&next->revoke_count, 0); /* log_is_full() may look */
	g4_store32_rlx(&next->free_count, 0);
	g4_store64_rel(&j->running, sequence + 1);
	open_gate(j);

	pages = build_record(j, log, sequence, addresses);
	int rc = pages + j->used_pages > j->log_pages ? -G4_E_JOURNAL_FULL : write_record(wg, j, pages, flush_first);
	if (rc < 0) {
		g4_journal_abort(j, rc);
		g4_unlock(&j->commit_lock);
		return rc;
	}
	j->head_page = (j->head_page + pages) % j->log_pages;
	j->used_pages += pages;
	j->commits++;
	g4_store64_rel(&j->durable, sequence);
	*frees = log->frees;
	*free_count = log->free_count;
	return 1;
}

/* ------------------------------------------------------------------ checkpoint */

#define HOME_BATCH 64u
struct home_batch {
	struct g4_io ios[HOME_BATCH];
	struct g4_iov iovs[HOME_BATCH];
	uint32_t count;
};
G4_STATIC_ASSERT(sizeof(struct home_batch) <= G4_COMMIT_SCRATCH_BYTES, "batch fits the scratch memory");

G4_FN static int flush_batch(struct g4_wg *wg, struct g4_journal *j, struct home_batch *batch)
{
	int rc = batch->count ? g4_space_transfer(wg, j->meta->space, batch->ios, batch->count) : 0;

	batch->count = 0;
	return rc;
}

/* Where image n of a checkpoint lies and belongs: first the copies of older transactions, then the record's own. */
G4_FN static uint64_t home_address(const struct g4_journal *j, uint32_t n)
{
	return n < j->home_copied ? j->home_addresses[n] :
				    j->home_addresses[j->max_blocks + G4_TXN_SLACK + n - j->home_copied];
}

G4_FN static uint8_t *home_image(const struct g4_journal *j, uint32_t n)
{
	if (n < j->home_copied)
		return j->home_copies + (uint64_t)n * G4_PAGE_BYTES;
	return j->record + (uint64_t)(j->record_descriptors + n - j->home_copied) * G4_PAGE_BYTES;
}

/* Shell sort by address, so that neighbours go out in one request. */
G4_FN static void sort_home(struct g4_journal *j, uint32_t count)
{
	uint32_t *order = j->home_order;

	for (uint32_t n = 0; n < count; n++)
		order[n] = n;
	for (uint32_t gap = count / 2; gap > 0; gap = gap == 2 ? 1 : gap * 5 / 11) {
		for (uint32_t i = gap; i < count; i++) {
			uint32_t moving = order[i], k = i;
			uint64_t address = home_address(j, moving);
			for (; k >= gap && home_address(j, order[k - gap]) > address; k -= gap)
				order[k] = order[k - gap];
			order[k] = moving;
		}
	}
}

G4_FN static int write_home(struct g4_wg *wg, struct g4_journal *j, struct home_batch *batch)
{
	uint32_t total = j->home_copied + j->record_blocks, used = 0;

	sort_home(j, total);
	batch->count = 0;
	for (uint32_t n = 0; n < total; n++) {
		uint64_t address = home_address(j, j->home_order[n]);
		struct g4_io *io = batch->count ? &batch->ios[batch->count - 1] : NULL;

		if (used == HOME_BATCH) {
			int rc = flush_batch(wg, j, batch);
			if (rc < 0)
				return rc;
			io = NULL;
			used = 0;
		}
		if (!io || io->offset_bytes + io->iov_count * G4_PAGE_BYTES != address) {
			io = &batch->ios[batch->count++];
			memset(io, 0, sizeof(*io));
			io->op = G4_IO_WRITE;
			io->offset_bytes = address;
			io->iov = &batch->iovs[used];
		}
		batch->iovs[used].base = home_image(j, j->home_order[n]);
		batch->iovs[used++].bytes = G4_PAGE_BYTES;
		io->iov_count++;
	}
	return flush_batch(wg, j, batch);
}

G4_FN static int write_tail(struct g4_wg *wg, struct g4_journal *j)
{
	struct g4_journal_header *header = (struct g4_journal_header *)j->home_copies; /* free again */

	memset(header, 0, sizeof(*header));
	header->tail_sequence = j->durable + 1;
	header->tail_page = j->head_page;
	g4_block_seal(header, G4_BLOCK_JOURNAL_HEADER, j->area_address, j->durable, j->meta->fs_tag);
	return g4_space_write(wg, j->meta->space, j->area_address, header, G4_PAGE_BYTES, G4_IO_FUA);
}

/* Everything committed so far goes home; the log is empty afterwards. */
G4_FN static int checkpoint_now(struct g4_wg *wg, struct g4_journal *j)
{
	struct home_batch *batch = (struct home_batch *)g4_wg_scratch(wg);
	int rc;

	rc = write_home(wg, j, batch);
	if (rc == 0)
		rc = g4_space_flush(wg, j->meta->space);
	if (rc == 0)
		rc = write_tail(wg, j);
	if (rc < 0)
		return rc;
	for (uint32_t k = 0; k < j->home_count; k++)
		line_is_home(j, j->home_lines[k]);
	j->home_count = 0;
	j->used_pages = 0;
	j->checkpoints++;
	return 0;
}

G4_FN int g4_journal_finish(struct g4_wg *wg, struct g4_journal *j)
{
	int rc = j->checkpoint_due ? checkpoint_now(wg, j) : 0;

	if (rc < 0)
		g4_journal_abort(j, rc);
	g4_unlock(&j->commit_lock);
	return rc;
}
