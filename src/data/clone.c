/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sharing pages between files, and giving up those that are zeros. Crash at any line: each transaction leaves two valid files, the one that changes with its old
 * pages or the other's at each place.
 */
#include "data/clone.h"
#include "data/dirty.h"
#include "data/extent.h"
#include "data/fetch.h"
#include "data/map.h"
#include "data/map_lend.h"
#include "data/reserve.h"
#include "data/sums.h"
#include "data/unreadable.h"
#include "data/write.h"
#include "data/writeback.h"
#include "inode/inode.h"
#include "inode/times.h"
#include "inode/txn.h"

#define CLONE_SUMS G4_INDIRECT_SLOTS /* entries that are carried over at a time: those of a large page */
#define PAIR_SUMS 64u		     /* the same where contents are compared */

struct clone {
	struct g4_inode_core *from, *to;
	uint64_t from_page, to_page; /* the next ones */
	struct g4_sum_entry
		*sums;	/* memory for CLONE_SUMS of them, or PAIR_SUMS of a pair; NULL: the file system has none */
	bool apart;	/* the next run is to have sums of its own */
	bool has_sums;	/* the pages of the next run are what the target had: their sums, in `sums`, stay */
	uint32_t index; /* the target's */
	struct g4_lend lend;
};

/* Whether any page of a run has a sum; they are in c->sums then. */
G4_FN static int get_sums(struct g4_wg *wg, struct g4_fs *fs, const struct clone *c, uint64_t pages, bool *any)
{
	*any = false;
	if (c->sums == NULL)
		return 0;
	int rc = c->has_sums ? 0 : g4_map_sums(wg, fs, c->from, c->from_page, (uint32_t)pages, c->sums);
	for (uint64_t i = 0; i < pages && rc == 0; i++)
		*any |= g4_sum_entry_algorithm(&c->sums[i]) != G4_CHECKSUM_NONE;
	return rc;
}

/* 1: a run is a page of 2 MiB whose pages of sums may be shared as well: its entry; 0, or an error. */
G4_FN static int get_row(struct g4_wg *wg, struct g4_fs *fs, const struct clone *c, const struct g4_run *run,
			 struct g4_sum_entry *entry)
{
	if (c->sums == NULL || c->has_sums || c->apart || !g4_extent_shares_rows(fs) || run->kind != G4_WRITTEN ||
	    run->level != 1 || run->pages != G4_INDIRECT_SLOTS || c->to_page % G4_INDIRECT_SLOTS != 0)
		return 0;
	return g4_map_row(wg, fs, c->from, c->from_page, entry);
}

/* What the transaction will read for both files: a device that does not give it ends this command alone. */
G4_FN static int look_before(struct g4_wg *wg, struct g4_fs *fs, const struct clone *c, const struct g4_run *run,
			     const struct g4_sum_entry *row)
{
	/* what is behind that is another transaction's, mostly */
	const uint64_t pages = g4_min64(run->pages, G4_INDIRECT_SLOTS);
	/* a large page that is replaced as a whole goes with its sums, which nobody reads; single pages divide it, and so may what needs a row for its sums */
	const bool whole = pages == G4_INDIRECT_SLOTS && c->to_page % G4_INDIRECT_SLOTS == 0 &&
			   (run->kind != G4_WRITTEN || row != NULL);
	int rc = run->kind == G4_WRITTEN ? g4_look_at_run(wg, fs, run->address, pages) : 0;

	if (rc == 0 && row && g4_layout_holds(&fs->meta.layout, g4_sum_entry_place(row)))
		rc = g4_look_at_run(wg, fs, g4_sum_entry_place(row), 1);
	return rc < 0 ? rc : g4_map_look_range(wg, fs, c->to, c->to_page, c->to_page + pages, !whole);
}

