/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another size. What follows from the size lies in three places: the superblocks, which no transaction writes; the map and
 * the descriptors of the groups at the end; and the second superblock's own place. The root block, which transactions write,
 * decides:
 *
 *   1. The superblocks get the feature RESIZING: the next mount asks the root block for the size. A growing device has
 *      one at its new end by now, so that there is one at its end at any time.
 *   2. What belongs to new groups alone is written where nothing looks yet, and flushed.
 *   3. One transaction changes the map, the descriptors beside old ones, and the root block's size; it is committed.
 *   4. The superblocks get the new size and lose RESIZING, the one at the new end first.
 *   5. Only now anybody may use what is new: a journal that has pages beyond the old end could not be replayed before 4.
 *
 * Of a set the second superblock has no place of its own: it is the second one of each disk, whatever the size is, and the
 * set knows its address from the first. So there 1 writes both where they are, and 4 the first one first.
 *
 * A crash before the commit of 3 leaves the old size, behind it the new one: a mount that finds RESIZING does 4 or takes 1
 * back. Old versions refuse such an image.
 *
 * A file system grows while it is in use, as far as its tables have room. It shrinks while nobody uses it, where nothing lies
 * beyond the new end: an inode's number is its address, so what lies there can not be moved by itself.
 */
#include "fs/resize.h"

#include "fs/levels.h"
#include "fs/super.h"
#include "fs/sync.h"
#include "inode/txn.h"

#define RESIZE_CREDITS 16u

G4_FN static uint64_t groups_of(uint64_t bytes)
{
	return bytes / G4_GROUP_BYTES + (bytes % G4_GROUP_BYTES != 0);
}

G4_FN static uint64_t descriptor(uint64_t free_pages, uint64_t flags)
{
	return free_pages | flags << 32;
}

/* Pages of the last group that are in front of the second superblock. */
G4_FN static uint64_t last_group_pages(uint64_t bytes)
{
	return (bytes / G4_PAGE_BYTES - 1) - (groups_of(bytes) - 1) * G4_GROUP_PAGES;
}

/* ------------------------------------------------------------------ growing */

/* The map of the new last group: what is in front of the second superblock is free. */
G4_FN static int write_last_map(struct g4_wg *wg, struct g4_fs *fs, uint64_t bytes)
{
	const uint64_t group = groups_of(bytes) - 1;
	const struct g4_address address = g4_layout_map_page(&fs->meta.layout, group);
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_alloc_page *map = (struct g4_alloc_page *)(void *)g4_scratch_take_page(wg);

	memset(map, 0, sizeof(*map));
	map->group = group;
	for (uint64_t p = last_group_pages(bytes); p < G4_GROUP_PAGES; p++)
		map->regions[p / G4_REGION_PAGES].used[p % G4_REGION_PAGES / 64] |= UINT64_C(1) << (p % 64);
	g4_block_seal(map, G4_BLOCK_ALLOC, address, 0, fs->meta.fs_tag);
	int rc = g4_space_write(wg, &fs->space, address, map, sizeof(*map), 0);
	g4_scratch_release(wg, mark);
	return rc;
}

/* Pages of descriptors that have no group of the old size. */
G4_FN static int write_descriptors(struct g4_wg *wg, struct g4_fs *fs, uint64_t bytes)
{
	const uint64_t old = fs->meta.layout.group_count, groups = groups_of(bytes);
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_groups_page *page = (struct g4_groups_page *)(void *)g4_scratch_take_page(wg);
	int rc = 0;

	for (uint64_t first = g4_layout_groups_border(old); first < groups && rc == 0; first += G4_GROUPS_PER_PAGE) {
		const struct g4_address address = g4_layout_groups_page(&fs->meta.layout, first);
		memset(page, 0, sizeof(*page));
		page->first_group = first;
		for (uint64_t g = first; g < groups && g < first + G4_GROUPS_PER_PAGE; g++) {
			struct g4_group_descriptor *to = &page->groups[g - first];
			to->free_pages = (g4_le16)(g + 1 < groups ? G4_GROUP_PAGES : last_group_pages(bytes));
			to->flags = g + 1 < groups ? 0 : G4_GROUP_INITIALISED;
		}
		g4_block_seal(page, G4_BLOCK_GROUPS, address, 0, fs->meta.fs_tag);
		rc = g4_space_write(wg, &fs->space, address, page, sizeof(*page), 0);
	}
	g4_scratch_release(wg, mark);
	return rc;
}

