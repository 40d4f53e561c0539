/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches in which pages that were found lie between new ones have a segment for every few pages. What is published of them in one go is a stretch:
 * pages of a quarter of an indirect page, whose slots are holes, of which the new ones lie in a row in one quarter of a region and the found ones in
 * another one, in any order. So the way to the slots, the page of sums, the lock of the group where pages were found and that of the group where new ones are
 * listed are had once for up to 128 pages.
 *
 *     file     | n | f f f f f f f f f | n | f f f f f f f f f | n |      slots and sums: one quarter of an indirect page
 *     device   | n n n |            and | f f f f f f f f f . f f f f f f f f f |
 *
 * Crash at any line: pointers, sums, owners and what is listed are of one transaction, as they are segment by segment. A stretch ends before a page that can
 * not be had: the file has a row of pages at any time. Whatever is not as it should be is left to that other way, which tells why.
 */
#include "data/scatter.h"

#include "alloc/listing.h"
#include "data/extent.h"
#include "data/hints.h"
#include "data/map.h"
#include "data/map_path.h"
#include "data/twice.h"
#include "data/unreadable.h"
#include "inode/times.h"

/* Of a stretch; where the batch had its parts of a transfer before. */
#define STRETCH G4_LISTING_PAGES
struct stretch {
	uint64_t places[STRETCH];	   /* of its pages */
	struct g4_sum_entry sums[STRETCH]; /* of the new ones, */
	uint64_t hints[STRETCH];	   /* and what the table says of them now */
	uint8_t at[STRETCH];		   /* which of the pages they are */
	uint32_t pages, fresh;
	struct g4_address row; /* of the new ones */
	struct g4_address one; /* of those that were found; or none */
	struct g4_listing_each each;
};
G4_STATIC_ASSERT(sizeof(struct stretch) <= G4_BATCH_SUMS * sizeof(struct g4_iov), "it has room there");
G4_STATIC_ASSERT(STRETCH == G4_SUMS_SLOTS, "a page of sums");

/* How many of a segment's `pages` pages from an address on can join. */
G4_FN static uint64_t joining(const struct stretch *st, struct g4_address address, uint64_t pages, bool found)
{
	if (!found && st->fresh > 0 && !g4_address_is(address, g4_address_after_pages(st->row, st->fresh)))
		return 0;
	const struct g4_address with = found ? st->one : st->fresh > 0 ? st->row : G4_NO_ADDRESS;
	if (!g4_address_is_none(with) &&
	    g4_address_page(with) / G4_LISTING_PAGES != g4_address_page(address) / G4_LISTING_PAGES)
		return 0;
	return g4_share_list_part(address, pages);
}

G4_FN static void join(struct stretch *st, const struct g4_batch *batch, const struct g4_segment *segment,
		       uint64_t inside, uint64_t pages)
{
	const struct g4_address address = g4_address_after_pages(segment->address, inside);
	const bool found = segment->kind == G4_SEGMENT_FOUND;

	if (found)
		st->one = address;
	else if (st->fresh == 0)
		st->row = address;
	for (uint64_t i = 0; i < pages; i++) {
		const uint32_t k = st->pages++;
		st->places[k] = g4_address_stored(g4_address_after_pages(address, i));
		if (found) {
			st->each.which[k / 64] |= UINT64_C(1) << k % 64;
		} else {
			st->sums[st->fresh] = batch->sums[segment->first + inside + i];
			st->at[st->fresh++] = (uint8_t)k;
		}
	}
}

/* Whether a segment is all that a stretch which begins there could have: then it has one part at most. */
G4_FN static bool is_all(const struct g4_segment *segment, uint64_t inside)
{
	return segment->pages - inside >= STRETCH - (segment->page + inside) % STRETCH;
}

