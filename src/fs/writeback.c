/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The write pipeline (design §7): gather, allocate, write, publish. Hashing, deduplication and parity will stand between
 * gather and write. Data goes to space that nothing points to yet; publish makes it reachable in a transaction, together
 * with the size. Crash before publish: the old contents, and the space was never taken on disk. Crash after: the new.
 * An I/O error leaves the pages dirty and gives the claimed space back.
 */
#include "fs/fs.h"
#include "hash/crc32c.h"

#define BATCH_PAGES 256u   /* from the cache */
#define DIRECT_PAGES 4096u /* past it: enough for many workgroups to move at a time */
#define BATCH_SEGMENTS 256u

struct segment {
	uint64_t address;
	uint64_t page;
	uint32_t pages;
	uint32_t first; /* index into the batch */
	bool in_place;	/* space that was allocated before and never written */
};

struct g4_batch {
	uint32_t count, segment_count;
	uint64_t claimed;
	const uint8_t *direct; /* data of all pages, which are one row from direct_page on, instead of lines */
	uint64_t direct_page;
	uint64_t reserved; /* space reserved for them */
	uint32_t lines[BATCH_PAGES];
	uint64_t pages[BATCH_PAGES];
	struct segment segments[BATCH_SEGMENTS];
	struct g4_iov iovs[BATCH_PAGES];
	struct g4_io ios[BATCH_PAGES / 2];
};
G4_STATIC_ASSERT(sizeof(struct g4_batch) <= G4_FS_SCRATCH_BYTES, "batch fits the scratch memory");

/* ------------------------------------------------------------------ reservations */

/*
 * What a dirty page may need is reserved when it becomes dirty and recorded in its line: the page and an indirect page of
 * every level above it, for a map that is high enough for all dirty pages. Making the map that high puts a chain of
 * indirect pages above what is mapped by then, one chain for all of them: the in-core inode's growth_reservation, kept as long as
 * anything is dirty, so that it matters neither in which order the pages are published nor which of them are dropped.
 * Who makes the map higher with a reservation of their own (g4_write_direct(), fallocate) writes the dirty pages back first.
 */
struct reservation {
	uint32_t pages;	 /* the page's own */
	uint32_t growth; /* the in-core inode's */
	uint32_t height;
};

G4_FN static struct reservation reservation_for(const struct g4_inode_core *inode, uint64_t page)
{
	uint32_t height = inode->disk.map_height > inode->dirty_height ? inode->disk.map_height : inode->dirty_height;
	struct reservation reservation = {1, 0, g4_map_height_for(page)};

	if (reservation.height > height)
		reservation.growth = reservation.height - height;
	reservation.pages += height + reservation.growth;
	return reservation;
}

G4_FN int g4_make_room(struct g4_wg *wg, struct g4_fs *fs, uint32_t index)
{
	int rc = g4_writeback_mapped(wg, fs, index);

	if (rc == 0 && g4_load64_acq(&fs->alloc.pending_pages))
		rc = g4_commit(wg, fs, UINT64_MAX, false);
	return rc;
}

/* Without any reservation: whether page `page` and up to *pages after it have space already, which was never written. */
G4_FN static int is_allocated(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
			      uint64_t *pages)
{
	struct g4_run run;
	int rc = g4_map_lookup(wg, fs, inode, page, *pages, &run);

	*pages = run.pages;
	return rc < 0 ? rc : run.kind == G4_UNWRITTEN ? 0 : -G4_E_NOSPC;
}

