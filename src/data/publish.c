/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last stage of the write pipeline, and the only one that changes metadata: what was stored becomes reachable. Crash at any
 * line: each transaction leaves a valid file, with the old page or the new one at each place, and no size beyond what is there.
 *
 * A commit must not point at data that did not arrive. Small batches are tagged: their checksums, of pages in engine memory, go
 * into the record. Others are flushed before the record is written.
 */
#include "alloc/share.h"
#include "data/batch.h"
#include "data/hints.h"
#include "data/map.h"
#include "data/scatter.h"
#include "data/twice.h"
#include "hash/crc32c.h"
#include "inode/inode.h"
#include "inode/times.h"
#include "inode/txn.h"

#define TAG_PAGES 32u /* batches up to this size carry checksums instead of being flushed before the commit */

/* The transaction publishes `pages` pages of a segment, from `from` on. Without a volatile cache nobody would look at their checksums. */
G4_FN static void tag_data(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, const struct g4_batch *batch,
			   const struct g4_segment *segment, uint64_t from, uint64_t pages)
{
	if (batch->count > TAG_PAGES || batch->direct || batch->staged || !g4_space_has_volatile_cache(&fs->space)) {
		g4_txn_data_untagged(txn);
		return;
	}
	for (uint64_t p = from; p < from + pages; p++) {
		const void *data = g4_line_data(&fs->cache, batch->lines[segment->first + p]);
		g4_txn_data(txn, g4_address_after_pages(segment->address, p), g4_crc32c_wide(wg, data));
	}
}

/* Where a hint leads, if a page is listed there with a sum now, in a domain; or none. */
G4_FN static struct g4_address if_listed(struct g4_wg *wg, struct g4_fs *fs, struct g4_address hint,
					 const struct g4_sum_entry *sum, uint64_t domain)
{
	return g4_address_is_none(hint) || g4_share_listed_row(wg, &fs->alloc, hint, 1, sum, domain) <= 0 ?
		       G4_NO_ADDRESS :
		       hint;
}

G4_FN static struct g4_address hint_of(struct g4_fs *fs, const struct g4_sum_entry *sum, uint64_t domain)
{
	const struct g4_listing_key key = g4_listing_key(sum, domain);

	return g4_ddt_find(&fs->ddt, key.bytes);
}

/* Hints of pages that are listed. `hints`: as list() has them. */
G4_FN static void hint(struct g4_wg *wg, struct g4_fs *fs, struct g4_address address, uint32_t pages,
		       const struct g4_sum_entry *sums, uint64_t domain, uint64_t *hints)
{
	if (hints && pages > 0)
		g4_hints_insert(wg, fs, sums, domain, pages, address, hints);
	for (uint32_t p = 0; !hints && p < pages; p++) /* of two copies the one stays to which the hint leads */
		if (g4_address_is_none(if_listed(wg, fs, hint_of(fs, &sums[p], domain), &sums[p], domain)))
			g4_hints_insert(wg, fs, &sums[p], domain, 1, g4_address_after_pages(address, p), NULL);
}

/*
 * Others may find pages that were published. `hints`: nobody else had listed the same when the table said that, and then where others have listed it since;
 * NULL: nobody has looked. They are listed quarter by quarter, and hinted at together.
 */
G4_FN static int list(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_address address, uint32_t pages,
		      const struct g4_sum_entry *sums, uint64_t domain, uint64_t *hints)
{
	uint32_t from = 0, at = 0; /* what is listed and not hinted at */
	int rc = 0;

	while (at < pages && rc >= 0) {
		const struct g4_address to = g4_address_after_pages(address, at);
		const uint32_t part = (uint32_t)g4_share_list_part(to, pages - at);
		rc = g4_share_list(wg, &fs->alloc, txn, to, part, &sums[at], domain, g4_today(fs));
		if (rc == G4_LIST_FULL)
			g4_ddt_count_plain(&fs->ddt, to, part);
		if (rc != 1) {
			hint(wg, fs, g4_address_after_pages(address, from), at - from, &sums[from], domain,
			     hints ? &hints[from] : NULL);
			from = at + part;
			if (hints)
				memset(&hints[at], 0, part * sizeof(*hints));
		}
		at += part;
	}
	if (from < at)
		hint(wg, fs, g4_address_after_pages(address, from), at - from, &sums[from], domain,
		     hints ? &hints[from] : NULL);
	return rc < 0 ? rc : 0;
}

