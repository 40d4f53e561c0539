/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Only what can be copied in one transaction is lent (g4_map_can_copy()); nothing that was never written, which has one owner. Crash at any line: the
 * slot that comes to lead to the page, its count, what it says of the pages below and both inodes are of one transaction.
 */
#include "data/map_lend.h"

#include "data/extent.h"
#include "data/sums.h"
#include "format/sums.h"

/*
 * What hangs next at an indirect page of level 2, of `most` pages at most: indirect pages, at first its own pages of sums (`sums`), and maps of the groups in
 * which owners will be counted (`counts`), each with one wait for several. Up to the page that is returned.
 */
G4_FN static uint64_t read_ahead(struct g4_wg *wg, struct g4_fs *fs, uint32_t line, uint64_t page, uint64_t most,
				 bool sums, bool counts)
{
	const g4_le64 *slots = g4_map_slots(fs, line);
	const uint64_t first = page & ~(g4_map_span(2) - 1);
	const uint64_t behind = g4_min64(page - first + most, g4_map_span(2));
	struct g4_meta_ahead nodes = {.count = 0}, maps = {.count = 0};
	const struct g4_address self = g4_page_address(fs->cache.lines[line].index);
	uint64_t at = page - first;

	for (uint32_t quarter = 0; sums && quarter < G4_SUMS_QUARTERS; quarter++) {
		const struct g4_address place = g4_sums_place(g4_meta_places(&fs->cache, line), self, quarter);
		if (!g4_address_is_none(place) && g4_layout_holds(&fs->meta.layout, place))
			(void)g4_meta_want(&nodes, place, G4_BLOCK_CHECKSUMS);
	}
	for (; at < behind && nodes.count < G4_META_TOGETHER; at += G4_INDIRECT_SLOTS) {
		const g4_ptr ptr = slots[at / G4_INDIRECT_SLOTS];
		const uint64_t group = g4_address_page(g4_ptr_address(ptr)) / G4_GROUP_PAGES;
		if (ptr == 0 || g4_ptr_validate(ptr, &fs->meta.layout) < 0)
			continue;
		if (counts)
			(void)g4_meta_want(&maps, g4_layout_map_page(&fs->meta.layout, group), G4_BLOCK_ALLOC);
		if (ptr & G4_PTR_INDIRECT)
			(void)g4_meta_want(&nodes, g4_ptr_address(ptr), G4_BLOCK_INDIRECT);
	}
	g4_meta_read_ahead(wg, &fs->meta, &maps);
	g4_meta_read_ahead(wg, &fs->meta, &nodes);
	return first + at;
}

/*
 * The page of level 2 that the way has ended at, if it is not in the cache, and those of the next slots, with what tells how many owners they have: for all of
 * them with three waits, or four where they are many. What is not asked for in this command is asked for in the next ones.
 */
G4_FN static void read_trees(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *from,
			     const struct g4_path *path)
{
	const uint32_t above = g4_path_line(from, path);
	const g4_le64 *first = above == G4_NO_LINE ? from->disk.map : g4_map_slots(fs, above);
	const uint32_t slots = above == G4_NO_LINE ? g4_inode_slots(&from->disk) : G4_INDIRECT_SLOTS;
	struct g4_address nodes[G4_META_TOGETHER];
	struct g4_meta_ahead ahead = {.count = 0};
	uint32_t count = 0;

	if (g4_cache_peek(&fs->cache, 0, g4_address_page(g4_ptr_address(*path->slot))) != G4_NO_LINE)
		return;
	for (const g4_le64 *slot = path->slot; slot < first + slots && count < G4_META_TOGETHER; slot++) {
		const g4_ptr ptr = *slot;
		if (!(ptr & G4_PTR_INDIRECT) || g4_ptr_validate(ptr, &fs->meta.layout) < 0)
			continue;
		nodes[count++] = g4_ptr_address(ptr);
		(void)g4_meta_want(&ahead, g4_ptr_address(ptr), G4_BLOCK_INDIRECT);
	}
	g4_share_read_ahead(wg, &fs->alloc, nodes, count, &ahead);
}

/* Of level 1: pages that were written, where a copy can count their owners, none of them from `most` on. `known`: it is lent, so that they do. */
G4_FN static bool look_at_pages(struct g4_fs *fs, uint32_t line, uint64_t most, bool known)
{
	struct g4_map_places places = {.region_count = 0};

	if (!g4_map_ends_within(g4_map_slots(fs, line), 1, most))
		return false;
	if (known)
		return true;
	return g4_map_add_written(fs, line, &places) && g4_map_can_copy(fs, &places);
}