G4_FN static int reserve_page(struct g4_wg *wg, struct g4_fs *fs, uint32_t i, uint32_t line)
{
	struct g4_inode_core *inode = g4_icache_at(fs, i);
	struct g4_line *l = &fs->cache.lines[line];
	struct reservation reservation = reservation_for(inode, l->index);
	uint64_t one = 1;

	if (!g4_alloc_reserve(&fs->alloc, reservation.pages + reservation.growth)) {
		int rc = g4_make_room(wg, fs, i);
		if (rc < 0)
			return rc;
		reservation = reservation_for(inode, l->index);
		if (!g4_alloc_reserve(&fs->alloc, reservation.pages + reservation.growth)) {
			rc = is_allocated(wg, fs, inode, l->index, &one);
			if (rc < 0)
				return rc;
			reservation.pages = reservation.growth = 0;
		}
	}
	l->reservation = (uint8_t)reservation.pages;
	inode->growth_reservation += reservation.growth;
	if (reservation.height > inode->dirty_height)
		inode->dirty_height = reservation.height;
	return 0;
}

/* ------------------------------------------------------------------ the dirty list */

G4_FN int g4_page_dirty(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint32_t line)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	struct g4_line *l = &fs->cache.lines[line];
	int rc = l->dirty ? 0 : reserve_page(wg, fs, index, line);

	if (rc < 0 || l->dirty)
		return rc;
	g4_cache_ref(&fs->cache, line);
	g4_lock(&inode->dirty_lock);
	l->dirty = 1;
	l->prev = inode->dirty_tail;
	l->next = G4_NO_LINE;
	if (inode->dirty_tail == G4_NO_LINE)
		inode->dirty_head = line;
	else
		fs->cache.lines[inode->dirty_tail].next = line;
	inode->dirty_tail = line;
	inode->dirty_count++;
	g4_unlock(&inode->dirty_lock);
	g4_add64(&fs->dirty_pages, 1);
	g4_queue_dirty(fs, index);
	return 0;
}

/* Takes a line off the list and drops the list's reference. The line's reservation is the caller's business. */
G4_FN static void unlist(struct g4_fs *fs, struct g4_inode_core *inode, uint32_t line)
{
	struct g4_line *l = &fs->cache.lines[line];

	g4_lock(&inode->dirty_lock);
	if (l->prev == G4_NO_LINE)
		inode->dirty_head = l->next;
	else
		fs->cache.lines[l->prev].next = l->next;
	if (l->next == G4_NO_LINE)
		inode->dirty_tail = l->prev;
	else
		fs->cache.lines[l->next].prev = l->prev;
	l->dirty = 0;
	inode->dirty_count--;
	g4_unlock(&inode->dirty_lock);
	if (inode->dirty_count == 0) {
		g4_alloc_unreserve(&fs->alloc, inode->growth_reservation);
		inode->growth_reservation = inode->dirty_height = 0;
	}
	g4_sub64(&fs->dirty_pages, 1);
	g4_cache_put(&fs->cache, line);
}

G4_FN void g4_drop_dirty(struct g4_fs *fs, uint32_t i, uint64_t first, uint64_t end)
{
	struct g4_inode_core *inode = g4_icache_at(fs, i);
	uint32_t line = inode->dirty_head;

	while (line != G4_NO_LINE) {
		uint32_t next = fs->cache.lines[line].next;
		uint64_t index = fs->cache.lines[line].index;
		if (index >= first && index < end) {
			g4_alloc_unreserve(&fs->alloc, fs->cache.lines[line].reservation);
			unlist(fs, inode, line);
			g4_cache_drop(&fs->cache, inode->data_key, index);
		}
		line = next;
	}
}

/* ------------------------------------------------------------------ stages */

/* Up to a batch of dirty lines, sorted by page. */
G4_FN static void gather(struct g4_fs *fs, const struct g4_inode_core *inode, struct g4_batch *batch)
{
	uint32_t line = inode->dirty_head, n = 0;

	batch->direct = NULL;
	for (; line != G4_NO_LINE && n < BATCH_PAGES; line = fs->cache.lines[line].next) {
		uint64_t page = fs->cache.lines[line].index;
		uint32_t k = n++;
		for (; k > 0 && batch->pages[k - 1] > page; k--) {
			batch->pages[k] = batch->pages[k - 1];
			batch->lines[k] = batch->lines[k - 1];
		}
		batch->pages[k] = page;
		batch->lines[k] = line;
	}
	batch->count = n;
}

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

