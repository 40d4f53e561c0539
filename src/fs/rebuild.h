/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rebuilding a disk of a set while it is mounted: a job. What is copied, and how far that is, is the set's (space/set_rebuild_host.c);
 * the record only shows it. Leader; orders about a rebuild come with jobs->owner, one at a time.
 */
#ifndef G4_REBUILD_H
#define G4_REBUILD_H

#include "fs/command.h"
#include "inode/mounted.h"

/* As g4_scrub_step(). calm: users have nothing to do, or are to wait; else a step makes no more than one part. */
G4_FN int g4_rebuild_step(struct g4_wg *wg, struct g4_fs *fs, struct g4_job_record *record, bool calm);
/* Whether a disk is being rebuilt: -G4_E_NO_TARGET, -G4_E_NOTSUP: none is, or 0 and the record says which and how far. */
G4_FN int g4_rebuild_ask(struct g4_wg *wg, struct g4_fs *fs, struct g4_job_record *record);
/* Of a record of before, when no disk is being rebuilt: whether the one that was has everything now. */
G4_FN bool g4_rebuild_is_done(struct g4_wg *wg, struct g4_fs *fs, const struct g4_job_record *record);
/* The job was told this: one that pauses has its progress durable, one that is cancelled leaves the disk unused. */
G4_FN int g4_rebuild_obey(struct g4_wg *wg, struct g4_fs *fs, uint32_t order);
/* A spare begins to be rebuilt in the place of a disk that has failed, and the record's numbers are those; -G4_E_NO_TARGET: no. */
G4_FN int g4_rebuild_relieve(struct g4_wg *wg, struct g4_fs *fs, struct g4_job_record *record);
/* The command DISK; with REBUILD and REPLACE the record's numbers are those of the beginning. */
G4_FN int g4_rebuild_order(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd, struct g4_job_record *record);

#endif
