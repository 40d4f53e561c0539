/* SPDX-License-Identifier: Apache-2.0 */
/* The orphan list: from its head on disk one comes to all that are on it, from wherever others left. */
#include "files/files.h"

#define INODES 4u

static struct held held[INODES];

/* Inode numbers by the links on disk, as a mount after a crash would follow them. */
static uint32_t follow(uint64_t *numbers)
{
	struct g4_root *root;
	uint32_t line, count = 0;

	assert_int_equal(g4_meta_get(wg, &fs->meta, g4_layout_root(&fs->meta.layout), G4_BLOCK_ROOT, &line), 0);
	root = (struct g4_root *)g4_line_data(&fs->cache, line);
	uint64_t ino = root->orphan_head;
	g4_cache_put(&fs->cache, line);
	while (ino != 0) {
		const struct g4_address address = g4_ptr_address(ino);
		assert_true(count < INODES);
		numbers[count++] = ino;
		assert_int_equal(g4_meta_get(wg, &fs->meta, g4_address_page_start(address), G4_BLOCK_SLAB, &line), 0);
		const uint8_t *slot =
			(const uint8_t *)g4_line_data(&fs->cache, line) + g4_slab_slot_of(address) * G4_SLAB_SLOT_BYTES;
		ino = ((const struct g4_inode *)(const void *)slot)->orphan_next;
		g4_cache_put(&fs->cache, line);
	}
	return count;
}

static void change(uint32_t i, bool add)
{
	struct g4_txn txn;

	g4_write_lock(&held[i].inode->lock);
	assert_int_equal(g4_begin(wg, fs, 8, &txn), 0);
	assert_int_equal(
		add ? g4_orphan_add(wg, fs, &txn, held[i].index) : g4_orphan_remove(wg, fs, &txn, held[i].index), 0);
	assert_int_equal(g4_end(fs, &txn, 0), 0);
	g4_write_unlock(&held[i].inode->lock);
}

static void the_list_stays_whole_whoever_leaves(void **state)
{
	static const char *const names[INODES] = {"a", "b", "c", "d"};
	static const uint32_t leaving[INODES] = {2, 3, 0, 1}; /* from the middle, the front, the end, the last */
	uint64_t numbers[INODES];

	(void)state;
	for (uint32_t i = 0; i < INODES; i++) {
		held[i] = files_hold(names[i]);
		change(i, true);
		change(i, true); /* it is there */
		assert_int_equal(follow(numbers), i + 1);
		assert_int_equal(numbers[0], held[i].ino);
	}
	for (uint32_t i = 0; i < INODES; i++) {
		change(leaving[i], false);
		assert_int_equal(follow(numbers), INODES - 1 - i);
		for (uint32_t k = 0; k < INODES - 1 - i; k++)
			assert_true(numbers[k] != held[leaving[i]].ino);
	}
	assert_int_equal(fs->orphan_head, G4_NO_INODE);
	for (uint32_t i = 0; i < INODES; i++)
		files_let_go(held[i]);
}

RUN_TESTS(fs_test(the_list_stays_whole_whoever_leaves))
