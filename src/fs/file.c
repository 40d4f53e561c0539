/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading, writing and sizing regular files. Bytes of a file's last page beyond its size are zero, on disk and in the
 * cache: whatever shrinks a file keeps that true in the transaction that shrinks it.
 */
#include "fs/fs.h"

#define DIRECT_PAGES 64u    /* transfers from this size on bypass the cache when they are aligned */
#define MAX_READ_PAGES 128u /* one read through the cache */
#define ALONE_PAGES 32u	    /* transfers of less are no reason to keep their pages in a row */
#define PIECES 4u	    /* requests that a direct read is cut into, to keep the device busy */
#define PIECE_PAGES 32u	    /* and their least size */
#define MIN_WINDOW 4u
#define CACHE_TRIES 100000u /* until references of others go away */

G4_FN static int get_line(struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page, uint32_t *line,
			  bool *fresh)
{
	for (uint32_t tries = 0; tries < CACHE_TRIES; tries++) {
		*line = g4_cache_get(&fs->cache, inode->data_key, page, true, fresh);
		if (*line != G4_NO_LINE)
			return 0;
		g4_pause();
	}
	return -G4_E_NOMEM;
}

G4_FN int g4_page_get(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page, uint32_t *line)
{
	struct g4_run run = {G4_HOLE, 0, 0, 1};
	bool fresh;
	int rc = get_line(fs, inode, page, line, &fresh);

	if (rc < 0 || !fresh)
		return rc;
	void *data = g4_line_data(&fs->cache, *line);
	rc = g4_map_lookup(wg, fs, inode, page, 1, &run);
	if (rc == 0 && run.kind == G4_WRITTEN)
		rc = g4_space_read(wg, &fs->space, run.address, data, G4_PAGE_BYTES);
	else if (rc == 0)
		g4_zero(wg, data, G4_PAGE_BYTES);
	if (rc == 0 && page == 0 && (inode->disk.flags & G4_INODE_INLINE))
		memcpy(data, inode->disk.inline_data, G4_INLINE_BYTES);
	if (rc < 0)
		g4_cache_abort(&fs->cache, *line);
	else
		g4_cache_filled(&fs->cache, *line);
	return g4_check(fs, rc);
}

/* ------------------------------------------------------------------ reading */

G4_FN int g4_fill_run(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page,
		      const struct g4_run *run, uint32_t *first, uint32_t *pages)
{
	uint32_t lines[MAX_READ_PAGES];
	struct g4_iov iov[MAX_READ_PAGES];
	struct g4_io io;
	uint32_t n = 0;
	int rc = 0;

	memset(&io, 0, sizeof(io));
	while (n < run->pages && n < MAX_READ_PAGES) {
		bool fresh;
		uint32_t line = g4_cache_get(&fs->cache, inode->data_key, page + n, run->pages < ALONE_PAGES, &fresh);
		if (n == 0)
			*first = line;
		else if (line != G4_NO_LINE && !fresh)
			g4_cache_put(&fs->cache, line);
		if (line == G4_NO_LINE || !fresh)
			break;
		lines[n++] = line;
		g4_iov_add_line(&fs->cache, line, iov, &io.iov_count);
	}
	*pages = n;
	if (n == 0)
		return 0;
	io.op = G4_IO_READ;
	io.offset_bytes = run->address;
	io.iov = iov;
	rc = g4_space_transfer(wg, &fs->space, &io, 1);
	for (uint32_t k = 0; k < n; k++) {
		if (rc < 0) {
			g4_cache_abort(&fs->cache, lines[k]);
		} else {
			g4_cache_filled(&fs->cache, lines[k]);
			if (k > 0)
				g4_cache_put(&fs->cache, lines[k]);
		}
	}
	if (rc < 0)
		*first = G4_NO_LINE;
	return rc;
}

/* Pages from `page` on, at most `most`, that are not cached. */
G4_FN static uint64_t uncached_pages(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode,
				     uint64_t page, uint64_t most)
{
	return g4_cache_absent(wg, &fs->cache, inode->data_key, page, most,
			       (struct g4_cache_probe *)g4_probe_scratch(wg));
}

