/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage of the write pipeline in which data gets its address: contiguous space that nothing points to yet, near what the
 * file had last, space that was allocated for these pages and never written, or that of pages with the same contents.
 */
#include "alloc/count.h"
#include "alloc/row.h"
#include "data/batch.h"
#include "data/dirty.h"
#include "data/map.h"

/* Pages in a row from a batch's page `first` on, at most a region of direct ones, so that the next ones can be aligned. */
G4_FN static uint64_t row_of(const struct g4_batch *batch, uint32_t first, uint64_t *page)
{
	if (batch->direct) {
		*page = batch->direct_page + first;
		return g4_min64(batch->count - first, G4_REGION_PAGES - *page % G4_REGION_PAGES);
	}
	*page = batch->pages[first];
	if (batch->staged) /* all of it is a row */
		return batch->count - first;
	return g4_count_row(&batch->pages[first], batch->count - first, *page, 1);
}

G4_FN static void add_segment(struct g4_batch *batch, uint32_t first, uint64_t page, struct g4_address address,
			      uint64_t pages, enum g4_segment_kind kind)
{
	struct g4_segment *last = batch->segment_count ? &batch->segments[batch->segment_count - 1] : NULL;

	/* what was placed, or found, in parts goes into the map as one, up to the end of a region */
	if (batch->staged && last && (kind == G4_SEGMENT_NEW || kind == G4_SEGMENT_FOUND) &&
	    last->kind == (uint32_t)kind && last->page + last->pages == page &&
	    g4_address_page(address) % G4_REGION_PAGES != 0 &&
	    g4_address_is(g4_address_after_pages(last->address, last->pages), address)) {
		last->pages += (uint32_t)pages;
		return;
	}
	struct g4_segment *segment = &batch->segments[batch->segment_count++];

	segment->address = address;
	segment->page = page;
	segment->pages = (uint32_t)pages;
	segment->first = first;
	segment->kind = (uint32_t)kind;
}

/*
 * What is known of a page: zeros, or an address; or nothing. One that is like another in the lists has that one's place, which
 * is nothing if its batch could not be placed. Where it was given back nobody shares it: the table of contents does not have
 * it.
 */
G4_FN static uint64_t known_of(const struct g4_batch *batch, uint32_t k)
{
	uint64_t known = batch->dedup ? batch->known[k] : G4_KNOWN_NOT;

	if (known < G4_PAGE_BYTES && known >= G4_KNOWN_SAME(0)) {
		known = batch->lists->known[known / 2 - 1];
		known = known < G4_PAGE_BYTES ? G4_KNOWN_NOT : known;
	}
	return known;
}

/* And what says whether that is the same page still, where contents were compared. */
G4_FN static uint32_t mark_of(const struct g4_batch *batch, uint32_t k)
{
	const uint64_t known = batch->known[k];

	return known < G4_PAGE_BYTES && known >= G4_KNOWN_SAME(0) ? batch->lists->of_lines.marks[known / 2 - 1] :
								    g4_batch_marks(batch)[k];
}

/* The page `first` is to be stored, and so many of the `most` pages from there on, before what they are like has a place. */
G4_FN static uint64_t unknown_row(const struct g4_batch *batch, uint32_t first, uint64_t most)
{
	return 1 + g4_count_row(&batch->known[first + 1], most - 1, G4_KNOWN_NOT, 0);
}

/* The pages from `first` on, at most `most`, which get no space of their own: zeros, or what lies in a row from `known` on. */
G4_FN static void add_known(struct g4_batch *batch, uint32_t first, uint64_t page, uint64_t most, uint64_t known)
{
	const bool zeros = known == G4_KNOWN_ZEROS;
	uint64_t n = g4_count_row(&batch->known[first], most, known, zeros ? 0 : G4_PAGE_BYTES);

	n = g4_max64(n, 1); /* what is like another page of the batch is known by that one's place */
	while (n < most && known_of(batch, first + (uint32_t)n) == known + (zeros ? 0 : n * G4_PAGE_BYTES))
		n++;
	for (uint64_t k = 0; k < n && batch->verifies; k++)
		g4_batch_marks(batch)[first + k] = mark_of(batch, first + (uint32_t)k);
	add_segment(batch, first, page, zeros ? G4_NO_ADDRESS : g4_address_from(known), n,
		    zeros ? G4_SEGMENT_ZEROS : G4_SEGMENT_FOUND);
}

