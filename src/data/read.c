/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading files: from the cache, into it, or past it. Sequential readers have a window that grows, and pages ahead of them
 * read (ahead.c); large reads are shared with idle workgroups (split.c).
 */
#include "data/read.h"
#include "data/ahead.h"
#include "data/fetch.h"
#include "data/file.h"
#include "data/page.h"
#include "data/split.h"
#include "inode/txn.h"

#define PIECES 4u	/* requests that a direct read is cut into, to keep the device busy */
#define PIECE_PAGES 32u /* and their least size */
#define MIN_WINDOW 4u

struct reader {
	struct g4_inode_core *inode;
	uint64_t offset;
	uint8_t *to;
	uint64_t left;
	uint64_t window;  /* pages to read at least */
	bool direct;	  /* large aligned pieces bypass the cache */
	bool stream;	  /* pages of a file that does not fit the cache are used once */
	uint64_t large;	  /* pages of a large piece */
	uint64_t brought; /* pages before this one that are behind a miss of this reader's came with it */
	uint64_t hits, misses;
};

G4_FN static void advance(struct reader *reader, uint64_t bytes)
{
	reader->offset += bytes;
	reader->to += bytes;
	reader->left -= bytes;
}

G4_FN static int read_direct(struct g4_wg *wg, struct g4_fs *fs, const struct reader *reader, struct g4_address address,
			     uint64_t pages)
{
	uint64_t piece = g4_max64((pages + PIECES - 1) / PIECES, PIECE_PAGES);
	struct g4_iov iov[PIECES];
	struct g4_space_io requests[PIECES];
	uint32_t n = 0;

	for (uint64_t at = 0; at < pages; at += piece, n++) {
		iov[n].base = reader->to + at * G4_PAGE_BYTES;
		iov[n].bytes = g4_min64(piece, pages - at) * G4_PAGE_BYTES;
		g4_space_io_init(&requests[n], G4_IO_READ, g4_address_after_pages(address, at), &iov[n], 1);
	}
	return g4_fetch(wg, fs, reader->inode, reader->offset >> G4_PAGE_SHIFT, requests, n);
}

/*
 * Bytes of one page without the cache, when no line is to be had: the lines may be this file's own dirty pages, which
 * nobody can write back while we hold its lock.
 */
G4_FN static int read_around(struct g4_wg *wg, struct g4_fs *fs, struct reader *reader, struct g4_address address)
{
	const uint32_t mark = g4_scratch_mark(wg);
	uint8_t *page = g4_scratch_take_page(wg);
	uint64_t inside = reader->offset & (G4_PAGE_BYTES - 1), bytes = g4_min64(reader->left, G4_PAGE_BYTES - inside);
	int rc = g4_fetch_page(wg, fs, reader->inode, reader->offset >> G4_PAGE_SHIFT, address, page);

	if (rc == 0) {
		g4_copy(wg, reader->to, page + inside, bytes);
		advance(reader, bytes);
		reader->misses++;
		g4_cache_count_without(wg, &fs->cache, G4_CACHE_DATA);
	}
	g4_scratch_release(wg, mark);
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
		return g4_page_get(wg, fs, inode, page, line); /* which counts */
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
	if (reader->direct && whole >= reader->large && g4_space_takes(&fs->space, reader->to)) {
		whole = g4_pages_absent(wg, fs, inode, page, whole);
		if (whole >= g4_min64(reader->large, MIN_WINDOW)) {
			rc = read_direct(wg, fs, reader, run.address, whole);
			if (rc == 0) {
				advance(reader, whole * G4_PAGE_BYTES);
				reader->misses += whole;
			}
			if (!g4_fetch_is_damage(rc)) /* some page is damaged: those before it are read one by one */
				return rc;
			run.pages = 1;
		}
	}
	rc = g4_fill_run(wg, fs, inode, page, &run, line, &filled);
	if (g4_fetch_is_damage(rc) && filled > 1) {
		run.pages = 1;
		rc = g4_fill_run(wg, fs, inode, page, &run, line, &filled);
	}
	if (rc < 0)
		return rc;
	if (*line == G4_NO_LINE)
		return read_around(wg, fs, reader, run.address);
	reader->brought = page + filled;
	reader->hits += filled == 0; /* it came in meanwhile */
	reader->misses += filled > 0;
	return 0;
}

/* Sequential readers get a window that doubles up to G4_FILL_MAX_PAGES. */
G4_FN static uint64_t read_window(struct g4_inode_core *inode, uint64_t offset, uint64_t bytes)
{
	uint32_t window = g4_load32_rlx(&inode->window);

	if (g4_load64_rlx(&inode->next_read) != offset) {
		window = 1;
		g4_store64_rel(&inode->ahead_end, 0);
	} else {
		window = window < MIN_WINDOW		? MIN_WINDOW :
			 window * 2 > G4_FILL_MAX_PAGES ? G4_FILL_MAX_PAGES :
							  window * 2;
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
		else if (reader->offset >> G4_PAGE_SHIFT < reader->brought)
			reader->misses++;
		else
			reader->hits++;
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
	g4_cache_count(wg, &fs->cache, G4_CACHE_DATA, reader->hits, reader->misses);
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
	reader.large = G4_DIRECT_PAGES;
	reader.brought = 0;
	reader.hits = 0;
	reader.misses = 0;
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

/* With the help of idle workgroups. */
G4_FN static int read_shared(struct g4_wg *wg, struct g4_fs *fs, struct g4_split_job *job, uint64_t *done)
{
	struct g4_split_piece piece;

	while (g4_split_take(job, &piece)) {
		uint64_t got;
		int rc = g4_read_piece(wg, fs, &job->work, piece.offset, piece.bytes, &got);
		g4_split_done(job, &piece, rc, got);
	}
	return g4_split_close(fs, job, done);
}

G4_FN int g4_file_read(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t offset, void *to, uint64_t bytes,
		       bool bypass, uint64_t *done)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	/* a file that would push out a quarter of the cache is not worth it, and memory needs no copy of itself */
	const uint64_t room = (fs->cache.line_count + g4_tier_victim_pages(&fs->space.tier)) / 4;
	bool direct = bypass || inode->size / G4_PAGE_BYTES > room || g4_space_is_mapped(&fs->space);
	int rc = 0;

	*done = 0;
	if (offset >= inode->size || bytes == 0)
		return 0;
	bytes = g4_min64(bytes, inode->size - offset);
	uint64_t window = read_window(inode, offset, bytes);
	bool stream = !bypass && window == G4_FILL_MAX_PAGES;
	if (stream)
		g4_ahead_ask(fs, index, g4_pages_for(offset + bytes), g4_pages_for(inode->size));
	const struct g4_split_work work = {.kind = G4_SPLIT_READ,
					   .index = index,
					   .offset = offset,
					   .bytes = bytes,
					   .to = (uint8_t *)to,
					   .direct = direct,
					   .stream = stream};
	struct g4_split_job *job = g4_split_open(wg, fs, &work);
	if (job) {
		rc = read_shared(wg, fs, job, done);
	} else {
		struct reader reader = reader_of(fs, &work, offset, bytes);
		reader.window = window;
		if (bypass && window == 1) /* the caller keeps what it reads here and there */
			reader.large = 1;
		rc = read_all(wg, fs, &reader);
		*done = bytes - reader.left;
	}
	return *done > 0 ? 0 : rc;
}
