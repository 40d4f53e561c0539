/* SPDX-License-Identifier: Apache-2.0 */
/* What an inode is and owns: slabs (slab.c), inodes (inode.c), pages of directories (dir.c), sums (sums.c). */
#ifndef G4_FSCK_INODE_H
#define G4_FSCK_INODE_H

#include "fsck/fsck_types.h"

/* The slab's cell, verified at the first call, or NULL for lack of memory. */
struct g4_fsck_cell *g4_fsck_slab(struct g4_fsck *fsck, uint64_t page, const struct g4_fsck_where *where);
enum g4_fsck_met { G4_FSCK_FIRST, G4_FSCK_AGAIN, G4_FSCK_UNUSABLE };
/* Looks an inode up and marks it met. UNUSABLE: the problem, if where is given, was reported. */
enum g4_fsck_met g4_fsck_meet(struct g4_fsck *fsck, uint64_t ino, const struct g4_fsck_where *where,
			      struct g4_inode *inode);
/*
 * Everything that an inode owns: map or directory pages, attributes, page count. Of a directory it also collects the
 * entries. False when something is damaged, so that counts prove nothing.
 */
bool g4_fsck_contents(struct g4_fsck *fsck, uint64_t ino, const struct g4_inode *inode,
		      const struct g4_fsck_where *where);

/* Checks the pages of a directory, counts them in *pages, collects the entries. False when some could not be read. */
bool g4_fsck_read_directory(struct g4_fsck *fsck, const struct g4_inode *inode, const struct g4_fsck_where *where,
			    uint64_t *pages);

/* The pages of sums of the indirect page that an item led to. *pages grows by those that count. False: something is damaged. */
bool g4_fsck_sums_pages(struct g4_fsck *fsck, const struct g4_fsck_where *where, const struct g4_map_item *item,
			const struct g4_sums_places *places, uint64_t *pages);
/* The same of those that the entry of a large page leads to, an item of the file's map. */
bool g4_fsck_sums_large(struct g4_fsck *fsck, const struct g4_inode *inode, const struct g4_fsck_where *where,
			const struct g4_map_item *item, uint64_t *pages);
/* The block of sums of an inode. */
bool g4_fsck_sums_block(struct g4_fsck *fsck, const struct g4_inode *inode, const struct g4_fsck_where *where);
/*
 * Reads a page of sums, for the slots of a quarter of an indirect page of `level`. With `large` it must be what this entry of a large
 * page says.
 */
int g4_fsck_read_sums(struct g4_image *image, struct g4_address address, uint64_t ino, uint32_t level, uint32_t quarter,
		      const struct g4_sum_entry *large, struct g4_sums_page *page);
/* The same of the block of an inode; zeros where it has none. */
int g4_fsck_read_block(struct g4_image *image, const struct g4_inode *inode, struct g4_sums_block *block);
/* The cell of a slab of such blocks, verified at the first call, or NULL for lack of memory. */
struct g4_fsck_cell *g4_fsck_blocks(struct g4_fsck *fsck, uint64_t page);
/* At the end: blocks that no inode has. */
void g4_fsck_unmet_blocks(struct g4_fsck *fsck);

#endif
