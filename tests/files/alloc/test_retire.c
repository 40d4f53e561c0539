/* SPDX-License-Identifier: Apache-2.0 */
/* Regions that become nobody's while others claim space: no page of one is given to anybody, none is counted as free, and all come back. */
#include "files/files.h"

#include "alloc/retire.h"
#include "alloc/row.h"

static uint64_t an_empty_region(void)
{
	uint64_t region = 0;

	while (region < fs->alloc.region_count && !g4_alloc_is_empty(wg, &fs->alloc, region))
		region++;
	assert_true(region < fs->alloc.region_count);
	return region;
}

#define MOST_CLAIMS 4096u
static struct g4_alloc_row claims[MOST_CLAIMS];

static void a_region_that_is_retired_is_claimed_by_nobody(void **state)
{
	const uint64_t region = an_empty_region(), free_pages = g4_alloc_free_in(&fs->alloc, G4_LEVEL_OWN);
	struct g4_address address;
	uint64_t got;
	uint32_t pool = 77, count = 0;

	(void)state;
	assert_true(g4_alloc_retire(wg, &fs->alloc, region, &pool));
	assert_int_equal(pool, G4_LEVEL_OWN);
	assert_int_equal(g4_alloc_free_in(&fs->alloc, G4_LEVEL_OWN), free_pages - G4_REGION_PAGES);
	assert_int_equal(g4_alloc_free_in(&fs->alloc, G4_POOL_GONE), G4_REGION_PAGES);
	assert_int_equal(g4_alloc_region_pool(&fs->alloc, region), G4_POOL_GONE);
	assert_false(g4_alloc_is_empty(wg, &fs->alloc, region));
	assert_false(g4_alloc_retire(wg, &fs->alloc, region, &pool));
	/* all that there is, and none of it is there */
	for (uint64_t left = free_pages - G4_REGION_PAGES; left > 0; left -= got) {
		assert_int_equal(g4_alloc_claim(wg, &fs->alloc, G4_ALLOC_DATA,
						g4_page_address(region * G4_REGION_PAGES), left, false, &address, &got),
				 0);
		assert_int_not_equal(g4_address_page(address) / G4_REGION_PAGES, region);
		assert_true(count < MOST_CLAIMS);
		claims[count++] = (struct g4_alloc_row){address, got};
	}
	assert_int_equal(g4_alloc_claim(wg, &fs->alloc, G4_ALLOC_DATA, G4_NO_ADDRESS, 1, false, &address, &got),
			 -G4_E_NOSPC);
	/* and back */
	g4_alloc_take_back(&fs->alloc, region, G4_LEVEL_OWN);
	assert_int_equal(g4_alloc_free_in(&fs->alloc, G4_LEVEL_OWN), G4_REGION_PAGES);
	assert_int_equal(g4_alloc_free_in(&fs->alloc, G4_POOL_GONE), 0);
	assert_int_equal(g4_alloc_claim(wg, &fs->alloc, G4_ALLOC_DATA, G4_NO_ADDRESS, G4_REGION_PAGES, false, &address,
					&got),
			 0);
	assert_int_equal(got, G4_REGION_PAGES);
	assert_int_equal(g4_address_page(address), region * G4_REGION_PAGES);
	g4_alloc_release(&fs->alloc, address, got);
	while (count-- > 0)
		g4_alloc_release(&fs->alloc, claims[count].address, claims[count].pages);
	assert_int_equal(g4_alloc_free_in(&fs->alloc, G4_LEVEL_OWN), free_pages);
}

static void what_is_in_use_or_promised_is_not_retired(void **state)
{
	const uint64_t region = an_empty_region(), page = region * G4_REGION_PAGES;
	struct g4_address address;
	uint64_t got;
	uint32_t pool;

	(void)state;
	assert_int_equal(
		g4_alloc_claim(wg, &fs->alloc, G4_ALLOC_DATA, g4_page_address(page + 7), 1, false, &address, &got), 0);
	assert_int_equal(g4_address_page(address), page + 7);
	assert_false(g4_alloc_retire(wg, &fs->alloc, region, &pool));
	g4_alloc_release(&fs->alloc, address, 1);
	const uint64_t free_pages = g4_alloc_free_in(&fs->alloc, G4_LEVEL_OWN),
		       promised = free_pages - g4_alloc_keep(&fs->alloc) - 100;
	assert_true(g4_alloc_reserve(&fs->alloc, promised));
	assert_false(g4_alloc_retire(wg, &fs->alloc, region, &pool));
	assert_int_equal(g4_alloc_free_in(&fs->alloc, G4_LEVEL_OWN), free_pages);
	g4_alloc_unreserve(&fs->alloc, promised);
	assert_true(g4_alloc_retire(wg, &fs->alloc, region, &pool));
	g4_alloc_take_back(&fs->alloc, region, pool);
	assert_false(g4_alloc_is_empty(wg, &fs->alloc,
				       fs->alloc.region_count)); /* what lies behind the end is nobody's to give */
}

