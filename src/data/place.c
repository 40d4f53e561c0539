/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage of the write pipeline in which data gets its address: contiguous space that nothing points to yet, near what the
 * file had last, or space that was allocated for these pages and never written.
 */
#include "data/batch.h"
#include "data/map.h"

/* Pages in a row from a batch's page `first` on, at most a region of direct ones, so that the next ones can be aligned. */
G4_FN static uint64_t row_of(const struct g4_batch *batch, uint32_t first, uint64_t *page)
{
	uint64_t n = 1;

	if (batch->direct) {
		*page = batch->direct_page + first;
		return g4_min64(batch->count - first, G4_REGION_PAGES - *page % G4_REGION_PAGES);
	}
	*page = batch->pages[first];
	while (first + n < batch->count && batch->pages[first + n] == *page + n)
		n++;
	return n;
}

G4_FN static void add_segment(struct g4_batch *batch, uint32_t first, uint64_t page, struct g4_address address,
			      uint64_t pages, bool in_place)
{
	struct g4_segment *segment = &batch->segments[batch->segment_count++];

	segment->address = address;
	segment->page = page;
	segment->pages = (uint32_t)pages;
	segment->first = first;
	segment->in_place = in_place;
}

/* Finds space for the pages from `first` on: one segment. */
G4_FN static int place_next(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, struct g4_batch *batch,
			    uint32_t first)
{
	uint64_t page, got, want = row_of(batch, first, &page);
	struct g4_address address;
	struct g4_run old;
	int rc = g4_map_lookup(wg, fs, inode, page, want, &old);
	if (rc < 0)
		return rc;
	const bool in_place = old.kind == G4_UNWRITTEN;
	if (in_place) {
		address = old.address;
		got = old.pages;
	} else {
		uint64_t most = want;
		/* a run that meets allocated, unwritten space further on ends there */
		for (uint64_t at = old.pages; at < want && most == want; at += old.pages) {
			rc = g4_map_lookup(wg, fs, inode, page + at, want - at, &old);
			if (rc < 0)
				return rc;
			if (old.kind == G4_UNWRITTEN)
				most = at;
		}
		uint32_t class_ =
			page % G4_REGION_PAGES == 0 && most >= G4_BATCH_PAGES ? G4_ALLOC_ALIGNED : G4_ALLOC_DATA;
		rc = g4_alloc_claim(wg, &fs->alloc, class_, inode->next_goal, most, true, &address, &got);
		if (rc < 0)
			return rc;
		batch->claimed += got;
	}
	add_segment(batch, first, page, address, got, in_place);
	inode->next_goal = g4_address_after_pages(address, got);
	return 0;
}

G4_FN void g4_place_undo(struct g4_fs *fs, const struct g4_batch *batch, uint32_t from)
{
	for (uint32_t s = 0; s < batch->segment_count; s++) {
		const struct g4_segment *segment = &batch->segments[s];
		uint32_t skip = from > segment->first ? from - segment->first : 0;
		if (!segment->in_place && skip < segment->pages)
			g4_alloc_release(&fs->alloc, g4_address_after_pages(segment->address, skip),
					 segment->pages - skip);
	}
}

G4_FN int g4_place(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, struct g4_batch *batch)
{
	uint32_t first = 0;

	batch->segment_count = 0;
	batch->claimed = 0;
	while (first < batch->count && batch->segment_count < batch->most) {
		int rc = place_next(wg, fs, inode, batch, first);
		if (rc < 0) {
			g4_place_undo(fs, batch, 0);
			g4_add64(&fs->alloc.reserved, batch->claimed); /* the reservation holds again */
			return rc;
		}
		first += batch->segments[batch->segment_count - 1].pages;
	}
	batch->count = first;
	return 0;
}

G4_FN int g4_place_page(struct g4_wg *wg, struct g4_fs *fs, struct g4_address goal, struct g4_batch *batch)
{
	struct g4_address address;
	uint64_t got;
	int rc = g4_alloc_claim(wg, &fs->alloc, G4_ALLOC_DATA, goal, 1, false, &address, &got);

	batch->segment_count = 0;
	batch->claimed = 0;
	if (rc == 0)
		add_segment(batch, 0, batch->direct_page, address, 1, false);
	return rc;
}

G4_FN int g4_place_unwritten(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t want,
			     struct g4_address *address, uint64_t *got)
{
	return g4_alloc_claim(wg, &fs->alloc, G4_ALLOC_DATA, inode->next_goal, want, true, address, got);
}
