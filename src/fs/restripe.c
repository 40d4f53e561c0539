/* SPDX-License-Identifier: Apache-2.0 */
/* RESTRIPE: pages of a file come to lie where its policy says. */
#include "data/file.h"
#include "fs/commands.h"
#include "inode/inode.h"

#define WINDOWS 8u /* of 2 MiB, each under the lock for itself */

G4_FN int g4_do_restripe(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	struct g4_restriped *told = (struct g4_restriped *)cmd->data;
	uint64_t next = cmd->offset;
	uint32_t i;

	if (cmd->handle && !(g4_handle_flags(cmd->handle) & G4_OPEN_WRITE))
		return -G4_E_BADF;
	if (cmd->length < sizeof(*told) || cmd->offset > G4_FILE_MAX_BYTES)
		return -G4_E_INVAL;
	memset(told, 0, sizeof(*told));
	int rc = g4_icache_get_target(wg, fs, cmd, &i);
	if (rc < 0)
		return g4_check(fs, rc);
	struct g4_inode_core *inode = g4_icache_at(fs, i);
	for (uint32_t n = 0; n < WINDOWS && rc == 0 && (n == 0 || next > 0); n++) {
		g4_write_lock(&inode->lock); /* nothing changes of what attributes tell */
		if (inode->dead)
			rc = -G4_E_STALE;
		else if (!g4_is_reg(inode->disk.mode))
			rc = g4_is_dir(inode->disk.mode) ? -G4_E_ISDIR : -G4_E_INVAL;
		else
			rc = g4_file_restripe(wg, fs, i, &next, told);
		g4_write_unlock(&inode->lock);
	}
	g4_icache_put(fs, i);
	told->next = next;
	cmd->value = sizeof(*told);
	/* what comes next is told by the next command */
	return rc < 0 && told->moved + told->shared + told->damaged > 0 && next > cmd->offset ? 0 : g4_check(fs, rc);
}
