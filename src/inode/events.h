/* SPDX-License-Identifier: Apache-2.0 */
/* Damage that was met: counted here, and reported to the engine's host. Leader, thread-safe. */
#ifndef G4_EVENTS_H
#define G4_EVENTS_H

#include "inode/mounted.h"

/* Counts a damaged page and has it told; the workgroup has no requests under way. What nobody takes in time is counted alone. */
G4_FN void g4_event_post(struct g4_wg *wg, struct g4_fs *fs, const struct g4_event *event);
/* The oldest that was not taken. False: there is none. */
G4_FN bool g4_event_take(struct g4_fs *fs, struct g4_event *event);

#endif
