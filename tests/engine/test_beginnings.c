/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where files begin that several workgroups write side by side: in groups of their own, for what a group of pages counts and lists has one
 * lock. In pieces of any size, with deduplication and without, by as many workgroups as a host has threads or a GPU warps; and what a file has
 * stays together, and so do files that one workgroup writes one after the other.
 */
#include "rig.h"

#include "data/map.h"
#include "fs/fs.h"
#include "simt/simt_host.h"

#define GROUPS 16u
#define WRITERS 8u
#define FILE_BYTES (4 * G4_MIB)
#define PAGES ((uint32_t)(FILE_BYTES / G4_PAGE_BYTES))
#define FIRST_OF_MANY 64u /* workgroups from this one on begin all over the device */

static struct rig rig, by[WRITERS];
static uint8_t *data, *found;
static uint64_t ino[WRITERS];

static void begin(uint32_t first, uint32_t dedup)
{
	rig_begin_as(&rig, dedup ? G4_CHECKSUM_BLAKE3 : G4_CHECKSUM_NONE, dedup, GROUPS * G4_GROUP_BYTES, 16 * G4_MIB,
		     NULL);
	data = rig_memory(WRITERS * FILE_BYTES, 1);
	found = rig_memory(FILE_BYTES, 0);
	for (uint32_t k = 0; k < WRITERS; k++) {
		by[k] = rig;
		by[k].wg = g4_wg_create(first + k);
		assert_non_null(by[k].wg);
		ino[k] = rig_make(&by[k], k);
	}
}

static void end(uint64_t bytes)
{
	for (uint32_t k = 0; k < WRITERS; k++) {
		rig_expect_contents(&rig, ino[k], 0, found, data + k * FILE_BYTES, bytes);
		g4_wg_destroy(by[k].wg);
	}
	rig_end(&rig);
	free(data);
	free(found);
}

/* The files side by side, so many bytes of each at a time. `turns`: the next piece of a file is another workgroup's. */
static void write_files(uint64_t bytes, uint64_t piece, bool turns)
{
	for (uint64_t at = 0; at < bytes; at += piece)
		for (uint32_t k = 0; k < WRITERS; k++)
			assert_int_equal(op_write(&by[(k + (turns ? at / piece : 0)) % WRITERS], ino[k], 0, at,
						  data + k * FILE_BYTES + at, piece, NULL),
					 0);
	for (uint32_t k = 0; k < WRITERS; k++)
		assert_int_equal(op_fsync(&by[k], ino[k]), 0);
}

static void expect_apart(uint64_t bytes, uint32_t most)
{
	uint32_t begun[GROUPS] = {0}, breaks = 0;

	for (uint32_t k = 0; k < WRITERS; k++) {
		uint64_t behind = 0;
		for (uint64_t page = 0; page < bytes / G4_PAGE_BYTES; page++) {
			const uint64_t place = rig_place(&rig, ino[k], page);
			if (page == 0)
				assert_true(++begun[place / G4_GROUP_BYTES] <= most);
			breaks += page > 0 && place != behind;
			behind = place + G4_PAGE_BYTES;
		}
	}
	assert_true(breaks <= WRITERS);
}

static void files_begin_apart(uint32_t dedup)
{
	/* most: in one group, for rows are looked for further on, and what is in the cache any of them may write back */
	static const struct {
		uint64_t bytes, piece;
		uint32_t most[2];
	} ways[] = {{3 * G4_PAGE_BYTES, 3 * G4_PAGE_BYTES, {2, 2}},
		    {FILE_BYTES, 64 * G4_KIB, {2, 4}},
		    {FILE_BYTES, 256 * G4_KIB, {1, 1}},
		    {G4_MIB, G4_MIB, {1, 1}},
		    {FILE_BYTES, G4_MIB, {1, 1}},
		    {FILE_BYTES, FILE_BYTES, {1, 1}}};

	uint64_t number = 0;

	for (uint32_t first = 0; first <= FIRST_OF_MANY; first += FIRST_OF_MANY)
		for (uint32_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++)
			for (uint32_t turns = 0; turns < 2; turns++) {
				if (number++ % rig_every(7) != 0)
					continue;
				begin(first, dedup);
				write_files(ways[w].bytes, ways[w].piece, turns);
				expect_apart(ways[w].bytes, ways[w].most[turns]);
				end(ways[w].bytes);
			}
}

static void files_of_workgroups_begin_in_groups_of_their_own(void **state)
{
	(void)state;
	files_begin_apart(0);
}

static void so_do_those_that_are_deduplicated(void **state)
{
	(void)state;
	files_begin_apart(1);
}

/* However far the workgroup was, and however little is left behind that: the search goes all the way round. */
static void files_of_one_workgroup_follow_each_other(void **state)
{
	const uint64_t bytes = 2 * G4_MIB;
	uint64_t behind = 0;
	uint32_t breaks = 0;

	(void)state;
	rig_begin_as(&rig, G4_CHECKSUM_NONE, 0, 64 * G4_MIB, 4 * G4_MIB, NULL);
	data = rig_memory(bytes, 2);
	const uint64_t regions = (rig_free_pages(&rig) - g4_alloc_keep(&rig.fs->alloc)) / G4_REGION_PAGES - 2;
	assert_in_range(regions, 20, 31);
	for (uint32_t k = 0; k < regions; k++) {
		const uint64_t file = rig_make(&rig, k);
		assert_int_equal(op_write(&rig, file, 0, 0, data, bytes, NULL), 0);
		const uint64_t place = rig_place(&rig, file, 0);
		assert_int_equal(rig_place(&rig, file, bytes / G4_PAGE_BYTES - 1), place + bytes - G4_PAGE_BYTES);
		breaks += k > 0 && place != behind;
		behind = place + bytes;
	}
	assert_true(breaks <= 3); /* where metadata and the journal lie, and at the end */
	rig_end(&rig);
	free(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_of_workgroups_begin_in_groups_of_their_own),
		cmocka_unit_test(so_do_those_that_are_deduplicated),
		cmocka_unit_test(files_of_one_workgroup_follow_each_other),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
