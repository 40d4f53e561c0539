/* SPDX-License-Identifier: Apache-2.0 */
/* A table of chunks while it is planned: what is cut is joined again, and what is idle is found as one that looks at each unit finds it. */
#include "files/files.h"

#include "space/set_table_host.h"

static struct g4_chunk chunks[G4_CHUNKS_MAX];

static void what_is_cut_is_joined_again(void **state)
{
	static struct g4_chunk whole[G4_CHUNKS_MAX];
	const uint64_t disks[3] = {G4_GIB, G4_GIB, 2 * G4_GIB};
	static const struct g4_chunk_wish wishes[] = {
		{.raid = G4_RAID_NONE, .copies = 1},
		{.raid = G4_RAID_0, .copies = 1, .stripe_bytes = G4_STRIPE_DEFAULT},
		{.raid = G4_RAID_1, .copies = 2}};

	(void)state;
	for (size_t w = 0; w < sizeof(wishes) / sizeof(wishes[0]); w++) {
		uint32_t count = g4_chunk_plan(&wishes[w], disks, 3, whole);
		g4_table_join(whole, &count);
		const uint32_t had = count;
		memcpy(chunks, whole, sizeof(chunks));
		for (uint32_t n = 0; n < count && count < had + 7; n++)
			assert_true(g4_table_cut(chunks, &count, n, G4_CHUNK_UNIT));
		assert_true(count > had);
		assert_int_equal(g4_chunk_validate(chunks, count, disks, 3), 0);
		g4_table_give_up(&chunks[1]);
		g4_table_join(chunks, &count); /* not with what is gone */
		assert_true(count > had);
		assert_true(g4_chunk_is_gone(&chunks[1]));
		assert_int_equal(g4_chunk_validate(chunks, count, disks, 3), 0);
		memcpy(chunks, whole, sizeof(chunks));
		count = had;
		for (uint32_t n = 0; n < count && count < had + 7; n++)
			assert_true(g4_table_cut(chunks, &count, n, G4_CHUNK_UNIT));
		g4_table_join(chunks, &count);
		assert_int_equal(count, had);
		assert_memory_equal(chunks, whole, count * sizeof(*chunks));
	}
	/* rows are known by number */
	const struct g4_chunk_wish rows = {.raid = G4_RAID_PARITY,
					   .copies = 2,
					   .stripe_bytes = G4_STRIPE_DEFAULT,
					   .log_bytes = 2 * G4_MIB,
					   .front_bytes = 8 * G4_MIB};
	uint32_t count = g4_chunk_plan(&rows, disks, 3, chunks);
	const uint32_t had = count;
	assert_true(g4_table_cut(chunks, &count, count - 1, G4_CHUNK_UNIT));
	g4_table_join(chunks, &count);
	assert_int_equal(count, had + 1);
}

/* Gone rows are known by the width that they had: what is joined is whole regions of one. */
static void gone_rows_are_joined_by_their_width(void **state)
{
	static const struct {
		uint64_t mib, regions;
	} gone[] = {{16, 1}, {32, 2}, {24, 1}, {24, 1}, {12, 1}, {14, 1}, {6, 0}, {2, 0}};
	uint64_t address = 0;
	uint32_t count = 0;

	(void)state;
	for (; count < sizeof(gone) / sizeof(gone[0]); count++) {
		chunks[count] = (struct g4_chunk){.address = address,
						  .bytes = gone[count].mib * G4_MIB,
						  .place_bytes = gone[count].regions * G4_GONE_ROWS_UNIT};
		address += chunks[count].bytes;
	}
	g4_table_join_all(chunks, &count);
	assert_int_equal(count, 5);
	assert_int_equal(chunks[0].bytes, 48 * G4_MIB);
	assert_int_equal(chunks[0].place_bytes, 3 * G4_GONE_ROWS_UNIT);
	assert_int_equal(chunks[1].bytes, 48 * G4_MIB);
	assert_int_equal(chunks[1].place_bytes, 2 * G4_GONE_ROWS_UNIT);
	assert_int_equal(chunks[2].bytes, 12 * G4_MIB);
	assert_int_equal(chunks[3].bytes, 14 * G4_MIB);
	assert_int_equal(chunks[4].bytes, 8 * G4_MIB);
	assert_int_equal(chunks[4].place_bytes, 0);
}

