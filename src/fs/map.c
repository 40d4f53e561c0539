/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File mapping: a radix tree of pointers (DESIGN.md "File map"). The inode's 16 slots cover 512^height pages each;
 * an indirect page of level L has 512 slots of 512^(L-1) pages. A data pointer may stand at level 1 (2 MiB) or 2 (1 GiB)
 * instead of an indirect page; it is split when a part of it changes, and a full, contiguous, aligned level-1 page
 * becomes one 2 MiB pointer.
 *
 * Changing functions run inside the caller's transaction and stop early, at a valid state, when its credits run out or
 * it is crowded.
 */
#include "fs/fs.h"

#define RUN_CREDITS (2 * G4_ALLOC_CREDITS) /* free one run, publish another */

/* Pages that a slot of an indirect page of this level, or of the inode at this height minus one, covers. */
G4_FN static uint64_t span_pages(uint32_t level)
{
	return UINT64_C(1) << (9 * level);
}

G4_FN uint64_t g4_map_capacity_pages(uint32_t height)
{
	return G4_MAP_SLOTS * span_pages(height);
}

G4_FN uint32_t g4_map_height_for(uint64_t page)
{
	uint32_t height = 0;

	while (page >= g4_map_capacity_pages(height))
		height++;
	return height;
}

G4_FN static g4_le64 *slots_of(struct g4_fs *fs, uint32_t line)
{
	return (g4_le64 *)g4_line_data(&fs->cache, line);
}

G4_FN static uint32_t kind_of(g4_ptr ptr)
{
	return ptr == 0 ? G4_HOLE : (ptr & G4_PTR_VALID) ? G4_WRITTEN : G4_UNWRITTEN;
}

G4_FN static g4_ptr data_ptr(uint64_t address, uint32_t level, bool written)
{
	uint32_t tag = level == 0 ? G4_TAG_4K : level == 1 ? G4_TAG_2M : G4_TAG_1G;
	return g4_ptr_make(address, tag, written ? G4_PTR_VALID : 0);
}

/* References the level-`level` page that `ptr` leads to. */
G4_FN static int get_node(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, g4_ptr ptr,
			  uint32_t level, uint32_t *line)
{
	int rc = g4_ptr_validate(ptr, &fs->meta.layout);

	return rc < 0 ? rc : g4_meta_get_indirect(wg, &fs->meta, g4_ptr_address(ptr), inode->ino, level, line);
}

/* A data pointer found at `level` (0: page) must have that level's size. */
G4_FN static int check_data(struct g4_fs *fs, g4_ptr ptr, uint32_t level)
{
	if (level > 2 || g4_tag_pages(g4_ptr_tag(ptr)) != span_pages(level) || g4_ptr_tag(ptr) == G4_TAG_SMALL)
		return -G4_E_CORRUPT_MAP;
	return g4_ptr_validate(ptr, &fs->meta.layout);
}

/* Extends a run over the slots that follow in the same array. */
G4_FN static void extend_run(const g4_le64 *slots, uint32_t count, uint32_t at, uint64_t most, struct g4_run *run)
{
	while (run->pages < most && at + run->pages < count) {
		g4_ptr next = slots[at + run->pages];
		if ((next & G4_PTR_INDIRECT) || kind_of(next) != run->kind ||
		    (next && g4_ptr_address(next) != run->address + run->pages * G4_PAGE_BYTES))
			break;
		run->pages++;
	}
}

G4_FN int g4_map_lookup(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
			uint64_t most, struct g4_run *run)
{
	uint32_t level = inode->disk.map_height, line = G4_NO_LINE;
	int rc = 0;

	run->kind = G4_HOLE;
	run->level = 0;
	run->address = 0;
	run->pages = most;
	if ((inode->disk.flags & G4_INODE_INLINE) || page >= g4_map_capacity_pages(level))
		return 0;
	const g4_le64 *slots = inode->disk.map;
	uint32_t count = G4_MAP_SLOTS, at = (uint32_t)(page >> (9 * level));
	for (;;) {
		g4_ptr ptr = slots[at];
		if (!(ptr & G4_PTR_INDIRECT)) {
			uint64_t inside = page & (span_pages(level) - 1);
			rc = ptr ? check_data(fs, ptr, level) : 0;
			run->kind = kind_of(ptr);
			run->level = level;
			run->address = ptr ? g4_ptr_address(ptr) + inside * G4_PAGE_BYTES : 0;
			run->pages = g4_min64(most, span_pages(level) - inside);
			if (level == 0)
				extend_run(slots, count, at, most, run);
			break;
		}
		if (level == 0) {
			rc = -G4_E_CORRUPT_MAP;
			break;
		}
		uint32_t below;
		rc = get_node(wg, fs, inode, ptr, level, &below);
		if (line != G4_NO_LINE)
			g4_cache_put(&fs->cache, line);
		line = G4_NO_LINE;
		if (rc < 0)
			break;
		line = below;
		level--;
		slots = slots_of(fs, line);
		count = G4_INDIRECT_SLOTS;
		at = (uint32_t)(page >> (9 * level)) & (G4_INDIRECT_SLOTS - 1);
	}
	if (line != G4_NO_LINE)
		g4_cache_put(&fs->cache, line);
	return rc;
}

