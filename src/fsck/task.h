/* SPDX-License-Identifier: Apache-2.0 */
/* Repairs that need room, or the knowledge of what everybody else uses: at the end of a round. */
#ifndef G4_FSCK_TASK_H
#define G4_FSCK_TASK_H

#include "fsck/fsck_types.h"

void g4_fsck_do_tasks(struct g4_fsck *fsck);
/* Writes the orphan list anew. */
void g4_fsck_relink_orphans(struct g4_fsck *fsck);
/* Maps and descriptors as what was met says. */
void g4_fsck_rebuild_maps(struct g4_fsck *fsck);

/* rebuild.c: directories */
/* Marks what can still be read of the directory that a task is to rebuild as in use, so that it is not taken for lost. */
void g4_fsck_keep_directory(struct g4_fsck *fsck, uint64_t task);
/* Finds pages of directories that nothing leads to, and whose they are. */
void g4_fsck_adopt_leaves(struct g4_fsck *fsck);
void g4_fsck_rebuild_directory(struct g4_fsck *fsck, uint64_t task);
/* Leaves whose directory is gone: a task for each with names of what nothing else names. True if there are any. */
bool g4_fsck_rescue_leaves(struct g4_fsck *fsck);

#endif
