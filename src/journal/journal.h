/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transactions and the journal (design §6; DESIGN.md "Transactions").
 *
 * An operation joins the running transaction with g4_txn_begin(), announcing how many metadata blocks it may change at
 * most (credits), marks each block dirty before it changes it, and leaves with g4_txn_end(). Locks that may be waited
 * for while holding a transaction are never held while waiting for a transaction (README.md, rule 2).
 *
 * Commit: closes the gate, waits for the operations inside, copies the dirty blocks, opens the gate; then seals the
 * copies, flushes data, writes one journal record and makes it durable. Crash at any line: the record is complete
 * (its commit page's checksum covers all of it) or it is ignored; the record before it is never touched, because the
 * tail only moves after home writes were flushed.
 *
 * Home writes (checkpoint) take a copy that was made while the gate was closed, so they equal the committed state.
 */
#ifndef G4_JOURNAL_H
#define G4_JOURNAL_H

#include "journal/block.h"
#include "task/task.h"

/* A commit takes no more than this of the workgroup's scratch memory. */
#define G4_COMMIT_SCRATCH_BYTES (8u * 1024)

#define G4_TXN_MAX_BLOCKS 2048u /* unless the mount asks for more */
#define G4_TXN_MOST_BLOCKS 65536u
#define G4_TXN_LEAST_BLOCKS 72u /* however small the cache: whatever announces blocks asserts that these are enough */
#define G4_TXN_SLACK 512u
#define G4_TXN_MAX_REVOKES 16384u
#define G4_TXN_MAX_FREES 131072u

struct g4_extent {
	struct g4_address address;
	uint64_t pages;
};

struct g4_data_tag {
	struct g4_address address;
	uint64_t crc32c;
};
#define G4_TXN_MAX_DATA 128u

struct g4_txn_log {	 /* what one transaction collects */
	uint32_t *lines; /* dirty cache lines */
	uint64_t *revokes;
	struct g4_extent *frees;
	uint32_t line_count, revoke_count, free_count;
	uint32_t data_count;	/* data pages with checksums, to be verified instead of flushed first */
	uint32_t data_untagged; /* there is data beyond those */
	struct g4_lock lock;	/* of revokes, frees and data */
	struct g4_data_tag data[G4_TXN_MAX_DATA];
};

/*
 * What a commit does page by page, shared by all workgroups that would otherwise wait for it (workers.c): one task after the
 * other, of which these say what its pieces are.
 */
struct g4_commit_workers {
	struct g4_task task;
	uint32_t kind; /* enum g4_commit_task */
	uint64_t sequence;
};

struct g4_journal {
	struct g4_meta *meta;
	struct g4_cache *cache; /* the meta's; its lines and pages, too: what each transaction asks for (g4_txn_in()) */
	struct g4_line *lines;
	struct g4_cache_frames frames;
	uint32_t line_count;
	uint32_t max_blocks; /* of one transaction */
	uint32_t aborted;    /* 0 or the (positive) code that stopped the journal */
	struct g4_address area;
	uint64_t log_pages;

	/* bit 63: closed; 62: some wait for credits; 32..61: operations inside; 0..31: credits used. All operations add to it */
	uint64_t gate G4_OWN_LINE;
	uint32_t gate_word G4_OWN_LINE; /* changes when the gate opens */
	uint32_t drain_word;		/* changes when the last operation leaves a closed gate */
	uint32_t data_written;		/* data was written that no transaction has tagged */
	uint32_t credit_word;		/* changes when one leaves and some wait */
	struct g4_commit_workers workers;

	uint64_t running;	   /* sequence of the open transaction */
	uint64_t durable;	   /* of the newest committed one */
	struct g4_txn_log logs[2]; /* of running: logs[running & 1] */

	struct g4_lock commit_lock; /* guards all below */
	uint64_t head_page;	    /* next free page of the log */
	uint64_t used_pages;	    /* between tail and head */
	uint32_t *home_lines;	    /* committed, not yet home; each holds a reference */
	uint32_t home_count;
	uint8_t *record;      /* record being written: descriptors, images, commit page */
	uint8_t *home_copies; /* images of older home lines */
	struct g4_address *home_addresses;
	uint32_t *record_crcs; /* of the record's images */
	uint32_t *home_order;  /* images of a checkpoint, by address */
	uint32_t home_copied;
	uint32_t record_blocks, record_descriptors, record_data;
	bool checkpoint_due;
	uint64_t commits, checkpoints;
};

/* One operation's membership in a transaction; lives on the caller's stack. */
struct g4_txn {
	struct g4_journal *journal;
	uint64_t sequence;
	uint32_t credits;
	uint32_t changed; /* how often it made something dirty or freed something */
	/* what it asks of the cache for each page, and what does not change: a GPU would go from one to the other each time */
	struct g4_cache *cache;
	struct g4_line *lines;
	struct g4_cache_frames frames;
	uint32_t line_count;
};
/* Of a caller that keeps the transaction from being committed. */
G4_FN G4_INLINE struct g4_txn g4_txn_in(struct g4_journal *j, uint64_t sequence, uint32_t credits)
{
	const struct g4_txn txn = {j, sequence, credits, 0, j->cache, j->lines, j->frames, j->line_count};

	return txn;
}

/*
 * Leader, anywhere in an operation but inside a transaction: does a little of what a commit under way has to do for each of
 * its blocks; whether there was anything.
 */
G4_FN bool g4_commit_workers_help(struct g4_wg *wg, struct g4_journal *j);
/* Whether there may be anything: one look. */
G4_FN G4_INLINE bool g4_commit_workers_call(const struct g4_journal *j)
{
	return g4_task_is_open(&j->workers.task);
}

/* ---- host (journal_host.c) ---- */
/*
 * Bytes of memory for a journal with log_pages pages and a cache of line_count lines. A transaction has at most
 * most_blocks blocks (0: G4_TXN_MAX_BLOCKS), and fewer where log or cache are small.
 */
uint64_t g4_journal_memory(uint64_t log_pages, uint32_t line_count, uint32_t most_blocks);
/* Prepares over zeroed, page-aligned memory; the log is empty from head_page on and `next` is the next sequence. */
void g4_journal_init(struct g4_journal *j, struct g4_meta *meta, void *memory, struct g4_address area,
		     uint64_t log_pages, uint64_t head_page, uint64_t next, uint32_t most_blocks);
/* It and its memory are used `by` bytes further on from now on. */
void g4_journal_moved(struct g4_journal *j, intptr_t by);

/* Leader. Joins. -G4_E_AGAIN: there are no credits, or no joining now; -G4_E_ROFS: the journal was stopped. */
G4_FN int g4_txn_begin(struct g4_journal *j, uint32_t credits, struct g4_txn *txn);
/*
 * Leader. After -G4_E_AGAIN or while the gate is closed: works on the commit that is under way, or waits a little for the
 * operations inside to give back what they do not need. False: neither helps, the transaction has to be committed.
 */
G4_FN bool g4_txn_await(struct g4_wg *wg, struct g4_journal *j, uint32_t credits);
/* More credits without leaving; false when there are none. */
G4_FN bool g4_txn_extend(struct g4_txn *txn, uint32_t credits);
/*
 * Whether so much was freed in the transaction that what is left of its lists is for steps under way. A caller that frees
 * many runs, which may cost no credits, goes on in the next transaction.
 */
G4_FN bool g4_txn_is_crowded(const struct g4_txn *txn);
G4_FN void g4_txn_end(struct g4_txn *txn);
/* The same behind g4_fence_rel(), as one of several releases (simt.h). */
G4_FN void g4_txn_end_fenced(struct g4_txn *txn);
/* Before a referenced metadata line is changed. */
G4_FN void g4_txn_dirty(struct g4_txn *txn, uint32_t line);
/*
 * Whether a page is in line `near` and dirty in the transaction: then the transaction references it until its commit, which waits for those
 * inside. The word that says so is looked at first: from then on the line keeps its page.
 */
G4_FN G4_INLINE bool g4_txn_has(const struct g4_txn *txn, struct g4_address address, uint32_t type, uint32_t near)
{
	if (near >= txn->line_count)
		return false;
	struct g4_line *line = &txn->lines[near];
	const struct g4_meta_line *about = (const struct g4_meta_line *)(const void *)line->kept;
	if (g4_load64_acq(&about->txn) != txn->sequence)
		return false;
	const uint8_t has_type = g4_load8_rlx(&about->type); /* on its way with the tag */
	return g4_line_is(line, 0, g4_address_page(address)) && has_type == type;
}
/* A page that is there from g4_txn_get() to g4_txn_put(), by a reference of its own where the transaction has none. */
struct g4_txn_page {
	uint32_t line;
	bool is_dirty; /* in the transaction already */
};
/* As g4_meta_get_near(). Makers in one directory want the same pages again and again: references would be what they wait for. */
G4_FN G4_INLINE int g4_txn_get(struct g4_wg *wg, const struct g4_txn *txn, struct g4_address address, uint32_t type,
			       uint32_t near, struct g4_txn_page *page)
{
	page->line = near;
	page->is_dirty = g4_txn_has(txn, address, type, near);
	return page->is_dirty ? 0 : g4_meta_get_near(wg, txn->journal->meta, address, type, near, &page->line);
}
/* Before it is changed. */
G4_FN G4_INLINE void g4_txn_dirty_page(struct g4_txn *txn, const struct g4_txn_page *page)
{
	if (page->is_dirty)
		txn->changed++;
	else
		g4_txn_dirty(txn, page->line);
}
/* The page in a line. */
G4_FN G4_INLINE void *g4_txn_data_of(const struct g4_txn *txn, uint32_t line)
{
	return g4_frame_data(txn->frames, line);
}
G4_FN G4_INLINE void g4_txn_put(const struct g4_txn *txn, const struct g4_txn_page *page)
{
	if (!page->is_dirty)
		g4_cache_put(txn->cache, page->line);
}
/* The metadata page at `address` was freed: its older images must not come back. The extent is freed separately. */
G4_FN void g4_txn_forget(struct g4_txn *txn, struct g4_address address);
/* Pages may be reused once this transaction is durable. */
G4_FN void g4_txn_free(struct g4_txn *txn, struct g4_address address, uint64_t pages);

/*
 * This transaction publishes a data page that was written and not flushed. With few of them the record carries their
 * checksums and one flush makes all durable; replay drops a last record whose data did not arrive.
 */
G4_FN void g4_txn_data(struct g4_txn *txn, struct g4_address address, uint32_t crc32c);
/* It publishes data without checksums: flushed before the record is written. */
G4_FN void g4_txn_data_untagged(struct g4_txn *txn);

/*
 * Leader. Makes everything up to sequence `want` durable (UINT64_MAX: all there is). On 1 a commit was made, the commit
 * lock is held, *frees lists what may be reused now, and g4_journal_finish() must follow; 0: nothing was to do.
 * Negative: the journal has been stopped.
 */
G4_FN int g4_journal_commit(struct g4_wg *wg, struct g4_journal *j, uint64_t want, bool checkpoint,
			    const struct g4_extent **frees, uint32_t *free_count);
/*
 * Whether so little is left of the running transaction that those who come next would wait for its commit, and one of them would make it. A
 * look without order, for who would do that in their place.
 */
G4_FN bool g4_journal_is_nearly_full(const struct g4_journal *j);
/* Writes home what is due and releases the commit lock. */
G4_FN int g4_journal_finish(struct g4_wg *wg, struct g4_journal *j);
/*
 * Leader, outside of transactions; what leads to the page is locked, so that it stays metadata. Whether the page is on the device as it
 * was written: 0, and `page` (4 KiB, at a multiple of that) has it; 1: it is going to be written; or what is wrong.
 */
G4_FN int g4_journal_look(struct g4_wg *wg, struct g4_journal *j, struct g4_address address, uint32_t type, void *page);
/* Stops the journal: no transaction begins or commits any more. */
G4_FN void g4_journal_abort(struct g4_journal *j, int code);

/*
 * Host (replay_host.c): replays what the journal of an unmounted image holds; flags: G4_REPLAY_*. Without WRITE it writes
 * nothing and tells in out->in_log (malloc'ed, NULL without any) which pages are to be read from the log. No record up to the
 * transaction that *sb says is home is replayed. Gives the next sequence and log position, and the number of records and
 * blocks replayed. With JUDGE, which is not WRITE, what counts is what a replay that writes would take, and out->data (malloc'ed, NULL without any) are the
 * data pages that the newest record relies on, all of which have arrived in some version. -G4_E_JOURNAL_GAP: a record that was durable is damaged, and nothing was replayed.
 */
#define G4_REPLAY_WRITE 1u
#define G4_REPLAY_UP_TO_GAP 2u /* what is before the damaged one: fsck, which says what is lost */
#define G4_REPLAY_JUDGE 4u
struct g4_replay {
	uint64_t next_sequence;
	uint64_t head_page;
	uint64_t records, blocks;
	struct g4_in_log *in_log; /* `blocks` of them, by address */
	struct g4_data_tag *data;
	uint32_t data_count;
};
int g4_journal_replay(struct g4_wg *wg, struct g4_meta *meta, const struct g4_superblock *sb, uint32_t flags,
		      struct g4_replay *out);
/*
 * Host (replay_host.c): leaves the next sequence out, durably. Must come before the first commit after a replay: a record
 * that was torn or dropped may lie at the log's head, and a new one of the same number that is torn in its turn could
 * complete it.
 */
int g4_journal_skip(struct g4_wg *wg, struct g4_meta *meta, struct g4_replay *replay);

#endif
