/* SPDX-License-Identifier: Apache-2.0 */
/* Writing files: dirty pages, and whole pages past the cache. The in-core inode is write-locked. Leader. */
#ifndef G4_WRITEBACK_H
#define G4_WRITEBACK_H

#include "inode/mounted.h"

struct g4_stage_ahead;

/* Writes an inode's dirty pages and publishes them. */
G4_FN int g4_writeback(struct g4_wg *wg, struct g4_fs *fs, uint32_t index);
/* The same in the middle of a change that maps more: nothing of it becomes inline data. */
G4_FN int g4_writeback_mapped(struct g4_wg *wg, struct g4_fs *fs, uint32_t index);
/* At most so many files are written back together, and of so many dirty pages each. */
#define G4_TOGETHER_FILES 16u
#define G4_TOGETHER_PAGES 16u
/* Whether a write-locked inode is a file of those that go together. */
G4_FN bool g4_writeback_is_small(const struct g4_inode_core *inode);
/*
 * The same as g4_writeback() for up to G4_TOGETHER_FILES inodes, none of which is there twice, all write-locked: dirty pages of a
 * file that has few of them go to the device together with those of others. results: of each; 0 for dead ones, which are left.
 */
G4_FN void g4_writeback_together(struct g4_wg *wg, struct g4_fs *fs, const uint32_t *indices, uint32_t count,
				 int *results);
/*
 * Writes pages straight from memory and publishes them: whole pages, memory that the space takes, or any where they are looked for
 * (g4_dedup_wanted() with this wish). *done: pages that are written, also when it fails.
 */
G4_FN int g4_write_direct(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t page, const uint8_t *from,
			  uint64_t pages, uint64_t new_size, uint32_t wish, struct g4_stage_ahead *ahead,
			  uint64_t *done);

#endif
