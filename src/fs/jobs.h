/* SPDX-License-Identifier: Apache-2.0 */
/* The registry of background jobs. Leader, thread-safe. */
#ifndef G4_JOBS_H
#define G4_JOBS_H

#include "fs/command.h"
#include "inode/mounted.h"

/* ---- commands: DISK, JOB_START, JOB_SET, JOB_LIST ---- */
G4_FN int g4_disk_order(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);
G4_FN int g4_job_start(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);
G4_FN int g4_job_set(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);
G4_FN int g4_job_list(struct g4_fs *fs, struct g4_cmd *cmd);

/* The flags of g4_statfs and g4_health: 1: read-only, 2: shut down after an error. */
G4_FN G4_INLINE uint32_t g4_fs_state(const struct g4_fs *fs)
{
	return (fs->flags & G4_FS_READ_ONLY ? 1u : 0) | (g4_load32_acq(&fs->journal.aborted) ? 2u : 0);
}

/*
 * For workgroups that have nothing else to do and are in no operation: a step of a job that runs, if one is due. How many nanoseconds
 * later to ask again, 0: at once; UINT64_MAX: none runs, and fs->jobs.changed changes when one does. idle: no user's command is under way.
 */
G4_FN uint64_t g4_jobs_serve(struct g4_wg *wg, struct g4_fs *fs, bool idle);
/*
 * Leader, in no operation, for a command that found no room: free space that a rebalancing has taken is given back, and for a moment it takes
 * no more. False: it had none, or can not give it back yet.
 */
G4_FN bool g4_jobs_give_room(struct g4_wg *wg, struct g4_fs *fs);
/*
 * For who commits in the background, when that is done: a disk that has failed was met by then, and the next g4_jobs_serve() lets a
 * spare take its place.
 */
G4_FN void g4_jobs_look(struct g4_fs *fs);
/* At the mount: records that are not valid are left out. */
G4_FN int g4_jobs_load(struct g4_wg *wg, struct g4_fs *fs);
/* Records, findings and the count of damage into the running transaction, if they differ from what was logged last. */
G4_FN int g4_jobs_log(struct g4_wg *wg, struct g4_fs *fs);

#endif
