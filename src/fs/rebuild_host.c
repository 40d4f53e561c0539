/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rebuilding offline: the same steps as online, on a file system that is mounted here for this alone, so that they know what is in
 * use. What a crash leaves is that of a mount that was rebuilding.
 */
#include "fs/rebuild_host.h"

#include <stdio.h>

#include "base/log_host.h"
#include "fs/mount_host.h"
#include "fs/rebuild.h"
#include "simt/simt_host.h"
#include "task/job.h"

#define CACHE_BYTES (64 * G4_MIB)

static int step_to_end(struct g4_wg *wg, struct g4_fs *fs, struct g4_progress *progress)
{
	struct g4_job_record record = {.kind = G4_JOB_REBUILD};
	int rc;

	do {
		rc = g4_rebuild_step(wg, fs, &record, true);
		if (progress)
			g4_progress_step(progress, record.done * G4_PAGE_BYTES, record.units * G4_PAGE_BYTES);
	} while (rc == 0);
	return rc;
}

/* Why its maps may not say all that is in use; NULL: they do. */
static const char *doubt(const struct g4_fs *fs)
{
	if (fs->super.state & G4_STATE_ERROR)
		return "the file system had errors that fsck has not repaired yet";
	if (fs->flags & G4_FS_READ_ONLY)
		return "the file system can only be mounted read-only";
	return NULL;
}

/* 1: nobody knows what is in use, which is told, and nothing was done. */
static int rebuild_mounted(struct g4_wg *wg, struct g4_dev *set, struct g4_progress *progress, uint32_t disk,
			   char *message, size_t message_bytes)
{
	const struct g4_fs_options options = {.cache_bytes = CACHE_BYTES};
	struct g4_fs *fs;

	if (g4_fs_mount(wg, set, &options, &fs, message, message_bytes) < 0) {
		g4_log(G4_LOG_WARN, "all of disk %u is copied: %s", disk, message);
		return 1;
	}
	const char *why = doubt(fs);
	if (why) {
		g4_log(G4_LOG_WARN, "all of disk %u is copied: %s", disk, why);
		(void)g4_fs_unmount(wg, fs, true); /* whatever it meets, as if it could not be mounted */
		return 1;
	}
	const int rc = step_to_end(wg, fs, progress), unmounted = g4_fs_unmount(wg, fs, true);
	if (rc < 0)
		snprintf(message, message_bytes, "disk %u could not be written: %s", disk, g4_strerror(rc));
	else if (unmounted < 0)
		snprintf(message, message_bytes, "disk %u is up to date, and then: %s", disk, g4_strerror(unmounted));
	return rc < 0 ? rc : unmounted;
}

int g4_rebuild_offline(const char *const *names, uint32_t count, bool rebuild, struct g4_progress *progress,
		       uint32_t *disk, char *message, size_t message_bytes)
{
	struct g4_dev *set = NULL;
	int rc = g4_set_rebuild_open(names, count, rebuild, g4_fs_settle_rows, &set, disk, message, message_bytes);

	if (rc < 0)
		return rc;
	struct g4_wg *wg = g4_wg_create(0);
	rc = wg ? rebuild_mounted(wg, set, progress, *disk, message, message_bytes) : 1;
	if (wg)
		g4_wg_destroy(wg);
	if (rc > 0)
		rc = g4_set_rebuild_all(set, progress, message, message_bytes);
	g4_dev_close(set);
	return rc;
}