/* Finds space for the pages from `first` on, one contiguous piece. */
G4_FN static int allocate_piece(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, struct g4_batch *batch,
				uint32_t first)
{
	struct segment *segment = &batch->segments[batch->segment_count];
	uint64_t page, address, got, want = row_of(batch, first, &page);
	struct g4_run old;
	int rc = g4_map_lookup(wg, fs, inode, page, want, &old);
	if (rc < 0)
		return rc;
	segment->in_place = old.kind == G4_UNWRITTEN;
	if (segment->in_place) {
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
		uint32_t class_ = page % G4_REGION_PAGES == 0 && most >= BATCH_PAGES ? G4_ALLOC_ALIGNED : G4_ALLOC_DATA;
		rc = g4_alloc_claim(wg, &fs->alloc, class_, inode->next_goal, most, true, &address, &got);
		if (rc < 0)
			return rc;
		batch->claimed += got;
	}
	segment->address = address;
	segment->page = page;
	segment->pages = (uint32_t)got;
	segment->first = first;
	inode->next_goal = address + got * G4_PAGE_BYTES;
	batch->segment_count++;
	return 0;
}

/* Gives back the space of the batch's pages from `from` on, which may lie inside a segment. */
G4_FN static void release(struct g4_fs *fs, struct g4_batch *batch, uint32_t from)
{
	for (uint32_t s = 0; s < batch->segment_count; s++) {
		const struct segment *segment = &batch->segments[s];
		uint32_t skip = from > segment->first ? from - segment->first : 0;
		if (!segment->in_place && skip < segment->pages)
			g4_alloc_release(&fs->alloc, segment->address + skip * G4_PAGE_BYTES, segment->pages - skip);
	}
}

/* The batch ends where there is no room for more segments. */
G4_FN static int allocate(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, struct g4_batch *batch)
{
	uint32_t first = 0;

	batch->segment_count = 0;
	batch->claimed = 0;
	while (first < batch->count && batch->segment_count < BATCH_SEGMENTS) {
		int rc = allocate_piece(wg, fs, inode, batch, first);
		if (rc < 0) {
			release(fs, batch, 0);
			g4_add64(&fs->alloc.reserved, batch->claimed); /* the reservation holds again */
			return rc;
		}
		first += batch->segments[batch->segment_count - 1].pages;
	}
	batch->count = first;
	return 0;
}

/* `pages` pages of a batch's segment in a row, as parts of a transfer. */
G4_FN static uint32_t make_parts(const struct g4_fs *fs, const struct g4_batch *batch, uint32_t first, uint32_t pages,
				 struct g4_iov *iov)
{
	uint32_t count = 0;

	if (batch->direct) {
		iov->base = (void *)(uintptr_t)(batch->direct + (uint64_t)first * G4_PAGE_BYTES);
		iov->bytes = (uint64_t)pages * G4_PAGE_BYTES;
		return 1;
	}
	for (uint32_t k = 0; k < pages; k++)
		g4_iov_add_line(&fs->cache, batch->lines[first + k], iov, &count);
	return count;
}

G4_FN int g4_write_piece(struct g4_wg *wg, struct g4_fs *fs, const struct g4_batch *batch, uint32_t first,
			 uint32_t count)
{
	struct g4_iov parts[G4_SPLIT_PIECE_PAGES];
	uint32_t end = first + count;
	int rc = 0;

	for (uint32_t s = 0; s < batch->segment_count && first < end && rc == 0; s++) {
		const struct segment *segment = &batch->segments[s];
		struct g4_io io;

		if (first >= segment->first + segment->pages)
			continue;
		uint32_t pages = (uint32_t)g4_min64(end, segment->first + segment->pages) - first;
		memset(&io, 0, sizeof(io));
		io.op = G4_IO_WRITE;
		io.offset_bytes = segment->address + (uint64_t)(first - segment->first) * G4_PAGE_BYTES;
		io.iov = parts;
		io.iov_count = make_parts(fs, batch, first, pages, parts);
		rc = g4_space_transfer(wg, &fs->space, &io, 1);
		first += pages;
	}
	return rc;
}

