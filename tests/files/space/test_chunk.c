/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks: plans over disks are valid, every address has its own places, and copies lie on different disks. */
#include "files/files.h"

#include "space/chunk.h"

#define DISKS 3u

static const uint64_t disks[DISKS] = {G4_GIB, 2 * G4_GIB, G4_GIB + 300 * G4_MIB};
static struct g4_chunk chunks[G4_CHUNKS_MAX];

static uint32_t plan(enum g4_raid raid, uint32_t copies)
{
	const struct g4_chunk_wish wish = {.raid = raid, .copies = copies, .stripe_bytes = G4_STRIPE_DEFAULT};

	return g4_chunk_plan(&wish, disks, DISKS, chunks);
}

static uint64_t total_of(uint32_t count)
{
	uint64_t total = 0;

	for (uint32_t i = 0; i < count; i++)
		total += chunks[i].bytes;
	return total;
}

static void check_plan(enum g4_raid raid, uint32_t copies)
{
	const uint32_t count = plan(raid, copies);
	const struct g4_chunk_map map = {chunks, count};
	struct g4_piece piece;

	assert_true(count > 0);
	const uint64_t total = total_of(count);
	assert_int_equal(g4_chunk_validate(chunks, count, disks, DISKS), 0);
	for (uint64_t address = 0; address < total; address += piece.bytes) {
		g4_chunk_translate(&map, address, total - address, &piece);
		assert_true(piece.bytes > 0 && piece.bytes <= total - address);
		assert_int_equal(piece.copies, raid == G4_RAID_1 ? copies : 1);
		for (uint32_t c = 0; c < piece.copies; c++) {
			assert_true(piece.disks[c] < DISKS);
			assert_true(piece.offsets[c] + piece.bytes <= disks[piece.disks[c]]);
			for (uint32_t other = 0; other < c; other++)
				assert_true(piece.disks[other] != piece.disks[c]);
		}
	}
}

static void a_plan_of_each_level_covers_its_space(void **state)
{
	(void)state;
	check_plan(G4_RAID_NONE, 1);
	check_plan(G4_RAID_0, 1);
	check_plan(G4_RAID_1, 2);
	check_plan(G4_RAID_1, 3);
}

static void more_copies_than_disks_can_not_be_had(void **state)
{
	(void)state;
	assert_int_equal(plan(G4_RAID_1, DISKS + 1), 0);
	assert_int_equal(g4_chunk_usable(G4_PAGE_BYTES), 0);
}

static void damaged_chunks_are_refused(void **state)
{
	const uint32_t count = plan(G4_RAID_1, 2);

	(void)state;
	chunks[0].bytes += G4_PAGE_BYTES;
	assert_int_equal(g4_chunk_validate(chunks, count, disks, DISKS), -G4_E_SB_GEOMETRY);
	chunks[0].bytes -= G4_PAGE_BYTES;
	assert_int_equal(g4_chunk_validate(chunks, count, disks, DISKS), 0);
	chunks[0].places[1] = chunks[0].places[0]; /* both copies on one disk */
	assert_int_equal(g4_chunk_validate(chunks, count, disks, DISKS), -G4_E_SB_GEOMETRY);
}

