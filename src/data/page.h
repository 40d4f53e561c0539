/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of files in the cache. The in-core inode is locked. Leader. */
#ifndef G4_PAGE_H
#define G4_PAGE_H

#include "data/map.h"

#define G4_FILL_MAX_PAGES 128u /* one request through the cache */

/* References page `page` of a file as a line, which is busy where it is *fresh (cache.h). */
G4_FN int g4_page_line(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
		       uint32_t *line, bool *fresh);
/* References page `page` of a file as a cached line with its contents; zeros beyond what is stored. */
G4_FN int g4_page_get(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page, uint32_t *line);
/*
 * Reads mapped pages into the cache from `page` on, as many of the run as are not there yet and fit one request; *pages
 * of them. *first is the line of `page`, referenced: a line of the overflow pool would be gone with the last reference.
 * G4_NO_LINE: all lines that it could have are in use. Read-locked.
 */
G4_FN int g4_fill_run(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page,
		      const struct g4_run *run, uint32_t *first, uint32_t *pages);
/* Pages from `page` on, at most `most`, that are not cached. */
G4_FN uint64_t g4_pages_absent(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
			       uint64_t most);

#endif
