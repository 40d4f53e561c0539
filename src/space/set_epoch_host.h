/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks that change under requests. Of the files of this folder alone. */
#ifndef G4_SET_EPOCH_HOST_H
#define G4_SET_EPOCH_HOST_H

#include "space/set_types_host.h"

/* The chunks as they are now, until g4_set_view_leave(). *epoch: for that. Thread-safe, takes no lock. */
const struct g4_chunk_map *g4_set_view_enter(struct g4_set *set, uint64_t *epoch);
/* Those of an epoch that was entered and not left. */
const struct g4_chunk_map *g4_set_view_of(const struct g4_set *set, uint64_t epoch);
void g4_set_view_leave(struct g4_set *set, uint64_t epoch);
/* Orders held, or a view entered. Whether all requests look at the chunks as they are now, so nobody uses a place that they do not have. */
bool g4_set_view_is_alone(struct g4_set *set);
/* The same, within so many milliseconds. */
#define G4_VIEW_PATIENCE 1000u
bool g4_set_view_wait(struct g4_set *set, uint32_t most);
/* Locks of orders and superblocks held, and the view is alone. Requests from now on look at these. -G4_E_NOMEM before anything is changed. */
int g4_set_view_reserve(struct g4_set *set);
void g4_set_view_switch(struct g4_set *set, const struct g4_chunk *chunks, uint32_t count);

/* ---- numbers of disks that a switch changes (set_leave_host.c) ---- */
/* Whether no request has a disk, which was made one that is not to be used before. */
bool g4_set_is_unused(struct g4_set *set, uint32_t disk);
/*
 * Orders held. Numbers that disks had before others were removed are nobody's any more; false: a request that knows one is under way still.
 */
bool g4_set_forget_numbers(struct g4_set *set);

#endif
