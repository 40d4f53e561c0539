/* SPDX-License-Identifier: Apache-2.0 */
/* Reading what an operation will need before it changes anything. Nothing is written. */
#include "data/unreadable.h"

#include "data/extent.h"
#include "data/map_path.h"
#include "data/sums.h"

G4_FN int g4_look_at_large(struct g4_wg *wg, struct g4_fs *fs, g4_ptr ptr, const struct g4_sum_entry *entry)
{
	const struct g4_address row = g4_sum_entry_place(entry);
	uint64_t one = 1;
	int rc = g4_extent_has_several(wg, fs, g4_ptr_address(ptr), &one);

	if (rc >= 0 && g4_sum_entry_algorithm(entry) == G4_CHECKSUM_LARGE && g4_layout_holds(&fs->meta.layout, row))
		rc = g4_extent_has_several(wg, fs, row, &one);
	return rc < 0 ? rc : 0;
}

G4_FN int g4_look_at_sums(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint32_t line,
			  uint64_t page, uint64_t pages)
{
	int rc = 0;

	for (uint64_t at = page; at < page + pages && rc == 0; at += g4_sums_row((uint32_t)(at & 511))) {
		const struct g4_sum_entry *entry;
		uint32_t sums;
		rc = g4_sums_page(wg, fs, inode, line, (uint32_t)(at & 511), 0, at, &sums, &entry);
		if (rc == 0 && sums != G4_NO_LINE)
			g4_cache_put(&fs->cache, sums);
		rc = rc == -G4_E_CORRUPT_SUMS ? 0 : rc;
	}
	return rc;
}

/* What releasing the pages of slots in a row asks for: how many owners they have, a region at a time. */
G4_FN static int look_at_owners(struct g4_wg *wg, struct g4_fs *fs, const g4_le64 *slots, uint32_t count)
{
	uint64_t region = UINT64_MAX, one = 1;
	int rc = 0;

	for (uint32_t k = 0; k < count && rc >= 0; k++) {
		const struct g4_address address = g4_ptr_address(slots[k]);
		const uint64_t its = g4_address_page(address) / G4_REGION_PAGES;
		if (slots[k] == 0 || its == region || g4_map_check_data(fs, slots[k], 0) < 0)
			continue;
		region = its;
		rc = g4_extent_has_several(wg, fs, address, &one);
	}
	return rc < 0 ? rc : 0;
}

/* Of a pointer to a large page: what stands beside it, and the owners of what both lead to; `sums`: its pages of sums, too. */
G4_FN static int look_at_pointer(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode,
				 const struct g4_path *path, bool sums)
{
	struct g4_sum_entry entry;
	int rc = g4_map_check_data(fs, *path->slot, path->level);

	if (rc == 0)
		rc = g4_path_read_entry(wg, fs, inode, path, &entry);
	if (rc == 0 && sums && path->level == 1) /* what is divided on the way moves with its sums */
		rc = g4_sums_look_large(wg, fs, inode, &entry, true);
	return rc == 0 && path->level == 1 ? g4_look_at_large(wg, fs, *path->slot, &entry) : rc;
}

G4_FN int g4_map_look_range(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page,
			    uint64_t end, bool sums)
{
	int rc = 0;

	end = g4_min64(end, g4_inode_slots(&inode->disk) * g4_map_span(inode->disk.map_height));

	while (page < end && rc == 0) {
		struct g4_path path;

		g4_path_start(&path, inode, page);
		while (rc == 0 && path.level > 0 && (*path.slot & G4_PTR_INDIRECT)) {
			const int shared = g4_path_is_shared(wg, fs, inode, &path);
			rc = shared < 0 ? shared : g4_path_down(wg, fs, inode, &path, page);
		}
		const uint32_t line = g4_path_line(inode, &path);
		uint64_t next = (page | (g4_map_span(path.level) - 1)) + 1;
		if (rc == 0 && path.level == 0) {
			const uint32_t slots = line == G4_NO_LINE ? g4_inode_slots(&inode->disk) : G4_INDIRECT_SLOTS;
			const uint32_t count = (uint32_t)g4_min64(slots - g4_path_index(fs, inode, &path), end - page);
			rc = look_at_owners(wg, fs, path.slot, count);
			if (rc == 0 && sums && line != G4_NO_LINE)
				rc = g4_look_at_sums(wg, fs, inode, line, page, count);
			next = page + count;
		} else if (rc == 0 && *path.slot) {
			rc = look_at_pointer(wg, fs, inode, &path, sums);
		}
		g4_path_put(fs, &path);
		page = next;
	}
	return rc;
}