static void places_that_were_moved_are_in_any_order_and_apart(void **state)
{
	const uint32_t count = plan(G4_RAID_NONE, 1);
	const struct g4_chunk_map map = {chunks, count};
	struct g4_piece piece;

	(void)state;
	assert_true(count >= 3);
	assert_false(g4_chunk_were_moved(chunks, count));
	/* the end of the second disk goes to that of the first one's chunk, and nothing is there any more */
	chunks[count] = chunks[0];
	chunks[count].address = g4_chunk_end(chunks, count);
	chunks[count].bytes = chunks[count].place_bytes = 4 * G4_CHUNK_UNIT;
	assert_int_equal(g4_chunk_validate(chunks, count + 1, disks, DISKS), -G4_E_SB_GEOMETRY); /* they overlap */
	chunks[0].places[0] += 4 * G4_CHUNK_UNIT; /* from here on behind each other, the later one first */
	chunks[0].bytes = chunks[0].place_bytes -= 4 * G4_CHUNK_UNIT;
	for (uint32_t n = 1; n <= count; n++)
		chunks[n].address -= 4 * G4_CHUNK_UNIT;
	assert_int_equal(g4_chunk_validate(chunks, count + 1, disks, DISKS), 0);
	assert_true(g4_chunk_were_moved(chunks, count + 1));
	assert_false(g4_chunk_were_moved(chunks, count));
	chunks[count].places[0] += G4_CHUNK_UNIT;
	assert_int_equal(g4_chunk_validate(chunks, count + 1, disks, DISKS), -G4_E_SB_GEOMETRY);
	const struct g4_chunk gone = {.address = chunks[1].address, .bytes = chunks[1].bytes};
	chunks[1] = gone;
	assert_true(g4_chunk_is_gone(&chunks[1]));
	assert_int_equal(g4_chunk_validate(chunks, count, disks, DISKS), 0);
	assert_true(g4_chunk_were_moved(chunks, count));
	g4_chunk_translate(&map, gone.address + G4_PAGE_BYTES, gone.bytes, &piece);
	assert_int_equal(piece.copies, 0);
	assert_int_equal(piece.parity, 0);
	assert_int_equal(piece.bytes, gone.bytes - G4_PAGE_BYTES);
	/* of rows that are gone: whole regions of the map, no more than there can have been, and as many as can be counted */
	struct g4_chunk rows = {.bytes = UINT64_C(1) << 60, .place_bytes = UINT64_C(1) << 55};
	assert_int_equal(g4_chunk_validate(&rows, 1, disks, DISKS), 0);
	rows.place_bytes += G4_CHUNK_UNIT;
	assert_int_equal(g4_chunk_validate(&rows, 1, disks, DISKS), -G4_E_SB_GEOMETRY);
	rows.place_bytes = UINT64_C(1) << 56;
	assert_int_equal(g4_chunk_validate(&rows, 1, disks, DISKS), -G4_E_SB_GEOMETRY);
	rows = (struct g4_chunk){.bytes = G4_CHUNK_UNIT, .place_bytes = G4_GONE_ROWS_UNIT};
	assert_int_equal(g4_chunk_validate(&rows, 1, disks, DISKS), -G4_E_SB_GEOMETRY);
	rows.bytes = 2 * G4_CHUNK_UNIT;
	assert_int_equal(g4_chunk_validate(&rows, 1, disks, DISKS), 0);
	chunks[1].level = G4_LEVEL_NONE; /* what lies nowhere is of no level */
	assert_int_equal(g4_chunk_validate(chunks, count, disks, DISKS), -G4_E_SB_GEOMETRY);
	chunks[1] = gone;
	chunks[1].bytes += G4_PAGE_BYTES;
	assert_int_equal(g4_chunk_validate(chunks, count, disks, DISKS), -G4_E_SB_GEOMETRY);
	/* columns without parity may be on one disk, apart from each other; copies may not */
	chunks[0] = (struct g4_chunk){.bytes = 2 * G4_CHUNK_UNIT,
				      .place_bytes = G4_CHUNK_UNIT,
				      .stripe_bytes = (uint32_t)G4_STRIPE_DEFAULT,
				      .columns = 2,
				      .copies = 1,
				      .places = {G4_CHUNK_UNIT, 3 * G4_CHUNK_UNIT}};
	assert_int_equal(g4_chunk_validate(chunks, 1, disks, DISKS), 0);
	assert_true(g4_chunk_were_moved(chunks, 1));
	chunks[0].places[1] = G4_CHUNK_UNIT;
	assert_int_equal(g4_chunk_validate(chunks, 1, disks, DISKS), -G4_E_SB_GEOMETRY);
	chunks[0] = (struct g4_chunk){.bytes = G4_CHUNK_UNIT,
				      .place_bytes = G4_CHUNK_UNIT,
				      .columns = 1,
				      .copies = 2,
				      .places = {3 * G4_CHUNK_UNIT, G4_CHUNK_UNIT}};
	assert_int_equal(g4_chunk_validate(chunks, 1, disks, DISKS), -G4_E_SB_GEOMETRY);
}

