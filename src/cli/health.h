/* SPDX-License-Identifier: Apache-2.0 */
/* What the server of a mounted file system knows of damage that was met. */
#ifndef G4_CLI_HEALTH_H
#define G4_CLI_HEALTH_H

#include "fs/command.h"

/* False: nothing is mounted at `directory` (which may be NULL), its server does not answer, or it is not this user's to ask. */
bool g4_cli_mount_health(const char *directory, struct g4_health *out);

#endif
