/* SPDX-License-Identifier: Apache-2.0 */
/* RESTRIPE: pages of a file come to lie where its policy says. */
#include "data/restripe.h"
#include "fs/commands.h"
#include "fs/node.h"
#include "inode/icache.h"
#include "inode/txn.h"

#define STEPS 8u /* each under the lock for itself: 16 MiB together */

G4_FN static int step(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, struct g4_restripe *restripe)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	int rc;

	g4_icache_lock(fs, inode); /* what is dirty may go into the inode first, and the change count rises */
	if (inode->dead)
		rc = -G4_E_STALE;
	else if (!g4_is_reg(inode->disk.mode))
		rc = g4_is_dir(inode->disk.mode) ? -G4_E_ISDIR : -G4_E_INVAL;
	else
		rc = g4_restripe_step(wg, fs, index, restripe);
	g4_write_unlock(&inode->lock);
	return rc;
}

G4_FN int g4_do_restripe(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	struct g4_restriped *told = (struct g4_restriped *)cmd->data;
	struct g4_restripe done = {0};
	uint32_t i;

	if (cmd->handle && !(g4_handle_flags(cmd->handle) & G4_OPEN_WRITE) && !(cmd->flags & G4_RESTRIPE_LOOK))
		return -G4_E_BADF;
	if (cmd->length < sizeof(*told) || (cmd->flags & ~G4_RESTRIPE_LOOK) || cmd->offset > G4_FILE_MAX_BYTES)
		return -G4_E_INVAL;
	done.looks = (cmd->flags & G4_RESTRIPE_LOOK) != 0;
	done.page = cmd->offset / G4_PAGE_BYTES;
	int rc = g4_icache_get_target(wg, fs, cmd, &i);
	if (rc < 0)
		return g4_check(fs, rc);
	for (uint32_t n = 0; n < STEPS && rc == 0 && done.page != UINT64_MAX; n++)
		rc = step(wg, fs, i, &done);
	g4_icache_put(fs, i);
	if (rc < 0 && done.page > cmd->offset / G4_PAGE_BYTES)
		rc = 0; /* what has been done is told; what fails, by the next command */
	told->next = done.page == UINT64_MAX ? 0 : done.page * G4_PAGE_BYTES;
	told->moved = done.moved * G4_PAGE_BYTES;
	told->shared = done.shared * G4_PAGE_BYTES;
	told->damaged = done.damaged * G4_PAGE_BYTES;
	cmd->value = sizeof(*told);
	return g4_check(fs, rc);
}
