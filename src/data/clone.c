/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sharing pages between files. Crash at any line: each transaction leaves two valid files, the one that changes with its old
 * pages or the other's at each place.
 */
#include "data/clone.h"
#include "data/dirty.h"
#include "data/map.h"
#include "data/sums.h"
#include "data/write.h"
#include "data/writeback.h"
#include "inode/inode.h"
#include "inode/times.h"
#include "inode/txn.h"

#define CLONE_SUMS 64u /* entries that are carried over at a time */

struct clone {
	struct g4_inode_core *from, *to;
	uint64_t from_page, to_page; /* the next ones */
	struct g4_sum_entry *sums;   /* memory for CLONE_SUMS of them; NULL: the file system has none */
};

/* Whether any page of a run has a sum; they are in c->sums then. */
G4_FN static int get_sums(struct g4_wg *wg, struct g4_fs *fs, const struct clone *c, uint64_t pages, bool *any)
{
	*any = false;
	if (c->sums == NULL)
		return 0;
	int rc = g4_map_sums(wg, fs, c->from, c->from_page, (uint32_t)pages, c->sums);
	for (uint64_t i = 0; i < pages && rc == 0; i++)
		*any |= g4_sum_entry_algorithm(&c->sums[i]) != G4_CHECKSUM_NONE;
	return rc;
}

/* One transaction: a run of the source, or a part of it. *pages of it are done. */
G4_FN static int clone_run(struct g4_wg *wg, struct g4_fs *fs, struct clone *c, struct g4_run *run, uint64_t end_bytes,
			   uint64_t *pages)
{
	const uint64_t size = c->to->size;
	struct g4_txn txn;
	bool any = false;
	int rc = 0;

	*pages = 0;
	if (run->kind == G4_WRITTEN)
		rc = get_sums(wg, fs, c, run->pages, &any);
	if (rc == 0)
		rc = g4_begin(wg, fs, 2 * G4_MAP_CREDITS, &txn);
	if (rc < 0)
		return rc;
	if (run->kind == G4_WRITTEN) {
		rc = g4_map_share(wg, fs, &txn, c->to, c->to_page, run->address, run->pages, any ? c->sums : NULL,
				  pages);
	} else {
		uint64_t next;
		rc = g4_map_clear(wg, fs, &txn, c->to, c->to_page, c->to_page + run->pages, &next);
		*pages = g4_min64(next - c->to_page, run->pages);
	}
	if (*pages > 0) {
		const uint64_t end = (c->to_page + *pages) * G4_PAGE_BYTES;
		c->to->disk.size = g4_max64(size, g4_min64(end, end_bytes));
	}
	int logged = g4_inode_log(wg, fs, &txn, c->to);
	rc = g4_end(fs, &txn, rc < 0 ? rc : logged);
	if (*pages > 0) {
		g4_cache_drop_range(&fs->cache, c->to->data_key, c->to_page,
				    g4_min64(c->to_page + *pages, g4_pages_for(size)));
		g4_set_size(c->to, c->to->disk.size);
	}
	return rc;
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
	struct clone c = {g4_icache_at(fs, from), g4_icache_at(fs, to), from_page, to_page, NULL};
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

		rc = g4_map_lookup(wg, fs, c.from, c.from_page, pages - *done, &run);
		if (rc == 0 && run.kind == G4_WRITTEN && c.sums)
			run.pages = g4_min64(run.pages, CLONE_SUMS);
		if (rc == 0)
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
