/* SPDX-License-Identifier: Apache-2.0 */
/* What holds the space: superblocks and maps (space.c), slabs where maps know none (hidden.c). */
#ifndef G4_FSCK_SPACE_H
#define G4_FSCK_SPACE_H

#include "fsck/fsck_types.h"

void g4_fsck_superblocks(struct g4_fsck *fsck);
bool g4_fsck_load_maps(struct g4_fsck *fsck);
void g4_fsck_find_slabs(struct g4_fsck *fsck);
void g4_fsck_compare_maps(struct g4_fsck *fsck);

/* Looks for slabs where the maps know none, if that is due and was not done; they join fsck->slabs. True: there are. */
bool g4_fsck_find_hidden(struct g4_fsck *fsck);
/* False: that this inode is alive was concluded from counts that do not tell which ones are. */
bool g4_fsck_is_proven(const struct g4_fsck *fsck, uint64_t ino);
/* An inode that was found by its looks is in doubt, and loses what its maker may have wanted it for. */
void g4_fsck_disarm(struct g4_fsck *fsck, uint64_t ino, const struct g4_fsck_where *where);
/* How many names a directory counted, less those that were taken from it and told, beyond those found. Sums them up. */
uint64_t g4_fsck_missing_names(struct g4_fsck *fsck, const struct g4_inode *inode, uint64_t dropped, uint64_t found);
/* After all rounds: says how many files are lost of which nothing but a count tells. */
void g4_fsck_tell_missing(struct g4_fsck *fsck);

#endif
