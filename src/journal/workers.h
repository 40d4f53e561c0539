/* SPDX-License-Identifier: Apache-2.0 */
/* Commits page by page, by all workgroups that have nothing else to do. Private to this folder. */
#ifndef G4_JOURNAL_WORKERS_H
#define G4_JOURNAL_WORKERS_H

#include "journal/journal.h"

enum g4_commit_task {
	G4_COMMIT_TASK_LEAVE_HOME, /* gate closed: of a line of the home list whose page was freed that has G4_NO_LINE */
	G4_COMMIT_TASK_DROP_FREED, /* gate closed: of a line whose page was freed nothing is left in both lists but G4_NO_LINE */
	G4_COMMIT_TASK_FREEZE,	    /* gate closed: a dirty page into the record, its line to the home list */
	G4_COMMIT_TASK_FREEZE_HOME, /* gate closed: a committed page of an older transaction, sealed, for the checkpoint */
	G4_COMMIT_TASK_SEAL,	    /* a page of the record */
	G4_COMMIT_TASK_WRITE,	    /* mapped devices: a page of the record to the log */
	G4_COMMIT_TASK_HOME,	    /* mapped devices: an image to where it belongs */
	G4_COMMIT_TASK_LET_GO	    /* a line of the home list, which is home */
};

/* Leader, the commit lock held: does `pages` pages of a task, with help. 0, or the first error of a device. */
G4_FN int g4_commit_workers_run(struct g4_wg *wg, struct g4_journal *j, enum g4_commit_task task, uint64_t sequence,
				uint32_t pages);

/* Takes a line off the home list's responsibility; from the list itself the caller takes it. */
G4_FN void g4_line_is_home(struct g4_journal *j, uint32_t line);
/* Where page `page` of the log lies. */
G4_FN struct g4_address g4_log_address(const struct g4_journal *j, uint64_t page);
/* Addresses of the record's images; those of home_copies lie at home_addresses. */
G4_FN struct g4_address *g4_record_addresses(const struct g4_journal *j);
/* Where image n of a checkpoint lies and belongs: first the copies of older transactions, then the record's own. */
G4_FN struct g4_address g4_home_address(const struct g4_journal *j, uint32_t n);
G4_FN uint8_t *g4_home_image(const struct g4_journal *j, uint32_t n);
/* Whether the device is memory. */
G4_FN bool g4_journal_is_mapped(const struct g4_journal *j);

#endif
