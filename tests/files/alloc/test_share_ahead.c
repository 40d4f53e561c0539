/* SPDX-License-Identifier: Apache-2.0 */
/* Who has read ahead is told how many owners pages have without a read, and what the device did not give fails where it is asked for. */
#include "files/files.h"

#include "alloc/share.h"
#include "format/owners.h"
#include "fs/super.h"

#define REGIONS 4u
#define PAGES (REGIONS * G4_REGION_PAGES)
#define EVERY 16u /* pages between those that have a buffered owner */
#define ASKED (PAGES / EVERY)

static struct g4_address places[ASKED];
static struct g4_address node; /* some indirect page of a file */

static void read_ahead(uint32_t count)
{
	struct g4_meta_ahead none = {.count = 0};

	g4_share_read_ahead(wg, &fs->alloc, places, count, &none);
}

static uint64_t reads(void)
{
	uint64_t count, writes, flushes;

	g4_dev_fault_counts(rig.fault, &count, &writes, &flushes);
	return count;
}

static void mount_anew(const struct g4_fault *fault)
{
	rig_unmount_fs(&rig, wg, fs, true);
	rig.fs = fs = rig_mount_fs(&rig, wg, fault);
}

/* Of each region some pages with one owner more by its page of counts, and some with a buffered one. */
static void share_some(void)
{
	const struct held from = files_hold("from"), to = files_hold("to");
	uint8_t *data = rig_memory(PAGES * G4_PAGE_BYTES, 9);
	uint64_t in, out, done;

	assert_int_equal(g4_super_add_feature(wg, fs, G4_FEATURE_INCOMPAT_SHARED | G4_FEATURE_INCOMPAT_BUFFERED), 0);
	assert_int_equal(op_write(&rig, from.ino, 0, 0, data, PAGES * G4_PAGE_BYTES, NULL), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_open(&rig, from.ino, G4_OPEN_READ, &in), 0);
	assert_int_equal(op_open(&rig, to.ino, G4_OPEN_READ | G4_OPEN_WRITE, &out), 0);
	for (uint64_t region = 0; region < REGIONS; region++) {
		const uint64_t first = region * G4_REGION_PAGES;
		assert_int_equal(op_copy_as(&rig, in, (first + 128) * G4_PAGE_BYTES, out, first * G4_PAGE_BYTES,
					    128 * G4_PAGE_BYTES, G4_COPY_SHARE, &done),
				 0);
		assert_int_equal(op_sync(&rig),
				 0); /* what comes in the same transaction as a page of counts is counted there */
		for (uint64_t page = first; page < first + 128; page += EVERY)
			assert_int_equal(op_copy_as(&rig, in, page * G4_PAGE_BYTES, out, (page + 256) * G4_PAGE_BYTES,
						    G4_PAGE_BYTES, G4_COPY_SHARE, &done),
					 0);
	}
	assert_int_equal(op_release(&rig, in), 0);
	assert_int_equal(op_release(&rig, out), 0);
	for (uint32_t k = 0; k < ASKED; k++)
		places[k] = g4_address_from(rig_place(&rig, from.ino, (uint64_t)k * EVERY));
	for (uint32_t slot = 0; slot < g4_inode_slots(&to.inode->disk); slot++)
		if (to.inode->disk.map[slot] & G4_PTR_INDIRECT)
			node = g4_ptr_address(to.inode->disk.map[slot]);
	files_let_go(from);
	files_let_go(to);
	free(data);
}

static void expect_owners(void)
{
	for (uint32_t k = 0; k < ASKED; k++) {
		uint64_t one = 1;
		assert_int_equal(g4_share_several(wg, &fs->alloc, places[k], &one), k * EVERY % G4_REGION_PAGES < 256);
	}
}

static void what_was_read_ahead_is_not_read_again(void **state)
{
	(void)state;
	share_some();
	mount_anew(&(struct g4_fault){0});
	uint64_t before = reads();
	expect_owners();
	assert_true(reads() - before >= 1 + 1 + REGIONS); /* the page of shares, buffered owners, counts */
	mount_anew(&(struct g4_fault){0});
	read_ahead(ASKED);
	before = reads();
	expect_owners();
	assert_int_equal(reads() - before, 0);
	read_ahead(ASKED);
	assert_int_equal(reads() - before, 0);
}

/* The allocation maps need nothing in front of them, so whoever wants something else as well waits for both once. */
static void what_the_caller_wants_comes_with_the_first_step(void **state)
{
	struct g4_meta_ahead ahead = {.count = 0};
	uint32_t line;

	(void)state;
	share_some();
	mount_anew(&(struct g4_fault){0});
	assert_true(g4_meta_want(&ahead, node, G4_BLOCK_INDIRECT));
	g4_share_read_ahead(wg, &fs->alloc, places, ASKED, &ahead);
	assert_int_equal(ahead.count, 0);
	const uint64_t before = reads();
	assert_int_equal(g4_meta_get(wg, &fs->meta, node, G4_BLOCK_INDIRECT, &line), 0);
	g4_cache_put(&fs->cache, line);
	expect_owners();
	assert_int_equal(reads() - before, 0);
}

static void what_can_not_be_read_fails_where_it_is_asked_for(void **state)
{
	struct g4_fault bad = {.bad_bytes = 1};
	struct g4_address at;
	uint32_t type;
	uint64_t one = 1;

	(void)state;
	share_some();
	/* the second region's page of counts */
	const uint64_t region = g4_address_page(places[ASKED / REGIONS]) / G4_REGION_PAGES;
	assert_int_equal(g4_share_place(wg, &fs->alloc, region / G4_GROUP_REGIONS,
					1 + (uint32_t)(region % G4_GROUP_REGIONS) * (1 + G4_LISTING_QUARTERS), &at,
					&type),
			 0);
	assert_int_equal(type, G4_BLOCK_OWNERS);
	bad.bad_at = g4_address_stored(at);
	mount_anew(&bad);
	read_ahead(ASKED);
	assert_int_equal(g4_share_several(wg, &fs->alloc, places[ASKED / REGIONS], &one), -G4_E_IO);
	assert_int_equal(g4_share_several(wg, &fs->alloc, places[0], &one), 1);
	g4_dev_fault_set(rig.fault, &(struct g4_fault){0});
	expect_owners();
	/* nothing is behind the end of the device */
	places[0] = g4_address_from(UINT64_C(1) << 50);
	read_ahead(1);
}

RUN_TESTS(fs_test(what_was_read_ahead_is_not_read_again), fs_test(what_the_caller_wants_comes_with_the_first_step),
	  fs_test(what_can_not_be_read_fails_where_it_is_asked_for))
