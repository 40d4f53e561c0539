/* SPDX-License-Identifier: Apache-2.0 */
/* Walking down a file map to change it. Crash at any line: whatever changes does so in the caller's transaction. */
#include "data/map_path.h"
#include "alloc/count.h"

#include "data/extent.h"
#include "data/sums.h"
#include "format/indirect.h"
#include "inode/txn.h"

G4_FN uint64_t g4_map_capacity_pages(uint32_t height)
{
	return G4_MAP_SLOTS * g4_map_span(height);
}

G4_FN uint32_t g4_map_height_for(uint64_t page)
{
	uint32_t height = 0;

	while (page >= g4_map_capacity_pages(height))
		height++;
	return height;
}

G4_FN int g4_map_get_node(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, g4_ptr ptr,
			  uint32_t level, uint32_t *line)
{
	const bool any = (inode->disk.flags & G4_INODE_SHARES_MAP) &&
			 (g4_load64_acq(&fs->super.features_incompat) & G4_FEATURE_INCOMPAT_SHARED_MAPS);
	int rc = g4_ptr_validate(ptr, &fs->meta.layout);

	return rc < 0 ? rc :
			g4_meta_get_indirect(wg, &fs->meta, g4_ptr_address(ptr), any ? 0 : inode->ino, level, line);
}

G4_FN int g4_map_check_data(struct g4_fs *fs, g4_ptr ptr, uint32_t level)
{
	if (level > 2 || g4_tag_pages(g4_ptr_tag(ptr)) != g4_map_span(level) || g4_ptr_tag(ptr) == G4_TAG_SMALL)
		return -G4_E_CORRUPT_MAP;
	return g4_ptr_validate(ptr, &fs->meta.layout);
}

G4_FN void g4_path_put(struct g4_fs *fs, struct g4_path *path)
{
	for (uint32_t level = 0; level <= G4_MAP_MAX_HEIGHT; level++)
		if (path->lines[level] != G4_NO_LINE)
			g4_cache_put(&fs->cache, path->lines[level]);
}

G4_FN void g4_path_start(struct g4_path *path, struct g4_inode_core *inode, uint64_t page)
{
	for (uint32_t level = 0; level <= G4_MAP_MAX_HEIGHT; level++)
		path->lines[level] = G4_NO_LINE;
	path->level = inode->disk.map_height;
	path->slot = &inode->disk.map[page >> (9 * path->level)];
}

G4_FN int g4_path_down(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, struct g4_path *path,
		       uint64_t page)
{
	uint32_t level = path->level;

	if (level == 0)
		return -G4_E_CORRUPT_MAP;
	int rc = g4_map_get_node(wg, fs, inode, *path->slot, level, &path->lines[level]);
	if (rc < 0) {
		path->lines[level] = G4_NO_LINE;
		return rc;
	}
	path->level = level - 1;
	path->slot = &g4_map_slots(fs, path->lines[level])[(page >> (9 * path->level)) & (G4_INDIRECT_SLOTS - 1)];
	return 0;
}

G4_FN int g4_path_is_shared(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode,
			    const struct g4_path *path)
{
	uint64_t one = 1;

	if (!(inode->disk.flags & G4_INODE_SHARES_MAP) || path->level == 0 || path->level > G4_SHARED_MAP_LEVEL)
		return 0;
	return g4_extent_has_several(wg, fs, g4_ptr_address(*path->slot), &one);
}

G4_FN int g4_path_enter(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, struct g4_path *path,
			uint64_t page)
{
	const int shared = g4_path_is_shared(wg, fs, inode, path);

	if (shared != 0) /* a command that does not make its own first may not change what is others' */
		return shared < 0 ? shared : -G4_E_CORRUPT_MAP;
	return g4_path_down(wg, fs, inode, path, page);
}

G4_FN void g4_path_forget_below(struct g4_fs *fs, struct g4_txn *txn, const struct g4_path *path)
{
	const uint32_t line = path->lines[G4_SHARED_MAP_LEVEL];

	if (line == G4_NO_LINE || g4_meta_line(&fs->cache, line)->below == 0)
		return;
	g4_txn_dirty(txn, line);
	g4_meta_line(&fs->cache, line)->below = 0;
}

G4_FN void g4_path_dirty(struct g4_txn *txn, const struct g4_path *path)
{
	uint32_t above = path->level + 1;

	if (above <= G4_MAP_MAX_HEIGHT && path->lines[above] != G4_NO_LINE)
		g4_txn_dirty(txn, path->lines[above]);
}

G4_FN uint32_t g4_path_line(const struct g4_inode_core *inode, const struct g4_path *path)
{
	return path->level < inode->disk.map_height ? path->lines[path->level + 1] : G4_NO_LINE;
}