G4_FN static int write_pages(struct g4_wg *wg, struct g4_fs *fs, struct g4_batch *batch)
{
	const struct g4_split_work work = {G4_SPLIT_WRITE, 0,	  0,	 (uint64_t)batch->count * G4_PAGE_BYTES,
					   NULL,	   false, false, batch};
	uint64_t done;
	uint32_t n = 0;
	int rc = 0;

	if (g4_split_run(wg, fs, &work, &rc, &done))
		return rc;
	for (uint32_t s = 0; s < batch->segment_count && rc == 0; s++) {
		struct segment *segment = &batch->segments[s];
		struct g4_io *io = &batch->ios[n++];
		memset(io, 0, sizeof(*io));
		io->op = G4_IO_WRITE;
		io->offset_bytes = segment->address;
		io->iov = &batch->iovs[batch->direct ? s : segment->first];
		io->iov_count = make_parts(fs, batch, segment->first, segment->pages, io->iov);
		if (n == BATCH_PAGES / 2 || s + 1 == batch->segment_count) {
			rc = g4_space_transfer(wg, &fs->space, batch->ios, n);
			n = 0;
		}
	}
	return rc;
}

#define TAG_PAGES 32u /* batches up to this size carry checksums instead of being flushed before the commit */

/* The transaction publishes `pages` pages of a segment, from `from` on. */
G4_FN static void tag_data(struct g4_fs *fs, struct g4_txn *txn, const struct g4_batch *batch,
			   const struct segment *segment, uint64_t from, uint64_t pages)
{
	if (batch->count > TAG_PAGES || batch->direct) {
		g4_txn_data_untagged(txn);
		return;
	}
	for (uint64_t p = from; p < from + pages; p++) {
		const void *data = g4_line_data(&fs->cache, batch->lines[segment->first + p]);
		g4_txn_data(txn, segment->address + p * G4_PAGE_BYTES, g4_crc32c(0, data, G4_PAGE_BYTES));
	}
}

