/* SPDX-License-Identifier: Apache-2.0 */
/* Pages in a row that nobody has: a word of the view is as a whole what any page of it is. */
#include "files/files.h"

#include "alloc/alloc.h"
#include "alloc/count.h"

static void a_claimed_page_makes_its_word_used(void **state)
{
	struct g4_address address;

	(void)state;
	assert_int_equal(g4_alloc_claim_region(wg, &fs->alloc, false, &address), 0);
	const uint64_t page = g4_address_page(address);
	assert_int_equal(g4_alloc_count(wg, &fs->alloc, page, G4_REGION_PAGES, false), 0);
	assert_int_equal(g4_alloc_count(wg, &fs->alloc, page, G4_REGION_PAGES, true), G4_REGION_PAGES);
	/* all but the second page of the third word */
	g4_alloc_release(&fs->alloc, address, 129);
	g4_alloc_release(&fs->alloc, g4_page_address(page + 130), G4_REGION_PAGES - 130);
	assert_int_equal(g4_alloc_count(wg, &fs->alloc, page, G4_REGION_PAGES, false), 128);
	assert_int_equal(g4_alloc_count(wg, &fs->alloc, page, 100, false), 100);
	assert_int_equal(g4_alloc_count(wg, &fs->alloc, page, 100, true), 0);
	assert_int_equal(g4_alloc_count(wg, &fs->alloc, page + 128, 300, true), 64);
	/* from within the word on there is nothing; up to it neither */
	assert_int_equal(g4_alloc_count(wg, &fs->alloc, page + 130, 300, false), 300);
	assert_int_equal(g4_alloc_count(wg, &fs->alloc, page + 128, 1, false), 1);
	g4_alloc_release(&fs->alloc, g4_page_address(page + 129), 1);
}

static void what_is_always_there_is_used_and_what_is_behind_the_end_is_free(void **state)
{
	const uint64_t view = fs->alloc.region_count * G4_REGION_PAGES;

	(void)state;
	assert_true(g4_alloc_count(wg, &fs->alloc, 0, view, true) >=
		    g4_align_down(fs->meta.layout.data_address / G4_PAGE_BYTES, 64));
	assert_int_equal(g4_alloc_count(wg, &fs->alloc, view, 1000, false), 1000);
}

/* The same, word by word. */
static uint64_t count_words(uint64_t page, uint64_t most, bool used)
{
	const uint64_t end = page + most, view = g4_load64_acq(&fs->alloc.region_count) * G4_REGION_PAGES;
	uint64_t at = page;

	while (at < end) {
		const uint64_t next = g4_min64(g4_align_down(at, 64) + 64, end);
		bool any = false;
		for (uint64_t p = at; p < next; p++)
			any |= p < view && g4_alloc_in_use(wg, &fs->alloc, g4_page_address(p)) == 1;
		if (any != used)
			break;
		at = next;
	}
	return at - page;
}

/* Of several regions in a row, that are used or free as a whole but for one word: which one, and where the count begins, and ends. */
static void regions_side_by_side_are_counted_as_one_by_one(void **state)
{
	struct g4_address regions[8];
	uint32_t count = 0;

	(void)state;
	while (count < 8 && g4_alloc_claim_region(wg, &fs->alloc, false, &regions[count]) == 0)
		count++;
	assert_true(count > 4);
	const uint64_t first = g4_address_page(regions[0]), all = (uint64_t)count * G4_REGION_PAGES;
	for (uint32_t r = 1; r < count; r++)
		assert_int_equal(g4_address_page(regions[r]), first + r * G4_REGION_PAGES);
	for (uint32_t round = 0; round < 3; round++) { /* all used, one word of seven free, all free */
		for (uint64_t from = 0; from < 2 * G4_REGION_PAGES; from += 448)
			for (uint64_t most = 1; most <= all - from; most += 257)
				for (uint32_t what = 0; what < 2; what++)
					assert_int_equal(g4_alloc_count(wg, &fs->alloc, first + from, most, what),
							 count_words(first + from, most, what));
		for (uint64_t n = all / 64; n > 0 && round < 2; n--) { /* from the end, so that each is the first one */
			if (((n - 1) % 7 == 0) != (round == 0))
				continue;
			g4_alloc_release(&fs->alloc, g4_page_address(first + (n - 1) * 64), 64);
			if (round == 0)
				assert_int_equal(g4_alloc_count(wg, &fs->alloc, first, all, true), (n - 1) * 64);
			else
				assert_int_equal(g4_alloc_count(wg, &fs->alloc, first + (n - 1) * 64,
								all - (n - 1) * 64, false),
						 all - (n - 1) * 64);
		}
	}
}

RUN_TESTS(fs_test(a_claimed_page_makes_its_word_used), fs_test(regions_side_by_side_are_counted_as_one_by_one),
	  fs_test(what_is_always_there_is_used_and_what_is_behind_the_end_is_free))
