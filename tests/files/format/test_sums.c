/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of sums on disk: their header is spread over the entries, and where they lie is told by a distance. */
#include "files/files.h"

#include "format/sums.h"

static void a_header_is_spread_and_put_together(void **state)
{
	struct g4_sums_page page, bare;
	struct g4_sums_header header = {.inode = UINT64_C(0x123456789abcdef0), .level = 2, .quarter = 3}, found;

	(void)state;
	header.header.magic = G4_BLOCK_MAGIC;
	header.header.address = UINT64_C(0xfedcba9876543000);
	rig_pattern(&page, 1, sizeof(page));
	g4_sums_strip(&page);
	bare = page;
	g4_sums_embed(&page, &header);
	g4_sums_extract(&page, &found);
	assert_memory_equal(&found, &header, sizeof(header));
	g4_sums_strip(&page);
	assert_memory_equal(&page, &bare, sizeof(page));
}

static void a_place_is_told_in_both_directions(void **state)
{
	const uint64_t distances[] = {1, 7 * G4_GIB / G4_PAGE_BYTES, (UINT64_C(1) << 39) / G4_PAGE_BYTES};
	const struct g4_address indirect = g4_address_from(UINT64_C(1) << 40);
	struct g4_sums_places places;

	(void)state;
	memset(&places, 0, sizeof(places));
	assert_true(g4_address_is_none(g4_sums_place(&places, indirect, 1)));
	for (uint32_t i = 0; i < 6; i++) {
		const struct g4_address to =
			g4_address_after_pages(indirect, i % 2 ? 0 - distances[i / 2] : distances[i / 2]);
		assert_true(g4_sums_set_place(&places, indirect, 1, to));
		assert_true(g4_address_is(g4_sums_place(&places, indirect, 1), to));
		assert_true(g4_address_is_none(g4_sums_place(&places, indirect, 0)));
	}
	assert_false(g4_sums_set_place(&places, G4_NO_ADDRESS, 1, g4_address_from(UINT64_C(1) << 52))); /* 4 PiB */
	assert_true(g4_sums_set_place(&places, indirect, 1, G4_NO_ADDRESS));
	assert_true(g4_address_is_none(g4_sums_place(&places, indirect, 1)));
}

static void the_entry_of_a_large_page_says_where_its_parts_are(void **state)
{
	const uint64_t hashes[G4_SUMS_QUARTERS] = {1, UINT64_MAX, 0x800000000000, 0};
	struct g4_sum_entry entry;

	(void)state;
	g4_sum_entry_make_large(&entry, g4_page_address(12345), hashes);
	assert_int_equal(g4_sum_entry_algorithm(&entry), G4_CHECKSUM_LARGE);
	assert_true(g4_address_is(g4_sum_entry_place(&entry), g4_page_address(12345)));
	for (uint32_t i = 0; i < G4_SUMS_QUARTERS; i++)
		assert_int_equal(g4_sum_entry_hash(&entry, i), hashes[i] & G4_SUMS_HASH_MASK);
	g4_sum_entry_make_lost(&entry);
	assert_int_equal(g4_sum_entry_algorithm(&entry), G4_CHECKSUM_LOST);
}

RUN_TESTS(cmocka_unit_test(a_header_is_spread_and_put_together), cmocka_unit_test(a_place_is_told_in_both_directions),
	  cmocka_unit_test(the_entry_of_a_large_page_says_where_its_parts_are))
