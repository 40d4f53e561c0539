/* SPDX-License-Identifier: Apache-2.0 */
/* Space for what will be written. The in-core inode is write-locked. Leader. */
#ifndef G4_RESERVE_H
#define G4_RESERVE_H

#include "data/map_own.h"
#include "inode/mounted.h"

/* Written pages need less than was reserved, and space freed in the running transaction helps once that is durable. */
G4_FN int g4_make_room(struct g4_wg *wg, struct g4_fs *fs, uint32_t index);
/* Before a command changes pages: g4_map_own_for(), with room made for the copies where there is none. */
G4_FN int g4_own_for(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, const struct g4_change *change);
/* The same of pages that are mapped anew. */
G4_FN int g4_own_pages(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t page, uint64_t pages);
/* The same before what is there from `page` to `end` (UINT64_MAX: of the file) goes. */
G4_FN int g4_own_ends(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t page, uint64_t end);
/*
 * Puts a referenced line on the dirty list and reserves the space that writing it back may take, so that only this can
 * fail with -G4_E_NOSPC.
 */
G4_FN int g4_page_dirty(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint32_t line);
/*
 * Space for writing *pages pages from `page` on past the cache, or for fewer of them where that is all there is. *reserved: what
 * was reserved, and *pooled beside it in the pool of the file's level, for the pages themselves, if that is not OWN.
 */
G4_FN int g4_reserve_direct(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t page, uint64_t *pages,
			    uint64_t *reserved, uint64_t *pooled);
/* The same, halves of it down to a page where there is no room for more: what is found gives back what was reserved for it. */
G4_FN int g4_reserve_staged(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t page, uint64_t *pages,
			    uint64_t *reserved, uint64_t *pooled);

/* The same for pages that have space, which they are to leave: it is of no use, so -G4_E_NOSPC where there is no other. */
G4_FN int g4_reserve_elsewhere(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t page, uint64_t *pages,
			       uint64_t *reserved, uint64_t *pooled);

#endif
