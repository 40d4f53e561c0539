/* SPDX-License-Identifier: Apache-2.0 */
/* Joining, committing, writing home. The crash argument is in journal.h. */
#include "journal/journal.h"

#include "journal/sealed_wide.h"
#include "journal/wide.h"
#include "journal/workers.h"
#include "simt/ticket.h"

#define GATE_CLOSED (UINT64_C(1) << 63)
#define GATE_STARVING (UINT64_C(1) << 62) /* somebody waits for credits */
#define GATE_ONE (UINT64_C(1) << 32)
#define GATE_CREDITS UINT64_C(0xffffffff)
#define FEW_FREED                                                                                                      \
	8u /* pages of a transaction: a look at each line of the home list costs as much as some searches in it */
#define SHARED_PAGES 64u /* a shorter record is written in one piece, durable with it */
#define GATE_INSIDE(gate) (((gate) & ~(GATE_CLOSED | GATE_STARVING)) >> 32)

/* ------------------------------------------------------------------ operations */

/* Both counts are asked for before one is looked at. */
G4_FN static bool is_log_full(const struct g4_txn_log *log)
{
	const uint32_t revokes = g4_load32_rlx(&log->revoke_count), frees = g4_load32_rlx(&log->free_count);

	return revokes > G4_TXN_MAX_REVOKES / 2 || frees > G4_TXN_MAX_FREES / 2;
}

G4_FN static bool log_is_full(const struct g4_journal *j)
{
	return is_log_full(&j->logs[g4_load64_rlx(&j->running) & 1]);
}

G4_FN G4_COLD static void wake_at_gate(struct g4_journal *j, uint64_t old, uint64_t credits)
{
	if ((old & GATE_CLOSED) && GATE_INSIDE(old) == 1) {
		g4_add32(&j->drain_word, 1);
		g4_wake(&j->drain_word);
	}
	/* an operation that sets the flag again between the two has read the word before, and does not wait */
	if ((old & GATE_STARVING) && (credits > 0 || GATE_INSIDE(old) == 1)) {
		g4_and64(&j->gate, ~GATE_STARVING);
		g4_add32(&j->credit_word, 1);
		g4_wake(&j->credit_word);
	}
}

/* Leaves the gate, behind g4_fence_rel(): tells the commit that waits for the last one inside, and those that wait for credits. */
G4_FN static void leave_gate(struct g4_journal *j, uint64_t credits)
{
	uint64_t old = g4_sub64_fenced(&j->gate, GATE_ONE + credits);

	if (old & (GATE_CLOSED | GATE_STARVING))
		wake_at_gate(j, old, credits);
}

/* One addition, taken back where it does not fit: hundreds of warps that compare and swap here would all but one fail. */
G4_FN int g4_txn_begin(struct g4_journal *j, uint32_t credits, struct g4_txn *txn)
{
	const uint32_t max_blocks = j->max_blocks, aborted = g4_load32_rlx(&j->aborted);
	uint64_t gate = g4_load64_rlx(&j->gate);

	if (aborted)
		return -G4_E_ROFS;
	if ((gate & GATE_CLOSED) || (gate & GATE_CREDITS) + credits > max_blocks)
		return -G4_E_AGAIN;
	gate = g4_add64_acq(&j->gate, GATE_ONE + credits);
	const uint64_t running = g4_load64_rlx(&j->running); /* for as long as somebody is inside */
	if ((gate & GATE_CLOSED) || (gate & GATE_CREDITS) + credits > max_blocks ||
	    is_log_full(&j->logs[running & 1])) {
		g4_fence_rel();
		leave_gate(j, credits);
		return -G4_E_AGAIN;
	}
	*txn = g4_txn_in(j, running, credits);
	return 0;
}

/* Whether blocks, not reservations, fill the transaction: more than half of it, or what only a commit makes room in. */
G4_FN static bool is_really_full(const struct g4_journal *j)
{
	return g4_load32_rlx(&j->logs[g4_load64_rlx(&j->running) & 1].line_count) > j->max_blocks / 2 || log_is_full(j);
}

