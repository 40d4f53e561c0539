/* SPDX-License-Identifier: Apache-2.0 */
/* Storing what others may change meanwhile, with sums, on devices that are not memory. */
#ifndef G4_BOUNCE_H
#define G4_BOUNCE_H

#include "data/batch.h"

/*
 * ---- buffers: leader, thread-safe. A writer that has taken some never waits for what one that waits for them may hold, which is the lock of its
 * inode, and gives them back before it begins a transaction. One that has tried may, for who waits has the other half ----
 */
/* Takes `most` buffers, or as many as are free, and waits for one if none is. Their numbers; how many. */
G4_FN uint32_t g4_bounce_take(struct g4_bounce *bounce, uint32_t most, uint32_t *numbers);
/*
 * The same without waiting, for one that is going to wait for its inode's lock with them: half of all buffers are left to those that have theirs.
 * 0: there are not `most` to be had.
 */
G4_FN uint32_t g4_bounce_try(struct g4_bounce *bounce, uint32_t most, uint32_t *numbers);
G4_FN void g4_bounce_give_back(struct g4_bounce *bounce, const uint32_t *numbers, uint32_t count);
G4_FN uint8_t *g4_bounce_buffer(const struct g4_bounce *bounce, uint32_t number);
/* Copies a caller's pages there, which are the batch's from `first` on, at most those of a buffer, and takes the sums of the copies. */
G4_FN void g4_bounce_fill(struct g4_wg *wg, struct g4_batch *batch, uint32_t first, uint32_t pages, const uint8_t *from,
			  uint8_t *buffer);

/*
 * Leader, inode write-locked, outside of a transaction. Stores pages `first` up to `end` of a foreign, placed batch, and takes their
 * sums: what is hashed is what is stored. Several of them are under way at a time, while the next ones are copied and hashed. Returns
 * when all are there, or with the error of the first that failed. Waits for a buffer, as for the device.
 */
G4_FN int g4_bounce_store(struct g4_wg *wg, struct g4_fs *fs, struct g4_batch *batch, uint32_t first, uint32_t end);

#endif
