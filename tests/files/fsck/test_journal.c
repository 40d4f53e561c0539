/* SPDX-License-Identifier: Apache-2.0 */
/* A journal that is not as the engine left it is told, and begun anew by a repair. */
#include "files/fsck/checked.h"

#include "files/files.h"

#include "fsck/journal.h"

static void a_damaged_header_is_found(void **state)
{
	(void)state;
	checked->rig.image[checked_layout()->journal_address + 200] ^= 1;
	expect_problem(G4_FSCK_JOURNAL);
	expect_repaired(NULL);
	expect_page(checked->files[11], 0);
}

static void the_next_sequence_is_behind_all_of_the_log(void **state)
{
	(void)state;
	check();
	const uint64_t next = g4_fsck_next_sequence(&checked->image, &checked->journal);
	assert_true(next >= checked->journal.next_sequence);
	assert_true(next > g4_image_newest_fixed(&checked->image));
}

RUN_TESTS(fsck_test(a_damaged_header_is_found), fsck_test(the_next_sequence_is_behind_all_of_the_log))