/* ------------------------------------------------------------------ changing */

/* A place in the tree: the slot for a page at some level, and the lines that lead there. */
struct path {
	uint32_t lines[G4_MAP_MAX_HEIGHT + 1]; /* lines[L]: the indirect page of level L */
	uint32_t level;			       /* of the slot: what it covers is span_pages(level) */
	g4_le64 *slot;
};

G4_FN static void path_put(struct g4_fs *fs, struct path *path)
{
	for (uint32_t level = 0; level <= G4_MAP_MAX_HEIGHT; level++)
		if (path->lines[level] != G4_NO_LINE)
			g4_cache_put(&fs->cache, path->lines[level]);
}

G4_FN static void path_start(struct path *path, struct g4_inode_core *inode, uint64_t page)
{
	for (uint32_t level = 0; level <= G4_MAP_MAX_HEIGHT; level++)
		path->lines[level] = G4_NO_LINE;
	path->level = inode->disk.map_height;
	path->slot = &inode->disk.map[page >> (9 * path->level)];
}

/* One level down; the slot holds an indirect pointer. */
G4_FN static int path_down(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, struct path *path,
			   uint64_t page)
{
	uint32_t level = path->level;

	if (level == 0)
		return -G4_E_CORRUPT_MAP;
	int rc = get_node(wg, fs, inode, *path->slot, level, &path->lines[level]);
	if (rc < 0) {
		path->lines[level] = G4_NO_LINE;
		return rc;
	}
	path->level = level - 1;
	path->slot = &slots_of(fs, path->lines[level])[(page >> (9 * path->level)) & (G4_INDIRECT_SLOTS - 1)];
	return 0;
}

/* The slot is about to change: its page joins the transaction (the inode's slots are logged by the caller). */
G4_FN static void path_dirty(struct g4_txn *txn, const struct path *path)
{
	uint32_t above = path->level + 1;

	if (above <= G4_MAP_MAX_HEIGHT && path->lines[above] != G4_NO_LINE)
		g4_txn_dirty(txn, path->lines[above]);
}

/* Puts a new indirect page into the slot. Without `fill` its slots are zero, else they divide that data pointer. */
G4_FN static int add_node(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			  struct path *path, g4_ptr fill)
{
	uint64_t address;
	uint32_t line;
	bool reserved = inode->map_reservation > 0;
	int rc = reserved ? g4_alloc_reserved_metadata(wg, &fs->alloc, txn, &address) :
			    g4_alloc_metadata(wg, &fs->alloc, txn, &address);

	if (rc == 0 && reserved)
		inode->map_reservation--;
	if (rc == 0)
		rc = g4_meta_new(wg, &fs->meta, address, G4_BLOCK_INDIRECT, &line);
	if (rc < 0)
		return rc;
	fs->cache.lines[line].inode = inode->ino;
	fs->cache.lines[line].level = (uint8_t)path->level;
	g4_txn_dirty(txn, line);
	if (fill) {
		g4_le64 *slots = slots_of(fs, line);
		uint64_t step = span_pages(path->level - 1) * G4_PAGE_BYTES;
		for (uint32_t i = 0; i < G4_INDIRECT_SLOTS; i++)
			slots[i] =
				data_ptr(g4_ptr_address(fill) + i * step, path->level - 1, kind_of(fill) == G4_WRITTEN);
	}
	path_dirty(txn, path);
	*path->slot = g4_ptr_make(address, G4_TAG_4K, G4_PTR_VALID | G4_PTR_INDIRECT);
	inode->disk.pages++;
	g4_cache_put(&fs->cache, line);
	return 0;
}

