/* SPDX-License-Identifier: Apache-2.0 */
/* The lookup cache alone: exact, coherent with what is forgotten, whole under concurrent use. */
#include <pthread.h>

#include "dir/lookup.h"
#include "rig.h"

#define ENTRIES 16u

static struct g4_lookup_entry entries[ENTRIES];
static struct g4_lookup cache = {entries, ENTRIES - 1};
static const uint64_t secret[4] = {1, 2, 3, 4};

static struct g4_lookup_name name_of(uint64_t directory, uint32_t hash, const char *text)
{
	struct g4_lookup_name name = {directory, hash, text, (uint32_t)strlen(text), {0, 0}};

	g4_lookup_print(&name, secret);
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

/* From a length on an entry has a print in place of the name: it differs where any byte does. */
static void long_names_are_known_by_all_their_bytes(void **state)
{
	struct g4_lookup_name fits = name_of(1, 5, "0123456789abcdef0123456789abcdef");
	char text[256], other[256];
	struct g4_lookup_value value;

	(void)state;
	put(&fits, 3);
	assert_true(g4_lookup_find(&cache, &fits, &value));
	for (uint32_t bytes = G4_LOOKUP_NAME_BYTES + 1; bytes < sizeof(text); bytes += 37) {
		memset(text, 'n', bytes);
		text[bytes] = 0;
		const struct g4_lookup_name name = name_of(1, 6, text);
		put(&name, 4 + bytes);
		for (uint32_t at = 0; at < bytes; at++) {
			memcpy(other, text, bytes + 1);
			other[at]++;
			const struct g4_lookup_name wrong = name_of(1, 6, other);
			assert_false(g4_lookup_find(&cache, &wrong, &value));
			g4_lookup_forget(&cache, &wrong);
		}
		text[bytes - 1] = 0;
		const struct g4_lookup_name shorter = name_of(1, 6, text);
		assert_false(g4_lookup_find(&cache, &shorter, &value));
		text[bytes - 1] = 'n';
		assert_true(g4_lookup_find(&cache, &name, &value));
		assert_int_equal(value.inode, 4 + bytes);
		g4_lookup_forget(&cache, &name);
		assert_false(g4_lookup_find(&cache, &name, &value));
	}
	assert_true(g4_lookup_find(&cache, &fits, &value));
}

/* Another mount has other prints: nobody can make names that are alike before it. */
static void prints_are_by_the_secret(void **state)
{
	static const uint64_t others[4] = {1, 2, 3, 5};
	struct g4_lookup_name a = name_of(1, 5, "0123456789abcdef0123456789abcdefg"), b = a;

	(void)state;
	g4_lookup_print(&b, others);
	assert_int_equal(a.print[0], b.print[0]);
	assert_int_not_equal(a.print[1], b.print[1]);
	assert_int_not_equal(a.print[0], a.print[1]);
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
		cmocka_unit_test_setup(long_names_are_known_by_all_their_bytes, setup),
		cmocka_unit_test_setup(prints_are_by_the_secret, setup),
		cmocka_unit_test_setup(concurrent_users_never_see_another_name, setup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
