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
#include "data/map.h"

#include "data/extent.h"
#include "data/sums.h"
#include "inode/txn.h"

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

G4_FN static g4_ptr data_ptr(struct g4_address address, uint32_t level, bool written)
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

/* Whether a slot of the inode covers the page. */
G4_FN static bool has_slot(const struct g4_inode_core *inode, uint64_t page)
{
	return !(inode->disk.flags & G4_INODE_INLINE) &&
	       page >> (9 * inode->disk.map_height) < g4_inode_slots(&inode->disk);
}

/* Extends a run over the slots that follow in the same array. */
G4_FN static void extend_run(const g4_le64 *slots, uint32_t count, uint32_t at, uint64_t most, struct g4_run *run)
{
	while (run->pages < most && at + run->pages < count) {
		g4_ptr next = slots[at + run->pages];
		if ((next & G4_PTR_INDIRECT) || kind_of(next) != run->kind ||
		    (next && !g4_address_is(g4_ptr_address(next), g4_address_after_pages(run->address, run->pages))))
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
	run->address = G4_NO_ADDRESS;
	run->pages = most;
	if (!has_slot(inode, page))
		return 0;
	const g4_le64 *slots = inode->disk.map;
	uint32_t count = g4_inode_slots(&inode->disk), at = (uint32_t)(page >> (9 * level));
	for (;;) {
		g4_ptr ptr = slots[at];
		if (!(ptr & G4_PTR_INDIRECT)) {
			uint64_t inside = page & (span_pages(level) - 1);
			rc = ptr ? check_data(fs, ptr, level) : 0;
			run->kind = kind_of(ptr);
			run->level = level;
			run->address = ptr ? g4_address_after_pages(g4_ptr_address(ptr), inside) : G4_NO_ADDRESS;
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

/* Where the entry of a page, or of the large page that it is in, stands: beside a slot of `line`, referenced, or of the inode. */
struct beside {
	bool found; /* or there is none */
	uint32_t line, slot;
	uint32_t level; /* of the slot */
	g4_ptr ptr;
};

G4_FN static int find_beside(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
			     struct beside *at)
{
	at->level = inode->disk.map_height;
	at->line = G4_NO_LINE;
	at->slot = (uint32_t)(page >> (9 * at->level));
	at->found = has_slot(inode, page);
	at->ptr = at->found ? inode->disk.map[at->slot] : 0;
	while (at->level > 0 && (at->ptr & G4_PTR_INDIRECT)) {
		uint32_t below;
		int rc = get_node(wg, fs, inode, at->ptr, at->level, &below);
		if (at->line != G4_NO_LINE)
			g4_cache_put(&fs->cache, at->line);
		at->line = rc < 0 ? G4_NO_LINE : below;
		if (rc < 0)
			return rc;
		at->level--;
		at->slot = (uint32_t)(page >> (9 * at->level)) & (G4_INDIRECT_SLOTS - 1);
		at->ptr = slots_of(fs, below)[at->slot];
	}
	return 0;
}

G4_FN int g4_map_sums(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
		      uint32_t count, struct g4_sum_entry *sums)
{
	int rc = 0;

	memset(sums, 0, count * sizeof(*sums));
	while (count > 0 && rc == 0) {
		/* what lies in one page of sums */
		uint32_t n = (uint32_t)g4_min64(count, g4_sums_row((uint32_t)(page % G4_SUMS_SLOTS)));
		struct g4_sum_entry entry;
		struct beside at;

		rc = find_beside(wg, fs, inode, page, &at);
		if (rc == 0 && at.level == 0 && inode->disk.map_height == 0)
			n = (uint32_t)g4_min64(n, at.found ? g4_inode_slots(&inode->disk) - at.slot : n);
		if (rc == 0 && at.found && at.level == 0) {
			rc = g4_sums_read(wg, fs, inode, at.line, at.slot, n, sums);
		} else if (rc == 0 && (at.ptr & G4_PTR_VALID)) {
			rc = g4_sums_read(wg, fs, inode, at.line, at.slot, 1, &entry);
			if (rc == 0)
				rc = g4_sums_read_large(wg, fs, inode, &entry, at.level, page, n, sums);
		}
		if (at.line != G4_NO_LINE)
			g4_cache_put(&fs->cache, at.line);
		page += n;
		sums += n;
		count -= n;
	}
	return rc;
}

/* The pages of sums that the entry of a large page leads to: its own four, and on the way down those of what has the page. */
G4_FN static int add_large(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
			   uint32_t level, struct g4_sum_entry entry, struct g4_map_nodes *nodes)
{
	int rc = 0;

	for (; rc == 0 && level > 0 && g4_sum_entry_algorithm(&entry) == G4_CHECKSUM_LARGE; level--) {
		const uint64_t first = g4_sum_entry_place(&entry);
		const uint32_t slot = (uint32_t)(page >> (9 * (level - 1))) % G4_INDIRECT_SLOTS;
		const uint32_t quarter = slot / G4_SUMS_SLOTS;
		uint32_t line;
		for (uint32_t k = 0; k < G4_SUMS_QUARTERS; k++)
			nodes->sums[nodes->sums_count++] = g4_address_from(first + k * G4_PAGE_BYTES);
		if (level == 1)
			return 0;
		rc = g4_ptr_validate(g4_ptr_at(first, G4_TAG_4K, G4_PTR_VALID), &fs->meta.layout);
		if (rc == 0)
			rc = g4_meta_get_sums(wg, &fs->meta, g4_address_from(first + quarter * G4_PAGE_BYTES),
					      inode->ino, level, quarter, &line);
		if (rc == 0) {
			entry = ((const struct g4_sums_page *)g4_line_data(&fs->cache, line))
					->entries[slot % G4_SUMS_SLOTS];
			g4_cache_put(&fs->cache, line);
		}
	}
	return rc;
}

G4_FN int g4_map_nodes(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
		       struct g4_map_nodes *nodes)
{
	uint32_t level = inode->disk.map_height;
	struct g4_sum_entry entry;
	struct beside at;

	nodes->count = nodes->sums_count = 0;
	if (!has_slot(inode, page))
		return 0;
	g4_ptr ptr = inode->disk.map[page >> (9 * level)];
	for (; level > 0 && (ptr & G4_PTR_INDIRECT); level--) {
		uint32_t line;
		nodes->nodes[nodes->count++] = g4_ptr_address(ptr);
		int rc = get_node(wg, fs, inode, ptr, level, &line);
		if (rc < 0)
			return rc;
		for (uint32_t quarter = 0; quarter < G4_SUMS_QUARTERS; quarter++) {
			const uint64_t sums = g4_sums_place(g4_meta_places(&fs->cache, line),
							    g4_address_stored(g4_ptr_address(ptr)), quarter);
			if (sums)
				nodes->sums[nodes->sums_count++] = g4_address_from(sums);
		}
		ptr = slots_of(fs, line)[(page >> (9 * (level - 1))) & (G4_INDIRECT_SLOTS - 1)];
		g4_cache_put(&fs->cache, line);
	}
	if (level == 0 || !(ptr & G4_PTR_VALID))
		return 0;
	int rc = find_beside(wg, fs, inode, page, &at);
	if (rc == 0)
		rc = g4_sums_read(wg, fs, inode, at.line, at.slot, 1, &entry);
	if (rc == 0)
		rc = add_large(wg, fs, inode, page, at.level, entry, nodes);
	if (at.line != G4_NO_LINE)
		g4_cache_put(&fs->cache, at.line);
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

/* Where the entry of the slot stands: beside a slot of a page, or of the inode. */
G4_FN static uint32_t line_of(const struct g4_inode_core *inode, const struct path *path)
{
	return path->level < inode->disk.map_height ? path->lines[path->level + 1] : G4_NO_LINE;
}

G4_FN static uint32_t index_of(struct g4_fs *fs, const struct g4_inode_core *inode, const struct path *path)
{
	const uint32_t line = line_of(inode, path);

	return (uint32_t)(path->slot - (line == G4_NO_LINE ? inode->disk.map : slots_of(fs, line)));
}

/* The entry of a large page in the slot; zeros where it has none, or where there is no large page with contents. */
G4_FN static int read_entry(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode,
			    const struct path *path, struct g4_sum_entry *entry)
{
	memset(entry, 0, sizeof(*entry));
	if (path->level == 0 || (*path->slot & (G4_PTR_VALID | G4_PTR_INDIRECT)) != G4_PTR_VALID)
		return 0;
	int rc = g4_sums_read(wg, fs, inode, line_of(inode, path), index_of(fs, inode, path), 1, entry);
	if (rc != -G4_E_CORRUPT_SUMS)
		return rc;
	g4_sum_entry_make_lost(entry);
	return 0;
}

/* What stands beside the slot goes, or becomes the entry of a large page. The slot's page is dirty. */
G4_FN static int write_entry(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			     const struct path *path, const struct g4_sum_entry *entry)
{
	return g4_sums_write(wg, fs, txn, inode, line_of(inode, path), index_of(fs, inode, path), 1, entry);
}

/* Puts a new indirect page into the slot. Without `fill` its slots are zero, else they divide that data pointer. */
G4_FN static int add_node(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			  struct path *path, g4_ptr fill)
{
	struct g4_sum_entry entry;
	struct g4_address address;
	uint32_t line;
	int rc = read_entry(wg, fs, inode, path, &entry);

	if (rc == 0)
		rc = g4_node_acquire(wg, fs, txn, inode, &address);
	if (rc < 0)
		return rc;
	rc = g4_meta_new(wg, &fs->meta, address, G4_BLOCK_INDIRECT, &line);
	if (rc == 0) {
		rc = g4_sums_part(fs, line, &entry);
		path_dirty(txn, path);
		if (rc == 0 && g4_sum_entry_algorithm(&entry) != G4_CHECKSUM_NONE)
			rc = write_entry(wg, fs, txn, inode, path, NULL);
		if (rc < 0)
			g4_cache_put(&fs->cache, line);
	}
	if (rc < 0) {
		(void)g4_node_release(wg, fs, txn, inode, address);
		return rc;
	}
	g4_meta_line(&fs->cache, line)->inode = inode->ino;
	g4_meta_line(&fs->cache, line)->level = (uint8_t)path->level;
	g4_txn_dirty(txn, line);
	if (fill) {
		g4_le64 *slots = slots_of(fs, line);
		const uint64_t step = span_pages(path->level - 1);
		for (uint32_t i = 0; i < G4_INDIRECT_SLOTS; i++)
			slots[i] = data_ptr(g4_address_after_pages(g4_ptr_address(fill), i * step), path->level - 1,
					    kind_of(fill) == G4_WRITTEN);
	}
	*path->slot = g4_ptr_make(address, G4_TAG_4K, G4_PTR_VALID | G4_PTR_INDIRECT);
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
		for (uint32_t i = 0; i < g4_inode_slots(&inode->disk); i++)
			used += inode->disk.map[i] != 0;
		if (used > 0) {
			struct g4_sums_block sums;
			g4_le64 before[G4_MAP_SLOTS], old[G4_MAP_SLOTS];
			struct path path;
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
			path_start(&path, inode, 0);
			rc = add_node(wg, fs, txn, inode, &path, 0);
			if (rc == 0)
				rc = get_node(wg, fs, inode, inode->disk.map[0], inode->disk.map_height, &line);
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
			memcpy(slots_of(fs, line), old, sizeof(old));
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

G4_FN static bool need_credits(struct g4_txn *txn, uint32_t credits)
{
	return txn->credits >= credits || g4_txn_extend(txn, G4_MAP_CREDITS);
}

/* What pages of a file are to lead to. */
struct target {
	struct g4_address address;
	uint64_t pages;
	bool written;
	bool shared;			 /* the space has an owner already; else it is claimed and not published */
	const struct g4_sum_entry *sums; /* of the pages, or NULL */
};

/* Replaces a run of level-0 slots of the indirect page in `line`, or of the inode. *done: slots changed before the credits ran out. */
G4_FN static int set_slots(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			   uint32_t line, g4_le64 *slots, uint64_t count, const struct target *target, uint64_t from,
			   uint64_t *done)
{
	const struct g4_sum_entry *sums = target->sums ? &target->sums[from] : NULL;
	const g4_le64 *all = line == G4_NO_LINE ? inode->disk.map : slots_of(fs, line);
	const uint32_t first = (uint32_t)(slots - all);
	uint64_t k = 0;
	int rc = 0;

	while (k < count && rc == 0) {
		struct g4_run old = {kind_of(slots[k]), 0, g4_ptr_address(slots[k]), 1};
		const struct g4_address to = g4_address_after_pages(target->address, from + k);
		uint64_t most = g4_min64(count - k, g4_sums_row(first + (uint32_t)k));

		if (!g4_extent_credits(fs, txn, 4, count) || (k > 0 && g4_txn_is_crowded(txn)))
			break;
		if (slots[k]) {
			rc = check_data(fs, slots[k], 0);
			if (rc < 0)
				break;
		}
		if (target->shared)
			most = g4_extent_part(to, most);
		if (old.kind != G4_HOLE)
			most = g4_extent_part(old.address, most);
		extend_run(slots, (uint32_t)count, (uint32_t)k, most, &old);
		const bool moves = !g4_address_is(old.address, to);
		if (moves && target->shared) /* may find no space for a count: before anything else has changed */
			rc = g4_extent_share(wg, fs, txn, to, old.pages);
		if (rc < 0)
			break;
		if (target->written)
			rc = g4_sums_write(wg, fs, txn, inode, line, first + (uint32_t)k, (uint32_t)old.pages,
					   sums ? &sums[k] : NULL);
		if (rc < 0) {
			if (moves && target->shared)
				(void)g4_extent_release(wg, fs, txn, to, old.pages); /* rc tells more */
			break;
		}
		if (moves) {
			if (old.kind != G4_HOLE)
				rc = g4_extent_release(wg, fs, txn, old.address, old.pages);
			if (rc == 0 && !target->shared)
				rc = g4_extent_acquire(wg, fs, txn, to, old.pages);
			if (rc < 0)
				break;
			inode->disk.pages += old.kind == G4_HOLE ? old.pages : 0;
		}
		for (uint64_t i = 0; i < old.pages; i++)
			slots[k + i] = data_ptr(g4_address_after_pages(to, i), 0, target->written);
		k += old.pages;
	}
	*done = k;
	return rc;
}

/*
 * A level-1 page whose 512 pages are contiguous, aligned and written gives way to one 2 MiB pointer. If it has pages of sums, they are
 * four in a row; they become those of the large page.
 */
G4_FN static int collapse(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			  struct path *path, uint64_t page)
{
	const g4_le64 *slots = slots_of(fs, path->lines[1]);
	const struct g4_address first = g4_ptr_address(slots[0]);
	const bool sums = g4_sums_any(fs, path->lines[1]);
	struct g4_sum_entry entry;
	struct path above;

	if (g4_address_is_none(first) || !g4_address_starts_region(first) ||
	    !g4_address_is(g4_ptr_address(slots[511]), g4_address_after_pages(first, 511)))
		return 0;
	for (uint64_t i = 0; i < G4_INDIRECT_SLOTS; i++)
		if (slots[i] != data_ptr(g4_address_after_pages(first, i), 0, true))
			return 0;
	if (!g4_extent_credits(fs, txn, 3, 1)) /* the page's, the slot above it, and what stands beside that */
		return 0;
	if (sums && !g4_sums_join(wg, fs, path->lines[1], &entry))
		return 0;
	above = *path;
	above.level = 1;
	above.slot = inode->disk.map_height == 1 ? &inode->disk.map[page >> 9] :
						   &slots_of(fs, path->lines[2])[(page >> 9) & (G4_INDIRECT_SLOTS - 1)];
	const struct g4_address node = g4_ptr_address(*above.slot);
	path_dirty(txn, &above);
	int rc = write_entry(wg, fs, txn, inode, &above, sums ? &entry : NULL);
	if (rc < 0) /* without the space for it everything stays as it is */
		return rc == -G4_E_NOSPC ? 0 : rc;
	*above.slot = data_ptr(first, 1, true);
	return g4_node_release(wg, fs, txn, inode, node);
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
G4_FN static bool is_large(uint64_t page, struct g4_address address, uint64_t pages, bool written)
{
	return written && page % G4_INDIRECT_SLOTS == 0 && g4_address_starts_region(address) &&
	       pages >= G4_INDIRECT_SLOTS;
}

/*
 * Replaces a level-1 slot that holds nothing or a data pointer. *done 0: the credits ran out. -G4_E_NOSPC: there is no space for its
 * sums in a row, and nothing has changed.
 */
G4_FN static int set_large(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			   const struct path *path, const struct target *target, struct g4_address address,
			   const struct g4_sum_entry *sums, uint64_t *done)
{
	struct g4_sum_entry before, entry;
	g4_ptr old = *path->slot;
	int rc = old ? check_data(fs, old, 1) : 0;

	/* the page, what was there, and the same of its sums; the slot, and what stands beside it */
	if (rc < 0 || !g4_extent_credits(fs, txn, sums ? 8 : 6, G4_INDIRECT_SLOTS))
		return rc;
	const bool moves = !g4_address_is(g4_ptr_address(old), address);
	rc = read_entry(wg, fs, inode, path, &before);
	if (rc == 0 && moves && target->shared)
		rc = g4_extent_share(wg, fs, txn, address, G4_INDIRECT_SLOTS);
	if (rc < 0)
		return rc;
	if (sums)
		rc = g4_sums_new_large(wg, fs, txn, inode, sums, &entry);
	if (rc == 0) {
		path_dirty(txn, path);
		rc = write_entry(wg, fs, txn, inode, path, sums ? &entry : NULL);
		if (rc < 0 && sums)
			(void)g4_sums_free_large(wg, fs, txn, inode, &entry);
	}
	if (rc < 0) {
		if (moves && target->shared)
			(void)g4_extent_release(wg, fs, txn, address, G4_INDIRECT_SLOTS); /* rc tells more */
		return rc;
	}
	rc = g4_sums_free_large(wg, fs, txn, inode, &before);
	if (rc == 0 && moves && old)
		rc = g4_extent_release(wg, fs, txn, g4_ptr_address(old), G4_INDIRECT_SLOTS);
	if (rc == 0 && moves && !target->shared)
		rc = g4_extent_acquire(wg, fs, txn, address, G4_INDIRECT_SLOTS);
	if (rc < 0)
		return rc;
	if (moves)
		inode->disk.pages += old ? 0 : G4_INDIRECT_SLOTS;
	*path->slot = data_ptr(address, 1, true);
	*done = G4_INDIRECT_SLOTS;
	return 0;
}

G4_FN static int set_pages(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			   uint64_t page, const struct target *target, uint64_t *done)
{
	int rc = 0;

	*done = 0;
	while (*done < target->pages && rc == 0) {
		const struct g4_address to = g4_address_after_pages(target->address, *done);
		const struct g4_sum_entry *sums = target->sums ? &target->sums[*done] : NULL;
		uint64_t at = page + *done, n, changed = 0;
		bool large = is_large(at, to, target->pages - *done, target->written);
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
		if (large) {
			rc = set_large(wg, fs, txn, inode, &path, target, to, sums, &changed);
			large = rc != -G4_E_NOSPC;
			rc = large ? rc : 0;
		}
		if (rc == 0 && !large)
			rc = descend_making(wg, fs, txn, inode, &path, at, 0);
		if (rc == 0 && !large) {
			uint64_t room =
				inode->disk.map_height == 0 ? G4_MAP_SLOTS - at : G4_INDIRECT_SLOTS - (at & 511);
			n = g4_min64(target->pages - *done, room);
			if (inode->disk.map_height == 0)
				rc = g4_sums_fit(wg, fs, txn, inode, (uint32_t)(at + n), target->sums != NULL);
			path_dirty(txn, &path);
			if (rc == 0)
				rc = set_slots(wg, fs, txn, inode, inode->disk.map_height ? path.lines[1] : G4_NO_LINE,
					       path.slot, n, target, *done, &changed);
			if (rc == 0 && inode->disk.map_height > 0 && changed == n && n == room && target->written)
				rc = collapse(wg, fs, txn, inode, &path, at);
		}
		path_put(fs, &path);
		*done += changed;
		if (changed == 0 || g4_txn_is_crowded(txn))
			break;
	}
	return rc;
}

G4_FN int g4_map_set(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode, uint64_t page,
		     struct g4_address address, uint64_t pages, bool written, const struct g4_sum_entry *sums,
		     uint64_t *done)
{
	const struct target target = {address, pages, written, false, sums};

	return set_pages(wg, fs, txn, inode, page, &target, done);
}

G4_FN int g4_map_share(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
		       uint64_t page, struct g4_address address, uint64_t pages, const struct g4_sum_entry *sums,
		       uint64_t *done)
{
	const struct target target = {address, pages, true, true, sums};

	return set_pages(wg, fs, txn, inode, page, &target, done);
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
		int rc = g4_sums_free(wg, fs, txn, inode, path->lines[level]);
		if (rc == 0)
			rc = g4_node_release(wg, fs, txn, inode, g4_ptr_address(*slot));
		if (rc < 0)
			return rc;
		*slot = 0;
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
		extend_run(slots, (uint32_t)count, (uint32_t)k,
			   old.kind == G4_HOLE ? count - k : g4_extent_part(old.address, count - k), &old);
		if (old.kind != G4_HOLE) {
			if (!g4_extent_credits(fs, txn, 2, count) || (k > 0 && g4_txn_is_crowded(txn)))
				break;
			rc = g4_extent_release(wg, fs, txn, old.address, old.pages);
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

/* Whether one transaction can release a large page: one of 1 GiB has too many pages of sums. */
G4_FN static bool may_go_whole(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode,
			       const struct path *path, struct g4_sum_entry *sums, int *rc)
{
	*rc = check_data(fs, *path->slot, path->level);
	if (*rc == 0)
		*rc = read_entry(wg, fs, inode, path, sums);
	return *rc < 0 || path->level == 1 || g4_sum_entry_algorithm(sums) != G4_CHECKSUM_LARGE;
}

/*
 * One step of clearing at `page`: *next is where the next step starts; equal to page when credits ran out. 1: a large
 * pointer was split, do the step again.
 */
G4_FN static int clear_step(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			    uint64_t page, uint64_t end, uint64_t *next)
{
	struct g4_sum_entry sums;
	struct path path;
	int rc = 0;

	path_start(&path, inode, page);
	while (rc == 0 && path.level > 0 && (*path.slot & G4_PTR_INDIRECT))
		rc = path_down(wg, fs, inode, &path, page);
	if (rc == 0) {
		uint64_t span = span_pages(path.level), inside = page & (span - 1), changed = 0;
		g4_ptr ptr = *path.slot;
		/* what has other owners goes a region at a time */
		const int several =
			path.level > 1 && ptr != 0 ? g4_extent_is_shared(wg, fs, g4_ptr_address(ptr), span) : 0;
		*next = page;
		if (several < 0) {
			path_put(fs, &path);
			return several;
		}
		if (path.level == 0) {
			uint64_t room = inode->disk.map_height == 0 ? g4_inode_slots(&inode->disk) - page :
								      G4_INDIRECT_SLOTS - (page & 511);
			path_dirty(txn, &path);
			rc = clear_slots(wg, fs, txn, inode, path.slot, g4_min64(room, end - page), &changed);
			*next = page + changed;
		} else if (ptr == 0) {
			*next = page + span - inside;
		} else if (inside == 0 && end - page >= span && !several &&
			   may_go_whole(wg, fs, inode, &path, &sums, &rc)) {
			/* the page; its sums; the slot, and what stands beside it: one of 1 GiB has no sums */
			if (rc == 0 && need_credits(txn, G4_MAP_CREDITS) &&
			    g4_extent_credits(fs, txn, path.level == 1 ? 4 : 1, span)) {
				path_dirty(txn, &path);
				if (g4_sum_entry_algorithm(&sums) == G4_CHECKSUM_LARGE)
					rc = g4_sums_free_large(wg, fs, txn, inode, &sums);
				if (rc == 0 && g4_sum_entry_algorithm(&sums) == G4_CHECKSUM_LARGE)
					rc = write_entry(wg, fs, txn, inode, &path, NULL);
				if (rc == 0)
					rc = g4_extent_release(wg, fs, txn, g4_ptr_address(ptr), span);
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
	end = g4_min64(end, g4_inode_slots(&inode->disk) * span_pages(inode->disk.map_height));
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
	for (uint32_t i = 0; i < g4_inode_slots(&inode->disk); i++)
		if (inode->disk.map[i])
			return 0;
	return g4_sums_free(wg, fs, txn, inode, G4_NO_LINE);
}
