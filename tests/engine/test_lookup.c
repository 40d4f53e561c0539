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

/* Each inode's place follows from its number here. */
static void put(const struct g4_lookup_name *name, uint64_t inode)
{
	const struct g4_lookup_value value = {inode, (uint32_t)(inode % G4_LOOKUP_INDEXES)};

	g4_lookup_put(&cache, name, &value);
}

static void what_was_put_is_found_and_nothing_else(void **state)
{
	struct g4_lookup_name name = name_of(7, 99, "name"), other = name_of(7, 99, "nam"),
			      far = name_of(8, 99, "name");
	struct g4_lookup_value value = {0};

	(void)state;
	assert_false(g4_lookup_find(&cache, &name, &value));
	put(&name, 1234);
	assert_true(g4_lookup_find(&cache, &name, &value));
	assert_int_equal(value.inode, 1234);
	assert_int_equal(value.index, 1234 % G4_LOOKUP_INDEXES);
	assert_false(g4_lookup_find(&cache, &other, &value));
	assert_false(g4_lookup_find(&cache, &far, &value));
	other = name_of(7, 99, "namf");
	assert_false(g4_lookup_find(&cache, &other, &value));
}

static void a_forgotten_name_is_gone_and_its_neighbour_stays(void **state)
{
	struct g4_lookup_name name = name_of(7, 99, "name"), same_place = name_of(7, 99 + ENTRIES, "other");
	struct g4_lookup_value value;

	(void)state;
	put(&name, 1);
	g4_lookup_forget(&cache, &same_place);
	assert_true(g4_lookup_find(&cache, &name, &value));
	g4_lookup_forget(&cache, &name);
	assert_false(g4_lookup_find(&cache, &name, &value));
}

static void long_names_are_not_cached(void **state)
{
	struct g4_lookup_name fits = name_of(1, 5, "0123456789abcdef0123456789abcdef");
	struct g4_lookup_name over = name_of(1, 5, "0123456789abcdef0123456789abcdefg");
	struct g4_lookup_value value;

	(void)state;
	put(&fits, 3);
	assert_true(g4_lookup_find(&cache, &fits, &value));
	put(&over, 4);
	assert_false(g4_lookup_find(&cache, &over, &value));
	g4_lookup_forget(&cache, &over);
	assert_true(g4_lookup_find(&cache, &fits, &value));
}

#define ROUNDS 200000u

/* Each thread has a directory; all share places. The inode says which name it belongs to. */
static void *put_and_find(void *argument)
{
	uint64_t directory = (uint64_t)(uintptr_t)argument, wrong = 0;

	for (uint32_t round = 0; round < ROUNDS; round++) {
		char text[16];
		struct g4_lookup_value value;
		snprintf(text, sizeof(text), "n%u", round % 64);
		struct g4_lookup_name name = name_of(directory, round % 64, text);
		if (g4_lookup_find(&cache, &name, &value))
			wrong += value.inode != directory * 1000 + round % 64 ||
				 value.index != value.inode % G4_LOOKUP_INDEXES;
		put(&name, directory * 1000 + round % 64);
		if (round % 3 == 0) {
			g4_lookup_forget(&cache, &name);
			wrong += g4_lookup_find(&cache, &name, &value);
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