/* The same, of a page that is the file's own, is none: what it writes again is stored again. */
G4_FN static struct g4_address if_others(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page,
					 struct g4_address hint, const struct g4_sum_entry *sum)
{
	const struct g4_address other = if_listed(wg, fs, hint, sum, g4_inode_domain(&inode->disk));
	struct g4_run own;

	if (g4_address_is_none(other) || g4_map_lookup(wg, fs, inode, page, 1, &own) < 0 ||
	    (own.kind != G4_HOLE && g4_address_is(own.address, other)))
		return G4_NO_ADDRESS;
	return other;
}

/* What the table says of new pages of a batch from `first` on, in a row that is published in parts: it is asked once. */
G4_FN static uint64_t *hints_of(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode,
				struct g4_batch *batch, uint32_t first, uint64_t pages)
{
	if (batch->hinted <= first) {
		g4_hints_find(wg, fs, &batch->sums[first], g4_inode_domain(&inode->disk), (uint32_t)pages,
			      &batch->known[first]);
		batch->hinted = (uint16_t)(first + pages);
	}
	return &batch->known[first];
}

/*
 * Between the look of the stage dedup and now the batch was stored, and others may have stored the same, and published it: the first
 * one wins. How many of the pages are still to be published from the first one on. 0: that one is the file's now, *done, and its space is given
 * back; or an error; or the credits ran out. `hints`: what the table says of all of them.
 */
G4_FN static uint64_t yield_pages(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
				  uint64_t page, struct g4_address address, uint64_t pages,
				  const struct g4_sum_entry *sums, const uint64_t *hints, uint64_t *done, int *rc)
{
	struct g4_address other = G4_NO_ADDRESS;
	const uint32_t proven = 0;
	uint64_t n = 0;

	*done = 0;
	*rc = 0;
	n = g4_count_row(hints, pages, 0, 0); /* nobody has */
	while (n < pages &&
	       g4_address_is_none(other = if_others(wg, fs, inode, page + n, g4_address_from(hints[n]), &sums[n])))
		n++;
	if (n > 0)
		return n;
	*rc = g4_map_share_found(wg, fs, txn, inode, page, other, 1, sums, &proven, done);
	if (*rc == -G4_E_AGAIN) { /* gone, or nobody can share it */
		*rc = 0;
		return 1;
	}
	if (*done > 0)
		g4_alloc_release(&fs->alloc, address, *done);
	return 0;
}

/* Pages that the stage dedup has found; of one that is not listed any more another one may be by now, which its sum has to prove. */
G4_FN static int publish_found(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			       uint64_t page, struct g4_address address, uint64_t pages,
			       const struct g4_sum_entry *sums, const uint32_t *marks, bool verifies, uint64_t *done)
{
	const uint32_t proven = 0;
	int rc = g4_map_share_found(wg, fs, txn, inode, page, address, pages, sums, marks, done);

	if (rc == -G4_E_AGAIN && *done == 0 && !verifies) {
		const struct g4_address other =
			if_others(wg, fs, inode, page, hint_of(fs, sums, g4_inode_domain(&inode->disk)), sums);
		if (!g4_address_is_none(other))
			rc = g4_map_share_found(wg, fs, txn, inode, page, other, 1, sums, &proven, done);
	}
	return rc;
}

/* Whether pages of a file in a row are, or begin with, a large page. */
G4_FN static bool is_large(uint64_t page, struct g4_address address, uint64_t pages)
{
	return page % G4_REGION_PAGES == 0 && g4_address_starts_region(address) && pages >= G4_REGION_PAGES;
}

/*
 * As much as the transaction allows of a segment from its page `from` on becomes the file's; *done pages. `first`: the transaction has
 * begun with the credits for it.
 */
