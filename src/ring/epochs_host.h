/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of an engine's epochs (inode/epoch.h), which its clients read. Host only. */
#ifndef G4_EPOCHS_HOST_H
#define G4_EPOCHS_HOST_H

#include "inode/trail.h"

struct g4_shared_epochs {
	uint64_t *memory; /* G4_EPOCHS_BYTES, zero at first; NULL: there is none */
	int fd;		  /* for clients, who can map it for reading only */
};

/* 0 or a negative code. */
int g4_epochs_make(struct g4_shared_epochs *epochs);
void g4_epochs_free(struct g4_shared_epochs *epochs);
/* As a client sees it; NULL: it cannot be. */
const uint64_t *g4_epochs_map(int fd);
void g4_epochs_unmap(const uint64_t *epochs);

#endif