struct reader {
	struct g4_inode_core *inode;
	uint64_t offset;
	uint8_t *to;
	uint64_t left;
	uint64_t window; /* pages to read at least */
	bool direct;	 /* large aligned pieces bypass the cache */
	bool stream;	 /* pages of a file that does not fit the cache are used once */
	uint64_t large;	 /* pages of a large piece */
};

G4_FN static void advance(struct reader *reader, uint64_t bytes)
{
	reader->offset += bytes;
	reader->to += bytes;
	reader->left -= bytes;
}

G4_FN static int read_direct(struct g4_wg *wg, struct g4_fs *fs, uint64_t address, uint8_t *to, uint64_t pages)
{
	uint64_t piece = g4_max64((pages + PIECES - 1) / PIECES, PIECE_PAGES);
	struct g4_iov iov[PIECES];
	struct g4_io io[PIECES];
	uint32_t n = 0;

	memset(io, 0, sizeof(io));
	for (uint64_t at = 0; at < pages; at += piece, n++) {
		iov[n].base = to + at * G4_PAGE_BYTES;
		iov[n].bytes = g4_min64(piece, pages - at) * G4_PAGE_BYTES;
		io[n].op = G4_IO_READ;
		io[n].offset_bytes = address + at * G4_PAGE_BYTES;
		io[n].iov = &iov[n];
		io[n].iov_count = 1;
	}
	return g4_space_transfer(wg, &fs->space, io, n);
}

/*
 * Bytes of one page without the cache, when no line is to be had: the lines may be this file's own dirty pages, which
 * nobody can write back while we hold its lock.
 */
G4_FN static int read_around(struct g4_wg *wg, struct g4_fs *fs, struct reader *reader, uint64_t address)
{
	uint8_t *page = g4_scratch_page(wg);
	uint64_t inside = reader->offset & (G4_PAGE_BYTES - 1), bytes = g4_min64(reader->left, G4_PAGE_BYTES - inside);
	int rc = g4_space_read(wg, &fs->space, address, page, G4_PAGE_BYTES);

	if (rc == 0) {
		g4_copy(wg, reader->to, page + inside, bytes);
		advance(reader, bytes);
	}
	return rc;
}

/* One step where the page is not cached. *line: the page, referenced; G4_NO_LINE: the reader has advanced without it. */
G4_FN static int read_miss(struct g4_wg *wg, struct g4_fs *fs, struct reader *reader, uint32_t *line)
{
	struct g4_inode_core *inode = reader->inode;
	uint64_t page = reader->offset >> G4_PAGE_SHIFT, inside = reader->offset & (G4_PAGE_BYTES - 1);
	uint64_t last = g4_pages_for(inode->size) - page; /* pages up to the end of the file */
	uint64_t asked = g4_pages_for(inside + reader->left);
	struct g4_run run;
	uint32_t filled;
	int rc;

	*line = G4_NO_LINE;
	if (inode->disk.flags & G4_INODE_INLINE)
		return g4_page_get(wg, fs, inode, page, line);
	rc = g4_map_lookup(wg, fs, inode, page, g4_min64(last, g4_max64(asked, reader->window)), &run);
	if (rc < 0)
		return g4_check(fs, rc);
	if (run.kind != G4_WRITTEN) { /* zeros, unless the next page is dirty in the cache */
		uint64_t pages = inode->dirty_count ? 1 : run.pages;
		uint64_t bytes = g4_min64(reader->left, pages * G4_PAGE_BYTES - inside);
		g4_zero(wg, reader->to, bytes);
		advance(reader, bytes);
		return 0;
	}
	uint64_t whole = inside == 0 ? g4_min64(run.pages, reader->left >> G4_PAGE_SHIFT) : 0;
	/* a read that starts inside a page comes to the next page with memory that is not aligned any more */
	if (reader->direct && ((uintptr_t)reader->to & 511) == 0 && whole >= reader->large) {
		whole = uncached_pages(wg, fs, inode, page, whole);
		if (whole >= g4_min64(reader->large, MIN_WINDOW)) {
			rc = read_direct(wg, fs, run.address, reader->to, whole);
			if (rc == 0)
				advance(reader, whole * G4_PAGE_BYTES);
			return rc;
		}
	}
	rc = g4_fill_run(wg, fs, inode, page, &run, line, &filled);
	return rc == 0 && *line == G4_NO_LINE ? read_around(wg, fs, reader, run.address) : rc;
}

