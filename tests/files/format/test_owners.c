/* SPDX-License-Identifier: Apache-2.0 */
/* Pages that lead to counts of owners, and those with the counts: what is impossible in them is found. */
#include "files/files.h"

#include "format/layout.h"
#include "format/owners.h"

static void counts_are_of_their_region_and_add_up(void **state)
{
	struct g4_owners_page page = {.region = 7, .shared = 2};

	(void)state;
	page.more[0] = 1;
	page.more[G4_REGION_PAGES - 1] = 9;
	assert_int_equal(g4_owners_page_validate(&page, 7), 0);
	assert_true(g4_owners_page_validate(&page, 8) < 0);
	page.shared = 3;
	assert_true(g4_owners_page_validate(&page, 7) < 0);
}

static void pages_of_counts_lie_where_pages_can(void **state)
{
	struct g4_shares_page page = {.group = 2};
	struct g4_layout layout;

	(void)state;
	assert_int_equal(g4_layout_plan(G4_GIB, 0, &layout), 0);
	assert_int_equal(g4_shares_page_validate(&page, 2, &layout), 0);
	assert_true(g4_shares_page_validate(&page, 1, &layout) < 0);
	page.owners[5] = layout.data_address + G4_PAGE_BYTES;
	assert_int_equal(g4_shares_page_validate(&page, 2, &layout), 0);
	page.owners[5] += 128;
	assert_true(g4_shares_page_validate(&page, 2, &layout) < 0);
	page.owners[5] = layout.backup_address;
	assert_true(g4_shares_page_validate(&page, 2, &layout) < 0);
}

static void what_is_listed_has_a_sum(void **state)
{
	struct g4_shares_page page = {.group = 2};
	struct g4_listing_page listing = {.region = 70, .quarter = 3};
	struct g4_layout layout;

	(void)state;
	assert_int_equal(g4_layout_plan(G4_GIB, 0, &layout), 0);
	page.listed[8][7] = UINT64_C(1) << 63;
	assert_true(g4_listed(&page, 8, G4_REGION_PAGES - 1));
	assert_true(g4_listed_any(&page, 8, 3));
	assert_false(g4_listed_any(&page, 8, 2));
	assert_true(g4_shares_page_validate(&page, 2, &layout) < 0);
	page.listings[8][3] = layout.data_address + G4_PAGE_BYTES;
	assert_int_equal(g4_shares_page_validate(&page, 2, &layout), 0);
	page.listings[8][2] = layout.alloc_address;
	assert_true(g4_shares_page_validate(&page, 2, &layout) < 0);
	assert_int_equal(g4_listing_page_validate(&listing, 70, 3), 0);
	assert_true(g4_listing_page_validate(&listing, 70, 2) < 0);
	assert_true(g4_listing_page_validate(&listing, 71, 3) < 0);
}

static void buffered_owners_are_of_their_group(void **state)
{
	struct g4_buffered_page page = {.group = 3, .count = 5, .pages = {511, 512, 1023, 512, 512}};
	struct g4_shares_page shares = {.group = 2};
	uint64_t bits[G4_REGION_WORDS];
	struct g4_layout layout;

	(void)state;
	assert_int_equal(g4_buffered_page_validate(&page, 3), 0);
	assert_true(g4_buffered_page_validate(&page, 2) < 0);
	page.pages[5] = G4_GROUP_PAGES; /* behind the last one */
	assert_int_equal(g4_buffered_page_validate(&page, 3), 0);
	page.count = 6;
	assert_true(g4_buffered_page_validate(&page, 3) < 0);
	page.pages[5] = G4_GROUP_PAGES - 1;
	assert_int_equal(g4_buffered_page_validate(&page, 3), 0);
	page.count = G4_BUFFERED_MOST + 1;
	assert_true(g4_buffered_page_validate(&page, 3) < 0);
	page.count = 6;
	assert_int_equal(g4_buffered_most(&page), 1);
	assert_true(g4_buffered_bits(&page, 0, bits));
	assert_int_equal(bits[7], UINT64_C(1) << 63);
	assert_true(g4_buffered_bits(&page, 1, bits));
	assert_int_equal(bits[0], 1);
	assert_false(g4_buffered_bits(&page, 2, bits));
	assert_true(g4_buffered_bits(&page, G4_GROUP_REGIONS - 1, bits));
	g4_buffered_take(&page, 0);
	assert_int_equal(page.count, 5);
	assert_int_equal(page.pages[0], G4_GROUP_PAGES - 1);
	assert_int_equal(g4_layout_plan(G4_GIB, 0, &layout), 0);
	shares.buffered = layout.data_address;
	assert_int_equal(g4_shares_page_validate(&shares, 2, &layout), 0);
	shares.buffered = layout.alloc_address;
	assert_true(g4_shares_page_validate(&shares, 2, &layout) < 0);
}

RUN_TESTS(cmocka_unit_test(counts_are_of_their_region_and_add_up),
	  cmocka_unit_test(pages_of_counts_lie_where_pages_can), cmocka_unit_test(what_is_listed_has_a_sum),
	  cmocka_unit_test(buffered_owners_are_of_their_group))
