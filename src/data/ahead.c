/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading ahead of sequential readers. A reader whose window has grown to the largest asks for the pages behind those
 * that it is reading; workgroups that the engine keeps for this (servers) read them into the cache. The reader comes to
 * lines that are there, or busy, and waits for those as for anybody's. Nothing depends on it: a request that finds no
 * room in the queue, no line or an I/O error is dropped, and the reader reads for itself.
 *
 * It is no task (task/task.h): a request has no owner that waits for it, no pieces, no error and no end that is looked for.
 *
 * The queue holds a reference to the in-core inode, not the inode: a server takes the inode's lock like a reader, and looks again
 * at what the file is then.
 */
#include "data/ahead.h"

#include "data/page.h"
#include "inode/icache.h"

#define REQUEST_PAGES G4_FILL_MAX_PAGES
#define AHEAD_PAGES 1024u /* how far the servers are ahead of a reader */
#define CACHE_SHARE 8u	  /* and at most this part of the cache */

G4_FN static bool post(struct g4_fs *fs, uint32_t index, uint64_t page, uint64_t pages)
{
	struct g4_ahead *ahead = &fs->ahead;
	bool posted = false;

	g4_lock(&ahead->lock);
	if (ahead->count < G4_AHEAD_SLOTS) {
		struct g4_ahead_request *request = &ahead->requests[(ahead->first + ahead->count) % G4_AHEAD_SLOTS];
		g4_icache_ref(fs, index);
		request->index = index;
		request->pages = (uint32_t)pages;
		request->page = page;
		g4_store32_rel(&ahead->count, ahead->count + 1);
		posted = true;
	}
	g4_unlock(&ahead->lock);
	return posted;
}

G4_FN void g4_ahead_ask(struct g4_fs *fs, uint32_t index, uint64_t page, uint64_t end)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	uint64_t at = g4_max64(g4_load64_rlx(&inode->ahead_end), page);
	uint64_t limit = g4_min64(end, page + g4_min64(AHEAD_PAGES, fs->cache.line_count / CACHE_SHARE));
	bool posted = false;

	if (g4_load32_rlx(&fs->ahead.servers) == 0)
		return;
	/* whole requests only, so that a reader of small pieces does not ask for small pieces */
	while (at < limit && (limit - at >= REQUEST_PAGES || limit == end)) {
		uint64_t pages = g4_min64(limit - at, REQUEST_PAGES);
		if (!post(fs, index, at, pages))
			break;
		posted = true;
		at += pages;
	}
	if (!posted)
		return;
	g4_store64_rel(&inode->ahead_end, at);
	g4_add32(&fs->ahead.posted, 1);
	g4_wake(&fs->ahead.posted);
}

G4_FN static bool take(struct g4_ahead *ahead, struct g4_ahead_request *request)
{
	bool taken = false;

	if (g4_load32_rlx(&ahead->count) == 0)
		return false;
	g4_lock(&ahead->lock);
	if (ahead->count > 0) {
		*request = ahead->requests[ahead->first];
		ahead->first = (ahead->first + 1) % G4_AHEAD_SLOTS;
		g4_store32_rel(&ahead->count, ahead->count - 1);
		taken = true;
	}
	g4_unlock(&ahead->lock);
	return taken;
}

/* What of the pages is mapped and not cached. The in-core inode is read-locked. */
G4_FN static void fill(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page, uint64_t end)
{
	while (page < end) {
		uint32_t line = g4_cache_find(&fs->cache, inode->data_key, page), filled;
		struct g4_run run;

		if (line != G4_NO_LINE) {
			g4_cache_put(&fs->cache, line);
			page++;
			continue;
		}
		if (g4_map_lookup(wg, fs, inode, page, end - page, &run) < 0)
			return;
		if (run.kind != G4_WRITTEN) {
			page += run.pages;
			continue;
		}
		if (g4_fill_run(wg, fs, inode, page, &run, &line, &filled) < 0 || line == G4_NO_LINE)
			return;
		g4_cache_put(&fs->cache, line);
		page += g4_max64(filled, 1);
	}
}

G4_FN bool g4_ahead_serve(struct g4_wg *wg, struct g4_fs *fs)
{
	struct g4_ahead_request request;

	if (!take(&fs->ahead, &request))
		return false;
	struct g4_inode_core *inode = g4_icache_at(fs, request.index);
	g4_read_lock(&inode->lock);
	if (!inode->dead && g4_is_reg(inode->disk.mode) && !(inode->disk.flags & G4_INODE_INLINE))
		fill(wg, fs, inode, request.page, g4_min64(request.page + request.pages, g4_pages_for(inode->size)));
	g4_read_unlock(&inode->lock);
	g4_icache_put(fs, request.index);
	return true;
}

G4_FN void g4_ahead_drop(struct g4_fs *fs)
{
	struct g4_ahead_request request;

	while (take(&fs->ahead, &request))
		g4_icache_put(fs, request.index);
}