/* One transaction: a run of the source, or a part of it. *pages of it are done. */
G4_FN static int clone_run(struct g4_wg *wg, struct g4_fs *fs, struct clone *c, struct g4_run *run, uint64_t end_bytes,
			   uint64_t *pages)
{
	const uint64_t size = c->to->size;
	struct g4_sum_entry row;
	struct g4_txn txn;
	bool any = false;
	int rc = 0;

	*pages = 0;
	rc = run->kind == G4_WRITTEN ? g4_own_pages(wg, fs, c->index, c->to_page, run->pages) :
				       g4_own_ends(wg, fs, c->index, c->to_page, c->to_page + run->pages);
	if (rc < 0)
		return rc;
	const int shares_row = get_row(wg, fs, c, run, &row);
	if (shares_row < 0)
		return shares_row;
	if (run->kind == G4_WRITTEN && !shares_row)
		rc = get_sums(wg, fs, c, run->pages, &any);
	if (rc == 0)
		rc = look_before(wg, fs, c, run, shares_row ? &row : NULL);
	if (rc == 0)
		rc = g4_begin(wg, fs, 2 * G4_MAP_CREDITS, &txn);
	if (rc < 0)
		return rc;
	if (run->kind == G4_WRITTEN) {
		rc = g4_map_share(wg, fs, &txn, c->to, c->to_page, run->address, run->pages, run->level > 0,
				  c->has_sums, any ? c->sums : NULL, shares_row ? &row : NULL, pages);
		c->apart = rc == -G4_E_AGAIN && shares_row;
		rc = c->apart ? 0 : rc;
	} else {
		uint64_t next;
		rc = g4_map_dig(wg, fs, &txn, c->to, c->to_page, c->to_page + run->pages, &next);
		*pages = g4_min64(next - c->to_page, run->pages);
	}
	if (*pages > 0) {
		const uint64_t end = (c->to_page + *pages) * G4_PAGE_BYTES;
		c->to->disk.size = g4_max64(size, g4_min64(end, end_bytes));
	}
	int logged = rc == 0 || txn.changed ? g4_inode_log(wg, fs, &txn, c->to) : 0;
	rc = g4_end(fs, &txn, rc < 0 ? rc : logged);
	if (*pages > 0) {
		g4_cache_drop_range(&fs->cache, c->to->data_key, c->to_page,
				    g4_min64(c->to_page + *pages, g4_pages_for(size)));
		g4_set_size(c->to, c->to->disk.size);
	}
	return rc;
}

/* One transaction: what hangs at an indirect page of the source is the target's as well. *pages are done; 0: each is to be shared by itself. */
G4_FN static int lend_run(struct g4_wg *wg, struct g4_fs *fs, struct clone *c, uint64_t most, uint64_t end_bytes,
			  uint64_t *pages)
{
	const uint64_t size = c->to->size;
	struct g4_lend *lend = &c->lend;
	struct g4_txn txn;

	*pages = 0;
	/* whoever goes on a page at a time is told what is wrong */
	if (g4_map_may_lend(wg, fs, c->from, c->from_page, c->to, c->to_page, most, lend) <= 0)
		return 0;
	if (G4_FEATURES_REFLINK_MAPS & ~g4_load64_acq(&fs->super.features_incompat))
		return -G4_E_AGAIN;
	int rc = g4_own_pages(wg, fs, c->index, c->to_page, lend->pages);
	if (rc == 0)
		rc = g4_begin(wg, fs, 2 * G4_MAP_CREDITS, &txn);
	if (rc < 0)
		return rc == -G4_E_NOSPC ? 0 : rc;
	rc = g4_map_lend(wg, fs, &txn, c->from, c->to, c->to_page, lend);
	const bool lent = rc == 0;
	if (lent)
		c->to->disk.size = g4_max64(size, g4_min64((c->to_page + lend->pages) * G4_PAGE_BYTES, end_bytes));
	if (lent)
		rc = g4_inode_log(wg, fs, &txn, c->from);
	const int logged = lent || txn.changed ? g4_inode_log(wg, fs, &txn, c->to) : 0;
	rc = g4_end(fs, &txn, rc < 0 ? rc : logged);
	if (rc == 0 && lent) {
		*pages = lend->pages;
		g4_cache_drop_range(&fs->cache, c->to->data_key, c->to_page,
				    g4_min64(c->to_page + lend->pages, g4_pages_for(size)));
		g4_set_size(c->to, c->to->disk.size);
	}
	return rc == -G4_E_NOSPC || rc == -G4_E_MLINK ? 0 : rc;
}