/*
 * The pages from `first` on, at most `most`, were found where they lie already, from `address` on. What is there may have
 * rotted since, and is not read: they are stored, and later writers of the same find the new ones.
 */
G4_FN static void forget_own(struct g4_fs *fs, struct g4_batch *batch, uint32_t first, uint64_t most,
			     struct g4_address address)
{
	for (uint32_t n = 0; n < most; n++) {
		const struct g4_address own = g4_address_after_pages(address, n);

		if (known_of(batch, first + n) != g4_address_stored(own))
			break;
		const struct g4_listing_key key = g4_listing_key(&batch->sums[first + n], batch->domain);
		g4_ddt_remove(&fs->ddt, key.bytes, own, false);
		batch->known[first + n] = G4_KNOWN_NOT;
	}
}

/* Where a batch's first new pages go, or behind what it had last. */
G4_FN static struct g4_address goal_for(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode,
					const struct g4_batch *batch)
{
	struct g4_free_row *row = &batch->lists->placing.row;
	const uint32_t pool = g4_file_pool(fs, inode);

	if (!batch->whole || batch->claimed > 0)
		return inode->next_goal;
	if (row->pool != pool) {
		memset(&row->next, 0, sizeof(row->next));
		row->pages = 0;
		row->pool = pool;
		row->ended = false;
	}
	if (row->pages < batch->count && row->wanted > 1 && !row->ended) {
		const uint64_t want = g4_max64(batch->count, g4_min64(row->wanted, G4_ROW_PAGES));
		const struct g4_alloc_row found = g4_alloc_find_row(wg, &fs->alloc, pool, want);

		row->ended = found.pages < want; /* what does not fit into it goes behind it */
		row->pages = found.pages;
		row->next = found.pages > 0 ? found.address : row->next;
	}
	return g4_address_is_none(row->next) ? inode->next_goal : row->next;
}

/* Pages were claimed: the row is behind them, also where others were faster and they lie further on. */
G4_FN static void advance_row(struct g4_free_row *row, struct g4_address address, uint64_t pages)
{
	const uint64_t old = g4_address_page(row->next), next = g4_address_page(address) + pages;

	row->pages = next >= old && next - old < row->pages ? row->pages - (next - old) : 0;
	row->next = g4_address_after_pages(address, pages);
}

#define LARGE_PART 64u /* pages in a row that are worth a region of their own, in files of several */

/*
 * Where `pages` pages of the file from `page` on go if its page `other`, of the same 2 MiB, lies where it would in a region, and all of them are
 * free beside it; or none.
 */
G4_FN static int place_with(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page,
			    uint64_t pages, uint64_t other, struct g4_address *goal)
{
	const uint64_t unit = page / G4_REGION_PAGES * G4_REGION_PAGES;
	struct g4_run run;
	int rc = g4_map_lookup(wg, fs, inode, other, unit + G4_REGION_PAGES - other, &run);

	if (rc == 0 && run.kind == G4_HOLE && run.pages < unit + G4_REGION_PAGES - other) {
		other += run.pages;
		rc = g4_map_lookup(wg, fs, inode, other, 1, &run);
	}
	if (rc < 0 || run.kind == G4_HOLE || g4_address_page(run.address) % G4_REGION_PAGES != other % G4_REGION_PAGES)
		return rc;
	const uint64_t place = g4_address_page(run.address) / G4_REGION_PAGES * G4_REGION_PAGES + page - unit;
	if (g4_alloc_count(wg, &fs->alloc, place, pages, false) >= pages)
		*goal = g4_page_address(place);
	return 0;
}

