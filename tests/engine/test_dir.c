/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of very many long names, in a cache that holds a small part of it: growing, listing, shrinking. */
#include "rig.h"

#include "dir/leaf.h"
#include "dir/shrink.h"
#include "fs/fs.h"
#include "simt/simt_host.h"

static struct rig rig;
static struct g4_wg *wg;
static struct g4_fs *fs;
static struct g4_dir dir;
static uint64_t inode; /* all names lead to it */

static int setup(void **state)
{
	(void)state;
	wg = g4_wg_create(0);
	rig_open(&rig, 128 * G4_MIB, 0);
	fs = rig_mount_fs(&rig, wg, NULL);
	dir = (struct g4_dir){&fs->alloc, fs->hash_key, 0, 0};
	inode = g4_icache_at(fs, fs->root_index)->ino;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_unmount_fs(&rig, wg, fs, false);
	rig_close(&rig);
	g4_wg_destroy(wg);
	return 0;
}

static uint32_t name_of(char *to, uint32_t number)
{
	uint32_t bytes = (uint32_t)snprintf(to, 256, "%08u-", number);

	memset(to + bytes, 'n', 200);
	to[bytes + 200] = 0;
	return bytes + 200;
}

static void insert(uint32_t number)
{
	char name[256];
	uint32_t bytes = name_of(name, number);
	struct g4_dir_slot slot = {0};
	struct g4_txn txn;

	assert_int_equal(g4_dir_lookup(wg, &dir, name, bytes, &slot), -G4_E_NOENT);
	const uint32_t credits = g4_dir_insert_credits(&slot, bytes);
	assert_int_equal(g4_begin(wg, fs, credits, &txn), 0);
	const uint32_t *blocks = &fs->journal.logs[txn.sequence & 1].line_count, before = *blocks;
	assert_int_equal(g4_dir_insert(wg, &dir, &txn, &slot, name, bytes, inode, 8), 0);
	assert_in_range(*blocks - before, 0, credits); /* no more than were announced */
	g4_txn_end(&txn);
}

static int lookup(uint32_t number, struct g4_dir_slot *slot)
{
	char name[256];

	return g4_dir_lookup(wg, &dir, name, name_of(name, number), slot);
}

static void remove_name(uint32_t number)
{
	struct g4_dir_slot slot = {0};
	struct g4_txn txn;
	char name[256];

	assert_int_equal(lookup(number, &slot), 0);
	const uint32_t credits = 1 + g4_dir_shrink_credits(&dir, &slot, name_of(name, number));
	assert_int_equal(g4_begin(wg, fs, credits, &txn), 0);
	const uint32_t *blocks = &fs->journal.logs[txn.sequence & 1].line_count, before = *blocks;
	assert_int_equal(g4_dir_remove(wg, &dir, &txn, &slot), 0);
	if (credits > 1)
		assert_int_equal(g4_dir_shrink(wg, &dir, &txn, slot.hash), 0);
	assert_in_range(*blocks - before, 0, credits);
	g4_txn_end(&txn);
}

static uint32_t height(void)
{
	uint32_t line, level = 0;

	assert_int_equal(g4_meta_get(wg, &fs->meta, g4_ptr_address(dir.root), G4_BLOCK_DIR_LEAF, &line), 0);
	if (g4_meta_line(&fs->cache, line)->type == G4_BLOCK_DIR_INDEX)
		level = ((const struct g4_dir_index *)g4_line_data(&fs->cache, line))->level;
	g4_cache_put(&fs->cache, line);
	return level;
}

/* ---- the whole tree, by FORMAT.md, and that no page of it is spared for nothing ---- */

struct tree {
	uint64_t pages, entries;
};

static void check_leaf(struct tree *tree, uint32_t line, uint64_t low, uint64_t high)
{
	struct g4_dir_entry *entry = NULL;
	struct g4_leaf leaf;
	uint32_t here = 0;

	g4_leaf_open(&leaf, &fs->cache, line);
	G4_LEAF_FOR_EACH(&leaf, unit, entry)
	{
		assert_true(entry->hash >= low && entry->hash < high);
		here++;
	}
	assert_true(here > 0 || dir.pages == 1);
	tree->entries += here;
}