/* Puts both files on disk as they are, with maps. 1: they have them; 0: one has none, it is tiny. */
G4_FN static int settle(struct g4_wg *wg, struct g4_fs *fs, uint32_t from, uint32_t to)
{
	int rc = g4_writeback(wg, fs, from);

	if (rc == 0 && (g4_icache_at(fs, from)->disk.flags & G4_INODE_INLINE))
		return 0;
	if (rc == 0)
		rc = g4_inline_leave(wg, fs, to);
	if (rc == 0)
		rc = g4_writeback_mapped(wg, fs, to);
	return rc < 0 ? rc : 1;
}

G4_FN int g4_file_clone(struct g4_wg *wg, struct g4_fs *fs, uint32_t from, uint64_t from_page, uint32_t to,
			uint64_t to_page, uint64_t pages, uint64_t end_bytes, uint64_t *done)
{
	struct clone c = {
		g4_icache_at(fs, from), g4_icache_at(fs, to), from_page, to_page, NULL, false, false, to, {0}};
	int rc = 0;

	*done = 0;
	if (pages == 0 || end_bytes > G4_FILE_MAX_BYTES)
		return 0;
	rc = settle(wg, fs, from, to);
	if (rc <= 0)
		return rc;
	const uint32_t mark = g4_scratch_mark(wg);
	if (g4_load64_acq(&fs->super.features_incompat) & G4_FEATURE_INCOMPAT_SUMS)
		c.sums = (struct g4_sum_entry *)g4_scratch_take(wg, CLONE_SUMS * sizeof(*c.sums));
	for (rc = 0; *done < pages && rc == 0;) {
		struct g4_run run;
		uint64_t n = 0;

		rc = lend_run(wg, fs, &c, pages - *done, end_bytes, &n);
		if (rc == 0 && n == 0)
			rc = g4_map_lookup(wg, fs, c.from, c.from_page, pages - *done, &run);
		if (rc == 0 && n == 0 && run.kind == G4_WRITTEN && c.sums)
			run.pages = g4_min64(run.pages, CLONE_SUMS);
		if (rc == 0 && n == 0)
			rc = clone_run(wg, fs, &c, &run, end_bytes, &n);
		c.from_page += n;
		c.to_page += n;
		*done += n;
	}
	g4_scratch_release(wg, mark);
	if (*done > 0)
		g4_touch(fs, to, true, true);
	return g4_check(fs, rc);
}

/* ------------------------------------------------------------------ pages that are the same already */

#define READ_PAGES 4u /* of each file that are compared at a time */

struct pair {
	struct clone c;
	bool compare;
	bool zeros;		      /* there is no source: c.sums are those of zeros, and from_bytes are zeros */
	struct g4_sum_entry *to_sums; /* memory for PAIR_SUMS of them, or NULL */
	uint8_t *from_bytes, *to_bytes;
};

enum verdict { DIFFERENT, SAME, READ };

G4_FN static enum verdict by_sums(const struct pair *pair, uint32_t k)
{
	if (pair->c.sums == NULL)
		return READ;
	const uint32_t a = g4_sum_entry_algorithm(&pair->c.sums[k]), b = g4_sum_entry_algorithm(&pair->to_sums[k]);
	if (a >= G4_CHECKSUM_LOST || b >= G4_CHECKSUM_LOST)
		return DIFFERENT;
	if (a != b || a == G4_CHECKSUM_NONE)
		return READ;
	if (!g4_bytes_equal(&pair->c.sums[k], &pair->to_sums[k], sizeof(pair->to_sums[k])))
		return DIFFERENT;
	return a == G4_CHECKSUM_BLAKE3 && !pair->compare ? SAME : READ;
}

G4_FN static int fetch(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
		       struct g4_address address, uint32_t pages, void *to)
{
	struct g4_iov iov = {to, pages * G4_PAGE_BYTES};
	struct g4_space_io request;