/*
 * So that all 2 MiB may become one pointer: with what is there of them already, first what is before or behind these pages. None: there is
 * nothing, or others have the place.
 */
G4_FN static int place_beside(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page,
			      uint64_t pages, struct g4_address *goal)
{
	const uint64_t at = page % G4_REGION_PAGES;
	int rc = at > 0 ? place_with(wg, fs, inode, page, pages, page - 1, goal) : 0;

	if (rc == 0 && g4_address_is_none(*goal) && at + pages < G4_REGION_PAGES)
		rc = place_with(wg, fs, inode, page, pages, page + pages, goal);
	if (rc == 0 && g4_address_is_none(*goal) && at > 0)
		rc = place_with(wg, fs, inode, page, pages, page - at, goal);
	return rc;
}

/*
 * New pages that do not continue what was placed just before get their goal by the 2 MiB of the file that they are in: `most` of them, or
 * fewer. Files are written in pieces, by several workgroups, in any order. `hole`: nothing is there yet; small pieces that are written over others
 * do not take a region each.
 */
G4_FN static int place_in_unit(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode,
			       const struct g4_batch *batch, uint64_t page, bool hole, uint64_t *most,
			       struct g4_address *goal, uint32_t *class_)
{
	const uint64_t at = page % G4_REGION_PAGES;
	const bool goes_on =
		at > 0 && batch->segment_count > 0 &&
		batch->segments[batch->segment_count - 1].page + batch->segments[batch->segment_count - 1].pages ==
			page;
	struct g4_address beside = G4_NO_ADDRESS;
	int rc = 0;

	*class_ = G4_ALLOC_DATA;
	if (at + *most >= G4_REGION_PAGES + LARGE_PART) /* the next 2 MiB are worth a region of their own */
		*most = G4_REGION_PAGES - at;
	if (goes_on)
		return 0;
	const uint64_t pages = *most + batch->coming;
	if (!batch->whole && pages >= G4_ROW_PAGES)
		rc = place_beside(wg, fs, inode, page, g4_min64(pages, G4_REGION_PAGES - at), &beside);
	if (!g4_address_is_none(beside))
		*goal = beside;
	else if (pages >= G4_BATCH_PAGES ||
		 (hole && pages >= LARGE_PART && (page >= G4_REGION_PAGES || inode->size > G4_REGION_BYTES)))
		*class_ = G4_ALLOC_ALIGNED_AT(at);
	return rc;
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
	const bool in_place = old.kind == G4_UNWRITTEN, hole = old.kind == G4_HOLE;
	if (!in_place && old.kind != G4_HOLE)
		forget_own(fs, batch, first, old.pages, old.address);
	const uint64_t known = known_of(batch, first);
	if (!in_place && known != G4_KNOWN_NOT) {
		add_known(batch, first, page, old.pages, known);
		return 0;
	}
	if (in_place) { /* it is for this file alone, and there is no need to look for space */
		address = old.address;
		got = old.pages;
	} else {
		want = batch->dedup ? unknown_row(batch, first, want) : want;
		uint64_t most = want;
		/* a run that meets allocated, unwritten space further on ends there */
		for (uint64_t at = old.pages; at < want && most == want; at += old.pages) {
			rc = g4_map_lookup(wg, fs, inode, page + at, want - at, &old);
			if (rc < 0)
				return rc;
			if (old.kind == G4_UNWRITTEN)
				most = at;
		}
		struct g4_address goal = goal_for(wg, fs, inode, batch);
		uint32_t class_;
		rc = place_in_unit(wg, fs, inode, batch, page, hole, &most, &goal, &class_);
		if (rc < 0)
			return rc;
		rc = g4_alloc_claim(wg, &fs->alloc, G4_ALLOC_IN(g4_file_pool(fs, inode), class_), goal, most, true,
				    &address, &got);
		if (rc < 0)
			return rc;
		batch->claimed += got;
		if (batch->whole)
			advance_row(&batch->lists->placing.row, address, got);
	}
	add_segment(batch, first, page, address, got, in_place ? G4_SEGMENT_IN_PLACE : G4_SEGMENT_NEW);
	for (uint32_t k = 0; batch->dedup && k < got; k++) { /* for those that are like it */
		batch->known[first + k] = g4_address_stored(g4_address_after_pages(address, k));
		if (batch->verifies)
			g4_batch_marks(batch)[first + k] = 0;
	}
	inode->next_goal = g4_address_after_pages(address, got);
	return 0;
}