static void check_below(struct tree *tree, struct g4_address address, uint32_t level, uint64_t low, uint64_t high)
{
	uint32_t line;

	assert_int_equal(g4_meta_get(wg, &fs->meta, address, G4_BLOCK_DIR_LEAF, &line), 0);
	const bool is_leaf = g4_meta_line(&fs->cache, line)->type == G4_BLOCK_DIR_LEAF;
	assert_int_equal(is_leaf, level == 0);
	tree->pages++;
	if (is_leaf) {
		check_leaf(tree, line, low, high);
	} else {
		const struct g4_dir_index *index = (const struct g4_dir_index *)g4_line_data(&fs->cache, line);
		assert_int_equal(index->level, level);
		const bool is_root = g4_address_is(address, g4_ptr_address(dir.root));
		assert_in_range(index->count, is_root ? 2 : G4_DIR_INDEX_ENTRIES / 4, G4_DIR_INDEX_ENTRIES);
		assert_int_equal(index->entries[0].hash, low);
		for (uint32_t k = 0; k < index->count; k++) {
			const uint64_t end = k + 1 < index->count ? index->entries[k + 1].hash : high;
			assert_true(index->entries[k].hash < end && end <= high);
			check_below(tree, g4_address_from(index->entries[k].page), level - 1, index->entries[k].hash,
				    end);
		}
	}
	g4_cache_put(&fs->cache, line);
}

static void check_tree(uint32_t entries)
{
	struct tree tree = {0};

	check_below(&tree, g4_ptr_address(dir.root), height(), 0, UINT64_C(1) << 32);
	assert_int_equal(tree.pages, dir.pages);
	assert_int_equal(tree.entries, entries);
}

/* Reads the leaf at `from`; numbers of its names to `numbers`. */
static uint32_t read_leaf(uint64_t *from, uint32_t *numbers, uint64_t *positions)
{
	struct g4_dir_item items[G4_DIR_LEAF_ENTRIES];
	uint32_t count, line;

	assert_int_equal(g4_dir_read_leaf(wg, &dir, *from, items, &count, from, &line), 0);
	for (uint32_t k = 0; k < count; k++) {
		numbers[k] = (uint32_t)strtoul((const char *)(items[k].entry + 1), NULL, 10);
		positions[k] = items[k].position;
	}
	if (line != G4_NO_LINE)
		g4_cache_put(&fs->cache, line);
	return count;
}

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
		insert(k);
	assert_int_equal(height(), 2); /* three levels with the leaves */
	for (uint32_t k = 0; k < count; k++) {
		assert_int_equal(lookup(k, &slot), 0);
		assert_int_equal(slot.inode, inode);
	}
	assert_int_equal(lookup(count, &slot), -G4_E_NOENT);
	for (uint64_t from = 0; from != UINT64_MAX;) {
		uint32_t n = read_leaf(&from, numbers, positions);
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
		insert(k);
	for (uint64_t from = 0; from != UINT64_MAX;) {
		uint64_t leaf = from;
		uint32_t n = read_leaf(&leaf, numbers, positions);
		/* a reader takes a few names at a time and comes back behind the last of them */
		uint32_t taken = n == 0 ? 0 : 1 + (uint32_t)(rig_random(&random) % n);
		for (uint32_t k = 0; k < taken; k++)
			if (numbers[k] < count)
				assert_int_equal(seen[numbers[k]]++, 0);
		from = taken == n ? leaf : positions[taken - 1] + 1;
		for (uint32_t k = 0; k < 5; k++) {
			uint32_t number = (uint32_t)(rig_random(&random) % count);
			if (number % 2 && !gone[number]) {
				remove_name(number);
				gone[number] = 1;
			}
			insert(fresh++);
		}
	}
	for (uint32_t k = 0; k < count; k++)
		assert_true(seen[k] == 1 || (seen[k] == 0 && gone[k]));
	free(seen);
	free(gone);
}

static void shuffle(uint32_t *numbers, uint32_t count, uint64_t random)
{
	for (uint32_t k = 0; k < count; k++)
		numbers[k] = k;
	for (uint32_t k = count; k > 1; k--) {
		const uint32_t other = (uint32_t)(rig_random(&random) % k), number = numbers[k - 1];
		numbers[k - 1] = numbers[other];
		numbers[other] = number;
	}
}

static void free_what_is_left(void)
{
	int more = 1;

	while (more > 0) {
		struct g4_txn txn;
		assert_int_equal(g4_begin(wg, fs, 16, &txn), 0);
		more = g4_dir_free_page(wg, &dir, &txn);
		g4_txn_end(&txn);
	}
	assert_int_equal(more, 0);
	assert_int_equal(dir.root, 0);
	assert_int_equal(dir.pages, 0);
	assert_int_equal(g4_commit(wg, fs, UINT64_MAX, false), 0);
}