/* Of what operations announced most is used in the end, where blocks are more than half; an eighth is what some hundred of them announce. */
G4_FN bool g4_journal_is_nearly_full(const struct g4_journal *j)
{
	const struct g4_txn_log *log = &j->logs[g4_load64_rlx(&j->running) & 1];
	const uint32_t revokes = g4_load32_rlx(&log->revoke_count), frees = g4_load32_rlx(&log->free_count);
	const uint32_t lines = g4_load32_rlx(&log->line_count), most = j->max_blocks;
	const uint64_t announced = g4_load64_rlx(&j->gate) & GATE_CREDITS;

	return (lines > most / 2 && announced > most / 8 * 7) || revokes > G4_TXN_MAX_REVOKES / 16 * 7 ||
	       frees > G4_TXN_MAX_FREES / 16 * 7;
}

G4_FN bool g4_txn_await(struct g4_wg *wg, struct g4_journal *j, uint32_t credits)
{
	uint32_t word = g4_load32_acq(&j->gate_word);
	uint64_t gate = g4_load64_acq(&j->gate);

	if (g4_commit_workers_help(wg, j))
		return true;
	if (gate & GATE_CLOSED) {
		/* a commit that shares its work comes back for us soon; one that waits for the gate does not need us */
		if (GATE_INSIDE(gate) == 0)
			g4_pause();
		else
			g4_wait(&j->gate_word, word);
		return true;
	}
	if (is_really_full(j) || GATE_INSIDE(gate) == 0) {
		uint64_t lock = g4_load64_rlx(&j->commit_lock.word);

		if (g4_ticket_is_quiet(lock))
			return false;
		g4_pause(); /* somebody commits: better to be there when it is to be helped than to queue behind */
		return true;
	}
	word = g4_load32_acq(&j->credit_word);
	gate = g4_or64(&j->gate, GATE_STARVING);
	if (!(gate & GATE_CLOSED) && GATE_INSIDE(gate) > 0 && (gate & GATE_CREDITS) + credits > j->max_blocks)
		g4_wait(&j->credit_word, word);
	return true;
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

G4_FN bool g4_txn_is_crowded(const struct g4_txn *txn)
{
	return log_is_full(txn->journal);
}

G4_FN void g4_txn_end_fenced(struct g4_txn *txn)
{
	leave_gate(txn->journal, txn->credits);
	txn->credits = 0;
}

G4_FN void g4_txn_end(struct g4_txn *txn)
{
	g4_fence_rel();
	g4_txn_end_fenced(txn);
}

G4_FN void g4_txn_dirty(struct g4_txn *txn, uint32_t line)
{
	struct g4_journal *j = txn->journal;
	struct g4_meta_line *about = (struct g4_meta_line *)(void *)txn->lines[line].kept;
	struct g4_txn_log *log = &j->logs[txn->sequence & 1];

	txn->changed++;
	/* if it is ours, somebody inside of the gate has put it on the list, or is about to */
	if (g4_load64_rlx(&about->txn) == txn->sequence || !g4_cas64(&about->txn, 0, txn->sequence))
		return;
	g4_cache_ref(txn->cache, line);
	log->lines[g4_add32_rlx(&log->line_count, 1)] = line; /* the gate orders it before the commit */
	if (txn->credits > 0)
		txn->credits--; /* the credit stays given out: the block counts against the transaction */
	else
		g4_add64(&j->gate, 1); /* beyond the announcement: slack, but counted */
}

G4_FN void g4_txn_forget(struct g4_txn *txn, struct g4_address address)
{
	struct g4_journal *j = txn->journal;
	struct g4_txn_log *log = &j->logs[txn->sequence & 1];
	uint32_t i = g4_cache_find(j->meta->cache, 0, g4_address_page(address));

	if (i != G4_NO_LINE) {
		g4_txn_dirty(txn, i); /* so that the commit meets it and lets it go */
		g4_meta_line(j->meta->cache, i)->freed = 1;
		g4_cache_put(j->meta->cache, i);
	}
	g4_lock(&log->lock);
	if (log->revoke_count < G4_TXN_MAX_REVOKES) { /* begin and extend keep half of the room free */
		log->revokes[log->revoke_count] = g4_address_stored(address);
		g4_store32_rel(&log->revoke_count, log->revoke_count + 1); /* log_is_full() looks without the lock */
	} else {
		g4_journal_abort(j, -G4_E_JOURNAL_FULL);
	}
	g4_unlock(&log->lock);
}

G4_FN void g4_txn_free(struct g4_txn *txn, struct g4_address address, uint64_t pages)
{
	struct g4_journal *j = txn->journal;
	struct g4_txn_log *log = &j->logs[txn->sequence & 1];

	g4_lock(&log->lock);
	struct g4_extent *last = log->free_count ? &log->frees[log->free_count - 1] : NULL;
	if (last && g4_address_is(g4_address_after_pages(last->address, last->pages), address)) {
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

G4_FN void g4_txn_data(struct g4_txn *txn, struct g4_address address, uint32_t crc32c)
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

/*
 * Returns the credits that the transaction has used. An operation that finds the gate closed may have counted itself in for a
 * moment and out again, so the count is right only when nobody is inside, and opening takes off exactly that.
 */
G4_FN static uint64_t close_gate(struct g4_journal *j)
{
	uint64_t gate = g4_or64(&j->gate, GATE_CLOSED);

	while (GATE_INSIDE(gate) != 0) {
		uint32_t word = g4_load32_acq(&j->drain_word);
		gate = g4_load64_acq(&j->gate);
		if (GATE_INSIDE(gate) != 0)
			g4_wait(&j->drain_word, word);
	}
	return gate & GATE_CREDITS;
}

G4_FN static void open_gate(struct g4_journal *j, uint64_t used)
{
	g4_sub64(&j->gate, GATE_CLOSED + used);
	g4_add32(&j->gate_word, 1);
	g4_wake(&j->gate_word);
}

/* Gate closed: lets go of the lines whose pages were freed: they are revoked, never written again. */
G4_FN static void drop_freed(struct g4_wg *wg, struct g4_journal *j, struct g4_txn_log *log)
{
	/* many take themselves out of the list: each would look for itself in all of it */
	if (log->revoke_count > FEW_FREED)
		g4_commit_workers_run(wg, j, G4_COMMIT_TASK_LEAVE_HOME, j->running, j->home_count);
	g4_commit_workers_run(wg, j, G4_COMMIT_TASK_DROP_FREED, j->running, log->line_count); /* no device: no error */
	g4_store32_rlx(&log->line_count,
		       g4_wide_compact(wg, log->lines, log->line_count)); /* is_really_full() may look */
	j->home_count = g4_wide_compact(wg, j->home_lines, j->home_count);
}

/* Gate closed: copies this transaction's blocks into the record, moves their lines to the home list. */
G4_FN static void freeze_blocks(struct g4_wg *wg, struct g4_journal *j, struct g4_txn_log *log)
{
	if (log->revoke_count > 0) /* a freed page was revoked */
		drop_freed(wg, j, log);
	g4_commit_workers_run(wg, j, G4_COMMIT_TASK_FREEZE, j->running, log->line_count); /* no device: no error */
}

/* Gate closed: copies committed lines of older transactions, sealed, for the checkpoint that follows this commit. */
G4_FN static void freeze_home(struct g4_wg *wg, struct g4_journal *j)
{
	j->home_copied = 0;
	g4_commit_workers_run(wg, j, G4_COMMIT_TASK_FREEZE_HOME, j->running, j->home_count);
}

/*
 * Gate closed: how many data tags the record gets. None when there is untagged data, which needs a flush before the
 * record anyway; and none when a tagged page was freed again in the same transaction: it may be overwritten as soon as
 * the record is durable, and would then tell against it.
 */
G4_FN static uint32_t usable_data_tags(const struct g4_journal *j, const struct g4_txn_log *log)
{
	if (log->data_untagged || !g4_space_has_volatile_cache(j->meta->space) ||
	    (uint64_t)log->data_count * log->free_count > 16384)
		return 0;
	for (uint32_t d = 0; d < log->data_count; d++)
		for (uint32_t f = 0; f < log->free_count; f++)
			if (g4_address_in(log->data[d].address, log->frees[f].address, log->frees[f].pages))
				return 0;
	return log->data_count;
}

/* Seals a page of the journal's own; its checksum. */
G4_FN static uint32_t seal(struct g4_wg *wg, const struct g4_journal *j, void *page, uint32_t type,
			   struct g4_address address, uint64_t sequence)
{
	const struct g4_sealed_about about = {type, 0, 0, 0, 0};

	return g4_seal_wide(wg, page, &about, address, sequence, j->meta->fs_tag);
}

/* Makes the descriptors; their checksum. */
G4_FN static uint32_t write_descriptors(struct g4_wg *wg, struct g4_journal *j, const struct g4_txn_log *log,
					uint64_t sequence)
{
	uint32_t crc = 0;

	for (uint32_t d = 0; d < j->record_descriptors; d++) {
		struct g4_journal_descriptor *page =
			(struct g4_journal_descriptor *)(j->record + (uint64_t)d * G4_PAGE_BYTES);
		g4_zero(wg, page, sizeof(*page));
		page->sequence = sequence;
		page->block_count = log->line_count;
		page->revoke_count = log->revoke_count;
		page->data_count = j->record_data;
		page->page_index = d;
		page->page_count = j->record_descriptors;
		g4_wide_tags(wg, j, log, d);
		crc = g4_crc32c_append_page(crc, seal(wg, j, page, G4_BLOCK_JOURNAL_DESCRIPTOR,
						      g4_log_address(j, j->head_page + d), sequence));
	}
	return crc;
}

/* Seals images, descriptors and commit page. Returns the record's length in pages. */
G4_FN static uint64_t build_record(struct g4_wg *wg, struct g4_journal *j, const struct g4_txn_log *log,
				   uint64_t sequence)
{
	uint64_t body = j->record_descriptors + log->line_count;
	struct g4_journal_commit *commit = (struct g4_journal_commit *)(j->record + body * G4_PAGE_BYTES);
	uint32_t crc;

	crc = write_descriptors(wg, j, log, sequence);
	g4_commit_workers_run(wg, j, G4_COMMIT_TASK_SEAL, sequence, log->line_count);
	crc = g4_wide_crc(wg, j, log, crc);
	g4_zero(wg, commit, sizeof(*commit));
	commit->sequence = sequence;
	commit->record_pages = body + 1;
	commit->record_crc32c = crc;
	commit->time_ns = (uint64_t)g4_realtime_ns();
	seal(wg, j, commit, G4_BLOCK_JOURNAL_COMMIT, g4_log_address(j, j->head_page + body), sequence);
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
	if (pages >= SHARED_PAGES && g4_journal_is_mapped(j)) {
		rc = g4_commit_workers_run(wg, j, G4_COMMIT_TASK_WRITE, 0, (uint32_t)pages);
		return rc < 0 ? rc : g4_space_flush(wg, j->meta->space);
	}
	if (first < pages || j->record_data > 0) {
		rc = g4_space_write(wg, j->meta->space, g4_log_address(j, start), j->record, first * G4_PAGE_BYTES,
				    G4_IO_CLASS(G4_CLASS_JOURNAL));
		if (rc < 0)
			return rc;
		if (first < pages)
			rc = g4_space_write(wg, j->meta->space, g4_log_address(j, 0), j->record + first * G4_PAGE_BYTES,
					    (pages - first) * G4_PAGE_BYTES, G4_IO_CLASS(G4_CLASS_JOURNAL));
		return rc < 0 ? rc : g4_space_flush(wg, j->meta->space);
	}
	return g4_space_write(wg, j->meta->space, g4_log_address(j, start), j->record, pages * G4_PAGE_BYTES,
			      G4_IO_FUA | G4_IO_CLASS(G4_CLASS_JOURNAL));
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
	uint64_t used = close_gate(j);
	if (g4_load32_acq(&j->aborted)) { /* by one of those inside, which left its work half done */
		open_gate(j, used);
		g4_unlock(&j->commit_lock);
		return -G4_E_SHUTDOWN;
	}
	if (log->line_count == 0 && log->free_count == 0 && log->revoke_count == 0 &&
	    !(checkpoint && j->home_count > 0)) {
		open_gate(j, used);
		g4_unlock(&j->commit_lock);
		return 0;
	}
	/* room for the descriptors is left in front of the images once the number of tags is known to be final */
	j->record_data = usable_data_tags(j, log);
	bool flush_first = g4_xchg32(&j->data_written, 0) || log->data_untagged || log->data_count > j->record_data;
	j->record_descriptors = (g4_tag_count(j, log) + G4_JOURNAL_TAGS - 1) / G4_JOURNAL_TAGS;
	if (j->record_descriptors == 0)
		j->record_descriptors = 1;
	freeze_blocks(wg, j, log);
	uint64_t pages = j->record_descriptors + log->line_count + 1;
	j->record_blocks = log->line_count;
	j->checkpoint_due = checkpoint || j->used_pages + pages > j->log_pages / 2 || j->home_count > j->max_blocks / 2;
	if (j->checkpoint_due)
		freeze_home(wg, j);
	struct g4_txn_log *next = &j->logs[(sequence + 1) & 1];
	g4_store32_rlx(&next->line_count, 0);
	next->data_count = next->data_untagged = 0;
	g4_store32_rlx(&next->revoke_count, 0); /* log_is_full() may look */
	g4_store32_rlx(&next->free_count, 0);
	g4_store64_rel(&j->running, sequence + 1);
	open_gate(j, used);

	pages = build_record(wg, j, log, sequence);
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
#define HOME_REQUEST_PAGES 256u /* 1 MiB: several are under way at a time */
#define SORTED_PAGES 256u
struct home_batch {
	struct g4_space_io requests[HOME_BATCH];
	struct g4_iov iovs[HOME_BATCH];
	uint32_t count;
};
G4_STATIC_ASSERT(sizeof(struct home_batch) <= G4_COMMIT_SCRATCH_BYTES, "batch fits the scratch memory");

G4_FN static int flush_batch(struct g4_wg *wg, struct g4_journal *j, struct home_batch *batch)
{
	int rc = batch->count ? g4_space_transfer(wg, j->meta->space, batch->requests, batch->count) : 0;

	batch->count = 0;
	return rc;
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
			const struct g4_address address = g4_home_address(j, moving);
			for (; k >= gap && g4_address_is_before(address, g4_home_address(j, order[k - gap])); k -= gap)
				order[k] = order[k - gap];
			order[k] = moving;
		}
	}
}

G4_FN static int write_home(struct g4_wg *wg, struct g4_journal *j, struct home_batch *batch)
{
	uint32_t total = j->home_copied + j->record_blocks, used = 0, pages = 0; /* of the last request */
	uint8_t *end = NULL;							 /* of the last part in memory */

	/* memory has no better and no worse order; and sorting is the work of one lane, a miss for each step on a GPU */
	if (g4_journal_is_mapped(j) || (g4_wg_width(wg) > 1 && total > SORTED_PAGES))
		return g4_commit_workers_run(wg, j, G4_COMMIT_TASK_HOME, 0, total);
	sort_home(j, total);
	batch->count = 0;
	for (uint32_t n = 0; n < total; n++) {
		const struct g4_address address = g4_home_address(j, j->home_order[n]);
		struct g4_space_io *last = batch->count ? &batch->requests[batch->count - 1] : NULL;

		uint8_t *image = g4_home_image(j, j->home_order[n]);
		const bool joins = last && pages < HOME_REQUEST_PAGES &&
				   g4_address_is(g4_address_after_pages(last->address, pages), address);
		/* pages that were allocated in a row were mostly logged in that row, too */
		if (joins && image == end) {
			batch->iovs[used - 1].bytes += G4_PAGE_BYTES;
			end += G4_PAGE_BYTES;
			pages++;
			continue;
		}
		if (used == HOME_BATCH) {
			int rc = flush_batch(wg, j, batch);
			if (rc < 0)
				return rc;
			used = 0;
		}
		if (!joins || used == 0) {
			last = &batch->requests[batch->count++];
			g4_space_io_init(last, G4_IO_WRITE, address, &batch->iovs[used], 0);
			last->io.flags = G4_IO_CLASS(G4_CLASS_METADATA);
			pages = 0;
		}
		batch->iovs[used].base = image;
		batch->iovs[used++].bytes = G4_PAGE_BYTES;
		last->io.iov_count++;
		end = image + G4_PAGE_BYTES;
		pages++;
	}
	return flush_batch(wg, j, batch);
}

G4_FN static int write_tail(struct g4_wg *wg, struct g4_journal *j)
{
	struct g4_journal_header *header = (struct g4_journal_header *)j->home_copies; /* free again */

	g4_zero(wg, header, sizeof(*header));
	header->tail_sequence = j->durable + 1;
	header->tail_page = j->head_page;
	seal(wg, j, header, G4_BLOCK_JOURNAL_HEADER, j->area, j->durable);
	return g4_space_write(wg, j->meta->space, j->area, header, G4_PAGE_BYTES,
			      G4_IO_FUA | G4_IO_CLASS(G4_CLASS_JOURNAL));
}

/* Everything committed so far goes home; the log is empty afterwards. */
G4_FN static int checkpoint_now(struct g4_wg *wg, struct g4_journal *j)
{
	const uint32_t mark = g4_scratch_mark(wg);
	int rc = write_home(wg, j, (struct home_batch *)g4_scratch_take(wg, sizeof(struct home_batch)));

	g4_scratch_release(wg, mark);
	if (rc == 0)
		rc = g4_space_flush(wg, j->meta->space);
	if (rc == 0)
		rc = write_tail(wg, j);
	if (rc < 0)
		return rc;
	g4_commit_workers_run(wg, j, G4_COMMIT_TASK_LET_GO, 0, j->home_count); /* no device: no error */
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
