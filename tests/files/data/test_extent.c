/* SPDX-License-Identifier: Apache-2.0 */
/* Ownership of space begins and ends with a transaction, which has the credits that it takes. */
#include "files/data/stages.h"

/* Acquiring takes space in the map that is on disk, releasing gives it back when that is durable; both need what they say. */
static void ownership_begins_and_ends_with_a_transaction(void **state)
{
	const uint64_t pages = 50;
	struct g4_address address;
	uint64_t got;
	struct g4_txn txn;

	(void)state;
	assert_int_equal(g4_alloc_claim(wg, &fs->alloc, G4_ALLOC_DATA, G4_NO_ADDRESS, pages, false, &address, &got), 0);
	assert_int_equal(got, pages);
	g4_write_lock(&inode->lock);
	assert_int_equal(g4_begin(wg, fs, 1, &txn), 0);
	assert_true(g4_extent_credits(fs, &txn, 2, pages, false, 0, 0));
	const uint32_t credits = txn.credits;
	assert_true(credits >= 2 * G4_ALLOC_CREDITS);
	assert_int_equal(g4_extent_acquire(wg, fs, &txn, address, pages), 0);
	assert_true(txn.changed);
	/* twice is once too often */
	assert_int_equal(g4_extent_release(wg, fs, &txn, address, pages), 0);
	assert_true(credits - txn.credits <= 2 * G4_ALLOC_CREDITS);
	assert_int_equal(fs->alloc.pending_pages, pages);
	/* no file has what lies in front of the data */
	assert_int_equal(g4_extent_release(wg, fs, &txn, g4_address_from(fs->meta.layout.data_address - G4_PAGE_BYTES),
					   1),
			 -G4_E_CORRUPT_MAP);
	assert_int_equal(g4_end(fs, &txn, 0), 0);
	g4_write_unlock(&inode->lock);
	assert_int_equal(g4_alloc_in_use(wg, &fs->alloc, address), 1); /* not before that is durable */
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(g4_alloc_in_use(wg, &fs->alloc, address), 0);
	assert_int_equal(fs->alloc.free_pages, free_before);
}

/* A run of 1 GiB lies in eighteen groups at most, and their descriptors in two pages. */
static void a_large_extent_asks_for_more_credits(void **state)
{
	struct g4_txn txn;

	(void)state;
	assert_int_equal(g4_begin(wg, fs, 1, &txn), 0);
	assert_true(g4_extent_credits(fs, &txn, 1, G4_GIB / G4_PAGE_BYTES, false, 0, 0));
	assert_true(txn.credits >= 18 + 2);
	assert_int_equal(g4_end(fs, &txn, 0), 0);
}

RUN_TESTS(stage_test(ownership_begins_and_ends_with_a_transaction), stage_test(a_large_extent_asks_for_more_credits))
