/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second tier of the cache over a device that is an array: what comes in, what it costs in reads, and that nothing is found
 * which a write has, or may have, made old.
 */
#include "files/files.h"

#include "space/tier.h"

#define DEVICE_PAGES 4096u
#define BLOCK G4_TIER_BLOCK_PAGES
#define NEAR 3u /* the read of a region that brings its block */
#define SETS 4u
#define TIER_BYTES (SETS * G4_TIER_WAYS * G4_PAGE_BYTES)

static struct g4_tier tier;
static void *memory, *frames;
static uint64_t device[DEVICE_PAGES]; /* the first word of each page */
static uint64_t device_reads;
static uint8_t *buffer;

static int setup(void **state)
{
	const int rc = files_begin(state);

	memory = aligned_alloc(G4_PAGE_BYTES, g4_tier_memory(TIER_BYTES));
	frames = rig_memory(g4_tier_frames(TIER_BYTES), 0);
	buffer = rig_memory(G4_TIER_MOST_PAGES * G4_PAGE_BYTES, 0);
	assert_non_null(memory);
	memset(memory, 0, g4_tier_memory(TIER_BYTES));
	g4_tier_init(&tier, memory, frames, TIER_BYTES);
	assert_int_equal(tier.set_count, SETS);
	tier.victims = true;
	device_reads = 0;
	for (uint64_t page = 0; page < DEVICE_PAGES; page++)
		device[page] = page << 32;
	return rc;
}

static int teardown(void **state)
{
	free(memory);
	free(frames);
	free(buffer);
	return files_end(state);
}

static uint64_t *word_at(uint32_t k)
{
	return (uint64_t *)(void *)(buffer + (uint64_t)k * G4_PAGE_BYTES);
}

/* What a device does with the parts of a read. */
static void read_device(uint64_t page, const struct g4_iov *parts, uint32_t count)
{
	device_reads++;
	for (uint32_t k = 0; k < count; k++)
		for (uint64_t at = 0; at < parts[k].bytes; at += G4_PAGE_BYTES)
			memcpy((uint8_t *)parts[k].base + at, &device[page++], sizeof(device[0]));
}

static struct g4_iov wanted(uint64_t pages)
{
	return (struct g4_iov){buffer, pages * G4_PAGE_BYTES};
}

static bool in_tier(uint64_t page, uint64_t pages)
{
	const struct g4_iov part = wanted(pages);
	uint64_t from, to;

	if (!g4_tier_read(wg, &tier, page, pages, &part, 1, &from, &to))
		return false;
	for (uint32_t k = 0; k < pages; k++)
		assert_int_equal(*word_at(k), device[page + k]);
	return true;
}

/* As the space does it. Whether it was a read of a block. */
static bool read_small(uint64_t page, uint64_t pages)
{
	const struct g4_iov part = wanted(pages);
	struct g4_tier_fill fill;
	bool block = false;

	if (in_tier(page, pages))
		return false;
	block = g4_tier_begin(&tier, page, pages, &part, 1, DEVICE_PAGES, &fill);
	if (block) {
		read_device(fill.page, fill.parts, fill.part_count);
		g4_tier_filled(&tier, &fill, true);
	} else {
		read_device(page, &part, 1);
	}
	for (uint32_t k = 0; k < pages; k++)
		assert_int_equal(*word_at(k), device[page + k]);
	return block;
}

/* So many small reads near `page` that the next one brings its block. */
static void come_near(uint64_t page)
{
	const uint64_t region = page / G4_TIER_REGION_PAGES * G4_TIER_REGION_PAGES;

	for (uint32_t k = 1; k < NEAR; k++)
		assert_false(read_small(region + G4_TIER_REGION_PAGES - 2 * k, 1));
}

static void write_device(uint64_t page, uint64_t pages)
{
	g4_tier_write_begin(&tier, page, pages);
	for (uint64_t k = 0; k < pages; k++)
		device[page + k]++;
	g4_tier_write_end(&tier, page, pages);
}

