/* SPDX-License-Identifier: Apache-2.0 */
/* The pages of a directory's tree: what growing (dir.c) and shrinking (shrink.c) share. Leader. */
#ifndef G4_TREE_H
#define G4_TREE_H

#include "dir/dir.h"

G4_FN G4_INLINE struct g4_cache *g4_dir_cache(const struct g4_dir *dir)
{
	return dir->cache;
}

/* References a leaf or index page. */
G4_FN G4_INLINE int g4_dir_get_page(struct g4_wg *wg, const struct g4_dir *dir, struct g4_address address,
				    uint32_t *line)
{
	return g4_meta_get(wg, dir->meta, address, G4_BLOCK_DIR_LEAF, line);
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

/* Where what an entry leads to begins. */
G4_FN G4_INLINE uint64_t g4_dir_bound_of(const struct g4_dir_index_entry *entry)
{
	return g4_dir_position(g4_load32_rlx(&entry->hash), (uint16_t)g4_load32_rlx(&entry->collision));
}

/* Parts that a search divides what is left into: on a GPU loads side by side take as long as one. Lanes do the same, so that tests do. */
#if G4_CUDA || defined(G4_LANES)
#define G4_INDEX_FAN 8u
#else
#define G4_INDEX_FAN 2u
#endif
/* Index of the last entry whose bound is at most `position`. */
G4_FN G4_INLINE uint32_t g4_dir_child_of(const struct g4_dir_index *index, uint64_t position)
{
	const uint32_t hash = (uint32_t)(position >> 16);
	uint32_t low = 0, high = g4_dir_index_count(index);

	while (high - low > 1) {
		const uint32_t step = (high - low + G4_INDEX_FAN - 1) / G4_INDEX_FAN;
		uint32_t hashes[G4_INDEX_FAN - 1], below = 0;

		G4_UNROLLED
		for (uint32_t k = 1; k < G4_INDEX_FAN; k++) /* the last one again, where there are fewer */
			hashes[k - 1] = g4_load32_rlx(&index->entries[g4_min64(low + k * step, high - 1)].hash);
		G4_UNROLLED
		for (uint32_t k = 1; k < G4_INDEX_FAN; k++)
			below += low + k * step < high && hashes[k - 1] <= hash;
		low += below * step;
		high = (uint32_t)g4_min64(low + step, high);
	}
	/* of the entries of one hash, of which there are several only where its names were divided */
	while (low > 0 && g4_load32_rlx(&index->entries[low].hash) == hash &&
	       g4_dir_bound_of(&index->entries[low]) > position)
		low--;
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

G4_FN G4_INLINE void g4_dir_set_entry(struct g4_dir_index_entry *entry, uint64_t bound, uint64_t page)
{
	g4_store32_rlx(&entry->hash, (uint32_t)(bound >> 16));
	g4_store32_rlx(&entry->collision, (uint32_t)(bound & UINT16_MAX));
	g4_store64_rlx(&entry->page, page);
}

/*
 * Makes room behind entry `child` and puts (bound, page) there. The page is dirty; readers may be looking at it. False: nothing was
 * changed, for it is full, or has fewer entries than that, because an image has it in two directories, whose locks are two.
 */
G4_FN G4_INLINE bool g4_dir_index_insert(struct g4_dir_index *index, uint32_t child, uint64_t bound, uint64_t page)
{
	const uint32_t count = g4_load32_rlx(&index->count);

	if (child >= count || count >= G4_DIR_INDEX_ENTRIES)
		return false;
	for (uint32_t k = count; k > child + 1; k--)
		g4_dir_set_entry(&index->entries[k], g4_dir_bound_of(&index->entries[k - 1]),
				 index->entries[k - 1].page);
	g4_dir_set_entry(&index->entries[child + 1], bound, page);
	g4_store32_rlx(&index->count, count + 1);
	return true;
}

#endif
