/* SPDX-License-Identifier: Apache-2.0 */
/* Cutting paths into the directory and the last name. */
#include "files/files.h"

static void check(const char *path, const char *directory, const char *name, enum g4_last last, bool slash)
{
	struct g4_path_split split;

	assert_int_equal(g4_path_cut(path, strlen(path), &split), 0);
	assert_int_equal(split.directory_bytes, strlen(directory));
	assert_memory_equal(split.directory, directory, split.directory_bytes);
	assert_int_equal(split.name_bytes, strlen(name));
	assert_memory_equal(split.name, name, split.name_bytes);
	assert_int_equal(split.last, last);
	assert_int_equal(split.slash, slash);
	assert_int_equal(split.absolute, path[0] == '/');
}

static void the_last_name_is_what_stands_behind_the_last_slash(void **state)
{
	(void)state;
	check("a", "", "a", G4_LAST_NAME, false);
	check("/a/b", "/a/", "b", G4_LAST_NAME, false);
	check("a//b///", "a//", "b", G4_LAST_NAME, true);
	check(".", "", ".", G4_LAST_DOT, false);
	check("a/..", "a/", "..", G4_LAST_DOTDOT, false);
	check("a/...", "a/", "...", G4_LAST_NAME, false);
	check("a/.x", "a/", ".x", G4_LAST_NAME, false);
	check("//", "", "", G4_LAST_ROOT, true);
}

static void what_is_too_long_is_refused(void **state)
{
	static char path[G4_PATH_MAX + 1];
	struct g4_path_split split;

	(void)state;
	memset(path, 'a', sizeof(path));
	assert_int_equal(g4_path_cut(path, 0, &split), -G4_E_NOENT);
	assert_int_equal(g4_path_cut(path, G4_PATH_MAX, &split), -G4_E_NAMETOOLONG);
	assert_int_equal(g4_path_cut(path, G4_NAME_MAX + 1, &split), -G4_E_NAMETOOLONG);
	assert_int_equal(g4_path_cut(path, G4_NAME_MAX, &split), 0);
	path[1000] = '/';
	assert_int_equal(g4_path_cut(path, 1001 + G4_NAME_MAX, &split), 0);
}

static void a_long_path_is_cut_as_a_short_one(void **state)
{
	static char path[3 * G4_PATH_MAX];
	struct g4_path_split split;

	(void)state;
	for (uint32_t k = 0; k < sizeof(path); k++)
		path[k] = k % 100 ? 'a' : '/';
	assert_int_equal(g4_path_cut_long(path, sizeof(path), &split), 0);
	assert_int_equal(split.directory_bytes, sizeof(path) / 100 * 100 + 1);
	assert_int_equal(split.name_bytes, sizeof(path) - split.directory_bytes);
	assert_int_equal(g4_path_cut_long(path, 0, &split), -G4_E_NOENT);
}

static void some_last_components_are_no_names(void **state)
{
	(void)state;
	assert_int_equal(g4_path_check_last(G4_LAST_NAME, G4_CMD_UNLINK), 0);
	assert_int_equal(g4_path_check_last(G4_LAST_ROOT, G4_CMD_UNLINK), -G4_E_ISDIR);
	assert_int_equal(g4_path_check_last(G4_LAST_DOT, G4_CMD_RMDIR), -G4_E_INVAL);
	assert_int_equal(g4_path_check_last(G4_LAST_DOTDOT, G4_CMD_RMDIR), -G4_E_NOTEMPTY);
	assert_int_equal(g4_path_check_last(G4_LAST_ROOT, G4_CMD_RMDIR), -G4_E_BUSY);
	assert_int_equal(g4_path_check_last(G4_LAST_DOT, G4_CMD_RENAME), -G4_E_BUSY);
	assert_int_equal(g4_path_check_last(G4_LAST_DOTDOT, G4_CMD_MKDIR), -G4_E_EXIST);
}

RUN_TESTS(cmocka_unit_test(the_last_name_is_what_stands_behind_the_last_slash),
	  cmocka_unit_test(what_is_too_long_is_refused), cmocka_unit_test(a_long_path_is_cut_as_a_short_one),
	  cmocka_unit_test(some_last_components_are_no_names))