/* Chunks of 8 MiB, one behind the other on each of three disks, of which every second one is gone: gaps of 8 MiB. */
static uint32_t with_gaps(const uint64_t *bytes, uint32_t each)
{
	uint64_t address = 0;
	uint32_t count = 0;

	for (uint32_t d = 0; d < DISKS; d++)
		for (uint32_t n = 0; n < each; n++) {
			struct g4_chunk *chunk = &chunks[count++];
			memset(chunk, 0, sizeof(*chunk));
			chunk->address = address;
			chunk->bytes = 8 * G4_CHUNK_UNIT;
			address += chunk->bytes;
			if (n % 2 == 0)
				continue;
			chunk->place_bytes = chunk->bytes;
			chunk->columns = chunk->copies = 1;
			chunk->places[0] = (G4_CHUNK_UNIT + n * chunk->bytes) | d;
		}
	assert_int_equal(g4_chunk_validate(chunks, count, bytes, DISKS), 0);
	return count;
}

static void gaps_between_places_are_given_away(void **state)
{
	enum { EACH = 8 };
	/* behind the places of the last disk there is room for another one */
	const uint64_t room = EACH / 2 * 8 * G4_CHUNK_UNIT, full = (EACH * 8 + 1) * G4_CHUNK_UNIT + G4_PAGE_BYTES;
	const uint64_t bytes[DISKS] = {full, full, full + 8 * G4_CHUNK_UNIT};
	static const struct {
		enum g4_raid raid;
		uint32_t copies;
	} levels[] = {{G4_RAID_NONE, 1}, {G4_RAID_0, 1}, {G4_RAID_1, 2}, {G4_RAID_1, 3}, {G4_RAID_PARITY, 2}};

	(void)state;
	for (size_t l = 0; l < sizeof(levels) / sizeof(levels[0]); l++)
		for (uint32_t disk = 0; disk <= DISKS; disk++) { /* each chunk is on this one, or on any */
			const struct g4_chunk_wish wish = {.raid = levels[l].raid,
							   .copies = levels[l].copies,
							   .stripe_bytes = G4_STRIPE_DEFAULT,
							   .with_disk = disk};
			const uint32_t had = with_gaps(bytes, EACH);
			const uint32_t count = g4_chunk_extend(&wish, bytes, DISKS, chunks, had);
			const uint64_t gained = g4_chunk_end(chunks, count) - g4_chunk_end(chunks, had);
			assert_int_equal(g4_chunk_validate(chunks, count, bytes, DISKS), 0);
			switch (levels[l].raid) {
			case G4_RAID_NONE:
				assert_int_equal(gained, disk == 0     ? 3 * room + 8 * G4_CHUNK_UNIT :
							 disk == DISKS ? room + 8 * G4_CHUNK_UNIT :
									 room);
				break;
			case G4_RAID_0: /* striped over all, and the rest where there is more */
				assert_int_equal(gained,
						 disk == 0 || disk == DISKS ? 3 * room + 8 * G4_CHUNK_UNIT : 3 * room);
				break;
			case G4_RAID_1: /* two copies: with a disk as much as that has, else half of all but what has no pair */
				if (levels[l].copies == 2)
					assert_true(disk ? gained >= room :
							   gained + 2 * G4_CHUNK_UNIT >=
								    (3 * room + 8 * G4_CHUNK_UNIT) / 2);
				else
					assert_int_equal(gained, room);
				break;
			default:
				assert_int_equal(gained, 2 * room);
			}
		}
}

