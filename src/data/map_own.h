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

/* What is about to become of pages of a file. */
enum g4_change_kind {
	G4_CHANGE_EACH,	 /* each is mapped anew, whatever is there */
	G4_CHANGE_GO,	 /* what is there goes */
	G4_CHANGE_RENEW, /* what is there goes, and then all of them get space */
	G4_CHANGE_MOVE /* all from `page` on, to `to`: slots of a level, and of those below it, as they are where they come to lie in one place */
};
struct g4_change {
	enum g4_change_kind kind;
	uint64_t page, end; /* UINT64_MAX: all behind it. MOVE: that */
	uint64_t to;	    /* MOVE: in front of `page`, or behind it */
	uint32_t level;	    /* MOVE: of the slots */
};
/*
 * Outside of transactions, before a command does that: what it changes of indirect pages is the file's own afterwards, and says nothing of how many
 * pages hang there. Where nothing changes, or all that an indirect page has goes, or it moves as it is, it stays shared. What is own stays so as long as
 * the file has dirty pages, or its lock is held. -G4_E_NOSPC, -G4_E_MLINK: there is no room for a copy, or what hangs there can have no more owners; what
 * was copied is as good.
 */
G4_FN int g4_map_own_for(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode,
			 const struct g4_change *change);
/* The same of EACH from `page` to `end`. */
G4_FN int g4_map_own(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page, uint64_t end);
/* Whether slots of an indirect page of a level that begin `pages` pages from its start, or behind that, are empty. */
G4_FN bool g4_map_ends_within(const g4_le64 *slots, uint32_t level, uint64_t pages);
/*
 * Where owners come to be counted when an indirect page is copied: single pages (of data; indirect ones; the first of a row of sums) each in its
 * region, or, where owners are buffered, in its group, if few of them are in a row; large ones in their group.
 */
#define G4_MAP_PLACES 40u /* of each that are told from each other */
struct g4_map_places {
	uint64_t regions[G4_MAP_PLACES], groups[G4_MAP_PLACES];
	uint32_t region_count, group_count; /* one more than G4_MAP_PLACES: there are others */
	uint32_t large_count;		    /* of groups, those that large pages are the first in */
	uint32_t rows;			    /* of single pages that are too long to be buffered */
};
G4_FN void g4_map_add_pages(struct g4_map_places *places, struct g4_address address, uint64_t pages);
G4_FN void g4_map_add_large(struct g4_map_places *places, struct g4_address address);
/* Of the page of level 1 in a line, all that its slots lead to; false: one leads to something that was not written, or that can not be right. */
G4_FN bool g4_map_add_written(struct g4_fs *fs, uint32_t line, struct g4_map_places *places);
/* What of a page of level 1 lies in a row from a slot on, in one region, as a copy shares it: so many slots. */
G4_FN uint32_t g4_map_row_of(const g4_le64 *slots, uint32_t slot);
/* Whether a copy fits any transaction, or, where owners are buffered, one of this mount with as much beside it. */
G4_FN bool g4_map_can_copy(const struct g4_fs *fs, const struct g4_map_places *places);
/* How many pages of sums the indirect page in a line leads to. */
G4_FN uint32_t g4_map_sums_pages(const struct g4_fs *fs, uint32_t line);
/* How many pages a file has from the indirect page in a line down; of level 2 as it says itself, or 0. */
G4_FN uint64_t g4_map_count_below(struct g4_fs *fs, uint32_t line);
/*
 * In a transaction, at the slot with an indirect pointer on the way to `page`, before all from there to `end` goes. Without the credits, which are asked for:
 * -G4_E_AGAIN. It needs no space.
 */
enum g4_left {
	G4_LEFT_NOT, /* it is the file's alone, or has others that stay */
	G4_LEFT, /* others have it as well, and the slot leads there no more: all of it goes, or nothing hangs there */
	G4_LEFT_AS_IT_IS /* others have it as well, and nothing of it goes */
};
G4_FN int g4_map_leave(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
		       struct g4_path *path, uint64_t page, uint64_t end);
/* Whether an indirect page of the file on the way to a page has other owners: 0, 1, or an error. */
G4_FN int g4_map_way_is_shared(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page);
/* Whether others have the first of a run's pages, whatever leads to it, and how many of the run are the same in that. 0, 1, or an error. Read-locked. */
G4_FN int g4_map_is_shared(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page,
			   struct g4_run *run);

#endif
