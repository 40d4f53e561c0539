/* SPDX-License-Identifier: Apache-2.0 */
/* What a rig is told of names and inodes, kept as the library keeps it (client/mirror.h), with or without G4_TEST_MIRROR. */
#ifndef MIRRORED_H
#define MIRRORED_H

#include "rig.h"

/* Of a mounted engine: rig->mirror. Copies of the rig share it. */
void mirrored_begin(struct rig *rig);
void mirrored_end(struct rig *rig);
/* A LOOKUP or GETATTR of who the rig acts for, always the same. *kept (may be NULL): no command was run for it. */
int mirrored_ask(struct rig *rig, struct g4_cmd *cmd, bool *kept);

#endif