/* Sequential readers get a window that doubles up to MAX_READ_PAGES. */
G4_FN static uint64_t read_window(struct g4_inode_core *inode, uint64_t offset, uint64_t bytes)
{
	uint32_t window = g4_load32_rlx(&inode->window);

	if (g4_load64_rlx(&inode->next_read) != offset) {
		window = 1;
		g4_store64_rel(&inode->ahead_end, 0);
	} else {
		window = window < MIN_WINDOW ? MIN_WINDOW : window * 2 > MAX_READ_PAGES ? MAX_READ_PAGES : window * 2;
	}
	g4_store32_rel(&inode->window, window);
	g4_store64_rel(&inode->next_read, offset + bytes);
	return window;
}

G4_FN static int read_all(struct g4_wg *wg, struct g4_fs *fs, struct reader *reader)
{
	int rc = 0;

	while (reader->left > 0 && rc == 0) {
		uint64_t inside = reader->offset & (G4_PAGE_BYTES - 1);
		uint32_t line = g4_cache_find(&fs->cache, reader->inode->data_key, reader->offset >> G4_PAGE_SHIFT);
		if (line == G4_NO_LINE)
			rc = read_miss(wg, fs, reader, &line);
		if (rc < 0 || line == G4_NO_LINE)
			continue;
		uint64_t n = g4_min64(reader->left, G4_PAGE_BYTES - inside);
		g4_copy(wg, reader->to, (const uint8_t *)g4_line_data(&fs->cache, line) + inside, n);
		if (reader->stream && reader->direct) /* nobody comes back to it before it would be gone anyway */
			g4_cache_put_cold(&fs->cache, line);
		else
			g4_cache_put(&fs->cache, line);
		advance(reader, n);
	}
	return rc;
}

G4_FN static struct reader reader_of(struct g4_fs *fs, const struct g4_split_work *work, uint64_t offset,
				     uint64_t bytes)
{
	struct reader reader;

	reader.inode = g4_icache_at(fs, work->index);
	reader.offset = offset;
	reader.to = work->to + (offset - work->offset);
	reader.left = bytes;
	reader.window = 1;
	reader.direct = work->direct;
	reader.stream = work->stream;
	reader.large = DIRECT_PAGES;
	return reader;
}

/* What lies behind it is read by others; and the whole is large, however small its pieces. */
G4_FN int g4_read_piece(struct g4_wg *wg, struct g4_fs *fs, const struct g4_split_work *work, uint64_t offset,
			uint64_t bytes, uint64_t *done)
{
	struct reader reader = reader_of(fs, work, offset, bytes);

	reader.large = MIN_WINDOW;
	int rc = read_all(wg, fs, &reader);
	*done = bytes - reader.left;
	return rc;
}

G4_FN int g4_file_read(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t offset, void *to, uint64_t bytes,
		       bool bypass, uint64_t *done)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	/* a file that would push out a quarter of the cache is not worth it, and memory needs no copy of itself */
	bool direct = bypass || inode->size / G4_PAGE_BYTES > fs->cache.line_count / 4 ||
		      g4_dev_props(fs->space.disks[0])->mapped;
	int rc = 0;

	*done = 0;
	if (offset >= inode->size || bytes == 0)
		return 0;
	bytes = g4_min64(bytes, inode->size - offset);
	uint64_t window = read_window(inode, offset, bytes);
	bool stream = !bypass && window == MAX_READ_PAGES;
	if (stream)
		g4_ahead_ask(fs, index, g4_pages_for(offset + bytes), g4_pages_for(inode->size));
	const struct g4_split_work work = {G4_SPLIT_READ, index, offset, bytes, (uint8_t *)to, direct, stream, NULL};
	if (!g4_split_run(wg, fs, &work, &rc, done)) {
		struct reader reader = reader_of(fs, &work, offset, bytes);
		reader.window = window;
		if (bypass && window == 1) /* the caller keeps what it reads here and there */
			reader.large = 1;
		rc = read_all(wg, fs, &reader);
		*done = bytes - reader.left;
	}
	return *done > 0 ? 0 : rc;
}

