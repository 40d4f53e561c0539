/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of a file that lie elsewhere than its policy says are stored once more, where it says, by the write pipeline. Crash at any
 * line: publish.c's transactions leave the old page or the new one at each place, and both have the same contents.
 */
#include "data/restripe.h"

#include "data/batch.h"
#include "data/dirty.h"
#include "data/extent.h"
#include "data/fetch.h"
#include "data/map.h"
#include "data/map_own.h"
#include "data/page.h"
#include "data/reserve.h"
#include "data/writeback.h"
#include "inode/inode.h"
#include "inode/txn.h"

/* What is at `page`: a run of 1..most pages that are dealt with in the same way. */
struct part {
	struct g4_run run;
	bool elsewhere; /* than the policy says */
	bool shared;	/* looked at only where they are elsewhere */
};

G4_FN static int look(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page, uint64_t most,
		      struct part *part)
{
	struct g4_run *run = &part->run;
	int rc = g4_map_lookup(wg, fs, inode, page, most, run);

	part->elsewhere = part->shared = false;
	if (rc < 0 || run->kind == G4_HOLE)
		return rc;
	if (!g4_layout_holds(&fs->meta.layout, run->address))
		return -G4_E_CORRUPT_MAP;
	run->pages = g4_extent_part(run->address, run->pages); /* a region is of one pool */
	part->elsewhere = g4_alloc_region_pool(&fs->alloc, g4_address_page(run->address) / G4_REGION_PAGES) !=
			  g4_file_pool(fs, inode);
	if (part->elsewhere)
		rc = g4_map_is_shared(wg, fs, inode, page, run);
	part->shared = rc > 0;
	return rc < 0 ? rc : 0;
}

G4_FN static bool moves(const struct part *part, uint32_t kind)
{
	return part->run.kind == kind && part->elsewhere && !part->shared;
}

/* Of pages from `page` on, at most `most`, so many move together. */
G4_FN static int measure(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page, uint64_t most,
			 uint32_t kind, uint64_t *pages)
{
	struct part part;
	int rc = 0;

	for (*pages = 0; *pages < most; *pages += part.run.pages) {
		rc = look(wg, fs, inode, page + *pages, most - *pages, &part);
		if (rc < 0 || !moves(&part, kind))
			break;
	}
	return rc;
}

/* ------------------------------------------------------------------ contents */

/* References the line of a page, which was compared with its sum when it came into the cache; others of its run come with it. */
G4_FN static int get_line(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page, uint64_t most,
			  uint32_t *line)
{
	struct g4_run run;
	uint32_t filled;
	int rc = g4_map_lookup(wg, fs, inode, page, most, &run);

	*line = G4_NO_LINE;
	if (rc == 0)
		rc = g4_fill_run(wg, fs, inode, page, &run, line, &filled);
	if (rc == 0 && *line != G4_NO_LINE)
		return 0;
	return g4_page_get(wg, fs, inode, page, line); /* by itself: another one may be the damaged one */
}

/* Lines of up to `pages` pages; fewer without an error: the next one can not be had. Of none it is told why. */
G4_FN static int get_lines(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page,
			   uint64_t pages, uint32_t *lines, uint32_t *count)
{
	int rc = 0;

	for (*count = 0; *count < pages && rc == 0; *count += rc == 0)
		rc = get_line(wg, fs, inode, page + *count, pages - *count, &lines[*count]);
	return *count > 0 ? 0 : rc;
}

/* A batch of these lines, with the sums that their pages have. */
G4_FN static int gather(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
			const uint32_t *lines, uint32_t count, struct g4_batch *batch)
{
	const bool sums = g4_load64_acq(&fs->super.features_incompat) & G4_FEATURE_INCOMPAT_SUMS;
	const int rc = sums ? g4_map_sums(wg, fs, inode, page, count, batch->sums) : 0;

	batch->moves = true;
	batch->count = count;
	batch->dedup = g4_dedup_wanted(fs, inode, G4_DEDUP_BY_POLICY);
	batch->domain = (uint32_t)g4_inode_domain(&inode->disk);
	for (uint32_t k = 0; k < count && rc == 0; k++) {
		const uint32_t algorithm = sums ? g4_sum_entry_algorithm(&batch->sums[k]) : G4_CHECKSUM_NONE;

		batch->lines[k] = lines[k];
		batch->pages[k] = page + k;
		batch->algorithm = algorithm != G4_CHECKSUM_NONE ? algorithm : batch->algorithm;
		batch->dedup = batch->dedup && g4_listing_takes(algorithm);
		batch->known[k] = G4_KNOWN_NOT;
	}
	return rc;
}