static void a_block_comes_with_the_third_of_small_reads_that_are_neighbours(void **state)
{
	(void)state;
	come_near(4 * BLOCK);
	assert_true(read_small(4 * BLOCK + 9, 3));
	assert_int_equal(device_reads, NEAR);
	assert_int_equal(tier.counts.ahead, BLOCK - 3);
	assert_true(in_tier(4 * BLOCK, 9));
	assert_false(in_tier(4 * BLOCK + 9, 1)); /* the caller has it */
	assert_true(in_tier(4 * BLOCK + 12, 16));
	assert_false(in_tier(5 * BLOCK, 1));
	assert_false(in_tier(4 * BLOCK - 1, 1));
	assert_int_equal(device_reads, NEAR);
}

static void small_files_side_by_side_are_a_few_reads(void **state)
{
	(void)state;
	for (uint64_t page = 0; page + 3 <= 3000; page += 3)
		read_small(page, 3);
	assert_in_range(device_reads, 3000 / BLOCK, 3000 / BLOCK + 8);
}

static void reads_at_random_places_of_much_more_than_the_tier_bring_nothing(void **state)
{
	uint64_t random = 5;

	(void)state;
	for (uint32_t k = 0; k < 1000; k++) {
		const uint64_t far = rig_random(&random) % (UINT64_C(1) << 30);
		const struct g4_iov part = wanted(1);
		struct g4_tier_fill fill;
		assert_false(g4_tier_begin(&tier, far, 1, &part, 1, UINT64_MAX, &fill));
	}
}

static void what_lies_in_two_blocks_brings_the_rest_of_the_second(void **state)
{
	(void)state;
	come_near(5 * BLOCK);
	assert_true(read_small(5 * BLOCK - 1, 3));
	assert_false(in_tier(5 * BLOCK - 2, 1));
	assert_true(in_tier(5 * BLOCK + 2, 16));
	assert_true(read_small(6 * BLOCK + 4, 1));
	assert_true(in_tier(6 * BLOCK - 8, 12)); /* of two sets */
}

static void nothing_is_read_behind_the_end(void **state)
{
	const struct g4_iov part = wanted(2);
	struct g4_tier_fill fill;
	uint64_t bytes = 0;

	(void)state;
	come_near(BLOCK);
	assert_true(g4_tier_begin(&tier, BLOCK, 2, &part, 1, BLOCK + 5, &fill));
	for (uint32_t k = 0; k < fill.part_count; k++)
		bytes += fill.parts[k].bytes;
	assert_int_equal(fill.page, BLOCK);
	assert_int_equal(bytes, 5 * G4_PAGE_BYTES);
	g4_tier_filled(&tier, &fill, true);
	assert_false(g4_tier_begin(&tier, BLOCK + 4, 2, &part, 1, BLOCK + 5, &fill));
}

static void a_write_takes_its_pages_out_and_no_others(void **state)
{
	(void)state;
	come_near(4 * BLOCK);
	assert_true(read_small(4 * BLOCK, 1));
	write_device(4 * BLOCK + 10, 4);
	assert_int_equal(tier.counts.dropped, 4);
	assert_true(in_tier(4 * BLOCK + 1, 9));
	assert_true(in_tier(4 * BLOCK + 14, 16));
	for (uint32_t k = 10; k < 14; k++)
		assert_false(in_tier(4 * BLOCK + k, 1));
	write_device(4 * BLOCK - 3, 2 * BLOCK); /* over three blocks */
	for (uint32_t k = 0; k < BLOCK; k++)
		assert_false(in_tier(4 * BLOCK + k, 1));
	read_small(4 * BLOCK + 20, 2); /* and it comes again, as it is now */
	assert_true(in_tier(4 * BLOCK + 10, 4));
}

/* In each way that a write and a read of the device can overlap, a page is not kept. */
static void what_is_read_beside_a_write_does_not_come_in(void **state)
{
	static const struct {
		uint32_t begin, end; /* before the read begins, while it is under way, behind it */
	} orders[] = {{0, 1}, {0, 2}, {1, 1}, {1, 2}};
	const struct g4_iov part = wanted(1);
	struct g4_tier_fill fill;

	(void)state;
	for (uint32_t o = 0; o < 4; o++) {
		const uint64_t at = (o + 1) * 2 * G4_TIER_REGION_PAGES, page = at + 7;
		come_near(at);
		if (orders[o].begin == 0)
			g4_tier_write_begin(&tier, page, 1);
		const bool block = g4_tier_begin(&tier, at, 1, &part, 1, DEVICE_PAGES, &fill);
		assert_int_equal(block, orders[o].begin > 0);
		if (orders[o].begin == 1)
			g4_tier_write_begin(&tier, page, 1);
		if (block)
			read_device(fill.page, fill.parts, fill.part_count); /* the old page */
		device[page]++;
		if (orders[o].end == 1)
			g4_tier_write_end(&tier, page, 1);
		if (block)
			g4_tier_filled(&tier, &fill, true);
		for (uint32_t k = 0; k < BLOCK; k++)
			assert_false(in_tier(at + k, 1));
		if (orders[o].end == 2)
			g4_tier_write_end(&tier, page, 1);
		assert_true(read_small(at, 1)); /* nobody is counted as a writer for ever */
		assert_true(in_tier(page, 1));
	}
}