G4_FN uint32_t g4_path_index(struct g4_fs *fs, const struct g4_inode_core *inode, const struct g4_path *path)
{
	const uint32_t line = g4_path_line(inode, path);

	return (uint32_t)(path->slot - (line == G4_NO_LINE ? inode->disk.map : g4_map_slots(fs, line)));
}

G4_FN int g4_path_read_entry(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode,
			     const struct g4_path *path, struct g4_sum_entry *entry)
{
	memset(entry, 0, sizeof(*entry));
	if (path->level == 0 || (*path->slot & (G4_PTR_VALID | G4_PTR_INDIRECT)) != G4_PTR_VALID)
		return 0;
	int rc = g4_sums_read(wg, fs, inode, g4_path_line(inode, path), g4_path_index(fs, inode, path), 1, entry);
	if (rc != -G4_E_CORRUPT_SUMS)
		return rc;
	g4_sum_entry_make_lost(entry);
	return 0;
}

G4_FN int g4_path_write_entry(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			      const struct g4_path *path, const struct g4_sum_entry *entry)
{
	return g4_sums_write(wg, fs, txn, inode, g4_path_line(inode, path), g4_path_index(fs, inode, path), 1, entry);
}

G4_FN int g4_path_add_node(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			   struct g4_path *path, g4_ptr fill)
{
	struct g4_sum_entry entry;
	struct g4_address address;
	uint32_t line;
	int rc = g4_path_read_entry(wg, fs, inode, path, &entry);

	if (rc == 0 && path->level == 1) /* what can not be read is told before anything has changed */
		rc = g4_sums_look_large(wg, fs, inode, &entry, false);
	if (rc == 0 && path->level == 1 && g4_map_kind(fill) == G4_WRITTEN)
		rc = g4_extent_divide(wg, fs, txn, inode, g4_ptr_address(fill));
	if (rc == 0)
		rc = g4_node_acquire(wg, fs, txn, inode, &address);
	if (rc < 0)
		return rc;
	rc = g4_meta_new(wg, &fs->meta, address, G4_BLOCK_INDIRECT, &line);
	if (rc == 0) {
		g4_meta_line(&fs->cache, line)->inode = inode->ino;
		g4_meta_line(&fs->cache, line)->level = (uint8_t)path->level;
		rc = g4_sums_part(wg, fs, txn, inode, line, &entry);
		g4_path_dirty(txn, path);
		if (rc == 0 && g4_sum_entry_algorithm(&entry) != G4_CHECKSUM_NONE)
			rc = g4_path_write_entry(wg, fs, txn, inode, path, NULL);
		if (rc < 0)
			g4_cache_put(&fs->cache, line);
	}
	if (rc < 0) {
		(void)g4_node_release(wg, fs, txn, inode, address);
		return rc;
	}
	g4_txn_dirty(txn, line);
	if (fill) {
		g4_le64 *slots = g4_map_slots(fs, line);
		const uint64_t step = g4_map_span(path->level - 1);
		for (uint32_t i = 0; i < G4_INDIRECT_SLOTS; i++)
			slots[i] = g4_map_data_ptr(g4_address_after_pages(g4_ptr_address(fill), i * step),
						   path->level - 1, g4_map_kind(fill) == G4_WRITTEN);
	}
	*path->slot = g4_ptr_make(address, G4_TAG_4K, G4_PTR_VALID | G4_PTR_INDIRECT);
	g4_cache_put(&fs->cache, line);
	return 0;
}

G4_FN int g4_map_grow(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
		      uint64_t page)
{
	while (page >= g4_map_capacity_pages(inode->disk.map_height)) {
		uint32_t used = 0;

		if (inode->disk.map_height == G4_MAP_MAX_HEIGHT)
			return -G4_E_FBIG;
		for (uint32_t i = 0; i < g4_inode_slots(&inode->disk); i++)
			used += inode->disk.map[i] != 0;
		if (used > 0) {
			struct g4_sums_block sums;
			g4_le64 before[G4_MAP_SLOTS], old[G4_MAP_SLOTS];
			struct g4_path path;
			uint32_t line;
			const uint32_t few = inode->disk.flags & G4_INODE_SUMS_INLINE;
			bool has_sums = few || inode->disk.checksums != 0;
			int rc = g4_sums_take(wg, fs, inode, sums.entries);

			if (rc < 0)
				return rc;

			memcpy(before, inode->disk.map, sizeof(before));
			inode->disk.flags &= ~few;
			if (few)
				memset(&inode->disk.map[G4_FEW_PAGES], 0, sizeof(old) - G4_FEW_PAGES * sizeof(old[0]));
			memcpy(old, inode->disk.map, sizeof(old));
			inode->disk.map[0] = 0;
			inode->disk.map_height++;
			g4_path_start(&path, inode, 0);
			rc = g4_path_add_node(wg, fs, txn, inode, &path, 0);
			if (rc == 0)
				rc = g4_map_get_node(wg, fs, inode, inode->disk.map[0], inode->disk.map_height, &line);
			if (rc == 0 && has_sums) {
				rc = g4_sums_write(wg, fs, txn, inode, line, 0, G4_MAP_SLOTS, sums.entries);
				if (rc == 0)
					rc = g4_sums_free(wg, fs, txn, inode, G4_NO_LINE);
				if (rc < 0) {
					(void)g4_sums_free(wg, fs, txn, inode, line);
					(void)g4_node_release(wg, fs, txn, inode,
							      g4_page_address(fs->cache.lines[line].index));
					g4_cache_put(&fs->cache, line);
				}
			}
			if (rc < 0) {
				memcpy(inode->disk.map, before, sizeof(before));
				inode->disk.flags |= few;
				inode->disk.map_height--;
				return rc;
			}
			memcpy(g4_map_slots(fs, line), old, sizeof(old));
			memset(&inode->disk.map[1], 0, sizeof(old) - sizeof(old[0]));
			g4_cache_put(&fs->cache, line);
		} else {
			int rc = g4_sums_free(wg, fs, txn, inode,
					      G4_NO_LINE); /* of pages that were to be there, or that a hole left */
			if (rc < 0)
				return rc;
			inode->disk.map_height++;
		}
	}
	return 0;
}

