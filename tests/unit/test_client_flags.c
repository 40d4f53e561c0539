/* SPDX-License-Identifier: Apache-2.0 */
/* The client's pure functions: open flags, paths, times, versioned structures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
/* cmocka needs the three above */
#include <cmocka.h>

#include <sys/stat.h>

#include "client/client.h"

static void access_modes_become_read_and_write(void **state)
{
	struct g4c_open_flags flags;

	(void)state;
	assert_int_equal(g4c_open_flags(O_RDONLY, &flags), 0);
	assert_int_equal(flags.engine, G4_OPEN_READ);
	assert_int_equal(g4c_open_flags(O_WRONLY, &flags), 0);
	assert_int_equal(flags.engine, G4_OPEN_WRITE);
	assert_int_equal(g4c_open_flags(O_RDWR, &flags), 0);
	assert_int_equal(flags.engine, G4_OPEN_READ | G4_OPEN_WRITE);
	assert_int_equal(g4c_open_flags(O_WRONLY | O_RDWR, &flags), -EINVAL);
}

static void each_flag_becomes_its_own_and_no_other(void **state)
{
	static const struct {
		int posix;
		uint32_t engine;
	} pairs[] = {
		{O_APPEND, G4_OPEN_APPEND},
		{O_TRUNC, G4_OPEN_TRUNC},
		{O_SYNC, G4_OPEN_SYNC},
		{O_DSYNC, G4_OPEN_DSYNC},
		{O_DIRECT, G4_OPEN_DIRECT},
		{O_NOATIME, G4_OPEN_NOATIME},
		{O_DIRECTORY, G4_OPEN_DIRECTORY},
		{GPU4FS_O_DEDUP, G4_OPEN_DEDUP},
		{GPU4FS_O_NODEDUP, G4_OPEN_NODEDUP},
		{O_CREAT, 0},
		{O_CREAT | O_EXCL, G4_OPEN_EXCL},
		{O_EXCL, 0},
		{O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0},
	};
	struct g4c_open_flags flags;

	(void)state;
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		assert_int_equal(g4c_open_flags(O_RDWR | pairs[i].posix, &flags), 0);
		assert_int_equal(flags.engine, G4_OPEN_READ | G4_OPEN_WRITE | pairs[i].engine);
		assert_int_equal(flags.create, !!(pairs[i].posix & O_CREAT));
		assert_int_equal(flags.nofollow, !!(pairs[i].posix & O_NOFOLLOW));
		assert_false(flags.tmpfile);
	}
}

static void contradictions_are_refused(void **state)
{
	struct g4c_open_flags flags;

	(void)state;
	assert_int_equal(g4c_open_flags(O_TMPFILE | O_RDONLY, &flags), -EINVAL);
	assert_int_equal(g4c_open_flags((O_TMPFILE & ~O_DIRECTORY) | O_RDWR, &flags), -EINVAL);
	assert_int_equal(g4c_open_flags(O_TMPFILE | O_RDWR | O_CREAT, &flags), -EINVAL);
	assert_int_equal(g4c_open_flags(O_CREAT | O_DIRECTORY, &flags), -EINVAL);
	assert_int_equal(g4c_open_flags(O_PATH, &flags), -EINVAL);
	assert_int_equal(g4c_open_flags(O_RDWR | GPU4FS_O_DEDUP | GPU4FS_O_NODEDUP, &flags), -EINVAL);
	assert_int_equal(g4c_open_flags(1 << 30, &flags), -EINVAL);
	assert_int_equal(g4c_open_flags(O_TMPFILE | O_RDWR | O_EXCL, &flags), 0);
	assert_true(flags.tmpfile && flags.exclusive && !flags.directory && !flags.create);
	assert_int_equal(flags.engine, G4_OPEN_READ | G4_OPEN_WRITE);
}