/* ------------------------------------------------------------------ writing */

/* The whole of an inline file's data becomes page 0, dirty. */
G4_FN static int load_inline(struct g4_wg *wg, struct g4_fs *fs, uint32_t index)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	uint32_t line;

	if (!(inode->disk.flags & G4_INODE_INLINE))
		return 0;
	int rc = g4_page_get(wg, fs, inode, 0, &line);
	if (rc < 0)
		return rc;
	rc = g4_page_dirty(wg, fs, index, line);
	g4_cache_put(&fs->cache, line);
	return rc;
}

/* Copies into one page; from NULL: zeros. */
G4_FN static int write_page(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t page, uint64_t inside,
			    const void *from, uint64_t bytes)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	bool fresh = false;
	uint32_t line;
	int rc;

	if (bytes == G4_PAGE_BYTES)
		rc = get_line(fs, inode, page, &line, &fresh);
	else
		rc = g4_page_get(wg, fs, inode, page, &line);
	if (rc < 0)
		return rc;
	/* space first: a page for which no space can be reserved must not change */
	rc = g4_page_dirty(wg, fs, index, line);
	if (rc == 0) {
		uint8_t *to = (uint8_t *)g4_line_data(&fs->cache, line) + inside;
		if (from)
			g4_copy(wg, to, from, bytes);
		else
			g4_zero(wg, to, bytes);
	}
	if (fresh && rc < 0) {
		g4_cache_abort(&fs->cache, line);
		return rc;
	}
	if (fresh)
		g4_cache_filled(&fs->cache, line);
	g4_cache_put(&fs->cache, line);
	return rc;
}

/* Too much is dirty: the writer writes back its own pages before it makes more. */
G4_FN static int throttle(struct g4_wg *wg, struct g4_fs *fs, uint32_t index)
{
	return g4_load64_rlx(&fs->dirty_pages) > fs->dirty_limit ? g4_writeback(wg, fs, index) : 0;
}

G4_FN int g4_file_write(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t offset, const void *from,
			uint64_t bytes, uint64_t *done)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	const uint8_t *at = (const uint8_t *)from;
	int rc = 0;

	*done = 0;
	if (bytes == 0)
		return 0;
	if (offset >= G4_FILE_MAX_BYTES)
		return -G4_E_FBIG;
	bytes = g4_min64(bytes, G4_FILE_MAX_BYTES - offset);
	rc = load_inline(wg, fs, index);
	while (*done < bytes && rc == 0) {
		uint64_t now = offset + *done, inside = now & (G4_PAGE_BYTES - 1), n;
		uint64_t whole = inside == 0 ? (bytes - *done) >> G4_PAGE_SHIFT : 0;
		if (whole >= DIRECT_PAGES && ((uintptr_t)(at + *done) & 511) == 0) {
			n = whole << G4_PAGE_SHIFT;
			rc = inode->disk.flags & G4_INODE_INLINE ? g4_writeback(wg, fs, index) : 0;
			uint64_t before = inode->size;
			if (rc == 0 && !(inode->disk.flags & G4_INODE_INLINE)) {
				uint64_t pages;
				rc = g4_write_direct(wg, fs, index, now >> G4_PAGE_SHIFT, at + *done, whole,
						     g4_max64(before, now + n), &pages);
				if (rc < 0) /* what is written is told; what is not will be asked for again */
					*done += pages << G4_PAGE_SHIFT;
			} else if (rc == 0) {
				inode->no_inline = true;
				rc = load_inline(wg, fs, index);
				continue;
			}
		} else {
			n = g4_min64(bytes - *done, G4_PAGE_BYTES - inside);
			rc = write_page(wg, fs, index, now >> G4_PAGE_SHIFT, inside, at + *done, n);
			if (rc == 0)
				g4_set_size(inode, g4_max64(inode->size, now + n));
			if (rc == 0)
				rc = throttle(wg, fs, index);
		}
		if (rc == 0)
			*done += n;
	}
	if (*done > 0)
		g4_touch(fs, index, true, true);
	return *done > 0 ? 0 : rc;
}

