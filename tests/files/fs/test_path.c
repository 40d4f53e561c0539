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

RUN_TESTS(cmocka_unit_test(the_last_name_is_what_stands_behind_the_last_slash),
	  cmocka_unit_test(what_is_too_long_is_refused))
