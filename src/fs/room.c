/* SPDX-License-Identifier: Apache-2.0 */
/* Making room for an operation that found none. */
#include "fs/room.h"
#include "fs/jobs.h"
#include "fs/sync.h"
#include "inode/txn.h"

G4_FN G4_COLD bool g4_fs_make_room(struct g4_wg *wg, struct g4_fs *fs, uint32_t op, int status)
{
	switch (-status) {
	case G4_E_NOSPC: /* removed files and reservations may hold it */
		if (!(g4_command_is(op, G4_CHANGES) || op == G4_CMD_CREATE) || op == G4_CMD_RESIZE)
			return false;
		if (g4_jobs_give_room(wg, fs)) /* and a rebalancing */
			return true;
		/* a commit may have come between the operation's look and this one: what it freed is free now */
		if (!g4_load64_acq(&fs->alloc.pending_pages) && !g4_load64_rlx(&fs->dirty_pages))
			return g4_alloc_free_all(&fs->alloc) > 0;
		(void)g4_writeback_all(wg, fs); /* what can not be written is told to who syncs it */
		return g4_commit(wg, fs, UINT64_MAX, false) == 0;
	case G4_E_NFILE: /* inodes stay in memory until they are written back */
		if (!g4_load32_rlx(&fs->queued_inodes))
			return false;
		(void)g4_writeback_all(wg, fs);
		return true;
	default:
		return false;
	}
}