static void paths_are_cut_before_their_last_component(void **state)
{
	static const struct {
		const char *path, *name;
		uint32_t directory_bytes;
		enum g4_last last;
		bool absolute, slash;
	} cuts[] = {
		{"a", "a", 0, G4_LAST_NAME, false, false},     {"/a", "a", 1, G4_LAST_NAME, true, false},
		{"a/", "a", 0, G4_LAST_NAME, false, true},     {"//a//b//", "b", 5, G4_LAST_NAME, true, true},
		{"/a/b/c", "c", 5, G4_LAST_NAME, true, false}, {".", ".", 0, G4_LAST_DOT, false, false},
		{"a/./", ".", 2, G4_LAST_DOT, false, true},    {"a/..", "..", 2, G4_LAST_DOTDOT, false, false},
		{"...", "...", 0, G4_LAST_NAME, false, false}, {".a", ".a", 0, G4_LAST_NAME, false, false},
		{"/", "", 0, G4_LAST_ROOT, true, true},	       {"////", "", 0, G4_LAST_ROOT, true, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
		struct g4_path_split split;

		assert_int_equal(g4c_split_path(cuts[i].path, &split), 0);
		assert_int_equal(split.name_bytes, strlen(cuts[i].name));
		assert_memory_equal(split.name, cuts[i].name, split.name_bytes);
		assert_int_equal(split.directory_bytes, cuts[i].directory_bytes);
		assert_int_equal(split.last, cuts[i].last);
		assert_int_equal(split.absolute, cuts[i].absolute);
		assert_int_equal(split.slash, cuts[i].slash);
	}
}

static void paths_and_names_have_their_limits(void **state)
{
	struct g4_path_split split;
	char path[G4C_PATH_MAX + 1];

	(void)state;
	assert_int_equal(g4c_split_path("", &split), -ENOENT);
	assert_int_equal(g4c_split_path(NULL, &split), -ENOENT);
	memset(path, 'n', sizeof(path));
	path[255] = 0;
	assert_int_equal(g4c_split_path(path, &split), 0);
	path[255] = 'n';
	path[256] = 0;
	assert_int_equal(g4c_split_path(path, &split), -ENAMETOOLONG);
	memset(path, '/', sizeof(path));
	path[G4C_PATH_MAX - 1] = 0;
	assert_int_equal(g4c_split_path(path, &split), 0);
	path[G4C_PATH_MAX - 1] = '/';
	path[G4C_PATH_MAX] = 0;
	assert_int_equal(g4c_split_path(path, &split), -ENAMETOOLONG);
}

static void times_survive_the_way_there_and_back(void **state)
{
	static const struct timespec times[] = {
		{0, 0},
		{0, 1},
		{1, 999999999},
		{-1, 0},
		{-1, 999999999},
		{-5, 123456789},
		{9223372036, 854775807},
		{-9223372036, 0},
		{-9223372037, 145224192},
		{-9223372037, 999999999},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		struct timespec back = g4c_time_from_ns(g4c_time_to_ns(&times[i]));

		assert_int_equal(back.tv_sec, times[i].tv_sec);
		assert_int_equal(back.tv_nsec, times[i].tv_nsec);
	}
}

static void times_out_of_range_saturate(void **state)
{
	static const struct {
		struct timespec time;
		int64_t ns;
	} cases[] = {
		{{INT64_MAX, 0}, INT64_MAX},	       {{INT64_MIN, 999999999}, INT64_MIN},
		{{9223372036, 854775808}, INT64_MAX},  {{9223372037, 0}, INT64_MAX},
		{{-9223372037, 145224191}, INT64_MIN}, {{-9223372038, 999999999}, INT64_MIN},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_true(g4c_time_to_ns(&cases[i].time) == cases[i].ns);
}

static void time_pairs_become_masks(void **state)
{
	struct timespec times[2] = {{5, 6}, {-1, 0}};
	struct g4_attr attr = {0};
	uint32_t mask;

	(void)state;
	assert_int_equal(g4c_times_to_mask(NULL, &mask, &attr), 0);
	assert_int_equal(mask, G4_SET_ATIME_NOW | G4_SET_MTIME_NOW);
	assert_int_equal(g4c_times_to_mask(times, &mask, &attr), 0);
	assert_int_equal(mask, G4_SET_ATIME | G4_SET_MTIME);
	assert_int_equal(attr.atime_ns, UINT64_C(5000000006));
	assert_true((int64_t)attr.mtime_ns == -1000000000);
	times[0].tv_nsec = UTIME_OMIT;
	times[1].tv_nsec = UTIME_NOW;
	assert_int_equal(g4c_times_to_mask(times, &mask, &attr), 0);
	assert_int_equal(mask, G4_SET_MTIME_NOW);
	times[1].tv_nsec = 1000000000;
	assert_int_equal(g4c_times_to_mask(times, &mask, &attr), -EINVAL);
}

struct versioned {
	uint32_t size;
	uint32_t old;
	uint64_t new;
};

static void versioned_structures_grow(void **state)
{
	struct {
		struct versioned known;
		uint64_t unknown;
	} given = {{sizeof(given), 1, 2}, 0};
	struct versioned out;

	(void)state;
	assert_int_equal(g4c_copy_versioned(&out, sizeof(out), &given, 8), 0);
	assert_int_equal(out.new, 2);
	given.unknown = 1;
	assert_int_equal(g4c_copy_versioned(&out, sizeof(out), &given, 8), -E2BIG);
	given.known.size = 8; /* made by a program that knew the first version */
	assert_int_equal(g4c_copy_versioned(&out, sizeof(out), &given, 8), 0);
	assert_int_equal(out.old, 1);
	assert_int_equal(out.new, 0);
	given.known.size = 7;
	assert_int_equal(g4c_copy_versioned(&out, sizeof(out), &given, 8), -EINVAL);
	assert_int_equal(g4c_copy_versioned(&out, sizeof(out), NULL, 8), 0);
	assert_int_equal(out.size, 0);
}

static void attributes_become_stat(void **state)
{
	const struct g4_attr attr = {.ino = 1,
				     .size = 2,
				     .blocks_512 = 3,
				     .atime_ns = 4,
				     .mtime_ns = UINT64_MAX,
				     .ctime_ns = UINT64_C(6000000006),
				     .btime_ns = 7,
				     .rdev = 8,
				     .generation = 9,
				     .change_count = 10,
				     .mode = S_IFREG | 0644,
				     .nlink = 11,
				     .uid = 12,
				     .gid = 13,
				     .flags = 14};
	struct gpu4fs_stat stat;

	(void)state;
	g4c_stat_from_attr(&attr, &stat);
	assert_int_equal(stat.ino, 1);
	assert_int_equal(stat.size, 2);
	assert_int_equal(stat.blocks, 3);
	assert_int_equal(stat.atime.tv_nsec, 4);
	assert_int_equal(stat.mtime.tv_sec, -1);
	assert_int_equal(stat.mtime.tv_nsec, 999999999);
	assert_int_equal(stat.ctime.tv_sec, 6);
	assert_int_equal(stat.btime.tv_nsec, 7);
	assert_int_equal(stat.rdev, 8);
	assert_int_equal(stat.generation, 9);
	assert_int_equal(stat.change_count, 10);
	assert_int_equal(stat.mode, S_IFREG | 0644);
	assert_int_equal(stat.nlink, 11);
	assert_int_equal(stat.uid, 12);
	assert_int_equal(stat.gid, 13);
	assert_int_equal(stat.flags, 14);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(access_modes_become_read_and_write),
		cmocka_unit_test(each_flag_becomes_its_own_and_no_other),
		cmocka_unit_test(contradictions_are_refused),
		cmocka_unit_test(paths_are_cut_before_their_last_component),
		cmocka_unit_test(paths_and_names_have_their_limits),
		cmocka_unit_test(times_survive_the_way_there_and_back),
		cmocka_unit_test(times_out_of_range_saturate),
		cmocka_unit_test(time_pairs_become_masks),
		cmocka_unit_test(versioned_structures_grow),
		cmocka_unit_test(attributes_become_stat),
	};

	return cmocka_run_group_tests_name("client helpers", tests, NULL, NULL);
}
