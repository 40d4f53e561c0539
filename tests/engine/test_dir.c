/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A directory of very many long names, in a cache that holds a small part of it: growing and listing (shrinking: test_shrink.c), and index
 * pages that an image may have and no directory can: each is refused by whoever meets it, and nothing is changed for it.
 */
#include "long_names.h"

static void very_many_names_are_found_listed_and_removed(void **state)
{
	const uint32_t count = rig_slow() ? 20000 : 100000;
	uint32_t numbers[G4_DIR_LEAF_ENTRIES], listed = 0;
	uint8_t *seen = (uint8_t *)calloc(count, 1);
	uint64_t positions[G4_DIR_LEAF_ENTRIES], last = 0;
	struct g4_dir_slot slot = {0};

	(void)state;
	assert_non_null(seen);
	for (uint32_t k = 0; k < count; k++)
		names_insert(k);
	assert_int_equal(names_height(), 2); /* three levels with the leaves */
	for (uint32_t k = 0; k < count; k++) {
		assert_int_equal(names_lookup(k, &slot), 0);
		assert_int_equal(slot.inode, names.inode);
	}
	assert_int_equal(names_lookup(count, &slot), -G4_E_NOENT);
	for (uint64_t from = 0; from != UINT64_MAX;) {
		uint32_t n = names_read_leaf(&from, numbers, positions);
		for (uint32_t k = 0; k < n; k++) {
			assert_true(listed == 0 || positions[k] > last);
			last = positions[k];
			assert_int_equal(seen[numbers[k]]++, 0);
			listed++;
		}
	}
	assert_int_equal(listed, count);
	free(seen);
}

/* While the listing goes on, names go and come; what stays is listed once. */
static void a_listing_is_stable_under_changes(void **state)
{
	const uint32_t count = rig_slow() ? 3000 : 12000;
	uint32_t numbers[G4_DIR_LEAF_ENTRIES], fresh = count;
	uint8_t *seen = (uint8_t *)calloc(count, 1), *gone = (uint8_t *)calloc(count, 1);
	uint64_t positions[G4_DIR_LEAF_ENTRIES], random = rig_setting("G4_DIR_SEED", 1);

	(void)state;
	assert_non_null(seen);
	assert_non_null(gone);
	for (uint32_t k = 0; k < count; k++)
		names_insert(k);
	for (uint64_t from = 0; from != UINT64_MAX;) {
		uint64_t leaf = from;
		uint32_t n = names_read_leaf(&leaf, numbers, positions);
		/* a reader takes a few names at a time and comes back behind the last of them */
		uint32_t taken = n == 0 ? 0 : 1 + (uint32_t)(rig_random(&random) % n);
		for (uint32_t k = 0; k < taken; k++)
			if (numbers[k] < count)
				assert_int_equal(seen[numbers[k]]++, 0);
		from = taken == n ? leaf : positions[taken - 1] + 1;
		for (uint32_t k = 0; k < 5; k++) {
			uint32_t number = (uint32_t)(rig_random(&random) % count);
			if (number % 2 && !gone[number]) {
				names_remove(number);
				gone[number] = 1;
			}
			names_insert(fresh++);
		}
	}
	for (uint32_t k = 0; k < count; k++)
		assert_true(seen[k] == 1 || (seen[k] == 0 && gone[k]));
	free(seen);
	free(gone);
}

/* ------------------------------------------------------------------ index pages that no directory has */

#define NAME_BYTES 209u
#define TWO_LEVELS 6000u /* names that take an index page above index pages */

static struct {				 /* the way to a name, all of it in memory */
	struct g4_dir_index *root, *low; /* levels 2 and 1 */
	struct g4_dir_leaf *leaf;
	uint32_t lines[3], child, low_child; /* of the root, of the lower one */
	uint64_t root_at, low_at, leaf_at;
	uint32_t hash;
} way;

static void *hold(uint64_t at, uint32_t *line)
{
	assert_int_equal(g4_meta_get(names.wg, &names.fs->meta, g4_address_from(at), G4_BLOCK_DIR_LEAF, line), 0);
	return g4_line_data(&names.fs->cache, *line);
}

static uint32_t child_for(const struct g4_dir_index *index, uint32_t hash)
{
	uint32_t child = 0;

	while (child + 1 < index->count && index->entries[child + 1].hash <= hash)
		child++;
	return child;
}

static void find_the_way(uint32_t number)
{
	struct g4_dir_slot slot = {0};

	assert_int_equal(names_lookup(number, &slot), 0);
	way.hash = slot.hash;
	way.root_at = g4_address_stored(g4_ptr_address(names.dir.root));
	way.root = hold(way.root_at, &way.lines[0]);
	way.child = child_for(way.root, way.hash);
	way.low_at = way.root->entries[way.child].page;
	way.low = hold(way.low_at, &way.lines[1]);
	way.low_child = child_for(way.low, way.hash);
	way.leaf_at = way.low->entries[way.low_child].page;
	way.leaf = hold(way.leaf_at, &way.lines[2]);
}

