/* SPDX-License-Identifier: Apache-2.0 */
/* The directory tree, and what it does not lead to. */
#ifndef G4_FSCK_TREE_H
#define G4_FSCK_TREE_H

#include "fsck/team.h"

/* For members of a team: a directory or some of its entries. What is found in them is handed out, not followed. */
void g4_fsck_do_job(struct g4_fsck *fsck, const struct g4_fsck_job *job);
/* A directory to be looked into later, on the stack or handed out; `where` is its entry. */
void g4_fsck_push(struct g4_fsck *fsck, uint64_t ino, const struct g4_fsck_where *where);
void g4_fsck_orphans(struct g4_fsck *fsck);
void g4_fsck_tree(struct g4_fsck *fsck);
void g4_fsck_unreachable(struct g4_fsck *fsck);
/* When all inodes were met: a root block that is new says of which domains of deduplication they are. */
void g4_fsck_count_domains(struct g4_fsck *fsck);
void g4_fsck_link_counts(struct g4_fsck *fsck);

#endif
