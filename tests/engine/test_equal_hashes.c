/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of one hash lie in one leaf, so a directory has at most as many of them as a leaf has room for: one more is refused, and nothing
 * else changes. Here all names have one of three hashes, and there are several hundred.
 */
#include "long_names.h"

static uint32_t hooked_hash(const char *name)
{
	return name[0] == 'a' ? 0 : name[0] == 'b' ? 1 : UINT32_MAX;
}
#define g4_dir_hash(key, name, bytes) ((void)(bytes), hooked_hash(name))
#include "dir/dir.c" /* in the place of the library's */

#define MOST ((G4_DIR_UNITS - G4_DIR_HEADER_UNITS) / 2) /* names of two units in a leaf */

static const char hashes[] = "abz";

static uint32_t put_name(char name[16], char hash, uint32_t number)
{
	return (uint32_t)snprintf(name, 16, "%c%u", hash, number);
}

static int insert(char hash, uint32_t number)
{
	struct g4_dir_slot slot = {0};
	struct g4_txn txn;
	char name[16];
	const uint32_t bytes = put_name(name, hash, number);

	assert_int_equal(g4_dir_lookup(names.wg, &names.dir, name, bytes, &slot), -G4_E_NOENT);
	assert_int_equal(g4_begin(names.wg, names.fs, g4_dir_insert_credits(&slot, bytes), &txn), 0);
	const int rc = g4_dir_insert(names.wg, &names.dir, &txn, &slot, name, bytes, names.inode, 8);
	g4_txn_end(&txn);
	return rc;
}

static int look_up(char hash, uint32_t number, struct g4_dir_slot *slot)
{
	char name[16];
	const uint32_t bytes = put_name(name, hash, number);

	return g4_dir_lookup(names.wg, &names.dir, name, bytes, slot);
}

static void take(char hash, uint32_t number)
{
	struct g4_dir_slot slot = {0};
	struct g4_txn txn;

	assert_int_equal(look_up(hash, number, &slot), 0);
	assert_int_equal(g4_begin(names.wg, names.fs, 4, &txn), 0);
	assert_int_equal(g4_dir_remove(names.wg, &names.dir, &txn, &slot), 0);
	g4_txn_end(&txn);
}

/* Positions of a listing rise, so that none comes twice, and none that stays is passed over; how many there are. */
static uint32_t count_positions(void)
{
	uint64_t positions[G4_DIR_LEAF_ENTRIES], last = 0;
	uint32_t numbers[G4_DIR_LEAF_ENTRIES], count = 0;

	for (uint64_t from = 0; from != UINT64_MAX;) {
		const uint32_t n = names_read_leaf(&from, numbers, positions);
		for (uint32_t k = 0; k < n; k++, count++) {
			assert_true(count == 0 || positions[k] > last);
			last = positions[k];
		}
	}
	return count;
}

static void a_leaf_has_as_many_of_one_hash_as_it_has_room_for(void **state)
{
	struct g4_dir_slot slot;

	(void)state;
	for (uint32_t k = 0; k < MOST; k++)
		for (uint32_t h = 0; h < 3; h++)
			assert_int_equal(insert(hashes[h], k), 0);
	const uint64_t pages = names.dir.pages;
	assert_int_equal(count_positions(), 3 * MOST);
	for (uint32_t h = 0; h < 3; h++) {
		assert_int_equal(insert(hashes[h], MOST), -G4_E_NOSPC);
		assert_int_equal(names.dir.pages, pages);
		for (uint32_t k = 0; k <= MOST; k++)
			assert_int_equal(look_up(hashes[h], k, &slot), k < MOST ? 0 : -G4_E_NOENT);
	}
	/* where one goes there is room for another one, with a number that none has */
	take('b', 17);
	assert_int_equal(insert('b', MOST), 0);
	assert_int_equal(look_up('b', 17, &slot), -G4_E_NOENT);
	assert_int_equal(count_positions(), 3 * MOST);
	for (uint32_t k = 0; k <= MOST; k++)
		for (uint32_t h = 0; h < 3; h++)
			if (look_up(hashes[h], k, &slot) == 0)
				take(hashes[h], k);
	assert_int_equal(count_positions(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		names_test(a_leaf_has_as_many_of_one_hash_as_it_has_room_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
