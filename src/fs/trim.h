/* SPDX-License-Identifier: Apache-2.0 */
/* Discarding free space. Leader. */
#ifndef G4_TRIM_H
#define G4_TRIM_H

#include "inode/mounted.h"

/* Discards free space in a range of addresses: runs of at least `least` bytes. *done bytes. */
G4_FN int g4_trim(struct g4_wg *wg, struct g4_fs *fs, uint64_t start, uint64_t bytes, uint64_t least, uint64_t *done);
/* With G4_FS_DISCARD: what was freed since the last call, and is durably so. */
G4_FN int g4_discard_freed(struct g4_wg *wg, struct g4_fs *fs);

#endif
