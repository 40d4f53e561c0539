/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of files in the cache, and how they come there. */
#include "data/page.h"
#include "data/fetch.h"
#include "inode/txn.h"

#define ALONE_PAGES 32u	    /* transfers of less are no reason to keep their pages in a row */
#define CACHE_TRIES 100000u /* until references of others go away */

G4_FN int g4_page_line(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
		       uint32_t *line, bool *fresh)
{
	for (uint32_t tries = 0; tries < CACHE_TRIES; tries++) {
		*line = g4_cache_get(wg, &fs->cache, inode->data_key, page, true, fresh);
		if (*line != G4_NO_LINE) {
			if (tries > 0)
				g4_cache_count_waited(wg, &fs->cache);
			return 0;
		}
		g4_pause();
	}
	g4_cache_count_without(wg, &fs->cache, G4_CACHE_DATA);
	return -G4_E_NOMEM;
}

G4_FN int g4_page_get(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page, uint32_t *line)
{
	struct g4_run run = {G4_HOLE, 0, {0}, 1};
	bool fresh;
	int rc = g4_page_line(wg, fs, inode, page, line, &fresh);

	if (rc < 0 || !fresh) {
		g4_cache_count(wg, &fs->cache, G4_CACHE_DATA, rc == 0, 0);
		return rc;
	}
	void *data = g4_line_data(&fs->cache, *line);
	rc = g4_map_lookup(wg, fs, inode, page, 1, &run);
	g4_cache_count(wg, &fs->cache, G4_CACHE_DATA, 0, rc == 0 && run.kind == G4_WRITTEN);
	if (rc == 0 && run.kind == G4_WRITTEN)
		g4_cache_comes_from(&fs->cache, *line, g4_address_page(run.address));
	if (rc == 0 && run.kind == G4_WRITTEN)
		rc = g4_fetch_page(wg, fs, inode, page, run.address, data);
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

G4_FN int g4_fill_run(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page,
		      const struct g4_run *run, uint32_t *first, uint32_t *pages)
{
	uint32_t lines[G4_FILL_MAX_PAGES];
	struct g4_iov iov[G4_FILL_MAX_PAGES];
	struct g4_space_io request;
	uint32_t n = 0, parts = 0;
	int rc = 0;

	while (n < run->pages && n < G4_FILL_MAX_PAGES) {
		bool fresh;
		uint32_t line =
			g4_cache_get(wg, &fs->cache, inode->data_key, page + n, run->pages < ALONE_PAGES, &fresh);
		if (n == 0)
			*first = line;
		else if (line != G4_NO_LINE && !fresh)
			g4_cache_put(&fs->cache, line);
		if (line == G4_NO_LINE || !fresh)
			break;
		g4_cache_comes_from(&fs->cache, line, g4_address_page(run->address) + n);
		lines[n++] = line;
		g4_iov_add_line(&fs->cache, line, iov, &parts);
	}
	*pages = n;
	if (n == 0)
		return 0;
	g4_space_io_init(&request, G4_IO_READ, run->address, iov, parts);
	rc = g4_fetch(wg, fs, inode, page, &request, 1);
	for (uint32_t k = 0; k < n; k++) {
		if (rc < 0) {
			g4_cache_abort(&fs->cache, lines[k]);
		} else {
			if (k == 0)
				g4_cache_filled(&fs->cache, lines[k]);
			else
				g4_cache_filled_ahead(&fs->cache, lines[k]);
			if (k > 0)
				g4_cache_put(&fs->cache, lines[k]);
		}
	}
	if (rc < 0)
		*first = G4_NO_LINE;
	return rc;
}

G4_FN uint64_t g4_pages_absent(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
			       uint64_t most)
{
	return g4_cache_absent(wg, &fs->cache, inode->data_key, page, most);
}
