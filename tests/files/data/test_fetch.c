/* SPDX-License-Identifier: Apache-2.0 */
/* Contents come from the device as they are stored, and what cannot be read is told page by page. */
#include "files/files.h"

#include "data/fetch.h"
#include "data/sums.h"

#define PAGES 8u

static void pages_come_as_they_are_stored(void **state)
{
	uint8_t *data = rig_memory(PAGES * G4_PAGE_BYTES, 4), *found = rig_memory(PAGES * G4_PAGE_BYTES, 0);
	const uint64_t ino = rig_make_file(&rig, "f", 0, data, PAGES * G4_PAGE_BYTES);
	uint64_t bad, unverified;
	struct g4_run run;
	uint32_t index;

	(void)state;
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(g4_icache_get(wg, fs, ino, &index), 0);
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	g4_read_lock(&inode->lock);
	assert_int_equal(g4_map_lookup(wg, fs, inode, 0, PAGES, &run), 0);
	assert_int_equal(g4_fetch_page(wg, fs, inode, 5, g4_address_after_pages(run.address, 5), found), 0);
	assert_memory_equal(found, data + 5 * G4_PAGE_BYTES, G4_PAGE_BYTES);
	assert_int_equal(g4_fetch_survey(wg, fs, inode, 0, run.address, found, PAGES, &bad, &unverified), 0);
	assert_memory_equal(found, data, PAGES * G4_PAGE_BYTES);
	assert_int_equal(bad | unverified, 0);
	g4_read_unlock(&inode->lock);
	g4_icache_put(fs, index);
	free(data);
	free(found);
}

static void damage_is_what_others_of_a_request_may_be_without(void **state)
{
	(void)state;
	assert_true(g4_fetch_is_damage(-G4_E_DATA));
	assert_true(g4_fetch_is_damage(-G4_E_CORRUPT_SUMS));
	assert_false(g4_fetch_is_damage(-G4_E_IO));
	assert_false(g4_fetch_is_damage(0));
}

/* Any page of a row that is not what it is to be is told, wherever it stands; those without a sum are not asked for. */
static void a_row_matches_or_does_not(void **state)
{
	static const uint32_t algorithms[] = {G4_CHECKSUM_BLAKE3, G4_CHECKSUM_XXH3, G4_CHECKSUM_CRC32C};
	const uint32_t count = G4_SUMS_SLOTS;
	uint8_t *row = rig_memory(count * G4_PAGE_BYTES, 5);
	struct g4_sum_entry *entries = (struct g4_sum_entry *)(void *)rig_memory(count * sizeof(*entries), 0);

	(void)state;
	for (uint32_t k = 0; k < count; k++) { /* five of each algorithm in turn: a row has several */
		const void *page = row + (uint64_t)k * G4_PAGE_BYTES;
		g4_sums_make(wg, algorithms[k / 5 % 3], &page, 1, &entries[k]);
	}
	memset(&entries[40], 0, sizeof(entries[40]));
	row[40 * G4_PAGE_BYTES] ^= 1;
	assert_true(g4_sums_match(wg, row, count, entries));
	for (uint32_t k = 0; k < count; k++) {
		row[k * G4_PAGE_BYTES + 31 * k] ^= 4;
		assert_int_equal(g4_sums_match(wg, row, count, entries), k == 40);
		assert_true(g4_sums_match(wg, row, k, entries));
		row[k * G4_PAGE_BYTES + 31 * k] ^= 4;
	}
	g4_sum_entry_make_lost(&entries[77]);
	assert_false(g4_sums_match(wg, row, count, entries));
	free(row);
	free(entries);
}

RUN_TESTS(fs_test(a_row_matches_or_does_not), fs_test(pages_come_as_they_are_stored),
	  cmocka_unit_test(damage_is_what_others_of_a_request_may_be_without))