G4_FN static int publish_part(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			      struct g4_batch *batch, const struct g4_segment *segment, uint64_t from, bool first,
			      uint64_t *done)
{
	const uint64_t page = segment->page + from;
	const struct g4_address address = g4_address_after_pages(segment->address, from);
	const bool lists = batch->dedup && g4_segment_is_stored(segment);
	const struct g4_sum_entry *sums = batch->algorithm ? &batch->sums[segment->first + from] : NULL;
	/* what was asked for by fallocate(2), or where its policy says, is kept */
	const bool looks = lists && segment->kind == G4_SEGMENT_NEW && !batch->moves && !batch->verifies;
	/* a whole large page becomes one pointer, if the transaction has room for its four pages of sums that list it */
	const bool large = lists && is_large(page, address, segment->pages - from) &&
			   g4_txn_extend(txn, (G4_LISTING_QUARTERS - 1) * G4_LIST_CREDITS);
	uint64_t pages = large ? G4_REGION_PAGES :
			 lists ? g4_share_list_part(address, segment->pages - from) :
				 segment->pages - from;
	uint64_t next;
	int rc = 0;

	if (segment->kind == G4_SEGMENT_FOUND) {
		rc = publish_found(wg, fs, txn, inode, page, address, pages, sums,
				   batch->verifies ? &g4_batch_marks(batch)[segment->first + from] : NULL,
				   batch->verifies, done);
		g4_ddt_count(&fs->ddt, page, *done, 0, 0);
		return rc;
	}
	if (segment->kind == G4_SEGMENT_ZEROS) {
		rc = g4_map_dig(wg, fs, txn, inode, page, page + pages, &next);
		*done = g4_min64(next - page, pages);
		g4_ddt_count(&fs->ddt, page, 0, 0, *done);
		return rc;
	}
	*done = 0;
	if (looks)
		pages = yield_pages(wg, fs, txn, inode, page, address, pages, sums,
				    hints_of(wg, fs, inode, batch, segment->first + (uint32_t)from, pages), done, &rc);
	if (pages == 0) {
		g4_ddt_count(&fs->ddt, page, *done, 0, 0);
		return rc;
	}
	if (large && pages < G4_REGION_PAGES) /* others had one of the pages before */
		pages = g4_share_list_part(address, pages);
	if (lists && !first && !g4_txn_extend(txn, G4_LIST_CREDITS))
		return 0; /* another transaction has them */
	const uint32_t listing = lists ? (large ? G4_LISTING_QUARTERS : 1) * G4_LIST_CREDITS : 0;
	txn->credits -= listing; /* they are not for the map */
	rc = g4_map_set(wg, fs, txn, inode, page, address, pages, true, sums, done);
	txn->credits += listing;
	if (lists)
		g4_ddt_count(&fs->ddt, page, 0, *done, 0);
	if (*done > 0)
		tag_data(wg, fs, txn, batch, segment, from, *done);
	if (rc == 0 && lists && *done > 0)
		rc = list(wg, fs, txn, address, (uint32_t)*done, sums, batch->domain,
			  looks ? &batch->known[segment->first + from] : NULL);
	if (rc == 0 && looks && *done > 0) /* behind all that listing has announced */
		rc = g4_twice_yield(wg, fs, txn, inode, page, (uint32_t)*done, sums,
				    &batch->known[segment->first + from]);
	return rc;
}

/* Which of the batch's 2 MiB could not become one pointer beside what else its transactions changed may do so now, in one of their own. */
G4_FN static int join(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, const struct g4_batch *batch)
{
	uint64_t next = 0; /* the first 2 MiB that were not looked at */
	int rc = 0;

	inode->joins_late = false;
	for (uint32_t s = 0; s < batch->segment_count && rc == 0; s++) {
		const struct g4_segment *segment = &batch->segments[s];
		const uint64_t end = (segment->page + segment->pages - 1) / G4_REGION_PAGES + 1;
		for (next = g4_max64(next, segment->page / G4_REGION_PAGES); next < end && rc == 0; next++) {
			struct g4_txn txn;
			rc = g4_begin(wg, fs, 2 * G4_MAP_CREDITS, &txn);
			if (rc < 0)
				break;
			rc = g4_map_join(wg, fs, &txn, inode, next * G4_REGION_PAGES);
			const int logged = rc == 0 || txn.changed ? g4_inode_log(wg, fs, &txn, inode) : 0;
			rc = g4_end(fs, &txn, rc < 0 ? rc : logged);
		}
	}
	inode->joins_late = false;
	return rc;
}

