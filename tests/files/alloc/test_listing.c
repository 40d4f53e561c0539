/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of sums of listed pages are written and compared as one by one, wherever they begin, and their neighbours stay. */
#include "files/files.h"

#include "alloc/listing.h"
#include "data/sums.h"

#define DOMAIN 5u
#define TODAY 20000u

static struct g4_listing_page page, before;
static struct g4_sum_entry sums[G4_LISTING_PAGES];
static uint8_t contents_of[G4_LISTING_PAGES + G4_PAGE_BYTES]; /* page k begins at byte k */

static void fill(void)
{
	uint64_t seed = 3;

	for (uint32_t k = 0; k < sizeof(page); k++)
		((uint8_t *)&page)[k] = (uint8_t)rig_random(&seed);
	page.day = TODAY - 100;
	for (uint32_t pair = 0; pair < G4_LISTING_PAIRS; pair++)
		page.since[pair] %= 150; /* some are of a clock that was ahead */
	before = page;
	for (uint32_t k = 0; k < sizeof(contents_of); k++)
		contents_of[k] = (uint8_t)rig_random(&seed);
	for (uint32_t k = 0; k < G4_LISTING_PAGES; k++) {
		const void *contents = &contents_of[k];
		g4_sums_make(wg, G4_CHECKSUM_BLAKE3, &contents, 1, &sums[k]);
	}
}

static void rows_are_written(void **state)
{
	static const uint32_t counts[] = {1, 2, 3, 5, 31, 33, 64, 100, G4_LISTING_PAGES};

	(void)state;
	for (uint32_t n = 0; n < sizeof(counts) / sizeof(counts[0]); n++) {
		const uint32_t count = counts[n], at = G4_LISTING_PAGES - count - (count < 100 ? 7 : 0);
		fill();
		g4_listing_write(wg, &page, at, count, sums, DOMAIN, TODAY);
		for (uint32_t k = 0; k < count; k++) {
			const struct g4_listing_key key = g4_listing_key(&sums[k], DOMAIN);
			assert_memory_equal(page.sums[at + k], key.bytes, G4_LISTING_SUM_BYTES);
			memcpy(before.sums[at + k], key.bytes, G4_LISTING_SUM_BYTES);
			if (before.since[(at + k) / 2] < 100)
				before.since[(at + k) / 2] = 100;
		}
		assert_memory_equal(&page, &before, sizeof(page));
		assert_int_equal(g4_listing_match(wg, &page, at, count, sums, DOMAIN), count);
		assert_int_equal(g4_listing_match(wg, &page, at, count, sums, 0), 0);
	}
}

/* Of any two that differ the first one counts; any byte makes one differ. */
static void the_first_difference_ends_a_row(void **state)
{
	(void)state;
	fill();
	g4_listing_write(wg, &page, 0, G4_LISTING_PAGES, sums, DOMAIN, TODAY);
	for (uint32_t k = 0; k < G4_LISTING_PAGES; k += 3) {
		for (uint32_t other = k; other < G4_LISTING_PAGES; other += 41) {
			page.sums[k][k % G4_LISTING_SUM_BYTES] ^= 1;
			page.sums[other][30] ^= 2;
			assert_int_equal(g4_listing_match(wg, &page, 0, G4_LISTING_PAGES, sums, DOMAIN), k);
			page.sums[k][k % G4_LISTING_SUM_BYTES] ^= 1;
			page.sums[other][30] ^= 2;
		}
	}
}

RUN_TESTS(fs_test(rows_are_written), fs_test(the_first_difference_ends_a_row))
