/* SPDX-License-Identifier: Apache-2.0 */
/* What is found in a page of buffered owners is what is there, however many lanes look. */
#include "files/files.h"

#include "alloc/buffered.h"

static struct g4_buffered_page page;

/* Entries of a few groups' regions, several of the same pages. */
static void fill(uint32_t count, uint64_t *seed)
{
	memset(&page, 0, sizeof(page));
	page.count = count;
	for (uint32_t k = 0; k < G4_BUFFERED_MOST; k++) /* those behind the last may be anything */
		page.pages[k] = (uint16_t)(rig_random(seed) % (rig_random(seed) % 2 ? G4_GROUP_PAGES : 700));
}

static const uint32_t counts[] = {0, 1, 2, 3, 5, 63, 64, 65, 1000, G4_BUFFERED_MOST - 1, G4_BUFFERED_MOST};

static void the_pages_of_a_region_are_seen(void **state)
{
	uint64_t seed = 1, bits[G4_REGION_WORDS];

	(void)state;
	for (uint32_t n = 0; n < sizeof(counts) / sizeof(counts[0]); n++) {
		fill(counts[n], &seed);
		for (uint32_t region = 0; region < G4_GROUP_REGIONS; region++) {
			bool is_there[G4_REGION_PAGES] = {false}, any = false;
			for (uint32_t k = 0; k < page.count; k++)
				if (page.pages[k] / G4_REGION_PAGES == region)
					any = is_there[page.pages[k] % G4_REGION_PAGES] = true;
			assert_int_equal(g4_buffered_look(wg, &page, region, bits), any);
			for (uint32_t at = 0; at < G4_REGION_PAGES; at++)
				assert_int_equal(bits[at / 64] >> at % 64 & 1, is_there[at]);
		}
	}
}

static void an_entry_is_found_or_there_is_none(void **state)
{
	uint64_t seed = 2;

	(void)state;
	for (uint32_t n = 0; n < sizeof(counts) / sizeof(counts[0]); n++) {
		fill(counts[n], &seed);
		for (uint32_t number = 0; number < G4_GROUP_PAGES; number += number < 700 ? 7 : 101) {
			uint32_t first = 0;
			while (first < page.count && page.pages[first] != number)
				first++;
			assert_int_equal(g4_buffered_find(wg, &page, number), first);
		}
		for (uint32_t k = 0; k < page.count; k += 1 + page.count / 20)
			assert_int_equal(page.pages[g4_buffered_find(wg, &page, page.pages[k])], page.pages[k]);
	}
}

RUN_TESTS(fs_test(the_pages_of_a_region_are_seen), fs_test(an_entry_is_found_or_there_is_none))
