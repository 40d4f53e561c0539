/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of in-core inodes with something to write back: dirty pages or time stamps. */
#ifndef G4_QUEUE_H
#define G4_QUEUE_H

#include "inode/mounted.h"

/* Whether so much is dirty that it should be written back soon (hard: before more is made dirty). */
G4_FN bool g4_dirty_pressure(const struct g4_fs *fs, bool hard);
/* Puts an in-core inode on the queue, unless it is there. */
G4_FN void g4_queue_dirty(struct g4_fs *fs, uint32_t index);
/* Takes the first one off; its reference passes to the caller. G4_NO_INODE: there is none. */
G4_FN uint32_t g4_dequeue_dirty(struct g4_fs *fs);

#endif
