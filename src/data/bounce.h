/* SPDX-License-Identifier: Apache-2.0 */
/* Storing what others may change meanwhile, with sums, on devices that are not memory. */
#ifndef G4_BOUNCE_H
#define G4_BOUNCE_H

#include "data/batch.h"

/*
 * Leader, inode write-locked, outside of a transaction. Stores pages `first` up to `end` of a foreign, placed batch, and takes their
 * sums: what is hashed is what is stored. Several of them are under way at a time, while the next ones are copied and hashed. Returns
 * when all are there, or with the error of the first that failed. Waits for a buffer, as for the device.
 */
G4_FN int g4_bounce_store(struct g4_wg *wg, struct g4_fs *fs, struct g4_batch *batch, uint32_t first, uint32_t end);

#endif
