/* SPDX-License-Identifier: Apache-2.0 */
/* The in-core inode that a command is about. Leader; what is found is referenced. */
#ifndef G4_NODE_H
#define G4_NODE_H

#include "fs/command.h"
#include "inode/mounted.h"

/* Handles name an open in-core inode: index and open flags. */
G4_FN G4_INLINE uint64_t g4_handle_make(uint32_t index, uint32_t flags)
{
	return (uint64_t)(index + 1) << 32 | (flags & 0xffffu);
}

G4_FN G4_INLINE uint32_t g4_handle_index(uint64_t handle)
{
	return (uint32_t)(handle >> 32) - 1;
}

G4_FN G4_INLINE uint32_t g4_handle_flags(uint64_t handle)
{
	return (uint32_t)(handle & 0xffffu);
}

/* The inode of a command's node or node2, in its right generation. */
G4_FN int g4_icache_get_node(struct g4_wg *wg, struct g4_fs *fs, const struct g4_cmd *cmd, uint32_t *index);
G4_FN int g4_icache_get_node2(struct g4_wg *wg, struct g4_fs *fs, const struct g4_cmd *cmd, uint32_t *index);
/* The inode that a command names by handle or number. */
G4_FN int g4_icache_get_target(struct g4_wg *wg, struct g4_fs *fs, const struct g4_cmd *cmd, uint32_t *index);

#endif
