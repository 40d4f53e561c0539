/* SPDX-License-Identifier: Apache-2.0 */
/* What is said: a name for each kind, the path of what is concerned, and no more lines than were asked for. */
#include "files/fsck/checked.h"

#include "files/files.h"

#include "fsck/report.h"

static void every_kind_has_a_name_of_its_own(void **state)
{
	(void)state;
	for (uint32_t a = 0; a < G4_FSCK_PROBLEM_KINDS; a++) {
		assert_true(strlen(g4_fsck_problem_name((enum g4_fsck_problem)a)) > 0);
		for (uint32_t b = 0; b < a; b++)
			assert_string_not_equal(g4_fsck_problem_name((enum g4_fsck_problem)a),
						g4_fsck_problem_name((enum g4_fsck_problem)b));
	}
	for (uint32_t a = 1; a < G4_FSCK_OUTCOMES; a++)
		assert_string_not_equal(g4_fsck_outcome_name((enum g4_fsck_outcome)a),
					g4_fsck_outcome_name((enum g4_fsck_outcome)(a - 1)));
}

static void a_problem_is_told_with_its_path(void **state)
{
	(void)state;
	damage_inode(&checked->rig, checked->files[17])->pages = 30;
	damage_seal(&checked->rig, g4_ptr_offset(checked->files[17]));
	check();
	assert_int_equal(checked->fsck.problems, 1);
	assert_non_null(strstr(checked->text, "/dir/file 17"));
}

static void lines_are_limited_and_the_rest_is_counted(void **state)
{
	const struct g4_fsck_where where = {.dir = G4_NO_DIR};

	(void)state;
	check();
	checked->fsck.printed_limit = 3;
	for (uint32_t k = 0; k < 10; k++)
		g4_fsck_problem(&checked->fsck, G4_FSCK_LINKS, &where, "this is number %u", k);
	assert_int_equal(checked->fsck.problems, 10);
	g4_fsck_print_left_out(&checked->fsck);
	fflush(checked->fsck.out);
	assert_non_null(strstr(checked->text, "number 2"));
	assert_null(strstr(checked->text, "number 3"));
	assert_non_null(strstr(checked->text, "7 "));
}

RUN_TESTS(cmocka_unit_test(every_kind_has_a_name_of_its_own), fsck_test(a_problem_is_told_with_its_path),
	  fsck_test(lines_are_limited_and_the_rest_is_counted))
