/* SPDX-License-Identifier: Apache-2.0 */
/* A piece of a read that several workgroups share (help.c). */
#ifndef G4_READ_H
#define G4_READ_H

#include "inode/mounted.h"

/* Read-locked by the owner. *done: bytes that were read, also when it fails. */
G4_FN int g4_read_piece(struct g4_wg *wg, struct g4_fs *fs, const struct g4_split_work *work, uint64_t offset,
			uint64_t bytes, uint64_t *done);

#endif
