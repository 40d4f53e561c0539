/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A directory shrinks with its names: pages are united, levels go, and listings meet what stays, once. G4_DIR_NAMES: of how many short ones a
 * directory is emptied, with a cache of G4_DIR_CACHE_MIB and, with G4_DIR_TELL, what it took.
 */
#include "dir/leaf.h"
#include "long_names.h"

#include <time.h>

/* ---- the whole tree, by FORMAT.md, and that no page of it is spared for nothing ---- */

struct tree {
	uint64_t pages, entries;
};

#ifdef G4_DIR_TINY /* as many as three levels have room for */
#define MANY(count) 400u
#define HEIGHT 3
#else
#define MANY(count) (count)
#define HEIGHT 2
#endif

static void check_leaf(struct tree *tree, uint32_t line, uint64_t low, uint64_t high)
{
	struct g4_dir_entry *entry = NULL;
	struct g4_leaf leaf;
	uint32_t here = 0;

	g4_leaf_open(&leaf, &names.fs->cache, line);
	G4_LEAF_FOR_EACH(&leaf, unit, entry)
	{
		assert_true(entry->hash >= low && entry->hash < high);
		here++;
	}
	assert_true(here > 0 || names.dir.pages == 1);
	tree->entries += here;
}

static void check_below(struct tree *tree, struct g4_address address, uint32_t level, uint64_t low, uint64_t high)
{
	uint32_t line;

	assert_int_equal(g4_meta_get(names.wg, &names.fs->meta, address, G4_BLOCK_DIR_LEAF, &line), 0);
	const bool is_leaf = g4_meta_line(&names.fs->cache, line)->type == G4_BLOCK_DIR_LEAF;
	assert_int_equal(is_leaf, level == 0);
	tree->pages++;
	if (is_leaf) {
		check_leaf(tree, line, low, high);
	} else {
		const struct g4_dir_index *index = (const struct g4_dir_index *)g4_line_data(&names.fs->cache, line);
		assert_int_equal(index->level, level);
		const bool is_root = g4_address_is(address, g4_ptr_address(names.dir.root));
		assert_in_range(index->count, is_root ? 2 : G4_DIR_INDEX_FILL / 4, G4_DIR_INDEX_FILL);
		assert_int_equal(index->entries[0].hash, low);
		for (uint32_t k = 0; k < index->count; k++) {
			const uint64_t end = k + 1 < index->count ? index->entries[k + 1].hash : high;
			assert_true(index->entries[k].hash < end && end <= high);
			check_below(tree, g4_address_from(index->entries[k].page), level - 1, index->entries[k].hash,
				    end);
		}
	}
	g4_cache_put(&names.fs->cache, line);
}

static void check_tree(uint32_t entries)
{
	struct tree tree = {0};

	check_below(&tree, g4_ptr_address(names.dir.root), names_height(), 0, UINT64_C(1) << 32);
	assert_int_equal(tree.pages, names.dir.pages);
	assert_int_equal(tree.entries, entries);
}

static void free_what_is_left(void)
{
	int more = 1;

	while (more > 0) {
		struct g4_txn txn;
		assert_int_equal(g4_begin(names.wg, names.fs, 16, &txn), 0);
		more = g4_dir_free_page(names.wg, &names.dir, &txn);
		g4_txn_end(&txn);
	}
	assert_int_equal(more, 0);
	assert_int_equal(names.dir.root, 0);
	assert_int_equal(names.dir.pages, 0);
	assert_int_equal(g4_commit(names.wg, names.fs, UINT64_MAX, false), 0);
}

