/* SPDX-License-Identifier: Apache-2.0 */
/* Repairs: changes of one page each, made at once. */
#ifndef G4_FSCK_FIX_H
#define G4_FSCK_FIX_H

#include "fsck/fsck_types.h"

/* The page's patch, to be sealed after the change; NULL: out of memory, fatal. */
uint8_t *g4_fsck_edit(struct g4_fsck *fsck, struct g4_address address);
/* Writes header and checksum of a page that is no indirect one. */
void g4_fsck_seal(struct g4_fsck *fsck, struct g4_address address, uint32_t type);
/* An inode to be changed in its slab's patch; call g4_fsck_seal_inode() after. NULL: out of memory. */
struct g4_inode *g4_fsck_edit_inode(struct g4_fsck *fsck, uint64_t ino);
void g4_fsck_seal_inode(struct g4_fsck *fsck, uint64_t ino);
/* Puts right what can be told from the inode alone and the type that an entry names. False: nothing can be saved. */
bool g4_fsck_mend_inode(struct g4_fsck *fsck, uint64_t ino, struct g4_inode *inode, const struct g4_fsck_where *where);
void g4_fsck_free_slot(struct g4_fsck *fsck, uint64_t ino);
void g4_fsck_set_pointer(struct g4_fsck *fsck, uint64_t ino, const struct g4_fsck_spot *spot, g4_ptr ptr);
/* Takes a pointer out of a map; what it led to is lost. */
void g4_fsck_cut(struct g4_fsck *fsck, const struct g4_fsck_where *where, const struct g4_map_item *item);
void g4_fsck_drop_entry(struct g4_fsck *fsck, const struct g4_fsck_where *where);
void g4_fsck_retype_entry(struct g4_fsck *fsck, const struct g4_fsck_where *where, uint32_t file_type);
/* The slab in a damaged page: slots that hold inodes go into a patch. 0, or `status` when there are none. */
int g4_fsck_salvage_slab(struct g4_fsck *fsck, uint64_t page, int status, struct g4_slab_header *slab);
/* An inode of a new directory, made now. */
void g4_fsck_empty_directory(struct g4_inode *inode, uint32_t permissions, uint64_t parent);
/* A root directory, empty, where mkfs puts it. */
uint64_t g4_fsck_make_root(struct g4_fsck *fsck);
bool g4_fsck_is_touched(const struct g4_fsck *fsck, uint64_t ino);

#endif
