/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading what an operation will need before it changes anything, so that a device that does not give some of it stops that operation and not the
 * journal (DESIGN.md, "Inodes and removal"). The in-core inode is locked for writing. No transaction is needed. Leader.
 */
#ifndef G4_UNREADABLE_H
#define G4_UNREADABLE_H

#include "inode/mounted.h"

/* What releasing a large page of level 1, and its pages of sums, asks for: how many owners they have. */
G4_FN int g4_look_at_large(struct g4_wg *wg, struct g4_fs *fs, g4_ptr ptr, const struct g4_sum_entry *entry);
/* The pages of sums that g4_sums_write() changes for pages of the file, whose indirect page is in `line`. What is damaged is replaced. */
G4_FN int g4_look_at_sums(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint32_t line,
			  uint64_t page, uint64_t pages);
/* What g4_map_clear() will need from a page of the file on; `sums`: and what moving pages needs. */
G4_FN int g4_map_look(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page, bool sums);
/* The same up to `end`. */
G4_FN int g4_map_look_range(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page,
			    uint64_t end, bool sums);
/* What tells how many owners pages of data in a row have. */
G4_FN int g4_look_at_run(struct g4_wg *wg, struct g4_fs *fs, struct g4_address address, uint64_t pages);
/*
 * Before the copy of the indirect page of level 1 or 2 that a way has ended at: its pages of sums, and what tells how many owners all has that hangs there,
 * several with one wait. What has left the cache by the time that it is asked for again is read in the transaction; a copy that fails there is taken back.
 */
struct g4_path;
G4_FN int g4_look_at_copy(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode,
			  const struct g4_path *path);

#endif