G4_FN int g4_map_look(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page, bool sums)
{
	return g4_map_look_range(wg, fs, inode, page, UINT64_MAX, sums);
}

G4_FN int g4_look_at_run(struct g4_wg *wg, struct g4_fs *fs, struct g4_address address, uint64_t pages)
{
	int rc = 0;

	for (uint64_t done = 0, part; done < pages && rc >= 0; done += part) {
		const struct g4_address at = g4_address_after_pages(address, done);
		uint64_t one = 1;
		part = g4_extent_part(at, pages - done);
		rc = g4_extent_has_several(wg, fs, at, &one);
	}
	return rc < 0 ? rc : 0;
}

/* ------------------------------------------------------------------ copies of indirect pages */

/* Pages whose owners a copy will count, each of another region than the one in front of it. */
struct asked {
	struct g4_address places[G4_META_TOGETHER];
	uint32_t count;
};

G4_FN static int ask_all(struct g4_wg *wg, struct g4_fs *fs, struct asked *asked)
{
	struct g4_meta_ahead ahead = {.count = 0};
	int rc = 0;

	g4_share_read_ahead(wg, &fs->alloc, asked->places, asked->count, &ahead);
	for (uint32_t k = 0; k < asked->count && rc >= 0; k++) {
		uint64_t one = 1;
		rc = g4_extent_has_several(wg, fs, asked->places[k], &one);
	}
	asked->count = 0;
	return rc < 0 ? rc : 0;
}

G4_FN static int ask(struct g4_wg *wg, struct g4_fs *fs, struct asked *asked, struct g4_address address)
{
	const uint64_t region = g4_address_page(address) / G4_REGION_PAGES;

	if (!g4_layout_holds(&fs->meta.layout, address) ||
	    (asked->count > 0 && g4_address_page(asked->places[asked->count - 1]) / G4_REGION_PAGES == region))
		return 0;
	const int rc = asked->count == G4_META_TOGETHER ? ask_all(wg, fs, asked) : 0;
	asked->places[asked->count++] = address;
	return rc;
}

/* Its own pages of sums. What is damaged becomes lost in the copy. */
G4_FN static int look_at_its_sums(struct g4_wg *wg, struct g4_fs *fs, uint32_t line, uint32_t level)
{
	const struct g4_address self = g4_page_address(fs->cache.lines[line].index);
	int rc = 0;

	for (uint32_t quarter = 0; quarter < G4_SUMS_QUARTERS && rc == 0; quarter++) {
		const struct g4_address sums = g4_sums_place(g4_meta_places(&fs->cache, line), self, quarter);
		uint32_t source;
		if (g4_address_is_none(sums) || !g4_layout_holds(&fs->meta.layout, sums))
			continue;
		const int got = g4_meta_get_sums(wg, &fs->meta, sums, g4_meta_line(&fs->cache, line)->inode, level,
						 quarter, &source);
		if (got == 0)
			g4_cache_put(&fs->cache, source);
		rc = got == -G4_E_IO || got == -G4_E_NOMEM ? got : 0;
	}
	return rc;
}

G4_FN int g4_look_at_copy(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode,
			  const struct g4_path *path)
{
	struct asked asked = {.count = 0};
	uint32_t line;
	int rc = g4_map_get_node(wg, fs, inode, *path->slot, path->level, &line);

	if (rc < 0)
		return rc;
	const g4_le64 *slots = g4_map_slots(fs, line);
	rc = look_at_its_sums(wg, fs, line, path->level);
	for (uint32_t slot = 0; slot < G4_INDIRECT_SLOTS && rc == 0; slot++) {
		struct g4_sum_entry entry;
		if (!(slots[slot] & G4_PTR_INDIRECT) && g4_map_kind(slots[slot]) != G4_WRITTEN)
			continue; /* a hole in the copy */
		rc = ask(wg, fs, &asked, g4_ptr_address(slots[slot]));
		if (rc < 0 || path->level == 1 || (slots[slot] & G4_PTR_INDIRECT))
			continue;
		if (g4_sums_read(wg, fs, inode, line, slot, 1, &entry) == 0 &&
		    g4_sum_entry_algorithm(&entry) == G4_CHECKSUM_LARGE)
			rc = ask(wg, fs, &asked, g4_sum_entry_place(&entry));
	}
	if (rc == 0)
		rc = ask_all(wg, fs, &asked);
	g4_cache_put(&fs->cache, line);
	return rc;
}