	g4_space_io_init(&request, G4_IO_READ, address, &iov, 1);
	request.io.flags = G4_IO_CLASS(G4_CLASS_BACKGROUND);
	return g4_fetch(wg, fs, inode, page, &request, 1);
}

/* *same: of a run of both, at most PAIR_SUMS pages, so many are the same from the first on. */
G4_FN static int compare_runs(struct g4_wg *wg, struct g4_fs *fs, const struct pair *pair, struct g4_address from,
			      struct g4_address to, uint32_t pages, uint32_t *same)
{
	const struct clone *c = &pair->c;
	int rc = 0;

	*same = 0;
	if (c->sums != NULL) {
		if (!pair->zeros)
			rc = g4_map_sums(wg, fs, c->from, c->from_page, pages, c->sums);
		if (rc == 0)
			rc = g4_map_sums(wg, fs, c->to, c->to_page, pages, pair->to_sums);
	}
	while (rc == 0 && *same < pages) {
		const uint32_t k = *same;
		const enum verdict verdict = by_sums(pair, k);
		uint32_t n = 1;
		if (verdict == DIFFERENT)
			break;
		if (verdict == SAME) {
			++*same;
			continue;
		}
		while (n < READ_PAGES && k + n < pages && by_sums(pair, k + n) == READ)
			n++;
		if (!pair->zeros)
			rc = fetch(wg, fs, c->from, c->from_page + k, g4_address_after_pages(from, k), n,
				   pair->from_bytes);
		if (rc == 0)
			rc = fetch(wg, fs, c->to, c->to_page + k, g4_address_after_pages(to, k), n, pair->to_bytes);
		if (rc < 0)
			break;
		for (uint32_t i = 0; i < n; i++) {
			if (!g4_bytes_equal(pair->from_bytes + i * G4_PAGE_BYTES, pair->to_bytes + i * G4_PAGE_BYTES,
					    G4_PAGE_BYTES))
				return 0;
			++*same;
		}
	}
	return *same > 0 ? 0 : rc; /* a caller that goes on behind them gets the error */
}

/* *pages of a run are the same and shared now; 0: the first one is not the same. */
G4_FN static int dedupe_run(struct g4_wg *wg, struct g4_fs *fs, struct pair *pair, uint64_t most, uint64_t *pages)
{
	struct clone *c = &pair->c;
	struct g4_run from, to;
	uint32_t same;

	*pages = 0;
	int rc = g4_map_lookup(wg, fs, c->from, c->from_page, most, &from);
	if (rc == 0)
		rc = g4_map_lookup(wg, fs, c->to, c->to_page, most, &to);
	if (rc < 0)
		return rc;
	from.pages = g4_min64(from.pages, to.pages);
	if (from.kind != G4_WRITTEN || to.kind != G4_WRITTEN) {
		*pages = from.kind != G4_WRITTEN && to.kind != G4_WRITTEN ? from.pages : 0;
		return 0;
	}
	if (g4_address_is(from.address, to.address)) {
		*pages = from.pages;
		return 0;
	}
	from.pages = g4_min64(from.pages, PAIR_SUMS);
	rc = compare_runs(wg, fs, pair, from.address, to.address, (uint32_t)from.pages, &same);
	if (rc < 0 || same == 0)
		return rc;
	from.pages = same;
	/* the source may have weaker sums, or none: what protects the target is right as it was */
	if (c->sums != NULL)
		memcpy(c->sums, pair->to_sums, same * sizeof(*c->sums));
	return clone_run(wg, fs, c, &from, c->to->size, pages);
}

/* *pages of a run are no contents now; 0: the first one is not zeros. */
G4_FN static int dig_run(struct g4_wg *wg, struct g4_fs *fs, struct pair *pair, uint64_t most, uint64_t *pages)
{
	struct clone *c = &pair->c;
	struct g4_run hole = {0}, to;
	uint32_t same;

	*pages = 0;
	int rc = g4_map_lookup(wg, fs, c->to, c->to_page, most, &to);
	if (rc < 0)
		return rc;
	if (to.kind != G4_WRITTEN) {
		*pages = to.pages;
		return 0;
	}
	rc = compare_runs(wg, fs, pair, G4_NO_ADDRESS, to.address, (uint32_t)g4_min64(to.pages, PAIR_SUMS), &same);
	if (rc < 0 || same == 0)
		return rc;
	hole.kind = G4_HOLE;
	hole.pages = same;
	return clone_run(wg, fs, c, &hole, c->to->size, pages);
}