static void leave_the_way(void)
{
	for (uint32_t k = 0; k < 3; k++)
		g4_cache_put(&names.fs->cache, way.lines[k]);
}

static int divide(void)
{
	struct g4_dir dir = names.dir;
	struct g4_txn txn;

	assert_int_equal(g4_begin(names.wg, names.fs, G4_DIR_CREDITS, &txn), 0);
	const int rc = g4_dir_divide(names.wg, &dir, &txn, way.hash, NAME_BYTES);
	g4_txn_end(&txn);
	return rc;
}

/* Of a directory that is given up: its changes do not matter. */
static int shrink(struct g4_dir *dir)
{
	struct g4_txn txn;

	*dir = names.dir;
	assert_int_equal(g4_begin(names.wg, names.fs, G4_DIR_SHRINK_CREDITS, &txn), 0);
	const int rc = g4_dir_shrink(names.wg, dir, &txn, g4_dir_position(way.hash, 0));
	g4_txn_end(&txn);
	return rc;
}

static void an_index_page_that_cannot_be_is_refused(void **state)
{
	static struct g4_dir_index root, low, other;
	static struct g4_dir_leaf leaf;
	const struct {
		const char *what;
		uint32_t count, level; /* of the page, 0xff: as it is */
		bool upper;
		bool to_leaf; /* the upper one leads to the leaf */
	} cases[] = {
		{"without entries", 0, 0xff, false, false},
		{"with too many", G4_DIR_INDEX_ENTRIES + 1, 0xff, false, false},
		{"of no level", 0xff, 0, false, false},
		{"of the level above", 0xff, 2, false, false},
		{"of too high a level", 0xff, G4_DIR_MAX_LEVEL + 1, false, false},
		{"root without entries", 0, 0xff, true, false},
		{"root with too many", G4_DIR_INDEX_ENTRIES + 1, 0xff, true, false},
		{"root of no level", 0xff, 0, true, false},
		{"root of the level below", 0xff, 1, true, false},
		{"root of the level above", 0xff, 3, true, false},
		{"root of too high a level", 0xff, G4_DIR_MAX_LEVEL + 1, true, false},
		{"root that leads to a leaf", 0xff, 0xff, true, true},
	};
	struct g4_dir_slot slot = {0};
	struct g4_dir dir;

	(void)state;
	for (uint32_t k = 0; k < TWO_LEVELS; k++)
		names_insert(k);
	assert_int_equal(names_height(), 2);
	find_the_way(7);
	root = *way.root;
	low = *way.low;
	leaf = *way.leaf;
	for (uint32_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
		struct g4_dir_index *page = cases[k].upper ? way.root : way.low;

		if (cases[k].count != 0xff)
			page->count = cases[k].count;
		if (cases[k].level != 0xff)
			page->level = cases[k].level;
		if (cases[k].to_leaf)
			page->entries[way.child].page = way.leaf_at;
		/* the leaf has nothing: whoever believed in the way would take the leaf off it */
		memset(way.leaf->used, 0, sizeof(way.leaf->used));
		way.leaf->used[0] = (1u << G4_DIR_HEADER_UNITS) - 1;
		other = *page;
		if (shrink(&dir) != 0 || dir.pages != names.dir.pages || memcmp(page, &other, sizeof(other)) != 0)
			fail_msg("an index page %s was shrunk", cases[k].what);
		*way.leaf = leaf;
		if (names_lookup(7, &slot) != -G4_E_CORRUPT_DIR)
			fail_msg("an index page %s was walked", cases[k].what);
		if (divide() != -G4_E_CORRUPT_DIR)
			fail_msg("an index page %s was divided", cases[k].what);
		*way.root = root;
		*way.low = low;
	}
	assert_int_equal(names_lookup(7, &slot), 0);
	leave_the_way();
}

/* Four levels of index pages, each of the level that leads to it, where three are the most. */
static void a_tree_that_is_too_high_is_refused(void **state)
{
	static struct g4_dir_index root, pages[2];
	struct g4_dir_slot slot = {0};
	struct g4_dir_index *between[2];
	struct g4_dir dir;
	uint32_t lines[2], found = 0;

	(void)state;
	for (uint32_t k = 0; k < TWO_LEVELS; k++)
		names_insert(k);
	find_the_way(7);
	root = *way.root;
	assert_in_range(root.count, 3, G4_DIR_INDEX_ENTRIES);
	for (uint32_t k = 0; k < root.count && found < 2; k++)
		if (k != way.child) {
			between[found] = hold(root.entries[k].page, &lines[found]);
			pages[found] = *between[found];
			found++;
		}
	assert_int_equal(found, 2);
	uint64_t below = way.low_at;
	for (uint32_t k = 0; k < 2; k++) {
		between[k]->level = 2 + k;
		between[k]->count = 1;
		between[k]->entries[0] = (struct g4_dir_index_entry){0, 0, below};
		below = between[k]->header.address;
	}
	way.root->level = 3;
	way.root->count = 1;
	way.root->entries[0] = (struct g4_dir_index_entry){0, 0, between[0]->header.address};
	assert_int_equal(names_lookup(7, &slot), 0); /* as high as may be */
	way.root->level = 4;
	way.root->entries[0].page = below;
	assert_int_equal(names_lookup(7, &slot), -G4_E_CORRUPT_DIR);
	assert_int_equal(divide(), -G4_E_CORRUPT_DIR);
	assert_int_equal(shrink(&dir), 0);
	assert_int_equal(dir.pages, names.dir.pages);
	*way.root = root;
	for (uint32_t k = 0; k < 2; k++) {
		*between[k] = pages[k];
		g4_cache_put(&names.fs->cache, lines[k]);
	}
	assert_int_equal(names_lookup(7, &slot), 0);
	leave_the_way();
}