/* Leaves and index pages are united, share evenly with neighbours, levels go: by and by, and what stays is found all the time. */
static void a_directory_shrinks_with_its_names(void **state)
{
	const uint32_t count = MANY(rig_slow() ? 8000 : 40000);
	const uint64_t free_pages = names.fs->alloc.free_pages;
	uint32_t *order = (uint32_t *)calloc(count, sizeof(*order));
	struct g4_dir_slot slot = {0};

	(void)state;
	assert_non_null(order);
	names_shuffle(order, count, rig_setting("G4_DIR_SEED", 1));
	for (uint32_t k = 0; k < count; k++)
		names_insert(k);
	assert_int_equal(names_height(), HEIGHT);
	const uint64_t most = names.dir.pages;
	for (uint32_t gone = 1; gone <= count; gone++) {
		names_remove(order[gone - 1]);
		if (gone % (count / 16) != 0 && gone + 100 < count)
			continue;
		check_tree(count - gone);
		for (uint32_t k = 0; k < count; k += gone + 100 < count ? 1 : count / 100)
			assert_int_equal(names_lookup(order[k], &slot), k < gone ? -G4_E_NOENT : 0);
		if (gone == count / 8 * 7)
			assert_in_range(names.dir.pages, 1, most / 2);
	}
	assert_int_equal(names.dir.pages, 1);
	assert_int_equal(names_height(), 0);
	for (uint32_t k = 0; k < 100; k++) /* and grows again */
		names_insert(k);
	check_tree(100);
	for (uint32_t k = 0; k < 100; k++)
		names_remove(k);
	free_what_is_left();
	assert_int_equal(names.fs->alloc.free_pages, free_pages);
	free(order);
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Short names, in random order, of an image of its own; 20 million take 2 GiB of memory. */
static void a_directory_of_many_short_names_leaves_nothing(void **state)
{
	const uint32_t count = MANY((uint32_t)rig_setting("G4_DIR_NAMES", rig_slow() ? 8000 : 100000));
	uint32_t *order = (uint32_t *)calloc(count, sizeof(*order));

	(void)state;
	assert_non_null(order);
	names_shuffle(order, count, rig_setting("G4_DIR_SEED", 1));
	names_begin(128 * G4_MIB + count * UINT64_C(64), 0, rig_setting("G4_DIR_CACHE_MIB", 4) * G4_MIB);
	names.tail = 0;
	const uint64_t free_pages = names.fs->alloc.free_pages;
	const double begin = seconds();
	for (uint32_t k = 0; k < count; k++)
		names_insert(k);
	const uint64_t most = names.dir.pages;
	const double made = seconds();
	check_tree(count);
	const double checked = seconds();
	for (uint32_t gone = 0; gone < count; gone++)
		names_remove(order[gone]);
	const double removed = seconds();
	assert_int_equal(names.dir.pages, 1);
	assert_int_equal(names_height(), 0);
	free_what_is_left();
	assert_int_equal(names.fs->alloc.free_pages, free_pages);
	rig_unmount_fs(&names.rig, names.wg, names.fs, true);
	rig_expect_clean(&names.rig, free_pages, "when all names are gone");
	if (rig_setting("G4_DIR_TELL", 0))
		print_message(
			"%u names: made in %.1f s, %lu pages; removed in %.1f s, 1 page; %lu pages free before and after\n",
			count, made - begin, (unsigned long)most, removed - checked, (unsigned long)free_pages);
	rig_close(&names.rig);
	g4_wg_destroy(names.wg);
	free(order);
}

/* A listing that goes on while most names go, and with them the leaf that it would go on with. */
static void a_listing_is_stable_while_the_directory_shrinks(void **state)
{
	const uint32_t count = MANY(rig_slow() ? 3000 : 12000);
	uint32_t numbers[G4_DIR_LEAF_ENTRIES], *order = (uint32_t *)calloc(count, sizeof(*order)), next = 0;
	uint8_t *seen = (uint8_t *)calloc(count, 1), *gone = (uint8_t *)calloc(count, 1);
	uint64_t positions[G4_DIR_LEAF_ENTRIES], random = rig_setting("G4_DIR_SEED", 1);

	(void)state;
	assert_non_null(order);
	assert_non_null(seen);
	assert_non_null(gone);
	names_shuffle(order, count, random + 1);
	for (uint32_t k = 0; k < count; k++)
		names_insert(k);
	const uint64_t most = names.dir.pages;
	for (uint64_t from = 0; from != UINT64_MAX;) {
		uint64_t leaf = from;
		uint32_t n = names_read_leaf(&leaf, numbers, positions);
		uint32_t taken = n == 0 ? 0 : 1 + (uint32_t)(rig_random(&random) % n);
		for (uint32_t k = 0; k < taken; k++)
			assert_int_equal(seen[numbers[k]]++, 0);
		from = taken == n ? leaf : positions[taken - 1] + 1;
		for (uint32_t k = 0; k < 12 && next < count / 8 * 7; k++) {
			gone[order[next]] = 1;
			names_remove(order[next++]);
		}
	}
	assert_in_range(names.dir.pages, 1, most / 2);
	check_tree(count - next);
	for (uint32_t k = 0; k < count; k++)
		assert_true(seen[k] == 1 || (seen[k] == 0 && gone[k]));
	free(seen);
	free(gone);
	free(order);
}

/* As one of an earlier version is, where leaves stayed that had become empty. */
static void leaves_without_names_are_given_back_too(void **state)
{
	const uint32_t count = MANY(rig_slow() ? 2000 : 8000);
	uint64_t free_pages = names.fs->alloc.free_pages;

	(void)state;
	for (uint32_t k = 0; k < count; k++)
		names_insert(k);
	for (uint32_t k = 0; k < count; k++) {
		struct g4_dir_slot slot = {0};
		struct g4_txn txn;
		assert_int_equal(names_lookup(k, &slot), 0);
		assert_int_equal(g4_begin(names.wg, names.fs, 4, &txn), 0);
		assert_int_equal(g4_dir_remove(names.wg, &names.dir, &txn, &slot), 0);
		g4_txn_end(&txn);
	}
	const uint64_t most = names.dir.pages;
	for (uint32_t k = 0; k < 100; k++) {
		names_insert(k);
		names_remove(k);
	}
	assert_in_range(names.dir.pages, 1, most - 50);
	free_what_is_left();
	assert_int_equal(names.fs->alloc.free_pages, free_pages);
}

/* Names go and pages stay. */
static void remove_keeping_pages(uint32_t number)
{
	struct g4_dir_slot slot = {0};
	struct g4_txn txn;

	assert_int_equal(names_lookup(number, &slot), 0);
	assert_int_equal(g4_begin(names.wg, names.fs, 4, &txn), 0);
	assert_int_equal(g4_dir_remove(names.wg, &names.dir, &txn, &slot), 0);
	g4_txn_end(&txn);
}

/* Places from a position on, each with the blocks that are announced for it; how many there were. */
static uint32_t shrink_all(uint64_t from, uint64_t until, uint32_t most)
{
	uint32_t places = 0;

	while (from < until) {
		const uint64_t pages = names.dir.pages, before = from;
		const uint32_t credits = G4_DIR_SHRINK_CREDITS + 3 * most;
		uint32_t looks = 5;
		struct g4_txn txn;
		assert_int_equal(g4_begin(names.wg, names.fs, credits, &txn), 0);
		const uint32_t *blocks = &names.fs->journal.logs[txn.sequence & 1].line_count, had = *blocks;
		const int rc = g4_dir_shrink_some(names.wg, &names.dir, &txn, &from, until, most, &looks);
		assert_in_range(*blocks - had, 0, credits);
		assert_in_range(rc, 0, most);
		assert_in_range(pages - names.dir.pages, rc, rc > 0 ? (uint32_t)rc + HEIGHT : 0);
		assert_true(rc > 0 ? from == before : from > before);
		g4_txn_end(&txn);
		places += rc > 0;
	}
	return places;
}

/* Leaves without names, whichever they are, go in runs, and index pages and levels with them; those outside of a range stay. */
static void leaves_without_names_go_in_runs(void **state)
{
	const uint32_t count = MANY(rig_slow() ? 8000 : 40000);
	const uint64_t free_pages = names.fs->alloc.free_pages, all = UINT64_C(1) << 48;
	uint64_t random = rig_setting("G4_DIR_SEED", 1);
	struct g4_dir_slot slot = {0};

	(void)state;
	for (uint32_t turn = 0; turn < 8; turn++) {
		const uint64_t from = turn % 4 == 3 ? 0 : rig_random(&random) % all;
		const uint64_t until = turn % 4 == 3 ? all : from + rig_random(&random) % (all - from);
		/* all of a range; half of it; of every leaf but a few names; everything */
		const uint64_t one_in = turn % 4 == 1 ? 2 : turn % 4 == 2 ? 16 : UINT64_MAX;
		uint32_t left = 0;
		for (uint32_t k = 0; k < count; k++)
			if (names_lookup(k, &slot) == -G4_E_NOENT)
				names_insert(k);
		const uint64_t pages = names.dir.pages;
		for (uint32_t k = 0; k < count; k++) {
			assert_int_equal(names_lookup(k, &slot), 0);
			const uint64_t position = g4_dir_position(slot.hash, slot.collision);
			if (position >= from && position < until && rig_random(&random) % one_in != 0)
				remove_keeping_pages(k);
			else
				left++;
		}
		assert_int_equal(names.dir.pages, pages);
		const uint32_t places = shrink_all(0, all, turn % 2 ? 16 : 3);
		if (turn % 4 == 3 && turn % 2) /* what is beside each other goes together */
			assert_in_range(places, 1, pages / (HEIGHT == 2 ? 4 : 2));
		check_tree(left);
		assert_int_equal(shrink_all(0, all, 3), 0);
		for (uint32_t k = 0, found = 0; k < count; k++) {
			found += names_lookup(k, &slot) == 0;
			assert_true(k + 1 < count || found == left);
		}
	}
	assert_int_equal(names.dir.pages, 1);
	free_what_is_left();
	assert_int_equal(names.fs->alloc.free_pages, free_pages);
}

/* A directory that says to have fewer pages than its tree stays as it is: they would be counted below zero. */
static void a_forged_count_of_pages_is_left(void **state)
{
	const uint32_t count = MANY(2000);
	struct g4_txn txn;

	(void)state;
	for (uint32_t k = 0; k < count; k++)
		names_insert(k);
	for (uint32_t k = 0; k < count; k++)
		remove_keeping_pages(k);
	const uint64_t pages = names.dir.pages;
	for (uint64_t forged = 0; forged < 12; forged++) {
		const struct g4_dir before = names.dir;
		names.dir.pages = forged;
		for (uint32_t k = 0; k < 3; k++) {
			assert_int_equal(g4_begin(names.wg, names.fs, G4_DIR_SHRINK_CREDITS, &txn), 0);
			assert_int_equal(g4_dir_shrink(names.wg, &names.dir, &txn, 0), 0);
			g4_txn_end(&txn);
			assert_true(names.dir.pages <= forged);
		}
		(void)shrink_all(0, UINT64_C(1) << 48, 16);
		assert_true(names.dir.pages <= forged);
		names.dir.pages += before.pages - forged;
	}
	assert_in_range(names.dir.pages, 1, pages - 1);
	(void)shrink_all(0, UINT64_C(1) << 48, 16);
	check_tree(0);
	free_what_is_left();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		names_test(a_directory_shrinks_with_its_names),
		cmocka_unit_test(a_directory_of_many_short_names_leaves_nothing),
		names_test(a_listing_is_stable_while_the_directory_shrinks),
		names_test(leaves_without_names_are_given_back_too),
		names_test(leaves_without_names_go_in_runs),
		names_test(a_forged_count_of_pages_is_left),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
