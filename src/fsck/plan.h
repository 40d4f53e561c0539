/* SPDX-License-Identifier: Apache-2.0 */
/* What a round of repair leaves for its end: tasks and names to be added; and room for new pages. */
#ifndef G4_FSCK_PLAN_H
#define G4_FSCK_PLAN_H

#include "fsck/fsck_types.h"

void g4_fsck_add_task(struct g4_fsck *fsck, const struct g4_fsck_task *task);
/* `pages` pages in a row that nothing uses, aligned to their number; none: there is no such room. */
struct g4_address g4_fsck_find_room(struct g4_fsck *fsck, uint64_t pages);
void g4_fsck_add_name(struct g4_fsck *fsck, uint64_t dir, uint64_t ino, uint32_t file_type, const char *name);

#endif
