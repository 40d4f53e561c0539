/* SPDX-License-Identifier: Apache-2.0 */
/* Writing files: into the cache, or past it where a large part is aligned. */
#include "data/write.h"
#include "data/batch.h"
#include "data/bounce_stage.h"
#include "data/dirty.h"
#include "data/file.h"
#include "data/page.h"
#include "data/reserve.h"
#include "data/writeback.h"
#include "inode/times.h"

G4_FN int g4_inline_load(struct g4_wg *wg, struct g4_fs *fs, uint32_t index)
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

G4_FN int g4_inline_leave(struct g4_wg *wg, struct g4_fs *fs, uint32_t index)
{
	int rc = g4_inline_load(wg, fs, index);

	if (rc < 0 || !(g4_icache_at(fs, index)->disk.flags & G4_INODE_INLINE))
		return rc;
	g4_icache_at(fs, index)->no_inline = true;
	return g4_writeback(wg, fs, index);
}

G4_FN static int write_page(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t page, uint64_t inside,
			    const void *from, uint64_t bytes, uint32_t wish)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	bool fresh = false;
	uint32_t line;
	int rc;

	if (bytes == G4_PAGE_BYTES)
		rc = g4_page_line(wg, fs, inode, page, &line, &fresh);
	else
		rc = g4_page_get(wg, fs, inode, page, &line);
	if (rc < 0)
		return rc;
	/* space first: a page for which no space can be reserved must not change */
	rc = g4_page_dirty(wg, fs, index, line);
	if (rc == 0) {
		g4_data_line(&fs->cache, line)->wish = (uint8_t)wish;
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

G4_FN int g4_page_write(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t page, uint64_t inside,
			const void *from, uint64_t bytes)
{
	return write_page(wg, fs, index, page, inside, from, bytes, G4_DEDUP_BY_POLICY);
}

/* Too much is dirty: the writer writes back its own pages before it makes more. */
G4_FN static int throttle(struct g4_wg *wg, struct g4_fs *fs, uint32_t index)
{
	return g4_load64_rlx(&fs->dirty_pages) > fs->dirty_limit ? g4_writeback(wg, fs, index) : 0;
}

G4_FN void g4_file_write_ahead(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t offset, const void *from,
			       uint64_t bytes, uint32_t wish, struct g4_stage_ahead *ahead)
{
	const struct g4_inode_core *inode = g4_icache_at(fs, index);
	const uint64_t pages = bytes >> G4_PAGE_SHIFT;
	uint32_t version;

	ahead->count = 0;
	if (offset % G4_PAGE_BYTES != 0 || offset >= G4_FILE_MAX_BYTES || bytes > G4_FILE_MAX_BYTES - offset ||
	    pages < G4_DIRECT_PAGES || g4_read_begin(&inode->lock, &version))
		return;
	g4_stage_ahead(wg, fs, inode, (const uint8_t *)from, offset >> G4_PAGE_SHIFT, pages, wish, ahead);
}

G4_FN int g4_file_write(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t offset, const void *from,
			uint64_t bytes, uint32_t wish, struct g4_stage_ahead *ahead, uint64_t *done)
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
	if (!g4_dedup_wanted(fs, inode, wish)) /* any more: nobody would use it */
		g4_stage_drop(fs, ahead);
	rc = g4_inline_load(wg, fs, index);
	while (*done < bytes && rc == 0) {
		uint64_t now = offset + *done, inside = now & (G4_PAGE_BYTES - 1), n;
		uint64_t whole = inside == 0 ? (bytes - *done) >> G4_PAGE_SHIFT : 0;
		/* what may be there already is copied first, so that its memory need not be aligned */
		if (whole >= G4_DIRECT_PAGES &&
		    (g4_dedup_wanted(fs, inode, wish) ? g4_stage_is_possible(fs) :
							g4_space_takes(&fs->space, at + *done))) {
			n = whole << G4_PAGE_SHIFT;
			rc = inode->disk.flags & G4_INODE_INLINE ? g4_writeback(wg, fs, index) : 0;
			uint64_t before = inode->size;
			if (rc == 0 && !(inode->disk.flags & G4_INODE_INLINE)) {
				uint64_t pages;
				rc = g4_write_direct(wg, fs, index, now >> G4_PAGE_SHIFT, at + *done, whole,
						     g4_max64(before, now + n), wish, ahead, &pages);
				if (rc < 0) /* what is written is told; what is not will be asked for again */
					*done += pages << G4_PAGE_SHIFT;
			} else if (rc == 0) {
				inode->no_inline = true;
				rc = g4_inline_load(wg, fs, index);
				continue;
			}
		} else {
			n = g4_min64(bytes - *done, G4_PAGE_BYTES - inside);
			rc = write_page(wg, fs, index, now >> G4_PAGE_SHIFT, inside, at + *done, n, wish);
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
