/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The number of pages of sums of listed pages: a bound before groups are counted, exact behind it, and never above the quota. (What listing
 * makes of it: engine/test_dedup_quota.c.)
 */
#include "files/files.h"

#include "alloc/quota.h"
#include "alloc/share.h"

#define GROUP_MOST ((uint64_t)G4_GROUP_REGIONS * G4_LISTING_QUARTERS)

static uint64_t sum(void)
{
	uint64_t all = 0;

	for (uint64_t group = 0; group < fs->alloc.group_count; group++)
		all += fs->alloc.group_listings[group];
	return all;
}

static void a_mount_begins_with_a_bound(void **state)
{
	(void)state;
	assert_int_equal(fs->alloc.counted_groups, 0);
	for (uint64_t group = 0; group < fs->alloc.group_count; group++) {
		const uint64_t used = G4_GROUP_PAGES - fs->alloc.group_free[group];
		assert_true(fs->alloc.group_listings[group] >= g4_min64(used, GROUP_MOST) ||
			    (group + 1) * G4_GROUP_PAGES * G4_PAGE_BYTES <= fs->meta.layout.data_address);
	}
	assert_int_equal(fs->alloc.listing_pages, sum());
	for (uint64_t group = 0; group < fs->alloc.group_count; group++)
		g4_share_count_listings(wg, &fs->alloc, group);
	assert_int_equal(fs->alloc.listing_pages, 0); /* nothing is listed */
	assert_int_equal(sum(), 0);
}

static void as_many_are_taken_as_may_be(void **state)
{
	(void)state;
	g4_quota_counted(&fs->alloc, 0, 0);
	for (uint64_t group = 1; group < fs->alloc.group_count; group++)
		g4_quota_counted(&fs->alloc, group, 0);
	g4_quota_set(&fs->alloc, 3 * G4_PAGE_BYTES + 1);
	for (uint32_t k = 0; k < 3; k++)
		assert_true(g4_quota_take(&fs->alloc));
	assert_false(g4_quota_take(&fs->alloc));
	g4_quota_give(&fs->alloc);
	assert_true(g4_quota_take(&fs->alloc));
	for (uint32_t k = 0; k < 3; k++)
		g4_quota_took(&fs->alloc, 0);
	assert_false(g4_quota_take(&fs->alloc));
	g4_quota_freed(&fs->alloc, 0);
	assert_true(g4_quota_take(&fs->alloc));
	g4_quota_give(&fs->alloc);
	g4_quota_set(&fs->alloc, G4_PAGE_BYTES); /* lowered */
	assert_false(g4_quota_take(&fs->alloc));
	g4_quota_freed(&fs->alloc, 0);
	assert_false(g4_quota_take(&fs->alloc));
	g4_quota_freed(&fs->alloc, 0);
	assert_true(g4_quota_take(&fs->alloc));
	g4_quota_set(&fs->alloc, 0);
	for (uint32_t k = 0; k < 100; k++)
		assert_true(g4_quota_take(&fs->alloc));
	assert_int_equal(fs->alloc.listing_pages, 101);
}

/* A bound is not raised above what a group can have, and not lowered below nothing. */
static void a_bound_stays_one(void **state)
{
	(void)state;
	g4_quota_set(&fs->alloc, 0);
	g4_quota_counted(&fs->alloc, 0, (uint32_t)GROUP_MOST);
	const uint64_t before = fs->alloc.listing_pages;
	assert_true(g4_quota_take(&fs->alloc));
	g4_quota_took(&fs->alloc, 0);
	assert_int_equal(fs->alloc.listing_pages, before);
	assert_int_equal(fs->alloc.group_listings[0], GROUP_MOST);
	g4_quota_counted(&fs->alloc, 0, 0);
	assert_int_equal(fs->alloc.listing_pages, before - GROUP_MOST);
	g4_quota_freed(&fs->alloc, 0);
	assert_int_equal(fs->alloc.listing_pages, before - GROUP_MOST);
	assert_int_equal(fs->alloc.group_listings[0], 0);
	assert_int_equal(fs->alloc.listing_pages, sum());
}

/* A group whose page can not be read keeps its bound: nobody lists there, and nobody frees what is listed. */
static void what_can_not_be_read_keeps_its_bound(void **state)
{
	uint32_t line;

	(void)state;
	const uint64_t group = fs->alloc.group_count - 1, before = fs->alloc.listing_pages;
	assert_int_equal(g4_alloc_get_map(wg, &fs->alloc, group, &line), 0);
	struct g4_alloc_page *map = (struct g4_alloc_page *)g4_line_data(&fs->cache, line);
	const g4_le64 shares = map->shares;
	const uint32_t free_pages = fs->alloc.group_free[group];
	map->shares = g4_address_stored(g4_layout_root(&fs->meta.layout)); /* is no page of shares */
	fs->alloc.group_free[group] = G4_GROUP_PAGES - 1;
	g4_share_count_listings(wg, &fs->alloc, group);
	assert_int_equal(fs->alloc.listing_pages, before);
	map->shares = shares;
	fs->alloc.group_free[group] = free_pages;
	g4_cache_put(&fs->cache, line);
	g4_share_count_listings(wg, &fs->alloc, group);
	assert_true(fs->alloc.listing_pages <= before);
	assert_int_equal(fs->alloc.group_listings[group], 0);
}

RUN_TESTS(fs_test(a_mount_begins_with_a_bound), fs_test(as_many_are_taken_as_may_be), fs_test(a_bound_stays_one),
	  fs_test(what_can_not_be_read_keeps_its_bound))