/* ------------------------------------------------------------------ sizing */

/*
 * The page that will be the last keeps `keep` bytes: writes a copy with a zeroed tail to new space, to be published by
 * the caller's transaction. *address 0: nothing on disk to care about.
 */
G4_FN static int prepare_tail(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t page, uint64_t keep,
			      uint64_t *address)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	uint8_t *copy = g4_scratch_page(wg);
	struct g4_run run;
	uint32_t line;
	uint64_t got;
	int rc = g4_map_lookup(wg, fs, inode, page, 1, &run);

	*address = 0;
	if (rc == 0)
		rc = g4_page_get(wg, fs, inode, page, &line);
	if (rc < 0)
		return rc;
	uint8_t *data = (uint8_t *)g4_line_data(&fs->cache, line);
	if (run.kind == G4_WRITTEN) {
		rc = g4_alloc_claim(wg, &fs->alloc, G4_ALLOC_DATA, run.address, 1, false, address, &got);
		if (rc == 0) {
			g4_copy(wg, copy, data, keep);
			g4_zero(wg, copy + keep, G4_PAGE_BYTES - keep);
			rc = g4_space_write(wg, &fs->space, *address, copy, G4_PAGE_BYTES, 0);
			g4_store32_rel(&fs->journal.data_written, 1);
			if (rc < 0)
				g4_alloc_release(&fs->alloc, *address, 1);
		}
	}
	g4_cache_put(&fs->cache, line);
	return rc;
}

/* What is in memory gets shorter, too: not before a transaction did, since that may find no page to divide a large one. */
G4_FN static void shorten(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t size)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	uint64_t first = g4_pages_for(size), keep = size & (G4_PAGE_BYTES - 1), old_pages = g4_pages_for(inode->size);
	uint32_t line = keep ? g4_cache_find(&fs->cache, inode->data_key, first - 1) : G4_NO_LINE;

	g4_set_size(inode, size);
	g4_drop_dirty(fs, index, first, UINT64_MAX);
	if (old_pages > first)
		g4_cache_drop_range(&fs->cache, inode->data_key, first, old_pages);
	if (line != G4_NO_LINE) {
		g4_zero(wg, (uint8_t *)g4_line_data(&fs->cache, line) + keep, G4_PAGE_BYTES - keep);
		g4_cache_put(&fs->cache, line);
	}
}

/* Removes pages from `first` on. In several transactions the inode is on the orphan list, so that recovery goes on. */
G4_FN static int cut(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t first, uint64_t size, uint64_t tail)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	uint64_t next = first, done;
	bool published = tail == 0, begun = false;
	int rc = 0;

	do {
		struct g4_txn txn;
		rc = g4_begin(wg, fs, 2 * G4_MAP_CREDITS, &txn);
		if (rc < 0)
			break;
		/* large pages are divided on the way to the first page that is changed; after that nothing needs space */
		if (!published)
			rc = g4_map_set(wg, fs, &txn, inode, first - 1, tail, 1, true, &done);
		published |= rc == 0;
		if (rc == 0)
			rc = g4_map_clear(wg, fs, &txn, inode, next, UINT64_MAX, &next);
		if (rc == 0)
			inode->disk.size = g4_min64(inode->disk.size, size);
		if (rc == 0 && next != UINT64_MAX)
			rc = g4_orphan_add(wg, fs, &txn, index);
		else if (rc == 0 && inode->disk.nlink > 0) /* a file without a name stays on the list */
			rc = g4_orphan_remove(wg, fs, &txn, index);
		int logged = rc == 0 || txn.changed ? g4_inode_log(wg, fs, &txn, inode) : 0;
		rc = g4_end(fs, &txn, rc < 0 ? rc : logged);
		if (rc == 0 && !begun)
			shorten(wg, fs, index, size);
		begun = true;
	} while (rc == 0 && next != UINT64_MAX);
	if (!published)
		g4_alloc_release(&fs->alloc, tail, 1);
	return rc;
}