static void a_read_that_was_overtaken_by_forgetting_does_not_come_in(void **state)
{
	const struct g4_iov part = wanted(1);
	struct g4_tier_fill fill;

	(void)state;
	come_near(BLOCK);
	assert_true(read_small(BLOCK, 1));
	assert_true(g4_tier_begin(&tier, 3 * BLOCK, 1, &part, 1, DEVICE_PAGES, &fill));
	read_device(fill.page, fill.parts, fill.part_count);
	g4_tier_forget(&tier);
	g4_tier_filled(&tier, &fill, true);
	for (uint32_t page = 0; page < 4 * BLOCK; page++)
		assert_false(in_tier(page, 1));
	assert_true(read_small(3 * BLOCK, 1));
	assert_true(in_tier(3 * BLOCK + 1, 1));
}

/* A range so large that it is not looked at block by block ends as it began. */
static void a_write_of_everything_is_one_of_each_page(void **state)
{
	const struct g4_iov part = wanted(1);
	struct g4_tier_fill fill;

	(void)state;
	come_near(BLOCK);
	assert_true(read_small(BLOCK, 1));
	g4_tier_write_begin(&tier, 0, UINT64_MAX / 2);
	assert_false(in_tier(BLOCK + 1, 1));
	assert_false(g4_tier_begin(&tier, BLOCK, 1, &part, 1, DEVICE_PAGES, &fill));
	g4_tier_write_end(&tier, 0, UINT64_MAX / 2);
	assert_true(read_small(BLOCK, 1));
	assert_true(in_tier(BLOCK + 1, 1));
}

static void a_block_that_can_not_be_read_is_left_alone(void **state)
{
	const struct g4_iov part = wanted(1);
	struct g4_tier_fill fill;

	(void)state;
	come_near(BLOCK);
	assert_true(g4_tier_begin(&tier, BLOCK, 1, &part, 1, DEVICE_PAGES, &fill));
	g4_tier_filled(&tier, &fill, false);
	assert_false(in_tier(BLOCK + 1, 1));
	assert_false(g4_tier_begin(&tier, BLOCK + 8, 1, &part, 1, DEVICE_PAGES, &fill));
	assert_true(read_small(2 * BLOCK, 1));
}

static void a_block_that_somebody_reads_is_not_read_twice(void **state)
{
	const struct g4_iov part = wanted(1);
	struct g4_tier_fill one, other;

	(void)state;
	come_near(BLOCK);
	assert_true(g4_tier_begin(&tier, BLOCK, 1, &part, 1, DEVICE_PAGES, &one));
	assert_false(g4_tier_begin(&tier, BLOCK + 9, 1, &part, 1, DEVICE_PAGES, &other));
	assert_true(
		g4_tier_begin(&tier, BLOCK + SETS * BLOCK, 1, &part, 1, DEVICE_PAGES, &other)); /* of the same set */
	read_device(other.page, other.parts, other.part_count);
	g4_tier_filled(&tier, &other, true);
	read_device(one.page, one.parts, one.part_count);
	g4_tier_filled(&tier, &one, true);
	assert_true(in_tier(BLOCK + 1, 16));
	assert_true(in_tier(BLOCK + SETS * BLOCK + 1, 16));
}

