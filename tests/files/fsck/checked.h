/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of the checker: a small image of known files that nobody has mounted, and what the checker says of it when it was changed. */
#ifndef CHECKED_H
#define CHECKED_H

#include "engine/damage.h"

#include "fsck/fsck.h"

#define CHECKED_FILES 40u
#define CHECKED_LARGE_PAGE 700u /* of `large`, which has that page and the first one */

struct checked {
	struct rig rig;
	uint64_t root, dir, large, linked, with_attributes;
	uint64_t files[CHECKED_FILES]; /* in `dir`, a page each */
	/* of check(), until check_end() */
	struct g4_image image;
	struct g4_journal_state journal;
	struct g4_fsck fsck;
	char *text; /* what was said; complete after check_end() */
	size_t text_bytes;
	bool open;
};

/* For each fsck_test(). */
extern struct checked *checked;
int checked_begin(void **state);
int checked_end(void **state);
#define fsck_test(f) cmocka_unit_test_setup_teardown(f, checked_begin, checked_end)

/* Mounts the image for commands of `checked->rig`; clean: as an unmount, else the power goes. */
void checked_mount(void);
void checked_unmount(bool clean);
/* Opens the image and checks it; what was found stays in checked->fsck. */
void check(void);
void check_end(void);
/* check() and check_end(); so many problems of this kind were found, and none of another one. */
void expect_problems(enum g4_fsck_problem kind, uint64_t count);
/* The same where what is wrong may show in other ways, too. */
void expect_problem(enum g4_fsck_problem kind);
/* A repair ends, after which nothing is wrong any more. `outcome`, if not NULL: as in struct rig_repair. */
void expect_repaired(uint64_t *outcome);
/* The page of a file, mounted or not, is what it was when it was made. */
void expect_page(uint64_t ino, uint64_t page);
uint64_t page_of(uint64_t ino); /* address of the slab of an inode */
const struct g4_layout *checked_layout(void);

#endif