/* Of a slot of level 2 with an indirect page: 1, and its pages are counted; 0; or an error. */
G4_FN static int look_at_node(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, g4_ptr ptr,
			      uint64_t most, struct g4_map_places *places, uint64_t *below)
{
	uint32_t line;
	const int rc = g4_map_get_node(wg, fs, inode, ptr, 1, &line);

	if (rc < 0)
		return rc;
	const bool good = look_at_pages(fs, line, most, false);
	*below += g4_map_count_below(fs, line);
	g4_cache_put(&fs->cache, line);
	g4_map_add_pages(places, g4_ptr_address(ptr), 1);
	return good;
}

/* The same with a large page, and its pages of sums. */
G4_FN static int look_at_large(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint32_t line,
			       uint32_t slot, struct g4_map_places *places, uint64_t *below)
{
	const g4_ptr ptr = g4_map_slots(fs, line)[slot];
	struct g4_sum_entry entry;

	if (g4_map_kind(ptr) != G4_WRITTEN || g4_map_check_data(fs, ptr, 1) < 0)
		return 0;
	const int rc = g4_sums_read(wg, fs, inode, line, slot, 1, &entry);
	if (rc < 0)
		return rc == -G4_E_CORRUPT_SUMS ? 0 : rc;
	g4_map_add_large(places, g4_ptr_address(ptr));
	*below += G4_INDIRECT_SLOTS;
	if (g4_sum_entry_algorithm(&entry) == G4_CHECKSUM_NONE)
		return 1;
	*below += G4_SUMS_QUARTERS;
	if (g4_sum_entry_algorithm(&entry) != G4_CHECKSUM_LARGE ||
	    !g4_layout_holds(&fs->meta.layout, g4_sum_entry_place(&entry)))
		return 0;
	g4_map_add_pages(places, g4_sum_entry_place(&entry), 1);
	return 1;
}

/* Of level 2, all that hangs there. It may be counted already. */
G4_FN static int look_at_tree(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint32_t line,
			      uint64_t most, uint64_t *below)
{
	const g4_le64 *slots = g4_map_slots(fs, line);
	struct g4_map_places places = {.region_count = 0};
	int rc = g4_map_ends_within(slots, 2, most);
	uint64_t ahead = 0;

	*below = 1 + g4_map_sums_pages(fs, line);
	for (uint32_t slot = 0; slot < G4_INDIRECT_SLOTS && rc > 0; slot++) {
		const uint64_t first = (uint64_t)slot * G4_INDIRECT_SLOTS;
		if (slots[slot] == 0)
			continue;
		if (first >= ahead)
			ahead = read_ahead(wg, fs, line, first, most - first, slot == 0, false);
		if (slots[slot] & G4_PTR_INDIRECT)
			rc = look_at_node(wg, fs, inode, slots[slot], most - first, &places, below);
		else
			rc = most - first < G4_INDIRECT_SLOTS ?
				     0 :
				     look_at_large(wg, fs, inode, line, slot, &places, below);
	}
	return rc > 0 ? g4_map_can_copy(fs, &places) : rc;
}

/* Whether `to` has nothing where an indirect page of this level would hang. */
G4_FN static int is_empty(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *to, uint64_t page, uint32_t level)
{
	struct g4_path path;
	int rc = 0;

	if (page >= g4_map_capacity_pages(to->disk.map_height))
		return 1;
	if (to->disk.map_height < level) { /* what is there would come to hang below */
		for (uint32_t i = 0; i < g4_inode_slots(&to->disk); i++)
			if (to->disk.map[i])
				return 0;
		return 1;
	}
	g4_path_start(&path, to, page);
	while (rc == 0 && path.level > level && (*path.slot & G4_PTR_INDIRECT))
		rc = g4_path_down(wg, fs, to, &path, page);
	const bool empty = rc == 0 && *path.slot == 0;
	g4_path_put(fs, &path);
	return rc < 0 ? rc : empty;
}