G4_STATIC_ASSERT(G4_BATCH_SCRATCH_BYTES(1) + G4_BATCH_PAGES * sizeof(uint32_t) <=
			 G4_FS_SCRATCH_BYTES + G4_COPY_SCRATCH_BYTES,
		 "they fit in scratch memory: nothing is copied around it");

/* *done pages, of those that were measured. 1: the first one can not be read, or is not what it was. */
G4_FN static int move_contents(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t page, uint64_t pages,
			       uint64_t *done)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	uint64_t reserved, pooled;
	uint32_t published = 0, count;

	int rc = g4_reserve_elsewhere(wg, fs, index, page, &pages, &reserved, &pooled);
	if (rc < 0)
		return rc;
	const uint32_t mark = g4_scratch_mark(wg);
	uint32_t *lines = (uint32_t *)g4_scratch_take(wg, G4_BATCH_PAGES * sizeof(*lines));
	rc = get_lines(wg, fs, inode, page, pages, lines, &count);
	/* not before: reserving writes back, and reading needs room of its own */
	struct g4_batch *batch = rc == 0 ? g4_batch_take(wg) : NULL;
	rc = rc == 0 ? gather(wg, fs, inode, page, lines, count, batch) : rc;
	if (rc == 0) {
		batch->reserved = reserved;
		batch->pooled = pooled;
		rc = g4_pipeline_run(wg, fs, inode, batch, inode->size, &published);
	} else {
		g4_alloc_unreserve(&fs->alloc, reserved);
		g4_alloc_unreserve_in(&fs->alloc, g4_file_pool(fs, inode), pooled);
		rc = g4_fetch_is_damage(rc) || rc == -G4_E_IO ? 1 : rc;
	}
	for (uint32_t k = 0; k < count; k++)
		g4_cache_put(&fs->cache, lines[k]);
	g4_scratch_release(wg, mark);
	*done = published;
	return rc;
}

/* ------------------------------------------------------------------ files */

/* What moves together from `page` on, or what stays. *pages are dealt with. */
G4_FN static int deal_with(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t page, uint64_t end,
			   uint64_t *pages, struct g4_restripe *restripe)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	struct part part;
	uint64_t row;

	*pages = 0;
	int rc = look(wg, fs, inode, page, end - page, &part);
	if (rc < 0)
		return rc;
	if (!part.elsewhere || part.shared || restripe->looks) {
		*pages = part.run.pages;
		if (part.elsewhere)
			*(part.shared ? &restripe->shared : &restripe->moved) += *pages;
		return 0;
	}
	const uint32_t kind = part.run.kind;
	rc = measure(wg, fs, inode, page, g4_min64(G4_BATCH_PAGES, end - page), kind, &row);
	if (row == 0) /* or somebody shares it by now: it is looked at again */
		return rc;
	rc = kind == G4_WRITTEN ? move_contents(wg, fs, index, page, row, pages) :
				  g4_restripe_unwritten(wg, fs, index, page, row, pages);
	restripe->moved += *pages;
	if (rc > 0) {
		*pages = 1;
		restripe->damaged++;
	}
	return rc < 0 ? rc : 0;
}

G4_FN int g4_restripe_step(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, struct g4_restripe *restripe)
{
	const struct g4_inode_core *inode = g4_icache_at(fs, index);
	const uint64_t border = (restripe->page / G4_REGION_PAGES + 1) * G4_REGION_PAGES;
	uint64_t end = 0, pages;

	int rc = g4_writeback(wg, fs, index); /* so that the map tells all */
	if (rc == 0 && !(inode->disk.flags & G4_INODE_INLINE))
		rc = g4_map_end(wg, fs, inode, g4_map_capacity_pages(inode->disk.map_height), &end);
	while (rc == 0 && restripe->page < end && restripe->page < border) {
		rc = deal_with(wg, fs, index, restripe->page, end, &pages, restripe);
		restripe->page += pages;
	}
	if (rc == 0 && restripe->page >= end)
		restripe->page = UINT64_MAX;
	return g4_check(fs, rc);
}
