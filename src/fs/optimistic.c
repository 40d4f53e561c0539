/* SPDX-License-Identifier: Apache-2.0 */
/* A lane alone looks names up without a lock. */
#include "fs/optimistic.h"

G4_FN bool g4_optimistic_alone(const struct g4_fs *fs, const struct g4_cmd *cmd)
{
	struct g4_optimistic_memory memory;

	g4_optimistic_furnish(&memory, fs);
	return g4_optimistic_lookup(false, NULL, &memory, fs, cmd, g4_is_root(cmd->cred));
}
