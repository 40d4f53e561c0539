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
	g4_hints_insert(wg, fs, sums, 3, PAGES - 1, g4_page_address(5000), NULL);
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
	struct g4_hints_seen seen;

	(void)state;
	memset(data + 7 * G4_PAGE_BYTES, 0, G4_PAGE_BYTES);
	memset(data + 8 * G4_PAGE_BYTES, 0, G4_PAGE_BYTES - 1);
	make_sums();
	g4_hints_insert(wg, fs, sums, 0, 9, g4_page_address(5000), NULL);
	g4_gather_memory(data, 0, 20, 0, batch);
	memcpy(batch->sums, sums, 20 * sizeof(sums[0]));
	batch->known[4] = 77;
	g4_hints_look(wg, fs, batch, 5, false, &seen);
	assert_int_equal(seen.hints[0], 1 << 5 | 1 << 6 | 1 << 8);
	assert_int_equal(seen.unknown[0], (1 << 20) - (1 << 9));
	assert_int_equal(seen.hints[1] | seen.unknown[1], 0);
	assert_int_equal(batch->known[4], 77);
	for (uint32_t k = 5; k < 20; k++)
		assert_int_equal(batch->known[k], k == 7 ? G4_KNOWN_ZEROS :
						  k < 9	 ? (5000 + k) * G4_PAGE_BYTES :
							   G4_KNOWN_NOT);
}

/* Of several pages that are the same the first one is it, also where a batch before had it; in another domain it is another one. */
static void the_same_pages_are_known_by_the_first(void **state)
{
	struct g4_batch other;

	(void)state;
	for (uint32_t k = 40; k < 100; k++)
		memcpy(data + (uint64_t)k * G4_PAGE_BYTES, data + (uint64_t)(k % 10) * G4_PAGE_BYTES, G4_PAGE_BYTES);
	make_sums();
	g4_gather_memory(data, 0, 100, 0, batch);
	memset(batch->lists->seen, 0, sizeof(batch->lists->seen));
	memcpy(batch->sums, sums, 100 * sizeof(sums[0]));
	memset(batch->known, 0, 100 * sizeof(*batch->known));
	batch->domain = 3;
	batch->known[0] = G4_KNOWN_ZEROS; /* others are not asked for it */
	batch->known[50] = 77 * G4_PAGE_BYTES;
	g4_hints_same(wg, fs, batch, 0);
	for (uint32_t k = 0; k < 100; k++)
		assert_int_equal(batch->known[k], k == 0      ? G4_KNOWN_ZEROS :
						  k == 50     ? 77 * G4_PAGE_BYTES :
						  k < 41      ? G4_KNOWN_NOT :
						  k % 10 == 0 ? G4_KNOWN_SAME(40) :
								G4_KNOWN_SAME(k % 10));
	for (uint32_t domain = 3; domain < 5; domain++) {
		g4_batch_init(&other, batch->lists, 100, 20);
		other.count = 20;
		other.domain = domain;
		memcpy(other.sums, sums + 30, 20 * sizeof(sums[0]));
		memset(other.known, 0, 20 * sizeof(*other.known));
		g4_hints_same(wg, fs, &other, 0);
		for (uint32_t k = 0; k < 20; k++)
			assert_int_equal(other.known[k], domain == 4 && k < 10	? G4_KNOWN_NOT :
							 domain == 4 && k == 10 ? G4_KNOWN_NOT :
							 k < 10			? G4_KNOWN_SAME(30 + k) :
							 k == 10		? G4_KNOWN_SAME(40) :
							 domain == 3		? G4_KNOWN_SAME(k - 10) :
										  G4_KNOWN_NOT);
	}
}

RUN_TESTS(stage_test(rows_are_inserted_and_found), stage_test(pages_of_a_batch_are_looked_at),
	  stage_test(the_same_pages_are_known_by_the_first))
