/* SPDX-License-Identifier: Apache-2.0 */
/* The dirty pages of an inode: a list of lines, each referenced by it. The in-core inode is write-locked. Leader. */
#ifndef G4_DIRTY_H
#define G4_DIRTY_H

#include "inode/mounted.h"

/* What a cache line has of a dirty page, while it is on the list. Guarded by the inode's dirty_lock. */
struct g4_data_line {
	uint64_t no_txn;     /* 0 always, where the line is taken for one of metadata (g4_txn_has()) */
	uint32_t prev, next; /* of the list */
	uint8_t reservation; /* pages of space reserved for it and its mapping (reserve.c) */
	uint8_t pooled;	     /* its own page is not one of them, but reserved in the pool of its file's level */
	uint8_t dirty;	     /* it is on the list */
	uint8_t wish;	     /* enum g4_dedup_wish, of the last writer */
};
G4_STATIC_ASSERT(sizeof(struct g4_data_line) <= sizeof(((struct g4_line *)0)->kept), "a line keeps it");

G4_FN G4_INLINE struct g4_data_line *g4_data_line(const struct g4_cache *cache, uint32_t line)
{
	return (struct g4_data_line *)(void *)cache->lines[line].kept;
}

/* The pool of pages that a file's contents are of, by its policy. It changes with nothing dirty. */
G4_FN G4_INLINE uint32_t g4_policy_pool(const struct g4_fs *fs, uint32_t policy)
{
	const uint32_t level = (policy & G4_POLICY_RAID) >> G4_POLICY_RAID_SHIFT;

	return level == fs->own_level ? (uint32_t)G4_LEVEL_OWN : level % G4_LEVELS;
}
G4_FN G4_INLINE uint32_t g4_file_pool(const struct g4_fs *fs, const struct g4_inode_core *inode)
{
	return g4_policy_pool(fs, inode->disk.policy);
}
/* What is reserved for a line is no longer. */
G4_FN G4_INLINE void g4_line_unreserve(struct g4_fs *fs, const struct g4_inode_core *inode, uint32_t line)
{
	const struct g4_data_line *l = g4_data_line(&fs->cache, line);

	g4_alloc_unreserve(&fs->alloc, l->reservation);
	if (l->pooled)
		g4_alloc_unreserve_in(&fs->alloc, g4_file_pool(fs, inode), 1);
}

/* Puts a referenced line on the list; its space is reserved (reserve.c). */
G4_FN void g4_dirty_add(struct g4_fs *fs, uint32_t index, uint32_t line);
/* Takes a line off the list and drops the list's reference. The line's reservation is the caller's business. */
G4_FN void g4_dirty_remove(struct g4_fs *fs, struct g4_inode_core *inode, uint32_t line);
/* Pages of a range come off the list and out of the cache: they will not be written. */
G4_FN void g4_drop_dirty(struct g4_fs *fs, uint32_t index, uint64_t first_page, uint64_t end_page);

#endif
