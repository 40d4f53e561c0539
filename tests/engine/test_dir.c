/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of very many long names, in a cache that holds a small part of it. */
#include "rig.h"

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

	assert_int_equal(lookup(number, &slot), 0);
	assert_int_equal(g4_begin(wg, fs, 4, &txn), 0);
	assert_int_equal(g4_dir_remove(wg, &dir, &txn, &slot), 0);
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

static void an_empty_directory_gives_all_its_pages_back(void **state)
{
	const uint32_t count = rig_slow() ? 2000 : 8000;
	uint64_t free_pages = fs->alloc.free_pages;
	int more = 1;

	(void)state;
	for (uint32_t k = 0; k < count; k++)
		insert(k);
	for (uint32_t k = 0; k < count; k++)
		remove_name(count - 1 - k);
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
	assert_int_equal(fs->alloc.free_pages, free_pages);
}

#define dir_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		dir_test(very_many_names_are_found_listed_and_removed),
		dir_test(a_listing_is_stable_under_changes),
		dir_test(an_empty_directory_gives_all_its_pages_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
