/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A leaf: where it is cut; and one that changes under its owner's hands, as one does that an image has put into two directories:
 * whatever its bytes say by then, nothing behind the page is touched.
 */
#include "dir/leaf.h"
#include "rig.h"
#include "simt/simt_host.h"

static uint8_t *changes; /* the name of that length becomes one of another behind a look at it */
static uint32_t at_length, becomes;

static uint32_t hooked_units_for(uint32_t name_bytes)
{
	uint8_t *const name = changes;

	if (name && name_bytes == at_length) {
		changes = NULL;
		*name = (uint8_t)becomes;
	}
	return g4_leaf_units_for(name_bytes);
}

#define g4_leaf_units_for hooked_units_for
#include "dir/leaf.c" /* NOLINT(bugprone-suspicious-include) */
#undef g4_leaf_units_for

#define LAST (G4_DIR_UNITS - 2) /* where the last entry can begin */

static _Alignas(G4_PAGE_BYTES) uint8_t frames[2 * G4_PAGE_BYTES]; /* the leaf, and what lies behind it */
static struct g4_note notes[2];
static struct g4_cache cache;
static struct g4_wg *wg;
static struct g4_leaf leaf;

static int setup(void **state)
{
	(void)state;
	memset(frames, 0, sizeof(frames));
	memset(&cache, 0, sizeof(cache));
	cache.frames = frames;
	cache.notes = notes;
	wg = g4_wg_create(0);
	assert_non_null(wg);
	g4_leaf_init(&leaf, &cache, 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < G4_PAGE_BYTES; i++)
		assert_int_equal(frames[G4_PAGE_BYTES + i], 0);
	g4_wg_destroy(wg);
	return 0;
}

static bool insert(uint32_t hash, uint32_t name_bytes)
{
	static char name[G4_NAME_MAX];
	struct g4_dir_entry header;

	memset(name, 'x', sizeof(name));
	memset(&header, 0, sizeof(header));
	header.inode = 4096;
	header.hash = hash;
	header.name_bytes = (uint8_t)name_bytes;
	return g4_leaf_insert(wg, &leaf, &header, name);
}

static uint32_t count(void)
{
	struct g4_dir_entry *entry = NULL;
	uint32_t entries = 0;

	G4_LEAF_FOR_EACH(&leaf, unit, entry)
	entries += entry->name_bytes > 0;
	return entries;
}

/* Two units each: fills the leaf to its last unit. */
static void fill(void)
{
	uint32_t hash = 1;

	while (g4_leaf_room(&leaf) >= 2)
		assert_true(insert(hash++, 5));
	assert_int_equal(g4_leaf_next(&leaf, LAST), LAST);
}

/* What lies in names where entries have their hashes is none. */
static void a_name_is_found_by_its_hash(void **state)
{
	static const char name[G4_NAME_MAX + 1] = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
	const uint32_t inside = 0x78787878; /* the middle of such a name */
	bool collides;

	(void)state;
	for (uint32_t hash = 1; g4_leaf_room(&leaf) >= 8; hash++)
		assert_true(insert(hash, 40));
	assert_int_equal(g4_leaf_find(&leaf, inside, name, 40, &collides), 0);
	assert_false(collides);
	assert_true(insert(inside, 40));
	for (uint32_t unit = g4_leaf_next(&leaf, 0); unit < G4_DIR_UNITS; unit = g4_leaf_next(&leaf, unit + 1)) {
		const uint32_t hash = g4_leaf_entry(&leaf, unit)->hash;
		assert_int_equal(g4_leaf_find(&leaf, hash, name, 40, &collides), unit);
		assert_false(collides);
		assert_int_equal(g4_leaf_find(&leaf, hash, name, 39, &collides), 0);
		assert_true(collides);
	}
	assert_int_equal(g4_leaf_find(&leaf, 1000, name, 40, &collides), 0);
}

static void an_entry_without_room_is_refused(void **state)
{
	(void)state;
	fill();
	const uint32_t before = count();
	assert_false(insert(1000000, 5));
	assert_false(insert(1000000, G4_NAME_MAX));
	assert_int_equal(count(), before);
}

static void an_entry_that_claims_to_run_over_the_page_is_removed(void **state)
{
	(void)state;
	fill();
	const uint32_t before = count();
	g4_leaf_entry(&leaf, LAST)->name_bytes = G4_NAME_MAX;
	g4_leaf_remove(&leaf, LAST);
	assert_int_equal(count(), before - 1);
	assert_int_equal(g4_leaf_room(&leaf), 2);
}

