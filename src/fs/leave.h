/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk of a set is removed while it is mounted: a job. What is moved where is the set's (space/set_leave_host.c), which is told what is in use
 * and what can be given up. The record has the disk's UUID. Leader, with jobs->owner.
 */
#ifndef G4_LEAVE_H
#define G4_LEAVE_H

#include "fs/command.h"
#include "inode/mounted.h"

/* As g4_scrub_step(). */
G4_FN int g4_leave_step(struct g4_wg *wg, struct g4_fs *fs, struct g4_job_record *record);
/* The command DISK with REMOVE: whether it can be done, else a sentence in the command's memory; and the record's numbers. */
G4_FN int g4_leave_order(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd, struct g4_job_record *record);

#endif
