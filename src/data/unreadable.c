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

	if (rc >= 0 && g4_sum_entry_algorithm(entry) == G4_CHECKSUM_LARGE && g4_extent_shares_rows(fs) &&
	    g4_layout_holds(&fs->meta.layout, row))
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

G4_FN int g4_map_look(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page, bool sums)
{
	const uint64_t end = g4_inode_slots(&inode->disk) * g4_map_span(inode->disk.map_height);
	int rc = 0;

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
			const uint32_t count = (line == G4_NO_LINE ? g4_inode_slots(&inode->disk) : G4_INDIRECT_SLOTS) -
					       g4_path_index(fs, inode, &path);
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
