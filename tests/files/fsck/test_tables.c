/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of the checker: hash tables, arrays, bitmaps. */
#include "files/fsck/checked.h"

#include "files/files.h"

#include "fsck/tables.h"

#define KEYS 5000u

static void a_table_keeps_what_was_added(void **state)
{
	static struct g4_fsck fsck;
	struct g4_fsck_table table = {0};
	uint64_t count;

	(void)state;
	assert_null(g4_fsck_find(&table, 7));
	for (uint64_t k = KEYS; k > 0; k--) {
		struct g4_fsck_cell *cell = g4_fsck_add(&fsck, &table, k * k);
		assert_non_null(cell);
		assert_int_equal(cell->a, 0);
		cell->a = (uint32_t)k;
	}
	assert_int_equal(table.count, KEYS);
	for (uint64_t k = 1; k <= KEYS; k++)
		assert_int_equal(g4_fsck_find(&table, k * k)->a, k);
	assert_null(g4_fsck_find(&table, 2));
	assert_int_equal(g4_fsck_add(&fsck, &table, 9)->a, 3); /* it is there */
	assert_int_equal(table.count, KEYS);
	uint64_t *keys = g4_fsck_keys(&fsck, &table, &count);
	assert_int_equal(count, KEYS);
	for (uint64_t k = 1; k <= KEYS; k++)
		assert_int_equal(keys[k - 1], k * k);
	free(keys);
	free(table.cells);
}

static void an_array_grows(void **state)
{
	static struct g4_fsck fsck;
	uint64_t *array = NULL, room = 0;

	(void)state;
	for (uint64_t k = 0; k < 1000; k++) {
		assert_true(g4_fsck_reserve(&fsck, (void **)&array, k, &room, sizeof(*array)));
		assert_true(room > k);
		array[k] = k;
	}
	for (uint64_t k = 0; k < 1000; k++)
		assert_int_equal(array[k], k);
	free(array);
}

static void bits_are_set_and_cleared(void **state)
{
	static struct g4_fsck fsck = {.bitmap_words = 4};
	uint64_t *bitmap = NULL;

	(void)state;
	assert_true(g4_fsck_set_bits(&fsck, &bitmap, 60, 10));
	for (uint64_t bit = 0; bit < 256; bit++)
		assert_int_equal(g4_fsck_bit(bitmap, bit), bit >= 60 && bit < 70);
	g4_fsck_clear_bit(bitmap, 64);
	g4_fsck_set_bit(bitmap, 255);
	assert_false(g4_fsck_bit(bitmap, 64));
	assert_true(g4_fsck_bit(bitmap, 63) && g4_fsck_bit(bitmap, 65) && g4_fsck_bit(bitmap, 255));
	free(bitmap);
}

RUN_TESTS(cmocka_unit_test(a_table_keeps_what_was_added), cmocka_unit_test(an_array_grows),
	  cmocka_unit_test(bits_are_set_and_cleared))
