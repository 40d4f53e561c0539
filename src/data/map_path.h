/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places in the tree of a file map, for what changes it (map.c, shift.c). Leader; the in-core inode is locked, for writing where
 * something changes; changes are made in the caller's transaction, which logs the inode.
 */
#ifndef G4_MAP_PATH_H
#define G4_MAP_PATH_H

#include "data/map.h"
#include "inode/txn.h"

/* Pages that a slot of an indirect page of this level, or of the inode at this height minus one, covers. */
G4_FN G4_INLINE uint64_t g4_map_span(uint32_t level)
{
	return UINT64_C(1) << (9 * level);
}

G4_FN G4_INLINE g4_le64 *g4_map_slots(struct g4_fs *fs, uint32_t line)
{
	return (g4_le64 *)g4_line_data(&fs->cache, line);
}

G4_FN G4_INLINE uint32_t g4_map_kind(g4_ptr ptr)
{
	return ptr == 0 ? G4_HOLE : (ptr & G4_PTR_VALID) ? G4_WRITTEN : G4_UNWRITTEN;
}

G4_FN G4_INLINE g4_ptr g4_map_data_ptr(struct g4_address address, uint32_t level, bool written)
{
	uint32_t tag = level == 0 ? G4_TAG_4K : level == 1 ? G4_TAG_2M : G4_TAG_1G;
	return g4_ptr_make(address, tag, written ? G4_PTR_VALID : 0);
}

/* References the level-`level` page that `ptr` leads to. */
G4_FN int g4_map_get_node(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, g4_ptr ptr,
			  uint32_t level, uint32_t *line);
/* A data pointer found at `level` (0: page) must have that level's size. */
G4_FN int g4_map_check_data(struct g4_fs *fs, g4_ptr ptr, uint32_t level);
/* Makes the tree high enough for `page`. */
G4_FN int g4_map_grow(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
		      uint64_t page);
/* Whether the transaction has the credits, or gets them. */
G4_FN G4_INLINE bool g4_map_need_credits(struct g4_txn *txn, uint32_t credits)
{
	return txn->credits >= credits || g4_txn_extend(txn, G4_MAP_CREDITS);
}

/* A place in the tree: the slot for a page at some level, and the lines that lead there. */
struct g4_path {
	uint32_t lines[G4_MAP_MAX_HEIGHT + 1]; /* lines[L]: the indirect page of level L, referenced */
	uint32_t level;			       /* of the slot: what it covers is g4_map_span(level) */
	g4_le64 *slot;
};

/* At the inode's slot for a page, which it has. */
G4_FN void g4_path_start(struct g4_path *path, struct g4_inode_core *inode, uint64_t page);
/* One level down; the slot holds an indirect pointer. */
G4_FN int g4_path_down(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, struct g4_path *path,
		       uint64_t page);
G4_FN void g4_path_put(struct g4_fs *fs, struct g4_path *path);
/* The slot is about to change: its page joins the transaction (the inode's slots are logged by the caller). */
G4_FN void g4_path_dirty(struct g4_txn *txn, const struct g4_path *path);
/* Where the entry of the slot stands: beside a slot of a page, or of the inode (G4_NO_LINE); and which slot of it that is. */
G4_FN uint32_t g4_path_line(const struct g4_inode_core *inode, const struct g4_path *path);
G4_FN uint32_t g4_path_index(struct g4_fs *fs, const struct g4_inode_core *inode, const struct g4_path *path);
/* The entry of a large page in the slot; zeros where it has none, or where there is no large page with contents. */
G4_FN int g4_path_read_entry(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode,
			     const struct g4_path *path, struct g4_sum_entry *entry);
/* What stands beside the slot goes, or becomes the entry of a large page. The slot's page is dirty. */
G4_FN int g4_path_write_entry(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			      const struct g4_path *path, const struct g4_sum_entry *entry);
/* Whether the indirect page that the slot leads to has other owners (map_own.h): 0, 1, or an error. */
G4_FN int g4_path_is_shared(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode,
			    const struct g4_path *path);
/* One level down, to where something is to change; -G4_E_CORRUPT_MAP: others have that page. */
G4_FN int g4_path_enter(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, struct g4_path *path,
			uint64_t page);
/* What hangs below the way is about to change: its page of level 2 says no more how many pages that are. */
G4_FN void g4_path_forget_below(struct g4_fs *fs, struct g4_txn *txn, const struct g4_path *path);
/* Puts a new indirect page into the slot. Without `fill` its slots are zero, else they divide that data pointer. */
G4_FN int g4_path_add_node(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			   struct g4_path *path, g4_ptr fill);
/*
 * The large page that the slot leads to gets an indirect page: what a later step of the transaction reads to free `page` of it is read before that, for an
 * error behind it would stop the journal. frees: it will be freed.
 */
G4_FN int g4_path_divide(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			 struct g4_path *path, uint64_t page, bool frees);
/* Goes on to the slot of `page` at `level`, making and splitting what is in the way. -G4_E_NOSPC: and no page is left at which nothing hangs. */
G4_FN int g4_path_make(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
		       struct g4_path *path, uint64_t page, uint32_t level);
/* What freeing the indirect page in a line and its pages of sums needs is read: 0, or an error. */
G4_FN int g4_path_look_at_node(struct g4_wg *wg, struct g4_fs *fs, uint32_t line);
/* Frees indirect pages above the slot that became empty, from that of its level + 1 up: the path ends at the slot that led to the highest. One of which
 * the allocation map can not be read stays, as do those above it. */
G4_FN int g4_path_prune(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			struct g4_path *path, uint64_t page);

#endif