/* Makes the segments reachable; `size` is what the file is long when all of them are. *published: pages done. */
G4_FN static int publish(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, struct g4_batch *batch,
			 uint64_t size, uint32_t *published)
{
	uint32_t s = 0;
	uint64_t inside = 0; /* pages of segment s that are done */

	*published = 0;
	while (s < batch->segment_count) {
		uint8_t tiny[G4_INLINE_BYTES];
		bool replaced = inode->disk.flags & G4_INODE_INLINE;
		struct g4_txn txn;
		int rc = g4_begin(wg, fs, G4_MAP_CREDITS + 4, &txn);
		if (rc < 0)
			return rc;
		if (replaced) { /* page 0 comes first in the batch and replaces it */
			memcpy(tiny, inode->disk.inline_data, sizeof(tiny));
			inode->disk.flags &= ~G4_INODE_INLINE;
			memset(inode->disk.map, 0, sizeof(inode->disk.map));
			inode->disk.map_height = 0;
		}
		while (s < batch->segment_count && rc == 0) {
			struct segment *segment = &batch->segments[s];
			uint64_t done;
			rc = g4_map_set(wg, fs, &txn, inode, segment->page + inside,
					segment->address + inside * G4_PAGE_BYTES, segment->pages - inside, true,
					&done);
			if (done > 0)
				tag_data(fs, &txn, batch, segment, inside, done);
			inside += done;
			if (inside < segment->pages)
				break;
			s++;
			inside = 0;
			if (g4_txn_is_crowded(&txn))
				break;
		}
		if (rc < 0 && !txn.changed) {
			if (replaced) {
				inode->disk.flags |= G4_INODE_INLINE;
				memcpy(inode->disk.inline_data, tiny, sizeof(tiny));
			}
			return g4_end(fs, &txn, rc);
		}
		if (s > 0 || inside > 0) {
			const struct segment *last = &batch->segments[inside ? s : s - 1];
			uint64_t end = (last->page + (inside ? inside : last->pages)) * G4_PAGE_BYTES;
			inode->disk.size = g4_max64(inode->disk.size, g4_min64(end, size));
		}
		int logged = g4_inode_log(wg, fs, &txn, inode);
		rc = g4_end(fs, &txn, rc < 0 ? rc : logged);
		*published = (s < batch->segment_count ? batch->segments[s].first : batch->count) + (uint32_t)inside;
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Tiny files live in the inode. */
G4_FN static int write_inline(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint32_t line)
{
	struct g4_txn txn;
	int rc = g4_begin(wg, fs, 4, &txn);

	if (rc < 0)
		return rc;
	memset(inode->disk.inline_data, 0, G4_INLINE_BYTES);
	memcpy(inode->disk.inline_data, g4_line_data(&fs->cache, line), inode->size);
	inode->disk.flags |= G4_INODE_INLINE;
	inode->disk.map_height = 0; /* an empty map may have been higher */
	inode->disk.size = inode->size;
	rc = g4_end(fs, &txn, g4_inode_log(wg, fs, &txn, inode));
	if (rc == 0) {
		g4_alloc_unreserve(&fs->alloc, fs->cache.lines[line].reservation);
		unlist(fs, inode, line);
	}
	return rc;
}

G4_FN static bool fits_inline(const struct g4_fs *fs, const struct g4_inode_core *inode)
{
	if (inode->size > G4_INLINE_BYTES || inode->no_inline || inode->dirty_count != 1 ||
	    fs->cache.lines[inode->dirty_head].index != 0)
		return false;
	if (inode->disk.flags & G4_INODE_INLINE)
		return true;
	for (uint32_t i = 0; i < G4_MAP_SLOTS; i++)
		if (inode->disk.map[i])
			return false;
	return true;
}

/* What is reserved for the batch's lines from `from` on. */
G4_FN static uint64_t line_reservations(const struct g4_fs *fs, const struct g4_batch *batch, uint32_t from)
{
	uint64_t pages = 0;

	for (uint32_t k = from; k < batch->count; k++)
		pages += fs->cache.lines[batch->lines[k]].reservation;
	return pages;
}

/*
 * Allocate, write, publish one gathered batch. *published: pages that are reachable now, from the batch's start; their
 * reservation is used up, and so is all of a direct batch's.
 */
G4_FN static int run_batch(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, struct g4_batch *batch,
			   uint64_t size, uint32_t *published)
{
	uint64_t reserved = batch->direct ? batch->reserved : line_reservations(fs, batch, 0);
	int rc = allocate(wg, fs, inode, batch);

	*published = 0;
	if (rc < 0) {
		if (batch->direct)
			g4_alloc_unreserve(&fs->alloc, reserved);
		return rc;
	}
	rc = write_pages(wg, fs, batch);
	/* what the pages themselves did not take is for mapping, the growth last: others may need it later */
	inode->map_reservation = reserved - batch->claimed + inode->growth_reservation;
	if (rc == 0)
		rc = publish(wg, fs, inode, batch, size, published);
	inode->growth_reservation = (uint32_t)g4_min64(inode->growth_reservation, inode->map_reservation);
	g4_alloc_unreserve(&fs->alloc, inode->map_reservation - inode->growth_reservation);
	inode->map_reservation = 0;
	if (*published < batch->count) {
		release(fs, batch, *published);
		if (!batch->direct)
			g4_add64(&fs->alloc.reserved, line_reservations(fs, batch, *published));
	}
	return rc;
}

G4_FN int g4_writeback(struct g4_wg *wg, struct g4_fs *fs, uint32_t index)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	struct g4_batch *batch = (struct g4_batch *)g4_fs_scratch(wg);
	int rc = 0;

	if (inode->dirty_count == 0)
		return 0;
	if (fits_inline(fs, inode))
		return write_inline(wg, fs, inode, inode->dirty_head);
	while (rc == 0 && inode->dirty_count > 0) {
		uint32_t published;
		gather(fs, inode, batch);
		rc = run_batch(wg, fs, inode, batch, inode->size, &published);
		for (uint32_t k = 0; k < published; k++)
			unlist(fs, inode, batch->lines[k]);
	}
	inode->no_inline = false;
	return g4_check(fs, rc);
}

G4_FN int g4_writeback_mapped(struct g4_wg *wg, struct g4_fs *fs, uint32_t index)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);

	if (inode->dirty_count == 0)
		return 0;
	inode->no_inline = true;
	return g4_writeback(wg, fs, index);
}

