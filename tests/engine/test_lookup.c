/* SPDX-License-Identifier: Apache-2.0 */
/* The lookup cache alone: exact, coherent with what is forgotten, whole under concurrent use. */
#include <pthread.h>

#include "dir/lookup.h"
#include "rig.h"

#define ENTRIES 16u

static struct g4_lookup_entry entries[ENTRIES];
static struct g4_lookup cache = {entries, ENTRIES - 1};

static struct g4_lookup_name name_of(uint64_t directory, uint32_t hash, const char *text)
{
	struct g4_lookup_name name = {directory, hash, text, (uint32_t)strlen(text)};
	return name;
}

static int setup(void **state)
{
	(void)state;
	memset(entries, 0, sizeof(entries));
	return 0;
}

static void what_was_put_is_found_and_nothing_else(void **state)
{
	struct g4_lookup_name name = name_of(7, 99, "name"), other = name_of(7, 99, "nam"),
			      far = name_of(8, 99, "name");
	uint64_t inode = 0;

	(void)state;
	assert_false(g4_lookup_find(&cache, &name, &inode));
	g4_lookup_put(&cache, &name, 1234);
	assert_true(g4_lookup_find(&cache, &name, &inode));
	assert_int_equal(inode, 1234);
	assert_false(g4_lookup_find(&cache, &other, &inode));
	assert_false(g4_lookup_find(&cache, &far, &inode));
	other = name_of(7, 99, "namf");
	assert_false(g4_lookup_find(&cache, &other, &inode));
}

static void a_forgotten_name_is_gone_and_its_neighbour_stays(void **state)
{
	struct g4_lookup_name name = name_of(7, 99, "name"), same_place = name_of(7, 99 + ENTRIES, "other");
	uint64_t inode;

	(void)state;
	g4_lookup_put(&cache, &name, 1);
	g4_lookup_forget(&cache, &same_place);
	assert_true(g4_lookup_find(&cache, &name, &inode));
	g4_lookup_forget(&cache, &name);
	assert_false(g4_lookup_find(&cache, &name, &inode));
}

static void long_names_are_not_cached(void **state)
{
	struct g4_lookup_name fits = name_of(1, 5, "0123456789abcdef0123456789abcdef");
	struct g4_lookup_name over = name_of(1, 5, "0123456789abcdef0123456789abcdefg");
	uint64_t inode;

	(void)state;
	g4_lookup_put(&cache, &fits, 3);
	assert_true(g4_lookup_find(&cache, &fits, &inode));
	g4_lookup_put(&cache, &over, 4);
	assert_false(g4_lookup_find(&cache, &over, &inode));
	g4_lookup_forget(&cache, &over);
	assert_true(g4_lookup_find(&cache, &fits, &inode));
}

#define ROUNDS 200000u

/* Each thread has a directory; all share places. The inode says which name it belongs to. */
static void *put_and_find(void *argument)
{
	uint64_t directory = (uint64_t)(uintptr_t)argument, wrong = 0;

	for (uint32_t round = 0; round < ROUNDS; round++) {
		char text[16];
		uint64_t inode;
		snprintf(text, sizeof(text), "n%u", round % 64);
		struct g4_lookup_name name = name_of(directory, round % 64, text);
		if (g4_lookup_find(&cache, &name, &inode))
			wrong += inode != directory * 1000 + round % 64;
		g4_lookup_put(&cache, &name, directory * 1000 + round % 64);
		if (round % 3 == 0) {
			g4_lookup_forget(&cache, &name);
			wrong += g4_lookup_find(&cache, &name, &inode);
		}
	}
	return (void *)(uintptr_t)wrong;
}

static void concurrent_users_never_see_another_name(void **state)
{
	pthread_t threads[4];
	void *wrong;

	(void)state;
	for (uintptr_t t = 0; t < 4; t++)
		assert_int_equal(pthread_create(&threads[t], NULL, put_and_find, (void *)(t + 1)), 0);
	for (uintptr_t t = 0; t < 4; t++) {
		assert_int_equal(pthread_join(threads[t], &wrong), 0);
		assert_null(wrong);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(what_was_put_is_found_and_nothing_else, setup),
		cmocka_unit_test_setup(a_forgotten_name_is_gone_and_its_neighbour_stays, setup),
		cmocka_unit_test_setup(long_names_are_not_cached, setup),
		cmocka_unit_test_setup(concurrent_users_never_see_another_name, setup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
