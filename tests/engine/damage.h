/* SPDX-License-Identifier: Apache-2.0 */
/* Changing structures of a rig's image that nobody has mounted, with right checksums. */
#ifndef DAMAGE_H
#define DAMAGE_H

#include "rig.h"

struct g4_inode *damage_inode(struct rig *rig, uint64_t ino);
/* Puts the checksum of the page that `address` lies in right; its generation stays. No indirect page. */
void damage_seal(struct rig *rig, uint64_t address);
/* The entry for an inode in the only leaf of a directory, whose address goes to *leaf; the test fails without one. */
struct g4_dir_entry *damage_entry(struct rig *rig, uint64_t dir, uint64_t ino, uint64_t *leaf);
/* Takes that entry away; the directory's count stays. */
void damage_drop_name(struct rig *rig, uint64_t dir, uint64_t ino);
/* The map of the group that a page is in. */
struct g4_alloc_page *damage_map(struct rig *rig, uint64_t address);
/* The map calls a page free that it called used, and no slab; with `counts` the descriptor counts that, too. */
void damage_free_page(struct rig *rig, uint64_t address, bool counts);

#endif
