/* SPDX-License-Identifier: Apache-2.0 */
/* What writing, cutting and allocating share. The in-core inode is write-locked. Leader. */
#ifndef G4_WRITE_H
#define G4_WRITE_H

#include "inode/mounted.h"

/* The whole of an inline file's data becomes page 0, dirty. */
G4_FN int g4_inline_load(struct g4_wg *wg, struct g4_fs *fs, uint32_t index);
/* The same, and written back to a page, whatever the size. */
G4_FN int g4_inline_leave(struct g4_wg *wg, struct g4_fs *fs, uint32_t index);
/* Copies into one page; from NULL: zeros. */
G4_FN int g4_page_write(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t page, uint64_t inside,
			const void *from, uint64_t bytes);
/* The file gets larger, to what reads as zeros. */
G4_FN int g4_file_grow(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t size);

#endif