static void entries_that_claim_more_than_there_is_do_not_move_behind_the_page(void **state)
{
	struct g4_dir_entry *entry = NULL;

	(void)state;
	fill();
	g4_leaf_remove(&leaf, G4_DIR_HEADER_UNITS);
	g4_leaf_remove(&leaf, G4_DIR_HEADER_UNITS + 20);
	G4_LEAF_FOR_EACH(&leaf, unit, entry)
	if (unit < LAST)
		entry->name_bytes = 60;
	(void)insert(1000000, 20); /* needs room in one piece: all move */
}

/* Units of entries below a hash. */
static uint32_t units_below(uint64_t bound)
{
	struct g4_dir_entry *entry = NULL;
	uint32_t units = 0;

	G4_LEAF_FOR_EACH(&leaf, unit, entry)
	units += entry->hash < bound ? g4_leaf_units_for(entry->name_bytes) : 0;
	return units;
}

/* By definition: the largest bound below which lies at most half, or behind the lowest hash where that has more than half; 0: none. */
static uint32_t expected_pivot(void)
{
	const uint32_t half = units_below(UINT64_C(1) << 32) / 2;
	struct g4_dir_entry *entry = NULL;
	uint32_t least = UINT32_MAX, pivot = 0, behind = 0;

	G4_LEAF_FOR_EACH(&leaf, unit, entry)
	least = entry->hash < least ? entry->hash : least;
	G4_LEAF_FOR_EACH(&leaf, unit, entry)
	{
		if (entry->hash > pivot && units_below(entry->hash) <= half)
			pivot = entry->hash;
		if (entry->hash > least && (behind == 0 || entry->hash < behind))
			behind = entry->hash;
	}
	return pivot > least ? pivot : behind;
}

static void a_leaf_is_cut_where_half_of_it_is_below(void **state)
{
	const uint64_t spans[] = {1, 2, 3, 50, 1000, UINT64_C(1) << 26, UINT64_C(1) << 32};
	uint64_t random = 1;

	(void)state;
	for (uint32_t round = 0; round < 500; round++) {
		const uint64_t span = spans[rig_random(&random) % (sizeof(spans) / sizeof(spans[0]))];
		const uint64_t first = round % 3 == 0 ? 0 :
				       round % 3 == 1 ? (UINT64_C(1) << 32) - span :
							UINT64_C(1) << 31;
		const uint32_t most = 1 + (uint32_t)(rig_random(&random) % G4_NAME_MAX);
		memset(frames, 0, G4_PAGE_BYTES);
		g4_leaf_init(&leaf, &cache, 0);
		for (uint32_t n = 1 + (uint32_t)(rig_random(&random) % 126); n > 0; n--) {
			const uint32_t bytes = 1 + (uint32_t)(rig_random(&random) % most);
			if (g4_leaf_room(&leaf) < g4_leaf_units_for(bytes))
				break;
			assert_true(insert((uint32_t)((first + rig_random(&random) % span) & UINT32_MAX), bytes));
		}
		const uint32_t pivot = g4_leaf_pivot(wg, &leaf);
		assert_int_equal(pivot, expected_pivot());
		if (pivot) {
			assert_true(units_below(pivot) > 0);
			assert_true(units_below(pivot) < units_below(UINT64_C(1) << 32));
		}
	}
}

/* ---- listing */

/* By definition: from a position on, the lowest first, of equal ones (an image may have some) the one that comes first in the page. */
static void expect_listed(const struct g4_dir_listed *listed, uint64_t from)
{
	struct g4_dir_entry *entry = NULL;
	uint32_t wanted = 0, last_unit = 0;
	uint64_t last = 0;

	G4_LEAF_FOR_EACH(&leaf, unit, entry)
	wanted += g4_dir_position(entry->hash, entry->collision) >= from;
	assert_int_equal(listed->count, wanted);
	for (uint32_t k = 0; k < listed->count; k++) {
		const struct g4_dir_entry *of = listed->items[k].entry;
		const uint32_t unit =
			(uint32_t)((const uint8_t *)of - (const uint8_t *)listed->page) / G4_DIR_UNIT_BYTES;
		assert_true(leaf.starts[unit / 64] >> unit % 64 & 1);
		assert_int_equal(listed->items[k].position, g4_dir_position(of->hash, of->collision));
		assert_true(listed->items[k].position >= from);
		assert_true(listed->items[k].position > last ||
			    (listed->items[k].position == last && unit > last_unit));
		last = listed->items[k].position;
		last_unit = unit;
	}
}