G4_FN int g4_file_cut(struct g4_wg *wg, struct g4_fs *fs, uint32_t index)
{
	uint64_t size = g4_icache_at(fs, index)->disk.size;

	return cut(wg, fs, index, g4_pages_for(size), size, 0);
}

G4_FN static int log_size(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t size)
{
	uint64_t before = inode->disk.size;
	struct g4_txn txn;
	int rc = g4_begin(wg, fs, 4, &txn);

	if (rc < 0)
		return rc;
	inode->disk.size = size;
	rc = g4_inode_log(wg, fs, &txn, inode);
	if (rc < 0)
		inode->disk.size = before;
	return g4_end(fs, &txn, rc);
}

G4_FN static int cut_inline(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t size)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	uint8_t before[G4_INLINE_BYTES];

	memcpy(before, inode->disk.inline_data, G4_INLINE_BYTES);
	if (size < G4_INLINE_BYTES)
		memset(inode->disk.inline_data + size, 0, G4_INLINE_BYTES - size);
	int rc = log_size(wg, fs, inode, g4_min64(inode->disk.size, size));
	if (rc == 0)
		shorten(wg, fs, index, size);
	else
		memcpy(inode->disk.inline_data, before, G4_INLINE_BYTES);
	return rc;
}

G4_FN static int shrink(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t size)
{
	uint64_t first = g4_pages_for(size), keep = size & (G4_PAGE_BYTES - 1), tail = 0;

	if (g4_icache_at(fs, index)->disk.flags & G4_INODE_INLINE)
		return cut_inline(wg, fs, index, size);
	int rc = keep ? prepare_tail(wg, fs, index, first - 1, keep, &tail) : 0;
	return rc < 0 ? rc : cut(wg, fs, index, first, size, tail);
}

/* Moves inline data out, whatever the size. */
G4_FN static int make_mapped(struct g4_wg *wg, struct g4_fs *fs, uint32_t index)
{
	int rc = load_inline(wg, fs, index);

	if (rc < 0 || !(g4_icache_at(fs, index)->disk.flags & G4_INODE_INLINE))
		return rc;
	g4_icache_at(fs, index)->no_inline = true;
	return g4_writeback(wg, fs, index);
}

G4_FN static int set_size_up(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t size)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	/* what was written before is on disk before the size says more; there it may be inline still */
	int rc = g4_writeback(wg, fs, index);

	if (rc == 0 && size > G4_INLINE_BYTES)
		rc = make_mapped(wg, fs, index);
	if (rc == 0)
		rc = log_size(wg, fs, inode, size);
	if (rc == 0)
		g4_set_size(inode, size);
	return rc;
}

G4_FN int g4_file_truncate(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t size)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	int rc = 0;

	if (size > G4_FILE_MAX_BYTES)
		return -G4_E_FBIG;
	if (size < inode->size)
		rc = shrink(wg, fs, index, size);
	else if (size > inode->size)
		rc = set_size_up(wg, fs, index, size);
	if (rc == 0)
		g4_touch(fs, index, true, true);
	return g4_check(fs, rc);
}

/* ------------------------------------------------------------------ fallocate, seek */

G4_FN static int count_holes(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
			     uint64_t end, uint64_t *pages)
{
	struct g4_run run;
	int rc = 0;

	run.pages = 0;

	for (*pages = 0; page < end && rc == 0; page += run.pages) {
		rc = g4_map_lookup(wg, fs, inode, page, end - page, &run);
		if (rc == 0 && run.kind == G4_HOLE)
			*pages += run.pages;
	}
	return rc;
}

/*
 * Reserves space for all holes in a range, beyond the *reserved pages that are reserved for them already: fallocate gives
 * all or nothing. What maps them comes out of what is kept for that (g4_alloc_keep()).
 */
