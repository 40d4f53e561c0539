/* SPDX-License-Identifier: Apache-2.0 */
/* Renaming: what is replaced, exchanged or in the way, and that no directory comes below itself. (Under load: test_move.c.) */
#include "files/files.h"

#define ROOT G4_NODE_ROOT

static uint64_t number_of(uint64_t dir, const char *name)
{
	struct g4_attr attr;

	return op_lookup(&rig, dir, name, &attr) == 0 ? attr.ino : 0;
}

static void a_name_moves_and_replaces(void **state)
{
	struct g4_attr attr;
	uint64_t dir, a, b;

	(void)state;
	assert_int_equal(op_mkdir(&rig, ROOT, "d", 0755, &dir), 0);
	assert_int_equal(op_mknod(&rig, ROOT, "a", 0100644, &a), 0);
	assert_int_equal(op_mknod(&rig, dir, "b", 0100644, &b), 0);
	assert_int_equal(op_rename(&rig, ROOT, "a", dir, "b", G4_RENAME_NOREPLACE), -G4_E_EXIST);
	assert_int_equal(op_rename(&rig, ROOT, "a", dir, "b", 0), 0);
	assert_int_equal(number_of(ROOT, "a"), 0);
	assert_int_equal(number_of(dir, "b"), a);
	assert_int_equal(op_getattr(&rig, b, &attr), -G4_E_STALE);
}

static void two_names_change_places(void **state)
{
	uint64_t dir, below, file;

	(void)state;
	assert_int_equal(op_mkdir(&rig, ROOT, "d", 0755, &dir), 0);
	assert_int_equal(op_mkdir(&rig, dir, "below", 0755, &below), 0);
	assert_int_equal(op_mknod(&rig, ROOT, "f", 0100644, &file), 0);
	assert_int_equal(op_rename(&rig, ROOT, "f", dir, "below", G4_RENAME_EXCHANGE), 0);
	assert_int_equal(number_of(ROOT, "f"), below);
	assert_int_equal(number_of(dir, "below"), file);
}

static void no_directory_comes_below_itself(void **state)
{
	uint64_t dir, below;

	(void)state;
	assert_int_equal(op_mkdir(&rig, ROOT, "d", 0755, &dir), 0);
	assert_int_equal(op_mkdir(&rig, dir, "below", 0755, &below), 0);
	assert_int_equal(op_rename(&rig, ROOT, "d", below, "x", 0), -G4_E_INVAL);
	assert_int_equal(op_rename(&rig, ROOT, "d", dir, "x", 0), -G4_E_INVAL);
	assert_int_equal(op_rename(&rig, dir, "below", ROOT, "d", 0), -G4_E_NOTEMPTY);
	assert_int_equal(number_of(dir, "below"), below);
}

RUN_TESTS(fs_test(a_name_moves_and_replaces), fs_test(two_names_change_places),
	  fs_test(no_directory_comes_below_itself))