static void random_leaf(uint64_t *random)
{
	const uint64_t span = UINT64_C(1) << rig_random(random) % 33;
	const uint32_t most = 1 + (uint32_t)(rig_random(random) % 40);

	memset(frames, 0, G4_PAGE_BYTES);
	g4_leaf_init(&leaf, &cache, 0);
	for (uint32_t n = (uint32_t)(rig_random(random) % 140); n > 0; n--) {
		const uint32_t bytes = 1 + (uint32_t)(rig_random(random) % most);
		if (g4_leaf_room(&leaf) < g4_leaf_units_for(bytes))
			break;
		assert_true(insert((uint32_t)(rig_random(random) % span), bytes));
	}
	for (uint32_t n = (uint32_t)(rig_random(random) % 20); n > 0; n--) {
		const uint32_t unit = g4_leaf_next(&leaf, (uint32_t)(rig_random(random) % G4_DIR_UNITS));
		if (unit < G4_DIR_UNITS)
			g4_leaf_remove(&leaf, unit);
	}
}

static void a_listing_is_in_the_order_of_positions(void **state)
{
	struct g4_dir_listed *listed = g4_scratch_take(wg, sizeof(*listed));
	uint64_t random = 7;

	(void)state;
	for (uint32_t round = 0; round < 300; round++) {
		random_leaf(&random);
		const uint64_t from = round % 3 == 0 ? 0 : (rig_random(&random) & UINT32_MAX) << 16;
		g4_leaf_copy(wg, &leaf, listed);
		g4_leaf_list(wg, from, listed);
		expect_listed(listed, from);
	}
	g4_scratch_release(wg, 0);
}

/* What each lane does by itself, for widths that this build does not have. */
static void lanes_put_each_entry_into_its_place(void **state)
{
	static const uint32_t widths[] = {1, 2, 4, 32, 64};
	static struct g4_dir_listed listed;
	static struct listing job = {.listed = &listed};
	uint64_t random = 11;

	(void)state;
	for (uint32_t round = 0; round < 300; round++) {
		random_leaf(&random);
		job.from = round % 3 == 0 ? 0 : (rig_random(&random) & 0xffff) << 16;
		g4_leaf_copy(wg, &leaf, &listed);
		for (uint32_t w = 0; w < sizeof(widths) / sizeof(widths[0]); w++) {
			const uint32_t width = widths[w], each = G4_DIR_UNITS / width;
			listed.count = 0;
			for (uint32_t lane = 0; lane < width; lane++) {
				const uint32_t first = lane * each, room = G4_DIR_LEAF_ENTRIES - listed.count;
				const uint32_t mine = collect(&job, first, first + each, NULL, G4_DIR_LEAF_ENTRIES);
				assert_int_equal(collect(&job, first, first + each, &job.keys[listed.count], room),
						 mine);
				listed.count += mine;
			}
			memset(listed.items, 0, sizeof(listed.items));
			for (uint32_t lane = 0; lane < width; lane++)
				rank(&job, lane, width);
			expect_listed(&listed, job.from);
			insert_each(&job);
			expect_listed(&listed, job.from);
		}
	}
}

/* An image may say that more entries begin than a leaf has room for: names of no bytes. */
static void more_entries_than_there_can_be_are_not_listed(void **state)
{
	struct g4_dir_listed *listed = g4_scratch_take(wg, sizeof(*listed));

	(void)state;
	for (uint32_t unit = G4_DIR_HEADER_UNITS; unit < G4_DIR_UNITS; unit++) {
		g4_leaf_entry(&leaf, unit)->hash = G4_DIR_UNITS - unit;
		set_bits(leaf.page->used, unit, 1);
		set_bits(leaf.starts, unit, 1);
	}
	g4_leaf_copy(wg, &leaf, listed);
	g4_leaf_list(wg, 0, listed);
	assert_int_equal(listed->count, G4_DIR_LEAF_ENTRIES);
	for (uint32_t k = 1; k < listed->count; k++)
		assert_true(listed->items[k].position > listed->items[k - 1].position);
	g4_scratch_release(wg, 0);
}

/* A name is looked for where it was. */
static void a_name_is_at_its_unit(void **state)
{
	static const char name[G4_NAME_MAX + 1] = "xxxxxxxxxx";

	(void)state;
	assert_true(insert(5, 10) && insert(6, 10) && insert(5, 9));
	const uint32_t first = g4_leaf_next(&leaf, 0), second = g4_leaf_next(&leaf, first + 1);
	assert_true(g4_leaf_has(&leaf, first, 5, name, 10));
	assert_false(g4_leaf_has(&leaf, first, 5, name, 9));
	assert_false(g4_leaf_has(&leaf, first, 6, name, 10));
	assert_false(g4_leaf_has(&leaf, first, 5, "xxxxxxxxxy", 10));
	assert_false(g4_leaf_has(&leaf, second, 5, name, 10));
	assert_false(g4_leaf_has(&leaf, first + 1, 5, name, 10));
	g4_leaf_remove(&leaf, first);
	assert_false(g4_leaf_has(&leaf, first, 5, name, 10));
}

