/* SPDX-License-Identifier: Apache-2.0 */
/* What the server of a mounted file system knows of damage that was met, and of deduplication. */
#ifndef G4_CLI_HEALTH_H
#define G4_CLI_HEALTH_H

#include "fs/command.h"

/* Of a path that is no mount: whether it is a directory, and no device. Then it said that nothing is mounted there, or that the server has ended. */
bool g4_cli_no_mount(const char *command, const char *path);
/* False: nothing is mounted at `directory` (which may be NULL), its server does not answer, or it is not this user's to ask. */
bool g4_cli_mount_health(const char *directory, struct g4_health *out);
/* DEDUP there: an order of enum g4_dedup_order, of a group or of bytes. 0; a negative errno; or what the command came to, its code in *status. */
int g4_cli_mount_dedup(const char *directory, uint32_t order, uint64_t group, struct g4_dedup_counts *out, int *status);
/* The newest job of a kind, or NULL. */
const struct g4_job_record *g4_cli_last_job(const struct g4_health *health, uint32_t kind);
bool g4_cli_job_is_over(const struct g4_job_record *job);
const char *g4_cli_job_state(const struct g4_job_record *job);
/*
 * The devices of the file system that is mounted at `directory`, as one name: those that its server uses now, which may be others than
 * the kernel tells; with `all` those that the kernel tells, `source`, as well. It is g4_cli_keep()'s, or `source`.
 */
const char *g4_cli_mount_disks(const char *directory, const char *source, bool all);
/* Whether the server of a mount has a device, by this name, as a disk or a spare. True as well: it does not tell. */
bool g4_cli_mount_uses(const char *directory, const char *name);

#endif
