/* SPDX-License-Identifier: Apache-2.0 */
/* A lane alone looks names up without a lock. */
#include "fs/optimistic.h"

G4_FN bool g4_optimistic_alone(const struct g4_fs *fs, const struct g4_cmd *cmd)
{
	struct g4_optimistic_memory room;

	g4_optimistic_furnish(&room, fs);
	return g4_optimistic_lookup(false, NULL, &room, fs, cmd, g4_is_root(cmd->cred));
}
