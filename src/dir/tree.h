/* SPDX-License-Identifier: Apache-2.0 */
/* The pages of a directory's tree: what growing (dir.c) and shrinking (shrink.c) share. Leader. */
#ifndef G4_TREE_H
#define G4_TREE_H

#include "dir/dir.h"

G4_FN G4_INLINE struct g4_cache *g4_dir_cache(const struct g4_dir *dir)
{
	return dir->alloc->meta->cache;
}

/* References a leaf or index page. */
G4_FN G4_INLINE int g4_dir_get_page(struct g4_wg *wg, const struct g4_dir *dir, struct g4_address address,
				    uint32_t *line)
{
	return g4_meta_get(wg, dir->alloc->meta, address, G4_BLOCK_DIR_LEAF, line);
}

G4_FN G4_INLINE bool g4_dir_is_index(const struct g4_dir *dir, uint32_t line)
{
	return g4_meta_line(g4_dir_cache(dir), line)->type == G4_BLOCK_DIR_INDEX;
}

/*
 * These look at a page that a split may be changing (dir.c): what they say counts if the version of its lock is the same afterwards, and
 * leads to no place behind the page in any case, also where an image has the page in two directories, whose locks are two.
 */
G4_FN G4_INLINE uint32_t g4_dir_index_count(const struct g4_dir_index *index)
{
	return (uint32_t)g4_min64(g4_load32_rlx(&index->count), G4_DIR_INDEX_ENTRIES);
}

/* Index of the last entry whose bound is at most `hash`. */
G4_FN G4_INLINE uint32_t g4_dir_child_of(const struct g4_dir_index *index, uint32_t hash)
{
	uint32_t low = 0, high = g4_dir_index_count(index);

	while (high - low > 1) {
		uint32_t middle = (low + high) / 2;
		if (g4_load32_rlx(&index->entries[middle].hash) <= hash)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* above: the level of the page that leads to it, 0: any. */
G4_FN G4_INLINE int g4_dir_check_index(const struct g4_dir_index *index, uint32_t above)
{
	const uint32_t count = g4_load32_rlx(&index->count);

	if (count == 0 || count > G4_DIR_INDEX_ENTRIES || index->level == 0 || index->level > G4_DIR_MAX_LEVEL ||
	    (above && index->level != above - 1))
		return -G4_E_CORRUPT_DIR;
	return 0;
}

#endif
