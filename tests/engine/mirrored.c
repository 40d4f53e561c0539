/* SPDX-License-Identifier: Apache-2.0 */
#include "mirrored.h"

#include "client/mirror.h"
#include "ring/epochs_host.h"
#include "ring/session_host.h"

void mirrored_begin(struct rig *rig)
{
	const struct g4_session_engine *sessions = g4_engine_sessions(rig->engine);

	rig->epochs = g4_epochs_map(sessions->epochs(sessions->context));
	assert_non_null(rig->epochs);
	rig->mirror = g4c_mirror_new(rig->epochs, G4C_MIRROR_ENTRIES);
	assert_non_null(rig->mirror);
}

void mirrored_end(struct rig *rig)
{
	g4c_mirror_free(rig->mirror);
	g4_epochs_unmap(rig->epochs);
	rig->mirror = NULL;
	rig->epochs = NULL;
}

int mirrored_ask(struct rig *rig, struct g4_cmd *cmd, bool *kept)
{
	const struct g4c_question question = {.start = cmd->node,
					      .generation = cmd->generation,
					      .asks = cmd->op == G4_CMD_GETATTR ? G4C_ASKS_NODE : G4C_ASKS_PATH,
					      .path = cmd->name,
					      .path_bytes = cmd->name_bytes};
	struct g4_trail trail = {0};
	int rc = 0;
	const bool found = g4c_mirror_find(rig->mirror, &question, &rc, cmd->attr, NULL);

	if (kept)
		*kept = found;
	if (found)
		return cmd->status = rc;
	cmd->flags |= G4_LOOK_TRAIL;
	cmd->data = &trail;
	rc = g4_engine_execute(rig->engine, cmd);
	if (rc == 0 || rc == -G4_E_NOENT || rc == -G4_E_ACCES)
		g4c_mirror_put(rig->mirror, &question, rc, rc == 0 ? cmd->attr : NULL, &trail);
	return rc;
}
