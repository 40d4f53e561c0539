/* SPDX-License-Identifier: Apache-2.0 */
/* What of a disk has no room on the others: as much as by the worst set of demands, which have less on all disks that may have them. */
#include "files/files.h"

#include "space/set_leave_room_host.h"

#define DISKS 6u
#define CHUNKS 7u
static struct g4_chunk chunks[CHUNKS];
static struct g4_set set;
static struct g4_superblock super;
static uint64_t used[CHUNKS], idle[CHUNKS];
static uint64_t copies; /* that are made of the first chunk */

/* Places of two copies, or of three columns of rows or of stripes, on disks that differ, or any of them for stripes. */
static void make_chunk(struct g4_chunk *chunk, uint64_t *random)
{
	const uint32_t kind = (uint32_t)(rig_random(random) % 3);

	memset(chunk, 0, sizeof(*chunk));
	chunk->copies = kind == 0 ? 2 : 1;
	chunk->columns = kind == 0 ? 1 : 3;
	chunk->parity = kind == 1;
	chunk->place_bytes = G4_MIB;
	for (uint32_t k = 0; k < (uint32_t)chunk->copies * chunk->columns; k++) {
		uint32_t disk, same;
		do {
			disk = (uint32_t)(rig_random(random) % DISKS);
			same = 0;
			for (uint32_t before = 0; before < k; before++)
				same += g4_place_disk(chunk->places[before]) == disk;
		} while (same > 0);
		chunk->places[k] = G4_MIB | disk;
	}
}

static bool lies_on(const struct g4_chunk *chunk, uint32_t disk)
{
	bool lies = false;

	for (uint32_t k = 0; k < (uint32_t)chunk->copies * chunk->columns; k++)
		lies = lies || g4_place_disk(chunk->places[k]) == disk;
	return lies;
}

/* By all sets of chunks. */
static uint64_t worst(uint32_t leaving, bool *fixed)
{
	uint64_t room[DISKS], most = 0;

	*fixed = false;
	for (uint32_t d = 0; d < DISKS; d++) {
		room[d] = g4_chunk_usable(super.disk_bytes[d]);
		for (uint32_t n = 0; n < CHUNKS; n++)
			if (lies_on(&chunks[n], d)) {
				room[d] -= g4_min64(room[d], chunks[n].place_bytes);
				room[d] += idle[n];
			}
	}
	for (uint32_t which = 0; which < 1u << (CHUNKS + 1); which++) {
		const bool with_copies = copies > 0 && (which >> CHUNKS & 1);
		uint64_t wanted = with_copies ? copies : 0, there = 0, disks = with_copies ? UINT64_MAX : 0;
		for (uint32_t n = 0; n < CHUNKS; n++) {
			uint64_t may = 0;
			if (!(which >> n & 1) || !lies_on(&chunks[n], leaving) || used[n] == 0)
				continue;
			wanted += used[n];
			const bool anywhere = chunks[n].copies == 1 && !chunks[n].parity;
			for (uint32_t d = 0; d < DISKS; d++)
				may |= (uint64_t)(d != leaving && (anywhere || !lies_on(&chunks[n], d))) << d;
			disks |= may;
			*fixed = *fixed || may == 0;
		}
		for (uint32_t d = 0; d < DISKS; d++)
			there += (disks >> d & 1) && d != leaving ? room[d] : 0;
		most = g4_max64(most, wanted > there ? wanted - there : 0);
	}
	return most;
}

static void what_is_missing_is_what_the_worst_set_of_them_misses(void **state)
{
	uint64_t random = 4711;
	uint32_t missing = 0, enough = 0;

	(void)state;
	set.count = DISKS;
	set.chunks = chunks;
	set.map = (struct g4_chunk_map){chunks, CHUNKS};
	for (uint32_t turn = 0; turn < 2000; turn++) {
		const uint32_t leaving = turn % DISKS;
		bool fixed, expected_fixed;
		for (uint32_t d = 0; d < DISKS; d++)
			super.disk_bytes[d] = (16 + rig_random(&random) % 8) * G4_MIB;
		for (uint32_t n = 0; n < CHUNKS; n++) {
			make_chunk(&chunks[n], &random);
			used[n] = rig_random(&random) % 40 * G4_MIB;
			idle[n] = rig_random(&random) % 3 * G4_MIB;
		}
		copies = turn % 2 ? rig_random(&random) % 40 * G4_MIB : 0;
		const uint64_t then = g4_min64(copies, idle[0]);
		const uint64_t expected = worst(leaving, &expected_fixed);
		assert_int_equal(g4_set_leave_look(&set, &super, leaving), 0);
		for (uint32_t n = 0; n < CHUNKS; n++)
			assert_int_equal(
				g4_set_leave_tell(&set, &chunks[n], used[n], n == 0 ? idle[n] - then : idle[n]), 0);
		assert_int_equal(g4_set_leave_tell_copies(&set, &chunks[0], copies, then), 0);
		assert_int_equal(g4_set_leave_lacks(&set, &fixed), expected);
		assert_int_equal(fixed, expected_fixed);
		missing += expected > 0;
		enough += expected == 0;
		assert_null(set.look);
	}
	assert_true(missing > 100 && enough > 100);
	assert_int_equal(g4_set_leave_tell(&set, &chunks[0], 1, 1), -G4_E_INVAL); /* nobody looks any more */
	assert_int_equal(g4_set_leave_tell_copies(&set, &chunks[0], 1, 1), -G4_E_INVAL);
}

RUN_TESTS(cmocka_unit_test(what_is_missing_is_what_the_worst_set_of_them_misses))