static void claim_all_of(uint64_t region, struct g4_address *address)
{
	uint64_t got;

	assert_int_equal(g4_alloc_claim(wg, &fs->alloc, G4_ALLOC_DATA, g4_page_address(region * G4_REGION_PAGES),
					G4_REGION_PAGES, false, address, &got),
			 0);
	assert_int_equal(got, G4_REGION_PAGES);
	assert_int_equal(g4_address_page(*address), region * G4_REGION_PAGES);
}

/* Retired since the mount: taken in the view; gone before: free there. Either can be claimed then, once. */
static void a_region_that_is_gone_comes_back(void **state)
{
	const uint64_t region = an_empty_region(), free_pages = g4_alloc_free_in(&fs->alloc, G4_LEVEL_OWN);
	struct g4_address address;
	uint32_t pool;

	(void)state;
	assert_false(g4_alloc_bring_back(wg, &fs->alloc, region, G4_LEVEL_OWN)); /* it is there */
	for (uint32_t since_mount = 0; since_mount < 2; since_mount++) {
		if (since_mount)
			assert_true(g4_alloc_retire(wg, &fs->alloc, region, &pool));
		else
			assert_int_equal(g4_alloc_set_pool(wg, &fs->alloc, region * G4_REGION_PAGES,
							   (region + 1) * G4_REGION_PAGES, G4_POOL_GONE, true),
					 0);
		assert_int_equal(g4_alloc_free_in(&fs->alloc, G4_LEVEL_OWN), free_pages - G4_REGION_PAGES);
		assert_true(g4_alloc_bring_back(wg, &fs->alloc, region, G4_LEVEL_OWN));
		assert_int_equal(g4_alloc_region_pool(&fs->alloc, region), G4_LEVEL_OWN);
		assert_int_equal(g4_alloc_free_in(&fs->alloc, G4_LEVEL_OWN), free_pages);
		assert_int_equal(g4_alloc_free_in(&fs->alloc, G4_POOL_GONE), 0);
		assert_false(g4_alloc_bring_back(wg, &fs->alloc, region, G4_LEVEL_OWN));
		claim_all_of(region, &address);
		g4_alloc_release(&fs->alloc, address, G4_REGION_PAGES);
		assert_int_equal(g4_alloc_free_in(&fs->alloc, G4_LEVEL_OWN), free_pages);
	}
}

/* A map that says so is damaged, or the table is. */
static void what_is_in_use_does_not_come_back(void **state)
{
	const uint64_t page = an_empty_region() * G4_REGION_PAGES;
	struct g4_address address;
	uint64_t got;

	(void)state;
	assert_int_equal(g4_alloc_claim(wg, &fs->alloc, G4_ALLOC_DATA, g4_page_address(page), 1, false, &address, &got),
			 0);
	for (uint32_t gone = 0; gone < 2; gone++) {
		assert_int_equal(g4_alloc_set_pool(wg, &fs->alloc, page, page + G4_REGION_PAGES,
						   gone ? G4_LEVEL_OWN : G4_POOL_GONE, true),
				 0);
		assert_false(g4_alloc_bring_back(wg, &fs->alloc, page / G4_REGION_PAGES, G4_LEVEL_OWN));
		assert_int_equal(g4_alloc_in_use(wg, &fs->alloc, address), 1);
	}
	g4_alloc_release(&fs->alloc, address, got);
}

/* Nor what is not counted: of a group whose map page could not be read when the file system was mounted. */
static void what_is_not_counted_does_not_come_back(void **state)
{
	const uint64_t region = an_empty_region(), page = region * G4_REGION_PAGES;

	(void)state;
	assert_int_equal(g4_alloc_set_pool(wg, &fs->alloc, page, page + G4_REGION_PAGES, G4_POOL_GONE, true), 0);
	fs->alloc.region_free[region] = 0;
	assert_false(g4_alloc_bring_back(wg, &fs->alloc, region, G4_LEVEL_OWN));
	assert_int_equal(g4_alloc_region_pool(&fs->alloc, region), G4_POOL_GONE);
	assert_int_equal(g4_alloc_free_in(&fs->alloc, G4_POOL_GONE), G4_REGION_PAGES);
	assert_int_equal(fs->alloc.region_free[region], 0);
	fs->alloc.region_free[region] = (uint32_t)G4_REGION_PAGES;
	assert_true(g4_alloc_bring_back(wg, &fs->alloc, region, G4_LEVEL_OWN));
}

RUN_TESTS(fs_test(a_region_that_is_retired_is_claimed_by_nobody), fs_test(what_is_in_use_or_promised_is_not_retired),
	  fs_test(a_region_that_is_gone_comes_back), fs_test(what_is_in_use_does_not_come_back),
	  fs_test(what_is_not_counted_does_not_come_back))
