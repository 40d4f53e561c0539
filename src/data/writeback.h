/* SPDX-License-Identifier: Apache-2.0 */
/* Writing files: dirty pages, and whole pages past the cache. The in-core inode is write-locked. Leader. */
#ifndef G4_WRITEBACK_H
#define G4_WRITEBACK_H

#include "inode/mounted.h"

/* Writes an inode's dirty pages and publishes them. */
G4_FN int g4_writeback(struct g4_wg *wg, struct g4_fs *fs, uint32_t index);
/* The same in the middle of a change that maps more: nothing of it becomes inline data. */
G4_FN int g4_writeback_mapped(struct g4_wg *wg, struct g4_fs *fs, uint32_t index);
/*
 * Writes pages straight from memory and publishes them: whole pages, memory that the space takes. *done: pages that are written,
 * also when it fails.
 */
G4_FN int g4_write_direct(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t page, const uint8_t *from,
			  uint64_t pages, uint64_t new_size, uint64_t *done);

#endif
