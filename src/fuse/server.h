/* SPDX-License-Identifier: Apache-2.0 */
/* What workers do beside operations: reading requests (wire.c), where they run, how much the kernel may hold back. */
#ifndef G4_FUSE_SERVER_H
#define G4_FUSE_SERVER_H

#include "fuse/fuse_types.h"

/* wire.c: reading requests and writing replies below libfuse */
extern const struct fuse_custom_io g4_fuse_wire;

/* limit.c: what the kernel may hold in its write-back cache follows what is free */
int g4_fuse_tune(const struct g4_fuse_host *host, const char *name, uint64_t value); /* 0 or -errno */
void g4_fuse_limit_start(struct g4_fuse_host *host);
void g4_fuse_space_taken(struct g4_fuse_host *host, uint64_t bytes); /* about so much, by a command that is complete */

/* affinity.c: workers run where their caller runs */
void g4_fuse_affinity_init(struct g4_fuse_host *host);
void g4_fuse_affinity(struct g4_fuse_thread *self, const struct fuse_in_header *in);

/* block.c: the end of a mount of a block device, for which umount(2) waits */
/* A worker: the kernel has let go of the mount, and umount(2) waits. Ends the session. */
void g4_fuse_destroy_asked(struct g4_fuse_host *host, int fd, uint64_t unique);
/* Everything is on the device and nobody has that open: umount(2) may return. */
void g4_fuse_destroy_done(struct g4_fuse_host *host);

#endif
