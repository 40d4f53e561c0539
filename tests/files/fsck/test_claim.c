/* SPDX-License-Identifier: Apache-2.0 */
/* A page has one purpose: what claims it second is told, of metadata as of contents. */
#include "files/fsck/checked.h"

#include "files/files.h"

#include "fsck/claim.h"

static struct g4_address two_free_pages(void)
{
	uint64_t page = 1000;

	while (checked->fsck.used[page / 64] != 0)
		page += 64;
	return g4_page_address(page);
}

static void a_second_claim_is_a_problem(void **state)
{
	const struct g4_fsck_where where = {.dir = G4_NO_DIR, .ino = checked->large};
	struct g4_fsck *fsck = &checked->fsck;

	(void)state;
	check();
	assert_int_equal(fsck->problems, 0);
	const struct g4_address address = two_free_pages(), behind = g4_address_after_pages(address, 1);
	const uint64_t met = fsck->pages_met;
	assert_true(g4_fsck_claim(fsck, address, 2, &where, "a test"));
	assert_int_equal(fsck->pages_met, met + 2);
	assert_false(g4_fsck_claim(fsck, behind, 2, &where, "a test"));
	assert_int_equal(fsck->pages_met, met + 3);
	assert_false(g4_fsck_claim_data(fsck, address, 1, &where));
	assert_false(g4_fsck_claim_metadata(fsck, address, &where, "a test"));
	assert_int_equal(fsck->by_kind[G4_FSCK_SHARED], 3);
	assert_int_equal(fsck->problems, 3);
}

static void a_page_of_two_files_is_found(void **state)
{
	(void)state;
	damage_inode(&checked->rig, checked->files[4])->map[0] =
		damage_inode(&checked->rig, checked->files[30])->map[0];
	damage_seal(&checked->rig, g4_ptr_offset(checked->files[4]));
	expect_problem(G4_FSCK_SHARED);
	expect_repaired(NULL);
	expect_page(checked->files[30], 0);
}

RUN_TESTS(fsck_test(a_second_claim_is_a_problem), fsck_test(a_page_of_two_files_is_found))