static void what_was_had_goes_before_what_nobody_asked_for(void **state)
{
	(void)state;
	come_near(BLOCK);
	assert_true(read_small(BLOCK, 1));
	assert_true(read_small((1 + SETS) * BLOCK, 1)); /* the set is full */
	for (uint64_t k = 1; k < BLOCK; k++)
		assert_true(in_tier((1 + SETS) * BLOCK + k, 1));
	assert_true(read_small((1 + 2 * SETS) * BLOCK, 1));
	for (uint64_t k = 1; k < BLOCK; k++)
		assert_true(in_tier(BLOCK + k, 1));
}

static void without_a_set_there_is_no_tier(void **state)
{
	struct g4_tier none;
	struct g4_tier_fill fill;
	const struct g4_iov part = wanted(1);

	(void)state;
	assert_int_equal(g4_tier_memory(G4_TIER_WAYS * G4_PAGE_BYTES - 1), 0);
	uint64_t from, to;
	g4_tier_init(&none, NULL, NULL, G4_TIER_WAYS * G4_PAGE_BYTES - 1);
	assert_false(g4_tier_is_used(&none));
	g4_tier_write_begin(&none, 0, 1);
	g4_tier_write_end(&none, 0, 1);
	g4_tier_forget(&none);
	assert_false(g4_tier_read(wg, &none, 0, 1, &part, 1, &from, &to));
	assert_true(from == 0 && to == 1);
	assert_int_equal(g4_tier_version(&none, 0), G4_TIER_NO_VERSION);
	g4_tier_put(wg, &none, 0, 0, buffer);
	assert_false(g4_tier_begin(&none, 0, 1, &part, 1, DEVICE_PAGES, &fill));
}

/* ---- victims ---- */

/* Reads a page, as the page cache does, and gives it up. */
static void give_up(uint64_t page)
{
	const uint64_t version = g4_tier_version(&tier, page);

	*word_at(0) = device[page];
	g4_tier_put(wg, &tier, page, version, buffer);
}

static void a_victim_is_found_until_it_is_written(void **state)
{
	(void)state;
	for (uint64_t page = 70; page < 80; page++)
		give_up(page);
	assert_true(in_tier(70, 10));
	assert_int_equal(tier.counts.down, 10);
	assert_int_equal(tier.counts.up, 10);
	write_device(75, 1);
	assert_false(in_tier(75, 1));
	assert_true(in_tier(70, 5));
	assert_true(in_tier(76, 4));
	give_up(75);
	assert_true(in_tier(70, 10));
	g4_tier_forget(&tier);
	assert_false(in_tier(71, 1));
}

/* However long ago it was read, and wherever in between the write begins and ends. */
static void a_victim_of_before_a_write_does_not_come_in(void **state)
{
	(void)state;
	*word_at(0) = device[9];
	uint64_t version = g4_tier_version(&tier, 9);
	write_device(9, 1);
	g4_tier_put(wg, &tier, 9, version, buffer);
	assert_false(in_tier(9, 1));

	*word_at(0) = device[9];
	version = g4_tier_version(&tier, 9);
	g4_tier_write_begin(&tier, 9, 1);
	g4_tier_put(wg, &tier, 9, version, buffer);
	assert_false(in_tier(9, 1));
	assert_int_equal(g4_tier_version(&tier, 9), G4_TIER_NO_VERSION); /* who reads now is told nothing */
	g4_tier_put(wg, &tier, 9, G4_TIER_NO_VERSION, buffer);
	device[9]++;
	g4_tier_write_end(&tier, 9, 1);
	g4_tier_put(wg, &tier, 9, version, buffer);
	g4_tier_put(wg, &tier, 9, G4_TIER_NO_VERSION, buffer);
	assert_false(in_tier(9, 1));

	version = g4_tier_version(&tier, 9);
	g4_tier_write_begin(&tier, 0, UINT64_MAX / 2);
	assert_int_equal(g4_tier_version(&tier, 9), G4_TIER_NO_VERSION);
	g4_tier_write_end(&tier, 0, UINT64_MAX / 2);
	g4_tier_put(wg, &tier, 9, version, buffer);
	assert_false(in_tier(9, 1));
	version = g4_tier_version(&tier, 9);
	g4_tier_forget(&tier);
	g4_tier_put(wg, &tier, 9, version, buffer);
	assert_false(in_tier(9, 1));
	assert_int_equal(tier.counts.down, 0);
	assert_int_equal(tier.counts.down_old, 5);
	give_up(9);
	assert_true(in_tier(9, 1));
}

