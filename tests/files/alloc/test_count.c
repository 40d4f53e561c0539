/* SPDX-License-Identifier: Apache-2.0 */
/* Pages in a row that nobody has: a word of the view is as a whole what any page of it is. */
#include "files/files.h"

#include "alloc/alloc.h"

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

RUN_TESTS(fs_test(a_claimed_page_makes_its_word_used),
	  fs_test(what_is_always_there_is_used_and_what_is_behind_the_end_is_free))
