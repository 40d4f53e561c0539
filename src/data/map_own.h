/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Indirect pages that several files have (FORMAT.md, "Shared indirect pages"): a file that is about to change what lies below one has a copy
 * first. The in-core inode is locked for writing. Leader.
 */
#ifndef G4_MAP_OWN_H
#define G4_MAP_OWN_H

#include "data/map_path.h"
#include "format/indirect.h"

/* Whether the file may lead to indirect pages that others lead to. Without that nothing here costs more than this load. */
G4_FN G4_INLINE bool g4_map_may_share(const struct g4_inode_core *inode)
{
	return (inode->disk.flags & G4_INODE_SHARES_MAP) != 0;
}

/*
 * Outside of transactions, before a command changes slots for pages from `page` to `end`: the indirect pages on the way to them are the
 * file's own afterwards, and say nothing of how many pages hang there. They stay so as long as the file has dirty pages, or its lock is
 * held. -G4_E_NOSPC, -G4_E_MLINK: there is no room for a copy, or what hangs there can have no more owners; what was copied is as good.
 */
G4_FN int g4_map_own(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page, uint64_t end);
/*
 * The same before all pages on one side of `page` go: only what has pages on both sides of it. What begins at page `from` or behind it, and has none from
 * `page` on, goes as a whole where those in front go; UINT64_MAX: they stay.
 */
G4_FN int g4_map_own_border(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page,
			    uint64_t from);
/* Whether slots of an indirect page of a level that begin `pages` pages from its start, or behind that, are empty. */
G4_FN bool g4_map_ends_within(const g4_le64 *slots, uint32_t level, uint64_t pages);
/* Whether a number is among `most` at most, or there was room for it, where it is put then. For regions and groups, of which a transaction touches few. */
G4_FN bool g4_map_add_place(uint64_t place, uint64_t *places, uint32_t *count, uint32_t most);
/* How many pages of sums the indirect page in a line leads to. */
G4_FN uint32_t g4_map_sums_pages(const struct g4_fs *fs, uint32_t line);
/* How many pages a file has from the indirect page in a line down; of level 2 as it says itself, or 0. */
G4_FN uint64_t g4_map_count_below(struct g4_fs *fs, uint32_t line);
/*
 * In a transaction, at a slot with an indirect pointer, before the first `most` pages that hang there go: 1: they are all, it has other owners, and the slot
 * leads there no more. 0: it is the file's alone, or has more. It needs no space. Without the credits, which are asked for: -G4_E_AGAIN.
 */
G4_FN int g4_map_leave(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
		       struct g4_path *path, uint64_t most);
/* Whether an indirect page of the file on the way to a page has other owners: 0, 1, or an error. */
G4_FN int g4_map_way_is_shared(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page);

#endif
