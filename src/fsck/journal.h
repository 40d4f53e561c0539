/* SPDX-License-Identifier: Apache-2.0 */
/* The journal as found (journal.c), and writing what a repair has prepared (write.c). */
#ifndef G4_FSCK_JOURNAL_H
#define G4_FSCK_JOURNAL_H

#include "fsck/fsck_types.h"

/*
 * The journal's problems: a damaged header, and records behind the end of the log, which only damage in between can
 * leave; says which inodes those would change.
 */
void g4_fsck_journal(struct g4_fsck *fsck, const struct g4_journal_state *journal);
/* A sequence behind all that the log holds. */
uint64_t g4_fsck_next_sequence(struct g4_image *image, const struct g4_journal_state *journal);

/* Writes the header, if one is given, and brings the journal home with the engine's own replay. 0 or a negative code. */
int g4_fsck_replay(const struct g4_image *image, const struct g4_journal_header *header, struct g4_dev *target);
/* Writes what g4_fsck_repair() has prepared, and the superblocks. Nothing, when nothing is to be changed. */
int g4_fsck_write(struct g4_fsck *fsck, struct g4_journal_state *journal);
/* After that, the patches of these pages alone. */
int g4_fsck_write_pages(struct g4_fsck *fsck, struct g4_journal_state *journal, const struct g4_address *addresses,
			uint64_t count);

#endif