#define leaf_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

/* ---- entries that come from another leaf, whose owner is another one */

#define GROWS 9u

static _Alignas(G4_PAGE_BYTES) uint8_t source_frames[2 * G4_PAGE_BYTES];
static struct g4_note source_notes[1];
static struct g4_leaf source;

static void put(uint32_t hash, uint32_t name_bytes)
{
	static const char name[G4_NAME_MAX];
	const struct g4_dir_entry header = {4096, hash, 0, (uint8_t)name_bytes, 8};

	assert_true(g4_leaf_insert(wg, &source, &header, name));
}

static void begin_source(void)
{
	static struct g4_cache source_cache;

	memset(source_frames, 0, sizeof(source_frames));
	source_cache.frames = source_frames;
	source_cache.notes = source_notes;
	g4_leaf_init(&source, &source_cache, 0);
}

static void let_grow(uint32_t unit)
{
	uint8_t *const name = (uint8_t *)(g4_leaf_entry(&source, unit) + 1);

	memset(name, 'x', (size_t)(source_frames + sizeof(source_frames) - name));
	changes = &g4_leaf_entry(&source, unit)->name_bytes;
	at_length = GROWS;
	becomes = G4_NAME_MAX;
}

/* There is room for what it was when it was looked at. */
static void an_entry_grows_while_leaves_are_united(void **state)
{
	(void)state;
	begin_source();
	put(7, GROWS);
	memset(leaf.page->used, 0xff, sizeof(leaf.page->used));
	leaf.page->used[LAST / 64] &= ~(UINT64_C(3) << LAST % 64);
	let_grow(G4_DIR_HEADER_UNITS);
	assert_true(g4_leaf_unite(wg, &leaf, &source));
	assert_null(changes);
	assert_int_equal(g4_leaf_entry(&leaf, LAST)->name_bytes, G4_DIR_UNIT_BYTES);
}

static void an_entry_grows_while_a_leaf_is_split(void **state)
{
	(void)state;
	begin_source();
	for (uint32_t k = 0; k + 1 < G4_DIR_LEAF_ENTRIES; k++)
		put(k, GROWS + 1);
	put(UINT32_MAX, GROWS);
	assert_int_equal(g4_leaf_entry(&source, LAST)->hash, UINT32_MAX);
	let_grow(LAST);
	g4_leaf_split(&source, &leaf, 0);
	assert_null(changes);
	assert_int_equal(g4_leaf_entry(&leaf, LAST)->name_bytes, G4_DIR_UNIT_BYTES);
}

/* Each unit that is in use is one of an entry, or the page reads as one with entries that are not there. */
static void an_entry_shrinks_while_leaves_are_united(void **state)
{
	struct g4_dir_entry *entry = NULL;
	uint32_t entries = 0;

	(void)state;
	begin_source();
	put(7, 100);
	changes = &g4_leaf_entry(&source, G4_DIR_HEADER_UNITS)->name_bytes;
	at_length = 100;
	becomes = 1;
	assert_true(g4_leaf_unite(wg, &leaf, &source));
	assert_null(changes);
	leaf.note->word[0] = 0; /* as a page that comes from the device */
	g4_leaf_open_alone(&leaf, &cache, 0);
	G4_LEAF_FOR_EACH(&leaf, unit, entry)
	{
		assert_int_equal(entry->name_bytes, 1);
		entries++;
	}
	assert_int_equal(entries, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		leaf_test(a_leaf_is_cut_where_half_of_it_is_below),
		leaf_test(a_name_is_found_by_its_hash),
		leaf_test(an_entry_without_room_is_refused),
		leaf_test(an_entry_that_claims_to_run_over_the_page_is_removed),
		leaf_test(entries_that_claim_more_than_there_is_do_not_move_behind_the_page),
		leaf_test(an_entry_grows_while_leaves_are_united),
		leaf_test(an_entry_grows_while_a_leaf_is_split),
		leaf_test(an_entry_shrinks_while_leaves_are_united),
		leaf_test(a_listing_is_in_the_order_of_positions),
		leaf_test(lanes_put_each_entry_into_its_place),
		leaf_test(more_entries_than_there_can_be_are_not_listed),
		leaf_test(a_name_is_at_its_unit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
