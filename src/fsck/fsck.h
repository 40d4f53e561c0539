/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The offline checker and its repair. Checking only reads, through image.h; what the engine wrote is judged by
 * src/format alone.
 *
 * Order of work: superblocks and journal; group descriptors and allocation maps; the orphan list; the directory tree
 * from the root, which leads to every inode, block map and attribute; slabs and inodes that nothing led to; at the end
 * the pages met on the way against the allocation maps. Memory: three bits a page, 24 bytes a slab (15 inodes), 16
 * bytes and the name a directory, 24 bytes an entry of the directory at hand; 2 MiB a thread and the slabs that it meets.
 *
 * Repairing is the same walk, in rounds. What can be put right on the spot is changed in a patch of the page (a pointer
 * cut, a count set, an entry dropped); what needs room, or the knowledge of what everybody else uses, becomes a task
 * for the end of the round (a directory built anew, a page copied, an inode put into lost+found). The next round walks
 * what the patches make of the image. A round without problems ends it, and only then is anything written: so a repair
 * is checked before it happens, and --dry-run is everything but the last step. write.c argues why a crash
 * during that is harmless.
 */
#ifndef G4_FSCK_H
#define G4_FSCK_H

#include "fsck/fsck_types.h"

/* fsck(8) */
enum g4_fsck_exit {
	G4_FSCK_OK = 0,
	G4_FSCK_CORRECTED = 1,
	G4_FSCK_REBOOT = 2,
	G4_FSCK_UNCORRECTED = 4,
	G4_FSCK_ERROR = 8,
	G4_FSCK_USAGE = 16,
	G4_FSCK_CANCELLED = 32,
};

const char *g4_fsck_problem_name(enum g4_fsck_problem kind);
const char *g4_fsck_outcome_name(enum g4_fsck_outcome outcome);
/* Says what the limit on lines a kind left out. */
void g4_fsck_print_left_out(struct g4_fsck *fsck);

/*
 * Opens the image as g4_image_open() does. Without any superblock in its place, and with fsck->find_superblock, it looks for
 * one elsewhere, and else makes one of what the rest of the metadata tells (fsck->made_superblock). Then fsck->foreign
 * says what else is on the device.
 */
int g4_fsck_open(struct g4_fsck *fsck, struct g4_image *image, const char *name, char *message, size_t bytes);

/*
 * After one of the next three, with the image still open: compares the contents of all files that it has met with their sums, by
 * fsck->threads threads, and tells of each page that does not match. Nothing is changed, whatever is repaired else: counted in
 * fsck->damaged_pages, apart from fsck->problems and fsck->found. 0 or -G4_E_NOMEM.
 */
int g4_fsck_data(struct g4_fsck *fsck);
/*
 * After that, behind a repair: deduplication finds a page no more whose contents are damaged, or could not be compared with a sum. In a
 * dry run it is said alone. 0 or a negative code.
 */
int g4_fsck_unlist_damaged(struct g4_fsck *fsck, struct g4_journal_state *journal);

/* Runs all checks. 0, or -G4_E_NOMEM; the problems are counted in fsck->problems. */
int g4_fsck_run(struct g4_fsck *fsck, struct g4_image *image, const struct g4_journal_state *journal);
/*
 * Rounds of checking and patching until a round finds nothing; fsck->found counts all problems, fsck->problems those of
 * the last round: 0 when the patches in `image` make it whole. With safe_only it stops after the first round if there is
 * more to repair than counts, maps and mirrors. Writes nothing. 0 or a negative code.
 */
int g4_fsck_repair(struct g4_fsck *fsck, struct g4_image *image, const struct g4_journal_state *journal,
		   bool safe_only);
/*
 * All of a repair: opens the device, replays the journal, makes the rounds, and writes their outcome unless dry_run. The
 * image stays open for a summary (close it, also after a failure), and the device claimed until g4_fsck_release() or g4_fsck_free(). 0, or a negative code with a sentence in message;
 * fsck->found and fsck->problems as above.
 */
struct g4_fsck_repair_options {
	bool dry_run;
	bool safe_only;
	bool force;    /* also over fsck->foreign */
	bool degraded; /* although a disk of a set is missing, where the others have everything */
};
int g4_fsck_repair_device(struct g4_fsck *fsck, struct g4_image *image, const char *name,
			  const struct g4_fsck_repair_options *options, struct g4_journal_state *journal, char *message,
			  size_t bytes);
/* Gives up the claim of a repair, after which nothing more is written. */
void g4_fsck_release(struct g4_fsck *fsck);
void g4_fsck_free(struct g4_fsck *fsck);

#endif