G4_FN static int reserve_holes(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t page, uint64_t end,
			       uint64_t *reserved)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	uint64_t holes;

	for (uint32_t tries = 0;; tries++) {
		int rc = count_holes(wg, fs, inode, page, end, &holes);
		if (rc < 0 || holes <= *reserved)
			return rc;
		if (g4_alloc_reserve(&fs->alloc, holes - *reserved)) {
			*reserved = holes;
			return 0;
		}
		rc = tries ? -G4_E_NOSPC : g4_make_room(wg, fs, index);
		if (rc < 0)
			return rc;
	}
}

/* From the reservation, which shrinks. */
G4_FN static int allocate_holes(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t page, uint64_t end,
				uint64_t *reserved)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	/* what is dirty has space reserved for the map as it is */
	int rc = g4_map_height_for(end - 1) > inode->disk.map_height ? g4_writeback_mapped(wg, fs, index) : 0;

	while (page < end && rc == 0) {
		uint64_t address, got, done = 0;
		struct g4_run run;
		struct g4_txn txn;

		rc = g4_map_lookup(wg, fs, inode, page, end - page, &run);
		if (rc < 0)
			break;
		if (run.kind != G4_HOLE) {
			page += run.pages;
			continue;
		}
		rc = g4_alloc_claim(wg, &fs->alloc, G4_ALLOC_DATA, inode->next_goal, g4_min64(run.pages, *reserved),
				    true, &address, &got);
		if (rc < 0)
			break;
		*reserved -= got;
		rc = g4_begin(wg, fs, G4_MAP_CREDITS + 4, &txn);
		if (rc == 0) {
			rc = g4_map_set(wg, fs, &txn, inode, page, address, got, false, &done);
			int logged = g4_inode_log(wg, fs, &txn, inode);
			rc = g4_end(fs, &txn, rc < 0 ? rc : logged);
		}
		if (done < got) { /* the reservation holds again */
			g4_alloc_release(&fs->alloc, address + done * G4_PAGE_BYTES, got - done);
			g4_add64(&fs->alloc.reserved, got - done);
			*reserved += got - done;
		}
		inode->next_goal = address + done * G4_PAGE_BYTES;
		page += done;
	}
	return rc;
}

/* Zeros part of a page, if there is anything but zeros; without `apply` it only makes sure that there is space for it. */
G4_FN static int zero_part(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t from, uint64_t end, bool apply)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	uint64_t page = from >> G4_PAGE_SHIFT;
	struct g4_run run;

	end = g4_min64(end, inode->size);
	if (from >= end)
		return 0;
	uint32_t line = g4_cache_find(&fs->cache, inode->data_key, page);
	if (line != G4_NO_LINE) {
		g4_cache_put(&fs->cache, line);
	} else {
		int rc = g4_map_lookup(wg, fs, inode, page, 1, &run);
		if (rc < 0 || run.kind != G4_WRITTEN)
			return rc;
	}
	return write_page(wg, fs, index, page, from & (G4_PAGE_BYTES - 1), NULL, apply ? end - from : 0);
}

G4_FN static int punch(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t offset, uint64_t end)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	uint64_t first = g4_pages_for(offset), last = end >> G4_PAGE_SHIFT, next;
	int rc = 0;

	if (first > last) /* inside one page */
		return zero_part(wg, fs, index, offset, end, true);
	/* what may find no space comes before what changes anything */
	rc = zero_part(wg, fs, index, offset, first << G4_PAGE_SHIFT, false);
	if (rc == 0)
		rc = zero_part(wg, fs, index, last << G4_PAGE_SHIFT, end, false);
	for (next = first; next < last && rc == 0;) {
		uint64_t cleared = next;
		struct g4_txn txn;
		rc = g4_begin(wg, fs, 2 * G4_MAP_CREDITS, &txn);
		if (rc < 0)
			break;
		rc = g4_map_clear(wg, fs, &txn, inode, next, last, &next);
		int logged = g4_inode_log(wg, fs, &txn, inode);
		rc = g4_end(fs, &txn, rc < 0 ? rc : logged);
		if (rc < 0)
			break;
		uint64_t end_page = g4_min64(next, last);
		g4_drop_dirty(fs, index, cleared, end_page);
		g4_cache_drop_range(&fs->cache, inode->data_key, cleared,
				    g4_min64(end_page, g4_pages_for(inode->size)));
	}
	if (rc == 0)
		rc = zero_part(wg, fs, index, offset, first << G4_PAGE_SHIFT, true);
	if (rc == 0)
		rc = zero_part(wg, fs, index, last << G4_PAGE_SHIFT, end, true);
	return rc;
}