/* A page of two files is given up by both. */
static void a_victim_that_is_there_comes_in_once(void **state)
{
	(void)state;
	for (uint32_t k = 0; k < 3 * G4_TIER_WAYS; k++)
		give_up(BLOCK);
	assert_int_equal(tier.counts.down, 1);
	assert_int_equal(tier.counts.down_again, 3 * G4_TIER_WAYS - 1);
	assert_true(in_tier(BLOCK, 1));
	write_device(BLOCK, 1);
	assert_false(in_tier(BLOCK, 1));
	come_near(BLOCK);
	assert_true(read_small(BLOCK, 1));
	assert_true(in_tier(BLOCK + 1, BLOCK - 1));
	for (uint64_t k = 0; k < BLOCK; k++)
		give_up(BLOCK + k); /* of these one was not there */
	assert_int_equal(tier.counts.down, 2);
	assert_true(in_tier(BLOCK, BLOCK));
}

/* As many as there are ways; what is up again goes first, unless it has come down again. */
static void victims_have_no_more_room_than_there_is(void **state)
{
	(void)state;
	for (uint64_t page = 0; page < DEVICE_PAGES; page++)
		give_up(page);
	uint64_t found = 0;
	for (uint64_t page = 0; page < DEVICE_PAGES; page++)
		found += in_tier(page, 1);
	assert_int_equal(found, SETS * G4_TIER_WAYS);
	for (uint64_t page = DEVICE_PAGES - SETS * G4_TIER_WAYS; page < DEVICE_PAGES; page++)
		assert_true(in_tier(page, 1));
	const uint64_t last = DEVICE_PAGES - SETS * G4_TIER_WAYS;
	for (uint64_t k = 0; k < BLOCK; k++)
		give_up(last + k); /* they came up above, and are down again: wanted more than the rest of their set */
	for (uint64_t k = 0; k < BLOCK; k++)
		give_up(k); /* of that set */
	for (uint64_t k = 0; k < BLOCK; k++)
		assert_true(in_tier(last + k, 1));
}

/* What lies between the first page that is not there and the last is left to the device. */
static void of_a_request_the_rest_is_told(void **state)
{
	const struct g4_iov parts[2] = {{buffer, 3 * G4_PAGE_BYTES}, {buffer + 3 * G4_PAGE_BYTES, 97 * G4_PAGE_BYTES}};
	uint64_t from, to;

	(void)state;
	for (uint64_t page = 300; page < 400; page++)
		give_up(page);
	write_device(310, 1);
	write_device(371, 2);
	assert_false(g4_tier_read(wg, &tier, 300, 100, parts, 2, &from, &to));
	assert_int_equal(from, 10);
	assert_int_equal(to, 73);
	for (uint32_t k = 0; k < 100; k++)
		if (k < from || k >= to)
			assert_int_equal(*word_at(k), device[300 + k]);
	assert_int_equal(tier.counts.hits, 97);
	assert_int_equal(tier.counts.misses, 3);
}

#define tier_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
RUN_TESTS(tier_test(a_block_comes_with_the_third_of_small_reads_that_are_neighbours),
	  tier_test(small_files_side_by_side_are_a_few_reads),
	  tier_test(reads_at_random_places_of_much_more_than_the_tier_bring_nothing),
	  tier_test(what_lies_in_two_blocks_brings_the_rest_of_the_second), tier_test(nothing_is_read_behind_the_end),
	  tier_test(a_write_takes_its_pages_out_and_no_others), tier_test(what_is_read_beside_a_write_does_not_come_in),
	  tier_test(a_read_that_was_overtaken_by_forgetting_does_not_come_in),
	  tier_test(a_write_of_everything_is_one_of_each_page), tier_test(a_block_that_can_not_be_read_is_left_alone),
	  tier_test(a_block_that_somebody_reads_is_not_read_twice),
	  tier_test(what_was_had_goes_before_what_nobody_asked_for), tier_test(without_a_set_there_is_no_tier),
	  tier_test(a_victim_is_found_until_it_is_written), tier_test(a_victim_of_before_a_write_does_not_come_in),
	  tier_test(a_victim_that_is_there_comes_in_once), tier_test(victims_have_no_more_room_than_there_is),
	  tier_test(of_a_request_the_rest_is_told))