/* What writing pages in a row may take: themselves, the indirect pages that they hang from, growth. */
G4_FN static uint64_t direct_reservation(const struct g4_inode_core *inode, uint64_t page, uint64_t pages)
{
	uint32_t old = inode->disk.map_height, height = g4_map_height_for(page + pages - 1);
	uint64_t growth = height > old ? height - old : 0, paths = 0;

	for (uint32_t level = 1; level <= old + growth; level++)
		paths += ((page + pages - 1) >> (9 * level)) - (page >> (9 * level)) + 1;
	return pages + paths + growth;
}

/* Reserves space for *pages pages, or for fewer of them where that is all there is. *reserved: what was reserved. */
G4_FN static int reserve_direct(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t page, uint64_t *pages,
				uint64_t *reserved)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	bool grows = g4_map_height_for(page + *pages - 1) > inode->disk.map_height;
	int rc = grows ? g4_writeback_mapped(wg, fs, index) : 0;

	if (rc < 0)
		return rc;
	*reserved = direct_reservation(inode, page, *pages);
	if (g4_alloc_reserve(&fs->alloc, *reserved))
		return 0;
	if (*pages > BATCH_PAGES) { /* what is left may be enough for a part, and that needs no commit */
		*pages = BATCH_PAGES;
		*reserved = direct_reservation(inode, page, *pages);
		if (g4_alloc_reserve(&fs->alloc, *reserved))
			return 0;
	}
	rc = g4_make_room(wg, fs, index);
	if (rc < 0)
		return rc;
	*reserved = direct_reservation(inode, page, *pages);
	if (g4_alloc_reserve(&fs->alloc, *reserved))
		return 0;
	*reserved = 0;
	return is_allocated(wg, fs, inode, page, pages);
}

G4_FN int g4_write_direct(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t page, const uint8_t *from,
			  uint64_t pages, uint64_t new_size, uint64_t *done)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	struct g4_batch *batch = (struct g4_batch *)g4_fs_scratch(wg);

	for (*done = 0; *done < pages;) {
		uint64_t now = g4_min64(pages - *done, DIRECT_PAGES), first = page + *done, reserved;
		uint32_t published;
		int rc = reserve_direct(wg, fs, index, first, &now, &reserved);
		if (rc < 0)
			return g4_check(fs, rc);
		batch->direct = from + *done * G4_PAGE_BYTES;
		batch->direct_page = first;
		batch->reserved = reserved;
		batch->count = (uint32_t)now;
		rc = run_batch(wg, fs, inode, batch, new_size, &published);
		uint64_t end = first + published;
		g4_drop_dirty(fs, index, first, end);
		if (g4_cache_absent(wg, &fs->cache, inode->data_key, first, published,
				    (struct g4_cache_probe *)g4_probe_scratch(wg)) < published)
			g4_cache_drop_range(&fs->cache, inode->data_key, first, end);
		*done += published;
		if (published > 0)
			g4_set_size(inode, g4_max64(inode->size, g4_min64(new_size, end * G4_PAGE_BYTES)));
		if (rc < 0)
			return g4_check(fs, rc);
	}
	return 0;
}
