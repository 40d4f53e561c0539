/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of sets with parity, which a scrub compares when all else is whole. A set knows metadata and no sums: of a row of contents that
 * does not fit with one parity it cannot tell whether that or a page has rotted. The scrub can, and tells it:
 *
 *     compare all rows ──► which pages must be known? ──► the tree once more, these pages of files ──► compare those rows again
 *                          (G4_ORDER_ROWS_ASK, _NEXT)     alone: read, compared with their sums,        with what is known; what does
 *                                                         and their prints told (_TELL)                not fit still is a finding
 *
 * A print is compared with the very page that parity is made of or that parity makes, so nothing rots in between. A page that nobody has,
 * or that is reserved and not written, is told as that. What is asked for beyond G4_SCRUB_ASKED pages, and contents without sums, stay findings. Leader.
 */
#ifndef G4_SCRUB_ROWS_H
#define G4_SCRUB_ROWS_H

#include "fs/scrub_look.h"

G4_FN bool g4_scrub_has_rows(const struct g4_fs *fs);
/* Some rows from *at on. 1: all are through, or as many as can be noted; scrub->again: some pages are asked for then. 0: more. */
G4_FN int g4_scrub_compare_rows(struct g4_scrub_step *step, uint64_t *at);
/*
 * Pages in a row of a file, at most G4_SCRUB_PAGES are read: so many from the first on are done with, those that are asked for have been
 * read, and told if they are what their sums say. The inode is locked.
 */
G4_FN uint64_t g4_scrub_read_asked(struct g4_scrub_step *step, const struct g4_inode_core *inode, uint64_t page,
				   struct g4_address address, uint64_t pages);
/*
 * Pages in a row that are reserved for a file and have no contents yet: what they hold is nobody's. The inode is locked, so that who writes them does
 * so behind this, and makes what was told unknown.
 */
G4_FN void g4_scrub_tell_reserved(struct g4_scrub_step *step, struct g4_address address, uint64_t pages);
/*
 * Some of the rows that did not fit, from the one with number *at on, with what is known now. 1: all is through; 2: the comparison goes on
 * at *at, from which on nothing was compared, since no more could be noted. Where the tree had damage this time nothing is compared any more,
 * as where it had some the first time: what of it can not be read would be written again as something else.
 */
G4_FN int g4_scrub_mend_rows(struct g4_scrub_step *step, uint64_t *at);

#endif
