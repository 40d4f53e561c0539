/* SPDX-License-Identifier: Apache-2.0 */
/* Records of background jobs and findings that are not valid are told and dropped. */
#include "files/fsck/checked.h"

#include "files/files.h"

static struct g4_root *root_block(void)
{
	return (struct g4_root *)(void *)(checked->rig.image + checked_layout()->root_address);
}

static void seal_root(void)
{
	damage_seal(&checked->rig, checked_layout()->root_address);
}

static void a_job_of_no_kind_is_dropped(void **state)
{
	(void)state;
	root_block()->job_count = 1;
	root_block()->jobs[0].kind = 77;
	root_block()->jobs[0].state = G4_JOB_DONE;
	root_block()->jobs[0].number = 1;
	seal_root();
	expect_problems(G4_FSCK_JOB, 1);
	expect_repaired(NULL);
	assert_int_equal(root_block()->jobs[0].kind, 0);
}

static void a_number_is_given_once(void **state)
{
	(void)state;
	root_block()->job_count = 3;
	for (uint32_t k = 0; k < 2; k++) {
		root_block()->jobs[k].kind = G4_JOB_SCRUB;
		root_block()->jobs[k].state = G4_JOB_DONE;
		root_block()->jobs[k].number = 2;
	}
	seal_root();
	expect_problems(G4_FSCK_JOB, 1);
	root_block()->jobs[1].number = 3;
	seal_root();
	expect_problems(G4_FSCK_JOB, 0);
	root_block()->jobs[1].number = 4; /* more than were started */
	seal_root();
	expect_problems(G4_FSCK_JOB, 1);
	expect_repaired(NULL);
	assert_int_equal(root_block()->jobs[0].number, 2);
}

static void a_finding_of_nothing_is_dropped(void **state)
{
	(void)state;
	root_block()->findings[5].code = UINT32_MAX;
	seal_root();
	expect_problems(G4_FSCK_JOB, 1);
	expect_repaired(NULL);
}

RUN_TESTS(fsck_test(a_job_of_no_kind_is_dropped), fsck_test(a_number_is_given_once),
	  fsck_test(a_finding_of_nothing_is_dropped))
