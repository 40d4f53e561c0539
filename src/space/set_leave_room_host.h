/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the other disks have room for what lies on one. Of the files of this folder alone. */
#ifndef G4_SET_LEAVE_ROOM_HOST_H
#define G4_SET_LEAVE_ROOM_HOST_H

#include "space/set_types_host.h"

/* Whether another disk may have the place that a chunk has on one that goes: a disk that is lost takes no two of its copies or columns with it. */
bool g4_set_may_have(const struct g4_chunk *chunk, uint32_t leaving, uint32_t disk);

/* With the lock of orders. What of a disk has to find room is told of all chunks, one after the other, and then what it lacks. -G4_E_NOMEM. */
int g4_set_leave_look(struct g4_set *set, const struct g4_superblock *super, uint32_t disk);
/* Of each place of a chunk so many bytes are in use, and so many can be given up. -G4_E_NOMEM; -G4_E_INVAL: there was no look. */
int g4_set_leave_tell(struct g4_set *set, const struct g4_chunk *chunk, uint64_t used, uint64_t idle);
/* What is in use of rows, so many `bytes` of copies in all, goes to any other disks, and of each place `idle` bytes can be given up then. As above. */
int g4_set_leave_tell_copies(struct g4_set *set, const struct g4_chunk *chunk, uint64_t bytes, uint64_t idle);
/* Bytes of places that have no room. fixed: some that no other disk may have, whatever room there is. The look is over. */
uint64_t g4_set_leave_lacks(struct g4_set *set, bool *fixed);
/* Also where there is none. */
void g4_set_leave_look_end(struct g4_set *set);

#endif
