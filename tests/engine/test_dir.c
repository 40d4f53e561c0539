/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of very many long names, in a cache that holds a small part of it: growing and listing. (Shrinking: test_shrink.c.) */
#include "long_names.h"

static void very_many_names_are_found_listed_and_removed(void **state)
{
	const uint32_t count = rig_slow() ? 20000 : 100000;
	uint32_t numbers[G4_DIR_LEAF_ENTRIES], listed = 0;
	uint8_t *seen = (uint8_t *)calloc(count, 1);
	uint64_t positions[G4_DIR_LEAF_ENTRIES], last = 0;
	struct g4_dir_slot slot = {0};

	(void)state;
	assert_non_null(seen);
	for (uint32_t k = 0; k < count; k++)
		names_insert(k);
	assert_int_equal(names_height(), 2); /* three levels with the leaves */
	for (uint32_t k = 0; k < count; k++) {
		assert_int_equal(names_lookup(k, &slot), 0);
		assert_int_equal(slot.inode, names.inode);
	}
	assert_int_equal(names_lookup(count, &slot), -G4_E_NOENT);
	for (uint64_t from = 0; from != UINT64_MAX;) {
		uint32_t n = names_read_leaf(&from, numbers, positions);
		for (uint32_t k = 0; k < n; k++) {
			assert_true(listed == 0 || positions[k] > last);
			last = positions[k];
			assert_int_equal(seen[numbers[k]]++, 0);
			listed++;
		}
	}
	assert_int_equal(listed, count);
	free(seen);
}

/* While the listing goes on, names go and come; what stays is listed once. */
static void a_listing_is_stable_under_changes(void **state)
{
	const uint32_t count = rig_slow() ? 3000 : 12000;
	uint32_t numbers[G4_DIR_LEAF_ENTRIES], fresh = count;
	uint8_t *seen = (uint8_t *)calloc(count, 1), *gone = (uint8_t *)calloc(count, 1);
	uint64_t positions[G4_DIR_LEAF_ENTRIES], random = rig_setting("G4_DIR_SEED", 1);

	(void)state;
	assert_non_null(seen);
	assert_non_null(gone);
	for (uint32_t k = 0; k < count; k++)
		names_insert(k);
	for (uint64_t from = 0; from != UINT64_MAX;) {
		uint64_t leaf = from;
		uint32_t n = names_read_leaf(&leaf, numbers, positions);
		/* a reader takes a few names at a time and comes back behind the last of them */
		uint32_t taken = n == 0 ? 0 : 1 + (uint32_t)(rig_random(&random) % n);
		for (uint32_t k = 0; k < taken; k++)
			if (numbers[k] < count)
				assert_int_equal(seen[numbers[k]]++, 0);
		from = taken == n ? leaf : positions[taken - 1] + 1;
		for (uint32_t k = 0; k < 5; k++) {
			uint32_t number = (uint32_t)(rig_random(&random) % count);
			if (number % 2 && !gone[number]) {
				names_remove(number);
				gone[number] = 1;
			}
			names_insert(fresh++);
		}
	}
	for (uint32_t k = 0; k < count; k++)
		assert_true(seen[k] == 1 || (seen[k] == 0 && gone[k]));
	free(seen);
	free(gone);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		names_test(very_many_names_are_found_listed_and_removed),
		names_test(a_listing_is_stable_under_changes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