/* New groups whose descriptors share a page with old ones. */
G4_FN static int describe_new(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, uint64_t bytes)
{
	const uint64_t old = fs->meta.layout.group_count, groups = groups_of(bytes);
	const uint64_t end = g4_min64(groups, g4_layout_groups_border(old));
	const uint64_t whole = end == groups ? end - 1 : end;
	int rc = 0;

	if (old >= end)
		return 0;
	if (whole > old)
		rc = g4_alloc_describe(wg, &fs->alloc, txn, old, whole - old, descriptor(G4_GROUP_PAGES, 0));
	if (rc == 0 && whole < end)
		rc = g4_alloc_describe(wg, &fs->alloc, txn, whole, 1,
				       descriptor(last_group_pages(bytes), G4_GROUP_INITIALISED));
	return rc;
}

G4_FN static int set_root_size(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, uint64_t bytes)
{
	uint32_t line;
	int rc = g4_meta_get(wg, &fs->meta, g4_layout_root(&fs->meta.layout), G4_BLOCK_ROOT, &line);

	if (rc < 0)
		return rc;
	g4_txn_dirty(txn, line);
	g4_store64_rlx(&((struct g4_root *)g4_line_data(&fs->cache, line))->size_bytes, bytes);
	g4_cache_put(&fs->cache, line);
	return 0;
}

/* Pages of the old last group that the old size had no use for, its second superblock the first of them. */
G4_FN static uint64_t freed_pages(const struct g4_fs *fs, uint64_t bytes)
{
	const uint64_t first = fs->meta.layout.backup_address / G4_PAGE_BYTES;

	return g4_min64(bytes / G4_PAGE_BYTES - 1, fs->meta.layout.group_count * G4_GROUP_PAGES) - first;
}

G4_FN static int commit_growth(struct g4_wg *wg, struct g4_fs *fs, uint64_t bytes)
{
	struct g4_txn txn;
	int rc = 0;

	if (groups_of(bytes) > fs->meta.layout.group_count) {
		rc = write_last_map(wg, fs, bytes);
		if (rc == 0)
			rc = write_descriptors(wg, fs, bytes);
		if (rc == 0)
			rc = g4_space_flush(wg, &fs->space);
	}
	if (rc == 0)
		rc = g4_begin(wg, fs, RESIZE_CREDITS, &txn);
	if (rc < 0)
		return rc;
	rc = g4_alloc_set_end(wg, &fs->alloc, &txn, fs->meta.layout.backup_address / G4_PAGE_BYTES,
			      freed_pages(fs, bytes), false);
	if (rc == 0)
		rc = describe_new(wg, fs, &txn, bytes);
	if (rc == 0)
		rc = set_root_size(wg, fs, &txn, bytes);
	rc = g4_end(fs, &txn, rc);
	return rc < 0 ? rc : g4_commit(wg, fs, UINT64_MAX, false);
}

/* ------------------------------------------------------------------ shrinking */