/* The stretch that begins there. How many parts of segments it has. */
G4_FN static uint32_t plan(const struct g4_batch *batch, uint32_t s, uint64_t inside, struct stretch *st)
{
	const uint64_t page = batch->segments[s].page + inside, most = STRETCH - page % STRETCH;
	uint32_t parts = 0;

	st->pages = st->fresh = 0;
	st->row = st->one = G4_NO_ADDRESS;
	memset(&st->each, 0, sizeof(st->each));
	for (; s < batch->segment_count && st->pages < most; s++, inside = 0) {
		const struct g4_segment *segment = &batch->segments[s];
		const bool found = segment->kind == G4_SEGMENT_FOUND;
		const uint64_t left = g4_min64(segment->pages - inside, most - st->pages);

		if (segment->page + inside != page + st->pages || (!found && segment->kind != G4_SEGMENT_NEW))
			break;
		const uint64_t n = joining(st, g4_address_after_pages(segment->address, inside), left, found);
		if (n > 0)
			join(st, batch, segment, inside, n);
		parts += n > 0;
		if (n < segment->pages - inside)
			break;
	}
	return parts;
}

/* The stretch ends in front of its page `end`. */
G4_FN static void cut(struct stretch *st, uint32_t end)
{
	st->pages = (uint32_t)g4_min64(st->pages, end);
	while (st->fresh > 0 && st->at[st->fresh - 1] >= st->pages)
		st->fresh--;
	for (uint32_t w = 0; w < STRETCH / 64; w++) {
		const uint32_t n = st->pages > w * 64 ? (uint32_t)g4_min64(st->pages - w * 64, 64) : 0;
		st->each.which[w] &= n == 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1;
	}
}

G4_FN static bool has_found(const struct stretch *st)
{
	return st->pages > st->fresh;
}

/* Of all of them: a page that is suspect is nobody's to share. */
G4_FN static bool any_suspect(struct g4_fs *fs, const struct stretch *st)
{
	const uint32_t looked_at = g4_load32_acq(&fs->ddt.has_suspects) ? st->pages : 0;
	bool any = false;

	for (uint32_t k = 0; k < looked_at; k++)
		any |= g4_ddt_is_suspect(&fs->ddt, g4_address_from(st->places[k]));
	return any;
}

/* Whether the first and the last page of an indirect one lie as those of a large page do. */
G4_FN static bool may_be_large(const g4_le64 *slots)
{
	const struct g4_address first = g4_ptr_address(slots[0]);

	return slots[0] != 0 && g4_address_starts_region(first) &&
	       slots[G4_INDIRECT_SLOTS - 1] ==
		       g4_map_data_ptr(g4_address_after_pages(first, G4_INDIRECT_SLOTS - 1), 0, true);
}

/*
 * The slots at a place are holes: sums, owners and pointers. What a page of sums has beside a hole means nothing, so sums come before owners, and nothing
 * has to be given back where there is no room for them, for which no credits were asked.
 */
G4_FN static int set(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
		     const struct g4_batch *batch, uint32_t first, const struct g4_path *path, struct stretch *st)
{
	const uint32_t line = path->lines[1];
	g4_txn_dirty(txn, line);
	int rc =
		g4_sums_write(wg, fs, txn, inode, line, g4_path_index(fs, inode, path), st->pages, &batch->sums[first]);

	if (rc == 0 && has_found(st)) {
		rc = g4_share_acquire_each(wg, &fs->alloc, txn, st->one, st->pages, st->places, &batch->sums[first],
					   batch->domain, &st->each);
		if (rc == -G4_E_AGAIN || rc == -G4_E_NOSPC || rc == -G4_E_MLINK || rc == -G4_E_CORRUPT_MAP) {
			cut(st, 0); /* nobody has an owner more */
			return 0;
		}
		if (rc > 0)
			cut(st, (uint32_t)rc);
	}
	if (rc >= 0 && st->fresh > 0)
		rc = g4_extent_acquire(wg, fs, txn, st->row, st->fresh);
	if (rc < 0)
		return rc;
	for (uint32_t k = 0; k < st->pages; k++)
		path->slot[k] = g4_map_data_ptr(g4_address_from(st->places[k]), 0, true);
	inode->disk.pages += st->pages;
	if (may_be_large(g4_map_slots(fs, line)))
		inode->joins_late = true; /* publish looks at all of them, in a transaction of its own */
	return 0;
}