/* Of a region that is gone in parts all is lost, once. */
static void a_region_is_lost_as_a_whole(void **state)
{
	static const struct {
		uint64_t mibs[6]; /* what is gone and what is not, in turn, from address 0 on */
		uint64_t lost;
	} tables[] = {{{2, 2, 2}, 2},	    {{1, 2, 1}, 2},    {{1, 1, 1, 3}, 2},
		      {{0, 1, 1, 2, 3}, 3}, {{0, 1, 4, 3}, 3}, {{0, 7}, 0}};

	(void)state;
	for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
		uint64_t address = 0;
		uint32_t count = 0;
		for (uint32_t k = 0; k < 6; k++) {
			const uint64_t bytes = tables[t].mibs[k] * G4_MIB;
			if (bytes == 0)
				continue;
			chunks[count] = (struct g4_chunk){.address = address, .bytes = bytes};
			if (k % 2) {
				chunks[count].columns = chunks[count].copies = 1;
				chunks[count].place_bytes = bytes;
			}
			count++;
			address += bytes;
		}
		assert_int_equal(g4_table_lost(chunks, count), tables[t].lost);
	}
}

/* One unit after the other. */
static uint64_t longest_slowly(const struct g4_set_in_use *in_use, const uint64_t *all, const struct g4_chunk *chunk,
			       uint64_t unit, uint64_t wanted, uint64_t *within)
{
	uint64_t best = 0, run = 0;

	for (uint64_t at = g4_align_up(chunk->place_bytes, unit); at > 0 && best < wanted; at -= unit) {
		const uint64_t from = at - unit, bytes = g4_min64(unit, chunk->place_bytes - from);
		const uint64_t first = chunk->address + from * chunk->columns, last = first + bytes * chunk->columns;
		bool idle = true;
		for (uint64_t r = first / G4_TABLE_REGION; r * G4_TABLE_REGION < last && r < in_use->regions; r++)
			idle = idle && !(in_use->used[r / 64] >> r % 64 & 1) && (!all || (all[r / 64] >> r % 64 & 1));
		assert_int_equal(g4_table_is_idle(in_use, all, chunk, from, bytes), idle);
		run = idle ? run + bytes : 0;
		if (run > best) {
			best = run;
			*within = from;
		}
	}
	return best;
}

static void the_longest_idle_part_is_found(void **state)
{
	uint64_t used[8], all[8], random = 1;

	(void)state;
	for (uint32_t round = 0; round < 3000; round++) {
		const uint64_t columns = 1 + rig_random(&random) % 4;
		const uint64_t unit = G4_TABLE_REGION << rig_random(&random) % 4;
		const struct g4_chunk chunk = {.address = rig_random(&random) % 64 * G4_CHUNK_UNIT,
					       .columns = (uint16_t)columns,
					       .copies = 1,
					       .place_bytes = (1 + rig_random(&random) % 200) * G4_CHUNK_UNIT};
		const struct g4_set_in_use in_use = {.used = used, .regions = 300 + rig_random(&random) % 212};
		const uint64_t wanted = (1 + rig_random(&random) % 60) * G4_CHUNK_UNIT;
		const uint64_t *lost = rig_random(&random) % 2 ? all : NULL;
		bool bit[2] = {false, false};
		memset(used, 0, sizeof(used));
		memset(all, 0, sizeof(all));
		for (uint32_t r = 0; r < 512; r++)
			for (uint32_t k = 0; k < 2; k++) {
				if (rig_random(&random) % 16 == 0)
					bit[k] = !bit[k];
				(k ? all : used)[r / 64] |= (uint64_t)bit[k] << r % 64;
			}
		uint64_t within = 0, expected = 0;
		const uint64_t bytes = longest_slowly(&in_use, lost, &chunk, unit, wanted, &expected);
		assert_int_equal(g4_table_longest_idle(&in_use, lost, &chunk, unit, wanted, &within), bytes);
		if (bytes)
			assert_int_equal(within, expected);
	}
}

RUN_TESTS(cmocka_unit_test(what_is_cut_is_joined_again), cmocka_unit_test(gone_rows_are_joined_by_their_width),
	  cmocka_unit_test(a_region_is_lost_as_a_whole), cmocka_unit_test(the_longest_idle_part_is_found))
