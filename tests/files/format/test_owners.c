/* SPDX-License-Identifier: Apache-2.0 */
/* Pages that lead to counts of owners, and those with the counts: what is impossible in them is found. */
#include "files/files.h"

#include "format/layout.h"
#include "format/owners.h"
#include "format/sums.h"

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

/* Beside the days themselves: all that a byte can tell is right, the rest is as young as it may be; no page is told to be older than it is. */
static void ages_of_listed_pages_are_kept(void **state)
{
	static const uint32_t steps[] = {0, 1, 100, 154, 255, 256, 300, 5000};
	uint32_t days[G4_LISTING_PAIRS];

	(void)state;
	for (uint32_t n = 0; n < sizeof(steps) / sizeof(steps[0]); n++) {
		for (uint32_t gap = 0; gap <= 300; gap++) {
			struct g4_listing_page page = {.day = 1000};
			uint32_t today = 1000, base = 1000;
			for (uint32_t pair = 0; pair < G4_LISTING_PAIRS; pair++) {
				days[pair] = today;
				page.since[pair] = g4_listing_since(&page, today);
				base = today > base + 255 ? today - 255 : base;
				today += pair % 2 ? steps[n] : gap / 8;
			}
			for (uint32_t pair = 0; pair < G4_LISTING_PAIRS; pair++) {
				const uint64_t told = days[pair] > base ? days[pair] : base;
				assert_int_equal(g4_listing_day(&page, 2 * pair), told);
				assert_int_equal(g4_listing_day(&page, 2 * pair + 1), told);
			}
		}
	}
	/* whatever an image says */
	struct g4_listing_page page = {.day = UINT32_MAX};
	memset(page.since, 255, sizeof(page.since));
	assert_int_equal(g4_listing_day(&page, 0), (uint64_t)UINT32_MAX + 255);
	assert_int_equal(g4_listing_since(&page, 5), 0);
	page.day = 0;
	assert_int_equal(g4_listing_since(&page, UINT32_MAX), 255);
	assert_int_equal(page.day, UINT32_MAX - 255);
	assert_int_equal(page.since[63], 0);
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

/* Keys of weaker sums say what kind they are of, and domains keep them apart; FORMAT.md has the numbers. */
static void any_sum_makes_a_key(void **state)
{
	static const uint64_t words[4] = {0x1234, 0, 0, UINT64_C(1) << 51}; /* CRC-32C: kind 1 in bits 243 to 250 */
	struct g4_sum_entry crc, other, blake3;

	(void)state;
	memcpy(crc.bytes, words, sizeof(words));
	other = crc;
	other.bytes[1] ^= 1;
	memset(blake3.bytes, 0x5a, sizeof(blake3.bytes));
	blake3.bytes[31] |= 8;
	assert_int_equal(g4_sum_entry_algorithm(&crc), G4_CHECKSUM_CRC32C);
	assert_int_equal(g4_sum_entry_algorithm(&blake3), G4_CHECKSUM_BLAKE3);
	const struct g4_listing_key key = g4_listing_key(&crc, 0), mine = g4_listing_key(&crc, 9);
	const struct g4_listing_key strong = g4_listing_key(&blake3, 0);
	assert_int_equal(g4_listing_algorithm(key.bytes), G4_CHECKSUM_CRC32C);
	assert_int_equal(g4_listing_algorithm(mine.bytes), G4_CHECKSUM_CRC32C);
	assert_int_equal(g4_listing_algorithm(strong.bytes), G4_CHECKSUM_BLAKE3);
	assert_memory_equal(strong.bytes, blake3.bytes, G4_LISTING_SUM_BYTES);
	assert_true(g4_listing_is_of(key.bytes, &crc, 0));
	assert_false(g4_listing_is_of(mine.bytes, &crc, 8));
	assert_true(g4_listing_is_of(mine.bytes, &crc, 9));
	assert_false(g4_listing_is_of(key.bytes, &other, G4_DOMAIN_MOST));
	assert_false(g4_listing_is_of(key.bytes, &blake3, G4_DOMAIN_MOST));
	assert_false(g4_listing_is_of(strong.bytes, &crc, G4_DOMAIN_MOST));
	/* the bits of the page that an entry stands in are not part of it */
	crc.bytes[31] |= 0xf0;
	assert_true(g4_listing_is_of(key.bytes, &crc, 0));
	uint64_t first;
	memcpy(&first, key.bytes, sizeof(first));
	assert_int_equal(first, UINT64_C(0xc48efec5ab54db02));
}

RUN_TESTS(cmocka_unit_test(counts_are_of_their_region_and_add_up),
	  cmocka_unit_test(pages_of_counts_lie_where_pages_can), cmocka_unit_test(what_is_listed_has_a_sum),
	  cmocka_unit_test(ages_of_listed_pages_are_kept), cmocka_unit_test(buffered_owners_are_of_their_group),
	  cmocka_unit_test(any_sum_makes_a_key))