/* Others may find the new ones, of which the first page of the stretch is `page`. */
G4_FN static int list(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
		      const struct g4_batch *batch, uint64_t page, struct stretch *st)
{
	int rc = g4_share_list(wg, &fs->alloc, txn, st->row, st->fresh, st->sums, batch->domain, g4_today(fs));

	if (rc == G4_LIST_FULL)
		g4_ddt_count_plain(&fs->ddt, st->row, st->fresh);
	if (rc == 1)
		g4_hints_insert(wg, fs, st->sums, batch->domain, st->fresh, st->row, st->hints);
	for (uint32_t k = 0; rc == 1 && k < st->fresh; k++) {
		const int yielded = st->hints[k] == 0 ? 0 :
							g4_twice_yield(wg, fs, txn, inode, page + st->at[k], 1,
								       &st->sums[k], &st->hints[k]);
		rc = yielded < 0 ? yielded : rc;
	}
	return rc < 0 ? rc : 0;
}

/* The way to the slots, which is made; the stretch ends where they are no holes, or there is no room for it: then it has no pages. */
G4_FN static int go_there(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			  uint64_t page, struct g4_path *path, struct stretch *st)
{
	int rc = g4_map_grow(wg, fs, txn, inode, page + st->pages - 1);

	g4_path_start(path, inode, page);
	if (rc < 0 || inode->disk.map_height == 0) {
		cut(st, 0);
		return rc;
	}
	rc = g4_path_make(wg, fs, txn, inode, path, page, 0);
	if (rc == 0)
		rc = g4_look_at_sums(wg, fs, inode, path->lines[1], page, st->pages);
	if (rc == 0)
		cut(st, (uint32_t)g4_count_row(path->slot, st->pages, 0, 0));
	if (rc == 0 && !g4_extent_credits(fs, txn, 4, st->pages, has_found(st), 0, st->fresh > 0 ? G4_LIST_CREDITS : 0))
		cut(st, 0);
	return rc;
}

G4_FN int g4_scatter_publish(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			     struct g4_batch *batch, uint32_t s, uint64_t inside, uint64_t *done)
{
	struct stretch *st = (struct stretch *)(void *)batch->lists->iovs;
	const uint64_t page = batch->segments[s].page + inside;
	const uint32_t first = batch->segments[s].first + (uint32_t)inside, before = txn->changed;
	struct g4_path path;

	*done = 0;
	if (!batch->staged || !batch->dedup || batch->verifies || batch->moves || is_all(&batch->segments[s], inside) ||
	    plan(batch, s, inside, st) < 2)
		return 0;
	if (st->fresh > 0) { /* others may have stored the same meanwhile */
		g4_hints_find(wg, fs, st->sums, batch->domain, st->fresh, st->hints);
		const uint64_t ours = g4_count_row(st->hints, st->fresh, 0, 0);
		if (ours < st->fresh)
			cut(st, st->at[ours]);
	}
	if (st->pages < 2 || (has_found(st) && any_suspect(fs, st)) || !g4_map_need_credits(txn, G4_MAP_CREDITS - 4))
		return 0;
	int rc = go_there(wg, fs, txn, inode, page, &path, st);
	if (rc == 0 && st->pages > 0) {
		const uint32_t listing = st->fresh > 0 ? G4_LIST_CREDITS : 0;
		txn->credits -= listing; /* they are not for the map */
		rc = set(wg, fs, txn, inode, batch, first, &path, st);
		txn->credits += listing;
	}
	g4_path_put(fs, &path);
	if (rc < 0) /* what has changed nothing is met again, and told then */
		return txn->changed == before ? 0 : rc;
	*done = st->pages;
	g4_ddt_count(&fs->ddt, page, st->pages - st->fresh, st->fresh, 0);
	if (st->pages > 0 && st->fresh > 0) {
		g4_txn_data_untagged(txn);
		rc = list(wg, fs, txn, inode, batch, page, st);
	}
	return rc;
}
