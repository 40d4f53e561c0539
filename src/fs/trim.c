/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Discarding free space. Only pages that are free in the allocator's memory view are discarded, and they are hidden from
 * it meanwhile. A page comes into that view when the transaction that freed it is durable, and whatever the journal holds
 * of it is revoked by then (alloc.h): so a crash at any line finds discarded only what nothing on disk leads to, just as if
 * the pages had been written by a writer that never published them.
 */
#include "fs/trim.h"

#include "inode/txn.h"

/* Pages of one request: with little free space few, since a claim for space may have to wait for these. */
#define MOST_PAGES UINT64_C(8192)
#define LEAST_PAGES UINT64_C(64)
/* A run that is longer is cut at multiples of one of these: no granule of a drive that divides it is left out for lying in two requests. */
#define CUT_PAGES(most) ((most) >= G4_REGION_PAGES ? (uint64_t)G4_REGION_PAGES : LEAST_PAGES)

/* What is free of the level that has least: pages may be of any, and claims for space of it may have to wait. */
G4_FN static uint64_t least_free(const struct g4_alloc *alloc)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t pool = 0; pool < G4_LEVELS; pool++) {
		const uint64_t pages = g4_alloc_free_in(alloc, pool);
		least = pages > 0 ? g4_min64(least, pages) : least;
	}
	return least == UINT64_MAX ? 0 : least;
}

/* From a page on, the end of those that are all gone, or all there (levels.h). */
G4_FN static uint64_t end_of_kind(const struct g4_alloc *alloc, uint64_t page, uint64_t end, bool gone)
{
	while (page < end && (g4_alloc_region_pool(alloc, page / G4_REGION_PAGES) == G4_POOL_GONE) == gone)
		page = (page / G4_REGION_PAGES + 1) * G4_REGION_PAGES;
	return g4_min64(page, end);
}

/* As far as no page is gone. */
G4_FN static int trim_there(struct g4_wg *wg, struct g4_fs *fs, uint64_t page, uint64_t end, uint64_t least,
			    uint64_t *done)
{
	struct g4_alloc *alloc = &fs->alloc;
	int rc = 0;

	while (page < end && rc == 0) {
		uint64_t share = least_free(alloc) / 16, pages;
		uint64_t most = g4_max64(g4_min64(g4_max64(share, LEAST_PAGES), MOST_PAGES), least);

		rc = g4_alloc_hide(wg, alloc, &page, end, most, &pages);
		if (rc < 0)
			return g4_check(fs, rc);
		if (pages == 0)
			break;
		const bool enough = pages >= least;
		if (pages == most) {
			const uint64_t cut = g4_align_down(page + pages, CUT_PAGES(most));
			g4_alloc_unhide(alloc, cut, page + pages - cut);
			pages = cut - page;
		}
		if (enough) {
			rc = g4_space_discard(wg, &fs->space, g4_page_address(page), pages * G4_PAGE_BYTES);
			*done += rc == 0 ? pages * G4_PAGE_BYTES : 0;
		}
		g4_alloc_unhide(alloc, page, pages);
		page += pages;
	}
	return rc;
}

G4_FN static int trim_pages(struct g4_wg *wg, struct g4_fs *fs, uint64_t page, uint64_t end, uint64_t least,
			    uint64_t *done)
{
	int rc = 0;

	while (rc == 0 && (page = end_of_kind(&fs->alloc, page, end, true)) < end) {
		const uint64_t border = end_of_kind(&fs->alloc, page, end, false);
		rc = trim_there(wg, fs, page, border, least, done);
		page = border;
	}
	return rc;
}

G4_FN int g4_trim(struct g4_wg *wg, struct g4_fs *fs, uint64_t start, uint64_t bytes, uint64_t least, uint64_t *done)
{
	const uint64_t space = g4_layout_end(&fs->meta.layout);

	*done = 0;
	if (!g4_space_can_discard(&fs->space))
		return -G4_E_NOTSUP;
	if (start >= space + G4_PAGE_BYTES || bytes < G4_PAGE_BYTES || least > G4_GROUP_BYTES)
		return -G4_E_INVAL;
	const uint64_t end = bytes < space && start < space - bytes ? start + bytes : space;
	const uint64_t first = g4_max64(g4_align_up(start, G4_PAGE_BYTES), fs->meta.layout.data_address);

	return trim_pages(wg, fs, first / G4_PAGE_BYTES, end / G4_PAGE_BYTES,
			  (least + G4_PAGE_BYTES - 1) / G4_PAGE_BYTES, done);
}

G4_FN int g4_discard_freed(struct g4_wg *wg, struct g4_fs *fs)
{
	uint64_t region = 0, count, done = 0;
	int rc = 0;

	if (!(fs->flags & G4_FS_DISCARD) || (fs->flags & G4_FS_READ_ONLY) || !g4_space_can_discard(&fs->space))
		return 0;
	while (rc == 0 && (count = g4_alloc_take_freed(&fs->alloc, &region)) > 0) {
		const uint64_t end =
			g4_min64((region + count) * G4_REGION_PAGES, g4_layout_end(&fs->meta.layout) / G4_PAGE_BYTES);
		rc = trim_pages(wg, fs, region * G4_REGION_PAGES, end, 1, &done);
		region += count;
	}
	return rc;
}
