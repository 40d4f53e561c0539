/* SPDX-License-Identifier: Apache-2.0 */
/* A lane alone looks names up without a lock. */
#include "fs/glance.h"

G4_FN bool g4_glance_alone(const struct g4_fs *fs, const struct g4_cmd *cmd)
{
	struct g4_glance_room room;

	g4_glance_furnish(&room, fs);
	return g4_glance(false, NULL, &room, fs, cmd, g4_glance_trusts(cmd->cred));
}
