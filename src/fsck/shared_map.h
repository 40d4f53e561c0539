/* SPDX-License-Identifier: Apache-2.0 */
/* Indirect pages that several files have (G4_FEATURE_INCOMPAT_SHARED_MAPS). */
#ifndef G4_FSCK_SHARED_MAP_H
#define G4_FSCK_SHARED_MAP_H

#include "fsck/fsck_types.h"

/* Whether there may be any. */
bool g4_fsck_may_share_maps(const struct g4_fsck *fsck);
/* What the inode says of itself: put right where it says that it shares its map, and no file may. */
void g4_fsck_check_sharing(struct g4_fsck *fsck, uint64_t ino, const struct g4_inode *inode,
			   const struct g4_fsck_where *where);

enum g4_fsck_map_claim {
	G4_FSCK_MAP_TAKEN, /* something else has the page, which was told */
	G4_FSCK_MAP_FIRST, /* met now: what hangs at it is this file's to be walked */
	G4_FSCK_MAP_AGAIN, /* as an indirect page; whether that may be is to be found out */
};
/* An indirect page is claimed, by one thread or several, where any may have several owners. */
enum g4_fsck_map_claim g4_fsck_claim_map(struct g4_fsck *fsck, struct g4_address address,
					 const struct g4_fsck_where *where);
/*
 * Of a page that is claimed again, which the walk has just entered and left: its owner is counted, and its pages are added to *pages
 * without a walk. False: what hangs there is damaged, or it does not say how many they are, so that the sum proves nothing.
 */
bool g4_fsck_share_map(struct g4_fsck *fsck, const struct g4_fsck_where *where, const struct g4_map_item *item,
		       uint64_t *pages);
/*
 * Something that hangs at it was told to be lost or in doubt, by the name of one of its owners: a repair tells the others, too, when they are met. None: no page.
 */
void g4_fsck_tell_map(struct g4_fsck *fsck, struct g4_address address);
bool g4_fsck_map_is_told(const struct g4_fsck *fsck, struct g4_address address);
/* Whether owners of it are counted beyond the first. False where nobody knows. */
bool g4_fsck_map_is_counted(const struct g4_fsck *fsck, struct g4_address address);
/* The file whose map is walked has such a page, and does not say that it may: told, and put right. The walk goes on as if it did. */
void g4_fsck_set_sharing(struct g4_fsck *fsck, const struct g4_fsck_where *where, struct g4_address address);
/*
 * After a round that found nothing wrong, with a superblock that was made: where no file has a part of another one's map none may share one
 * any more. True: inodes say that they do, and the next round puts that right.
 */
bool g4_fsck_stop_sharing(struct g4_fsck *fsck);
/*
 * All below an indirect page of `level` was walked, and is `pages` with itself and its pages of sums; `below` is what it says. good:
 * nothing of it is damaged. Told, and put right, where it says something else, or nothing though others rely on it.
 */
void g4_fsck_end_map(struct g4_fsck *fsck, const struct g4_fsck_where *where, struct g4_address address, uint32_t level,
		     uint32_t below, uint64_t pages, bool good);

#endif