/* Pages that an index page leads to beside one that is nearly empty: not those that could be united with it. */
static void a_neighbour_that_cannot_be_is_not_united(void **state)
{
	static struct g4_dir_index root, low, beside;
	static struct g4_dir_leaf leaf;
	struct g4_dir_slot slot = {0};
	struct g4_dir dir;
	uint32_t beside_line;

	(void)state;
	for (uint32_t k = 0; k < TWO_LEVELS; k++)
		names_insert(k);
	find_the_way(7);
	root = *way.root;
	low = *way.low;
	leaf = *way.leaf;
	/* the leaf is its own neighbour, or has index pages for neighbours */
	for (uint32_t turn = 0; turn < 2; turn++) {
		memset(way.leaf->used, 0, sizeof(way.leaf->used));
		way.leaf->used[0] = (1u << G4_DIR_HEADER_UNITS) - 1;
		for (uint32_t k = 0; k < way.low->count; k++)
			if (k != way.low_child)
				way.low->entries[k].page = turn ? way.root_at : way.leaf_at;
		const struct g4_dir_index before = *way.low;
		assert_int_equal(shrink(&dir), 0);
		assert_int_equal(dir.pages, names.dir.pages);
		assert_memory_equal(way.low, &before, sizeof(before));
		*way.low = low;
		*way.leaf = leaf;
	}
	/* the lower page loses a leaf and has few; the one beside it is of another level */
	const uint32_t next = way.child + 1 < way.root->count ? way.child + 1 : way.child - 1;
	struct g4_dir_index *page = hold(way.root->entries[next].page, &beside_line);
	beside = *page;
	way.low->count = 3;
	way.low->entries[1].page = way.leaf_at; /* between two that have something */
	way.low->entries[1].hash = way.hash;
	way.low->entries[2].hash = UINT32_MAX;
	way.low->entries[0].hash = 0;
	way.low->entries[0].page = low.entries[way.low_child ? 0 : 1].page;
	way.low->entries[2].page = low.entries[way.low_child == low.count - 1 ? low.count - 2 : low.count - 1].page;
	memset(way.leaf->used, 0, sizeof(way.leaf->used));
	way.leaf->used[0] = (1u << G4_DIR_HEADER_UNITS) - 1;
	way.root->count = 2; /* these two */
	way.root->entries[0] = (struct g4_dir_index_entry){0, 0, way.low_at};
	way.root->entries[1] = (struct g4_dir_index_entry){UINT32_MAX, 0, root.entries[next].page};
	page->level = 2;
	const struct g4_dir_index before = *page;
	assert_int_equal(shrink(&dir), 0);
	assert_int_equal(dir.pages, names.dir.pages - 1); /* the leaf */
	assert_int_equal(way.low->count, 2);
	assert_int_equal(way.root->count, 2);
	assert_memory_equal(page, &before, sizeof(before));
	*page = beside;
	*way.root = root;
	*way.low = low;
	*way.leaf = leaf;
	assert_int_equal(names_lookup(7, &slot), 0);
	g4_cache_put(&names.fs->cache, beside_line);
	leave_the_way();
}

/* A tree is as high as it may be: what would need one more level is a lack of space, and nothing is changed. */
static void a_root_of_the_highest_level_stays(void **state)
{
	struct g4_dir_slot slot = {0};

	(void)state;
	for (uint32_t k = 0; k < TWO_LEVELS; k++)
		names_insert(k);
	find_the_way(7);
	const struct g4_dir_index root = *way.root;
	way.root->level = G4_DIR_MAX_LEVEL;
	way.root->count = G4_DIR_INDEX_FILL;
	const struct g4_dir_index before = *way.root;
	assert_int_equal(divide(), -G4_E_NOSPC);
	assert_memory_equal(way.root, &before, sizeof(before));
	*way.root = root;
	assert_int_equal(names_lookup(7, &slot), 0);
	leave_the_way();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		names_test(very_many_names_are_found_listed_and_removed),
		names_test(a_listing_is_stable_under_changes),
		names_test(an_index_page_that_cannot_be_is_refused),
		names_test(a_tree_that_is_too_high_is_refused),
		names_test(a_neighbour_that_cannot_be_is_not_united),
		names_test(a_root_of_the_highest_level_stays),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