/* 1: the page that the way has ended at can be lent. */
G4_FN static int look(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *from, const struct g4_path *path,
		      uint64_t most, struct g4_lend *lend)
{
	uint64_t one = 1;
	uint32_t line;
	/* also of a file that shares none yet: whoever comes in the transaction must find that in the cache */
	const int owners = g4_extent_has_several(wg, fs, g4_ptr_address(*path->slot), &one);
	const int shared = owners < 0 ? owners : g4_path_is_shared(wg, fs, from, path);
	int rc = shared < 0 ? shared : g4_map_get_node(wg, fs, from, *path->slot, path->level, &line);

	if (rc < 0)
		return rc;
	lend->ptr = *path->slot;
	lend->level = path->level;
	lend->pages = g4_min64(most, g4_map_span(path->level));
	lend->below = g4_map_count_below(fs, line);
	if (path->level == 1)
		rc = look_at_pages(fs, line, most, shared > 0);
	else if (lend->below != 0 && most >= g4_map_span(path->level)) /* whoever changes anything there makes it 0 */
		rc = 1;
	else
		rc = look_at_tree(wg, fs, from, line, lend->pages, &lend->below);
	if (shared > 0 && path->level > 1 && lend->below != g4_meta_line(&fs->cache, line)->below)
		rc = 0; /* what others have does not change */
	g4_cache_put(&fs->cache, line);
	return rc;
}

G4_FN int g4_map_may_lend(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *from, uint64_t from_page,
			  struct g4_inode_core *to, uint64_t to_page, uint64_t most, struct g4_lend *lend)
{
	struct g4_path path;
	int rc = 0;

	if (from == to || from->dirty_count > 0 || to->dirty_count > 0 || from_page % G4_INDIRECT_SLOTS != 0 ||
	    to_page % G4_INDIRECT_SLOTS != 0 || from_page >= g4_map_capacity_pages(from->disk.map_height) ||
	    ((from->disk.flags | to->disk.flags) & G4_INODE_INLINE))
		return 0;
	g4_path_start(&path, from, from_page);
	while (rc == 0 && path.level > 0 && (*path.slot & G4_PTR_INDIRECT)) {
		const uint64_t span = g4_map_span(path.level);
		if (path.level == 2)
			read_trees(wg, fs, from, &path);
		if (path.level <= G4_SHARED_MAP_LEVEL && from_page % span == 0 && to_page % span == 0) {
			rc = is_empty(wg, fs, to, to_page, path.level);
			if (rc > 0)
				rc = look(wg, fs, from, &path, most, lend);
		}
		if (rc == 0)
			rc = g4_path_down(wg, fs, from, &path, from_page);
		if (rc == 0 && path.level == 1 && from_page >= lend->ahead)
			lend->ahead = read_ahead(wg, fs, path.lines[2], from_page, most, false, true);
	}
	g4_path_put(fs, &path);
	return rc;
}

G4_FN int g4_map_lend(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *from,
		      struct g4_inode_core *to, uint64_t to_page, const struct g4_lend *lend)
{
	const struct g4_address address = g4_ptr_address(lend->ptr);
	struct g4_path path;
	uint32_t line;

	int rc = g4_map_get_node(wg, fs, from, lend->ptr, lend->level, &line);
	if (rc < 0)
		return rc;
	rc = g4_map_grow(wg, fs, txn, to, to_page + g4_map_span(lend->level) - 1);
	if (rc < 0) { /* there is no slot for the page */
		g4_cache_put(&fs->cache, line);
		return rc;
	}
	g4_path_start(&path, to, to_page);
	rc = g4_path_make(wg, fs, txn, to, &path, to_page, lend->level);
	if (rc == 0)
		rc = g4_extent_share(wg, fs, txn, address, 1);
	if (rc == 0) {
		g4_path_dirty(txn, &path);
		g4_path_forget_below(fs, txn, &path);
		*path.slot = lend->ptr;
		to->disk.pages += lend->below;
		to->disk.flags |= G4_INODE_SHARES_MAP;
		from->disk.flags |= G4_INODE_SHARES_MAP;
		if (lend->level > 1 && g4_meta_line(&fs->cache, line)->below != lend->below) {
			g4_txn_dirty(txn, line);
			g4_meta_line(&fs->cache, line)->below = (uint32_t)lend->below;
		}
	} else if (rc == -G4_E_NOSPC || rc == -G4_E_MLINK) {
		const int pruned = g4_path_prune(wg, fs, txn, to, &path, to_page);
		rc = pruned < 0 ? pruned : rc;
	}
	g4_path_put(fs, &path);
	g4_cache_put(&fs->cache, line);
	return rc;
}
