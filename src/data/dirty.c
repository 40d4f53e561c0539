/* SPDX-License-Identifier: Apache-2.0 */
/* The dirty pages of an inode. */
#include "data/dirty.h"
#include "inode/queue.h"

G4_FN void g4_dirty_add(struct g4_fs *fs, uint32_t index, uint32_t line)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	struct g4_data_line *l = g4_data_line(&fs->cache, line);

	g4_cache_ref(&fs->cache, line);
	g4_cache_forget_origin(&fs->cache, line);
	g4_lock(&inode->dirty_lock);
	l->dirty = 1;
	l->wish = G4_DEDUP_BY_POLICY;
	l->prev = inode->dirty_tail;
	l->next = G4_NO_LINE;
	if (inode->dirty_tail == G4_NO_LINE)
		inode->dirty_head = line;
	else
		g4_data_line(&fs->cache, inode->dirty_tail)->next = line;
	inode->dirty_tail = line;
	inode->dirty_count++;
	g4_unlock(&inode->dirty_lock);
	g4_add64(&fs->dirty_pages, 1);
	g4_queue_dirty(fs, index);
}

G4_FN void g4_dirty_remove(struct g4_fs *fs, struct g4_inode_core *inode, uint32_t line)
{
	struct g4_data_line *l = g4_data_line(&fs->cache, line);

	g4_lock(&inode->dirty_lock);
	if (l->prev == G4_NO_LINE)
		inode->dirty_head = l->next;
	else
		g4_data_line(&fs->cache, l->prev)->next = l->next;
	if (l->next == G4_NO_LINE)
		inode->dirty_tail = l->prev;
	else
		g4_data_line(&fs->cache, l->next)->prev = l->prev;
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

G4_FN void g4_drop_dirty(struct g4_fs *fs, uint32_t index, uint64_t first_page, uint64_t end_page)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	uint32_t line = inode->dirty_head;

	while (line != G4_NO_LINE) {
		uint32_t next = g4_data_line(&fs->cache, line)->next;
		uint64_t page = fs->cache.lines[line].index;
		if (page >= first_page && page < end_page) {
			g4_line_unreserve(fs, inode, line);
			g4_dirty_remove(fs, inode, line);
			g4_cache_drop(&fs->cache, inode->data_key, page);
		}
		line = next;
	}
}