G4_FN int g4_publish(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, struct g4_batch *batch,
		     uint64_t size, uint32_t *published)
{
	uint32_t s = 0;
	uint64_t inside = 0; /* pages of segment s that are done */

	*published = 0;
	batch->hinted = 0; /* a write-back has one batch for all of a file, part by part */
	while (s < batch->segment_count) {
		uint8_t tiny[G4_INLINE_BYTES];
		const uint32_t flags = inode->disk.flags;
		const bool replaced = flags & G4_INODE_INLINE;
		struct g4_txn txn;
		int rc = g4_begin(wg, fs, g4_map_credits(fs) + (batch->dedup ? G4_LIST_CREDITS : 0), &txn);
		bool first = true;
		if (rc < 0)
			return rc;
		if (replaced) { /* page 0 comes first in the batch and replaces it */
			memcpy(tiny, inode->disk.inline_data, sizeof(tiny));
			inode->disk.flags &= ~G4_INODE_INLINE;
			memset(inode->disk.map, 0, sizeof(inode->disk.map));
			inode->disk.map_height = 0;
		}
		while (s < batch->segment_count && rc == 0) {
			uint64_t done;
			rc = replaced ? 0 : g4_scatter_publish(wg, fs, &txn, inode, batch, s, inside, &done);
			if (replaced || (rc == 0 && done == 0))
				rc = publish_part(wg, fs, &txn, inode, batch, &batch->segments[s], inside, first,
						  &done);
			first = false;
			for (inside += done; s < batch->segment_count && inside >= batch->segments[s].pages; s++)
				inside -= batch->segments[s].pages;
			if (done == 0 || g4_txn_is_crowded(&txn))
				break;
		}
		const bool gone = rc == -G4_E_AGAIN && batch->segments[s].kind == G4_SEGMENT_FOUND;
		rc = gone ? 0 : rc;
		if (rc < 0 && !txn.changed) {
			if (replaced) {
				inode->disk.flags = flags;
				inode->disk.map_height = 0;
				memcpy(inode->disk.inline_data, tiny, sizeof(tiny));
			}
			return g4_end(fs, &txn, rc);
		}
		if (s > 0 || inside > 0) {
			const struct g4_segment *last = &batch->segments[inside ? s : s - 1];
			uint64_t end = (last->page + (inside ? inside : last->pages)) * G4_PAGE_BYTES;
			inode->disk.size = g4_max64(inode->disk.size, g4_min64(end, size));
		}
		int logged = g4_inode_log(wg, fs, &txn, inode);
		rc = g4_end(fs, &txn, rc < 0 ? rc : logged);
		*published = (s < batch->segment_count ? batch->segments[s].first : batch->count) + (uint32_t)inside;
		inode->dedup_failed = gone;
		if (rc < 0 || gone)
			return rc;
	}
	return inode->joins_late ? join(wg, fs, inode, batch) : 0;
}

G4_FN int g4_publish_inline(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, const void *data)
{
	struct g4_txn txn;
	int rc = g4_begin(wg, fs, 4, &txn);

	if (rc < 0)
		return rc;
	memset(inode->disk.inline_data, 0, G4_INLINE_BYTES);
	memcpy(inode->disk.inline_data, data, inode->size);
	inode->disk.flags = (inode->disk.flags & ~G4_INODE_SHARES_MAP) | G4_INODE_INLINE;
	inode->disk.map_height = 0; /* an empty map may have been higher */
	inode->disk.size = inode->size;
	return g4_end(fs, &txn, g4_inode_log(wg, fs, &txn, inode));
}
