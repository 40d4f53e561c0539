/* SPDX-License-Identifier: Apache-2.0 */
#include "long_names.h"

struct long_names names;

void names_begin(uint64_t bytes, uint64_t journal_bytes, uint64_t cache_bytes)
{
	names.wg = g4_wg_create(0);
	rig_open(&names.rig, bytes, journal_bytes);
	names.rig.cache_bytes = cache_bytes ? cache_bytes : names.rig.cache_bytes;
	names.fs = rig_mount_fs(&names.rig, names.wg, NULL);
	names.dir =
		(struct g4_dir){&names.fs->alloc, &names.fs->meta, &names.fs->cache, names.fs->hash_key, 0, 0, NULL};
	names.inode = g4_icache_at(names.fs, names.fs->root_index)->ino;
	names.tail = 200;
}

int names_setup(void **state)
{
	(void)state;
	names_begin(128 * G4_MIB, 0, 0);
	return 0;
}

int names_teardown(void **state)
{
	(void)state;
	rig_unmount_fs(&names.rig, names.wg, names.fs, false);
	rig_close(&names.rig);
	g4_wg_destroy(names.wg);
	return 0;
}

static uint32_t name_of(char *to, uint32_t number)
{
	uint32_t bytes = (uint32_t)snprintf(to, 256, "%08u-", number);

	memset(to + bytes, 'n', names.tail);
	to[bytes + names.tail] = 0;
	return bytes + names.tail;
}

void names_insert(uint32_t number)
{
	char name[256];
	uint32_t bytes = name_of(name, number);
	struct g4_dir_slot slot = {0};
	struct g4_txn txn;

	assert_int_equal(g4_dir_lookup(names.wg, &names.dir, name, bytes, &slot), -G4_E_NOENT);
	const uint32_t credits = g4_dir_insert_credits(&slot, bytes);
	assert_int_equal(g4_begin(names.wg, names.fs, credits, &txn), 0);
	const uint32_t *blocks = &names.fs->journal.logs[txn.sequence & 1].line_count, before = *blocks;
	assert_int_equal(g4_dir_insert(names.wg, &names.dir, &txn, &slot, name, bytes, names.inode, 8), 0);
	assert_in_range(*blocks - before, 0, credits); /* no more than were announced */
	g4_txn_end(&txn);
}

int names_lookup(uint32_t number, struct g4_dir_slot *slot)
{
	char name[256];

	return g4_dir_lookup(names.wg, &names.dir, name, name_of(name, number), slot);
}

void names_remove(uint32_t number)
{
	struct g4_dir_slot slot = {0};
	struct g4_txn txn;
	char name[256];

	assert_int_equal(names_lookup(number, &slot), 0);
	const uint32_t credits = 1 + g4_dir_shrink_credits(&names.dir, &slot, name_of(name, number));
	assert_int_equal(g4_begin(names.wg, names.fs, credits, &txn), 0);
	const uint32_t *blocks = &names.fs->journal.logs[txn.sequence & 1].line_count, before = *blocks;
	assert_int_equal(g4_dir_remove(names.wg, &names.dir, &txn, &slot), 0);
	if (credits > 1)
		assert_int_equal(g4_dir_shrink(names.wg, &names.dir, &txn, g4_dir_position(slot.hash, slot.collision)),
				 0);
	assert_in_range(*blocks - before, 0, credits);
	g4_txn_end(&txn);
}

uint32_t names_height(void)
{
	uint32_t line, level = 0;

	assert_int_equal(
		g4_meta_get(names.wg, &names.fs->meta, g4_ptr_address(names.dir.root), G4_BLOCK_DIR_LEAF, &line), 0);
	if (g4_meta_line(&names.fs->cache, line)->type == G4_BLOCK_DIR_INDEX)
		level = ((const struct g4_dir_index *)g4_line_data(&names.fs->cache, line))->level;
	g4_cache_put(&names.fs->cache, line);
	return level;
}

uint32_t names_read_leaf(uint64_t *from, uint32_t *numbers, uint64_t *positions)
{
	const uint32_t mark = g4_scratch_mark(names.wg);
	struct g4_dir_listed *listed = g4_scratch_take(names.wg, sizeof(*listed));

	assert_int_equal(g4_dir_read_leaf(names.wg, &names.dir, *from, listed), 0);
	const uint32_t count = listed->count;
	for (uint32_t k = 0; k < count; k++) {
		numbers[k] = (uint32_t)strtoul((const char *)(listed->items[k].entry + 1), NULL, 10);
		positions[k] = listed->items[k].position;
	}
	*from = listed->next;
	g4_scratch_release(names.wg, mark);
	return count;
}

void names_shuffle(uint32_t *numbers, uint32_t count, uint64_t random)
{
	for (uint32_t k = 0; k < count; k++)
		numbers[k] = k;
	for (uint32_t k = count; k > 1; k--) {
		const uint32_t other = (uint32_t)(rig_random(&random) % k), number = numbers[k - 1];
		numbers[k - 1] = numbers[other];
		numbers[other] = number;
	}
}
