/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of a snapshot as a tar archive on standard output: POSIX.1-2001 (pax), as pax(1) describes it, so names, sizes, owners and times have no
 * limits; extended attributes as star and GNU tar have them (SCHILY.xattr.*), access control lists also as text (SCHILY.acl.access, .default). An
 * error of standard output is its reader's, ferror() tells.
 */
#ifndef SHREDDER_CLI_TAR_H
#define SHREDDER_CLI_TAR_H

#include "store/tree.h"

struct cli_tar; /* remembers files with several names */
struct cli_tar *cli_tar_new(void);
void cli_tar_free(struct cli_tar *tar);
/* The header of an entry, which is no socket. True: node->size bytes of contents follow, then cli_tar_pad(). */
bool cli_tar_header(struct cli_tar *tar, const char *path, const struct store_node *node);
void cli_tar_pad(uint64_t bytes);
/* Behind the last entry. */
void cli_tar_end(void);

#endif
