/* SPDX-License-Identifier: Apache-2.0 */
/* A mount whose engine serves programs over a socket as well: share.c. */
#ifndef G4_FUSE_SHARE_H
#define G4_FUSE_SHARE_H

#include "fuse/fuse_types.h"

/*
 * With options.socket set, before the kernel's first request. 0, or a negative code with one sentence in message. The path of the
 * mount stays the caller's, until the end.
 */
int g4_fuse_share_prepare(struct g4_fuse_host *host, char *message, size_t message_bytes);
/* Begins to serve, when workers run. */
int g4_fuse_share_start(struct g4_fuse_host *host, const char *mountpoint, char *message, size_t message_bytes);
/* Ends the clients' sessions; while workers run, for one may wait for them. Nothing without g4_fuse_share_start(). */
void g4_fuse_share_stop(struct g4_fuse_host *host);
/* No worker runs any more. */
void g4_fuse_share_free(struct g4_fuse_host *host);
/* The kernel was told of an inode in an entry of a reply (1), or has forgotten some of these (negative). Thread-safe. */
void g4_fuse_share_known(struct g4_fuse_host *host, uint64_t ino, int64_t change);

#endif
