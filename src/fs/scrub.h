/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a scrub: a job that reads all that is in use, past the cache, and says what is not as it was written. Leader. */
#ifndef G4_SCRUB_H
#define G4_SCRUB_H

#include "inode/mounted.h"

/*
 * A step from the record's cursor on; the record is the caller's own copy. 1: that was the last, 0: there are more, or a negative code:
 * it can not go on. Nothing is locked, and outside of a transaction.
 */
G4_FN int g4_scrub_step(struct g4_wg *wg, struct g4_fs *fs, struct g4_job_record *record);
/* Before the first step: of one inode alone, and what is below it. -G4_E_NOENT: there is none. Outside of a transaction. */
G4_FN int g4_scrub_limit(struct g4_wg *wg, struct g4_fs *fs, uint64_t ino, struct g4_job_record *record);
/* From now on, until g4_scrub_leave(), inodes that get another name are noted. skipped: those that were not, before. */
G4_FN void g4_scrub_watch(struct g4_fs *fs, uint64_t skipped);
/* Nobody goes on with it: gives back what it has referenced. */
G4_FN void g4_scrub_leave(struct g4_fs *fs);
/* An inode has got another name; its directories are locked. */
G4_FN void g4_scrub_moved(struct g4_fs *fs, uint32_t index);

#endif