/* The table of chunks is not used up for gaps of a MiB, with much more behind them; where there is nothing else they are given away. */
static void many_small_gaps_do_not_hide_a_large_one(void **state)
{
	enum { HAD = 1100, LARGE = 8192 };
	static const struct {
		enum g4_raid raid;
		uint32_t copies, disks, gained;
	} levels[] = {{G4_RAID_NONE, 1, 1, LARGE}, {G4_RAID_0, 1, 2, 2 * LARGE}, {G4_RAID_1, 2, 2, LARGE}};
	const uint32_t cases = 3 * sizeof(levels) / sizeof(levels[0]);

	(void)state;
	for (uint32_t l = 0; l < cases; l++) {
		const uint32_t level = l / 3, large = l % 3 == 1 ? 0 : LARGE, both = levels[level].disks;
		const uint32_t other =
			l % 3 == 2 && both > 1 ? 0 : large; /* the second disk has nothing but small ones */
		const uint64_t front = (1 + 2 * HAD) * G4_CHUNK_UNIT + G4_PAGE_BYTES,
			       all[] = {front + large * G4_CHUNK_UNIT, front + other * G4_CHUNK_UNIT};
		const struct g4_chunk_wish wish = {
			.raid = levels[level].raid, .copies = levels[level].copies, .stripe_bytes = G4_STRIPE_DEFAULT};
		for (uint32_t n = 0; n < HAD; n++) {
			const uint64_t place = (1 + 2 * n) * G4_CHUNK_UNIT;
			chunks[n] = (struct g4_chunk){.address = n * G4_CHUNK_UNIT,
						      .bytes = G4_CHUNK_UNIT,
						      .place_bytes = G4_CHUNK_UNIT,
						      .columns = 1,
						      .copies = (uint16_t)both,
						      .places = {place, both > 1 ? place | 1 : 0}};
		}
		assert_int_equal(g4_chunk_validate(chunks, HAD, all, both), 0);
		const uint32_t count = g4_chunk_extend(&wish, all, both, chunks, HAD);
		const uint64_t gained = g4_chunk_end(chunks, count) - g4_chunk_end(chunks, HAD);
		assert_int_equal(g4_chunk_validate(chunks, count, all, both), 0);
		assert_true(large && other == large ? gained >= levels[level].gained * G4_CHUNK_UNIT : gained > 0);
		assert_true(!large || other != large || count < G4_CHUNKS_MAX);
	}
}

static void what_is_gone_gets_chunks_again(void **state)
{
	enum { EACH = 7 };
	const uint64_t full = (EACH * 8 + 1) * G4_CHUNK_UNIT + G4_PAGE_BYTES, bytes[DISKS] = {full, full, full};
	static const struct {
		enum g4_raid raid;
		uint32_t copies;
	} levels[] = {{G4_RAID_NONE, 1}, {G4_RAID_0, 1}, {G4_RAID_1, 2}, {G4_RAID_1, 3}};

	(void)state;
	for (size_t l = 0; l < sizeof(levels) / sizeof(levels[0]); l++) {
		const struct g4_chunk_wish wish = {
			.raid = levels[l].raid, .copies = levels[l].copies, .stripe_bytes = G4_STRIPE_DEFAULT};
		const uint32_t had = with_gaps(bytes, EACH);
		const uint64_t end = g4_chunk_end(chunks, had);
		uint64_t gone[2] = {0, 0}, address = 0;
		for (uint32_t n = 0; n < had; n++)
			gone[0] += g4_chunk_is_gone(&chunks[n]) ? (uint64_t)chunks[n].bytes : 0;
		const uint32_t count = g4_chunk_fill(&wish, bytes, DISKS, chunks, had);
		assert_int_equal(g4_chunk_validate(chunks, count, bytes, DISKS), 0);
		assert_int_equal(g4_chunk_end(chunks, count), end); /* no address is another's */
		for (uint32_t n = 0; n < count; n++) {
			gone[1] += g4_chunk_is_gone(&chunks[n]) ? (uint64_t)chunks[n].bytes : 0;
			address += chunks[n].bytes;
		}
		assert_int_equal(address, end);
		/* there are as many bytes on the disks as are gone: all of them, or one of so many copies */
		const uint64_t expected = gone[0] - gone[0] / levels[l].copies;
		assert_true(gone[1] >= expected && gone[1] <= expected + 2 * G4_CHUNK_UNIT);
	}
}

RUN_TESTS(cmocka_unit_test(a_plan_of_each_level_covers_its_space),
	  cmocka_unit_test(more_copies_than_disks_can_not_be_had), cmocka_unit_test(damaged_chunks_are_refused),
	  cmocka_unit_test(places_that_were_moved_are_in_any_order_and_apart),
	  cmocka_unit_test(gaps_between_places_are_given_away),
	  cmocka_unit_test(many_small_gaps_do_not_hide_a_large_one), cmocka_unit_test(what_is_gone_gets_chunks_again))
