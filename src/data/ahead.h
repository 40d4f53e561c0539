/* SPDX-License-Identifier: Apache-2.0 */
/* Reading ahead of sequential readers. */
#ifndef G4_AHEAD_H
#define G4_AHEAD_H

#include "inode/mounted.h"

/* A sequential reader of the read-locked in-core inode will want the pages from `page` on; the file has `end`. Never blocks. */
G4_FN void g4_ahead_ask(struct g4_fs *fs, uint32_t index, uint64_t page, uint64_t end);
/* Does one thing that was asked for; false: there was none. The caller has counted itself in fs->ahead.servers. */
G4_FN bool g4_ahead_serve(struct g4_wg *wg, struct g4_fs *fs);
/* Forgets what was asked for, when the last server is gone. */
G4_FN void g4_ahead_drop(struct g4_fs *fs);

#endif