G4_FN void g4_place_undo(struct g4_fs *fs, const struct g4_batch *batch, uint32_t from)
{
	for (uint32_t s = 0; s < batch->segment_count; s++) {
		const struct g4_segment *segment = &batch->segments[s];
		uint32_t skip = from > segment->first ? from - segment->first : 0;
		if (segment->kind == G4_SEGMENT_NEW && skip < segment->pages)
			g4_alloc_release(&fs->alloc, g4_address_after_pages(segment->address, skip),
					 segment->pages - skip);
	}
}

G4_FN void g4_place_in_row(const struct g4_inode_core *inode, struct g4_batch *batch, bool first)
{
	struct g4_free_row *row = &batch->lists->placing.row;

	if (first)
		memset(row, 0, sizeof(*row));
	batch->whole = batch->count >= g4_pages_for(inode->size);
	row->wanted += batch->whole ? batch->count : 0;
}

/* Places what it can of a batch's pages from *placed on, in segments. */
G4_FN static int place_all(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, struct g4_batch *batch,
			   uint32_t *placed)
{
	int rc = 0;

	if (*placed == 0) {
		batch->segment_count = 0;
		batch->claimed = 0;
	}
	while (*placed < batch->count && batch->segment_count < batch->most && rc == 0) {
		rc = place_next(wg, fs, inode, batch, *placed);
		if (rc == 0) {
			const struct g4_segment *last = &batch->segments[batch->segment_count - 1];
			*placed = last->first + last->pages;
		}
	}
	return rc;
}

G4_FN int g4_place(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, struct g4_batch *batch,
		   uint32_t from)
{
	uint32_t placed = from;
	int rc = place_all(wg, fs, inode, batch, &placed);

	if (batch->whole)
		batch->lists->placing.row.wanted -= batch->count;
	if (rc < 0 && from > 0) {
		batch->count = placed;
		return rc;
	}
	if (rc < 0) {
		g4_place_undo(fs, batch, 0);
		/* the reservation holds again */
		g4_alloc_reserve_again(&fs->alloc, g4_file_pool(fs, inode), batch->claimed);
		batch->segment_count = 0; /* so that nothing is stored or published of what is given back */
		batch->claimed = 0;
		return rc;
	}
	batch->count = placed;
	return 0;
}

G4_FN int g4_place_page(struct g4_wg *wg, struct g4_fs *fs, uint32_t policy, struct g4_address goal,
			struct g4_batch *batch)
{
	const uint32_t pool = g4_policy_pool(fs, policy);
	struct g4_address address;
	uint64_t got;
	int rc = g4_alloc_claim(wg, &fs->alloc, G4_ALLOC_IN(pool, G4_ALLOC_DATA), goal, 1, false, &address, &got);

	if (rc == -G4_E_NOSPC && pool != G4_LEVEL_OWN) /* which keeps some back, so that a full file can be cut */
		rc = g4_alloc_claim(wg, &fs->alloc, G4_ALLOC_IN(G4_LEVEL_OWN, G4_ALLOC_DATA), G4_NO_ADDRESS, 1, false,
				    &address, &got);
	batch->segment_count = 0;
	batch->claimed = 0;
	if (rc == 0)
		add_segment(batch, 0, batch->direct_page, address, 1, G4_SEGMENT_NEW);
	return rc;
}

G4_FN int g4_place_unwritten(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t want,
			     struct g4_address *address, uint64_t *got)
{
	return g4_alloc_claim(wg, &fs->alloc, G4_ALLOC_IN(g4_file_pool(fs, inode), G4_ALLOC_DATA), inode->next_goal,
			      want, true, address, got);
}