G4_FN int g4_file_check_range(uint32_t mode, uint64_t offset, uint64_t bytes)
{
	bool keep = mode & G4_FALLOC_KEEP_SIZE;

	if (mode & ~(G4_FALLOC_KEEP_SIZE | G4_FALLOC_PUNCH_HOLE | G4_FALLOC_ZERO_RANGE))
		return -G4_E_NOTSUP;
	if ((mode & G4_FALLOC_PUNCH_HOLE) && (!keep || (mode & G4_FALLOC_ZERO_RANGE)))
		return -G4_E_NOTSUP;
	if (bytes == 0 || offset > G4_FILE_MAX_BYTES)
		return -G4_E_INVAL;
	return bytes > G4_FILE_MAX_BYTES - offset ? -G4_E_FBIG : 0;
}

G4_FN int g4_file_allocate(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint32_t mode, uint64_t offset,
			   uint64_t bytes)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	bool keep = mode & G4_FALLOC_KEEP_SIZE, allocates = !(mode & G4_FALLOC_PUNCH_HOLE);
	uint64_t end = offset + bytes, page = offset >> G4_PAGE_SHIFT, end_page = g4_pages_for(end), reserved = 0;
	int rc = make_mapped(wg, fs, index);

	if (rc == 0 &&
	    allocates) /* before anything changes; what maps them is in what is kept, or there is none of them */
		rc = reserve_holes(wg, fs, index, page, end_page, &reserved);
	if (rc == 0 && (mode & (G4_FALLOC_PUNCH_HOLE | G4_FALLOC_ZERO_RANGE)))
		rc = punch(wg, fs, index, offset, end);
	if (rc == 0 && (mode & G4_FALLOC_ZERO_RANGE)) /* what it has freed */
		rc = reserve_holes(wg, fs, index, page, end_page, &reserved);
	if (rc == 0 && allocates)
		rc = allocate_holes(wg, fs, index, page, end_page, &reserved);
	g4_alloc_unreserve(&fs->alloc, reserved);
	if (rc == 0 && !keep && end > inode->size)
		rc = set_size_up(wg, fs, index, end);
	if (rc == 0)
		g4_touch(fs, index, true, true);
	return g4_check(fs, rc);
}

G4_FN int g4_file_seek(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t offset, uint32_t whence,
		       uint64_t *found)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	uint64_t page = offset >> G4_PAGE_SHIFT, pages = g4_pages_for(inode->size);
	struct g4_run run;
	int rc = 0;

	if (whence != G4_SEEK_DATA && whence != G4_SEEK_HOLE)
		return -G4_E_INVAL;
	if (offset >= inode->size)
		return -G4_E_NXIO;
	rc = g4_writeback(wg, fs, index); /* so that the mapping tells everything */
	if (rc < 0)
		return rc;
	if (inode->disk.flags & G4_INODE_INLINE) {
		*found = whence == G4_SEEK_DATA ? offset : inode->size;
		return 0;
	}
	while (page < pages) {
		rc = g4_map_lookup(wg, fs, inode, page, pages - page, &run);
		if (rc < 0)
			return g4_check(fs, rc);
		if ((run.kind == G4_WRITTEN) == (whence == G4_SEEK_DATA)) {
			*found = g4_max64(offset, page << G4_PAGE_SHIFT);
			return 0;
		}
		page += run.pages;
	}
	*found = inode->size;
	return whence == G4_SEEK_HOLE ? 0 : -G4_E_NXIO;
}
