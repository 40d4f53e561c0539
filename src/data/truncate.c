/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes of files. Bytes of a file's last page beyond its size are zero, on disk and in the cache: whatever shrinks a file keeps
 * that true in the transaction that shrinks it.
 */
#include "data/batch.h"
#include "data/dirty.h"
#include "data/file.h"
#include "data/map.h"
#include "data/map_own.h"
#include "data/page.h"
#include "data/reserve.h"
#include "data/unreadable.h"
#include "data/write.h"
#include "data/writeback.h"
#include "inode/inode.h"
#include "inode/orphan.h"
#include "inode/times.h"
#include "inode/txn.h"

/*
 * The page that will be the last keeps `keep` bytes: writes a copy with a zeroed tail to new space, to be published by
 * the caller's transaction. tail->address none: nothing on disk to care about.
 */
G4_FN static int prepare_tail(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t page, uint64_t keep,
			      struct g4_page_ahead *tail)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	struct g4_run run;
	uint32_t line;
	int rc = g4_map_lookup(wg, fs, inode, page, 1, &run);

	memset(tail, 0, sizeof(*tail));
	if (rc == 0)
		rc = g4_page_get(wg, fs, inode, page, &line);
	if (rc < 0)
		return rc;
	uint8_t *data = (uint8_t *)g4_line_data(&fs->cache, line);
	if (run.kind == G4_WRITTEN) {
		const uint32_t mark = g4_scratch_mark(wg);
		uint8_t *copy = g4_scratch_take_page(wg);
		g4_copy(wg, copy, data, keep);
		g4_zero(wg, copy + keep, G4_PAGE_BYTES - keep);
		rc = g4_store_ahead(wg, fs, inode->disk.policy, run.address, copy, tail);
		g4_scratch_release(wg, mark);
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
		g4_cache_forget_origin(&fs->cache, line);
		g4_zero(wg, (uint8_t *)g4_line_data(&fs->cache, line) + keep, G4_PAGE_BYTES - keep);
		g4_cache_put(&fs->cache, line);
	}
}

/* Removes pages from `first` on. In several transactions the inode is on the orphan list, so that recovery goes on. */
G4_FN static int cut(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t first, uint64_t size,
		     const struct g4_page_ahead *tail)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	uint64_t next = first;
	bool published = tail == NULL || g4_address_is_none(tail->address), short_already = false;
	/* it is cut altogether or not at all, so what the device does not give comes first */
	int rc = g4_map_look(wg, fs, inode, first, false);

	/* and so does what may find no space */
	if (rc == 0)
		rc = g4_own_ends(wg, fs, index, first, UINT64_MAX);
	if (rc == 0 && !published)
		rc = g4_own_pages(wg, fs, index, first - 1, 1);
	while (rc == 0 && next != UINT64_MAX) {
		struct g4_txn txn;
		rc = g4_begin(wg, fs, 2 * G4_MAP_CREDITS, &txn);
		if (rc < 0)
			break;
		/* large pages are divided on the way to the first page that is changed; after that nothing needs space */
		if (!published)
			rc = g4_publish_ahead(wg, fs, &txn, inode, first - 1, tail);
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
		if (rc == 0 && !short_already)
			shorten(wg, fs, index, size);
		short_already |= rc == 0;
	}
	if (!published)
		g4_drop_ahead(fs, tail);
	/* it is short already: whoever makes it longer again would see what is left */
	if (rc < 0 && short_already)
		g4_fs_error(fs, rc);
	return rc;
}

G4_FN int g4_file_cut(struct g4_wg *wg, struct g4_fs *fs, uint32_t index)
{
	uint64_t size = g4_icache_at(fs, index)->disk.size;

	return cut(wg, fs, index, g4_pages_for(size), size, NULL);
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
	uint64_t first = g4_pages_for(size), keep = size & (G4_PAGE_BYTES - 1);
	struct g4_page_ahead tail;

	if (g4_icache_at(fs, index)->disk.flags & G4_INODE_INLINE)
		return cut_inline(wg, fs, index, size);
	memset(&tail, 0, sizeof(tail));
	int rc = keep ? prepare_tail(wg, fs, index, first - 1, keep, &tail) : 0;
	return rc < 0 ? rc : cut(wg, fs, index, first, size, &tail);
}

G4_FN int g4_file_grow(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t size)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	/* what was written before is on disk before the size says more; there it may be inline still */
	int rc = g4_writeback(wg, fs, index);

	if (rc == 0 && size > G4_INLINE_BYTES)
		rc = g4_inline_leave(wg, fs, index);
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
		rc = g4_file_grow(wg, fs, index, size);
	if (rc == 0)
		g4_touch(fs, index, true, true);
	return g4_check(fs, rc);
}

G4_FN static int free_file_pages(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode)
{
	uint64_t next = 0;
	int left = 0;

	if ((inode->disk.flags & G4_INODE_INLINE) || !(g4_is_reg(inode->disk.mode) || g4_is_link(inode->disk.mode)))
		return 0;
	while (next != UINT64_MAX) {
		struct g4_txn txn;
		int rc = g4_begin(wg, fs, 2 * G4_MAP_CREDITS, &txn);
		if (rc < 0)
			return rc;
		rc = g4_map_abandon(wg, fs, &txn, inode, next, &next);
		if (rc == -G4_E_IO && !txn.changed) { /* what is behind it goes all the same */
			left = g4_end(fs, &txn, rc);
			continue;
		}
		inode->disk.size = 0;
		int logged = rc == 0 || txn.changed ? g4_inode_log(wg, fs, &txn, inode) : 0;
		rc = g4_end(fs, &txn, rc < 0 ? rc : logged);
		if (rc < 0)
			return rc;
	}
	for (uint32_t k = 0; k < g4_inode_slots(&inode->disk) && left == 0; k++) /* an indirect page that can not go */
		left = inode->disk.map[k] ? -G4_E_IO : 0;
	return left == 0 && g4_sums_own(inode) ? -G4_E_IO : left; /* nor a block of sums */
}

G4_FN int g4_file_free(struct g4_wg *wg, struct g4_fs *fs, uint32_t index)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);

	if (g4_is_reg(inode->disk.mode)) {
		g4_drop_dirty(fs, index, 0, UINT64_MAX);
		g4_cache_drop_range(&fs->cache, inode->data_key, 0, g4_pages_for(inode->size));
		g4_set_size(inode, 0);
	}
	return inode->disk.pages > 0 || g4_sums_own(inode) ? free_file_pages(wg, fs, inode) : 0;
}
