/* SPDX-License-Identifier: Apache-2.0 */
/* What the server of a mounted file system knows of damage that was met, and of deduplication. */
#ifndef G4_CLI_HEALTH_H
#define G4_CLI_HEALTH_H

#include "fs/command.h"

/* False: nothing is mounted at `directory` (which may be NULL), its server does not answer, or it is not this user's to ask. */
bool g4_cli_mount_health(const char *directory, struct g4_health *out);
/* DEDUP there: an order of enum g4_dedup_order. 0; a negative errno; or what the command came to, its code in *status. */
int g4_cli_mount_dedup(const char *directory, uint32_t order, uint64_t group, struct g4_dedup_counts *out, int *status);

#endif