/* Whether everything behind the new end is free; if not, *limit is the smallest size. Nobody else is there. */
G4_FN static int find_used(struct g4_wg *wg, struct g4_fs *fs, uint64_t bytes, uint64_t *limit)
{
	const uint64_t first = bytes / G4_PAGE_BYTES - 1;

	for (uint64_t page = fs->meta.layout.backup_address / G4_PAGE_BYTES; page > first; page--) {
		const uint64_t group = (page - 1) / G4_GROUP_PAGES;
		if (page % G4_GROUP_PAGES == 0 && fs->alloc.group_free[group] == G4_GROUP_PAGES &&
		    page - first > G4_GROUP_PAGES) {
			page -= G4_GROUP_PAGES - 1;
			continue;
		}
		int rc = g4_alloc_in_use(wg, &fs->alloc, g4_page_address(page - 1));
		if (rc < 0)
			return rc;
		if (rc > 0) {
			*limit = (page + 1) * G4_PAGE_BYTES;
			return -G4_E_NOSPC;
		}
	}
	return 0;
}

G4_FN static int commit_shrinking(struct g4_wg *wg, struct g4_fs *fs, uint64_t bytes)
{
	const uint64_t groups = groups_of(bytes), page = bytes / G4_PAGE_BYTES - 1;
	const uint64_t end = g4_min64(groups * G4_GROUP_PAGES, fs->meta.layout.backup_address / G4_PAGE_BYTES);
	const uint64_t described = g4_min64(fs->meta.layout.group_count, g4_layout_groups_border(groups));
	struct g4_txn txn;
	int rc = g4_begin(wg, fs, RESIZE_CREDITS, &txn);

	if (rc < 0)
		return rc;
	rc = g4_alloc_set_end(wg, &fs->alloc, &txn, page, end - page, true);
	if (rc == 0 && described > groups)
		rc = g4_alloc_describe(wg, &fs->alloc, &txn, groups, described - groups, 0);
	if (rc == 0)
		rc = set_root_size(wg, fs, &txn, bytes);
	rc = g4_end(fs, &txn, rc);
	return rc < 0 ? rc : g4_commit(wg, fs, UINT64_MAX, true);
}

/* ------------------------------------------------------------------ both */

/*
 * The sizes in memory. Others read them without a lock, each a word of its own: they find the old one or the new one, and
 * both are right for what they know of.
 */
G4_FN static void use_size(struct g4_fs *fs, uint64_t bytes)
{
	struct g4_layout *layout = &fs->meta.layout;

	layout->group_count = fs->super.group_count;
	layout->groups_pages = (fs->super.group_count + G4_GROUPS_PER_PAGE - 1) / G4_GROUPS_PER_PAGE;
	g4_store64_rel(&layout->size_bytes, bytes);
	g4_store64_rel(&layout->backup_address, bytes - G4_PAGE_BYTES);
}

/* What came of the transaction is not known, or the superblocks are not written: the next mount will find out. */
G4_FN static int leave_open(struct g4_fs *fs, uint64_t old_bytes, int rc)
{
	g4_superblock_resize(&fs->super, old_bytes);
	g4_or64(&fs->super.features_incompat, G4_FEATURE_INCOMPAT_RESIZING);
	g4_fs_error(fs, rc);
	return rc;
}

G4_FN static int change_size(struct g4_wg *wg, struct g4_fs *fs, uint64_t bytes)
{
	const uint64_t old = fs->meta.layout.size_bytes, old_groups = fs->meta.layout.group_count;
	const bool of_set = (fs->super.features_incompat & G4_FEATURE_INCOMPAT_DISKS) != 0;
	const uint64_t freed = fs->meta.layout.backup_address, freed_count = bytes > old ? freed_pages(fs, bytes) : 0;
	int rc = 0;

	g4_or64(&fs->super.features_incompat, G4_FEATURE_INCOMPAT_RESIZING);
	if (bytes > old && !of_set)
		rc = g4_super_write(wg, fs, g4_address_from(bytes - G4_PAGE_BYTES));
	if (rc == 0)
		rc = g4_super_write(wg, fs, g4_address_from(old - G4_PAGE_BYTES));
	if (rc == 0)
		rc = g4_super_write(wg, fs, G4_SUPERBLOCK);
	if (rc == 0)
		rc = bytes > old ? commit_growth(wg, fs, bytes) : commit_shrinking(wg, fs, bytes);
	if (rc < 0)
		return leave_open(fs, old, rc);
	g4_and64(&fs->super.features_incompat, ~G4_FEATURE_INCOMPAT_RESIZING);
	rc = g4_superblock_resize(&fs->super, bytes);
	if (rc == 0)
		rc = g4_super_write(wg, fs, of_set ? G4_SUPERBLOCK : g4_address_from(bytes - G4_PAGE_BYTES));
	if (rc == 0)
		rc = g4_super_write(wg, fs, of_set ? g4_address_from(bytes - G4_PAGE_BYTES) : G4_SUPERBLOCK);
	if (rc < 0)
		return leave_open(fs, old, rc);
	use_size(fs, bytes);
	rc = bytes > old ? g4_levels_apply(wg, fs, old) : 0; /* no page there is known to anybody yet */
	if (rc < 0)
		return rc;
	if (bytes > old)
		g4_alloc_grow(&fs->alloc, fs->super.group_count,
			      fs->super.group_count > old_groups ? last_group_pages(bytes) : 0, g4_address_from(freed),
			      freed_count);
	return 0;
}