G4_FN static bool node_is_empty(const g4_le64 *slots)
{
	for (uint32_t i = 0; i < G4_INDIRECT_SLOTS; i++)
		if (slots[i])
			return false;
	return true;
}

G4_FN int g4_path_look_at_node(struct g4_wg *wg, struct g4_fs *fs, uint32_t line)
{
	const struct g4_address self = g4_page_address(fs->cache.lines[line].index);
	int rc = g4_alloc_look(wg, &fs->alloc, self);

	for (uint32_t quarter = 0; quarter < G4_SUMS_QUARTERS && rc == 0; quarter++) {
		const struct g4_address sums = g4_sums_place(g4_meta_places(&fs->cache, line), self, quarter);
		if (!g4_address_is_none(sums) && g4_layout_holds(&fs->meta.layout, sums))
			rc = g4_alloc_look(wg, &fs->alloc, sums);
	}
	return rc;
}

G4_FN int g4_path_prune(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			struct g4_path *path, uint64_t page)
{
	for (uint32_t level = path->level + 1; level <= inode->disk.map_height; level++) {
		g4_le64 *slot;
		if (path->lines[level] == G4_NO_LINE || !node_is_empty(g4_map_slots(fs, path->lines[level])))
			return 0;
		/* it stays, empty, and goes with what is cleared there next: something was changed by now, so an error would stop the journal */
		if (g4_alloc_is_unreadable(g4_path_look_at_node(wg, fs, path->lines[level])))
			return 0;
		if (level == inode->disk.map_height) {
			slot = &inode->disk.map[page >> (9 * level)];
		} else {
			slot = &g4_map_slots(fs,
					     path->lines[level + 1])[(page >> (9 * level)) & (G4_INDIRECT_SLOTS - 1)];
			g4_txn_dirty(txn, path->lines[level + 1]);
		}
		int rc = g4_sums_free(wg, fs, txn, inode, path->lines[level]);
		if (rc == 0)
			rc = g4_node_release(wg, fs, txn, inode, g4_ptr_address(*slot));
		if (rc < 0)
			return rc;
		*slot = 0;
		g4_cache_put(&fs->cache, path->lines[level]);
		path->lines[level] = G4_NO_LINE;
		path->level = level;
		path->slot = slot;
	}
	return 0;
}

G4_FN int g4_path_divide(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			 struct g4_path *path, uint64_t page, bool frees)
{
	const uint64_t inside = page & (g4_map_span(path->level) - 1);
	uint64_t one = 1;
	int rc = g4_map_check_data(fs, *path->slot, path->level);

	if (rc == 0 && frees)
		rc = g4_extent_has_several(wg, fs, g4_address_after_pages(g4_ptr_address(*path->slot), inside), &one);
	return rc < 0 ? rc : g4_path_add_node(wg, fs, txn, inode, path, *path->slot);
}

G4_FN int g4_path_make(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
		       struct g4_path *path, uint64_t page, uint32_t level)
{
	int rc = 0;

	while (path->level > level && rc == 0) {
		if (*path->slot == 0) {
			rc = g4_path_add_node(wg, fs, txn, inode, path, 0);
		} else if (!(*path->slot & G4_PTR_INDIRECT)) {
			/* what was not written yet is written in its place, and frees nothing */
			rc = g4_path_divide(wg, fs, txn, inode, path, page, g4_map_kind(*path->slot) == G4_WRITTEN);
		}
		if (rc == 0)
			rc = g4_path_enter(wg, fs, inode, path, page);
	}
	if (rc != -G4_E_NOSPC)
		return rc;
	const int pruned = g4_path_prune(wg, fs, txn, inode, path, page); /* what it has made above */
	return pruned < 0 ? pruned : rc;
}