/* Leaves and index pages are united, share evenly with neighbours, levels go: by and by, and what stays is found all the time. */
static void a_directory_shrinks_with_its_names(void **state)
{
	const uint32_t count = rig_slow() ? 8000 : 40000;
	const uint64_t free_pages = fs->alloc.free_pages;
	uint32_t *order = (uint32_t *)calloc(count, sizeof(*order));
	struct g4_dir_slot slot = {0};

	(void)state;
	assert_non_null(order);
	shuffle(order, count, rig_setting("G4_DIR_SEED", 1));
	for (uint32_t k = 0; k < count; k++)
		insert(k);
	assert_int_equal(height(), 2);
	const uint64_t most = dir.pages;
	for (uint32_t gone = 1; gone <= count; gone++) {
		remove_name(order[gone - 1]);
		if (gone % (count / 16) != 0 && gone + 100 < count)
			continue;
		check_tree(count - gone);
		for (uint32_t k = 0; k < count; k += gone + 100 < count ? 1 : count / 100)
			assert_int_equal(lookup(order[k], &slot), k < gone ? -G4_E_NOENT : 0);
		if (gone == count / 8 * 7)
			assert_in_range(dir.pages, 1, most / 2);
	}
	assert_int_equal(dir.pages, 1);
	assert_int_equal(height(), 0);
	for (uint32_t k = 0; k < 100; k++) /* and grows again */
		insert(k);
	check_tree(100);
	for (uint32_t k = 0; k < 100; k++)
		remove_name(k);
	free_what_is_left();
	assert_int_equal(fs->alloc.free_pages, free_pages);
	free(order);
}

/* A listing that goes on while most names go, and with them the leaf that it would go on with. */
static void a_listing_is_stable_while_the_directory_shrinks(void **state)
{
	const uint32_t count = rig_slow() ? 3000 : 12000;
	uint32_t numbers[G4_DIR_LEAF_ENTRIES], *order = (uint32_t *)calloc(count, sizeof(*order)), next = 0;
	uint8_t *seen = (uint8_t *)calloc(count, 1), *gone = (uint8_t *)calloc(count, 1);
	uint64_t positions[G4_DIR_LEAF_ENTRIES], random = rig_setting("G4_DIR_SEED", 1);

	(void)state;
	assert_non_null(order);
	assert_non_null(seen);
	assert_non_null(gone);
	shuffle(order, count, random + 1);
	for (uint32_t k = 0; k < count; k++)
		insert(k);
	const uint64_t most = dir.pages;
	for (uint64_t from = 0; from != UINT64_MAX;) {
		uint64_t leaf = from;
		uint32_t n = read_leaf(&leaf, numbers, positions);
		uint32_t taken = n == 0 ? 0 : 1 + (uint32_t)(rig_random(&random) % n);
		for (uint32_t k = 0; k < taken; k++)
			assert_int_equal(seen[numbers[k]]++, 0);
		from = taken == n ? leaf : positions[taken - 1] + 1;
		for (uint32_t k = 0; k < 12 && next < count / 8 * 7; k++) {
			gone[order[next]] = 1;
			remove_name(order[next++]);
		}
	}
	assert_in_range(dir.pages, 1, most / 2);
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
	const uint32_t count = rig_slow() ? 2000 : 8000;
	uint64_t free_pages = fs->alloc.free_pages;

	(void)state;
	for (uint32_t k = 0; k < count; k++)
		insert(k);
	for (uint32_t k = 0; k < count; k++) {
		struct g4_dir_slot slot = {0};
		struct g4_txn txn;
		assert_int_equal(lookup(k, &slot), 0);
		assert_int_equal(g4_begin(wg, fs, 4, &txn), 0);
		assert_int_equal(g4_dir_remove(wg, &dir, &txn, &slot), 0);
		g4_txn_end(&txn);
	}
	const uint64_t most = dir.pages;
	for (uint32_t k = 0; k < 100; k++) {
		insert(k);
		remove_name(k);
	}
	assert_in_range(dir.pages, 1, most - 50);
	free_what_is_left();
	assert_int_equal(fs->alloc.free_pages, free_pages);
}

#define dir_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		dir_test(very_many_names_are_found_listed_and_removed),
		dir_test(a_listing_is_stable_under_changes),
		dir_test(a_directory_shrinks_with_its_names),
		dir_test(a_listing_is_stable_while_the_directory_shrinks),
		dir_test(leaves_without_names_are_given_back_too),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