/* Scratch memory of a pair: the leader's, until it is released. */
G4_FN static void take_memory(struct g4_wg *wg, struct g4_fs *fs, struct pair *pair)
{
	if (g4_load64_acq(&fs->super.features_incompat) & G4_FEATURE_INCOMPAT_SUMS) {
		pair->c.sums = (struct g4_sum_entry *)g4_scratch_take(wg, PAIR_SUMS * sizeof(*pair->c.sums));
		pair->to_sums = (struct g4_sum_entry *)g4_scratch_take(wg, PAIR_SUMS * sizeof(*pair->to_sums));
	}
	pair->from_bytes = (uint8_t *)g4_scratch_take(wg, READ_PAGES * G4_PAGE_BYTES);
	pair->to_bytes = (uint8_t *)g4_scratch_take(wg, READ_PAGES * G4_PAGE_BYTES);
}

/* All runs, up to one of which nothing is the same. */
G4_FN static int go(struct g4_wg *wg, struct g4_fs *fs, struct pair *pair, uint64_t pages, uint64_t *done)
{
	int rc = 0;

	while (*done < pages && rc == 0) {
		uint64_t n;

		rc = pair->zeros ? dig_run(wg, fs, pair, pages - *done, &n) :
				   dedupe_run(wg, fs, pair, pages - *done, &n);
		pair->c.from_page += n;
		pair->c.to_page += n;
		*done += n;
		if (n == 0)
			break;
	}
	return rc;
}

G4_FN int g4_file_dedupe(struct g4_wg *wg, struct g4_fs *fs, uint32_t from, uint64_t from_page, uint32_t to,
			 uint64_t to_page, uint64_t pages, bool compare, uint64_t *done)
{
	struct pair pair = {
		{g4_icache_at(fs, from), g4_icache_at(fs, to), from_page, to_page, NULL, false, true, to, {0}},
		compare,
		false,
		NULL,
		NULL,
		NULL};
	*done = 0;
	if (g4_inode_domain(&pair.c.from->disk) != g4_inode_domain(&pair.c.to->disk))
		return 0; /* that they are the same would tell one domain of the other */
	int rc = g4_writeback(wg, fs, from);
	if (rc == 0)
		rc = g4_writeback(wg, fs, to);
	if (rc < 0 || ((pair.c.from->disk.flags | pair.c.to->disk.flags) & G4_INODE_INLINE))
		return g4_check(fs, rc);
	const uint32_t mark = g4_scratch_mark(wg);
	take_memory(wg, fs, &pair);
	rc = go(wg, fs, &pair, pages, done);
	g4_scratch_release(wg, mark);
	return g4_check(fs, rc);
}

G4_FN int g4_file_dig(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t page, uint64_t pages, bool compare,
		      uint64_t *done)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	struct pair pair = {{inode, inode, page, page, NULL, false, true, index, {0}}, compare, true, NULL, NULL, NULL};

	*done = 0;
	int rc = g4_writeback(wg, fs, index);
	if (rc < 0 || (inode->disk.flags & G4_INODE_INLINE))
		return g4_check(fs, rc);
	const uint32_t mark = g4_scratch_mark(wg);
	take_memory(wg, fs, &pair);
	g4_zero(wg, pair.from_bytes, READ_PAGES * G4_PAGE_BYTES);
	if (pair.c.sums != NULL) {
		const void *const zeros[1] = {pair.from_bytes};
		g4_sums_make(wg, G4_CHECKSUM_BLAKE3, zeros, 1, pair.c.sums);
		for (uint32_t k = 1; k < PAIR_SUMS; k++)
			pair.c.sums[k] = pair.c.sums[0];
	}
	rc = go(wg, fs, &pair, pages, done);
	g4_scratch_release(wg, mark);
	return g4_check(fs, rc);
}
