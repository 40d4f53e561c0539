/* SPDX-License-Identifier: Apache-2.0 */
/* Hints of many pages at a time are those that the table has of each. */
#include "files/data/stages.h"

#include "data/hints.h"

#define PAGES 200u

static struct g4_sum_entry sums[PAGES];
static uint64_t places[PAGES];

static void make_sums(void)
{
	for (uint32_t k = 0; k < PAGES; k++) {
		const void *page = data + (uint64_t)k * G4_PAGE_BYTES;
		g4_sums_make(wg, G4_CHECKSUM_BLAKE3, &page, 1, &sums[k]);
	}
}

/* In their domain, and in no other one; those behind the count are left alone. */
static void rows_are_inserted_and_found(void **state)
{
	(void)state;
	make_sums();
	g4_hints_insert(wg, fs, sums, 3, PAGES - 1, g4_page_address(5000));
	for (uint32_t k = 0; k < PAGES; k++) {
		const struct g4_listing_key key = g4_listing_key(&sums[k], 3);
		assert_int_equal(g4_address_stored(g4_ddt_find(&fs->ddt, key.bytes)),
				 k < PAGES - 1 ? (5000 + k) * G4_PAGE_BYTES : 0);
	}
	memset(places, 0xee, sizeof(places));
	g4_hints_find(wg, fs, sums + 1, 3, PAGES - 1, places);
	for (uint32_t k = 0; k < PAGES - 1; k++)
		assert_int_equal(places[k], k < PAGES - 2 ? (5001 + k) * G4_PAGE_BYTES : 0);
	assert_int_equal(places[PAGES - 1], UINT64_C(0xeeeeeeeeeeeeeeee));
	g4_hints_find(wg, fs, sums, 0, PAGES, places);
	for (uint32_t k = 0; k < PAGES; k++)
		assert_int_equal(places[k], 0);
}

/* Of a batch's pages from one on: zeros are told without the table, whatever it says of them. */
static void pages_of_a_batch_are_looked_at(void **state)
{
	(void)state;
	memset(data + 7 * G4_PAGE_BYTES, 0, G4_PAGE_BYTES);
	memset(data + 8 * G4_PAGE_BYTES, 0, G4_PAGE_BYTES - 1);
	make_sums();
	g4_hints_insert(wg, fs, sums, 0, 9, g4_page_address(5000));
	g4_gather_memory(data, 0, 20, 0, batch);
	memcpy(batch->sums, sums, 20 * sizeof(sums[0]));
	batch->known[4] = 77;
	g4_hints_look(wg, fs, batch, 5);
	assert_int_equal(batch->known[4], 77);
	for (uint32_t k = 5; k < 20; k++)
		assert_int_equal(batch->known[k], k == 7 ? G4_KNOWN_ZEROS :
						  k < 9	 ? (5000 + k) * G4_PAGE_BYTES :
							   G4_KNOWN_NOT);
}

RUN_TESTS(stage_test(rows_are_inserted_and_found), stage_test(pages_of_a_batch_are_looked_at))