/* What the tables, and the memory for them, have room for. */
G4_FN static uint64_t most_bytes(const struct g4_fs *fs)
{
	return g4_min64(g4_layout_room(&fs->meta.layout), fs->alloc.most_groups) * G4_GROUP_BYTES;
}

G4_FN static int check_size(struct g4_wg *wg, struct g4_fs *fs, uint64_t bytes, bool alone, uint64_t *limit)
{
	const struct g4_layout *layout = &fs->meta.layout;
	const uint64_t most = most_bytes(fs);
	const uint64_t least = g4_max64(g4_max64(G4_MIN_DEVICE_BYTES, 4 * layout->journal_bytes),
					layout->data_address + 2 * G4_PAGE_BYTES);

	*limit = 0;
	if (bytes % G4_PAGE_BYTES != 0)
		return -G4_E_INVAL;
	if (bytes == layout->size_bytes)
		return 0;
	if (bytes > g4_space_bytes(&fs->space))
		return -G4_E_DEV_SMALL;
	if (bytes > layout->size_bytes) {
		*limit = most;
		return bytes > most ? -G4_E_NOSPC : 0;
	}
	if (!alone)
		return -G4_E_BUSY;
	*limit = least;
	if (bytes < least) {
		int rc = find_used(wg, fs, least, limit);
		return rc < 0 ? rc : -G4_E_NOSPC;
	}
	return find_used(wg, fs, bytes, limit);
}

G4_FN int g4_resize(struct g4_wg *wg, struct g4_fs *fs, uint64_t bytes, bool alone, uint64_t *limit)
{
	*limit = 0;
	if (fs->super.features_incompat & G4_FEATURE_INCOMPAT_DISKS) {
		/* as large as its disks are, or as its tables allow; not more before a disk is removed (resize_host.c) */
		const bool no_more = alone && bytes <= fs->meta.layout.size_bytes;
		if (!no_more && bytes != g4_space_bytes(&fs->space))
			return -G4_E_NOTSUP;
		if (!no_more)
			bytes = g4_max64(g4_min64(bytes, most_bytes(fs)), fs->meta.layout.size_bytes);
	}
	if (!g4_cas32(&fs->resizing, 0, G4_FS_RESIZES))
		return -G4_E_BUSY;
	/* what was freed is free, and what is deleted is gone, when the end is looked at */
	int rc = g4_sync_all(wg, fs, alone);
	if (rc == 0)
		rc = check_size(wg, fs, bytes, alone, limit);
	if (rc == 0 && bytes != fs->meta.layout.size_bytes)
		rc = change_size(wg, fs, bytes);
	g4_store32_rel(&fs->resizing, 0);
	g4_add32(&fs->jobs.changed, 1); /* new groups are counted, too (data/dedup.c) */
	g4_wake(&fs->jobs.changed);
	return rc;
}