/* Makes the tree high enough for `page`. */
G4_FN static int grow(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
		      uint64_t page)
{
	while (page >= g4_map_capacity_pages(inode->disk.map_height)) {
		uint32_t used = 0;

		if (inode->disk.map_height == G4_MAP_MAX_HEIGHT)
			return -G4_E_FBIG;
		for (uint32_t i = 0; i < G4_MAP_SLOTS; i++)
			used += inode->disk.map[i] != 0;
		if (used > 0) {
			g4_le64 old[G4_MAP_SLOTS];
			struct path path;
			uint32_t line;

			memcpy(old, inode->disk.map, sizeof(old));
			inode->disk.map[0] = 0;
			inode->disk.map_height++;
			path_start(&path, inode, 0);
			int rc = add_node(wg, fs, txn, inode, &path, 0);
			if (rc == 0)
				rc = get_node(wg, fs, inode, inode->disk.map[0], inode->disk.map_height, &line);
			if (rc < 0) {
				memcpy(inode->disk.map, old, sizeof(old));
				inode->disk.map_height--;
				return rc;
			}
			memcpy(slots_of(fs, line), old, sizeof(old));
			memset(&inode->disk.map[1], 0, sizeof(old) - sizeof(old[0]));
			g4_cache_put(&fs->cache, line);
		} else {
			inode->disk.map_height++;
		}
	}
	return 0;
}

G4_FN static bool need_credits(struct g4_txn *txn, uint32_t credits)
{
	return txn->credits >= credits || g4_txn_extend(txn, G4_MAP_CREDITS);
}

/* Replaces a run of level-0 slots. *done: slots changed before the credits ran out. */
G4_FN static int set_slots(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			   g4_le64 *slots, uint64_t count, uint64_t address, bool written, uint64_t *done)
{
	uint64_t k = 0;
	int rc = 0;

	while (k < count && rc == 0) {
		struct g4_run old = {kind_of(slots[k]), 0, g4_ptr_address(slots[k]), 1};
		uint64_t to = address + k * G4_PAGE_BYTES;

		if (!need_credits(txn, RUN_CREDITS) || (k > 0 && g4_txn_is_crowded(txn)))
			break;
		if (slots[k]) {
			rc = check_data(fs, slots[k], 0);
			if (rc < 0)
				break;
		}
		extend_run(slots, (uint32_t)count, (uint32_t)k, count - k, &old);
		if (old.address != to) {
			if (old.kind != G4_HOLE)
				rc = g4_alloc_free(wg, &fs->alloc, txn, old.address, old.pages);
			if (rc == 0)
				rc = g4_alloc_publish(wg, &fs->alloc, txn, to, old.pages);
			if (rc < 0)
				break;
			inode->disk.pages += old.kind == G4_HOLE ? old.pages : 0;
		}
		for (uint64_t i = 0; i < old.pages; i++)
			slots[k + i] = data_ptr(to + i * G4_PAGE_BYTES, 0, written);
		k += old.pages;
	}
	*done = k;
	return rc;
}

/* A level-1 page whose 512 pages are contiguous, aligned and written gives way to one 2 MiB pointer. */
G4_FN static int collapse(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			  struct path *path, uint64_t page)
{
	const g4_le64 *slots = slots_of(fs, path->lines[1]);
	uint64_t first = g4_ptr_address(slots[0]);
	struct path above;

	if (first == 0 || first % G4_REGION_BYTES || g4_ptr_address(slots[511]) != first + 511 * G4_PAGE_BYTES)
		return 0;
	for (uint64_t i = 0; i < G4_INDIRECT_SLOTS; i++)
		if (slots[i] != data_ptr(first + i * G4_PAGE_BYTES, 0, true))
			return 0;
	if (!need_credits(txn, RUN_CREDITS))
		return 0;
	above = *path;
	above.level = 1;
	above.slot = inode->disk.map_height == 1 ? &inode->disk.map[page >> 9] :
						   &slots_of(fs, path->lines[2])[(page >> 9) & (G4_INDIRECT_SLOTS - 1)];
	uint64_t node = g4_ptr_address(*above.slot);
	path_dirty(txn, &above);
	*above.slot = data_ptr(first, 1, true);
	inode->disk.pages--;
	return g4_alloc_free_metadata(wg, &fs->alloc, txn, node);
}

