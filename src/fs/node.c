/* SPDX-License-Identifier: Apache-2.0 */
/* The in-core inode that a command is about. */
#include "fs/node.h"
#include "inode/icache.h"

G4_FN static int get_generation(struct g4_wg *wg, struct g4_fs *fs, uint64_t ino, uint32_t generation, uint32_t *index)
{
	int rc = g4_icache_get(wg, fs, ino, index);

	if (rc < 0)
		return rc;
	const struct g4_inode_core *inode = g4_icache_at(fs, *index);
	/* one that was removed, and of which not all could go, is in core, but nobody's: nothing leads there but its number */
	if ((generation != 0 && inode->disk.generation != generation) || g4_load8_rlx(&inode->left)) {
		g4_icache_put(fs, *index);
		return -G4_E_STALE;
	}
	return 0;
}

G4_FN int g4_icache_get_node(struct g4_wg *wg, struct g4_fs *fs, const struct g4_cmd *cmd, uint32_t *index)
{
	return get_generation(wg, fs, cmd->node, cmd->generation, index);
}

G4_FN int g4_icache_get_node2(struct g4_wg *wg, struct g4_fs *fs, const struct g4_cmd *cmd, uint32_t *index)
{
	return get_generation(wg, fs, cmd->node2, cmd->generation2, index);
}

G4_FN int g4_icache_get_target(struct g4_wg *wg, struct g4_fs *fs, const struct g4_cmd *cmd, uint32_t *index)
{
	if (cmd->handle == 0)
		return g4_icache_get_node(wg, fs, cmd, index);
	*index = g4_handle_index(cmd->handle);
	if (*index >= fs->icache.count || g4_load32_acq(&g4_icache_at(fs, *index)->opens) == 0)
		return -G4_E_BADF;
	g4_icache_ref(fs, *index);
	return 0;
}
