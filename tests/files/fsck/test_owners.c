/* SPDX-License-Identifier: Apache-2.0 */
/* Owners are counted as they are met: one more than are counted is wrong, and so is one of a page that is no contents. */
#include "files/fsck/checked.h"

#include "files/files.h"

#include "fsck/owners.h"
#include "fsck/shares.h"
#include "fsck/team.h"

#define REGION 7u

static void owners_are_counted_page_by_page(void **state)
{
	static struct g4_fsck fsck;
	const uint64_t word = REGION * G4_FSCK_REGION_WORDS + 1; /* pages 64 to 127 */

	(void)state;
	memset(&fsck, 0, sizeof(fsck));
	assert_null(g4_fsck_find_owners(&fsck, REGION));
	assert_int_equal(g4_fsck_meet_owners(&fsck, word, 1, 2), 2); /* nothing is counted there */
	struct g4_fsck_owners *owners = g4_fsck_add_owners(&fsck, REGION);
	assert_non_null(owners);
	assert_ptr_equal(g4_fsck_find_owners(&fsck, REGION), owners);
	assert_int_equal(owners->region, REGION);
	owners->counted[64 + 3] = 2;
	assert_int_equal(g4_fsck_meet_owners(&fsck, word, 0x18, 0), 0);
	assert_int_equal(g4_fsck_meet_owners(&fsck, word, 0, 0x18), 0x10); /* page 4 has one owner */
	assert_int_equal(owners->met[64 + 3], 1);
	assert_int_equal(owners->met[64 + 4], 0);
	assert_int_equal(g4_fsck_meet_owners(&fsck, word, 0, 0x20), 0x20); /* metadata: never met as contents */
	assert_non_null(g4_fsck_add_owners(&fsck, REGION + 1));
	assert_int_equal(g4_fsck_find_owners(&fsck, REGION)->counted[64 + 3], 2);
	g4_fsck_free(&fsck);
}

/* Of two members one has claimed the page, and the other one is here before it: whether it is data shows at the end. */
static bool is_whole_when_early(bool data)
{
	static struct g4_fsck first, second;
	struct g4_fsck_team team = {
		.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER, .first = &first};
	const uint64_t word = REGION * G4_FSCK_REGION_WORDS + 1;

	memset(&first, 0, sizeof(first));
	struct g4_fsck_owners *owners = g4_fsck_add_owners(&first, REGION);
	assert_non_null(owners);
	owners->counted[64 + 3] = 1;
	first.team = &team;
	second = first;
	assert_int_equal(g4_fsck_meet_owners(&second, word, 0, 0x8), 0);
	if (data)
		assert_int_equal(g4_fsck_meet_owners(&first, word, 0x8, 0), 0);
	assert_int_equal(g4_fsck_meet_owners(&second, word, 0, 0x10), 0x10); /* no other owner of it is counted */
	assert_int_equal(owners->met[64 + 3], 1);
	assert_int_equal(owners->met[64 + 4], 0);
	assert_false(team.stopped);
	g4_fsck_compare_owners(&first);
	first.team = NULL;
	g4_fsck_free(&first);
	return !team.stopped;
}

static void a_member_does_not_wait_for_the_first_owner(void **state)
{
	(void)state;
	assert_true(is_whole_when_early(true));
	assert_false(is_whole_when_early(false));
}

RUN_TESTS(cmocka_unit_test(owners_are_counted_page_by_page),
	  cmocka_unit_test(a_member_does_not_wait_for_the_first_owner))