/* Goes on to the slot of `page` at `level`, making and splitting what is in the way. */
G4_FN static int descend_making(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
				struct path *path, uint64_t page, uint32_t level)
{
	while (path->level > level) {
		int rc = 0;
		if (*path->slot == 0) {
			rc = add_node(wg, fs, txn, inode, path, 0);
		} else if (!(*path->slot & G4_PTR_INDIRECT)) {
			rc = check_data(fs, *path->slot, path->level);
			if (rc == 0)
				rc = add_node(wg, fs, txn, inode, path, *path->slot);
		}
		if (rc == 0)
			rc = path_down(wg, fs, inode, path, page);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Whether the next pages are a 2 MiB page, whole and written: one pointer, unless single pages hang there now. */
G4_FN static bool is_large(uint64_t page, uint64_t address, uint64_t pages, bool written)
{
	return written && page % G4_INDIRECT_SLOTS == 0 && address % G4_REGION_BYTES == 0 && pages >= G4_INDIRECT_SLOTS;
}

/* Replaces a level-1 slot that holds nothing or a data pointer. *done 0: the credits ran out. */
G4_FN static int set_large(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			   const struct path *path, uint64_t address, uint64_t *done)
{
	g4_ptr old = *path->slot;
	int rc = old ? check_data(fs, old, 1) : 0;

	if (rc < 0 || !need_credits(txn, RUN_CREDITS))
		return rc;
	if (g4_ptr_address(old) != address) {
		if (old)
			rc = g4_alloc_free(wg, &fs->alloc, txn, g4_ptr_address(old), G4_INDIRECT_SLOTS);
		if (rc == 0)
			rc = g4_alloc_publish(wg, &fs->alloc, txn, address, G4_INDIRECT_SLOTS);
		if (rc < 0)
			return rc;
		inode->disk.pages += old ? 0 : G4_INDIRECT_SLOTS;
	}
	path_dirty(txn, path);
	*path->slot = data_ptr(address, 1, true);
	*done = G4_INDIRECT_SLOTS;
	return 0;
}

G4_FN int g4_map_set(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode, uint64_t page,
		     uint64_t address, uint64_t pages, bool written, uint64_t *done)
{
	int rc = 0;

	*done = 0;
	while (*done < pages && rc == 0) {
		uint64_t at = page + *done, to = address + *done * G4_PAGE_BYTES, n, changed = 0;
		bool large = is_large(at, to, pages - *done, written);
		struct path path;

		if (!need_credits(txn, G4_MAP_CREDITS - 4))
			break;
		rc = grow(wg, fs, txn, inode, large ? at + G4_INDIRECT_SLOTS - 1 : at);
		if (rc < 0)
			break;
		path_start(&path, inode, at);
		if (large)
			rc = descend_making(wg, fs, txn, inode, &path, at, 1);
		large = large && rc == 0 && !(*path.slot & G4_PTR_INDIRECT);
		if (large)
			rc = set_large(wg, fs, txn, inode, &path, to, &changed);
		else if (rc == 0)
			rc = descend_making(wg, fs, txn, inode, &path, at, 0);
		if (rc == 0 && !large) {
			uint64_t room =
				inode->disk.map_height == 0 ? G4_MAP_SLOTS - at : G4_INDIRECT_SLOTS - (at & 511);
			n = g4_min64(pages - *done, room);
			path_dirty(txn, &path);
			rc = set_slots(wg, fs, txn, inode, path.slot, n, to, written, &changed);
			if (rc == 0 && inode->disk.map_height > 0 && changed == n && n == room && written)
				rc = collapse(wg, fs, txn, inode, &path, at);
		}
		path_put(fs, &path);
		*done += changed;
		if (changed == 0 || g4_txn_is_crowded(txn))
			break;
	}
	return rc;
}

G4_FN static bool node_is_empty(const g4_le64 *slots)
{
	for (uint32_t i = 0; i < G4_INDIRECT_SLOTS; i++)
		if (slots[i])
			return false;
	return true;
}

/* Frees indirect pages that became empty, from level 1 up. */
G4_FN static int prune(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
		       struct path *path, uint64_t page)
{
	for (uint32_t level = path->level + 1; level <= inode->disk.map_height; level++) {
		g4_le64 *slot;
		if (path->lines[level] == G4_NO_LINE || !node_is_empty(slots_of(fs, path->lines[level])))
			return 0;
		if (level == inode->disk.map_height) {
			slot = &inode->disk.map[page >> (9 * level)];
		} else {
			slot = &slots_of(fs, path->lines[level + 1])[(page >> (9 * level)) & (G4_INDIRECT_SLOTS - 1)];
			g4_txn_dirty(txn, path->lines[level + 1]);
		}
		int rc = g4_alloc_free_metadata(wg, &fs->alloc, txn, g4_ptr_address(*slot));
		if (rc < 0)
			return rc;
		*slot = 0;
		inode->disk.pages--;
	}
	return 0;
}

/* Clears level-0 slots; *done: how many before the credits ran out. */
G4_FN static int clear_slots(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			     g4_le64 *slots, uint64_t count, uint64_t *done)
{
	uint64_t k = 0;
	int rc = 0;

	while (k < count && rc == 0) {
		struct g4_run old = {kind_of(slots[k]), 0, g4_ptr_address(slots[k]), 1};
		if (slots[k])
			rc = check_data(fs, slots[k], 0);
		if (rc < 0)
			break;
		extend_run(slots, (uint32_t)count, (uint32_t)k, count - k, &old);
		if (old.kind != G4_HOLE) {
			if (!need_credits(txn, RUN_CREDITS) || (k > 0 && g4_txn_is_crowded(txn)))
				break;
			rc = g4_alloc_free(wg, &fs->alloc, txn, old.address, old.pages);
			if (rc < 0)
				break;
			inode->disk.pages -= old.pages;
			memset(&slots[k], 0, old.pages * sizeof(slots[0]));
		}
		k += old.pages;
	}
	*done = k;
	return rc;
}

/*
 * One step of clearing at `page`: *next is where the next step starts; equal to page when credits ran out. 1: a large
 * pointer was split, do the step again.
 */
G4_FN static int clear_step(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			    uint64_t page, uint64_t end, uint64_t *next)
{
	struct path path;
	int rc = 0;

	path_start(&path, inode, page);
	while (rc == 0 && path.level > 0 && (*path.slot & G4_PTR_INDIRECT))
		rc = path_down(wg, fs, inode, &path, page);
	if (rc == 0) {
		uint64_t span = span_pages(path.level), inside = page & (span - 1), changed = 0;
		g4_ptr ptr = *path.slot;
		*next = page;
		if (path.level == 0) {
			uint64_t room =
				inode->disk.map_height == 0 ? G4_MAP_SLOTS - page : G4_INDIRECT_SLOTS - (page & 511);
			path_dirty(txn, &path);
			rc = clear_slots(wg, fs, txn, inode, path.slot, g4_min64(room, end - page), &changed);
			*next = page + changed;
		} else if (ptr == 0) {
			*next = page + span - inside;
		} else if (inside == 0 && end - page >= span) {
			rc = check_data(fs, ptr, path.level);
			/* a 1 GiB run lies in 18 groups */
			if (rc == 0 && need_credits(txn, G4_MAP_CREDITS) && need_credits(txn, G4_MAP_CREDITS)) {
				path_dirty(txn, &path);
				rc = g4_alloc_free(wg, &fs->alloc, txn, g4_ptr_address(ptr), span);
				if (rc == 0) {
					*path.slot = 0;
					inode->disk.pages -= span;
					*next = page + span;
				}
			}
		} else {
			rc = check_data(fs, ptr, path.level);
			if (rc == 0)
				rc = add_node(wg, fs, txn, inode, &path, ptr);
			path_put(fs, &path);
			return rc < 0 ? rc : 1;
		}
		if (rc == 0 && *next > page)
			rc = prune(wg, fs, txn, inode, &path, page);
	}
	path_put(fs, &path);
	return rc;
}

G4_FN int g4_map_clear(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
		       uint64_t page, uint64_t end, uint64_t *next)
{
	uint64_t capacity = g4_map_capacity_pages(inode->disk.map_height);

	end = g4_min64(end, capacity);
	*next = page;
	while (*next < end) {
		uint64_t at = *next;
		if (!need_credits(txn, G4_MAP_CREDITS - 4) || (at > page && g4_txn_is_crowded(txn)))
			return 0;
		int rc = clear_step(wg, fs, txn, inode, at, end, next);
		if (rc < 0)
			return rc;
		if (*next == at && rc == 0)
			return 0;
	}
	*next = UINT64_MAX;
	return 0;
}
